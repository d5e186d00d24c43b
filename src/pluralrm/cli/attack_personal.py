"""`pluralrm attack --personal`: is a personalized reward model safe to show it the user?"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pluralrm.cli.terminal import Kind, clean, console, note, print_legend, print_wrapped, table, with_interval
from pluralrm.errors import ConditionError, SpecError
from pluralrm.progress import JobStep, size_of
from pluralrm.text import counted, points

if TYPE_CHECKING:
    from pluralrm.attack import BenchmarkScorer
    from pluralrm.attack.personal import PersonalSafety, SafetyMeasure, SafetyQuestion
    from pluralrm.attack.swaps import SafetyTerms
    from pluralrm.core import Benchmark, RewardModel
    from pluralrm.runs import GridCell

_COLUMNS: "Sequence[tuple[str, Kind]]" = (
    ("question", "left"),
    ("share of items", "left"),
    ("rate", "right"),
    ("beside", "right"),
    ("difference [90%]", "left"),
    ("result", "left"),
)
STYLES = {"grey": "bright_black"}
"""What the terminal calls a colour, where that is not its name."""
_MOST = 3
"""Items that are named."""


class SafetyScoring(Protocol):
    """Where the runs go, and what scores them."""

    @property
    def out(self) -> Path:
        """The folder."""

    @property
    def scoring(self) -> "BenchmarkScorer":
        """Scores a benchmark."""


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

    def measure(self, cell: "GridCell", model: "RewardModel | str", how: SafetyScoring) -> "PersonalSafety":
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
    print_wrapped(
        f"{safety.benchmark}: {safety.items:,} items, {people}; {safety.model} under {safety.condition}", style="bold"
    )
    rows: list[list[str]] = []
    styles: dict[int, str] = {}
    for question in safety.questions:
        colour = question.colour
        for number, measure in enumerate(question.measures):
            styles[len(rows)] = STYLES.get(colour, colour)
            rows.append(_row(question, measure, first=number == 0))
    console().print(table(_COLUMNS, rows, styles=styles))
    print_legend(_legend(safety))
    for question in sorted(safety.questions, key=lambda each: ("red", "grey", "green").index(each.colour)):
        colour = question.colour
        print_wrapped(question.sentence, first=f"{colour:<8}", indent=" " * 8, style=STYLES.get(colour, colour))
        if colour == "red" and question.items:
            _print_items(question)
    for reason in dict.fromkeys(safety.skipped.values()):
        names = ", ".join(name for name, why in safety.skipped.items() if why == reason)
        note(f"skipped {names}: {reason}")


def _row(question: "SafetyQuestion", measure: "SafetyMeasure", *, first: bool) -> list[str]:
    shares = [f"{100 * share:.1f}" for share in (measure.first, measure.second)]
    difference = with_interval(points(measure.difference), measure.difference)
    name, colour = (question.name, question.colour) if first else ("", "")
    return [name, measure.terms.share, *shares, difference + "*" * measure.beyond, colour]


def _legend(safety: "PersonalSafety") -> Iterator[str]:
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
