"""Which run is which: a model under a user's own posts, and the runs that serve as its controls.

Decided by what each run recorded: what it reveals, and the role that its condition declared (`core.ConditionRole`;
where an old run did not record it, what `conditions` declares for its spec). No condition is known by name:

none      reveals nothing (where several do, the one that declares itself so)
own       reveals the user's posts, pairs or traits; a model may have several, and each has controls of its own
swapped   reveals another user's posts, pairs or traits, and declares that they are one user's
nearest   the same, and of the user who writes nearest to the question
noise     reveals other users' posts, and declares that they are many users'
shuffled  reveals the user's pairs with labels given by a coin, for own conditions with pairs
group     reveals what other people wrote or chose who share a trait; outside, as many who do not
least     reveals the user's traits but the one that matters least, which is another person's
oracle    reveals the rubric

A control of an own condition shows the same number of posts and of pairs, or notes made by the same model from as
many. Among those that do, the one that the own condition names as its control is taken, or else the one whose options
(`by=`) differ least. Where that leaves two, none is: a number that depends on a guess is not given.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from pluralrm.conditions import read_condition, role_of_spec
from pluralrm.core import OTHERS, OWN, ConditionRole, Reveals, Role, Run
from pluralrm.errors import MetricError
from pluralrm.metrics.comparison import RunItems, items_of, name_run, unmatched_items
from pluralrm.metrics.estimates import remark
from pluralrm.metrics.units import once

CONTROLS: tuple[Role, ...] = (
    *("none", "swapped", "nearest", "noise", "shuffled", "group", "outside", "least", "oracle"),
)
_ALIKE = frozenset(CONTROLS) - {"none", "oracle"}
"""The controls that show as much as their own condition."""
_LENT: tuple[Role, ...] = ("swapped", "nearest", "noise", "group", "outside")
"""The controls that show what others wrote, chose or declared."""
_NEEDS: Mapping[Role, Reveals] = {"shuffled": "pairs", "least": "traits"}
"""What own shows where a control has a meaning."""
_OPTIONAL = frozenset[Role]({"group", "outside", "least"})
"""The controls that are not reported as absent where they were not run."""
_OF_TEXTS = frozenset[Role]({"nearest", "noise"})
"""The controls that declared traits have not."""
_TENTH = 0.1
"""By how much of own's mean number of posts or pairs a control may differ and still be compared."""


@dataclass(frozen=True)
class Roles:
    """One model under one own condition, with its controls. `absent` says why a control is not there.

    `unequal` says of a control that showed more than a tenth more or fewer posts or pairs than own by how much.
    """

    own: Run
    controls: Mapping[Role, Run]
    absent: Mapping[Role, str]
    notes: tuple[str, ...] = ()
    unequal: Mapping[Role, str] = field(default_factory=dict)

    @property
    def macro(self) -> bool:
        """True where the benchmark weighs its domains equally."""
        return self.own.card.average == "macro"

    @cached_property
    def sides(self) -> Mapping[Role, RunItems]:
        """The rows of every run, each sorted by item: place i is one item in all of them."""
        runs: dict[Role, Run] = {"own": self.own, **self.controls}
        return {role: items_of(run) for role, run in runs.items()}


def roles(runs: Sequence[Run], *, unfinished: bool = False) -> list[Roles]:
    """Return one Roles per model and own condition, sorted by model, kind and number of posts.

    Runs on other content, one condition twice, and runs on different items are errors; so are incomplete runs, unless
    `unfinished`.
    """
    _check(runs, unfinished)
    owns = sorted((run for run in runs if is_own(run)), key=_order)
    return [_roles(own, [run for run in runs if run.model == own.model]) for own in owns]


def declared(run: Run) -> ConditionRole:
    """Return the role that the run's condition declared when it was made, or that its spec declares today."""
    return run.condition_role or role_of_spec(run.condition)


def _roles(own: Run, siblings: Sequence[Run]) -> Roles:
    controls: dict[Role, Run] = {}
    absent: dict[Role, str] = {}
    notes: list[str] = []
    unequal: dict[Role, str] = {}
    for role in CONTROLS:
        if role in _NEEDS and _NEEDS[role] not in own.reveals:
            continue
        base, candidates = own, [run for run in siblings if _role(run) == role]
        if role == "outside":  # the control of the group
            base = controls.get("group", own)
            candidates = [run for run in candidates if run.condition == declared(base).control]
        if not candidates and (role in _OPTIONAL or (role in _OF_TEXTS and _shows(own) == {"traits"})):
            continue
        chosen = _chosen(base, role, candidates)
        if isinstance(chosen, str):
            absent[role] = chosen
            continue
        _same_items(own, chosen)
        controls[role] = chosen
        if role in _ALIKE:
            notes += _unlike(base, chosen)
            if reason := _unequal(base, chosen):
                unequal[role] = reason
    return Roles(own, controls, absent, tuple(notes), unequal)


def is_own(run: Run) -> bool:
    """Return whether a run shows of its user what is the user's own, and nothing else."""
    return bool(run.reveals) and run.reveals <= OWN


def _role(run: Run) -> Role | None:
    if not run.reveals:
        return "none"
    if "oracle" in run.reveals:
        return "oracle"
    if "false_pairs" in run.reveals:
        return "shuffled"
    if run.reveals <= OTHERS:
        return lender(run)
    return "least" if declared(run).role == "least" else None


def lender(run: Run) -> Role | None:
    """Return the role of a run that shows what others wrote or chose: of one user, of the nearest, or of many."""
    role = declared(run).role
    return role if role in _LENT else None


def _chosen(own: Run, role: Role, candidates: Sequence[Run]) -> Run | str:
    """Return the control in this role, or why there is none."""
    if not candidates:
        return f"no run in the role {role!r}"
    names = ", ".join(sorted(run.condition for run in candidates))
    fitting = list(candidates)
    if role in _ALIKE:
        as_many = [run for run in candidates if _shows(run) == _shows(own) and _as_many(own, run)]
        # Posts may stand in for notes that were not made of them, for want of better; notes never for posts or others.
        fitting = [run for run in as_many if declared(run).notes in {"", declared(own).notes}]
        if not fitting:
            what = f"posts{' or pairs' * of_pairs(own)}{', or other notes,' if as_many else ''}"
            what = "traits, or other traits," if "traits" in own.reveals else what
            return f"{names}: another number of {what} than {own.condition}"
    elif any(declared(run).role == role for run in candidates):
        fitting = [run for run in candidates if declared(run).role == role]
    if role == "swapped" and (named_control := [run for run in fitting if run.condition == declared(own).control]):
        fitting = named_control
    least = min(_distance(own, run) for run in fitting)
    nearest = [run for run in fitting if _distance(own, run) == least]
    return nearest[0] if len(nearest) == 1 else f"several runs in the role {role!r}, none nearer than another: {names}"


def _as_many(own: Run, control: Run) -> bool:
    """Return whether a control shows as much; an own condition that does not say how much has any."""
    first, second = declared(own), declared(control)
    return first.amount in {None, second.amount} and first.beside == second.beside


def _shows(run: Run) -> AbstractSet[str]:
    """Return whether pairs, traits, or posts alone are what a run shows of somebody."""
    return {"pairs"} if of_pairs(run) else {"traits"} if run.reveals & {"traits", "other_traits"} else set()


def of_pairs(run: Run) -> bool:
    """Return whether labelled pairs are what a run shows of somebody."""
    return bool(run.reveals & {"pairs", "other_pairs", "false_pairs"})


def _distance(own: Run, other: Run) -> int:
    """Return how many options the one condition has and the other has not."""
    return len(set(declared(own).options) ^ set(declared(other).options))


def _unlike(own: Run, control: Run) -> list[str]:
    """Return in what the control differs from the own condition, apart from whose posts it shows."""
    differences = []
    role = declared(own)
    if role.notes and not declared(control).notes:
        differences.append(f"{control.condition} shows posts as they are, {own.condition} what a model wrote from them")
    elif not (role.notes or role.verbatim):
        differences.append(
            f"{control.condition} shows posts as they are; whether {own.condition} does, its name does not say"
        )
    elif _role(control) == "swapped" and _distance(own, control):
        differences.append(f"{control.condition} chooses posts in another way than {own.condition}")
    for what, seen, other in _means(own, control):
        if seen != other:
            differences.append(
                f"{what} seen on average: {seen:.1f} under {own.condition}, {other:.1f} under {control.condition}"
            )
    unknown = [run.condition for run in (own, control) if None in map(attrgetter("pairs"), run.rows)]
    if of_pairs(own) and unknown:
        differences.append(f"how many pairs were seen is not recorded under {' and '.join(unknown)}")
    several = sum(count > 1 for count in map(attrgetter("lenders"), control.rows))
    if several and _role(control) not in {"group", "outside"}:
        differences.append(
            f"{control.condition}: in {several:,} of {len(control.rows):,} items several users lent together"
        )
    if _role(control) == "least" and (same := sum(not row.lenders for row in control.rows)):
        differences.append(f"{control.condition}: in {same:,} of {len(control.rows):,} items no trait was swapped")
    return differences


def _means(own: Run, control: Run) -> Iterator[tuple[str, float, float]]:
    """Yield the mean number of posts, of pairs, and of traits, that own showed and that the control showed."""
    first, second = _amounts(own), _amounts(control)
    yield from ((what, first[what], second[what]) for what in first if what in second)


def _amounts(run: Run) -> dict[str, float]:
    """Return the mean number of posts, of pairs and of traits that a run showed; of pairs where some row has it."""
    return once(run, "amounts", lambda: {what: sum(seen) / len(seen) for what, seen in _seen(run) if seen})


def _seen(run: Run) -> Iterator[tuple[str, list[int]]]:
    yield "posts", list(map(attrgetter("posts"), run.rows))
    yield "pairs", [pairs for pairs in map(attrgetter("pairs"), run.rows) if pairs is not None]
    yield "traits", list(map(attrgetter("traits"), run.rows))


def _unequal(own: Run, control: Run) -> str | None:
    """Return how many posts or pairs own and the control showed, where these differ by more than a tenth of own's.

    Posts that stand in for notes which were not made of them are not compared with the notes.
    """
    if declared(own).notes != declared(control).notes:
        return None
    for what, seen, other in _means(own, control):
        if abs(seen - other) > _TENTH * seen:
            return f"{own.condition} showed {seen:.1f} {what} on average, {control.condition} {other:.1f}"
    return None


def _check(runs: Sequence[Run], unfinished: bool) -> None:
    seen: dict[tuple[str, str], Run] = {}
    for run in runs:
        if run.benchmark_hash != runs[0].benchmark_hash:
            raise MetricError(
                f"{name_run(runs[0])} is on {runs[0].benchmark} ({runs[0].benchmark_hash[:8]}), {name_run(run)} on "
                f"{run.benchmark} ({run.benchmark_hash[:8]}). Personalization compares runs on one benchmark content."
            )
        if not unfinished and (state := remark(run)):
            raise MetricError(
                f"{name_run(run)} is {state}. Resume it: the same items must stand under every condition."
            )
        if not run.rows:
            raise MetricError(f"{name_run(run)} has no rows yet. Resume it, or leave it out.")
        first = seen.setdefault((run.model, run.condition), run)
        if first is not run:
            raise MetricError(f"{name_run(run)} is there twice ({first.path!r}, {run.path!r}); leave one out.")


def _same_items(own: Run, other: Run) -> None:
    if unmatched := unmatched_items(own, other):
        raise MetricError(
            f"{name_run(own)} and {name_run(other)} differ in {len(unmatched):,} items: "
            f"{', '.join(map(repr, unmatched[:3]))}{', ...' * (len(unmatched) > 3)}. Score both on the same items."
        )


def _order(run: Run) -> tuple[str, str, int, str]:
    return run.model, read_condition(run.condition).kind, declared(run).amount or 0, run.condition
