"""What the rubric shares with prompt and answers, and how much rubrics differ: only an audit or a grader reads it."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.embedder import content_words, incidence, products, weighted
from pluralrm.audit.near import normalised
from pluralrm.audit.result import AuditFinding, Measures, Status, excess, share
from pluralrm.chat import ChatCall, ChatRole
from pluralrm.chat.completions import unreadable
from pluralrm.core import OPEN_KINDS, Benchmark, Failure, Item, Run
from pluralrm.grading.grader import json_in
from pluralrm.stats.clusters import FloatArray, IntArray, codes
from pluralrm.text import counted, estimated

PROMPTS, ANSWERS, DIVERSITY, GENERAL = "rubric in prompts", "rubric in answers", "rubric diversity", "general aspects"
NAMED = 0.05
"""The share of aspects named outright in their prompt above which an audit warns."""
ALIKE = 0.8
"""The cosine from which two rubrics are nearly the same; above NAMED of the items, an audit warns."""
_BLOCK = 512


class Rubrics(NamedTuple):
    """The items that have a rubric, sorted by id, with the titles of its aspects."""

    items: list[Item]
    titles: list[list[str]]

    @property
    def clusters(self) -> list[str]:
        """The cluster of each item."""
        return [item.cluster for item in self.items]

    @property
    def prompts(self) -> list[str]:
        """The prompt of each item, which clusters may share."""
        return [item.crossed for item in self.items]

    @property
    def texts(self) -> list[str]:
        """The titles of each rubric as one text."""
        return ["\n".join(titles) for titles in self.titles]

    @property
    def neighbour(self) -> IntArray:
        """(n,): the next item of the same domain, the first after the last: whose rubric to try instead."""
        domain = codes([item.domain for item in self.items])
        order = np.argsort(domain, kind="stable")
        following = np.empty(len(order), dtype=np.intp)
        for members in np.split(order, np.flatnonzero(np.diff(domain[order])) + 1):
            following[members] = np.roll(members, -1)
        return following


def rubric_findings(benchmark: Benchmark) -> list[AuditFinding]:
    """Return what is to be said of the rubrics; nothing can be where no item has one."""
    corpus = rubrics(benchmark)
    if not corpus.items:
        return [
            AuditFinding(topic, "not available", "no rubrics", {}) for topic in (PROMPTS, ANSWERS, DIVERSITY, GENERAL)
        ]
    general = "the share of aspects that anyone would call general quality"
    return [
        in_prompts(corpus),
        in_answers(corpus),
        diversity(corpus),
        AuditFinding(GENERAL, "needs a judge", f"{general} cannot be told from words alone", {}),
    ]


def rubrics(benchmark: Benchmark) -> Rubrics:
    """Return the items whose rubric has an aspect."""
    items, titles = [], []
    for item in sorted(benchmark.items, key=lambda item: item.id):
        if item.oracle is not None and item.oracle.aspects:
            items.append(item)
            titles.append([aspect.aspect for aspect in item.oracle.aspects])
    return Rubrics(items, titles)


def in_prompts(corpus: Rubrics) -> AuditFinding:
    """Return how many of a rubric's content words its prompt has, beside the prompts of others, and aspects named."""
    own, others = _shares_in_prompts(corpus)
    matches = [[_named(title, item.prompt) for title in titles] for item, titles in zip(*corpus, strict=True)]
    owners = [item.cluster for item, flags in zip(corpus.items, matches, strict=True) for _ in flags]
    asks = [item.crossed for item, flags in zip(corpus.items, matches, strict=True) for _ in flags]
    outright = share([bool(flag) for flags in matches for flag in flags], owners, crossed=asks)
    mean, beside, more = (
        share(own, corpus.clusters, crossed=corpus.prompts),
        share(others, corpus.clusters, crossed=corpus.prompts),
        excess(own, others, corpus.clusters, crossed=corpus.prompts),
    )
    detail = (
        f"a prompt has {estimated(mean)}% of its rubric's content words, and of other rubrics in its domain "
        f"{estimated(beside)}%; {estimated(outright)}% of aspects have all their content words (two or more) in the "
        "prompt"
    )
    culprits = [item.id for item, flags in zip(corpus.items, matches, strict=True) if any(flags)]
    if culprits:
        detail += f" (such as {', '.join(repr(name) for name in culprits[:3])})"
    status: Status = "warn" if outright.value > NAMED else "note" if culprits else "ok"
    measures = {"own rubric": mean, "other rubrics": beside, "difference": more, "aspects named outright": outright}
    return AuditFinding(PROMPTS, status, detail, measures)


def _shares_in_prompts(corpus: Rubrics) -> tuple[FloatArray, FloatArray]:
    """Return (n,) twice: the share of the rubric's words in its own prompt, and on average in others of the domain."""
    count = len(corpus.items)
    values = incidence([*corpus.texts, *(item.prompt for item in corpus.items)], content_words).values
    rows, sizes = values[:count], np.maximum(values[:count].sum(axis=1), 1)
    own = products(values, np.arange(count), np.arange(count) + count)
    domain = codes([item.domain for item in corpus.items])
    members = np.bincount(domain)[domain]
    sums = sparse.csr_array((np.ones(count), (domain, np.arange(count)))) @ values[count:]
    others = (rows.multiply(sums[domain]).sum(axis=1) - own) / np.maximum(members - 1, 1)
    return own / sizes, others / sizes


def _named(title: str, prompt: str) -> bool:
    words = content_words(title)
    return len(words) > 1 and words <= content_words(prompt)


def in_answers(corpus: Rubrics) -> AuditFinding:
    """Return how often the candidate with more of the rubric's words is preferred: with this rubric, with another's."""
    table = comparisons(corpus.items)
    if not len(table.items):
        return AuditFinding(ANSWERS, "not available", "no labelled items", {})
    subset = Rubrics(
        list(table.items), [[a.aspect for a in item.oracle.aspects] for item in table.items if item.oracle]
    )
    values = incidence([*subset.texts, *table.texts], content_words).values
    rows = np.arange(len(table.texts)) + len(subset.items)
    own, other = (
        table.credit(products(values, rubric[table.owners], rows)[:, None], table.labels[:, None])[:, 0]
        for rubric in (np.arange(len(subset.items)), subset.neighbour)
    )
    mine, others = (share(credit, table.clusters, crossed=table.prompts) for credit in (own, other))
    detail = (
        f"picking the answer with more of the rubric's words is right in {estimated(mine)}% "
        f"(with the next rubric of the domain instead: {estimated(others)}%)"
    )
    above = mine.low is not None and mine.low > table.chance
    if above:
        detail += "; a model that sees the rubric can earn as much by matching words"
    return AuditFinding(ANSWERS, "note" if above else "ok", detail, {"own rubric": mine, "next rubric": others})


def diversity(corpus: Rubrics) -> AuditFinding:
    """Return how many aspects an item has, how many titles are used once, and how near the nearest other rubric is."""
    counts = [len(titles) for titles in corpus.titles]
    titles = [normalised(title) for names in corpus.titles for title in names]
    distinct = len(set(titles)) / len(titles)
    mean, nearest = _likeness(corpus)
    alike = share(nearest >= ALIKE, corpus.clusters, crossed=corpus.prompts)
    detail = (
        f"aspects per item: least {min(counts)}, median {np.median(counts):g}, most {max(counts)}; "
        f"{100 * distinct:.1f}% of {counted(len(titles), 'title')} are distinct; cosine of two rubrics' words "
        f"{mean:.2f} on average, of a rubric and the nearest of another cluster {float(np.median(nearest)):.2f} in the "
        f"median; {estimated(alike)}% of rubrics have one at {ALIKE:g} or above"
    )
    measures: Measures = {
        "least aspects": min(counts),
        "median aspects": float(np.median(counts)),
        "most aspects": max(counts),
        "distinct titles": distinct,
        "mean cosine": mean,
        "median cosine to the nearest": float(np.median(nearest)),
        "rubrics with one nearly the same": alike,
    }
    return AuditFinding(DIVERSITY, "warn" if alike.value > NAMED else "ok", detail, measures)


def _likeness(corpus: Rubrics) -> tuple[float, FloatArray]:
    """Return the mean cosine over pairs of different clusters, and (n,) each rubric's with the nearest such."""
    rows, cluster = weighted(corpus.texts), codes(corpus.clusters)
    nearest, total, pairs = np.zeros(len(cluster)), 0.0, 0
    for start in range(0, len(cluster), _BLOCK):
        cosines = (rows[start : start + _BLOCK] @ rows.T).toarray()
        apart = cluster[start : start + _BLOCK, None] != cluster
        nearest[start : start + _BLOCK] = np.where(apart, cosines, 0).max(axis=1)
        total, pairs = total + float(cosines[apart].sum()), pairs + int(apart.sum())
    return total / max(pairs, 1), np.minimum(nearest, 1.0)


TEMPLATE = "audit-aspects-v1"
_WORDS = ("general", "personal")

Kinds = Mapping[str, tuple[bool, ...] | Failure]
"""For each item with a rubric, whether each of its aspects is general; or why that is not known."""


class Appraisal(NamedTuple):
    """What a judge says of a benchmark in general."""

    judge: str = ""
    kinds: Kinds | None = None
    ratings: Run | None = None
    """A run in which each answer is rated alone, and nothing is known of the user."""

    @property
    def complete(self) -> bool:
        """Return whether no outage kept a part of it from being asked."""
        failures = [kind for kind in (self.kinds or {}).values() if isinstance(kind, Failure)]
        rated = self.ratings is None or self.ratings.complete
        return rated and not any(failure.kind in OPEN_KINDS for failure in failures)


def aspect_kinds(benchmark: Benchmark, role: ChatRole) -> Kinds:
    """Ask which aspects nearly everyone would expect, one call an item; an unreadable reply is asked once more."""
    kinds: dict[str, tuple[bool, ...] | Failure] = {}
    corpus = rubrics(benchmark)

    def calls(rubric: tuple[Item, Sequence[str]]) -> list[ChatCall[tuple[bool, ...]]]:
        item, titles = rubric
        example = json.dumps([_WORDS[index % 2] for index in range(len(titles))])
        text = role.template.fill(question=item.prompt, aspects=titles, example=example)
        again = f"Say nothing but a JSON list of {len(titles)} words, as asked."
        return [role.call(text, partial(_kinds, count=len(titles)), again)]

    for (item, _), [call] in role.ask(zip(corpus.items, corpus.titles, strict=True), calls):
        kinds[item.id] = Failure("crash", "no outcome") if call.outcome is None else call.outcome
    return kinds


def _kinds(text: str, *, count: int) -> tuple[bool, ...] | Failure:
    """Return whether each aspect is general.

    >>> _kinds('["general", "personal"]', count=2)
    (True, False)
    """
    value = json_in(text)
    if not isinstance(value, list) or not all(word in _WORDS for word in value):
        return unreadable('the text is not a JSON list of "general" and "personal" and nothing else', text)
    if len(value) != count:
        return unreadable(f"the list has {len(value)} words, wanted {count}", text)
    return tuple(word == _WORDS[0] for word in value)


def general_aspects(benchmark: Benchmark, appraisal: Appraisal) -> AuditFinding:
    """Return the share of aspects that are general quality, and of items whose whole rubric is."""
    corpus, judge, kinds = rubrics(benchmark), appraisal.judge, appraisal.kinds or {}
    read = [(item, kinds[item.id]) for item in corpus.items if item.id in kinds]
    replies = [(item, kind) for item, kind in read if not isinstance(kind, Failure)]
    if not replies:
        lost: Measures = {"unread items": len(corpus.items)}
        return AuditFinding(GENERAL, "not available", f"no reply of {judge} could be read", lost)
    owners = [item.cluster for item, kind in replies for _ in kind]
    prompts = [item.crossed for item, kind in replies for _ in kind]
    general = share([float(flag) for _, kind in replies for flag in kind], owners, crossed=prompts)
    items = Rubrics([item for item, _ in replies], [])
    whole = share([float(all(kind)) for _, kind in replies], items.clusters, crossed=items.prompts)
    unread = len(corpus.items) - len(replies)
    detail = (
        f"{judge} calls {estimated(general)}% of {counted(len(owners), 'aspect')} what nearly everyone would expect; "
        f"in {estimated(whole)}% of items that holds for the whole rubric"
    )
    if unread:
        detail += f". {counted(unread, 'item')} of {len(corpus.items):,} left out: no reply that could be read"
    measures: Measures = {"general aspects": general, "items with general aspects alone": whole, "unread items": unread}
    return AuditFinding(GENERAL, "note" if general.value >= 0.5 else "ok", detail, measures)
