"""The shapes of a run's files, and the only place where they are read and written: nouns in, JSON out, and back."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, Self, TypeGuard, cast

from pydantic import FiniteFloat, NonNegativeInt, model_validator
from pydantic_core import PydanticSerializationError, to_json

from pluralrm.card import Card, LoadReport
from pluralrm.core import OPEN_KINDS, Benchmark, FailureKind, Post, Query, Reveals, Role, Row, Score, Verdict, Vote
from pluralrm.core import Failure as CoreFailure
from pluralrm.digests import digest, plain_digest
from pluralrm.errors import RunError
from pluralrm.journal import Document, JournalKind, Manifest, Strict, json_line
from pluralrm.labels import is_one_hot
from pluralrm.models.declarations import TrainingHistory
from pluralrm.shards import ShardedDocument, gzip_lines
from pluralrm.text import well_formed


class FailureRecord(Strict):
    """A score that is missing, and why."""

    failure: FailureKind
    detail: str


class VoteRecord(Strict):
    """One question put to a judge."""

    order: tuple[int, ...]
    outcome: str


class RowRecord(Strict):
    """One line of rows.jsonl."""

    item: str
    cluster: str
    domain: str
    preferred: NonNegativeInt | None
    scores: tuple[FiniteFloat | FailureRecord, ...]
    candidates: tuple[str, ...]
    lengths: tuple[NonNegativeInt, ...]
    tags: dict[str, str]
    votes: tuple[VoteRecord, ...]
    posts: NonNegativeInt
    input: str
    pairs: int | None = None
    lenders: int = 0
    prompt: str = ""
    grades: tuple[FiniteFloat, ...] = ()
    others: tuple[FiniteFloat, ...] = ()
    traits: NonNegativeInt = 0
    digests: tuple[str, ...] = ()
    missing: FailureRecord | None = None  # in items.jsonl.gz: what stands for the score of every candidate

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse counts that do not go together: no number could be trusted."""
        width = len(self.lengths if self.missing and not self.scores else self.scores)
        if self.preferred is None and not self.grades:
            raise ValueError("neither a preferred candidate nor grades")
        if self.preferred is not None and self.preferred >= width:
            raise ValueError(f"preferred is {self.preferred}, and there are {width} scores")
        for name in ("grades", "others", "digests", "lengths", "candidates"):
            values = getattr(self, name)
            if len(values) != width and (values or name == "lengths"):
                raise ValueError(f"{len(values)} {name} for {width} scores")
        if not all(0 <= index < width for vote in self.votes for index in vote.order):
            raise ValueError(f"a vote is on candidates that are not among the {width}")
        return self


class LoadRecord(Strict):
    """What the loader of the benchmark ignored, dropped, left empty or skipped."""

    rows: int = 0
    skipped: dict[str, int] = {}
    read: dict[str, int] = {}
    dropped: dict[str, dict[str, int]] = {}
    renamed: dict[str, int] = {}
    kept: dict[str, int] = {}
    defaulted: dict[str, int] = {}
    ignored: tuple[str, ...] = ()


class CardRecord(Strict):
    """The benchmark's card as it was when the run was made."""

    name: str
    summary: str
    licence: str
    source: str
    labelled: str
    citation: str
    revision: str
    notes: str
    cluster: str
    average: Literal["micro", "macro"]
    metrics: tuple[str, ...]
    pairs: str = ""
    rule: str = ""
    load: LoadRecord = LoadRecord()


class BenchmarkRecord(Strict):
    """Which benchmark, exactly."""

    card: CardRecord
    content_hash: str
    seed: int
    spec: str = ""  # the name or path by which it was loaded; none in older folders

    @property
    def content(self) -> "BenchmarkRecord":
        """The same without how it was loaded: the content hash covers that, and old folders do not say it."""
        return self.model_copy(update={"spec": "", "card": self.card.model_copy(update={"load": LoadRecord()})})


class SelectionRecord(Strict):
    """Which of its items."""

    items: NonNegativeInt
    domains: tuple[str, ...] = ()
    limit: int | None = None


class AttemptRecord(Strict):
    """One line of attempts.jsonl: an item that stayed open."""

    item: str
    at: str
    scores: tuple[FiniteFloat | FailureRecord, ...]

    @model_validator(mode="after")
    def _is_open(self) -> Self:
        if not any(_is_outage(score) for score in self.scores):
            raise ValueError("found no outage, wanted an item that stayed open")
        return self

    @property
    def outage(self) -> CoreFailure:
        """The first of its outages."""
        return next(CoreFailure(score.failure, score.detail) for score in self.scores if _is_outage(score))


def _is_outage(score: float | FailureRecord) -> TypeGuard[FailureRecord]:
    return isinstance(score, FailureRecord) and score.failure in OPEN_KINDS


class UsageRecord(Strict):
    """What servers were asked for this run by all of its processes; `cost` is null where a price is not known."""

    answered: int
    kept: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    unmetered: int
    cost: FiniteFloat | None


class CurveStep(Strict):
    """One point of the loss curves of a fitted model."""

    number: int
    training: FiniteFloat
    held_out: FiniteFloat


class TrainingRecord(Strict):
    """How the model was fitted, where it was."""

    told: str
    curve: tuple[CurveStep, ...]
    met: tuple[str, ...] = ()
    """What of the benchmark it was fitted on, one sentence each."""


class RoleRecord(Strict):
    """What the condition declared of its part in comparisons."""

    role: Role | None
    amount: int | None
    beside: int
    notes: str
    verbatim: bool
    options: tuple[tuple[str, str], ...]
    control: str


class SourceFile(Strict):
    """A file that a run was imported from."""

    name: str
    sha256: str


class SourceRecord(Strict):
    """Where the rows of an imported run come from: nothing was scored here."""

    format: str
    files: tuple[SourceFile, ...]
    who: str = ""
    url: str = ""
    commit: str = ""
    method: str
    """How the scores came about."""
    items: int
    of: int
    """How many items the benchmark has."""
    ignored: tuple[str, ...] = ()
    """Columns of the files that were not read."""


class MeteredManifest(ShardedDocument, Manifest):
    """A manifest that says what its work took; what several machines made has the versions of all of them."""

    status: Literal["incomplete", "complete"]
    versions: dict[str, str]
    git: str
    started: str
    finished: str | None = None
    seconds: float = 0.0
    attempts: NonNegativeInt = 0
    asked: UsageRecord | None = None


class RunManifest(MeteredManifest):
    """run.json: where the rows came from."""

    model: str
    name: str = ""
    """What the user calls the model."""
    identity: dict[str, str]
    benchmark: BenchmarkRecord
    condition: str
    condition_role: RoleRecord | None = None
    reveals: tuple[Reveals, ...]
    selection: SelectionRecord
    rows: NonNegativeInt = 0
    rows_hash: str = ""
    """Of all lines of rows.jsonl, once the run is complete; none in older runs."""
    items_hash: str = ""
    """Of the file that lists the items; none in older runs."""
    failures: dict[str, int] = {}
    training: TrainingRecord | None = None
    source: SourceRecord | None = None
    """Where the rows come from, where somebody else scored them."""
    probes: tuple[FiniteFloat, ...] = ()
    """What the server's model gave to fixed probes when the run began; empty for models that no server serves."""

    def facts(self) -> dict[str, object]:
        """Return what must be the same for a run to be resumed."""
        facts = {name: getattr(self, name) for name in ("model", "identity", "benchmark", "condition", "selection")}
        source = self.source and self.source.model_dump()
        return {**facts, "benchmark": self.benchmark.content, "source": source, "shard": self.part}

    @property
    def imported(self) -> str:
        """What a reader must know of rows that somebody else scored; nothing where they were scored here."""
        if self.source is None:
            return ""
        files = ", ".join(f"{file.name} (sha256 {file.sha256[:8]})" for file in self.source.files)
        by = f", scored by {self.source.who}" * bool(self.source.who)
        part = f"; {self.source.items:,} of the {self.source.of:,} items" * (self.source.items < self.source.of)
        declared = f"; {self.condition} is declared, not verified" * (self.condition != "none")
        return f"imported from {files}{by}{part}{declared}"


class GateRecord(Document):
    """gate.json: how far the rows are those that somebody published of the same model."""

    colour: Literal["green", "yellow", "red"]
    against: str
    sha256: tuple[str, ...]
    """Of the published files."""
    items: int
    estimates: dict[str, dict[str, float | int | str | None]]
    text: str
    rows_hash: str = ""
    """Of the rows that were compared."""


ROWS, ITEMS, GATE = "rows.jsonl", "items.jsonl.gz", "gate.json"
INPUTS, TRANSCRIPTS, ATTEMPTS = "inputs.jsonl.gz", "transcripts.jsonl.gz", "attempts.jsonl"
WORKERS = "workers.txt"
RUN = JournalKind(
    noun="run",
    manifest="run.json",
    record=RunManifest,
    error=RunError,
    source="'pluralrm score' writes one with -o",
    anew="score the run again with --fresh",
    other="Old and new rows must not mix: --fresh (in Python fresh=True) removes that run and starts over, another -o "
    "keeps both",
    files=(INPUTS, TRANSCRIPTS, ROWS),
    attempts=ATTEMPTS,
    effort=2,  # of gzip: 5 takes 2.4 times the time, a third of all that a judged item costs, to save a tenth
)


def benchmark_record(benchmark: Benchmark) -> BenchmarkRecord:
    """Return which benchmark it is in its file's shape."""
    facts = {name: getattr(benchmark.card, name) for name in CardRecord.model_fields if name != "load"}
    card = CardRecord(**facts, load=LoadRecord(**asdict(benchmark.card.load)))
    return BenchmarkRecord(card=card, content_hash=benchmark.content_hash, seed=benchmark.seed, spec=benchmark.spec)


def benchmark_facts(record: BenchmarkRecord) -> dict[str, object]:
    """Return what makes a benchmark another one, by name."""
    card = digest(record.content.card.model_dump())
    return {"name": record.card.name, "content": record.content_hash, "seed": record.seed, "card": card}


def training_record(training: TrainingHistory, met: Sequence[str] = ()) -> TrainingRecord:
    """Return how a model was fitted, and what of the benchmark it was fitted on, in its file's shape."""
    curve = tuple(CurveStep(**step._asdict()) for step in training.curve)
    return TrainingRecord(told=training.told, curve=curve, met=tuple(met))


def card_from(record: CardRecord) -> Card:
    """Return the card that a file holds."""
    return Card(**record.model_dump(exclude={"load"}), load=LoadReport(**record.load.model_dump()))


def row_line(row: Row) -> str:
    """Return one line of rows.jsonl, without a timing: the same run gives the same bytes."""
    missing = _missing(row.scores)
    return json_line(
        {
            "item": row.item,
            "cluster": row.cluster,
            "domain": row.domain,
            "preferred": row.preferred,
            "scores": [] if missing else [_score(score) for score in row.scores],
            "candidates": row.candidate_ids,
            "lengths": row.lengths,
            "tags": dict(row.tags),
            "votes": [vote._asdict() for vote in row.votes],
            "posts": row.posts,
            "input": row.input_hash,
            "pairs": row.pairs,
            "lenders": row.lenders,
            "prompt": row.prompt,
            **({"grades": row.grades} if row.grades and not is_one_hot(row.grades) else {}),
            **{name: value for name in ("others", "digests", "traits") if (value := getattr(row, name))},
            **({"missing": missing} if missing else {}),
        }
    )


def _missing(scores: Sequence[Score]) -> dict[str, str] | None:
    """Return the failure of all candidates of an item that was not come to; None where something was said."""
    first = next(iter(scores), None)
    if not isinstance(first, CoreFailure) or first.kind != "missing" or any(score != first for score in scores):
        return None
    return {"failure": first.kind, "detail": first.detail}


def row_of(record: RowRecord) -> Row:
    """Return the row that a line holds."""
    return Row(
        item=record.item,
        cluster=record.cluster,
        domain=record.domain,
        preferred=record.preferred,
        scores=_scores(record),
        candidate_ids=record.candidates,
        lengths=record.lengths,
        tags=record.tags,
        votes=tuple(Vote(vote.order, vote.outcome) for vote in record.votes),
        posts=record.posts,
        input_hash=record.input,
        pairs=record.pairs,
        lenders=record.lenders,
        prompt=record.prompt,
        grades=record.grades,
        others=record.others,
        traits=record.traits,
        digests=record.digests,
    )


def query_record(query: Query) -> dict[str, object]:
    """Return exactly what a model was given, for inputs.jsonl.gz; keys sorted, as `digests` sorts them."""
    user = query.user
    return {
        "candidates": query.candidates,
        "item": query.id,
        "notes": query.notes,
        "prompt": query.prompt,
        "reveals_oracle": query.reveals_oracle,
        "user": None
        if user is None
        else {
            "id": user.id,
            "pairs": [
                {"id": pair.id, "other": pair.other, "preferred": pair.preferred, "prompt": pair.prompt}
                for pair in user.pairs
            ],
            "posts": [_post_record(post) for post in user.posts],
            **({"traits": dict(user.traits)} if user.traits else {}),
        },
    }


def _post_record(post: Post) -> dict[str, str]:
    """Return a post as a model was given it; the key of a date is there where there is one."""
    return {"category": post.category, **({"date": post.date} if post.date else {}), "id": post.id, "text": post.text}


def query_hash(query: Query) -> str:
    """Return the digest of what a model was given."""
    return plain_digest(query_record(query))


_ITEM = re.compile(rb'"item":("(?:[^"\\]|\\.)*")')
"""In a line of inputs or transcripts; inside of a text the quotation marks would be escaped."""


def item_in(line: bytes) -> str | None:
    """Return the item that a line of rows, inputs or transcripts is about."""
    start = _ITEM.search(line)
    return json.loads(start[1]) if start else None


def keyed_lines(file: Path, *names: str) -> Iterator[tuple[object, bytes]]:
    """Yield the lines of a file with their items, or with what they have under some names."""
    plain = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    for line in gzip_lines(file) if file.suffix == ".gz" else plain:
        yield tuple(map(json.loads(line).get, names)) if names else item_in(line), line


def input_line(query: Query) -> str:
    """Return one line of inputs.jsonl.gz."""
    return _text_line(query_record(query))


def exchange_line(item: str, verdict: Verdict) -> str:
    """Return one line of transcripts.jsonl.gz."""
    return _text_line({"item": item, "exchanges": [exchange._asdict() for exchange in verdict.exchanges]})


def attempt_line(item: str, verdict: Verdict, at: str) -> str:
    """Return one line of attempts.jsonl."""
    return json_line({"item": item, "at": at, "scores": [_score(score) for score in verdict.scores]})


def _scores(record: RowRecord) -> tuple[Score, ...]:
    if record.missing is not None and not record.scores:
        return (CoreFailure(record.missing.failure, record.missing.detail),) * len(record.lengths)
    if FailureRecord not in map(type, record.scores):  # numbers alone, as nearly always: nothing is made anew
        return cast("tuple[float, ...]", record.scores)
    return tuple(
        CoreFailure(score.failure, score.detail) if isinstance(score, FailureRecord) else score
        for score in record.scores
    )


def _score(score: Score) -> float | dict[str, str]:
    return {"failure": score.kind, "detail": well_formed(score.detail)} if isinstance(score, CoreFailure) else score


def _text_line(value: Mapping[str, object]) -> str:
    """Return a line of texts alone: pydantic spells plain ones ten times as fast, and numbers in another way."""
    try:
        line = to_json(value)
    except PydanticSerializationError:  # a lone surrogate
        return _line(value)
    return f"{line.decode()}\n" if line.isascii() else _line(value)


def _line(value: Mapping[str, object]) -> str:
    # ASCII on disk: a lone surrogate or a line separator inside a text cannot tear a line.
    return _ENCODER.encode(value) + "\n"


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def cell_folder(benchmark: BenchmarkRecord, model: str, condition: str, items: Sequence[str]) -> Path:
    """Return `<benchmark>/<model>/<condition>-<hash8>`; the hash covers all that shapes the rows."""
    shape = [benchmark.content_hash, benchmark.seed, model, condition, list(items)]
    return Path(slug(benchmark.card.name), slug(model), f"{slug(condition)}-{digest(shape)[:8]}")


def slug(text: str) -> str:
    """Return a text as a part of a path: what could mean something there becomes a hyphen."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", text).strip("-.")[:80] or "x"
