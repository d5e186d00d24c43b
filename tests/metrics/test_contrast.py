"""The gain per group of a tag, and the cold start: where the user's posts help, and how many of them it takes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pluralrm.core import Run
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import RunItems
from pluralrm.metrics.contrast import by_posts, cold_start, difference, gain_by_tag, tag_records
from pluralrm.metrics.estimates import by_tag, measure
from pluralrm.metrics.personalization import personalization
from pluralrm.metrics.roles import Roles, roles
from tests.metrics.people import answering, people


def _roles(*runs: Run) -> Roles:
    (found,) = roles(runs)
    return found


def _two_groups() -> Roles:
    """A model that gains 40 points for those who bake by night and none for those who bake by day."""
    parts = {"night": people({"raw:10": 0.9, "swapped:10": 0.5}), "day": people({"raw:10": 0.6, "swapped:10": 0.6})}
    runs = []
    for place in range(2):
        rows = [
            replace(row, item=f"{group}-{row.item}", cluster=f"{group}-{row.cluster}", tags={"shift": group})
            for group, members in parts.items()
            for row in members[place].rows
        ]
        runs.append(replace(parts["day"][place], rows=tuple(rows), items=len(rows)))
    return _roles(*runs)


def test_the_worst_group_has_the_smallest_gain() -> None:
    found = gain_by_tag(_two_groups(), "shift")
    assert list(found.groups) == ["day", "night"]
    assert (found.worst, found.metric) == ("day", "gain")
    assert found.lowest is not None
    assert found.gap is not None
    assert found.lowest.value == pytest.approx(found.groups["day"].value, abs=1e-12)
    assert found.gap.value == pytest.approx(found.groups["night"].value - found.groups["day"].value, abs=1e-12)
    for looked, plain in ((found.lowest, found.groups["day"]),):
        assert looked.low is not None
        assert plain.low is not None
        assert looked.low < plain.low
    assert found.gap.low is not None
    assert 0.1 < found.gap.low < 0.4
    assert "Bonferroni" in found.gap.method


def test_a_group_is_measured_as_if_it_were_alone() -> None:
    made = _two_groups()
    own, swapped = made.sides["own"], made.sides["swapped"]
    night = [place for place, row in enumerate(own.rows) if row.tags["shift"] == "night"]
    assert gain_by_tag(made, "shift").groups["night"] == difference(own.part(night), swapped.part(night))


def test_a_blind_model_has_no_worst_group() -> None:
    (own,) = people({"raw:10": 0.7})
    made = _roles(own, replace(own, condition="swapped:10", reveals=frozenset({"other_posts"})))
    found = gain_by_tag(made, "shift")
    assert (found.worst, found.lowest, found.gap) == (None, None, None)
    assert all(one.value == 0 and one.low is None for one in found.groups.values())


def test_an_unknown_tag_and_a_missing_control_are_named() -> None:
    with pytest.raises(MetricError, match=r"no row has the tag 'shft'\. Did you mean 'shift'"):
        gain_by_tag(_two_groups(), "shft")
    with pytest.raises(MetricError, match="no gain of m under raw:10: no run in the role 'swapped'"):
        gain_by_tag(_roles(*people({"raw:10": 0.7})), "shift")


def test_the_gap_is_seldom_found_where_there_is_none() -> None:
    hits = 0
    for seed in range(100):
        found = gain_by_tag(_roles(*people({"raw:10": 0.7, "swapped:10": 0.6}, seed=seed)), "shift")
        hits += found.gap is not None and found.gap.low is not None and found.gap.low > 0
    # 5 in 100 are allowed; 11 or more would have a chance of 1%.
    assert hits <= 10


def test_the_cold_start_is_a_curve_over_the_number_of_posts() -> None:
    rates = {"none": 0.5, "raw:1": 0.55, "raw:5": 0.65, "raw:10": 0.7, "swapped:5": 0.55, "raw:10,by=random": 0.6}
    runs = people(rates)
    (found,) = cold_start(runs)
    by_condition = {run.condition: run for run in runs}
    assert (found.model, found.family) == ("m", "raw:K")
    assert list(found.accuracy) == [0, 1, 5, 10]
    for posts, condition in ((0, "none"), (1, "raw:1"), (5, "raw:5"), (10, "raw:10")):
        assert found.accuracy[posts] == measure(by_condition[condition])
    assert list(found.gain) == [5]
    (five,) = (one for one in personalization(runs) if one.conditions["own"] == "raw:5")
    assert found.gain[5] == five.gain
    told = json.loads(json.dumps(found.to_json()))
    assert list(told["accuracy"]) == ["0", "1", "5", "10"]


def test_families_differ_in_more_than_the_number_of_posts() -> None:
    rates = dict.fromkeys(
        ["raw:1", "raw:5", "recent:1", "recent:5", "persona:x,k=1", "persona:x,k=5", "raw:9,mmr=0.5"], 0.6
    )
    assert [found.family for found in cold_start(people(rates))] == ["persona:x,k=K", "raw:K", "recent:K"]
    assert cold_start(people({"none": 0.5, "raw:10": 0.6})) == []


def test_accuracy_within_a_run_goes_by_the_posts_that_were_seen() -> None:
    made = answering("raw:60", [1, 0] * 40)
    counts = [0, 1, 2, 3, 5, 6, 10, 11, 20, 21, 50, 51, 60, 60, 60, 60] * 5
    rows = [replace(row, posts=posts) for row, posts in zip(made.rows, counts, strict=True)]
    found = by_posts(rows)
    assert list(found) == ["0", "1–2", "3–5", "6–10", "11–20", "21–50", "51+"]
    assert [one.n for one in found.values()] == [5, 10, 10, 10, 10, 10, 25]
    assert sum(one.value * one.n for one in found.values()) == pytest.approx(40)
    with pytest.raises(MetricError, match="the model saw 6–10 posts on every item"):
        by_posts([replace(row, posts=7) for row in rows])
    assert personalization([replace(made, rows=tuple(rows))])[0].by_posts == found


def test_sides_agree_on_what_was_said() -> None:
    right, wrong = (RunItems(answering("none", [answer] * 3).rows) for answer in (1, 0))
    assert right.same_as(right)
    assert not right.same_as(wrong)
    failed = RunItems(answering("none", ["x"] * 3).rows)
    assert not failed.same_as(failed)
    assert np.array_equal(failed.at_best, [1.0, 1.0, 1.0])


def test_records_of_a_tag_end_with_the_lowest_groups_and_the_gaps() -> None:
    runs = people({"none": 0.6, "raw:10": 0.8, "swapped:10": 0.6})
    own = runs[1]
    records = {str(record["shift"]): record for record in tag_records([own], runs, "shift", {"m": "m"})}
    accuracy, (members,) = by_tag(own, "shift"), roles(runs)
    gain = gain_by_tag(members, "shift")
    assert list(records) == [
        "day",
        "night",
        f"lowest: {accuracy.worst}",
        "highest minus lowest",
        f"lowest gain: {gain.worst}",
    ]
    for label, name, estimate in (
        (f"lowest: {accuracy.worst}", "accuracy", accuracy.lowest),
        (f"lowest gain: {gain.worst}", "gain", gain.lowest),
        ("highest minus lowest", "accuracy", accuracy.gap),
        ("highest minus lowest", "gain", gain.gap),
    ):
        assert estimate is not None
        assert (records[label][name], records[label][f"{name}_low"]) == (estimate.value, estimate.low)
