"""The report: runs in, one HTML file out that opens anywhere and asks for nothing.

>>> from pluralrm.report import write_report
>>> write_report(["runs"], "report.html")  # doctest: +SKIP
"""

from collections.abc import Sequence
from pathlib import Path

from pluralrm.errors import RunError
from pluralrm.pages.document import GENERATOR
from pluralrm.pages.plots import write_plots
from pluralrm.report.build import ReportPage, build_report
from pluralrm.report.human import PlanJudgments, read_asked
from pluralrm.report.sections import Beside, RunSource, read_sources

_HEAD = 2_048
"""Bytes in which a page of ours says that it is one."""

__all__ = [
    "Beside",
    "PlanJudgments",
    "ReportPage",
    "RunSource",
    "build_report",
    "read_asked",
    "read_sources",
    "write_report",
]
_NOTHING = Beside()


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    text: bool = True,
    figures: str | Path | None = None,
    seed: int = 0,
    beside: Beside = _NOTHING,
    force: bool = False,
) -> ReportPage:
    """Write the report of the runs at or below some paths, and return it.

    Without `text` it holds no post, prompt or answer. `figures` is a folder for the plots as PDF and SVG. What
    goes `beside` the runs is shown with those of its content. An earlier page of ours is replaced; any other file is an
    error unless `force` is set.
    """
    if not force:
        _refuse_to_replace(Path(out))
    report = build_report(read_sources(runs), text=text, seed=seed, beside=beside)
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(report.html, encoding="utf-8", newline="\n")
        if figures is not None:
            write_plots(report.plots, Path(figures))
    except OSError as exc:
        raise RunError(f"cannot write the report: {exc}. Name another file with -o") from exc
    return report


def _refuse_to_replace(out: Path) -> None:
    """Raise where there is a file with something in it that is no page of ours."""
    if not out.is_file():
        return
    with out.open("rb") as file:
        head = file.read(_HEAD)
    if head and GENERATOR.encode() not in head:
        raise RunError(f"{out} exists and is not a report: name another file with -o, or pass --force")
