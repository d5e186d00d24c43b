"""Planted judges in worlds of uneven users and shared prompts: each has one flaw, in a known share of its decisions.

A judge hears which answer is right by a word in it, and is noisy: each decision is drawn anew for each text it is
shown, and the same for the same text. The flaws:

honest      none
first       the first place wins
longest     the longest answer wins (the shortest, where the worse one is asked for)
deaf        the worse answer is asked for, and the better one named
letter      the answer called A wins, wherever it stands
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import log

from pluralrm.attack.judge import JudgeTrust, judge_trust
from pluralrm.core import Benchmark, Condition, Item, Query, RewardModel, Run, User, Verdict
from pluralrm.models.declarations import JudgeProbe
from tests.builders import card
from tests.worlds import scored

RIGHT = "proofed"
NAMES = {"first": "places", "longest": "verbosity", "deaf": "polarity", "letter": "labels"}
"""The check that is red for each flaw."""
IMPLIED = {"letter": {"places"}}
"""As letters are given out in the order of the places, who prefers a letter prefers a place."""


@dataclass(frozen=True)
class Planted:
    """A judge with a flaw in a share of its decisions, and otherwise right with a chance of `ability`."""

    flaw: str
    share: float = 1.0
    ability: float = 0.78
    seed: int = 0
    form: str = ""

    @property
    def spec(self) -> str:
        return f"planted-{self.flaw}-{self.share:g}-{self.ability:g}-{self.seed}{self.form}"

    def probed(self, probe: JudgeProbe) -> RewardModel | str:
        if probe == "relabelled" and self.flaw != "letter":
            return "it names no answers"
        return replace(self, form=f"+{probe}")

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(self._scores(query)))

    def _scores(self, query: Query) -> list[float]:
        rng = random.Random(f"{self.seed}:{self.form}:{query.id}:{query.prompt}:{'|'.join(query.candidates)}")
        count, texts = len(query.candidates), query.candidates
        inverted = self.form == "+inverted"
        if rng.random() < self.share:
            if self.flaw == "first":
                return [float(-place) for place in range(count)]
            if self.flaw == "letter":
                return [float(place if self.form == "+relabelled" else -place) for place in range(count)]
            if self.flaw == "longest":
                return [float(-len(text) if inverted else len(text)) for text in texts]
            inverted = inverted and self.flaw != "deaf"
        worth = log(self.ability * (count - 1) / (1 - self.ability)) * (-1 if inverted else 1)
        return [worth * (RIGHT in text) - log(-log(rng.random())) for text in texts]


_SENTENCES = (
    "Let the dough rest.",
    "Fold it twice and wait.",
    "A stone keeps the heat.",
    "Don't open the oven.",
    "Salt goes in last, i.e. after the rest.",
    "Steam helps the crust.",
    "It's done when it sounds hollow.",
)


def sizes(rng: random.Random, items: int) -> list[int]:
    """Return items per user, from 1 to 100, some with very many."""
    left, held = items, []
    while left:
        held.append(min(left, 100, 1 + int(rng.lognormvariate(0.6, 1.2))))
        left -= held[-1]
    return held


def judged_world(seed: int, *, items: int = 400, width: int = 2) -> Benchmark:
    """Return a benchmark in which every third question is asked by several users."""
    rng = random.Random(f"judge world {seed}")
    prompts = [f"How do I bake bread number {number}? I can't wait." for number in range(items)]
    users = [f"u{number}" for number, size in enumerate(sizes(rng, items)) for _ in range(size)]
    return Benchmark(
        card("judged"), tuple(_item(n, user, prompts, width=width, rng=rng) for n, user in enumerate(users))
    )


def _item(number: int, user: str, prompts: list[str], *, width: int, rng: random.Random) -> Item:
    preferred = rng.randrange(width)
    texts = []
    for place in range(width):
        words = rng.sample(_SENTENCES, rng.randint(2, 6))
        words.insert(rng.randrange(2), "It was proofed well." if place == preferred else "It was watched well.")
        texts.append(f"{' '.join(words)} Batch {rng.randrange(10**6)}.")
    prompt = prompts[rng.randrange(len(prompts) // 10) if rng.random() < 0.3 else number]
    return Item(f"i{number:04}", prompt, tuple(texts), preferred, user, "Bread", user=User(user))


def trust_in(bench: Benchmark, judge: RewardModel, seed: int = 0) -> JudgeTrust:
    """Return what the probes say, the runs made in memory as the loop makes them."""

    def score(benchmark: Benchmark, model: RewardModel | str, condition: Condition, *, out: object) -> Run:
        del out
        assert not isinstance(model, str)
        return scored(benchmark, model, condition.spec)

    return judge_trust(bench, judge, out="", seed=seed, score=score)


def reds(result: JudgeTrust) -> set[str]:
    return {check.name for check in result.checks if check.colour == "red"}
