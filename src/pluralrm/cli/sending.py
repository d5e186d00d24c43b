"""`--send-posts`: what users wrote leaves this machine only where the command says so; spec and run.json keep it."""

from collections.abc import Sequence

import typer

from pluralrm.cli.given import with_key
from pluralrm.errors import SpecError

SEND = typer.Option(
    False, "--send-posts", help="Let models behind a URL that is not on this machine see what users wrote."
)


def with_posts(models: Sequence[str], *, allowed: bool) -> list[str]:
    """Return the model specs, with `send=posts` in those that can send, where allowed; a SpecError where none can."""
    return with_posts_of(models, (), allowed=allowed)[0]


def with_posts_of(models: Sequence[str], conditions: Sequence[str], *, allowed: bool) -> tuple[list[str], list[str]]:
    """Return the specs of models and of conditions in the same way: a condition may ask a model of its own."""
    from pluralrm.conditions import KINDS as CONDITIONS
    from pluralrm.conditions import parse_condition
    from pluralrm.models import KINDS, parse_model

    if not allowed:
        return list(models), list(conditions)
    sending = ["send" in KINDS[parse_model(text).kind].form.keys for text in models]
    telling = ["send" in CONDITIONS[parse_condition(text).kind].form.keys for text in conditions]
    if not any(sending + telling):
        raise SpecError(
            f"--send-posts: nothing is sent by {', '.join([*models, *conditions]) or 'a benchmark'}; leave it out"
        )
    return with_key(models, "send", "posts", sending), with_key(conditions, "send", "posts", telling, parse_condition)
