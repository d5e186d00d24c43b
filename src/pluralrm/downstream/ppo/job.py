"""What a training is, before it begins: its parts, and what run.json says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pluralrm.core import Benchmark, Condition, Identified
from pluralrm.downstream.local import LocalPolicy
from pluralrm.downstream.ppo.records import PpoManifest
from pluralrm.downstream.ppo.rewards import Rewarder
from pluralrm.downstream.ppo.settings import PpoSettings
from pluralrm.downstream.ppo.split import Parts, asker, check_disjoint, split
from pluralrm.grading import Grader
from pluralrm.models.shaping import Shaping
from pluralrm.runs.records import benchmark_record
from pluralrm.runs.store import provenance


@dataclass(frozen=True)
class Job:
    """Who is trained, on whom, by what. `condition` is what the policy sees, in training and whenever it is asked."""

    benchmark: Benchmark
    policy: LocalPolicy
    condition: Condition
    rewarder: Rewarder
    reward_condition: str
    settings: PpoSettings
    shaping: Shaping = field(default_factory=lambda: Shaping("raw"))
    grader: Grader | None = None
    seed: int = 0
    domains: Sequence[str] = ()
    limit: int | None = None
    parts_seed: int | None = None
    """Of the parts; `seed` where left out. Trainings with several seeds on the same users have one."""

    def parts(self) -> Parts:
        """Return the users of each part; BenchmarkError where one is in two."""
        items = self.benchmark.select(domains=self.domains, limit=self.limit)
        chosen = self.settings
        seed = self.seed if self.parts_seed is None else self.parts_seed
        return check_disjoint(split(items, seed, validation=chosen.validation, test=chosen.test))


def manifest_of(job: Job, parts: Parts, left_out: Mapping[str, int]) -> PpoManifest:
    """Return what run.json says of a training that has not begun."""
    facts = job.condition.identity if isinstance(job.condition, Identified) else {}
    identity = {
        **{f"policy {name}": fact for name, fact in job.policy.identity.items()},
        **{f"condition {name}": fact for name, fact in facts.items()},
        **{f"reward {name}": fact for name, fact in job.rewarder.identity.items()},
        **({f"grader {name}": fact for name, fact in job.grader.identity.items()} if job.grader else {}),
    }
    users = {name: tuple(dict.fromkeys(map(asker, items))) for name, items in parts._asdict().items()}
    return PpoManifest.model_validate(
        {
            "status": "incomplete",
            "policy": job.policy.spec,
            "reward": job.rewarder.spec,
            "identity": identity,
            "benchmark": benchmark_record(job.benchmark),
            "condition": job.condition.spec,
            "reward_condition": job.reward_condition,
            "reveals": sorted(job.condition.reveals),
            "reward_reveals": sorted(job.rewarder.reveals),
            "selection": {
                "items": sum(map(len, parts)),
                "domains": tuple(job.domains),
                "limit": job.limit,
            },
            "parts": {**users, "left_out": left_out},
            "settings": job.settings.to_json(),
            "shaping": job.shaping.identity,
            "grader": job.grader.spec if job.grader else "",
            "seed": job.seed,
            **provenance(),
        }
    )
