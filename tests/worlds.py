"""Simulated people whose tastes are known, and four models that read them: where is "personalized" said?

An answer shows each of six attributes as `up` or `dn`; a taste is a weight for each. What a user wrote, and which of
two answers the user chose earlier, tells of the taste with noise. Everything is in memory: runs are made as the run
loop makes them, and nothing is written.

Nobody's taste is the user's own in these worlds:

alike      one taste for all
random     labels by a coin; posts of people with tastes of their own
subject    one taste for each of four subjects, and every user writes and asks about one subject
uneven     one taste; 1 to 100 posts and 1 to 100 pairs (Zipf), independently
halves     one taste; half of the people with 30 posts and pairs, half with 3 (or `few`)
several    one taste; people ask 1 to 6 questions, each under an id of its own, with posts and pairs cut at its time
shared     one taste; every text is one of a small pool that all users draw from
prolific   as subject; of each subject one user has written five times as much, and is nearest to every question

In `personal` each user's taste differs from the common one in a share of the attributes (`own`), which is the size of
the personalization.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, ContextPair, Failure, Item, Post, Query, RewardModel, Run, User, Verdict
from pluralrm.models.declarations import TrainingHistory
from pluralrm.models.judge import open_judge
from pluralrm.models.personal.algorithms import DEFAULTS, Size, load_algorithm, read_settings
from pluralrm.models.personal.examples import UserExamples
from pluralrm.models.personal.features import AnswerText, FeatureMap, Kind, Rule, Text
from pluralrm.models.personal.kind import FittedParts, Personal
from pluralrm.runs.loop import item_row
from tests.builders import card

ATTRIBUTES = 6
SUBJECTS = 4
NULLS = ("alike", "random", "subject", "uneven", "halves", "several", "shared", "prolific")
"""Worlds in which no model can be personalized."""

BY_SUBJECT = ("subject", "prolific")
"""Those of them in which a taste goes with each subject."""

Taste = Sequence[int]


@dataclass(frozen=True)
class Sizes:
    """How many people there are, what each brings, and how sure of their taste they are."""

    people: int = 80
    questions: int = 2
    posts: int = 10
    pairs: int = 8
    few: int = 3
    """In `halves`, what the one half has; the other has 30."""
    sure: float = 0.75
    """The chance that a post shows an attribute as the user's taste has it."""
    sharp: float = 0.7
    """How much one attribute that is met moves the logit of a choice."""


def world(kind: str, seed: int, *, sizes: Sizes | None = None, own: float = 0.0) -> Benchmark:
    """Return the benchmark of a world; `own` is the share of attributes that are each user's, in `personal`."""
    return _Making(kind, sizes or Sizes(), own, seed).benchmark()


@dataclass
class _Making:
    kind: str
    sizes: Sizes
    own: float
    seed: int

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.kind}:{self.own}:{self.seed}")
        self.tastes = [self._drawn() for _ in range(SUBJECTS)]
        self.pool = [self._choice("pool", n, self.tastes[0], "any") for n in range(40)]
        self.written = [self._post("pool", n, self.tastes[0], "any") for n in range(40)]

    def benchmark(self) -> Benchmark:
        zipf = [max(1, 100 // rank) for rank in range(1, self.sizes.people + 1)]
        many = list(zip(self.rng.sample(zipf, len(zipf)), self.rng.sample(zipf, len(zipf)), strict=True))
        items = [item for n in range(self.sizes.people) for item in self._person(n, *many[n])]
        return Benchmark(card(f"{self.kind}-{self.seed}"), tuple(items))

    def _person(self, number: int, posts: int, pairs: int) -> Iterator[Item]:
        name, subject = f"p{number:03}", number % SUBJECTS
        if self.kind == "halves":
            posts = pairs = 30 if number % 2 else self.sizes.few
        elif self.kind != "uneven":
            posts, pairs = self.sizes.posts, self.sizes.pairs
        if self.kind == "prolific" and number < SUBJECTS:
            posts *= 5
        taste = self._taste(subject)
        about = f"subject{subject} matter{subject}" if self.kind in BY_SUBJECT else "any"
        written = tuple(self._post(name, n, taste, about) for n in range(posts))
        chosen = tuple(self._choice(name, n, taste, about) for n in range(pairs))
        if self.kind == "shared":
            written = tuple(self.rng.sample(self.written, posts))
            chosen = tuple(self.rng.sample(self.pool, pairs))
        several = self.kind == "several"
        for question in range(self.rng.randint(1, 6) if several else self.sizes.questions):
            user = User(name, written, chosen)
            if several:
                user = User(
                    f"{name}/{question}",
                    written[: self.rng.randint(1, len(written))],
                    chosen[: self.rng.randint(1, len(chosen))],
                )
            asked = self._choice(name, 1000 + question, taste, about)
            if self.kind == "shared":
                asked = self.rng.choice(self.pool)
            yield self._item(f"{name}-q{question}", name, user, asked)

    def _item(self, name: str, person: str, user: User, asked: ContextPair) -> Item:
        first = self.rng.random() < 0.5
        answers = (asked.preferred, asked.other) if first else (asked.other, asked.preferred)
        return Item(name, asked.prompt, answers, int(not first), person, "all", user=user)

    def _drawn(self) -> Taste:
        return [self.rng.choice((-1, 1)) for _ in range(ATTRIBUTES)]

    def _taste(self, subject: int) -> Taste:
        if self.kind in BY_SUBJECT:
            return self.tastes[subject]
        share = {"random": 1.0, "personal": self.own}.get(self.kind, 0.0)
        mine = self._drawn()
        return [one if self.rng.random() < share else common for one, common in zip(mine, self.tastes[0], strict=True)]

    def _post(self, name: str, number: int, taste: Taste, about: str) -> Post:
        shown = self.rng.sample(range(ATTRIBUTES), 2)
        signs = [taste[place] if self.rng.random() < self.sizes.sure else -taste[place] for place in shown]
        words = [_word(place, sign) for place, sign in zip(shown, signs, strict=True)]
        return Post(f"{name}-{number}", f"{about} {' '.join(words)} {self._filler(2)}")

    def _choice(self, name: str, number: int, taste: Taste, about: str) -> ContextPair:
        one, other = self._drawn(), self._drawn()
        lead = sum(weight * (a - b) for weight, a, b in zip(taste, one, other, strict=True)) / 2
        chance = 0.5 if self.kind == "random" else 1 / (1 + np.exp(-2 * self.sizes.sharp * lead))
        if self.rng.random() >= chance:
            one, other = other, one
        texts = (" ".join(_word(place, sign) for place, sign in enumerate(each)) for each in (one, other))
        return ContextPair(f"{name}-{number}", f"{about} {self._filler(4)}", *texts)

    def _filler(self, words: int) -> str:
        return " ".join(f"w{self.rng.randrange(40)}" for _ in range(words))


def _word(place: int, sign: int) -> str:
    return f"{'up' if sign > 0 else 'dn'}{place}"


# ---------------------------------------------------------------- models


@cache
def levels(text: str) -> tuple[int, ...]:
    """Return how often a text shows each attribute as up, less how often as dn."""
    counts = Counter(re.findall(r"(?:up|dn)\d", text))
    return tuple(counts[f"up{place}"] - counts[f"dn{place}"] for place in range(ATTRIBUTES))


@dataclass(frozen=True)
class Counting:
    """A few-shot model: it likes what the preferred answers it was shown have more often than the others."""

    spec: str = "counter"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield the product of an answer's levels with those counted; 0 where no pair is shown."""
        for query in queries:
            pairs = query.user.pairs if query.user else ()
            likes = np.zeros(ATTRIBUTES)
            for pair in pairs:
                likes += np.array(levels(pair.preferred)) - np.array(levels(pair.other))
            yield Verdict(tuple(float(likes @ np.array(levels(answer))) for answer in query.candidates))


def scripted_judge() -> RewardModel:
    """Return a pairwise judge whose chat model prefers the answer that has more of what the posts show."""
    return open_judge("judge:scripted", chat=_Forgetful(_decide))


class _Forgetful(ScriptedChat):
    """A script that keeps no request: hundreds of thousands are asked."""

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        for reply in super().complete(requests):
            self.requests.clear()
            yield reply


_POSTS = re.compile(r"Earlier posts by the person who asks:(.*?)The question:", re.DOTALL)
_ANSWER = re.compile(r"\[answer [AB] [0-9a-f]+\]\n(.*?)\n\[end", re.DOTALL)


def _decide(request: ChatRequest) -> str:
    text = request.messages[-1][1]
    found = _POSTS.search(text)
    likes = np.array(levels(found[1])) if found else np.zeros(ATTRIBUTES)
    first, second = (float(likes @ np.array(levels(answer))) for answer in _ANSWER.findall(text))
    return f"By the posts.\nResult: {'A' if first > second else 'B' if second > first else 'tie'}"


@dataclass(frozen=True)
class Levels:
    """Features that are exact: the attributes of a text."""

    identity: str = "levels"
    rule: Rule = "apart"

    def vectors(self, texts: Sequence[Text], kind: Kind) -> NDArray[np.float32]:  # noqa: ARG002
        """Return (texts, attributes); of an answer with its question, the answer's."""
        plain = [text.answer if isinstance(text, AnswerText) else text for text in texts]
        return np.array([levels(text) for text in plain], np.float32).reshape(len(texts), ATTRIBUTES)


def fitted(algorithm: str, training: Benchmark) -> Personal:
    """Return a personal model fitted on the users of another benchmark of the same world."""
    users = [_examples(user) for user in training.users if user.preferences]
    held = max(2, len(users) // 6)
    quick = {"rank": "4"} if "rank" in DEFAULTS[algorithm] else {"patience": "4"}
    size = Size(len(users) - held, sum(user.pairs for user in users[held:]))
    made = load_algorithm(algorithm, read_settings(algorithm, quick).sized(size))
    shared = made.fit(users[held:], users[:held], seed=0, log=lambda _: None).shared
    parts = FittedParts(made, shared, cast("FeatureMap", Levels()), {}, {})
    return Personal(f"personal:{algorithm}", parts, {}, TrainingHistory("", ()))


def _examples(user: User) -> UserExamples:
    pairs, of = user.preferences, Levels().vectors
    return UserExamples(
        user.id,
        of([post.text for post in user.posts], "text"),
        of([pair.prompt for pair in pairs], "text"),
        of([pair.preferred for pair in pairs], "answer"),
        of([pair.other for pair in pairs], "answer"),
    )


MODELS = ("counter", "judge", "lore", "pref")


@cache
def model_of(name: str) -> RewardModel:
    """Return a model by its name.

    Those that are fitted learn from people who all have tastes of their own, so that they follow whatever they are
    shown: in a world of one taste they gain much by any pairs, which is what makes a false claim likely.
    """
    if name in DEFAULTS:
        return fitted(name, world("personal", -1, sizes=Sizes(people=150, questions=1, posts=1, pairs=16), own=1.0))
    return Counting() if name == "counter" else scripted_judge()


def grid(name: str, own: str = "") -> tuple[str, ...]:
    """Return the conditions of a model: none, own, another user, the nearest."""
    if name == "judge":
        return ("none", own or "raw:10", "swapped:10", "swapped:10,by=prompt")
    pairs = own or "pairs:16"
    return ("none", pairs, f"{pairs},of=swapped", f"{pairs},of=swapped,by=prompt")


def scored(bench: Benchmark, model: RewardModel, condition: str) -> Run:
    """Return the run that the loop would write."""
    shown = load_condition(condition)
    queries = list(shown.queries(bench, bench.items))
    verdicts = model.score(queries)
    rows = tuple(item_row(*each, bench) for each in zip(bench.items, queries, verdicts, strict=True))
    return Run(
        model.spec,
        bench.card.name,
        condition,
        rows,
        bench.card,
        shown.reveals,
        items=len(rows),
        benchmark_hash=bench.content_hash,
    )


def runs_of(
    kind: str, name: str, seed: int, *, sizes: Sizes | None = None, own: float = 0.0, nearest: bool = True
) -> list[Run]:
    """Return the runs of one model in one world under its grid; without `nearest` the control by=prompt is left out."""
    bench, model = world(kind, seed, sizes=sizes, own=own), model_of(name)
    return [scored(bench, model, condition) for condition in grid(name)[: 4 if nearest else 3]]
