"""`pluralrm ppo`: train a policy against a reward model."""

import typer

from pluralrm.cli import grpo, ppo_run, ppo_tiny, ppo_verl

app = typer.Typer(no_args_is_help=True, help="Train a policy against a reward model.")


@app.callback()
def _root() -> None:
    """Train a policy against a reward model."""


app.command("run")(ppo_run.run)
app.command("grpo")(grpo.grpo)
app.command("tiny")(ppo_tiny.tiny)
app.command("scale")(ppo_run.scale)
app.command("export")(ppo_verl.export)
app.command("import")(ppo_verl.import_)
