"""Two reviewers, and an area chair where they disagree; how replies are read, and how refused texts are rewritten.

>>> disputed({"quality": (8, 6)}, {"quality": (8, 7)}, "each")
True
>>> [low.place for low in lows([{"quality": (8, 6)}, {"quality": (8, 7)}, {"quality": (9, 5)}], "each")]
[1]

each    every mark of every text must reach LEAST; a reviewer's mark stands where the other's falls on the same side,
        else the chair's decides
mean    as published: a reviewer passes a set where the mean of each dimension reaches LEAST; the chair decides where
        one passes the set and the other does not. One bad text among three excellent ones hides in the mean

A reply is read in exactly the form that was asked for, or it is Failure("parse"): nothing is guessed. A code fence
around JSON is form and does not count. Marks are whole numbers on their scale, for all texts that were shown and for
nothing else. Of a set of texts only the refused ones are written anew: those that passed stay as they are.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pluralrm.chat.completions import unreadable
from pluralrm.construct.filters import HIGHEST as BEST_RATING
from pluralrm.construct.filters import RATED
from pluralrm.construct.pipeline.stages import (
    ModelCall,
    Refusal,
    Rejection,
    StandIn,
    Work,
    ask,
    ask_all,
    until_accepted,
)
from pluralrm.construct.rmgap import PromptRatings, Rule, WrittenText
from pluralrm.core import Failure
from pluralrm.grading.grader import JsonPairs, json_in
from pluralrm.journal import field_error
from pluralrm.models.judge.verdicts import LETTERS
from pluralrm.templates import fenced, mark_of

LEAST, HIGHEST = 7, 10
ENOUGH = f"{LEAST} of {HIGHEST}"

MARKS_OF_PROMPTS = ("quality_scores", "bias_scores", "semantic_scores")
"""The keys of a review of prompts; a review of responses has the first of them for each text."""
Marks = Mapping[str, tuple[int, ...]]
"""By dimension, a mark from 1 to 10 for each text, or one for the set."""


class Low(NamedTuple):
    """A dimension in which a text is not good enough, and the marks that say so; no place: the set as a whole."""

    dimension: str
    place: int | None
    marks: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dimension} {' and '.join(map(str, self.marks))} of {HIGHEST}; wanted at least {LEAST}"


def disputed(first: Marks, second: Marks, rule: Rule) -> bool:
    """Return whether two reviewers come to different ends, so that the chair is asked."""
    if rule == "mean":
        return bool(_low_means(first)) != bool(_low_means(second))
    return any(len({mark >= LEAST for mark in pair}) > 1 for _, _, pair in _pairs([first, second]))


def lows(reviews: Sequence[Marks], rule: Rule) -> list[Low]:
    """Return what does not pass by two reviews, and by the chair's where there is a third."""
    if rule == "mean":
        deciding = reviews[2:] or reviews
        return [Low(dimension, None, _all(deciding, dimension)) for dimension in _low_in(deciding)]
    below = []
    for dimension, index, marks in _pairs(reviews):
        low = [mark < LEAST for mark in marks]
        if low[-1] if low[0] != low[1] else low[0]:
            below.append(Low(dimension, index, tuple(marks)))
    return below


def reviewed(make: Callable[[str, int], ModelCall[Marks]], rule: Rule) -> Work[list[Low] | Failure]:
    """Return what does not pass, or the Failure of a review that cannot be read; `make` writes it by role and turn."""
    reviews = yield from ask_all([make("reviewer", 0), make("reviewer", 1)])
    read = [marks for marks in reviews if not isinstance(marks, Failure)]
    if len(read) == len(reviews) and disputed(read[0], read[1], rule):
        reviews.append((yield from ask(make("chair", 0))))
    for marks in reviews:
        if isinstance(marks, Failure):
            return marks
    return lows([marks for marks in reviews if not isinstance(marks, Failure)], rule)


def review_stand_in(keys: Sequence[str], labels: Sequence[str], role: str, turn: int, *, last: bool) -> StandIn:
    """Return what a review says in a dry run: all is well; or the second reviewer and the chair think ill of it.

    The marks of the keys are by label. At the last attempt the chair passes what the second reviewer does not.
    """

    def marks(mark: int) -> str:
        of_set = {"style_score": mark, "semantic_score": mark} if len(keys) == 1 else {}
        return json.dumps({**{key: dict.fromkeys(labels, mark) for key in keys}, **of_set})

    ill = turn == 1 if role == "reviewer" else not last
    return StandIn(marks(HIGHEST), marks(1) if ill else "")


def _pairs(reviews: Sequence[Marks]) -> list[tuple[str, int, list[int]]]:
    return [
        (dimension, index, [review[dimension][index] for review in reviews])
        for dimension, marks in reviews[0].items()
        for index in range(len(marks))
    ]


def _low_means(marks: Marks) -> list[str]:
    """Return the dimensions whose mean is too low; the sum is compared, which is exact."""
    return [dimension for dimension, scores in marks.items() if sum(scores) < LEAST * len(scores)]


def _low_in(reviews: Sequence[Marks]) -> list[str]:
    return list(dict.fromkeys(dimension for review in reviews for dimension in _low_means(review)))


def _all(reviews: Sequence[Marks], dimension: str) -> tuple[int, ...]:
    return tuple(mark for review in reviews for mark in review[dimension])


SameRequest = Literal["same", "added", "dropped", "changed"]
"""What a paraphrase did with what was asked."""

_Mark = Annotated[int, Field(ge=1, le=HIGHEST)]
_Rating = Annotated[int, Field(ge=0, le=BEST_RATING)]
_Marks = dict[str, _Mark]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Rated(_Form):
    clarity: _Rating
    completeness: _Rating
    naturalness: _Rating
    safety: _Rating
    openness: _Rating
    overall: _Rating


class _OfResponses(_Form):
    quality_scores: _Marks
    style_score: _Mark
    semantic_score: _Mark


class _OfPrompts(_Form):
    quality_scores: _Marks
    bias_scores: _Marks
    semantic_scores: _Marks


class _OfParaphrases(_Form):
    verdicts: dict[str, SameRequest]


FormT = TypeVar("FormT", bound=_Form)


def read_text(text: str) -> str | Failure:
    """Return the text without the white space around it; one that says nothing is unreadable."""
    return text.strip() or unreadable("there is no text", text)


def read_ratings(text: str) -> PromptRatings | Failure:
    """Return six ratings from 0 to 5."""
    rating = _read(_Rated, text)
    return rating if isinstance(rating, Failure) else PromptRatings(**{name: getattr(rating, name) for name in RATED})


def read_response_marks(text: str, labels: Sequence[str]) -> Marks | Failure:
    """Return the quality of each response in the order of its label, and what the set is given as a whole."""
    review = _read(_OfResponses, text)
    if isinstance(review, Failure):
        return review
    if (quality := _in_order(review.quality_scores, labels)) is None:
        return _other_labels(labels, text)
    return {"quality": quality, "diversity": (review.style_score,), "consistency": (review.semantic_score,)}


def read_prompt_marks(text: str, labels: Sequence[str]) -> Marks | Failure:
    """Return the quality, the effectiveness and the alignment of each prompt, in the order of its label."""
    review = _read(_OfPrompts, text)
    if isinstance(review, Failure):
        return review
    scores = {
        "quality": review.quality_scores,
        "effectiveness": review.bias_scores,
        "alignment": review.semantic_scores,
    }
    ordered = {dimension: _in_order(marks, labels) for dimension, marks in scores.items()}
    marks = {dimension: row for dimension, row in ordered.items() if row is not None}
    return marks if len(marks) == len(scores) else _other_labels(labels, text)


def read_pick(text: str, count: int) -> int | Literal["none"] | Failure:
    """Return the place of the response whose letter is all that is said; "none" where no single one fits best.

    >>> read_pick("B", 4)
    1
    >>> read_pick("none", 4)
    'none'
    >>> read_pick("B, I think", 4).kind
    'parse'
    """
    bare = text.strip().strip("*\"'.[]() ").casefold()
    if bare == "none":
        return "none"
    letters = LETTERS[:count].casefold()
    if len(bare) == 1 and bare in letters:
        return letters.index(bare)
    return unreadable(f'not one letter from A to {LETTERS[count - 1]}, or "none", and nothing else', text)


def read_kept(text: str, labels: Sequence[str]) -> list[SameRequest] | Failure:
    """Return for each paraphrase what it did with what was asked."""
    review = _read(_OfParaphrases, text)
    if isinstance(review, Failure):
        return review
    if set(review.verdicts) != set(labels):
        return _other_labels(labels, text)
    return [review.verdicts[label] for label in labels]


def _in_order(marks: Mapping[str, int], labels: Sequence[str]) -> tuple[int, ...] | None:
    return tuple(marks[label] for label in labels) if set(marks) == set(labels) else None


def _other_labels(labels: Sequence[str], text: str) -> Failure:
    return unreadable(f"the marks are not for {', '.join(labels)}, each once", text)


def _read(form: type[FormT], text: str) -> FormT | Failure:
    """Return the JSON object that the text is, in its form."""
    try:
        return form.model_validate(_plain(json_in(text)))
    except ValidationError as exc:
        return unreadable(str(field_error(exc, "the JSON")), text)
    except KeyError:
        return unreadable("a key is given twice", text)


def _plain(value: object) -> object:
    """Return an object as a mapping; KeyError where it has a key twice."""
    if not isinstance(value, JsonPairs):
        return value
    pairs = {key: _plain(inner) for key, inner in value}
    if len(pairs) < len(value):
        raise KeyError
    return pairs


def shuffled(count: int, *of: object) -> tuple[int, ...]:
    """Return the places 0 to count - 1 in an order that is derived from what it is the order of."""
    # Only random() is used: of all draws it alone is promised to be the same in every release of Python.
    draw = random.Random(":".join(map(str, of))).random
    keys = [draw() for _ in range(count)]
    return tuple(sorted(range(count), key=keys.__getitem__))


class Fences:
    """The fences of one call: all of its texts have one mark, which none of them holds."""

    def __init__(self, texts: Sequence[str], question: str) -> None:
        self._mark = mark_of(texts, question, seed=0)

    def one(self, name: str, text: str) -> str:
        """Return a text in its fence."""
        return fenced(name, text, self._mark)

    def each(self, names: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Return texts in their fences, by their names."""
        return [self.one(name, text) for name, text in zip(names, texts, strict=True)]


def labels(letter: str, count: int) -> list[str]:
    """Return r1, r2, ... as a reply names them."""
    return [f"{letter}{number}" for number in range(1, count + 1)]


Refused = Mapping[int, Refusal]
"""By the place of the text."""

Draft = tuple[WrittenText, ...]


class Gates(Protocol):
    """What judges a set: first what costs nothing, then those who are asked."""

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return what is refused by looking; `fresh` are the places that were not looked at so far."""
        ...

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return what is refused by those who are asked; `new` are the places that no reviewer has passed so far."""
        ...


@dataclass
class Anew:
    """The work on one set. A text is looked at and judged once; a text that was refused is never judged again."""

    count: int
    order: Callable[[int, int, Sequence[str]], ModelCall[str]]
    """What is asked for: the text at a place, at an attempt, and why each text before it was refused."""
    gates: Gates
    most: int
    _texts: dict[int, WrittenText] = field(default_factory=dict)
    _why: dict[int, list[str]] = field(default_factory=dict)
    _open: list[int] = field(default_factory=list)
    _fresh: set[int] = field(default_factory=set)
    _new: set[int] = field(default_factory=set)
    _seen: dict[tuple[int, str], Refusal] = field(default_factory=dict)

    def work(self) -> Work[tuple[list[WrittenText], int] | Rejection]:
        """Return the texts and how often the set was written, or Rejected by the gate that refused last."""
        self._why = {index: [] for index in range(self.count)}
        self._open = list(self._why)
        done = yield from until_accepted(self._write, self._judge, self.most)
        return done if isinstance(done, Rejection) else (list(done[0]), done[1])

    def _write(self, attempt: int, _reasons: Sequence[Refusal]) -> Work[Draft | Refusal]:
        todo = self._open
        replies = yield from ask_all([self.order(index, attempt, self._why[index]) for index in todo])
        refused: dict[int, Refusal] = {}
        for index, text in zip(todo, replies, strict=True):
            if isinstance(text, Failure):
                refused[index] = Refusal("unwritten", f"{text.kind}: {text.detail}")
            elif before := self._seen.get((index, text)):
                refused[index] = Refusal("unchanged", f"the text was refused before: {before.gate}: {before.said}")
            else:
                self._texts[index] = WrittenText(text=text, turn=attempt)
                self._fresh.add(index)
        self._take(refused)
        return next(iter(refused.values())) if refused else tuple(self._texts[index] for index in range(self.count))

    def _judge(self, draft: Draft, attempt: int) -> Work[Sequence[Refusal]]:
        refused = self.gates.looks(draft, sorted(self._fresh))
        self._new |= self._fresh.difference(refused)
        self._fresh.clear()
        if not refused:
            refused = yield from self.gates.asks(draft, sorted(self._new), attempt)
            self._new.clear()
        self._seen |= {(index, draft[index].text): refusal for index, refusal in refused.items()}
        self._take(refused)
        return [Refusal(gate, f"{index + 1}: {reason}") for index, (gate, reason) in sorted(refused.items())]

    def _take(self, refused: Refused) -> None:
        self._open = sorted(refused)
        for index, refusal in refused.items():
            self._why[index].append(refusal.said)
