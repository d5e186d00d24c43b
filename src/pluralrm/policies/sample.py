"""`sample`: N answers per item from a policy under a condition, into a Pool; what is on disk is not drawn again.

>>> import tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.chat import ScriptedChat
>>> from pluralrm.policies.policy import open_chat
>>> policy = open_chat("chat:scripted", chat=ScriptedChat(lambda request: f"Rye, says {request.tag}."))
>>> pool = sample(load_benchmark("pocket-prb"), policy, out=tempfile.mkdtemp(), draw=Draw(n=2), limit=3)
>>> len(pool.samples), pool.n, pool.complete
(3, 2, True)
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pluralrm.conditions import load_condition
from pluralrm.conditions.notes import PreparedQuery, Preparing
from pluralrm.core import OPEN_KINDS, Benchmark, Condition, Failure, Identified, Item
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, ServiceError, did_you_mean
from pluralrm.http import DryRun, Requests, Settings
from pluralrm.journal import provenance
from pluralrm.ordered import in_order
from pluralrm.policies.policy import AnswerRequest, ChatPolicy, Draw, Policy, PolicyAnswer, load_policy
from pluralrm.policies.pool import ANSWERED, FINAL, POOL, Pool, PoolFolder, PoolManifest, Sample, load_pool
from pluralrm.runs import Progress
from pluralrm.runs.records import benchmark_record
from pluralrm.runs.usage import Account
from pluralrm.runs.verdicts import prepared

Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What `sample` would do: samples of the whole pool, how many are on disk, the most tokens of the others."""

    items: int
    wanted: int
    done: int
    max_tokens: int
    requests: Mapping[str, Requests] = field(default_factory=dict)
    """What servers would be asked, by model: the policy, and who writes for the condition."""

    @property
    def calls(self) -> int:
        """How many answers are still to be drawn."""
        return self.wanted - self.done


def sample(  # noqa: PLR0913 - a verb of the package: each argument is a decision of its user
    benchmark: Benchmark,
    policy: Policy | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    draw: Draw | None = None,
    domains: Sequence[str] = (),
    limit: int | None = None,
    fresh: bool = False,
    settings: Settings | None = None,
    progress: Tell | None = None,
) -> Pool:
    """Draw the answers that the pool in the folder `out` lacks, and return it.

    Samples are on disk as they come. One that met an outage stays open and leaves the pool incomplete. `fresh` removes
    the pool that is there; `settings` say how servers are asked, where a spec names one.
    """
    policy, condition = _opened(policy, condition, settings)
    draw, path = draw or Draw(), Path(out)
    items = _selected(benchmark, condition, domains, limit)
    manifest = _manifest(benchmark, policy, condition, draw=draw, items=items, domains=domains, limit=limit)
    account = Account(policy, condition)
    try:
        with PoolFolder(path, manifest, account.tally, fresh=fresh) as folder:
            todo = [item for item in items if any((item.id, index) not in folder.done for index in range(draw.n))]
            made = prepared(condition, benchmark, todo) if todo else iter(())
            _keep(folder, _answers(policy, draw, made, folder.done), _teller(folder, account, progress))
            folder.finish()
    except (ModelError, ServiceError) as exc:
        raise type(exc)(f"{policy.spec} under {condition.spec}: {exc}") from exc
    return load_pool(path, incomplete=True)


def sample_plan(  # noqa: PLR0913 - the arguments of `sample` that a plan needs
    benchmark: Benchmark,
    policy: Policy | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    draw: Draw | None = None,
    domains: Sequence[str] = (),
    limit: int | None = None,
    fresh: bool = False,
    settings: Settings | None = None,
) -> SamplePlan:
    """Return what `sample` would do: all requests are written, counted and not sent, and nothing is written to disk.

    What it would refuse is refused here too. A condition that asks a model of its own is to be opened with the
    `dry_run` of the settings.
    """
    policy, condition = _opened(policy, condition, settings)
    draw, path = draw or Draw(), Path(out)
    items = _selected(benchmark, condition, domains, limit)
    manifest = _manifest(benchmark, policy, condition, draw=draw, items=items, domains=domains, limit=limit)
    drawn: Mapping[str, Sequence[Sample]] = {}
    if not fresh and POOL.holds(path):
        POOL.check_same(path, manifest.facts(), POOL.read(path).facts())
        drawn = load_pool(path, incomplete=True).samples
    done = {(item, sample.index) for item, several in drawn.items() for sample in several}
    wanted = len(items) * draw.n
    dry = (settings and settings.dry_run) or DryRun()
    before = dry.requests
    todo = [item for item in items if any((item.id, index) not in done for index in range(draw.n))]
    made = prepared(condition, benchmark, todo)
    if isinstance(policy, ChatPolicy):
        policy = replace(policy, role=policy.role.dry(dry))
        deque(_answers(policy, draw, made, done), maxlen=0)
    elif isinstance(condition, Preparing):
        deque(made, maxlen=0)
    return SamplePlan(len(items), wanted, len(done), (wanted - len(done)) * draw.max_tokens, dry.since(before))


def _opened(policy: Policy | str, condition: Condition | str, settings: Settings | None) -> tuple[Policy, Condition]:
    if isinstance(policy, str):
        policy = load_policy(policy, settings=settings)
    if isinstance(condition, str):
        condition = load_condition(condition, cache=settings.cache if settings else None, settings=settings)
    return policy, condition


def _selected(benchmark: Benchmark, condition: Condition, domains: Sequence[str], limit: int | None) -> list[Item]:
    """Return the items to answer, or raise the error that names why there are none."""
    for domain in domains:
        if domain not in benchmark.domains:
            hint = did_you_mean(domain, benchmark.domains)
            raise BenchmarkError(f"{benchmark.card.name} has no domain {domain!r}.{hint}")
    if limit is not None and limit < 1:
        raise BenchmarkError(f"limit is {limit}; wanted at least 1")
    if (reason := condition.unsupported(benchmark)) is not None:
        raise ConditionError(reason)
    return benchmark.select(domains=domains, limit=limit)


def _manifest(
    benchmark: Benchmark,
    policy: Policy,
    condition: Condition,
    *,
    draw: Draw,
    items: Sequence[Item],
    domains: Sequence[str],
    limit: int | None,
) -> PoolManifest:
    facts = condition.identity if isinstance(condition, Identified) else {}
    return PoolManifest.model_validate(
        {
            "status": "incomplete",
            "policy": policy.spec,
            "identity": {**policy.identity, **{f"condition {name}": fact for name, fact in facts.items()}},
            "benchmark": benchmark_record(benchmark),
            "condition": condition.spec,
            "reveals": sorted(condition.reveals),
            "selection": {"items": len(items), "domains": tuple(domains), "limit": limit},
            "items": tuple(item.id for item in items),
            "draw": {name: getattr(draw, name) for name in Draw.__dataclass_fields__},
            **provenance(),
        }
    )


def _answers(
    policy: Policy, draw: Draw, made: Iterable[PreparedQuery], done: set[tuple[str, int]]
) -> Iterator[tuple[AnswerRequest, PolicyAnswer | Failure]]:
    """Yield every ask that is not done with its answer, in order; where the condition failed, with that failure."""

    def sent(entry: tuple[AnswerRequest, Failure | None]) -> list[AnswerRequest]:
        return [entry[0]] if entry[1] is None else []

    for (ask, failure), said in in_order(_asks(draw, made, done), sent, lambda asks: policy.answer(asks, draw)):
        yield ask, said[0] if failure is None else failure


def _asks(
    draw: Draw, made: Iterable[PreparedQuery], done: set[tuple[str, int]]
) -> Iterator[tuple[AnswerRequest, Failure | None]]:
    """Yield every ask that is not done, with the condition's failure where it has none to show."""
    for one in made:
        query = replace(one.query, candidates=())  # no policy is shown a benchmark's answers
        for index in range(draw.n):
            if (query.id, index) not in done:
                yield AnswerRequest(query, index, draw.seed_of(query.id, index)), one.failure


def _keep(
    folder: PoolFolder, answers: Iterable[tuple[AnswerRequest, PolicyAnswer | Failure]], tell: Callable[[int], None]
) -> None:
    """Write samples as answers come; one that met an outage goes to attempts.jsonl and stays open."""
    still_open = 0
    tell(still_open)
    for ask, said in answers:
        if isinstance(said, Failure) and said.kind in OPEN_KINDS:
            folder.leave_open(ask.query.id, ask.index, said)
            still_open += 1
        else:
            folder.add(_sampled(ask, said), ask.query)
        tell(still_open)


def _sampled(ask: AnswerRequest, said: PolicyAnswer | Failure) -> Sample:
    if not isinstance(said, Failure):
        return Sample(
            ask.query.id, ask.index, said.text, said.finish, said.tokens, ask.seed, posts_kept=said.posts_kept
        )
    return Sample(ask.query.id, ask.index, "", FINAL[said.kind], None, ask.seed, said.detail)


def _teller(folder: PoolFolder, account: Account, progress: Tell | None) -> Callable[[int], None]:
    """Return what tells the caller how far the pool is, given the number of open samples."""

    def tell(still_open: int) -> None:
        if progress is not None:
            failed = sum(count for finish, count in folder.finishes.items() if finish not in ANSWERED)
            progress(Progress(len(folder.done), folder.size, failed, still_open, account.tally()))

    return tell
