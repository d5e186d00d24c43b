"""`--trust-remote-code MODEL`, for every verb that loads models: a folder's own code runs only where MODEL names it."""

from collections.abc import Sequence

import typer

from pluralrm.cli.given import model_spec, with_key

TRUST = typer.Option(
    [], "--trust-remote-code", metavar="MODEL", help="Run the code in this model's folder; repeat for more."
)
"""MODEL as --model has it, without the kind: the folder, or the hub id with its revision."""


def with_trust(models: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the model specs, with `code=trusted` where a target is named; a name of none of them is a SpecError."""
    from pluralrm.errors import SpecError, did_you_mean
    from pluralrm.models import KINDS
    from pluralrm.models.neural.folder import CODE_KEY, TRUSTED

    specs = [model_spec(text) for text in models]
    targets = [spec.target if CODE_KEY in KINDS[spec.kind].form.keys else None for spec in specs]
    known = [target for target in targets if target is not None]
    for name in named:
        if name not in known:
            raise SpecError(f"--trust-remote-code {name}: no model folder of that name.{did_you_mean(name, known)}")
    return with_key(models, CODE_KEY, TRUSTED, [target in named for target in targets])
