"""What a model makes of the prompt: an algebraic identity, brute force, and scorers whose habits are known."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import Failure, Row, Run, Score
from pluralrm.errors import MetricError
from pluralrm.metrics import by_tag, measure
from pluralrm.metrics.prompts import PromptUse, prompt_use
from tests.metrics.rows import RESPONSES, Scorer, chance, constant, prompt_blind, records, run, users

LEVELS = {
    "Formality": ("casual", "informal", "neutral", "formal", "highly_formal"),
    "Conciseness": ("terse", "concise", "moderate", "detailed", "verbose"),
}


def _level(record: str, dimension: str, response: str) -> str:
    """Return the style that a seed has given to a response of a record."""
    return random.Random(f"{record}:{dimension}:{response}").choice(LEVELS[dimension])


def _styled(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the winner's style in their tags, as the loader writes them."""
    return [
        replace(
            row, tags={**row.tags, **{f"winner:{name}": _level(row.cluster, name, _winner(row)) for name in LEVELS}}
        )
        for row in rows
    ]


def _winner(row: Row) -> str:
    return row.candidate_ids[row.best[0]]


def _use(count: int, scorer: Scorer, **changes: int) -> PromptUse:
    return prompt_use(run(_styled(records(count, scorer, **changes))))


def _wants_verbose(record: str, item: str, name: str) -> Score:
    """A scorer that likes whatever is verbose, and is otherwise a coin."""
    return (_level(record, "Conciseness", name) == "verbose") + random.Random(f"{item}:{name}").random() / 2


# ------------------------------------------------------------ sensitivity


@given(st.integers(0, 2**20))
def test_sensitivity_is_bon_moved_to_zero_for_the_blind_and_one_for_the_perfect(seed: int) -> None:
    rng = random.Random(seed)
    ties, failures = rng.choice([0, 0.4]), rng.choice([0, 0.3])

    def scorer(record: str, item: str, name: str) -> Score:
        own = random.Random(f"{seed}:{record}:{item}:{name}")
        if own.random() < failures / 4:
            return Failure("parse")
        return float(own.randint(0, 1)) if own.random() < ties else own.random()

    made = run(records(6, scorer, seed=seed))
    # Four groups, each won once: what the winner of a prompt earns under the others is what those prompts let slip.
    assert prompt_use(made).sensitivity.value == pytest.approx((4 * measure(made, "bon").value - 1) / 3, abs=1e-12)


def test_sensitivity_by_brute_force() -> None:
    rows = records(3, chance)
    total = 0.0
    for one in rows:
        others = [
            float(_favourite(other) == _winner(one))
            for other in rows
            if other.cluster == one.cluster and other.tags["group"] != one.tags["group"]
        ]
        assert len(others) == 9
        total += float(_favourite(one) == _winner(one)) - sum(others) / 9
    # Three records in three domains: the mean over domains is the mean over prompts.
    assert prompt_use(run(rows)).sensitivity.value == pytest.approx(total / 36, abs=1e-12)


def _favourite(row: Row) -> str:
    return max(zip(row.scores, row.candidate_ids, strict=True))[1]


def test_a_prompt_blind_scorer_has_exactly_none_by_design() -> None:
    for scorer, favourite in ((prompt_blind, 1.0), (constant, 0.0)):
        found = _use(10, scorer)
        assert (found.sensitivity.value, found.sensitivity.low, found.sensitivity.high) == (0.0, None, None)
        assert "fixed by design" in found.sensitivity.method
        assert (found.one_favourite.value, found.one_favourite.low) == (favourite, None)


def test_a_perfect_scorer_has_all_of_it() -> None:
    def perfect(record: str, item: str, name: str) -> Score:
        del record
        return float(name == RESPONSES[int(item.split("/")[1])])

    found = _use(12, perfect)
    assert found.sensitivity.value == 1
    assert found.sensitivity.low is not None
    assert 0.5 < found.sensitivity.low < 1
    assert found.one_favourite.value == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.booleans())
def test_failing_never_raises_the_sensitivity(seed: int, whole: bool) -> None:
    rng = random.Random(seed)
    rows = records(5, chance, seed=seed)
    chosen = {row.item for row in rows if rng.random() < 0.6}
    broken = Failure("parse")
    failed = [
        replace(row, scores=(broken,) * 4 if whole else (broken, *row.scores[1:])) if row.item in chosen else row
        for row in rows
    ]
    before, after = prompt_use(run(rows)), prompt_use(run(failed))
    assert after.sensitivity.value <= before.sensitivity.value + 1e-12
    assert after.sensitivity.failed == len(chosen)
    assert after.one_favourite.failed == len({item.split("/")[0] for item in chosen})


@pytest.mark.slow
def test_the_interval_of_the_sensitivity_covers_nothing_for_a_scorer_at_random() -> None:
    hits = 0
    for seed in range(100):
        found = prompt_use(run(records(48, _seeded(seed)))).sensitivity
        hits += found.low is not None and found.high is not None and found.low <= 0 <= found.high
    # 95% of 100, with a standard deviation of 2.2.
    assert hits >= 89


def _seeded(seed: int) -> Scorer:
    """A scorer at random whose likings go with the record, so that the twelve prompts of one are alike."""
    rng = random.Random(seed)
    likings: dict[tuple[str, str], float] = {}

    def scorer(record: str, item: str, name: str) -> Score:
        del item
        return likings.setdefault((record, name), 3 * rng.random()) + rng.random()

    return scorer


# ------------------------------------------------------------ one favourite


def test_one_favourite_is_counted_by_record() -> None:
    rows = records(40, _seeded(3))
    expected = []
    for name in {row.cluster for row in rows}:
        favourites = {_favourite(row) for row in rows if row.cluster == name}
        expected.append(len(favourites) == 1)
    found = prompt_use(run(rows)).one_favourite
    # Forty records, ten in each domain.
    assert found.value == pytest.approx(sum(expected) / 40, abs=1e-12)
    assert 0 < found.value < 1
    assert (found.n, found.failed) == (40, 0)


def test_a_tie_or_a_failure_is_no_favourite() -> None:
    rows = records(8, prompt_blind)
    best = {row.item: max(score for score in row.scores if isinstance(score, float)) for row in rows}
    tied = replace(rows[0], scores=(best[rows[0].item],) * 4)
    broken = replace(rows[12], scores=(Failure("parse"), *rows[12].scores[1:]))
    found = prompt_use(run([tied, *rows[1:12], broken, *rows[13:]]))
    assert found.one_favourite.value == 6 / 8
    assert found.one_favourite.failed == 1


# ------------------------------------------------------------ styles


def test_picks_by_brute_force() -> None:
    rows = _styled(records(20, chance))
    found = prompt_use(run(rows))
    assert {(pick.dimension, pick.level) for pick in found.picks} == {
        (name, level) for name, levels in LEVELS.items() for level in levels
    }
    for pick in found.picks:
        picked, offered = [], []
        for row in rows:
            has = {name: _level(row.cluster, pick.dimension, name) == pick.level for name in RESPONSES}
            if any(has.values()) and not all(has.values()):
                picked.append(has[_favourite(row)])
                offered.append(sum(has.values()) / 4)
        assert pick.picked.n == len(picked)
        assert pick.picked.value == pytest.approx(sum(picked) / len(picked), abs=1e-12)
        assert pick.offered.value == pytest.approx(sum(offered) / len(offered), abs=1e-12)
        assert pick.excess.value == pytest.approx(pick.picked.value - pick.offered.value, abs=1e-12)
    assert [pick.excess.value for pick in found.picks] == sorted((p.excess.value for p in found.picks), reverse=True)


def test_a_model_that_always_picks_one_style_is_found_out() -> None:
    found = _use(60, _wants_verbose)
    assert [(pick.dimension, pick.level) for pick in found.picks if pick.favoured] == [("Conciseness", "verbose")]
    assert found.picks[0].picked.value == 1
    assert any(pick.avoided for pick in found.picks)
    assert not any(pick.avoided for pick in found.picks if pick.dimension == "Formality")


def test_a_constant_scorer_picks_what_is_offered() -> None:
    for pick in _use(20, constant).picks:
        assert pick.picked.value == pytest.approx(pick.offered.value, abs=1e-12)
        assert (pick.excess.value, pick.excess.low) == (0.0, None)
        assert not pick.favoured


def test_a_silent_model_picks_nothing() -> None:
    def silent(record: str, item: str, name: str) -> Score:
        del record, item, name
        return Failure("empty")

    found = _use(20, silent)
    assert all(pick.picked.value == 0 and pick.picked.failed == pick.picked.n for pick in found.picks)
    assert not any(pick.favoured for pick in found.picks)


@pytest.mark.slow
def test_a_scorer_at_random_seldom_seems_to_have_a_favourite_style() -> None:
    wrongly = 0
    for seed in range(40):
        found = prompt_use(run(_styled(records(32, _seeded(seed)))))
        wrongly += any(pick.favoured or pick.avoided for pick in found.picks)
    # The whole family of levels errs in 5% at most: 2 expected at worst, 6 or more has a chance of 1.4%.
    assert wrongly <= 5


def test_accuracy_by_the_winners_style_is_that_of_the_tag() -> None:
    made = run(_styled(records(12, chance)))
    found = prompt_use(made)
    assert list(found.styles) == ["Conciseness", "Formality"]
    assert found.styles["Formality"] == by_tag(made, "winner:Formality", "bon")


def test_rows_without_styles_have_no_picks() -> None:
    found = prompt_use(run(records(5, chance)))
    assert (found.picks, dict(found.styles)) == ((), {})


# ------------------------------------------------------------ names, order, refusals


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**20))
def test_the_order_of_rows_and_the_places_of_candidates_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    rows = _styled(records(8, _seeded(seed)))
    mixed = [_placed(row, rng.sample(range(4), 4)) for row in rng.sample(rows, len(rows))]
    assert json.dumps(prompt_use(run(rows)).to_json()) == json.dumps(prompt_use(run(mixed)).to_json())


def _placed(row: Row, order: Sequence[int]) -> Row:
    return replace(
        row,
        preferred=order.index(row.preferred),
        scores=tuple(row.scores[place] for place in order),
        candidate_ids=tuple(row.candidate_ids[place] for place in order),
    )


def _one_group(made: Run) -> Run:
    rows = tuple(row for row in made.rows if row.tags["group"] == "0")
    return replace(made, rows=rows, items=len(rows))


def test_what_cannot_be_measured_is_named() -> None:
    with pytest.raises(MetricError, match="'i0000' has no tag 'record'"):
        prompt_use(run(users(5, 0.5)))
    with pytest.raises(MetricError, match="m under none has no rows"):
        prompt_use(run([]))
    made = run(_styled(records(3, chance)))
    with pytest.raises(MetricError, match="m under none is incomplete: 36 of 40 items"):
        prompt_use(replace(made, items=40, complete=False))
    with pytest.raises(MetricError, match="record 'r000' has one group of prompts"):
        prompt_use(_one_group(made))
    untagged = [
        replace(row, tags={k: v for k, v in row.tags.items() if k != "winner:Formality"})
        if row.cluster == "r001"
        else row
        for row in made.rows
    ]
    with pytest.raises(MetricError, match="wins no prompt of its record that has the tag 'winner:Formality'"):
        prompt_use(replace(made, rows=tuple(untagged)))


def test_prompt_use_speaks_json() -> None:
    told = json.loads(json.dumps(_use(6, chance).to_json()))
    assert set(told["prompt_sensitivity"]) == {"value", "low", "high", "n", "failed", "method"}
    assert {"picked", "offered", "excess", "favoured", "avoided"} < set(told["picks"][0])
    assert set(told["styles"]) == set(LEVELS)
