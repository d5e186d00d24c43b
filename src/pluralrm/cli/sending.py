"""`--send-posts`: what users wrote leaves this machine only where the command says so; spec and run.json keep it."""

from collections.abc import Sequence
from dataclasses import replace

import typer

SEND = typer.Option(
    False, "--send-posts", help="Let models behind a URL that is not on this machine see what users wrote."
)


def with_posts(models: Sequence[str], *, allowed: bool) -> list[str]:
    """Return the model specs, with `send=posts` in those that can send, where allowed; a SpecError where none can."""
    from pluralrm.errors import SpecError
    from pluralrm.models import KINDS, parse_model

    if not allowed:
        return list(models)
    specs = [parse_model(text) for text in models]
    sending = ["send" in KINDS[spec.kind].form.keys for spec in specs]
    if not any(sending):
        raise SpecError(f"--send-posts: nothing is sent by {', '.join(models)}; leave it out")
    return [
        str(replace(spec, options={**spec.options, "send": "posts"})) if sends else text
        for text, spec, sends in zip(models, specs, sending, strict=True)
    ]
