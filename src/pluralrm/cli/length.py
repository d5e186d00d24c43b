"""`--max-prompt-tokens N`: all models are shown as much, or their numbers are not comparable."""

from collections.abc import Sequence

import typer

from pluralrm.cli.given import with_key
from pluralrm.errors import SpecError

LENGTH = typer.Option(
    None,
    "--max-prompt-tokens",
    min=1,
    metavar="N",
    help="The longest conversation that reward models are shown; posts that make it longer are dropped.",
)


def with_length(models: Sequence[str], tokens: int | None) -> list[str]:
    """Return the model specs, with `max_tokens=N` in those that drop posts by it; a SpecError where none does."""
    from pluralrm.models import KINDS, parse_model

    if tokens is None:
        return list(models)
    specs = [parse_model(text) for text in models]
    limited = [KINDS[spec.kind].limit == "max_tokens" for spec in specs]  # a judge's is the length of its reply
    if not any(limited):
        raise SpecError(f"--max-prompt-tokens: none of {', '.join(models)} drops posts by a limit; leave it out")
    for text, spec, one in zip(models, specs, limited, strict=True):
        if one and spec.options.get("max_tokens", str(tokens)) != str(tokens):
            raise SpecError(f"--max-prompt-tokens {tokens}: {text} says another number; leave one of them out")
    return with_key(models, "max_tokens", str(tokens), limited)
