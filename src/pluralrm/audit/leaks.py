"""Can the label be guessed without the user? All probes, their p-values, and Holm's correction over the family.

The family is always all of NAMES, whatever a benchmark allows to be guessed, and the judge where one was asked: so its
error rate is one and the same everywhere.

The judge is a model that is told nothing of who asks. Where the answers of an item are of equal general quality, as
Personalized RewardBench claims of its own, it can only guess; one that is right more often shows that preferred answers
are better for anybody. It is scored as any model is, under the condition `none`; here its run is read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pluralrm.audit import context, probes
from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.probes import (
    CROSSED_FOLDS,
    FOLDS,
    POWER,
    RELABELLINGS,
    REPEATS,
    Cues,
    Guess,
    Trial,
    by_rule,
    by_training,
    detectable,
    p_value,
    telling,
    trial,
)
from pluralrm.audit.result import AuditFinding, AuditVerdict, Measures, Probe, Reads, Status, share
from pluralrm.core import Benchmark, Estimate, Failure, Item, Row, Run
from pluralrm.errors import MetricError
from pluralrm.metrics import FailureBounds, bounds, positions
from pluralrm.metrics.estimates import measure_rows
from pluralrm.metrics.units import numbers, top_credit
from pluralrm.stats import holm, share_interval, spread, wilson
from pluralrm.stats.clusters import FloatArray, IntArray
from pluralrm.stats.comparisons import one_thread
from pluralrm.stats.intervals import t_quantile
from pluralrm.text import counted, estimated

JUDGE, JUDGE_TOPIC = "judge", "judge without the user"
MARGIN = 0.05
"""How far from chance an accuracy still counts as at chance."""
STEADY = 0.5
"""The position consistency below which a judge goes by the place more than by the answers."""


def scored_by_judge(table: Comparisons, benchmark: Benchmark, run: Run) -> Run | str:
    """Return the run with one row for each labelled item, in their order, or why there is none yet.

    A run on other content, or one that was shown something of the user, is an error.
    """
    if run.benchmark_hash != benchmark.content_hash:
        raise MetricError(
            f"the judge's run is on {run.benchmark} ({run.benchmark_hash[:8]}), and {benchmark.card.name} "
            f"({benchmark.content_hash[:8]}) is audited. Score the judge on this benchmark, under the condition 'none'."
        )
    if run.reveals:
        fields = ", ".join(sorted(run.reveals))
        raise MetricError(f"the judge's run shows {fields}; wanted one under the condition 'none'.")
    rows = {row.item: row for row in run.rows if not row.open}
    answers = [rows[item.id] for item in table.items if item.id in rows]
    if len(answers) < len(table.items):
        return f"{run.model} has answered {len(answers):,} of {counted(len(table.items), 'item')}"
    if not all(map(_placed_alike, answers, table.items)):
        raise MetricError(
            "the judge's run has the candidates in other places. Audit with the seed that it was scored with."
        )
    return replace(run, rows=tuple(answers))


def _placed_alike(row: Row, item: Item) -> bool:
    return row.candidate_ids == item.candidate_ids and row.lengths == tuple(map(len, item.candidates))


def judge_guess(table: Comparisons, labels: IntArray, run: Run) -> Guess:
    """Return what the judge earns; a failed item is one that it got wrong, so failing never makes a leak."""
    scores = [_scores(row, order) for row, order in zip(run.rows, table.orders, strict=True)]
    return by_rule(table, labels, {"": np.concatenate(scores)})


def _scores(row: Row, order: Sequence[int]) -> FloatArray:
    """Return the scores in the order of the table; where the item failed, those of a wrong pick."""
    scores = numbers(row)
    if scores is None:
        wrong = next(index for index in order if index not in row.best)
        scores = [float(index == wrong) for index in range(len(order))]
    return np.array([scores[index] for index in order])


# ---------------------------------------------------------------- what is said of it


def judge_finding(table: Comparisons, run: Run | str | None, probe: Probe | None) -> AuditFinding:
    """Return how the judge fares, and what that rests on: failures, ties, agreement of its orders."""
    if run is None:
        return AuditFinding(
            JUDGE_TOPIC, "needs a judge", "no model was asked to pick answers without the user (--judge MODEL)", {}
        )
    if isinstance(run, str) or probe is None or probe.accuracy is None:
        return AuditFinding(JUDGE_TOPIC, "not available", run if isinstance(run, str) else "nothing was guessed", {})
    measures = _measures(run, probe.accuracy)
    status, verdict = _verdict(table, run, probe, measures)
    right = f"right in {estimated(probe.accuracy)}% of {counted(len(run.rows), 'item')}"
    parts = [f"{run.model}, told nothing of the user, is {right}", *_rests_on(run, measures)]
    return AuditFinding(JUDGE_TOPIC, status, f"{'; '.join(parts)}: {verdict}", measures)


def _measures(run: Run, accuracy: Estimate) -> Measures:
    measures: dict[str, Estimate | float | int] = {"accuracy": accuracy, "ties": measure_rows(run.rows, "tie_rate")}
    with suppress(MetricError):  # only a judge that compares answers side by side has orders
        if (agreeing := positions(run, average="micro").consistency) is not None:
            measures["position consistency"] = agreeing
    if (ends := bounds(run, "accuracy", average="micro")) is not None:
        measures |= {"accuracy at worst": ends.worst, "accuracy at best": ends.best, "failed": ends.failed}
    return measures


def _rests_on(run: Run, measures: Measures) -> Iterator[str]:
    if (failed := measures.get("failed")) is not None:
        kinds = Counter(score.kind for row in run.rows for score in row.scores if isinstance(score, Failure))
        ends = [estimated(_number(measures[f"accuracy at {end}"])) for end in ("worst", "best")]
        yield f"{failed} failed ({', '.join(sorted(kinds))}): {ends[0]} if all of them were wrong, {ends[1]} if right"
    yield f"it ties in {estimated(_number(measures['ties']))}%"
    if "position consistency" in measures:
        yield f"its orders agree in {estimated(_number(measures['position consistency']))}%"


def _number(measure: Estimate | float) -> float:
    return measure.value if isinstance(measure, Estimate) else measure


def _verdict(table: Comparisons, run: Run, probe: Probe, measures: Measures) -> tuple[Status, str]:
    if table.balanced:
        return "ok", "by design a prompt says which answer is wanted"
    if probe.leak:
        return "warn", "preferred answers are better for anybody, so part of any accuracy is general quality, not taste"
    if _number(measures["ties"]) == 1:
        return "note", "it prefers no answer to another, so it says nothing of them"
    if _number(measures.get("position consistency", 1.0)) < STEADY:
        return "note", "it goes by the place more than by the answers, so it says little of them"
    return _near_chance(table, run)


def _near_chance(table: Comparisons, run: Run) -> tuple[Status, str]:
    """Return on which side of chance the accuracy lies, or that it lies at chance, whatever the failed items were."""
    worst, best = (
        share(
            [end if row.failed else top_credit(row) for row in run.rows],
            table.clusters,
            crossed=table.prompts,
            level=0.9,
        )
        for end in (0.0, 1.0)
    )
    if worst.low is not None and best.high is not None:
        if best.high < table.chance:
            return "note", "it prefers the other answers"
        # An interval of 90% inside the margin is both one-sided tests passed at 5%.
        if table.chance - MARGIN <= worst.low and best.high <= table.chance + MARGIN:
            return "ok", f"at chance, within {100 * MARGIN:.0f} points"
    return "note", "neither chance nor a difference from it is shown"


ERROR_RATE = 0.05
"""How often a sound benchmark may be told that it leaks, over all probes of one audit together."""
BELOW = "a property of the design: held-out labels are the opposite of those that share their texts or their user"
FEWEST = 4
"""Clusters below which nothing is guessed: three users show nothing of a fourth."""

ANSWERS: Reads = "answers"
BOTH: Reads = "prompt and answers"
CONTEXT: Reads = "another's context"
VOTES: Reads = "others' votes"

RULES: Mapping[str, Callable[[Comparisons], dict[str, FloatArray]]] = {
    "length": probes.lengths,
    "position": probes.places,
}
CLASSIFIERS: Mapping[str, tuple[Reads, Callable[[Comparisons, int], Cues]]] = {
    "style": (ANSWERS, lambda table, _: probes.style_of_answers(table)),
    "words": (ANSWERS, lambda table, _: probes.words(table)),
    "letter groups": (ANSWERS, lambda table, _: probes.letters(table)),
    "topics": (ANSWERS, probes.topics),
    "overlap": (BOTH, lambda table, _: probes.overlap(table)),
    "matching style": (BOTH, lambda table, _: probes.matching_style(table)),
    "cue words": (BOTH, probes.cue_words),
}
NAMES: tuple[str, ...] = (*RULES, *CLASSIFIERS)
IN_CONTEXT, IN_FILE, ANOTHER, OTHERS = "answer in the context", "place in the file", "another person", "other people"
OF_PEOPLE: Mapping[str, Reads] = {IN_CONTEXT: "own context", IN_FILE: "candidate ids", ANOTHER: CONTEXT, OTHERS: VOTES}
"""Tried where a benchmark has what they read, whatever its labels are: then they belong to the family."""


class Tried(NamedTuple):
    """A probe's guess and what explains it; no guess where the design fixes what it would earn."""

    name: str
    reads: Reads
    guess: Guess | None
    p: float = 1.0
    detail: str = ""
    ends: FailureBounds | None = None
    """How much failures could hide, where any item failed."""
    error: float | None = None
    """Where another's guess is compared with the own: the standard error of the difference."""


def leak_probes(
    table: Comparisons, *, seed: int = 0, relabellings: int = RELABELLINGS, judge: Run | str | None = None
) -> list[Probe]:
    """Return every probe of NAMES, and the judge's where one was asked (a text says why it cannot be read yet).

    None of them can guess where there are fewer than FEWEST clusters. So few relabellings that nothing could ever be
    significant are an error.
    """
    names = NAMES if judge is None else (*NAMES, JUDGE)
    if why := _too_few(table):
        return [Probe(name, _reads(name), "not available", detail=why) for name in names]
    with one_thread():
        draw = trial(table, seed=seed, relabellings=relabellings)
        of_people = list(_of_people(table, draw, seed))
        tries = [*(_tries(table, draw, seed)), *(tried for tried in of_people if isinstance(tried, Tried))]
    if (family := len(tries) + (judge is not None)) / (1 + relabellings) >= ERROR_RATE:
        least = int(family / ERROR_RATE)
        raise ValueError(f"{relabellings} relabellings: no p-value could be small enough; wanted at least {least}")
    if isinstance(judge, Run):
        tries.append(_asked(table, draw, judge))
    adjusted = holm([tried.p for tried in tries]).tolist()
    probes = [_probe(table, tried, p, ERROR_RATE / len(tries)) for tried, p in zip(tries, adjusted, strict=True)]
    unread = [Probe(JUDGE, BOTH, "not available", detail=judge)] if isinstance(judge, str) else []
    return probes + [probe for probe in of_people if isinstance(probe, Probe)] + unread


def _too_few(table: Comparisons) -> str:
    """Return why nothing can be guessed, or nothing."""
    if not len(table.items):
        return "no labels: nothing to guess"
    if not table.unlinked:
        return "shared texts chain more than half of the items together: nothing can be held out"
    clusters, units = len(set(table.clusters)), int(table.unit.max()) + 1
    if clusters < FEWEST:
        return f"{counted(clusters, 'labelled cluster')}, wanted {FEWEST} or more"
    return "" if units >= FEWEST else f"{units} units that share no text, wanted {FEWEST} or more"


def _asked(table: Comparisons, trial: Trial, run: Run) -> Tried:
    guess = judge_guess(table, trial.labels, run)
    return Tried(JUDGE, BOTH, guess, p_value(table, guess), run.model, bounds(run, "accuracy", average="micro"))


def _tries(table: Comparisons, trial: Trial, seed: int) -> Iterator[Tried]:
    for name, rules in RULES.items():
        if (table.balanced or table.settled) and name != "position":
            yield Tried(name, ANSWERS, None)
        else:
            guess = by_rule(table, trial.labels, rules(table))
            yield Tried(name, ANSWERS, guess, p_value(table, guess))
    for name, (reads, features) in CLASSIFIERS.items():
        if table.settled or (table.balanced and reads == ANSWERS):
            yield Tried(name, reads, None)
        else:
            cues = features(table, seed)
            guess = by_training(table, trial, cues.values)
            yield Tried(name, reads, guess, p_value(table, guess), telling(table, cues))


def _of_people(table: Comparisons, trial: Trial, seed: int) -> Iterator[Tried | Probe]:
    """Yield the probes of OF_PEOPLE that the benchmark has something for, or why it has too little."""
    rules = {IN_CONTEXT: context.answers_in_context(table)}
    if not table.balanced:  # where every answer wins equally often, so does every place
        rules[IN_FILE] = context.file_places(table)
    for name, scores in rules.items():
        if scores is not None:
            guess = by_rule(table, trial.labels, scores)
            yield Tried(name, OF_PEOPLE[name], guess, p_value(table, guess), guess.rule)
    if table.settled:
        return
    compared = {
        ANOTHER: context.from_another(table, trial, seed) if context.has_contexts(table) else None,
        OTHERS: context.from_others(table),
    }
    for name, result in compared.items():
        if isinstance(result, str):
            yield Probe(name, OF_PEOPLE[name], "not available", detail=result)
        elif result is not None:
            yield Tried(name, OF_PEOPLE[name], result.guess, result.p, result.detail, error=result.error)


def _probe(table: Comparisons, tried: Tried, adjusted: float, level: float) -> Probe:
    from pluralrm.stats.special import ndtri

    if tried.guess is None:
        fixed = "fixed by design: every answer is preferred equally often among the prompts that share it"
        share = Estimate(table.chance, None, None, len(table.items), 0, fixed)
        return Probe(tried.name, tried.reads, "by design", share, detail="every answer wins equally often")
    beats = adjusted < ERROR_RATE
    below = tried.name in CLASSIFIERS and _far_below(table, tried.guess, level)
    # The own cannot be shown to be no better where the difference is known less well than the margin.
    vague = tried.error is not None and float(ndtri(1 - level) + ndtri(POWER)) * tried.error > context.MARGIN
    return Probe(
        tried.name,
        tried.reads,
        _called(table, tried) if beats else "below chance" if below else "none found",
        _accuracy(table, tried, tried.guess),
        tried.p,
        adjusted,
        None if vague else detectable(tried.guess, table.chance, level),
        tried.guess.rule,
        tried.detail if beats or tried.error is not None else BELOW if below else "",
        None if tried.ends is None else tried.ends.best,
    )


def _far_below(table: Comparisons, guess: Guess, level: float) -> bool:
    """Return whether a guess is worse than chance by more than labels that mean nothing would make it."""
    return guess.p_below < level and float(guess.credits.mean()) < table.chance


def _called(table: Comparisons, tried: Tried) -> AuditVerdict:
    """Return what it is called that a guess beats chance."""
    if tried.error is not None:
        return "not personal"
    if not table.balanced or tried.reads != BOTH:
        return "leak"
    return "by design" if tried.name == JUDGE else "shortcut"


def _accuracy(table: Comparisons, tried: Tried, guess: Guess) -> Estimate:
    """Return the mean credit; a trained guess's interval is widened by what its training makes clusters share."""
    means = table.means(guess.credits)
    interval = share_interval(means)
    if tried.name not in {*CLASSIFIERS, ANOTHER}:
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
