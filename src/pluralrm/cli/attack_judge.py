"""`pluralrm attack --judge`: may a judge be trusted? Places, the inverted question, other words, letters, length."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pluralrm.cli.terminal import Kind, console, percent, print_legend, print_wrapped, table, with_interval
from pluralrm.progress import JobStep, size_of
from pluralrm.text import bounds, counted, points

if TYPE_CHECKING:
    from pluralrm.attack import BenchmarkScorer
    from pluralrm.attack.effects import Check
    from pluralrm.attack.judge import JudgeTrust
    from pluralrm.card import Card
    from pluralrm.core import Estimate, RewardModel
    from pluralrm.runs import GridCell

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
_STYLES = {"grey": "bright_black"}
"""What the terminal calls a colour, where that is not its name."""


class JudgeScoring(Protocol):
    """Where the runs go, what scores them, and the seed of words."""

    @property
    def out(self) -> Path:
        """The folder."""
        ...

    @property
    def seed(self) -> int:
        """The seed."""
        ...

    @property
    def scoring(self) -> "BenchmarkScorer":
        """Scores a benchmark."""
        ...


def judge_steps(cells: "Sequence[GridCell]") -> Iterator[JobStep]:
    """Yield the runs to come: a cell's benchmark as it is, and under each probe."""
    from pluralrm.attack.judge import probe_benchmarks

    for cell in (each for each in cells if each.skip is None):
        size = size_of(cell.benchmark)
        for name in [cell.benchmark.card.name, *probe_benchmarks(cell.benchmark, cell.model)]:
            yield JobStep(f"{name} × {cell.model} × {cell.condition.spec}", cell.model, size)


def measure_judge(cell: "GridCell", model: "RewardModel | str", how: JudgeScoring) -> "JudgeTrust":
    """Return what the probes say of one judge under one condition."""
    from pluralrm.attack.judge import judge_trust

    return judge_trust(cell.benchmark, model, cell.condition, out=how.out, seed=how.seed, score=how.scoring)


def print_trust(trust: "JudgeTrust", card: "Card") -> None:
    """Print a row per check, one per place, what it is right, and a sentence per check."""
    console().print()
    clusters = counted(trust.clusters, card.cluster)
    title = f"{trust.benchmark}: {trust.items:,} items, {clusters}; {trust.model} under {trust.condition}"
    print_wrapped(title, style="bold")
    if "oracle" in trust.reveals:
        print_wrapped("ORACLE: the model saw the rubric", style="red")
    if trust.pairs:
        print_wrapped(f"SYNTHESISED: the model was shown {trust.pairs}", style="yellow")
    styles = {number: _style(check.colour) for number, check in enumerate(trust.checks) if check.colour != "green"}
    console().print(table(_CHECKS, [_row(check) for check in trust.checks], styles=styles))
    print_legend(_legend(trust))
    if trust.places:
        rows = [
            [str(rate.place), f"{100 * rate.exposure:.1f}", percent(rate.wins), f"{100 * rate.fair:.1f}"]
            for rate in trust.places
        ]
        console().print(table(_PLACES, rows))
    print_wrapped(f"right: {'; '.join(_accuracies(trust))}")
    for check in trust.checks:
        print_wrapped(check.text, first=f"{check.colour:<8}", indent=" " * 8, style=_style(check.colour))


def _style(colour: str) -> str:
    return _STYLES.get(colour, colour)


def _row(check: "Check") -> list[str]:
    if check.value is None or check.sound is None:
        return [check.name, check.measures, "–", "–", check.colour]
    star = "*" * (check.colour in {"red", "yellow"})
    value = with_interval(f"{100 * check.value.value:.1f}", check.value) + star
    return [check.name, check.measures, value, f"{100 * check.sound:.1f}", check.colour]


def _legend(trust: "JudgeTrust") -> Iterator[str]:
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
            text = f"{pair} in the order given ({by_one}), and not over all orders ({by_all})"
            print_wrapped(text, first=f"{'yellow':<8}", indent=" " * 8, style="yellow")


def _ranked(value: "Estimate | None", rank: int | None) -> tuple[str, str]:
    return ("–", "–") if value is None or rank is None else (f"{100 * value.value:.1f}", str(rank))
