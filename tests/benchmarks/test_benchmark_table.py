"""Benchmarks by name, by path, and by mistake."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks import KINDS, cards
from pluralrm.errors import BenchmarkError, SpecError
from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row, question_row, rmgap_row, write_jsonl, write_parquet


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("prbb", r"unknown benchmark 'prbb'\. Did you mean 'prb'\? See 'pluralrm list benchmarks'\."),
        ("prbb:data/rows.jsonl", r"unknown benchmark 'prbb'\. Did you mean 'prb'"),
        ("pocket-rmgab", r"Did you mean 'pocket-rmgap'"),
        ("zzz", r"Known: .*context-pairs, .*judgebench, lamp-qa, llmbar, .* and \d+ more. See"),
        ("", "unknown benchmark ''"),
        ("prb,revison=x", r"has no key 'revison'\. Did you mean 'revision'"),
        ("pocket-prb:here", "takes no target"),
    ],
)
def test_a_misspelled_name_names_the_nearest(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_benchmark(spec)


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_bare_path_is_read_in_the_format_of_its_first_row(
    tmp_path: Path, write: Callable[[Path, list[JsonRow]], Path]
) -> None:
    ending = "jsonl" if write is write_jsonl else "parquet"
    for name, row in [("prb", prb_row()), ("rmgap", rmgap_row()), ("lamp-qa", question_row())]:
        path = write(tmp_path / name / f"{DOMAINS[0]}.{ending}", [row])
        for bare in (path, path.parent):
            assert load_benchmark(str(bare)).content_hash == load_benchmark(f"{name}:{path}").content_hash


def test_a_folder_in_the_current_folder_needs_no_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "mine" / f"{DOMAINS[0]}.jsonl", [prb_row()])
    write_jsonl(tmp_path / "mine.jsonl", [rmgap_row()])
    monkeypatch.chdir(tmp_path)
    assert load_benchmark("mine").card.name == "prb-mine"
    assert load_benchmark("mine.jsonl").card.name == "rmgap-mine"


def test_a_name_of_the_table_is_never_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "pocket-prb" / f"{DOMAINS[0]}.jsonl", [prb_row()])
    monkeypatch.chdir(tmp_path)
    assert len(load_benchmark("pocket-prb").items) == 60


def test_a_comma_in_a_path_is_written_as_an_escape(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a,b" / f"{DOMAINS[0]}.jsonl", [prb_row()])
    assert len(load_benchmark(f"prb:{path}".replace(",", "%2C")).items) == 1
    assert len(load_benchmark(str(path).replace(",", "%2C") + ",skip=bad-rows").items) == 1


def test_home_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row()])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load_benchmark(f"prb:~/{DOMAINS[0]}.jsonl").items) == 1


def test_rows_of_no_known_format_name_our_own_and_the_nearest_formats(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [{"profile": 1, "\x1b[31m": 2}])
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(str(path))
    text, _, table = str(caught.value).partition(". Who chose or rated what, one judgment a row: ")
    assert table == "table:FILE,person=COLUMN,item=COLUMN,label=COLUMN. See 'pluralrm list benchmarks'"
    head, *formats = text.split("; ")
    first = f"{path}:1: found the keys profile, \\x1b[31m, wanted those of a known format: "
    assert head == f"{first}rows has chosen and rejected, or candidates"
    assert formats[:2] == ["prb has profile and chosen", "lamp-qa has profile and question"]
    assert formats[-1] == f"or one of {sum(bool(kind.keys) for kind in KINDS.values()) - 4} others"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", "no such file or folder"),
        ("none.csv", "no such file or folder"),
        ("no/where", "no such file or folder"),
        ("empty.jsonl", "found no rows"),
        ("folder", "files in the folder"),
        ("notes.txt", r"found a file of type '\.txt'"),
    ],
)
def test_a_bare_path_without_rows_is_a_benchmark_error(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BenchmarkError, match=message):
        load_benchmark(str(tmp_path / name))


@pytest.mark.parametrize("name", ["my.csv", "mine.jsnl", "rows.parquet", "v1.2"])
def test_what_looks_like_a_file_is_never_taken_for_a_misspelled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BenchmarkError, match=f"no such file or folder: {name}"):
        load_benchmark(name)


def test_every_kind_has_a_card_that_is_filled_in() -> None:
    found = cards()
    assert [card.name for card in found] == list(KINDS)
    for card in found:
        assert all((card.summary, card.licence, card.source, card.labelled, card.citation))


def test_cards_load_no_data_and_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "import pluralrm.benchmarks as b\n"
        "heavy = {'pydantic', 'pyarrow', 'huggingface_hub', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "b.cards()\n"
        "print(sorted((heavy - {'pydantic'}) & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n[]\n"
