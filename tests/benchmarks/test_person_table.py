"""Plain tables of judgments: person, item, label, in anyone's own columns."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.core import Item
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.testing import check_benchmark
from tests.benchmarks.sample_rows import write_jsonl, write_parquet
from tests.benchmarks.test_ratings import write_csv

Row = dict[str, object]

LAMPS: Row = {"prompt": "Which light for reading?", "lamp": "A floor lamp.", "candle": "Two candles."}
SOUPS: Row = {"prompt": "Soup or salad?", "lamp": "Soup, hot.", "candle": "Salad, green."}


def votes() -> list[Row]:
    return [
        {"worker": "ann", "task": "q1", "choice": "lamp", "age": "25-34", "lang": "en", **LAMPS},
        {"worker": "ben", "task": "q1", "choice": "B", "age": "65+", "lang": "en", **LAMPS},
        {"worker": "ann", "task": "q2", "choice": "a", "age": "25-34", "lang": "fr", **SOUPS},
        {"worker": "ann", "task": "q1", "choice": "candle", "age": "25-34", "lang": "en", **LAMPS},
        {"worker": "ben", "task": "q2", "choice": "Tie", "age": "65+", "lang": "fr", **SOUPS},
    ]


COLUMNS = "person=worker,item=task,label=choice,options=lamp+candle,traits=age,tags=lang"


def preferred(items: Sequence[Item]) -> dict[str, str]:
    return {item.id: item.candidates[item.best[0]] for item in items}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_choices_become_items_of_the_options_with_the_person_and_their_traits(tmp_path: Path, form: str) -> None:
    write = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}[form]
    bench = load_benchmark(f"table:{write(tmp_path / f'votes.{form}', votes())},{COLUMNS}")
    check_benchmark(bench)
    assert preferred(bench.items) == {
        "ann:q1": "A floor lamp.",
        "ben:q1": "Two candles.",
        "ann:q2": "Soup, hot.",
        "ann:q1#2": "Two candles.",
    }
    first = bench.items[0]
    assert first.user is not None
    assert (first.prompt, first.prompt_id, first.cluster) == ("Which light for reading?", "q1", "ann")
    assert (first.user.traits, first.user.posts, first.tags) == ({"age": "25-34"}, (), {"lang": "en"})
    assert bench.card.load.dropped == {"judgments": {"ties": 1}}
    assert bench.card.load.read == {"judgments": 5}
    assert (bench.card.name, bench.card.licence) == ("table-votes", "not stated")
    votes_of_ben = dict(zip(first.candidates, bench.other_votes["ann:q1"], strict=True))
    assert votes_of_ben == {"A floor lamp.": 0.0, "Two candles.": 1.0}
    half = dict(zip(bench.items[1].candidates, bench.other_votes["ben:q1"], strict=True))
    assert half == {"A floor lamp.": 0.5, "Two candles.": 0.5}  # ann judged twice, and has one vote


def test_without_options_every_label_of_the_file_is_a_candidate(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"person": "a", "item": "q1", "label": "yes", "text": "May one feed the ducks?"},
        {"person": "b", "item": "q1", "label": "no", "text": "May one feed the ducks?"},
        {"person": "a", "item": "q2", "label": "unsure", "text": ""},
    ]
    bench = load_benchmark(str(write_csv(tmp_path / "votes.csv", rows)))
    check_benchmark(bench)
    assert [item.prompt for item in bench.items] == ["May one feed the ducks?"] * 2 + ["q2"]
    assert {tuple(sorted(item.candidates)) for item in bench.items} == {("no", "unsure", "yes")}
    assert preferred(bench.items) == {"a:q1": "yes", "b:q1": "no", "a:q2": "unsure"}


def test_an_option_that_an_item_lacks_is_no_candidate_of_it(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"person": "a", "item": "q1", "label": "C", "x": "One.", "y": "Two.", "z": "Three."},
        {"person": "a", "item": "q2", "label": "x", "x": "One.", "y": "Two.", "z": ""},
    ]
    bench = load_benchmark(f"table:{write_csv(tmp_path / 'v.csv', rows)},options=x+y+z")
    assert [len(item.candidates) for item in bench.items] == [3, 2]
    assert preferred(bench.items) == {"a:q1": "Three.", "a:q2": "One."}


def test_a_domain_and_a_part_of_the_people_can_be_named(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"person": f"u{n}", "item": "q", "label": "ab"[n % 2], "kind": "food" if n < 20 else "light"} for n in range(40)
    ]
    path = write_csv(tmp_path / "v.csv", rows)
    whole = load_benchmark(f"table:{path},domain=kind")
    assert whole.domains == ["food", "light"]
    parts = [load_benchmark(f"table:{path},domain=kind,users={part}") for part in ("train", "test")]
    assert sorted(item.id for part in parts for item in part.items) == sorted(item.id for item in whole.items)
    assert "id-70-30" in parts[0].card.notes


def test_numbers_in_json_are_labels_and_ids_too(tmp_path: Path) -> None:
    rows = [{"person": 3, "item": n, "label": n / 2, "text": f"Text {n}."} for n in range(2)]
    item = load_benchmark(str(write_jsonl(tmp_path / "r.jsonl", rows))).items[0]
    assert (item.id, sorted(item.grades)) == ("3:0:1", [0.0, 0.5])
    flags = [{"person": n, "item": 1, "label": bool(n)} for n in range(2)]
    assert preferred(load_benchmark(str(write_jsonl(tmp_path / "f.jsonl", flags))).items) == {
        "0:1": "false",
        "1:1": "true",
    }


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            {"label": ""},
            "",
            "label: found no value, wanted a number or a choice; name your column with label=COLUMN",
        ),
        ({"person": " "}, "", "person: found no value, wanted the person; name your column with person=COLUMN"),
        ({"item": "q" * 101}, "", "item: found 'qqq.*wanted 1 to 100 printable characters"),
        ({"label": "C"}, "", "label: found 'C', wanted one of lamp, candle, the letter of its column, or tie"),
        ({"candle": " A floor lamp. "}, "", "candle: found the text of another option, wanted different texts"),
        ({"candle": ""}, "", r"\(row\): found a text in lamp, wanted two or more of the options lamp, candle"),
        (
            {"prompt": "Another?"},
            "",
            "prompt: found 'Another\\?', wanted 'Which light for reading\\?', as in an earlier row",
        ),
        ({"person": "a", "age": "7"}, "", "age: found '7', wanted '5', as in an earlier row of 'a'"),
        ({"lang": ""}, ",domain=lang", "lang: found no value, wanted a value in the column that the spec names"),
        ({"label": 4}, "", "label: found '4', wanted one of lamp"),
    ],
)
def test_a_row_that_would_make_a_number_wrong_is_refused_by_file_line_and_column(
    tmp_path: Path, change: Row, options: str, message: str
) -> None:
    row: Row = {"person": "a", "item": "q1", "label": "A", "age": "5", "lang": "en", **LAMPS}
    path = write_csv(tmp_path / "v.csv", [row, row | {"person": "b"} | change])
    spec = f"table:{path},options=lamp+candle,traits=age{options}"
    with pytest.raises(RowError, match=rf"v\.csv:3: {message}"):
        load_benchmark(spec)
    skipped = load_benchmark(f"{spec},skip=bad-rows")
    assert (len(skipped.items), sum(skipped.card.load.skipped.values())) == (1, 1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((3, "good"), "v.jsonl:2: label: found 'good', wanted a number, as in the other rows"),
        (("good", 3), "v.jsonl:2: label: found '3', wanted a choice, as in the other rows"),
        ((3, "nan"), "v.jsonl:2: label: found 'nan', wanted a finite number, or a choice"),
        ((3, [4]), "v.jsonl:2: label: found a list of 1, wanted a text or a number"),
    ],
)
def test_labels_are_numbers_or_choices_and_not_both(tmp_path: Path, labels: Sequence[object], message: str) -> None:
    rows = [{"person": "a", "item": n, "label": label} for n, label in enumerate(labels)]
    with pytest.raises(RowError, match=message):
        load_benchmark(str(write_jsonl(tmp_path / "v.jsonl", rows)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (",gap=3", SpecError, "gap= is for ratings, and the column 'label' has choices"),
        (",options=a", SpecError, "options is 'a'; wanted two or more columns, as in options=a\\+b"),
        (",traits=a+a", SpecError, "traits is 'a\\+a'; wanted different columns"),
        (
            ",person=worker",
            RowError,
            "worker: found no such column, wanted the person; name your column with person=COLUMN",
        ),
        (",traits=persn", SpecError, "table: no row has the column 'persn'. Did you mean 'person'"),
        (",tags=wave", SpecError, "table: no row has the column 'wave'. Known: item, label, person"),
        (",peron=worker", SpecError, "has no key 'peron'. Did you mean 'person'"),
        ("", BenchmarkError, "the column 'label': found 'up' alone, wanted two or more different labels, or numbers"),
    ],
)
def test_a_spec_that_does_not_fit_the_table_says_what_does(
    tmp_path: Path, options: str, error: type[Exception], message: str
) -> None:
    path = write_csv(tmp_path / "v.csv", [{"person": "a", "item": "q", "label": "up"}])
    with pytest.raises(error, match=message):
        load_benchmark(f"table:{path}{options}")


def test_columns_that_are_not_named_are_ignored_and_named_once(tmp_path: Path) -> None:
    rows = [json.loads(json.dumps(row | {"ip": "::1", "seconds": 4})) for row in votes()]
    bench = load_benchmark(f"table:{write_csv(tmp_path / 'v.csv', rows)},{COLUMNS}")
    assert bench.card.load.ignored == ("ip", "seconds")
