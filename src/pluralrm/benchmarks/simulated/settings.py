"""What can be chosen of a simulated world; the keys of `simulated:users=200,items=4,...`, each with its range.

>>> read_settings(Spec("simulated", "users=40", {"noise": "0.25"})).users
40
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import nan

from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec, whole_number


@dataclass(frozen=True, slots=True)
class Settings:
    """One simulated world. Users, posts and questions come one by one from the seed: more of them change none before.

    `noise` and `chatter` are probabilities of a post: to speak for a level drawn at random, and to speak for none.
    `sharpness` multiplies utilities in a choice (0: a coin); `crowd` is the share of tastes that everybody has.
    """

    users: int = 200
    items: int = 4
    posts: int = 20
    pairs: int = 4
    candidates: int = 2
    domains: int = 3
    cares: int = 3
    noise: float = 0.5
    chatter: float = 0.3
    sharpness: float = 1.0
    crowd: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        return str(Spec("simulated", options={key: str(value) for key, value in asdict(self).items()}))


RANGES: Mapping[str, tuple[float, float]] = {
    "users": (1, 99_999),
    "items": (1, 144),
    "posts": (0, 999),
    "pairs": (0, 144),
    "candidates": (2, 4),
    "domains": (1, 3),
    "cares": (1, 4),
    "noise": (0, 1),
    "chatter": (0, 1),
    "sharpness": (0, 20),
    "crowd": (0, 1),
    "seed": (0, 2**63 - 1),
}
"""Smallest and largest value of each key; more than four cared-for attributes would be too many tastes to enumerate."""

QUESTIONS = 144
"""How many different questions a domain has: what one user is asked, in items and context pairs together."""


def read_settings(spec: Spec) -> Settings:
    """Return the settings in a spec; a key that is unknown, given twice or out of range is a SpecError."""
    chosen = _options(spec)
    settings = Settings(
        users=_whole(chosen, "users"),
        items=_whole(chosen, "items"),
        posts=_whole(chosen, "posts"),
        pairs=_whole(chosen, "pairs"),
        candidates=_whole(chosen, "candidates"),
        domains=_whole(chosen, "domains"),
        cares=_whole(chosen, "cares"),
        noise=_number(chosen, "noise"),
        chatter=_number(chosen, "chatter"),
        sharpness=_number(chosen, "sharpness"),
        crowd=_number(chosen, "crowd"),
        seed=_whole(chosen, "seed"),
    )
    if settings.items + settings.pairs > QUESTIONS:
        asked = f"items={settings.items} and pairs={settings.pairs}"
        raise SpecError(f"simulated: found {asked}, wanted at most {QUESTIONS} together: there are no more questions.")
    return settings


def _options(spec: Spec) -> dict[str, str]:
    """Return key and text of every option; in `simulated:users=9,seed=1` the first one is the spec's target."""
    options = dict(spec.options)
    if spec.target:
        key, equals, value = spec.target.partition("=")
        if not (equals and key and value):
            raise SpecError(f"simulated: found {spec.target!r}, wanted key=value, as in simulated:users=200,seed=1")
        if key in options:
            raise SpecError(f"simulated: key {key!r} is given twice.")
        options[key] = value
    for key in options:
        if key not in RANGES:
            raise SpecError(f"benchmark 'simulated' has no key {key!r}.{did_you_mean(key, RANGES)}")
    return {**{key: str(value) for key, value in asdict(Settings()).items()}, **options}


def _whole(chosen: Mapping[str, str], key: str) -> int:
    least, most = RANGES[key]
    number = whole_number(chosen[key], f"simulated: {key}", least=int(least))
    if number > most:
        raise SpecError(f"simulated: {key} is {chosen[key]!r}; wanted at most {most}.")
    return number


def _number(chosen: Mapping[str, str], key: str) -> float:
    least, most = RANGES[key]
    try:
        number = float(chosen[key])
    except ValueError:
        number = nan
    if not least <= number <= most:
        raise SpecError(f"simulated: {key} is {chosen[key]!r}; wanted a number from {least} to {most}.")
    return number
