"""What --help shows: groups, defaults that are true, one panel of server options; and what the shell completes."""

import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

from pluralrm.cli import app
from pluralrm.cli.options import SERVERS, ServerOptions
from pluralrm.cli.show import NOUNS
from pluralrm.errors import SpecError
from pluralrm.http import Settings
from pluralrm.policies.policy import Draw
from pluralrm.specs import LISTED
from pluralrm.training.rewards import parse_shaping
from tests.forked import command

GROUPS = {
    "Start": ["demo", "evaluate", "list", "score", "merge", "compare", "report", "show", "view"],
    "Trust": ["doctor", "check", "gate", "audit", "share", "attack", "power", "stand-in"],
    "Other people's numbers": ["import", "align", "leaderboard", "export"],
    "Downstream": ["sample", "grade", "best-of-n", "train", "correlate", "study"],
    "Make": ["fit", "construct", "annotate", "serve"],
}


def _verbs(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _verbs(below, *path, name)
    if not hasattr(command, "commands"):
        yield " ".join(path), command


VERBS = dict(_verbs(get_command(app)))


def _option(verb: str, flag: str) -> Any:
    return next(option for option in VERBS[verb].params if flag in option.opts)


def test_verbs_stand_in_groups() -> None:
    groups: dict[str, list[str]] = {}
    for name, verb in get_command(app).commands.items():  # type: ignore[attr-defined] # the app is a group
        groups.setdefault(verb.rich_help_panel, []).append(name)
    assert {name: sorted(verbs) for name, verbs in groups.items()} == {
        name: sorted(verbs) for name, verbs in GROUPS.items()
    }


@pytest.mark.parametrize("verb", VERBS)
def test_no_default_is_told_in_prose(verb: str) -> None:
    for option in VERBS[verb].params:
        told = getattr(option, "help", None) or ""
        assert not re.search(r"\bdefaults?\b|\bunless\b|\belse\b", told, re.IGNORECASE), f"{option.opts}: {told}"


@pytest.mark.parametrize("verb", VERBS)
def test_server_options_stand_together_in_one_panel(verb: str) -> None:
    options = {option.name: getattr(option, "rich_help_panel", None) for option in VERBS[verb].params}
    server = options.keys() & set(ServerOptions._fields)
    assert server <= {"prices"} or server == set(ServerOptions._fields)  # `construct show` counts, and asks no server
    assert {options[name] for name in server | options.keys() & {"send"}} <= {SERVERS}


@pytest.mark.parametrize(
    ("verb", "flag", "value"),
    [
        ("score", "--concurrency", Settings().concurrency),
        *[
            ("sample", flag, next(one.default for one in fields(Draw) if one.name == name))
            for flag, name in [("-n", "n"), ("--temperature", "temperature"), ("--top-p", "top_p")]
        ],
        ("sample", "--max-tokens", Draw().max_tokens),
    ],
)
def test_a_default_that_stands_elsewhere_is_shown_as_it_is(verb: str, flag: str, value: float) -> None:
    option = _option(verb, flag)
    assert option.default is None
    assert option.show_default == f"{value:g}"


def test_typer_prints_a_default_that_stands_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    VERBS["sample"].get_help(click.Context(VERBS["sample"], terminal_width=100))
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Answers per item. [default: (16)]" in printed
    assert "[default: none]" in printed  # of the condition: typer's own


def _completed(words: str, tmp_path: Path) -> list[str]:
    """Return what the shell is offered after these words."""
    environment = {
        **os.environ,
        "_PLURALRM_COMPLETE": "complete_bash",
        "COMP_WORDS": f"pluralrm {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    return command([], cwd=tmp_path, environment=environment).stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sc", ["score"]),
        ("score pocket-p", ["pocket-prb"]),
        ("score prb -m lon", ["longest"]),
        ("serve lon", ["longest"]),
        ("best-of-n pool -m x -c plann", ["planner"]),
        ("train g", ["grpo"]),
    ],
)
def test_the_shell_completes_verbs_benchmarks_models_and_conditions(
    words: str, offered: list[str], tmp_path: Path
) -> None:
    assert _completed(words, tmp_path) == offered


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in [flag for option in get_command(app).params for flag in option.opts]


def test_a_message_advises_no_list_that_does_not_exist() -> None:
    assert {f"{noun}s" for noun in LISTED} <= set(NOUNS)
    with pytest.raises(SpecError, match=r"unknown shaping 'zz'\. Did you mean 'z'\? Known: raw, z\."):
        parse_shaping("zz")
