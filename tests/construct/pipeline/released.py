"""What the small pipeline releases: rows in the format of prb."""

from pluralrm.benchmarks.lamp_qa import PostRow
from pluralrm.benchmarks.prb import PrbRow
from pluralrm.construct.pipeline import Built, Record
from pluralrm.construct.release import About, Edition
from tests.construct.pipeline.worlds import ROLES, Answers, Question


def released(built: Built) -> tuple[list[Edition], About]:
    """Return what the small pipeline releases: rows in the format of prb."""
    rows = [_row(record) for record in built.kept]
    command = " ".join(["construct", *(f"--{role} {spec}" for role in ROLES for spec in built.pools.published(role))])
    about = About(
        name="Flour",
        summary="Which flour for which loaf?",
        licence="Apache-2.0",
        source="numbers",
        command=f"{command} --replay calls.jsonl",
        limits=["Nobody bakes with it."],
    )
    return [Edition("flour", "prb", {"Lifestyle_and_Personal_Development": rows})], about


def _row(record: Record) -> PrbRow:
    asked, made = record[Question], record[Answers]
    profile = [
        PostRow(id=f"{record.id}-{place}", text=f"{text} {record.id}", category="")
        for place, text in enumerate(asked.posts)
    ]
    return PrbRow(
        id=record.id,
        question=asked.text,
        category="",
        narrative="",
        profile=profile,
        rubric_aspects=[],
        chosen=made.chosen,
        rejected=made.rejected,
    )
