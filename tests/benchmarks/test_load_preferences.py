"""Labelled preferences by user: the layout of PersonalRewardBench, and PRISM's own file."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, RowError, SpecError
from tests.benchmarks.sample_rows import write_jsonl, write_parquet

Row = Mapping[str, object]
PREDICTIONS = ("prediction_", "prediction_flip_")


def preference(number: int, split: str = "train", user: str = "u1", **changes: object) -> Row:
    return {
        "user_id": user,
        "split": split,
        "source": "prism",
        "context": [{"role": "user", "content": f"Question {number}?"}],
        "chosen": {"role": "assistant", "content": f"Yes, {number}."},
        "rejected": {"role": "assistant", "content": f"No, {number}."},
        **changes,
    }


def written(folder: Path, rows: Sequence[Row], name: str = "rows.jsonl") -> Path:
    file = folder / name
    folder.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_train_and_val_are_context_and_test_is_asked(tmp_path: Path) -> None:
    rows = [preference(1), preference(2, "val"), preference(3, "test"), preference(4, "test", user="u2")]
    bench = load_benchmark(str(written(tmp_path, rows)))
    assert bench.card.name == "personal-rb-rows"
    assert [item.id for item in bench.items] == ["u1-test-3", "u2-test-4"]
    first, second = bench.items
    assert first.user is not None
    assert [(pair.prompt, pair.preferred, pair.other) for pair in first.user.preferences] == [
        ("Question 1?", "Yes, 1.", "No, 1."),
        ("Question 2?", "Yes, 2.", "No, 2."),
    ]
    assert second.user is not None
    assert second.user.preferences == ()
    assert (first.cluster, first.domain, first.prompt) == ("u1", "prism", "Question 3?")
    assert first.preferred is not None
    assert first.candidates[first.preferred] == "Yes, 3."


def test_several_turns_are_one_prompt_with_who_speaks(tmp_path: Path) -> None:
    turns = [("user", "Hello?"), ("assistant", "Hello."), ("user", "And now?")]
    context = [{"role": role, "content": text} for role, text in turns]
    bench = load_benchmark(f"personal-rb:{written(tmp_path, [preference(1, 'test', context=context)])}")
    assert bench.items[0].prompt == "Person: Hello?\n\nAssistant: Hello.\n\nPerson: And now?"


def test_the_parts_of_the_users_have_nobody_in_common_and_nobody_is_lost(tmp_path: Path) -> None:
    rows = [preference(n, "test", user=f"u{n}") for n in range(200)]
    path = written(tmp_path, rows)
    parts = [{u.id for u in load_benchmark(f"personal-rb:{path},users={part}").users} for part in ("train", "test")]
    assert parts[0].isdisjoint(parts[1])
    assert len(parts[0] | parts[1]) == 200
    assert 115 <= len(parts[0]) <= 165
    again = load_benchmark(f"personal-rb:{path},users=train", seed=7)
    assert {user.id for user in again.users} == parts[0]


@pytest.mark.parametrize(
    ("row", "field", "found"),
    [
        (preference(1, "dev"), "split", "'dev'"),
        (preference(1, context=[]), "context", "a list of 0"),
        (preference(1, rejected={"role": "assistant", "content": "Yes, 1."}), "rejected", "the same text as chosen"),
        (preference(1, chosen={"role": "assistant", "content": " "}), "chosen.content", "only white space"),
    ],
)
def test_a_malformed_row_is_named_by_file_line_and_field(tmp_path: Path, row: Row, field: str, found: str) -> None:
    path = written(tmp_path, [preference(0, "test"), row])
    with pytest.raises(RowError) as caught:
        load_benchmark(f"personal-rb:{path}")
    assert (caught.value.line, caught.value.field, caught.value.found) == (2, field, found)


JUDGES = ("gpt-4o", "llama-3.3-70b", "qwen-2.5", "gemini-1.5", "claude-3.5")


def published(number: int, split: str = "test", **changes: object) -> Row:
    """Return a row with every column that the hub's files have."""
    judged = {
        f"{column}{judge}": f"{column}of {judge} on {number}" if "reasoning" in column else "AB"[number % 2]
        for judge in JUDGES
        for column in ("reasoning_", "prediction_", "reasoning_flip_", "prediction_flip_")
    }
    return {
        "user_id": f"u{number % 3}",
        "conversation_id": f"c{number}",
        "split": split,
        "context": [{"role": "user", "content": f"Question {number}?"}],
        "chosen": {"role": "model", "content": f"Yes, {number}."},
        "rejected": {"role": "model", "content": f"No, {number}."},
        "chosen_score": 87,
        "rejected_score": 40 if number % 2 else None,
        "dataset": "prism",
        "query_reasoning": "It asks for taste.",
        "personalizable_query": True,
        "response_reasoning": "They differ in tone.",
        "personalizable_responses": True,
        "agreement": 0.6,
        **judged,
        **changes,
    }


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_every_column_of_the_published_rows_loads_and_the_judges_stay_reachable(tmp_path: Path, suffix: str) -> None:
    rows = [published(n, split) for n, split in enumerate(["train", "val", "train", *["test"] * 6])]
    path = tmp_path / f"rows.{suffix}"
    {"jsonl": write_jsonl, "parquet": write_parquet}[suffix](path, [dict(row) for row in rows])
    bench = load_benchmark(str(path))
    assert [item.id for item in bench.items] == [f"u{n % 3}-test-{n + 1}" for n in range(3, 9)]
    for number, item in enumerate(bench.items, 3):
        judged = {f"{column}{judge}": "AB"[number % 2] for judge in JUDGES for column in PREDICTIONS}
        scores = {"chosen_score": "87", **({"rejected_score": "40"} if number % 2 else {})}
        flags = {"personalizable_query": "true", "personalizable_responses": "true", "agreement": "0.6"}
        assert item.tags == {"conversation_id": f"c{number}", **scores, **flags, **judged}
        assert (item.domain, len(item.user.preferences if item.user else ())) == ("prism", 1)
    assert bench.content_hash == load_benchmark(f"personal-rb:{write_jsonl(tmp_path / 'x.jsonl', rows)}").content_hash
    assert str(bench.card.load) == ""
    more = [published(3, mood="glad", survey={"age": 3})]
    bench = load_benchmark(f"personal-rb:{write_jsonl(tmp_path / 'more.jsonl', more)}")
    assert str(bench.card.load) == "unknown columns ignored: mood, survey"


def test_rows_of_several_files_have_ids_of_their_own(tmp_path: Path) -> None:
    written(tmp_path, [preference(n, "test") for n in range(3)], "test-00000-of-00002.jsonl")
    written(tmp_path, [preference(n, "test") for n in range(3, 5)], "test-00001-of-00002.jsonl")
    bench = load_benchmark(f"personal-rb:{tmp_path}")
    assert [item.id for item in bench.items] == [f"u1-test-{n}" for n in range(1, 6)]


def test_the_hubs_sets_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"found neither a path nor a set; wanted set=prism or set=arena"):
        load_benchmark("personal-rb")
    with pytest.raises(SpecError, match=r"set is 'arna'; wanted set=prism or set=arena. Did you mean 'arena'"):
        load_benchmark("personal-rb,set=arna")
    with pytest.raises(SpecError, match="set= is for the hub, and this is a path"):
        load_benchmark(f"personal-rb:{written(tmp_path, [preference(1, 'test')])},set=prism")


@pytest.mark.parametrize(
    ("role", "title"),
    [
        *((role, "Person") for role in ("user", "human", "User", " HUMAN ", "prompter")),
        *((role, "Assistant") for role in ("assistant", "model", "gpt", "GPT", "chatbot", "ai")),
        ("system", "System"),
    ],
)
def test_a_role_says_who_speaks(tmp_path: Path, role: str, title: str) -> None:
    context = [{"role": role, "content": "Be brief."}, {"role": "human", "content": "Is it rude?"}]
    bench = load_benchmark(f"personal-rb:{written(tmp_path, [preference(1, 'test', context=context)])}")
    assert bench.items[0].prompt == f"{title}: Be brief.\n\nPerson: Is it rude?"


@pytest.mark.parametrize("role", ["", "narrator", "user1", "tool"])
def test_an_unknown_role_is_refused_and_not_taken_for_the_assistant(tmp_path: Path, role: str) -> None:
    path = written(tmp_path, [preference(1, "test", context=[{"role": role, "content": "Is it rude?"}])])
    with pytest.raises(RowError, match=r"context\[0\].role: .* wanted one of user, human, person, prompter \(user\)"):
        load_benchmark(f"personal-rb:{path}")


@pytest.mark.parametrize("role", ["user", "system"])
def test_an_answer_is_the_assistants(tmp_path: Path, role: str) -> None:
    path = written(tmp_path, [preference(1, "test", rejected={"role": role, "content": "No, 1."})])
    with pytest.raises(RowError, match=f"rejected.role: found the role of the {role}, wanted an assistant's answer"):
        load_benchmark(f"personal-rb:{path}")


def test_an_item_among_the_context_pairs_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [preference(1, id="a"), preference(1, "test", id="b")])
    with pytest.raises(RowError, match="the item at"):
        load_benchmark(f"personal-rb:{path}")
    # Turned around it is the same choice, with its label given away all the more.
    turned = preference(1, id="c", chosen=preference(1)["rejected"], rejected=preference(1)["chosen"])
    with pytest.raises(RowError, match="no preferred answer of the same user"):
        load_benchmark(f"personal-rb:{written(tmp_path, [turned, preference(1, 'test', id='d')])}")


@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_a_context_pair_with_an_items_preferred_answer_is_refused_whatever_was_asked(tmp_path: Path, side: str) -> None:
    told: Row = {side: {"role": "assistant", "content": "  YES, 1. "}}
    leak: Row = {**preference(2, id="c"), **told}
    with pytest.raises(RowError, match="found the preferred answer of the item at"):
        load_benchmark(f"personal-rb:{written(tmp_path, [leak, preference(1, 'test', id='d')])}")
    other: Row = {**preference(3, id="e", user_id="someone else"), **told}
    rows = [other, preference(1, "test", id="d"), preference(4, "test", id="f", user_id="someone else")]
    assert len(load_benchmark(f"personal-rb:{written(tmp_path, rows)}").items) == 2


def test_an_id_twice_and_nothing_to_ask_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RowError, match="'a' again"):
        load_benchmark(f"personal-rb:{written(tmp_path, [preference(1, id='a'), preference(2, id='a')])}")
    with pytest.raises(BenchmarkError, match="no item of users=all"):
        load_benchmark(f"personal-rb:{written(tmp_path, [preference(1)])}")
    with pytest.raises(SpecError, match="wanted all or train or test"):
        load_benchmark(f"personal-rb:{written(tmp_path, [preference(1, 'test')])},users=some")


# ---------------------------------------------------------------- PRISM


def said(turn: int, role: str, content: str, score: int | None = None, *, chosen: bool | None = None) -> Row:
    extra = {"model_name": "m", "model_provider": "p", "within_turn_id": 0} if role == "model" else {}
    return {"turn": turn, "role": role, "content": content, "score": score, "if_chosen": chosen, **extra}


def talk(number: int, user: str = "user0", history: Sequence[Row] | None = None) -> Row:
    return {
        "conversation_id": f"c{number}",
        "user_id": user,
        "conversation_type": "unguided",
        "opening_prompt": "not read",
        "open_feedback": "not read",
        "conversation_history": history
        or [
            said(0, "user", f"Opening {number}?"),
            said(0, "model", f"Best {number}.", 90, chosen=True),
            said(0, "model", f"Middling {number}.", 50, chosen=False),
            said(0, "model", f"Worst {number}.", 10, chosen=False),
            said(1, "user", "And then?"),
            said(1, "model", f"More {number}.", 70, chosen=True),
            said(1, "model", f"Less {number}.", 60, chosen=False),
        ],
    }


def test_each_turn_of_prism_is_the_choice_against_the_lowest(tmp_path: Path) -> None:
    bench = load_benchmark(str(written(tmp_path, [talk(1)])))
    assert bench.card.name == "prism-rows"
    opening, then = bench.items
    assert opening.prompt == "Opening 1?"
    assert opening.preferred is not None
    assert opening.candidates[opening.preferred] == "Best 1."
    assert set(opening.candidates) == {"Best 1.", "Worst 1."}
    assert then.prompt == "Person: Opening 1?\n\nAssistant: Best 1.\n\nPerson: And then?"
    assert set(then.candidates) == {"More 1.", "Less 1."}


def test_the_last_third_of_a_users_conversations_is_asked(tmp_path: Path) -> None:
    path = written(tmp_path, [talk(n, user) for n, user in enumerate(["a", "a", "b", "a", "a", "b"])])
    bench = load_benchmark(f"prism:{path}")
    asked = {item.id.partition("-")[0] for item in bench.items}
    assert asked == {"c3", "c4", "c5"}
    context = {user.id: [pair.id for pair in user.preferences] for user in bench.users}
    assert context == {"a": ["c0-0", "c0-1", "c1-0", "c1-1"], "b": ["c2-0", "c2-1"]}


def test_a_turn_without_anything_below_the_choice_is_passed_over(tmp_path: Path) -> None:
    even = [said(0, "user", "Q?"), said(0, "model", "A.", 50, chosen=True), said(0, "model", "B.", 50, chosen=False)]
    open_ended = [said(0, "user", "Q?"), said(0, "model", "A.", 50, chosen=False)]
    path = written(tmp_path, [talk(1, history=even), talk(2, history=open_ended), talk(3)])
    assert [item.id for item in load_benchmark(f"prism:{path}").items] == ["c3-0", "c3-1"]


def test_a_row_of_prism_is_checked_where_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, [talk(1), {**talk(2), "conversation_history": [said(0, "robot", "Hello.")]}])
    with pytest.raises(RowError) as caught:
        load_benchmark(f"prism:{path}")
    assert (caught.value.line, caught.value.field) == (2, "conversation_history[0].role")


def test_conversations_in_two_files_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    """Three conversations of one person in two files: c3 is the last third, and c1 stands on the same line as c3."""
    written(tmp_path, [talk(1), talk(2)], "conversations_1.jsonl")
    written(tmp_path, [talk(3)], "conversations_2.jsonl")
    bench = load_benchmark(f"prism:{tmp_path}")
    assert [item.id for item in bench.items] == ["c3-0", "c3-1"]
    assert [pair.id for pair in bench.users[0].preferences] == ["c1-0", "c1-1", "c2-0", "c2-1"]
    one = load_benchmark(f"prism:{written(tmp_path / 'one', [talk(1), talk(2), talk(3)])}")
    assert one.content_hash == bench.content_hash


def test_a_conversation_that_comes_twice_is_refused(tmp_path: Path) -> None:
    silent = [said(0, "user", "Q?"), said(0, "model", "A.", 50, chosen=True)]  # no pair, so no id of an item tells
    written(tmp_path, [talk(1), talk(2, history=silent)], "a.jsonl")
    written(tmp_path, [talk(3), talk(2, history=silent)], "b.jsonl")
    with pytest.raises(RowError, match=r"b.jsonl:2: conversation_id: found 'c2' again \(first at .*a.jsonl:2\)"):
        load_benchmark(f"prism:{tmp_path}")


def test_two_chosen_answers_in_a_turn_are_refused(tmp_path: Path) -> None:
    history = [said(0, "user", "Q?"), *(said(0, "model", text, n, chosen=n > 1) for n, text in enumerate("ABCD"))]
    with pytest.raises(RowError) as caught:
        load_benchmark(f"prism:{written(tmp_path, [talk(0), talk(1, history=history)])}")
    assert (caught.value.line, caught.value.field) == (2, "conversation_history[4].if_chosen")
    assert caught.value.found == "a second chosen answer in turn 0"


def test_after_a_turn_without_a_choice_nothing_is_asked(tmp_path: Path) -> None:
    """What the person answered to is not known, so the prompt would lack it."""
    history = [
        *(said(0, "user", "Q?"), said(0, "model", "A.", 50)),
        *(said(1, "user", "And?"), said(1, "model", "B.", 60, chosen=True), said(1, "model", "C.", 10)),
    ]
    path = written(tmp_path, [talk(1, history=history), talk(2)])
    bench = load_benchmark(f"prism:{path}")
    assert [item.id for item in bench.items] == ["c2-0", "c2-1"]
    assert bench.card.load.dropped == {"turns": {"without a choice": 1, "after one without a choice": 1}}
    assert str(bench.card.load) == "2 of 4 turns; 1 after one without a choice, 1 without a choice dropped"


def test_a_blank_answer_that_nobody_chose_is_dropped_and_counted(tmp_path: Path) -> None:
    history = [
        *(said(0, "user", "Q?"), said(0, "model", "A.", 50, chosen=True)),
        *(said(0, "model", "  ", 10), said(0, "model", "B.", 20)),
    ]
    path = written(tmp_path, [talk(1, history=history)])
    bench = load_benchmark(f"prism:{path},answers=all")
    assert set(bench.items[0].candidates) == {"A.", "B."}
    assert str(bench.card.load) == "2 of 3 answers; 1 blank dropped"
    for number, blank in ((0, said(0, "user", " ")), (1, said(0, "model", "", 50, chosen=True))):
        broken = [*history]
        broken[number] = blank
        with pytest.raises(RowError, match=rf"conversation_history\[{number}\].content: found .* wanted a text"):
            load_benchmark(f"prism:{written(tmp_path, [talk(1, history=broken)])}")


def test_bad_conversations_are_skipped_and_counted_and_pairs_that_are_asked_are_dropped(tmp_path: Path) -> None:
    twice = [said(0, "user", "Q?"), said(0, "model", "A.", 9, chosen=True), said(0, "model", "B.", 1, chosen=True)]
    same = [said(0, "user", "Q?"), said(0, "model", "A.", 9, chosen=True), said(0, "model", "B.", 1)]
    rows = [talk(0), talk(1, history=same), talk(2, history=twice), talk(3, history=same)]
    with pytest.raises(RowError, match=r"(?s):3: .*a second chosen answer"):
        load_benchmark(f"prism:{written(tmp_path, rows)}")
    bench = load_benchmark(f"prism:{tmp_path / 'rows.jsonl'},skip=bad-rows")
    assert [item.id for item in bench.items] == ["c3-0"]
    assert [pair.id for pair in bench.users[0].preferences] == ["c0-0", "c0-1"]
    assert bench.card.load.skipped == {"conversation_history[].if_chosen": 1}
    assert bench.card.load.dropped == {"preferences": {"with the preferred answer of an item": 1}}
    assert bench.card.load.read["preferences"] == 4


def test_the_scores_are_tags_and_all_answers_can_be_candidates(tmp_path: Path) -> None:
    opening = load_benchmark(f"prism:{written(tmp_path, [talk(1)])}").items[0]
    scores = {"score:chosen": "90", "score:rejected": "10", "score:other1": "50"}
    assert opening.tags == scores
    assert set(opening.candidate_ids) == {"chosen", "rejected"}
    every = load_benchmark(f"prism:{tmp_path / 'rows.jsonl'},answers=all").items[0]
    texts = {"chosen": "Best 1.", "rejected": "Worst 1.", "other1": "Middling 1."}
    assert dict(zip(every.candidate_ids, every.candidates, strict=True)) == texts
    assert (every.tags, every.candidate_ids[every.preferred or 0]) == (scores, "chosen")


def _candidates(row: Any, turn: int, everything: bool) -> set[str]:
    """Return the candidates of a turn by a plain reading; none where there is no answer below the one chosen."""
    here = [x for x in row["conversation_history"] if x["turn"] == turn and x["role"] == "model"]
    best = next((x for x in here if x["if_chosen"]), None)
    if best is None or best["score"] is None:
        return set()
    below = [
        x for x in here if x["score"] is not None and x["score"] < best["score"] and x["content"] != best["content"]
    ]
    lowest = min((x["score"] for x in below), default=0)
    texts = [x["content"] for x in below if everything or x["score"] == lowest]
    return {best["content"], *(texts if everything else texts[:1])} if texts else set()


def test_pairs_and_candidates_of_random_conversations_are_those_found_by_hand(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = []
    for number in range(200):
        history: list[Row] = []
        for turn in range(rng.randrange(1, 4)):
            scores = [rng.choice([None, 1, 30, 30, 55, 80, 100]) for _ in range(rng.randrange(2, 5))]
            chosen = rng.randrange(len(scores))
            history.append(said(turn, "user", f"Q{turn}?"))
            history += [
                said(turn, "model", f"{rng.choice('abcdefg')}{turn}", score, chosen=place == chosen)
                for place, score in enumerate(scores)
            ]
        rows.append(talk(number, user=f"u{number}", history=history))
    path = written(tmp_path, rows)
    for everything in (False, True):
        bench = load_benchmark(f"prism:{path},answers={'all' if everything else 'pair'}")
        found = {item.id: item for item in bench.items}
        wanted = {
            f"{row['conversation_id']}-{turn}": _candidates(row, turn, everything) for row in rows for turn in range(3)
        }
        wanted = {name: texts for name, texts in wanted.items() if texts}
        assert {name: set(item.candidates) for name, item in found.items()} == wanted
        assert all(len(set(item.candidates)) == len(item.candidates) for item in found.values())


def test_only_the_published_number_of_conversations_carries_the_name(tmp_path: Path) -> None:
    short = [said(0, "user", "Q?"), said(0, "model", "A.", 50, chosen=True), said(0, "model", "B.", 5)]
    rows = [talk(n, user=f"u{n}", history=short) for n in range(8011)]
    bench = load_benchmark(f"prism:{written(tmp_path, rows)}")
    assert (bench.card.name, bench.card.licence[:6]) == ("prism", "CC BY ")
    assert load_benchmark(f"prism:{written(tmp_path, rows[1:])}").card.name == "prism-rows"


def test_the_folder_of_the_data_set_has_other_files_too(tmp_path: Path) -> None:
    written(tmp_path, [{"user_id": "user0", "age": "18-24"}], "survey.jsonl")
    written(tmp_path, [{"utterance_id": "ut0", "score": 4}], "utterances.jsonl")
    written(tmp_path, [talk(1)], "conversations.jsonl")
    assert len(load_benchmark(f"prism:{tmp_path}").items) == 2
    with pytest.raises(SpecError, match="revision= is for the hub"):
        load_benchmark(f"prism:{tmp_path},revision=abc")
    with pytest.raises(SpecError, match="answers is 'both'; wanted pair or all"):
        load_benchmark(f"prism:{tmp_path},answers=both")


SURVEY: Row = {
    "user_id": "user0",
    "age": "25-34 years old",
    "stated_prefs": {"factuality": 81.0, "other_text": None},
    "religion": {"simplified": "No Affiliation"},
    "system_string": "Be brief. " * 40,
    "lm_usecases": ["recipes", "code"],
    "marital_status": " ",
    "timing_duration_s": 61.5,
    "consent": "Yes",
}


def test_what_a_person_declared_in_the_survey_is_their_traits(tmp_path: Path) -> None:
    written(tmp_path, [talk(1), talk(2, "user1")], "conversations.jsonl")
    bare = load_benchmark(f"prism:{tmp_path}")
    written(tmp_path, [SURVEY, {"user_id": "of nobody", "age": "65+ years old"}], "survey.jsonl")
    for spec in (f"prism:{tmp_path}", f"prism:{tmp_path / 'conversations.jsonl'}"):
        bench = load_benchmark(spec)
        assert {user.id: user.traits for user in bench.users} == {
            "user0": {
                "age": "25-34 years old",
                "stated_prefs.factuality": "81",
                "religion.simplified": "No Affiliation",
                "system_string": "Be brief. " * 40,
                "lm_usecases": '["recipes", "code"]',
            },
            "user1": {},
        }
        assert str(bench.card.load) == ""
        assert bench.content_hash != bare.content_hash
        without = [replace(item, user=replace(item.user, traits={})) for item in bench.items if item.user is not None]
        assert Benchmark(bench.card, tuple(without)).content_hash == bare.content_hash


def test_a_person_who_stands_twice_in_the_survey_is_refused_or_skipped_and_counted(tmp_path: Path) -> None:
    written(tmp_path, [talk(1)], "conversations.jsonl")
    written(tmp_path, [SURVEY, {**SURVEY, "age": "35-44 years old"}], "survey.jsonl")
    with pytest.raises(RowError, match=r"survey.jsonl:2: user_id: found 'user0' again \(first at .*survey.jsonl:1\)"):
        load_benchmark(f"prism:{tmp_path}")
    bench = load_benchmark(f"prism:{tmp_path},skip=bad-rows")
    assert bench.users[0].traits["age"] == "25-34 years old"
    assert str(bench.card.load) == "2 of 3 rows; 1 bad skipped (user_id 1)"


def test_a_part_of_the_users_says_of_which_split_it_is(tmp_path: Path) -> None:
    rows = [preference(n, "test", user=f"u{n}") for n in range(20)]
    for kind, path in (
        ("personal-rb", written(tmp_path, rows)),
        ("prism", written(tmp_path / "prism", [talk(n, user=f"u{n}") for n in range(20)])),
    ):
        notes = [load_benchmark(f"{kind}:{path}{part}").card.notes for part in ("", ",users=train", ",users=test")]
        assert notes == [
            "",
            "users=train of the split id-70-30: seen users, by id.",
            "users=test of the split id-70-30: unseen users, by id.",
        ]


def test_a_greeting_that_comes_again_does_not_stop_prism(tmp_path: Path) -> None:
    """The split is the loader's own: the context pair with the preferred answer of an item is left out and counted."""
    hello = [said(0, "user", "Hello"), said(0, "model", "How can I help?", 9, chosen=True), said(0, "model", "Hi.", 1)]
    path = written(tmp_path, [talk(0, history=hello), talk(1), talk(2, history=hello)])
    bench = load_benchmark(f"prism:{path}")
    assert [item.id for item in bench.items] == ["c2-0"]
    assert [pair.id for pair in bench.users[0].preferences] == ["c1-0", "c1-1"]
    assert str(bench.card.load) == "3 of 4 preferences; 1 with the preferred answer of an item dropped"
