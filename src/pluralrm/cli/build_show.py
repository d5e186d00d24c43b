"""`pluralrm build show`: what became of the records of a build, read from its folder."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.building import print_funnel
from pluralrm.cli.terminal import console, print_json, print_wrapped
from pluralrm.errors import RunError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.build.pipeline.folder import Manifest
    from pluralrm.build.pipeline.lines import Line


def build_show(
    folder: Path = typer.Argument(..., metavar="DIR", help="The folder of a build, finished or not."),
    rejected: str = typer.Option("", "--rejected", metavar="REASON", help="List all that were rejected for this."),
    prices: Path | None = typer.Option(
        None, metavar="FILE", help="TOML or JSON: per model, input and output per million tokens."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Say how many records came to each stage of a build, and why those that are gone were rejected."""
    from pluralrm.build.pipeline.folder import read_lines, read_manifest
    from pluralrm.build.pipeline.funnel import funnel_of
    from pluralrm.http import load_prices

    manifest = read_manifest(folder)
    lines = read_lines(folder, manifest)
    funnel = funnel_of(manifest, lines)
    found = list(_rejected(manifest, lines))
    if rejected:
        found = _of_reason(found, rejected)
    if as_json:
        keys = ("stage", "reason", "id", "detail", "attempts")
        told = [dict(zip(keys, one, strict=True)) for one in found]
        print_json({"funnel": funnel.to_json(), "rejected": told})
        return
    print_funnel(funnel, load_prices(prices) if prices else {})
    if rejected:
        _print_all(found)
    elif found:
        _print_examples(found)


Gone = tuple[str, str, str, str, int]
"""Stage, reason, id, detail, and how often its texts were written."""


def _rejected(manifest: "Manifest", lines: "Sequence[Mapping[str, Line]]") -> Iterator[Gone]:
    for stage, decided in zip(manifest.stages, lines, strict=True):
        for line in sorted(decided.values(), key=lambda line: (line.reason, line.id)):
            if line.kept is None:
                yield stage.name, line.reason, line.id, line.detail, line.attempts


def _of_reason(found: Sequence[Gone], reason: str) -> list[Gone]:
    reasons = {one[1] for one in found}
    if reason not in reasons:
        raise RunError(f"--rejected {reason}: no record was rejected for that.{did_you_mean(reason, reasons)}")
    return [one for one in found if one[1] == reason]


def _print_examples(found: Sequence[Gone]) -> None:
    console().print("\nOne of each", style="bold")
    first = {one[:2]: one for one in reversed(found)}
    for stage, reason, name, detail, _ in sorted(first.values()):
        print_wrapped(f"{stage}: {reason}: {name}{f': {detail}' * bool(detail)}", first="  ", indent="    ")


def _print_all(found: Sequence[Gone]) -> None:
    console().print()
    for stage, _, name, detail, attempts in found:
        often = f" (written {attempts} times)" * (attempts > 1)
        print_wrapped(f"{stage}: {name}{often}{f': {detail}' * bool(detail)}", first="  ", indent="    ")
