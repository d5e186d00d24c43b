"""The plots of a study: benchmark against downstream, and what best-of-k gives for each k."""

from collections.abc import Mapping, Sequence

from pluralrm.core import Estimate
from pluralrm.correlate import CorrelationCell
from pluralrm.pages.lines import PlotLine, PlotPoint, line_plot, scatter_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.policies.curves import BestOfCurve
from pluralrm.study.columns import Side
from pluralrm.study.steps import Picked


def against(cell: CorrelationCell, sides: Mapping[str, Side], oracles: Sequence[str], place: int) -> Plot:
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


def curves(picked: Picked, condition: str, place: int) -> Plot:
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
