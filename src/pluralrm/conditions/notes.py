r"""`persona:MODEL` and `planner:MODEL`: notes that a chat model writes about the user, in place of the user's posts.

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.chat import ScriptedChat
>>> persona = open_notes("persona:scripted,k=3", chat=ScriptedChat(lambda request: "Likes it loud."))
>>> bench = load_benchmark("pocket-prb")
>>> next(persona.queries(bench, bench.items)).notes
('Likes it loud.',)

A plan is a list of aspects and nothing else:

>>> aspects("- Cheap to try\n- No new tools")
('Cheap to try', 'No new tools')
>>> aspects("Here you go:\n- Cheap to try").kind
'parse'

A list is one line for each aspect, all with the same bullet or all numbered from 1, or a JSON array of texts. Nothing
is guessed: a text with a heading, a remark, a list within the list, an aspect twice, or one that announces others is no
list. A note is one line, whatever breaks the model made: it cannot end the section of a prompt in which it stands.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pluralrm.chat import KEYS, ChatCall, ChatModel, ChatRole, ScriptedChat, open_role, seed
from pluralrm.chat.completions import unreadable
from pluralrm.conditions.posts import OwnPosts, PreparedQuery, Swapped, lending_options, parse_lending
from pluralrm.core import Benchmark, Exchange, Failure, Item, Query, Reveals, UserView
from pluralrm.errors import BenchmarkError, ConditionError, ServiceError, SpecError, did_you_mean
from pluralrm.folders import default_cache
from pluralrm.http import Settings, Tally
from pluralrm.retrieval import RANKING_KEYS, parse_ranking
from pluralrm.specs import Form, Spec, parse
from pluralrm.templates import keeping, load_template

# ---------------------------------------------------------------- what a model wrote

MOST = 12
"""Aspects in a list: the template asks for eight at most."""
LONGEST = 400
"""Characters in an aspect: beyond, it is no aspect but an answer."""

_LINE = re.compile(r"(?P<mark>[-*•–]|(?P<number>[0-9]{1,2})[.)])[ \t]+(?P<text>\S.*)")
_LETTER = re.compile(r"[^\W\d_]")


def profile(text: str) -> tuple[str] | Failure:
    """Return the text as one line."""
    if _LETTER.search(text) is None:
        return unreadable("the text says nothing", text)
    return (_one_line(text),)


def aspects(text: str) -> tuple[str, ...] | Failure:
    """Return the aspects in the order written."""
    try:
        items = _from_json(text) if text.strip().startswith("[") else list(_from_lines(text))
        _check(items)
    except ValueError as exc:
        return unreadable(str(exc), text)
    return tuple(items)


def _from_json(text: str) -> list[str]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("the text begins as a JSON array and is none of texts")
    return [_one_line(item) for item in items]


def _from_lines(text: str) -> Iterator[str]:
    lines = [line.rstrip() for line in textwrap.dedent(text).splitlines() if line.strip()]
    marks = set()
    for number, line in enumerate(lines, 1):
        if (match := _LINE.fullmatch(line)) is None:
            raise ValueError(f"the line {line[:60]!r} is no aspect")
        marks.add(re.sub("[0-9]+", "1", match["mark"]))
        if len(marks) > 1 or (match["number"] and int(match["number"]) != number):
            raise ValueError("the lines are not marked alike, or not numbered from 1")
        yield _one_line(match["text"])


def _check(items: Sequence[str]) -> None:
    """Raise a ValueError that says why these are not aspects, one after the other."""
    if not 1 <= len(items) <= MOST:
        raise ValueError(f"the text has {len(items)} aspects, wanted 1 to {MOST}")
    if len({item.casefold() for item in items}) < len(items):
        raise ValueError("the text names an aspect twice")
    for item in items:
        if _LETTER.search(item) is None:
            raise ValueError(f"the aspect {item[:60]!r} says nothing")
        if len(item) > LONGEST:
            raise ValueError(f"an aspect has {len(item)} characters, wanted at most {LONGEST}")
        if item.endswith((":", "\uff1a")):
            raise ValueError(f"the aspect {item[-60:]!r} announces others")


def _one_line(text: str) -> str:
    return " ".join(text.split())


FORM = Form("required", tuple(sorted({*KEYS, *RANKING_KEYS, "k", "of", "posts"})))
"""What the spec of either kind accepts."""

# ---------------------------------------------------------------- the chat model that writes


WrittenNotes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be written: how it is called and read, and what a second message asks for."""

    noun: str
    template: str
    read: Callable[[str], WrittenNotes | Failure]
    again: str
    question: bool
    """True where the question is shown beside the posts."""
    lead: str = ""
    """What each note begins with."""
    stand_in: str = "Likes it short."
    """A reply of the form that is asked for, for a dry run."""


class WrittenQuery(NamedTuple):
    """A query, which shows the ranked posts, what was written of them or why nothing was, and what was said."""

    shown: Query
    notes: WrittenNotes | Failure
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True)
class Writer:
    """A chat model with a task. What it is shown are posts and, where the task says so, the question: nothing else."""

    task: Task
    role: ChatRole

    def write(self, queries: Iterable[Query]) -> Iterator[WrittenQuery]:
        """Yield what is written for each query, in order; a user without posts has no notes."""
        for query, calls in self.role.ask(queries, self._calls):
            notes: WrittenNotes | Failure = calls[0].outcome or () if calls else ()
            if isinstance(notes, Failure):
                notes = Failure(notes.kind, f"no {self.task.noun}: {notes.detail}")
            else:
                notes = tuple(f"{self.task.lead}{note}" for note in notes)
            yield WrittenQuery(query, notes, calls[0].exchanges if calls else ())

    def _calls(self, query: Query) -> list[ChatCall[WrittenNotes]]:
        """Return the call; neither candidates nor names are part of it, so equal posts make equal requests."""
        posts = query.user.posts if query.user else ()
        if not posts:
            return []
        prompt = query.prompt if self.task.question else ""
        view = replace(query, id="", prompt=prompt, candidates=(), user=UserView("", posts))
        text, task = self.role.template.render(view), self.task
        return [self.role.call(text, task.read, task.again, stand_in=task.stand_in)]


# ---------------------------------------------------------------- the conditions


TASKS: Mapping[str, Task] = {
    "persona": Task(
        noun="persona",
        template="persona-v1",
        read=profile,
        again="Write one paragraph of at most 100 words about this person, and nothing else.",
        question=False,
    ),
    "planner": Task(
        noun="plan",
        template="planner-v1",
        read=aspects,
        again='Write the aspects, each on one line that begins with "- ", and nothing else.',
        question=True,
        lead="Probably wants from the answer: ",
        stand_in="- A short answer",
    ),
}
"""What is written, by the kind of condition."""

_POSTS = 10
_OWN, _SWAPPED = "own", "swapped"


@dataclass(frozen=True)
class Notes:
    """What a chat model writes about the user from at most K posts, and the first `beside` of these posts.

    `source` says whose posts they are and ranks them. Nothing else of an item reaches the writer but, for a plan, the
    prompt.
    """

    spec: str
    source: OwnPosts | Swapped
    writer: Writer
    beside: int = 0

    @property
    def reveals(self) -> frozenset[Reveals]:
        """What the notes are made of."""
        return self.source.reveals

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed."""
        return {**self.source.identity, **self.writer.role.identity, **self.writer.role.drawing}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.writer.role.tally

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: no posts to write from, or no other user to swap with."""
        return self.source.unsupported(benchmark)

    def prepared(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[PreparedQuery]:
        """Yield one PreparedQuery per item, with the notes, or with the failure that kept them from being had."""
        return map(self._prepared, self.writer.write(self.source.queries(benchmark, items)))

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item; a ServiceError names the first whose notes could not be written."""
        for row in self.prepared(benchmark, items):
            if row.failure is not None:
                raise ServiceError(f"{self.spec}: item {row.query.id!r}: {row.failure.kind}, {row.failure.detail}")
            yield row.query

    def _prepared(self, written: WrittenQuery) -> PreparedQuery:
        query, notes, exchanges = written
        if isinstance(notes, Failure):
            return PreparedQuery(keeping(query, 0), notes, exchanges)
        return PreparedQuery(replace(keeping(query, self.beside), notes=notes), exchanges=exchanges)


# ---------------------------------------------------------------- from a spec to a condition


def open_notes(
    spec: Spec | str, *, chat: ChatModel | None = None, cache: Path | None = None, settings: Settings | None = None
) -> Notes:
    """Return the condition; `chat` stands in for the server that the spec names, `settings` say how one is used.

    `cache` is the folder of embeddings and, without settings, of replies.
    """
    if isinstance(spec, str):
        spec = parse(spec, dict.fromkeys(TASKS, FORM), noun="condition")
    task, posts = TASKS[spec.kind], spec.integer("k", _POSTS, least=1)
    source, beside = _source(spec, posts, cache), spec.integer("posts", 0)
    if beside > posts:
        raise SpecError(f"{spec.kind}: posts is {beside}; wanted at most k={posts}, the posts that the notes are from")
    template = load_template(spec.options.get("template", task.template))
    template.require_posts(question=task.question)
    settings = settings or Settings(cache=cache or default_cache())
    private = f"a {task.noun} is written from what users wrote"
    role = open_role(spec, template, chat=chat, settings=settings, private=private)
    return Notes(_canonical(spec, source, beside), source, Writer(task, role), beside)


def _source(spec: Spec, posts: int, cache: Path | None) -> OwnPosts | Swapped:
    of = spec.options.get("of", _OWN)
    if of not in (_OWN, _SWAPPED):
        raise SpecError(f"{spec.kind}: of is {of!r}.{did_you_mean(of, (_OWN, _SWAPPED))}")
    warm = spec.options.get("temperature", "0") != "0"
    if of == _SWAPPED:
        ranking, by_prompt = parse_lending(spec, drawn=warm)
        return Swapped(posts, ranking, 0 if by_prompt else seed(spec), cache, by_prompt)
    drawn = warm or spec.options.get("by") == "random"
    if "seed" in spec.options and not drawn:
        raise SpecError(f"{spec.kind}: seed= has a meaning only with by=random, of=swapped or a temperature")
    return OwnPosts(posts, parse_ranking(spec, seeded=drawn), cache)


def _canonical(spec: Spec, source: OwnPosts | Swapped, beside: int) -> str:
    """Return the one spelling: K is always said, and beside it what is not the default."""
    options = {key: spec.options[key] for key in KEYS if key in spec.options and key != "seed"}
    chosen = {
        "of": _SWAPPED if isinstance(source, Swapped) else "",
        "posts": str(beside) if beside else "",
        "seed": str(seed(spec)) if seed(spec) else "",
    }
    stated = {key: value for key, value in chosen.items() if value}
    by_prompt = isinstance(source, Swapped) and source.by_prompt
    ranked = lending_options(source.ranking, by_prompt=by_prompt)
    return str(Spec(spec.kind, spec.target, {**options, **ranked, **stated, "k": str(source.posts)}))


# ---------------------------------------------------------------- a file to fine-tune a planner by
# One line per item, in the conversational form of prompt and completion that SFT trainers read:
#
#     {"id": "...", "prompt": [{"role": "user", "content": "..."}],
#      "completion": [{"role": "assistant", "content": "- Cheap to try\n- No new tools"}]}
#
# The prompt is the very text that `planner:MODEL` will be sent, and the completion is one that it will read back.

Turns = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class PlannerRow:
    """One line of the file."""

    id: str
    prompt: Turns
    completion: Turns


class LeftOut(NamedTuple):
    """Items that make no line: why, by their ids."""

    without_posts: Sequence[str]
    without_aspects: Sequence[str]
    unreadable: Sequence[str]
    """Their aspects would not be read back: one that is said twice, or more than a plan may have."""


def planner_rows(benchmark: Benchmark, planner: str) -> tuple[list[PlannerRow], LeftOut]:
    """Return a row for each item with posts and a rubric, and the items that are left out.

    `planner` is the condition that will be used, such as `planner:my-model,k=10`: it chooses and renders the posts.
    """
    without_posts = [item.id for item in benchmark.items if item.user is None or not item.user.posts]
    without_aspects = [item.id for item in benchmark.items if item.oracle is None or not item.oracle.aspects]
    items = [item for item in benchmark.items if item.id not in {*without_posts, *without_aspects}]
    if not items:
        raise BenchmarkError(f"{benchmark.card.name}: found no item with posts and rubric, wanted at least one")
    rows, unreadable = [], []
    for item, prompt in zip(items, _prompts(benchmark, items, planner), strict=True):
        titles = item.oracle.aspects if item.oracle else ()
        completion = "\n".join(f"- {' '.join(each.aspect.split())}" for each in titles)
        if isinstance(aspects(completion), Failure):
            unreadable.append(item.id)
        else:
            rows.append(PlannerRow(item.id, [_turn("user", prompt)], [_turn("assistant", completion)]))
    return rows, LeftOut(without_posts, without_aspects, unreadable)


def _prompts(benchmark: Benchmark, items: Sequence[Item], planner: str) -> Iterator[str]:
    """Yield what the planner would be asked about each item; no request is sent."""
    notes = open_notes(planner, chat=ScriptedChat(lambda _: "- no request is sent"))
    if not notes.writer.task.question:
        raise ConditionError(f"{planner}: found a {notes.writer.task.noun}, wanted planner:MODEL")
    if reason := notes.unsupported(benchmark):
        raise ConditionError(reason)
    return (prepared.exchanges[0].sent for prepared in notes.prepared(benchmark, items))


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
