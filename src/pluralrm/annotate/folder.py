"""A plan on disk: plan.json, items.jsonl and screens.jsonl in one folder, which is all that a server needs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pluralrm.annotate.design import Annotator, Declared, Plan, PlannedItem, Screen
from pluralrm.benchmarks.rows import Place, read_rows, shortened
from pluralrm.errors import PlanError
from pluralrm.files import replace_file, whole_folder
from pluralrm.folders import file_hash
from pluralrm.journal import parse_document, sealed

PLAN, ITEMS, SCREENS = "plan.json", "items.jsonl", "screens.jsonl"
_VERSION = 2
T = TypeVar("T")


class _PlanRecord(BaseModel):
    """The shape of plan.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    content_hash: str
    declared: Declared
    annotators: tuple[Annotator, ...]
    files: dict[Literal["items.jsonl", "screens.jsonl"], str] = {}
    """The SHA-256 of the other files, so that a message can say which was changed; none in plans of before."""


def write_plan(plan: Plan, folder: Path) -> None:
    """Write a plan into a new folder that only its owner may read: it holds the labels. It is there whole, or not."""
    if folder.exists() and any(folder.iterdir()):
        raise PlanError(f"{folder}: is there already; name another folder with -o, or remove it")
    annotators = [annotator._asdict() for annotator in plan.annotators]
    declared = {**asdict(plan.declared), "claim": plan.declared.claim._asdict()}
    head = {"version": _VERSION, "content_hash": plan.content_hash, "declared": declared, "annotators": annotators}
    try:
        with whole_folder(folder) as beside:
            beside.chmod(0o700)
            replace_file(beside / ITEMS, "".join(_line(asdict(item)) for item in plan.items))
            replace_file(beside / SCREENS, "".join(_line(asdict(screen)) for screen in plan.screens))
            head["files"] = {name: file_hash(beside / name) for name in (ITEMS, SCREENS)}
            replace_file(beside / PLAN, json.dumps(sealed(head), indent=1, ensure_ascii=False) + "\n")
    except OSError as exc:
        raise PlanError(f"cannot write {folder}: {exc.strerror or exc}. Make room, or name another with -o") from exc


def read_plan(folder: Path) -> Plan:
    """Return the plan in a folder; one that is not whole, or was changed since it was made, is a PlanError."""
    try:
        head = parse_document(_PlanRecord, (folder / PLAN).read_bytes())
    except OSError as exc:
        raise PlanError(f"{folder}: no {PLAN} that can be read; wanted a folder of 'pluralrm annotate plan'") from exc
    except ValueError as exc:
        raise PlanError(f"{folder / PLAN}: {exc}") from exc
    if head.version != _VERSION:
        raise PlanError(f"{folder / PLAN}: version {head.version}, wanted {_VERSION}: made by another pluralrm")
    items, screens = (
        tuple(_rows(folder / ITEMS, TypeAdapter(PlannedItem))),
        tuple(_rows(folder / SCREENS, TypeAdapter(Screen))),
    )
    plan = Plan(head.declared, head.annotators, items, screens)
    if plan.content_hash != head.content_hash:
        others = (name for name, kept in head.files.items() if file_hash(folder / name) != kept)
        raise PlanError(f"{folder / next(others, PLAN)}: was changed since the plan was made; put the old file back")
    return plan


def _rows(file: Path, shape: TypeAdapter[T]) -> list[T]:
    return [_checked(row, place, shape) for place, row in read_rows(file)]


def _checked(row: object, place: Place, shape: TypeAdapter[T]) -> T:
    try:
        return shape.validate_python(row)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise place.refuse(field, found=shortened(str(first["input"])), wanted=shortened(first["msg"], 200)) from exc


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
