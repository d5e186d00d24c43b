"""`pluralrm check`: does somebody's own reward model, or benchmark, keep the promises?"""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import (
    LENGTH,
    SEND,
    SERVED,
    TRUST,
    ServerOptions,
    complete_model,
    with_length,
    with_posts,
    with_server_options,
    with_trust,
)
from pluralrm.cli.terminal import console, note, print_json, table
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from pluralrm.core import Benchmark
    from pluralrm.testing import Finding


@with_server_options
def check(
    name: str = typer.Argument(
        ..., metavar="MODEL", help="For example python:my_module:MyModel.", autocompletion=complete_model
    ),
    benchmark: bool = typer.Option(False, "--benchmark", help="Check a benchmark instead of a model."),
    fix: Path | None = typer.Option(
        None, metavar="OUT", help="With --benchmark FILE: write a cleaned copy of the file, and check that."
    ),
    trust: list[str] = TRUST,
    send: bool = SEND,
    max_prompt_tokens: int | None = LENGTH,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check the contract of a reward model (types, order, batching) or of a benchmark. Exit 1 on a failure."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.testing import benchmark_findings

    if fix is not None and not benchmark:
        raise SpecError("--fix cleans a benchmark's file: add --benchmark")

    named = [] if benchmark else [name]
    models = with_length(with_posts(with_trust(named, trust), allowed=send), max_prompt_tokens)
    findings = [finding for model in models for finding in _model_findings(model, served)]
    if benchmark:
        served.check([])
        findings = benchmark_findings(open_benchmark(name) if fix is None else _mended(name, fix))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        rows = [(finding.check, finding.status, finding.detail) for finding in findings]
        console().print(table([("check", "left"), ("result", "left"), ("found", "text")], rows))
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


def _mended(name: str, out: Path) -> "Benchmark":
    """Write the mended file, say what was done, and return what it holds."""
    from pluralrm.benchmarks.repair import mend

    found = mend(name, out)
    written = ", ".join(str(file) for file in found.files)
    note(f"{written}: {str(found.done) or 'nothing to fix'}")
    if left := str(found.benchmark.card.load):
        note(f"still so: {left}")
    return found.benchmark


def _model_findings(name: str, served: ServerOptions) -> "list[Finding]":
    from pluralrm.models import load_model
    from pluralrm.testing import reward_model_findings

    model = load_model(name, settings=served.settings())
    served.check([model])
    return reward_model_findings(model)
