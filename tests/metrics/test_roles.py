"""Which run is which: by what it declares, and never by a guess."""

from dataclasses import replace

import pytest

from pluralrm.conditions import amount_of, read_condition
from pluralrm.core import Reveals, Run
from pluralrm.errors import MetricError
from pluralrm.metrics.roles import roles
from tests.metrics.people import answering

ANSWERS = [1, 0, 1, 1, 0, 1]


def _runs(*conditions: str, **changes: object) -> list[Run]:
    return [answering(condition, ANSWERS, **changes) for condition in conditions]  # type: ignore[arg-type]


def _controls(*conditions: str) -> dict[str, str]:
    (found,) = roles(_runs(*conditions))
    return {role: run.condition for role, run in found.controls.items()}


def test_a_run_plays_the_role_that_it_declares() -> None:
    assert _controls("raw:10", "oracle", "noise:10", "swapped:10", "none") == {
        "none": "none",
        "swapped": "swapped:10",
        "noise": "noise:10",
        "oracle": "oracle",
    }


def test_what_a_run_reveals_decides_and_not_how_it_is_called() -> None:
    posts: frozenset[Reveals] = frozenset({"posts"})
    odd = answering("swapped:10", ANSWERS, reveals=posts)
    (found,) = roles([odd, *_runs("none")])
    assert found.own is odd
    assert "swapped" in found.absent
    both = answering("raw:10", ANSWERS, reveals=frozenset({"posts", "oracle"}))
    (found,) = roles([answering("raw:5", ANSWERS), both])
    assert found.controls["oracle"] is both


def _pairs(condition: str, *reveals: Reveals) -> Run:
    found = answering(condition, ANSWERS, reveals=frozenset(reveals))
    return replace(found, rows=tuple(replace(row, pairs=4) for row in found.rows))


def test_pairs_have_pairs_for_control_and_never_posts() -> None:
    own, swapped = _pairs("pairs:4", "pairs"), _pairs("pairs:4,of=swapped", "other_pairs")
    tossed = _pairs("pairs:4,labels=shuffled", "false_pairs")
    fewer = _pairs("pairs:2,of=swapped", "other_pairs")
    (found,) = roles([own, swapped, tossed, fewer, *_runs("none", "swapped:4", "noise:4")])
    assert found.controls == {"none": found.controls["none"], "swapped": swapped, "shuffled": tossed}
    assert found.absent["noise"] == "noise:4: another number of posts or pairs than pairs:4"
    assert found.notes == ()


def test_posts_beside_pairs_belong_to_the_control_too() -> None:
    own, bare = _pairs("pairs:4,posts=5", "pairs", "posts"), _pairs("pairs:4,of=swapped", "other_pairs")
    whole = _pairs("pairs:4,of=swapped,posts=5", "other_pairs", "other_posts")
    (alone,) = roles([own, bare])
    assert "swapped" in alone.absent
    (found,) = roles([own, bare, whole])
    assert found.controls["swapped"] is whole


def test_pairs_are_no_control_of_posts() -> None:
    (found,) = roles([*_runs("raw:4"), _pairs("pairs:4,of=swapped", "other_pairs")])
    assert "swapped" in found.absent
    assert "shuffled" not in found.absent


def test_controls_show_the_same_number_of_posts() -> None:
    found = roles(_runs("none", "raw:1", "raw:5", "raw:10", "swapped:5", "swapped:10"))
    assert [each.own.condition for each in found] == ["raw:1", "raw:5", "raw:10"]
    assert [each.controls["swapped"].condition for each in found[1:]] == ["swapped:5", "swapped:10"]
    assert found[0].absent["swapped"] == "swapped:10, swapped:5: another number of posts than raw:1"


def test_among_controls_of_one_size_the_nearest_options_decide() -> None:
    made = ("raw:10", "raw:10,by=random", "recent:10", "swapped:10", "swapped:10,by=random", "swapped:10,by=recent")
    found = {each.own.condition: each for each in roles(_runs(*made))}
    assert {own: each.controls["swapped"].condition for own, each in found.items()} == {
        "raw:10": "swapped:10",
        "raw:10,by=random": "swapped:10,by=random",
        "recent:10": "swapped:10,by=recent",
    }
    assert not any(each.notes for each in found.values())


def test_a_control_that_ranks_otherwise_is_taken_alone_and_said_so() -> None:
    (found,) = roles(_runs("recent:10", "swapped:10"))
    assert found.controls["swapped"].condition == "swapped:10"
    assert found.notes == ("swapped:10 chooses posts in another way than recent:10",)


def test_two_controls_equally_near_are_none() -> None:
    (found,) = roles(_runs("raw:10", "swapped:10,seed=1", "swapped:10,seed=2"))
    assert "swapped" not in found.controls
    assert found.absent["swapped"].startswith("several runs in the role 'swapped', none nearer than another")
    assert _controls("raw:10", "swapped:10", "swapped:10,seed=2")["swapped"] == "swapped:10"


def test_a_condition_that_hides_its_size_says_so() -> None:
    (found,) = roles(_runs("persona:some-model,k=10", "swapped:10"))
    assert found.controls["swapped"].condition == "swapped:10"
    assert "swapped:10 shows posts as they are" in found.notes[0]
    (found,) = roles(_runs("my own, condition", "swapped:10"))
    assert found.controls["swapped"].condition == "swapped:10"


def test_the_control_of_notes_is_the_same_notes_of_another() -> None:
    persona, others = "persona:m,k=5,url=http://h/v1", frozenset[Reveals]({"other_posts"})
    lent = [
        answering(condition, ANSWERS, reveals=others)
        for condition in (f"{persona},of=swapped", "planner:m,k=5,of=swapped", "persona:o,k=5,of=swapped", "swapped:5")
    ]
    found = {each.own.condition: each for each in roles([*_runs(persona, "raw:5"), *lent])}
    assert found[persona].controls["swapped"] is lent[0]
    assert found["raw:5"].controls["swapped"] is lent[3]
    assert not any(each.notes for each in found.values())


def test_posts_stand_in_for_notes_of_another_and_never_the_reverse() -> None:
    others = frozenset[Reveals]({"other_posts"})
    (found,) = roles(_runs("persona:m,k=5", "swapped:5"))
    assert found.notes == ("swapped:5 shows posts as they are, persona:m,k=5 what a model wrote from them",)
    lent = answering("persona:m,k=5,of=swapped", ANSWERS, reveals=others)
    for own in ("raw:5", "planner:m,k=5", "persona:o,k=5"):
        (found,) = roles([*_runs(own), lent])
        assert found.absent["swapped"] == f"{lent.condition}: another number of posts, or other notes, than {own}"


def test_posts_that_were_not_seen_are_noticed() -> None:
    own = answering("raw:10", ANSWERS)
    seen = replace(own, rows=tuple(replace(row, posts=9) for row in own.rows))
    (found,) = roles([seen, answering("swapped:10", ANSWERS)])
    assert found.notes == ("posts seen on average: 9.0 under raw:10, 0.0 under swapped:10",)


def test_models_are_kept_apart() -> None:
    found = roles([*_runs("none", "raw:10", model="b"), *_runs("swapped:10", "raw:10", model="a")])
    assert [(each.own.model, sorted(each.controls)) for each in found] == [("a", ["swapped"]), ("b", ["none"])]


def test_other_items_other_content_and_unfinished_runs_are_named() -> None:
    with pytest.raises(MetricError, match=r"m under raw:10 and m under none differ in 1 items: 'i006'\. Score both"):
        roles([answering("raw:10", ANSWERS), answering("none", [*ANSWERS, 1])])
    with pytest.raises(MetricError, match=r"m under raw:10 is on bakery \(01234567\), m under none on bakery \(ff\)"):
        roles([answering("raw:10", ANSWERS), answering("none", ANSWERS, benchmark_hash="ff")])
    with pytest.raises(MetricError, match="m under none is incomplete: 6 of 9 items"):
        roles([answering("raw:10", ANSWERS), answering("none", ANSWERS, items=9, complete=False)])
    with pytest.raises(MetricError, match=r"m under raw:10 is there twice \('a', 'b'\)"):
        roles([answering("raw:10", ANSWERS, path="a"), answering("raw:10", ANSWERS, path="b")])
    with pytest.raises(MetricError, match="m under none has no rows"):
        roles([answering("raw:10", ANSWERS), answering("none", [])])


def test_the_grammar_of_conditions_is_read() -> None:
    assert amount_of(read_condition("raw:10,by=embed:a%2Cb")) == 10
    assert read_condition("raw:10,by=embed:a%2Cb").options == {"by": "embed:a,b"}
    assert amount_of(read_condition("persona:gpt,k=7")) == 7
    assert amount_of(read_condition("none")) is None
    assert read_condition("what, ever").kind == "what, ever"
