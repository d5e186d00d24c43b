"""What the server does for an annotator (state, screens, judgments) and for the admin (progress, exports): no HTTP.

Only `screen_shown` decides what of a screen is sent to an annotator, and nothing that they are sent is read from a
label but the answer of an example that they have judged.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from threading import Lock
from typing import TypedDict

from pluralrm.annotate.agreement import DimensionAgreement, Policies, agreed
from pluralrm.annotate.judgments import (
    QUESTIONS,
    Judgment,
    answers_of,
    answers_text,
    judgment_line,
    judgment_of,
    other_questions,
    progress,
)
from pluralrm.annotate.labels import csv_text, labels_of, rows_of
from pluralrm.annotate.plan import AnnotationPlan, Letter, Screen, answer_of_example, screen_shown
from pluralrm.annotate.store import Outcome, Store, Submission
from pluralrm.core import digest
from pluralrm.errors import MetricError
from pluralrm.text import visible


class ScreenState(TypedDict):
    """Where one screen stands: its handle, how often something was said of it, whether a judgment stands."""

    item: str
    revision: int
    judged: bool


class AnnotatorState(TypedDict):
    """Where one annotator stands; `space` names what the browser keeps for this annotator and plan."""

    space: str
    items: list[ScreenState]


class SubmissionOutcome(TypedDict):
    """What became of a submission; `meant` is the labelled answer of an example that was just judged."""

    outcome: Outcome
    meant: Letter | None


class AnnotationDesk:
    """A plan and what was said so far."""

    def __init__(self, plan: AnnotationPlan, store: Store) -> None:
        self.plan, self.store = plan, store

    def state(self, annotator: str) -> AnnotatorState:
        """Return where an annotator stands, all screens in the order of the plan."""
        said = self.store.latest(annotator)
        items = [_standing(screen, said) for screen in self.plan.by_annotator[annotator]]
        return AnnotatorState(space=digest([self.plan.content_hash, annotator])[:16], items=items)

    def screen(self, annotator: str, handle: str) -> dict[str, object] | None:
        """Return what an annotator sees on a screen and last said of it; None unless it is one of their own."""
        screen = self._own(annotator, handle)
        if screen is None:
            return None
        shown = {name: _visible(value) for name, value in asdict(screen_shown(self.plan, screen)).items()}
        said = self.store.latest(annotator).get(handle)
        return {**shown, "said": said and {"answers": json.loads(said.answers)}}

    def take(self, said: Submission) -> SubmissionOutcome | None:
        """Keep what an annotator said; None where the screen is not theirs, ValueError where it answers no question."""
        screen = self._own(said.annotator, said.item)
        if screen is None:
            return None
        answers = answers_of(said.answers)
        if answers is not None and (why := other_questions(self.plan.declared, answers)):
            raise ValueError(f"answers: {why}")
        outcome = self.store.add(said._replace(answers=answers_text(answers)))
        known = answers is not None and outcome in {"kept", "again"}
        return SubmissionOutcome(outcome=outcome, meant=answer_of_example(self.plan, screen) if known else None)

    def _own(self, annotator: str, handle: str) -> Screen | None:
        screen = self.plan.screen.get(handle)
        return screen if screen is not None and screen.annotator == annotator else None


def _standing(screen: Screen, said: Mapping[str, Submission]) -> ScreenState:
    last = said.get(screen.handle)
    if last is None:
        return ScreenState(item=screen.handle, revision=0, judged=False)
    return ScreenState(item=screen.handle, revision=last.revision, judged=last.answers != "null")


def _visible(value: object) -> object:
    """Return a text, or a tuple of them, in which nothing is hidden; line ends are newlines."""
    if isinstance(value, str):
        return visible(value.replace("\r\n", "\n").replace("\r", "\n"))
    return [_visible(one) for one in value] if isinstance(value, tuple) else value


# ---------------------------------------------------------------- for the admin

_SHOWN = (*QUESTIONS, "best", "fitting")
"""The dimensions whose agreement is told while people judge; 'pluralrm annotate agreement' has all."""
_RESAMPLES = 200


class AdminOverview:
    """A plan from the admin's side. Agreement is computed anew only when something was said since."""

    def __init__(self, desk: AnnotationDesk) -> None:
        self._desk, self._lock = desk, Lock()
        self._known: tuple[int, list[dict[str, object]]] = (0, [])

    def progress(self) -> dict[str, object]:
        """Return how far everybody is, and agreement so far."""
        said = self._said()
        paces = [one.to_json() for one in progress(self._desk.plan, said)]
        return {"annotators": paces, "agreement": self._agreement(said)}

    def judgments(self) -> str:
        """Return every revision as a line of JSON, in the order in which they came."""
        return "".join(f"{judgment_line(one)}\n" for one in self._said())

    def labels(self) -> str:
        """Return what stands as CSV, a row for each annotator, item and dimension."""
        return csv_text(rows_of(labels_of(self._desk.plan, self._said())))

    def _said(self) -> list[Judgment]:
        return [judgment_of(said) for said in self._desk.store.every()]

    def _agreement(self, said: list[Judgment]) -> list[dict[str, object]]:
        with self._lock:
            if self._known[0] != len(said):
                self._known = len(said), self._computed(said)
            return self._known[1]

    def _computed(self, said: list[Judgment]) -> list[dict[str, object]]:
        labels = [one for one in labels_of(self._desk.plan, said) if one.dimension in _SHOWN]
        try:
            parts = agreed("judgments so far", labels, Policies(), resamples=_RESAMPLES).parts
        except MetricError:  # nobody has judged what somebody else has
            return []
        return [_told(part) for part in parts if part.coefficients and not part.domain]


def _told(part: DimensionAgreement) -> dict[str, object]:
    """Return the share of pairs that are alike, and the alpha that uses most of the scale."""
    found = {one.name: one.estimate for one in part.coefficients}
    alpha = next(name for name in ("alpha_interval", "alpha_ordinal", "alpha_nominal") if name in found)
    shown = {"percent": found["percent"], "alpha": found[alpha]}
    told = {name: estimate and estimate.to_json() for name, estimate in shown.items()}
    return {"arm": part.arm, "dimension": part.dimension, "labels": part.labels, "items": part.items, **told}
