"""What a table of correlations says, in sentences: does the benchmark predict the ranking, and how sure is that?"""

from collections.abc import Mapping, Sequence

from pluralrm.correlate.findings import ENOUGH, Finding
from pluralrm.correlate.leverage import Carried, InGroup, turns
from pluralrm.correlate.measures import Name

SIGNIFICANT = 0.05
_COUNTS = {2: "Two", 3: "Three"}


def verdict(names: tuple[str, str], found: Mapping[Name, Finding], p: float, *, family: int) -> str:
    """Return the sentence; `p` is that of Spearman's correlation, adjusted over a family of pairs of columns."""
    benchmark, downstream = names
    rank, pairs = found["spearman"], found["agreement"]
    told, n = rank.estimate, rank.estimate.n
    if p < SIGNIFICANT:
        says = f"{benchmark} predicts the ranking by {downstream}"
        says = says if told.value > 0 else f"{says} turned round: what it ranks high does worse"
    else:
        says = f"{benchmark} is not shown to predict the ranking by {downstream}"
    holm = f", Holm over {family} pairs of columns" if family > 1 else ""
    numbers = f"Spearman {signed(told.value)}{_interval(rank)}, p {below(p)}{holm}, {n} models"
    alike = f"it orders {100 * pairs.estimate.value:.0f}% of the pairs alike{_percent(pairs)}, where chance gets 50%"
    return f"{says} ({numbers}): {alike}. {_sure(rank, p)}"


def _sure(rank: Finding, p: float) -> str:
    told = rank.estimate
    if told.n < ENOUGH:
        return f"{told.n} models are too few to speak of others: with fewer than {ENOUGH} almost nothing can be shown."
    if told.low is None or told.high is None:
        return f"How sure that is cannot be said: {told.method.removeprefix('no interval: ')}."
    others = (
        f"Studies of {told.n} models drawn alike show between {signed(told.low)} and {signed(told.high)} on average."
    )
    if (p < SIGNIFICANT) == (told.low <= 0 <= told.high):
        return f"{others} Interval and p disagree: take it as open."
    return others


def carried_by(pearson: float, carried: Sequence[Carried]) -> str:
    """Return the warning that a few models carry Pearson's correlation."""
    most = len(carried[-1].models)
    who = "One model carries" if most == 1 else f"{_COUNTS[most]} models carry"
    turned = ("turns" if one.without * pearson < 0 else "falls" for one in carried)
    without = "; ".join(
        f"without {', '.join(one.models)} it {turn} to {signed(one.without)}"
        for one, turn in zip(carried, turned, strict=True)
    )
    return f"{who} the Pearson of {signed(pearson)}: {without}. Read the rank correlations."


def inside_groups(groups: Sequence[InGroup]) -> str:
    """Return what holds inside the groups, and whether the sign turns between them."""
    told = "; ".join(
        f"{group.group}: Pearson {signed(group.pearson)}, Spearman {signed(group.spearman)} "
        f"({group.n} models, p {below(group.p)})"
        for group in groups
    )
    return f"The sign turns between groups. {told}." if turns(groups) else f"Inside groups: {told}."


def too_few(n: int, items: int) -> str:
    """Return the warning below ENOUGH models."""
    what = "only items are resampled, and intervals are about these models only" if items else "there is no interval"
    return f"{n} models, fewer than {ENOUGH}: {what}."


def signed(number: float) -> str:
    """Return a correlation as papers print it: .717, -.039, 1.000."""
    text = f"{number:.3f}"
    return "0.000" if float(text) == 0 else text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def below(p: float) -> str:
    """Return `= .012`, or `< .001`."""
    return "< .001" if p < 0.001 else f"= {signed(p)}"


def _interval(finding: Finding) -> str:
    low, high = finding.estimate.low, finding.estimate.high
    return "" if low is None or high is None else f" [{signed(low)}, {signed(high)}]"


def _percent(finding: Finding) -> str:
    low, high = finding.estimate.low, finding.estimate.high
    return "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
