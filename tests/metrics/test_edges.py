"""What metrics refuse by name, and what they say where a number, a count or a name is missing."""

import json
from dataclasses import asdict, replace

import pytest

from pluralrm.core import Estimate, Failure, Reveals, Run, Vote
from pluralrm.errors import MetricError
from pluralrm.metrics import leaderboard, published
from pluralrm.metrics.calibration import calibration
from pluralrm.metrics.comparison import against_chance
from pluralrm.metrics.contrast import margins
from pluralrm.metrics.estimates import headline
from pluralrm.metrics.leaderboard import uneven_posts
from pluralrm.metrics.official.formula import PlaceAccuracy
from pluralrm.metrics.overview import half_width, short_names
from pluralrm.metrics.roles import roles
from pluralrm.metrics.units import groups
from tests.metrics.people import answering
from tests.metrics.rows import chance, constant, records, row, run, users


def test_a_row_that_consistency_cannot_compare_is_refused() -> None:
    [first, *_] = records(1, chance)
    with pytest.raises(MetricError, match="does not name its candidates"):
        groups([replace(first, candidate_ids=())])
    with pytest.raises(MetricError, match="repeats phrasing '0' of its group"):
        groups([first, replace(first, item="again")])


def test_a_card_with_an_unknown_metric_names_the_known_ones() -> None:
    one = run(users(4, 0.5))
    with pytest.raises(MetricError, match=r"asks for the metrics sense; wanted one or more of .*accuracy"):
        headline(replace(one, card=replace(one.card, metrics=("sense",))))
    with pytest.raises(MetricError, match="asks for the metrics none"):
        headline(replace(one, card=replace(one.card, metrics=())))


def test_a_failed_item_has_no_margin() -> None:
    scored, failed = row("a", (2.0, 1.0)), row("b", (Failure("parse"), 0.0))
    assert margins([scored, failed])[1] == 0
    assert margins([scored, failed])[0] > 0


def test_one_cluster_lies_on_no_side_of_chance() -> None:
    alone = run([row(f"i{place}", (1.0, 0.0), cluster="u") for place in range(30)])
    told = against_chance([alone])
    assert (told.above, told.below) == ((), ())
    weak = [run(users(60, 0.62, seed=seed), model=f"m{seed}") for seed in range(6)]
    strong = run(users(200, 0.95), model="strong")
    found = against_chance([*weak, strong])
    assert 6 in found.above
    assert len(found.above) < 7, "an interval that Holm widens reaches chance again"


def test_numbers_for_json_are_those_of_the_object() -> None:
    found = calibration(run([*users(40, 0.7), row("gone", (Failure("parse"),) * 2)]))
    told = json.loads(json.dumps(found.to_json()))
    assert told["error"]["value"] == found.error.value
    assert found.bounds is not None
    assert told["bounds"] == found.bounds._asdict()
    assert PlaceAccuracy(3, None).to_json() == {"items": 3, "accuracy": None}


def test_unequal_inputs_are_told_with_the_mean_of_each_model() -> None:
    few, many = ([replace(one, posts=posts) for one in users(12, 0.7)] for posts in (2, 5))
    [told] = uneven_posts([run(few, model="few", condition="raw:5"), run(many, model="many", condition="raw:5")])
    assert told.to_json() == asdict(told) | {"mean_posts": {"few": 2.0, "many": 5.0}}
    assert leaderboard([run(few, model="few", condition="raw:5"), run(many, model="many", condition="raw:5")]).entries


def test_a_judge_that_ranks_and_was_not_asked_in_the_drawn_order_counts_as_first_asked() -> None:
    rows = records(2, chance)
    places = tuple(range(4))
    votes = [tuple(Vote(order, ">".join(map(str, order))) for order in (places, places[::-1])) for _ in rows]
    asked = run([replace(one, votes=each) for one, each in zip(rows, votes, strict=True)], model="judge:m")
    told = published(asked)["bon"]
    assert told.value is not None
    assert "the drawn order was not asked on" in told.reason


def test_a_name_that_is_no_spec_has_no_ratings() -> None:
    """As in runs that were scored elsewhere: a failed item is no 5 there."""
    unread = (Failure("parse"),) * 4
    rows = [replace(one, scores=one.scores if place % 3 else unread) for place, one in enumerate(records(4, constant))]
    named = {name: _whole(run(rows, model=name)) for name in ("judge:m,style=pointwise", "some-lab/model", "judge:m")}
    rated, other, pairwise = (published(one)["pair"] for one in named.values())
    assert "unreadable rating" in rated.reason
    assert "unreadable rating" not in other.reason
    assert other.value == pairwise.value


def _whole(found: Run) -> Run:
    return replace(found, card=replace(found.card, name="rmgap"))


def test_how_controls_differ_is_noted() -> None:
    answers = [1, 0, 1, 1, 0, 1]
    own: frozenset[Reveals] = frozenset({"pairs"})
    other: frozenset[Reveals] = frozenset({"other_pairs"})
    unknown = answering("pairs:4", answers, reveals=own)
    lent = answering("pairs:4,of=swapped", answers, reveals=other)
    lent = replace(lent, rows=tuple(replace(one, pairs=4, lenders=2) for one in lent.rows))
    [found] = roles([unknown, lent, answering("none", answers)])
    assert "how many pairs were seen is not recorded under pairs:4" in " ".join(found.notes)
    assert "in 6 of 6 items several users lent together" in " ".join(found.notes)


def test_names_that_nothing_keeps_apart_stay_as_they_are() -> None:
    assert short_names(["hf:a/m", "hf:/a/m"]) == {"hf:a/m": "hf:a/m", "hf:/a/m": "hf:/a/m"}
    assert half_width(Estimate(0.5, None, None, 1, 0, "no interval")) is None
    assert half_width(Estimate(0.5, 0.25, 0.5, 9, 0, "")) == 0.125
