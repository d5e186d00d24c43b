"""What a line of a file may be, and what is said about one that it may not be."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from pluralrm.benchmarks.rows import Place, describe, read_rows, shortened, visible
from pluralrm.errors import BenchmarkError, MissingExtraError, RowError
from tests.benchmarks.sample_rows import prb_row, write_jsonl, write_parquet


def refusal(path: Path) -> RowError:
    with pytest.raises(RowError) as caught:
        list(read_rows(path))
    return caught.value


def file_of(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "case",
    [
        (b'{"a": 1', "(line)", "an object that does not end on its line", "one JSON object a line"),
        (b'{"a": 1 "b": 2}', "(line)", "broken JSON (expecting ',' delimiter at column 9)", "one JSON object a line"),
        (b"{a: 1}", "(line)", "broken JSON (expecting property name enclosed in double quotes at", "one JSON object"),
        (b'{"a": 1} {"a": 2}', "(line)", "broken JSON (extra data at column 10)", "one JSON object a line"),
        (b'{"a": NaN}', "(line)", "NaN", "JSON, which has no such number"),
        (b'{"a": -Infinity}', "(line)", "-Infinity", "JSON, which has no such number"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "b", "this key twice", "each key once"),
        (b'{"\\ud800x": 1}', "\\ud800x", "half of a surrogate pair in a key", "valid Unicode"),
        (b'{"a": "caf\xe9"}', "byte 11", "0xe9", "UTF-8"),
        (b"[1, 2]", "(line)", "a list of 2", "one JSON object a line"),
        (b"[", "(line)", "'['", "one JSON object a line"),
        (b"17", "(line)", "17", "one JSON object a line"),
        (b"null", "(line)", "null", "one JSON object a line"),
        (b"id,question,chosen", "(line)", "'id,question,chosen'", "one JSON object a line"),
        (b'\xef\xbb\xbf{"a": 1}', "(line)", "'\\ufeff{\"a\": 1}'", "one JSON object a line"),
        (b'{"a": "\x1b[31m"}', "(line)", "broken JSON (invalid control character at column 8)", "one JSON object"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "(line)", "lists or objects nested too deep", "a row"),
        (b'{"a": ' + b"9" * 5000 + b"}", "(line)", "Exceeds the limit (4300 digits)", "a row of the format"),
    ],
)
def test_a_bad_line_is_refused_with_file_line_and_reason(tmp_path: Path, case: tuple[bytes, str, str, str]) -> None:
    line, field, found, wanted = case
    error = refusal(file_of(tmp_path, b'{"a": 0}\n\n' + line + b'\n{"a": 0}\n'))
    assert (error.line, error.field) == (3, field)
    assert error.found.startswith(found)
    assert error.wanted.startswith(wanted)
    assert str(error).startswith(f"{tmp_path}/rows.jsonl:3: ")


def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path) -> None:
    path = file_of(tmp_path, b'\n{"a": 1}\r\n   \t\n\n{"a": 2}')
    assert [(place.line, dict(row)) for place, row in read_rows(path)] == [(2, {"a": 1}), (5, {"a": 2})]


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{"a": "one\u2028two\u0085three"}\n{"a": 2}\n'.encode())
    assert [row["a"] for _, row in read_rows(path)] == ["one\u2028two\u0085three", 2]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pluralrm.benchmarks.rows._LONGEST_LINE", 2**20)
    error = refusal(file_of(tmp_path, b'{"a": "' + b"x" * 2**21 + b'"}\n'))
    assert (error.found, error.wanted) == ("1 MiB without a line end", "one row a line")


def test_rows_come_one_by_one(tmp_path: Path) -> None:
    """The first row is there although the second is broken: nothing reads ahead."""
    rows = read_rows(file_of(tmp_path, b'{"a": 1}\nbroken\n'))
    assert next(rows)[1] == {"a": 1}
    with pytest.raises(RowError, match=":2: "):
        next(rows)


def test_parquet_and_json_lines_give_the_same_rows(tmp_path: Path) -> None:
    rows = [prb_row(n) for n in range(150)]
    lines = list(read_rows(write_jsonl(tmp_path / "a.jsonl", rows)))
    table = list(read_rows(write_parquet(tmp_path / "a.parquet", rows)))
    assert [row for _, row in table] == [row for _, row in lines] == rows
    assert [place.line for place, _ in table] == list(range(1, 151))


def test_a_parquet_row_that_is_no_utf8_is_named_by_its_number(tmp_path: Path) -> None:
    texts = pa.array([b"fine"] * 99 + [b"caf\xe9"], pa.binary()).view(pa.string())
    path = tmp_path / "bytes.parquet"
    parquet.write_table(pa.table({"id": texts}), path)
    error = refusal(path)
    assert (error.line, error.field, error.wanted) == (100, "(row)", "UTF-8 text and plain values")


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.99])
def test_a_cut_parquet_file_is_a_benchmark_error(tmp_path: Path, keep: float) -> None:
    path = write_parquet(tmp_path / "cut.parquet", [prb_row(n) for n in range(50)])
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(BenchmarkError, match=r"cut.parquet: not a whole Parquet file"):
        list(read_rows(path))


def test_two_parquet_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.parquet"
    parquet.write_table(pa.table([pa.array(["a"]), pa.array(["b"])], names=["id", "id"]), path)
    with pytest.raises(BenchmarkError, match="two columns of one name"):
        list(read_rows(path))


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", [prb_row()])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"Parquet needs the extra 'hub': pip install 'pluralrm\[hub\]'"):
        list(read_rows(path))


def test_a_folder_or_a_missing_file_is_a_benchmark_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"cannot read .*: Is a directory"):
        list(read_rows(tmp_path))
    with pytest.raises(BenchmarkError, match=r"cannot read .*: No such file"):
        list(read_rows(tmp_path / "none.jsonl"))


def test_no_control_character_of_the_data_reaches_a_message(tmp_path: Path) -> None:
    hostile = "\x1b[2J\x07\u202e\x00\r\n"
    key = json.dumps(hostile)
    path = tmp_path / f"{hostile.strip(chr(0)).replace(chr(0), '')}rows.jsonl"
    path.write_text(f"{{{key}: 1, {key}: 2}}\n", encoding="utf-8")
    error = refusal(path)
    assert str(error).isprintable()
    assert "\\x1b[2J\\x07\\u202e" in error.file
    assert error.field == "\\x1b[2J\\x07\\u202e\\x00\\r\\n"
    assert Place(str(path), 3).refuse("x", found="y", wanted="z").file == error.file


def test_visible_keeps_what_can_be_printed() -> None:
    assert visible("naïve 日本 🙂") == "naïve 日本 🙂"
    assert visible("a\x1b[31m\tb\ud800") == "a\\x1b[31m\\tb\\ud800"
    assert shortened("x" * 100, 10) == "x" * 10 + "…"
    assert len(shortened("\x1b" * 100, 10)) == 11


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("word", "'word'"),
        ("", "an empty text"),
        (" \n", "only white space"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        (10**100, f"{10**59}…"),
        ([1, 2], "a list of 2"),
        ({}, "an object"),
        (b"x", "a bytes"),
    ],
)
def test_what_was_found_is_told_in_a_few_words(value: object, words: str) -> None:
    assert describe(value) == words
