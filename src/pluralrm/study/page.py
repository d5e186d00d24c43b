"""study.html: one file that opens anywhere, asks for nothing and runs nothing of what is in it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pluralrm.core import Estimate
from pluralrm.correlate import CorrelationCell
from pluralrm.correlate.cell import Reversal
from pluralrm.pages.document import Figure, PageTable, TableCell, TableColumn, columns, render
from pluralrm.pages.lines import PlotLine, PlotPoint, line_plot, scatter_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.policies.best_of_n import BestOfCurve
from pluralrm.study.parts import names_of
from pluralrm.study.ppo.presentation import about, alarms, marked, trained_parts
from pluralrm.study.result import StudyColumn, StudyResult
from pluralrm.study.steps import BestOfNResult
from pluralrm.text import correlation, correlation_p, counted, listed, percent, share


def against(cell: CorrelationCell, sides: Mapping[str, StudyColumn], oracles: Sequence[str], place: int) -> Plot:
    """Return one benchmark against one downstream result; models in `oracles` stand in red."""
    across, up = sides[cell.benchmark], sides[cell.downstream]
    points = [
        PlotPoint(
            model,
            _dot(across.estimates[model]),
            _dot(up.estimates[model]),
            "oracle" if model in oracles else "plain",
        )
        for model in cell.models
    ]
    rank = cell["spearman"].estimate.value
    return scatter_plot(
        f"against-{place}",
        points,
        title=f"{cell.benchmark} against {cell.downstream}",
        words=f"{len(points)} models, each with its 95% intervals; Spearman's correlation is {rank:.2f}.",
        labels=(f"{cell.benchmark}: {across.metric}, per cent", f"{cell.downstream}: {up.metric}, per cent"),
    )


def curves(picked: BestOfNResult, condition: str, place: int) -> Plot:
    """Return the curves of all reward models under one condition, over their distance from the policy."""
    found = picked.found
    shown = [curve for curve in found.curves if curve.condition == condition]
    lines = [PlotLine(_named(curve), _dots(curve, [point.grade for point in curve.points])) for curve in shown]
    if found.exact:
        lines += [
            PlotLine("(oracle)", _dots(shown[0], found.oracle), bound=True),
            PlotLine("(random)", _dots(shown[0], found.random), bound=True),
        ]
    return line_plot(
        f"curves-{place}",
        lines,
        title=f"Best-of-k under {condition}",
        words=f"{len(shown)} reward models, k = {found.ks[0]} to {found.ks[-1]}; bars are 95% intervals.",
        labels=("KL(best-of-k || policy), nats; above: k", "grade, per cent"),
        above={point.kl: str(point.k) for point in shown[0].points},
        beside=True,
    )


def _named(curve: BestOfCurve) -> str:
    return f"{curve.model} ORACLE" if curve.shown_rubric else curve.model


def _dots(curve: BestOfCurve, line: Sequence[Estimate]) -> dict[float, Dot]:
    return {point.kl: _dot(one) for point, one in zip(curve.points, line, strict=True)}


def _dot(estimate: Estimate) -> Dot:
    low, high = (None if end is None else 100 * end for end in (estimate.low, estimate.high))
    return Dot(100 * estimate.value, low, high)


_PAIRS = 8
"""Reversed pairs that stand open; the others are folded."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One benchmark against one downstream result, as the page shows it."""

    key: str
    cell: CorrelationCell
    drawn: Figure
    measures: PageTable
    regret: str
    reversed: PageTable | None
    folded: PageTable | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Picks:
    """The curves under one condition."""

    condition: str
    drawn: Figure
    remarks: Sequence[str]


def study_page(result: StudyResult) -> str:
    """Return the page; equal results give equal bytes."""
    trained = result.trained if result.trained and result.trained.trained else None
    pairs, picks = _pairs(result), _picks(result.picked) if result.picked else []
    sections = [("words", "In plain words"), ("models", "Models")]
    sections += [(pair.key, f"{pair.cell.benchmark} → {pair.cell.downstream}") for pair in pairs]
    sections += [("picks", "Best-of-k")] * bool(picks) + [("trained", "Trained policies")] * bool(trained)
    return render(
        "pluralrm.study",
        "study.html.jinja",
        title=_title(result),
        styles=["study.css"],
        sections=[*sections, ("provenance", "Provenance")],
        about=_about(result),
        result=result,
        models=_models(result),
        pairs=pairs,
        picks=picks,
        picked=result.picked,
        trained=trained,
        trained_about=about(trained) if trained else "",
        trained_parts=trained_parts(trained) if trained else [],
        alarmed=[(marked(one), alarms(one)) for one in trained.trained if one.alarms] if trained else [],
        marked=marked,
        differences=_differences(result),
        left=[(why, _left(result, why)) for why in ("broken", "open", "skipped")],
        legend=_legend(result),
        declared=_json(result.declared.to_json()),
        provenance=[(name, _json(part)) for name, part in result.provenance.items() if part],
        counted=counted,
    ).html


def _models(result: StudyResult) -> PageTable:
    sides = [*result.benchmarks, *result.downstream]
    failed = sum(one.failed for side in sides for one in side.estimates.values())
    more = f": {counted(failed, 'failed item')} in these columns" * bool(failed)
    return PageTable(
        "Scores of all models",
        [TableColumn("model"), *columns(*(side.name for side in sides), look="n")],
        [
            (_marked(result, model), *(_cell(percent(side.estimates.get(model))) for side in sides))
            for model in result.ranked
        ],
        f"Per cent, with 95% intervals; the best downstream first. A failed item is wrong, and an answer that failed "
        f"earns nothing{more}.",
        "models sorts",
    )


def _marked(result: StudyResult, model: str) -> TableCell:
    """Return a model's name; one that saw what it was graded by stands in red."""
    name = names_of(result.declared).get(model, model)
    return TableCell(f"{name} · ORACLE", look="alarm") if model in _oracles(result) else TableCell(name)


def _title(result: StudyResult) -> str:
    return result.declared.title or f"A study of reward models on {listed(result.declared.benchmarks)}"


def _about(result: StudyResult) -> str:
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


def _oracles(result: StudyResult) -> list[str]:
    """Return the models that were shown, when they picked or rewarded, what that is graded by."""
    picked, found = result.picked, result.trained
    told = [curve.model for curve in picked.found.curves if curve.shown_rubric] if picked else []
    told += [one.reward for one in found.trained if one.shown_rubric] if found else []
    return list(dict.fromkeys(told))


def _left(result: StudyResult, why: str) -> list[tuple[str, str]]:
    """Return what is left for one kind of reason: the steps, and the reason that they have in common."""
    found: dict[str, list[str]] = {}
    for one in result.left:
        if one.why == why:
            found.setdefault(one.reason, []).append(one.step)
    return [("; ".join(steps), reason) for reason, steps in found.items()]


# ---------------------------------------------------------------- pairs of columns


def _pairs(result: StudyResult) -> list[Pair]:
    report = result.correlation.report
    return [_pair(result, cell, place) for place, cell in enumerate(report.cells if report else (), 1)]


def _pair(result: StudyResult, cell: CorrelationCell, place: int) -> Pair:
    sides = {side.name: side for side in (*result.benchmarks, *result.downstream)}
    rows = [_reversal(result, pair) for pair in cell.reversals]
    names = f"{cell.benchmark} and {cell.downstream}"
    heads = [*columns("ranks higher", "does better"), *columns("lead", "loss", "p lead", "p loss", look="n")]
    caption = (
        "Lead on the benchmark and loss downstream, in points; p: whether the two differ there at all (sign flips over "
        "whole clusters, Holm over all pairs)"
    )
    folded = PageTable(f"More reversed pairs, {names}", heads, rows[_PAIRS:], "In the same order", "pairs")
    return Pair(
        key=f"p{place}",
        cell=cell,
        drawn=Figure(
            against(cell, sides, _oracles(result), place),
            "Bars are 95% intervals in both directions. A benchmark that predicts puts the models on a rising line.",
        ),
        measures=PageTable(
            f"How well {cell.benchmark} predicts {cell.downstream}",
            [TableColumn("measure"), TableColumn("value", "nowrap"), *columns("chance", "p", look="n")],
            [
                (one.title, _correlated(one.estimate), correlation(one.chance), correlation_p(one.p))
                for one in cell.findings
            ],
            "How alike the two rankings are, with 95% intervals; chance: what a ranking by chance would get",
            "measures",
        ),
        regret=share(cell.regret),
        reversed=PageTable(f"Reversed pairs, {names}", heads, rows[:_PAIRS], caption, "pairs") if rows else None,
        folded=folded if folded.rows else None,
        pairs=len(cell.models) * (len(cell.models) - 1) // 2,
    )


def _reversal(result: StudyResult, pair: Reversal) -> list[TableCell | str]:
    names, p = (_marked(result, pair.above), _marked(result, pair.below)), (pair.p_benchmark, pair.p_downstream)
    return [*names, share(pair.lead), share(pair.loss), *map(correlation_p, p)]


def _differences(result: StudyResult) -> PageTable | None:
    """Return which benchmark predicts better, pair by pair."""
    report = result.correlation.report
    if report is None or not report.contrasts:
        return None
    return PageTable(
        "Differences of benchmarks",
        [*columns("benchmarks", "on", "measure"), TableColumn("difference", "nowrap"), TableColumn("significant")],
        [
            (
                f"{one.first} − {one.second}",
                one.downstream,
                one.title,
                _correlated(one.difference),
                "yes" if one.shown else "",
            )
            for one in report.contrasts
        ],
        "First minus second, over the models that have all three scores, with 95% intervals of the same resampled "
        "models and items",
        "measures",
    )


# ---------------------------------------------------------------- curves


def _picks(picked: BestOfNResult) -> list[Picks]:
    conditions = list(dict.fromkeys(curve.condition for curve in picked.found.curves))
    return [_under(picked, condition, place) for place, condition in enumerate(conditions, 1)]


def _under(picked: BestOfNResult, condition: str, place: int) -> Picks:
    found = picked.found
    ranked = sorted(
        (curve for curve in found.curves if curve.condition == condition), key=lambda curve: -curve.last.grade.value
    )
    lines = [(curve.model, [point.grade for point in curve.points]) for curve in ranked]
    if found.exact:
        lines = [("(oracle)", list(found.oracle)), *lines, ("(random)", list(found.random))]
    oracles = {curve.model for curve in found.curves if curve.shown_rubric}
    names = [
        TableCell(f"{model} · ORACLE", look="alarm") if model in oracles else TableCell(model) for model, _ in lines
    ]
    numbers = PageTable(
        f"Best-of-k under {condition}",
        [TableColumn("model"), *columns(*map(str, found.ks), look="n")],
        [(name, *(_cell(percent(one)) for one in line)) for name, (_, line) in zip(names, lines, strict=True)],
        "Grade, per cent, with 95% intervals, by k",
        "picks",
    )
    caption = "Bars are 95% intervals. The oracle picks by the grades themselves: no model can exceed it."
    drawn = Figure(curves(picked, condition, place), caption, numbers)
    return Picks(condition, drawn, [sentence for one in ranked if (sentence := _fall(one))])


def _fall(curve: BestOfCurve) -> str:
    """Return what is to be said where a model is over-optimised; nothing elsewhere."""
    if curve.fall is None or not curve.over_optimised:
        return ""
    change = percent(curve.fall)
    return (
        f"{curve.model} is over-optimised: from k = {curve.peak} to k = {curve.last.k} the grade changes by {change} "
        "points while its own score rises."
    )


# ---------------------------------------------------------------- words


def _legend(result: StudyResult) -> list[str]:
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


def _cell(text: str) -> TableCell:
    value, _, span = text.partition(" ")
    return TableCell(value, span)


def _correlated(estimate: Estimate) -> TableCell:
    if estimate.low is None or estimate.high is None:
        return TableCell(correlation(estimate.value))
    return TableCell(correlation(estimate.value), f"[{correlation(estimate.low)}, {correlation(estimate.high)}]")


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
