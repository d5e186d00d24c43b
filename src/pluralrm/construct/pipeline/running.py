"""The loop: a window of records on their way from stage to stage, each as soon as its replies are there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pluralrm.construct.pipeline.asking import Askers, Sent
from pluralrm.construct.pipeline.decisions import Decisions, Rests
from pluralrm.construct.pipeline.lines import Heard, Spent
from pluralrm.construct.pipeline.pools import Pools
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.replies import heard
from pluralrm.construct.pipeline.stages import Stage
from pluralrm.construct.pipeline.work import Ask, Asks, Decision, Work
from pluralrm.core import OPEN_KINDS, Failure


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
                self._pools.close()  # or the threads would go on asking for what nobody reads
                raise
        return [self._kept[record.id] for record in records if record.id in self._kept]

    def _undecided(self, records: Sequence[Record]) -> Iterator[tuple[Record, int]]:
        """Yield the records without a decision by some stage, and the first such stage."""
        for record in records:
            place, current = self._begin, record
            while place < self._end and self._decisions.decided(record, place):
                if (adopted := self._decisions.adopted(current, place)) is None:
                    break
                current, place = adopted, place + 1
            else:
                if place < self._end:
                    yield current, place
                else:
                    self._kept[record.id] = current

    def _go(self, records: Iterator[tuple[Record, int]], window: int) -> None:
        running = 0
        while True:
            while running < window and (found := next(records, None)) is not None:
                running += self._advance(self._job(*found))
            if not running:
                return
            running -= self._ended(self._askers.fetch())

    def _job(self, record: Record, place: int) -> _Job:
        return _Job(record, place, self._stage(place).work(record))

    def _stage(self, place: int) -> Stage:
        stage = self._decisions.stages[place]
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
        spent = [_spent(who, asked) for who, asked in sorted(job.spent.items())]
        said = [job.heard[request] for request in sorted(job.heard)]
        record = self._decisions.decide(job.record, job.place, decision, Rests(spent, said))
        if record is not None and job.place + 1 < self._end:
            return self._job(record, job.place + 1)
        if record is not None:
            self._kept[record.id] = record
        return None

    def _send(self, job: _Job, asks: Asks) -> None:
        job.missing = len(asks)
        for place, ask in enumerate(asks):
            self._require_declared(job, ask)
            member = self._pools.member(ask, job.record.id)
            call = member.call(ask)
            self._askers.hand(Sent(job, place, ask.role, member, call, call.request))

    def _require_declared(self, job: _Job, ask: Ask[object]) -> None:
        stage = self._stage(job.place)
        if ask.template not in stage.templates:
            raise ValueError(f"stage {stage.name!r} asks with {ask.template.name!r}, which is none of its templates")


def _count(job: _Job, sent: Sent[_Job]) -> None:
    asked, call = job.spent.setdefault((sent.role, sent.member.name), _Sum()), sent.call
    usages = [turn.reply.usage for turn in call.turns if turn.reply.usage is not None]
    calls = 1 + (call.unread is not None)
    asked.calls += calls
    asked.unmetered += calls - len(usages)
    asked.tokens_in += sum(usage.prompt for usage in usages)
    asked.tokens_out += sum(usage.completion for usage in usages)
    for request, reply in sent.exchanges:
        if (noted := heard(sent.member.chat, request, reply)) is not None:
            job.heard[noted.request] = noted


def _spent(who: tuple[str, str], asked: _Sum) -> Spent:
    role, model = who
    tokens = {"tokens_in": asked.tokens_in, "tokens_out": asked.tokens_out}
    return Spent(role=role, model=model, calls=asked.calls, unmetered=asked.unmetered, **tokens)
