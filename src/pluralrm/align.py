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
from pluralrm.core import OPEN_KINDS, Estimate, Failure, Post, Query, RewardModel, Score, User, UserView, Verdict
from pluralrm.digests import digest
from pluralrm.display import Brief, json_fields
from pluralrm.errors import MetricError, ServiceError, check_type
from pluralrm.http import Settings
from pluralrm.models import load_model, model_scale
from pluralrm.runs.verdicts import verdicts, windows

MappingName = Literal["identity", "cosine", "logistic"]
Kind = Literal["pearson", "spearman"]


class _Mapping(NamedTuple):
    formula: str
    apply: Callable[[float], float]


_MAPPINGS: Mapping[MappingName, _Mapping] = {
    "identity": _Mapping("identity: the score itself", lambda score: min(max(score, 0.0), 1.0)),
    "cosine": _Mapping("cosine: (1 + score) / 2", lambda score: min(max((1 + score) / 2, 0.0), 1.0)),
    "logistic": _Mapping("logistic: 1 / (1 + exp(-score))", lambda score: (1 + math.tanh(score / 2)) / 2),
}
_BY_SCALE: Mapping[str, MappingName] = {"unit": "identity", "cosine": "cosine", "unbounded": "logistic"}


@dataclass(frozen=True, slots=True, repr=False)
class Alignment(Brief):
    """A model's reward for one answer, mapped to [0, 1], beside what the person said.

    `predicted` is None where the model failed; alignment is then 0, for silence must not pay.
    """

    model: str
    score: Score
    predicted: float | None
    human: float
    alignment: float
    mapping: str


@dataclass(frozen=True, slots=True, repr=False)
class AlignmentReport(Brief):
    """The same over a file: mean alignment and correlation, each an Estimate.

    A correlation is None where predictions or ratings are all equal, or all of one user: there is none to estimate.
    """

    model: str
    mapping: str
    alignment: Estimate
    pearson: Estimate | None
    spearman: Estimate | None

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return json_fields(self)


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
    check_type(output, (str,), "output", "the text of an answer")
    check_type(profile, (User, list, tuple), "profile", "a User, or a list of what the user wrote")
    check_type(human_score, (int, float), "human_score", "a number from 0 to 1")
    valid = isinstance(model, str) or callable(getattr(model, "score", None))
    check_type(model, object if valid else (), "model", "a model's name, or an object with spec and score(queries)")
    posts = profile.posts if isinstance(profile, User) else profile
    for post in posts:
        check_type(post, (str, Post), "profile", "a list of texts or Posts")
    texts = tuple(post.text if isinstance(post, Post) else post for post in posts)
    [result] = _evaluate([Rating(output, texts, _in_unit(human_score), prompt)], model, mapping, None)
    return result


def align(
    path: str | Path,
    model: RewardModel | str,
    *,
    mapping: MappingName | None = None,
    seed: int = 0,
    settings: Settings | None = None,
) -> AlignmentReport:
    """Return mean alignment and correlations over a JSONL (or Parquet) file of ratings, robust to users and prompts.

    A failed answer has alignment 0 and enters the correlations as the value farthest from the person's. An outage is a
    ServiceError. `settings` say how a server is asked, where the model is behind one.
    """
    ratings = read_ratings(path)
    results = _evaluate(ratings, model, mapping, settings)
    _refuse_open(results)
    users = [rating.user or f"row {number}" for number, rating in enumerate(ratings)]
    owners = users, [rating.prompt for rating in ratings]
    human = [result.human for result in results]
    predicted = [_farthest(result.human) if result.predicted is None else result.predicted for result in results]
    failed = sum(result.predicted is None for result in results)
    return AlignmentReport(
        model=results[0].model,
        mapping=results[0].mapping,
        alignment=_mean([result.alignment for result in results], owners, failed),
        pearson=_correlation(predicted, human, owners, failed, kind="pearson", seed=seed),
        spearman=_correlation(predicted, human, owners, failed, kind="spearman", seed=seed),
    )


def read_ratings(path: str | Path) -> list[Rating]:
    """Return the ratings in a file; a malformed row is a RowError that names file, line and field."""
    if not Path(path).is_file():
        raise MetricError(f"no file {str(path)!r}; wanted JSONL rows of output, profile and human_score")
    ratings = [_rating(location, row) for location, row in read_rows(Path(path))]
    if not ratings:
        raise MetricError(f"{path}: found no rows, wanted at least one")
    return ratings


def _rating(location: Place, row: Mapping[str, object]) -> Rating:
    keys = {"output", "profile", "human_score", "prompt", "user"}
    for name in sorted(set(row) ^ keys):
        if name in {"output", "profile", "human_score"}:
            raise location.refuse(name, found="nothing", wanted="a value")
        if name not in keys:
            raise location.refuse(name, found="an unknown key", wanted=", ".join(sorted(keys)))
    profile, human = row["profile"], row["human_score"]
    if not isinstance(profile, list) or not all(isinstance(post, str) for post in profile):
        raise location.refuse("profile", found=describe(profile), wanted="a list of texts")
    if isinstance(human, bool) or not isinstance(human, (int, float)) or not 0 <= human <= 1:
        raise location.refuse("human_score", found=describe(human), wanted="a number in [0, 1]")
    texts = {name: row.get(name, "") for name in ("output", "prompt", "user")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise location.refuse(name, found=describe(text), wanted="a text")
    return Rating(profile=tuple(profile), human_score=float(human), **texts)  # type: ignore[arg-type]


def _refuse_open(results: Sequence[Alignment]) -> None:
    """Raise where an answer met an outage: it is not wrong, it is not known yet."""
    failures = [result.score for result in results if isinstance(result.score, Failure)]
    still_open = [failure for failure in failures if failure.kind in OPEN_KINDS]
    if still_open:
        raise ServiceError(
            f"{len(still_open)} of {len(results)} answers could not be asked about; the first: {still_open[0].kind}: "
            f"{still_open[0].detail}. Replies that came are kept: the same command asks for the rest"
        )


def _evaluate(
    ratings: Sequence[Rating], model: RewardModel | str, mapping: MappingName | None, settings: Settings | None
) -> list[Alignment]:
    scorer = load_model(model, settings=settings) if isinstance(model, str) else model
    name = mapping or _BY_SCALE[model_scale(model) if isinstance(model, str) else "unbounded"]
    answered = (verdict for window in windows(map(_query, ratings)) for verdict in verdicts(scorer, window))
    return [
        _alignment(scorer.spec, verdict, rating.human_score, _MAPPINGS[name])
        for rating, verdict in zip(ratings, answered, strict=True)
    ]


def _query(rating: Rating) -> Query:
    posts = tuple(Post(f"post-{number}", text) for number, text in enumerate(rating.profile, 1))
    name = digest([rating.output, rating.profile, rating.prompt])[:16]
    return Query(name, rating.prompt, (rating.output,), UserView(rating.user or "user", posts))


def _alignment(model: str, verdict: Verdict, human: float, mapping: _Mapping) -> Alignment:
    [score] = verdict.scores
    if isinstance(score, Failure):
        return Alignment(model, score, None, human, 0.0, mapping.formula)
    predicted = mapping.apply(score)
    return Alignment(model, score, predicted, human, max(0.0, 1 - abs(predicted - human)), mapping.formula)


def _in_unit(human_score: float) -> float:
    if not 0 <= human_score <= 1:
        raise MetricError(f"human_score is {human_score!r}; wanted a number in [0, 1]")
    return human_score


def _farthest(human: float) -> float:
    return 0.0 if human >= 0.5 else 1.0


def _mean(values: Sequence[float], owners: tuple[list[str], list[str]], failed: int) -> Estimate:
    from pluralrm.stats import cluster_means, share_interval

    interval = share_interval(cluster_means(values, owners[0], crossed=owners[1]))
    return Estimate(interval.value, interval.low, interval.high, len(values), failed, interval.method)


def _correlation(
    predicted: Sequence[float],
    human: Sequence[float],
    owners: tuple[list[str], list[str]],
    failed: int,
    *,
    kind: Kind,
    seed: int,
) -> Estimate | None:
    from pluralrm.stats import correlation

    if len(set(predicted)) == 1 or len(set(human)) == 1 or len(set(owners[0])) == 1:
        return None
    interval = correlation(predicted, human, owners[0], kind=kind, seed=seed, crossed=owners[1])
    return Estimate(interval.value, interval.low, interval.high, len(human), failed, interval.method)
