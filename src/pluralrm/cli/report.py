"""`pluralrm report`: runs as one HTML file that opens anywhere."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import HUMAN, asked
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import note, paragraph
from pluralrm.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pluralrm.audit import Audit


def report(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    out: Path = typer.Option(..., "--out", "-o", help="The HTML file to write."),
    figures: Path | None = typer.Option(None, metavar="DIR", help="Also write every plot here, as PDF and SVG."),
    audits: list[str] = typer.Option([], "--audit", metavar="BENCH", help="Audit this benchmark and show it."),
    human: list[str] = HUMAN,
    no_text: bool = typer.Option(False, "--no-text", help="Leave out what people wrote: posts, prompts, answers."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    force: bool = typer.Option(False, "--force", help="Replace a file that is not a report."),
    show: bool = typer.Option(False, "--open", help="Open the file in the browser."),
) -> None:
    """Write one offline HTML file: the answer in words, tables, plots, every item, provenance."""
    from pluralrm.report import Beside, write_report

    beside = Beside(_audited(audits, seed), asked(human))
    with ProgressDisplay("") as display:
        display.waits(f"report: reading and comparing the runs in {', '.join(map(str, paths))}")
        made = write_report(paths, out, text=not no_text, figures=figures, seed=seed, beside=beside, force=force)
    for sentences in made.paragraphs:
        typer.echo(paragraph(sentences, indent="  "))
    size = f"{out.stat().st_size / 1e6:.1f} MB"
    note(f"{out} ({size}){f', figures in {figures}' if figures else ''}")
    for table in made.tables:
        if table.items < table.total:
            note(f"it holds {table.items:,} of {table.total:,} items; the others are in the run folders")
    if show:
        typer.launch(out.resolve().as_uri())


def view(
    folder: Path = typer.Argument(Path("runs"), metavar="DIR", help="The folder that runs are written to."),
    port: int = typer.Option(0, "--port", min=0, max=65535, help="Port; 0 picks a free one and prints it."),
    no_text: bool = typer.Option(False, "--no-text", help="Leave posts, prompts and answers out."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    show: bool = typer.Option(False, "--open", help="Open the page in the browser."),
) -> None:
    """Show the report of runs while they are scored, on this machine alone, until Ctrl-C. It only reads."""
    from pluralrm.report.view import ReportView, ViewServer

    if not folder.is_dir():
        raise RunError(f"no folder {str(folder)!r}; 'pluralrm score' writes runs with -o, by default to runs")
    with ViewServer(ReportView(folder, text=not no_text, seed=seed), port) as server:
        typer.echo(server.address)
        note("Ctrl-C ends it; runs go on")
        if show:
            typer.launch(server.address)
        try:
            server.run()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _audited(names: "Sequence[str]", seed: int) -> "list[Audit]":
    if not names:
        return []
    from pluralrm.audit import audit
    from pluralrm.cli.options import open_benchmark

    return [audit(open_benchmark(name), seed=seed) for name in names]
