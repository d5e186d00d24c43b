"""Ratings become pairs by a named rule, which stands in the spec: `pairs=random,gap=10,per=50`.

An item's candidates are two texts that one person rated, and its grades are the two ratings.

| `pairs=` | the pairs of a person |
|---|---|
| `random` (default) | each text in at most one pair |
| `chain` | the texts in one random order, each with the next |
| `all` | every two texts |

`gap=M` is the least difference of the ratings (default: any). Equal ratings are no preference and never a pair: such
pairs are left out and counted. `per=K` keeps at most K pairs of a person, the first ones in a random order.

Texts and pairs are ordered at random by their ids alone, for everybody alike (`draw=N` is another order): people who
rated the same texts have the same pairs, in whatever order a file has them, so that people and items cross. `random` is
the default because no text is in two of a person's pairs, so that one odd text does not count many times. Where texts
have prompts, both texts of a pair have the same one.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import combinations, pairwise
from typing import NamedTuple

from pluralrm.benchmarks.dataset import judgment
from pluralrm.benchmarks.dirt import Dirt, free_id
from pluralrm.benchmarks.preferences import word_of
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.card import Card
from pluralrm.core import Item, User
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

RULES: Mapping[str, str] = {
    "random": "each text in at most one pair of a person",
    "chain": "each text with the next in a random order",
    "all": "every two texts that a person rated",
}
OPTIONS = ("pairs", "gap", "per", "draw")
"""The spec keys of every benchmark of ratings."""
_BITS = 64
_LARGEST = 1e9
_SLACK = 1e-9
"""What 4.3 - 4 may lack of 0.3."""

Pair = tuple[str, str]


class PairRule(NamedTuple):
    """How the ratings of a person become pairs."""

    name: str = "random"
    gap: float = 0.0
    per: int = 0
    """The most pairs of a person; 0: all of them."""
    draw: int = 0

    def __str__(self) -> str:
        limits = [f"gap={self.gap:g}"] * (self.gap > 0) + [f"per={self.per}"] * (self.per > 0)
        draws = [f"draw={self.draw}"] * (self.draw > 0)
        return ",".join([f"pairs={self.name}", *limits, *draws])

    def onto(self, card: Card) -> Card:
        """Return the card with the rule."""
        note = f"Ratings become pairs by {self}: {RULES[self.name]}; equal ratings are left out."
        return replace(card, notes=f"{card.notes} {note}".strip())

    def pairs(self, texts: Iterable[str]) -> Iterator[Pair]:
        """Yield the pairs of some texts by the rule, without regard to ratings; the smaller id comes first."""
        keys = {text: _key(f"{self.draw}:{text}") for text in texts}
        order = sorted(keys, key=keys.__getitem__)
        if self.name == "all":
            pairs: Iterable[Pair] = combinations(order, 2)
        elif self.name == "chain":
            pairs = pairwise(order)
        else:
            matched: list[Pair] = []
            _match(order, keys, _BITS - 1, matched)
            pairs = matched
        yield from ((first, second) if first < second else (second, first) for first, second in pairs)

    def first(self, pairs: Iterable[Pair]) -> Sequence[Pair]:
        """Return at most `per` pairs, the first ones in the random order of all pairs."""
        return heapq.nsmallest(self.per, pairs, key=self._rank) if self.per else list(pairs)

    def _rank(self, pair: Pair) -> tuple[int, Pair]:
        return _key(f"{self.draw}:{len(pair[0])}:{pair[0]}:{pair[1]}"), pair


def rule_of(spec: Spec) -> PairRule:
    """Return the rule that a spec names; an unknown one is a SpecError that names those that there are."""
    return PairRule(
        word_of(spec, "pairs", list(RULES)),
        spec.number("gap", 0, least=0, most=_LARGEST),
        spec.integer("per", 1, least=1) if "per" in spec.options else 0,
        spec.integer("draw", 0),
    )


def _key(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=_BITS // 8).digest(), "big")


def _match(group: Sequence[str], keys: Mapping[str, int], bit: int, pairs: list[Pair]) -> str | None:
    """Append pairs in which each text of a group stands once, and return the text that is left over.

    Keys are leaves of a binary tree, and each node pairs what its halves leave over: without one of the texts only the
    pairs on its way to the root change, so that people who rated almost the same texts have almost the same pairs.
    """
    if len(group) < 2 or bit < 0:
        return group[0] if group else None
    halves = ([text for text in group if not keys[text] >> bit & 1], [text for text in group if keys[text] >> bit & 1])
    left = [text for half in halves if (text := _match(half, keys, bit - 1, pairs)) is not None]
    if len(left) == 2:
        pairs.append((left[0], left[1]))
    return left[0] if len(left) == 1 else None


# ---------------------------------------------------------------- items


class RatedText(NamedTuple):
    """A text that people rated; both texts of a pair have one prompt and one domain."""

    text: str
    prompt: str = ""
    domain: str = "all"


class TextRating(NamedTuple):
    """One rating of one text, and the tags of the judgment."""

    value: float
    tags: Mapping[str, str]


@dataclass
class RatingTable:
    """Who rated what, and how; a person who rated a text twice has two ratings of it."""

    question: str
    """What is asked of a pair whose texts have no prompt: the same for everybody."""
    texts: dict[str, RatedText] = field(default_factory=dict)
    people: dict[str, dict[str, list[TextRating]]] = field(default_factory=dict)
    """By person and text, the ratings in the order of the file."""
    traits: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def add_text(self, name: str, text: RatedText, location: Place) -> None:
        """Add a text; another text under the same id is a RowError."""
        if (first := self.texts.setdefault(name, text)) != text:
            changed = next(field for field in text._fields if getattr(first, field) != getattr(text, field))
            earlier = describe(getattr(first, changed))
            raise location.refuse(
                changed, found=describe(getattr(text, changed)), wanted=f"{earlier}, as in an earlier row of {name!r}"
            )

    def rate(self, person: str, text: str, rating: TextRating) -> None:
        """Add a rating."""
        self.people.setdefault(person, {}).setdefault(text, []).append(rating)

    def items(self, rule: PairRule, *, seed: int, dirt: Dirt) -> tuple[Item, ...]:
        """Return the pairs of everybody as items, by person and pair; what is left out is counted in `dirt`."""
        result: dict[str, Item] = {}
        for person in sorted(self.people):
            user = User(person, traits=self.traits.get(person, {}))
            before = len(result)
            for occasion in range(max(map(len, self.people[person].values()))):
                for pair, ratings in self._preferences(person, occasion, rule, dirt):
                    again = f"#{occasion + 1}" if occasion else ""
                    name = free_id(f"{person}:{pair[0]}:{pair[1]}{again}", result)
                    result[name] = self._item(name, user, dict(zip(pair, ratings, strict=True)), seed=seed)
            if len(result) == before:
                dirt.drop("people", "without a pair")
        dirt.read("people", len(self.people))
        dirt.settle()
        if not result:
            raise BenchmarkError(
                f"found no pair by {rule} in the ratings of {len(self.people):,} people; "
                "wanted two different ratings by one person"
            )
        return tuple(result.values())

    def _preferences(
        self, person: str, occasion: int, rule: PairRule, dirt: Dirt
    ) -> list[tuple[Pair, tuple[TextRating, TextRating]]]:
        """Return the pairs of texts that a person rated for the nth time, without those that are no preference."""
        own = {text: each[occasion] for text, each in self.people[person].items() if len(each) > occasion}
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for text in own:
            groups[self.texts[text].prompt, self.texts[text].domain].append(text)
        pairs = [pair for group in sorted(groups) for pair in rule.pairs(groups[group])]
        dirt.read("pairs", len(pairs))
        clear = [pair for pair in pairs if self._is_clear(pair, own, rule, dirt)]
        return [(pair, (own[pair[0]], own[pair[1]])) for pair in sorted(rule.first(clear))]

    def _is_clear(self, pair: Pair, own: Mapping[str, TextRating], rule: PairRule, dirt: Dirt) -> bool:
        first, second = pair
        gap = abs(own[first].value - own[second].value)
        if self.texts[first].text.strip() == self.texts[second].text.strip():
            dirt.drop("pairs", "of one text")
        elif not gap:
            dirt.drop("pairs", "of equal ratings")
        elif gap < rule.gap - _SLACK:
            dirt.drop("pairs", f"closer than gap={rule.gap:g}")
        else:
            return True
        return False

    def _item(self, name: str, user: User, ratings: Mapping[str, TextRating], *, seed: int) -> Item:
        text = self.texts[next(iter(ratings))]
        common = set.intersection(*(set(rating.tags.items()) for rating in ratings.values()))
        answers = {each: (self.texts[each].text, rating.value) for each, rating in ratings.items()}
        prompt, tags = text.prompt or self.question, dict(sorted(common))
        item = judgment(name, prompt, answers, seed=seed, domain=text.domain, user=user, tags=tags)
        return item if text.prompt else replace(item, prompt_id="|".join(sorted(ratings)))
