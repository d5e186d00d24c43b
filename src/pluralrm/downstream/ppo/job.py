"""What a training by PPO is, before it begins."""

from dataclasses import dataclass

from pluralrm.downstream.ppo.settings import PpoSettings
from pluralrm.downstream.training.job import TrainingJob


@dataclass(frozen=True)
class Job(TrainingJob):
    """Who is trained, on whom, by what."""

    settings: PpoSettings
