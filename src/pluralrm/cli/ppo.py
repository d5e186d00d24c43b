"""`pluralrm ppo`: train a policy against a reward model."""

import typer

from pluralrm.cli import ppo_verl

app = typer.Typer(no_args_is_help=True, help="Train a policy against a reward model.")


@app.callback()
def _root() -> None:
    """Train a policy against a reward model."""


app.command("export")(ppo_verl.export)
app.command("import")(ppo_verl.import_)
