"""The Card of a benchmark: what it is, where it comes from, how it was labelled, what its loader left out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pluralrm.display import Brief

Average = Literal["micro", "macro"]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a loader made of files that were not clean: everything ignored, dropped, left empty or skipped, counted."""

    rows: int = 0
    """Rows in the files, bad ones included; 0 where no file was read."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Bad rows that `skip=bad-rows` left out, by the field that was wrong."""
    read: Mapping[str, int] = field(default_factory=dict)
    """Things in the rows that were kept (`posts`), dropped ones included."""
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Things that were left out, by reason: `{"posts": {"blank": 1}}`."""
    renamed: Mapping[str, int] = field(default_factory=dict)
    """Things that were kept under a new id, because another one had theirs."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Things that are as they were in the file, and that a reader of the numbers should know of."""
    defaulted: Mapping[str, int] = field(default_factory=dict)
    """Expected fields that were missing and are empty."""
    ignored: tuple[str, ...] = ()
    """Columns that the format does not know."""

    def __str__(self) -> str:
        return ". ".join(_load_sentences(self))


_NAMED = 12
"""Columns that the sentence of a LoadReport names at most."""


def _load_sentences(load: LoadReport) -> Iterator[str]:
    """Yield `116,988 of 116,989 posts; 1 blank dropped` and the like; nothing where the files were clean."""
    if load.skipped:
        count = sum(load.skipped.values())
        yield f"{load.rows - count:,} of {load.rows:,} rows; {count:,} bad skipped ({_counts(load.skipped)})"
    for what, reasons in load.dropped.items():
        total, out = load.read.get(what, 0), sum(reasons.values())
        details = ", ".join(f"{count:,} {why}" for why, count in reasons.items())
        yield f"{total - out:,} of {total:,} {what}; {details} dropped"
    if load.renamed:
        yield f"id used twice, kept under a new one: {_counts(load.renamed)}"
    if load.kept:
        yield f"kept as they are: {_counts(load.kept)}"
    if load.defaulted:
        yield f"missing, left empty: {_counts(load.defaulted)}"
    if load.ignored:
        more = f" and {len(load.ignored) - _NAMED:,} more" if len(load.ignored) > _NAMED else ""
        yield f"unknown columns ignored: {', '.join(load.ignored[:_NAMED])}{more}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


@dataclass(frozen=True, slots=True, repr=False)
class Card(Brief):
    """What a benchmark is, where it comes from, and how its labels came to be."""

    name: str
    summary: str
    licence: str
    source: str
    labelled: str
    citation: str = ""
    revision: str = ""
    notes: str = ""
    cluster: str = "user"
    average: Average = "micro"
    metrics: tuple[str, ...] = ("accuracy",)
    """The names of the metrics that this benchmark reports, the headline first."""
    rule: str = ""
    """The published rule by which its rows are scored too, beside the headline; a key of `metrics.official.RULES`."""
    pairs: str = ""
    """Whose its users' context pairs are, where not the users' own choices."""
    load: LoadReport = LoadReport()
    """What the loader ignored, dropped, left empty or skipped."""
