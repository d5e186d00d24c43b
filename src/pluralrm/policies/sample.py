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

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Required, TypedDict, Unpack

from pluralrm.cluster import Cluster
from pluralrm.cluster.replicas import check_identity
from pluralrm.conditions import load_condition
from pluralrm.conditions.posts import PreparedQuery, Preparing
from pluralrm.core import OPEN_KINDS, Benchmark, Condition, Failure, Identified, Item
from pluralrm.digests import digest_list
from pluralrm.errors import ConditionError, ModelError, PoolError, ServiceError
from pluralrm.files import replace_file
from pluralrm.http import DryRun, Requests, Settings
from pluralrm.journal import LockedFolder, provenance
from pluralrm.ordered import in_order
from pluralrm.policies.policy import KINDS, AnswerRequest, ChatPolicy, Draw, Policy, PolicyAnswer, load_policy
from pluralrm.policies.pool import (
    ANSWERED,
    ATTEMPTS,
    FINAL,
    INPUTS,
    POOL,
    SAMPLES,
    Pool,
    PoolFolder,
    PoolManifest,
    Sample,
    checked_samples,
    content_hash,
    load_pool,
    pool_shard,
)
from pluralrm.progress import Shown
from pluralrm.runs import Progress
from pluralrm.runs.loop import check_selection
from pluralrm.runs.records import benchmark_facts, benchmark_record, item_in, keyed_lines
from pluralrm.runs.usage import Account, summed
from pluralrm.runs.verdicts import prepared
from pluralrm.shards import FolderMerger, FoundShard, Shard, dealt, gzip_lines, gzip_pieces, named_whole, united

Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What `sample` would do: samples of the pool, or shard, how many are on disk, the most tokens of the others."""

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


class SampleOptions(TypedDict, total=False):
    """How a pool is drawn; `sample_folder` says what each is."""

    draw: Draw | None
    domains: Sequence[str]
    limit: int | None
    fresh: bool
    settings: Settings | None
    on: Cluster | None
    progress: Tell | None


class DrawOptions(TypedDict, total=False):
    """What `pluralrm.sample` takes by name."""

    out: Required[str | Path]
    n: int
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    domains: Sequence[str]
    limit: int | None
    fresh: bool
    on: str
    settings: Settings | None
    progress: Shown


def sample(
    benchmark: Benchmark,
    policy: Policy | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    **options: Unpack[SampleOptions],
) -> Pool:
    """Draw the answers that the pool in the folder `out` lacks, and return it.

    Samples are on disk as they come. One that met an outage stays open and leaves the pool incomplete.
    """
    return load_pool(sample_folder(benchmark, policy, condition, out=out, **options), incomplete=True)


def sample_folder(  # noqa: PLR0913 - a verb of the package: each argument is a decision of its user
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
    on: Cluster | None = None,
    progress: Tell | None = None,
    shard: Shard | None = None,
) -> Path:
    """Draw the answers that a pool, or a shard of it, lacks, and return its folder.

    `fresh` removes the pool that is there; `settings` say how servers are asked, where a spec names one.
    """
    policy, condition = _opened(policy, condition, settings)
    draw, path = draw or Draw(), Path(out) if shard is None else shard.folder(Path(out))
    items = _selected(benchmark, condition, domains, limit)
    manifest = _manifest(benchmark, policy, condition, draw=draw, items=items, domains=domains, limit=limit)
    manifest = manifest.model_copy(update={"shard": shard})
    account = Account(policy, condition)
    try:
        with PoolFolder(path, manifest, account.tally, fresh=fresh) as folder:
            todo = [
                item
                for item in dealt(items, shard)
                if any((item.id, index) not in folder.done for index in range(draw.n))
            ]
            queries = prepared(condition, benchmark, todo) if todo else iter(())
            _keep(folder, _answers(policy, draw, queries, folder.done, on=on), _teller(folder, account, progress))
            folder.finish()
    except (ModelError, ServiceError) as exc:
        raise type(exc)(f"{policy.spec} under {condition.spec}: {exc}") from exc
    return path


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
    shard: Shard | None = None,
) -> SamplePlan:
    """Return what `sample` would do: all requests are written, counted and not sent, and nothing is written to disk.

    What it would refuse is refused here too. A condition that asks a model of its own is to be opened with the
    `dry_run` of the settings.
    """
    policy, condition = _opened(policy, condition, settings)
    draw, path = draw or Draw(), Path(out) if shard is None else shard.folder(Path(out))
    items = _selected(benchmark, condition, domains, limit)
    manifest = _manifest(benchmark, policy, condition, draw=draw, items=items, domains=domains, limit=limit)
    manifest, items = manifest.model_copy(update={"shard": shard}), dealt(items, shard)
    drawn: Mapping[str, Sequence[Sample]] = {}
    if not fresh and POOL.holds(path):
        earlier = POOL.read(path, shards=True)
        POOL.check_same(path, manifest.facts(), earlier.facts())
        drawn = checked_samples(path, earlier)
    done = {(item, sample.index) for item, several in drawn.items() for sample in several}
    total = len(items) * draw.n
    dry = (settings and settings.dry_run) or DryRun()
    before = dry.requests
    todo = [item for item in items if any((item.id, index) not in done for index in range(draw.n))]
    queries = prepared(condition, benchmark, todo)
    if isinstance(policy, ChatPolicy):
        policy = replace(policy, role=policy.role.dry(dry))
        deque(_answers(policy, draw, queries, done), maxlen=0)
    elif isinstance(condition, Preparing):
        deque(queries, maxlen=0)
    return SamplePlan(len(items), total, len(done), (total - len(done)) * draw.max_tokens, dry.since(before))


def _opened(policy: Policy | str, condition: Condition | str, settings: Settings | None) -> tuple[Policy, Condition]:
    if isinstance(policy, str):
        policy = load_policy(policy, settings=settings)
    if isinstance(condition, str):
        condition = load_condition(condition, cache=settings.cache if settings else None, settings=settings)
    return policy, condition


def _selected(benchmark: Benchmark, condition: Condition, domains: Sequence[str], limit: int | None) -> list[Item]:
    """Return the items to answer, or raise the error that names why there are none."""
    check_selection(benchmark, domains, limit)
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
    policy: Policy,
    draw: Draw,
    queries: Iterable[PreparedQuery],
    done: set[tuple[str, int]],
    *,
    on: Cluster | None = None,
) -> Iterator[tuple[AnswerRequest, PolicyAnswer | Failure]]:
    """Yield every ask that is not done with its answer, in order; where the condition failed, with that failure."""

    def sent(entry: tuple[AnswerRequest, Failure | None]) -> list[AnswerRequest]:
        return [entry[0]] if entry[1] is None else []

    draws = partial(policy.answer, draw=draw) if on is None or not _has_weights(policy) else _replicas(policy, draw, on)
    for (ask, failure), answers in in_order(_asks(draw, queries, done), sent, draws):
        yield ask, answers[0] if failure is None else failure


def _has_weights(policy: Policy) -> bool:
    """Return whether a cluster draws the answers; one that asks a server gains nothing there."""
    kind = KINDS.get(policy.spec.partition(":")[0])
    return kind is not None and kind.weights


Answers = Iterator[PolicyAnswer | Failure]


def _replicas(policy: Policy, draw: Draw, cluster: Cluster) -> Callable[[Iterable[AnswerRequest]], Answers]:
    """Return what has replicas of the policy answer; all answers to one prompt are drawn by one of them."""
    opens = partial(_open_replica, policy.spec, policy.identity, draw)
    pool = cluster.pool(policy.spec, opens, neural=True)

    def answer(asks: Iterable[AnswerRequest]) -> Answers:
        prompts = (list(several) for _, several in groupby(asks, key=lambda ask: ask.query.id))
        for _, answers in pool.answers(prompts):
            yield from answers

    return answer


def _open_replica(
    spec: str, identity: Mapping[str, str], draw: Draw
) -> Callable[[list[AnswerRequest]], list[PolicyAnswer | Failure]]:
    policy = load_policy(spec)
    check_identity(spec, policy.identity, identity)
    return partial(_listed, policy, draw)


def _listed(policy: Policy, draw: Draw, asks: list[AnswerRequest]) -> list[PolicyAnswer | Failure]:
    return list(policy.answer(asks, draw))


def _asks(
    draw: Draw, queries: Iterable[PreparedQuery], done: set[tuple[str, int]]
) -> Iterator[tuple[AnswerRequest, Failure | None]]:
    """Yield every ask that is not done, with the condition's failure where it has none to show."""
    for entry in queries:
        query = replace(entry.query, candidates=())  # no policy is shown a benchmark's answers
        for index in range(draw.n):
            if (query.id, index) not in done:
                yield AnswerRequest(query, index, draw.seed_of(query.id, index)), entry.failure


def _keep(
    folder: PoolFolder, answers: Iterable[tuple[AnswerRequest, PolicyAnswer | Failure]], update: Callable[[int], None]
) -> None:
    """Write samples as answers come; one that met an outage goes to attempts.jsonl and stays open."""
    still_open = 0
    update(still_open)
    for ask, answer in answers:
        if isinstance(answer, Failure) and answer.kind in OPEN_KINDS:
            folder.leave_open(ask.query.id, ask.index, answer)
            still_open += 1
        else:
            folder.add(_sampled(ask, answer), ask.query)
        update(still_open)


def _sampled(ask: AnswerRequest, answer: PolicyAnswer | Failure) -> Sample:
    if not isinstance(answer, Failure):
        return Sample(
            ask.query.id, ask.index, answer.text, answer.finish, answer.tokens, ask.seed, posts_kept=answer.posts_kept
        )
    return Sample(ask.query.id, ask.index, "", FINAL[answer.kind], None, ask.seed, answer.detail)


def _teller(folder: PoolFolder, account: Account, progress: Tell | None) -> Callable[[int], None]:
    """Return what tells the caller how far the pool is, given the number of open samples."""

    def update(still_open: int) -> None:
        if progress is not None:
            failed = sum(count for finish, count in folder.finishes.items() if finish not in ANSWERED)
            progress(Progress(len(folder.done), folder.size, failed, still_open, account.tally()))

    return update


class PoolMerger(FolderMerger[PoolManifest]):
    """Makes a pool of its shards: the bytes of its samples are those of a pool that one process drew."""

    kind = POOL

    def facts(self, folder: Path, manifest: PoolManifest) -> Mapping[str, object]:  # noqa: ARG002 - all in the manifest
        """Return what must be the same for a pool to be resumed."""
        listed = {"items": digest_list(manifest.items), "shard": ""}
        benchmark, selection = benchmark_facts(manifest.benchmark), manifest.selection.model_dump()
        return {**manifest.facts(), "benchmark": benchmark, "selection": selection, **listed}

    def label(self, manifest: PoolManifest) -> str:
        """Return who answered what."""
        return f"{manifest.benchmark.card.name} × {manifest.policy} × {manifest.condition}"

    def unfinished(self, folder: Path, manifest: PoolManifest) -> str:
        """Return how many samples a shard has that is not complete."""
        far = pool_shard(folder)
        if manifest.status != "complete":
            return f"{far.done:,} of {far.size:,} samples"
        if lost := set(manifest.own) - {item_in(line) for line in gzip_lines(folder / INPUTS)}:
            raise POOL.damaged(folder / INPUTS, f"it lacks the input of {len(lost):,} items, such as {min(lost)!r}")
        return ""

    def place(self, shard: FoundShard[PoolManifest]) -> Path:
        """Return the folder of the pool, as the shard's is called."""
        return Path(named_whole(shard.folder))

    def holds(self, folder: Path, shards: Sequence[FoundShard[PoolManifest]]) -> bool:
        """Return whether the pool is there, complete, with the samples of the shards."""
        if not POOL.holds(folder):
            return False
        there, drawn = load_pool(folder), self._samples(shards)
        if there.content_hash != content_hash(drawn):
            raise PoolError(
                f"{folder} holds a pool with other samples than those shards; merge into another folder (-o)"
            )
        return True

    def write(self, whole: LockedFolder[PoolManifest], shards: Sequence[FoundShard[PoolManifest]]) -> None:
        """Write every file under another name, then under its own; pool.json last."""
        items = shards[0].manifest.items
        inputs = [partial(keyed_lines, shard.folder / INPUTS) for shard in shards]
        replace_file(whole.path / INPUTS, gzip_pieces(united(items, inputs), POOL.effort))
        tried = [shard.folder / ATTEMPTS for shard in shards if (shard.folder / ATTEMPTS).exists()]
        if lines := [line for file in tried for line in file.read_bytes().splitlines(keepends=True)]:
            replace_file(whole.path / ATTEMPTS, sorted(lines, key=lambda line: str(json.loads(line)["at"])))
        order = ((item, index) for item in items for index in range(shards[0].manifest.draw.n))
        samples = [partial(keyed_lines, shard.folder / SAMPLES, "item", "index") for shard in shards]
        replace_file(whole.path / SAMPLES, united(order, samples))
        manifests = [shard.manifest for shard in shards]
        finishes = sum((Counter(manifest.finishes) for manifest in manifests), Counter[str]())
        update = {
            **summed(manifests),
            "samples": sum(manifest.samples for manifest in manifests),
            "finishes": dict(sorted(finishes.items())),
            "content_hash": content_hash(self._samples(shards)),
        }
        whole.write(manifests[0].model_copy(update=update))

    def _samples(self, shards: Sequence[FoundShard[PoolManifest]]) -> dict[str, tuple[Sample, ...]]:
        drawn = {
            item: samples for shard in shards for item, samples in checked_samples(shard.folder, shard.manifest).items()
        }
        return {item: drawn[item] for item in shards[0].manifest.items}
