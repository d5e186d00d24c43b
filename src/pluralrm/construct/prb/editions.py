"""From records to rows in the published schema: one edition per kind of rejected answer, both with the same chosen."""

from collections import defaultdict
from collections.abc import Sequence

from pluralrm.benchmarks.lamp_qa import DOMAINS
from pluralrm.benchmarks.prb import PairRow
from pluralrm.construct.pipeline import Record
from pluralrm.construct.prb.products import SIDES, Chosen, Kind, Question, Rubric
from pluralrm.construct.release import Edition

OTHER = "benchmark"
"""The file of the domains that the loader reads from a row's category."""


def editions(records: Sequence[Record], kinds: Sequence[Kind]) -> list[Edition]:
    """Return the benchmarks that a set holds."""
    return [Edition(kind, "prb", _files(records, kind)) for kind in kinds]


def _files(records: Sequence[Record], kind: Kind) -> dict[str, list[PairRow]]:
    """Return the rows by the name of their file, which tells their domain, as on the hub."""
    found: dict[str, list[PairRow]] = defaultdict(list)
    for record in records:
        found[record.domain if record.domain in DOMAINS else OTHER].append(row(record, kind))
    return dict(found)


def row(record: Record, kind: Kind) -> PairRow:
    """Return a record in the published schema."""
    question = record[Question]
    return PairRow(
        id=record.id,
        question=question.question,
        category=question.category,
        narrative=question.narrative,
        profile=list(question.posts),
        rubric_aspects=list(record[Rubric].aspects),
        chosen=record[Chosen].text,
        rejected=record[SIDES[kind].makes].text,
    )
