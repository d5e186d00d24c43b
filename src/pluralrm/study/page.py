"""study.html: one file that opens anywhere, asks for nothing and runs nothing of what is in it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pluralrm.core import Estimate
from pluralrm.correlate import CorrelationCell, Dispute, legend
from pluralrm.pages import Figure, PageTable, TableCell, TableColumn, columns, number_cell, render
from pluralrm.pages.lines import PlotLine, PlotPoint, line_plot, scatter_plot
from pluralrm.pages.plots import Dot, Plot, dot_of
from pluralrm.policies.best_of_n import BestOfCurve
from pluralrm.study.ppo.presentation import about, alarms, apart_told, marked, trained_parts
from pluralrm.study.result import StudyColumn, StudyResult
from pluralrm.study.steps import BestOfNResult
from pluralrm.text import capital, correlation, correlation_p, counted, listed, percent, share


def against(cell: CorrelationCell, sides: Mapping[str, StudyColumn], oracles: Sequence[str], number: int) -> Plot:
    """Return one benchmark against one downstream result; models in `oracles` stand in red."""
    across, up = sides[cell.benchmark], sides[cell.downstream]
    points = [
        PlotPoint(
            model,
            dot_of(across.estimates[model]),
            dot_of(up.estimates[model]),
            "oracle" if model in oracles else "plain",
        )
        for model in cell.models
    ]
    rank = cell["spearman"].estimate.value
    return scatter_plot(
        f"against-{number}",
        points,
        title=f"{cell.benchmark} against {cell.downstream}",
        words=f"{len(points)} models, each with its 95% intervals; Spearman's correlation is {rank:.2f}.",
        labels=(f"{cell.benchmark}: {across.metric}, per cent", f"{cell.downstream}: {up.metric}, per cent"),
    )


def curves(best_of: BestOfNResult, condition: str, number: int) -> Plot:
    """Return the curves of all reward models under one condition, over their distance from the policy."""
    table = best_of.found
    own = [curve for curve in table.curves if curve.condition == condition]
    lines = [PlotLine(_label(curve), _dots(curve, [point.grade for point in curve.points])) for curve in own]
    if table.exact:
        lines += [
            PlotLine("(oracle)", _dots(own[0], table.oracle), bound=True),
            PlotLine("(random)", _dots(own[0], table.random), bound=True),
        ]
    return line_plot(
        f"curves-{number}",
        lines,
        title=f"Best-of-k under {condition}",
        words=f"{len(own)} reward models, k = {table.ks[0]} to {table.ks[-1]}; bars are 95% intervals.",
        labels=("KL(best-of-k || policy), nats; above: k", "grade, per cent"),
        above={point.kl: str(point.k) for point in own[0].points},
        beside=True,
    )


def _label(curve: BestOfCurve) -> str:
    return f"{curve.model} ORACLE" if curve.shown_rubric else curve.model


def _dots(curve: BestOfCurve, line: Sequence[Estimate]) -> dict[float, Dot]:
    return {point.kl: dot_of(value) for point, value in zip(curve.points, line, strict=True)}


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
    answer: str


def study_page(result: StudyResult) -> str:
    """Return the page, models by their names; equal results give equal bytes."""
    result = result.named()
    report = result.correlation.report
    trained = result.trained if result.trained and result.trained.trained else None
    pairs, curves = _pairs(result), result.picked.found.curves if result.picked else ()
    conditions = dict.fromkeys(curve.condition for curve in curves)
    picks = [_under(result.picked, name, number) for number, name in enumerate(conditions, 1) if result.picked]
    parts = [(pair.key, f"{pair.cell.benchmark} → {pair.cell.downstream}", "") for pair in pairs]
    parts += [("picks", "Best-of-k", "")] * bool(picks) + [("trained", "Trained policies", "")] * bool(trained)
    return render(
        "pluralrm.study",
        "study.html.jinja",
        title=result.declared.title or f"A study of reward models on {listed(result.declared.benchmarks)}",
        styles=["study.css"],
        parts=parts,
        about=_about(result),
        result=result,
        models=_models(result),
        pairs=pairs,
        picks=picks,
        picked=result.picked,
        trained=trained,
        trained_about=about(trained) if trained else "",
        trained_answer=(apart_told(trained.apart[0]) if trained.apart else about(trained)) if trained else "",
        trained_parts=trained_parts(trained) if trained else [],
        alarmed=[(marked(policy), alarms(policy)) for policy in trained.trained if policy.alarms] if trained else [],
        marked=marked,
        differences=_differences(result),
        disputes=[(dispute, _against(result, dispute)) for dispute in (report.disputes if report else ())],
        left=[(why, _left(result, why)) for why in ("broken", "open", "skipped")],
        legend=[capital(line) for line in legend(report)] if report else [],
        declared=_json(result.declared.to_json()),
        provenance=[(name, _json(part)) for name, part in result.provenance.items() if part],
        counted=counted,
    ).html


def _models(result: StudyResult) -> PageTable:
    sides = [*result.benchmarks, *result.downstream]
    failed = sum(estimate.failed for side in sides for estimate in side.estimates.values())
    more = f": {counted(failed, 'failed item')} in these columns" * bool(failed)
    return PageTable(
        "Scores of all models",
        [TableColumn("model"), *columns(*(side.name for side in sides), look="n")],
        [
            (_marked(result, model), *(number_cell(percent(side.estimates.get(model))) for side in sides))
            for model in result.ranked
        ],
        f"Per cent, with 95% intervals; {result.order}. A failed item is wrong, and an answer that failed "
        f"earns nothing{more}.",
        "models sorts",
    )


def _marked(result: StudyResult, model: str) -> TableCell:
    """Return a model's name; one that saw what it was graded by stands in red."""
    return TableCell(f"{model} · ORACLE", look="alarm") if model in _oracles(result) else TableCell(model)


def _about(result: StudyResult) -> str:
    """Return in a sentence what was done."""
    declared, best_of, trained = result.declared, result.picked, result.trained
    text = (
        f"{counted(len(result.models), 'reward model')} on {listed(declared.benchmarks)} "
        f"under {listed(declared.conditions)}"
    )
    if best_of is not None:
        several = f"{best_of.pool.n} answers of {best_of.pool.policy} for each of {len(best_of.pool.samples):,} items"
        text += f"; then picking among {several}, graded by {best_of.grader.spec}"
    if trained is not None:
        text += f"; then training {trained.recipe.declared.policy} by PPO, graded by {trained.recipe.grader.spec}"
    return f"{text}."


def _oracles(result: StudyResult) -> list[str]:
    """Return the models that were shown, when they picked or rewarded, what that is graded by."""
    best_of, trained = result.picked, result.trained
    names = [curve.model for curve in best_of.found.curves if curve.shown_rubric] if best_of else []
    names += [policy.reward for policy in trained.trained if policy.shown_rubric] if trained else []
    return list(dict.fromkeys(names))


def _left(result: StudyResult, why: str) -> list[tuple[str, str]]:
    """Return what is left for one kind of reason: the steps, and the reason that they have in common."""
    reasons: dict[str, list[str]] = {}
    for missing in result.left:
        if missing.why == why:
            reasons.setdefault(missing.reason, []).append(missing.step)
    return [("; ".join(steps), reason) for reason, steps in reasons.items()]


# ---------------------------------------------------------------- pairs of columns


def _pairs(result: StudyResult) -> list[Pair]:
    report = result.correlation.report
    return [_pair(result, cell, number) for number, cell in enumerate(report.cells if report else (), 1)]


def _pair(result: StudyResult, cell: CorrelationCell, number: int) -> Pair:
    sides = {side.name: side for side in (*result.benchmarks, *result.downstream)}
    rows: list[list[TableCell | str]] = [
        [
            *(_marked(result, model) for model in (pair.above, pair.below)),
            *map(share, (pair.lead, pair.loss)),
            *map(correlation_p, (pair.p_benchmark, pair.p_downstream)),
        ]
        for pair in cell.reversals
    ]
    names = f"{cell.benchmark} and {cell.downstream}"
    heads = [*columns("ranks higher", "does better"), *columns("lead", "loss", "p lead", "p loss", look="n")]
    caption = (
        "Lead on the benchmark and loss downstream, in points; p: whether the two differ there at all (sign flips over "
        "whole clusters, Holm over all pairs)"
    )
    folded = PageTable(f"More reversed pairs, {names}", heads, rows[_PAIRS:], "In the same order", "pairs")
    return Pair(
        key=f"p{number}",
        cell=cell,
        drawn=Figure(
            against(cell, sides, _oracles(result), number),
            "Bars are 95% intervals in both directions. A benchmark that predicts puts the models on a rising line.",
        ),
        measures=PageTable(
            f"How well {cell.benchmark} predicts {cell.downstream}",
            [TableColumn("measure"), TableColumn("value", "nowrap"), *columns("chance", "p", look="n")],
            [
                (finding.title, _correlated(finding.estimate), correlation(finding.chance), correlation_p(finding.p))
                for finding in cell.findings
            ],
            "How alike the two rankings are, with 95% intervals; chance: what a ranking by chance would get",
            "measures",
        ),
        regret=share(cell.regret),
        reversed=PageTable(f"Reversed pairs, {names}", heads, rows[:_PAIRS], caption, "pairs") if rows else None,
        folded=folded if folded.rows else None,
        pairs=len(cell.models) * (len(cell.models) - 1) // 2,
    )


def _differences(result: StudyResult) -> PageTable | None:
    """Return which benchmark predicts better, pair by pair."""
    report = result.correlation.report
    if report is None or not report.contrasts:
        return None
    return PageTable(
        "Differences of benchmarks",
        [
            *columns("benchmarks", "on", "measure"),
            TableColumn("difference", "nowrap"),
            *columns("p", "p Holm", look="n"),
            TableColumn("significant"),
        ],
        [
            (
                f"{contrast.first} − {contrast.second}",
                contrast.downstream,
                contrast.title,
                _correlated(contrast.difference),
                correlation_p(contrast.test.p),
                correlation_p(contrast.p_adjusted),
                "yes" if contrast.shown else "",
            )
            for contrast in report.contrasts
        ],
        "First minus second, over the models that have all three scores, with 95% intervals of the same resampled "
        "models and items; p: a model's two ranks swapped, Holm over all differences by one measure",
        "measures",
    )


def _against(result: StudyResult, dispute: Dispute) -> PageTable | None:
    better, other = dispute.contrast.order
    rows = [
        (_marked(result, pair.first), _marked(result, pair.second), share(-pair.gain), correlation_p(pair.p_downstream))
        for pair in dispute.against[:_PAIRS]
    ]
    names = columns(f"higher on {better}", f"higher on {other}, and downstream")
    most = f"; the {_PAIRS} furthest apart of {len(dispute.against)}" if len(dispute.against) > _PAIRS else ""
    caption = f"The pairs of models that would refute {better}: the result agrees with {other}. Loss in points{most}"
    title = f"Pairs against {better}: {other}, {dispute.contrast.downstream}"
    return PageTable(title, [*names, *columns("loss", "p loss", look="n")], rows, caption, "pairs") if rows else None


# ---------------------------------------------------------------- curves


def _under(best_of: BestOfNResult, condition: str, number: int) -> Picks:
    table = best_of.found
    ranked = sorted(
        (curve for curve in table.curves if curve.condition == condition), key=lambda curve: -curve.last.grade.value
    )
    lines = [(curve.model, [point.grade for point in curve.points]) for curve in ranked]
    if table.exact:
        lines = [("(oracle)", list(table.oracle)), *lines, ("(random)", list(table.random))]
    oracles = {curve.model for curve in table.curves if curve.shown_rubric}
    names = [
        TableCell(f"{model} · ORACLE", look="alarm") if model in oracles else TableCell(model) for model, _ in lines
    ]
    numbers = PageTable(
        f"Best-of-k under {condition}",
        [TableColumn("model"), *columns(*map(str, table.ks), look="n")],
        [
            (name, *(number_cell(percent(value)) for value in line))
            for name, (_, line) in zip(names, lines, strict=True)
        ],
        "Grade, per cent, with 95% intervals, by k",
        "picks",
    )
    caption = "Bars are 95% intervals. The oracle picks by the grades themselves: no model can exceed it."
    drawn = Figure(curves(best_of, condition, number), caption, numbers)
    best = next((curve for curve in ranked if not curve.shown_rubric), ranked[0])
    by_chance = f"; a random pick earns {percent(table.random[-1])}" if table.exact else ""
    answer = f"Best of {best.last.k} under {condition}: {best.model} picks best, {percent(best.last.grade)}{by_chance}."
    return Picks(condition, drawn, [sentence for curve in ranked if (sentence := _fall(curve))], answer)


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


def _correlated(estimate: Estimate) -> TableCell:
    if estimate.low is None or estimate.high is None:
        return TableCell(correlation(estimate.value))
    return TableCell(correlation(estimate.value), f"[{correlation(estimate.low)}, {correlation(estimate.high)}]")


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
