"""The loop: queries in, verdicts out, rows on disk as they come. `plan` lays out a grid, `score` runs one cell."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from pluralrm.cluster import Cluster
from pluralrm.conditions import condition_role, load_condition
from pluralrm.conditions.posts import Preparing
from pluralrm.core import OPEN_KINDS, Benchmark, Condition, Identified, Item, Query, RewardModel, Row, Run, Verdict
from pluralrm.digests import prompt_id
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, RunError, ServiceError, did_you_mean
from pluralrm.http import Metered, Settings, Tally
from pluralrm.journal import provenance
from pluralrm.models import KINDS, misfit, parse_model, unsupported
from pluralrm.models.declarations import TrainedModel, reveals_of
from pluralrm.runs import records
from pluralrm.runs.records import RUN, RunManifest, cell_folder
from pluralrm.runs.store import RunFolder, is_intact, load_run, load_shard, scored_items
from pluralrm.runs.usage import Account
from pluralrm.runs.verdicts import Probed, answered, check_resumed, confirmed, prepared
from pluralrm.runs.workers import Scorer, noted_workers, on_cluster, open_scorer
from pluralrm.shards import Shard, ShardProgress, dealt, open_shard


@runtime_checkable
class Distant(Protocol):
    """A model whose identity only its server knows."""

    def fits(self, facts: Mapping[str, str]) -> bool:
        """Return whether the identity of an earlier run can be this model's, by what is known without asking."""
        ...


def is_complete(path: Path, manifest: RunManifest, model: object) -> bool:
    """Return whether a folder holds a complete run, or shard, of this work: nothing in it is opened for writing.

    The manifest of a model that would have to be asked who it is has the identity as far as that is known without.
    No old and new rows can mix here: there are no new ones. Who is behind the URL by now makes no difference to what
    was scored then.
    """
    if not RUN.holds(path):
        return False
    stored = RUN.read(path, shards=True)
    distant = isinstance(model, Distant)
    if distant:
        manifest = manifest.model_copy(update={"identity": {**stored.identity, **manifest.identity}})
    if manifest.differs_in(stored) or (isinstance(model, Distant) and not model.fits(stored.identity)):
        return False
    if not distant:
        return is_intact(path, stored) and manifest.name in {"", stored.name}
    try:
        if stored.shard is not None:
            return load_shard(path).complete and stored.status == "complete"
        run = load_run(path)
    except RunError:  # rows are missing, and are scored again; what cannot be mended so is refused on opening
        return False
    return run.complete and run.done == run.items


_DIGEST = 8
"""Letters of a candidate's digest in a row: enough among the candidates of one prompt."""
_GIVE_UP = 8
"""A model that crashes on each of its first items is broken: no row is written for it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, earlier processes included; `open` items met an outage and will be tried again.

    The first comes before the first verdict: what a model that loads slowly is at can be shown meanwhile.
    """

    done: int
    total: int
    failed: int
    open: int
    asked: Tally | None = None
    """What this process has asked of servers, where it asks any."""
    warning: str = ""
    """What is wrong with the results so far; said once, as soon as it shows."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """One model under one condition on one benchmark; `skip` says why it cannot be scored."""

    benchmark: Benchmark
    model: str
    condition: Condition
    skip: str | None = None

    @property
    def title(self) -> str:
        """What a display calls it."""
        return f"{self.benchmark.card.name} × {self.model} × {self.condition.spec}"


def plan(
    benchmarks: Sequence[Benchmark],
    models: Sequence[str],
    conditions: Sequence[str],
    *,
    settings: Settings | None = None,
) -> list[GridCell]:
    """Return every cell of the grid, in order; what a benchmark cannot support is skipped with the reason."""
    loaded = [_condition(text, settings) for text in dict.fromkeys(conditions)]
    names = [str(parse_model(text)) for text in dict.fromkeys(models)]
    return [
        GridCell(benchmark, model, condition, _why_not(benchmark, condition) or _not_for(model, benchmark, condition))
        for benchmark in benchmarks
        for condition in loaded
        for model in names
    ]


def _condition(text: str, settings: Settings | None) -> Condition:
    return load_condition(text, cache=settings.cache if settings else None, settings=settings)


def _why_not(benchmark: Benchmark, condition: Condition) -> str | None:
    if not all(item.grades for item in benchmark.items):
        return f"{benchmark.card.name} has prompts only: there is nothing to score"
    return condition.unsupported(benchmark)


def _not_for(model: str, benchmark: Benchmark, condition: Condition) -> str | None:
    return unsupported(model, condition) or misfit(model, benchmark)


T = TypeVar("T")
_BESIDE = 16
"""Cells that are scored side by side: more wait, and hold no queries meanwhile."""


def each_cell(
    cells: Sequence[GridCell], work: Callable[[GridCell], T], on: Cluster | None, settings: Settings | None = None
) -> Iterator[T]:
    """Yield what `work` makes of each cell, in order; on a cluster side by side, those of one model together.

    What asks a server, a model or a condition, is worked on here one after the other: its account is one, and so is the
    number of calls at once.
    """
    if on is None:
        yield from (work(cell) for cell in cells)
        return
    beside = [cell for cell in cells if on_cluster(cell.model) and not isinstance(cell.condition, Metered)]
    with ThreadPoolExecutor(_BESIDE) as threads:
        jobs = {
            id(cell): threads.submit(work, replace(cell, condition=_condition(cell.condition.spec, settings)))
            for cell in sorted(beside, key=lambda cell: cell.model)  # no condition is made for several threads
        }
        try:
            done = {id(cell): work(cell) for cell in cells if id(cell) not in jobs}
            for cell in cells:
                yield done[id(cell)] if id(cell) in done else jobs[id(cell)].result()
        except BaseException:
            for job in jobs.values():
                job.cancel()
            on.stop()
            raise


class CellOptions(TypedDict, total=False):
    """Which items of a cell are scored, and how."""

    domains: Sequence[str]
    limit: int | None
    workers: int
    devices: Sequence[str]
    fresh: bool
    settings: Settings | None


class LoopOptions(CellOptions, total=False):
    """What `score` takes by name; `score_cell` says what each is."""

    on: Cluster | None
    progress: Callable[[Progress], None] | None
    alias: str


def score(
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    **options: Unpack[LoopOptions],
) -> Run:
    """Score the items, resuming whatever is already on disk, and return the Run.

    Rows are on disk as verdicts arrive. An item that met an outage stays open and leaves the run incomplete.
    """
    run = load_run(score_cell(benchmark, model, condition, out=out, **options))
    return replace(run, name=options.get("alias", "") or run.name)


def score_shard(
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    shard: Shard | str,
    out: str | Path,
    **options: Unpack[LoopOptions],
) -> ShardProgress:
    """Score the items of one shard, resuming whatever is already on disk, and return how far it is."""
    return load_shard(score_cell(benchmark, model, condition, out=out, shard=open_shard(shard), **options))


def score_cell(  # noqa: PLR0913 - the verb of the package: each argument is a decision of its user
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    domains: Sequence[str] = (),
    limit: int | None = None,
    workers: int = 1,
    devices: Sequence[str] = (),
    on: Cluster | None = None,
    fresh: bool = False,
    settings: Settings | None = None,
    progress: Callable[[Progress], None] | None = None,
    alias: str = "",
    shard: Shard | None = None,
) -> Path:
    """Score the items of one cell of a grid, or of one shard of it, and return the folder.

    `fresh` removes what an earlier run left; `settings` say how servers are asked, where a spec names one. `alias` is
    what tables call the model.
    """
    condition = _condition(condition, settings) if isinstance(condition, str) else condition
    model = str(parse_model(model)) if isinstance(model, str) else model
    if isinstance(model, str) and (reason := _not_for(model, benchmark, condition)) is not None:
        raise ConditionError(reason)
    items = _selected(benchmark, condition, domains, limit)
    name = model if isinstance(model, str) else model.spec
    scorer = open_scorer(model, workers, settings, devices=devices, cluster=on)
    path = run_folder(out, benchmark, name, condition=condition, items=items)
    draft = _manifest(
        benchmark, name, _identity_of(condition), condition=condition, items=items, domains=domains, limit=limit
    )
    draft = draft.model_copy(update={"name": alias, "shard": shard})
    path, own = path if shard is None else shard.folder(path), dealt(items, shard)
    manifest = draft if isinstance(scorer.model, Distant) else _of_model(draft, scorer, benchmark)
    if not fresh and is_complete(path, manifest, scorer.model):
        return path
    manifest = _with_probes(_of_model(manifest, scorer, benchmark), scorer.model, None if fresh else path)
    account = Account(scorer, condition)
    try:
        with RunFolder(
            path, manifest, account.tally, items=(open_row(item, benchmark) for item in items), fresh=fresh
        ) as folder:
            todo = [item for item in own if item.id not in folder.done]
            if todo:
                with scorer, noted_workers(folder.path, lambda: scorer.workers):
                    entries = answered(scorer.verdicts, prepared(condition, benchmark, todo))
                    entries = confirmed(scorer.model, entries, base=manifest.probes)
                    update = _teller(folder, len(own), account, progress)
                    _keep(folder, benchmark, zip(todo, entries, strict=True), update)
            folder.finish(expected=len(own))
    except (ConditionError, ModelError, ServiceError) as exc:
        raise type(exc)(f"{name} under {condition.spec}: {exc}") from exc
    return path


def dry_score(  # noqa: PLR0913 - the arguments of `score` that a dry run needs
    benchmark: Benchmark,
    model: str,
    condition: Condition,
    *,
    out: str | Path,
    domains: Sequence[str] = (),
    limit: int | None = None,
    fresh: bool = False,
    settings: Settings,
    shard: Shard | None = None,
) -> tuple[int, int]:
    """Ask all that `score` would ask by the dry run of the settings; return how many items are on disk, of how many.

    The condition was opened with these settings. Nothing is written; a model that asks no server is not computed.
    """
    items = _selected(benchmark, condition, domains, limit)
    path = run_folder(out, benchmark, model, condition=condition, items=items)
    path, items = path if shard is None else shard.folder(path), dealt(items, shard)
    done = scored_items(path) if RUN.holds(path) and not fresh else set()
    if todo := [item for item in items if item.id not in done]:
        queries = prepared(condition, benchmark, todo)
        if KINDS[parse_model(model).kind].served:
            deque(answered(open_scorer(model, 1, settings).verdicts, queries), maxlen=0)
        elif isinstance(condition, Preparing):
            deque(queries, maxlen=0)
    return len(done), len(items)


def run_folder(
    out: str | Path, benchmark: Benchmark, model: str, *, condition: Condition, items: Sequence[Item]
) -> Path:
    """Return `OUT/<benchmark>/<model>/<condition>-<hash8>`; the hash covers all that shapes the rows."""
    record = records.benchmark_record(benchmark)
    return Path(out) / cell_folder(record, model, condition.spec, [item.id for item in items])


def _selected(benchmark: Benchmark, condition: Condition, domains: Sequence[str], limit: int | None) -> list[Item]:
    """Return the items to score, or raise the error that names why there are none."""
    check_selection(benchmark, domains, limit)
    if (reason := _why_not(benchmark, condition)) is not None:
        raise ConditionError(reason)
    return benchmark.select(domains=domains, limit=limit)


def check_selection(benchmark: Benchmark, domains: Sequence[str], limit: int | None) -> None:
    """Raise where a domain is unknown, or the limit below 1."""
    for domain in domains:
        if domain not in benchmark.domains:
            hint = did_you_mean(domain, benchmark.domains)
            raise BenchmarkError(f"{benchmark.card.name} has no domain {domain!r}.{hint}")
    if limit is not None and limit < 1:
        raise BenchmarkError(f"limit is {limit}; wanted at least 1")


def _manifest(
    benchmark: Benchmark,
    model: str,
    facts: Mapping[str, str],
    *,
    condition: Condition,
    items: Sequence[Item],
    domains: Sequence[str],
    limit: int | None,
) -> RunManifest:
    return RunManifest.model_validate(
        {
            "status": "incomplete",
            "model": model,
            "identity": facts,
            "benchmark": records.benchmark_record(benchmark),
            "condition": condition.spec,
            "condition_role": asdict(condition_role(condition)),
            "reveals": sorted(condition.reveals),
            "selection": {"items": len(items), "domains": tuple(domains), "limit": limit},
            **provenance(),
        }
    )


def _of_model(manifest: RunManifest, scorer: Scorer, benchmark: Benchmark) -> RunManifest:
    """Return the manifest with what the model tells of itself: who it is, what it knows, how it was fitted, on what."""
    model = scorer.model
    fitted = records.training_record(model.training, model.met(benchmark)) if isinstance(model, TrainedModel) else None
    return manifest.model_copy(
        update={
            "identity": {**scorer.identity, **manifest.identity},
            "reveals": tuple(sorted({*manifest.reveals, *reveals_of(model)})),
            "training": fitted,
        }
    )


def _with_probes(manifest: RunManifest, model: RewardModel, path: Path | None) -> RunManifest:
    """Return the manifest with the scores of the probes when the run began; raise where the server gives others now."""
    if not isinstance(model, Probed):
        return manifest
    base = RUN.read(path, shards=True).probes if path is not None and RUN.holds(path) else ()
    if path is not None:
        check_resumed(model, base, path)
    return manifest.model_copy(update={"probes": base or tuple(model.probes)})


def _identity_of(condition: Condition) -> dict[str, str]:
    """Return what must not change in a condition that works with a model of its own, such as an encoder."""
    facts = condition.identity if isinstance(condition, Identified) else {}
    return {f"condition {name}": fact for name, fact in facts.items()}


def _teller(
    folder: RunFolder, total: int, account: Account, progress: Callable[[Progress], None] | None
) -> Callable[[int], None]:
    """Return what tells the caller how far the run is, given the number of open items."""

    def update(still_open: int) -> None:
        if progress is not None:
            progress(Progress(len(folder.done), total, folder.failed, still_open, account.tally()))

    return update


def _keep(
    folder: RunFolder,
    benchmark: Benchmark,
    answered: Iterable[tuple[Item, tuple[Query, Verdict]]],
    update: Callable[[int], None],
) -> None:
    """Write rows as verdicts come; an item that met an outage goes to attempts.jsonl and stays open."""
    still_open = 0
    update(still_open)
    for item, (query, verdict) in _unless_broken(answered, patient=bool(folder.done)):
        if any(failure.kind in OPEN_KINDS for failure in verdict.failures):
            folder.leave_open(item.id, verdict)
            still_open += 1
        else:
            folder.add(item_row(item, query, verdict, benchmark), query, verdict)
        update(still_open)


def _unless_broken(
    answered: Iterable[tuple[Item, tuple[Query, Verdict]]], *, patient: bool
) -> Iterator[tuple[Item, tuple[Query, Verdict]]]:
    """Pass everything on, but hold leading crashes back: a model that only crashes is an error, not a result."""
    waiting: list[tuple[Item, tuple[Query, Verdict]]] = []
    reason = ""
    for entry in answered:
        _, (_, verdict) = entry
        crashes = [failure.detail for failure in verdict.failures if failure.kind == "crash"]
        if patient or not crashes:
            patient = True
            yield from waiting
            waiting = []
            yield entry
            continue
        waiting.append(entry)
        reason = crashes[0]
        if len(waiting) == _GIVE_UP:
            break
    if waiting:
        raise ModelError(
            f"the model crashed on each of its first {len(waiting)} items; the last: {reason}. Nothing was written. "
            "Mend the model: 'pluralrm check' tries it on a few items"
        )


def open_row(item: Item, benchmark: Benchmark) -> Row:
    """Return the row of an item as it counts until it is scored."""
    verdict = Verdict.failed("missing", "no row yet", len(item.candidates))
    return replace(item_row(item, Query(item.id, "", ()), verdict, benchmark), input_hash="", pairs=None)


def item_row(item: Item, query: Query, verdict: Verdict, benchmark: Benchmark) -> Row:
    """Return the row of an item that was shown so and scored so, with what the benchmark knows of its people."""
    posts = 0 if query.user is None else len(query.user.posts)
    if not item.grades:
        raise BenchmarkError(f"item {item.id!r} has no label; leave it out, for nothing could be right or wrong on it")
    others = benchmark.other_votes.get(item.id, ())
    return Row(
        item=item.id,
        cluster=item.cluster,
        domain=item.domain,
        preferred=item.preferred,
        scores=verdict.scores,
        candidate_ids=item.candidate_ids,
        lengths=tuple(map(len, item.candidates)),
        tags={**item.tags, **benchmark.group_traits.get(item.user.id, {})} if item.user else item.tags,
        votes=verdict.votes,
        posts=posts if verdict.posts_kept is None else verdict.posts_kept,
        input_hash=records.query_hash(query),
        pairs=0 if query.user is None else len(query.user.pairs),
        lenders=0 if query.user is None else len(query.user.lenders),
        traits=0 if query.user is None else len(query.user.traits),
        prompt=item.crossed,
        grades=item.grades,
        others=others,
        digests=tuple(prompt_id(text)[:_DIGEST] for text in item.candidates) if others else (),
    )
