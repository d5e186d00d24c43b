"""Personalized RewardBench: rows become items as they say, placed by seed; every other row is refused."""

import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm import load_benchmark
from pluralrm.core import Aspect, Benchmark, Post
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.testing import check_benchmark
from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row, write_jsonl, write_parquet


def load(tmp_path: Path, rows: list[JsonRow], *, seed: int = 0) -> Benchmark:
    return load_benchmark(f"prb:{write_jsonl(tmp_path / 'Society_and_Culture.jsonl', rows)}", seed=seed)


def test_an_item_says_what_its_row_says(tmp_path: Path) -> None:
    row = prb_row(7)
    item = load(tmp_path, [row]).items[0]
    assert (item.id, item.prompt, item.cluster, item.domain) == ("q7", row["question"], "q7", "Society_and_Culture")
    assert item.preferred is not None
    assert item.candidates[item.preferred] == row["chosen"]
    assert item.candidates[1 - item.preferred] == row["rejected"]
    assert item.candidate_ids[item.preferred] == "chosen"
    assert set(item.candidate_ids) == {"chosen", "rejected"}
    assert item.tags == {"category": "baking"}
    assert item.user is not None
    assert item.user.id == "q7"
    assert item.user.posts == tuple(Post(f"q7-p{n}", f"Loaf {n} of baker 7 came out flat.", "baking") for n in range(3))
    assert item.oracle is not None
    assert item.oracle.narrative == row["narrative"]
    assert item.oracle.aspects[1] == Aspect("Few steps", "loses patience", "stops reading after three")


def test_the_benchmark_keeps_every_promise(tmp_path: Path) -> None:
    check_benchmark(load(tmp_path, [prb_row(n) for n in range(60)]))


# ---------------------------------------------------------------- placement


def test_placement_is_derived_from_seed_and_item_alone(tmp_path: Path) -> None:
    rows = [prb_row(n) for n in range(40)]
    forwards = {item.id: item for item in load(tmp_path, rows, seed=3).items}
    backwards = {item.id: item for item in load(tmp_path, rows[::-1], seed=3).items}
    alone = load(tmp_path, [rows[17]], seed=3).items[0]
    assert forwards == backwards
    assert forwards["q17"] == alone


def test_another_seed_places_otherwise_and_says_so(tmp_path: Path) -> None:
    rows = [prb_row(n) for n in range(40)]
    first, second = load(tmp_path, rows, seed=0), load(tmp_path, rows, seed=1)
    assert [item.preferred for item in first.items] != [item.preferred for item in second.items]
    assert (first.seed, second.seed) == (0, 1)
    assert first.content_hash != second.content_hash


def test_the_preferred_answer_stands_first_about_half_of_the_time(tmp_path: Path) -> None:
    items = load(tmp_path, [prb_row(n, posts=0) for n in range(2000)]).items
    first = sum(item.preferred == 0 for item in items)
    assert 911 <= first <= 1089  # four standard deviations of a fair coin


def test_placement_is_the_documented_draw(tmp_path: Path) -> None:
    item = load(tmp_path, [prb_row(5)], seed=11).items[0]
    order = ["chosen", "rejected"]
    random.Random("11:q5").shuffle(order)
    assert list(item.candidate_ids) == order


# ---------------------------------------------------------------- content hash


@given(where=st.sampled_from(["question", "narrative", "chosen", "rejected", "category", "post", "aspect", "id"]))
def test_any_change_of_a_text_changes_the_content_hash(tmp_path_factory: pytest.TempPathFactory, where: str) -> None:
    tmp_path = tmp_path_factory.mktemp("hash")
    row, changed = prb_row(), deepcopy(prb_row())
    if where == "post":
        changed["profile"][1]["text"] += " "
    elif where == "aspect":
        changed["rubric_aspects"][0]["reason"] += "."
    else:
        changed[where] += "x"
    assert load(tmp_path, [row]).content_hash != load(tmp_path, [changed]).content_hash


def test_the_content_hash_is_the_same_however_the_rows_are_stored(tmp_path: Path) -> None:
    rows = {domain: [prb_row(100 * n + k) for k in range(5)] for n, domain in enumerate(DOMAINS)}
    for domain, part in rows.items():
        write_jsonl(tmp_path / "lines" / f"{domain}.jsonl", part)
        write_parquet(tmp_path / "hub" / domain / "test-00000-of-00002.parquet", part[:3])
        write_parquet(tmp_path / "hub" / domain / "test-00001-of-00002.parquet", part[3:])
        write_parquet(tmp_path / "deep" / "data" / domain / "test.parquet", part)
    told = [row | {"category": domain} for domain, part in rows.items() for row in part]
    write_jsonl(tmp_path / "one.jsonl", told)
    write_parquet(tmp_path / "one.parquet", told)
    by_name = {load_benchmark(f"prb:{tmp_path / name}").content_hash for name in ("lines", "hub", "deep")}
    by_row = {load_benchmark(f"prb:{tmp_path / name}").content_hash for name in ("one.jsonl", "one.parquet")}
    assert (len(by_name), len(by_row)) == (1, 1)
    assert load_benchmark(str(tmp_path / "lines")).content_hash in by_name


# ---------------------------------------------------------------- domains


def test_a_domain_is_told_by_file_folder_or_row(tmp_path: Path) -> None:
    rows = [prb_row(1) | {"category": "Art_and_Entertainment"}]
    for name, domain in [
        ("Lifestyle_and_Personal_Development.jsonl", "Lifestyle_and_Personal_Development"),
        ("Society_and_Culture-00000-of-00001.jsonl", "Society_and_Culture"),
        ("Society_and_Culture/test.jsonl", "Society_and_Culture"),
        ("rows.jsonl", "Art_and_Entertainment"),
        ("Society_and_Culture2.jsonl", "Art_and_Entertainment"),
    ]:
        assert load_benchmark(f"prb:{write_jsonl(tmp_path / name, rows)}").domains == [domain]


def test_rows_of_ones_own_have_domains_of_their_own(tmp_path: Path) -> None:
    rows = [prb_row(n) | {"category": ["food", "travel"][n % 2]} for n in range(40)]
    bench = load_benchmark(str(write_jsonl(tmp_path / "rows.jsonl", rows)))
    assert bench.domains == ["food", "travel"]
    assert [item.domain for item in bench.items] == [row["category"] for row in rows]
    check_benchmark(bench)


@pytest.mark.parametrize("category", [None, "", " ", "two\nlines", "\x1b[31m", "x" * 81])
def test_a_row_that_names_no_domain_is_refused_with_what_names_one(tmp_path: Path, category: str | None) -> None:
    row = prb_row() | {"category": category}
    with pytest.raises(RowError, match=r"rows.jsonl:1: category: found .*, wanted the name of a domain, any text"):
        load_benchmark(f"prb:{write_jsonl(tmp_path / 'rows.jsonl', [row])}")
    assert load(tmp_path, [row]).domains == ["Society_and_Culture"]


# ---------------------------------------------------------------- many errors


def test_the_errors_of_a_file_are_told_together_whatever_their_kind(tmp_path: Path) -> None:
    rows = [prb_row(n) for n in range(6)]
    del rows[1]["question"]
    rows[2]["rejected"] = rows[2]["chosen"]
    rows[4]["id"] = "q0"
    path = write_jsonl(tmp_path / "Society_and_Culture.jsonl", rows)
    lines = path.read_text().splitlines()
    lines[3] = "{broken"
    path.write_text("\n".join(lines))
    with pytest.raises(RowError) as caught:
        load_benchmark(f"prb:{path}")
    error = caught.value
    assert (error.line, error.field) == (2, "question")
    *told, last = str(error).splitlines()
    assert [one.removeprefix(f"{path}:").partition(" ")[0] for one in told] == ["2:", "3:", "4:", "5:"]
    assert told[0].endswith("question: found no such key, wanted this key: add it")
    assert last == "(4 rows refused; add ,skip=bad-rows to continue without them)"


def test_ten_errors_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    with pytest.raises(RowError) as caught:
        load(tmp_path, [prb_row(n) | {"chosen": ""} for n in range(500)])
    *told, last = str(caught.value).splitlines()
    assert len(told) == 10
    assert last == "(500 rows refused; the first 10 are shown; add ,skip=bad-rows to continue without them)"


# ---------------------------------------------------------------- what may be missing, and what may not

Case = tuple[Callable[[JsonRow], object], str, str, str]


@pytest.mark.parametrize(
    "case",
    [
        (lambda row: row.pop("rejected"), "rejected", "no such key", "this key"),
        (lambda row: row.update(chosn=row.pop("chosen")), "chosen", "no such key, but 'chosn'", "this key: add it"),
        (lambda row: row["profile"][2].pop("text"), "profile[2].text", "no such key", "this key"),
        (lambda row: row["profile"][2].update(id=1.5), "profile[2].id", "1.5", "a text"),
        (lambda row: row["profile"].append(3), "profile[3]", "3", "an object with the keys id, category, text"),
        (lambda row: row.update(profile=["text"]), "profile[0]", "'text'", "an object with the keys id, category, "),
        (lambda row: row.pop("profile"), "profile", "no such key", "this key: add it; null is allowed"),
        (lambda row: row.pop("question"), "question", "no such key", "this key: add it"),
        (lambda row: row.update(profile={}), "profile", "an object", "a list"),
        (lambda row: row["rubric_aspects"][0].update(aspect=""), "rubric_aspects[0].aspect", "an empty text", "a text"),
        (lambda row: row.update(question=""), "question", "an empty text", "a text that is not empty"),
        (lambda row: row.update(question=["a"]), "question", "a list of 1", "a text"),
        (lambda row: row.update(question="\ud800"), "question", "'\\ud800'", "valid Unicode"),
        (lambda row: row.update(narrative="x\udc00"), "narrative", "'x\\udc00'", "valid Unicode"),
        (lambda row: row.update(question=None), "question", "null", "a text"),
        (lambda row: row.update(chosen=None), "chosen", "null", "a text"),
        (lambda row: row.update(chosen=12), "chosen", "12", "a text"),
        (lambda row: row.update(id=""), "id", "an empty text", "an id of 1 to 200 printable characters"),
        (lambda row: row.update(id="a\x1b[31mb"), "id", "'a\\x1b[31mb'", "an id of 1 to 200 printable characters"),
        (lambda row: row.update(id=True), "id", "true", "a text"),
        (lambda row: row.update(id="x" * 201), "id", "'" + "x" * 60 + "…'", "an id of 1 to 200"),
        (lambda row: row.update(rejected=f" {row['chosen']}"), "rejected", "the same text as chosen", "two different"),
    ],
)
def test_a_malformed_row_is_refused_by_file_line_and_field(tmp_path: Path, case: Case) -> None:
    change, field, found, wanted = case
    row = prb_row(1)
    change(row)
    with pytest.raises(RowError) as caught:
        load(tmp_path, [prb_row(0), row])
    error = caught.value
    assert (error.line, error.field, error.found) == (2, field, found)
    assert error.wanted.startswith(wanted)
    assert error.file.endswith("Society_and_Culture.jsonl")
    assert all(told.isprintable() for told in str(error).splitlines())


def test_an_id_that_comes_twice_is_refused_across_files(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "Art_and_Entertainment.jsonl", [prb_row(1), prb_row(2)])
    write_parquet(tmp_path / "Society_and_Culture.parquet", [prb_row(3), prb_row(2)])
    with pytest.raises(RowError) as caught:
        load_benchmark(f"prb:{tmp_path}")
    assert caught.value.line == 2
    assert caught.value.found == f"'q2' again (first at {tmp_path}/Art_and_Entertainment.jsonl:2)"


def test_null_is_nothing_where_nothing_is_harmless(tmp_path: Path) -> None:
    full, bare = prb_row(1), prb_row(2)
    bare |= {"category": None, "narrative": None, "profile": None, "rubric_aspects": None}
    full["profile"][0]["category"] = None
    full["rubric_aspects"][0] |= {"evidence": None, "reason": None}
    lines = load_benchmark(f"prb:{write_jsonl(tmp_path / DOMAINS[0] / 'a.jsonl', [full, bare])}")
    table = load_benchmark(f"prb:{write_parquet(tmp_path / DOMAINS[0] / 'a.parquet', [full, bare])}")
    assert lines.items == table.items
    item = lines.items[1]
    assert item.user is not None
    assert item.oracle is not None
    assert (item.user.posts, item.oracle.aspects, item.oracle.narrative, item.tags) == ((), (), "", {})
    assert lines.items[0].oracle is not None
    assert lines.items[0].oracle.aspects[0] == Aspect("No stand mixer")


def test_a_number_as_id_is_kept_as_text(tmp_path: Path) -> None:
    row = prb_row() | {"id": 17}
    for n, post in enumerate(row["profile"]):
        post["id"] = n
    item = load(tmp_path, [row]).items[0]
    assert item.user is not None
    assert (item.id, item.user.id, [post.id for post in item.user.posts]) == ("17", "17", ["0", "1", "2"])


# ---------------------------------------------------------------- files, folders, cards


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "no such file or folder: "),
        ("empty.jsonl", "found no rows, wanted at least one"),
        ("blank.jsonl", "found no rows, wanted at least one"),
        ("folder", r"no \.jsonl, \.json, \.parquet, \.csv, \.jsonl\.gz files in the folder "),
        ("rows.csv", "found no rows, wanted a header and at least one row"),
        ("rows.tsv", r"found a file of type '\.tsv', wanted \.jsonl, \.json, \.parquet, \.csv"),
        ("x" * 5000, "no such file or folder"),
        ("a\0b", r"no such file or folder: .*a\\x00b"),
        ("~nobody-of-this-name/rows.jsonl", "no such file or folder"),
    ],
)
def test_a_path_without_rows_is_a_benchmark_error(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text("\n \n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "readme.md").touch()
    (tmp_path / "folder" / "dataset_infos.json").write_text("{}")
    (tmp_path / "rows.csv").touch()
    (tmp_path / "rows.tsv").touch()
    with pytest.raises(BenchmarkError, match=message):
        load_benchmark(f"prb:{name if name.startswith('~') else tmp_path / name}")


def test_one_empty_file_among_full_ones_is_noticed(tmp_path: Path) -> None:
    write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row()])
    write_jsonl(tmp_path / f"{DOMAINS[1]}.jsonl", [])
    with pytest.raises(BenchmarkError, match=f"{DOMAINS[1]}.jsonl: found no rows"):
        load_benchmark(f"prb:{tmp_path}")


def test_a_revision_belongs_to_the_hub(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row()])
    with pytest.raises(SpecError, match="revision= is for the hub"):
        load_benchmark(f"prb:{path},revision=abc")


def test_a_local_part_does_not_carry_the_benchmarks_name(tmp_path: Path) -> None:
    card = load(tmp_path, [prb_row()]).card
    assert (card.name, card.licence, card.labelled) == ("prb-Society_and_Culture", "not stated", "not stated")
    assert card.source == "local: Society_and_Culture.jsonl"
    assert card.metrics == ("accuracy",)


def test_a_local_copy_with_the_published_counts_does(tmp_path: Path) -> None:
    number = iter(range(3000))
    for domain, count in zip(DOMAINS, (767, 989, 1074), strict=True):
        write_jsonl(tmp_path / f"{domain}.jsonl", [prb_row(next(number), posts=0) for _ in range(count)])
    benchmark = load_benchmark(f"prb:{tmp_path}")
    assert len(benchmark.items) == 2830
    assert (benchmark.card.name, benchmark.card.licence) == ("prb", "Apache-2.0")
    assert benchmark.card.source == f"local: {tmp_path.name}"
    assert "not compared with the source" in benchmark.card.notes


def test_hidden_files_and_deep_folders_are_left_alone(tmp_path: Path) -> None:
    write_jsonl(tmp_path / f"{DOMAINS[0]}.jsonl", [prb_row()])
    for bookkeeping in (".cache/rows.jsonl", f"{DOMAINS[0]}/.rows.jsonl", "a/b/c/d/rows.jsonl"):
        write_jsonl(tmp_path / bookkeeping, [{"not": "a row"}])
    assert len(load_benchmark(f"prb:{tmp_path}").items) == 1
