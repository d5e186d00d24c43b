"""A mended copy has no dirt and is the same benchmark; a copy that was changed cannot pass as a revision known here."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm import load_benchmark
from pluralrm.benchmarks import prb
from pluralrm.benchmarks.dirt import mend
from pluralrm.benchmarks.prb import CARD
from pluralrm.benchmarks.sources import compared, remember, rows_hash
from pluralrm.cli import app
from pluralrm.errors import BenchmarkError
from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row, write_jsonl, write_parquet
from tests.benchmarks.test_dirt import write_csv
from tests.benchmarks.test_load_generic import asked


def dirty() -> list[JsonRow]:
    rows = [asked(n) for n in range(20)]
    rows[1] |= {"note": "x", "candidates": ["a", "a "]}
    rows[3]["posts"] += [" ", rows[3]["posts"][0], "New.", "New.", {"id": "p0", "text": "Other."}]
    rows[4]["posts"][0]["score"] = 3
    rows[5]["pairs"] = rows[5]["pairs"] * 2
    rows[6]["id"] = "q0"
    return rows


@pytest.mark.parametrize("write", [write_jsonl, write_csv], ids=["jsonl", "csv"])
def test_a_mended_file_is_the_benchmark_of_its_good_rows_and_has_no_dirt(tmp_path: Path, write) -> None:
    path = write(tmp_path / f"mine.{'csv' if write is write_csv else 'jsonl'}", dirty())
    done = mend(str(path), tmp_path / "mended.jsonl")
    assert str(done.benchmark.card.load) == ""
    assert done.benchmark.content_hash == load_benchmark(f"{path},skip=bad-rows").content_hash
    assert done.done.skipped == {"candidates[]": 1, "id": 1}
    assert done.done.dropped == {"pairs": {"repeated": 1}, "posts": {"blank": 1, "repeated": 2}}
    assert (done.done.renamed, done.done.ignored) == ({"posts": 1}, ("posts[].score",))


def test_a_folder_is_mended_file_by_file(tmp_path: Path) -> None:
    rows = [prb_row(n) | {"models": "x"} for n in range(6)]
    rows[4]["chosen"] = ""
    write_jsonl(tmp_path / "in" / f"{DOMAINS[0]}.jsonl", rows[:3])
    write_parquet(tmp_path / "in" / DOMAINS[1] / "test.parquet", rows[3:])
    done = mend(f"prb:{tmp_path / 'in'}", tmp_path / "out")
    assert [file.relative_to(tmp_path / "out").as_posix() for file in done.files] == [
        f"{DOMAINS[0]}.jsonl",
        f"{DOMAINS[1]}/test.jsonl",
    ]
    assert (len(done.benchmark.items), str(done.benchmark.card.load)) == (5, "")


def test_a_copy_whose_name_would_change_the_domains_is_not_left_there(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row(n) | {"x": 1} for n in range(3)])
    with pytest.raises(BenchmarkError, match="would read as another benchmark"):
        mend(f"prb:{path}", tmp_path / "mended.jsonl")
    assert not (tmp_path / "mended.jsonl").exists()
    assert mend(f"prb:{path}", tmp_path / f"{DOMAINS[0]}-mended.jsonl").benchmark.domains == [DOMAINS[0]]


def test_nothing_is_written_over_and_only_files_are_mended(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", [asked(0)])
    with pytest.raises(BenchmarkError, match="is there already; name a new file"):
        mend(str(path), path)
    with pytest.raises(BenchmarkError, match=r"found a file of type '\.csv', wanted \.jsonl"):
        mend(str(path), tmp_path / "out.csv")
    with pytest.raises(BenchmarkError, match="is no file or folder"):
        mend("pocket-prb", tmp_path / "out.jsonl")


def test_check_fix_says_what_it_did(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", dirty())
    refused = CliRunner().invoke(app, ["check", "--benchmark", str(path)])
    assert refused.exit_code != 0
    told = CliRunner().invoke(app, ["check", "--benchmark", str(path), "--fix", str(tmp_path / "ok.jsonl"), "--json"])
    assert told.exit_code == 0, told.output
    assert all(json.loads(told.stdout)[n]["status"] != "fail" for n in range(5))
    assert "18 of 20 rows; 2 bad skipped (candidates[] 1, id 1)" in told.stderr


def test_a_copy_is_compared_with_the_revisions_that_were_loaded_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    path = write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row(n) for n in range(6)])
    items, other_seed = (load_benchmark(f"prb:{path}", seed=seed).items for seed in (0, 7))
    assert rows_hash(items) == rows_hash(other_seed)
    otherwise = replace(CARD, name="prb-copy")
    assert compared(CARD, "prb", items, otherwise) == CARD
    remember(replace(CARD, revision="1a2b"), items)
    assert compared(CARD, "prb", other_seed, otherwise).revision == "1a2b"
    changed = (replace(items[0], prompt=f"{items[0].prompt} "), *items[1:])
    told = compared(CARD, "prb", changed, otherwise)
    assert (told.name, told.revision) == ("prb-copy", "")
    assert told.notes == "The published number of rows, and other content than revision 1a2b."


def test_a_copy_that_was_mended_by_hand_cannot_pass_as_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    rows = [prb_row(n) for n in range(6)]
    hub = write_jsonl(tmp_path / "c0ffee" / f"{DOMAINS[0]}.jsonl", rows).parent
    monkeypatch.setattr("pluralrm.benchmarks.prb._SET", prb._SET._replace(counts=({DOMAINS[0]: 6},)))
    monkeypatch.setattr("pluralrm.benchmarks.dataset.hub_snapshot", lambda *_: hub)
    copy = f"prb:{write_jsonl(tmp_path / 'copy' / f'{DOMAINS[0]}.jsonl', rows)}"
    assert load_benchmark(copy).card.name == "prb"  # counted, and nothing is known to compare it with
    assert load_benchmark("prb").card.revision == "c0ffee"
    assert load_benchmark(copy, seed=3).card.revision == "c0ffee"
    rows[3]["rejected"] += " Mended."
    mended = load_benchmark(f"prb:{write_jsonl(tmp_path / 'mended' / f'{DOMAINS[0]}.jsonl', rows)}")
    assert (mended.card.name, mended.card.licence) == (f"prb-{DOMAINS[0]}", "not stated")
    assert "other content than revision c0ffee" in mended.card.notes
