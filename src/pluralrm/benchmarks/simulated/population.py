"""Users with latent tastes, what they wrote, what they ask, and how they chose.

Every draw is seeded by the world's seed and the id of what is drawn, so that more users, posts, items or pairs leave
those that were there as they are. The seed of the placement moves candidates and nothing else.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.simulated.tastes import (
    SimulationSettings,
    Taste,
    choice_chances,
    decider,
    draw_signal,
    draw_taste,
    signals,
    utility,
)
from pluralrm.benchmarks.simulated.texts import (
    Domain,
    Level,
    Levels,
    Signal,
    Topic,
    attributes,
    domains,
    prompts,
    write_answer,
)
from pluralrm.core import Aspect, ContextPair, Item, Oracle, Post, User

WEIGHS = {1: "This user cares about it.", 2: "This user cares a great deal about it."}
"""The weight of a want in words, for the rubric."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who a user is behind the posts."""

    id: str
    domain: Domain
    taste: Taste
    settings: SimulationSettings

    def draw(self, what: str) -> random.Random:
        """Return the source of chance for one thing about this person."""
        return random.Random(f"{self.settings.seed}:{self.id}:{what}")


class SimulatedQuestion(NamedTuple):
    """A question as one person asks it."""

    topic: Topic
    prompt: str


class SimulatedChoice(NamedTuple):
    """Answers to a question, the levels of each, and which of them the person chose."""

    answers: tuple[str, ...]
    levels: tuple[Levels, ...]
    chosen: int


def person(number: int, settings: SimulationSettings) -> Person:
    """Return the person of a number, whatever the number of users."""
    return named_person(f"u{number:05}", settings)


def named_person(user: str, settings: SimulationSettings) -> Person:
    """Return the person behind a user's id."""
    taste = draw_taste(random.Random(f"{settings.seed}:{user}:taste"), settings)
    return Person(user, domains()[int(user[1:]) % settings.domains], taste, settings)


def population(settings: SimulationSettings, placement: int) -> Iterator[Item]:
    """Yield the items of all users, user by user; `placement` is the seed by which candidates are placed."""
    for number in range(settings.users):
        yield from _items(person(number, settings), placement)


def _items(who: Person, placement: int) -> Iterator[Item]:
    spoken = spoken_for(who)
    posts = _posts(who, spoken)
    asked = questions(who)
    user = User(who.id, posts, tuple(_pairs(who, asked[::-1])))
    oracle = _oracle(who, posts, spoken)
    for number, each in enumerate(asked[: who.settings.items]):
        name = f"i{number}"
        item = f"{who.id}-{name}"
        made = _choice(who, each.topic, name, who.settings.candidates)
        ids = [f"answer{place + 1}" for place in range(len(made.answers))]
        order = [ids.index(candidate) for candidate in placed(ids, item, placement)]
        yield Item(
            id=item,
            prompt=each.prompt,
            candidates=tuple(made.answers[place] for place in order),
            preferred=order.index(made.chosen),
            cluster=who.id,
            domain=who.domain.name,
            candidate_ids=tuple(ids[place] for place in order),
            user=user,
            tags=_tags(who, made),
            oracle=oracle,
        )


def _tags(who: Person, made: SimulatedChoice) -> dict[str, str]:
    attribute, margin = decider(who.taste, made.levels)
    winner = {f"winner:{name}": level for name, level in made.levels[made.chosen].items()}
    return {"decides": attribute, "margin": str(margin), **winner}


# ---------------------------------------------------------------- posts


def spoken_for(who: Person) -> list[Signal | None]:
    """Return what each post of a person speaks for; None is chatter."""
    return [draw_signal(who.draw(f"signal:{number}"), who.taste, who.settings) for number in range(who.settings.posts)]


def _posts(who: Person, spoken: Sequence[Signal | None]) -> tuple[Post, ...]:
    """Return the posts in words; no sentence comes again before all of its kind have come."""
    rng = who.draw("posts")
    scenes = rng.sample(who.domain.scenes, len(who.domain.scenes))
    written: dict[Signal | None, Sequence[str]] = {None: who.domain.chatter}
    written.update((signal, _level(*signal).posts) for signal in signals())
    texts = {signal: rng.sample(lines, len(lines)) for signal, lines in written.items()}
    posts = []
    for number, signal in enumerate(spoken):
        turn = spoken[:number].count(signal)
        parts = [scenes[number % len(scenes)], texts[signal][turn % len(texts[signal])]]
        text = " ".join(parts if who.draw(f"post:{number}").random() < 0.5 else parts[::-1])
        posts.append(Post(f"{who.id}-p{number:03}", text, who.domain.name.lower()))
    return tuple(posts)


# ---------------------------------------------------------------- questions and answers


_ITEM = re.compile(r"(?P<user>u\d{5})-i(?P<number>\d+)")


def asker(item: str, prompt: str, settings: SimulationSettings) -> Person | None:
    """Return who asks an item of the world of these settings; None where that item has another prompt, or is none."""
    found = _ITEM.fullmatch(item)
    if found is None or _prompts(found["user"], settings)[int(found["number"]) :][:1] != (prompt,):
        return None
    return named_person(found["user"], settings)


@lru_cache(maxsize=256)  # the items of one user follow each other
def _prompts(user: str, settings: SimulationSettings) -> tuple[str, ...]:
    return tuple(each.prompt for each in questions(named_person(user, settings)))


def questions(who: Person) -> list[SimulatedQuestion]:
    """Return every prompt of the domain once, in this person's order: neighbours are of different topics.

    Items are taken from the front and context pairs from the back, so that no prompt is both.
    """
    rng = who.draw("questions")
    topics = rng.sample(who.domain.topics, len(who.domain.topics))
    ways = [prompts(who.domain, topic) for topic in topics]
    for each in ways:
        rng.shuffle(each)
    return [SimulatedQuestion(*each) for turn in zip(*ways, strict=True) for each in zip(topics, turn, strict=True)]


def _choice(who: Person, topic: Topic, name: str, width: int) -> SimulatedChoice:
    rng = who.draw(name)
    levels = _spread_levels(rng, width)
    answers = tuple(write_answer(topic, answer, rng) for answer in levels)
    chances = choice_chances([utility(who.taste, answer) for answer in levels], who.settings.sharpness)
    return SimulatedChoice(answers, levels, who.draw(f"{name}:choice").choices(range(width), chances)[0])


def _spread_levels(rng: random.Random, width: int) -> tuple[Levels, ...]:
    """Return the levels of each answer: each attribute's levels are dealt out evenly, and no two answers are alike.

    Two answers so differ in every attribute: whatever somebody wants, the question is to the point.
    """
    while True:
        dealt = {attribute.name: _deal(rng, list(attribute.levels), width) for attribute in attributes()}
        rows = list(zip(*dealt.values(), strict=True))
        if len(set(rows)) == width:
            return tuple(dict(zip(dealt, row, strict=True)) for row in rows)


def _deal(rng: random.Random, levels: Sequence[str], width: int) -> list[str]:
    shuffled = rng.sample(levels, len(levels))
    return rng.sample([shuffled[place % len(levels)] for place in range(width)], width)


def _pairs(who: Person, asked: Sequence[SimulatedQuestion]) -> Iterator[ContextPair]:
    for number, each in enumerate(asked[: who.settings.pairs]):
        made = _choice(who, each.topic, f"c{number}", 2)
        preferred, other = made.answers[made.chosen], made.answers[1 - made.chosen]
        yield ContextPair(f"{who.id}-c{number}", each.prompt, preferred, other)


# ---------------------------------------------------------------- what only graders may read


def _oracle(who: Person, posts: Sequence[Post], spoken: Sequence[Signal | None]) -> Oracle:
    """Return the true taste in words, each want with the first post that speaks for it (none: empty)."""
    first = {signal: post.text for signal, post in reversed(list(zip(spoken, posts, strict=True)))}
    words = [_level(want.attribute, want.level).wants for want in who.taste]
    aspects = tuple(
        Aspect(text, first.get(Signal(want.attribute, want.level), ""), WEIGHS[want.weight])
        for want, text in zip(who.taste, words, strict=True)
    )
    field = who.domain.name.lower()
    narrative = f"Asks about the {field} and wants {'; and '.join(words)}. The rest is no matter."
    return Oracle(aspects, narrative)


def _level(attribute: str, level: str) -> Level:
    return next(each for each in attributes() if each.name == attribute).levels[level]
