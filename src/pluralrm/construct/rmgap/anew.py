"""A set of texts of which only the refused ones are written anew: those that passed stay as they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pluralrm.construct.pipeline.work import Ask, Refusal, Rejected, Work, ask_all, until_accepted
from pluralrm.construct.rmgap.products import Written
from pluralrm.core import Failure

Refused = Mapping[int, Refusal]
"""By the place of the text."""

Draft = tuple[Written, ...]


class Gates(Protocol):
    """What judges a set: first what costs nothing, then those who are asked."""

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return what is refused by looking; `fresh` are the places that were not looked at so far."""
        ...

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return what is refused by those who are asked; `new` are the places that nobody has passed so far."""
        ...


@dataclass
class Anew:
    """The work on one set. A text is looked at and judged once; a text that was refused never comes before anybody."""

    count: int
    order: Callable[[int, int, Sequence[str]], Ask[str]]
    """What is asked for: the text at a place, at an attempt, and why each text before it was refused."""
    gates: Gates
    most: int
    _texts: dict[int, Written] = field(default_factory=dict)
    _why: dict[int, list[str]] = field(default_factory=dict)
    _open: list[int] = field(default_factory=list)
    _fresh: set[int] = field(default_factory=set)
    _new: set[int] = field(default_factory=set)
    _seen: dict[tuple[int, str], Refusal] = field(default_factory=dict)

    def work(self) -> Work[tuple[list[Written], int] | Rejected]:
        """Return the texts and how often the set was written, or Rejected by the gate that refused last."""
        self._why = {place: [] for place in range(self.count)}
        self._open = list(self._why)
        done = yield from until_accepted(self._write, self._judge, self.most)
        return done if isinstance(done, Rejected) else (list(done[0]), done[1])

    def _write(self, attempt: int, _reasons: Sequence[Refusal]) -> Work[Draft | Refusal]:
        wanted = self._open
        said = yield from ask_all([self.order(place, attempt, self._why[place]) for place in wanted])
        refused: dict[int, Refusal] = {}
        for place, text in zip(wanted, said, strict=True):
            if isinstance(text, Failure):
                refused[place] = Refusal("unwritten", f"{text.kind}: {text.detail}")
            elif before := self._seen.get((place, text)):
                refused[place] = Refusal("unchanged", f"the text was refused before: {before.gate}: {before.said}")
            else:
                self._texts[place] = Written(text=text, turn=attempt)
                self._fresh.add(place)
        self._take(refused)
        return next(iter(refused.values())) if refused else tuple(self._texts[place] for place in range(self.count))

    def _judge(self, draft: Draft, attempt: int) -> Work[Sequence[Refusal]]:
        refused = self.gates.looks(draft, sorted(self._fresh))
        self._new |= self._fresh.difference(refused)
        self._fresh.clear()
        if not refused:
            refused = yield from self.gates.asks(draft, sorted(self._new), attempt)
            self._new.clear()
        self._seen |= {(place, draft[place].text): refusal for place, refusal in refused.items()}
        self._take(refused)
        return [Refusal(gate, f"{place + 1}: {said}") for place, (gate, said) in sorted(refused.items())]

    def _take(self, refused: Refused) -> None:
        self._open = sorted(refused)
        for place, refusal in refused.items():
            self._why[place].append(refusal.said)
