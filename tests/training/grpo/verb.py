"""`train grpo` as a command, and settings that are done in a second."""

import typer
from typer.testing import CliRunner, Result

from pluralrm.cli.train import grpo

SMALL = ["--set", "batch=2", "--set", "answers=4", "--set", "rows=8", "--set", "max_tokens=6", "--limit", "12"]


def ran(*words: str) -> Result:
    app = typer.Typer()
    app.command()(grpo)
    return CliRunner().invoke(app, list(words))
