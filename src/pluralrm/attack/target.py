"""What an attack is given: an item, and the rejected answer that it may change."""

import random
from dataclasses import dataclass, replace
from string import ascii_uppercase

from pluralrm.core import Item, User


@dataclass(frozen=True, slots=True)
class Target:
    """The answer at `place` of an item, never the preferred one; `partner` is another user of the domain."""

    item: Item
    place: int
    seed: int = 0
    partner: User | None = None

    @property
    def answer(self) -> str:
        """The answer before the attack."""
        return self.item.candidates[self.place]

    @property
    def own(self) -> str:
        """The letter of its place, as judges name answers in the order given."""
        return _letter(self.place)

    @property
    def other(self) -> str:
        """The letter of the preferred answer."""
        return _letter(self.item.preferred or 0)

    @property
    def ranking(self) -> str:
        """All letters, its own first, as a judge would rank them."""
        letters = map(_letter, range(len(self.item.candidates)))
        return ">".join([self.own, *(letter for letter in letters if letter != self.own)])

    def draw(self, name: str) -> random.Random:
        """Return the coin of one attack on this item; no other attack, and no other item, moves it."""
        return random.Random(f"{self.seed}:{self.item.id}:{name}")

    def changed(self, text: str, name: str) -> Item:
        """Return the item with `text` as this answer, and tags that say which attack changed which place."""
        candidates, ids = list(self.item.candidates), list(self.item.candidate_ids)
        candidates[self.place] = text
        if ids:
            ids[self.place] += f"+{name}"
        tags = {**self.item.tags, ATTACK: name, ATTACKED: str(self.place)}
        return replace(self.item, candidates=tuple(candidates), candidate_ids=tuple(ids), tags=tags)


ATTACK, ATTACKED = "attack", "attacked"
"""Tags of an attacked item, and so of its row: the attack's name, and the place of the answer that it changed."""


def aim(item: Item, *, seed: int = 0, partner: User | None = None) -> Target | None:
    """Return the target of an item: one rejected answer, by seed and item; None where there is none."""
    rejected = [place for place in range(len(item.candidates)) if place != item.preferred]
    if item.preferred is None or not rejected:
        return None
    # A name of its own: the loader has placed the candidates by the bare seed and id.
    return Target(item, random.Random(f"{seed}:{item.id}:attacked").choice(rejected), seed, partner)


def _letter(place: int) -> str:
    return ascii_uppercase[place % len(ascii_uppercase)]
