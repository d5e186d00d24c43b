"""What a grid would take, before anything is scored: runs, tokens, GPU hours, memory, requests, cost."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.terminal import note, print_wrapped
from pluralrm.errors import SpecError
from pluralrm.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pluralrm.cli.options import ServerOptions
    from pluralrm.cli.score import GridOptions
    from pluralrm.core import Item, Query, RewardModel
    from pluralrm.http import Requests, Settings
    from pluralrm.models.declarations import Computing
    from pluralrm.runs import GridCell

_SAMPLE = 128
"""Items of a cell that are tokenized; the others count as their mean."""
_TIMED = 8
"""Items that are scored where the speed is measured."""
_MEASURE = "measure"

DRY_RUN = typer.Option(False, "--dry-run", help="Print runs, tokens, memory, calls and cost, and stop.")
RATE = typer.Option(
    "",
    "--tokens-per-second",
    metavar="N|measure",
    help="With --dry-run, for GPU hours: the speed of one copy of a local model; measure: time it here.",
    show_default=False,
)


def settings_of(served: "ServerOptions", rate: str, *, dry_run: bool) -> "Settings":
    """Return the settings of a run, or of its plan, which sends nothing; raise where --tokens-per-second is none."""
    if rate and not dry_run:
        raise SpecError("--tokens-per-second plans a run: wanted --dry-run beside it")
    if rate not in {"", _MEASURE} and _number(rate) is None:
        raise SpecError(f"--tokens-per-second is {rate!r}; wanted a number above 0, or {_MEASURE}")
    if not dry_run:
        return served.settings()
    from pluralrm.http import DryRun

    return replace(served.settings(), dry_run=DryRun())


def _number(text: str) -> float | None:
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if 0 < rate < float("inf") else None


class _Work(NamedTuple):
    """A cell and its items; `left` of them are not on disk."""

    cell: "GridCell"
    items: "list[Item]"
    left: int


def print_plan(cells: "Sequence[GridCell]", models: "Sequence[RewardModel]", grid: "GridOptions", rate: str) -> None:
    """Print what the open cells would take; every step is real but for requests and weights.

    The cells and models were opened with the grid's settings, those of a plan.
    """
    from pluralrm.models.declarations import Computing

    note_skipped(cells)
    works = [_work(cell, grid) for cell in cells if cell.skip is None]
    answers = sum(work.left * len(work.items[0].candidates) for work in works if work.items)
    done = sum(len(work.items) - work.left for work in works)
    on_disk = f"; {counted(done, 'item')} on disk already" if done else ""
    part = f"{grid.shard} of " if grid.shard else ""
    print_wrapped(f"{part}{counted(len(works), 'run')}, {answers:,} answers to score, in {grid.out}{on_disk}")
    parts, samples = [], dict[tuple[int, str], "list[Query]"]()
    for model in models:
        if isinstance(model, Computing):
            mine = [work for work in works if work.cell.model == model.spec and work.left]
            parts.append(_computed(model, [(work.left, _sampled(work, samples)) for work in mine], grid, rate))
            print_wrapped(_model_line(parts[-1], grid), indent="  ")
    if len(parts) > 1:
        print_wrapped(_model_line(_together(parts), grid), indent="  ")
    if grid.settings.dry_run is not None and (requests := grid.settings.dry_run.requests):
        _print_requests(requests, grid.settings)


def note_skipped(cells: "Sequence[GridCell]") -> None:
    """Say which runs cannot be, each reason once."""
    for reason, times in Counter(cell.skip for cell in cells if cell.skip is not None).items():
        note(f"skipped {counted(times, 'run')}: {reason}")


def _work(cell: "GridCell", grid: "GridOptions") -> _Work:
    from pluralrm.runs import dry_score
    from pluralrm.shards import dealt

    done, _ = dry_score(
        *(cell.benchmark, cell.model, cell.condition),
        out=grid.out,
        domains=grid.domains,
        limit=grid.limit,
        fresh=grid.fresh,
        settings=grid.settings,
        shard=grid.shard,
    )
    items = dealt(cell.benchmark.select(domains=grid.domains, limit=grid.limit), grid.shard)
    return _Work(cell, items, len(items) - done)


def _print_requests(requests: "Mapping[str, Requests]", settings: "Settings") -> None:
    from pluralrm.http import cost_of

    for model, tally in requests.items():
        sent = "" if tally.letters is None else f"; sends {_size(tally.letters)}"
        print_wrapped(f"{model}: {tally}{sent}", indent="  ")
    cost = cost_of(requests, settings.prices)
    print_wrapped(
        "cost: unknown: name prices with --prices" if cost is None else f"cost: {cost.least:.2f} to {cost.most:.2f}"
    )


# ---------------------------------------------------------------- models of weights


class _Computed(NamedTuple):
    """What a model takes: tokens, the longest conversation, seconds of one device, bytes of a copy and of text."""

    name: str
    tokens: float = 0
    longest: int = 0
    seconds: float = 0
    speed: float = 0
    memory: float = 0
    letters: float = 0


def _computed(
    model: "Computing", cells: "Sequence[tuple[int, list[Query]]]", grid: "GridOptions", rate: str
) -> _Computed:
    """Return what a model takes, given the items and a sample of queries of each cell; no weight is read."""
    tokens, letters, longest = 0.0, 0.0, 0
    for left, queries in cells:
        workload = model.workload(queries)
        tokens += left * workload.tokens / len(queries)
        letters += left * sum(map(_letters, queries)) / len(queries)
        longest = max(longest, workload.longest)
    name = grid.names.get(model.spec, model.spec)
    if not cells:
        return _Computed(name)
    speed = (_number(rate) or _measured(model, cells[-1][1][:_TIMED])) if rate else 0.0
    seconds = tokens / speed if speed else 0.0
    return _Computed(name, tokens, longest, seconds, speed, model.memory(longest), letters)


def _together(parts: "Sequence[_Computed]") -> _Computed:
    """Return what all models take together: the sums, and the largest copy."""
    tokens, seconds, letters = (sum(getattr(part, name) for part in parts) for name in ("tokens", "seconds", "letters"))
    longest, memory = (max(getattr(part, name) for part in parts) for name in ("longest", "memory"))
    speed = tokens / seconds if seconds else 0.0
    return _Computed(f"all {len(parts)} models", tokens, longest, seconds, speed, memory, letters)


def _model_line(part: _Computed, grid: "GridOptions") -> str:
    if not part.tokens:
        return f"{part.name}: nothing left to compute"
    parts = [f"{part.name}: about {_rounded(part.tokens)} tokens, the longest conversation {part.longest:,}"]
    if part.speed:
        parts.append(f"{_hours(part.seconds, max(1, grid.workers))} at {part.speed:,.0f} tokens/s")
    parts.append(f"a copy takes {_size(part.memory)}, and is sent {_size(part.letters)} of text in all")
    return "; ".join(parts)


def _sampled(work: _Work, samples: "dict[tuple[int, str], list[Query]]") -> "list[Query]":
    """Return the queries of some items of a cell, evenly from all; those of another model are the same."""
    condition, bench = work.cell.condition, work.cell.benchmark
    if (name := (id(bench), condition.spec)) not in samples:
        step = max(1, -(-len(work.items) // _SAMPLE))
        samples[name] = list(condition.queries(bench, work.items[::step]))
    return samples[name]


def _measured(model: "Computing", queries: "Sequence[Query]") -> float:
    """Return the tokens a second of one copy here; a first query reads the weights."""
    _drain(model.score(queries[:1]))
    began = time.perf_counter()
    _drain(model.score(queries))
    return model.workload(queries).tokens / (time.perf_counter() - began)


def _drain(stream: "Iterator[object]") -> None:
    for _ in stream:
        pass


def _letters(query: "Query") -> int:
    posts = () if query.user is None else query.user.posts
    return len(query.prompt) + sum(map(len, query.candidates)) + sum(len(post.text) for post in posts)


def _hours(seconds: float, copies: int) -> str:
    """Return GPU hours, and how long that takes with several copies."""
    total = f"{_duration(seconds)} of one device"
    return total if copies == 1 else f"{total}, {_duration(seconds / copies)} with {copies} copies"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def _rounded(number: float) -> str:
    for size, unit in ((1e9, " billion"), (1e6, " million")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:,.0f}"


def _size(number: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"
