"""Two questions of `pluralrm attack`: may a judge be trusted (--judge), and is a model safe for users (--personal)?

A judge: places, the inverted question, other words, letters, length. A personalized model: safe to show it the user?
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.cli.terminal import Kind, clean, console, note, percent, print_legend, print_wrapped, table, with_interval
from pluralrm.errors import ConditionError, SpecError
from pluralrm.progress import JobStep, size_of
from pluralrm.text import bounds, counted, points

if TYPE_CHECKING:
    from pluralrm.attack import Robustness
    from pluralrm.attack.effects import Check
    from pluralrm.attack.judge import JudgeTrust
    from pluralrm.attack.personal import PersonalSafety, SafetyMeasure, SafetyQuestion
    from pluralrm.attack.swaps import SafetyTerms
    from pluralrm.card import Card
    from pluralrm.cli.attack import AttackOptions
    from pluralrm.core import Benchmark, Estimate, RewardModel
    from pluralrm.runs import GridCell

_STYLES = {"grey": "bright_black"}
"""What the terminal calls a colour, where that is not its name."""


def _style(colour: str) -> str:
    return _STYLES.get(colour, colour)


def print_head(result: "Robustness | JudgeTrust", card: "Card") -> None:
    """Print what a result is about, and what must be known of it first."""
    console().print()
    clusters = counted(result.clusters, card.cluster)
    title = f"{result.benchmark}: {result.items:,} items, {clusters}; {result.model} under {result.condition}"
    print_wrapped(title, style="bold")
    if "oracle" in result.reveals:
        print_wrapped("ORACLE: the model saw the rubric", style="red")
    if result.pairs:
        print_wrapped(f"SYNTHESISED: the model was shown {result.pairs}", style="yellow")


def print_sign(text: str, colour: str) -> None:
    """Print a sentence behind its colour."""
    print_wrapped(text, first=f"{colour:<8}", indent=" " * 8, style=_style(colour))


def note_left_out(skipped: "Mapping[str, str]") -> None:
    """Say what was left out, each reason once."""
    for reason in dict.fromkeys(skipped.values()):
        names = ", ".join(name for name, why in skipped.items() if why == reason)
        note(f"skipped {names}: {reason}")


# ---------------------------------------------------------------- a judge

_CHECKS: "Sequence[tuple[str, Kind]]" = (
    ("check", "left"),
    ("measures", "left"),
    ("judge [95%]", "left"),
    ("sound", "right"),
    ("", "left"),
)
_PLACES: "Sequence[tuple[str, Kind]]" = (
    ("place", "right"),
    ("a best answer stands there", "right"),
    ("wins [95%]", "left"),
    ("fair", "right"),
)
_RANKS: "Sequence[tuple[str, Kind]]" = (
    ("judge", "name"),
    ("order given", "right"),
    ("rank", "right"),
    ("all orders", "right"),
    ("rank", "right"),
    ("ability", "right"),
    ("rank", "right"),
)


def judge_steps(cells: "Sequence[GridCell]") -> Iterator[JobStep]:
    """Yield the runs to come: a cell's benchmark as it is, and under each probe."""
    from pluralrm.attack.judge import probe_benchmarks

    for cell in (each for each in cells if each.skip is None):
        size = size_of(cell.benchmark)
        for name in [cell.benchmark.card.name, *probe_benchmarks(cell.benchmark, cell.model)]:
            yield JobStep(f"{name} × {cell.model} × {cell.condition.spec}", cell.model, size)


def measure_judge(cell: "GridCell", model: "RewardModel | str", how: "AttackOptions") -> "JudgeTrust":
    """Return what the probes say of one judge under one condition."""
    from pluralrm.attack.judge import judge_trust

    return judge_trust(cell.benchmark, model, cell.condition, out=how.out, seed=how.seed, score=how.scoring)


def print_trust(trust: "JudgeTrust", card: "Card") -> None:
    """Print a row per check, one per place, what it is right, and a sentence per check."""
    print_head(trust, card)
    styles = {number: _style(check.colour) for number, check in enumerate(trust.checks) if check.colour != "green"}
    console().print(table(_CHECKS, [_check_row(check) for check in trust.checks], styles=styles))
    print_legend(_trust_legend(trust))
    if trust.places:
        rows = [
            [str(rate.place), f"{100 * rate.exposure:.1f}", percent(rate.wins), f"{100 * rate.fair:.1f}"]
            for rate in trust.places
        ]
        console().print(table(_PLACES, rows))
    print_wrapped(f"right: {'; '.join(_accuracies(trust))}")
    for check in trust.checks:
        print_sign(check.text, check.colour)


def _check_row(check: "Check") -> list[str]:
    if check.value is None or check.sound is None:
        return [check.name, check.measures, "–", "–", check.colour]
    star = "*" * (check.colour in {"red", "yellow"})
    value = with_interval(f"{100 * check.value.value:.1f}", check.value) + star
    return [check.name, check.measures, value, f"{100 * check.sound:.1f}", check.colour]


def _trust_legend(trust: "JudgeTrust") -> Iterator[str]:
    tested = sum(check.p_adjusted is not None for check in trust.checks)
    yield f"Per cent. * p < 0.05 that the harm is 0, Holm over {counted(tested, 'check')}."
    methods = dict.fromkeys(check.value.method for check in trust.checks if check.value is not None)
    yield from (f"interval: {method}" for method in methods)
    if trust.failed:
        yield f"{counted(trust.failed, 'item')} failed as given: nothing is known of them, and the ends reach as far."


def _accuracies(trust: "JudgeTrust") -> Iterator[str]:
    if not trust.places:
        yield percent(trust.all_orders)
        return
    if trust.one_order is not None:
        yield f"in the order given {percent(trust.one_order)}"
    yield f"over all orders {percent(trust.all_orders)}"
    yield f"ability, were all places alike, {percent(trust.ability)}" if trust.ability else f"no ability: {trust.why}"


def print_ranks(results: "Sequence[JudgeTrust]") -> None:
    """Print the ranks of several judges with and without places, and who changes rank; nothing for one judge."""
    from pluralrm.attack.judge import judge_ranks, rank_changes

    groups: dict[tuple[str, str], list[JudgeTrust]] = {}
    for result in results:
        groups.setdefault((result.benchmark, result.condition), []).append(result)
    for (benchmark, condition), members in groups.items():
        if len(members) < 2:
            continue
        console().print()
        print_wrapped(f"ranks on {benchmark} under {condition}", style="bold")
        rows = []
        for trust, rank in zip(members, judge_ranks(members), strict=True):
            pairs = zip((trust.one_order, trust.all_orders, trust.ability), rank[1:], strict=True)
            rows.append([trust.model, *(cell for value, number in pairs for cell in _ranked(value, number))])
        console().print(table(_RANKS, rows))
        for change in rank_changes(members):
            by_one, by_all = (f"{points(each)}{bounds(each)}" for each in (change.one_order, change.all_orders))
            pair = f"{change.first} leads {change.second}"
            print_sign(f"{pair} in the order given ({by_one}), and not over all orders ({by_all})", "yellow")


def _ranked(value: "Estimate | None", rank: int | None) -> tuple[str, str]:
    return ("–", "–") if value is None or rank is None else (f"{100 * value.value:.1f}", str(rank))


# ---------------------------------------------------------------- a personalized model

_QUESTIONS: "Sequence[tuple[str, Kind]]" = (
    ("question", "left"),
    ("share of items", "left"),
    ("rate", "right"),
    ("beside", "right"),
    ("difference [90%]", "left"),
    ("result", "left"),
)
_MOST = 3
"""Items that are named."""


class PersonalOptions(NamedTuple):
    """The flags of --personal."""

    personal: bool
    general: str
    traits: list[str]
    margin: float
    seed: int

    def check(self, attacks: Sequence[str]) -> None:
        """Raise where flags have no meaning together."""
        if self.personal and attacks:
            raise SpecError("--attack: found beside --personal, which has probes of its own; leave one of them out")
        if not self.personal and (self.general or self.traits):
            flag = "--general" if self.general else "--trait"
            raise SpecError(f"{flag}: has a meaning only with --personal; add it")

    def conditions(self, benchmarks: "Sequence[Benchmark]", conditions: list[str]) -> list[str]:
        """Return the conditions; with --personal in place of none posts, or traits where there are none."""
        if not self.personal or conditions != ["none"]:
            return conditions
        return ["raw:10" if any(benchmark.has_posts for benchmark in benchmarks) else "traits"]

    @property
    def terms(self) -> "SafetyTerms":
        """What counts as a difference."""
        from pluralrm.attack.swaps import SafetyTerms

        return SafetyTerms(margin=self.margin / 100, traits=tuple(dict.fromkeys(self.traits)), seed=self.seed)

    def open_general(self) -> "Benchmark | None":
        """Return the benchmark whose answers are right for anybody, or None where none is named."""
        from pluralrm.cli.options import open_benchmark

        return open_benchmark(self.general, seed=self.seed) if self.general else None

    def steps(self, cells: "Sequence[GridCell]") -> Iterator[JobStep]:
        """Yield the runs to come."""
        from pluralrm.attack.swaps import safety_plan

        general = self.open_general()
        for cell in (each for each in cells if each.skip is None):
            try:
                plan = safety_plan(cell.benchmark, cell.condition, general=general, terms=self.terms)
            except ConditionError:
                continue  # said when it is this cell's turn
            for bench, condition in plan.steps.values():
                title = f"{bench.card.name} × {cell.model} × {condition.spec}"
                yield JobStep(title, cell.model, size_of(bench))

    def measure(self, cell: "GridCell", model: "RewardModel | str", how: "AttackOptions") -> "PersonalSafety":
        """Return what is said of one model under one condition."""
        from pluralrm.attack.personal import safe_personalization

        return safe_personalization(
            cell.benchmark,
            model,
            cell.condition,
            out=how.out,
            general=self.open_general(),
            terms=self.terms,
            score=how.scoring,
        )


def print_safety(safety: "PersonalSafety") -> None:
    """Print a row per measure, a sentence per question, and which items speak against the model."""
    console().print()
    people = counted(safety.people, "user")
    title = f"{safety.benchmark}: {safety.items:,} items, {people}; {safety.model} under {safety.condition}"
    print_wrapped(title, style="bold")
    if safety.pairs:
        print_wrapped(f"SYNTHESISED: the model was shown {safety.pairs}", style="yellow")
    rows: list[list[str]] = []
    styles: dict[int, str] = {}
    for question in safety.questions:
        for number, measure in enumerate(question.measures):
            styles[len(rows)] = _style(question.colour)
            rows.append(_measure_row(question, measure, first=number == 0))
    console().print(table(_QUESTIONS, rows, styles=styles))
    print_legend(_safety_legend(safety))
    for question in sorted(safety.questions, key=lambda each: ("red", "grey", "green").index(each.colour)):
        print_sign(question.sentence, question.colour)
        if question.colour == "red" and question.items:
            _print_items(question)
    note_left_out(safety.skipped)


def _measure_row(question: "SafetyQuestion", measure: "SafetyMeasure", *, first: bool) -> list[str]:
    shares = [f"{100 * share:.1f}" for share in (measure.first, measure.second)]
    difference = with_interval(points(measure.difference), measure.difference)
    name, colour = (question.name, question.colour) if first else ("", "")
    return [name, measure.terms.share, *shares, difference + "*" * measure.beyond, colour]


def _safety_legend(safety: "PersonalSafety") -> Iterator[str]:
    terms = safety.terms
    beside = {each.terms.share: each.terms.against for question in safety.questions for each in question.measures}
    yield f"beside: {'; '.join(f'{share}: {against}' for share, against in beside.items())}"
    margins = f"{100 * terms.margin:g} points, of repeated posts {100 * terms.leak_rate:g}"
    yield f"Margin: {margins}. Green: the interval lies within; grey: too few items."
    tested = sum(each.p_beyond is not None for question in safety.questions for each in question.measures)
    yield f"* beyond the margin: p < 0.05, Holm over {counted(tested, 'difference')}."


def _print_items(question: "SafetyQuestion") -> None:
    names = ", ".join(question.items[:_MOST])
    text = f"{counted(len(question.items), 'item')}: {names}{', ...' * (len(question.items) > _MOST)}"
    print_wrapped(text, first=" " * 8, indent=" " * 8)
    if question.path:
        command = shlex.join(["pluralrm", "show", question.path, "--item", question.items[0]])
        console().print(f"        {clean(command)}", soft_wrap=True)
