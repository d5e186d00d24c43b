"""`pluralrm align`: how near a model's reward comes to human ratings, over a file."""

from enum import StrEnum
from pathlib import Path

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
from pluralrm.cli.terminal import Kind, console, print_json, print_wrapped, table


class RewardMapping(StrEnum):
    """How a reward becomes a number in [0, 1]."""

    identity = "identity"
    cosine = "cosine"
    logistic = "logistic"


@with_server_options
def align(
    file: Path = typer.Argument(
        ..., help="JSONL rows: output, profile, human_score in [0, 1]; optional: prompt, user."
    ),
    model: str = typer.Option(..., "--model", "-m", help="A reward model.", autocompletion=complete_model),
    mapping: RewardMapping | None = typer.Option(
        None, help="How a reward becomes a number in [0, 1].", show_default="from the model's range"
    ),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    max_prompt_tokens: int | None = LENGTH,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare a model's rewards with human ratings: mean alignment = 1 - |predicted - human|, and correlations."""
    from pluralrm.align import align as align_file
    from pluralrm.models import load_model

    [model] = with_length(with_posts(with_trust([model], trust), allowed=send), max_prompt_tokens)
    settings = served.settings()
    served.check([load_model(model, settings=settings)])
    report = align_file(file, model, mapping=mapping.value if mapping else None, seed=seed, settings=settings)
    if as_json:
        print_json(report.to_json())
        return
    rows = []
    for name in ("alignment", "pearson", "spearman"):
        estimate = getattr(report, name)
        if estimate is None:
            rows.append((name, "none", "all predictions or ratings equal, or one user", "", ""))
            continue
        interval = "" if estimate.low is None else f"[{estimate.low:.3f}, {estimate.high:.3f}]"
        rows.append((name, f"{estimate.value:.3f}", interval, str(estimate.n), str(estimate.failed)))
    columns: list[tuple[str, Kind]] = [("", "left"), ("value", "right"), ("95% interval", "text")]
    console().print(table([*columns, ("n", "right"), ("failed", "right")], rows))
    console().print()
    print_wrapped(f"model {report.model}, mapped by {report.mapping}", indent="  ")
    print_wrapped(f"intervals: {report.alignment.method}", indent="  ")
