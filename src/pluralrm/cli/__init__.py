"""The command line: one file per verb, or family of verbs. Each parses, calls one public function and prints.

Only typer and the verb that is called load; --help reads the docstrings of the others from their files.
"""

import atexit
import gc
import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from typer._click.core import Context
from typer._click.exceptions import MissingParameter, NoArgsIsHelpError, NoSuchOption, UsageError
from typer.core import TyperArgument, TyperOption
from typer.main import get_command

from pluralrm._version import __version__

if TYPE_CHECKING:
    from typer._click.core import Command

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


_HELP = ["-h", "--help"]


def command_line(called: str | None = None) -> typer.Typer:
    """Return all commands, or the one that is called beside mere summaries of the others."""
    commands = typer.Typer(
        name="pluralrm",
        help="Does a reward model know whose preference it is judging?",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": _HELP},
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
        commands = get_command(command_line(None if completes else called))
        if not completes:
            check_once(commands, sys.argv[1:])
        sys.exit(commands(standalone_mode=False))
    except typer.Abort:  # at a prompt
        sys.exit(1)
    except NoArgsIsHelpError:  # its help is printed
        sys.exit(2)
    except UsageError as exc:
        complain(usage_error(exc, sys.argv[1:]))
        sys.exit(2)
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


# ---------------------------------------------------------------- usage errors


def check_once(command: "Command", words: Sequence[str]) -> None:
    """Refuse an option of one value that stands there twice, of which the parser would drop the first unsaid."""
    from pluralrm.errors import SpecError

    while commands := getattr(command, "commands", {}):
        name = next((word for word in words if not word.startswith("-")), "")
        if name not in commands:
            return
        command, words = commands[name], words[words.index(name) + 1 :]
    parameters: Sequence[object] = ()
    with suppress(UsageError):  # which is said where the command is run
        # The names of the help option as the call has them: a command keeps the first that it makes.
        parameters = command.make_parser(Context(command, help_option_names=_HELP)).parse_args(list(words))[2]
    options = [each for each in parameters if isinstance(each, TyperOption)]
    counts = Counter(each.opts[0] for each in options if not (each.multiple or each.is_flag or each.count))
    for name, count in counts.items():
        if count > 1:
            raise SpecError(f"{name} stands {count} times, wanted once: only the last would count")


_FOLDERS = frozenset({"DIR", "OUT", "PLAN", "POOL", "RUN"})
"""Metavars of folders; those of files begin with FILE and end in the suffix of the file, if it must have one."""


def usage_error(error: UsageError, words: Sequence[str]) -> str:
    """Return what is wrong with the words of a command, what was wanted, and where its help is."""
    from pluralrm.errors import did_you_mean

    context = error.ctx
    if context is None:
        return f"{error.format_message()} See 'pluralrm {words[0]} --help'"
    own = list(words[len(context.command_path.split()) - len(context.find_root().command_path.split()) :])
    if isinstance(error, NoSuchOption):
        names = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        text = f"no option {error.option_name!r}.{did_you_mean(error.option_name, names)}"
    elif commands := getattr(context.command, "commands", {}):
        text = f"{error.format_message().split('.')[0]}.{did_you_mean(own[0], commands)}"
    elif isinstance(error, typer.BadParameter) and not isinstance(error, MissingParameter):
        text = f"{error.format_message().removesuffix('.')}."
        if error.param is not None:
            text += f" Found {context.command.make_parser(context).parse_args(own)[0].get(error.param.name)!r}."
    else:
        text = _completed(context, own)
    return f"{text} See '{context.command_path} --help'"


def _completed(context: "Context", words: Sequence[str]) -> str:
    """Return what is missing and which words are too many, and the command with what can be mended."""
    values, extra, _ = context.command.make_parser(context).parse_args(list(words))
    parameters = [each for each in context.command.params if isinstance(each, TyperArgument | TyperOption)]
    absent = [each for each in parameters if not values.get(each.name)]
    missing = [each for each in absent if each.required]
    uses = ", ".join(f"{_usage(each)} ({(each.help or '').split('. ')[0].removesuffix('.')})" for each in missing)
    problems = [f"missing {uses}"] * bool(missing) + [f"unexpected {', '.join(map(repr, extra))}"] * bool(extra)
    line = list(words)
    for word in extra:
        del line[len(line) - 1 - line[::-1].index(word)]
    if len(extra) == 1:
        (word,) = extra
        for each in parameters:
            value = values.get(each.name)
            if isinstance(each, TyperArgument) and value and _misplaced(value, each) and not _misplaced(word, each):
                line[line.index(value)], word = word, value
        if options := [each for each in absent if isinstance(each, TyperOption) and _takes(each, word, missing)]:
            option = max(options, key=lambda each: (len(_metavar(each)), each.required))
            line += [option.opts[0], word]
            missing = [each for each in missing if each is not option]
    lacking = [_usage(each) for each in missing]
    command = " ".join([context.command_path, *map(shlex.quote, line), *lacking])
    return f"{'; '.join(problems)}. Wanted: {command}."


def _usage(parameter: TyperArgument | TyperOption) -> str:
    """Return how a parameter is written: PLAN, or --out FILE."""
    metavar = _metavar(parameter)
    return metavar if isinstance(parameter, TyperArgument) else f"{parameter.opts[0]} {metavar}"


def _metavar(parameter: TyperArgument | TyperOption) -> str:
    return parameter.metavar or str(parameter.name).upper()


def _misplaced(word: str, argument: TyperArgument) -> bool:
    """Return whether a word is a file where a folder is wanted, or a folder where a file is."""
    metavar = _metavar(argument).split("|")[0]
    folder = Path(word).is_dir()
    return (metavar in _FOLDERS and not folder) or (metavar.startswith("FILE") and folder)


def _takes(option: TyperOption, word: str, missing: Sequence[TyperArgument | TyperOption]) -> bool:
    """Return whether a word looks like the value of an option; what is on disk is no file to be written."""
    metavar, suffix = _metavar(option), Path(word).suffix
    if option.name == "out" and Path(word).is_file():
        return False
    if metavar.startswith("FILE"):
        return bool(suffix) and word.endswith(metavar.removeprefix("FILE"))
    if metavar in _FOLDERS:  # any word may be the name of a new one
        return not suffix and missing[:1] == [option]
    return type(option.default) is int and word.isdigit()
