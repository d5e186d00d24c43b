"""What a model's reply says, in exactly the form that was asked for, or Failure("parse"): nothing is guessed.

>>> read_pick("B", 4)
1
>>> read_pick("none", 4)
'none'
>>> read_pick("B, I think", 4).kind
'parse'

A code fence around JSON is form and does not count. Marks are whole numbers on their scale, for all that was shown and
for nothing else.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pluralrm.chat.completions import unreadable
from pluralrm.construct.filters import HIGHEST as BEST_RATING
from pluralrm.construct.filters import RATED
from pluralrm.construct.rmgap.products import Ratings
from pluralrm.construct.rmgap.review import HIGHEST, Marks
from pluralrm.core import Failure
from pluralrm.grading.grade import Pairs, json_in
from pluralrm.models.judge.verdicts import LETTERS

Kept = Literal["same", "added", "dropped", "changed"]
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
    verdicts: dict[str, Kept]


FormT = TypeVar("FormT", bound=_Form)


def read_text(text: str) -> str | Failure:
    """Return the text without the white space around it; one that says nothing is unreadable."""
    return text.strip() or unreadable("there is no text", text)


def read_ratings(text: str) -> Ratings | Failure:
    """Return six ratings from 0 to 5."""
    found = _read(_Rated, text)
    return found if isinstance(found, Failure) else Ratings(**{name: getattr(found, name) for name in RATED})


def read_response_marks(text: str, labels: Sequence[str]) -> Marks | Failure:
    """Return the quality of each response in the order of its label, and what the set is given as a whole."""
    found = _read(_OfResponses, text)
    if isinstance(found, Failure):
        return found
    if (quality := _in_order(found.quality_scores, labels)) is None:
        return _other_labels(labels, text)
    return {"quality": quality, "diversity": (found.style_score,), "consistency": (found.semantic_score,)}


def read_prompt_marks(text: str, labels: Sequence[str]) -> Marks | Failure:
    """Return the quality, the effectiveness and the alignment of each prompt, in the order of its label."""
    found = _read(_OfPrompts, text)
    if isinstance(found, Failure):
        return found
    given = {"quality": found.quality_scores, "effectiveness": found.bias_scores, "alignment": found.semantic_scores}
    ordered = {dimension: _in_order(marks, labels) for dimension, marks in given.items()}
    marks = {dimension: found for dimension, found in ordered.items() if found is not None}
    return marks if len(marks) == len(given) else _other_labels(labels, text)


def read_pick(text: str, shown: int) -> int | Literal["none"] | Failure:
    """Return the place of the response whose letter is all that is said; "none" where no single one fits best."""
    bare = text.strip().strip("*\"'.[]() ").casefold()
    if bare == "none":
        return "none"
    letters = LETTERS[:shown].casefold()
    if len(bare) == 1 and bare in letters:
        return letters.index(bare)
    return unreadable(f'not one letter from A to {LETTERS[shown - 1]}, or "none", and nothing else', text)


def read_kept(text: str, labels: Sequence[str]) -> list[Kept] | Failure:
    """Return for each paraphrase what it did with what was asked."""
    found = _read(_OfParaphrases, text)
    if isinstance(found, Failure):
        return found
    if set(found.verdicts) != set(labels):
        return _other_labels(labels, text)
    return [found.verdicts[label] for label in labels]


def _in_order(marks: Mapping[str, int], labels: Sequence[str]) -> tuple[int, ...] | None:
    return tuple(marks[label] for label in labels) if set(marks) == set(labels) else None


def _other_labels(labels: Sequence[str], text: str) -> Failure:
    return unreadable(f"the marks are not for {', '.join(labels)}, each once", text)


def _read(form: type[FormT], text: str) -> FormT | Failure:
    """Return the JSON object that the text is, in its form."""
    try:
        return form.model_validate(_plain(json_in(text)))
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        return unreadable(f"{'.'.join(map(str, error['loc'])) or 'the JSON'}: {error['msg']}", text)
    except KeyError:
        return unreadable("a key is given twice", text)


def _plain(value: object) -> object:
    """Return an object as a mapping; KeyError where it has a key twice."""
    if not isinstance(value, Pairs):
        return value
    found = {key: _plain(inner) for key, inner in value}
    if len(found) < len(value):
        raise KeyError
    return found
