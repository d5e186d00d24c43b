"""EvalEval, the common schema of evaluation results, 0.3: a run as an aggregate JSON and an instance JSONL, and back.

| file | holds |
|---|---|
| `data/BENCH/DEVELOPER/MODEL/UUID.json` | every metric with its interval, level, method and n; provenance |
| `UUID_samples.jsonl` beside it | a line per item; its row travels in `metadata`, whose values are texts |

The folders are those of the public store, so that they can be copied there. The JSON is written by hand: the package of
the schema needs a newer Python than ours. Aggregates that others published are read as one table of models.
"""

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, cast
from uuid import UUID

from pluralrm._version import __version__
from pluralrm.benchmarks.rows import Place, Refuse, read_rows, visible
from pluralrm.core import Estimate, Run
from pluralrm.correlate.columns import PublishedTable, read_published
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, MetricError, RowError
from pluralrm.exchange.items import (
    WITHHELD,
    Json,
    RunHeader,
    RunItem,
    header_from,
    letter,
    load_exportable,
    logged_entries,
    pathless,
    provenance_of,
    run_items,
)
from pluralrm.files import replace_file
from pluralrm.journal import parse_json
from pluralrm.metrics import summary
from pluralrm.runs.formats import FileFormat
from pluralrm.runs.records import RunManifest, slug
from pluralrm.text import well_formed

SCHEMA = "0.3.0"
LEVEL = 0.95
RECORD = "pluralrm"
"""Under this name stands our provenance, in `model_info.additional_details`, and marks our rows in `metadata`."""
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
_LOWER = frozenset({"failure_rate", "tie_rate"})


class Publisher(NamedTuple):
    """Who hands the results over, and what they are to the model's developer."""

    organization: str = "unknown"
    relationship: Relationship = "other"


class EvalEvalFiles(NamedTuple):
    """The two files of a run."""

    aggregate: Path
    instances: Path


def write_evaleval(
    folder: str | Path, out: str | Path, publisher: Publisher | None = None, *, posts: bool = False
) -> EvalEvalFiles:
    """Write a run's aggregate and its instances, and return the files; the same run gives the same bytes."""
    run, manifest = load_exportable(folder)
    publisher = publisher or Publisher()
    developer, name = _model_id(pathless(manifest.model))
    moment = _epoch(manifest.finished or manifest.started)
    evaluation = "/".join([slug(run.benchmark), developer, name, slug(pathless(run.condition)), moment])
    key = digest([evaluation, manifest.rows_hash, manifest.items_hash, *publisher, posts])
    collection = Path("data", slug(run.benchmark), developer, name)
    files = EvalEvalFiles(*(collection / f"{UUID(key[:32], version=4)}{end}" for end in (".json", "_samples.jsonl")))
    lines = [_instance(item, run, evaluation, f"{developer}/{name}") for item in run_items(run, posts=posts)]
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    details = {
        "format": "jsonl",
        "file_path": files.instances.as_posix(),
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(content).hexdigest(),
        "total_rows": len(lines),
    }
    document = {**_aggregate(run, manifest, evaluation, publisher), "detailed_evaluation_results": details}
    written = EvalEvalFiles(*(Path(out) / file for file in files))
    written.aggregate.parent.mkdir(parents=True, exist_ok=True)
    replace_file(written.instances, content)
    replace_file(written.aggregate, json.dumps(document, indent=1) + "\n")
    return written


def _model_id(spec: str) -> tuple[str, str]:
    """Return developer and name: those of the hub where the spec names a model of it, else unknown and the spec."""
    hub = re.search(r"^[\w-]+:([\w.-]+)/([\w.-]+)(?:[,@]|$)", spec)
    developer, name = hub.groups() if hub else ("unknown", spec)
    return slug(developer), slug(name)


def _epoch(moment: str) -> str:
    return str(int(datetime.fromisoformat(moment).timestamp()))


def _strings(facts: Mapping[str, object]) -> dict[str, str]:
    """Return the facts as texts: what is no text as JSON, in which a number keeps every digit."""
    return {name: well_formed(value) if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}


def _aggregate(run: Run, manifest: RunManifest, evaluation: str, publisher: Publisher) -> dict[str, object]:
    developer, name = _model_id(pathless(manifest.model))
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "evaluation_timestamp": _epoch(manifest.started),
        "retrieved_timestamp": _epoch(manifest.finished or manifest.started),
        "source_metadata": {
            "source_name": RECORD,
            "source_type": "evaluation_run",
            "source_organization_name": well_formed(publisher.organization),
            "evaluator_relationship": publisher.relationship,
        },
        "eval_library": {
            "name": RECORD,
            "version": manifest.versions.get(RECORD, __version__),
            "additional_details": _strings(manifest.versions),
        },
        "model_info": {
            "name": pathless(run.name or run.model),
            "id": f"{developer}/{name}",
            "developer": developer,
            "additional_details": _strings({RECORD: SCHEMA, **provenance_of(run, manifest)}),
        },
        "evaluation_results": list(_results(run, evaluation)),
    }


def _results(run: Run, evaluation: str) -> Iterator[dict[str, object]]:
    """Yield a result for every metric, the headline first, and for the headline in every domain."""
    numbers = summary(run)
    published = {name: number.to_json() for name, number in numbers.published.items()}
    for name, estimate in numbers.metrics.items():
        extra = {"published": json.dumps(published)} if name == numbers.headline and published else {}
        yield _result(run, evaluation, name, estimate, extra=extra)
    for domain, estimate in numbers.domains.items():
        yield _result(run, evaluation, numbers.headline, estimate, extra={"domain": well_formed(domain)})


def _result(
    run: Run, evaluation: str, metric: str, estimate: Estimate, *, extra: Mapping[str, str]
) -> dict[str, object]:
    title = ".".join([run.benchmark, metric, *filter(None, [extra.get("domain")])])
    interval = {
        "confidence_interval": {
            "lower": estimate.low,
            "upper": estimate.high,
            "confidence_level": LEVEL,
            "method": well_formed(estimate.method),
        }
    }
    return {
        "evaluation_result_id": well_formed(f"{evaluation}#{title}"),
        "evaluation_name": well_formed(title),
        "source_data": _source(run),
        "metric_config": {
            "metric_id": f"{RECORD}.{metric}",
            "metric_name": metric,
            "metric_unit": "proportion",
            "lower_is_better": metric in _LOWER,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": estimate.value,
            "details": {**extra, "failed": str(estimate.failed), "method": well_formed(estimate.method)},
            "uncertainty": {**(interval if estimate.low is not None else {}), "num_samples": estimate.n},
        },
    }


def _source(run: Run) -> dict[str, object]:
    """Return where the benchmark comes from: the hub, a URL, or nothing that others can reach."""
    name, source = well_formed(run.benchmark), run.card.source
    hub = re.match(r"hub: ([\w.-]+/[\w.-]+)", source)
    url = re.match(r"https?://[^\s,]+", source)
    facts = _strings({"content_hash": run.benchmark_hash, "revision": run.card.revision, "source": source})
    if hub:
        kind: dict[str, object] = {"source_type": "hf_dataset", "hf_repo": hub[1]}
    else:
        kind = {"source_type": "url", "url": [url[0]]} if url else {"source_type": "other"}
    return {"dataset_name": name, **kind, "additional_details": facts}


def _instance(item: RunItem, run: Run, evaluation: str, model: str) -> dict[str, object]:
    """Return the line of an item; a failed one has its failure as `error`, scores 0, and is not correct."""
    title = well_formed(f"{run.benchmark}.{summary(run).headline}")
    reference = [item.choices[index] for index in item.row.best] if item.choices else []
    top = [{"turn_idx": 0, "source": "output.raw", "extracted_value": item.names[index], **_HOW} for index in item.top]
    sample = {"raw": item.prompt, "reference": reference}
    spelled = json.dumps(sample, sort_keys=True, separators=(",", ":"))
    context = WITHHELD if item.withheld else item.context or ""
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": title,
        "evaluation_result_id": well_formed(f"{evaluation}#{title}"),
        "sample_id": well_formed(item.row.item),
        "sample_hash": hashlib.sha256(spelled.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {**sample, "choices": list(item.choices)},
        "output": {"raw": [well_formed(exchange.said) for exchange in item.exchanges] or [item.explanation]},
        "answer_attribution": top,
        "evaluation": {"score": item.credit, "is_correct": item.credit == 1},
        **({"error": item.error} if item.error else {}),
        "metadata": _strings({**_cell(run), "context": context, **item.record}),
    }


def _cell(run: Run) -> dict[str, object]:
    """Return what `header_from` reads, for a file of instances that lies alone."""
    facts = {"condition": pathless(run.condition), "trained": list(run.trained), "reveals": sorted(run.reveals)}
    return {RECORD: SCHEMA, **facts}


_BESIDE = (RECORD, "condition", "trained", "reveals", "context")
"""What our metadata have beside the row of the item."""
_HOW = {"extraction_method": "the highest score", "is_terminal": True}


# ---------------------------------------------------------------- back


def read_header(file: str | Path) -> RunHeader:
    """Return what an aggregate says of its model and, where this package wrote it, of the condition.

    A file of instances alone names its model.
    """
    path = Path(file)
    if path.suffix != ".json":
        row = next((raw for _, raw in read_rows(path, nan=True)), {})
        return _header(_mapping(row.get("metadata")), str(row.get("model_id", "")))
    model = _mapping(_document(path).get("model_info"))
    return _header(_mapping(model.get("additional_details")), str(model.get("name") or model.get("id") or ""))


def _header(facts: Json, model: str) -> RunHeader:
    if RECORD not in facts:
        return RunHeader(model, "")
    header = header_from({name: _value(name, text, _TEXTS) for name, text in facts.items()})
    return header._replace(model=header.model or model)


_TEXTS = frozenset({"model", "name", "condition"})


def _document(file: Path) -> Json:
    try:
        document = parse_json(file.read_bytes())
    except (OSError, ValueError) as exc:
        raise BenchmarkError(f"cannot read {visible(str(file))}: {exc}. Wanted EvalEval's JSON") from exc
    if not isinstance(document, dict):
        raise BenchmarkError(f"{visible(str(file))}: no object, wanted EvalEval's JSON")
    return cast("Json", document)


def _rows(file: Path, refuse: Refuse) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """Yield the instances of a file, or of the one that an aggregate names; then its hash must be the stated one."""
    if file.suffix == ".json":
        details = _mapping(_document(file).get("detailed_evaluation_results"))
        if not details:
            raise BenchmarkError(
                f"{visible(str(file))} has no instances, so no item can be compared. 'pluralrm import leaderboard' "
                "makes a table of such files"
            )
        aggregate, file = file, file.parent / Path(str(details.get("file_path"))).name
        _check(aggregate, file, details)
    for location, raw in read_rows(file, refuse, nan=True):
        yield location, _answer(raw)


def _check(aggregate: Path, file: Path, details: Json) -> None:
    try:
        content = file.read_bytes()
    except OSError as exc:
        raise BenchmarkError(f"cannot read {visible(str(file))}, the instances of {visible(str(aggregate))}") from exc
    stated = details.get("checksum")
    if stated and details.get("hash_algorithm") == "sha256" and stated != hashlib.sha256(content).hexdigest():
        raise BenchmarkError(f"{visible(str(file))} has another SHA-256 than {visible(str(aggregate))} says")


def _answer(raw: Json) -> dict[str, object]:
    """Return what an instance says of its item, in the fields of a LoggedAnswer; wrong types are refused there."""
    metadata = _mapping(raw.get("metadata"))
    answers = raw.get("answer_attribution")
    final = [_mapping(answer) for answer in answers] if isinstance(answers, list) else []
    values = [answer.get("extracted_value") for answer in final if answer.get("is_terminal")]
    choices = _mapping(raw.get("input")).get("choices") or []
    reference = _mapping(raw.get("input")).get("reference")
    correct = _mapping(raw.get("evaluation")).get("is_correct")
    return {
        "item": raw.get("sample_id"),
        "choices": choices or None,
        "target": _target(choices, reference),
        "answer": values[0] if len(values) == 1 and values[0] else None,
        "correct": correct if isinstance(correct, bool) else None,
        "error": raw.get("error") or None,
        "row": _row(metadata) if RECORD in metadata else None,
    }


def _target(choices: object, reference: object) -> list[str] | None:
    """Return the letters of the choices that are references; None where one is no choice, or several choices."""
    if not isinstance(choices, list) or not isinstance(reference, list):
        return None
    if any(choices.count(text) != 1 for text in reference):
        return None
    return [letter(choices.index(text)) for text in reference]


def _mapping(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


_ROW_TEXTS = frozenset({"item", "cluster", "domain", "input", "prompt"})


def _row(metadata: Json) -> dict[str, object]:
    """Return our row, whose values other than texts are JSON."""
    own = {name: text for name, text in metadata.items() if name not in _BESIDE}
    return {name: _value(name, text, _ROW_TEXTS) for name, text in own.items()}


def _value(name: str, text: object, texts: frozenset[str]) -> object:
    if name in texts or not isinstance(text, str):
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


FORMAT = FileFormat(
    "instances of EvalEval", logged_entries, "score: 1 for the answer, or as in the file", "item", _rows
)


# ---------------------------------------------------------------- what others published


_PRIOR = "prior sets"


def read_leaderboard(paths: Sequence[str | Path]) -> PublishedTable:
    """Return the table of a CSV file, or of EvalEval files and folders of them, several boards side by side.

    Models are one where their names differ in case alone. A board's columns begin with its name.
    """
    files = [Path(path) for path in paths]
    if len(files) == 1 and not files[0].is_dir() and files[0].suffix.lower() != ".json":
        return without_absent(read_published(files[0]))
    documents = [file for path in files for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    if not documents:
        raise MetricError(f"{', '.join(map(str, files))}: no .json file there; wanted one per model, or one CSV file")
    if table := next((file for file in documents if file.suffix.lower() == ".csv"), None):
        raise MetricError(f"{table}: CSV goes one file at a time; several files are EvalEval's JSON, one a model")
    cells: dict[str, dict[str, str]] = {}
    origin: dict[tuple[str, str], Path] = {}
    spelled: dict[str, str] = {}
    notes: dict[str, None] = {}
    for file in documents:
        model, scores, left = _board_scores(file)
        row = cells.setdefault(spelled.setdefault(model.casefold(), model), {})
        notes |= dict.fromkeys(left)
        for name, score in scores.items():
            first = origin.setdefault((model.casefold(), name), file)
            if row.setdefault(name, score) != score:
                raise RowError(
                    str(file), 1, name, found=score, wanted=f"{row[name]}, as in {first}: one evaluation of each model"
                )
    columns = tuple(dict.fromkeys(name for row in cells.values() for name in row))
    cells = {model: {name: row.get(name, "") for name in columns} for model, row in cells.items()}
    label = ", ".join(map(str, files))
    return without_absent(PublishedTable(label, columns, cells, dict.fromkeys(cells, 1), notes=tuple(notes)))


def without_absent(table: PublishedTable) -> PublishedTable:
    """Return the table without the zeros that mean missing; a note says how many there were in which column."""
    notes, cells = list(table.notes), {model: dict(row) for model, row in table.cells.items()}
    for name in (name for name in table.columns if _PRIOR in name.casefold()):
        absent = [model for model, row in cells.items() if _number(row[name]) == 0]
        for model in absent:
            cells[model][name] = ""
        if absent:
            notes.append(f"{table.file}: {name} is 0 for {len(absent):,} of {len(cells):,} models, which means missing")
    return replace(table, cells=cells, notes=tuple(notes))


def missing(table: PublishedTable) -> list[str]:
    """Return a line for each column that some models lack."""
    counts = {name: sum(not row[name] for row in table.cells.values()) for name in table.columns}
    return [f"{name}: missing for {count:,} of {len(table.cells):,} models" for name, count in counts.items() if count]


def csv_of(table: PublishedTable) -> str:
    """Return the table as `pluralrm correlate --csv` reads it; what is missing is blank."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["model", *table.columns])
    writer.writerows([model, *(row[name] for name in table.columns)] for model, row in table.cells.items())
    return stream.getvalue()


def _board_scores(file: Path) -> tuple[str, dict[str, str], list[str]]:
    """Return the model of a file, its scores by column, and what is left out."""
    try:
        document = cast(object, json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError) as exc:
        raise MetricError(f"cannot read {str(file)!r}: {exc}. Wanted EvalEval's JSON, one file a model") from exc
    model = _at(document, file, "model_info", "name") or _at(document, file, "model_info", "id")
    board = _at(document, file, "source_metadata", "source_name")
    board = board or str(_at(document, file, "evaluation_id") or "").partition("/")[0]
    results = _at(document, file, "evaluation_results")
    if not isinstance(model, str) or not model.strip():
        raise RowError(str(file), 1, "model_info.name", found="no name", wanted="the model's name")
    if not isinstance(results, list) or not results:
        raise RowError(str(file), 1, "evaluation_results", found="none", wanted="a list of scores")
    scores: dict[str, str] = {}
    left = []
    for result in results:
        name = (
            f"{board}: {_at(result, file, 'evaluation_name')}" if board else str(_at(result, file, "evaluation_name"))
        )
        if _at(result, file, "metric_config", "lower_is_better"):
            left.append(f"left out: {name}, for lower is better there")
            continue
        score = _at(result, file, "score_details", "score")
        if isinstance(score, bool) or not isinstance(score, int | float | None):
            raise RowError(str(file), 1, f"{name} score", found=repr(score)[:40], wanted="a number, or null")
        scores[" ".join(name.split())] = "" if score is None or not math.isfinite(score) else repr(score)
    return " ".join(model.split()), scores, left


def _at(value: object, file: Path, *keys: str) -> object:
    """Return the value under some keys; None where one is missing."""
    for key in keys:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise RowError(str(file), 1, key, found="no object around it", wanted="EvalEval's JSON")
        value = cast("Mapping[str, object]", value).get(key)
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
