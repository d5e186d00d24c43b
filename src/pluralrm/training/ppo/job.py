"""What a training by PPO is, before it begins."""

from dataclasses import dataclass

from pluralrm.training.job import TrainingJob
from pluralrm.training.ppo.settings import PpoSettings


@dataclass(frozen=True)
class Job(TrainingJob):
    """Who is trained, on whom, by what."""

    settings: PpoSettings
