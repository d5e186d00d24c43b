"""Other people's files: what cannot change a number is counted and said, what can is refused or skipped by name."""

import json
import tracemalloc
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks.dirt import Dirt, clean_posts
from pluralrm.benchmarks.rows import read_rows
from pluralrm.card import LoadReport
from pluralrm.core import Benchmark, Post
from pluralrm.errors import BenchmarkError, RowError, SpecError
from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row, write_jsonl, write_parquet


def load(tmp_path: Path, rows: list[JsonRow], options: str = "") -> Benchmark:
    return load_benchmark(f"prb:{write_jsonl(tmp_path / f'{DOMAINS[0]}.jsonl', rows)}{options}")


# ---------------------------------------------------------------- what is ignored, dropped and left empty


def test_a_clean_file_has_nothing_to_report(tmp_path: Path) -> None:
    report = load(tmp_path, [prb_row(n) for n in range(3)]).card.load
    assert str(report) == ""
    assert report == LoadReport(rows=3, read={"posts": 9})


def test_dirt_changes_no_item_and_every_piece_is_counted(tmp_path: Path) -> None:
    clean, dirty = [prb_row(n) for n in range(4)], [prb_row(n) for n in range(4)]
    dirty[0] |= {"models": ["a", "b"], "\x1b[31m": 1}
    dirty[1]["profile"][1]["score"] = 3
    dirty[2]["profile"].insert(1, {"id": "extra", "category": "baking", "text": " \n"})
    dirty[2]["profile"].append({"id": "none", "category": "baking", "text": None})
    dirty[3]["profile"].append(dirty[3]["profile"][0])
    found = load(tmp_path, dirty)
    assert found.items == load(tmp_path / "clean", clean).items
    assert found.card.load == LoadReport(
        rows=4,
        read={"posts": 15},
        dropped={"posts": {"blank": 2, "repeated": 1}},
        ignored=("\\x1b[31m", "models", "profile[].score"),
    )
    assert str(found.card.load) == (
        "12 of 15 posts; 2 blank, 1 repeated dropped. unknown columns ignored: \\x1b[31m, models, profile[].score"
    )


def test_what_is_missing_is_left_empty_and_counted(tmp_path: Path) -> None:
    rows = [prb_row(n) for n in range(3)]
    del rows[0]["category"], rows[1]["narrative"], rows[1]["profile"][2]["category"]
    rows[2]["category"] = rows[2]["profile"][0]["category"] = None
    found = load(tmp_path, rows)
    assert dict(found.card.load.defaulted) == {"category": 2, "narrative": 1, "profile[].category": 2}
    assert [item.tags.get("category", "") for item in found.items] == ["", "baking", ""]


def test_a_post_with_the_id_of_another_is_kept_under_a_new_one() -> None:
    dirt = Dirt()
    posts = [Post("a", "one"), Post("a", "two"), Post("a#2", "three"), Post("a", "one"), Post("a", "two")]
    assert [(post.id, post.text) for post in clean_posts(posts, dirt)] == [
        ("a", "one"),
        ("a#2", "two"),
        ("a#2#2", "three"),
    ]
    dirt.accept()
    report = dirt.report()
    assert (report.read, report.renamed) == ({"posts": 5}, {"posts": 2})
    assert report.dropped == {"posts": {"repeated": 2}}


def test_the_dirt_of_a_refused_row_is_not_counted(tmp_path: Path) -> None:
    rows = [prb_row(n) for n in range(3)]
    rows[1]["profile"][0]["text"] = ""
    rows[1]["rejected"] = rows[1]["chosen"]
    report = load(tmp_path, rows, ",skip=bad-rows").card.load
    assert (report.dropped, report.read, report.skipped) == ({}, {"posts": 6}, {"rejected": 1})


# ---------------------------------------------------------------- what is refused, and skipped


def bad_rows() -> list[JsonRow]:
    rows = [prb_row(n) for n in range(40)]
    for n in range(5, 35, 2):
        rows[n]["rejected"] = rows[n]["chosen"]
    rows[36]["id"] = "q0"
    del rows[38]["chosen"]
    return rows


def test_all_faults_are_counted_and_ten_are_shown(tmp_path: Path) -> None:
    with pytest.raises(RowError) as caught:
        load(tmp_path, bad_rows())
    *told, last = str(caught.value).splitlines()
    assert [line.partition(".jsonl:")[2].partition(":")[0] for line in told] == [str(n) for n in range(6, 26, 2)]
    assert last == "(17 rows refused; the first 10 are shown; add ,skip=bad-rows to continue without them)"


def test_skipped_rows_are_counted_by_field_and_the_rest_is_as_without_them(tmp_path: Path) -> None:
    rows = bad_rows()
    found = load(tmp_path, rows, ",skip=bad-rows")
    good = [row for n, row in enumerate(rows) if not (5 <= n < 35 and n % 2) and n not in {36, 38}]
    assert found.content_hash == load(tmp_path / "good", good).content_hash
    assert found.card.load.skipped == {"chosen": 1, "id": 1, "rejected": 15}
    assert str(found.card.load).startswith("23 of 40 rows; 17 bad skipped (chosen 1, id 1, rejected 15)")
    bare = load_benchmark(f"{tmp_path / DOMAINS[0]}.jsonl,skip=bad-rows")
    assert (bare.content_hash, bare.card.load) == (found.content_hash, found.card.load)


def test_a_broken_line_is_skipped_and_counted_too(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row(n) for n in range(3)])
    path.write_text("{broken\n" + path.read_text())
    assert load_benchmark(f"{path},skip=bad-rows").card.load.skipped == {"(line)": 1}


def test_a_file_without_a_good_row_is_refused_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"found no good row among 3: 0 of 3 rows; 3 bad skipped \(chosen 3\)"):
        load(tmp_path, [prb_row(n) | {"chosen": ""} for n in range(3)], ",skip=bad-rows")


def test_an_unknown_word_for_skip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="skip is 'all'; wanted bad-rows"):
        load(tmp_path, [prb_row()], ",skip=all")
    with pytest.raises(SpecError, match=r"no key 'skips'\. Did you mean 'skip'"):
        load(tmp_path, [prb_row()], ",skips=bad-rows")


# ---------------------------------------------------------------- one list, CSV


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n  "])
def test_one_json_list_has_the_rows_of_its_lines(tmp_path: Path, indent: int | None, start: str) -> None:
    rows = [prb_row(n, posts=n) | {"question": "naïve 日本 🙂 " * n + "?"} for n in range(60)]
    path = tmp_path / "rows.json"
    path.write_text(start + json.dumps(rows, indent=indent, ensure_ascii=False), encoding="utf-8")
    found = list(read_rows(path))
    assert [row for _, row in found] == rows
    assert [place.line for place, _ in found] == list(range(1, 61))


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_where_a_window_ends_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("pluralrm.benchmarks.rows._CHUNK", chunk)
    monkeypatch.setattr("pluralrm.benchmarks.rows._PROBE", 1)
    rows = [{"a": [True, None, -12.5e3, '"\\ \u2028 é 🙂'], "b": {"c": "x" * n}} for n in range(40)]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows, indent=2, ensure_ascii=n_ascii(chunk)), encoding="utf-8")
    assert [row for _, row in read_rows(path)] == rows


def n_ascii(chunk: int) -> bool:
    return chunk % 2 == 0


def test_elements_that_are_no_rows_are_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / f"{DOMAINS[0]}.json"
    good = json.dumps(prb_row(1))
    path.write_text(f'[3, {good}, {{"a": 1, "a": 2}}, {{"a": NaN}}, "x", {good.replace("q1", "q2")}]')
    with pytest.raises(RowError) as caught:
        load_benchmark(f"prb:{path}")
    told = str(caught.value).splitlines()
    assert [line.partition(".json:")[2].partition(":")[0] for line in told[:-1]] == ["1", "3", "4", "5"]
    assert len(load_benchmark(f"prb:{path},skip=bad-rows").items) == 2


@pytest.mark.parametrize(
    "text",
    ['[{"a": 1}', '[{"a": 1},', '[{"a": 1},]', '[{"a": 1} {"a": 2}]', '[{"a": 1}] x', '[{"a": tru}]', "[,]", "["],
)
def test_a_broken_list_is_refused_and_never_skipped(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(BenchmarkError) as caught:
        list(read_rows(path, lambda _: None))
    assert str(path) in str(caught.value)


def test_one_list_is_read_within_a_cap_on_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    with path.open("w") as out:
        out.write("[")
        for n in range(2000):
            out.write(json.dumps(prb_row(n, posts=60)) + ",\n")
        out.write(json.dumps(prb_row(9999)) + "]")
    assert path.stat().st_size > 11 * 2**20
    tracemalloc.start()
    count = sum(1 for _ in read_rows(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2001
    assert peak < 8 * 2**20


def test_a_csv_file_has_the_rows_of_its_lines(tmp_path: Path) -> None:
    rows = [prb_row(n) | {"question": f'Which, "{n}"\nor none?'} for n in range(12)]
    rows[3]["narrative"] = None
    lines = load_benchmark(f"prb:{write_jsonl(tmp_path / DOMAINS[0] / 'a.jsonl', rows)}")
    table = load_benchmark(f"prb:{write_csv(tmp_path / DOMAINS[0] / 'a.csv', rows)}")
    parquet = load_benchmark(f"prb:{write_parquet(tmp_path / DOMAINS[0] / 'a.parquet', rows)}")
    assert lines.content_hash == table.content_hash == parquet.content_hash
    assert lines.card.load == table.card.load == parquet.card.load


def test_a_csv_record_with_other_cells_than_its_header_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'id,text\n1,"two\nlines"\n2\n\n3,caf\xe9\n4,"x"y\n5,fine\n')
    kept: list[RowError] = []
    assert [row for _, row in read_rows(path, kept.append)] == [
        {"id": "1", "text": "two\nlines"},
        {"id": "5", "text": "fine"},
    ]
    assert [(error.line, error.field) for error in kept] == [(4, "(row)"), (6, "text"), (7, "(row)")]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", ": found no rows"),
        (b"a,\n1,2\n", ": found a column without a name or one name twice"),
        (b"a,a\n1,2\n", ": found a column without a name or one name twice"),
        (b"caf\xe9\n1\n", ":1: found bytes that are not UTF-8, wanted a CSV file in UTF-8"),
        ("person,item\n1,2\n".encode("utf-16"), ":1: found bytes that are not UTF-8, wanted a CSV file in UTF-8"),
        (b"person;item\n1;2\n", ":1: found ';' between columns, wanted commas"),
        (b"person\titem\n1\t2\n", r":1: found '\\t' between columns, wanted commas"),
    ],
)
def test_a_csv_file_without_a_plain_header_is_refused(tmp_path: Path, header: bytes, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(header)
    with pytest.raises(BenchmarkError) as refused:
        list(read_rows(path))
    assert f"rows.csv{message}" in str(refused.value)


def write_csv(path: Path, rows: list[JsonRow]) -> Path:
    """Write rows as a spreadsheet would, lists and objects as JSON."""
    import csv

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        for row in rows:
            cells = {key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()}
            writer.writerow({key: "" if row[key] is None else cell for key, cell in cells.items()})
    return path
