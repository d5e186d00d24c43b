"""Who is trained on, which prompts a step has, what can be chosen, how a reward is scaled: all without torch."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Benchmark, Item, User
from pluralrm.errors import BenchmarkError, ModelError, SpecError
from pluralrm.training.job import (
    TrainingPrompt,
    UserParts,
    asker,
    check_disjoint,
    of_step,
    questions,
    split,
    watched_steps,
)
from pluralrm.training.rewards import Shaping, parse_shaping, scale_of, write_scale
from pluralrm.training.settings import PpoSettings, read_ppo_settings
from tests.training.ppo.tones import tones_benchmark


@given(st.integers(3, 40), st.integers(1, 3), st.integers(0, 99), st.sampled_from([(0.1, 0.2), (0.0, 0.3), (0.0, 0.0)]))
def test_no_user_is_in_two_parts_and_none_is_lost(
    users: int, items: int, seed: int, shares: tuple[float, float]
) -> None:
    bench = tones_benchmark(users, items)
    parts = split(bench.items, seed, validation=shares[0], test=shares[1])
    assert sorted(item.id for part in parts for item in part) == sorted(item.id for item in bench.items)
    assert len({asker(item) for item in bench.items}) == sum(len(set(map(asker, part))) for part in parts)
    assert parts.train
    assert (bool(parts.validation), bool(parts.test)) == (shares[0] > 0, shares[1] > 0)
    assert parts == split(bench.items, seed, validation=shares[0], test=shares[1])


@given(
    users=st.integers(4, 30),
    others=st.integers(4, 40),
    items=st.integers(2, 3),
    limit=st.none() | st.integers(1, 50),
    seed=st.integers(0, 9),
)
def test_whose_questions_are_asked_has_not_been_met_in_training(
    *, users: int, others: int, items: int, limit: int | None, seed: int
) -> None:
    """Users have one id in both benchmarks; the ids that two clusters share make one person of them."""
    bench, other = tones_benchmark(users, 2), _with_second_ids(tones_benchmark(others, items, seed=seed))
    parts = split(bench.items, seed, validation=0.2, test=0.2)
    met = {asker(item) for part in parts[:2] for item in part}
    fresh = [item for item in other.items if not {asker(item), _first_id(asker(item))} & met]
    if not fresh:
        with pytest.raises(BenchmarkError, match=r"all .* items are of users who are trained on or watched"):
            questions(bench, parts, other, limit=limit)
        return
    found = questions(bench, parts, other, limit=limit)
    assert found.left_out == len(other.items) - len(fresh)
    assert {item.id for item in found.items} <= {item.id for item in fresh}
    clusters = len({item.cluster for item in fresh})
    assert len({item.cluster for item in found.items}) == (clusters if limit is None else min(limit, clusters))
    assert found == questions(bench, parts, other, limit=limit)
    assert found.place.startswith("on-tones-")


def _with_second_ids(bench: Benchmark) -> Benchmark:
    """Return a benchmark in which the last item of every third user is asked under another id of hers."""
    last = {item.cluster: item.id for item in bench.items}
    second = [
        replace(item, user=User(f"{item.user.id}-again", item.user.posts))
        if item.user and item.id == last[item.cluster] and int(item.user.id[1:]) % 3 == 0
        else item
        for item in bench.items
    ]
    return replace(bench, items=tuple(second), content_hash="")


def _first_id(user: str) -> str:
    return user.removesuffix("-again")


def test_a_user_in_two_parts_is_refused_by_name() -> None:
    items = tones_benchmark(3, 2).items
    with pytest.raises(BenchmarkError, match="1 users are in train and in test, such as 'u001'"):
        check_disjoint(UserParts(items[:3], (), items[3:]))


def test_clusters_of_one_user_stay_together() -> None:
    user = User("u")
    items = [Item(f"i{n}", "?", (), None, f"cluster{n}", "d", user=user) for n in range(4)]
    others = list(tones_benchmark(2, 1).items)
    parts = split([*items, *others], 0, validation=0.3, test=0.0)
    assert any({item.id for item in part} >= {"i0", "i1", "i2", "i3"} for part in parts)


def test_every_prompt_comes_once_in_each_epoch_whatever_the_batch() -> None:
    bench: Benchmark = tones_benchmark(4, 2)
    prompts = [TrainingPrompt(item, None, (), "") for item in bench.items]  # type: ignore[arg-type] # no query is looked at
    for batch in (1, 3, 8, 11):
        steps = 24 // batch + 1
        order = [one.item.id for step in range(steps) for one in of_step(prompts, step, batch=batch, seed=7)][:24]
        assert all(len(set(order[start : start + 8])) == 8 for start in (0, 8, 16))
        assert order[:8] != order[8:16]
        assert order == [one.item.id for step in range(24) for one in of_step(prompts, step, batch=1, seed=7)]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ({"clib": "1"}, "Did you mean 'clip'"),
        ({"clip": "0"}, "a number from 1e-09 to 1"),
        ({"batch": "0.5"}, "a whole number"),
        ({"batch": "0"}, "at least 1"),
        ({"actor_rate": "nan"}, "at least 0"),
        ({"kl": "k4"}, "wanted k1, k2, k3"),
        ({"kl_in": "loss"}, "gradient of mean 0"),
        ({"whiten": "yes"}, "True or False"),
        ({"kl_target": "6", "kl_in": "none"}, "no penalty to adapt"),
        ({"kl_target": "6", "kl_coefficient": "0"}, "no penalty to adapt"),
        ({"kl_target": "6", "kl_horizon": "20", "batch": "100"}, "more than a fifth of the 100 answers"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(texts: dict[str, str], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        read_ppo_settings(texts)


def test_settings_are_read_back_from_what_is_written() -> None:
    chosen = PpoSettings(batch=3, whiten=False, kl_in="loss", kl="k3", actor_rate=5e-7)
    assert read_ppo_settings(chosen.to_json()) == chosen


def test_a_reward_on_a_reference_pool_has_mean_0_and_deviation_1(tmp_path: Path) -> None:
    scores, file = [3.0, 5.0, 10.0, -2.0], tmp_path / "scales" / "m.json"
    write_scale(scale_of(scores, model="m", condition="none", pool_hash="p", failed=1), file)
    shaping = parse_shaping(f"z:{file}")
    shaped = [shaping.shaped(score) for score in scores]
    assert sum(shaped) == pytest.approx(0.0)
    assert sum(value**2 for value in shaped) / 3 == pytest.approx(1.0)
    assert json.loads(file.read_text())["model"] == "m"
    clipped = parse_shaping(f"z:{file},clip=0.5")
    assert [clipped.shaped(score) for score in scores] == [min(0.5, max(-0.5, value)) for value in shaped]
    shaping.check("m", "none")
    for model, condition in (("n", "none"), ("m", "raw:3")):
        with pytest.raises(ModelError, match="the scale is that of m under none"):
            shaping.check(model, condition)


def test_shapings_of_models_that_can_be_compared_are_one_way(tmp_path: Path) -> None:
    """Each model has a mean of its own; pool and clip are common, or the rewards are on different scales."""
    ways = []
    for number, (pool, clip) in enumerate([("p", ""), ("p", ""), ("q", ""), ("p", ",clip=2")]):
        file = tmp_path / f"{number}.json"
        write_scale(scale_of([0.0, number + 1.0], model=f"m{number}", condition="none", pool_hash=pool), file)
        ways.append(parse_shaping(f"z:{file}{clip}").way)
    assert ways[0] == ways[1]
    assert len({*ways, Shaping("raw").way, parse_shaping("raw,clip=2").way}) == 5


def test_a_raw_reward_is_the_score() -> None:
    assert Shaping("raw").shaped(-3.25) == -3.25


@pytest.mark.parametrize("text", ["z", "z:nowhere.json", "raw,clip=-1", "raw,clip=x", "log"])
def test_a_shaping_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_shaping(text)


def test_scores_that_do_not_differ_have_no_scale() -> None:
    with pytest.raises(ModelError, match="there is no scale"):
        scale_of([0.7] * 5, model="m", condition="none", pool_hash="p")


def test_the_watched_users_are_asked_every_so_often_and_once_after_the_last_step() -> None:
    assert watched_steps(0, 6, every=4, evaluated=()) == {0, 4, 6}
    assert watched_steps(0, 8, every=4, evaluated=()) == {0, 4, 8}
    assert watched_steps(8, 8, every=4, evaluated={0, 4, 8}) == set()
    assert watched_steps(4, 6, every=4, evaluated={0, 4}) == {4, 6}, "the training that went to 4 goes on from there"
    assert watched_steps(6, 6, every=4, evaluated={0, 4}) == {6}, "a kill came before the last evaluation"
