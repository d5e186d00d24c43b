"""Writes docs/cli.md from the commands themselves: `make cli-page`. A test fails while the page is stale."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import NamedTuple, get_args, get_origin, get_type_hints

from typer import Typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from pluralrm.cli import app

DOCS = Path(__file__).parent
PAGE = DOCS / "cli.md"
SHARED = 3
_HEAD = """# Commands

Written by `make cli-page` from the commands themselves; `pluralrm VERB --help` says the same. Results go to standard
output, progress and remarks to standard error. An option with * may be repeated.

| exit code | means |
|---|---|
| 0 | done |
| 1 | done, and what was asked about is not sound: a label leaks (`audit`), a trick wins (`attack`), `check` fails |
| 2 | a mistake in the command or in a file; one message says what was found and what was wanted |
| 3 | an outage left a run open; the same command tries the rest again |
| 130 | stopped by Ctrl-C; what is done is kept |
"""
_TYPES: dict[object, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
# A command that ends in an error is no example.
_LINES = re.compile(r"(?<!^<!-- exit: 2 -->\n)^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Verb(NamedTuple):
    """A command: what it is called after `pluralrm`, and the function that typer reads."""

    name: str
    function: Callable[..., object]


def page() -> str:
    """Return the page: options that many verbs share, then a section per verb, in the order of --help."""
    found = list(verbs(app))
    times = Counter(row for verb in found for row in _options(verb))
    shared = sorted(row for row, count in times.items() if count >= SHARED)
    head = [_HEAD, f"Options that {SHARED} or more commands share; each section below names those that it takes.", ""]
    return "\n".join([*head, *_table(shared), *(line for verb in found for line in _section(verb, shared))])


def verbs(group: Typer, prefix: str = "") -> Iterator[Verb]:
    """Yield the commands of a group, those of its own groups too."""
    for command in group.registered_commands:
        if command.callback and not command.hidden:
            yield Verb(f"{prefix}{command.name or command.callback.__name__}", command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance:
            yield from verbs(inner.typer_instance, f"{prefix}{inner.name or inner.typer_instance.info.name} ")


def _section(verb: Verb, shared: Sequence[tuple[str, str]] = ()) -> list[str]:
    declared = _declared(verb)
    arguments = [one for one in declared if isinstance(one[1], ArgumentInfo)]
    usage = " ".join(["pluralrm", verb.name, *(_usage(*one) for one in arguments), "[OPTIONS]"])
    options = _options(verb)
    common = ", ".join(names.split(" `")[0].split(", ")[-1] for names, _ in options if (names, _) in shared)
    return [
        *(f"## {verb.name}", "", f"`{usage}`", "", " ".join((verb.function.__doc__ or "").split()), ""),
        *_table([(f"`{_value(name, info, kind)}`", _told(info)) for name, info, kind in arguments]),
        *_table([row for row in options if row not in shared]),
        *([f"Shared options: {common}.", ""] if common else []),
        *_example(verb.name),
    ]


def _declared(verb: Verb) -> list[tuple[str, ParameterInfo, object]]:
    kinds = get_type_hints(verb.function)
    return [(name, one.default, kinds[name]) for name, one in signature(verb.function).parameters.items()]


def _options(verb: Verb) -> list[tuple[str, str]]:
    """Return the rows of a verb's options: its names, and what --help says of it."""
    options = [one for one in _declared(verb) if isinstance(one[1], OptionInfo) and not one[1].hidden]
    return [(_names(name, info, kind), _told(info)) for name, info, kind in options if isinstance(info, OptionInfo)]


def _usage(name: str, info: ParameterInfo, kind: object) -> str:
    many = _value(name, info, kind) + ("..." if get_origin(kind) is list else "")
    return many if info.default is ... else f"[{many}]"


def _value(name: str, info: ParameterInfo, kind: object) -> str:
    """Return what stands for a value: the parameter's own word, its choices, an argument's name, an option's type."""
    [inner, *_] = [one for one in get_args(kind) if one is not NoneType] or [kind]
    if info.metavar:
        return info.metavar
    if isinstance(inner, type) and issubclass(inner, Enum):
        return "|".join(str(one.value) for one in inner)
    return name.upper() if isinstance(info, ArgumentInfo) else _TYPES[inner]


def _names(name: str, info: OptionInfo, kind: object) -> str:
    names = ", ".join(f"`{one}`" for one in sorted(info.param_decls or [f"--{name.replace('_', '-')}"], key=len))
    return (
        names + ("" if kind is bool else f" `{_value(name, info, kind)}`") + (" *" if get_origin(kind) is list else "")
    )


def _told(info: ParameterInfo) -> str:
    told, default = info.help or "", info.default
    if default is ...:
        return told if isinstance(info, ArgumentInfo) else f"{told} Required."
    if isinstance(info.show_default, str):
        return f"{told} Default: {info.show_default}."
    if default in (None, "", []) or isinstance(default, bool):
        return told
    return f"{told} Default: `{' '.join(map(str, default)) if isinstance(default, list) else default}`."


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [*(f"- {left}: {right}" if right else f"- {left}" for left, right in rows), ""] if rows else []


def _example(verb: str) -> list[str]:
    """Return the first page on which a verb is run."""
    for file in _pages():
        text = file.read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        for line in re.sub(r"\\\n\s*", "", "\n".join(_LINES.findall(text))).splitlines():
            command = line.partition(" #")[0].strip()
            if re.match(rf"(pluralrm|make) {verb}(?![\w-])", command) and title:
                return [f"Example: [{title[1].partition(':')[0]}]({file.name}).", ""]
    return []


def _pages() -> list[Path]:
    """Return the pages in the order in which the site lists them."""
    listed = "".join(_TOCTREE.findall((DOCS / "index.md").read_text(encoding="utf-8"))).splitlines()
    return [DOCS / f"{name}.md" for name in listed if re.fullmatch(r"[a-z-]+", name) and (DOCS / f"{name}.md").exists()]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
