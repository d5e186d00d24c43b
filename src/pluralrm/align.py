"""One answer, one user, one human rating: how near does a reward model come to what the person said?

>>> result = evaluate_one("Bake it hotter.", ["I bake on Sundays."], 0.8, "lsa")
>>> result.mapping, round(result.alignment, 2) == round(1 - abs(result.predicted - 0.8), 2)
('cosine: (1 + score) / 2', True)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pluralrm.benchmarks.rows import Place, describe, read_rows
from pluralrm.core import Estimate, Failure, Post, Query, RewardModel, Score, User, UserView, Verdict, digest
from pluralrm.errors import MetricError, PluralrmError
from pluralrm.models import load_model, model_scale
from pluralrm.runs.windows import verdicts, windows

MappingName = Literal["identity", "cosine", "logistic"]


class _Mapping(NamedTuple):
    formula: str
    apply: Callable[[float], float]


_MAPPINGS: Mapping[MappingName, _Mapping] = {
    "identity": _Mapping("identity: the score itself", lambda score: min(max(score, 0.0), 1.0)),
    "cosine": _Mapping("cosine: (1 + score) / 2", lambda score: min(max((1 + score) / 2, 0.0), 1.0)),
    "logistic": _Mapping("logistic: 1 / (1 + exp(-score))", lambda score: (1 + math.tanh(score / 2)) / 2),
}
_BY_SCALE: Mapping[str, MappingName] = {"unit": "identity", "cosine": "cosine", "unbounded": "logistic"}


@dataclass(frozen=True, slots=True)
class Alignment:
    """A model's reward for one answer, mapped to [0, 1], beside what the person said.

    `predicted` is None where the model failed; alignment is then 0, for silence must not pay.
    """

    model: str
    score: Score
    predicted: float | None
    human: float
    alignment: float
    mapping: str


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """The same over a file: mean alignment and correlation, each an Estimate."""

    model: str
    mapping: str
    alignment: Estimate
    pearson: Estimate
    spearman: Estimate

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        estimates = {name: getattr(self, name).to_json() for name in ("alignment", "pearson", "spearman")}
        return {"model": self.model, "mapping": self.mapping, **estimates}


@dataclass(frozen=True, slots=True)
class Rating:
    """One row of a file of ratings: an answer, the user's posts, and the human score in [0, 1]."""

    output: str
    profile: tuple[str, ...]
    human_score: float
    prompt: str = ""
    user: str = ""


def evaluate_one(
    output: str,
    profile: User | Sequence[str | Post],
    human_score: float,
    model: RewardModel | str,
    *,
    prompt: str = "",
    mapping: MappingName | None = None,
) -> Alignment:
    """Return how near the model's reward for `output` comes to a human score in [0, 1].

    `alignment` is max(0, 1 - |predicted - human|). The mapping follows the model's declared range unless it is named.
    """
    posts = profile.posts if isinstance(profile, User) else profile
    texts = tuple(post.text if isinstance(post, Post) else post for post in posts)
    [result] = _evaluate([Rating(output, texts, _in_unit(human_score), prompt)], model, mapping)
    return result


def align(path: str | Path, model: RewardModel | str, *, mapping: MappingName | None = None, seed: int = 0) -> AlignmentReport:
    """Return mean alignment and correlations over a JSONL (or Parquet) file of ratings, resampled by user.

    A failed answer has alignment 0 and enters the correlations as the value farthest from the person's.
    """
    from pluralrm.stats import correlation, mean_estimate

    ratings = read_ratings(path)
    results = _evaluate(ratings, model, mapping)
    users = [rating.user or f"row {number}" for number, rating in enumerate(ratings)]
    human = [result.human for result in results]
    predicted = [_farthest(result.human) if result.predicted is None else result.predicted for result in results]
    failed = sum(result.predicted is None for result in results)
    alignments = [result.alignment for result in results]
    return AlignmentReport(
        model=results[0].model,
        mapping=results[0].mapping,
        alignment=mean_estimate(alignments, users, seed=seed, failed=failed),
        pearson=correlation(predicted, human, users, kind="pearson", seed=seed, failed=failed),
        spearman=correlation(predicted, human, users, kind="spearman", seed=seed, failed=failed),
    )
