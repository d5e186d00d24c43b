"""What a training is, before it begins: its parts, and what run.json says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pluralrm.core import Benchmark, Condition, Identified
from pluralrm.downstream.grpo.records import GrpoManifest
from pluralrm.downstream.grpo.settings import GrpoSettings
from pluralrm.downstream.local import LocalPolicy
from pluralrm.downstream.ppo.rewards import Rewarder
from pluralrm.downstream.ppo.split import Parts, asker, split
from pluralrm.models.shaping import Shaping
from pluralrm.runs.records import benchmark_record
from pluralrm.runs.store import provenance


@dataclass(frozen=True)
class GrpoJob:
    """Who is trained, on whom, by what. `condition` is what the policy sees, in training and whenever it is asked."""

    benchmark: Benchmark
    policy: LocalPolicy
    condition: Condition
    rewarder: Rewarder
    reward_condition: str
    settings: GrpoSettings
    shaping: Shaping = field(default_factory=lambda: Shaping("raw"))
    seed: int = 0
    domains: Sequence[str] = ()
    limit: int | None = None

    def parts(self) -> Parts:
        """Return the items of each part, which have no user in common; those of PPO with the same seed and shares."""
        items = self.benchmark.select(domains=self.domains, limit=self.limit)
        return split(items, self.seed, validation=self.settings.validation, test=self.settings.test)


def manifest_of(job: GrpoJob, parts: Parts, left_out: Mapping[str, int], *, trl: str) -> GrpoManifest:
    """Return what run.json says of a training that has not begun."""
    facts = job.condition.identity if isinstance(job.condition, Identified) else {}
    identity = {
        **{f"policy {name}": fact for name, fact in job.policy.identity.items()},
        **{f"condition {name}": fact for name, fact in facts.items()},
        **{f"reward {name}": fact for name, fact in job.rewarder.identity.items()},
        "trl": trl,
    }
    users = {name: tuple(dict.fromkeys(map(asker, items))) for name, items in parts._asdict().items()}
    return GrpoManifest.model_validate(
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
            "selection": {"items": sum(map(len, parts)), "domains": tuple(job.domains), "limit": job.limit},
            "parts": {**users, "left_out": left_out},
            "settings": job.settings.to_json(),
            "shaping": job.shaping.identity,
            "seed": job.seed,
            **provenance(),
        }
    )
