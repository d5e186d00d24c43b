"""An annotation plan: items as they were fixed, the screens of each annotator, what a screen shows; and its folder.

`screen_shown` is the only way from a plan to an annotator: what it leaves out is never sent. On disk a plan is
plan.json, items.jsonl and screens.jsonl in one folder, which is all that a server needs.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pluralrm.benchmarks.rows import Place, read_rows, shortened
from pluralrm.digests import digest_list
from pluralrm.errors import PlanError
from pluralrm.files import is_free, replace_file, whole_folder
from pluralrm.folders import file_hash
from pluralrm.journal import field_error, parse_document, sealed
from pluralrm.labels import Labelled, is_one_hot

Task = Literal["pair", "four"]
Mode = Literal["validate", "own"]
"""Is the benchmark's label right? Or: what would you yourself prefer?"""
Arm = Literal["narrative", "posts", "prompt"]
"""What of the asker is shown: posts and what the asker has in mind; posts alone; nothing (no asker, or `own`)."""
MODES: tuple[Mode, ...] = get_args(Mode)
ARMS: tuple[Arm, ...] = get_args(Arm)
Kind = Literal["item", "repeat", "check", "example"]
"""Judged; judged again, in another order; an attention check; an example whose answer is told afterwards."""
ItemKind = Literal["item", "check", "example"]
Letter = Literal["A", "B", "C", "D"]
LETTERS: tuple[Letter, ...] = get_args(Letter)
General = Literal["factuality", "relevance", "helpfulness"]
GENERAL: tuple[General, ...] = get_args(General)
Dimension = Literal["factuality", "relevance", "helpfulness", "personal_fit"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)


class Claim(NamedTuple):
    """What is to be shown, stated before anybody judges.

    `margin` is how far from one half a win rate may lie and count as equal, `floor` what both answers' mean scores of
    1 to 5 must exceed, `alpha` the chance of showing either wrongly. Who passes a smaller share of attention checks
    than `attention` is left out.
    """

    margin: float
    floor: float
    alpha: float = 0.05
    attention: float = 0.8


@dataclass(frozen=True, slots=True)
class PlanDeclaration:
    """What a plan was made from and with: all that a reader needs to judge it."""

    benchmark: str
    content_hash: str
    seed: int
    task: Task
    mode: Mode
    arms: tuple[Arm, ...]
    each: int
    """Judgments of each item in each arm."""
    condition: str
    """Which posts are shown, as a condition shows them to models; `none` for none."""
    claim: Claim
    rating_margin: float | None = None
    """Points of 1 to 5 by which two answers' mean general ratings may differ and count as equal.

    None where each answer's personal fit is not rated: four answers, and plans that were made before it was asked.
    """

    @property
    def rated(self) -> tuple[Dimension, ...]:
        """In which dimensions each of two answers is rated by itself."""
        return DIMENSIONS if self.rating_margin is not None else GENERAL


@dataclass(frozen=True, slots=True, repr=False)
class PlannedItem(Labelled):
    """An item as it was when the plan was made: nothing else of the benchmark is needed.

    For a check `preferred` is the known answer. `paraphrases` are other phrasings of the prompt (task `four`).
    Files have `grades` only where they say more than `preferred`.
    """

    id: str
    kind: ItemKind
    prompt: str
    candidates: tuple[str, ...]
    candidate_ids: tuple[str, ...]
    preferred: int | None
    domain: str
    cluster: str
    posts: tuple[str, ...] = ()
    narrative: str = ""
    paraphrases: tuple[str, ...] = ()
    grades: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.settle(len(self.candidates))


class Annotator(NamedTuple):
    """Somebody who judges, in one arm throughout."""

    id: str
    arm: Arm


@dataclass(frozen=True, slots=True)
class Screen:
    """One item before one annotator: where it comes in the order, and which candidate stands at A, B, ...

    `handle` is all that the annotator's side ever knows of it.
    """

    handle: str
    annotator: str
    place: int
    item: str
    kind: Kind
    order: tuple[int, ...]


@dataclass(frozen=True)
class AnnotationPlan:
    """Who sees what, in which order; `screens` are sorted by annotator and place."""

    declared: PlanDeclaration
    annotators: tuple[Annotator, ...]
    items: tuple[PlannedItem, ...]
    screens: tuple[Screen, ...]

    @cached_property
    def item(self) -> Mapping[str, PlannedItem]:
        """Every item under its id."""
        return {item.id: item for item in self.items}

    @cached_property
    def screen(self) -> Mapping[str, Screen]:
        """Every screen under its handle."""
        return {screen.handle: screen for screen in self.screens}

    @cached_property
    def arm(self) -> Mapping[str, Arm]:
        """The arm of every annotator."""
        return {annotator.id: annotator.arm for annotator in self.annotators}

    @cached_property
    def by_annotator(self) -> Mapping[str, tuple[Screen, ...]]:
        """Everybody's screens, in the order in which they come."""
        by_name: dict[str, list[Screen]] = {annotator.id: [] for annotator in self.annotators}
        for screen in self.screens:
            by_name[screen.annotator].append(screen)
        return {name: tuple(screens) for name, screens in by_name.items()}

    @property
    def claims(self) -> bool:
        """Whether there is a claim to be tested: two answers, and somebody else who asked."""
        return self.declared.task == "pair" and self.declared.mode == "validate"

    @cached_property
    def content_hash(self) -> str:
        """Return the hash of everything in the plan: judgments belong to this plan and to no other."""
        parts = [*map(_fields, self.items), *map(asdict, self.screens)]
        declared = asdict(self.declared)
        if declared["rating_margin"] is None:  # plans that were made before it was declared keep their hash
            del declared["rating_margin"]
        return digest_list([declared, *self.annotators, *parts])


# ---------------------------------------------------------------- what an annotator is sent


@dataclass(frozen=True, slots=True)
class ScreenView:
    """All that an annotator may be sent of a screen: no id of an item or candidate, no label, no kind but `example`."""

    handle: str
    number: int
    """From 1."""
    of: int
    task: Task
    mode: Mode
    example: bool
    prompt: str
    answers: tuple[str, ...]
    narrative: str
    posts: tuple[str, ...]
    paraphrases: tuple[str, ...]


def screen_shown(plan: AnnotationPlan, screen: Screen) -> ScreenView:
    """Return what the annotator of a screen sees, with the answers in the screen's order."""
    item, arm = plan.item[screen.item], plan.arm[screen.annotator]
    return ScreenView(
        handle=screen.handle,
        number=screen.place + 1,
        of=len(plan.by_annotator[screen.annotator]),
        task=plan.declared.task,
        mode=plan.declared.mode,
        example=screen.kind == "example",
        prompt=item.prompt,
        answers=tuple(item.candidates[index] for index in screen.order),
        narrative=item.narrative if arm == "narrative" else "",
        posts=item.posts if arm != "prompt" else (),
        paraphrases=item.paraphrases,
    )


def answer_of_example(plan: AnnotationPlan, screen: Screen) -> str | None:
    """Return where the labelled answers of an example stand ("B", "A or C"), to be told once it is judged.

    None for any other screen: no other screen's label is ever sent.
    """
    letters = sorted(LETTERS[screen.order.index(index)] for index in plan.item[screen.item].best)
    return " or ".join(letters) if screen.kind == "example" and letters else None


PLAN, ITEMS, SCREENS = "plan.json", "items.jsonl", "screens.jsonl"
_VERSION = 2
T = TypeVar("T")


# ---------------------------------------------------------------- on disk


class _PlanRecord(BaseModel):
    """The shape of plan.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    content_hash: str
    declared: PlanDeclaration
    annotators: tuple[Annotator, ...]
    files: dict[Literal["items.jsonl", "screens.jsonl"], str] = {}
    """The SHA-256 of the other files, so that a message can say which was changed; none in plans of before."""


def write_plan(plan: AnnotationPlan, folder: Path) -> None:
    """Write a plan into a new folder that only its owner may read: it holds the labels. It is there whole, or not."""
    if not is_free(folder):
        raise PlanError(f"{folder} exists already; name another folder with -o, or remove it")
    annotators = [annotator._asdict() for annotator in plan.annotators]
    declared = {**asdict(plan.declared), "claim": plan.declared.claim._asdict()}
    head = {"version": _VERSION, "content_hash": plan.content_hash, "declared": declared, "annotators": annotators}
    try:
        with whole_folder(folder) as beside:
            beside.chmod(0o700)
            replace_file(beside / ITEMS, "".join(_line(_fields(item)) for item in plan.items))
            replace_file(beside / SCREENS, "".join(_line(asdict(screen)) for screen in plan.screens))
            head["files"] = {name: file_hash(beside / name) for name in (ITEMS, SCREENS)}
            replace_file(beside / PLAN, json.dumps(sealed(head), indent=1, ensure_ascii=False) + "\n")
    except OSError as exc:
        raise PlanError(f"cannot write {folder}: {exc.strerror or exc}. Make room, or name another with -o") from exc


def read_plan(folder: Path) -> AnnotationPlan:
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
    plan = AnnotationPlan(head.declared, head.annotators, items, screens)
    if plan.content_hash != head.content_hash:
        others = (name for name, expected in head.files.items() if file_hash(folder / name) != expected)
        raise PlanError(f"{folder / next(others, PLAN)}: was changed since the plan was made; put the old file back")
    return plan


def _rows(file: Path, shape: TypeAdapter[T]) -> list[T]:
    return [_checked(row, location, shape) for location, row in read_rows(file)]


def _checked(row: object, location: Place, shape: TypeAdapter[T]) -> T:
    try:
        return shape.validate_python(row)
    except ValidationError as exc:
        error = field_error(exc)
        raise location.refuse(
            error.field, found=shortened(str(error.value)), wanted=shortened(error.message, 200)
        ) from exc


def _fields(item: PlannedItem) -> dict[str, object]:
    fields = asdict(item)
    if not item.grades or is_one_hot(item.grades):
        del fields["grades"]
    return fields


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
