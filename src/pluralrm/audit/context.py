"""Guesses from what a benchmark knows of people: the answer itself, another person's context, what other people want.

A benchmark is personal where a person's own context predicts the label better than another person's does. So two
probes compare: a ridge classifier on matches between answers and a context, with the person's own and with another's;
and, where several people judged the same candidates, the majority of the others, with each of them weighed by how often
they agree with the person elsewhere, and without. A benchmark is not personal by one of them where what is not the
person's own beats chance, and the own is better by less than MARGIN: both are needed, so the p-value is the larger one
(an intersection-union test).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.embedder import distinct, incidence, products, style, tokens, weighted, word_pairs
from pluralrm.audit.near import plain
from pluralrm.audit.probes import Guess, Trial, by_training, p_between, p_value, scaled, standardised
from pluralrm.core import Item, persons
from pluralrm.labels import Panel, panels
from pluralrm.stats import spread
from pluralrm.stats.clusters import FloatArray, IntArray, codes
from pluralrm.stats.intervals import t_quantile
from pluralrm.text import estimated

MARGIN = 0.05
"""By how much the own context must be better than another's for a benchmark to count as personal."""
LETTERS = 12_000
"""Of each person's posts, so many letters from the end are compared with answers."""
SHORTEST = 3
"""A candidate of fewer words may stand in a context by chance."""
ELSEWHERE = 10
"""How many other panels people must have judged with others, in the median, for their agreement to say who is alike."""
_PRIOR = 4.0
"""Judgments at the mean agreement that are added to those of each two people."""


class PersonalGuess(NamedTuple):
    """A guess from what is not the person's own, and by how much the own is better."""

    guess: Guess
    ahead: float
    """By how much the own is better."""
    error: float
    """Its standard error."""
    p: float
    """Of the hypothesis that the other is at chance, or the own better by MARGIN or more."""
    detail: str


# ---------------------------------------------------------------- the answer in the context


def answers_in_context(table: Comparisons) -> dict[str, FloatArray] | None:
    """Return two rules: pick what stands in the user's own context, or what does not; None where nothing does.

    An answer that the context says was not chosen counts as the opposite.
    """
    by_user: dict[int, tuple[str, str]] = {}
    scores = []
    for item, order in zip(table.items, table.orders, strict=True):
        user = item.user
        if user is not None and id(user) not in by_user:
            chosen = [*(post.text for post in user.posts), *(pair.preferred for pair in user.preferences)]
            other = [pair.other for pair in user.preferences]
            by_user[id(user)] = "\0".join(map(plain, chosen)), "\0".join(map(plain, other))
        chosen_text, other_text = by_user[id(user)] if user is not None else ("", "")
        for index in order:
            text = plain(item.candidates[index])
            long_enough = text.count(" ") >= SHORTEST - 1
            scores.append(float(long_enough and text in chosen_text) - float(long_enough and text in other_text))
    values = np.array(scores)
    if not values.any():
        return None
    return {"what the context holds": values, "what the context does not hold": -values}


# ---------------------------------------------------------------- the place in the file


def file_places(table: Comparisons) -> dict[str, FloatArray] | None:
    """Return one rule per place that candidates have in the file by their ids: A, B, C, or response1, response2.

    None where ids do not tell places, or tell those that the items have anyway, which `position` guesses by.
    """
    ranks = []
    for item, order in zip(table.items, table.orders, strict=True):
        names = [name.strip() for name in item.candidate_ids]
        stems = {name.rstrip("0123456789") if name[-1:].isdigit() else name[:-1] for name in names}
        ends = [name.removeprefix(stem) for stem in stems for name in names] if len(stems) == 1 else []
        if len(set(ends)) < len(item.candidates) or not all(map(_is_mark, ends)):
            return None
        by_mark = sorted(range(len(ends)), key=lambda index: (len(ends[index]), ends[index].upper()))
        rank = {index: number for number, index in enumerate(by_mark)}
        ranks += [rank[index] for index in order]
    values = np.array(ranks)
    if (values == table.places).all():
        return None
    return {f"number {number + 1}": (values == number).astype(np.float64) for number in range(int(table.sizes.max()))}


def _is_mark(end: str) -> bool:
    return end.isdecimal() or (len(end) == 1 and end.isascii() and end.isalpha())


# ---------------------------------------------------------------- another person's context


def has_contexts(table: Comparisons) -> bool:
    """Return whether at least two people have posts, pairs or traits."""
    users = {user.id for item in table.items if (user := item.user) is not None and any(_context(item))}
    return len(users) > 1


def from_another(table: Comparisons, trial: Trial, seed: int) -> PersonalGuess:
    """Return what another person's context guesses, beside the own; each person gets the next one of a random order."""
    who = persons(table.items)
    person = codes([who[item.cluster] for item in table.items])
    first = np.unique(person, return_index=True)[1]
    order = np.random.default_rng([seed, 3]).permutation(len(first))
    following = np.empty(len(first), dtype=np.intp)
    following[order] = np.roll(order, -1)
    contexts = [_context(item) for item in table.items]
    own = by_training(table, trial, _matches(table, contexts))
    other = by_training(table, trial, _matches(table, [contexts[index] for index in first[following[person]].tolist()]))
    return _compared(table, (own, other), p_value(table, other), ("own contexts", "another person's"))


def _context(item: Item) -> tuple[str, str, str]:
    """Return what a person wrote and declared, chose, and did not choose."""
    user = item.user
    if user is None:
        return "", "", ""
    written = "\n".join(post.text for post in user.posts)[-LETTERS:]
    declared = " ".join(user.traits[name] for name in sorted(user.traits))
    chosen = "\n".join(pair.preferred for pair in user.preferences)[-LETTERS:]
    other = "\n".join(pair.other for pair in user.preferences)[-LETTERS:]
    return f"{written} {declared}".strip(), chosen, other


def _matches(table: Comparisons, contexts: Sequence[tuple[str, str, str]]) -> FloatArray:
    """Return (N, p): how alike each answer is to a context in words and in each feature of style."""
    count = len(table.items)
    texts, index = distinct([*table.texts, *(text for parts in zip(*contexts, strict=True) for text in parts)])
    answers, *parts = np.split(index, [len(table.texts) + count * number for number in range(3)])
    written, chosen, other = (part[table.owners] for part in parts)
    words, pairs = incidence(texts, tokens).values, incidence(texts, word_pairs).values
    rows = weighted(texts)
    shared = products(words, answers, written) / np.maximum(np.asarray(words.sum(axis=1)).ravel(), 1)[answers]
    columns = [
        products(rows, answers, written),
        shared,
        np.log1p(products(pairs, answers, written)),
        products(rows, answers, chosen) - products(rows, answers, other),
    ]
    manner = standardised(style(texts))
    own = (
        manner[answers] - (np.add.reduceat(manner[answers], table.starts, axis=0) / table.sizes[:, None])[table.owners]
    )
    by_style = [own * manner[written], own * (manner[chosen] - manner[other])]
    return scaled(table, np.hstack([np.stack(columns, axis=1), *by_style]))


# ---------------------------------------------------------------- what other people want


class PanelVotes(NamedTuple):
    """Who prefers what in P panels of C candidates in all; a person who judged twice has one vote, shared."""

    votes: sparse.csr_array
    """(people, C)"""
    present: sparse.csr_array
    """(people, P): 1 where the person judged the panel."""
    starts: IntArray
    """(P + 1,): the column of each panel's first candidate."""


def from_others(table: Comparisons) -> PersonalGuess | str | None:
    """Return what the majority of other people guesses, beside others weighed by how often they agree elsewhere.

    A text says why that cannot be compared; None where no two people judged the same candidates.
    """
    who = persons(table.items)
    groups = [panel for panel in panels(table.items, who) if panel.people > 1]
    if not groups:
        return None
    people = {name: number for number, name in enumerate(sorted(set(who.values())))}
    votes = _panel_votes(groups, people)
    judged = np.asarray(votes.present.sum(axis=1)).ravel()
    elsewhere = float(np.median(np.repeat(judged, judged.astype(np.intp)))) - 1
    if elsewhere < ELSEWHERE:
        return f"people judged {elsewhere:g} other prompts with others in the median, wanted {ELSEWHERE} or more"
    crowd, alike = np.zeros(len(table.owners)), np.zeros(len(table.owners))
    rows = {item.id: start for item, start in zip(table.items, table.starts.tolist(), strict=True)}
    for panel, (members, by_majority, by_alike) in zip(groups, _by_others(votes), strict=True):
        index = {person: number for number, person in enumerate(members.tolist())}
        for judgment in panel.judgments:
            own = slice(rows[judgment.item], rows[judgment.item] + by_majority.shape[1])
            number = index[people[judgment.person]]
            crowd[own], alike[own] = by_majority[number], by_alike[number]
    guesses = []
    for scores in (alike, crowd):
        earned = table.credit(scores[:, None], table.labels[:, None])[:, 0]
        guesses.append(Guess(earned, np.zeros(0), spread(table.means(earned), 0).variance ** 0.5))
    p_crowd = p_between(table, guesses[1])
    return _compared(table, guesses, p_crowd, ("others by their agreement elsewhere", "their majority"))


def _panel_votes(groups: Sequence[Panel], people: Mapping[str, int]) -> PanelVotes:
    starts = np.cumsum([0, *(len(panel.candidates) for panel in groups)])
    cells: dict[tuple[int, int], list[FloatArray]] = {}
    for number, panel in enumerate(groups):
        for judgment in panel.judgments:
            cells.setdefault((people[judgment.person], number), []).append(np.array(judgment.picks))
    person, panel_of = np.array(list(cells), dtype=np.intp).T
    columns = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in panel_of.tolist()])
    values = np.concatenate([np.mean(picks, axis=0) for picks in cells.values()])
    shape = (len(people), int(starts[-1]))
    votes = sparse.csr_array((values, (np.repeat(person, np.diff(starts)[panel_of]), columns)), shape=shape)
    present = sparse.csr_array((np.ones(len(person)), (person, panel_of)), shape=(len(people), len(groups)))
    return PanelVotes(votes, present, starts)


def _by_others(panel_votes: PanelVotes) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield of each panel its people, and per person the votes of the others, plain and weighed by agreement."""
    agreeing = sparse.csr_array(panel_votes.votes @ panel_votes.votes.T)
    together = sparse.csr_array(panel_votes.present @ panel_votes.present.T)
    pairs = together.sum() - together.diagonal().sum()
    mean = float((agreeing.sum() - agreeing.diagonal().sum()) / pairs)
    judges = panel_votes.present.T.tocsr()
    by_panel = panel_votes.votes.tocsc()
    for number, (low, high) in enumerate(pairwise(panel_votes.starts.tolist())):
        members = np.sort(judges.indices[judges.indptr[number] : judges.indptr[number + 1]]).astype(np.intp)
        own = by_panel[:, low:high].tocsr()[members].toarray()
        # What two people said here is left out of how often they agree.
        agreed = agreeing[members][:, members].toarray() - own @ own.T
        times = together[members][:, members].toarray() - 1
        weights = (agreed + _PRIOR * mean) / (times + _PRIOR) - 1 / own.shape[1]
        np.fill_diagonal(weights, 0)
        yield members, own.sum(axis=0) - own, weights @ own


def _compared(table: Comparisons, guesses: Sequence[Guess], p_other: float, names: tuple[str, str]) -> PersonalGuess:
    from scipy.stats import t as student

    own, other = guesses
    variance, df = spread(table.means(own.credits - other.credits), 0)
    error = (variance * max(own.widening, other.widening)) ** 0.5
    ahead = float((own.credits - other.credits).mean())
    p_ahead = float(student.cdf((ahead - MARGIN) / error, df)) if error else float(ahead >= MARGIN)
    right = [estimated(float(guess.credits.mean())) for guess in guesses]
    reach = t_quantile(df) * error if error else 0.0
    by = f"{100 * ahead:+.1f} [{100 * (ahead - reach):+.1f}, {100 * (ahead + reach):+.1f}] points"
    detail = f"{names[0]} guess {right[0]}%, {names[1]} {right[1]}%: {by}"
    return PersonalGuess(other, ahead, error, max(p_other, p_ahead), detail)
