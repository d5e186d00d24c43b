"""How best-of-N is told: a ranking at the largest k, the curve of each reward model, JSON, a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table
from pluralrm.errors import PluralrmError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pluralrm.core import Estimate
    from pluralrm.policies.best_of_n import BestOfN
    from pluralrm.policies.curves import Curve, Point
    from pluralrm.policies.pool import Pool

_EXACT = "Grades in per cent of the most that the rubric gives. Best-of-k: expected over all subsets of k answers"
_FIRST = "Grades in per cent of the most that the rubric gives. Best-of-k: of the first k answers alone, as published"


def print_curves(pool: "Pool", found: "BestOfN", grader: str) -> None:
    """Print the ranking and every curve."""
    print_wrapped(
        f"{len(pool.samples):,} items of {pool.benchmark} × {pool.n} answers of {pool.policy} under {pool.condition}",
        style="bold",
    )
    print_wrapped(f"graded by {grader}")
    if "oracle" in pool.reveals:
        print_wrapped("ORACLE: the policy was shown the rubric", style="red")
    for curve in found.curves:
        if curve.shown_rubric:
            print_wrapped(f"ORACLE: {curve.model} under {curve.condition} was shown the rubric", style="red")
    for told in found.notes:
        print_wrapped(told, style="yellow")
    console().print()
    _print_ranking(found)
    for curve in found.curves:
        _print_curve(found, curve, named=len({one.condition for one in found.curves}) > 1)
    print_legend(_legend(found))


def _print_ranking(found: "BestOfN") -> None:
    columns: list[tuple[str, Kind]] = [("reward model", "name"), ("condition", "name")]
    columns += [(f"best-of-{found.ks[-1]} [95%]", "left"), ("best k", "right")]
    ranked = sorted(found.curves, key=lambda curve: -curve.last.grade.value)
    rows = [[curve.model, curve.condition, percent(curve.last.grade), str(curve.peak)] for curve in ranked]
    if found.exact:
        columns.append(("regret [95%]", "left"))
        rows = [[*row, _regret(curve)] for row, curve in zip(rows, ranked, strict=True)]
        rows.insert(0, ["(oracle)", "", percent(found.oracle[-1]), "", ""])
        if found.majority:
            rows.append(["(majority)", "", percent(found.majority[-1]), "", ""])
        rows.append(["(random)", "", percent(found.random[-1]), "", ""])
    console().print(table(columns, rows))


def _regret(curve: "Curve") -> str:
    return "" if curve.last.regret is None else percent(curve.last.regret)


def _print_curve(found: "BestOfN", curve: "Curve", *, named: bool) -> None:
    console().print()
    print_wrapped(f"{curve.model} under {curve.condition}" if named else curve.model, style="bold")
    columns: list[tuple[str, Kind]] = [("k", "right"), ("KL", "right"), ("grade [95%]", "left")]
    if found.exact:
        columns += [("first k [95%]", "left"), ("oracle", "right"), ("random", "right")]
        columns += [("maj@k", "right")] * bool(found.majority)
    rows = [_point_row(found, place, point) for place, point in enumerate(curve.points)]
    console().print(table(columns, rows))
    if (told := _fall(curve)) is not None:
        print_wrapped(told, first="  ", indent="    ", style="red" if curve.over_optimised else "")


def _point_row(found: "BestOfN", place: int, point: "Point") -> tuple[str, ...]:
    told = (str(point.k), f"{point.kl:.2f}", percent(point.grade))
    if point.first is None:
        return told
    lines = [line[place] for line in (found.oracle, found.random, found.majority) if line]
    return (*told, percent(point.first), *(f"{100 * line.value:.1f}" for line in lines))


def _fall(curve: "Curve") -> str | None:
    """Return in words what happens after the peak; None where the curve does not fall while its score rises."""
    if curve.fall is None:
        return None
    change = f"from k = {curve.peak} to k = {curve.last.k} the grade changes by {percent(curve.fall)}"
    if curve.over_optimised:
        return f"Over-optimised: {change}, while the model's own score rises."
    return f"Highest at k = {curve.peak}: {change}, which may be chance."


def _legend(found: "BestOfN") -> list[str]:
    last = found.curves[0].last
    methods = dict.fromkeys(point.grade.method for curve in found.curves for point in curve.points)
    said = [f"{_EXACT if found.exact else _FIRST}.", *(f"interval: {method}." for method in methods)]
    said.append("KL(best-of-k || policy) = log k - (k-1)/k nats, an upper bound where answers or scores repeat.")
    if found.exact:
        said.append(
            "regret: the grade of the oracle, which picks by the grades themselves, minus the model's. first k: the "
            "same picks from the first k answers alone, as published. random: a pick by chance."
        )
        said += [*_majority(found), *_wider(found)]
    failed = sum(curve.last.grade.failed > 0 for curve in found.curves)
    if failed:
        told = ", ".join(f"{curve.model} {curve.last.grade.failed:,}" for curve in found.curves)
        said.append(
            f"Items of {last.grade.n:,} with an answer, a score or a grade that failed: {told}. An answer without a "
            "score is picked last, and one without a grade earns nothing."
        )
    if found.ungraded:
        most = ", ".join(f"{curve.model} ≤ {100 * (curve.last.at_most or 0):.1f}" for curve in found.curves)
        said.append(f"{found.ungraded:,} grades failed; if each were full, at k = {last.k}: {most}.")
    return said


def _majority(found: "BestOfN") -> list[str]:
    """Return what maj@k is, or why there is none."""
    if not found.majority:
        return [f"maj@k is not applicable: {found.no_majority}."]
    silent = found.majority[-1].failed
    told = f" {silent:,} items have no boxed answer, or a grade that failed, and count so." if silent else ""
    said = (
        "majority, maj@k: the most frequent \\boxed{} answer among k; numbers are compared as numbers, others as text."
    )
    return [f"{said} Ties share, and what boxes nothing does not vote.{told}"]


def _wider(found: "BestOfN") -> list[str]:
    """Return what it is worth to go through all subsets, instead of taking the first k alone."""
    ratios = [
        (_width(point.first) / _width(point.grade), curve.model, point.k)
        for curve in found.curves
        for point in curve.points
        if point.first is not None and _width(point.grade) > 0
    ]
    most, model, k = max(ratios, default=(1.0, "", 0))
    told = f"Intervals of the first k are up to {most:.1f} times as wide as over all subsets ({model}, k = {k})."
    return [told] if most > 1 else []


def _width(told: "Estimate") -> float:
    return 0.0 if told.low is None or told.high is None else told.high - told.low


# ---------------------------------------------------------------- JSON


def to_json(pool: "Pool", found: "BestOfN", grader: str, written: "Sequence[Path]") -> dict[str, object]:
    """Return everything that is printed, every number an Estimate where it is one."""
    return {
        "pool": {"folder": pool.folder, "hash": pool.content_hash, "policy": pool.policy, "condition": pool.condition},
        "benchmark": pool.benchmark,
        "items": len(pool.samples),
        "n": pool.n,
        "grader": grader,
        "way": "exact" if found.exact else "first",
        "ungraded": found.ungraded,
        "notes": list(found.notes),
        "oracle": _by_k(found, found.oracle),
        "random": _by_k(found, found.random),
        "majority": _by_k(found, found.majority),
        "no_majority": found.no_majority,
        "curves": [
            _curve(curve) | {"outcome": str(folder)} for curve, folder in zip(found.curves, written, strict=True)
        ],
    }


def _by_k(found: "BestOfN", line: "Sequence[Estimate]") -> list[dict[str, object]]:
    return [{"k": k, "bon": one.to_json()} for k, one in zip(found.ks, line, strict=False)]


def _curve(curve: "Curve") -> dict[str, object]:
    return {
        "model": curve.model,
        "condition": curve.condition,
        "shown_rubric": curve.shown_rubric,
        "peak": curve.peak,
        "over_optimised": curve.over_optimised,
        "fall": curve.fall and curve.fall.to_json(),
        "points": [
            {
                "k": point.k,
                "kl": point.kl,
                "bon": point.grade.to_json(),
                "first": point.first and point.first.to_json(),
                "regret": point.regret and point.regret.to_json(),
                "at_most": point.at_most,
                "score": point.score,
            }
            for point in curve.points
        ],
    }


# ---------------------------------------------------------------- a picture


def draw(pool: "Pool", found: "BestOfN", file: Path) -> None:
    """Write the curves of all reward models on one panel, over their distance from the policy."""
    from pluralrm.pages.lines import Line, line_plot
    from pluralrm.pages.plots import Dot

    def dots(line: "Sequence[Estimate]") -> "dict[float, Dot]":
        return {
            point.kl: Dot(*(None if end is None else 100 * end for end in (one.value, one.low, one.high)))  # type: ignore[arg-type]
            for point, one in zip(found.curves[0].points, line, strict=True)
        }

    several = len({curve.condition for curve in found.curves}) > 1
    names = [f"{curve.model} ({curve.condition})" if several else curve.model for curve in found.curves]
    lines = [
        Line(name, dots([point.grade for point in curve.points]))
        for name, curve in zip(names, found.curves, strict=True)
    ]
    if found.exact:
        lines += [Line("(oracle)", dots(found.oracle), bound=True), Line("(random)", dots(found.random), bound=True)]
        lines += [Line("(majority)", dots(found.majority), bound=True)] if found.majority else []
    plot = line_plot(
        "best-of-n",
        lines,
        title=f"Best-of-k of {pool.policy} on {pool.benchmark}",
        words=f"{len(found.curves)} reward models, k = {found.ks[0]} to {found.ks[-1]}; bars are 95% intervals.",
        labels=("KL(best-of-k || policy), nats; above: k", "grade, per cent"),
        above={point.kl: str(point.k) for point in found.curves[0].points},
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(plot.pdf() if file.suffix == ".pdf" else plot.svg().encode())
    except OSError as exc:
        raise PluralrmError(f"cannot write {str(file)!r}: {exc}. Name another place with --figure") from exc
    note(f"wrote {file}")
