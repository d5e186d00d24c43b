"""Prompts, answers and posts are put together from written sentences, and recognised by them.

The sentences are in `written/*.toml`: what an attribute means and how posts speak for it in `attributes.toml`, what is
asked and answered in one file for each domain. No sentence contains another, so reading one back is exact.
"""

import hashlib
import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

DOMAINS = ("kitchen", "garden", "workshop")

Levels = Mapping[str, str]
"""The level of every attribute that an answer has, by the attribute's name."""

CORE = {"brief": 2, "middling": 4, "thorough": 7}
"""How many of a topic's sentences an answer of each length has."""


class Signal(NamedTuple):
    """What a post speaks for: a level of an attribute."""

    attribute: str
    level: str


@dataclass(frozen=True, slots=True)
class Level:
    """One way an answer can be: the taste for it in words, posts that speak for it, and sentences that realise it.

    `answers` is empty where what realises it depends on the topic.
    """

    name: str
    wants: str
    posts: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something in which answers differ and tastes too; `crowd` is the level of a common taste."""

    name: str
    crowd: str
    levels: Mapping[str, Level]


@dataclass(frozen=True, slots=True)
class Topic:
    """Something to ask, and what an answer says: `core` at any rate, one of `sayings` for each level that it has.

    Length and structure have no sayings: they are how much of the core there is, and its form.
    """

    name: str
    questions: tuple[str, ...]
    core: tuple[str, ...]
    sayings: Mapping[Signal, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Domain:
    """A field of topics, with sentences for prompts (leads) and posts (scenes, chatter) that say nothing of taste."""

    name: str
    leads: tuple[str, ...]
    scenes: tuple[str, ...]
    chatter: tuple[str, ...]
    topics: tuple[Topic, ...]


# ---------------------------------------------------------------- what is written


@lru_cache(maxsize=1)
def attributes() -> tuple[Attribute, ...]:
    """Return the declared attributes, in the order of the file."""
    return tuple(
        Attribute(row["name"], row["crowd"], {level["name"]: _level(level) for level in row["level"]})
        for row in tomllib.loads(_source("attributes"))["attribute"]
    )


def _level(row: Mapping[str, str]) -> Level:
    return Level(row["name"], row["wants"], tuple(row["posts"]), tuple(row.get("answers", ())))


@lru_cache(maxsize=1)
def domains() -> tuple[Domain, ...]:
    """Return the domains, always in the same order."""
    rows = [tomllib.loads(_source(name)) for name in DOMAINS]
    return tuple(
        Domain(
            row["name"],
            tuple(row["leads"]),
            tuple(row["scenes"]),
            tuple(row["chatter"]),
            tuple(_topic(topic) for topic in row["topic"]),
        )
        for row in rows
    )


def _topic(row: Mapping[str, Mapping[str, str]]) -> Topic:
    sayings = {}
    for attribute in attributes():
        for name, level in attribute.levels.items():
            own = row.get(attribute.name, {}).get(name)
            if texts := level.answers if own is None else (own,):
                sayings[Signal(attribute.name, name)] = texts
    return Topic(str(row["name"]), tuple(row["questions"]), tuple(row["core"]), sayings)


@lru_cache(maxsize=1)
def texts_hash() -> str:
    """Return a short hash of everything that is written: with the settings, it fixes each text of a benchmark."""
    return hashlib.sha256("\n".join(map(_source, ("attributes", *DOMAINS))).encode()).hexdigest()[:12]


def _source(name: str) -> str:
    return files(__package__).joinpath("written", f"{name}.toml").read_text(encoding="utf-8")


# ---------------------------------------------------------------- writing


def write_answer(topic: Topic, levels: Levels, rng: random.Random) -> str:
    """Return an answer in which each attribute has the level asked for, as sentences or as form."""
    parts = {
        name: rng.choice(topic.sayings[Signal(name, level)])
        for name, level in levels.items()
        if Signal(name, level) in topic.sayings
    }
    core = topic.core[: CORE[levels["length"]]]
    if levels["structure"] == "steps":
        start = "\n".join([parts["tone"], "", *(f"{number}. {line}" for number, line in enumerate(core, 1))])
    else:
        start = " ".join([parts["tone"], *core])
    return f"{start}\n\n{parts['evidence']} {parts['examples']}\n\n{parts['caution']} {parts['ending']}"


def longest(answers: Sequence[Levels]) -> list[int]:
    """Return the places of the answers that none is longer than."""
    lengths = [CORE[levels["length"]] for levels in answers]
    return [index for index, length in enumerate(lengths) if length == max(lengths)]


def prompts(domain: Domain, topic: Topic) -> list[str]:
    """Return every way of asking about a topic."""
    return [f"{lead} {question}" for lead in domain.leads for question in topic.questions]


# ---------------------------------------------------------------- reading back


def topic_of(prompt: str) -> Topic | None:
    """Return what a prompt asks about, or None where it is no prompt of this benchmark."""
    return _topics().get(prompt)


@lru_cache(maxsize=1)
def _topics() -> Mapping[str, Topic]:
    return {prompt: topic for domain in domains() for topic in domain.topics for prompt in prompts(domain, topic)}


def read_answer_to(prompt: str, text: str) -> Levels | None:
    """Return the level of each attribute in an answer to this prompt, or None where the text is not one."""
    topic = topic_of(prompt)
    return read_answer(text) if topic is not None and topic.core[0] in text else None


@lru_cache(maxsize=8192)
def read_answer(text: str) -> Levels | None:
    """Return the level of each attribute in an answer, or None where the text is not one answer of this benchmark."""
    topic = next((each for domain in domains() for each in domain.topics if each.core[0] in text), None)
    if topic is None:
        return None
    signals = [
        Signal("length", next((name for name, count in reversed(CORE.items()) if topic.core[count - 1] in text), "")),
        Signal("structure", "steps" if f"1. {topic.core[0]}" in text else "prose"),
        *(signal for signal, sayings in topic.sayings.items() if any(saying in text for saying in sayings)),
    ]
    whole = signals[0].level and sorted(name for name, _ in signals) == sorted(
        attribute.name for attribute in attributes()
    )
    return dict(signals) if whole else None


@lru_cache(maxsize=8192)
def read_post(text: str) -> tuple[Signal, ...]:
    """Return the levels that a post speaks for: one as written here, none in chatter and in any other text."""
    return tuple(
        Signal(attribute.name, level.name)
        for attribute in attributes()
        for level in attribute.levels.values()
        for saying in level.posts
        if saying in text
    )
