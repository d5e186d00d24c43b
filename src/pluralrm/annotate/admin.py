"""What the admin's page shows and takes home: how far everybody is, agreement so far, and all that was said."""

from threading import Lock

from pluralrm.annotate.agreement import Part, Policies, agreed
from pluralrm.annotate.desk import Desk
from pluralrm.annotate.judgments import Judgment, judgment_line, judgment_of
from pluralrm.annotate.label_files import csv_text, rows_of
from pluralrm.annotate.labels import labels_of
from pluralrm.annotate.opinions import QUESTIONS
from pluralrm.annotate.progress import progress
from pluralrm.errors import MetricError

_SHOWN = (*QUESTIONS, "best", "fitting")
"""The dimensions whose agreement is told while people judge; 'pluralrm annotate agreement' has all."""
_RESAMPLES = 200


class Overview:
    """A plan from the admin's side. Agreement is computed anew only when something was said since."""

    def __init__(self, desk: Desk) -> None:
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


def _told(part: Part) -> dict[str, object]:
    """Return the share of pairs that are alike, and the alpha that uses most of the scale."""
    found = {one.name: one.estimate for one in part.coefficients}
    alpha = next(name for name in ("alpha_interval", "alpha_ordinal", "alpha_nominal") if name in found)
    shown = {"percent": found["percent"], "alpha": found[alpha]}
    told = {name: estimate and estimate.to_json() for name, estimate in shown.items()}
    return {"arm": part.arm, "dimension": part.dimension, "labels": part.labels, "items": part.items, **told}
