"""The shapes of a run's files, and the only place where they are read and written: nouns in, JSON out, and back."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Literal, Self, TypeGuard

from pydantic import FiniteFloat, NonNegativeInt, model_validator
from pydantic_core import PydanticSerializationError, to_json

from pluralrm.card import Card, LoadReport
from pluralrm.core import (
    OPEN_KINDS,
    Benchmark,
    FailureKind,
    Post,
    Query,
    Reveals,
    Role,
    Row,
    Score,
    Verdict,
    Vote,
    digest,
)
from pluralrm.core import Failure as CoreFailure
from pluralrm.errors import RunError
from pluralrm.http import Tally
from pluralrm.journal import JournalKind, Manifest, Strict, json_line
from pluralrm.models.declarations import TrainingHistory


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
    preferred: NonNegativeInt
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

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse counts that do not go together: no number could be trusted."""
        width = len(self.scores)
        if self.preferred >= width:
            raise ValueError(f"preferred is {self.preferred}, and there are {width} scores")
        if len(self.lengths) != width:
            raise ValueError(f"{len(self.lengths)} lengths for {width} scores")
        if self.candidates and len(self.candidates) != width:
            raise ValueError(f"{len(self.candidates)} candidates for {width} scores")
        if not all(0 <= place < width for vote in self.votes for place in vote.order):
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
    load: LoadRecord = LoadRecord()


class BenchmarkRecord(Strict):
    """Which benchmark, exactly."""

    card: CardRecord
    content_hash: str
    seed: int

    @property
    def content(self) -> "BenchmarkRecord":
        """The same without what its loader did: the content hash covers that, and old folders do not say it."""
        return self.model_copy(update={"card": self.card.model_copy(update={"load": LoadRecord()})})


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
        return next(CoreFailure(one.failure, one.detail) for one in self.scores if _is_outage(one))


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


class RunManifest(Manifest):
    """run.json: where the rows came from."""

    status: Literal["incomplete", "complete"]
    model: str
    name: str = ""
    """What the user calls the model."""
    identity: dict[str, str]
    benchmark: BenchmarkRecord
    condition: str
    condition_role: RoleRecord | None = None
    reveals: tuple[Reveals, ...]
    selection: SelectionRecord
    versions: dict[str, str]
    git: str
    started: str
    finished: str | None = None
    seconds: float = 0.0
    rows: NonNegativeInt = 0
    rows_hash: str = ""
    """Of all lines of rows.jsonl, once the run is complete; none in older runs."""
    items_hash: str = ""
    """Of the file that lists the items; none in older runs."""
    failures: dict[str, int] = {}
    attempts: NonNegativeInt = 0
    asked: UsageRecord | None = None
    training: TrainingRecord | None = None
    probes: tuple[FiniteFloat, ...] = ()
    """What the server's model gave to fixed probes when the run began; empty for models that no server serves."""

    def facts(self) -> dict[str, object]:
        """Return what must be the same for a run to be resumed."""
        facts = {name: getattr(self, name) for name in ("model", "identity", "benchmark", "condition", "selection")}
        return {**facts, "benchmark": self.benchmark.content}


ROWS, ITEMS = "rows.jsonl", "items.jsonl.gz"
INPUTS, TRANSCRIPTS, ATTEMPTS = "inputs.jsonl.gz", "transcripts.jsonl.gz", "attempts.jsonl"
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
    return BenchmarkRecord(card=card, content_hash=benchmark.content_hash, seed=benchmark.seed)


def training_record(training: TrainingHistory, met: Sequence[str] = ()) -> TrainingRecord:
    """Return how a model was fitted, and what of the benchmark it was fitted on, in its file's shape."""
    curve = tuple(CurveStep(**step._asdict()) for step in training.curve)
    return TrainingRecord(told=training.told, curve=curve, met=tuple(met))


def usage_record(tally: Tally) -> UsageRecord:
    """Return a tally in its file's shape."""
    return UsageRecord(**tally._asdict())


def tally_of(record: UsageRecord) -> Tally:
    """Return the tally that a file holds."""
    return Tally(**record.model_dump())


def card_from(record: CardRecord) -> Card:
    """Return the card that a file holds."""
    return Card(**record.model_dump(exclude={"load"}), load=LoadReport(**record.load.model_dump()))


def row_line(row: Row) -> str:
    """Return one line of rows.jsonl, without a timing: the same run gives the same bytes."""
    return json_line(
        {
            "item": row.item,
            "cluster": row.cluster,
            "domain": row.domain,
            "preferred": row.preferred,
            "scores": [_score(score) for score in row.scores],
            "candidates": row.candidate_ids,
            "lengths": row.lengths,
            "tags": dict(row.tags),
            "votes": [vote._asdict() for vote in row.votes],
            "posts": row.posts,
            "input": row.input_hash,
            "pairs": row.pairs,
            "lenders": row.lenders,
            "prompt": row.prompt,
        }
    )


def row_of(record: RowRecord) -> Row:
    """Return the row that a line holds."""
    return Row(
        item=record.item,
        cluster=record.cluster,
        domain=record.domain,
        preferred=record.preferred,
        scores=tuple(CoreFailure(s.failure, s.detail) if isinstance(s, FailureRecord) else s for s in record.scores),
        candidate_ids=record.candidates,
        lengths=record.lengths,
        tags=record.tags,
        votes=tuple(Vote(vote.order, vote.outcome) for vote in record.votes),
        posts=record.posts,
        input_hash=record.input,
        pairs=record.pairs,
        lenders=record.lenders,
        prompt=record.prompt,
    )


def query_record(query: Query) -> dict[str, object]:
    """Return exactly what a model was given, for inputs.jsonl.gz; the keys are sorted, as `core.digest` sorts them."""
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
        },
    }


def _post_record(post: Post) -> dict[str, str]:
    """Return a post as a model was given it; the key of a date is there where there is one."""
    dated = {"date": post.date} if post.date else {}
    return {"category": post.category, **dated, "id": post.id, "text": post.text}


def query_hash(query: Query) -> str:
    """Return the digest of what a model was given, as `core.digest` spells it, in a tenth of its time."""
    record = query_record(query)
    try:
        return hashlib.sha256(to_json(record)).hexdigest()
    except PydanticSerializationError:  # a lone surrogate
        return digest(record)


_ITEM = re.compile(rb'"item":("(?:[^"\\]|\\.)*")')
"""In a line of inputs or transcripts; inside of a text the quotation marks would be escaped."""


def first_of(items: Collection[str]) -> Callable[[bytes], bool]:
    """Return what says of a line of inputs or transcripts whether it is the first of one of some items."""
    left = set(items)

    def wanted(line: bytes) -> bool:
        start = _ITEM.search(line)
        item = json.loads(start[1]) if start else None
        first = item in left
        left.discard(item)
        return first

    return wanted


def input_line(query: Query) -> str:
    """Return one line of inputs.jsonl.gz."""
    return _text_line(query_record(query))


def exchange_line(item: str, verdict: Verdict) -> str:
    """Return one line of transcripts.jsonl.gz."""
    return _text_line({"item": item, "exchanges": [exchange._asdict() for exchange in verdict.exchanges]})


def attempt_line(item: str, verdict: Verdict, at: str) -> str:
    """Return one line of attempts.jsonl."""
    return json_line({"item": item, "at": at, "scores": [_score(score) for score in verdict.scores]})


def _score(score: Score) -> float | dict[str, str]:
    return {"failure": score.kind, "detail": score.detail} if isinstance(score, CoreFailure) else score


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
