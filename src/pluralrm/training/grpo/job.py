"""What a training by GRPO is, before it begins."""

from dataclasses import dataclass

from pluralrm.training.grpo.settings import GrpoSettings
from pluralrm.training.job import TrainingJob


@dataclass(frozen=True)
class GrpoJob(TrainingJob):
    """Who is trained, on whom, by what; the users of a part are those of PPO with the same seed and shares."""

    settings: GrpoSettings
