"""The command line: one file per verb, or family of verbs. Each parses, calls one public function and prints.

Only typer loads here; everything else loads inside the verb that needs it, so that --help stays quick.
"""

import os
import sys

import typer

from pluralrm._version import __version__
from pluralrm.cli import (
    annotate,
    attack,
    audit,
    best_of_n,
    compare,
    construct,
    correlate,
    doctor,
    evaluate,
    export,
    fit,
    grade,
    imports,
    power,
    sample,
    score,
    serve,
    show,
    stand_in,
    study,
    train,
)
from pluralrm.cli.progress import INCOMPLETE
from pluralrm.cli.terminal import allow_any_encoding, complain
from pluralrm.errors import OutageError, PluralrmError

app = typer.Typer(
    name="pluralrm",
    help="Does a reward model know whose preference it is judging?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"pluralrm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Does a reward model know whose preference it is judging?"""


_START, _TRUST, _OTHERS, _DOWNSTREAM, _MAKE = "Start", "Trust", "Other people's numbers", "Downstream", "Make"

app.command("demo", rich_help_panel=_START)(evaluate.demo)
app.command("evaluate", rich_help_panel=_START)(evaluate.evaluate)
app.command("list", rich_help_panel=_START)(show.list_)
app.command("score", rich_help_panel=_START)(score.score)
app.command("merge", rich_help_panel=_START)(score.merge)
app.command("compare", rich_help_panel=_START)(compare.compare)
app.command("report", rich_help_panel=_START)(show.report)
app.command("view", rich_help_panel=_START)(show.view)
app.command("show", rich_help_panel=_START)(show.show)
app.command("doctor", rich_help_panel=_TRUST)(doctor.doctor)
app.command("check", rich_help_panel=_TRUST)(doctor.check)
app.command("gate", rich_help_panel=_TRUST)(doctor.gate)
app.command("audit", rich_help_panel=_TRUST)(audit.audit)
app.command("share", rich_help_panel=_TRUST)(audit.share)
app.command("attack", rich_help_panel=_TRUST)(attack.attack)
app.command("stand-in", rich_help_panel=_TRUST)(stand_in.stand_in)
app.add_typer(power.app, name="power", rich_help_panel=_TRUST)
app.command("import", rich_help_panel=_OTHERS)(imports.import_)
app.command("align", rich_help_panel=_OTHERS)(imports.align)
app.command("leaderboard", rich_help_panel=_OTHERS)(show.leaderboard)
app.add_typer(export.app, name="export", rich_help_panel=_OTHERS)
app.command("sample", rich_help_panel=_DOWNSTREAM)(sample.sample)
app.command("grade", rich_help_panel=_DOWNSTREAM)(grade.grade)
app.command("best-of-n", rich_help_panel=_DOWNSTREAM)(best_of_n.best_of_n)
app.add_typer(train.app, name="train", rich_help_panel=_DOWNSTREAM)
app.command("correlate", rich_help_panel=_DOWNSTREAM)(correlate.correlate)
app.command("study", rich_help_panel=_DOWNSTREAM)(study.study)
app.command("fit", rich_help_panel=_MAKE)(fit.fit)
app.add_typer(construct.app, name="construct", rich_help_panel=_MAKE)
app.add_typer(annotate.app, name="annotate", rich_help_panel=_MAKE)
app.command("serve", rich_help_panel=_MAKE)(serve.serve)


def main() -> None:
    """Run the command line: a user's error is one message and exit 2, an outage exit 3, a bug is a traceback."""
    allow_any_encoding()
    try:
        app()
    except OutageError as exc:
        complain(str(exc))
        sys.exit(INCOMPLETE)
    except PluralrmError as exc:
        complain(str(exc))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone, as in `pluralrm list models | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
