r"""May a judge be trusted? Its places, the inverted question, other words, other letters, and length.

>>> import tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> found = judge_trust(load_benchmark("pocket-prb"), "longest", out=tempfile.mkdtemp())
>>> [check.name for check in found.checks if check.colour == "red"]
['verbosity']
>>> plain("I don't know. It's late, i.e. we can't go.\nSorry.", random.Random(1))
"I do not know. It's late, that is, we cannot go.\n\nSorry."

Every probe is a benchmark made from the first by a pure function of its items, or the same judge asked in another form
(`probed`); both are scored by the run loop. The runs: the items as they are; every rotation of the candidates (none
where the judge asks in balanced orders itself, or scores answers one by one); question reworded; answers reworded; a
rejected answer padded; question inverted; letters reversed. `orders` reads the calls, `judge_checks` measures.

Rewriting is by rule: contractions that mean one thing are spelled out (or made, where there is none), abbreviations
spelled out, paragraphs set anew; lists and code keep their lines.

Accuracy over all orders needs no model. Ability does: a place adds to the log odds (`stats.regression`). Who in some
calls ignores the answers and takes the first place is outside of that model, and its ability is underestimated.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from pluralrm import runs
from pluralrm.attack import BenchmarkScorer
from pluralrm.attack.attacks import ATTACKS, Alter, attacked, derived
from pluralrm.attack.effects import Check, ProbedModel
from pluralrm.attack.judge_checks import PAD, ProbedJudge
from pluralrm.attack.orders import JudgedItems, Ordered, balanced, mirrored
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, Estimate, Item, RewardModel, Run
from pluralrm.display import json_fields
from pluralrm.errors import MetricError, ModelError, SpecError
from pluralrm.models import compares, load_model
from pluralrm.models.declarations import JudgeProbe, PluginModel, Questionable, compares_of
from pluralrm.stats.clusters import FloatArray

# ---------------------------------------------------------------- what is shown otherwise: another order, other words


def turned(shift: int) -> Alter:
    """Return what turns the candidates of an item: the one at place `shift` comes first; None where there is none."""

    def alter(item: Item, seed: int) -> Item | None:
        del seed
        count = len(item.candidates)
        if shift >= count:
            return None
        order = [(position + shift) % count for position in range(count)]
        return replace(
            item,
            candidates=tuple(item.candidates[index] for index in order),
            candidate_ids=tuple(item.candidate_ids[index] for index in order) if item.candidate_ids else (),
            preferred=None if item.preferred is None else order.index(item.preferred),
            grades=tuple(item.grades[index] for index in order) if item.grades else (),
        )

    return alter


_OPENINGS = (
    "Here is what I would like to know.",
    "This is my question.",
    "I have the following question.",
    "Could you help me with this?",
)


def question(item: Item, seed: int) -> Item:
    """Return the item with its question in other words: an opening, and the rules for texts. It stays one prompt."""
    rng = random.Random(f"{seed}:{item.id}:question")
    return replace(item, prompt=f"{rng.choice(_OPENINGS)}\n\n{plain(item.prompt, rng)}", prompt_id=item.crossed)


def answers(item: Item, seed: int) -> Item | None:
    """Return the item with all of its answers in other words, by the same rules; None where no rule applies."""
    texts = tuple(plain(text, random.Random(f"{seed}:{item.id}:{text}")) for text in item.candidates)
    if texts == item.candidates or len(set(texts)) < len(set(item.candidates)):
        return None
    return replace(item, candidates=texts)


_NEGATED = ("do", "does", "did", "is", "are", "was", "were", "would", "should", "could", "has", "have", "had")
_CONTRACTIONS: Mapping[str, str] = {
    "cannot": "can't",
    "will not": "won't",
    "I am": "I'm",
    **{f"{verb} not": f"{verb}n't" for verb in _NEGATED},
    **{f"{who} will": f"{who}'ll" for who in ("I", "you", "we", "they", "it")},
    **{f"{who} are": f"{who}'re" for who in ("you", "we", "they")},
}
"""Those of 's and 'd are left out: they mean several things."""
_ABBREVIATIONS: Mapping[str, str] = {"e.g.": "for example,", "i.e.": "that is,", "etc.": "and so on."}


def _rules(words: Mapping[str, str], after: str) -> dict[re.Pattern[str], str]:
    return {re.compile(rf"(?<![\w'’]){re.escape(old)}{after}", re.IGNORECASE): new for old, new in words.items()}


_SPELLED_OUT = _rules({short: long for long, short in _CONTRACTIONS.items()}, r"(?![\w'’])")
_CONTRACTED = _rules(_CONTRACTIONS, r"(?![\w'’])")
_EXPANDED = _rules(_ABBREVIATIONS, ",?")
_LAYOUT = re.compile(r"```|^(?: {2,}|\t)\S|^\s*[|>#]|^\s*(?:[-*+]|\d+[.)])\s", re.MULTILINE)
"""Code, tables, lists and headings: their lines mean something."""
_LINE = re.compile(r"(?<!\n)\n(?!\n)")
_SENTENCE = re.compile(r"(?<=\w{2}[.!?]) +(?=[A-Z])")


def plain(text: str, rng: random.Random) -> str:
    """Return a text that says the same: contractions and abbreviations the other way round, paragraphs set anew."""
    straight = text.replace("’", "'")
    whole = _replaced(straight, _SPELLED_OUT)
    whole = _replaced(whole if whole != straight else _replaced(straight, _CONTRACTED), _EXPANDED)
    if _LAYOUT.search(text):
        return whole
    if "\n" in whole.strip():
        return _LINE.sub("\n\n", whole) if _LINE.search(whole) else re.sub(r"\n{2,}", "\n", whole)
    ends = [match.span() for match in _SENTENCE.finditer(whole)]
    if not ends:
        return whole
    start, end = rng.choice(ends)
    return f"{whole[:start]}\n\n{whole[end:]}"


def _replaced(text: str, rules: Mapping[re.Pattern[str], str]) -> str:
    for pattern, words in rules.items():
        text = pattern.sub(partial(_cased, words), text)
    return text


def _cased(words: str, match: re.Match[str]) -> str:
    """Return the words with a capital where the text had one."""
    return words[0].upper() + words[1:] if match[0][0].isupper() else words


# ---------------------------------------------------------------- what the probes say

_WORDED: Mapping[str, tuple[str, Alter]] = {
    "question": ("the question is put in other words", question),
    "answers": ("all answers are put in other words", answers),
}
_VARIANTS: Mapping[str, JudgeProbe] = {"polarity": "inverted", "labels": "relabelled"}


@dataclass(frozen=True, slots=True)
class PlaceRate:
    """One place: how often a best answer stands there as the items are given; how often it wins, and a fair share."""

    place: int
    exposure: float
    wins: Estimate
    fair: float


@dataclass(frozen=True, slots=True)
class PlaceCredits:
    """What each item earned in the one order given, and over all; the same judge's rank may differ between the two."""

    items: JudgedItems
    one_order: FloatArray | None
    all_orders: FloatArray


@dataclass(frozen=True, slots=True)
class JudgeTrust(ProbedModel):
    """What the probes say of one judge.

    `one_order` is its accuracy as the items are given, `all_orders` with the places averaged out, `ability` without any
    effect of places; `why` says why there is no ability.
    """

    checks: tuple[Check, ...]
    places: tuple[PlaceRate, ...]
    one_order: Estimate | None
    all_orders: Estimate
    ability: Estimate | None
    why: str
    credits: PlaceCredits = field(repr=False, compare=False)

    @property
    def red(self) -> bool:
        """True where a check shows a flaw."""
        return any(check.colour == "red" for check in self.checks)

    def records(self) -> list[dict[str, object]]:
        """Return a flat row per check."""
        return [json_fields(self, "benchmark", "model", "condition") | check.record() for check in self.checks]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return self.head | json_fields(self, "checks", "places", "one_order", "all_orders", "ability", "why")


# ---------------------------------------------------------------- runs


def probe_benchmarks(benchmark: Benchmark, model: RewardModel | str) -> list[str]:
    """Return what the benchmarks to be scored are called beside the first: turns, other words, padding."""
    name = benchmark.card.name
    return [f"{name}+{probe}" for probe in (*(f"turn{shift}" for shift in _shifts(benchmark, model)), *_WORDED, PAD)]


def _shifts(benchmark: Benchmark, model: RewardModel | str) -> range:
    most = max((len(item.candidates) for item in benchmark.items), default=0)
    return range(1, most) if _in_company(model) else range(0)


def _in_company(model: RewardModel | str) -> bool:
    """Return whether a candidate's score may depend on the others, and so on their order."""
    if isinstance(model, str):
        return compares(model)
    try:
        return compares(model.spec)
    except SpecError:  # an object of the user's own: its spec is just a name
        return compares_of(model)


def judge_trust(
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    seed: int = 0,
    score: BenchmarkScorer = runs.score,
) -> JudgeTrust:
    """Return what the probes say of a judge; `out` is the folder of the runs, which are resumed.

    A probe that has no meaning for the model is skipped with the reason; one that stops it is red.
    """
    condition = load_condition(condition) if isinstance(condition, str) else condition
    base = score(benchmark, model, condition, out=out)
    skipped: dict[str, str] = {}
    broken: dict[str, str] = {}
    shifts = range(0) if all(map(balanced, base.rows)) else _shifts(benchmark, model)
    if not (shifts or any(row.votes for row in base.rows)):
        skipped["places"] = "each answer is scored by itself, so it stands in no place"

    def scored(check: str, probe: Benchmark, judge: RewardModel | str | _Reason = model) -> Run | None:
        if isinstance(judge, _Reason) or not probe.items:
            skipped[check] = judge if isinstance(judge, _Reason) else f"no item of {benchmark.card.name} can be changed"
            return None
        try:
            return score(probe, judge, condition, out=out)
        except ModelError as exc:
            broken[check] = str(exc)
        return None

    by_shift = {
        shift: derived(benchmark, f"turn{shift}", "the candidates are turned", turned(shift)) for shift in shifts
    }
    turns = {shift: run for shift, probe in by_shift.items() if (run := scored("places", probe)) is not None}
    worded = {name: derived(benchmark, name, does, alter, seed=seed) for name, (does, alter) in _WORDED.items()}
    probes = {name: scored(name, probe) for name, probe in worded.items()}
    probes["verbosity"] = scored("verbosity", attacked(benchmark, ATTACKS[PAD], seed=seed))
    probes |= {name: scored(name, benchmark, _variant(model, form)) for name, form in _VARIANTS.items()}
    ordered = Ordered.of(base, turns, seed=seed)
    probed = ProbedJudge(base, ordered, {name: run for name, run in probes.items() if run is not None})
    return _trust(base, probed, probed.checks(skipped, broken), places="places" not in skipped)


class _Reason(str):
    """Why a probe has no meaning for a model."""

    __slots__ = ()


def _variant(model: RewardModel | str, probe: JudgeProbe) -> RewardModel | str | _Reason:
    """Return the model asked in another form, by its spec where the model is known by one."""
    loaded = load_model(model) if isinstance(model, str) else model
    if not isinstance(loaded, Questionable):
        return _Reason("it is asked no question in words, and names no answers")
    variant = loaded.probed(probe)
    if isinstance(variant, str):
        return _Reason(variant)
    return variant.spec if isinstance(model, str) and not isinstance(variant, PluginModel) else variant


# ---------------------------------------------------------------- numbers


def _trust(base: Run, probed: ProbedJudge, checks: Sequence[Check], *, places: bool) -> JudgeTrust:
    ordered = probed.ordered
    whole, first = ordered.credits()
    ability, why = _ability(ordered) if places else (None, "no answer stands in a place")
    head = ProbedModel.of(base, complete=probed.complete)
    return JudgeTrust(
        **{part.name: getattr(head, part.name) for part in fields(head)},
        checks=tuple(checks),
        places=tuple(_rates(ordered)) if places else (),
        one_order=None if first is None else ordered.items.share(first),
        all_orders=ordered.items.share(whole),
        ability=ability,
        why=why,
        credits=PlaceCredits(ordered.items, first, whole),
    )


def _ability(ordered: Ordered) -> tuple[Estimate | None, str]:
    try:
        return ordered.items.estimate(ordered.fit().ability), ""
    except MetricError as exc:
        return None, str(exc)


def _rates(ordered: Ordered) -> Iterator[PlaceRate]:
    for position in range(ordered.width):
        items, wins, fair = ordered.place(position)
        yield PlaceRate(position + 1, ordered.exposure(position), items.share(wins), float(fair.mean()))


# ---------------------------------------------------------------- several judges


class JudgeRank(NamedTuple):
    """A judge's rank by one order of the candidates, by all orders, and by ability; None where there is no number."""

    model: str
    one_order: int | None
    all_orders: int | None
    ability: int | None


class RankChange(NamedTuple):
    """Two judges whose order differs: how much the first leads by one order, and by all orders, where it does not."""

    first: str
    second: str
    one_order: Estimate
    all_orders: Estimate


def judge_ranks(results: Sequence[JudgeTrust]) -> list[JudgeRank]:
    """Return the ranks of judges of one benchmark and condition; 1 is the best, equal judges share the better rank."""
    columns = zip(*((each.one_order, each.all_orders, each.ability) for each in results), strict=True)
    ranks = zip(*map(_ranks, columns), strict=True)
    return [JudgeRank(result.model, *own) for result, own in zip(results, ranks, strict=True)]


def _ranks(values: Sequence[Estimate | None]) -> list[int | None]:
    numbers = [each.value for each in values if each is not None]
    return [None if each is None else 1 + sum(value > each.value + _EQUAL for value in numbers) for each in values]


def rank_changes(results: Sequence[JudgeTrust]) -> list[RankChange]:
    """Return the pairs of judges that one order and all orders rank differently, each with both paired differences."""
    changes = []
    for pair in combinations(results, 2):
        first, second = (each.credits for each in pair)
        if first.one_order is None or second.one_order is None:
            continue
        given_order = first.items.lead(first.one_order, second.one_order)
        whole = first.items.lead(first.all_orders, second.all_orders)
        if given_order.value * whole.value < 0:
            (ahead, behind) = pair if given_order.value > 0 else pair[::-1]
            changes.append(
                RankChange(
                    ahead.model, behind.model, *(_leading(each, given_order.value) for each in (given_order, whole))
                )
            )
    return changes


def _leading(difference: Estimate, side: float) -> Estimate:
    return difference if side > 0 else mirrored(difference)


_EQUAL = 1e-12
