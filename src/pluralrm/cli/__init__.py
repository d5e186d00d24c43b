"""The command line: one file per verb. Each parses, calls one public function and prints.

Only typer loads here; everything else loads inside the verb that needs it, so that --help stays quick.
"""

import os
import sys

import typer

from pluralrm._version import __version__
from pluralrm.cli import (
    align,
    annotate,
    attack,
    audit,
    best_of_n,
    build,
    check,
    compare,
    correlate,
    demo,
    doctor,
    export,
    fit,
    grade,
    listing,
    power,
    ppo,
    report,
    sample,
    score,
    serve,
    show,
    study,
)
from pluralrm.cli.terminal import allow_any_encoding, complain
from pluralrm.errors import OutageError, PluralrmError

app = typer.Typer(
    name="pluralrm",
    help="Does a reward model know whose preference it is judging?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"pluralrm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Does a reward model know whose preference it is judging?"""


app.command("demo")(demo.demo)
app.command("list")(listing.list_)
app.command("score")(score.score)
app.command("show")(show.show)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("fit")(fit.fit)
app.add_typer(export.app, name="export")
app.add_typer(build.app, name="build")
app.command("sample")(sample.sample)
app.command("grade")(grade.grade)
app.command("best-of-n")(best_of_n.best_of_n)
app.command("align")(align.align)
app.command("correlate")(correlate.correlate)
app.add_typer(power.app, name="power")
app.add_typer(ppo.app, name="ppo")
app.command("study")(study.study)
app.command("audit")(audit.audit)
app.command("attack")(attack.attack)
app.add_typer(annotate.app, name="annotate")
app.command("serve")(serve.serve)
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line: a user's error is one message and exit 2, an outage exit 3, a bug is a traceback."""
    allow_any_encoding()
    try:
        app()
    except OutageError as exc:
        complain(str(exc))
        sys.exit(score.INCOMPLETE)
    except PluralrmError as exc:
        complain(str(exc))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone, as in `pluralrm list models | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
