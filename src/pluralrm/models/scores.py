r"""Scores made elsewhere: `scores:FILE`, rows with `item`, `candidate` and `score`; JSON lines, JSON, CSV or Parquet.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "mine.csv").write_text("item,candidate,score\nq1,Rye.,0.5\nq1,Spelt.,-2\n")
>>> model = scores(Spec("scores", str(folder / "mine.csv")))
>>> [verdict] = model.score([Query("q1", "Which flour?", ("Spelt.", "Rye."))])
>>> verdict.scores
(-2.0, 0.5)

A candidate is its text, letter by letter. With `benchmark=BENCH` it may be its name there (`chosen`, `response3`), and
every row must be of one of its answers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.rows import Place, Refused, describe, read_rows
from pluralrm.benchmarks.schema import Id, Part, Text, checked
from pluralrm.core import Benchmark, Failure, Item, Query, Score, Verdict
from pluralrm.errors import ModelError, RowError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.specs import Spec


class ScoreRow(Part):
    """The score of one answer; null where the model gave none."""

    item: Id
    candidate: Text
    score: float | None


@dataclass(frozen=True)
class ReplayedScores:
    """A reward model that says what a file says, and fails where the file says nothing."""

    spec: str
    file: str
    table: Mapping[str, Mapping[str, Score]] = field(repr=False)
    identity: Mapping[str, str] = field(default_factory=dict)
    compares: bool = False

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield the scores of each query's answers."""
        for query in queries:
            answers = self.table.get(query.id, {})
            none = Failure("unsupported", f"{self.file} has no score for this answer to {query.id!r}")
            yield Verdict(tuple(answers.get(text, none) for text in query.candidates))


def scores(spec: Spec) -> ReplayedScores:
    """Return the model of `scores:FILE`; rows that are wrong are told with their lines, all at once."""
    file = Path(spec.target)
    name = spec.options.get("benchmark")
    return ReplayedScores(
        str(spec), file.name, _read(file, load_benchmark(name) if name else None), {"file": file_hash(file)}
    )


def misfit(spec: Spec, benchmark: Benchmark) -> str | None:
    """Return why not, where a file has no score for any item of a benchmark."""
    table = scores(spec).table
    if any(item.id in table for item in benchmark.items):
        return None
    expected, first = next((item.id for item in benchmark.items), ""), next(iter(table))
    return f"{spec} has no score for any item of {benchmark.card.name}: its first is {first!r}, here it is {expected!r}"


def _read(file: Path, benchmark: Benchmark | None) -> dict[str, dict[str, Score]]:
    items = None if benchmark is None else {item.id: item for item in benchmark.items}
    table: dict[str, dict[str, Score]] = {}
    refused, dirt = Refused(), Dirt()
    for location, raw in read_rows(file, refused.keep):
        try:
            row = checked(ScoreRow, raw, location, dirt)
            text = row.candidate if items is None else _text(row, items, location)
            score = Failure("unsupported", f"{location} has no score") if row.score is None else row.score
            if table.setdefault(row.item, {}).setdefault(text, score) != score:
                detail = f"{describe(row.score)}, and another score of the same answer in an earlier line"
                raise location.refuse("score", found=detail, wanted="one score for each answer")
        except RowError as exc:
            refused.keep(exc)
    refused.tell()
    if not table:
        raise ModelError(f"{file}: found no scores, wanted rows with item, candidate and score")
    return table


def _text(row: ScoreRow, items: Mapping[str, Item], location: Place) -> str:
    """Return the text of the answer that a row names, by its text or by its name in the benchmark."""
    item = items.get(row.item)
    if item is None:
        expected = f"an item of the benchmark.{did_you_mean(row.item, items)}"
        raise location.refuse("item", found=repr(row.item), wanted=expected)
    names = dict(zip(item.candidate_ids, item.candidates, strict=False))
    if row.candidate in item.candidates:
        return row.candidate
    if row.candidate not in names:
        expected = f"the text of an answer to {row.item!r}, or its name: {', '.join(names) or 'they have none'}"
        raise location.refuse("candidate", found=describe(row.candidate), wanted=expected)
    return names[row.candidate]
