"""A training that a second reward watches: its answers are scored again, once each, also after a kill."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.core import Query, Verdict
from pluralrm.errors import RunError
from pluralrm.serve.watch import ROLLOUTS, WATCH, SecondReward, WatchLine
from tests.training.ppo.trained import Letters, job

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.training.job import PpoJob

pytestmark = pytest.mark.hf


class Short:
    """Likes short answers, and counts how often it was asked."""

    def __init__(self, spec: str = "short") -> None:
        self.spec, self.calls = spec, 0

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            self.calls += 1
            yield Verdict(tuple(-float(len(text)) for text in query.candidates))


def watched(policy: "LocalPolicy", model: Short) -> "PpoJob":
    plain = job(policy)
    return replace(plain, watch=SecondReward(model, plain.condition, plain.benchmark, Letters(), plain.condition))


def lines(folder: Path) -> list[WatchLine]:
    return list(WATCH.lines(folder / "watch" / ROLLOUTS, WatchLine))


def test_every_step_is_scored_again_and_resumed_as_if_never_stopped(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    whole, model = train(watched(taught, Short()), tmp_path / "whole", steps=4), Short()
    train(watched(taught, model), tmp_path / "parts", steps=2)
    half = model.calls
    assert half == len(lines(tmp_path / "parts"))
    parts = train(watched(taught, model), tmp_path / "parts", steps=4)
    assert model.calls == len(lines(tmp_path / "parts"))
    for file in ("metrics.jsonl", f"watch/{ROLLOUTS}"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    watch = whole.steps[3].watch
    assert watch is not None
    assert (watch.prompts, watch.alarms) == (len(lines(tmp_path / "whole")), {})
    assert parts.steps == whole.steps
    for line in lines(tmp_path / "whole"):
        assert line.seconds == tuple(-float(len(text)) for text in line.answers)
        assert line.others == line.rewards  # the control of this test shows the same


def test_a_watch_changes_nothing_of_the_training(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    plain = train(job(taught), tmp_path / "plain", steps=2)
    seen = train(watched(taught, Short()), tmp_path / "seen", steps=2)
    assert [line.model_copy(update={"watch": None}) for line in seen.steps.values()] == list(plain.steps.values())


def test_another_second_reward_does_not_resume_a_training(taught: "LocalPolicy", tmp_path: Path) -> None:
    from pluralrm.training.ppo import train

    train(watched(taught, Short()), tmp_path, steps=1)
    with pytest.raises(RunError, match="another watch"):
        train(watched(taught, Short("tiny")), tmp_path, steps=2)
