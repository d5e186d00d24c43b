"""Runs that somebody else scored: a file of theirs becomes a run folder, with the rows that `score` would have written.

>>> import tempfile
>>> from pluralrm.benchmarks import load_benchmark
>>> bench, folder = load_benchmark("pocket-prb"), Path(tempfile.mkdtemp())
>>> lines = ["item,choice", *(f"{item.id},chosen" for item in bench.items)]
>>> _ = (folder / "theirs.csv").write_text(chr(10).join(lines))
>>> [run] = import_runs("choices", [folder / "theirs.csv"], bench, ImportOptions(who="them"), out=folder / "runs")
>>> run.model, run.name, len(run.rows), run.imported.partition(" (")[0]
('imported:theirs', 'theirs (imported)', 60, 'imported from theirs.csv')
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pluralrm.benchmarks.rows import Place, Refused, read_rows, shortened, visible
from pluralrm.conditions import KINDS, load_condition, parse_condition, role_of_spec
from pluralrm.core import OPEN_KINDS, Benchmark, ConditionRole, Failure, Item, Query, Reveals, Row, Run, Score, Verdict
from pluralrm.errors import BenchmarkError, ConditionError, RowError, RunError, SpecError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.journal import provenance
from pluralrm.runs import records
from pluralrm.runs.formats import AGGREGATES, FORMATS, FileFormat, ImportedEntry, Matching
from pluralrm.runs.loop import item_row, open_row
from pluralrm.runs.records import RunManifest, cell_folder
from pluralrm.runs.store import RunFolder, load_run

KIND = "imported"
"""What the model of such a run begins with in place of a kind."""
DECLARED = "file"
"""The kind of a condition that only the file's author knows: `file:persona`."""
NOTE = "Imported: what the model was given is not known. Prompt and answers are the benchmark's."


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the file does not say: whose scores these are, where they were published, what the model saw of the user."""

    name: str = ""
    who: str = ""
    url: str = ""
    commit: str = ""
    condition: str = "none"
    partial: bool = False
    """Whether some items of the benchmark may be missing; every number then says so."""
    steps: str = ""
    """How the scores of an answer's steps become one."""
    trained: tuple[str, ...] = ()
    """On which users or items of the benchmark the model was trained, where the file says so."""
    reveals: tuple[Reveals, ...] = ()
    """What the model knew beside what the condition shows, where the file says so."""


class FileVerdicts(NamedTuple):
    """What one model or judge of a file said, by item, in the order of the benchmark."""

    judge: str
    verdicts: Mapping[str, Verdict]
    method: str
    """How its scores came about."""
    rows: Mapping[str, Row]
    """By item, what was shown, where an exported run says so."""
    ignored: tuple[str, ...] = ()


def import_runs(
    form: str,
    files: Sequence[str | Path],
    benchmark: Benchmark,
    options: ImportOptions | None = None,
    *,
    out: str | Path = "runs",
    fresh: bool = False,
    formats: Mapping[str, FileFormat] = FORMATS,
) -> list[Run]:
    """Write a run folder for each model in the files, which are one in several parts, and return the runs.

    What does not fit the benchmark is refused by line, all of it counted, before anything is written. Items that an
    exported run left open stay open.
    """
    how, paths = options or ImportOptions(), [Path(file) for file in files]
    condition, role, reveals = declared_condition(how.condition)
    parts = read_verdicts(form, paths, benchmark, steps=how.steps, partial=how.partial, formats=formats)
    hashes = [{"name": path.name, "sha256": file_hash(path)} for path in paths]
    items = {item.id: item for item in benchmark.items}
    folders = []
    for part in parts:
        name = " ".join(filter(None, [how.name, part.judge])) or paths[0].stem
        draft = RunManifest.model_validate(
            {
                "status": "incomplete",
                "model": f"{KIND}:{name}",
                "name": f"{name} ({KIND})",
                "identity": {},
                "source": {
                    "format": form,
                    "files": hashes,
                    **{field: getattr(how, field) for field in ("who", "url", "commit")},
                    "method": part.method,
                    "of": len(items),
                    "items": len(part.verdicts),
                    "ignored": part.ignored,
                },
                "benchmark": records.benchmark_record(benchmark),
                "condition": condition,
                "condition_role": asdict(role),
                "reveals": sorted({*reveals, *how.reveals}),
                "training": {"told": "", "curve": (), "met": how.trained} if how.trained else None,
                "selection": {"items": len(part.verdicts)},
                **provenance(),
            }
        )
        path = Path(out) / cell_folder(draft.benchmark, draft.model, condition, list(part.verdicts))
        folders.append(path)
        chosen = [items[name] for name in part.verdicts]
        with RunFolder(path, draft, items=[open_row(item, benchmark) for item in chosen], fresh=fresh) as folder:
            for item in chosen:
                verdict = part.verdicts[item.id]
                if any(failure.kind in OPEN_KINDS for failure in verdict.failures):
                    folder.leave_open(item.id, verdict)
                elif item.id not in folder.done:
                    folder.add(_row(item, part, benchmark), _query(item), verdict)
            folder.finish(expected=len(chosen))
    return [load_run(folder) for folder in folders]


def rows_of(part: FileVerdicts, benchmark: Benchmark) -> list[Row]:
    """Return the rows of one model in a file, without a folder."""
    items = [item for item in benchmark.items if item.id in part.verdicts]
    return [_row(item, part, benchmark) for item in items]


def _row(item: Item, part: FileVerdicts, benchmark: Benchmark) -> Row:
    row, own = item_row(item, _query(item), part.verdicts[item.id], benchmark), part.rows.get(item.id)
    return row if own is None else replace(row, **{name: getattr(own, name) for name in _SHOWN})


_SHOWN = ("posts", "pairs", "lenders", "traits")
"""What a row says of what the model saw."""


def _query(item: Item) -> Query:
    return Query(item.id, item.prompt, item.candidates, notes=(NOTE,))


def declared_condition(text: str) -> tuple[str, ConditionRole, frozenset[Reveals]]:
    """Return the spec of a condition that is declared and cannot be verified, its role, and what it reveals.

    One that only the file's author knows is `file:NAME`, and counts as the user's own context.
    """
    kind, _, target = text.partition(":")
    if kind == DECLARED and target.strip().isprintable() and target.strip():
        return f"{DECLARED}:{target.strip()}", ConditionRole("own"), frozenset({"posts"})
    if kind.partition(",")[0] not in KINDS or kind == "python":
        hint = did_you_mean(kind, [*KINDS, DECLARED])
        raise ConditionError(
            f"condition {text!r}: wanted one that 'pluralrm list conditions' names, or {DECLARED}:NAME for what only "
            f"the file's author knows.{hint}"
        )
    spec = parse_condition(text)
    role = role_of_spec(str(spec))
    if KINDS[spec.kind].asks is None:
        return str(spec), role, load_condition(str(spec)).reveals
    return str(spec), role, frozenset({"posts" if role.role == "own" else "other_posts"})


# ---------------------------------------------------------------- files to verdicts


def read_verdicts(
    form: str,
    files: Sequence[Path],
    benchmark: Benchmark,
    *,
    steps: str = "",
    partial: bool = False,
    formats: Mapping[str, FileFormat] = FORMATS,
) -> list[FileVerdicts]:
    """Return what each model in the files said of each item; rows that are wrong are refused together."""
    if form not in formats:
        raise SpecError(f"unknown format {form!r}.{did_you_mean(form, formats)} Known: {', '.join(formats)}")
    if steps and steps not in AGGREGATES:
        raise SpecError(f"--steps is {steps!r}; wanted {', '.join(AGGREGATES)}.{did_you_mean(steps, AGGREGATES)}")
    if not all(item.grades for item in benchmark.items):
        raise BenchmarkError(f"{benchmark.card.name} has prompts only: no score of theirs could be right or wrong")
    refused, index = Refused(), Matching(benchmark, steps)
    by_judge = _entries(formats[form], files, index, refused)
    if not by_judge and not refused.total:
        raise BenchmarkError(f"{_names(files)}: found no scores, wanted rows with {formats[form].summary}")
    parts = [
        _part(formats[form], judge, entries, benchmark=benchmark, refused=refused)
        for judge, entries in sorted(by_judge.items())
    ]
    refused.tell()
    for part in parts:
        missing = [item.id for item in benchmark.items if item.id not in part.verdicts]
        if missing and not partial:
            whose = f" by {part.judge}" * bool(part.judge)
            examples = ", ".join(map(repr, missing[:3])) + ", ..." * (len(missing) > 3)
            raise RunError(
                f"{_names(files)}: {len(missing):,} of {len(benchmark.items):,} items of {benchmark.card.name} are "
                f"missing{whose}: {examples}. With --partial the others are imported, and every number says so"
            )
    ignored = tuple(map(shortened, index.dirt.report().ignored))
    return [part._replace(ignored=ignored) for part in parts]


def _names(files: Iterable[Path]) -> str:
    return ", ".join(visible(str(file)) for file in files)


def _entries(
    form: FileFormat, files: Iterable[Path], index: Matching, refused: Refused
) -> dict[str, list[ImportedEntry]]:
    """Return what the rows say, by the model or judge that they are of; a row that is wrong goes to `refused`."""
    by_judge: dict[str, list[ImportedEntry]] = defaultdict(list)
    for file in files:
        rows = form.rows(file, refused.keep) if form.rows else read_rows(file, refused.keep, nan=True)
        for location, raw in rows:
            try:
                for entry in form.read(raw, location, index):
                    by_judge[entry.judge].append(entry)
            except RowError as exc:
                refused.keep(exc)
    return by_judge


def _part(
    form: FileFormat, judge: str, entries: Sequence[ImportedEntry], *, benchmark: Benchmark, refused: Refused
) -> FileVerdicts:
    method, entries = _weighted(form.method, entries)
    by_item: dict[str, list[ImportedEntry]] = defaultdict(list)
    for entry in entries:
        by_item[entry.item.id].append(entry)
    verdicts = {item.id: _verdict(form, by_item[item.id], refused) for item in benchmark.items if item.id in by_item}
    rows = {entry.item.id: entry.row for entry in entries if entry.row is not None}
    return FileVerdicts(judge, verdicts, method, rows)


def _weighted(method: str, entries: Sequence[ImportedEntry]) -> tuple[str, Sequence[ImportedEntry]]:
    """Return the entries with the certainty of each as the score of its choice, where every choice has one above 0."""
    decided = [entry for entry in entries if not any(isinstance(score, Failure) for score in entry.scores.values())]
    certainties = [entry.certainty for entry in decided]
    if not any(certainty is not None for certainty in certainties):
        return method, entries
    if lacking := sum(not certainty or not 0 < certainty < math.inf for certainty in certainties):
        return f"{method}; certainty is not used: {lacking:,} answers have none above 0", entries
    weighted = [
        entry._replace(scores={index: _times(score, entry.certainty) for index, score in entry.scores.items()})
        for entry in entries
    ]
    return "score: the certainty of the answer, 0 for the other", weighted


def _times(score: Score, certainty: float | None) -> Score:
    return score if isinstance(score, Failure) or certainty is None else score * certainty


def _verdict(form: FileFormat, entries: Sequence[ImportedEntry], refused: Refused) -> Verdict:
    """Return the verdict that the rows of one item make; a second row, or a candidate without one, is refused."""
    first = entries[0]
    width = len(first.item.candidates)
    if form.per == "order":
        columns = [[entry.scores[index] for entry in entries] for index in range(width)]
        return Verdict(tuple(map(_mean, columns)), tuple(vote for entry in entries for vote in entry.votes))
    scores: dict[int, Score] = {}
    places: dict[int, Place] = {}
    for entry in entries:
        twice = next((index for index in entry.scores if index in scores), None)
        if twice is not None:
            what = f"candidate {entry.item.candidate_ids[twice]!r} of " * (form.per == "candidate")
            actual = f"{what}{shortened(entry.item.id)!r} again (first at {places[twice]})"
            refused.keep(entry.location.refuse("item", found=actual, wanted="one score of each"))
            continue
        scores |= entry.scores
        places |= dict.fromkeys(entry.scores, entry.location)
    if len(scores) < width:
        actual = f"scores of {len(scores)} of the {width} candidates of {shortened(first.item.id)!r}"
        refused.keep(first.location.refuse("candidate", found=actual, wanted="one score of each"))
        return Verdict.failed("empty", "incomplete", width)
    return Verdict(tuple(scores[index] for index in range(width)), first.votes)


def _mean(scores: Sequence[Score]) -> Score:
    """Return the mean over orders; a call that failed fails the item."""
    numbers = [score for score in scores if not isinstance(score, Failure)]
    if len(numbers) < len(scores):
        return next(score for score in scores if isinstance(score, Failure))
    return math.fsum(numbers) / len(numbers)
