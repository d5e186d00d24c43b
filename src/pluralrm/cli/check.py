"""`pluralrm check`: does somebody's own reward model, or benchmark, keep the promises?"""

import typer

from pluralrm.cli.terminal import console, print_json, table
from pluralrm.cli.trust import TRUST, with_trust


def check(
    name: str = typer.Argument(..., metavar="MODEL", help="For example python:my_module:MyModel."),
    benchmark: bool = typer.Option(False, "--benchmark", help="The name is a benchmark's."),
    trust: list[str] = TRUST,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check that a reward model (or a benchmark) keeps its promises: types, order, batching. Exit 1 if not."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.models import load_model
    from pluralrm.testing import benchmark_findings, reward_model_findings

    models = with_trust([] if benchmark else [name], trust)
    findings = reward_model_findings(load_model(models[0])) if models else benchmark_findings(load_benchmark(name))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        rows = [(finding.check, finding.status, finding.detail) for finding in findings]
        console().print(table([("check", "left"), ("result", "left"), ("found", "text")], rows))
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)
