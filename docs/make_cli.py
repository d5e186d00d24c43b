"""Writes docs/cli.md from the commands themselves: `make cli-page`. A test fails while the page is stale."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from types import NoneType
from typing import NamedTuple, get_args, get_origin, get_type_hints

from typer import Typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from pluralrm.cli import app
from pluralrm.cli.options import SERVERS

DOCS = Path(__file__).parent
PAGE = DOCS / "cli.md"
SHARED = 2
"""Commands, a group as one, that take an option which is described at the top."""

_HEAD = """# Commands

`pluralrm VERB --help` says the same; `pluralrm --install-completion` completes in your shell. Results go to standard
output, progress and notes to standard error. `--seed=0`: the default is 0; `--out=DIR`: no default. `...`: repeatable;
`[...]`: optional. The same command resumes a folder.

Exit codes:

- 0: done
- 1: done, with a bad result: labels leak, an attack wins, a check or `doctor` fails, a claim is refuted
- 2: a mistake in the command or a file
- 3: an outage, or a machine too busy to validate, left something open; the same command retries it
- 130: stopped by Ctrl-C; finished work is kept
"""
_TYPES: dict[object, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
# A command that ends in an error is no example.
_LINES = re.compile(r"(?<!^<!-- exit: 2 -->\n)^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"(?<!\S)(-[-\w]+)")
_NAMES, _WIDTH = 24, 120
_EXIT = re.compile(r" Exit \d [^.]*\.")  # the table at the top has them
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


Row = tuple[str, str]
"""An option or argument as the page names it, and what --help says of it."""


class Verb(NamedTuple):
    """A command: what it is called after `pluralrm`, and the function that typer reads."""

    name: str
    function: Callable[..., object]


class Shared(NamedTuple):
    """Options that stand once at the top: the one of nearly every verb, those of many, those about servers."""

    usual: Row | None = None
    common: Sequence[Row] = ()
    servers: Sequence[Row] = ()


_NONE = Shared()


def page() -> str:
    """Return the page: options that many verbs share, then a section per verb, in the order of --help."""
    found = list(verbs(app))
    times = Counter(row for _, row in {(verb.name.split()[0], row) for verb in found for row in _options(verb)})
    servers = list(dict.fromkeys(row for verb in found for row in _options(verb, SERVERS)))
    often = [row for row, count in sorted(times.items(), key=_by_use) if count >= SHARED and row not in servers]
    usual = often[0]
    common = {_longest([row]): row for row in reversed(often) if row != usual}  # one meaning for each name
    shared = Shared(usual, sorted(common.values()), servers)
    without = [f"`{verb.name}`" for verb in found if not any(row[0] == usual[0] for row in _options(verb))]
    nearly_all = f"`{usual[0]}`: {usual[1]} All commands but {' and '.join(without)} have it."
    head = [
        *(_HEAD, "## Shared options", "", nearly_all, "", *_table(shared.common)),
        *("## Server options", "", "Of commands that ask a server:", "", *_table(servers)),
    ]
    sections = (_section(verb, shared, found[:place]) for place, verb in enumerate(found))
    return "\n".join([*head, *(line for section in sections for line in section)])


def verbs(group: Typer, prefix: str = "") -> Iterator[Verb]:
    """Yield the commands of a group, those of its own groups too."""
    for command in group.registered_commands:
        if command.callback and not command.hidden:
            yield Verb(f"{prefix}{command.name or command.callback.__name__}", command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance:
            yield from verbs(inner.typer_instance, f"{prefix}{inner.name or inner.typer_instance.info.name} ")


def _section(verb: Verb, shared: Shared = _NONE, before: Sequence[Verb] = ()) -> list[str]:
    arguments = [one for one in _declared(verb) if isinstance(one[1], ArgumentInfo)]
    options = [row for row in _options(verb) if row != shared.usual]
    elsewhere, text = _siblings(verb, [row for row in options if row not in (*shared.common, *shared.servers)], before)
    own = [row for row in options if row not in (*shared.common, *shared.servers, *elsewhere)]
    rows = [*((_usage(name, info, kind), _told(info)) for name, info, kind in arguments), *own]
    return [
        *(f"## {verb.name}", ""),
        *(_EXIT.sub("", " ".join((verb.function.__doc__ or "").split())), "", *_table(rows)),
        *([text, ""] if text else []),
        *_also(options, shared),
        *_example(verb.name),
    ]


def _by_use(row_and_count: tuple[Row, int]) -> tuple[int, Row]:
    row, count = row_and_count
    return -count, row


def _siblings(verb: Verb, options: Sequence[Row], before: Sequence[Verb]) -> tuple[list[Row], str]:
    """Return the options that an earlier verb of the same group has described, and the line that refers to it."""
    group = f"{verb.name.rpartition(' ')[0]} "
    known = {other.name: [row for row in options if row in _options(other)] for other in before}
    most = max(
        (name for name, same in known.items() if same and name.startswith(group)),
        key=lambda n: len(known[n]),
        default="",
    )
    return (known[most], f"As in [{most}](#{most.replace(' ', '-')}): {_longest(known[most])}.") if most else ([], "")


def _also(options: Sequence[Row], shared: Shared) -> list[str]:
    """Return the line that names the shared options of a verb, and which of the server options it takes."""
    asked = [row for row in shared.servers if row in options]
    left_out = [row for row in shared.servers if row not in options]
    all_but = f" but {_longest(left_out)}" if left_out else ""
    which = f"[servers](#server-options){all_but}" if len(asked) > len(left_out) else _longest(asked)
    takes = [_longest([row for row in options if row in shared.common]), which if asked else ""]
    return [f"Also: {', '.join(filter(None, takes))}.", ""] if any(takes) else []


def _longest(rows: Sequence[Row]) -> str:
    """Return the long names of options."""
    return ", ".join(f"`{_NAME.findall(names)[-1]}`" for names, _ in rows)


def _declared(verb: Verb) -> list[tuple[str, ParameterInfo, object]]:
    kinds = get_type_hints(verb.function)
    return [(name, one.default, kinds[name]) for name, one in signature(verb.function).parameters.items()]


def _options(verb: Verb, panel: str | None = None) -> list[Row]:
    """Return the rows of a verb's options (of one panel): its names, and what --help says of it."""
    options = [(name, info, kind) for name, info, kind in _declared(verb) if isinstance(info, OptionInfo)]
    seen = [one for one in options if not one[1].hidden and panel in (None, one[1].rich_help_panel)]
    return [(_names(name, info, kind), _told(info, _in_names(info, kind))) for name, info, kind in seen]


def _usage(name: str, info: ParameterInfo, kind: object, *, option: bool = False) -> str:
    """Return what stands for a value, with dots where there may be several, an optional argument in brackets."""
    several = _value(name, info, kind).removesuffix("...") + ("..." if get_origin(kind) is list else "")
    return several if option or info.default is ... else f"[{several}]"


def _value(name: str, info: ParameterInfo, kind: object) -> str:
    """Return what stands for a value: the parameter's own word, its choices, an argument's name, an option's type."""
    [inner, *_] = [one for one in get_args(kind) if one is not NoneType] or [kind]
    if info.metavar:
        return re.sub(r"^\[(.*)\]$", r"\1", info.metavar)
    if isinstance(inner, type) and issubclass(inner, Enum):
        return "|".join(str(one.value) for one in inner)
    return name.upper() if isinstance(info, ArgumentInfo) else _TYPES[inner]


def _names(name: str, info: OptionInfo, kind: object) -> str:
    names = sorted(info.param_decls or [f"--{name.replace('_', '-')}"], key=len)
    if _in_names(info, kind):
        return ", ".join([*names[:-1], f"{names[-1]}={_default(info)}"])
    value = "" if kind is bool else f"={_usage(name, info, kind, option=True)}"
    return ", ".join([*names[:-1], names[-1] + value])


def _in_names(info: OptionInfo, kind: object) -> bool:
    """Return whether the default says what the value is, so that the option is shown with it: `--seed=0`."""
    choices = isinstance(kind, type) and issubclass(kind, Enum)
    named = re.search(rf"\b{re.escape(info.metavar)}\b", info.help or "") if info.metavar else None
    several = isinstance(info.default, list) or " " in _default(info)
    return bool(_default(info)) and not (several or choices or named)


def _default(info: ParameterInfo) -> str:
    """Return the default as one types it; nothing where there is none, or where --help describes it in words."""
    default = info.default
    if default in (..., None, "", []) or isinstance(default, bool) or isinstance(info.show_default, str):
        return ""
    return " ".join(map(str, default)) if isinstance(default, (list, tuple)) else str(default)


def _told(info: ParameterInfo, named: bool = False) -> str:
    told = re.sub(
        r"(; repeat( for more)?|; repeatable|; the same command resumes|\. Repeatable)(?=[.;])", "", info.help or ""
    )
    if info.default is ...:
        return told if isinstance(info, ArgumentInfo) else f"{told} Required."
    if isinstance(info.show_default, str):
        return f"{told} Default: {info.show_default}."
    return told if named or not _default(info) else f"{told} Default: {_default(info)}."


def _table(rows: Sequence[Row]) -> list[str]:
    """Return the rows as --help lays them out: names, and beside them, or below long ones, what is said of them."""
    lines = []
    for names, text in rows:
        lines += [names] if len(names) > _NAMES else []
        start = "" if len(names) > _NAMES else names
        said = fill(text, _WIDTH - _NAMES - 2, break_on_hyphens=False).splitlines()
        lines += [f"{left:<{_NAMES}}  {line}" for left, line in zip_longest([start], said, fillvalue="")]
    return ["```text", *lines, "```", ""] if rows else []


def _example(verb: str) -> list[str]:
    """Return the line that names the first page on which a verb is run."""
    for file in _pages():
        text = "\n".join(_LINES.findall(file.read_text(encoding="utf-8")))
        for line in re.sub(r"\\\n\s*", "", text).splitlines():
            command = line.partition(" #")[0].strip()
            if re.match(rf"(pluralrm|make) {verb}(?![\w-])", command):
                return [f"[Example]({file.name})", ""]
    return []


def _pages() -> list[Path]:
    """Return the pages in the order in which the site lists them."""
    listed = "".join(_TOCTREE.findall((DOCS / "index.md").read_text(encoding="utf-8"))).splitlines()
    return [DOCS / f"{name}.md" for name in listed if re.fullmatch(r"[a-z-]+", name) and (DOCS / f"{name}.md").exists()]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
