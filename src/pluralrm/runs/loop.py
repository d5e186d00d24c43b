"""The loop: queries in, verdicts out, rows on disk as they come. `plan` lays out a grid, `score` runs one cell."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from pluralrm.conditions import condition_role, load_condition
from pluralrm.conditions.notes import Preparing
from pluralrm.core import (
    OPEN_KINDS,
    Benchmark,
    Condition,
    Identified,
    Item,
    Query,
    RewardModel,
    Row,
    Run,
    Verdict,
    digest,
)
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, RunError, ServiceError, did_you_mean
from pluralrm.http import Settings, Tally
from pluralrm.journal import provenance
from pluralrm.models import KINDS, misfit, parse_model, unsupported
from pluralrm.models.declarations import TrainedModel, reveals_of
from pluralrm.runs import records
from pluralrm.runs.records import RUN, RunManifest
from pluralrm.runs.store import RunFolder, load_run, scored_items
from pluralrm.runs.usage import Account
from pluralrm.runs.verdicts import Probed, answered, check_resumed, confirmed, prepared
from pluralrm.runs.workers import LocalScorer, WorkerPool, open_scorer


@runtime_checkable
class Distant(Protocol):
    """A model whose identity only its server knows."""

    def fits(self, facts: Mapping[str, str]) -> bool:
        """Return whether the identity of an earlier run can be this model's, by what is known without asking."""
        ...


def complete_run(path: Path, wanted: RunManifest, model: object) -> Run | None:
    """Return the complete run in a folder where its model would have to be asked who it is; None otherwise.

    `wanted` has the identity as far as it is known without the model. No old and new rows can mix here: there are no
    new ones. Who is behind the URL by now makes no difference to what was scored then.
    """
    if not isinstance(model, Distant) or not RUN.holds(path):
        return None
    kept = RUN.read(path)
    known = wanted.model_copy(update={"identity": {**kept.identity, **wanted.identity}})
    if known.differs_in(kept) or not model.fits(kept.identity):
        return None
    try:
        run = load_run(path)
    except RunError:  # rows are missing, and are scored again; what cannot be mended so is refused on opening
        return None
    return run if run.complete and run.done == run.items else None


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


def plan(
    benchmarks: Sequence[Benchmark],
    models: Sequence[str],
    conditions: Sequence[str],
    *,
    settings: Settings | None = None,
) -> list[GridCell]:
    """Return every cell of the grid, in order; what a benchmark cannot support is skipped with the reason."""
    shown = [_condition(text, settings) for text in dict.fromkeys(conditions)]
    named = [str(parse_model(text)) for text in dict.fromkeys(models)]
    return [
        GridCell(benchmark, model, condition, _why_not(benchmark, condition) or _not_for(model, benchmark, condition))
        for benchmark in benchmarks
        for condition in shown
        for model in named
    ]


def _condition(text: str, settings: Settings | None) -> Condition:
    return load_condition(text, cache=settings.cache if settings else None, settings=settings)


def _why_not(benchmark: Benchmark, condition: Condition) -> str | None:
    if any(item.preferred is None for item in benchmark.items):
        return f"{benchmark.card.name} has prompts only: there is nothing to score"
    return condition.unsupported(benchmark)


def _not_for(model: str, benchmark: Benchmark, condition: Condition) -> str | None:
    return unsupported(model, condition) or misfit(model, benchmark)


def score(  # noqa: PLR0913 - the verb of the package: each argument is a decision of its user
    benchmark: Benchmark,
    model: RewardModel | str,
    condition: Condition | str = "none",
    *,
    out: str | Path,
    domains: Sequence[str] = (),
    limit: int | None = None,
    workers: int = 1,
    fresh: bool = False,
    settings: Settings | None = None,
    progress: Callable[[Progress], None] | None = None,
    alias: str = "",
) -> Run:
    """Score the items, resuming whatever is already on disk, and return the Run.

    Rows are on disk as verdicts arrive. An item that met an outage stays open and leaves the run incomplete.
    `fresh` removes what an earlier run left; `settings` say how servers are asked, where a spec names one. `alias` is
    what tables call the model.
    """
    condition = _condition(condition, settings) if isinstance(condition, str) else condition
    model = str(parse_model(model)) if isinstance(model, str) else model
    if isinstance(model, str) and (reason := _not_for(model, benchmark, condition)) is not None:
        raise ConditionError(reason)
    items = _selected(benchmark, condition, domains, limit)
    name = model if isinstance(model, str) else model.spec
    scorer = open_scorer(model, workers, settings)
    path = run_folder(out, benchmark, name, condition=condition, items=items)
    known = _manifest(
        benchmark, name, _identity_of(condition), condition=condition, items=items, domains=domains, limit=limit
    )
    known = known.model_copy(update={"name": alias})
    if not fresh and (run := complete_run(path, known, scorer.model)) is not None:
        return replace(run, name=alias or run.name)
    manifest = _with_probes(_of_model(known, scorer, benchmark), scorer.model, None if fresh else path)
    account = Account(scorer, condition)
    try:
        with RunFolder(path, manifest, account.tally, items=list(map(_open_row, items)), fresh=fresh) as folder:
            todo = [item for item in items if item.id not in folder.done]
            if todo:
                with scorer:
                    entries = answered(scorer.verdicts, prepared(condition, benchmark, todo))
                    entries = confirmed(scorer.model, entries, base=manifest.probes)
                    tell = _teller(folder, len(items), account, progress)
                    _keep(folder, zip(todo, entries, strict=True), tell)
            folder.finish(expected=len(items))
    except (ConditionError, ModelError, ServiceError) as exc:
        raise type(exc)(f"{name} under {condition.spec}: {exc}") from exc
    return load_run(path)


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
) -> tuple[int, int]:
    """Ask all that `score` would ask by the dry run of the settings; return how many items are on disk, of how many.

    The condition was opened with these settings. Nothing is written; a model that asks no server is not computed.
    """
    items = _selected(benchmark, condition, domains, limit)
    path = run_folder(out, benchmark, model, condition=condition, items=items)
    done = scored_items(path) if RUN.holds(path) and not fresh else set()
    if todo := [item for item in items if item.id not in done]:
        made = prepared(condition, benchmark, todo)
        if KINDS[parse_model(model).kind].served:
            deque(answered(open_scorer(model, 1, settings).verdicts, made), maxlen=0)
        elif isinstance(condition, Preparing):
            deque(made, maxlen=0)
    return len(done), len(items)


def run_folder(
    out: str | Path, benchmark: Benchmark, model: str, *, condition: Condition, items: Sequence[Item]
) -> Path:
    """Return `OUT/<benchmark>/<model>/<condition>-<hash8>`; the hash covers all that shapes the rows."""
    shape = [benchmark.content_hash, benchmark.seed, model, condition.spec, [item.id for item in items]]
    return Path(out) / slug(benchmark.card.name) / slug(model) / f"{slug(condition.spec)}-{digest(shape)[:8]}"


def slug(text: str) -> str:
    """Return a text as a part of a path: what could mean something there becomes a hyphen."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", text).strip("-.")[:80] or "x"


def _selected(benchmark: Benchmark, condition: Condition, domains: Sequence[str], limit: int | None) -> list[Item]:
    """Return the items to score, or raise the error that names why there are none."""
    for domain in domains:
        if domain not in benchmark.domains:
            hint = did_you_mean(domain, benchmark.domains)
            raise BenchmarkError(f"{benchmark.card.name} has no domain {domain!r}.{hint}")
    if limit is not None and limit < 1:
        raise BenchmarkError(f"limit is {limit}; wanted at least 1")
    if (reason := _why_not(benchmark, condition)) is not None:
        raise ConditionError(reason)
    return benchmark.select(domains=domains, limit=limit)


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


def _of_model(known: RunManifest, scorer: LocalScorer | WorkerPool, benchmark: Benchmark) -> RunManifest:
    """Return the manifest with what the model tells of itself: who it is, what it knows, how it was fitted, on what."""
    model = scorer.model
    fitted = records.training_record(model.training, model.met(benchmark)) if isinstance(model, TrainedModel) else None
    return known.model_copy(
        update={
            "identity": {**scorer.identity, **known.identity},
            "reveals": tuple(sorted({*known.reveals, *reveals_of(model)})),
            "training": fitted,
        }
    )


def _with_probes(manifest: RunManifest, model: RewardModel, path: Path | None) -> RunManifest:
    """Return the manifest with the scores of the probes when the run began; raise where the server gives others now."""
    if not isinstance(model, Probed):
        return manifest
    base = RUN.read(path).probes if path is not None and RUN.holds(path) else ()
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

    def tell(still_open: int) -> None:
        if progress is not None:
            progress(Progress(len(folder.done), total, folder.failed, still_open, account.tally()))

    return tell


def _keep(
    folder: RunFolder,
    answered: Iterable[tuple[Item, tuple[Query, Verdict]]],
    tell: Callable[[int], None],
) -> None:
    """Write rows as verdicts come; an item that met an outage goes to attempts.jsonl and stays open."""
    still_open = 0
    tell(still_open)
    for item, (query, verdict) in _unless_broken(answered, patient=bool(folder.done)):
        if any(failure.kind in OPEN_KINDS for failure in verdict.failures):
            folder.leave_open(item.id, verdict)
            still_open += 1
        else:
            folder.add(_row(item, query, verdict), query, verdict)
        tell(still_open)


def _unless_broken(
    answered: Iterable[tuple[Item, tuple[Query, Verdict]]], *, patient: bool
) -> Iterator[tuple[Item, tuple[Query, Verdict]]]:
    """Pass everything on, but hold leading crashes back: a model that only crashes is an error, not a result."""
    held: list[tuple[Item, tuple[Query, Verdict]]] = []
    reason = ""
    for entry in answered:
        _, (_, verdict) = entry
        crashes = [failure.detail for failure in verdict.failures if failure.kind == "crash"]
        if patient or not crashes:
            patient = True
            yield from held
            held = []
            yield entry
            continue
        held.append(entry)
        reason = crashes[0]
        if len(held) == _GIVE_UP:
            break
    if held:
        raise ModelError(
            f"the model crashed on each of its first {len(held)} items; the last: {reason}. Nothing was written. "
            "Mend the model: 'pluralrm check' tries it on a few items"
        )


def _open_row(item: Item) -> Row:
    """Return the row of an item as it counts until it is scored."""
    verdict = Verdict.failed("missing", "no row yet", len(item.candidates))
    return replace(_row(item, Query(item.id, "", ()), verdict), input_hash="", pairs=None)


def _row(item: Item, query: Query, verdict: Verdict) -> Row:
    shown = 0 if query.user is None else len(query.user.posts)
    if item.preferred is None:
        raise BenchmarkError(f"item {item.id!r} has no label; leave it out, for nothing could be right or wrong on it")
    return Row(
        item=item.id,
        cluster=item.cluster,
        domain=item.domain,
        preferred=item.preferred,
        scores=verdict.scores,
        candidate_ids=item.candidate_ids,
        lengths=tuple(map(len, item.candidates)),
        tags=item.tags,
        votes=verdict.votes,
        posts=shown if verdict.posts_kept is None else verdict.posts_kept,
        input_hash=records.query_hash(query),
        pairs=0 if query.user is None else len(query.user.pairs),
        lenders=0 if query.user is None else len(query.user.lenders),
        prompt=item.crossed,
    )
