"""Rows in, Estimates out: what a run is worth, where, against which other run. Nothing here reads or writes files.

>>> from pluralrm.metrics import summary
>>> summary(run).metrics["accuracy"].value  # doctest: +SKIP
0.7333333333333333
"""

from pluralrm.metrics.calibration import Calibration, calibration
from pluralrm.metrics.comparison import AgainstChance, Difference, against_chance, paired_difference, paired_differences
from pluralrm.metrics.contrast import ColdStart, cold_start, gain_by_tag
from pluralrm.metrics.estimates import (
    ByTag,
    Consistency,
    FailureBounds,
    bounds,
    by_domain,
    by_domains,
    by_tag,
    consistency,
    length_controlled,
    measure,
)
from pluralrm.metrics.leaderboard import Leaderboard, Standing, UnevenPosts, leaderboard, precision_pairs, uneven_posts
from pluralrm.metrics.official import PublishedMetric, published
from pluralrm.metrics.personalization import Personalization, personalization
from pluralrm.metrics.prompts import PromptUse, prompt_use
from pluralrm.metrics.summary import Positions, Summary, positions, summary
from pluralrm.metrics.units import METRICS, with_ties

__all__ = [
    "METRICS",
    "AgainstChance",
    "ByTag",
    "Calibration",
    "ColdStart",
    "Consistency",
    "Difference",
    "FailureBounds",
    "Leaderboard",
    "Personalization",
    "Positions",
    "PromptUse",
    "PublishedMetric",
    "Standing",
    "Summary",
    "UnevenPosts",
    "against_chance",
    "bounds",
    "by_domain",
    "by_domains",
    "by_tag",
    "calibration",
    "cold_start",
    "consistency",
    "gain_by_tag",
    "leaderboard",
    "length_controlled",
    "measure",
    "paired_difference",
    "paired_differences",
    "personalization",
    "positions",
    "precision_pairs",
    "prompt_use",
    "published",
    "summary",
    "uneven_posts",
    "with_ties",
]
