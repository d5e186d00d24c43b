"""What planner and judges say: JSON in the form that was asked for and nothing beside it, or Failure("parse").

>>> read_quality('{"factuality": 4, "relevance": 5, "helpfulness": 4}')
Quality(factuality=4, relevance=5, helpfulness=4)
>>> read_quality('{"factuality": 9, "relevance": 5, "helpfulness": 4}').kind
'parse'
"""

from pydantic import TypeAdapter, ValidationError

from pluralrm.benchmarks.lamp_qa import AspectRow
from pluralrm.chat.completions import unreadable
from pluralrm.construct.plain import faulty
from pluralrm.construct.prb.gates import LETTERS
from pluralrm.construct.prb.products import BEST, WORST, Quality
from pluralrm.core import Failure
from pluralrm.grading.grade import Pairs, json_in

LEAST, MOST = 2, 8
"""Aspects in a list: the template asks for three to six."""
TITLE = 25
"""Words of an aspect's title: the template asks for twelve at most."""
_ROWS = TypeAdapter(list[AspectRow])


def read_quality(text: str) -> Quality | Failure:
    """Return the three ratings of a JSON object with these three keys."""
    found = _plain(json_in(text))
    if not isinstance(found, dict) or found.keys() != Quality.model_fields.keys():
        wanted = '{"factuality": 1 to 5, "relevance": 1 to 5, "helpfulness": 1 to 5}'
        return unreadable(f"the text is not the JSON object {wanted} and nothing else", text)
    try:
        quality = Quality.model_validate(found)
    except ValidationError:
        return unreadable("a rating is not a whole number", text)
    if not all(WORST <= rating <= BEST for rating in quality.model_dump().values()):
        return unreadable("a rating is not 1, 2, 3, 4 or 5", text)
    return quality


def read_aspects(text: str) -> tuple[AspectRow, ...] | Failure:
    """Return the aspects of a JSON list of objects with aspect, evidence and reason."""
    found = json_in(text)
    listed = found if isinstance(found, list) and not isinstance(found, Pairs) else [None]
    asked = AspectRow.model_fields.keys()
    rows = [row if isinstance(row, dict) and row.keys() <= asked else None for row in map(_plain, listed)]
    try:
        aspects = _ROWS.validate_python(rows)
    except ValidationError:
        return unreadable("the text is not a JSON list of objects with aspect, evidence and reason, each a text", text)
    if not LEAST <= len(aspects) <= MOST:
        return unreadable(f"the list has {len(aspects)} aspects, wanted {LEAST} to {MOST}", text)
    if len({" ".join(one.aspect.casefold().split()) for one in aspects}) < len(aspects):
        return unreadable("the list names an aspect twice", text)
    if any(len(one.aspect.split()) > TITLE for one in aspects):
        return unreadable(f"an aspect has more than {TITLE} words", text)
    if why := next(filter(None, (faulty(one.aspect, TITLE * LETTERS) for one in aspects)), ""):
        return unreadable(f"an aspect cannot be used: {why}", text)
    return tuple(aspects)


def _plain(value: object) -> object:
    """Return a JSON object as a dict; one that gives a key twice is none."""
    if not isinstance(value, Pairs):
        return value
    keys = [key for key, _ in value]
    return dict(value) if len(set(keys)) == len(keys) else None
