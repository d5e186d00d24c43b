"""People who want opposite answers: P-Soups of AlignX (arXiv 2503.15463) and RPR (arXiv 2407.14916).

Of two answers to a prompt one person wants the one, and another person the other: two items with opposite labels, one
prompt id and the answers in one order, so that a model that does not look at the person is right in exactly one.

**AlignX**, one row of one JSON list in benchmark/P-Soups of https://github.com/JinaLeejnl/AlignX, shortened:

    {"prompt": "Name a good first houseplant.", "chosen": "A snake plant, you legend!", "rejected": "A snake plant.",
     "ground_truth_persona": "Likes answers that joke.", "profile": "Young, High Extraversion, Likes humor",
     "Pair-wise Comparative Feedback": [{"prompt": "Greet me.", "chosen": "Ahoy!", "rejected": "Good day."}], ...}

The opposite is a row with the same prompt and the answers exchanged. Rows of one kind beyond those of the other are
dropped and counted. The persona behind the labels is a trait (`persona`), the profile and what the person wrote are
posts, the feedback is their context pairs: without those that hold the preferred answer of one of the person's items. A
person is a persona with a profile, and may stand in many rows. The domain is the file's name: what persona and opposite
differ in.

**RPR**, Reasonable Preference Reversal, one row, shortened (hub: microsoft/rpr):

    {"id": 12, "prompt": "Name a good first houseplant.", "response_a": "A snake plant.", "response_b": "An orchid.",
     "criteria_x": "Favours what is hard to kill", "scenario_x": "I travel for weeks and forget to water.",
     "criteria_y": "Favours what flowers", "scenario_y": "I want something to paint.", "category_x": "Effort", ...}

A row is two people: by criterion x response_a is better, by criterion y response_b. The criterion is a trait of the
person, the scenario a post, the category a tag. `split=test` (default) or `split=train` of the hub's data. What the
columns `profile_N` hold is not read.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pluralrm.benchmarks.dataset import Dataset, comparison, differ, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt, clean_posts, dirt_of
from pluralrm.benchmarks.preferences import PREFERENCES, word_of
from pluralrm.benchmarks.promises import holds
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.schema import Id, Label, NullAsNoList, Part, Text, checked
from pluralrm.benchmarks.sources import Source, find_sources, local_path, read_each, unclaimed
from pluralrm.card import Card
from pluralrm.core import Benchmark, ContextPair, Item, Post, User
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, RowError
from pluralrm.specs import Spec

_DIGITS = 16


def _opposed(question: Item, user: User, preferred: str, *, name: str, domain: str, tags: Mapping[str, str]) -> Item:
    """Return the question as one person's item, with their answer preferred; its answers stay where they are."""
    return replace(
        question,
        id=name,
        preferred=question.candidate_ids.index(preferred),
        cluster=user.id,
        domain=domain,
        user=user,
        tags={key: value for key, value in tags.items() if value},
        prompt_id=question.id,
    )


# ---------------------------------------------------------------- AlignX

CARD = Card(
    name="alignx",
    summary="P-Soups of AlignX: personas who want opposite answers to one prompt; 50% without the person",
    licence="none in the repository",
    source="https://github.com/JinaLeejnl/AlignX, folder benchmark/P-Soups",
    labelled="by the persona for whom the preferred answer was written",
    citation="Jia-Nan Li, Jian Guan, Songhao Wu, Wei Wu and Rui Yan. From 1,000,000 Users to Every User: Scaling Up "
    "Personalized Preference for User-level Alignment. arXiv:2503.15463, 2025. P-Soups: arXiv:2310.11564.",
)
_KEYS = {
    "Pair-wise Comparative Feedback": "feedback",
    "User-Generated Content": "comments",
    "Demographic Information": "demographics",
    "Preference Direction": "direction",
}
"""What we call the keys of the format that are several words."""


class FeedbackPair(Part):
    """What the person preferred before."""

    prompt: Text
    chosen: Text
    rejected: Text


class Comment(Part):
    """What the person wrote below a post."""

    prompt: Label = ""
    comment: Label


class PersonaRow(Part):
    """A preference of one persona with one profile."""

    prompt: Text
    chosen: Text
    rejected: Text
    ground_truth_persona: Text
    profile: Label = ""
    feedback: Annotated[list[FeedbackPair], NullAsNoList] = Field(default_factory=list)
    comments: Annotated[list[Comment], NullAsNoList] = Field(default_factory=list)
    demographics: Label = ""
    unread = ("direction",)


class PersonaJudgment(NamedTuple):
    """A row, where it stands, and whose it is."""

    row: PersonaRow
    place: Place
    person: str
    domain: str

    @property
    def pair(self) -> str:
        """The id of the prompt with its two answers, whichever is preferred."""
        return f"{self.domain}-{digest([self.row.prompt, *sorted([self.row.chosen, self.row.rejected])])[:_DIGITS]}"


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `alignx:PATH`: the folder P-Soups, or one of its files."""
    path, dirt = local_path(spec.target), dirt_of(spec)
    files = [Source(file) for file in sorted(path.glob("**/*.json"))] if path.is_dir() else find_sources(path)
    if not files:
        raise BenchmarkError(f"{path.name}: found no .json file in the folder, wanted those of P-Soups")

    def judgment(raw: Mapping[str, object], location: Place, _domain: str) -> PersonaJudgment:
        try:
            row = checked(PersonaRow, {_KEYS.get(key, key): value for key, value in raw.items()}, location, dirt)
        except RowError as exc:
            key = next((key for key, name in _KEYS.items() if re.match(rf"{name}\b", exc.field)), "")
            field = exc.field.replace(_KEYS[key], key, 1) if key else exc.field
            raise location.refuse(field, found=exc.found, wanted=exc.wanted) from exc
        differ([row.chosen], [row.rejected], location)
        domain = Path(location.file).stem
        person = f"{domain}-{digest([row.ground_truth_persona, row.profile, row.demographics])[:_DIGITS]}"
        dirt.read(PREFERENCES, 1)
        return PersonaJudgment(row, location, person, domain)

    judgments = _with_opposites(list(read_each(files, judgment, dirt)), dirt)
    if not judgments:
        raise BenchmarkError(f"{path.name}: found no two rows with one prompt and opposite labels")
    items = tuple(_persona_items(judgments, seed, dirt))
    dirt.settle()
    return Benchmark(dirt.onto(unclaimed(CARD, path)), items, seed)


def _with_opposites(judgments: Sequence[PersonaJudgment], dirt: Dirt) -> list[PersonaJudgment]:
    """Return as many rows of each label of a pair as of the other, in the order of the files."""
    sides: dict[str, dict[str, list[PersonaJudgment]]] = defaultdict(lambda: defaultdict(list))
    for judgment in judgments:
        sides[judgment.pair][judgment.row.chosen].append(judgment)
    both = {pair: min(map(len, rows.values())) if len(rows) == 2 else 0 for pair, rows in sides.items()}
    balanced = {
        judgment.place for pair, rows in sides.items() for side in rows.values() for judgment in side[: both[pair]]
    }
    for _ in range(len(judgments) - len(balanced)):
        dirt.drop(PREFERENCES, "without an opposite")
    return [judgment for judgment in judgments if judgment.place in balanced]


def _persona_items(judgments: Sequence[PersonaJudgment], seed: int, dirt: Dirt) -> Iterable[Item]:
    preferred: dict[str, set[str]] = defaultdict(set)
    for judgment in judgments:
        preferred[judgment.person].add(judgment.row.chosen)
    for number, judgment in enumerate(judgments, 1):
        row, person, domain = judgment.row, judgment.person, judgment.domain
        first, second = sorted([row.chosen, row.rejected])
        question = comparison(judgment.pair, row.prompt, {"answer1": first}, {"answer2": second}, seed=seed)
        traits = {"persona": row.ground_truth_persona, "demographics": row.demographics}
        profile = [Post("profile", row.profile)] if row.profile.strip() else []
        comments = [Post(f"comment{index}", each.comment) for index, each in enumerate(row.comments, 1)]
        user = User(
            person,
            clean_posts([*profile, *comments], dirt),
            _feedback(row.feedback, preferred[person], dirt),
            {name: value for name, value in traits.items() if value.strip()},
        )
        chosen = "answer1" if row.chosen == first else "answer2"
        yield _opposed(question, user, chosen, name=f"{domain}-{number}", domain=domain, tags={})


def _feedback(feedback: Sequence[FeedbackPair], preferred: Iterable[str], dirt: Dirt) -> tuple[ContextPair, ...]:
    """Return the context pairs, each once, without those that hold a preferred answer of the person's items."""
    pairs: dict[str, ContextPair] = {}
    for each in feedback:
        name = digest([each.prompt, each.chosen, each.rejected])[:_DIGITS]
        if name in pairs:
            dirt.drop("pairs", "repeated")
        elif each.chosen.strip() == each.rejected.strip():
            dirt.drop("pairs", "of one answer")
        elif any(holds((each.chosen, each.rejected), answer) for answer in preferred):
            dirt.drop("pairs", "with the preferred answer of an item")
        else:
            pairs[name] = ContextPair(name, each.prompt, each.chosen, each.rejected)
    if feedback:
        dirt.read("pairs", len(feedback))
    return tuple(pairs.values())


# ---------------------------------------------------------------- RPR

HUB = "microsoft/rpr"
COUNTS: Mapping[str, Mapping[str, int]] = {"test": {"all": 2 * 1000}, "train": {"all": 2 * 10_167}}
"""Items, two of each row."""

RPR_CARD = Card(
    name="rpr",
    summary="RPR: two criteria for each prompt, by which opposite answers are better; 50% without the person",
    licence="CDLA-Permissive-2.0",
    source=f"hub: {HUB} (split test)",
    labelled="by the criterion for which the preferred answer was written: synthetic, by a language model",
    citation="Silviu Pitis, Ziang Xiao, Nicolas Le Roux and Alessandro Sordoni. Improving Context-Aware Preference "
    "Modeling for Language Models. arXiv:2407.14916, 2024.",
)


class ReversalRow(Part):
    """A prompt, two responses, and for each a criterion by which it is better."""

    id: Id
    prompt: Text
    response_a: Text
    response_b: Text
    criteria_x: Text
    criteria_y: Text
    scenario_x: Label = ""
    scenario_y: Label = ""
    category_x: Label = ""
    category_y: Label = ""
    unread = tuple(f"profile_{number}" for number in range(5))


def load_rpr(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rpr`, `rpr,split=train` (the hub) or `rpr:PATH`."""
    split = word_of(spec, "split", ("test", "train"))
    card = RPR_CARD if split == "test" else replace(RPR_CARD, name="rpr.train", source=f"hub: {HUB} (split train)")

    def items(row: ReversalRow, location: Place, dirt: Dirt) -> list[Item]:
        differ([row.response_a], [row.response_b], location, "response_b")
        question = comparison(
            row.id, row.prompt, {"response_a": row.response_a}, {"response_b": row.response_b}, seed=seed
        )
        return [
            _opposed(
                question,
                _reader(f"{row.id}-{side}", criterion, scenario, dirt),
                answer,
                name=f"{row.id}-{side}",
                domain="all",
                tags={"side": side, "category": category},
            )
            for side, answer, criterion, scenario, category in (
                ("x", "response_a", row.criteria_x, row.scenario_x, row.category_x),
                ("y", "response_b", row.criteria_y, row.scenario_y, row.category_y),
            )
        ]

    data = Dataset(card, (COUNTS[split],), {HUB: (f"data/{split}-*",)})

    def read(sources: Sequence[Source], dirt: Dirt) -> Iterator[Item]:
        return read_items(sources, ReversalRow, lambda row, location, _: items(row, location, dirt), dirt)

    return load_dataset(spec, seed, data, read)


def _reader(name: str, criterion: str, scenario: str, dirt: Dirt) -> User:
    """Return the person who judges by a criterion."""
    posts = clean_posts([Post("scenario", scenario)] * bool(scenario.strip()), dirt)
    return User(name, posts, (), {"criterion": criterion})
