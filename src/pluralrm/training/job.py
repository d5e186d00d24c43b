"""What a training is, before it begins: its parts, their prompts, and what run.json says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pluralrm.core import Benchmark, Condition, Identified
from pluralrm.errors import BenchmarkError, ConditionError, SpecError
from pluralrm.grading import Grader
from pluralrm.journal import provenance
from pluralrm.models.shaping import Shaping
from pluralrm.policies.local import LocalPolicy
from pluralrm.runs.records import benchmark_record
from pluralrm.training.folder import check_begun
from pluralrm.training.prompts import Questions, TrainingPrompt, UserParts, asker, assembled, questions, split
from pluralrm.training.records import Algorithm, TrainingManifest
from pluralrm.training.rewards import Rewarder, scored_by
from pluralrm.training.settings import GrpoSettings, PpoSettings, TrainingSettings


@dataclass(frozen=True)
class TrainingJob:
    """Who is trained, on whom, by what. `condition` is what the policy sees, in training and whenever it is asked."""

    benchmark: Benchmark
    policy: LocalPolicy
    condition: Condition
    rewarder: Rewarder
    reward_condition: str
    settings: TrainingSettings
    shaping: Shaping = field(default_factory=lambda: Shaping("raw"))
    grader: Grader | None = None
    seed: int = 0
    domains: Sequence[str] = ()
    limit: int | None = None
    parts_seed: int | None = None
    """Of the parts; `seed` where left out. Trainings with several seeds on the same users have one."""

    def parts(self) -> UserParts:
        """Return the items of each part, which have no user in common; the same for every algorithm."""
        items = self.benchmark.select(domains=self.domains, limit=self.limit)
        chosen = self.settings
        seed = self.seed if self.parts_seed is None else self.parts_seed
        return split(items, seed, validation=chosen.validation, test=chosen.test)

    def questions(self, of: Benchmark | None = None) -> Questions:
        """Return what the policy is asked before and after: the test users' items, or those of another benchmark.

        Raise where no user is left, or no answer can be shown to the policy or graded.
        """
        parts = self.parts()
        if of is None:
            if not parts.test:
                raise BenchmarkError("there are no test users: the setting test is 0; wanted a share above it")
            return Questions(self.benchmark, parts.test)
        found = questions(self.benchmark, parts, of, domains=self.domains, limit=self.limit)
        if (reason := self.condition.unsupported(of)) is not None:
            raise ConditionError(f"{self.condition.spec}: {reason}")
        if self.grader is None:
            raise SpecError(f"no grader for the answers to the questions of {of.card.name}; wanted one")
        if (reason := self.grader.unsupported(found.items)) is not None:
            raise BenchmarkError(f"{of.card.name} {reason}")
        return found


class PreparedJob(NamedTuple):
    """A training's parts, the prompts of those that are asked in it, and what run.json begins with."""

    train: tuple[TrainingPrompt, ...]
    validation: tuple[TrainingPrompt, ...]
    manifest: TrainingManifest


def prepared_for(
    job: TrainingJob, kind: Algorithm, out: Path, *, steps: int, more: Mapping[str, str] | None = None
) -> PreparedJob:
    """Return what is known before any weight is loaded; raise where it cannot be trained, or not there.

    `more` is identity, of the algorithm.
    """
    if steps < 1:
        raise SpecError(f"steps is {steps}; wanted at least 1")
    job.shaping.check(scored_by(job.rewarder), job.reward_condition)
    facts = _facts(job, kind)
    check_begun(out, facts, steps)  # before gigabytes are hashed, and thousands of prompts assembled
    parts = job.parts()
    if job.grader is not None and (reason := job.grader.unsupported(parts.validation)) is not None:
        raise BenchmarkError(f"{job.benchmark.card.name} {reason}")
    found = {
        name: assembled(job.benchmark, items, job.condition, job.policy, max_tokens=job.settings.max_tokens)
        for name, items in parts._asdict().items()
    }
    left_out = {f"{name} {why}": count for name, one in found.items() for why, count in one.left_out.items()}
    users = {name: tuple(dict.fromkeys(map(asker, items))) for name, items in parts._asdict().items()}
    manifest = TrainingManifest.model_validate(
        {
            "status": "incomplete",
            **facts,
            "identity": {**_identity(job), **(more or {})},
            "reveals": sorted(job.condition.reveals),
            "reward_reveals": sorted(job.rewarder.reveals),
            "selection": {"items": sum(map(len, parts)), "domains": tuple(job.domains), "limit": job.limit},
            "parts": {**users, "left_out": left_out},
            "shortened": {name: one.shortened for name, one in found.items() if one.shortened},
            **provenance(),
        }
    )
    return PreparedJob(found["train"].prompts, found["validation"].prompts, manifest)


def _facts(job: TrainingJob, kind: Algorithm) -> dict[str, object]:
    """Return what of run.json can be told at once."""
    return {
        "kind": kind,
        "policy": job.policy.spec,
        "reward": job.rewarder.spec,
        "benchmark": benchmark_record(job.benchmark),
        "condition": job.condition.spec,
        "reward_condition": job.reward_condition,
        "settings": job.settings.to_json(),
        "shaping": job.shaping.identity,
        "grader": job.grader.spec if job.grader else "",
        "seed": job.seed,
    }


def _identity(job: TrainingJob) -> dict[str, str]:
    """Return what must not change while the training is resumed, by whose fact it is."""
    facts = {
        "policy": job.policy.identity,
        "condition": job.condition.identity if isinstance(job.condition, Identified) else {},
        "reward": job.rewarder.identity,
        "grader": job.grader.identity if job.grader else {},
    }
    return {f"{whose} {name}": fact for whose, several in facts.items() for name, fact in several.items()}


@dataclass(frozen=True)
class PpoJob(TrainingJob):
    """Who is trained, on whom, by what."""

    settings: PpoSettings


@dataclass(frozen=True)
class GrpoJob(TrainingJob):
    """Who is trained, on whom, by what; the users of a part are those of PPO with the same seed and shares."""

    settings: GrpoSettings
