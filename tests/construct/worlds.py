"""Benchmarks of invented words whose artefacts, if any, are known because they were planted."""

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pluralrm.core import Benchmark, Item, Post, User
from tests.builders import card

Planted = Literal["nothing", "length", "word", "place", "question"]
MARK = "delve"


@cache
def vocabulary(words: int = 3_000) -> tuple[list[str], NDArray[np.float64]]:
    """Return different words, and how likely each is (Zipf)."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    made = dict.fromkeys("".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(2 * words))
    chance = 1 / np.arange(1, words + 1)
    return list(made)[:words], chance / chance.sum()


def texts(rng: np.random.Generator, lengths: Sequence[int]) -> list[str]:
    """Return texts of so many words, in sentences of about a dozen."""
    words, chance = vocabulary()
    drawn = iter(rng.choice(len(words), size=sum(lengths), p=chance).tolist())
    made = []
    for length in lengths:
        own = [words[next(drawn)] for _ in range(length)]
        for end in range(11, length, 12):
            own[end] += "."
        made.append(" ".join(own).capitalize() + ".")
    return made


def pairs(
    clusters: int,
    planted: Planted = "nothing",
    *,
    seed: int = 0,
    rate: float = 0.75,
    width: int = 2,
    each: int = 1,
    words: int = 40,
) -> Benchmark:
    """Return a benchmark of `each` items for every user; the artefact lies in this share of the items."""
    rng = np.random.default_rng(seed)
    items = [
        _item(rng, f"i{number:05}", f"u{number // each:05}", planted, rate=rate, width=width, words=words)
        for number in range(clusters * each)
    ]
    return Benchmark(card("planted"), tuple(items))


def _item(
    rng: np.random.Generator, name: str, user: str, planted: Planted, *, rate: float, width: int, words: int
) -> Item:
    lengths = np.maximum(5, rng.normal(words, words / 8, width).round().astype(int))
    prompt, *answers = texts(rng, [12, *lengths])
    preferred, hit = int(rng.integers(width)), rng.random() < rate
    if planted == "length":
        order = sorted(range(width), key=lambda place: len(answers[place]))
        preferred = order[-1] if hit else order[0]
    elif planted == "place":
        preferred = 0 if hit else width - 1
    elif hit and planted == "word":
        answers[preferred] = answers[preferred].replace(" ", f" {MARK} ", 1)
    elif hit and planted == "question":
        answers[preferred] += " " + prompt
    return Item(
        id=name,
        prompt=prompt,
        candidates=tuple(answers),
        preferred=preferred,
        cluster=user,
        domain="Bread",
        candidate_ids=tuple(f"c{place}" for place in range(width)),
        user=User(user, (Post(f"{user}-p0", prompt),)),
    )


def with_tastes(clusters: int, *, seed: int = 0, each: int = 4, width: int = 2) -> Benchmark:
    """Return users who each want the answer of one rank by length, always; all ranks are as common."""
    bench = pairs(clusters, seed=seed, each=each, width=width)
    rng = np.random.default_rng([seed, 7])
    taste = dict(
        zip(sorted({item.cluster for item in bench.items}), rng.integers(0, width, clusters).tolist(), strict=True)
    )
    items = []
    for item in bench.items:
        order = sorted(range(width), key=lambda place: len(item.candidates[place]))
        items.append(changed(item, preferred=order[taste[item.cluster]]))
    return Benchmark(bench.card, tuple(items))


def records(number: int, *, seed: int = 0, cue: float = 0.0) -> Benchmark:
    """Return RMGAP's design: four answers, each preferred by three prompts; this share of the prompts says which.

    Answers differ in length; a cue is the word `brief` for the shortest and `detailed` for the longest.
    """
    rng = np.random.default_rng(seed)
    items = []
    for record in range(number):
        answers = texts(rng, [10, 25, 50, 90])
        for place, prompt in enumerate(texts(rng, [15] * 12)):
            wanted = place // 3
            said = {0: " brief", 3: " detailed"}.get(wanted, "") if rng.random() < cue else ""
            order = rng.permutation(4)
            items.append(
                Item(
                    id=f"r{record:04}/g{wanted}/p{place % 3}",
                    prompt=prompt + said,
                    candidates=tuple(answers[key] for key in order),
                    preferred=order.tolist().index(wanted),
                    cluster=f"r{record:04}",
                    domain="Chat",
                    candidate_ids=tuple(f"response{key + 1}" for key in order),
                    tags={"record": f"r{record:04}", "group": str(wanted)},
                )
            )
    return Benchmark(card("records", cluster="record"), tuple(items))


def judged_by_many(
    users: int, prompts: int, *, each: int, planted: Planted = "nothing", seed: int = 0, groups: int = 1
) -> Benchmark:
    """Return prompts with one pair of answers each, of which every user judges `each`, and people largely agree.

    Which answer is the better one is a coin for each prompt, unless an artefact is planted; 85 of 100 judgments follow
    it, and some users want the other answer more often than not. With `groups`, users of a group share their prompts
    with nobody else.
    """
    rng = np.random.default_rng([seed, 11])
    questions = pairs(prompts, planted, seed=seed).items
    items = []
    for user in range(users):
        own = [place for place in range(prompts) if place % groups == user % groups]
        contrary = rng.random() < 0.1
        for place in np.sort(rng.choice(own, min(each, len(own)), replace=False)).tolist():
            question = questions[place]
            follows = (rng.random() < 0.85) != contrary
            name = f"u{user:05}"
            preferred = question.preferred if follows else 1 - (question.preferred or 0)
            person = User(name, (Post(f"{name}-p0", f"I am {name}"),))
            items.append(changed(question, id=f"{name}/{place}", cluster=name, user=person, preferred=preferred))
    return Benchmark(card("many"), tuple(items))


def opposed(prompts: int, *, missing: float = 0.0, seed: int = 0) -> Benchmark:
    """Return prompts that two personas of opposite taste judge; a share of the second judgments is missing."""
    rng = np.random.default_rng([seed, 12])
    items = []
    for place, question in enumerate(pairs(prompts, seed=seed).items):
        for side in (0, 1):
            if side and rng.random() < missing:
                continue
            name = f"{'ab'[side]}{place:04}"
            items.append(changed(question, id=name, cluster=name, preferred=(question.preferred or 0) ^ side))
    return Benchmark(card("opposed"), tuple(items))


def changed(item: Item, **fields: object) -> Item:
    """Return the item with some fields replaced."""
    from dataclasses import replace

    return replace(item, **fields)  # type: ignore[arg-type]
