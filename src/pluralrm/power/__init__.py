"""How many items, models, judgments does it take to tell? By simulation of the very tests that the other verbs print.

>>> plan = plan_declared(0.3, ItemsQuestion(differences=(0.1,), items=(4,), settings=PowerSettings(simulations=400)))
>>> [one.clusters is not None for one in plan.needed]
[True]
"""

from pluralrm.power.detection import DetectionPower, PowerSettings
from pluralrm.power.items import (
    ClustersNeeded,
    ClustersPoint,
    ItemsPlan,
    ItemsQuestion,
    Pilot,
    plan_declared,
    plan_for_runs,
)
from pluralrm.power.judgments import (
    JudgmentsNeeded,
    JudgmentsPlan,
    JudgmentsPoint,
    RatingsSummary,
    RatingsTable,
    declared_labels,
    judged,
    plan_judgments,
    read_ratings,
)
from pluralrm.power.models import ModelsNeeded, ModelsPlan, PredictionPower, ScoreNoise, noise_of_runs, plan_models
from pluralrm.stats.judgments import Aim, Labels

__all__ = [
    "Aim",
    "ClustersNeeded",
    "ClustersPoint",
    "DetectionPower",
    "ItemsPlan",
    "ItemsQuestion",
    "JudgmentsNeeded",
    "JudgmentsPlan",
    "JudgmentsPoint",
    "Labels",
    "ModelsNeeded",
    "ModelsPlan",
    "Pilot",
    "PowerSettings",
    "PredictionPower",
    "RatingsSummary",
    "RatingsTable",
    "ScoreNoise",
    "declared_labels",
    "judged",
    "noise_of_runs",
    "plan_declared",
    "plan_for_runs",
    "plan_judgments",
    "plan_models",
    "read_ratings",
]
