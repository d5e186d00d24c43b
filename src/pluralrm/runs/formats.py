"""Other people's files of scores and verdicts: what each row says of one item of a benchmark.

| format | a row |
|---|---|
| `scores` | `item`, `candidate`, `score`: one row per candidate |
| `choices` | `item`, `choice` (a candidate, or `tie`); or `item`, `win` (true, false, 0.5) where there are two |
| `rewardbench2` | `id`, `num_correct`, `scores`: the correct answers first |
| `rewardmath` | `problem`, `score`: one number per answer, or a list of steps per answer; the first answer is right |
| `judgebench` | `pair_id`, `judgments`: two of them, the second with the answers swapped |
| `listwise` | `item`, `order` as shown, `ranking` or `pick`, `variant`: a run per variant, a row per order |
| `personal-rb` | the benchmark's own rows with `prediction_JUDGE` and `prediction_flip_JUDGE`: a run per judge |
| `answers` | `question`, `asst_A`, `asst_B`, `answer`, `certainty` |

Candidates are matched by their names in the benchmark's source (`Item.candidate_ids`), by their number in the order of
these names (`chosen0`, `chosen1`, `rejected0`), or by their texts; never by where the seed has placed them.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator

from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.prb import JUDGED, PreferenceRow
from pluralrm.benchmarks.preferences import conversation
from pluralrm.benchmarks.rows import Place, Refuse, describe, shortened
from pluralrm.benchmarks.schema import Id, Label, Part, PartT, Text, checked
from pluralrm.chat import Sampling
from pluralrm.core import Benchmark, Failure, Item, Row, Score, Vote
from pluralrm.errors import did_you_mean
from pluralrm.models.judge.styles import Listwise, Pairwise

AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"product": math.prod, "min": min, "mean": fmean}
"""How the scores of an answer's steps become one."""

SILENT = Failure("empty", "no score in the file")
UNDECIDED = Failure("parse", "no verdict in the file")


class ImportedEntry(NamedTuple):
    """What one row says of an item: scores by the candidates' indices, the votes behind them, whose they are."""

    item: Item
    location: Place
    scores: Mapping[int, Score]
    votes: tuple[Vote, ...] = ()
    judge: str = ""  # which of the runs that one file holds; '' where it holds one
    certainty: float | None = None
    row: Row | None = None  # of an exported run: how many posts, pairs and traits the model saw


class Matching:
    """The items of a benchmark, as files of others name them and their candidates; what becomes of steps; the dirt."""

    def __init__(self, benchmark: Benchmark, steps: str = "") -> None:
        self.name, self.items, self.steps, self.dirt = benchmark.card.name, benchmark.items, steps, Dirt()
        self._by_id = {item.id: item for item in benchmark.items}
        self._orders: dict[str, list[int]] = {}
        self._hints = 3

    def item(self, name: str, location: Place, field: str = "item", *, scope: str = "") -> Item:
        """Return the item of an id, which may be one of the source's own inside of a `scope` such as its subset."""
        for each in (name, f"{scope}/{name}"):
            if each in self._by_id:
                return self._by_id[each]
        self._hints -= 1  # of ten thousand wrong ids, three are compared with all right ones
        hint = did_you_mean(name, self._by_id) if self._hints >= 0 else ""
        raise location.refuse(field, found=repr(shortened(name)), wanted=f"an item of {self.name}.{hint}")

    def by_text(self, prompt: str, answers: Sequence[str], location: Place, *, field: str, user: str = "") -> Item:
        """Return the item with a prompt and, where they are given, with these answers and of this user."""
        texts = sorted(map(_plain, answers))
        items = [
            item
            for item in self._by_prompt[_plain(prompt)]
            if not texts or sorted(map(_plain, item.candidates)) == texts
        ]
        if len(items) > 1 and user:
            items = [item for item in items if user in {item.cluster, item.user.id if item.user else ""}]
        if len(items) != 1:
            what = "the prompt of one item" + " with these answers" * bool(texts)
            actual = f"{describe(prompt)}, which is that of {len(items)}"
            raise location.refuse(field, found=actual, wanted=f"{what} of {self.name}")
        return items[0]

    def candidate(self, item: Item, name: str, location: Place, field: str = "candidate") -> int:
        """Return the index of a candidate by its name in the source, or by its number in the source's order."""
        if name in item.candidate_ids:
            return item.candidate_ids.index(name)
        order = self.order(item, location)
        if name.isdecimal() and int(name) < len(order):
            return order[int(name)]
        names = ", ".join(shortened(item.candidate_ids[index]) for index in order[:6])
        names += ", ..." * (len(order) > 6)
        expected = f"one of {names}, or a number from 0 to {len(order) - 1}"
        raise location.refuse(field, found=repr(shortened(name)), wanted=expected)

    def order(self, item: Item, location: Place) -> list[int]:
        """Return the candidates' indices in the order of the source, which is that of their names there."""
        if item.id in self._orders:
            return self._orders[item.id]
        names = item.candidate_ids
        if len(set(names)) != len(item.candidates):
            raise location.refuse(
                "item", found=f"{item.id!r}, whose candidates have no names", wanted="named candidates"
            )
        order = self._orders[item.id] = sorted(range(len(names)), key=lambda index: _natural(names[index]))
        return order

    def in_order(self, item: Item, count: int, location: Place, field: str) -> list[int]:
        """Return the same for a list of so many, which has to have as many as the item has candidates."""
        order = self.order(item, location)
        if count != len(order):
            expected = f"{len(order)}, one for each candidate of {item.id!r}"
            raise location.refuse(field, found=f"{count} of them", wanted=expected)
        return order

    @cached_property
    def _by_prompt(self) -> Mapping[str, list[Item]]:
        by_prompt = defaultdict(list)
        for item in self.items:
            by_prompt[_plain(item.prompt)].append(item)
        return by_prompt


def _plain(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return what sorts chosen2 before chosen10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def check_best(item: Item, best: Sequence[int], location: Place, field: str) -> None:
    """Raise where the file calls other candidates right than the benchmark does: then its rows are of other items."""
    if set(best) != set(item.best):
        names = [", ".join(item.candidate_ids[index] for index in sorted(indices)) for indices in (best, item.best)]
        raise location.refuse(
            field, found=f"{names[0]} as right in {item.id!r}", wanted=f"{names[1]}, as the benchmark has"
        )


# ---------------------------------------------------------------- numbers


# Some harnesses keep what a head returns: a list of one number.
_LONE = BeforeValidator(lambda value: value[0] if isinstance(value, list) and len(value) == 1 else value)


class CandidateRow(Part):
    """The score of one candidate."""

    item: Id
    candidate: Id
    score: float | None = None


def _scores(row: CandidateRow, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    item = items.item(row.item, location)
    index = items.candidate(item, row.candidate, location)
    yield ImportedEntry(item, location, {index: SILENT if row.score is None else row.score})


class RewardBench2Result(Part):
    """The scores of one prompt's completions, the correct ones first."""

    id: Id
    subset: Label = ""
    num_correct: int
    scores: list[Annotated[float | None, _LONE]]
    results: object = None


def _rewardbench2(row: RewardBench2Result, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    item = items.item(row.id, location, "id", scope=row.subset)
    order = items.in_order(item, len(row.scores), location, "scores")
    check_best(item, order[: row.num_correct], location, "num_correct")
    scores = [SILENT if score is None else score for score in row.scores]
    yield ImportedEntry(item, location, dict(zip(order, scores, strict=True)))


class RewardMathResult(Part):
    """The scores of the answers to one problem, the right one first; of a process model those of the steps."""

    id: Id | None = None
    problem: Text | None = None
    solution_reference: list[Label] | None = None
    score: list[float | list[float] | None]


def _rewardmath(row: RewardMathResult, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    if row.id is None and row.problem is None:
        raise location.refuse("problem", found="neither id nor problem", wanted="one of the two")
    if row.id is not None:
        item = items.item(row.id, location, "id")
    else:
        item = items.by_text(row.problem or "", (), location, field="problem")
    order = items.in_order(item, len(row.score), location, "score")
    order = sorted(order, key=lambda index: index not in item.best)  # the right one first, the others as they are
    if not items.steps and any(isinstance(score, list) for score in row.score):
        raise location.refuse("score", found="scores of steps", wanted=f"--steps {', '.join(AGGREGATES)}")
    scores = [_aggregated(score, items.steps) for score in row.score]
    yield ImportedEntry(item, location, dict(zip(order, scores, strict=True)))


def _aggregated(score: float | list[float] | None, steps: str) -> Score:
    if isinstance(score, list):
        return AGGREGATES[steps](score) if score else SILENT
    return SILENT if score is None else score


# ---------------------------------------------------------------- choices


class ChoiceRow(Part):
    """Which candidate was chosen, or whether the right one won."""

    item: Id
    choice: Id | None = None
    win: bool | float | None = None


def _choices(row: ChoiceRow, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    item = items.item(row.item, location)
    if row.choice is not None and row.win is not None:
        raise location.refuse("win", found="a choice beside it", wanted="one of the two")
    if row.win is not None:
        yield ImportedEntry(item, location, _chosen(item, _winner(item, row.win, location)))
    elif row.choice == "tie":
        yield ImportedEntry(item, location, _chosen(item, None))
    elif row.choice is None:
        yield ImportedEntry(item, location, dict.fromkeys(range(len(item.candidates)), UNDECIDED))
    else:
        yield ImportedEntry(item, location, _chosen(item, items.candidate(item, row.choice, location, "choice")))


def _winner(item: Item, win: float, location: Place) -> int | None:
    """Return who was chosen of two, None for a tie: of three, a loss does not say it."""
    if win not in {0, 0.5, 1}:
        raise location.refuse("win", found=f"{win:g}", wanted="true, false, or 0.5 for a tie")
    if len(item.candidates) != 2 or item.preferred is None:
        actual = f"a win or loss in {item.id!r}, which has {len(item.candidates)} candidates"
        raise location.refuse("win", found=actual, wanted="which candidate was chosen, as 'choice'")
    return None if win == 0.5 else item.preferred if win else 1 - item.preferred


def _chosen(item: Item, index: int | None) -> dict[int, Score]:
    return {other: float(other == index) for other in range(len(item.candidates))}


class AnswerChoiceRow(Part):
    """What a judge answered about two texts, A, B or C for neither, and how certain it was."""

    id: Id | None = None
    user: Id | None = None
    demographics: object = None
    question: Text
    asst_A: Text  # noqa: N815 - as in the files
    asst_B: Text  # noqa: N815
    ground_truth: Label = ""
    answer: Label = ""
    certainty: float | None = None
    acc: object = None


def _answers(row: AnswerChoiceRow, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    texts = {"A": row.asst_A, "B": row.asst_B}
    item = (
        items.item(row.id, location, "id")
        if row.id is not None
        else items.by_text(row.question, list(texts.values()), location, field="question", user=row.user or "")
    )
    plain = [_plain(text) for text in item.candidates]
    if sorted(map(_plain, texts.values())) != sorted(plain):
        raise location.refuse("asst_A", found=f"other answers than {item.id!r} has", wanted="its two answers")
    index = {letter: plain.index(_plain(text)) for letter, text in texts.items()}
    if truth := row.ground_truth.strip():
        check_best(item, [index[truth]] if truth in index else list(index.values()), location, "ground_truth")
    answer = row.answer.strip().upper()
    if answer not in {"A", "B", "C", "TIE", ""}:
        raise location.refuse("answer", found=describe(row.answer), wanted="A, B, or C for neither, or nothing")
    scores = _chosen(item, index.get(answer)) if answer else dict.fromkeys(range(2), UNDECIDED)
    yield ImportedEntry(item, location, scores, certainty=row.certainty)


# ---------------------------------------------------------------- orders in which answers were shown

_PAIRS, _LISTS = Pairwise(Sampling()), Listwise(Sampling())
"""What judges' verdicts in several orders become, here as where a judge is asked."""
_POINTS: Mapping[str, tuple[float, float]] = {"first": (1.0, 0.0), "second": (0.0, 1.0), "tie": (0.5, 0.5)}


def _in_two_orders(
    item: Item, pair: tuple[int, int], outcomes: Sequence[str | None], *, location: Place, judge: str = ""
) -> ImportedEntry:
    """Return what a judge said of two answers as shown, and (where it was asked) of the same the other way round."""
    orders = [pair, pair[::-1]][: len(outcomes)]
    points = [UNDECIDED if outcome is None else _POINTS[outcome] for outcome in outcomes]
    scores = dict(enumerate(_PAIRS.scores(2, orders, points)))
    return ImportedEntry(item, location, scores, tuple(_PAIRS.votes(orders, points)), judge)


class JudgeCall(Part):
    """What was asked and said, and, of a model that scores, the scores of the two answers as shown."""

    scores: list[float] | None = None


class JudgmentRow(Part):
    """One of the two judgments."""

    judgment: JudgeCall | None = None
    decision: Literal["A>B", "B>A", "A=B"] | None = None


class JudgeBenchResult(Part):
    """A pair and what a judge said of it in both orders."""

    pair_id: Id
    label: Label = ""
    judge_name: Label = ""
    judgments: list[JudgmentRow | None]


_DECISIONS = {"A>B": "first", "B>A": "second", "A=B": "tie"}


def _judgebench(row: JudgeBenchResult, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    item = items.item(row.pair_id, location, "pair_id")
    first, second = items.in_order(item, 2, location, "judgments")
    if row.label in _DECISIONS:
        best = {"A>B": [first], "B>A": [second], "A=B": [first, second]}[row.label]
        check_best(item, best, location, "label")
    if not 1 <= len(row.judgments) <= 2:
        raise location.refuse("judgments", found=f"{len(row.judgments)} of them", wanted="one, or two in both orders")
    calls = [each.judgment.scores if each and each.judgment else None for each in row.judgments]
    if all(call is not None and len(call) == 2 for call in calls):
        pairs = [call[::-1] if number else call for number, call in enumerate(calls) if call is not None]
        yield ImportedEntry(item, location, {first: fmean(a for a, _ in pairs), second: fmean(b for _, b in pairs)})
        return
    outcomes = [_DECISIONS[each.decision] if each and each.decision else None for each in row.judgments]
    yield _in_two_orders(item, (first, second), outcomes, location=location)


_WORDS = {
    **dict.fromkeys(["a", "1", "first", "chosen", "true", "completion_one", "response 1", "assistant a"], "first"),
    **dict.fromkeys(["b", "2", "second", "rejected", "false", "completion_two", "response 2", "assistant b"], "second"),
    **dict.fromkeys(["tie", "c", "a=b"], "tie"),
}
"""Which answer, in the order shown, a word names: `prediction_` shows the chosen one first, `prediction_flip_` last."""
_BY_ANSWER = {"chosen", "rejected", "true", "false"}
"""Words that name an answer wherever it is shown: true says that the judge agrees with the person."""


def _personal_rb(row: PreferenceRow, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    if row.split != "test":
        return
    texts = [row.chosen.content, row.rejected.content]
    item = (
        items.item(row.id, location, "id")
        if row.id is not None
        else items.by_text(conversation(row.context), texts, location, field="context", user=row.user_id)
    )
    chosen, rejected = (item.candidate_ids.index(name) for name in ("chosen", "rejected"))
    columns = row.__pydantic_extra__
    flipped = f"{JUDGED}flip_"
    for name in columns:
        if name.startswith(JUDGED) and not name.startswith(flipped):
            judge = name.removeprefix(JUDGED)
            outcomes = [_prediction(columns[name], location, name)]
            if (other := flipped + judge) in columns:
                outcomes.append(_prediction(columns[other], location, other, flip=True))
            yield _in_two_orders(item, (chosen, rejected), outcomes, location=location, judge=judge)


def _prediction(value: object, location: Place, field: str, *, flip: bool = False) -> str | None:
    """Return which answer as shown a column names; None where it is empty."""
    word = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value).strip().lower()
    if not word:
        return None
    if word not in _WORDS:
        expected = "A or B (1 or 2, first or second, chosen or rejected), or tie"
        raise location.refuse(field, found=describe(value), wanted=expected)
    outcome = _WORDS[word]
    return {"first": "second", "second": "first"}.get(outcome, outcome) if flip and word in _BY_ANSWER else outcome


class ListwiseRow(Part):
    """A ranking of all candidates in one order, or a pick: names as in `order`, or letters of places."""

    item: Id
    order: list[Id]
    ranking: str | list[Id] | None = None
    pick: Id | None = None
    variant: Label = ""


def _listwise(row: ListwiseRow, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    item = items.item(row.item, location)
    order = tuple(items.candidate(item, name, location, "order") for name in row.order)
    if sorted(order) != list(range(len(item.candidates))):
        raise location.refuse("order", found=f"{', '.join(row.order)}", wanted=f"each candidate of {item.id!r} once")
    if row.ranking is not None and row.pick is not None:
        raise location.refuse("pick", found="a ranking beside it", wanted="one of the two")
    if row.ranking is None and row.pick is None:
        failed = dict.fromkeys(order, UNDECIDED)
        yield ImportedEntry(item, location, failed, (Vote(order, UNDECIDED.kind),), row.variant)
        return
    groups = _groups(row, location)
    if "inver" in row.variant.lower():
        groups = groups[::-1]
    above, points = 0, [0.0] * len(order)
    for group in groups:
        for slot in group:
            points[slot] = 1 - (above + (len(group) - 1) / 2) / (len(order) - 1)
        above += len(group)
    vote = Vote(order, ">".join("=".join(str(order[slot]) for slot in group) for group in groups))
    scores = dict(enumerate(_LISTS.scores(len(order), [order], [tuple(points)])))
    yield ImportedEntry(item, location, scores, (vote if len(groups) > 1 else Vote(order, "tie"),), row.variant)


def _groups(row: ListwiseRow, location: Place) -> list[list[int]]:
    """Return the places shown, best first, those that tie together; what a pick leaves ties."""
    letters = {chr(ord("A") + slot): slot for slot in range(len(row.order))}
    names = {name: slot for slot, name in enumerate(row.order)}
    field, ranking = ("pick", row.pick) if row.ranking is None else ("ranking", row.ranking)
    texts = ranking.split(">") if isinstance(ranking, str) else list(ranking or [])
    groups = []
    for text in texts:
        slots = []
        for name in text.split("=") if text.strip() not in names else [text]:
            word = name.strip()
            slot = names.get(word, letters.get(word))
            if slot is None or letters.get(word, slot) != slot:
                why = "is a name and a place" if slot is not None else "is neither name nor place"
                actual = f"{shortened(word)!r}, which {why}"
                raise location.refuse(field, found=actual, wanted="names as in 'order', or letters of places")
            slots.append(slot)
        groups.append(slots)
    rest = sorted(set(names.values()) - {slot for group in groups for slot in group})
    if sum(map(len, groups)) + len(rest) != len(names) or (rest and field == "ranking"):
        raise location.refuse(field, found=describe(ranking), wanted="every candidate that was shown, once")
    return [*groups, rest] if rest else groups


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How a row is read, and which rows of an item go together."""

    summary: str
    read: Callable[[Mapping[str, object], Place, Matching], Iterator[ImportedEntry]]
    method: str
    """How its scores come about."""
    per: Literal["item", "candidate", "order"]
    rows: Callable[[Path, Refuse], Iterator[tuple[Place, Mapping[str, object]]]] | None = None  # None: CSV, JSON


def _format(
    summary: str,
    row: type[PartT],
    entries: Callable[[PartT, Place, Matching], Iterator[ImportedEntry]],
    *,
    method: str = "score: as in the file",
    per: Literal["item", "candidate", "order"] = "item",
) -> FileFormat:
    def read(raw: Mapping[str, object], location: Place, items: Matching) -> Iterator[ImportedEntry]:
        part = checked(row, raw, location, items.dirt)
        items.dirt.accept()
        return entries(part, location, items)

    return FileFormat(summary, read, method, per)


_CHOICE = "score: 1 for the choice, 0 for the others"
_ORDERS = "score: share of two orders won, half where they disagree; those of a model that scores as in the file"
_RANKS = "score: 1 for the first to 0 for the last, mean over the orders"

FORMATS: Mapping[str, FileFormat] = {
    "scores": _format("item, candidate and score", CandidateRow, _scores, per="candidate"),
    "choices": _format("item and choice (or win)", ChoiceRow, _choices, method=_CHOICE),
    "rewardbench2": _format("id, num_correct and scores, the correct ones first", RewardBench2Result, _rewardbench2),
    "rewardmath": _format("problem and score: of each answer, or of its steps", RewardMathResult, _rewardmath),
    "judgebench": _format("pair_id and judgments in two orders", JudgeBenchResult, _judgebench, method=_ORDERS),
    "listwise": _format("item, order, and ranking or pick", ListwiseRow, _listwise, method=_RANKS, per="order"),
    "personal-rb": _format("the benchmark's columns and prediction_JUDGE", PreferenceRow, _personal_rb, method=_ORDERS),
    "answers": _format("question, asst_A, asst_B and answer", AnswerChoiceRow, _answers, method=_CHOICE),
}
