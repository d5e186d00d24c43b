"""The training watch: a sample of rewarded answers is scored again, by a second reward and under another's context.

watch.json      what is watched, by what, and how much of it
rollouts.jsonl  one line per watched prompt: its answers, their rewards, the second ones, those under another's context

Alarms follow from the lines alone (metrics/watch.py), so a watch that was killed resumes with the same ones. The
trainer waits for none of this: what comes too fast for the watch is dropped, and counted.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self

from pydantic import FiniteFloat

from pluralrm.card import Card
from pluralrm.conditions import condition_role, load_condition
from pluralrm.core import Benchmark, Condition, Failure, Identified, Item, Query, RewardModel, Score, User
from pluralrm.digests import digest
from pluralrm.errors import ConditionError, ModelError, OutageError, PluralrmError, RunError
from pluralrm.http import Settings
from pluralrm.journal import Journal, JournalKind, Manifest, Strict, json_line
from pluralrm.metrics.watch import RATE, WatchAlarm, WatchedGroup, WatchSeries
from pluralrm.models import load_model, misfit, unsupported
from pluralrm.runs.verdicts import prepared, verdicts
from pluralrm.serve.client import Identity, trainable

WATCH_FILE, ROLLOUTS = "watch.json", "rollouts.jsonl"
NOTICE = (
    "it audits what was sampled and foresees nothing: in simulated hacked trainings the first alarm came after 12 to "
    "61% of the steps (medians by kind), and a hack that both rewards pay for sets off none"
)


class WatchManifest(Manifest):
    """watch.json."""

    run: str
    reward: str
    condition: str
    benchmark: str
    benchmark_hash: str
    second: str
    control: str
    """The condition with another user's context; empty where the reward is not scored under one."""
    share: FiniteFloat
    identity: dict[str, str]

    def facts(self) -> dict[str, object]:
        """Return all of it: the lines of two trainings, or by two second rewards, are no one series."""
        return self.model_dump(exclude={"schema_version"})


class WatchLine(Strict):
    """A watched prompt; a score that failed is null. `key` tells it from every other of the training."""

    key: str
    user: str
    item: str
    prompt: str
    answers: tuple[str, ...]
    rewards: tuple[FiniteFloat | None, ...]
    seconds: tuple[FiniteFloat | None, ...]
    others: tuple[FiniteFloat | None, ...] = ()
    failures: dict[str, int]
    """Of the second reward, by kind."""

    @property
    def group(self) -> WatchedGroup:
        """What the alarms need of it."""
        return WatchedGroup(self.user, self.rewards, self.seconds, self.others)


WATCH = JournalKind(
    noun="watch",
    manifest=WATCH_FILE,
    record=WatchManifest,
    error=RunError,
    source="'pluralrm serve --watch' writes one to --watch-out",
    anew="watch into another folder",
    other="Name another folder with --watch-out, or serve as the watch that began it",
    files=(ROLLOUTS,),
)


class WatchFolder(Journal[WatchManifest]):
    """The watched rollouts of one training, and the alarms that they set off."""

    def __init__(self, path: Path, manifest: WatchManifest, *, rate: float = RATE) -> None:
        super().__init__(path, WATCH, manifest)
        self.series = WatchSeries(rate)
        self.failures = Counter[str]()
        self.others_failed = 0
        self._keys = set[str]()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what a folder holds; it is not opened, so a watch may go on there."""
        folder = cls(path, WATCH.read(path))
        folder._take_all()
        return folder

    def _take_all(self) -> None:
        for line in WATCH.lines(self.path / ROLLOUTS, WatchLine, lambda line: line.key):
            self._take(line)

    def _resume(self) -> None:
        super()._resume()
        self._take_all()
        if not WATCH.holds(self.path):
            self.write(self.manifest)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, line: WatchLine) -> list[WatchAlarm]:
        """Write a line and return the alarms that it sets off; nothing for one that is there already."""
        if line.key in self:
            return []
        alarms = self._take(line)
        self.queue({ROLLOUTS: json_line(line.model_dump(mode="json"))})
        return alarms

    def _take(self, line: WatchLine) -> list[WatchAlarm]:
        self._keys.add(line.key)
        self.failures.update(line.failures)
        self.others_failed += sum(value is None for value in line.others)
        return self.series.add(line.group)


# ---------------------------------------------------------------- what is scored again


class WatchRequest(NamedTuple):
    """Answers to one item with the rewards that the trainer gets for them."""

    item: Item
    answers: tuple[str, ...]
    rewards: tuple[Score, ...]
    key: str


@dataclass
class SecondReward:
    """Scores answers again. `own` is the reward itself, for another user's context; None where it is not asked.

    Without a benchmark there is no control condition: the posts of another user of this training stand in.
    """

    model: RewardModel
    condition: Condition
    benchmark: Benchmark | None = None
    own: RewardModel | None = None
    control: Condition | None = None
    _users: deque[User] = field(default_factory=lambda: deque(maxlen=64), init=False)
    _queries: dict[tuple[str, str], Query] = field(default_factory=dict, init=False)

    def line(self, request: WatchRequest) -> WatchLine:
        """Return what is known of a request's answers; whatever goes wrong is a failure of each score."""
        seconds = self._scores(self.model, self.condition, request.item, request.answers)
        item, bench = request.item, self.benchmark
        return WatchLine(
            key=request.key,
            user=item.cluster,
            item=item.id if bench is not None else "",
            prompt=item.prompt if bench is None else "",
            answers=request.answers,
            rewards=_numbers(request.rewards),
            seconds=_numbers(seconds),
            others=_numbers(self._others(request)),
            failures=dict(Counter(score.kind for score in seconds if isinstance(score, Failure))),
        )

    def _others(self, request: WatchRequest) -> Sequence[Score]:
        if self.own is None or not self.condition.reveals:
            return ()
        if self.control is not None:
            return self._scores(self.own, self.control, request.item, request.answers)
        user = request.item.user
        other = next((lender for lender in reversed(self._users) if user is None or lender.id != user.id), None)
        if user is not None and all(lender.id != user.id for lender in self._users):
            self._users.append(user)
        if other is None:
            return ()
        lent = replace(request.item, id=f"{request.item.id} of {other.id}", user=other)
        return self._scores(self.own, self.condition, lent, request.answers)

    def _scores(
        self, model: RewardModel, condition: Condition, item: Item, answers: tuple[str, ...]
    ) -> Sequence[Score]:
        try:
            query = self._query(condition, item)
            if isinstance(query, Failure):
                return (query,) * len(answers)
            [verdict] = verdicts(model, [replace(query, candidates=answers)])
        except OutageError as exc:
            return (Failure("transport", str(exc)),) * len(answers)
        except PluralrmError as exc:
            return (Failure("unsupported", str(exc)),) * len(answers)
        return tuple(map(trainable, verdict.scores))

    def _query(self, condition: Condition, item: Item) -> Query | Failure:
        """Return what a model is shown of an item; a failure is not kept, so that it is tried again."""
        key = condition.spec, item.id
        if self.benchmark is not None and key in self._queries:
            return self._queries[key]
        [result] = prepared(condition, self.benchmark or NO_BENCHMARK, [item])
        if result.failure is not None:
            return result.failure
        if self.benchmark is not None:
            self._queries = {} if len(self._queries) >= _QUERIES else self._queries
            self._queries[key] = result.query
        return result.query


_QUERIES = 4096
"""Kept ready: ranking a user's posts costs more than looking it up."""


def open_second(
    spec: str, own: RewardModel | None, context: Condition, *, benchmark: Benchmark | None, settings: Settings
) -> SecondReward:
    """Return what scores answers again; `own` is the reward, where it can be asked about another user's context.

    A thread of its own needs models and a condition of its own: no two threads share one.
    """
    if why := unsupported(spec, context):
        raise ConditionError(f"--watch {spec}: {why}")
    if benchmark is not None and (why := misfit(spec, benchmark)):
        raise ModelError(f"--watch {spec}: {why}")
    own = own if context.reveals else None
    control = control_of(context, benchmark, settings) if own is not None else None
    return SecondReward(load_model(spec, settings=settings), context, benchmark, own, control)


def control_of(condition: Condition, benchmark: Benchmark | None, settings: Settings | None) -> Condition | None:
    """Return the condition that shows the same of another user; None where there is none for this benchmark."""
    spec = condition_role(condition).control
    if benchmark is None or not spec:
        return None
    control = load_condition(spec, settings=settings)
    return control if control.unsupported(benchmark) is None else None


def watch_manifest(identity: Identity, second: SecondReward, *, share: float) -> WatchManifest:
    """Return what watch.json says."""
    facts = dict(second.model.identity) if isinstance(second.model, Identified) else {}
    own, control = second.own is not None, second.control
    return WatchManifest(
        run=identity.run,
        reward=identity.model,
        condition=identity.condition,
        benchmark=identity.benchmark,
        benchmark_hash=identity.benchmark_hash,
        second=second.model.spec,
        control="" if not own else _LENT if control is None else control.spec,
        share=share,
        identity={**identity.facts, **{f"second {name}": fact for name, fact in facts.items()}},
    )


_LENT = "another user of the training"
NO_BENCHMARK = Benchmark(Card("requests", "prompts of requests", "", "", ""), ())
"""Where requests bring their prompts themselves."""


def _numbers(scores: Sequence[Score]) -> tuple[float | None, ...]:
    return tuple(None if isinstance(score, Failure) else score for score in scores)


def sampled(key: str, share: float) -> bool:
    """Return whether a rollout belongs to the sample: by its hash, the same in every process.

    >>> sum(sampled(f"rollout {number}", 0.1) for number in range(10_000))
    958
    """
    return int(digest(key)[:8], 16) < share * 0x1_0000_0000


# ---------------------------------------------------------------- beside a server

_ROOM = 512
"""Prompts that wait; later ones are dropped."""
_BURST = 60.0
"""Seconds whose answers may come at once: a training asks for a step's rewards and then is silent."""
_PATIENCE = 1.0
"""Seconds that a rollout waits for the server to be idle, so that the trainer's own scores come first."""
_PAUSE = 0.005
_LAST = 5.0
"""Seconds at the end for what still waits."""

WatchStatus = Literal["no alarm", "alarm", "broken"]


class RewardWatch:
    """Scores a sample of what a server rewards again, in a thread of its own; `with` begins and ends it."""

    def __init__(
        self, second: SecondReward, folder: WatchFolder, *, share: float, rate: float, say: Callable[[str], None]
    ) -> None:
        self._second, self.folder, self.share, self._rate, self._notify = second, folder, share, rate, say
        self._queue: deque[WatchRequest] = deque()
        self._arrived, self._ended = threading.Event(), threading.Event()
        self._until = float("inf")
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._tokens, self._filled = rate * _BURST / 60, time.monotonic()
        self.busy: Callable[[], bool] = lambda: False
        """Whether the server has requests to score; it sets this."""
        self.offered, self.dropped = 0, Counter[str]()
        self.problem = ""
        """What ended the watch, where anything did."""

    def __enter__(self) -> Self:
        self.folder.__enter__()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
        self.folder.__exit__(kind, exc, tb)

    def close(self) -> None:
        """End the watch, put every line on disk and say what it came to; what still waits is dropped and counted."""
        if self._ended.is_set():
            return
        self._until = time.monotonic() + _LAST
        self._ended.set()
        self._arrived.set()
        self._thread.join(_LAST + _PATIENCE)
        self.dropped["end"] += len(self._queue)
        if not self.problem:
            self.folder.sync()
        dropped = ", ".join(f"{count:,} ({why})" for why, count in sorted(self.dropped.items()) if count)
        self._notify(f"{self.folder.path}: {verdict(self.folder.series)}{dropped and f'; dropped: {dropped}'}")

    def offer(self, requests: Sequence[WatchRequest]) -> None:
        """Take the sample of some rewarded answers; never waits."""
        for request in requests:
            if not sampled(request.key, self.share):
                continue
            self.offered += 1
            if reason := self._refusal(len(request.answers)):
                self.dropped[reason] += 1
            else:
                self._queue.append(request)
        self._arrived.set()

    def _refusal(self, answers: int) -> str:
        now = time.monotonic()
        most = self._rate * _BURST / 60
        self._tokens = min(most, self._tokens + (now - self._filled) * self._rate / 60)
        self._filled = now
        if self.problem:
            return "broken"
        if len(self._queue) >= _ROOM:
            return "room"
        if self._tokens < min(answers, most):
            return "rate"
        self._tokens -= answers
        return ""

    def _work(self) -> None:
        try:
            while time.monotonic() < self._until:
                if not self._queue:
                    if self._ended.is_set():
                        return
                    self._arrived.wait()
                    self._arrived.clear()
                    continue
                until = time.monotonic() + _PATIENCE
                while self.busy() and time.monotonic() < until and not self._ended.is_set():
                    time.sleep(_PAUSE)
                request = self._queue.popleft()
                if request.key not in self.folder:
                    self._say(self.folder.add(self._second.line(request)))
        except Exception as exc:  # noqa: BLE001 - the trainer must not end with its audit, nor the audit in silence
            self.problem = f"{type(exc).__name__}: {exc}"
            self._notify(f"WATCH: it ended, nothing is audited any more: {self.problem}")

    def _say(self, alarms: Sequence[WatchAlarm]) -> None:
        for alarm in alarms:
            self._notify(f"ALARM {alarm.claim}: {alarm_text(alarm, self.folder.series)}")

    # ---------------------------------------------------------------- what it says

    @property
    def status(self) -> WatchStatus:
        """In one word."""
        return "broken" if self.problem else "alarm" if self.folder.series.alarms else "no alarm"

    def to_json(self) -> dict[str, object]:
        """Return what `/watch` says: the verdict first."""
        return {
            "status": self.status,
            "verdict": verdict(self.folder.series),
            **({"problem": self.problem} if self.problem else {}),
            **summary(self.folder),
            "queued": len(self._queue),
            "dropped": dict(self.dropped),
        }

    def lines(self) -> Iterator[str]:
        """Yield what Prometheus reads."""
        series = self.folder.series
        for name, count in {"prompts": len(series), "answers": series.answers, "offered": self.offered}.items():
            yield f"# TYPE pluralrm_watch_{name}_total counter"
            yield f"pluralrm_watch_{name}_total {count}"
        for name, label, counts in (("dropped", "why", self.dropped), ("failures", "kind", self.folder.failures)):
            yield f"# TYPE pluralrm_watch_{name}_total counter"
            for key, count in sorted(dict(counts).items()):
                yield f'pluralrm_watch_{name}_total{{{label}="{key}"}} {count}'
        yield "# TYPE pluralrm_watch_alarms gauge"
        yield f"pluralrm_watch_alarms {len(series.alarms)}"
        yield "# TYPE pluralrm_watch_broken gauge"
        yield f"pluralrm_watch_broken {int(bool(self.problem))}"


def verdict(series: WatchSeries) -> str:
    """Return what the watch has to say, in one line."""
    seen = f"{len(series):,} prompts, {series.answers:,} answers"
    if not series.alarms:
        return f"no alarm after {seen}"
    return f"{len(series.alarms)} alarms after {seen}" if len(series.alarms) > 1 else f"an alarm after {seen}"


def alarm_text(alarm: WatchAlarm, series: WatchSeries) -> str:
    """Return an alarm with its numbers, the rate that it keeps, and what it cannot say."""
    return (
        f"{alarm.message}. Seen at watched prompt {alarm.look:,}, since about {alarm.since:,}. At most "
        f"{series.rate:.0%} of sane trainings set off any alarm; {NOTICE}"
    )


def summary(folder: WatchFolder) -> dict[str, object]:
    """Return what has been watched, and what went off."""
    series, manifest = folder.series, folder.manifest
    return {
        "prompts": len(series),
        "answers": series.answers,
        "next_look": series.next_look,
        "rate": series.rate,
        "alarms": [
            {**alarm._asdict(), "message": alarm_text(alarm, series), "read": series.suspects(alarm)}
            for alarm in series.alarms
        ],
        "second": manifest.second,
        "control": manifest.control,
        "failures": dict(folder.failures),
        "folder": str(folder.path),
    }
