"""Only what is refused is written anew, nothing refused is judged again, and what passed stays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.construct.pipeline import ModelCall, Refusal, Rejection, Work
from pluralrm.construct.rmgap import WrittenText
from pluralrm.construct.rmgap.review import Anew, Draft, Refused
from pluralrm.core import Failure
from pluralrm.templates import Template

TEMPLATE = Template("write", "{{ text }}")
MOST = 6
ENDS = ("fine", "unwritten", "unchanged", "ugly", "poor")
"""What becomes of a text: a model says none, or the one before; a look refuses it; a review does."""
LIVES = st.lists(st.lists(st.sampled_from(ENDS), max_size=MOST), min_size=1, max_size=4)


@dataclass
class Scripted:
    """Texts whose fate is written; what was looked at and what was judged is noted."""

    lives: Sequence[Sequence[str]]
    looked: list[tuple[int, str]] = field(default_factory=list)
    judged: list[tuple[int, str]] = field(default_factory=list)

    def fate(self, place: int, attempt: int) -> str:
        return [*self.lives[place], "fine"][min(attempt, len(self.lives[place]))]

    def order(self, place: int, attempt: int, why: Sequence[str]) -> ModelCall[str]:
        return ModelCall("writer", f"{place} {attempt} {len(why)}", TEMPLATE, str)

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        self.looked += [(place, draft[place].text) for place in fresh]
        return self._refused(draft, fresh, "ugly")

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        del attempt
        yield from ()
        self.judged += [(place, draft[place].text) for place in new]
        return self._refused(draft, new, "poor")

    def _refused(self, draft: Draft, places: Sequence[int], what: str) -> Mapping[int, Refusal]:
        return {place: Refusal(what, "no") for place in places if draft[place].text.endswith(what)}


def played(script: Scripted) -> tuple[list[WrittenText], int] | Rejection:
    """Answer what is asked: the n-th request for a place gets the n-th of its fates."""
    work = Anew(len(script.lives), script.order, script, MOST).work()
    asked = [0] * len(script.lives)
    last = [""] * len(script.lives)
    try:
        asks = next(work)
        while True:
            said: list[object] = []
            for one in asks:
                place = int(one.text.split()[0])
                fate = script.fate(place, asked[place])
                text = last[place] if fate == "unchanged" and last[place] else f"{place}.{asked[place]} {fate}"
                said.append(Failure("refused", "withheld") if fate == "unwritten" else text)
                last[place] = last[place] if fate == "unwritten" else text
                asked[place] += 1
            asks = work.send(said)
    except StopIteration as end:
        found: tuple[list[WrittenText], int] | Rejection = end.value
        return found


@given(LIVES)
def test_nothing_is_looked_at_or_judged_twice_and_nothing_refused_is_kept(lives: list[list[str]]) -> None:
    script = Scripted(lives)
    found = played(script)
    assert len(set(script.looked)) == len(script.looked)
    assert len(set(script.judged)) == len(script.judged)
    if not isinstance(found, Rejection):
        for place, written in enumerate(found[0]):
            assert (place, written.text) in script.judged
            assert not written.text.endswith(("ugly", "poor"))
            assert written.turn < found[1] <= MOST


@given(LIVES)
def test_a_text_that_passed_stays_whatever_becomes_of_the_others(lives: list[list[str]]) -> None:
    script = Scripted(lives)
    found = played(script)
    for place in range(len(lives)):
        passed = [text for where, text in script.judged if where == place and not text.endswith("poor")]
        assert len(passed) <= 1
        if passed and not isinstance(found, Rejection):
            assert found[0][place].text == passed[0]


@given(st.lists(st.sampled_from(("ugly", "poor", "unwritten")), min_size=MOST, max_size=MOST))
def test_a_place_that_is_always_refused_rejects_the_set_by_its_last_gate(life: list[str]) -> None:
    found = played(Scripted([[], life]))
    assert isinstance(found, Rejection)
    assert found.reason == life[-1]
    assert found.attempts == MOST


def test_a_text_that_comes_back_is_refused_with_its_own_reason_and_not_with_the_last_one() -> None:
    texts = ["rye poor", "spelt ugly", "rye poor"]
    script = Scripted([[]])
    work = Anew(1, script.order, script, len(texts)).work()
    next(work)
    for text in texts[:-1]:
        work.send([text])
    with pytest.raises(StopIteration) as end:
        work.send(texts[-1:])
    assert end.value.value == Rejection("unchanged", "unchanged: the text was refused before: poor: no", len(texts))
