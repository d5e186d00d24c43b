"""A failed reward is no number: it stops the training, or is left out; an outage never trains anything."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.core import Failure, Score
from pluralrm.errors import ModelError, OutageError
from tests.training.grpo.trained import DRAWN, WATCHED, Asked, job, left, letters, weights

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf
LONG = Failure("too_long", "9,000 tokens")
GONE = Failure("transport", "connection refused")


def every(second: int, failure: Failure, otherwise: Callable[[str], float]) -> Callable[[str, int], Score]:
    return lambda text, place: failure if place % second == 0 else otherwise(text)


def test_a_failed_reward_stops_the_training_unless_it_is_masked(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train

    failing = every(5, LONG, letters)
    with pytest.raises(ModelError, match=r"too_long.*on_failure=mask"):
        train(job(taught, Asked(failing), validation=0.0), tmp_path / "out", steps=1)
    assert not (tmp_path / "out" / "policy").exists()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["status"] == "incomplete"


def test_a_failed_reward_that_is_masked_teaches_nothing(taught: "LocalPolicy", tmp_path: Path) -> None:
    """All that were scored have one reward, so nothing is to be learned; any number for None would change that."""
    from pluralrm.training.grpo import train

    reward = Asked(every(3, LONG, lambda _: 0.5))
    masked = job(taught, reward, validation=0.0, kl_coefficient=0.0, on_failure="mask")
    done = train(masked, tmp_path / "out", steps=2)
    assert weights(done.policy) == weights(taught.folder.path)
    for step in done.steps.values():
        assert (step.masked, step.failures, step.reward, step.norm) == (4, {"too_long": 4}, 0.5, 0.0)


def test_a_number_for_a_failed_reward_would_have_moved_the_weights(taught: "LocalPolicy", tmp_path: Path) -> None:
    """The control of the claim above: with 0 in the place of None, the weights are others."""
    from pluralrm.training.grpo import train

    invented = Asked(lambda _, place: 0.0 if place % 3 == 0 else 0.5)
    done = train(job(taught, invented, validation=0.0, kl_coefficient=0.0), tmp_path / "out", steps=2)
    assert weights(done.policy) != weights(taught.folder.path)


def test_a_group_without_any_reward_leaves_the_others_to_teach(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train

    def first_group_fails(text: str, place: int) -> Score:
        return LONG if place % DRAWN < 4 else letters(text)

    done = train(job(taught, Asked(first_group_fails), validation=0.0, on_failure="mask"), tmp_path / "out", steps=2)
    assert weights(done.policy) != weights(taught.folder.path)
    assert all(step.masked == 4 and step.norm > 0 for step in done.steps.values())


def test_an_outage_that_is_masked_stops_before_it_trains_on_what_is_left(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train

    reward = Asked(lambda text, place: letters(text) if place < DRAWN else GONE)
    with pytest.raises(OutageError, match="12 of 12 answers of step 1 have no reward"):
        train(job(taught, reward, validation=0.0, on_failure="mask"), tmp_path / "out", steps=3)
    assert len((tmp_path / "out" / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_training_goes_on_after_an_outage_as_if_there_had_been_none(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train

    train(job(taught), tmp_path / "one", steps=3)
    down = WATCHED + 2 * DRAWN + 5  # in the third step
    outage = Asked(lambda text, place: GONE if place == down else letters(text))
    with pytest.raises(OutageError, match=r"transport.*the same command resumes"):
        train(job(taught, outage), tmp_path / "two", steps=3)
    assert json.loads((tmp_path / "two" / "run.json").read_text())["steps"] == 2
    train(job(taught), tmp_path / "two", steps=3)
    assert left(tmp_path / "one") == left(tmp_path / "two")


def test_what_stops_in_the_middle_of_a_step_goes_back_to_the_checkpoint(
    taught: "LocalPolicy", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while gradients are computed: the step is drawn, rewarded and learned from anew."""
    import trl

    from pluralrm.training.grpo import train

    train(job(taught, checkpoint_every=2, updates=3), tmp_path / "one", steps=3)
    compute = trl.GRPOTrainer.compute_loss
    passes = 0

    def interrupted(self, *given, **named):
        nonlocal passes
        passes += 1
        if passes == 8:  # the third step's second
            raise KeyboardInterrupt
        return compute(self, *given, **named)

    monkeypatch.setattr(trl.GRPOTrainer, "compute_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(job(taught, checkpoint_every=2, updates=3), tmp_path / "two", steps=3)
    monkeypatch.undo()
    train(job(taught, checkpoint_every=2, updates=3), tmp_path / "two", steps=3)
    assert left(tmp_path / "one") == left(tmp_path / "two")


def test_an_outage_in_the_last_look_costs_no_step(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.grpo import train

    train(job(taught), tmp_path / "one", steps=2)
    down = WATCHED + 2 * DRAWN + 1
    outage = Asked(lambda text, place: GONE if place == down else letters(text))
    with pytest.raises(OutageError, match="transport"):
        train(job(taught, outage), tmp_path / "two", steps=2)
    again = Asked()
    train(job(taught, again), tmp_path / "two", steps=2)
    assert again.answers == WATCHED
    assert left(tmp_path / "one") == left(tmp_path / "two")
