"""The run folder: append, sync, recover. Nothing acknowledged is lost, nothing is written twice.

run.json              where the rows came from; status `incomplete` from the first moment, `complete` at the end
items.jsonl.gz        the row of each item as it counts until there is another: failed, for it is missing
rows.jsonl            one line per item; a torn last line is dropped on opening, nothing else is
attempts.jsonl        items that stay open: transport, deadline, budget
inputs.jsonl.gz       exactly what the model was given, one gzip member per synced chunk
transcripts.jsonl.gz  exactly what it was sent and said, where it is a model that talks
workers.txt           while other processes compute: how many there are, and how many died
"""

import gc
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path

from pluralrm.core import ConditionRole, Query, Row, Run, Verdict
from pluralrm.digests import digest_list, prompt_id
from pluralrm.errors import RunError, SpecError, check_type
from pluralrm.files import members, remove_contents, replace_file
from pluralrm.folders import file_hash
from pluralrm.http import Tally
from pluralrm.journal import MERGE, LockedFolder, json_line, parse_document, parse_json
from pluralrm.runs import records
from pluralrm.runs.records import (
    ATTEMPTS,
    GATE,
    INPUTS,
    ITEMS,
    ROWS,
    RUN,
    TRANSCRIPTS,
    AttemptRecord,
    GateRecord,
    RunManifest,
)
from pluralrm.runs.rows import ItemRows, Items, read_items, read_rows
from pluralrm.runs.usage import MeteredFolder, outages, summed
from pluralrm.shards import FolderMerger, FoundShard, ShardProgress, gzip_lines, gzip_pieces, is_merged, united
from pluralrm.text import counted, listed


class RunFolder(MeteredFolder[RunManifest]):
    """One run, open for writing; `items` are the rows of all items as they count until they are scored.

    They are read only where the folder has none.
    """

    def __init__(
        self,
        path: Path,
        manifest: RunManifest,
        usage: Callable[[], Tally | None] = lambda: None,
        *,
        items: Iterable[Row],
        fresh: bool = False,
    ) -> None:
        super().__init__(path, RUN, manifest, usage, fresh=fresh)
        self._items = items
        self.done: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.failed = 0

    def _remove(self) -> None:
        remove_contents(self.path, last=MERGE if (self.path / MERGE).exists() else RUN.manifest)

    @property
    def _lines(self) -> int:
        return len(self.done)

    def _counts(self) -> dict[str, object]:
        return {"rows": len(self.done), "failures": dict(sorted(self.failures.items())), "rows_hash": ""}

    def _adopt(self, earlier: RunManifest) -> None:
        values = {name: getattr(earlier, name) for name in ("started", "rows", "rows_hash", "items_hash")}
        self.manifest = self.manifest.model_copy(update=values | {"name": self.manifest.name or earlier.name})
        self._carry_over(earlier.seconds, earlier.attempts, earlier.asked)

    def _resume(self) -> None:
        if self.manifest.source is None and RUN.holds(self.path):
            earlier = RUN.read(self.path, shards=True)
            if earlier.source is not None:
                raise RunError(
                    f"{self.path} holds a run {earlier.imported}: nothing can be scored into it; name another -o"
                )
        super()._resume()
        (self.path / records.WORKERS).unlink(missing_ok=True)  # of a process that was killed
        items: ItemRows | None
        if self.manifest.items_hash:
            items = read_items(self.path, self.manifest)
        else:
            items = ItemRows(self._items)
            lines = "".join(map(records.row_line, items.values())).encode()
            replace_file(self.path / ITEMS, gzip.compress(lines, RUN.effort, mtime=0))
            self.manifest = self.manifest.model_copy(update={"items_hash": file_hash(self.path / ITEMS)})
        for row in read_rows(self.path, self.manifest, items, torn=True).values():
            self._count(row)
        self._keep_inputs(self.done)
        self._note()

    def add(self, row: Row, query: Query, verdict: Verdict) -> None:
        """Take one scored item; it is on disk at the next sync, at most two seconds from now."""
        if row.item in self.done:
            raise RunError(f"{self.path}: item {row.item!r} was scored twice")
        extra = {TRANSCRIPTS: records.exchange_line(row.item, verdict)} if verdict.exchanges else {}
        with self._turn:
            self._count(row)
            self.queue({INPUTS: records.input_line(query), **extra, ROWS: records.row_line(row)})

    def leave_open(self, item: str, verdict: Verdict) -> None:
        """Note an item that stays open, to be tried again when the run is resumed."""
        self._leave_open(records.attempt_line(item, verdict, datetime.now(UTC).isoformat(timespec="seconds")))

    def finish(self, *, expected: int) -> bool:
        """Write the closing run.json and return whether every item of the run, or of this shard, has a row."""
        self.sync()
        complete = len(self.done) == expected
        self._note(
            "complete" if complete else "incomplete",
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            rows_hash=file_hash(self.path / ROWS) if complete and self.done else "",
        )
        self._closed = True
        return complete

    def _count(self, row: Row) -> None:
        self.done.add(row.item)
        self.failures.update({score.kind for score in row.scores if not isinstance(score, float)})
        self.failed += row.failed


def load_run(path: str | Path) -> Run:
    """Return the run in a folder, a row per item in item order: one that is open has a row that failed."""
    check_type(path, (str, Path), "path", "the folder of a run")
    with uncollected():
        return _load(Path(path), {})


def _load(folder: Path, library: Items) -> Run:
    manifest = RUN.read(folder)
    items = read_items(folder, manifest, library)
    rows = read_rows(folder, manifest, items)
    if items is None and manifest.status == "incomplete":
        raise RunError(
            f"{folder}: {len(rows):,} of {manifest.selection.items:,} items are scored, and what the others are is not "
            "on disk, so they cannot count. Resume it with the same 'pluralrm score' command, or leave it out"
        )
    if items is not None:
        still_open = {
            item: replace(items[item], scores=(failure,) * len(items[item].scores))
            for item, failure in outages(folder, items).items()
        }
        rows = dict(zip(items, map(rows.get, items, {**items, **still_open}.values()), strict=True))
    return Run(
        model=manifest.model,
        benchmark=manifest.benchmark.card.name,
        condition=manifest.condition,
        rows=_with_prompts(folder, rows.values()),
        card=records.card_from(manifest.benchmark.card),
        reveals=frozenset(manifest.reveals),
        complete=manifest.status == "complete",
        items=manifest.selection.items,
        benchmark_hash=manifest.benchmark.content_hash,
        path=str(folder),
        whole=manifest.selection.limit is None
        and not manifest.selection.domains
        and (manifest.source is None or manifest.source.items == manifest.source.of),
        trained=manifest.training.met if manifest.training else (),
        condition_role=ConditionRole(**role.model_dump()) if (role := manifest.condition_role) else None,
        name=manifest.name,
        imported=manifest.imported,
        gate=_gate(folder, manifest),
        dtype=manifest.identity.get("dtype", ""),
    )


def is_intact(folder: Path, manifest: RunManifest) -> bool:
    """Return whether a complete run has the rows and the items that it was closed with, byte for byte."""
    files = {folder / ROWS: manifest.rows_hash, folder / ITEMS: manifest.items_hash}
    whole = manifest.status == "complete"
    return whole and all(sha and file.exists() and file_hash(file) == sha for file, sha in files.items())


def keep_gate(folder: Path, record: GateRecord) -> None:
    """Write the gate card of a complete run; it holds for the rows that are there now."""
    replace_file(folder / GATE, record.model_copy(update={"rows_hash": file_hash(folder / ROWS)}).to_json())


def _gate(folder: Path, manifest: RunManifest) -> str:
    """Return the line of the run's gate card; nothing where it has none, or one of other rows."""
    file = folder / GATE
    if not file.exists():
        return ""
    try:
        record = parse_document(GateRecord, file.read_bytes())
    except (OSError, ValueError) as exc:
        raise RunError(f"{file}: {exc}. Remove it; 'pluralrm gate' writes it again") from exc
    return record.text if record.rows_hash == manifest.rows_hash else ""


def _with_prompts(folder: Path, rows: Collection[Row]) -> tuple[Row, ...]:
    """Return the rows with their prompts' ids: rows of older versions have none, and the inputs hold the texts."""
    if all(map(attrgetter("prompt"), rows)):
        return tuple(rows)
    texts = {str(record["item"]): str(record["prompt"]) for record in read_inputs(folder)}
    return tuple(
        replace(row, prompt=prompt_id(texts[row.item])) if not row.prompt and row.item in texts else row for row in rows
    )


def load_shard(path: str | Path) -> ShardProgress:
    """Return how far the shard of a run in a folder is; one that is damaged is an error."""
    folder = Path(path)
    manifest = RUN.read(folder, shards=True)
    items = read_items(folder, manifest)
    if manifest.shard is None or items is None:
        raise RunError(f"{folder} is no shard")
    rows = read_rows(folder, manifest, items)
    failed = sum(row.failed for row in rows.values())
    size = manifest.shard.size(len(items))
    return ShardProgress(str(folder), manifest.shard.index, manifest.shard.count, len(rows), size, failed)


def scored_items(path: str | Path) -> set[str]:
    """Return the items that have their row in the folder of a run or a shard, finished or not.

    Rows may have been lost.
    """
    folder = Path(path)
    manifest = RUN.read(folder, shards=True)
    return set(read_rows(folder, manifest, read_items(folder, manifest), torn=True))


def load_manifest(path: str | Path) -> RunManifest:
    """Return the run.json in a folder; a folder without one holds no run."""
    return RUN.read(path)


def find_runs(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the run folders at or below a path or several, sorted; a path without any is an error.

    Shards are among them until their whole lies beside them.
    """
    folders: list[Path] = []
    for path in map(Path, _several(paths)):
        here = sorted(file.parent for file in path.rglob(RUN.manifest)) if path.is_dir() else []
        here = [folder for folder in here if folder == path or not is_merged_shard(folder)]
        if not here:
            raise RunError(f"no run at or below {str(path)!r}; 'pluralrm score' writes them with -o")
        folders.extend(here)
    return list(dict.fromkeys(folders))


def runs_of(source: Run | str | Path | Sequence[str | Path] | Sequence[Run]) -> list[Run]:
    """Return runs, or those at or below folders."""
    if isinstance(source, Run):
        return [source]
    if isinstance(source, str | Path):
        return load_runs(source)
    check_type(source, (list, tuple), "runs", _RUNS)
    for entry in source:
        check_type(entry, (Run, str, Path), "runs", _RUNS)
    if not source:
        raise SpecError(f"no runs; wanted {_RUNS}")
    return [run for entry in source for run in ([entry] if isinstance(entry, Run) else load_runs(entry))]


_RUNS = "a folder of runs, a list of folders, or runs that 'score' returned"


def is_merged_shard(folder: Path) -> bool:
    """Return whether a folder holds a shard whose complete run lies beside it."""
    return is_merged(folder, RUN, lambda run: run.status == "complete")


def _several(paths: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    several = [paths] if isinstance(paths, str | Path) else paths
    check_type(several, (list, tuple), "paths", _FOLDERS)
    for path in several:
        check_type(path, (str, Path), "path", _FOLDERS)
    return several


_FOLDERS = "a folder of runs such as 'runs', or a list of folders"


def load_runs(paths: str | Path | Sequence[str | Path]) -> list[Run]:
    """Return the runs at or below a path or several, sorted by folder; runs of which none has a row are an error."""
    library: Items = {}
    with uncollected():
        runs = [_load(folder, library) for folder in find_runs(paths)]
    if not any(run.done for run in runs):
        what = "1 run, and it has no row yet" if len(runs) == 1 else f"{len(runs):,} runs, and none has a row yet"
        where = ", ".join(repr(str(path)) for path in _several(paths))
        raise RunError(f"at or below {where}: {what}. The same 'pluralrm score' command resumes it")
    return runs


def without_copies(runs: Sequence[Run]) -> tuple[list[Run], str]:
    """Return runs without those whose model, condition and rows an earlier one has, too; and what was left out.

    A baseline that was scored into two folders is one run.
    """
    originals: list[Run] = []
    copies: list[str] = []
    firsts: dict[tuple[str, str, str, str], Run] = {}
    for run in runs:
        first = firsts.setdefault((run.model, run.name, run.condition, run.benchmark_hash), run)
        if first is not run and run.complete and first.complete and run.rows == first.rows:
            copies.append(run.model)
        else:
            originals.append(run)
    names = listed(list(dict.fromkeys(copies)))
    note = f"left out, with the same rows in two folders: {counted(len(copies), 'run')} of {names}"
    return originals, note * bool(copies)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles among objects: among millions of rows each look takes a second, and there are none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.unfreeze()  # what was made is old now: the next look at the young passes it over
            gc.enable()


def load_inputs(path: str | Path, item: str) -> Mapping[str, object]:
    """Return exactly what the model was given for one item."""
    for record in read_inputs(path):
        if record["item"] == item:
            return record
    raise RunError(f"{path} holds no input for item {item!r}; it was lost, and --fresh scores the run again")


def read_inputs(path: str | Path) -> Iterator[Mapping[str, object]]:
    """Yield what the model was given, item by item; nothing where the run keeps no inputs, or past a torn end."""
    file = Path(path) / INPUTS
    if not file.exists():
        return
    for _, text in members(file):
        for line in text.splitlines():
            try:
                record = parse_json(line)
            except ValueError as exc:
                raise RUN.damaged(file, f"a line cannot be read: {exc}") from exc
            if not isinstance(record, dict) or not {"item", "prompt"} <= record.keys():
                raise RUN.damaged(file, f"found a line {line[:60]!r}, wanted an item's input")
            yield record


def read_replies(path: str | Path) -> dict[str, str]:
    """Return all that a model said about each item; nothing where it is no model that talks."""
    lines = map(json.loads, gzip_lines(Path(path) / TRANSCRIPTS))
    return {line["item"]: "\n".join(each["said"] for each in line["exchanges"]) for line in lines}


class RunMerger(FolderMerger[RunManifest]):
    """Makes a run of its shards: the bytes of its rows are those of a run in one process."""

    kind = RUN

    def facts(self, folder: Path, manifest: RunManifest) -> Mapping[str, object]:
        """Return what must be the same for a run to be resumed, and its items with their labels."""
        items: Mapping[str, Row] = read_items(folder, manifest) or {}
        benchmark = records.benchmark_facts(manifest.benchmark)
        facts = {**manifest.facts(), "benchmark": benchmark, "selection": manifest.selection.model_dump(), "shard": ""}
        return {
            **facts,
            "list of items": digest_list([name, *row.grades, *row.lengths] for name, row in items.items()),
        }

    def label(self, manifest: RunManifest) -> str:
        """Return the cell of the grid."""
        return f"{manifest.benchmark.card.name} × {manifest.model} × {manifest.condition}"

    def unfinished(self, folder: Path, manifest: RunManifest) -> str:
        """Return how many rows a shard has that is not complete; RunError where inputs of some are lost."""
        far = load_shard(folder)
        if manifest.status != "complete":
            return f"{far.done:,} of {far.size:,} items"
        inputs = {records.item_in(line) for line in gzip_lines(folder / INPUTS)}
        if lost := scored_items(folder) - inputs:
            raise RUN.damaged(folder / INPUTS, f"it lacks the input of {len(lost):,} items, such as {min(lost)!r}")
        return ""

    def place(self, shard: FoundShard[RunManifest]) -> Path:
        """Return the folder that the run would have without shards."""
        manifest = shard.manifest
        return records.cell_folder(manifest.benchmark, manifest.model, manifest.condition, list(self._items(shard)))

    def differing(self, shards: Sequence[FoundShard[RunManifest]]) -> str:
        """Return which shard was scored by a server whose probes had other scores than in the first."""
        from pluralrm.models.served.probes import moved

        first, *rest = shards
        for other in rest:
            before, now = first.manifest.probes, other.manifest.probes
            if len(before) != len(now) or (before and moved(before, now) is not None):
                return (
                    f"{other.folder}: another model answered {other.shard} than {first.shard}, {first.folder}: probes "
                    f"{now}, there {before}. Score one of them again with --fresh"
                )
        return ""

    def holds(self, path: Path, shards: Sequence[FoundShard[RunManifest]]) -> bool:
        """Return whether the run is there, complete, with the rows of the shards."""
        if not RUN.holds(path):
            return False
        run = RUN.read(path)
        if run.status != "complete":
            raise RunError(
                f"{path} holds a run with {len(scored_items(path)):,} of {run.selection.items:,} items: finish it by "
                "the same command without --shard, or merge into another folder with -o"
            )
        load_run(path)
        rows = hashlib.sha256(b"".join(self._lines(shards, ROWS))).hexdigest()
        if rows != file_hash(path / ROWS):
            raise RunError(f"{path} holds a run with other rows than those shards; merge into another folder with -o")
        return True

    def write(self, whole: LockedFolder[RunManifest], shards: Sequence[FoundShard[RunManifest]]) -> None:
        """Write every file under another name, then under its own; run.json last."""
        for name in (INPUTS, TRANSCRIPTS):
            if any((shard.folder / name).exists() for shard in shards):
                replace_file(whole.path / name, gzip_pieces(self._lines(shards, name), RUN.effort))
        tried = [line for shard in shards for line in RUN.lines(shard.folder / ATTEMPTS, AttemptRecord)]
        if tried:
            lines = (json_line(line.model_dump(mode="json")) for line in sorted(tried, key=lambda line: line.at))
            replace_file(whole.path / ATTEMPTS, "".join(lines))
        replace_file(whole.path / ITEMS, (shards[0].folder / ITEMS).read_bytes())
        replace_file(whole.path / ROWS, self._lines(shards, ROWS))
        manifests = [shard.manifest for shard in shards]
        failures = sum((Counter(manifest.failures) for manifest in manifests), Counter[str]())
        update = {
            **summed(manifests),
            "name": next((manifest.name for manifest in manifests if manifest.name), ""),
            "rows": sum(manifest.rows for manifest in manifests),
            "rows_hash": file_hash(whole.path / ROWS),
            "items_hash": file_hash(whole.path / ITEMS),
            "failures": dict(sorted(failures.items())),
        }
        whole.write(manifests[0].model_copy(update=update))

    def _items(self, shard: FoundShard[RunManifest]) -> Mapping[str, Row]:
        return read_items(shard.folder, shard.manifest) or {}

    def _lines(self, shards: Sequence[FoundShard[RunManifest]], name: str) -> Iterator[bytes]:
        """Yield the lines of a file of all shards in the order of the items."""
        return united(self._items(shards[0]), [partial(records.keyed_lines, shard.folder / name) for shard in shards])
