"""What people named on the items that the runs were scored on, and what each run earns on exactly these; in words too.

Credit is a model's: what ties at the top shares it, so "equal" earns what a guess earns. So does "cannot tell", which
`annotate claim` leaves out: a model must choose on every item, and people who may skip the hard ones are no measure.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from pluralrm.display import Brief
from pluralrm.errors import PlanError
from pluralrm.metrics.estimates import caveats, measure_rows, remark
from pluralrm.report.words import name, tone
from pluralrm.stats import cluster_means, share_interval
from pluralrm.stats.comparisons import crossed
from pluralrm.text import counted, listed, percent, share

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
    made = read_plan(Path(plan))
    return PlanJudgments(made, read_judgments(made, Path(judgments or plan)))


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
        told = [{"model": run.model, "condition": run.condition, **found.to_json()} for run, found in scored]
        return {
            "plan": self.plan_hash,
            "condition": self.condition,
            "rehearsal": self.rehearsal,
            "items": self.items,
            "chance": self.chance,
            "left_out": self.left_out,
            "arms": [arm.to_json() for arm in self.arms],
            "runs": told,
        }


def humans(asked: Sequence[PlanJudgments], groups: Sequence[Sequence[Run]]) -> list[Human | None]:
    """Return people beside each group of runs on the same items, by the plan of its content; None where there is none.

    A plan whose people judged nothing that a run was scored on is a PlanError.
    """
    plans = _by_content(asked, [run for runs in groups for run in runs])
    named = [plans.get(runs[0].benchmark_hash) for runs in groups]
    found = [None if one is None else _human(one, runs) for one, runs in zip(named, groups, strict=True)]
    seen = {one.plan_hash for one in found if one is not None}
    for one in plans.values():
        if one.plan.content_hash not in seen:
            raise PlanError(
                f"the plan of {one.plan.declared.benchmark!r}: no judgments of items that the runs were scored on "
                f"({len(one.judgments):,} judgments in all); wanted one at least"
            )
    return found


def _by_content(asked: Sequence[PlanJudgments], runs: Sequence[Run]) -> Mapping[str, PlanJudgments]:
    """Return the plans by the content that they judge; one that no run is on, or without labels, is a PlanError."""
    found: dict[str, PlanJudgments] = {}
    for one in asked:
        declared = one.plan.declared
        if declared.mode != "validate":
            raise PlanError(
                f"the plan of {declared.benchmark!r} is of mode 'own': annotators were not asked about its labels"
            )
        if declared.content_hash in found:
            raise PlanError(f"two plans of {declared.benchmark!r}, of the same content: wanted one of each content")
        if not any(run.benchmark_hash == declared.content_hash for run in runs):
            raise PlanError(_differs(one.plan, runs))
        found[declared.content_hash] = one
    return found


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
        return self.weights[self.item.preferred or 0]


def _human(asked: PlanJudgments, runs: Sequence[Run]) -> Human | None:
    """Return people beside runs on the same items; None where people have judged none of these."""
    rows = [{row.item: row for row in run.rows} for run in runs]
    least = asked.plan.declared.claim.attention
    out = inattentive(asked.plan, asked.judgments, least)
    said = [one for one in _choices(asked) if one.item.id in rows[0] and one.annotator not in out]
    arms = [arm for arm in _ORDER if any(one.arm == arm for one in said)]
    if not arms:
        return None
    items = list(dict.fromkeys(one.item.id for one in said if one.arm == arms[0]))
    own = {arm: [one for one in said if one.arm == arm and one.item.id in set(items)] for arm in arms}
    return Human(
        plan_hash=asked.plan.content_hash,
        condition=load_condition(asked.plan.declared.condition).spec,
        arms=tuple(_named(arm, choices) for arm, choices in own.items() if choices),
        runs=tuple(
            measure_rows([known[item] for item in items], "accuracy", caveats(run))
            for run, known in zip(runs, rows, strict=True)
        ),
        items=len(items),
        of=len(rows[0]),
        chance=sum(1 / len(rows[0][item].scores) for item in items) / len(items),
        rehearsal=is_rehearsal(asked.judgments),
        left_out=told_inattentive(out, least),
    )


def _choices(asked: PlanJudgments) -> list[_Choice]:
    """Return every standing judgment of an item that is judged; checks, examples and repeats are left out."""
    pairs = [_pair(one) for one in pair_opinions(asked.plan, asked.judgments) if one.screen.kind == "item"]
    return pairs + [_four(one) for one in four_opinions(asked.plan, asked.judgments) if one.screen.kind == "item"]


def _pair(one: PairOpinion) -> _Choice:
    side = one.toward(0, "overall")
    if not side:
        return _Choice(one.arm, one.annotator, one.item, (0.5, 0.5), "untold" if side is None else "equal")
    return _Choice(one.arm, one.annotator, one.item, (1.0, 0.0) if side > 0 else (0.0, 1.0), "chosen")


def _four(one: FourOpinion) -> _Choice:
    picked, width = one.picked(), len(one.item.candidates)
    if picked is None:
        return _Choice(one.arm, one.annotator, one.item, (1 / width,) * width, "untold")
    weights = tuple(float(place == picked) for place in range(width))
    return _Choice(one.arm, one.annotator, one.item, weights, "chosen")


def _named(arm: Arm, choices: Sequence[_Choice]) -> ArmAccuracy:
    clusters = [one.item.cluster for one in choices]
    means = crossed([one.credit for one in choices], clusters, [one.annotator for one in choices])
    value, low, high, method = means.interval()
    return ArmAccuracy(
        arm=arm,
        one=Estimate(value, low, high, len(choices), 0, method),
        majority=_majority(choices),
        annotators=len({one.annotator for one in choices}),
        equal=sum(one.said == "equal" for one in choices),
        untold=sum(one.said == "untold" for one in choices),
    )


def _majority(choices: Sequence[_Choice]) -> Estimate:
    votes: dict[str, list[_Choice]] = {}
    for one in choices:
        votes.setdefault(one.item.id, []).append(one)
    values = [_credit(own) for own in votes.values()]
    found = share_interval(cluster_means(values, [own[0].item.cluster for own in votes.values()]))
    return Estimate(found.value, found.low, found.high, len(values), 0, found.method)


def _credit(choices: Sequence[_Choice]) -> float:
    """Return what the sum of some judgments of one item earns: 1 / number tied at the top, as a model does."""
    totals = [sum(weights) for weights in zip(*(one.weights for one in choices), strict=True)]
    wins = totals[choices[0].item.preferred or 0] == max(totals)
    return 1 / totals.count(max(totals)) if wins else 0.0


# ---------------------------------------------------------------- in words


def people_told(human: Human, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the sentences on people and runs, the first letters small."""
    ceiling, narrative = human.ceiling, human.narrative
    if ceiling is not None:
        yield _inferred(human, ceiling)
        yield _same_sight(human, runs)
        yield from _beyond(human, ceiling, runs)
    else:
        yield f"{_mark(human)}no annotator judged by the posts alone, so what people infer from them is not known."
    if narrative is not None:
        yield (
            f"{_mark(human)}people who were told what the asker has in mind named the labelled answer in "
            f"{percent(narrative.one)} per cent of {counted(narrative.one.n, 'judgment')} (is the label right?), on "
            f"{narrative.majority.n:,} of the {counted(human.of, 'item')}."
        )


def _inferred(human: Human, ceiling: ArmAccuracy) -> str:
    saw = "posts alone" if ceiling.arm == "posts" else "prompt alone"
    condition = f" ({human.condition})" if ceiling.arm == "posts" else ""
    return (
        f"{_mark(human)}people who saw the {saw}{condition} named the labelled answer in {percent(ceiling.one)} per "
        f"cent of {counted(ceiling.one.n, 'judgment')}, and by majority on {percent(ceiling.majority)} per cent of the "
        f"items: what can be inferred, estimated on {human.items:,} of the {counted(human.of, 'item')}, and no bound."
    )


def _same_sight(human: Human, runs: Sequence[Run]) -> str:
    """Return what the best run earns that saw what these people saw, on exactly their items."""
    pairs = [(found, run) for found, run in zip(human.runs, runs, strict=True) if not remark(run)]
    same = [(found, run) for found, run in pairs if run.condition == human.condition]
    where = f"on exactly these items a scorer that knows nothing earns {share(human.chance)}"
    if not same:
        return f"{where}; no run saw what these people saw ({human.condition})."
    found, run = max(same, key=lambda pair: pair[0].value)
    return f"{where}, and the best of {counted(len(same), 'run')} that saw the same, {name(run)}, {percent(found)}."


def _beyond(human: Human, ceiling: ArmAccuracy, runs: Sequence[Run]) -> Iterator[str]:
    """Say which runs lie above a single person: they found what people did not, in the posts or elsewhere."""
    high = ceiling.one.high
    above = [
        name(run)
        for run, found in zip(runs, human.runs, strict=True)
        if tone(run) in {"none", "own"}
        and not remark(run)
        and high is not None
        and found.low is not None
        and found.low > high
    ]
    if above:
        yield (
            f"above one person by intervals that do not touch: {listed(above)}. A model may infer more than a person; "
            "or the label can be guessed by other means, which an audit looks for."
        )


def _mark(human: Human) -> str:
    return REHEARSAL if human.rehearsal else ""
