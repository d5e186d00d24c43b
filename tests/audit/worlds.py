"""Made-up benchmarks of every format with one planted leak each, and sound ones; users have 1 to 100 items."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from pluralrm.core import Benchmark, Item, Post, User
from tests.builders import card
from tests.construct.worlds import MARK, changed, texts

Cue = Literal["", "longest", "shortest", "place", "file", "style", "word", "question", "context"]
SIZES = (60, *(1,) * 90, *(5,) * 10)
"""How many items each user has, where users share nothing."""


class LeakWorld(NamedTuple):
    """A benchmark by its seed, and the column of the table in which its planted leak stands; '' where it is sound."""

    make: Callable[[int], Benchmark]
    column: str


def items_of(
    seed: int, cue: Cue = "", *, sizes: Sequence[int] = SIZES, width: int = 2, rate: float = 0.85, users: bool = True
) -> Benchmark:
    """Return users of these sizes; the cue is in this share of the items, and the label is a coin in the others."""
    rng = np.random.default_rng([seed, 21])
    items = []
    for person, size in enumerate(sizes):
        name = f"u{person:04}"
        for number in range(size):
            lengths = np.maximum(5, rng.normal(24, 4, width).round().astype(int))
            prompt, post, *answers = texts(rng, [10, 30, *lengths])
            best, marks = int(rng.integers(width)), rng.permutation(width)
            if rng.random() < rate:
                best, answers, post = _planted(cue, answers, best, prompt=prompt, post=post, marks=marks)
            items.append(
                Item(
                    id=f"{name}/{number}",
                    prompt=prompt,
                    candidates=tuple(answers),
                    preferred=best,
                    cluster=name,
                    domain="Bread",
                    candidate_ids=tuple(f"answer {'ABCDEF'[mark]}" for mark in marks),
                    user=User(name, (Post(f"{name}-{number}", post),)) if users else None,
                )
            )
    return Benchmark(card("made-up"), tuple(items))


def _planted(
    cue: Cue, answers: list[str], best: int, *, prompt: str, post: str, marks: np.ndarray
) -> tuple[int, list[str], str]:
    by_length = sorted(range(len(answers)), key=lambda index: len(answers[index]))
    best = {"longest": by_length[-1], "shortest": by_length[0], "place": 0, "file": int(marks.argmin())}.get(cue, best)
    own = answers[best]
    marked = {
        "style": own.replace(" ", ", ", 4),
        "word": own.replace(" ", f" {MARK} ", 1),
        "question": f"{own} {prompt}",
    }
    answers[best] = marked.get(cue, own)
    return best, answers, f"{post} Once I said: {own.upper()}  And so on." if cue == "context" else post


def repeated(seed: int) -> Benchmark:
    """Return a sound benchmark of which some items are asked again with the other label, and some options are equal."""
    bench = items_of(seed)
    again = [
        changed(item, id=f"{item.id}/again", prompt=f" {item.prompt.upper()}", preferred=1 - (item.preferred or 0))
        for item in bench.items[60:75]
    ]
    equal = [changed(item, candidates=(item.candidates[0], item.candidates[0].upper())) for item in bench.items[75:90]]
    return Benchmark(bench.card, (*bench.items[:75], *equal, *bench.items[90:], *again))


def nearly_repeated(seed: int) -> Benchmark:
    """Return a sound benchmark of which some items are asked of others too, with a word more and another label."""
    bench = items_of(seed)
    again = [
        changed(
            item,
            id=f"{item.id}/again",
            cluster=other.cluster,
            user=other.user,
            prompt=f"So {item.prompt}",
            candidates=(f"{item.candidates[0]} So.", item.candidates[1]),
            preferred=1 - (item.preferred or 0),
        )
        for item, other in zip(bench.items[60:75], bench.items[75:90], strict=True)
    ]
    return Benchmark(bench.card, (*bench.items, *again))


def quoting(seed: int, *, alike: bool) -> Benchmark:
    """Return people whose posts have words that occur in the answers they prefer: their own, or everybody's."""
    rng = np.random.default_rng([seed, 26])
    bench = items_of(seed, sizes=(10 if alike else 40, *(1,) * 150, *(5,) * 20))
    words = [f"{first}{second}ox" for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "u")]
    own = {name: list(rng.choice(words, 6, replace=False)) for name in sorted({item.cluster for item in bench.items})}
    rate, count = (1.0, 4) if alike else (0.9, 2)
    items = []
    for item in bench.items:
        liked, other = (words[:6], words[6:]) if alike else (own[item.cluster], words)
        index, answers = item.best[0], list(item.candidates)
        for number in range(2):
            drawn = rng.choice(liked if number == index and rng.random() < rate else other, count, replace=False)
            answers[number] = " ".join([answers[number], *drawn])
        post = Post(f"{item.id}-post", " ".join([item.prompt[:40], *liked]))
        items.append(changed(item, candidates=tuple(answers), user=User(item.cluster, (post,))))
    posts = {name: tuple(i.user.posts[0] for i in items if i.cluster == name and i.user is not None) for name in own}
    return Benchmark(bench.card, tuple(changed(item, user=User(item.cluster, posts[item.cluster])) for item in items))


def rated(seed: int, cue: Cue = "") -> Benchmark:
    """Return three answers with grades from 1 to 4, with ties; with a cue, the longer is rated higher."""
    rng = np.random.default_rng([seed, 22])
    items = []
    for item in items_of(seed, width=3).items:
        ranks = np.argsort(np.argsort([len(text) for text in item.candidates]))
        worth = (ranks if cue == "longest" else 0) + rng.normal(0, 0.8, 3)
        grades = tuple(np.clip(np.round(worth + 2), 1, 4).tolist())
        items.append(changed(item, preferred=None, grades=grades))
    return Benchmark(card("rated"), tuple(items))


def crossed(
    seed: int, cue: Cue = "", *, people: int = 30, prompts: int = 60, each: int = 20, agree: float = 0.85
) -> Benchmark:
    """Return prompts with four answers each that many people judge; all want the same one, but for noise."""
    rng = np.random.default_rng([seed, 23])
    questions = items_of(seed, cue, sizes=(1,) * prompts, width=4).items
    items = []
    for person in range(people):
        user = User(f"p{person:03}", traits={"region": f"r{person % 3}"})
        for number in np.sort(rng.choice(prompts, each, replace=False)).tolist():
            best = questions[number].preferred if rng.random() < agree else int(rng.integers(4))
            name = f"{user.id}/{number}"
            items.append(changed(questions[number], id=name, cluster=user.id, user=user, preferred=best, grades=()))
    return Benchmark(card("crossed"), tuple(items))


def tasted(seed: int, *, people: int = 30, prompts: int = 60, each: int = 20) -> Benchmark:
    """Return ratings of four answers by people with one of three tastes: which of four kinds of answer they like.

    Which answer is of which kind is drawn for each prompt, so no text says it; part of each rating is what everybody
    thinks of an answer, and one person has rated a single prompt.
    """
    rng = np.random.default_rng([seed, 24])
    questions = items_of(seed, sizes=(1,) * prompts, width=4).items
    kinds = np.array([rng.permutation(4) for _ in range(prompts)])
    general = rng.normal(0, 0.5, (prompts, 4))
    items = []
    for person in range(people):
        user, taste = User(f"p{person:03}"), rng.integers(3)
        for number in np.sort(rng.choice(prompts, each if person else 1, replace=False)).tolist():
            worth = 2.5 * (kinds[number] == taste) + general[number] + rng.normal(0, 0.7, 4)
            grades = tuple(np.clip(np.round(worth + 2), 1, 5).tolist())
            if len(set(grades)) > 1:
                name = f"{user.id}/{number}"
                items.append(
                    changed(questions[number], id=name, cluster=user.id, user=user, preferred=None, grades=grades)
                )
    return Benchmark(card("tasted"), tuple(items))


def wanting(seed: int) -> Benchmark:
    """Return four answers of which each user always wants one rank by length; some prompts are shared by two users."""
    rng = np.random.default_rng([seed, 25])
    bench = items_of(seed, sizes=(20, *(1,) * 60, *(3,) * 20), width=4)
    taste = {name: int(rng.integers(4)) for name in sorted({item.cluster for item in bench.items})}
    items = []
    for number, item in enumerate(bench.items):
        shared = bench.items[number - 25] if number > 25 and number % 9 == 8 else item
        order = sorted(range(4), key=lambda index: len(shared.candidates[index]))
        best = order[taste[item.cluster]]
        items.append(changed(item, prompt=shared.prompt, candidates=shared.candidates, preferred=best, grades=()))
    return Benchmark(bench.card, tuple(items))


WORLDS: dict[str, LeakWorld] = {
    "longest": LeakWorld(lambda seed: items_of(seed, "longest"), "length"),
    "shortest of four": LeakWorld(lambda seed: items_of(seed, "shortest", width=4, rate=0.6), "length"),
    "position": LeakWorld(lambda seed: items_of(seed, "place"), "position"),
    "place in the file": LeakWorld(lambda seed: items_of(seed, "file", width=4, rate=0.6), "position"),
    "style": LeakWorld(lambda seed: items_of(seed, "style"), "options"),
    "cue word": LeakWorld(lambda seed: items_of(seed, "word"), "options"),
    "overlap with the prompt": LeakWorld(lambda seed: items_of(seed, "question"), "with question"),
    "duplicates": LeakWorld(repeated, "duplicates"),
    "near-duplicates": LeakWorld(nearly_repeated, "duplicates"),
    "answer in the context": LeakWorld(lambda seed: items_of(seed, "context", rate=0.5), "own context"),
    "not personal": LeakWorld(crossed, "other people"),
    "another person's posts": LeakWorld(lambda seed: quoting(seed, alike=True), "other people"),
    "multiple choice": LeakWorld(
        lambda seed: items_of(seed, "longest", sizes=(1,) * 120, width=5, rate=1.0, users=False), "length"
    ),
    "ratings": LeakWorld(lambda seed: rated(seed, "longest"), "length"),
    "crossed people": LeakWorld(lambda seed: crossed(seed, "word"), "options"),
    "sound pairs": LeakWorld(lambda seed: items_of(seed, sizes=(100, *SIZES[1:])), ""),
    "sound personal posts": LeakWorld(lambda seed: quoting(seed, alike=False), ""),
    "sound best of four": LeakWorld(wanting, ""),
    "sound ratings by many": LeakWorld(tasted, ""),
}
