"""Argilla 2: records out and in, as its `to_json` writes them and its `from_json` reads them.

One record is one screen of one annotator; its id is the screen's handle, its fields and questions have our names.
"""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pluralrm.annotate.design import Plan, Screen
from pluralrm.annotate.exchange import Given, answered, read_list, texts_shown, values_of
from pluralrm.annotate.judgments import Judgment
from pluralrm.annotate.rehearsal import is_rehearsal
from pluralrm.errors import PlanError


def records(plan: Plan, judgments: Iterable[Judgment], screens: Sequence[Screen]) -> list[dict[str, object]]:
    """Return a record for each screen, with the responses that stand where somebody has judged it."""
    said = answered(judgments)
    return [_record(plan, screen, said.get(screen.handle)) for screen in screens]


def _record(plan: Plan, screen: Screen, one: Judgment | None) -> dict[str, object]:
    values = {} if one is None or one.answers is None else values_of(one.answers)
    return {
        "id": screen.handle,
        "fields": texts_shown(plan, screen),
        "metadata": {"annotator": screen.annotator, "number": screen.place + 1, **_rehearsed(one)},
        "suggestions": {},
        "responses": {name: [{"value": value, "user_id": screen.annotator}] for name, value in values.items()},
        "vectors": {},
    }


def _rehearsed(one: Judgment | None) -> dict[str, str]:
    return {"at": one.at} if one and is_rehearsal([one]) else {}


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Response(_Part):
    value: str | int
    user_id: str


class _Metadata(_Part):
    at: str = ""


class _Record(_Part):
    id: str
    metadata: _Metadata = _Metadata()
    responses: dict[str, list[_Response]] = {}


_RECORDS = TypeAdapter(list[_Record])


def given(text: str, source: str) -> list[Given]:
    """Return what annotators submitted, from Argilla's JSON; a record that two users answered is a PlanError."""
    try:
        found = _RECORDS.validate_python(read_list(text, source))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        raise PlanError(f"{source}: record {'.'.join(map(str, first['loc']))}: {first['msg']}") from exc
    made: list[Given] = []
    for record in found:
        users = dict.fromkeys(one.user_id for several in record.responses.values() for one in several)
        if len(users) > 1:
            raise PlanError(
                f"{source}: record {record.id!r} was answered by {len(users)} users, wanted one: a record is one "
                "annotator's screen. Let each see only the records with their name in metadata.annotator"
            )
        if users:
            values = {name: several[0].value for name, several in record.responses.items()}
            made.append(Given(record.id, values, at=record.metadata.at))
    return made
