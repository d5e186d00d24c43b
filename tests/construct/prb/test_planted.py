"""One fault at a time in a world where all else passes: it is stopped, by the gate that is there for it, and alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.benchmarks.lamp_qa import PostRow
from pluralrm.construct.pipeline import Record
from pluralrm.construct.prb import PersonalQuestion, Rules
from tests.construct.pipeline.worlds import decisions
from tests.construct.prb.worlds import World, name_of, named, question, text_of

BAD = "q003"
ALWAYS = range(3)


def aspect(record: str, place: int = 0) -> str:
    return question(int(record[1:]))[PersonalQuestion].aspects[place].aspect


def altered(record: Record, **fields: object) -> Record:
    return replace(record, source=record[PersonalQuestion].model_copy(update=fields))


def detail(place: Path) -> str:
    """Return what was said of the chosen answer that was refused."""
    [line] = [line for line in decisions(place)["05-chosen.jsonl"] if line["kept"] is None]
    return str(line["detail"])


def test_a_sound_world_passes_whole(tmp_path: Path) -> None:
    built = World().built(tmp_path / "b")
    assert len(built.kept) == 12
    assert named(tmp_path / "b") == {}


TEXTS: dict[str, tuple[str, str, Callable[[str, int], str]]] = {
    "too long": ("chosen", "format", lambda side, n: text_of(BAD, side, n, 101)),
    "a word without end": ("chosen", "format", lambda side, n: f"{text_of(BAD, side, n, 5)} {'b' * 5000}"),
    "a direction that turns": ("published", "format", lambda s, n: f"{text_of(BAD, s, n, 60)}\u202e"),
    "the escape of a terminal": ("contrary", "format", lambda s, n: f"{text_of(BAD, s, n, 60)} \x1b[31m"),
    "an analysis": ("chosen", "format", lambda side, n: f"{text_of(BAD, side, n, 50)}\nAnalysis: it fits."),
    "two answers": ("chosen", "format", lambda side, n: f"Answer A: {text_of(BAD, side, n, 30)}\nAnswer B: no."),
    "aspect wording in the chosen": ("chosen", "wording", lambda s, n: f"{text_of(BAD, s, n, 50)} {aspect(BAD)}."),
    "aspect wording in the rejected": ("published", "wording", lambda s, n: f"{text_of(BAD, s, n, 50)} {aspect(BAD)}."),
    "much longer than the chosen": ("published", "length", lambda side, n: text_of(BAD, side, n, 90)),
    "much shorter than the chosen": ("contrary", "length", lambda side, n: text_of(BAD, side, n, 40)),
    "the chosen one, retouched": (
        "published",
        "similar",
        lambda side, n: f"{text_of(BAD, 'chosen', 0, 60)} {text_of(BAD, side, n, 1)}",
    ),
}


@pytest.mark.parametrize("fault", TEXTS)
def test_a_text_is_stopped_by_the_gate_for_it(fault: str, tmp_path: Path) -> None:
    side, gate, write = TEXTS[fault]
    world = World(texts={(BAD, side, attempt): write(side, attempt) for attempt in ALWAYS})
    built = world.built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: (side, gate)}
    assert len(built.kept) == 11


MARKS = {
    "a chosen answer that meets half": ("chosen", "adherence", {"adherence": 1}),
    "a rejected answer that follows the aspects": ("published", "adherence", {"adherence": 2}),
    "a contrary answer that follows the aspects": ("contrary", "adherence", {"adherence": 1}),
    "a chosen answer with wrong facts": ("chosen", "quality", {"factuality": 2}),
    "a rejected answer of lower quality": ("published", "quality", {"helpfulness": 2}),
    "a contrary answer that is merely neutral": ("contrary", "opposite", {"opposite": 0}),
    "a contrary answer that leaves out a part": ("contrary", "coverage", {"coverage": 0}),
    "a contrary answer that covers less": ("contrary", "coverage", {"coverage": 1}),
}


@pytest.mark.parametrize("fault", MARKS)
def test_a_mark_is_stopped_by_the_gate_for_it(fault: str, tmp_path: Path) -> None:
    side, gate, marks = MARKS[fault]
    built = World(marks={(BAD, side, attempt): marks for attempt in ALWAYS}).built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: (side, gate)}
    assert len(built.kept) == 11


def test_a_part_that_only_the_chosen_answer_covers_is_missed_though_the_shares_are_near(tmp_path: Path) -> None:
    half = {(BAD, "chosen", 0): {"first part": 1}}  # 75%; without the part it is 50%, which is near enough
    without = {(BAD, "contrary", attempt): {"first part": 0} for attempt in ALWAYS}
    World(marks={**half, **without}).built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: ("contrary", "coverage")}


def test_unequal_quality_is_stopped_though_both_are_good(tmp_path: Path) -> None:
    better = {(BAD, "chosen", 0): dict.fromkeys(("factuality", "relevance", "helpfulness"), 5)}
    lower = {(BAD, "published", attempt): {"relevance": 3} for attempt in ALWAYS}
    World(marks={**better, **lower}).built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: ("published", "quality")}


def test_the_published_kind_may_lose_on_coverage(tmp_path: Path) -> None:
    marks = {(f"q{number:03}", "published", 0): {"coverage": 0} for number in range(12)}
    assert len(World(marks=marks).built(tmp_path / "b").kept) == 12


def test_a_second_attempt_is_written_with_the_reason_and_may_pass(tmp_path: Path) -> None:
    world = World(marks={(BAD, "published", 0): {"adherence": 2}})
    assert len(world.built(tmp_path / "b").kept) == 12
    [again] = [prompt for prompt in world.prompts if "cannot be used" in prompt]
    assert "it gives 100% of what it has to do without, wanted 25% at most" in again
    assert world.text(BAD, "published", 0) in again
    [line] = [line for line in decisions(tmp_path / "b")["06-published.jsonl"] if line["id"] == BAD]
    assert line["attempts"] == 2


def test_a_text_that_comes_back_unchanged_is_never_judged_again(tmp_path: Path) -> None:
    stuck = World().text(BAD, "chosen", 0)
    world = World(texts={(BAD, "chosen", n): stuck for n in ALWAYS}, marks={(BAD, "chosen", 0): {"adherence": 0}})
    world.built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: ("chosen", "unchanged")}
    assert "adherence: it gives 0% of what is expected" in detail(tmp_path / "b")
    judged = [prompt for prompt in world.prompts if stuck in prompt and "[answer " in prompt]
    assert len(judged) == len(set(judged)) == 1 + 3 + 3 + 1  # quality, aspects, their opposites, coverage: once each


def test_a_text_that_comes_back_with_another_comma_is_not_judged_again_either(tmp_path: Path) -> None:
    stuck = World().text(BAD, "chosen", 0)
    texts = {(BAD, "chosen", n): stuck.replace(" ", ", " if n else " ", 1) for n in ALWAYS}
    world = World(texts=texts, marks={(BAD, "chosen", 0): {"adherence": 0}})
    world.built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: ("chosen", "unchanged")}
    assert "adherence: it gives 0% of what is expected" in detail(tmp_path / "b")
    told = [prompt for prompt in world.prompts if "its words are those of a text that was refused before" in prompt]
    assert all("it gives 0% of what is expected" in prompt for prompt in told)
    assert len(told) == 1
    assert (
        len([prompt for prompt in world.prompts if name_of(BAD, "chosen", 0) in prompt and "[answer " in prompt]) == 8
    )


def test_what_fails_a_rule_is_not_paid_for(tmp_path: Path) -> None:
    long = {(BAD, "chosen", attempt): text_of(BAD, "chosen", attempt, 120) for attempt in ALWAYS}
    world = World(texts=long)
    world.built(tmp_path / "b")
    assert not [prompt for prompt in world.prompts if f"Z{BAD}" in prompt and "[answer " in prompt]


def test_whoever_writes_a_text_without_end_anew_is_not_sent_all_of_it(tmp_path: Path) -> None:
    endless = {(BAD, "chosen", n): f"{text_of(BAD, 'chosen', n, 5)} {'b' * 3_000_000}" for n in ALWAYS}
    world = World(texts=endless)
    world.built(tmp_path / "b")
    assert max(map(len, world.prompts)) < 10_000


# ---------------------------------------------------------------- what came twice


def test_a_user_who_came_before_is_stopped_by_id(tmp_path: Path) -> None:
    records = [*map(question, range(11)), altered(question(11), user="q004")]
    World().built(tmp_path / "b", records)
    assert named(tmp_path / "b") == {"q011": ("users", "duplicate_user")}


def test_a_user_who_came_before_is_stopped_by_their_posts_in_any_order_and_under_other_ids(tmp_path: Path) -> None:
    posts = question(4)[PersonalQuestion].posts
    copied = tuple(
        PostRow(id=f"x{n}", category="", text=f"  {post.text.upper()} ") for n, post in enumerate(posts[::-1])
    )
    World().built(tmp_path / "b", [*map(question, range(11)), altered(question(11), posts=copied)])
    assert named(tmp_path / "b") == {"q011": ("users", "duplicate_user")}


def test_two_users_who_share_one_courtesy_are_two(tmp_path: Path) -> None:
    thanks = PostRow(id="t", category="", text="Thank you all!")
    records = [
        altered(record, posts=(record[PersonalQuestion].posts[0], thanks)) for record in map(question, range(12))
    ]
    assert len(World().built(tmp_path / "b", records).kept) == 12


def test_a_question_that_nearly_repeats_another_is_stopped(tmp_path: Path) -> None:
    again = question(4)[PersonalQuestion].question.removeprefix("q004: ")
    records = [*map(question, range(11)), altered(question(11), question=f"q011: {again}")]
    World().built(tmp_path / "b", records)
    assert named(tmp_path / "b") == {"q011": ("users", "duplicate_question")}


def test_a_user_without_posts_is_stopped(tmp_path: Path) -> None:
    World().built(tmp_path / "b", [*map(question, range(11)), altered(question(11), posts=())])
    assert named(tmp_path / "b") == {"q011": ("users", "no_posts")}


def test_an_answer_that_repeats_another_record_s_is_stopped(tmp_path: Path) -> None:
    shared = text_of("q002", "chosen", 0, 64).partition(" ")[2]
    repeated = {
        ("q002", "chosen", 0): f"{name_of('q002', 'chosen', 0)} {shared}",
        (BAD, "published", 0): f"{name_of(BAD, 'published', 0)} {shared}",
    }
    World(texts=repeated).built(tmp_path / "b")
    assert named(tmp_path / "b") == {BAD: ("duplicates", "repeated_answer")}


# ---------------------------------------------------------------- a set whose lengths give the label away


def test_a_length_artefact_is_taken_out_to_the_last_surplus_record(tmp_path: Path) -> None:
    # 10 of 12 chosen answers are the longer ones (p = 0.04); 8 have to leave until it is 2 and 2.
    world = World(words=lambda record, side: 66 if (side == "chosen") == (int(record[1:]) < 10) else 60)
    world.rules = Rules()
    built = world.built(tmp_path / "b")
    assert set(named(tmp_path / "b").values()) == {("balance", "length_artefact")}
    assert len(built.kept) == 4
    assert {"q010", "q011"} <= {record.id for record in built.kept}


def test_lengths_that_chance_explains_stay(tmp_path: Path) -> None:
    world = World(words=lambda record, side: 66 if (side == "chosen") == (int(record[1:]) < 9) else 60)  # p = 0.15
    assert len(world.built(tmp_path / "b").kept) == 12


def test_the_lengths_of_each_kind_are_balanced(tmp_path: Path) -> None:
    def words(record: str, side: str) -> int:
        even = 60 + 6 * ((int(record[1:]) + (side == "chosen")) % 2)
        return 75 if side == "contrary" else even

    world = World(words=words)
    world.built(tmp_path / "b")
    assert set(named(tmp_path / "b").values()) == {("balance", "length_artefact")}
    assert len(named(tmp_path / "b")) == 12  # every contrary answer is the longer one: nothing could balance it
