"""What a terminal gets: nothing wider than it is, no number cut, no text that acts, wide letters in their place."""

import json
import os
import pty
import re
import struct
import termios
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from textwrap import wrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from pluralrm.cli.terminal import Kind, distinct_names, line, shortened, table, wrapped
from pluralrm.runs import score
from tests.builders import bakery
from tests.forked import command, run
from tests.report.folders import Lengths

LETTERS = "ab-/日本語Ｗ한🤖é\u0301\u200b \n\t\x1b\u202e\u061c"
NAMES = st.text(LETTERS, min_size=1, max_size=60)
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def cells(text: str) -> int:
    """Return the columns that a terminal gives a text, by Unicode's own table of widths."""
    shown = [letter for letter in text if unicodedata.category(letter) not in {"Mn", "Me", "Cf"}]
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in shown)


def printed(columns: Sequence[tuple[str, Kind]], rows: Sequence[tuple[str, ...]], width: int = 80) -> list[str]:
    console = Console(width=width, markup=False, emoji=False, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table(columns, rows))
    return captured.get().splitlines()


@given(NAMES, st.integers(3, 30))
def test_a_short_name_keeps_its_two_ends(name: str, width: int) -> None:
    found = shortened(line(name), width)
    assert cells(found) <= width
    if cells(line(name)) <= width:
        assert found == line(name)
    else:
        begin, _, end = found.partition("…")
        assert line(name).startswith(begin.rstrip())
        assert line(name).endswith(end)
        assert cells(found) >= width - 2  # a letter of two cells may not fit on either side


def test_models_that_differ_in_size_alone_stay_apart_in_a_narrow_table() -> None:
    names = [f"hf:an-organisation/A-Reward-Model-With-A-Long-Name-{size}B" for size in (8, 70)]
    _, *rows = printed([("model", "name"), ("accuracy", "left")], [(name, "61.7 [48.9, 73.0]") for name in names], 50)
    assert [re.findall(r"…\S*-(\d+B) +61.7 \[48.9, 73.0\]", row) for row in rows] == [["8B"], ["70B"]]


OPTIONS = st.sampled_from(["", ",per_post=0.5", ",per_post=0.25", ",seed=1", ",a=1,b=2", ",a=2,b=2"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text("ab", max_size=30), OPTIONS), min_size=2, max_size=6, unique=True), st.integers(1, 60)
)
def test_two_names_of_a_column_never_look_alike(parts: list[tuple[str, str]], width: int) -> None:
    names = tuple(dict.fromkeys(f"python:my_model:{model}{option}" for model, option in parts))
    shown = distinct_names(names, width)
    assert len(set(shown.values())) == len(names)
    assert all(cells(short) <= width or short == name for name, short in shown.items())


def test_names_that_differ_only_where_they_are_cut_stay_whole_over_several_lines() -> None:
    names = [f"{'a' * 30}{letter}{'b' * 30}" for letter in "xyz"]
    _, *lines = printed([("model", "name"), ("n", "right")], [(name, "7") for name in names], 20)
    assert sum(text.endswith("  7") for text in lines) == 3
    assert "".join(text.removesuffix("  7").strip() for text in lines) == "".join(names)


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4), st.integers(30, 100))
def test_nothing_vanishes_however_narrow_the_terminal_is(names: list[tuple[str, str]], width: int) -> None:
    columns: list[tuple[str, Kind]] = [("rank", "right"), ("model", "name"), ("condition", "name"), ("% [95%]", "left")]
    lines = printed(
        [*columns, ("publ.", "right")], [("1–20", *two, "-61.7 [-48.9, 73.0]", "12.5") for two in names], width
    )
    assert max(map(cells, lines)) <= width
    told = " ".join("".join(lines).split())
    assert re.sub(r"\s+", "", told).count("-61.7[-48.9,73.0]") == len(names)
    assert told.count("12.5") == len(names)


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4))
def test_names_give_way_and_numbers_never_do(names: list[tuple[str, str]]) -> None:
    columns: list[tuple[str, Kind]] = [("rank", "right"), ("model", "name"), ("condition", "name"), ("% [95%]", "left")]
    rows = [("1–20", model, condition, "-61.7 [-48.9, 73.0]", "100.0") for model, condition in names]
    lines = printed([*columns, ("publ.", "right")], rows)
    with_numbers = [text for text in lines[1:] if "-61.7 [-48.9, 73.0]" in text]
    assert len(with_numbers) == len(rows)
    assert max(map(cells, lines)) <= 80
    assert not ACTING.search("".join(lines))
    assert len({cells(text.partition("-61.7 [-48.9, 73.0]")[0]) for text in with_numbers}) == 1
    assert all(text.rstrip().endswith("100.0") for text in with_numbers)


@given(st.text(LETTERS, max_size=200), st.integers(10, 80), st.sampled_from(["", "  ", "  note: "]))
def test_wrapped_lines_fit_and_lose_no_letter(text: str, width: int, first: str) -> None:
    lines = wrapped(text, width, first=first, indent="  ")
    assert all(cells(piece) <= width for piece in lines)
    assert not ACTING.search("".join(lines))
    assert lines[0].startswith(first)
    assert all(piece.startswith("  ") for piece in lines[1:])
    told = lines[0].removeprefix(first) + "".join(lines[1:])
    assert "".join(told.split()) == "".join(line(text).split())


@given(st.lists(st.text("abc.,-", min_size=1, max_size=9), min_size=1, max_size=40), st.integers(20, 80))
def test_words_of_one_cell_letters_are_wrapped_as_textwrap_does(words: list[str], width: int) -> None:
    text = " ".join(words)
    usual = wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    assert wrapped(text, width, first="  ", indent="    ") == usual


HOSTILE = (
    "日本語の報酬モデル、大規模言語モデルの二〇二六年版と、その後に続く長い名前",
    "🤖🤖 \x1b[31mred\x1b[0m\x1b]0;title\x07 \u202eltr\r\nname 한국어이름 e\u0301",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    bench = bakery(24, name=f"焼き物 {HOSTILE[1]}")
    for place, model in enumerate(HOSTILE):
        for condition in ("none", "raw:2", "swapped:2", "oracle"):
            score(bench, Lengths(model, 1.0 - 2 * place, detail=HOSTILE[0] * place), condition, out=folder / "runs")
    ratings = [{"output": f"{HOSTILE[0]} {n}", "profile": ["rye"], "human_score": n / 20} for n in range(20)]
    (folder / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ratings))
    (folder / "wide.py").write_text(
        "from pluralrm import Verdict\n\n\nclass Wide:\n"
        f"    spec = {HOSTILE[1]!r}\n\n    def score(self, queries):\n"
        "        return (Verdict(tuple(float(len(c)) for c in query.candidates)) for query in queries)\n"
    )
    return folder


def at_a_terminal(*words: str, cwd: Path, width: int = 80) -> str:
    """Return what the command writes to a terminal, without the colours, which are all it may send."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"TERM": "xterm-256color"}
    with ThreadPoolExecutor(1) as reader:
        sent = reader.submit(_read, ours)
        try:
            status = run(words, cwd, environment, [Path(os.ttyname(theirs)), Path(os.devnull)])
        finally:
            os.close(theirs)
    os.close(ours)
    assert status in {0, 1}, sent.result()
    return re.sub(r"\x1b\[[\d;]*m", "", sent.result().decode()).replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Return what is written to a terminal until its other side has gone: how Linux says so is an error."""
    sent = b""
    with suppress(OSError):
        while block := os.read(terminal, 65_536):
            sent += block
    return sent


def piped(*words: str, cwd: Path, **more: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | more
    done = command(words, cwd=cwd, environment=environment)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


COMMANDS = [
    ("compare", "runs"),
    ("compare", "runs", "--all"),
    ("compare", "runs", "--by", "shift"),
    ("compare", "runs", "--by", "shift", "--all"),
    ("show", "RUN"),
    ("show", "RUN", "--by", "shift"),
    ("align", "ratings.jsonl", "-m", "python:wide:Wide"),
    ("check", "python:wide:Wide"),
    ("audit", "pocket-rmgap"),
    ("list", "models"),
    ("list", "conditions"),
]


@pytest.mark.parametrize("words", [*COMMANDS, ("show", "RUN", "-i", "i0000"), ("list", "benchmarks")], ids=" ".join)
def test_nothing_is_wider_than_a_terminal_and_nothing_acts_on_it(runs: Path, words: tuple[str, ...]) -> None:
    out = at_a_terminal(*_named(runs, words), cwd=runs)
    assert out.strip()
    assert not ACTING.search(out)
    assert [text for text in out.splitlines() if cells(text.rstrip()) > 80] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_tables_are_plain_and_fit_80_columns_where_they_are_piped(runs: Path, words: tuple[str, ...]) -> None:
    out = piped(*_named(runs, words), cwd=runs)
    assert out.strip()
    assert not ACTING.search(out)
    assert [text for text in out.splitlines() if cells(text.rstrip()) > 80] == []


def _named(runs: Path, words: tuple[str, ...]) -> list[str]:
    oracle = max(str(path.parent) for path in runs.rglob("run.json") if path.parent.name.startswith("oracle"))
    return [oracle if word == "RUN" else word for word in words]


def test_a_table_takes_the_width_that_is_there(tmp_path: Path) -> None:
    names = [f"python:my_model_of_{'many_' * 12}words:MyModel{option}" for option in ("", ",per_post=0.5")]
    for place, name in enumerate(names):
        score(bakery(24), Lengths(name, 1.0 - 2 * place), out=tmp_path)
    for wide in (
        piped("compare", ".", "--all", cwd=tmp_path, COLUMNS="200"),
        at_a_terminal("compare", ".", "--all", cwd=tmp_path, width=160),
    ):
        assert [re.search(rf"^ *1–2 +{re.escape(name)} +none ", wide, re.MULTILINE) is None for name in names] == [
            False
        ] * 2
    narrow = piped("compare", ".", "--all", cwd=tmp_path, COLUMNS="60")
    rows = re.findall(r"^ *1–2 +(\S+) +none +\d", narrow, re.MULTILINE)
    assert len(set(rows)) == 2
    assert max(map(cells, narrow.splitlines())) <= 60


def test_the_rubric_is_marked_however_narrow_the_table_is(runs: Path) -> None:
    rows = [text for text in at_a_terminal("compare", "runs", "--all", cwd=runs).splitlines() if " oracle " in text]
    assert len([text for text in rows if "ORACLE oracle" in text]) == len(HOSTILE)
