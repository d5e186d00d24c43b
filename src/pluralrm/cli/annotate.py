"""`pluralrm annotate`: people in the loop."""

import typer

from pluralrm.cli import (
    annotate_agreement,
    annotate_claim,
    annotate_files,
    annotate_plan,
    annotate_rehearse,
    annotate_serve,
)

app = typer.Typer(no_args_is_help=True, help="Have people judge a benchmark: plan, serve, agreement, claim.")


@app.callback()
def _root() -> None:
    """Have people judge a benchmark: plan, serve, agreement, claim."""


app.command("plan")(annotate_plan.plan)
app.command("rehearse")(annotate_rehearse.rehearse)
app.command("serve")(annotate_serve.serve)
app.command("agreement")(annotate_agreement.agreement)
app.command("claim")(annotate_claim.claim)
app.command("export")(annotate_files.export)
app.command("import")(annotate_files.import_)
