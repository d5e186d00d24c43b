"""Rows of one's own: plain pairs, several candidates, people who ask several questions, in four kinds of file."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pluralrm import load_benchmark
from pluralrm.core import Benchmark, ContextPair, Post
from pluralrm.errors import BenchmarkError, RowError
from pluralrm.testing import benchmark_findings, check_benchmark
from tests.benchmarks.sample_rows import JsonRow, write_jsonl, write_parquet
from tests.benchmarks.test_dirt import write_csv


def load(tmp_path: Path, rows: list[JsonRow], options: str = "", *, seed: int = 0) -> Benchmark:
    return load_benchmark(f"{write_jsonl(tmp_path / 'mine.jsonl', rows)}{options}", seed=seed)


def plain(number: int) -> JsonRow:
    return {"prompt": f"Which bread, {number}?", "chosen": f"Rye, {number} times.", "rejected": "Any bread."}


def asked(number: int = 0) -> JsonRow:
    """Return one of the questions of a person, with everything that the format has."""
    return {
        "id": f"q{number}",
        "user": f"u{number // 3}",
        "domain": ["bread", "cake"][number % 2],
        "prompt": f"How long does loaf {number} rest?",
        "candidates": ["An hour.", f"Overnight, in the cold, {number}.", "Not at all."],
        "preferred": 1,
        "tags": {"lang": "en", "turn": number, "new": True},
        "traits": {"age": "25-34", "wave": 2, "faith": None},
        "posts": [
            {
                "id": f"p{n}",
                "text": f"Loaf {n} of {number // 3} came out flat.",
                "date": f"2024-05-0{n + 1}",
                "category": "baking",
            }
            for n in range(1 + number % 3)
        ],
        "pairs": [{"id": f"c{number // 3}", "prompt": "Which flour?", "preferred": "Rye.", "other": "Oat."}],
        "weight": 1,
    }


def test_the_plain_file_of_the_field_works_as_it_is(tmp_path: Path) -> None:
    found = load(tmp_path, [plain(n) for n in range(60)])
    check_benchmark(found)
    assert (found.card.name, found.card.cluster, found.domains, str(found.card.load)) == (
        "rows-mine",
        "prompt",
        ["all"],
        "",
    )
    for row, item in zip((plain(n) for n in range(60)), found.items, strict=True):
        assert item.preferred is not None
        assert (item.prompt, item.user) == (row["prompt"], None)
        assert item.candidates[item.preferred] == row["chosen"]
        assert item.candidates[1 - item.preferred] == row["rejected"]
    assert len({item.cluster for item in found.items}) == 60


def test_rows_of_one_prompt_are_one_cluster(tmp_path: Path) -> None:
    rows = [plain(n) | {"prompt": f"Which bread, {n // 4}?"} for n in range(12)]
    assert [item.cluster for item in load(tmp_path, rows).items] == [
        item.cluster for item in load(tmp_path, rows[::4]).items for _ in range(4)
    ]


def test_an_item_says_what_its_row_says(tmp_path: Path) -> None:
    found = load(tmp_path, [asked(n) for n in range(12)])
    check_benchmark(found)
    item = found.items[5]
    assert item.user is not None
    assert item.preferred is not None
    assert (item.id, item.user.id, item.cluster, item.domain) == ("q5", "u1", "u1", "cake")
    assert item.candidates[item.preferred] == "Overnight, in the cold, 5."
    assert dict(item.tags) == {"lang": "en", "turn": "5", "new": "true"}
    assert item.user is not None
    assert item.user.traits == {"age": "25-34", "wave": "2"}
    assert item.user.posts == tuple(
        Post(f"p{n}", f"Loaf {n} of 1 came out flat.", "baking", f"2024-05-0{n + 1}") for n in range(3)
    )
    assert item.user.preferences == (ContextPair("c1", "Which flour?", "Rye.", "Oat."),)
    assert (found.card.cluster, len(found.users)) == ("user", 4)


def test_the_same_rows_have_one_content_hash_in_every_kind_of_file(tmp_path: Path) -> None:
    rows = [asked(n) for n in range(10)]
    rows[3]["posts"] = rows[4]["pairs"] = None
    rows[5]["domain"] = None
    rows[6] |= {"weight": 2.5, "prompt": 'Comma, "quote"\nline 日本?'}
    for row in rows:
        row["tags"]["new"] = "yes"
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=2))
    files = [
        write_jsonl(tmp_path / "a.jsonl", rows),
        tmp_path / "a.json",
        write_csv(tmp_path / "a.csv", rows),
        write_parquet(tmp_path / "a.parquet", rows),
    ]
    found = [load_benchmark(str(file)) for file in files]
    assert len({bench.content_hash for bench in found}) == 1
    assert len({str(bench.card.load) for bench in found}) == 1
    assert str(found[0].card.load) == "kept as they are: weights, which no metric uses 1"


def test_plain_rows_have_one_content_hash_too(tmp_path: Path) -> None:
    rows = [plain(n) for n in range(10)]
    files = [write_jsonl(tmp_path / "b.jsonl", rows), write_csv(tmp_path / "b.csv", rows)]
    files.append(write_parquet(tmp_path / "b.parquet", rows))
    assert len({load_benchmark(str(file)).content_hash for file in files}) == 1


def test_the_order_of_rows_without_ids_moves_nothing(tmp_path: Path) -> None:
    rows = [plain(n) for n in range(40)]
    forwards, backwards = load(tmp_path, rows).items, load(tmp_path, rows[::-1]).items
    assert {item.id: item for item in forwards} == {item.id: item for item in backwards}


def test_a_row_that_stands_there_twice_without_an_id_is_dropped_and_counted(tmp_path: Path) -> None:
    other_label = {"chosen": "Any bread.", "rejected": "Rye, 0 times."}
    with_posts = plain(2) | {"posts": ["One.", "Two."]}
    found = load(tmp_path, [plain(0), plain(1), plain(0), plain(0) | other_label, with_posts, with_posts])
    assert len(found.items) == 4
    assert str(found.card.load) == "4 of 6 items; 2 repeated dropped"
    assert found.card.load.read == {"items": 6, "posts": 2}


def test_conversations_are_read_as_prompt_and_answers(tmp_path: Path) -> None:
    before = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bread?"},
    ]
    chosen, rejected = {"role": "assistant", "content": "Rye."}, {"role": "assistant", "content": "No."}
    forms: list[JsonRow] = [
        {"messages": before, "chosen": "Rye.", "rejected": "No."},
        {"prompt": before, "chosen": [chosen], "rejected": [rejected]},
        {"chosen": [*before, chosen], "rejected": [*before, rejected]},
        {"messages": before, "chosen": [*before, chosen], "rejected": rejected | {}},
    ]
    found = [load(tmp_path, [row]).items[0] for row in forms[:3]]
    assert len({(item.prompt, frozenset(item.candidates), item.id) for item in found}) == 1
    assert found[0].prompt == "Person: Hi\n\nAssistant: Hello\n\nPerson: Bread?"
    with pytest.raises(RowError, match="rejected: found another conversation before the answer"):
        load(tmp_path, [forms[3]])


def test_ultrafeedback_rows_load_and_their_conversation_is_shown_whole(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    question, answers = {"role": "user", "content": "Bread?"}, [{"role": "assistant", "content": x} for x in "ab"]
    plain, within = (
        {"prompt": "Bread?", "chosen": [*before, answers[0]], "rejected": [*before, answers[1]]}
        for before in ([question], [system, question])
    )
    assert load(tmp_path, [plain | {"messages": plain["chosen"]}]).items[0].prompt == "Bread?"
    assert load(tmp_path, [within]).items[0].prompt == "System: Be brief.\n\nPerson: Bread?"
    assert load(tmp_path, [{"messages": within["chosen"], **within}]).items[0].prompt.startswith("System: ")
    with pytest.raises(RowError, match="chosen: found another conversation than the prompt"):
        load(tmp_path, [plain | {"prompt": "Cake?"}])


def test_the_index_that_pandas_writes_is_no_column_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(",prompt,chosen,rejected\n0,Which?,Rye.,No.\n1,Why?,Sour.,No.\n")
    found = load_benchmark(str(path))
    assert [item.prompt for item in found.items] == ["Which?", "Why?"]
    assert str(found.card.load) == "unknown columns ignored: (no name)"


@pytest.mark.parametrize("text", ["nan", "NaN", "None", "<NA>"])
def test_a_missing_value_is_never_a_person(tmp_path: Path, text: str) -> None:
    with pytest.raises(RowError, match=r"user: found '.*', wanted an id, or an empty cell or null"):
        load(tmp_path, [plain(0) | {"user": text}])
    table = tmp_path / "votes.csv"
    table.write_text(f"person,item,label\nann,q1,a\n{text},q1,b\n")
    with pytest.raises(RowError, match=r"votes.csv:3: person: found"):
        load_benchmark(f"table:{table}")


def test_a_person_under_another_name_is_reported(tmp_path: Path) -> None:
    found = load(tmp_path, [plain(0) | {"user_id": 7}, plain(1) | {"user_id": None}])
    assert "rows whose user_id is not read (call it user) 1" in str(found.card.load)
    assert "not read" not in str(load(tmp_path, [plain(0) | {"user": "a", "user_id": 7}]).card.load)


def test_a_check_says_how_many_items_and_people_a_file_holds(tmp_path: Path) -> None:
    first = benchmark_findings(load(tmp_path, [plain(0) | {"user": "a"}, plain(1), plain(2) | {"user": "a"}]))[0]
    assert (first.status, first.detail) == ("pass", "3 items, 1 user, 1 without a user")


@pytest.mark.parametrize("columns", [lambda texts: texts, lambda texts: dict(zip("01", texts, strict=True))])
def test_a_table_written_by_columns_says_how_to_write_it(tmp_path: Path, columns: Callable[[list[str]], Any]) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({key: columns(["a", "b"]) for key in ("prompt", "chosen", "rejected")}))
    with pytest.raises(
        BenchmarkError, match=r"mine.json:1: found all prompts in one object, wanted .*orient='records'"
    ):
        load_benchmark(str(path))


def test_a_folder_of_json_files_says_what_they_lack(tmp_path: Path) -> None:
    (tmp_path / "chat_filtered.json").write_text(json.dumps([plain(0)]))
    with pytest.raises(BenchmarkError, match=r"a \.json file counts where its name starts with a domain of the format"):
        load_benchmark(str(tmp_path))


def test_posts_are_texts_or_objects_and_dirt_is_counted(tmp_path: Path) -> None:
    row = plain(0) | {"user": 7, "posts": ["One.", {"text": "Two."}, "", None, "One."]}
    found = load(tmp_path, [row])
    user = found.items[0].user
    assert user is not None
    assert (user.id, [post.text for post in user.posts]) == ("7", ["One.", "Two."])
    assert str(found.card.load) == "2 of 5 posts; 2 blank, 1 repeated dropped"


def test_dates_of_parquet_are_iso_texts(tmp_path: Path) -> None:
    row = plain(0) | {"posts": [{"text": "One.", "date": date(2024, 5, 1)}, {"text": "Two.", "date": None}]}
    user = load_benchmark(str(write_parquet(tmp_path / "a.parquet", [row]))).items[0].user
    assert user is not None
    assert [post.date for post in user.posts] == ["2024-05-01", ""]


@pytest.mark.parametrize(
    ("change", "field", "found"),
    [
        ({"chosen": None}, "chosen", "no answer"),
        ({"rejected": "Rye, 0 times. "}, "rejected", "the text of another answer"),
        ({"chosen": " "}, "chosen", "only white space"),
        ({"chosen": 12}, "chosen", "12"),
        ({"prompt": None}, "prompt", "no such key"),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "messages", "messages beside a prompt"),
        ({"candidates": ["a", "b"]}, "chosen", "an answer beside candidates"),
        ({"preferred": 1}, "preferred", "a label without candidates"),
        ({"weight": 0}, "weight", "0"),
        ({"weight": "1_0"}, "weight", "'1_0'"),
        ({"tags": {"a": [1]}}, "tags", "an object"),
        ({"posts": [{"text": "x", "date": "May"}]}, "posts[0].date", "'May'"),
        ({"posts": [{"txt": "x"}]}, "posts[0].text", "no such key, but 'txt'"),
        ({"pairs": [{"prompt": "?", "preferred": "a"}]}, "pairs[0]", "no label, or two"),
        ({"pairs": [{"prompt": "?", "preferred": "a", "other": "a "}]}, "pairs[0]", "one answer twice"),
        (
            {"pairs": [{"prompt": "Which bread, 0?", "preferred": "Any bread.", "other": "Rye, 0 times."}]},
            "pairs[0]",
            "the question and answers of the row",
        ),
    ],
)
def test_what_would_make_a_number_wrong_is_refused(
    tmp_path: Path, change: dict[str, Any], field: str, found: str
) -> None:
    with pytest.raises(RowError) as caught:
        load(tmp_path, [plain(1), plain(0) | change])
    assert (caught.value.line, caught.value.field, caught.value.found) == (2, field, found)


@pytest.mark.parametrize(
    ("change", "field"),
    [({"preferred": 3}, "preferred"), ({"preferred": None}, "preferred"), ({"candidates": ["a"]}, "candidates")],
)
def test_a_row_of_candidates_has_a_label(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    with pytest.raises(RowError) as caught:
        load(tmp_path, [asked(0), asked(1) | change])
    assert (caught.value.line, caught.value.field) == (2, field)


@pytest.mark.parametrize(
    "weight", ["1_0", "\u0661", "0x1", "+1", "1.", ".5", "nan", "inf", "1e", "one", "1,5", "\uff11"]
)
def test_numbers_of_a_csv_file_are_plain_ascii_decimals(tmp_path: Path, weight: str) -> None:
    path = write_csv(tmp_path / "a.csv", [plain(0), plain(1) | {"weight": weight}])
    with pytest.raises(RowError) as caught:
        load_benchmark(str(path))
    assert (caught.value.line, caught.value.field) == (3, "weight")


def test_one_person_is_never_in_two_clusters(tmp_path: Path) -> None:
    rows = [asked(0) | {"cluster": "town"}, asked(1) | {"cluster": "farm"}, asked(2) | {"cluster": "town"}]
    with pytest.raises(RowError, match=r"mine.jsonl:2: cluster: found 'farm', wanted 'town', as in an earlier row"):
        load(tmp_path, rows)
    assert load(tmp_path, [rows[0], rows[2]]).card.cluster == "cluster"


def test_parts_of_the_users_are_disjoint_and_whole(tmp_path: Path) -> None:
    rows = [asked(n) for n in range(60)]
    whole, train, test = (load(tmp_path, rows, options).items for options in ("", ",users=train", ",users=test"))
    assert {item.id for item in train} | {item.id for item in test} == {item.id for item in whole}
    assert not {item.cluster for item in train} & {item.cluster for item in test}
    assert train
    assert test


def test_a_file_without_a_known_format_names_this_one(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="rows has chosen and rejected, or candidates"):
        load(tmp_path, [{"question": "?", "answer": "!"}])
