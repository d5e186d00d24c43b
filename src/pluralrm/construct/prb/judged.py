"""Why a text may not stay, by what judges gave it."""

from collections.abc import Iterator, Sequence

from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.construct.pipeline.work import Refusal
from pluralrm.construct.prb.products import Marks, Side, share
from pluralrm.construct.prb.rules import Rules

_EPSILON = 1e-9


def refusals(
    marks: Marks, beside: Marks | None, *, side: Side, rules: Rules, rubric: Sequence[AspectRow]
) -> list[Refusal]:
    """Return why an answer of these marks may not stay; `beside` are the chosen one's, None for itself."""
    found = [*_adherence(marks, side, rules, rubric), *_quality(marks, beside, rules)]
    if side.task == "contrary" and beside is not None:
        found += [*_opposite(marks, rules, rubric), *_coverage(marks, beside, rules)]
    return found


def _adherence(marks: Marks, side: Side, rules: Rules, rubric: Sequence[AspectRow]) -> Iterator[Refusal]:
    """Yield that a chosen answer gives too little of what the user expects, or a rejected one too much."""
    found = share(marks.adherence)
    if side.task == "meet" and found < rules.high - _EPSILON:
        missed = _named(rubric, [points < 2 for points in marks.adherence])
        yield Refusal(
            "adherence", f"it gives {found:.0%} of what is expected, wanted {rules.high:.0%}; too little: {missed}"
        )
    if side.task != "meet" and found > rules.low + _EPSILON:
        given = _named(rubric, [points > 0 for points in marks.adherence])
        yield Refusal(
            "adherence", f"it gives {found:.0%} of what it has to do without, wanted {rules.low:.0%} at most: {given}"
        )


def _quality(marks: Marks, beside: Marks | None, rules: Rules) -> Iterator[Refusal]:
    """Yield the dimensions of quality in which an answer is below the floor or too far from the chosen one."""
    other = beside.quality.model_dump() if beside else {}
    for name, points in marks.quality.model_dump().items():
        if points < rules.floor:
            yield Refusal("quality", f"its {name} is rated {points} of 5, wanted {rules.floor} or more")
        elif abs(points - other.get(name, points)) > rules.margin:
            yield Refusal(
                "quality",
                f"its {name} is rated {points} of 5, wanted within {rules.margin} of the other's {other[name]}",
            )


def _opposite(marks: Marks, rules: Rules, rubric: Sequence[AspectRow]) -> Iterator[Refusal]:
    """Yield that an answer is not plainly of the opposite taste."""
    found = share(marks.opposite)
    if found < rules.opposite - _EPSILON:
        missed = _named(rubric, [points < 2 for points in marks.opposite])
        yield Refusal(
            "opposite", f"it goes the opposite way in {found:.0%}, wanted {rules.opposite:.0%}; not plainly: {missed}"
        )


def _coverage(marks: Marks, beside: Marks, rules: Rules) -> Iterator[Refusal]:
    """Yield that an answer does not speak to the same of the question as the chosen one."""
    found, other = share(marks.coverage), share(beside.coverage)
    if abs(found - other) > rules.coverage + _EPSILON:
        yield Refusal(
            "coverage",
            f"it covers {found:.0%} of what is asked, wanted within {rules.coverage:.0%} of the other's {other:.0%}",
        )
    lost = [place for place, points in enumerate(marks.coverage, 1) if not points and beside.coverage[place - 1]]
    if lost:
        yield Refusal(
            "coverage", f"it leaves out part {', '.join(map(str, lost))} of the question, which the other covers"
        )


def _named(rubric: Sequence[AspectRow], told: Sequence[bool]) -> str:
    return "; ".join(one.aspect for one, tell in zip(rubric, told, strict=True) if tell)
