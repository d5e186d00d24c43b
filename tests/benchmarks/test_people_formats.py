"""Every format of people, from a made-up file through check, evaluate, compare and audit; and what bad rows say."""

import csv
import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from pluralrm import load_benchmark, load_condition, score
from pluralrm.benchmarks import KINDS, cards
from pluralrm.cli import app
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.metrics import measure
from pluralrm.testing import check_benchmark
from tests.benchmarks import crossed_rows as crossed
from tests.benchmarks.published_rows import write_json
from tests.benchmarks.sample_rows import JsonRow, write_jsonl
from tests.benchmarks.test_load_alignx import persona_row, reversal_row
from tests.benchmarks.test_load_personamem import memory_files, memory_row, prefeval_files
from tests.benchmarks.test_load_preferences import SURVEY, talk
from tests.benchmarks.test_ratings import harm_files, quorn_row, write_csv


class PeopleFormat(NamedTuple):
    """One format: a made-up file, what its models may see, a slice, and what makes a row a bad one."""

    write: Callable[[Path], Path]
    sees: str
    by: str
    bad: Mapping[str, object]
    repeated: str = ""
    """What a row that stands there twice is refused with; empty where it is another judgment, or dropped."""
    options: str = ""
    """What the spec has after the path."""


def write_prism(folder: Path) -> Path:
    ages = ("18-24 years old", "25-34 years old")
    people = [{**SURVEY, "user_id": f"user{n}", "age": ages[n % 2]} for n in range(5)]
    write_jsonl(folder / "survey.jsonl", people)
    return write_jsonl(folder / "conversations.jsonl", [talk(n, f"user{n % 5}") for n in range(15)])


def write_alignx(folder: Path) -> Path:
    rows = [persona_row(side, n, f"P{n % 3}") for n in range(6) for side in ("friendly", "unfriendly")]
    return write_json(folder / "friendly_unfriendly.json", rows)


def write_harms(folder: Path) -> Path:
    ratings = [{f"Rating_{k}": (17 * n * k) % 101 for k in range(1, 9)} for n in range(1, 6)]
    return harm_files(folder, [row | {"sex": "FM"[n % 2]} for n, row in enumerate(ratings)], prompts=8)


def write_quorn(folder: Path) -> Path:
    rows = [quorn_row(n, k, (n * k) % 5 + 1) for n in range(1, 5) for k in range(1, 7)]
    return write_csv(folder / "raw_data.csv", rows)


def write_choices(folder: Path) -> Path:
    return prefeval_files(folder, 6) / "mcq_options/travel_restaurant.json"


def write_votes(folder: Path) -> Path:
    rows = [
        {"person": f"u{n}", "item": f"q{k}", "label": "ab"[n * k % 2], "age": n % 2} for n in range(4) for k in range(4)
    ]
    return write_csv(folder / "votes.csv", rows)


FORMATS: Mapping[str, PeopleFormat] = {
    "community-alignment": PeopleFormat(
        lambda folder: crossed.write_csv(folder / "people.csv", crossed.community_alignment(40)),
        "traits",
        "language",
        {"annotator_id": ""},
        "conversation_id: found 'c0' again",
    ),
    "coval": PeopleFormat(
        lambda folder: crossed.write_coval(folder, crossed.coval(12)) / "comparisons.jsonl",
        "traits",
        "importance",
        {"responses": []},
        "id: found 'p0/",
    ),
    "multipref": PeopleFormat(
        lambda folder: write_jsonl(folder / "pairs.jsonl", crossed.multipref(12)),
        "traits",
        "worker",
        {"completion_a": 3},
        "id: found 'c0/",
    ),
    "helpsteer3": PeopleFormat(
        lambda folder: write_jsonl(folder / "validation.jsonl", crossed.helpsteer3(20)),
        "raw:10",
        "language",
        {"overall_preference": 4},
    ),
    "tldr": PeopleFormat(
        lambda folder: write_jsonl(folder / "comparisons.jsonl", crossed.tldr(30)), "raw:10", "place", {"choice": None}
    ),
    "prism": PeopleFormat(
        write_prism, "traits:age", "trait:age", {"user_id": " "}, "conversation_id: found 'c0' again"
    ),
    "pluriharms": PeopleFormat(write_harms, "traits", "trait:sex", {"Rating_2": "much"}),
    "popquorn": PeopleFormat(write_quorn, "traits", "trait:gender", {"text": " "}),
    "table": PeopleFormat(write_votes, "traits", "trait:age", {"label": ""}, options=",traits=age"),
    "prefeval": PeopleFormat(write_choices, "raw:3", "topic", {"question": ""}),
    "personamem": PeopleFormat(
        lambda folder: memory_files(folder, [memory_row(n, shared_context_id=f"c{n % 3 + 1}") for n in range(8)]),
        "raw:3",
        "question_type",
        {"correct_answer": "(z)"},
        "question_id: found 'q0' again",
    ),
    "alignx": PeopleFormat(write_alignx, "raw:3", "domain", {"ground_truth_persona": None}),
    "rpr": PeopleFormat(
        lambda folder: write_jsonl(folder / "test.jsonl", [reversal_row(n) for n in range(6)]),
        "traits",
        "side",
        {"criteria_y": ""},
        "id: found '0-x' again",
    ),
}


def spec_of(kind: str, path: Path, options: str = "") -> str:
    return f"{kind}:{path}{FORMATS[kind].options}{options}"


def rows_in(path: Path) -> list[JsonRow]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def rewrite(path: Path, rows: Sequence[JsonRow]) -> Path:
    return {".csv": crossed.write_csv, ".json": write_json, ".jsonl": write_jsonl}[path.suffix](path, list(rows))


def run(*words: str) -> str:
    outcome = CliRunner().invoke(app, words)
    assert outcome.exception is None, f"{words}: {outcome.exception!r}"
    return outcome.output


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_of_people_goes_through_check_evaluate_compare_and_audit(kind: str, tmp_path: Path) -> None:
    spec, runs = spec_of(kind, FORMATS[kind].write(tmp_path)), str(tmp_path / "runs")
    bench = load_benchmark(spec)
    check_benchmark(bench)
    assert "fail" not in run("check", "--benchmark", spec)
    run("evaluate", "longest", "bm25", "-b", spec, "--sees", FORMATS[kind].sees, "-o", runs, "--no-baselines")
    fits = load_condition(FORMATS[kind].sees).unsupported(bench) is None
    assert fits == (kind not in {"helpsteer3", "tldr"})  # no one's texts, choices or traits are known there
    table = run("compare", runs, "--by", FORMATS[kind].by)
    tags = {item.tags.get(FORMATS[kind].by, item.domain) for item in bench.items if ":" not in FORMATS[kind].by}
    assert all(tag in table for tag in tags)
    assert all(("ignores user" in text) == fits for text in (table, run("compare", runs)))
    constant = score(bench, "constant", out=tmp_path / "constant")
    chances = [len(item.best) / len(item.candidates) for item in bench.items]
    assert measure(constant).value == pytest.approx(sum(chances) / len(chances))
    audited = CliRunner().invoke(app, ["audit", spec])
    assert audited.exit_code in {0, 1}, audited.output  # 1: the rows made up here may leak
    assert "Can the label be guessed without the user?" in audited.output


@pytest.mark.parametrize("kind", FORMATS)
def test_a_bad_row_is_named_by_file_line_and_field_and_skipped_where_that_is_said(kind: str, tmp_path: Path) -> None:
    path, bad = FORMATS[kind].write(tmp_path), FORMATS[kind].bad
    [field], rows = bad, rows_in(path)
    rewrite(path, [rows[0], {**rows[1], **bad}, *rows[2:]])
    line = 3 if path.suffix == ".csv" else 2
    with pytest.raises(RowError, match=rf"^{re.escape(str(path))}:{line}: {field}\b.*: found .*, wanted ") as refused:
        load_benchmark(spec_of(kind, path))
    first, *rest = str(refused.value).split("\n")
    assert rest == ["(1 row refused; add ,skip=bad-rows to continue without them)"]
    assert not re.search("Input|should be|COLUMN" if kind != "table" else "Input|should be", first)
    load = load_benchmark(spec_of(kind, path, ",skip=bad-rows")).card.load
    assert load.skipped == {field.rstrip("0123456789"): 1}
    rewrite(path, [{name: value for name, value in row.items() if name != field} for row in rows])
    if kind != "pluriharms":  # a rating that is missing is no error
        with pytest.raises(RowError, match=rf":{line - 1}: {field}: found no such (key|column), wanted "):
            load_benchmark(spec_of(kind, path))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_row_twice_is_refused_by_its_id_or_stays_another_judgment(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind].write(tmp_path)
    before, rows = load_benchmark(spec_of(kind, path)), rows_in(path)
    rewrite(path, [*rows, rows[0]])
    if FORMATS[kind].repeated:
        with pytest.raises(RowError, match=re.escape(FORMATS[kind].repeated)):
            load_benchmark(spec_of(kind, path))
        assert len(load_benchmark(spec_of(kind, path, ",skip=bad-rows")).items) == len(before.items)
    else:
        ids = [item.id for item in load_benchmark(spec_of(kind, path)).items]
        assert len(set(ids)) == len(ids) >= len(before.items)


@pytest.mark.parametrize("kind", FORMATS)
def test_line_ends_a_byte_order_mark_and_gzip_change_nothing(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind].write(tmp_path)
    content, bench = path.read_bytes().replace(b"\r\n", b"\n"), load_benchmark(spec_of(kind, path))
    for other in (content, content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content):
        path.write_bytes(other)
        assert load_benchmark(spec_of(kind, path)).content_hash == bench.content_hash
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(content))
    if path.suffix == ".jsonl":
        assert load_benchmark(spec_of(kind, packed)).items == bench.items
    for name in (f"{path.name}.zst", *([packed.name] * (path.suffix != ".jsonl"))):
        packed.with_name(name).write_bytes(gzip.compress(content))
        with pytest.raises(BenchmarkError, match=r"found a file of type '\.(zst|gz)', wanted \.jsonl"):
            load_benchmark(spec_of(kind, packed.with_name(name)))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"PK\x03\x04", b"{", b"[{", b"a,b\n"])
def test_what_is_no_file_of_rows_is_refused_in_words(kind: str, content: bytes, tmp_path: Path) -> None:
    path = FORMATS[kind].write(tmp_path)
    path.write_bytes(content)
    for options in ("", ",skip=bad-rows"):
        with pytest.raises(BenchmarkError, match=rf"^(benchmark.*)?.*{re.escape(path.name)}\b.*found "):
            load_benchmark(spec_of(kind, path, options))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_card_says_of_whom_and_by_whom_the_labels_are(kind: str) -> None:
    card = dict(zip(KINDS, cards(), strict=True))[kind]
    assert all(text.strip() for text in (card.licence, card.source, card.labelled, card.citation, card.summary))
    assert card.labelled.startswith("by ") or kind == "table"
    assert card.cluster == ("prompt" if kind == "helpsteer3" else "user")


def test_formats_of_people_stand_together_in_a_list_of_eighty_columns() -> None:
    lines = run("list", "benchmarks").splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    names = [line.split()[0] for line in lines if line[:1].isalpha()]
    crowds = ["community-alignment", "coval", "multipref", "tldr", "helpsteer3", "pluriharms", "popquorn"]
    first = names.index(crowds[0])
    assert names[first : first + len(crowds)] == crowds


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("comunity-alignment", "Did you mean 'community-alignment'?"),
        ("community-alignment,turn=all", "has no key 'turn'. Did you mean 'turns'?"),
        ("coval,ranking=word", "ranking is 'word'; wanted personal or world. Did you mean 'world'?"),
        ("prefeval:x,form=b", "form is 'b'; wanted explicit or choice or persona."),
        ("personamem,size=64k", "size is '64k'; wanted 32k or 128k or 1M."),
        ("popquorn", "'popquorn' needs a target, as in popquorn:dataset/offensiveness/raw_data.csv"),
        ("tldr,least=few", "least is 'few'; wanted a whole number of at least 1."),
    ],
)
def test_a_misspelled_spec_names_the_right_one(spec: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(SpecError) as refused:
        load_benchmark(spec.replace(":x", f":{tmp_path}/x"))
    assert message in str(refused.value)
    assert "Known:" not in str(refused.value)
