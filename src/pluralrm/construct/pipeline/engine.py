"""Building: records in, what the stages made of them out, and every decision on disk at once.

A window of records is on its way from stage to stage, each as soon as its replies are there and without waiting for
others, until a sieve, which waits for all. The result depends on the replies and on nothing else: neither on the window
nor on who is asked first. A decision is written to disk first, then kept in memory, and is the same from either.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from pluralrm._version import __version__
from pluralrm.construct.pipeline.folder import (
    BuildManifest,
    DecisionLine,
    Folder,
    Heard,
    Replies,
    Spent,
    StageEntry,
    as_json,
    crowd,
    heard,
    replies_of,
    stage_file,
)
from pluralrm.construct.pipeline.funnel import Funnel, funnel_of
from pluralrm.construct.pipeline.pools import Askers, Pools, Sent
from pluralrm.construct.pipeline.stages import (
    Acceptance,
    Decision,
    ModelCall,
    ModelCalls,
    Pipeline,
    Product,
    Record,
    Rejection,
    Sieve,
    Stage,
    Work,
)
from pluralrm.core import OPEN_KINDS, Failure
from pluralrm.digests import digest, digest_list
from pluralrm.errors import RunError
from pluralrm.journal import field_error
from pluralrm.shards import Shard, ShardProgress


class BuildProgress(NamedTuple):
    """How far a build is, in decisions: one for each record and stage. A rejected record is done with all of them."""

    done: int
    total: int
    waiting: int


class Rests(NamedTuple):
    """What a decision rests on: what it took of each model, and the replies."""

    spent: Sequence[Spent] = ()
    heard: Sequence[Heard] = ()


class Decisions:
    """The decisions of one build, stage by stage; `why` says why the first record waits."""

    def __init__(
        self,
        pipeline: Pipeline,
        folder: Folder,
        lines: list[dict[str, DecisionLine]],
        progress: Callable[[BuildProgress], None],
    ) -> None:
        self.lines, self.waiting, self.why = lines, 0, ""
        self.stages = pipeline.stages
        self._folder, self._tell = folder, progress
        self._done = self._total = 0

    def check(self, records: Sequence[Record]) -> None:
        """Raise where a decision is about no record of the input."""
        ids = {record.id for record in records}
        for index, decided in enumerate(self.lines):
            if strange := sorted(decided.keys() - ids):
                raise RunError(f"{self._file(index)}: found {strange[0]!r}, which is no record of the input; {_NEXT}")
            self._done += sum(self._steps(index, line) for line in decided.values())
        self._total = len(records) * len(self.stages)
        self._report()

    def decided(self, record: Record, index: int) -> bool:
        """Return whether a stage has decided on a record."""
        return record.id in self.lines[index]

    def adopted(self, record: Record, index: int) -> Record | None:
        """Return the record as it leaves a stage; None where it was rejected there."""
        data = self.lines[index][record.id].kept
        return None if data is None else record.with_product(self.stages[index].name, self._read(record, index, data))

    def decide(self, record: Record, index: int, decision: Decision, rests: Rests) -> Record | None:
        """Write a decision down, and return the record as it leaves the stage; None where it is rejected."""
        after = self.lines[index - 1][record.id].seal if index else ""
        stage, line = self.stages[index], self._line(record, index, decision, rests, after=after)
        self._folder.decide(index, stage.name, line)
        self._take(index, line)
        return self.adopted(record, index)

    def decide_all(self, records: Sequence[Record], index: int, decisions: Sequence[Decision]) -> None:
        """Write a sieve's decisions down, all at once."""
        pairs = zip(records, decisions, strict=True)
        after = crowd(self.lines[index - 1].values()) if index else ""
        lines = [self._line(record, index, decision, Rests(), after=after) for record, decision in pairs]
        self._folder.decide_all(index, self.stages[index].name, lines)
        for line in lines:
            self._take(index, line)

    def all_decided(self, records: Iterable[Record], index: int) -> bool:
        """Return whether a sieve has run; RunError where it has on other records: it would keep others of these."""
        decided, came = set(self.lines[index]), {record.id for record in records}
        if decided and decided != came:
            raise RunError(f"{self._file(index)}: found {len(decided):,} decisions, wanted {len(came):,}; {_NEXT}")
        return bool(decided)

    def wait(self, why: str) -> None:
        """Count a record that a call without an answer keeps from going on."""
        self.waiting += 1
        self.why = self.why or why
        self._report()

    def _take(self, index: int, line: DecisionLine) -> None:
        self.lines[index][line.id] = line
        self._done += self._steps(index, line)
        self._report()

    def _steps(self, index: int, line: DecisionLine) -> int:
        return len(self.stages) - index if line.kept is None else 1

    def _report(self) -> None:
        self._tell(BuildProgress(self._done, self._total, self.waiting))

    def _line(self, record: Record, index: int, decision: Decision, rests: Rests, *, after: str) -> DecisionLine:
        reason, detail, data = "", "", None
        if isinstance(decision, Rejection):
            _require_reason(self.stages[index], decision)
            # A model's words may hold half a character, which no file can.
            reason, detail = decision.reason, decision.detail.encode("utf-8", "backslashreplace").decode()
        else:
            data = _written(self.stages[index], decision)
            self._read(record, index, data)  # before it is on disk: a product that cannot be read must not stay there
        return DecisionLine(
            id=record.id,
            kept=data,
            reason=reason,
            detail=detail,
            attempts=decision.attempts,
            spent=tuple(rests.spent),
            heard=tuple(rests.heard),
            after=after,
        ).sealed

    def _read(self, record: Record, index: int, data: Mapping[str, JsonValue]) -> Product:
        makes = self.stages[index].makes
        try:
            return makes.model_validate_json(json.dumps(data))
        except ValidationError as exc:
            raise RunError(
                f"{self._file(index)}: {record.id!r}: {field_error(exc)}; wanted a {makes.__name__}"
            ) from exc

    def _file(self, index: int) -> str:
        return str(stage_file(self._folder.path, index, self.stages[index].name))


_NEXT = "the file was changed from outside or is of another build: build in another folder"


def _require_reason(stage: Stage | Sieve, decision: Rejection) -> None:
    if not decision.reason:
        raise TypeError(f"stage {stage.name!r} rejects without a reason")


def _written(stage: Stage | Sieve, decision: Acceptance) -> dict[str, JsonValue]:
    if type(decision.product) is not stage.makes:
        raise TypeError(f"stage {stage.name!r} made a {type(decision.product).__name__}, not {stage.makes.__name__}")
    fields: dict[str, JsonValue] = json.loads(decision.product.model_dump_json())
    return fields


@dataclass(slots=True)
class _Job:
    """A record at a stage. `answers` is None before the generator has begun; `missing` of them are on their way."""

    record: Record
    place: int
    work: Work[Decision]
    answers: list[object] | None = None
    missing: int = 0
    closed: bool = False
    spent: dict[tuple[str, str], "_Sum"] = field(default_factory=dict)
    heard: dict[str, Heard] = field(default_factory=dict)


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    unmetered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Walk:
    """The way of some records through the stages from `begin` to `end`, none of which is a sieve."""

    def __init__(self, decisions: Decisions, pools: Pools, begin: int, end: int) -> None:
        self._decisions, self._pools, self._begin, self._end = decisions, pools, begin, end
        self._kept: dict[str, Record] = {}

    def kept(self, records: Sequence[Record], window: int) -> list[Record]:
        """Return the records that all of the stages keep; those of the others that are not rejected wait."""
        with Askers[_Job](self._pools) as askers:
            self._askers = askers
            try:
                self._go(self._undecided(records), window)
            except BaseException:
                self._pools.close()  # or the threads would go on asking for replies that are not read
                raise
        return [self._kept[record.id] for record in records if record.id in self._kept]

    def _undecided(self, records: Sequence[Record]) -> Iterator[tuple[Record, int]]:
        """Yield the records without a decision by some stage, and the first such stage."""
        for record in records:
            index, current = self._begin, record
            while index < self._end and self._decisions.decided(record, index):
                if (adopted := self._decisions.adopted(current, index)) is None:
                    break
                current, index = adopted, index + 1
            else:
                if index < self._end:
                    yield current, index
                else:
                    self._kept[record.id] = current

    def _go(self, records: Iterator[tuple[Record, int]], window: int) -> None:
        running = 0
        while True:
            while running < window and (entry := next(records, None)) is not None:
                running += self._advance(self._job(*entry))
            if not running:
                return
            running -= self._ended(self._askers.fetch())

    def _job(self, record: Record, index: int) -> _Job:
        return _Job(record, index, self._stage(index).work(record))

    def _stage(self, index: int) -> Stage:
        stage = self._decisions.stages[index]
        if not isinstance(stage, Stage):
            raise TypeError(f"{stage.name!r} is a sieve")
        return stage

    def _ended(self, sent: Sent[_Job]) -> bool:
        """Take an outcome, and return whether it was the last thing that its record needed here."""
        job, outcome = sent.job, sent.call.outcome
        if job.closed or job.answers is None:
            return False
        if isinstance(outcome, Failure) and outcome.kind in OPEN_KINDS:
            job.work.close()
            job.closed = True
            self._decisions.wait(outcome.detail)
            return True
        job.answers[sent.place] = outcome
        job.missing -= 1
        _count(job, sent)
        return not (job.missing or self._advance(job))

    def _advance(self, job: _Job) -> bool:
        """Let a record go on, and return whether it waits for replies; if not, it is decided on."""
        while True:
            try:
                # A generator takes nothing when it begins.
                asks = next(job.work) if job.answers is None else job.work.send(job.answers)
            except StopIteration as end:
                following = self._decided(job, end.value)
                if following is None:
                    return False
                job = following
            else:
                job.answers = [None] * len(asks)
                if asks:
                    self._send(job, asks)
                    return True

    def _decided(self, job: _Job, decision: Decision) -> _Job | None:
        """Write a decision down, and return the record at its next stage, if there is one."""
        spent = [_spent(who, total) for who, total in sorted(job.spent.items())]
        replies = [job.heard[request] for request in sorted(job.heard)]
        record = self._decisions.decide(job.record, job.place, decision, Rests(spent, replies))
        if record is not None and job.place + 1 < self._end:
            return self._job(record, job.place + 1)
        if record is not None:
            self._kept[record.id] = record
        return None

    def _send(self, job: _Job, asks: ModelCalls) -> None:
        job.missing = len(asks)
        for index, ask in enumerate(asks):
            self._require_declared(job, ask)
            member = self._pools.member(ask, job.record.id)
            call = member.call(ask, self._pools.stand_ins)
            self._askers.hand(Sent(job, index, ask.role, member, call, call.request))

    def _require_declared(self, job: _Job, ask: ModelCall[object]) -> None:
        stage = self._stage(job.place)
        if ask.template not in stage.templates:
            raise ValueError(f"stage {stage.name!r} asks with {ask.template.name!r}, which is none of its templates")


def _count(job: _Job, sent: Sent[_Job]) -> None:
    total, call = job.spent.setdefault((sent.role, sent.member.name), _Sum()), sent.call
    usages = [turn.reply.usage for turn in call.turns if turn.reply.usage is not None]
    calls = 1 + (call.unread is not None)
    total.calls += calls
    total.unmetered += calls - len(usages)
    total.tokens_in += sum(usage.prompt for usage in usages)
    total.tokens_out += sum(usage.completion for usage in usages)
    for request, reply in sent.exchanges:
        if (noted := heard(sent.member.chat, request, reply)) is not None:
            job.heard[noted.request] = noted


def _spent(who: tuple[str, str], total: _Sum) -> Spent:
    role, model = who
    tokens = {"tokens_in": total.tokens_in, "tokens_out": total.tokens_out}
    return Spent(role=role, model=model, calls=total.calls, unmetered=total.unmetered, **tokens)


WINDOW = 256
"""Records that are worked on at one time."""


@dataclass(frozen=True)
class Built:
    """What a build came to. `kept` are the records that every stage kept, by id; none while a record waits.

    `replies` are those that its decisions rest on, and `why` says why the first record that waits does.
    """

    pipeline: Pipeline
    manifest: BuildManifest
    folder: Path
    pools: Pools
    kept: tuple[Record, ...]
    funnel: Funnel
    replies: Replies
    why: str = ""

    @property
    def complete(self) -> bool:
        """True where no record waits."""
        return not self.funnel.waiting


def build(
    pipeline: Pipeline,
    records: Iterable[Record],
    folder: Folder,
    pools: Pools,
    *,
    limit: int | None = None,
    window: int = WINDOW,
    progress: Callable[[BuildProgress], None] = lambda _going: None,
) -> Built:
    """Return what becomes of the records; the same call goes on where an earlier one was stopped.

    `limit` takes so many of them in the order of their ids' digests: a sample that does not depend on their order.
    """
    chosen = sampled(records, limit)
    manifest = manifest_of(pipeline, chosen, pools, limit)
    lines = folder.adopt(manifest)
    folder.require_replies(lines, pools.served)
    decisions = Decisions(pipeline, folder, lines, progress)
    decisions.check(chosen)
    final = _through_all(decisions, pools, chosen, window)
    funnel, replies = funnel_of(manifest, decisions.lines), replies_of(decisions.lines)
    return Built(pipeline, manifest, folder.path, pools, tuple(final), funnel, replies, decisions.why)


def build_shard(
    pipeline: Pipeline,
    records: Iterable[Record],
    folder: Folder,
    pools: Pools,
    *,
    shard: Shard,
    limit: int | None = None,
    progress: Callable[[BuildProgress], None] = lambda _going: None,
) -> tuple[ShardProgress, str]:
    """Take one shard of the records through the first stages that ask models, after what all records go through first.

    Return how far it is, and why the first record waits.
    """
    chosen = sampled(records, limit)
    own = shard.of(record.id for record in chosen)
    manifest = manifest_of(pipeline, chosen, pools, limit).model_copy(update={"shard": shard, "own": tuple(own)})
    lines = folder.adopt(manifest)
    folder.require_replies(lines, pools.served)
    decisions = Decisions(pipeline, folder, lines, progress)
    decisions.check(chosen)
    begin, mine = manifest.asking.start, set(own)
    current = _through_all(decisions, pools, chosen, WINDOW, until=begin)
    Walk(decisions, pools, begin, manifest.asking.stop).kept(
        [record for record in current if record.id in mine], WINDOW
    )
    return manifest.progress(folder.path, decisions.lines), decisions.why


def _through_all(
    decisions: Decisions, pools: Pools, records: Sequence[Record], window: int, *, until: int | None = None
) -> list[Record]:
    """Return the records that all stages keep, or those before one; none while a record waits."""
    current, begin = list(records), 0
    for end in _ends(decisions.stages[:until]):
        if begin < end:
            current = Walk(decisions, pools, begin, end).kept(current, window)
        if decisions.waiting:
            return []
        if end < len(decisions.stages[:until]):
            current = _sifted(decisions, current, end)
        begin = end + 1
    return current


def _ends(stages: Sequence[Stage | Sieve]) -> Iterator[int]:
    """Yield the place of each sieve, and the end: a record goes at once through what lies between."""
    yield from (index for index, stage in enumerate(stages) if isinstance(stage, Sieve))
    yield len(stages)


def _sifted(decisions: Decisions, records: Sequence[Record], index: int) -> list[Record]:
    """Return what a sieve keeps of the records, which are in the order of their ids."""
    sieve = decisions.stages[index]
    if isinstance(sieve, Sieve) and not decisions.all_decided(records, index):
        decisions.decide_all(records, index, sieve.decide(records))
    adopted = (decisions.adopted(record, index) for record in records)
    return [record for record in adopted if record is not None]


def sampled(records: Iterable[Record], limit: int | None) -> tuple[Record, ...]:
    """Return the records that a build works on, in the order of their ids; RunError where there are none."""
    chosen = sorted(records, key=lambda record: record.id)
    for record, other in pairwise(chosen):
        if record.id == other.id:
            raise RunError(f"found two records {record.id!r} in the input, wanted ids that differ")
    if not chosen:
        raise RunError("found no record in the input, wanted at least one")
    if limit is not None:
        chosen = sorted(sorted(chosen, key=lambda record: digest(record.id))[:limit], key=lambda record: record.id)
    return tuple(chosen)


def manifest_of(pipeline: Pipeline, records: Sequence[Record], pools: Pools, limit: int | None) -> BuildManifest:
    """Return what a build is: where all of it is equal, and the replies are, it comes to the same."""
    for record in records:
        if type(record.source) is not pipeline.source:
            raise TypeError(
                f"record {record.id!r} has a {type(record.source).__name__}, not {pipeline.source.__name__}"
            )
    content = ([record.id, record.domain, record.source.model_dump(mode="json")] for record in records)
    roles = {role: sorted((member.to_json() for member in pool), key=digest) for role, pool in pools.roles.items()}
    return BuildManifest(
        pluralrm=__version__,
        pipeline=pipeline.name,
        input=digest_list(content),
        records=len(records),
        limit=limit,
        roles=as_json(roles),
        stages=[_entry(stage) for stage in pipeline.stages],
    )


def _entry(stage: Stage | Sieve) -> StageEntry:
    templates = stage.templates if isinstance(stage, Stage) else ()
    return StageEntry(
        name=stage.name,
        kind="stage" if isinstance(stage, Stage) else "sieve",
        makes=stage.makes.__name__,
        settings=dict(stage.settings),
        templates={template.name: template.hash for template in templates},
    )
