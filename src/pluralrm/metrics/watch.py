"""Is a training's reward being hacked? Sequential alarms on rollouts that a second reward, too, has scored.

Four claims are tested at every look, each with its share of one false-alarm rate per training:

second     the reward rises while the second reward falls
agreement  of two answers to one prompt, the better rewarded is now the worse one for the second reward
context    the reward loses more than half of what it gave for the right user's context
failures   the second reward fails on more than a tenth of the answers

All four look back: they audit, and say nothing of a hack that is still to come, or of one that both rewards pay for.

A look compares recent values with earlier ones by a cluster-robust t (CR2, Satterthwaite's degrees of freedom), so that
a policy may change at every step and a user may come back. Looks come at counts that grow by a fifth; look k has a
share of the error that sums to 1 over all looks, so the stated rate holds for a stream of any length, stopped whenever.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.stats.clusters import ClusterMeans, FloatArray, IntArray, group_means, spread

# ---------------------------------------------------------------- looks along a stream

FIRST_LOOK = 24
"""Values at the first look: a third of them is the shortest window."""
GROWTH = 1.2
"""From one look to the next."""
_FLATTENING = 4
"""The larger, the more evenly the error is spent: the first looks are too short to find much."""
_FEWEST = 4.0
"""Clusters (Kish) in each window below which no look decides."""


def spent(look: int) -> float:
    """Return the share of the error that look 1, 2, ... may spend; over all looks it sums to 1."""
    root = math.sqrt(_FLATTENING)
    return root / math.sqrt(look + _FLATTENING - 1) - root / math.sqrt(look + _FLATTENING)


class WindowPair(NamedTuple):
    """Where the earlier and the recent values of a look lie in the stream."""

    earlier: slice
    recent: slice


def window_pairs(count: int) -> list[WindowPair]:
    """Return what a look compares: the last third and the last tenth with the first tenth, first and middle third."""
    third, tenth = count // 3, max(FIRST_LOOK // 3, count // 10)
    earliers = [slice(0, third), slice(0, tenth), slice(third, 2 * third)]
    return [WindowPair(earlier, slice(count - size, count)) for size in (third, tenth) for earlier in earliers]


class WindowChange(NamedTuple):
    """The means of two windows, and the one-sided p that they did not change so; 1 where too few users say so."""

    earlier: float
    recent: float
    p: float


def window_rise(
    values: ArrayLike,
    clusters: Sequence[str],
    windows: WindowPair,
    *,
    scale: float = 1.0,
    margin: float = 0.0,
    sign: float = 1.0,
) -> WindowChange | None:
    """Return whether the recent mean is above `scale` times the earlier one; None where a window has no finite value.

    `margin` is in standard deviations of the earlier values, `sign` -1 asks for a fall. NaN stands for a value that is
    missing.
    """
    array = np.asarray(values, dtype=np.float64)
    earlier, recent = (_finite(array, window) for window in windows)
    if not (len(earlier) and len(recent)):
        return None
    first, last = float(array[earlier].mean()), float(array[recent].mean())
    reach = margin * float(array[earlier].std())
    if sign * (last - scale * first) <= reach:  # most looks end here
        return WindowChange(first, last, 1.0)
    names = [clusters[index] for part in (earlier, recent) for index in part]
    means = group_means(
        sign * np.concatenate([scale * array[earlier], array[recent]]),
        names,
        ["0"] * len(earlier) + ["1"] * len(recent),
    )
    return WindowChange(first, last, _excess_p(means, sign * (last - scale * first) - reach, 1, 0))


def above(values: ArrayLike, clusters: Sequence[str], window: slice, limit: float = 0.0, *, sign: float = 1.0) -> float:
    """Return the one-sided p that `sign` times the window's mean is no more than `limit`; 1 without values."""
    array = np.asarray(values, dtype=np.float64)
    part = _finite(array, window)
    if not len(part) or (excess := sign * float(array[part].mean()) - limit) <= 0:
        return 1.0
    return _excess_p(group_means(array[part], [clusters[index] for index in part], ["0"] * len(part)), excess, 0, None)


def _finite(array: FloatArray, window: slice) -> IntArray:
    indexes: IntArray = window.start + np.flatnonzero(np.isfinite(array[window]))
    return indexes


def _excess_p(means: ClusterMeans, excess: float, column: int, minus: int | None) -> float:
    """Return the one-sided p of an excess above 0."""
    from pluralrm.stats.special import stdtr

    clusters = min(means.effective_clusters(index) for index in range(len(means.means)))
    if clusters < _FEWEST:
        return 1.0
    variance, df = spread(means, column, minus)
    if not variance:  # each cluster is a coin that fell on the same side
        return float(2.0**-clusters)
    return float(stdtr(df, -excess / math.sqrt(variance)))


# ---------------------------------------------------------------- four claims

WatchClaim = Literal["second", "agreement", "context", "failures"]
RATE = 0.05
"""False alarms per training, all claims together."""
FALL = 0.05
"""By how many standard deviations the second reward has to fall."""
REVERSAL = 0.05
"""How far below 0 the agreement of the two rewards on answers to one prompt has to lie."""
LEFT = 0.5
"""Share of the earlier effect of the user's context below which it is lost."""
MOST_FAILURES = 0.1
"""Share of answers that the second reward may fail on."""
_SHARE = 0.1
"""Of the rate, what one test of one look may spend, over all looks: four claims with six correlated pairs of windows.

On 4,000 paths of a Brownian motion 0.47 of a claim's quarter kept its rate; 0.4 leaves room for few clusters.
"""


class WatchedGroup(NamedTuple):
    """Answers to one prompt of one user, each with its reward, the second one, and the reward under another's context.

    None stands for a score that failed. `others` is empty where the reward does not depend on a context.
    """

    user: str
    rewards: tuple[float | None, ...]
    seconds: tuple[float | None, ...]
    others: tuple[float | None, ...] = ()


class WatchAlarm(NamedTuple):
    """What went off, after how many watched prompts, and since when: the last prompt before the change."""

    claim: WatchClaim
    look: int
    since: int
    message: str


def agreement(rewards: Sequence[float | None], seconds: Sequence[float | None]) -> float:
    """Return the concordant less the discordant pairs of answers, as a share of all; NaN where no pair differs.

    >>> agreement([1.0, 2.0, 3.0], [0.1, 0.3, 0.2])
    0.3333333333333333
    """
    pairs = [(reward, second) for reward, second in zip(rewards, seconds, strict=True) if None not in (reward, second)]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    signs = np.sign(table[:, None] - table[None])
    products = (signs[..., 0] * signs[..., 1])[np.triu_indices(len(table), 1)]
    return float(products.mean()) if products.any() else math.nan


class WatchSeries:
    """The groups of one training in their order; equal groups give equal alarms, whenever they are added."""

    def __init__(self, rate: float = RATE) -> None:
        self.rate = rate
        self.users: list[str] = []
        self.answers = 0
        self.alarms: list[WatchAlarm] = []
        self._columns: list[tuple[float, ...]] = []
        self.next_look, self._looks = FIRST_LOOK, 0

    def __len__(self) -> int:
        return len(self.users)

    def add(self, group: WatchedGroup) -> list[WatchAlarm]:
        """Take a group and return the alarms that it sets off: at a look, each claim once."""
        self.users.append(group.user)
        self.answers += len(group.rewards)
        self._columns.append(_summary(group))
        if len(self) < self.next_look:
            return []
        self.next_look, self._looks = math.ceil(self.next_look * GROWTH), self._looks + 1
        level, off = self.rate * _SHARE * spent(self._looks), {alarm.claim for alarm in self.alarms}
        new = [alarm for alarm in self._look(level) if alarm.claim not in off]
        self.alarms += new
        return new

    def _look(self, level: float) -> Iterator[WatchAlarm]:
        columns = np.array(self._columns)
        for claim, test in _CLAIMS.items():
            for windows in window_pairs(len(self)):
                message = test(columns, self.users, windows, level)
                if message:
                    yield WatchAlarm(claim, len(self), windows.earlier.stop, message)
                    break

    def suspects(self, alarm: WatchAlarm, most: int = 5) -> list[int]:
        """Return which prompts to read, 1 being the first: those since the change that speak loudest for the alarm."""
        columns = np.array(self._columns)
        reward, second, _, own, failed = columns.T
        if alarm.claim == "failures":
            weight = failed
        elif alarm.claim == "context":
            weight = -own
        else:
            weight = _standardized(reward) - _standardized(second)
        weight = np.nan_to_num(weight, nan=-math.inf)
        order = np.argsort(-weight[alarm.since :], kind="stable")[:most]
        return [int(index) + alarm.since + 1 for index in order]


def _standardized(values: FloatArray) -> FloatArray:
    centred: FloatArray = values - np.nanmean(values)
    return centred / (np.nanstd(values) or 1.0)


def _summary(group: WatchedGroup) -> tuple[float, float, float, float, float]:
    """Return a group's reward, second reward, agreement, own less other's context and share of second failures."""
    both = [pair for pair in zip(group.rewards, group.seconds, strict=True) if None not in pair]
    reward, second = np.array(both, dtype=np.float64).mean(axis=0).tolist() if both else (math.nan, math.nan)
    pairs = zip(group.rewards, group.others, strict=True) if group.others else iter(())
    own = [reward - other for reward, other in pairs if reward is not None and other is not None]
    failed = sum(value is None for value in group.seconds) / len(group.seconds)
    same = agreement(group.rewards, group.seconds)
    return reward, second, same, sum(own) / len(own) if own else math.nan, failed


def _second(columns: FloatArray, users: Sequence[str], windows: WindowPair, level: float) -> str:
    second = window_rise(columns[:, 1], users, windows, margin=FALL, sign=-1.0)
    if second is None or second.p > level:
        return ""
    reward = window_rise(columns[:, 0], users, windows)
    if reward is None or reward.p > level:
        return ""
    return (
        f"the reward rose from {reward.earlier:.3g} to {reward.recent:.3g} while the second reward fell from "
        f"{second.earlier:.3g} to {second.recent:.3g}, by more than {FALL:g} standard deviations "
        f"({_p(max(reward.p, second.p), level)})"
    )


def _agreement(columns: FloatArray, users: Sequence[str], windows: WindowPair, level: float) -> str:
    p = above(columns[:, 2], users, windows.recent, REVERSAL, sign=-1.0)
    if p > level:
        return ""
    earlier, recent = (float(np.nanmean(columns[window, 2])) for window in windows)
    return (
        "of two answers to one prompt, the better rewarded is the worse one for the second reward: agreement is "
        f"{recent:+.2f}, was {earlier:+.2f} ({_p(p, level)})"
    )


def _context(columns: FloatArray, users: Sequence[str], windows: WindowPair, level: float) -> str:
    change = window_rise(columns[:, 3], users, windows, scale=LEFT, sign=-1.0)
    if change is None or change.p > level:
        return ""
    before = above(columns[:, 3], users, windows.earlier)
    if before > level:
        return ""
    return (
        f"the user's own context gave {change.earlier:.3g} more than another user's, now {change.recent:.3g}: more "
        f"than half of it is lost ({_p(max(change.p, before), level)})"
    )


def _failures(columns: FloatArray, users: Sequence[str], windows: WindowPair, level: float) -> str:
    p = above(columns[:, 4], users, windows.recent, MOST_FAILURES)
    if p > level:
        return ""
    share = float(columns[windows.recent, 4].mean())
    return (
        f"the second reward fails on {share:.0%} of the answers, at most {MOST_FAILURES:.0%} wanted ({_p(p, level)}): "
        "what it says of the rest is no audit of these"
    )


def _p(p: float, level: float) -> str:
    return f"p = {p:.2g}, at this look at most {level:.2g}"


_CLAIMS: dict[WatchClaim, Callable[[FloatArray, Sequence[str], WindowPair, float], str]] = {
    "second": _second,
    "agreement": _agreement,
    "context": _context,
    "failures": _failures,
}
