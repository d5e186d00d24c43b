"""Multiple choice for a person who has talked before: PersonaMem, its second version, and PrefEval."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pluralrm import load_benchmark, load_condition
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.testing import check_benchmark
from tests.benchmarks.hub_server import Child, Hub
from tests.benchmarks.published_rows import write_json
from tests.benchmarks.sample_rows import JsonRow, write_jsonl
from tests.benchmarks.test_ratings import write_csv

TALK = [
    {"role": "system", "content": "Current user persona: a gardener."},
    {"role": "user", "content": "I forget to water."},
    {"role": "assistant", "content": "A cactus, then!"},
    {"role": "user", "content": "I moved to a dark flat."},
    {"role": "user", "content": " "},
    {"role": "user", "content": "I bought a lamp."},
]


def memory_row(number: int = 1, **more: Any) -> JsonRow:
    return {
        "persona_id": str(number % 3),
        "question_id": f"q{number}",
        "question_type": "recall" if number % 2 else "suggest",
        "topic": "plants",
        "context_length_in_tokens": "31,000",
        "user_question_or_message": f"Which plant for desk {number}?",
        "all_options": repr([f"(a) A fern's shade. {number}", "(b) A cactus.", "(c) Ivy.", "(d) None; a lamp."]),
        "correct_answer": "(b)",
        "shared_context_id": "c1",
        "end_index_in_shared_context": 4,
        **more,
    }


def memory_files(folder: Path, rows: Sequence[Mapping[str, object]], size: str = "32k") -> Path:
    path = write_csv(folder / f"questions_{size}.csv", rows)
    others = {f"c{n}": [{**turn, "content": f"{turn['content']} {n}"} for turn in TALK] for n in (2, 3)}
    write_jsonl(folder / f"shared_contexts_{size}.jsonl", [{"c0": []}, {"c1": TALK}, others])
    return path


def posts(bench: Benchmark, index: int = 0) -> list[str]:
    user = bench.items[index].user
    assert user is not None
    return [post.text for post in user.posts]


def test_personamem_cuts_the_conversation_at_the_question_and_keeps_what_the_person_said(tmp_path: Path) -> None:
    letters = json.dumps(["(A) Ivy.", "(B) Moss."])
    rows = [
        memory_row(1),
        memory_row(2, end_index_in_shared_context=6),
        memory_row(3, shared_context_id="c0", end_index_in_shared_context=0, all_options=letters, correct_answer="a"),
    ]
    path = memory_files(tmp_path, rows)
    bench = load_benchmark(str(path))
    check_benchmark(bench)
    first, second, third = bench.items
    assert posts(bench, 0) == ["I moved to a dark flat.", "I forget to water."]
    assert posts(bench, 1) == ["I bought a lamp.", "I moved to a dark flat.", "I forget to water."]
    assert posts(bench, 2) == []
    assert first.prompt == "Which plant for desk 1?"
    assert sorted(first.candidates) == ["A cactus.", "A fern's shade. 1", "Ivy.", "None; a lamp."]
    assert [item.candidates[item.best[0]] for item in bench.items] == ["A cactus.", "A cactus.", "Ivy."]
    assert (first.cluster, second.cluster, third.cluster) == ("persona-1", "persona-2", "persona-0")
    assert (first.domain, first.tags) == ("recall", {"question_type": "recall", "topic": "plants"})
    assert bench.card.load.ignored == ()
    assert load_benchmark(f"personamem:{tmp_path}").content_hash == bench.content_hash
    assert "persona" not in json.dumps([post for item in bench.items for post in posts(bench)])


def test_the_right_option_stands_anywhere_by_seed(tmp_path: Path) -> None:
    path = memory_files(tmp_path, [memory_row(n) for n in range(200)])
    places = [item.preferred for item in load_benchmark(str(path), seed=3).items]
    assert all(30 < places.count(index) < 70 for index in range(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end_index_in_shared_context": 7}, "end_index_in_shared_context: found 7, wanted at most 6"),
        ({"end_index_in_shared_context": "soon"}, "end_index_in_shared_context: found 'soon'"),
        ({"shared_context_id": "c9"}, "shared_context_id: found 'c9', wanted the id of a conversation"),
        ({"correct_answer": "(e)"}, r"correct_answer: found '\(e\)', wanted one of \(a\), \(b\), \(c\), \(d\)"),
        ({"all_options": "a, b"}, "all_options: found 'a, b', wanted a list of two or more texts"),
        ({"all_options": "['A fern.', 'Ivy.']"}, r"all_options: .*wanted options that begin with \(a\)"),
        ({"all_options": "['(a) Ivy.', '(b) Ivy.']"}, "all_options: found the text of a chosen answer"),
        ({"question_id": "q0"}, "question_id: found 'q0' again"),
        ({"shared_context_id": None}, "shared_context_id: "),
    ],
)
def test_personamem_refuses_by_line(tmp_path: Path, change: JsonRow, message: str) -> None:
    path = memory_files(tmp_path, [memory_row(0), memory_row(1, **change)])
    with pytest.raises(RowError, match=rf"questions_32k\.csv:3: {message}"):
        load_benchmark(f"personamem:{path}")
    assert len(load_benchmark(f"personamem:{path},skip=bad-rows").items) == 1


def test_personamem_without_its_conversations_or_size_says_what_it_wants(tmp_path: Path) -> None:
    path = memory_files(tmp_path, [memory_row()])
    with pytest.raises(BenchmarkError, match=r"found none of questions_1M\.csv, "):
        load_benchmark(f"personamem:{tmp_path},size=1M")
    with pytest.raises(SpecError, match="version= is for the hub"):
        load_benchmark(f"personamem:{path},version=2")
    (tmp_path / "shared_contexts_32k.jsonl").unlink()
    with pytest.raises(
        BenchmarkError, match=r"found none of the shared contexts beside it, wanted shared_contexts_32k"
    ):
        load_benchmark(f"personamem:{path}")


def second_row(number: int = 1, **more: Any) -> JsonRow:
    return {
        "persona_id": str(number),
        "chat_history_32k_link": f"data/chat_history_32k/p{number}.json",
        "user_query": repr({"role": "user", "content": f"What's for desk {number}?"}),
        "correct_answer": "A cactus.",
        "incorrect_answers": json.dumps(["Ivy.", "A fern.", "Moss."]),
        "pref_type": "stated",
        "topic_query": "plants",
        "preference": "hardy plants",
        **more,
    }


def test_version_2_reads_the_conversation_that_a_row_links(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "benchmark/text/benchmark.csv", [second_row(1), second_row(2)])
    (tmp_path / "data/chat_history_32k").mkdir(parents=True)
    for number in (1, 2):
        file = tmp_path / f"data/chat_history_32k/p{number}.json"
        file.write_text(json.dumps({"metadata": {}, "chat_history": TALK[: 2 * number]}))
    bench = load_benchmark(str(path))
    check_benchmark(bench)
    assert [posts(bench, n) for n in range(2)] == [
        ["I forget to water."],
        ["I moved to a dark flat.", "I forget to water."],
    ]
    item = bench.items[0]
    assert (item.prompt, item.candidates[item.best[0]], len(item.candidates)) == ("What's for desk 1?", "A cactus.", 4)
    assert (item.domain, item.tags["topic"], bench.card.load.ignored) == ("stated", "plants", ())
    assert load_benchmark(f"personamem:{tmp_path}").content_hash == bench.content_hash
    (tmp_path / "data/chat_history_32k/p2.json").unlink()
    with pytest.raises(
        RowError, match=r"benchmark.csv:3: chat_history_32k_link: found 'data/.*p2.json', wanted the path"
    ):
        load_benchmark(str(path))
    outside = tmp_path.parent / "outside.json"
    outside.write_text(json.dumps(TALK))
    for link in (str(outside), "../outside.json"):
        write_csv(path, [second_row(1, chat_history_32k_link=link)])
        with pytest.raises(RowError, match=r"chat_history_32k_link: .*wanted the path of a conversation that is there"):
            load_benchmark(str(path))


def test_both_versions_of_personamem_are_fetched_from_the_hub(tmp_path: Path) -> None:
    first = memory_files(tmp_path / "one", [memory_row(n) for n in range(4)])
    second = write_csv(tmp_path / "two.csv", [second_row(1)])
    files = {name.name: name.read_bytes() for name in first.parent.iterdir()} | {"questions_1M.csv": b"not read"}
    linked = {"benchmark/text/benchmark.csv": second.read_bytes(), "data/chat_history_128k/p1.json": b"not read"}
    linked["data/chat_history_32k/p1.json"] = json.dumps({"chat_history": TALK}).encode()
    with Hub() as hub, Child(hub.url, tmp_path / "home") as child:
        hub.publish("bowen-upenn/PersonaMem", "main", files)
        hub.publish("bowen-upenn/PersonaMem-v2", "main", linked)
        one, two = child.load("personamem"), child.load("personamem,version=2")
        assert (one.get("items"), one.get("name")) == (4, "personamem"), one
        assert (two.get("items"), two.get("name")) == (1, "personamem.v2"), two
        assert [one["revision"], two["revision"]] == [
            hub.commits["bowen-upenn/PersonaMem", "main"],
            hub.commits["bowen-upenn/PersonaMem-v2", "main"],
        ]
        assert not {name for name in hub.downloaded if "1M" in name or "128k" in name}


# ---------------------------------------------------------------- PrefEval

OPTIONS = ["Walk by the river.", "The market.", "The fair.", "The match."]


def prefeval_files(folder: Path, count: int = 3) -> Path:
    root = folder / "benchmark_dataset"
    rows: dict[str, list[JsonRow]] = {"mcq": [], "choice-based": [], "persona-driven": []}
    for n in range(count):
        question = {
            "preference": f"I dislike crowds. {n}",
            "question": f"What on Saturday? {n}",
            "explanation": "Fairs.",
        }
        talk = {
            "query": "Where do I sit?",
            "assistant_options": "1. The stand. 2. The garden.",
            "user_selection": f"The garden. {n}",
            "assistant_acknowledgment": "Noted.",
        }
        turns = {str(k): {"user": f"Turn {k} of {n}.", "assistant": "I see."} for k in range(2)}
        rows["mcq"].append(question | {"classification_task_options": OPTIONS})
        rows["choice-based"].append(question | {"conversation": talk})
        rows["persona-driven"].append({"question": question["question"], "persona": "Shy.", "conversation": turns})
    write_json(root / "mcq_options/travel_restaurant.json", rows["mcq"])
    for form in ("choice-based", "persona-driven"):
        write_json(root / f"implicit_preference/{form}/travel_restaurant.json", rows[form])
    filler = [{"role": role, "content": f"{role} {n}"} for n in range(3) for role in ("user", "assistant")]
    write_json(root / "filtered_inter_turns.json", [{"conversation": filler[:4]}, {"conversation": filler[4:]}])
    return root


def test_prefeval_has_the_preference_as_a_post_and_the_right_option_anywhere(tmp_path: Path) -> None:
    root = prefeval_files(tmp_path, 60)
    bench = load_benchmark(f"prefeval:{root}")
    check_benchmark(bench)
    assert posts(bench, 1) == ["I dislike crowds. 1"]
    assert {item.candidates[item.best[0]] for item in bench.items} == {OPTIONS[0]}
    assert {item.preferred for item in bench.items} == {0, 1, 2, 3}
    assert bench.items[1].prompt == "What on Saturday? 1"
    assert (bench.domains, len(bench.users)) == (["travel_restaurant"], 60)
    assert bench.items[0].tags == {"topic": "travel_restaurant", "form": "explicit"}
    for path in (tmp_path, root / "mcq_options", root / "mcq_options/travel_restaurant.json"):
        assert load_benchmark(f"prefeval:{path}").content_hash == bench.content_hash
    shown = list(load_condition("none").queries(bench, bench.items))
    assert not any("crowds" in query.prompt for query in shown)


def test_prefeval_shows_the_conversation_from_which_the_preference_can_be_seen_and_filler_after_it(
    tmp_path: Path,
) -> None:
    root = prefeval_files(tmp_path)
    choice = load_benchmark(f"prefeval:{root},form=choice,filler=2")
    assert posts(choice, 1)[:2] == ["user 1", "user 0"]
    assert posts(choice, 1)[2].split("\n\n") == [
        "Person: Where do I sit?",
        "Assistant: 1. The stand. 2. The garden.",
        "Person: The garden. 1",
        "Assistant: Noted.",
    ]
    assert posts(load_benchmark(f"prefeval:{root},form=persona"), 2) == ["Turn 1 of 2.", "Turn 0 of 2."]
    assert posts(load_benchmark(f"prefeval:{root},filler=3")) == ["user 2", "user 1", "user 0", "I dislike crowds. 0"]
    assert choice.card.notes == "form=choice, filler=2."


def test_prefeval_refuses_rows_that_do_not_belong_together_and_too_much_filler(tmp_path: Path) -> None:
    root = prefeval_files(tmp_path)
    with pytest.raises(BenchmarkError, match=r"filtered_inter_turns\.json: found 3 turns, wanted filler=4"):
        load_benchmark(f"prefeval:{root},filler=4")
    file = root / "implicit_preference/choice-based/travel_restaurant.json"
    file.write_text(json.dumps(json.loads(file.read_text())[1:]))
    with pytest.raises(
        RowError, match=r"travel_restaurant\.json:1: question: found 'What on Saturday\? 1' in the same row"
    ):
        load_benchmark(f"prefeval:{root},form=choice")
    file.unlink()
    with pytest.raises(BenchmarkError, match=r"travel_restaurant\.json; wanted the conversations of the topic"):
        load_benchmark(f"prefeval:{root},form=choice")
    with pytest.raises(SpecError, match="form is 'implicit'; wanted explicit or choice or persona"):
        load_benchmark(f"prefeval:{root},form=implicit")
    row = {"preference": "x", "question": "y?", "classification_task_options": ["a", "b", "a "]}
    with pytest.raises(
        RowError, match=r"t\.json:1: classification_task_options\[0\]: found the text of a chosen answer"
    ):
        load_benchmark(str(write_json(tmp_path / "t.json", [row])))
