"""Data sets in which many people judge the same answers: what their loaders make of rows, drop, refuse and keep."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pluralrm import load_benchmark, score
from pluralrm.audit import audit
from pluralrm.benchmarks import KINDS
from pluralrm.core import Benchmark, Item
from pluralrm.digests import item_content
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.labels import panels
from pluralrm.metrics import by_tag, leaderboard
from pluralrm.testing import check_benchmark
from tests.benchmarks import crossed_rows as rows
from tests.benchmarks.crossed_rows import opening, talk, write_csv
from tests.benchmarks.published import as_parquet
from tests.benchmarks.sample_rows import JsonRow, write_jsonl

ANSWERS = ["One.", "Two, or three.", "Three.", "Four."]


def texts(item: Item) -> dict[str, str]:
    return dict(zip(item.candidate_ids, item.candidates, strict=True))


def grades(item: Item) -> dict[str, float]:
    return dict(zip(item.candidate_ids, item.grades, strict=True))


def community(tmp_path: Path, *made: JsonRow, options: str = "") -> Benchmark:
    return load_benchmark(f"community-alignment:{write_csv(tmp_path / 'x.csv', made)}{options}")


# ---------------------------------------------------------------- Community Alignment


def test_a_first_turn_of_community_alignment_is_an_item_of_its_person(tmp_path: Path) -> None:
    bench = community(tmp_path, talk(4, "a7", opening("How many?", ANSWERS, "b"), language="pt", extra="x"))
    (item,) = bench.items
    assert (item.id, item.prompt, item.domain, item.cluster) == ("c4-1", "How many?", "pt", "a7")
    assert texts(item) == dict(zip("abcd", ANSWERS, strict=True))
    assert grades(item) == {"a": 0, "b": 1, "c": 0, "d": 0}
    assert item.user is not None
    assert (item.user.traits, item.user.preferences) == ({"country": "india", "age": "18-34"}, ())
    tags = {"language": "pt", "wave": "wave1", "turn": "1", "source": "pregenerated", "place": "b"}
    assert item.tags == tags | {"balanced": "true", "balanced_10": "false"}
    assert bench.card.load.ignored == ("extra",)


def test_json_lines_and_csv_of_community_alignment_have_one_content_hash(tmp_path: Path) -> None:
    made = rows.community_alignment(30)
    lines = load_benchmark(f"community-alignment:{write_jsonl(tmp_path / 'x.jsonl', made)}")
    assert lines.content_hash == community(tmp_path, *made).content_hash
    assert load_benchmark(str(tmp_path / "x.csv")).content_hash == lines.content_hash  # known by its first row


def test_all_turns_ask_along_the_preferred_answers(tmp_path: Path) -> None:
    first, second = opening("How many?", ANSWERS, "b"), opening("And why?", ["e", "f", "g", "h"], "d", "second")
    one, two = community(tmp_path, talk(1, "a7", first, second), options=",turns=all").items
    assert (one.id, two.id, two.tags["turn"], two.tags["place"]) == ("c1-1", "c1-2", "2", "d")
    assert two.prompt == "Person: How many?\n\nAssistant: Two, or three.\n\nPerson: And why?"
    assert one == community(tmp_path, talk(1, "a7", first, second)).items[0]


def test_dirt_of_community_alignment_is_dropped_and_counted(tmp_path: Path) -> None:
    made = [
        talk(1, "p1", opening("Equal?", ["One.", "One. ", "Two.", "EMPTY STRING"], "b")),
        talk(2, "p1", opening("No choice?", ANSWERS, ""), opening("Then?", ANSWERS, "a", "second")),
        talk(3, "p1", opening("Missing?", ["", "EMPTY STRING", "One.", "Two."], "a")),
        talk(4, "p2", opening("Alike?", ["One.", "One.", "One.", ""], "a")),
        talk(5, "p2", opening("Good?", ["One.<|end_of_text|>", "Two.", "Three.", "Four."], "a")),
        talk(6, "p2", opening("Good?", ["One.", "Two.", "Three.", "Four."], "c")),
        talk(7, "p3", opening("", ["", "", "", ""], ""), opening("Late?", ANSWERS, "a", "second")),
    ]
    bench = community(tmp_path, *made, options=",turns=all")
    equal, good, again = bench.items
    assert texts(equal) == {"b": "One. ", "c": "Two."}
    assert grades(equal) == {"b": 1, "c": 0}
    assert texts(good) == texts(again)
    load = bench.card.load
    assert load.dropped["answers"] == {"empty": 4, "equal to another": 3}
    assert load.dropped["turns"] == {
        "after one without a choice": 2,
        "with an empty preferred answer": 1,
        "without a choice": 1,
        "without two answers that differ": 1,
    }
    assert load.kept["judgments of what the person judged before"] == 1
    assert load.kept["answers whose <|end_of_text|> at the end is left out"] == 1


def test_people_judge_one_panel_and_who_judged_twice_has_two_items(tmp_path: Path) -> None:
    shuffled = [ANSWERS[n] for n in (2, 0, 3, 1)]
    made = [
        talk(1, "p1", opening("How many?", ANSWERS, "a")),
        talk(2, "p2", opening("How many?", shuffled, "b")),  # the same answer in another place
        talk(3, "p1", opening("How many?", ANSWERS, "d")),
    ]
    bench = community(tmp_path, *made)
    (panel,) = panels(bench.items, {"p1": "p1", "p2": "p2"})
    assert (panel.people, len(panel.judgments)) == (2, 3)
    votes = dict(zip(bench.items[1].candidates, bench.other_votes["c2-1"], strict=True))
    assert votes == {"One.": 0.5, "Two, or three.": 0, "Three.": 0, "Four.": 0.5}
    assert [item.tags["place"] for item in bench.items] == ["a", "b", "d"]


def test_earlier_conversations_are_context_pairs_only_where_named(tmp_path: Path) -> None:
    made = [talk(n, "p1", opening(f"Question {n}?", [f"{n}{letter}" for letter in "wxyz"], "c")) for n in range(1, 6)]
    made.insert(1, talk(9, "p2", opening("Question 1?", ["1w", "1x", "1y", "1z"], "a")))
    made.append(talk(6, "p1", opening("Question 1?", ["1w", "1x", "1y", "1z"], "c")))  # judged before
    assert all(item.user and not item.user.preferences for item in community(tmp_path, *made).items)
    bench = community(tmp_path, *made, options=",context=earlier")
    assert [item.id for item in bench.items] == ["c9-1", "c5-1", "c6-1"]
    user = bench.items[-1].user
    assert user is not None
    assert [pair.id for pair in user.preferences] == ["c2-1", "c3-1", "c4-1"]  # c1 has the answer preferred in c6
    assert all(pair.preferred.endswith("y") and pair.other != pair.preferred for pair in user.preferences)
    assert bench.card.load.dropped["preferences"] == {"with the preferred answer of an item": 1}
    check_benchmark(bench)


def test_a_person_has_the_traits_of_most_of_their_rows(tmp_path: Path) -> None:
    ages = ["46-54", "18-34", "46-54"]
    made = [talk(n, "p1", opening(f"Question {n}?", ANSWERS, "a"), annotator_age=age) for n, age in enumerate(ages)]
    assert {item.user.traits["age"] for item in community(tmp_path, *made).items if item.user} == {"46-54"}


def test_options_of_community_alignment_choose_rows(tmp_path: Path) -> None:
    made = rows.community_alignment(60)
    bench = community(tmp_path, *made)
    assert {item.id for item in community(tmp_path, *made, options=",subset=balanced").items} == {
        item.id for item in bench.items if item.tags["balanced"] == "true"
    }
    parts = [community(tmp_path, *made, options=f",users={part}") for part in ("train", "test")]
    assert {item.id for part in parts for item in part.items} == {item.id for item in bench.items}
    assert {user.id for user in parts[0].users}.isdisjoint(user.id for user in parts[1].users)
    with pytest.raises(BenchmarkError, match="found no item among 60 rows"):
        community(tmp_path, *made, options=",subset=balanced-10")
    with pytest.raises(SpecError, match="turns is 'some'; wanted first or all"):
        community(tmp_path, *made, options=",turns=some")


def test_a_row_of_community_alignment_is_refused_by_its_line(tmp_path: Path) -> None:
    good = talk(1, "p1", opening("How\nmany?", ANSWERS, "a"))
    with pytest.raises(RowError, match=r"x\.csv:4: conversation_id: found 'c1' again \(first at .*x\.csv:2\)"):
        community(tmp_path, good, good)
    bad = talk(2, "p1", opening("Why?", ANSWERS, "e"))
    with pytest.raises(RowError, match=r"x\.csv:4: first_turn_preferred_response: found 'response_e', wanted one of"):
        community(tmp_path, good, bad)
    assert [item.id for item in community(tmp_path, good, bad, options=",skip=bad-rows").items] == ["c1-1"]


def test_only_the_published_number_of_rows_carries_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows.community_alignment(40)
    assert community(tmp_path, *made).card.name == "community-alignment-x"
    monkeypatch.setattr("pluralrm.benchmarks.community_alignment.ROWS", 40)
    assert community(tmp_path, *made).card.name == "community-alignment"


# ---------------------------------------------------------------- CoVal


def coval(tmp_path: Path, *made: JsonRow, options: str = "") -> Benchmark:
    return load_benchmark(f"coval:{rows.write_coval(tmp_path / 'coval', list(made))}{options}")


def test_a_personal_ranking_of_coval_is_an_item_and_the_ranking_for_the_world_its_tags(tmp_path: Path) -> None:
    made = rows.coval_row(3, rows.assessment("p4", ["B>A=C=D"], ["D > C > B > A"], ["C: rude", "D bad"]))
    (item,) = coval(tmp_path, made).items
    assert (item.id, item.prompt_id, item.cluster) == ("p3/p4", "p3", "p4")
    assert item.prompt == "System: Be brief.\n\nPerson: Question 3?"
    assert texts(item) == {"A": "3A", "B": "3B3B", "C": "3C3C3C", "D": "3D3D3D3D"}
    assert grades(item) == {"A": 0, "B": 1, "C": 0, "D": 0}
    world = {"world:A": "0", "world:B": "1", "world:C": "2", "world:D": "3"}
    assert item.tags == world | {"importance": "Very", "unacceptable:C": "yes", "unacceptable:D": "yes"}
    assert item.user is not None
    assert item.user.traits == {"age": "age 1", "ai_usage": "0"}
    (other,) = coval(tmp_path, made, options=",ranking=world").items
    assert grades(other) == {"A": 0, "B": 1, "C": 2, "D": 3}
    assert {name: value for name, value in other.tags.items() if ":" in name and value != "yes"} == {
        "personal:A": "0",
        "personal:B": "1",
        "personal:C": "0",
        "personal:D": "0",
    }


def test_ties_share_a_grade_and_several_blocks_are_several_items(tmp_path: Path) -> None:
    two = rows.assessment("p1", ["A=B>C=D", "C>A=B>D"], ["A>B>C>D"])
    first, second, again = coval(tmp_path, rows.coval_row(1, two, rows.assessment("p1", ["D>A=B=C"], []))).items
    assert [item.id for item in (first, second, again)] == ["p1/p1", "p1/p1#2", "p1/p1#3"]
    assert grades(first) == {"A": 1, "B": 1, "C": 0, "D": 0}
    assert grades(second) == {"A": 1, "B": 1, "C": 2, "D": 0}
    assert second.tags["world:A"] == "3"  # the only ranking for the world
    assert not any(name.startswith("world:") for name in again.tags)


def test_rankings_of_coval_that_compare_nothing_are_counted_and_false_ones_refused(tmp_path: Path) -> None:
    made = rows.coval_row(
        1, *(rows.assessment(f"p{n}", [text], []) for n, text in enumerate(["A=B=C=D", "A>B", "", "B>A=C=D"]))
    )
    bench = coval(tmp_path, made)
    assert [item.cluster for item in bench.items] == ["p3"]
    assert bench.card.load.dropped["rankings"] == {"incomplete": 2, "of equal answers": 1}
    for text in ("A>A>B>C=D", "A>E"):
        bad = rows.coval_row(2, rows.assessment("p1", [text], []))
        with pytest.raises(
            RowError, match=rf"comparisons\.jsonl:2: ranking: found '{text}', wanted each of A, B, C, D"
        ):
            coval(tmp_path, made, bad)
    with pytest.raises(RowError, match=r"comparisons\.jsonl:1: responses: found 2 answers, some of one"):
        coval(tmp_path, rows.coval_row(1, answers="AA"))


def test_people_of_coval_without_a_row_have_no_traits(tmp_path: Path) -> None:
    path = rows.write_coval(tmp_path / "coval", [rows.coval_row(1, rows.assessment("p99", ["B>A=C=D"], []))])
    (item,) = load_benchmark(f"coval:{path}").items
    assert item.user is not None
    assert not item.user.traits
    alone = write_jsonl(tmp_path / "alone" / "comparisons.jsonl", rows.coval(5))
    assert not any(item.user.traits for item in load_benchmark(f"coval:{alone}").items if item.user)


# ---------------------------------------------------------------- MultiPref


def test_each_judgment_of_multipref_is_an_item_by_the_rule_clear_slight_tie(tmp_path: Path) -> None:
    normal = [rows.annotation("w1", "A-is-clearly-better"), rows.annotation("w2", "Tie")]
    expert = [rows.annotation("e1", "B-is-slightly-better"), rows.annotation("e2", None)]
    bench = load_benchmark(f"multipref:{write_jsonl(tmp_path / 'x.jsonl', [rows.multipref_row(4, normal, expert)])}")
    clear, slight = bench.items
    assert (clear.id, clear.prompt_id, clear.prompt, clear.domain) == ("c4/w1", "p2", "Question 2?", "Open QA")
    assert grades(clear) == {"a": 2, "b": 0}
    assert grades(slight) == {"a": 0, "b": 1}
    assert texts(slight) == {"a": "Yes 4.", "b": "No. No. No. No. No. "}
    tags = {"worker": "normal", "source": "wild", "strength": "clear", "confidence": "fairly-confident", "place": "a"}
    assert clear.tags == tags | {"time_spent": "40", "helpful": "Tie"}
    assert [item.user and item.user.traits for item in bench.items] == [{"worker": "normal"}, {"worker": "expert"}]
    assert bench.card.load.dropped["judgments"] == {"tied": 1, "without a preference": 1}
    assert bench.card.load.ignored == ("subject_of_study",)


def test_a_level_of_multipref_that_is_unknown_is_refused_and_equal_answers_compare_nothing(tmp_path: Path) -> None:
    bad = rows.multipref_row(1, [rows.annotation("w1", "A-wins")], [])
    with pytest.raises(RowError, match=r"x\.jsonl:1: overall_pref: found 'A-wins', wanted one of A-is-clearly"):
        load_benchmark(f"multipref:{write_jsonl(tmp_path / 'x.jsonl', [bad])}")
    judged = [rows.annotation("w1", "Tie"), rows.annotation("w2", "A-is-clearly-better")]
    equal = rows.multipref_row(1, judged, []) | {"completion_a": "Same.", "completion_b": "Same. "}
    bench = load_benchmark(f"multipref:{write_jsonl(tmp_path / 'x.jsonl', [equal, *rows.multipref(2)])}")
    assert bench.card.load.dropped["judgments"]["of equal answers"] == 2


# ---------------------------------------------------------------- HelpSteer3


def test_a_comparison_of_helpsteer3_has_the_aggregate_as_its_label(tmp_path: Path) -> None:
    turns = [
        {"role": role, "content": text} for role, text in (("user", "Hi."), ("assistant", "Yes?"), ("user", "Why?"))
    ]
    made = [rows.helpsteer_row(1, -2, [-3, -1]), rows.helpsteer_row(2, 1, [0, 2, 1], context=turns)]
    bench = load_benchmark(f"helpsteer3:{write_jsonl(tmp_path / 'x.jsonl', made)}")
    first, second = bench.items
    assert (grades(first), grades(second)) == ({"response1": 2, "response2": 0}, {"response1": 0, "response2": 1})
    assert first.tags == {"language": "python", "strength": "2", "place": "1", "scores": "-3,-1", "disagreement": "2"}
    assert second.prompt == "Person: Hi.\n\nAssistant: Yes?\n\nPerson: Why?"
    assert (first.domain, second.domain, first.user) == ("code", "general", None)


def test_ties_repeats_and_equal_answers_of_helpsteer3_are_counted(tmp_path: Path) -> None:
    good = rows.helpsteer_row(1, -2, [-3, -1])
    made = [good, rows.helpsteer_row(2, 0), dict(good), rows.helpsteer_row(3, 1, response1="Same.", response2="Same.")]
    bench = load_benchmark(f"helpsteer3:{write_jsonl(tmp_path / 'x.jsonl', made)}")
    assert len(bench.items) == 1
    assert bench.card.load.dropped["comparisons"] == {"of equal or empty answers": 1, "repeated": 1, "tied": 1}
    with pytest.raises(RowError, match=r"x\.jsonl:1: overall_preference: found 4, wanted"):
        load_benchmark(f"helpsteer3:{write_jsonl(tmp_path / 'x.jsonl', [rows.helpsteer_row(1, 4)])}")


def test_gzipped_lines_are_read_as_plain_ones_and_torn_ones_refused(tmp_path: Path) -> None:
    plain = write_jsonl(tmp_path / "plain.jsonl", rows.helpsteer3(40))
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    bench = load_benchmark(str(packed))  # known by its first row
    assert bench.content_hash == load_benchmark(f"helpsteer3:{plain}").content_hash
    for content in (packed.read_bytes()[:-30], b"no gzip at all"):
        packed.write_bytes(content)
        with pytest.raises(BenchmarkError, match=r"packed\.jsonl\.gz.*gzip"):
            load_benchmark(f"helpsteer3:{packed}")


# ---------------------------------------------------------------- TL;DR


def test_a_choice_of_tldr_is_an_item_of_its_worker(tmp_path: Path) -> None:
    made = [rows.tldr_row(3, "w1", 1), rows.tldr_row(4, "w2", 0, info={"article": "News.", "id": "n1"}, extra=None)]
    first, news = load_benchmark(f"tldr:{write_jsonl(tmp_path / 'x.jsonl', made)}").items
    assert (first.prompt, first.cluster, first.domain) == ("Post 3. " * 9, "w1", "tldr")
    assert texts(first) == {"a": " Summary 3.", "b": "S. S. S. S. "}
    assert grades(first) == {"a": 0, "b": 1}
    assert first.tags == {"split": "valid1", "batch": "b3", "subreddit": "pets", "confidence": "3", "place": "b"}
    assert (news.prompt, news.domain, news.tags["place"]) == ("News.", "news", "a")


def test_workers_with_few_pairs_and_other_splits_of_tldr_are_left_out(tmp_path: Path) -> None:
    made = [rows.tldr_row(n, "w1", n % 2, split="train" if n > 2 else "valid1") for n in range(5)]
    made += [rows.tldr_row(7, "w2", 0), rows.tldr_row(1, "w1", 1)]  # the last one is there twice
    path = write_jsonl(tmp_path / "x.jsonl", made)
    bench = load_benchmark(f"tldr:{path},least=2")
    assert [item.cluster for item in bench.items] == ["w1"] * 6
    assert bench.items[-1].id == f"{bench.items[1].id}#2"
    assert str(bench.card.load).startswith("6 of 7 judgments; 1 of workers with fewer than 2 pairs dropped")
    assert len(load_benchmark(f"tldr:{path},least=2,split=valid1").items) == 4
    with pytest.raises(BenchmarkError, match="found no worker with 50 pairs of split=all among 7"):
        load_benchmark(f"tldr:{path},least=50")
    with pytest.raises(RowError, match=r"x\.jsonl:1: info\.post: found no text"):
        load_benchmark(f"tldr:{write_jsonl(tmp_path / 'x.jsonl', [rows.tldr_row(1, 'w1', 0, info={})])}")


def test_parquet_of_tldr_is_read_as_its_lines(tmp_path: Path) -> None:
    made = rows.tldr(30)
    (tmp_path / "x.parquet").write_bytes(as_parquet(made))
    lines = load_benchmark(f"tldr:{write_jsonl(tmp_path / 'x.jsonl', made)}")
    assert load_benchmark(str(tmp_path / "x.parquet")).content_hash == lines.content_hash


# ---------------------------------------------------------------- all of them

Write = Callable[[Path, list[JsonRow]], Path]


def _lines(folder: Path, made: list[JsonRow]) -> Path:
    return write_jsonl(folder / "x.jsonl", made)


WORLDS: dict[str, tuple[Callable[[int, int], list[JsonRow]], Write]] = {
    "community-alignment": (rows.community_alignment, lambda folder, made: write_csv(folder / "x.csv", made)),
    "coval": (rows.coval, lambda folder, made: rows.write_coval(folder / "coval", made)),
    "multipref": (rows.multipref, _lines),
    "helpsteer3": (rows.helpsteer3, _lines),
    "tldr": (rows.tldr, _lines),
}


@pytest.mark.parametrize("kind", WORLDS)
def test_the_order_of_the_file_changes_no_item(tmp_path: Path, kind: str) -> None:
    make, write = WORLDS[kind]
    made = make(40, 1)
    first = load_benchmark(f"{kind}:{write(tmp_path, made)}")
    random.Random(2).shuffle(made)
    second = load_benchmark(f"{kind}:{write(tmp_path, made)}")
    assert sorted(map(repr, map(item_content, first.items))) == sorted(map(repr, map(item_content, second.items)))
    assert {KINDS[kind].reads(row) for row in made} == {True}
    assert any(first.other_votes.values()) == (kind != "helpsteer3")
    check_benchmark(first)


@pytest.mark.parametrize("kind", WORLDS)
def test_baselines_are_scored_compared_and_audited_on_people_who_judge_the_same(tmp_path: Path, kind: str) -> None:
    make, write = WORLDS[kind]
    bench = load_benchmark(f"{kind}:{write(tmp_path, make(40, 3))}")
    runs = [score(bench, model, out=tmp_path / "runs") for model in ("longest", "random")]
    assert len(leaderboard(runs).entries) == 2
    assert audit(bench, relabellings=300).items == len(bench.items)
    if kind in {"community-alignment", "helpsteer3"}:
        groups = by_tag(runs[0], "language").groups
        assert sum(group.n for group in groups.values()) == len(bench.items)
