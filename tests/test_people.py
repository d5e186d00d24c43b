"""People who judge the same candidates, against a count by hand; traits that form groups."""

import random

import pytest

from pluralrm import load_benchmark
from pluralrm.core import Benchmark, Item, User, persons
from pluralrm.labels import group_traits, panels
from pluralrm.runs import load_run, score
from tests.builders import card


def _item(name: str, person: str, order: str, best: str, **traits: str) -> Item:
    return Item(
        name,
        "Which?",
        tuple(order),
        preferred=None,
        grades=tuple(float(text in best) for text in order),
        cluster=person,
        domain="d",
        user=User(person, traits=traits),
    )


CROWD = [
    _item("1", "ann", "abc", "a"),
    _item("2", "bob", "cab", "ab"),
    _item("3", "cy", "bca", "c"),
    _item("4", "bob", "abc", "b"),  # bob comes twice: half a vote for a and b, and one for b
    _item("5", "ann", "abd", "d"),  # other candidates: nobody else judged these
]


def test_other_votes_leave_the_person_out_and_count_nobody_twice() -> None:
    votes = Benchmark(card(), tuple(CROWD)).other_votes
    assert votes == {
        "1": (0.25, 0.75, 1.0),  # bob and cy, in the order a, b, c
        "2": (1.0, 1.0, 0.0),  # ann and cy, in the order c, a, b
        "3": (0.75, 0.0, 1.25),  # ann and bob, in the order b, c, a
        "4": (1.0, 0.0, 1.0),
    }


@pytest.mark.parametrize("seed", range(5))
def test_votes_do_not_depend_on_the_order_of_items_or_candidates(seed: int) -> None:
    rng = random.Random(seed)
    people, texts = [f"p{number}" for number in range(9)], "abcd"
    items = [
        _item(f"{person}{turn}", person, "".join(rng.sample(texts, 4)), rng.choice(texts))
        for person in people
        for turn in range(rng.choice([1, 1, 3]))
    ]
    by_text = {
        item: dict(zip(next(x for x in items if x.id == item).candidates, votes, strict=True))
        for item, votes in Benchmark(card(), tuple(items)).other_votes.items()
    }
    shuffled = rng.sample(items, len(items))
    again = Benchmark(card(), tuple(shuffled)).other_votes
    for item in items:
        assert dict(zip(item.candidates, again[item.id], strict=True)) == by_text[item.id]
        assert sum(again[item.id]) == pytest.approx(len(people) - 1)


def test_a_panel_has_everybody_who_judged_its_candidates() -> None:
    first, second = panels(CROWD, persons(CROWD))
    assert (first.candidates, first.people, len(first.judgments)) == (("a", "b", "c"), 3, 4)
    assert [judgment.grades for judgment in first.judgments][:2] == [(1.0, 0.0, 0.0), (1.0, 1.0, 0.0)]
    assert (second.candidates, second.people) == (("a", "b", "d"), 1)


def test_traits_of_few_short_values_form_groups() -> None:
    users = [
        User(f"u{number}", traits={"age": "old" if number % 2 else "young", "id": str(number), "one": "same"})
        for number in range(30)
    ]
    groups = group_traits([*users, User("silent")])
    assert groups["u3"] == {"trait:age": "old"}
    assert "silent" not in groups


def test_rows_keep_what_other_people_prefer_and_the_traits(tmp_path) -> None:
    items = [_item(f"{person}-1", person, "abc", best, age=age) for person, best, age in PEOPLE]
    run = score(Benchmark(card(), tuple(items)), "longest", "none", out=tmp_path)
    loaded = load_run(run.path)
    assert [row.others for row in loaded.rows] == [(0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0)]
    assert [row.tags["trait:age"] for row in loaded.rows] == ["old", "young", "old"]
    assert not any(row.others for row in score(load_benchmark("pocket-prb"), "longest", "none", out=tmp_path).rows)


PEOPLE = (("ann", "a", "old"), ("bob", "b", "young"), ("cy", "c", "old"))
