"""Can a reward model be gamed? A rejected answer is changed in ways that make it no better, and should not win for it.

>>> import tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> found = robustness(load_benchmark("pocket-prb"), "longest", out=tempfile.mkdtemp(), attacks=["pad"])
>>> [sign.colour for sign in found.signs]
['red']

An attacked benchmark is a benchmark like any other, scored by the run loop into run folders like any others: what is
on disk is not scored again, and every number can be recomputed from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from pluralrm import runs
from pluralrm.attack.attacks import ATTACKED, ATTACKS, CONTROLS, Attack, Target, attacked, chosen, unsupported
from pluralrm.attack.effects import AttackSign, Colour, Effect, ProbedModel, effects, signs
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, RewardModel, Run
from pluralrm.display import json_fields
from pluralrm.errors import ConditionError, ModelError

__all__ = [
    "ATTACKED",
    "ATTACKS",
    "CONTROLS",
    "Attack",
    "AttackSign",
    "Colour",
    "Effect",
    "Robustness",
    "Target",
    "attacked",
    "chosen",
    "robustness",
    "unsupported",
]


class BenchmarkScorer(Protocol):
    """How a benchmark is scored: `runs.score`, or the same with options of one's own."""

    def __call__(self, benchmark: Benchmark, model: RewardModel | str, condition: Condition, *, out: str | Path) -> Run:
        """Return the run."""
        ...


@dataclass(frozen=True, slots=True)
class Robustness(ProbedModel):
    """What attacks do to one model under one condition; which were left out or stopped the model, and why."""

    effects: tuple[Effect, ...]
    skipped: Mapping[str, str]
    broken: Mapping[str, str]

    @property
    def signs(self) -> list[AttackSign]:
        """What is to be said about the model, red first."""
        return signs(self.effects, self.broken, failed=self.failed)

    @property
    def red(self) -> bool:
        """True where an attack is shown to work, or to make the model fail."""
        return any(sign.colour == "red" for sign in self.signs)

    def records(self) -> list[dict[str, object]]:
        """Return a flat row per attack."""
        about = {"benchmark": self.benchmark, "model": self.model, "condition": self.condition}
        return [about | effect.record() for effect in self.effects]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return self.head | json_fields(self, "effects", "skipped", "broken", "signs")


def robustness(
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    attacks: Sequence[str] = (),
    seed: int = 0,
    score: BenchmarkScorer = runs.score,
) -> Robustness:
    """Return what attacks (all, unless named) do to a model; `out` is the folder of the runs, which are resumed.

    What has no meaning under a condition is skipped with the reason; a ConditionError where nothing is left. An attack
    that stops a model which scored the benchmark as it is (it crashes on all of its first items) is a finding.
    """
    condition = load_condition(condition) if isinstance(condition, str) else condition
    base: Run | None = None
    results: dict[str, Run] = {}
    skipped: dict[str, str] = {}
    broken: dict[str, ModelError] = {}
    for attack in chosen(attacks):
        changed = _changed(attack, benchmark, condition, seed=seed)
        if isinstance(changed, str):
            skipped[attack.name] = changed
            continue
        base = base or score(benchmark, model, condition, out=out)
        try:
            results[attack.name] = score(changed, model, condition, out=out)
        except ModelError as exc:
            broken[attack.name] = exc
    if base is None:
        raise ConditionError(_nothing(condition, skipped))
    if broken and not results:
        raise next(iter(broken.values()))  # no attack's doing: the base may have been on disk
    head = ProbedModel.of(base, complete=all(run.complete for run in (base, *results.values())))
    return Robustness(
        **{part.name: getattr(head, part.name) for part in fields(head)},
        effects=tuple(effects(base, results, seed=seed)),
        skipped=skipped,
        broken={name: str(exc) for name, exc in broken.items()},
    )


def _changed(attack: Attack, benchmark: Benchmark, condition: Condition, *, seed: int) -> Benchmark | str:
    """Return the attacked benchmark, or why there is none."""
    if (reason := unsupported(attack, benchmark, condition)) is not None:
        return reason
    changed = attacked(benchmark, attack, seed=seed)
    what = f"posts of {attack.quotes}" if attack.quotes else "a rejected answer"
    return changed if changed.items else f"no item of {benchmark.card.name} has {what}"


def _nothing(condition: Condition, skipped: Mapping[str, str]) -> str:
    reasons = "".join(f"\n  {name}: {reason}" for name, reason in skipped.items())
    return f"no attack can be tried under {condition.spec!r}:{reasons}"
