"""No reward is made up: what failed stops the training, or is left out of it to the last bit."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Failure, FailureKind, Query, Verdict
from pluralrm.errors import ModelError, OutageError, ServiceError
from pluralrm.models import load_model
from pluralrm.serve.client import RewardClient
from pluralrm.serve.server import open_server
from pluralrm.training.rewards import LocalRewarder, RewardRequest, Rewards, check_enough, rewarded, scored_by, served
from tests.serve.running import running
from tests.training.ppo.trained import Letters, job

if TYPE_CHECKING:
    import torch

    from pluralrm.policies.local import LocalPolicy

BENCH, NONE = load_benchmark("pocket-prb"), load_condition("none")
ITEMS = BENCH.items[:3]


class Failing:
    """Gives the length as a score, but fails on answers that say so."""

    spec = "failing"

    def __init__(self, kind: FailureKind = "parse") -> None:
        self.kind = kind

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(
                tuple(Failure(self.kind, "as told") if "fail" in one else float(len(one)) for one in query.candidates)
            )


def asked(*answers: tuple[str | Failure, ...]) -> list[RewardRequest]:
    return [RewardRequest(item, several) for item, several in zip(ITEMS, answers, strict=False)]


def test_rewards_come_in_the_order_of_the_answers() -> None:
    lost = Failure("parse", "reasoning without an end")
    found = rewarded(LocalRewarder(Failing(), NONE, BENCH), asked(("four", "five5"), (lost, "si"), ("",)), "mask")
    assert found.rewards == [4.0, 5.0, None, 2.0, 0.0]
    assert found.failures == {"parse": 1}


@pytest.mark.parametrize(("kind", "error"), [("parse", ModelError), ("transport", OutageError), ("crash", ModelError)])
def test_a_failed_reward_raises_or_is_none(kind: FailureKind, error: type[Exception]) -> None:
    rewarder, answers = LocalRewarder(Failing(kind), NONE, BENCH), asked(("good", "fail"), ("good",))
    with pytest.raises(error, match=f"1 of 3 answers have no reward .{kind}: as told"):
        rewarded(rewarder, answers, "raise")
    assert rewarded(rewarder, answers, "mask").rewards == [4.0, None, 4.0]


def test_a_number_that_a_tensor_would_make_infinite_is_a_failed_reward() -> None:
    class Steep(Letters):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            return (Verdict(tuple({"a": 1e39, "b": -1e300}.get(one, 1.0) for one in q.candidates)) for q in queries)

    here, answers = LocalRewarder(Steep(), NONE, BENCH), asked(("a", "x", "b"))
    assert rewarded(here, answers, "mask") == Rewards([None, 1.0, None], {"nonfinite": 2})
    with pytest.raises(ModelError, match="nonfinite: 1e\\+39 is beyond float32"):
        rewarded(here, answers, "raise")


def test_a_server_gives_what_the_model_gives_here_and_another_one_is_refused() -> None:
    model = load_model("longest")
    server = open_server(model, NONE, BENCH, relative=False, run="r1")
    answers = asked(("one", "three"), ("", "seven77"))
    here = rewarded(LocalRewarder(model, NONE, BENCH), answers, "raise").rewards
    with running(server) as url:
        there = served(RewardClient(url, run="r1"), BENCH, "none", "raise")
        assert rewarded(there, answers, "raise").rewards == here
        assert there.spec == "served:longest"
        assert scored_by(there) == scored_by(LocalRewarder(model, NONE, BENCH)) == "longest"
        with pytest.raises(ServiceError, match="of run 'r1', wanted 'r2'"):
            served(RewardClient(url, run="r2"), BENCH, "none", "raise")
        with pytest.raises(ServiceError, match="condition is 'none', wanted 'raw:3'"):
            served(RewardClient(url, run="r1"), BENCH, "raw:3", "raise")
        with pytest.raises(ServiceError, match="benchmark hash"):
            served(RewardClient(url, run="r1"), load_benchmark("pocket-prb", seed=1), "none", "raise")


@pytest.mark.parametrize("how", ["raise", "mask"])
def test_a_server_that_goes_away_gives_no_number(how: str) -> None:
    server = open_server(load_model("longest"), NONE, BENCH, relative=False, run="r1")
    with running(server) as url:
        client = RewardClient(url, run="r1", seconds=240)
        there = served(client, BENCH, "none", how)  # type: ignore[arg-type] # of the parameters
    client._seconds = 1.0
    if how == "raise":
        with pytest.raises(OutageError, match="gave no answer"):
            rewarded(there, asked(("one",)), "raise")
    else:
        found = rewarded(there, asked(("one", "two")), "mask")
        assert found.rewards == [None, None]
        assert found.failures == {"transport": 2}


class Patchy(Letters):
    """Fails on every third answer, or gives it a number of the test's choice instead."""

    def __init__(self, instead: float | None = None) -> None:
        self.instead = instead

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for place, verdict in enumerate(super().score(queries)):
            lost = Failure("parse") if self.instead is None else self.instead
            yield Verdict((lost,) * len(verdict.scores)) if place % 3 == 0 else verdict


def weights(policy: "LocalPolicy", folder: Path, reward: Patchy) -> "dict[str, torch.Tensor]":
    from safetensors.torch import load_file

    from pluralrm.training.ppo import train

    train(job(policy, reward=reward, on_failure="mask", evaluate_every=9), folder, steps=2)
    return dict(load_file(folder / "policy" / "model.safetensors"))


@pytest.mark.hf
def test_an_answer_without_a_reward_teaches_nothing_and_is_not_taken_for_any_number(
    taught: "LocalPolicy", tmp_path: Path
) -> None:
    import torch

    from pluralrm.training.records import PpoStep, read_lines

    left_out = weights(taught, tmp_path / "masked", Patchy())
    for value in (0.0, 0.5, 1.0):
        as_number = weights(taught, tmp_path / str(value), Patchy(value))
        assert not all(torch.equal(left_out[name], as_number[name]) for name in left_out)
    told = read_lines(tmp_path / "masked" / "metrics.jsonl", PpoStep)
    assert [(one.answers, one.masked, one.failures) for one in told.values()] == [(6, 2, {"parse": 2})] * 2


@pytest.mark.hf
def test_what_is_masked_reaches_no_advantage_of_another_answer(taught: "LocalPolicy") -> None:
    """With and without the answer, those beside it have the same advantages, to the rounding of a wider tensor."""
    import torch

    from pluralrm.models.neural.loading import LoadSettings
    from pluralrm.training.actor import open_actor
    from pluralrm.training.job import assembled
    from pluralrm.training.ppo import batch_output, experience
    from pluralrm.training.rollout import AnswerBatch, answers_to

    found = job(taught)
    prompts = assembled(found.benchmark, found.benchmark.items[:6], found.condition, taught, max_tokens=12).prompts
    actor = open_actor(taught.folder, LoadSettings(device="cpu"), found.settings, seed=0)
    said = answers_to(actor.network, taught, prompts, found.settings.draw_by("x"), rows=4)
    rest = AnswerBatch(said.prompts[1:], said.answers[1:], said.texts[1:])
    rewards = [0.3, 1.0, 0.0, 1.0, 0.5]
    with_it = experience(batch_output(actor, said, rows=4), [None, *rewards], 0.1, found.settings)
    without = experience(batch_output(actor, rest, rows=4), rewards, 0.1, found.settings)
    for one, other in ((with_it.advantages, without.advantages), (with_it.returns, without.returns)):
        width = other.shape[1]
        assert torch.allclose(one[1:, :width], other, atol=1e-5)
        assert one[0].eq(0).all()
    assert not with_it.mask[0].any()


@pytest.mark.hf
def test_a_step_in_which_most_have_no_reward_stops(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    class Down(Letters):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            yield from (Verdict.failed("transport", "down", len(query.candidates)) for query in queries)

    with pytest.raises(OutageError, match="6 of 6 answers of step 0 have no reward"):
        train(job(taught, reward=Down(), on_failure="mask", most_masked=1.0, validation=0.0), tmp_path, steps=1)


def test_only_an_outage_is_worth_the_same_command_again() -> None:
    lost = Rewards([1.0, None, None], {"parse": 1, "transport": 1})
    with pytest.raises(OutageError, match=r"2 of 3 answers of step 4 .*the same command resumes"):
        check_enough("m", lost, step=4, most_masked=0.5)
    with pytest.raises(ModelError, match="would fail again"):
        check_enough("m", lost._replace(failures={"parse": 2}), step=4, most_masked=0.5)
    check_enough("m", lost, step=4, most_masked=0.7)
    with pytest.raises(ModelError, match="1 of 1"):
        check_enough("m", Rewards([None], {"empty": 1}), step=0, most_masked=1.0)


def test_what_compares_answers_has_no_reward_for_one_alone_and_training_goes_on() -> None:
    """Watched users are asked once each; whatever else fails stops as ever."""
    answers = asked(("fail",), ("good",))
    alone = LocalRewarder(Failing("unsupported"), NONE, BENCH)
    assert rewarded(alone, answers, "raise", spared="unsupported") == Rewards([None, 4.0], {"unsupported": 1})
    for kind in ("parse", "transport"):
        with pytest.raises((ModelError, OutageError), match="1 of 2 answers have no reward"):
            rewarded(LocalRewarder(Failing(kind), NONE, BENCH), answers, "raise", spared="unsupported")
