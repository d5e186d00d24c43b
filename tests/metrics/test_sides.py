"""With whom a model sides where a person and the crowd differ: by hand, by brute force, and under permutations."""

import random
from dataclasses import replace

import pytest

from pluralrm.core import Failure, Row
from pluralrm.metrics.sides import all_sides, among_people, sided_items, sides
from tests.metrics.rows import row, run


def test_only_items_count_on_which_person_and_crowd_differ() -> None:
    rows = [
        row("with person", [2.0, 1.0], 0, others=(1.0, 3.0), cluster="a", prompt="p"),
        row("with crowd", [1.0, 2.0], 0, others=(0.0, 3.0), cluster="b", prompt="p"),
        row("tie", [1.0, 1.0], 1, others=(2.0, 0.0), cluster="b", prompt="q"),
        row("failed", [Failure("parse", "?"), 1.0], 1, others=(4.0, 0.0), cluster="c", prompt="q"),
        row("agreed", [2.0, 1.0], 0, others=(3.0, 1.0), cluster="a", prompt="r"),
        row("open", [2.0, 1.0], 0, others=(2.0, 2.0), cluster="a", prompt="s"),  # the crowd has no majority
        row("one other", [2.0, 1.0], 0, others=(0.0, 1.0), cluster="a", prompt="t"),  # one person is no crowd
        row("alone", [2.0, 1.0], 0, cluster="a", prompt="u"),
    ]
    result = sides(run(rows))
    assert result is not None
    assert (result.person.value, result.crowd.value, result.neither.value) == (1.5 / 4, 1.5 / 4, 0)
    assert (result.person.n, result.person.failed, result.chance) == (4, 1, 0.5)
    assert "two-way" in result.person.method
    assert result.settles == pytest.approx((result.person.high - result.person.low) / 2)  # type: ignore[operator]
    assert str(result).startswith("37.5 [")
    assert ", 1 failed: 4 such items settle ±" in str(result)


def test_siding_with_neither_is_said() -> None:
    rows = [row(f"i{n}", [0.0, 0.0, 1.0], 0, others=(0.0, 5.0, 1.0), cluster=f"u{n}") for n in range(5)]
    result = sides(run(rows))
    assert result is not None
    assert (result.person.value, result.crowd.value, result.neither.value) == (0, 0, 1)
    assert result.chance == pytest.approx(1 / 3)


def test_a_world_ranking_is_the_persons_own() -> None:
    world = {"world:c0": "1", "world:c1": "4", "world:c2": "4"}
    rows = [
        row("differs", [3.0, 1.0, 2.0], 0, tags=world, cluster="a"),
        row("partly", [3.0, 1.0, 2.0], None, grades=(1.0, 1.0, 0.0), tags=world, cluster="b"),
        row("gap", [3.0, 1.0, 2.0], 0, tags={"world:c1": "4"}, cluster="c"),
        row("later gap", [3.0, 1.0, 2.0], 0, tags={"world:c0": "1", "world:c1": "4"}, cluster="c"),
        row("other", [1.0, 3.0, 2.0], 0, tags=world, cluster="d"),
    ]
    assert [item.row.item for item in sided_items(rows, "world")] == ["differs", "other"]
    (result,) = all_sides(run(rows))
    assert (result.against, result.person.value, result.crowd.value) == ("world", 0.5, 0.5)
    (among,) = among_people([run(rows)])
    assert str(among).startswith("where a person's own and world rankings differ it sides 50.0")
    assert sides(run(rows)) is None


def _world(seed: int) -> list[Row]:
    rng = random.Random(seed)
    rows = []
    for number in range(60):
        width = rng.choice([2, 2, 3, 4])
        scores = [float(rng.randrange(3)) for _ in range(width)]
        grades = tuple(float(rng.randrange(3)) for _ in range(width))
        rows.append(
            row(
                f"i{number:02}",
                [Failure("parse", "?"), *scores[1:]] if rng.random() < 0.1 else scores,
                None,
                grades=grades,
                others=tuple(float(rng.randrange(4)) for _ in range(width)),
                cluster=f"u{rng.randrange(12)}",
                prompt=f"p{rng.randrange(9)}",
            )
        )
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_shares_equal_a_count_by_hand_and_ignore_order(seed: int) -> None:
    rows = _world(seed)
    credit, items = [0.0, 0.0], 0
    for each in rows:
        own = {i for i, grade in enumerate(each.grades) if grade == max(each.grades)}
        crowd = {i for i, votes in enumerate(each.others) if votes == max(each.others)}
        if sum(each.others) < 2 or own & crowd:
            continue
        items += 1
        if not any(isinstance(score, Failure) for score in each.scores):
            top = [i for i, score in enumerate(each.scores) if score == max(each.scores)]
            credit[0] += sum(i in own for i in top) / len(top)
            credit[1] += sum(i in crowd for i in top) / len(top)
    result = sides(run(rows))
    assert result is not None
    assert result.person.n == items
    assert (result.person.value, result.crowd.value) == pytest.approx((credit[0] / items, credit[1] / items))
    turned = [
        replace(each, **{name: getattr(each, name)[::-1] for name in ("scores", "grades", "others")}, preferred=None)
        for each in random.Random(seed).sample(rows, len(rows))
    ]
    again = sides(run(turned))
    assert again is not None
    assert again.person == result.person
    assert again.crowd == result.crowd


def test_not_answering_never_pays() -> None:
    rows = [each for each in _world(9) if not each.failed]
    whole = sides(run(rows))
    mute = sides(run([replace(each, scores=(Failure("parse", "?"),) * len(each.scores)) for each in rows]))
    assert whole is not None
    assert mute is not None
    assert (mute.person.value, mute.person.n) == (0.0, whole.person.n)
