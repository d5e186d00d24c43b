"""Simulated users: latent tastes, posts that reveal them noisily, and the best attainable accuracy known exactly.

>>> bench = load(Spec("simulated", options={"users": "40"}), seed=0)
>>> len(bench.items), len(bench.users)
(160, 40)

`scorers.py` says how good any scorer can be on these items when it knows the taste, the posts or nothing, and has the
three scorers that get there. docs/simulated.md says how a user comes to choose.

Every draw is seeded by the world's seed and the id of what is drawn, so that more users, posts, items or pairs leave
those that were there as they are. The seed of the placement moves candidates and nothing else.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.simulated.tastes import (
    RANGES,
    SimulationSettings,
    Taste,
    choice_chances,
    decider,
    draw_signal,
    draw_taste,
    read_settings,
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
    longest,
    prompts,
    texts_hash,
    write_answer,
)
from pluralrm.card import Card
from pluralrm.core import Aspect, Benchmark, ContextPair, Item, Oracle, Post, User
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Form, Spec, parse

CARD = Card(
    name="simulated",
    summary="Simulated users whose best attainable accuracy is known: taste known, posts known, nothing known",
    licence="Apache-2.0",
    source="drawn from a seed; the sentences were written for this project",
    labelled="by a Bradley-Terry draw from the utilities that the user's latent taste gives the answers",
    citation="The pluralrm developers. Simulated users, part of pluralrm.",
    notes="For testing methods, not for ranking models: no person is behind these tastes. Posts and answers are put "
    "together from written sentences, so a model can be good here by learning the sentences. With crowd=0 and two "
    "answers nothing is to be had without the user: answers alone are at .5 exactly, at any length and in any place. "
    "With three or four, the odd one out wins a little more often.",
)

_LEAK = "with probability {:g} the label is the longest answer, for any user"
_GENERAL = "with probability {:g} the other answers are about another topic, and the label is the one to the point"

FORM = Form("optional", tuple(RANGES))
"""What the spec accepts; the target is the first key=value, as in `simulated:users=200,items=4`."""


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the simulated benchmark of a spec; `seed` places the candidates, the spec's own seed makes the world."""
    return _world(read_settings(spec), seed)


@lru_cache(maxsize=8)  # a study, a training and a report read the same one many times; nothing of it can be changed
def _world(settings: SimulationSettings, seed: int) -> Benchmark:
    card = replace(CARD, revision=f"{settings} (texts {texts_hash()})")
    if settings.groups:
        card = replace(
            card, notes=f"{CARD.notes.partition(' With crowd=0')[0]} People of a group have tastes in common."
        )
    for name, share, rule in (("leaky", settings.leak, _LEAK), ("general", settings.general, _GENERAL)):
        if share:
            notes = f"{CARD.notes.partition(' With crowd=0')[0]} Labels can be guessed without the user."
            labelled = f"{rule.format(share)}; else {card.labelled}"
            card = replace(card, name=f"{card.name}-{name}", labelled=labelled, notes=notes)
    return Benchmark(card, tuple(population(settings, seed)), seed)


def settings_of(benchmark: Benchmark) -> SimulationSettings:
    """Return the settings by which a benchmark was made; one made elsewhere, or with other texts, is an error."""
    spec, _, texts = benchmark.card.revision.partition(" ")
    if not spec.startswith(f"{CARD.name},"):
        raise BenchmarkError(f"found {benchmark.card.name!r}, wanted a simulated benchmark: no other taste is known")
    if texts != f"(texts {texts_hash()})":
        raise BenchmarkError(f"found a benchmark of {texts or 'no texts'}, wanted (texts {texts_hash()}): make it anew")
    return read_settings(parse(spec, {CARD.name: FORM}, noun="benchmark"))


WEIGHS = {1: "This user cares about it.", 2: "This user cares a great deal about it."}
"""The weight of a want in words, for the rubric."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who a user is behind the posts."""

    id: str
    domain: Domain
    taste: Taste
    settings: SimulationSettings
    group: int | None = None

    def draw(self, what: str) -> random.Random:
        """Return the source of chance for one thing about this person."""
        return random.Random(f"{self.settings.seed}:{self.id}:{what}")

    def draw_shared(self, what: str) -> random.Random:
        """Return the source for what all who judge the same answers have in common; the person's own uncrossed."""
        if self.settings.crossed < 2:
            return self.draw(what)
        number, domain = divmod(int(self.id[1:]), self.settings.domains)
        return random.Random(f"{self.settings.seed}:d{domain}-{number // self.settings.crossed}:{what}")

    @property
    def traits(self) -> dict[str, str]:
        """What the person declares: the group, and a trait that goes with no taste."""
        if self.group is None:
            return {}
        return {"group": f"g{self.group:02}", "hand": "left" if self.draw("hand").random() < 0.5 else "right"}


class SimulatedQuestion(NamedTuple):
    """A question as one person asks it."""

    topic: Topic
    prompt: str


class SimulatedChoice(NamedTuple):
    """Answers to a question, the levels of each, and which of them the person chose."""

    answers: tuple[str, ...]
    levels: tuple[Levels, ...]
    chosen: int
    by: str = "user"
    """Who or what decided: `user`, or where labels leak or are general `length` and `topic`."""


def person(number: int, settings: SimulationSettings) -> Person:
    """Return the person of a number, whatever the number of users."""
    return named_person(f"u{number:05}", settings)


def named_person(user: str, settings: SimulationSettings) -> Person:
    """Return the person behind a user's id."""
    rng, group = random.Random(f"{settings.seed}:{user}:group"), None
    whose = user
    if settings.groups:
        group = rng.randrange(settings.groups)
        whose = f"g{group:02}" if rng.random() < settings.alike else user
    taste = draw_taste(random.Random(f"{settings.seed}:{whose}:taste"), settings)
    return Person(user, domains()[int(user[1:]) % settings.domains], taste, settings, group)


def population(settings: SimulationSettings, placement: int) -> Iterator[Item]:
    """Yield the items of all users, user by user; `placement` is the seed by which candidates are placed."""
    for number in range(settings.users):
        yield from _items(person(number, settings), placement)


def _items(who: Person, placement: int) -> Iterator[Item]:
    spoken = spoken_for(who)
    posts = _posts(who, spoken)
    prompts = questions(who)
    user = User(who.id, posts, tuple(_pairs(who, prompts[::-1])), who.traits)
    oracle = _oracle(who, posts, spoken)
    first = [(each, f"i{number}") for number, each in enumerate(prompts[: who.settings.items])]
    again = [(each, name) for each, name in first if who.draw(f"{name}:again").random() < who.settings.repeats]
    for (each, name), turn in [*zip(first, repeat("")), *zip(again, repeat("-again"))]:
        item = f"{who.id}-{name}{turn}"
        choice = _labelled(
            who, each.topic, name, _choice(who, each.topic, name, who.settings.candidates, turn=turn), turn=turn
        )
        ids = [f"answer{number + 1}" for number in range(len(choice.answers))]
        order = [ids.index(candidate) for candidate in placed(ids, item, placement)]
        yield Item(
            id=item,
            prompt=each.prompt,
            candidates=tuple(choice.answers[index] for index in order),
            preferred=order.index(choice.chosen),
            cluster=who.id,
            domain=who.domain.name,
            candidate_ids=tuple(ids[index] for index in order),
            user=user,
            tags=_tags(who, choice),
            oracle=oracle,
        )


def _tags(who: Person, choice: SimulatedChoice) -> dict[str, str]:
    attribute, margin = decider(who.taste, choice.levels)
    winner = {f"winner:{name}": level for name, level in choice.levels[choice.chosen].items()}
    by = {"label": choice.by} if who.settings.leak or who.settings.general else {}
    return {"decides": attribute, "margin": str(margin), **by, **winner}


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


_ITEM = re.compile(r"(?P<user>u\d{5})-i(?P<number>\d+)(-again)?")


def asker(item: str, prompt: str, settings: SimulationSettings) -> Person | None:
    """Return who asks an item of the world of these settings; None where that item has another prompt, or is none."""
    match = _ITEM.fullmatch(item)
    if match is None or _prompts(match["user"], settings)[int(match["number"]) :][:1] != (prompt,):
        return None
    return named_person(match["user"], settings)


@lru_cache(maxsize=256)  # the items of one user follow each other
def _prompts(user: str, settings: SimulationSettings) -> tuple[str, ...]:
    return tuple(each.prompt for each in questions(named_person(user, settings)))


def questions(who: Person) -> list[SimulatedQuestion]:
    """Return every prompt of the domain once, in this person's order: neighbours are of different topics.

    Items are taken from the front and context pairs from the back, so that no prompt is both.
    """
    rng = who.draw_shared("questions")
    topics = rng.sample(who.domain.topics, len(who.domain.topics))
    ways = [prompts(who.domain, topic) for topic in topics]
    for each in ways:
        rng.shuffle(each)
    return [SimulatedQuestion(*each) for turn in zip(*ways, strict=True) for each in zip(topics, turn, strict=True)]


def _choice(who: Person, topic: Topic, name: str, width: int, *, turn: str = "") -> SimulatedChoice:
    rng = who.draw(name) if name.startswith("c") else who.draw_shared(name)
    levels = _spread_levels(rng, width)
    answers = tuple(write_answer(topic, answer, rng) for answer in levels)
    chances = choice_chances([utility(who.taste, answer) for answer in levels], who.settings.sharpness)
    return SimulatedChoice(answers, levels, who.draw(f"{name}{turn}:choice").choices(range(width), chances)[0])


def _labelled(who: Person, topic: Topic, name: str, choice: SimulatedChoice, *, turn: str) -> SimulatedChoice:
    """Return the choice as this world labels it: the user's own, by the topic for general quality, or by length."""
    settings, width = who.settings, len(choice.answers)
    rng = who.draw_shared(f"{name}:general")
    if rng.random() < settings.general:
        chosen, others = rng.randrange(width), [other for other in who.domain.topics if other != topic]
        answers = tuple(
            answer if index == chosen else write_answer(rng.choice(others), choice.levels[index], rng)
            for index, answer in enumerate(choice.answers)
        )
        return choice._replace(answers=answers, chosen=chosen, by="topic")
    rng = who.draw(f"{name}{turn}:leak")
    if rng.random() < settings.leak:
        return choice._replace(chosen=rng.choice(longest(choice.levels)), by="length")
    return choice


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
    return rng.sample([shuffled[index % len(levels)] for index in range(width)], width)


def _pairs(who: Person, prompts: Sequence[SimulatedQuestion]) -> Iterator[ContextPair]:
    for number, each in enumerate(prompts[: who.settings.pairs]):
        choice = _choice(who, each.topic, f"c{number}", 2)
        preferred, other = choice.answers[choice.chosen], choice.answers[1 - choice.chosen]
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
