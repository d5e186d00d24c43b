"""study.html: one file that opens anywhere, asks for nothing and runs nothing of what is in it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from pluralrm.core import Estimate
from pluralrm.correlate import Correlation, CorrelationCell
from pluralrm.correlate.cell import Reversal, signed
from pluralrm.pages.document import fragment, page
from pluralrm.pages.plots import Plot
from pluralrm.policies.curves import Curve
from pluralrm.study.columns import Side
from pluralrm.study.figures import against, curves
from pluralrm.study.ppo.shown import alarms, trained_section
from pluralrm.study.result import Result
from pluralrm.study.steps import Picked
from pluralrm.text import counted, interval, listed, share

_PAIRS = 8
"""Reversed pairs that stand open; the others are folded."""

Parted = tuple[str, str]
"""A number and its interval."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot for a desk and for a phone."""

    plot: Plot
    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class Pair:
    """One benchmark against one downstream result, as the page shows it."""

    key: str
    cell: CorrelationCell
    drawn: Drawn
    rows: Sequence[tuple[str, Parted, str, str]]
    regret: str
    reversed: Sequence[tuple[str, ...]]
    folded: Sequence[tuple[str, ...]]
    pairs: int


@dataclass(frozen=True, slots=True)
class Picks:
    """The curves under one condition."""

    condition: str
    drawn: Drawn
    rows: Sequence[tuple[str, Sequence[Parted]]]
    remarks: Sequence[str]


def study_page(result: Result) -> str:
    """Return the page; equal results give equal bytes."""
    sides = [*result.benchmarks, *result.downstream]
    body = fragment(
        "pluralrm.study",
        "study.html.jinja",
        title=_title(result),
        about=_about(result),
        result=result,
        report=result.correlation.report,
        sides=sides,
        models=[(model, [_parted(side.estimates.get(model)) for side in sides]) for model in result.ranked],
        pairs=_pairs(result),
        picks=_picks(result.picked) if result.picked else [],
        picked=result.picked,
        trained=trained_section(result.trained) if result.trained and result.trained.trained else "",
        oracles=_oracles(result),
        alarmed=[(one.reward, alarms(one)) for one in result.trained.trained if one.alarms] if result.trained else [],
        differences=_differences(result),
        left=[(why, _left(result, why)) for why in ("broken", "open", "skipped")],
        failed=sum(one.failed for side in sides for one in side.estimates.values()),
        legend=_legend(result),
        declared=_json(result.declared.to_json()),
        provenance=[(name, _json(part)) for name, part in result.provenance.items() if part],
        counted=counted,
    )
    return page(_title(result), body, styles=[_css("pluralrm.study", "study.css")])


def _title(result: Result) -> str:
    return result.declared.title or f"A study of reward models on {listed(result.declared.benchmarks)}"


def _about(result: Result) -> str:
    """Return in a sentence what was done."""
    declared, picked, found = result.declared, result.picked, result.trained
    told = (
        f"{counted(len(result.models), 'reward model')} on {listed(declared.benchmarks)} "
        f"under {listed(declared.conditions)}"
    )
    if picked is not None:
        several = f"{picked.pool.n} answers of {picked.pool.policy} for each of {len(picked.pool.samples):,} items"
        told += f"; then picking among {several}, graded by {picked.grader.spec}"
    if found is not None:
        told += f"; then training {found.recipe.declared.policy} by PPO, graded by {found.recipe.grader.spec}"
    return f"{told}."


def _oracles(result: Result) -> list[str]:
    """Return the models that were shown, when they picked or rewarded, what that is graded by."""
    picked, found = result.picked, result.trained
    told = [curve.model for curve in picked.found.curves if curve.shown_rubric] if picked else []
    told += [one.reward for one in found.trained if one.shown_rubric] if found else []
    return list(dict.fromkeys(told))


def _left(result: Result, why: str) -> list[tuple[str, str]]:
    """Return what is left for one kind of reason: the steps, and the reason that they have in common."""
    found: dict[str, list[str]] = {}
    for one in result.left:
        if one.why == why:
            found.setdefault(one.reason, []).append(one.step)
    return [("; ".join(steps), reason) for reason, steps in found.items()]


# ---------------------------------------------------------------- pairs of columns


def _pairs(result: Result) -> list[Pair]:
    report, sides = result.correlation.report, {side.name: side for side in (*result.benchmarks, *result.downstream)}
    oracles = _oracles(result)
    return [_pair(cell, sides, oracles, place) for place, cell in enumerate(report.cells if report else (), 1)]


def _pair(cell: CorrelationCell, sides: dict[str, Side], oracles: Sequence[str], place: int) -> Pair:
    rows = [_reversal(pair) for pair in cell.reversals]
    return Pair(
        key=f"p{place}",
        cell=cell,
        drawn=_drawn(against(cell, sides, oracles, place)),
        rows=[_finding(finding) for finding in cell.findings],
        regret=share(cell.regret),
        reversed=rows[:_PAIRS],
        folded=rows[_PAIRS:],
        pairs=len(cell.models) * (len(cell.models) - 1) // 2,
    )


def _finding(finding: Correlation) -> tuple[str, Parted, str, str]:
    return finding.title, _correlated(finding.estimate), signed(finding.chance), _p(finding.p)


def _reversal(pair: Reversal) -> tuple[str, ...]:
    return pair.above, pair.below, share(pair.lead), share(pair.loss), _p(pair.p_benchmark), _p(pair.p_downstream)


def _differences(result: Result) -> list[tuple[str, str, str, Parted, str]]:
    """Return which benchmark predicts better, pair by pair."""
    report = result.correlation.report
    return [
        (
            f"{one.first} − {one.second}",
            one.downstream,
            one.title,
            _correlated(one.difference),
            "yes" if one.shown else "",
        )
        for one in (report.contrasts if report else ())
    ]


# ---------------------------------------------------------------- curves


def _picks(picked: Picked) -> list[Picks]:
    conditions = list(dict.fromkeys(curve.condition for curve in picked.found.curves))
    return [_under(picked, condition, place) for place, condition in enumerate(conditions, 1)]


def _under(picked: Picked, condition: str, place: int) -> Picks:
    found = picked.found
    shown = [curve for curve in found.curves if curve.condition == condition]
    ranked = sorted(shown, key=lambda curve: -curve.last.grade.value)
    rows = [(curve.model, [_parted(point.grade) for point in curve.points]) for curve in ranked]
    if found.exact:
        rows = [
            ("(oracle)", [_parted(one) for one in found.oracle]),
            *rows,
            ("(random)", [_parted(one) for one in found.random]),
        ]
    return Picks(
        condition, _drawn(curves(picked, condition, place)), rows, [told for one in ranked if (told := _fall(one))]
    )


def _fall(curve: Curve) -> str:
    """Return what is to be said where a model is over-optimised; nothing elsewhere."""
    if curve.fall is None or not curve.over_optimised:
        return ""
    change = " ".join(_parted(curve.fall))
    return (
        f"{curve.model} is over-optimised: from k = {curve.peak} to k = {curve.last.k} the grade changes by {change} "
        "points while its own score rises."
    )


# ---------------------------------------------------------------- words


def _legend(result: Result) -> list[str]:
    """Return how the correlations were computed."""
    report = result.correlation.report
    if report is None:
        return []
    found = [finding for cell in report.cells for finding in cell.findings]
    orders = dict.fromkeys(f"all {one.orders:,}" if one.exact else f"{one.orders:,} random" for one in found)
    methods = "; ".join(dict.fromkeys(one.estimate.method for one in found))
    about = " or ".join(dict.fromkeys(cell.estimand for cell in report.cells))
    return [
        f"Interval: {methods}; about {about}.",
        f"p: by permutation of the models, {' or '.join(orders)} orders; two-sided, of NDCG, RBO and regret one-sided.",
        "NDCG: relevance n + 1 − downstream rank, discount log2(1 + place).",
        f"RBO: p = {report.rbo_p:g}, to the full depth.",
        "Regret: how far the benchmark’s first stays below the best, as a share of the range downstream.",
    ]


def _parted(estimate: Estimate | None) -> Parted:
    return ("–", "") if estimate is None else (share(estimate.value), interval(estimate))


def _correlated(estimate: Estimate) -> Parted:
    if estimate.low is None or estimate.high is None:
        return signed(estimate.value), ""
    return signed(estimate.value), f"[{signed(estimate.low)}, {signed(estimate.high)}]"


def _p(p: float | None) -> str:
    return "–" if p is None else "< .001" if p < 0.001 else signed(p)


def _drawn(plot: Plot) -> Drawn:
    # What draw returns is escaped XML of its own making.
    wide, narrow = (Markup(plot.inline(narrow=narrow)) for narrow in (False, True))  # noqa: S704
    return Drawn(plot, wide, narrow)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _css(package: str, name: str) -> str:
    return (files(package) / "html" / name).read_text(encoding="utf-8")
