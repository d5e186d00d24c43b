"""Can the label be guessed without the user? All probes, their p-values, and Holm's correction over the family.

The family is always all of NAMES, whatever a benchmark allows to be guessed, and the judge where one was asked: so its
error rate is one and the same everywhere.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from pluralrm.audit import cues, judge_probe
from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.cues import Cues, telling
from pluralrm.audit.guesses import (
    CROSSED_FOLDS,
    FOLDS,
    RELABELLINGS,
    REPEATS,
    Guess,
    Trial,
    by_rule,
    by_training,
    detectable,
    one_thread,
    trial,
)
from pluralrm.audit.result import AuditVerdict, Probe, Reads
from pluralrm.core import Estimate, Run
from pluralrm.metrics import FailureBounds, bounds
from pluralrm.stats import holm, share_interval, spread, wilson
from pluralrm.stats.clusters import FloatArray
from pluralrm.stats.intervals import t_quantile

ERROR_RATE = 0.05
"""How often a sound benchmark may be told that it leaks, over all probes of one audit together."""
BELOW = "a property of the design: held-out labels are the opposite of those that share their texts or their user"
FEWEST = 4
"""Clusters below which nothing is guessed: three users show nothing of a fourth."""

ANSWERS: Reads = "answers"
BOTH: Reads = "prompt and answers"

RULES: Mapping[str, Callable[[Comparisons], dict[str, FloatArray]]] = {
    "length": cues.lengths,
    "position": cues.places,
}
CLASSIFIERS: Mapping[str, tuple[Reads, Callable[[Comparisons, int], Cues]]] = {
    "style": (ANSWERS, lambda table, _: cues.style_of_answers(table)),
    "words": (ANSWERS, lambda table, _: cues.words(table)),
    "letter groups": (ANSWERS, lambda table, _: cues.letters(table)),
    "topics": (ANSWERS, cues.topics),
    "overlap": (BOTH, lambda table, _: cues.overlap(table)),
    "matching style": (BOTH, lambda table, _: cues.matching_style(table)),
    "cue words": (BOTH, cues.cue_words),
}
NAMES: tuple[str, ...] = (*RULES, *CLASSIFIERS)


class Tried(NamedTuple):
    """A probe's guess and what explains it; no guess where the design fixes what it would earn."""

    name: str
    reads: Reads
    guess: Guess | None
    p: float = 1.0
    detail: str = ""
    ends: FailureBounds | None = None
    """How much failures could hide, where any item failed."""


def leak_probes(
    table: Comparisons, *, seed: int = 0, relabellings: int = RELABELLINGS, judge: Run | str | None = None
) -> list[Probe]:
    """Return every probe of NAMES, and the judge's where one was asked (a text says why it cannot be read yet).

    None of them can guess where there are fewer than FEWEST clusters. So few relabellings that nothing could ever be
    significant are an error.
    """
    names = NAMES if judge is None else (*NAMES, judge_probe.NAME)
    if len(names) / (1 + relabellings) >= ERROR_RATE:
        least = int(len(names) / ERROR_RATE)
        raise ValueError(f"{relabellings} relabellings: no p-value could be small enough; wanted at least {least}")
    if why := _too_few(table):
        return [Probe(name, _reads(name), "not available", detail=why) for name in names]
    with one_thread():
        made = trial(table, seed=seed, relabellings=relabellings)
        tries = list(_tries(table, made, seed))
    if isinstance(judge, Run):
        tries.append(_asked(table, made, judge))
    adjusted = holm([tried.p for tried in tries]).tolist()
    probes = [_probe(table, tried, p, ERROR_RATE / len(tries)) for tried, p in zip(tries, adjusted, strict=True)]
    unread = [Probe(judge_probe.NAME, BOTH, "not available", detail=judge)] if isinstance(judge, str) else []
    return probes + unread


def _too_few(table: Comparisons) -> str:
    """Return why nothing can be guessed, or nothing."""
    if not len(table.items):
        return "no labels: nothing to guess"
    if not table.unlinked:
        return "shared texts chain more than half of the items together: nothing can be held out"
    clusters, units = len(set(table.clusters)), int(table.unit.max()) + 1
    if clusters < FEWEST:
        return f"{clusters} labelled clusters, wanted {FEWEST} or more"
    return "" if units >= FEWEST else f"{units} units that share no text, wanted {FEWEST} or more"


def _asked(table: Comparisons, trial: Trial, run: Run) -> Tried:
    guess = judge_probe.guess(table, trial.labels, run)
    return Tried(judge_probe.NAME, BOTH, guess, _p(table, guess), run.model, bounds(run, "accuracy", average="micro"))


def _tries(table: Comparisons, trial: Trial, seed: int) -> Iterator[Tried]:
    for name, rules in RULES.items():
        if (table.balanced or table.settled) and name != "position":
            yield Tried(name, ANSWERS, None)
        else:
            guess = by_rule(table, trial.labels, rules(table))
            yield Tried(name, ANSWERS, guess, _p(table, guess))
    for name, (reads, features) in CLASSIFIERS.items():
        if table.settled or (table.balanced and reads == ANSWERS):
            yield Tried(name, reads, None)
        else:
            found = features(table, seed)
            guess = by_training(table, trial, found.values)
            yield Tried(name, reads, guess, _p(table, guess), telling(table, found))


def _p(table: Comparisons, guess: Guess) -> float:
    """Return the p-value by relabelling; where that cannot keep clusters whole, the larger of it and a t-test's."""
    if not table.uneven:
        return guess.p
    from scipy.stats import t as student

    means = table.means(guess.credits)
    variance, df = spread(means, 0)
    ahead = float(means.means[0]) - table.chance
    between = float(student.sf(ahead / variance**0.5, df)) if variance else float(ahead <= 0)
    return max(guess.p, min(1.0, guess.choices * between))


def _probe(table: Comparisons, tried: Tried, adjusted: float, level: float) -> Probe:
    if tried.guess is None:
        fixed = "fixed by design: every answer is preferred equally often among the prompts that share it"
        share = Estimate(table.chance, None, None, len(table.items), 0, fixed)
        return Probe(tried.name, tried.reads, "by design", share, detail="every answer wins equally often")
    beats = adjusted < ERROR_RATE
    below = tried.name in CLASSIFIERS and _far_below(table, tried.guess, level)
    return Probe(
        tried.name,
        tried.reads,
        _called(table, tried) if beats else "below chance" if below else "none found",
        _accuracy(table, tried, tried.guess),
        tried.p,
        adjusted,
        detectable(tried.guess, table.chance, level),
        tried.guess.rule,
        tried.detail if beats else BELOW if below else "",
        None if tried.ends is None else tried.ends.best,
    )


def _far_below(table: Comparisons, guess: Guess, level: float) -> bool:
    """Return whether a guess is worse than chance by more than labels that mean nothing would make it."""
    return guess.p_below < level and float(guess.credits.mean()) < table.chance


def _called(table: Comparisons, tried: Tried) -> AuditVerdict:
    """Return what it is called that a guess beats chance."""
    if not table.balanced or tried.reads == ANSWERS:
        return "leak"
    return "by design" if tried.name == judge_probe.NAME else "shortcut"


def _accuracy(table: Comparisons, tried: Tried, guess: Guess) -> Estimate:
    """Return the mean credit; a trained guess's interval is widened by what its training makes clusters share."""
    means = table.means(guess.credits)
    interval = share_interval(means)
    if tried.name not in CLASSIFIERS:
        failed = 0 if tried.ends is None else tried.ends.failed
        return Estimate(*interval[:3], len(table.items), failed, interval.method)
    variance, df = spread(means, 0)
    low, high = interval.low, interval.high
    if variance and 0 < interval.value < 1:
        effective = interval.value * (1 - interval.value) / (variance * guess.widening)
        low, high = wilson(interval.value, effective, t_quantile(df))
    by = f"{CROSSED_FOLDS} × {CROSSED_FOLDS} folds by cluster and text" if table.crossed else f"{FOLDS}-fold by cluster"
    how = f"{by}, {REPEATS} times, variance times {guess.widening:.2f} for shared training"
    return Estimate(interval.value, low, high, len(table.items), 0, f"{interval.method}; {how}")


def _reads(name: str) -> Reads:
    return ANSWERS if name in RULES else CLASSIFIERS[name][0] if name in CLASSIFIERS else BOTH
