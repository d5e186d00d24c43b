"""What people named on the items that the runs were scored on, and what each run earns on exactly these; in words too.

Credit is a model's: what ties at the top shares it, so "equal" earns what a guess earns. So does "cannot tell", which
`annotate claim` leaves out: a model must choose on every item, and people who may skip the hard ones are no measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.annotate.judgments import (
    FourOpinion,
    Judgment,
    PairOpinion,
    four_opinions,
    inattentive,
    pair_opinions,
    read_judgments,
    told_inattentive,
)
from pluralrm.annotate.plan import AnnotationPlan, Arm, PlannedItem, read_plan
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.conditions import load_condition
from pluralrm.core import Estimate, Run
from pluralrm.display import Brief, json_fields
from pluralrm.errors import PlanError
from pluralrm.metrics.estimates import caveats, measure_rows
from pluralrm.metrics.units import by_chance
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.comparisons import crossed

_CEILING: tuple[Arm, ...] = ("posts", "prompt")
"""Arms that see no more than a model may; `prompt` where there is no asker, and a model has the prompt alone."""
_ORDER: tuple[Arm, ...] = (*_CEILING, "narrative")

REHEARSAL = "REHEARSAL, simulated judgments: "
SIGHT: Mapping[Arm, str] = {"posts": "the posts alone", "prompt": "the prompt alone", "narrative": "the narrative too"}
"""What the annotators of an arm saw."""


@dataclass(frozen=True, slots=True, repr=False)
class PlanJudgments(Brief):
    """A plan and what its annotators said; who passes too few attention checks is left out, as the plan states."""

    plan: AnnotationPlan
    judgments: Sequence[Judgment]


def read_asked(plan: str | Path, judgments: str | Path | None = None) -> PlanJudgments:
    """Return the plan in a folder, and its judgments: those that a server kept there, or those in a file."""
    record = read_plan(Path(plan))
    return PlanJudgments(record, read_judgments(record, Path(judgments or plan)))


@dataclass(frozen=True, slots=True)
class ArmAccuracy:
    """How often people named the labelled answer in one arm."""

    arm: Arm
    one: Estimate
    """The share of judgments, robust to items and annotators."""
    majority: Estimate
    """The share of items whose majority names it; a majority that is shared counts in part."""
    annotators: int
    equal: int
    untold: int
    """Judgments that chose neither answer, and those that could not tell: each counts as a guess."""

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        return {
            "arm": self.arm,
            "one_person": self.one.to_json(),
            "majority": self.majority.to_json(),
            "annotators": self.annotators,
            "equal": self.equal,
            "cannot_tell": self.untold,
        }


@dataclass(frozen=True, slots=True)
class Human:
    """People beside the runs, on the items that both have."""

    plan_hash: str
    condition: str
    """Under which the posts were shown to people."""
    arms: tuple[ArmAccuracy, ...]
    """The ceiling first, where there is one; each on items of the first."""
    runs: tuple[Estimate, ...]
    """What each run earns on exactly these items, in the order of the runs."""
    items: int
    of: int
    """Items of the runs."""
    chance: float
    rehearsal: bool
    left_out: str
    """Which annotators are left out, and why."""

    @property
    def ceiling(self) -> ArmAccuracy | None:
        """Return what people infer who see what a model may see; None where only the narrative was shown."""
        return self.arms[0] if self.arms[0].arm in _CEILING else None

    @property
    def narrative(self) -> ArmAccuracy | None:
        """Return what people name who are told what the asker has in mind."""
        return self.arms[-1] if self.arms[-1].arm == "narrative" else None

    def to_json(self, runs: Sequence[Run]) -> dict[str, object]:
        """Return everything under its name, for --json."""
        scored = zip(runs, self.runs, strict=True)
        records = [{"model": run.model, "condition": run.condition, **estimate.to_json()} for run, estimate in scored]
        fields = json_fields(self, "condition", "rehearsal", "items", "chance", "left_out", "arms")
        return {"plan": self.plan_hash, **fields, "runs": records}


def humans(people: Sequence[PlanJudgments], groups: Sequence[Sequence[Run]]) -> list[Human | None]:
    """Return people beside each group of runs on the same items, by the plan of its content; None where there is none.

    A plan whose people judged nothing that a run was scored on is a PlanError.
    """
    plans = _by_content(people, [run for runs in groups for run in runs])
    matches = [plans.get(runs[0].benchmark_hash) for runs in groups]
    result = [None if plan is None else _human(plan, runs) for plan, runs in zip(matches, groups, strict=True)]
    seen = {human.plan_hash for human in result if human is not None}
    for plan in plans.values():
        if plan.plan.content_hash not in seen:
            raise PlanError(
                f"the plan of {plan.plan.declared.benchmark!r}: no judgments of items that the runs were scored on "
                f"({len(plan.judgments):,} judgments in all); wanted one at least"
            )
    return result


def _by_content(people: Sequence[PlanJudgments], runs: Sequence[Run]) -> Mapping[str, PlanJudgments]:
    """Return the plans by the content that they judge; one that no run is on, or without labels, is a PlanError."""
    by_content: dict[str, PlanJudgments] = {}
    for source in people:
        declared = source.plan.declared
        if declared.mode != "validate":
            raise PlanError(
                f"the plan of {declared.benchmark!r} is of mode 'own': annotators were not asked about its labels"
            )
        if declared.content_hash in by_content:
            raise PlanError(f"two plans of {declared.benchmark!r}, of the same content: wanted one of each content")
        if not any(run.benchmark_hash == declared.content_hash for run in runs):
            raise PlanError(_differs(source.plan, runs))
        by_content[declared.content_hash] = source
    return by_content


def _differs(plan: AnnotationPlan, runs: Sequence[Run]) -> str:
    """Return in words what the plan is of, what the runs are on, and how far their items are the same."""
    judged = {item.id for item in plan.items if item.kind == "item"}
    scored = {row.item for run in runs for row in run.rows}
    names = sorted({f"{run.benchmark!r} (content {run.benchmark_hash[:12]})" for run in runs})
    same = len(judged & scored)
    what = (
        f"{same:,} of its {len(judged):,} items have an id of theirs, so texts, labels or the places of the answers "
        "differ: another revision, or another --seed?"
        if same
        else "none of its items is among theirs."
    )
    declared = plan.declared
    return (
        f"the plan is of {declared.benchmark!r} (content {declared.content_hash[:12]}), and no run is: found "
        f"{', '.join(names)}; {what} Name a plan of the runs' own benchmark"
    )


# ---------------------------------------------------------------- numbers


@dataclass(frozen=True, slots=True)
class _Choice:
    """One judgment: the weight that it gives to each answer, in sum 1."""

    arm: Arm
    annotator: str
    item: PlannedItem
    weights: tuple[float, ...]
    said: str

    @property
    def credit(self) -> float:
        return sum(self.weights[index] for index in self.item.best)


def _human(people: PlanJudgments, runs: Sequence[Run]) -> Human | None:
    """Return people beside runs on the same items; None where people have judged none of these."""
    rows = [{row.item: row for row in run.rows} for run in runs]
    least = people.plan.declared.claim.attention
    out = inattentive(people.plan, people.judgments, least)
    every = [choice for choice in _choices(people) if choice.item.id in rows[0] and choice.annotator not in out]
    arms = [arm for arm in _ORDER if any(choice.arm == arm for choice in every)]
    if not arms:
        return None
    items = list(dict.fromkeys(choice.item.id for choice in every if choice.arm == arms[0]))
    own = {arm: [choice for choice in every if choice.arm == arm and choice.item.id in set(items)] for arm in arms}
    return Human(
        plan_hash=people.plan.content_hash,
        condition=load_condition(people.plan.declared.condition).spec,
        arms=tuple(_named(arm, choices) for arm, choices in own.items() if choices),
        runs=tuple(
            measure_rows([by_item[item] for item in items], "accuracy", caveats(run))
            for run, by_item in zip(runs, rows, strict=True)
        ),
        items=len(items),
        of=len(rows[0]),
        chance=sum(by_chance(rows[0][item]) for item in items) / len(items),
        rehearsal=is_rehearsal(people.judgments),
        left_out=told_inattentive(out, least),
    )


def _choices(people: PlanJudgments) -> list[_Choice]:
    """Return every standing judgment of an item that is judged; checks, examples and repeats are left out."""
    pairs = [
        _pair(opinion) for opinion in pair_opinions(people.plan, people.judgments) if opinion.screen.kind == "item"
    ]
    return pairs + [
        _four(opinion) for opinion in four_opinions(people.plan, people.judgments) if opinion.screen.kind == "item"
    ]


def _pair(opinion: PairOpinion) -> _Choice:
    side = opinion.toward(0, "overall")
    if not side:
        return _Choice(opinion.arm, opinion.annotator, opinion.item, (0.5, 0.5), "untold" if side is None else "equal")
    return _Choice(opinion.arm, opinion.annotator, opinion.item, (1.0, 0.0) if side > 0 else (0.0, 1.0), "chosen")


def _four(opinion: FourOpinion) -> _Choice:
    pick, width = opinion.picked(), len(opinion.item.candidates)
    if pick is None:
        return _Choice(opinion.arm, opinion.annotator, opinion.item, (1 / width,) * width, "untold")
    weights = tuple(float(index == pick) for index in range(width))
    return _Choice(opinion.arm, opinion.annotator, opinion.item, weights, "chosen")


def _named(arm: Arm, choices: Sequence[_Choice]) -> ArmAccuracy:
    clusters = [choice.item.cluster for choice in choices]
    means = crossed([choice.credit for choice in choices], clusters, [choice.annotator for choice in choices])
    value, low, high, method = means.interval()
    return ArmAccuracy(
        arm=arm,
        one=Estimate(value, low, high, len(choices), 0, method),
        majority=_majority(choices),
        annotators=len({choice.annotator for choice in choices}),
        equal=sum(choice.said == "equal" for choice in choices),
        untold=sum(choice.said == "untold" for choice in choices),
    )


def _majority(choices: Sequence[_Choice]) -> Estimate:
    votes: dict[str, list[_Choice]] = {}
    for choice in choices:
        votes.setdefault(choice.item.id, []).append(choice)
    values = [_credit(own) for own in votes.values()]
    items = [own[0].item for own in votes.values()]
    interval = share_interval(
        cluster_means(values, [item.cluster for item in items], crossed=[item.prompt for item in items])
    )
    return Estimate(interval.value, interval.low, interval.high, len(values), 0, interval.method)


def _credit(choices: Sequence[_Choice]) -> float:
    """Return what the sum of some judgments of one item earns: the share of the best among those tied at the top."""
    totals: list[float] = [sum(weights) for weights in zip(*(choice.weights for choice in choices), strict=True)]
    return sum(totals[index] == max(totals) for index in choices[0].item.best) / totals.count(max(totals))
