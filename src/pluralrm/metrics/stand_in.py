"""May a judge stand in for a person? The alternative annotator test (Calderon, Reichart and Dror 2025), made strict.

>>> from pluralrm.metrics.stand_in import run_comparisons, stand_in_result
>>> print(stand_in_result("judge", run_comparisons(run)))  # doctest: +SKIP
judge may stand in for a person: it agrees with the others as well as 7 of 9 people do, epsilon 0.15

Each person is left out in turn; person and judge are scored by the others, and who scores at least as high has the
advantage. An answer that the judge did not give loses to everybody. docs/design/stand-in.md has the reasons.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.core import Estimate, Row, Run
from pluralrm.display import Brief, JsonFields, json_fields
from pluralrm.errors import MetricError, SpecError, did_you_mean
from pluralrm.metrics.agreement import Votes
from pluralrm.metrics.units import numbers
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.clusters import FloatArray, IntArray, codes
from pluralrm.stats.comparisons import benjamini_yekutieli, paired_score, partial_conjunction, student_p
from pluralrm.stats.intervals import t_quantile
from pluralrm.text import counted, flat, p_value

Likeness = Literal["as well", "worse", "not settled", "too few"]
"""How the judge agrees with the others, compared with one person."""
Ruling = Literal["may", "may not", "not settled", "too few"]
PEOPLE = 3
"""Testable people below which there is no verdict: with two, one of them would be the measure of the other."""
COVERAGES = (0.9, 0.75, 0.5, 0.25)
_NONE = -math.inf
_ALIKE = 1e-9
"""How far apart equal scores may lie by rounding."""
_HALVINGS = 50


class StandInTerms(NamedTuple):
    """The margin that a judge may fall behind a person, the error rate, and the items that a person must have."""

    epsilon: float = 0.15
    """Of advantage probability; the authors name .2 for experts, .15 for skilled annotators, .1 for crowd workers."""
    alpha: float = 0.05
    fewest: int = 30

    def checked(self) -> "StandInTerms":
        """Return them; one out of its range is a SpecError."""
        if not (0 <= self.epsilon < 1 and 0 < self.alpha <= 0.5 and self.fewest >= 2):
            raise SpecError(f"{self}: wanted epsilon from 0 to below 1, alpha up to .5, and at least 2 items")
        return self


TERMS = StandInTerms()


class JudgeAnswer(NamedTuple):
    """What a judge says of an item, and how certain it says that it is; no label is no answer."""

    label: str
    certainty: float | None = None


class StandInComparison(NamedTuple):
    """One item that a person and others judged: how well the judge, and the person, agree with those others."""

    person: str
    cluster: str
    """Items that are not independent share one."""
    judge: float
    """The higher, the closer; -inf where the judge gave no answer."""
    own: float
    certainty: float | None = None

    @property
    def ahead(self) -> int:
        """Return 1 where the person alone has the advantage, -1 where the judge alone has, 0 where both have."""
        if math.isinf(self.judge):
            return 1
        gap = self.own - self.judge
        return 0 if abs(gap) <= _ALIKE * max(1.0, abs(self.own)) else int(math.copysign(1, gap))


# ---------------------------------------------------------------- comparisons


def votes_comparisons(votes: Votes, judge: Mapping[str, JudgeAnswer]) -> list[StandInComparison]:
    """Return a comparison for each label of an item that others labelled too.

    Scores are the share of the others who say the same; on an interval scale -RMSE, where a judge's label that is no
    number, or no word of the scale, is no answer. So is an item that the judge has not.
    """
    rows: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    clusters = votes.clusters or votes.items
    for item, person, label, cluster in zip(votes.items, votes.annotators, votes.labels, clusters, strict=True):
        rows[item].append((person, label, cluster))
    for label in votes.labels:
        if label not in votes.scaled.labels:
            raise MetricError(f"unknown label {label!r}.{did_you_mean(label, votes.scaled.labels)}")
    worths = dict(zip(votes.scaled.labels, votes.scaled.worths, strict=False))
    score = _closeness if votes.scaled.scale == "interval" else _share_alike
    comparisons = []
    for item, labels in rows.items():
        answer = judge.get(item, JudgeAnswer(""))
        if len(labels) > 1:
            scores = score([label for _, label, _ in labels], answer.label, worths)
            comparisons += [
                StandInComparison(person, cluster, judged, own, answer.certainty if judged > _NONE else None)
                for (person, _, cluster), (judged, own) in zip(labels, scores, strict=True)
            ]
    return comparisons


def _share_alike(labels: Sequence[str], judged: str, _: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return for each label how many of the others the judge's equals, and how many it equals itself, as shares."""
    count, others = Counter(labels), len(labels) - 1
    return [
        ((count[judged] - (judged == label)) / others if judged else _NONE, (count[label] - 1) / others)
        for label in labels
    ]


def _closeness(labels: Sequence[str], judged: str, worths: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return for each rating the -RMSE of the judge's, and its own, to the others."""
    ratings, rating = [worths[label] for label in labels], rating_of(judged, worths)

    def score(value: float, index: int) -> float:
        squares = ((value - other) ** 2 for position, other in enumerate(ratings) if position != index)
        return -math.sqrt(math.fsum(squares) / (len(ratings) - 1))

    return [(_NONE if rating is None else score(rating, index), score(own, index)) for index, own in enumerate(ratings)]


def rating_of(label: str, worths: Mapping[str, float]) -> float | None:
    """Return what a judge's label is worth; where labels are numbers, also of one that no person gave."""
    if label in worths:
        return worths[label]
    try:
        numeric = all(float(text) == worth for text, worth in worths.items())
        return value if numeric and math.isfinite(value := float(label)) else None
    except ValueError:
        return None


def run_comparisons(run: Run) -> list[StandInComparison]:
    """Return a comparison for each row whose candidates other people judged: by the share of their votes.

    A person's judge is the row of that person, whatever the model saw of them. Tied candidates share.
    """
    if run.card.cluster != "user":
        raise MetricError(f"{run.path or run.model}: rows belong to a {run.card.cluster}, not to a person")
    comparisons = [_of_row(row) for row in run.rows if sum(row.others) > _ALIKE]
    if not comparisons:
        raise MetricError(
            f"{run.path or run.model}: no item was judged by a second person, or the run was made before votes of "
            "others were kept; for labels of annotators: pluralrm stand-in FILE --judge RUN"
        )
    return comparisons


def _of_row(row: Row) -> StandInComparison:
    scores, total = numbers(row), sum(row.others)
    own = sum(row.others[index] for index in row.best) / len(row.best) / total
    if scores is None:
        return StandInComparison(row.cluster, row.prompt or row.item, _NONE, own)
    first, second = sorted(scores)[:-3:-1]
    top = [votes for votes, score in zip(row.others, scores, strict=True) if score == first]
    return StandInComparison(row.cluster, row.prompt or row.item, sum(top) / len(top) / total, own, first - second)


# ---------------------------------------------------------------- one person


@dataclass(frozen=True, slots=True)
class PersonTest(JsonFields):
    """Whether the judge agrees with the others as well as one person does."""

    person: str
    items: int
    clusters: int
    """Independent items."""
    judge: float
    own: float
    """The advantage probabilities: how often each scores at least as high as the other."""
    lead: Estimate
    """The judge's less the person's."""
    p: float
    """That the judge falls behind by epsilon or more; `against`: that it does not fall behind by more."""
    against: float
    published: float
    """The authors' p of the former: Student's t, which has p = 0 where no comparison differs."""
    adjusted: float | None = None
    """`p` for the false discovery rate over people; None where the person has too few items."""
    against_adjusted: float | None = None
    likeness: Likeness = "too few"

    @property
    def stated(self) -> float | None:
        """The adjusted p of the result; where it is not settled, the smaller one."""
        sides = {"as well": self.adjusted, "worse": self.against_adjusted}
        if self.adjusted is None or self.against_adjusted is None:
            return None
        return sides.get(self.likeness, min(self.adjusted, self.against_adjusted))


def person_tests(by_person: Mapping[str, Sequence[StandInComparison]], terms: StandInTerms) -> list[PersonTest]:
    """Return the tests of each person, by name: Tango's score statistic, with the design effect of clusters."""
    from pluralrm.stats.special import ndtr, stdtr

    names = sorted(by_person)
    ahead = [np.array([comparison.ahead for comparison in by_person[name]]) for name in names]
    clusters = [codes([comparison.cluster for comparison in by_person[name]]) for name in names]
    n, behind, leads, groups = (
        np.array(counts, dtype=np.float64)
        for counts in (
            [len(each) for each in ahead],
            [int((each > 0).sum()) for each in ahead],
            [int((each < 0).sum()) for each in ahead],
            [int(each.max()) + 1 for each in clusters],
        )
    )
    error = np.sqrt([_design_effect(*pair) for pair in zip(ahead, clusters, strict=True)])
    df = np.where(groups == n, np.inf, np.maximum(groups - 1, 1))

    def statistic(difference: ArrayLike) -> FloatArray:
        scores: FloatArray = paired_score(behind, leads, n, difference) / error
        return scores

    at_margin = statistic(terms.epsilon)
    p, against = (np.where(np.isinf(df), ndtr(z), stdtr(df, z)) for z in (at_margin, -at_margin))
    quantiles = np.array([t_quantile(value) for value in df])
    low, high = (-_difference_at(statistic, z) for z in (-quantiles, quantiles))
    return [
        PersonTest(
            person=name,
            items=int(n[i]),
            clusters=int(groups[i]),
            judge=float((n[i] - behind[i]) / n[i]),
            own=float((n[i] - leads[i]) / n[i]),
            lead=_lead((leads[i] - behind[i]) / n[i], (low[i], high[i]), by_person[name], int(groups[i])),
            p=float(p[i]) if groups[i] > 1 else 1.0,
            against=float(against[i]) if groups[i] > 1 else 1.0,
            published=student_p(int(behind[i]), int(leads[i]), int(n[i]), terms.epsilon),
        )
        for i, name in enumerate(names)
    ]


def _lead(value: float, ends: tuple[float, float], rows: Sequence[StandInComparison], groups: int) -> Estimate:
    """Return the judge's lead over a person; one independent item has no interval."""
    if groups < 2:
        return Estimate(float(value), None, None, len(rows), _missing(rows), "no interval: one independent item")
    method = f"score interval of paired shares (Tango), {counted(groups, 'independent item')}"
    return Estimate(float(value), float(ends[0]), float(ends[1]), len(rows), _missing(rows), method)


def _missing(comparisons: Sequence[StandInComparison]) -> int:
    return sum(math.isinf(row.judge) for row in comparisons)


def _design_effect(ahead: IntArray, cluster: IntArray) -> float:
    """Return how much larger the variance is than that of independent items; never below 1."""
    n, sums, sizes = len(ahead), np.bincount(cluster, ahead), np.bincount(cluster)
    groups, mean = len(sums), int(ahead.sum()) / n
    alone = (int((ahead**2).sum()) - n * mean**2) * n / max(n - 1, 1)
    if groups == n or alone < _ALIKE or groups == 1:
        return n / groups  # where nothing varies, a cluster counts once
    return max(1.0, math.fsum((sums - sizes * mean) ** 2) * groups / (groups - 1) / alone)


def _difference_at(statistic: Callable[[ArrayLike], FloatArray], target: FloatArray) -> FloatArray:
    """Return the difference at which a statistic, which falls with it, has a value."""
    low, high = np.full_like(target, -1.0), np.full_like(target, 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = statistic(middle) > target
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.round((low + high) / 2, 12) + 0.0


# ---------------------------------------------------------------- all of them


class CoveredRisk(NamedTuple):
    """Of the comparisons on which the judge is most certain: their share of all, and how often the person is closer."""

    coverage: float
    certainty: float | None
    """The least that is covered; None where every answer is, or every comparison."""
    risk: Estimate

    @property
    def covered(self) -> str:
        """What is covered, in words."""
        if self.certainty is not None:
            return f"certainty from {self.certainty:.3g}"
        return "every comparison" if self.coverage == 1 else "every answer"


@dataclass(frozen=True, slots=True, repr=False)
class StandInResult(Brief):
    """Whether a judge may stand in for a person, for whom it may not, and where it is certain."""

    judge: str
    data: str
    terms: StandInTerms
    people: tuple[PersonTest, ...]
    """Those with enough items first, by name."""
    advantage: Estimate | None
    """The mean over testable people of the judge's advantage probability (rho); None without any."""
    risks: tuple[CoveredRisk, ...]
    unmatched: tuple[str, ...] = ()
    """Labels of the judge that no person could give, such as a misspelt one; these never agree."""
    rehearsal: bool = False
    """Whether the people are simulated."""

    @property
    def testable(self) -> tuple[PersonTest, ...]:
        """The people with enough independent items."""
        return tuple(row for row in self.people if row.likeness != "too few")

    @property
    def needed(self) -> int:
        """Half of the testable people, rounded up."""
        return -(-len(self.testable) // 2)

    @property
    def winning_rate(self) -> float | None:
        """The share of the testable people whom the judge is as good as (omega)."""
        return self.count("as well") / len(self.testable) if self.testable else None

    @property
    def published_rate(self) -> float | None:
        """The winning rate by the authors' own t-tests; they ask for one half."""
        tests = [row.published for row in self.testable]
        return float((benjamini_yekutieli(tests) <= self.terms.alpha).mean()) if tests else None

    @property
    def p(self) -> float | None:
        """That the judge is as good as fewer than half of the testable people."""
        return partial_conjunction([row.p for row in self.testable], self.needed) if self.testable else None

    @property
    def ruling(self) -> Ruling:
        """May it? Each way takes the winning rate and the partial conjunction test."""
        tests, alpha = self.testable, self.terms.alpha
        if len(tests) < PEOPLE:
            return "too few"
        refuting = len(tests) - self.needed + 1
        if self.count("as well") >= self.needed and partial_conjunction([row.p for row in tests], self.needed) <= alpha:
            return "may"
        against = partial_conjunction([row.against for row in tests], refuting)
        return "may not" if self.count("worse") >= refuting and against <= alpha else "not settled"

    @property
    def unanswered(self) -> float:
        """The share of comparisons without an answer of the judge; each is lost."""
        everything = self.risks[0].risk
        return everything.failed / everything.n

    def count(self, likeness: Likeness) -> int:
        """Return how many people have this result."""
        return sum(row.likeness == likeness for row in self.people)

    def __str__(self) -> str:
        tests = len(self.testable)
        margin = f"epsilon {self.terms.epsilon:g}{' (REHEARSAL)' * self.rehearsal}"
        if self.ruling == "too few":
            enough = f"{counted(self.terms.fewest, 'independent item')} that others judged too"
            return f"too few to say of {self.judge}: {tests:,} people have {enough}; {PEOPLE} are needed"
        if self.ruling == "may not":
            worse = f"{self.count('worse'):,} of {tests:,} people agree with the others better by more than that"
            return f"{self.judge} may not stand in for a person: {worse}, {margin}"
        well = f"agrees with the others as well as {self.count('as well'):,} of {tests:,} people do"
        if self.ruling == "may":
            return f"{self.judge} may stand in for a person: it {well}, {margin}"
        return (
            f"not settled whether {self.judge} may stand in for a person: it {well}, {self.needed:,} are needed "
            f"(p {p_value(self.p)}), {margin}"
        )

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        about = json_fields(self, "judge", "data", "ruling", "winning_rate", "needed", "p")
        more = json_fields(self, "published_rate", "advantage", "people", "risks", "unmatched", "rehearsal")
        return {"answer": str(self), **about, **self.terms._asdict(), **more}

    def records(self) -> list[dict[str, object]]:
        """Return a flat row for the verdict (person `all`), and one per person."""
        about = {"judge": self.judge, "data": self.data}
        total = {"items": self.risks[0].risk.n, "result": self.ruling}
        rows: list[dict[str, object]] = [
            about | {"person": "all"} | total | flat("advantage", self.advantage) | flat("lead", None)
        ]
        rows[0] |= {"p": self.p, "p_adjusted": None, "p_published": None, "p_worse": None, "p_worse_adjusted": None}
        for row in self.people:
            counts = {"person": row.person, "items": row.items, "result": row.likeness}
            tests = {"p": row.p, "p_adjusted": row.adjusted, "p_published": row.published}
            tests |= {"p_worse": row.against, "p_worse_adjusted": row.against_adjusted}
            rows.append(about | counts | flat("advantage", None) | flat("lead", row.lead) | tests)
            rows[-1]["advantage"] = row.judge
        return rows


def stand_in_result(
    judge: str, comparisons: Sequence[StandInComparison], *, data: str = "", terms: StandInTerms = TERMS
) -> StandInResult:
    """Return whether the judge may stand in for a person, by one comparison or more."""
    by_person: dict[str, list[StandInComparison]] = defaultdict(list)
    for comparison in comparisons:
        by_person[comparison.person].append(comparison)
    tests = person_tests(by_person, terms)
    people = _settled([row for row in tests if row.clusters >= terms.fewest], terms.alpha)
    people += [row for row in tests if row.clusters < terms.fewest]
    return StandInResult(judge, data, terms, tuple(people), _advantage(comparisons, people), _risks(comparisons))


def _settled(tests: Sequence[PersonTest], alpha: float) -> list[PersonTest]:
    """Return the tests adjusted over people; of the two one-sided tests of a person at most one can be significant."""
    if not tests:
        return []
    adjusted = benjamini_yekutieli([row.p for row in tests]).tolist()
    against = benjamini_yekutieli([row.against for row in tests]).tolist()
    likeness: list[Likeness] = [
        "as well" if p <= alpha else "worse" if contrary <= alpha else "not settled"
        for p, contrary in zip(adjusted, against, strict=True)
    ]
    return [
        replace(row, adjusted=p, against_adjusted=contrary, likeness=result)
        for row, p, contrary, result in zip(tests, adjusted, against, likeness, strict=True)
    ]


def _advantage(comparisons: Sequence[StandInComparison], people: Sequence[PersonTest]) -> Estimate | None:
    """Return the mean over testable people of how often the judge has the advantage; items are shared clusters."""
    names = {row.person for row in people if row.likeness != "too few"}
    rows = [row for row in comparisons if row.person in names]
    if not rows:
        return None
    value, low, high, method = share_interval(
        cluster_means(
            [float(row.ahead <= 0) for row in rows], [row.cluster for row in rows], strata=[row.person for row in rows]
        )
    )
    return Estimate(
        value, low, high, len(rows), _missing(rows), f"mean over these {len(names):,} people; {method}, of items"
    )


def _risks(comparisons: Sequence[StandInComparison]) -> tuple[CoveredRisk, ...]:
    """Return the risk of all, of all answers, and of the most certain ones; answers of equal certainty go together."""
    answers = [row for row in comparisons if not math.isinf(row.judge)]
    risks = [_risk(comparisons, len(comparisons), None)]
    if 0 < len(answers) < len(comparisons):
        risks.append(_risk(answers, len(comparisons), None))
    stated = sorted((row.certainty for row in answers if row.certainty is not None), reverse=True)
    for coverage in COVERAGES:
        least = math.ceil(coverage * len(comparisons) - _ALIKE)
        if len(stated) < max(least, 1):
            continue
        floor = stated[least - 1]
        covered = [row for row in answers if row.certainty is not None and row.certainty >= floor]
        if len(covered) / len(comparisons) < risks[-1].coverage:
            risks.append(_risk(covered, len(comparisons), floor))
    return tuple(risks)


def _risk(rows: Sequence[StandInComparison], total: int, certainty: float | None) -> CoveredRisk:
    interval = share_interval(
        cluster_means(
            [float(row.ahead > 0) for row in rows], [row.person for row in rows], crossed=[row.cluster for row in rows]
        )
    )
    method = f"share on which the person alone is closer to the others; {interval.method}"
    return CoveredRisk(
        len(rows) / total,
        certainty,
        Estimate(interval.value, interval.low, interval.high, len(rows), _missing(rows), method),
    )
