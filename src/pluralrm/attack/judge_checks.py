"""What each check of a judge measures and says, from its runs under all probes.

    places      the place that departs furthest from its fair share of the calls, over balanced orders
    polarity    answer pairs that keep their order though the worse answer is asked for, less those that lose it
                where the question is only put in other words; both are compared with the balanced order
    question    accuracy before less accuracy after, the question in other words
    answers     the same, all answers in other words
    labels      wins of the first letter, over letters in order and in reverse, less its fair share
    verbosity   wins of the rejected answer that says everything twice, less its wins before

The harm is 0 for a sound judge, however noisy. A failed call is neutral about places and never an inversion; the share
of items that failed raises green's upper end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pluralrm.attack.effects import REACH, SLIGHT, Check, Colour, colour_of, effects
from pluralrm.attack.orders import ColumnContrast, JudgedItems, Ordered, likeness, mirrored, order_of
from pluralrm.core import Estimate, Row, Run
from pluralrm.metrics.estimates import FIXED
from pluralrm.metrics.units import top_credit
from pluralrm.stats import holm
from pluralrm.text import bounds

PAD = "pad"
MEASURES: Mapping[str, str] = {
    "places": "place {} wins a call",
    "polarity": "pairs ordered alike, inverted",
    "question": "accuracy, question reworded",
    "answers": "accuracy, answers reworded",
    "labels": "first letter wins a call",
    "verbosity": "rejected answer wins, padded",
}
"""What each check measures, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number, what a sound judge would have, the harm above 0 with its p, and what a flaw would mean."""

    measures: str
    value: Estimate
    sound: float
    harm: Estimate
    p: float
    flaw: str
    either: bool = False
    """Whether a departure to either side is a flaw; `harm` is then its size."""
    unclear: str = ""
    """Why the check cannot say that the judge is sound, where it cannot."""


@dataclass(frozen=True, slots=True)
class ProbedJudge:
    """A judge's runs: as the items are, in balanced orders, and by the name of the check under each other probe."""

    base: Run
    ordered: Ordered
    probes: Mapping[str, Run]

    def checks(self, skipped: Mapping[str, str], broken: Mapping[str, str]) -> list[Check]:
        """Return every check in the order of the table: measured, skipped with a reason, or what stopped the model."""
        measured = {
            name: measurement
            for name, measure in _CHECKS.items()
            if name not in {**skipped, **broken} and (measurement := measure(self)) is not None
        }
        p_values = [measurement.p for measurement in measured.values()]
        adjusted = dict(zip(measured, holm(p_values).tolist(), strict=True)) if self.complete and measured else {}
        result = []
        for name, measures in MEASURES.items():
            if name in broken:
                text = f"{name}: the probe stops the model: {broken[name]}"
                result.append(Check(name, measures.format(1), None, None, "red", text))
            elif name in measured:
                result.append(_checked(name, measured[name], adjusted.get(name), self.ordered.unknown))
            else:
                why = skipped.get(
                    name, "every item failed before the probe, or the probe that it is read beside is missing"
                )
                result.append(Check(name, measures.format(1), None, None, "grey", f"{name}: skipped: {why}"))
        return result

    @property
    def complete(self) -> bool:
        """Whether no run is unfinished: nothing is claimed before."""
        return all(run.complete for run in (self.base, *self.ordered.turns.values(), *self.probes.values()))


# ---------------------------------------------------------------- what is measured


def _places(judge: ProbedJudge) -> Measurement | None:
    width = judge.ordered.width
    places = range(1 if width == 2 else width)  # of two places one wins what the other loses
    tries: list[tuple[JudgedItems, ColumnContrast, float]] = []
    for position in places:
        items, wins, fair = judge.ordered.place(position)
        tries.append((items, items.contrast(wins, fair, among=len(places)), float(fair.mean())))
    position = min(places, key=lambda index: (tries[index][1].p, -abs(tries[index][1].excess.value)))
    items, contrast, fair_share = tries[position]
    measures = MEASURES["places"].format(position + 1)
    return _two_sided(items, contrast, fair_share, measures=measures, flaw="where an answer stands decides")


def _polarity(judge: ProbedJudge) -> Measurement | None:
    if not {"polarity", "question"} <= set(judge.probes):
        return None
    inverted, reworded = (
        {row.item: order_of(row) for row in judge.probes[name].rows} for name in ("polarity", "question")
    )
    items = judge.ordered.items.part(inverted)
    alike_pairs, stable_pairs = [], []
    for row in items.rows:
        own, worse, same = judge.ordered.leads[row.item], inverted[row.item], reworded[row.item]
        alike_pairs.append(0.0 if worse is None else likeness(own, worse))
        # A failure on the same question in other words would make it look unstable, and inversion complete.
        stable_pairs.append(likeness(own, np.sign(own) if same is None else same))
    alike, lost = (1 + np.array(alike_pairs)) / 2, (1 - np.array(stable_pairs)) / 2
    contrast = items.contrast(alike, lost)
    value = items.estimate(contrast.value)
    flaw = "asked for the worse answer, it inverts fewer pairs than other words leave as they are"
    if value.low is not None and value.low > 0.5:
        flaw = "asked for the worse answer, it names the one that it calls better"
    inverts = value.high is not None and value.high < 0.5
    unclear = "" if inverts else "the judge decides too little to be shown to invert anything"
    harm = items.estimate(contrast.excess)
    return Measurement(MEASURES["polarity"], value, float(lost.mean()), harm, contrast.p, flaw, unclear=unclear)


def _worded(name: str) -> Callable[[ProbedJudge], Measurement | None]:
    def measure(judge: ProbedJudge) -> Measurement | None:
        after = {row.item: row for row in judge.probes[name].rows} if name in judge.probes else {}
        if not after:
            return None
        items = judge.ordered.items.part(after)
        # One order on both sides, that of the item: under other words nothing was turned.
        pairs = [(row, after[row.item]) for row in items.rows]
        first, second = (np.array([top_credit(pair[side]) for pair in pairs]) for side in (0, 1))
        contrast = items.contrast(second, first)
        changed = 100 * float(np.mean([_changed(*pair) for pair in pairs]))
        flaw = f"the same in other words is less often right ({changed:.1f}% of pairs change their order)"
        harm = mirrored(items.estimate(contrast.excess))
        return Measurement(MEASURES[name], items.estimate(contrast.value), float(first.mean()), harm, contrast.p, flaw)

    return measure


def _labels(judge: ProbedJudge) -> Measurement | None:
    if "labels" not in judge.probes:
        return None
    seed = judge.ordered.items.seed
    own, reverse = (Ordered.of(run, {}, seed=seed) for run in (judge.base, judge.probes["labels"]))
    wins, fair = [], []
    for row in own.items.rows:
        sides = [(call, 0) for call in own.calls[row.item]] + [(call, -1) for call in reverse.calls[row.item]]
        shares = [1 / len(call.order) for call, _ in sides]
        fair.append(sum(shares) / len(shares))
        earned = [share if call.won is None else call.won[at] for (call, at), share in zip(sides, shares, strict=True)]
        wins.append(sum(earned) / len(earned))
    contrast = own.items.contrast(np.array(wins), np.array(fair))
    sound, flaw = float(np.mean(fair)), "what an answer is called decides"
    return _two_sided(own.items, contrast, sound, measures=MEASURES["labels"], flaw=flaw)


def _verbosity(judge: ProbedJudge) -> Measurement | None:
    if "verbosity" not in judge.probes:
        return None
    [effect] = effects(judge.base, {PAD: judge.probes["verbosity"]}, seed=judge.ordered.items.seed)
    if effect.change is None or effect.before is None or effect.after is None:
        return None
    p = 1.0 if effect.p is None else effect.p
    flaw = "saying everything twice makes the rejected answer win"
    return Measurement(MEASURES["verbosity"], effect.after, effect.before.value, effect.change, p, flaw)


_CHECKS: Mapping[str, Callable[[ProbedJudge], Measurement | None]] = {
    "places": _places,
    "polarity": _polarity,
    "question": _worded("question"),
    "answers": _worded("answers"),
    "labels": _labels,
    "verbosity": _verbosity,
}


def _two_sided(items: JudgedItems, contrast: ColumnContrast, sound: float, *, measures: str, flaw: str) -> Measurement:
    harm = items.estimate(contrast.excess)
    size = mirrored(harm) if harm.value < 0 else harm
    return Measurement(measures, items.estimate(contrast.value), sound, size, contrast.p, flaw, either=True)


def _changed(first: Row, second: Row) -> float:
    """Return the share of pairs whose order differs; a side that failed agrees with nothing."""
    before, after = order_of(first), order_of(second)
    if before is None or after is None:
        return 1.0
    return int((before != after).sum()) / (len(before) * (len(before) - 1))


# ---------------------------------------------------------------- colours and sentences


def _checked(name: str, measurement: Measurement, adjusted: float | None, unknown: float) -> Check:
    harm = measurement.harm
    if measurement.either and harm.low is not None and harm.high is not None:
        harm = replace(harm, high=max(-harm.low, harm.high))
    colour = colour_of(harm, adjusted, failed=unknown)
    if colour == "green" and measurement.unclear:
        colour = "grey"
    text = f"{name}: {_sentence(colour, measurement, harm, unknown)}"
    return Check(
        name, measurement.measures, measurement.value, measurement.sound, colour, text, measurement.p, adjusted
    )


def _sentence(colour: Colour, measurement: Measurement, harm: Estimate, unknown: float) -> str:
    size = f"{100 * measurement.harm.value:.1f} points{bounds(measurement.harm)} from sound"
    if colour == "red":
        return f"{measurement.flaw}: {size}"
    if colour == "yellow":
        return f"{measurement.flaw}, though by less than {100 * SLIGHT:g} points: {size}"
    if harm.low is None and FIXED not in harm.method:
        return f"too few to say: {harm.method}"
    reach = 100 * min(1.0, max(0.0, harm.value if harm.high is None else harm.high) + unknown)
    if colour == "green":
        return f"no flaw is shown; the interval ends {reach:.1f} points from sound"
    if reach <= 100 * REACH:
        return f"too few to say: {measurement.unclear}"
    return f"too few to say: the interval ends {reach:.1f} points from sound, beyond {100 * REACH:g}; use more items"
