"""Rows of your own: which of some answers is preferred, with as much of the person as there is.

The plain file of the field works as it is, and so does one with the person:

    {"prompt": "How do I keep basil alive?", "chosen": "Split the pot. ...", "rejected": "Buy another one. ..."}

    {"id": "u17-2", "user": "u17", "domain": "garden", "prompt": "How do I keep basil alive?", "tags": {"lang": "en"},
     "candidates": ["Buy another one. ...", "Split the pot. ...", "Water it. ..."], "preferred": 1,
     "posts": [{"text": "My rosemary died of kindness.", "date": "2024-05-01"}, "I forget to water."],
     "pairs": [{"prompt": "Which pot?", "preferred": "Clay.", "other": "Plastic, it is cheaper."}]}

| key | what |
|---|---|
| `prompt` or `messages` | a text, or turns; may lack, or be the last turns, where the answers are conversations |
| `chosen`, `rejected`; or `candidates`, `preferred` | two answers; or several, and the preferred one's index from 0 |
| `grades` | in place of `preferred`: a number for each of the candidates, the higher the better, ties allowed |
| `id` | made from the row's content where there is none; such a row that stands there twice is dropped, counted |
| `user` | the person, who is the cluster of the row; may stand in many rows, with posts and pairs as of each question |
| `cluster` | what statistics resample, where that is neither the person nor (without one) the prompt |
| `domain` | `all` where there is none |
| `tags` | texts or numbers to group results by |
| `posts` | texts, or `{text, id?, category?, date?}`: `recent:K` goes by ISO dates, else the first is the newest |
| `traits` | what the person declared, such as `{"age": "25-34"}`: kept with the user, shown by no condition |
| `pairs` | what the person preferred before: `{prompt, preferred, other, id?}`, or `chosen` and `rejected` |
| `weight` | becomes a tag: no metric weighs rows, and the counts say so |

In CSV, lists and objects are JSON in their cell; prompts and answers are texts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from datetime import date
from operator import itemgetter
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat

from pluralrm.benchmarks.dataset import judgment
from pluralrm.benchmarks.dirt import Dirt, clean_posts, dirt_of
from pluralrm.benchmarks.preferences import Turn, conversation, items_in_part, users_of, with_split
from pluralrm.benchmarks.promises import is_date
from pluralrm.benchmarks.rows import Place, describe, repeated
from pluralrm.benchmarks.schema import CELL_IS_TEXT, Id, Label, NullAsNoList, Part, PersonId, Text, checked, wanted
from pluralrm.benchmarks.sources import find_sources, local_card, local_path, read_each, refuse_again
from pluralrm.card import Card
from pluralrm.core import Benchmark, ContextPair, Item, Post, User
from pluralrm.digests import digest
from pluralrm.labels import is_one_hot
from pluralrm.specs import Spec

CARD = Card(
    name="rows",
    summary="Rows of your own: a prompt, answers, the preferred one, and the person where there is one",
    licence="yours to state",
    source="a file or folder of yours",
    labelled="as the file's author says",
    citation="none of its own: cite where the rows come from",
)

DOMAIN = "all"
"""The domain of rows that name none."""
_DIGITS = 16
_PEOPLE = tuple(f"{who}{end}" for who in ("user", "annotator", "worker", "person", "rater") for end in ("_id", ""))
"""Columns of other files that hold the person."""


def _turns(value: object) -> object:
    """Return a text, or one message, as a conversation of one turn; who speaks is the field's to say."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value.strip() else wanted("a text that is not empty")
    if isinstance(value, dict):
        return [value]
    return value if value is None or isinstance(value, list) else wanted("a text, or a list of messages")


def _post(value: object) -> object:
    return {"text": value} if isinstance(value, str) or value is None else value


def _date(value: object) -> object:
    """Return a date of Parquet as text; null is none."""
    return value.isoformat() if isinstance(value, date) else "" if value is None else value


def _iso(text: str) -> str:
    return text if not text or is_date(text) else wanted("a date in ISO 8601 such as 2024-05-01")


def _whole(value: object) -> object:
    """Return 1 for 1.0, as a table without a type for whole numbers has it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _weight(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else wanted("a number above 0")


def _tags(value: object) -> object:
    """Return tags or traits as texts, without those that are null."""
    if not isinstance(value, dict):
        return {} if value is None else value
    return {
        name: str(each).lower() if isinstance(each, bool) else each if isinstance(each, str) else str(each)
        for name, each in value.items()
        if each is not None and (isinstance(each, str | int | float) or wanted("values that are texts or numbers"))
    }


class GenericPost(Part):
    """Something the person wrote before asking."""

    id: Id | None = None
    text: Label
    category: Label = ""
    date: Annotated[str, BeforeValidator(_date), AfterValidator(_iso)] = ""


class GenericPair(Part):
    """What the person preferred before asking."""

    id: Id | None = None
    prompt: Text
    preferred: Text | None = None
    other: Text | None = None
    chosen: Text | None = None
    rejected: Text | None = None


Said = Annotated[list[Turn] | None, BeforeValidator(_turns), CELL_IS_TEXT]
"""A text, or a conversation whose last turn is meant."""


class ComparisonRow(Part):
    """A row of the format; what depends on several keys is checked afterwards."""

    id: Id | None = None
    user: PersonId | None = None
    cluster: PersonId | None = None
    domain: Label = ""
    prompt: Said = None
    messages: list[Turn] | None = None
    candidates: Annotated[list[Text] | None, Field(min_length=2)] = None
    preferred: Annotated[int | None, BeforeValidator(_whole)] = None
    grades: list[FiniteFloat] | None = None
    chosen: Said = None
    rejected: Said = None
    weight: Annotated[float, AfterValidator(_weight)] | None = None
    tags: Annotated[dict[str, Label], BeforeValidator(_tags)] = Field(default_factory=dict)
    traits: Annotated[dict[str, Label], BeforeValidator(_tags)] = Field(default_factory=dict)
    posts: Annotated[list[Annotated[GenericPost, BeforeValidator(_post)]], NullAsNoList] = Field(default_factory=list)
    pairs: Annotated[list[GenericPair], NullAsNoList] = Field(default_factory=list)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rows:PATH[,users=train|test][,skip=bad-rows]`, candidates placed by seed."""
    path, users, dirt = local_path(spec.target), users_of(spec), dirt_of(spec)
    reader = _Reader(dirt, seed)
    read = read_each(find_sources(path), reader.item, dirt)
    items = items_in_part((item for item in read if item is not None), users)
    card = with_split(local_card(CARD, path, [item.domain for item in items], {}), users)
    return Benchmark(replace(dirt.onto(card), cluster=reader.unit), items, seed)


class _Question(NamedTuple):
    """The part of a row that is the same for everybody who asks it."""

    prompt: str
    answers: Mapping[str, str]
    grades: Mapping[str, float]
    """By the names of the answers."""

    @property
    def label(self) -> object:
        """The preferred text; where grades say more than that, all texts and their grades, sorted."""
        graded = sorted((self.answers[name], grade) for name, grade in self.grades.items())
        return max(graded, key=itemgetter(1))[0] if is_one_hot([*self.grades.values()]) else graded


class _Reader:
    """Makes items of rows; knows the ids that were used, and the cluster of each person."""

    def __init__(self, dirt: Dirt, seed: int) -> None:
        self._dirt, self._seed = dirt, seed
        self._ids: dict[str, Place] = {}
        self._clusters: dict[str, str] = {}
        self._units: set[str] = set()

    @property
    def unit(self) -> str:
        """What the clusters are: users, prompts, or groups of whatever kind."""
        return next(iter(self._units)) if len(self._units) == 1 else "cluster"

    def item(self, raw: Mapping[str, object], location: Place, domain: str) -> Item | None:
        """Return the item of a row; None where the same row stood before and neither has an id."""
        row = checked(ComparisonRow, raw, location, self._dirt)
        if row.user is None and (key := next((key for key in _PEOPLE if raw.get(key) is not None), "")):
            self._dirt.keep(f"rows whose {key} is not read (call it user)")
        question = _question(row, location)
        posts = clean_posts(map(_post_of, row.posts), self._dirt)
        pairs = _pairs(row, question, location, self._dirt)
        name = row.id or _content_id(row, question, posts, pairs)
        if name in self._ids:
            if row.id is None:
                self._dirt.forget()
                self._dirt.read("items", 1)
                self._dirt.drop("items", "repeated")
                return None
            refuse_again(name, self._ids, location)
        someone = row.user or posts or pairs or row.traits
        user = User(row.user or name, posts, pairs, row.traits) if someone else None
        cluster = self._cluster(row, user, question.prompt, location)
        self._ids[name] = location
        self._dirt.read("items", 1)
        answers = {key: (text, question.grades[key]) for key, text in question.answers.items()}
        domain = row.domain.strip() or domain or DOMAIN
        item = judgment(name, question.prompt, answers, seed=self._seed, domain=domain, user=user)
        return replace(item, cluster=cluster, tags=self._tagged(row))

    def _cluster(self, row: ComparisonRow, user: User | None, prompt: str, location: Place) -> str:
        """Return the cluster: as the row says, or the person, or the prompt; one person is never in two."""
        cluster = row.cluster or (user.id if user else f"prompt-{digest(prompt)[:_DIGITS]}")
        if user is not None and (first := self._clusters.setdefault(user.id, cluster)) != cluster:
            wanted_one = f"{describe(first)}, as in an earlier row of the user {describe(user.id)}"
            raise location.refuse("cluster", found=describe(cluster), wanted=wanted_one)
        self._units.add("cluster" if row.cluster else "user" if user else "prompt")
        return cluster

    def _tagged(self, row: ComparisonRow) -> dict[str, str]:
        if row.weight is None or row.weight == 1:
            return row.tags
        self._dirt.keep("weights, which no metric uses")
        return {"weight": f"{row.weight:g}", **row.tags}


def _content_id(row: ComparisonRow, question: _Question, posts: Sequence[Post], pairs: Sequence[ContextPair]) -> str:
    """Return an id made from all that a row says, so that it does not depend on where the row stands."""
    who = [row.user, row.cluster, [[post.id, post.text] for post in posts], [astuple(pair) for pair in pairs]]
    content = [question.prompt, question.label, sorted(question.answers.values())]
    return digest([*who, *content, row.domain, row.tags, *filter(None, [row.traits])])[:_DIGITS]


def _question(row: ComparisonRow, location: Place) -> _Question:
    """Return prompt, answers and label; equal answers, no label or two labels are refused."""
    before, answers, grades = _labelled(row, location)
    if (twice := repeated([text.strip() for text in answers.values()])) is not None:
        field = "rejected" if row.candidates is None else f"candidates[{twice}]"
        raise location.refuse(field, found="the text of another answer", wanted="different answers")
    messages = None if row.messages == row.chosen else row.messages  # UltraFeedback's: the chosen conversation again
    if row.prompt is not None and messages is not None:
        raise location.refuse("messages", found="messages beside a prompt", wanted="one of the two")
    turns = row.prompt or messages or before
    if not turns:
        raise location.refuse("prompt", found="no such key", wanted="prompt or messages, or answers that hold it")
    if [*before[-len(turns) :]] == [*turns]:
        turns = before  # what a prompt leaves out of the conversation, such as a system message, was seen, too
    prompt = conversation(turns)
    if before and conversation(before) != prompt:
        raise location.refuse(
            "chosen", found="another conversation than the prompt", wanted="the prompt and the answer"
        )
    return _Question(prompt, answers, grades)


def _labelled(row: ComparisonRow, location: Place) -> tuple[Sequence[Turn], dict[str, str], dict[str, float]]:
    """Return the turns before the answers (where those are conversations), the answers and grades by their names."""
    if row.candidates is not None:
        if row.chosen is not None or row.rejected is not None:
            raise location.refuse("chosen", found="an answer beside candidates", wanted="one form of the two")
        answers = {f"candidate{number}": text for number, text in enumerate(row.candidates)}
        return (), answers, dict(zip(answers, _grades(row, len(answers), location), strict=True))
    for field, turns in (("chosen", row.chosen), ("rejected", row.rejected)):
        if not turns:
            raise location.refuse(field, found="no answer", wanted="chosen and rejected, or candidates and preferred")
    chosen, rejected = row.chosen or [], row.rejected or []
    for field, label in (("preferred", row.preferred), ("grades", row.grades)):
        if label is not None:
            raise location.refuse(field, found="a label without candidates", wanted="one form of the two")
    if chosen[:-1] != rejected[:-1]:
        raise location.refuse("rejected", found="another conversation before the answer", wanted="that of chosen")
    for field, turns in (("chosen", chosen), ("rejected", rejected)):
        if len(turns) > 1 and turns[-1].role != "assistant":
            raise location.refuse(
                field, found=f"the role of the {turns[-1].role} last", wanted="an assistant's answer last"
            )
    answers = {"chosen": chosen[-1].content, "rejected": rejected[-1].content}
    return chosen[:-1], answers, {"chosen": 1.0, "rejected": 0.0}


def _grades(row: ComparisonRow, width: int, location: Place) -> list[float]:
    """Return the grade of each candidate, as the row says or by its preferred one."""
    if row.grades is None:
        if row.preferred is None or not 0 <= row.preferred < width:
            actual = "no label" if row.preferred is None else str(row.preferred)
            raise location.refuse("preferred", found=actual, wanted=f"an index from 0 to {width - 1}, or grades")
        return [float(index == row.preferred) for index in range(width)]
    if len(row.grades) != width:
        raise location.refuse("grades", found=f"{len(row.grades)} grades", wanted=f"one for each of {width} candidates")
    if len(set(row.grades)) < 2:
        raise location.refuse("grades", found="one grade for all", wanted="a candidate that is better than another")
    if row.preferred is not None and [i for i, grade in enumerate(row.grades) if grade == max(row.grades)] != [
        row.preferred
    ]:
        raise location.refuse("preferred", found=str(row.preferred), wanted="the candidate of the highest grade")
    return row.grades


def _post_of(row: GenericPost) -> Post:
    return Post(row.id or f"post-{digest([row.text, row.date])[:_DIGITS]}", row.text, row.category, row.date)


def _pairs(row: ComparisonRow, question: _Question, location: Place, dirt: Dirt) -> tuple[ContextPair, ...]:
    """Return the pairs, those that stand there twice once; one that is the row's own question is refused."""
    pairs: dict[str, ContextPair] = {}
    for index, each in enumerate(row.pairs):
        preferred, other = each.preferred or each.chosen, each.other or each.rejected
        field = f"pairs[{index}]"
        if preferred is None or other is None or (each.preferred and each.chosen) or (each.other and each.rejected):
            raise location.refuse(field, found="no label, or two", wanted="preferred and other, or chosen and rejected")
        if preferred.strip() == other.strip():
            raise location.refuse(field, found="one answer twice", wanted="two different answers")
        if each.prompt == question.prompt and {preferred, other} <= set(question.answers.values()):
            raise location.refuse(field, found="the question and answers of the row", wanted="pairs from before it")
        name = each.id or f"pair-{digest([each.prompt, preferred, other])[:_DIGITS]}"
        pair = ContextPair(name, each.prompt, preferred, other)
        if pairs.get(name, pair) != pair:
            raise location.refuse(f"{field}.id", found=f"{describe(name)} again", wanted="an id of its own")
        if name in pairs:
            dirt.drop("pairs", "repeated")
        pairs[name] = pair
    if row.pairs:
        dirt.read("pairs", len(row.pairs))
    return tuple(pairs.values())
