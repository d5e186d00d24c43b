"""The run folder: append, sync, recover. Nothing acknowledged is lost, nothing is written twice.

run.json              where the rows came from; status `incomplete` from the first moment, `complete` at the end
items.jsonl.gz        the row of each item as it counts until there is another: failed, for it is missing
rows.jsonl            one line per item; a torn last line is dropped on opening, nothing else is
attempts.jsonl        items that stay open: transport, deadline, budget
inputs.jsonl.gz       exactly what the model was given, one gzip member per synced chunk
transcripts.jsonl.gz  exactly what it was sent and said, where it is a model that talks
"""

import gzip
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pluralrm.core import ConditionRole, Failure, Query, Row, Run, Verdict, prompt_id
from pluralrm.errors import RunError, check_type
from pluralrm.files import members, remove_contents, replace_file
from pluralrm.folders import file_hash
from pluralrm.http import Tally
from pluralrm.journal import parse_json
from pluralrm.runs import records
from pluralrm.runs.records import ATTEMPTS, INPUTS, ITEMS, ROWS, RUN, TRANSCRIPTS, AttemptRecord, RowRecord, RunManifest
from pluralrm.runs.usage import MeteredFolder


class RunFolder(MeteredFolder[RunManifest]):
    """One run, open for writing; `items` are the rows of all items as they count until they are scored."""

    def __init__(
        self,
        path: Path,
        manifest: RunManifest,
        usage: Callable[[], Tally | None] = lambda: None,
        *,
        items: Sequence[Row],
        fresh: bool = False,
    ) -> None:
        super().__init__(path, RUN, manifest, usage, fresh=fresh)
        self._items = items
        self.done: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.failed = 0

    def _remove(self) -> None:
        remove_contents(self.path, last=RUN.manifest)

    @property
    def _lines(self) -> int:
        return len(self.done)

    def _counts(self) -> dict[str, object]:
        return {"rows": len(self.done), "failures": dict(sorted(self.failures.items())), "rows_hash": ""}

    def _adopt(self, earlier: RunManifest) -> None:
        kept = {name: getattr(earlier, name) for name in ("started", "rows", "rows_hash", "items_hash")}
        self.manifest = self.manifest.model_copy(update=kept | {"name": self.manifest.name or earlier.name})
        self._carry_over(earlier.seconds, earlier.attempts, earlier.asked)

    def _resume(self) -> None:
        super()._resume()
        if not self.manifest.items_hash:
            lines = "".join(map(records.row_line, self._items)).encode()
            replace_file(self.path / ITEMS, gzip.compress(lines, RUN.effort, mtime=0))
            self.manifest = self.manifest.model_copy(update={"items_hash": file_hash(self.path / ITEMS)})
        items = _read_items(self.path, self.manifest)
        for row in _read_rows(self.path, self.manifest, items, torn=True).values():
            self._count(row)
        self._keep_inputs(self.done)
        self._note()

    def add(self, row: Row, query: Query, verdict: Verdict) -> None:
        """Take one scored item; it is on disk at the next sync, at most two seconds from now."""
        if row.item in self.done:
            raise RunError(f"{self.path}: item {row.item!r} was scored twice")
        said = {TRANSCRIPTS: records.exchange_line(row.item, verdict)} if verdict.exchanges else {}
        with self._turn:
            self._count(row)
            self.queue({INPUTS: records.input_line(query), **said, ROWS: records.row_line(row)})

    def leave_open(self, item: str, verdict: Verdict) -> None:
        """Note an item that stays open, to be tried again when the run is resumed."""
        self._leave_open(records.attempt_line(item, verdict, datetime.now(UTC).isoformat(timespec="seconds")))

    def finish(self, *, expected: int) -> bool:
        """Write the closing run.json and return whether every item has a row."""
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


def _read_items(folder: Path, manifest: RunManifest) -> dict[str, Row] | None:
    """Return the row of each item as it counts until it is scored; None in older runs, which kept no list."""
    file = folder / ITEMS
    if not manifest.items_hash:
        return None
    try:
        if file_hash(file) != manifest.items_hash:
            raise RUN.damaged(file, "the file is not as it was written")
        lines = gzip.decompress(file.read_bytes()).splitlines()
    except OSError as exc:
        raise RunError(f"cannot read {file}: {exc}. Restore it, or {RUN.anew}") from exc
    parsed = (RUN.parse(RowRecord, line, f"{file}:{number}") for number, line in enumerate(lines, 1))
    return {record.item: records.row_of(record) for record in parsed}


def _read_rows(
    folder: Path, manifest: RunManifest, items: Mapping[str, Row] | None, *, torn: bool = False
) -> dict[str, Row]:
    """Return the rows on disk by item; one that comes twice, or is of no item of this run, is an error by line.

    So are fewer rows than run.json counts, unless the file may be `torn`, and a complete file with another hash.
    """
    rows: dict[str, Row] = {}
    file = folder / ROWS
    for place, record in RUN.places(file, RowRecord, lambda one: f"row of item {one.item!r}"):
        row = rows[record.item] = records.row_of(record)
        if items is not None and (unlike := _unlike(row, items.get(row.item))):
            raise RUN.damaged(place, unlike)
    total = manifest.selection.items
    if len(rows) > total:
        raise RUN.damaged(file, f"found {len(rows):,} rows, and {RUN.manifest} has {total:,} items")
    least = total if manifest.status == "complete" else manifest.rows
    if len(rows) < least and not torn:
        raise RunError(
            f"{file}: found {len(rows):,} rows, and {RUN.manifest} counts {least:,}. Restore it; or the same "
            "'pluralrm score' command scores the missing ones again"
        )
    if manifest.rows_hash and len(rows) == manifest.rows and file_hash(file) != manifest.rows_hash:
        raise RUN.damaged(file, "its rows are not those that were scored")
    return rows


def _unlike(row: Row, item: Row | None) -> str:
    """Return in what a row is not of this item, or nothing."""
    if item is None:
        return f"a row of item {row.item!r}, which is none of this run"
    facts = ["cluster", "domain", "preferred", "candidate_ids", "lengths", "tags"]
    facts += ["prompt"] * bool(row.prompt)  # older rows have none
    if differing := [name for name in facts if getattr(row, name) != getattr(item, name)]:
        return f"{' and '.join(differing)} of item {row.item!r} are not as in {ITEMS}"
    same = len(row.scores) == len(item.scores)
    return "" if same else f"{len(row.scores)} scores for the {len(item.scores)} candidates of item {row.item!r}"


def load_run(path: str | Path) -> Run:
    """Return the run in a folder, a row per item in item order: one that is open has a row that failed."""
    check_type(path, (str, Path), "path", "the folder of a run")
    folder = Path(path)
    manifest = RUN.read(folder)
    items = _read_items(folder, manifest)
    rows = _read_rows(folder, manifest, items)
    if items is None and manifest.status == "incomplete":
        raise RunError(
            f"{folder}: {len(rows):,} of {manifest.selection.items:,} items are scored, and what the others are is not "
            "on disk, so they cannot count. Resume it with the same 'pluralrm score' command, or leave it out"
        )
    if items is not None:
        outages = _outages(folder, items)
        rows = {item: rows.get(item) or _open(row, outages.get(item)) for item, row in items.items()}
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
        whole=manifest.selection.limit is None and not manifest.selection.domains,
        trained=manifest.training.met if manifest.training else (),
        condition_role=ConditionRole(**role.model_dump()) if (role := manifest.condition_role) else None,
        name=manifest.name,
    )


def _with_prompts(folder: Path, rows: Collection[Row]) -> tuple[Row, ...]:
    """Return the rows with their prompts' ids: rows of older versions have none, and the inputs hold the texts."""
    if all(row.prompt for row in rows):
        return tuple(rows)
    texts = {str(record["item"]): str(record["prompt"]) for record in read_inputs(folder)}
    return tuple(
        replace(row, prompt=prompt_id(texts[row.item])) if not row.prompt and row.item in texts else row for row in rows
    )


def _open(row: Row, outage: Failure | None) -> Row:
    return row if outage is None else replace(row, scores=(outage,) * len(row.scores))


def _outages(folder: Path, items: Collection[str]) -> dict[str, Failure]:
    """Return why each item that was tried stayed open the last time; one of no item of this run is an error."""
    outages: dict[str, Failure] = {}
    for place, record in RUN.places(folder / ATTEMPTS, AttemptRecord):
        if record.item not in items:
            raise RUN.damaged(place, f"an attempt at item {record.item!r}, which is none of this run")
        outages[record.item] = record.outage
    return outages


def scored_items(path: str | Path) -> set[str]:
    """Return the items that have their row in a run folder, finished or not, though rows may have been lost."""
    folder = Path(path)
    manifest = RUN.read(folder)
    return set(_read_rows(folder, manifest, _read_items(folder, manifest), torn=True))


def load_manifest(path: str | Path) -> RunManifest:
    """Return the run.json in a folder; a folder without one holds no run."""
    return RUN.read(path)


def find_runs(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the run folders at or below a path or several, sorted; a path without any is an error."""
    folders: list[Path] = []
    for path in map(Path, _several(paths)):
        here = sorted(file.parent for file in path.rglob(RUN.manifest)) if path.is_dir() else []
        if not here:
            raise RunError(f"no run at or below {str(path)!r}; 'pluralrm score' writes them with -o")
        folders.extend(here)
    return list(dict.fromkeys(folders))


def _several(paths: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    several = [paths] if isinstance(paths, str | Path) else paths
    check_type(several, (list, tuple), "paths", _FOLDERS)
    for path in several:
        check_type(path, (str, Path), "path", _FOLDERS)
    return several


_FOLDERS = "a folder of runs such as 'runs', or a list of folders"


def load_runs(paths: str | Path | Sequence[str | Path]) -> list[Run]:
    """Return the runs at or below a path or several, sorted by folder; runs of which none has a row are an error."""
    runs = [load_run(folder) for folder in find_runs(paths)]
    if not any(run.done for run in runs):
        what = "1 run, and it has no row yet" if len(runs) == 1 else f"{len(runs):,} runs, and none has a row yet"
        where = ", ".join(repr(str(path)) for path in _several(paths))
        raise RunError(f"at or below {where}: {what}. The same 'pluralrm score' command resumes it")
    return runs


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


def last_outage(path: str | Path) -> str:
    """Return why the last item that was left open was left open, such as `transport: ConnectError`; or nothing."""
    last = deque(RUN.lines(Path(path) / ATTEMPTS, AttemptRecord), maxlen=1)
    return f"{last[0].outage.kind}: {last[0].outage.detail}".splitlines()[0] if last else ""
