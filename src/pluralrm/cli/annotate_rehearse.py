"""`pluralrm annotate rehearse`: judgments that nobody made, to see what will be printed."""

from pathlib import Path

import typer

from pluralrm.cli.terminal import print_json, print_wrapped
from pluralrm.errors import PlanError


def rehearse(
    plan: Path = typer.Argument(..., metavar="PLAN", help="A plan's folder."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="Where the drawn judgments go."),
    fit: float = typer.Option(0.8, metavar="P", help="How often the labelled answer fits better, ties aside."),
    general: float = typer.Option(0.5, metavar="P", help="How often it is better in general, ties aside."),
    ties: float = typer.Option(0.2, metavar="P", help="Share of ties."),
    likeness: float = typer.Option(0.3, metavar="R", help="Correlation of two judgments of an item."),
    lean: float = typer.Option(0.02, metavar="L", help="Correlation of an annotator's judgments."),
    seed: int = typer.Option(0, help="Of the draws."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Draw judgments for a plan, to rehearse agreement and claim before people begin. Nobody made them."""
    from pluralrm.annotate.folder import read_plan
    from pluralrm.annotate.judgments import judgment_line
    from pluralrm.annotate.rehearsal import World, rehearsed
    from pluralrm.files import replace_file

    if out.exists():
        raise PlanError(f"{out}: is there already; name another file with -o, or remove it")
    found = rehearsed(read_plan(plan), World(fit, general, ties, likeness, lean), seed=seed)
    replace_file(out, "".join(f"{judgment_line(one)}\n" for one in found))
    if as_json:
        print_json({"file": str(out), "judgments": len(found), "rehearsal": True})
    else:
        print_wrapped(f"{out}: {len(found):,} drawn judgments. Nobody made them.")
