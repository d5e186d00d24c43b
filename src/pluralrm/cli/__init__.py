"""The command line: one file per verb, or family of verbs. Each parses, calls one public function and prints.

Only typer and the verb that is called load; --help reads the docstrings of the others from their files.
"""

import atexit
import gc
import os
import sys
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm._version import __version__

if TYPE_CHECKING:
    app: typer.Typer


class Verb(NamedTuple):
    """A command: the panel of --help that lists it, and its function, or, with a summary, its group of commands."""

    panel: str
    module: str
    function: str
    summary: str = ""


_START, _TRUST, _OTHERS, _DOWNSTREAM, _MAKE = "Start", "Trust", "Other people's numbers", "Downstream", "Make"

VERBS = {
    "demo": Verb(_START, "evaluate", "demo"),
    "evaluate": Verb(_START, "evaluate", "evaluate"),
    "list": Verb(_START, "show", "list_"),
    "score": Verb(_START, "score", "score"),
    "merge": Verb(_START, "score", "merge"),
    "compare": Verb(_START, "compare", "compare"),
    "report": Verb(_START, "show", "report"),
    "view": Verb(_START, "show", "view"),
    "show": Verb(_START, "show", "show"),
    "doctor": Verb(_TRUST, "doctor", "doctor"),
    "check": Verb(_TRUST, "doctor", "check"),
    "gate": Verb(_TRUST, "doctor", "gate"),
    "audit": Verb(_TRUST, "audit", "audit"),
    "share": Verb(_TRUST, "audit", "share"),
    "attack": Verb(_TRUST, "attack", "attack"),
    "stand-in": Verb(_TRUST, "annotate_agreement", "stand_in"),
    "power": Verb(_TRUST, "power", "app", "How many items, models or judgments does a significant result take?"),
    "import": Verb(_OTHERS, "imports", "import_"),
    "align": Verb(_OTHERS, "imports", "align"),
    "leaderboard": Verb(_OTHERS, "show", "leaderboard"),
    "export": Verb(_OTHERS, "export", "app", "Write files for other tools."),
    "sample": Verb(_DOWNSTREAM, "sample", "sample"),
    "grade": Verb(_DOWNSTREAM, "grade", "grade"),
    "best-of-n": Verb(_DOWNSTREAM, "best_of_n", "best_of_n"),
    "correlate": Verb(_DOWNSTREAM, "correlate", "correlate"),
    "study": Verb(_DOWNSTREAM, "study", "study"),
    "train": Verb(_DOWNSTREAM, "train", "app", "Train a policy against a reward model."),
    "fit": Verb(_MAKE, "fit", "fit"),
    "serve": Verb(_MAKE, "serve", "serve"),
    "construct": Verb(_MAKE, "construct", "app", "Build benchmarks, and data that they lack."),
    "annotate": Verb(_MAKE, "annotate", "app", "Have people judge a benchmark: plan, serve, agreement, claim."),
}
"""In the order of --help: groups stand after commands."""


def command_line(called: str | None = None) -> typer.Typer:
    """Return all commands, or the one that is called beside mere summaries of the others."""
    commands = typer.Typer(
        name="pluralrm",
        help="Does a reward model know whose preference it is judging?",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands.callback()(_root)
    for name, (panel, module, function, summary) in VERBS.items():
        if called is not None and name != called:
            text = summary or _docstring(module, function)
            commands.command(name, rich_help_panel=panel, help=text)(_unused)
            continue
        value = getattr(import_module(f"pluralrm.cli.{module}"), function)
        if summary:
            commands.add_typer(value, name=name, rich_help_panel=panel, help=summary)
        else:
            commands.command(name, rich_help_panel=panel)(value)
    return commands


def __getattr__(name: str) -> object:
    if name != "app":
        raise AttributeError(f"module 'pluralrm.cli' has no attribute {name!r}")
    return globals().setdefault(name, command_line())


def _docstring(module: str, function: str) -> str:
    """Return the docstring of a verb's function, read from its source: to load all verbs takes longer than to help."""
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    start = source.index('"""', source.index(f"\ndef {function}(")) + 3
    return cleandoc(source[start : source.index('"""', start)])


def _unused() -> None:
    """Stand for a command that is listed and not called."""


def _version(value: bool) -> None:
    if value:
        print(f"pluralrm {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Does a reward model know whose preference it is judging?"""


def main() -> None:
    """Run the command line: a user's error is one message and exit 2, an outage exit 3, a bug is a traceback."""
    from pluralrm.cli.terminal import allow_any_encoding, complain
    from pluralrm.errors import OutageError, PluralrmError

    allow_any_encoding()
    gc.set_threshold(10_000)  # at 700 cycles are looked for 200 times while a verb is imported
    atexit.register(gc.freeze)  # at the end no cycles are looked for among what goes anyway
    completes = "_PLURALRM_COMPLETE" in os.environ  # the shell asks about any of the commands
    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        command_line(None if completes else called)()
    except OutageError as exc:
        from pluralrm.cli.progress import INCOMPLETE

        complain(str(exc))
        sys.exit(INCOMPLETE)
    except PluralrmError as exc:
        complain(str(exc))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has gone, as in `pluralrm list models | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
