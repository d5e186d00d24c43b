"""Inspect: a run as an `.eval` log, a log as a run, and a benchmark as a task for Inspect's solvers and models.

| in a log | is |
|---|---|
| sample | an item; its row travels in the metadata, under `pluralrm` |
| score `choice` | C, I, or P where the right candidate shares the top; a failed item has an error and no score |
| `results` | every metric of `summary` with the ends of its interval |
| `eval.metadata` | hashes, versions, condition: `provenance_of` |

The only module that imports inspect_ai.
"""

import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Literal, cast
from uuid import UUID

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.rows import Place, Refuse, shortened, visible
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Estimate, Failure, Item, Query, Run
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, ConditionError, MissingExtraError
from pluralrm.exchange.items import (
    WITHHELD,
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
from pluralrm.metrics import summary
from pluralrm.runs.formats import FileFormat
from pluralrm.runs.records import RunManifest, slug
from pluralrm.runs.verdicts import prepared
from pluralrm.templates import DEFAULT, load_template
from pluralrm.text import well_formed

try:
    from inspect_ai import Task
    from inspect_ai import task as register_task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalError,
        EvalLog,
        EvalMetric,
        EvalPlan,
        EvalResults,
        EvalSample,
        EvalScore,
        EvalSpec,
        EvalStats,
        read_eval_log,
        write_eval_log,
    )
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, PARTIAL, Score, Scorer, Target, accuracy, scorer, stderr
    from inspect_ai.solver import TaskState, multiple_choice
except ImportError as exc:
    raise MissingExtraError("reading or writing logs of Inspect", "inspect") from exc

RECORD = "pluralrm"
"""Under this name stand the row of a sample, and the provenance of a log, in their metadata."""
SCORE = "choice"


# ---------------------------------------------------------------- a run as a log


def write_log(folder: str | Path, out: str | Path, *, posts: bool = False) -> Path:
    """Write the log of a run and return its file; the same run gives the same bytes."""
    run, manifest = load_exportable(folder)
    samples = [_sample(item, run) for item in run_items(run, posts=posts)]
    key = digest([manifest.rows_hash, manifest.items_hash, run.model, run.condition, manifest.started, posts])
    log = EvalLog(
        status="success" if run.complete else "cancelled",
        eval=_spec(run, manifest, key),
        plan=EvalPlan(),
        results=_results(run, samples),
        stats=EvalStats(started_at=_time(manifest.started), completed_at=_time(manifest.finished)),
        samples=samples,
    )
    moment = _time(manifest.started).replace(":", "-").replace("+", "-")
    file = Path(out) / f"{moment}_{slug(log.eval.task)}_{key[:22]}.eval"
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch) / file.name
        write_eval_log(log, str(draft))
        replace_file(file, _undated(draft))
    return file


def _time(moment: str | None) -> str:
    return "" if not moment else datetime.fromisoformat(moment).astimezone(UTC).isoformat(timespec="seconds")


def _undated(file: Path) -> bytes:
    """Return a zip file without the times at which its entries were written."""
    stream = BytesIO()
    with zipfile.ZipFile(file) as dated, zipfile.ZipFile(stream, "w") as plain:
        for entry in dated.infolist():
            copied = zipfile.ZipInfo(entry.filename)
            copied.compress_type, copied.external_attr = entry.compress_type, entry.external_attr
            plain.writestr(copied, dated.read(entry))
    return stream.getvalue()


def _spec(run: Run, manifest: RunManifest, key: str) -> EvalSpec:
    return EvalSpec(
        eval_id=key[:22],
        run_id=key[22:44],
        task_id=digest([run.benchmark, run.condition])[:22],
        created=_time(manifest.started),
        task=well_formed(f"{run.benchmark} {pathless(run.condition)}"),
        task_version=run.benchmark_hash[:8],
        model=pathless(run.name or run.model),
        dataset=EvalDataset(
            name=well_formed(run.benchmark), samples=len(run.rows), sample_ids=_ids(run), shuffled=False
        ),
        config=EvalConfig(),
        packages={name: version for name, version in manifest.versions.items() if name != "python"},
        metadata={RECORD: provenance_of(run, manifest)},
    )


def _ids(run: Run) -> list[str]:
    return [well_formed(row.item) for row in run.rows]


def _sample(item: RunItem, run: Run) -> EvalSample:
    """Return the sample of an item: what was sent and said as messages, a failure as its error."""
    name, row = well_formed(item.row.item), item.row
    uuid = str(UUID(digest([run.benchmark_hash, run.model, run.condition, name])[:32]))
    output = ModelOutput(model=pathless(run.model), completion="" if item.error else item.explanation)
    output.choices = []
    return EvalSample(
        id=name,
        epoch=1,
        input=item.prompt,
        choices=list(item.choices) or None,
        target=[letter(index) for index in row.best],
        messages=_messages(item, uuid),
        output=output,
        scores=None if item.error else {SCORE: _score(item)},
        error=EvalError(message=item.error, traceback=item.error, traceback_ansi=item.error) if item.error else None,
        metadata={
            "domain": well_formed(row.domain),
            "cluster": well_formed(row.cluster),
            "posts_shown": row.posts,
            "context": WITHHELD if item.withheld else item.context,
            RECORD: item.record,
        },
        uuid=uuid,
    )


def _messages(item: RunItem, key: str) -> list[ChatMessageUser | ChatMessageAssistant]:
    """Return what was sent and said; of a model that only scores, the prompt and each candidate with its score."""
    if item.exchanges:
        turns = [text for exchange in item.exchanges for text in exchange]
        kinds = [ChatMessageUser, ChatMessageAssistant] * len(item.exchanges)
    else:
        scores = [score.kind if isinstance(score, Failure) else repr(score) for score in item.row.scores]
        labels = zip(item.names, scores, item.choices, strict=False)  # an item that was not scored has no choices
        turns = [
            item.prompt,
            *(f"{letter(n)} ({name}): {score}\n\n{text}" for n, (name, score, text) in enumerate(labels)),
        ]
        kinds = [ChatMessageUser, *[ChatMessageAssistant] * (len(turns) - 1)]
    return [
        kind(content=well_formed(text), id=f"{key}-{n}")
        for n, (kind, text) in enumerate(zip(kinds, turns, strict=True))
    ]


def _score(item: RunItem) -> Score:
    value = {1.0: CORRECT, 0.0: INCORRECT}.get(item.credit, PARTIAL)
    scores = dict(zip(item.names, item.row.scores, strict=True))
    answer = ", ".join(letter(index) for index in item.top)
    return Score(
        value=value, answer=answer, explanation=item.explanation, metadata={"scores": scores, "credit": item.credit}
    )


def _results(run: Run, samples: list[EvalSample]) -> EvalResults:
    numbers = summary(run)
    scored = sum(sample.error is None for sample in samples)
    metrics: dict[str, EvalMetric] = {}
    for name, estimate in numbers.metrics.items():
        metrics |= _metrics(name, estimate)
    return EvalResults(
        total_samples=len(samples),
        completed_samples=scored,
        scores=[
            # Failed samples are in every metric: with the number of scored ones the viewer would leave them out.
            EvalScore(name=SCORE, scorer=RECORD, metrics=metrics)
        ],
        metadata={"summary": numbers.to_json() | {"model": pathless(run.model), "condition": pathless(run.condition)}},
    )


def _metrics(name: str, estimate: Estimate) -> dict[str, EvalMetric]:
    """Return a metric, and the ends of its interval where it has one; n, failures and method in the metadata."""
    ends = {"": estimate.value, "_low": estimate.low, "_high": estimate.high}
    facts = estimate.to_json()
    return {
        name + end: EvalMetric(name=name + end, value=value, metadata=facts)
        for end, value in ends.items()
        if value is not None
    }


# ---------------------------------------------------------------- a log as a run


def read_header(file: str | Path) -> RunHeader:
    """Return what a log says of its model and, where this package wrote it, of the condition."""
    spec = _log(Path(file), header_only=True).eval
    facts = (spec.metadata or {}).get(RECORD)
    header = header_from(facts) if isinstance(facts, dict) else RunHeader("", "")
    return header._replace(model=header.model or spec.model)


def _log(file: Path, *, header_only: bool = False) -> EvalLog:
    try:
        return read_eval_log(str(file), header_only=header_only)
    except Exception as exc:
        problem = shortened(str(exc) or type(exc).__name__, 200)
        raise BenchmarkError(f"cannot read {visible(str(file))}: {problem}. Wanted a log of Inspect") from exc


def _samples(file: Path, refuse: Refuse) -> Iterator[tuple[Place, Mapping[str, object]]]:
    """Yield what each sample says, with its number; one with several scores and none of ours is refused."""
    for number, sample in enumerate(_log(file).samples or [], 1):
        location = Place(str(file), number)
        scores = dict(sample.scores or {})
        if len(scores) > 1 and SCORE not in scores and RECORD not in sample.metadata:
            actual = shortened(", ".join(scores))
            refuse(location.refuse("scores", found=f"several: {actual}", wanted=f"one, or one that is named {SCORE!r}"))
            continue
        score = scores.get(SCORE) or next(iter(scores.values()), None)
        yield location, {"item": sample.id, "choices": sample.choices, **_said(sample, score)}


def _said(sample: EvalSample, score: Score | None) -> dict[str, object]:
    target = [sample.target] if isinstance(sample.target, str) else list(sample.target)
    facts: dict[str, object] = {"target": target, "row": sample.metadata.get(RECORD)}
    if sample.error is not None:
        return {**facts, "error": sample.error.message or "error"}
    if score is None:
        return {**facts, "error": "no score"}
    if isinstance(score.value, list | dict):
        return {**facts, "values": score.value}
    return {**facts, "answer": score.answer or None, "correct": {CORRECT: True}.get(str(score.value))}


FORMAT = FileFormat(
    "a log of Inspect: choices or scores", logged_entries, "score: 1 for the choice, or as in the log", "item", _samples
)


# ---------------------------------------------------------------- a benchmark as a task


def benchmark_task(
    benchmark: str = "pocket-prb",
    condition: str = "none",
    *,
    limit: int | None = None,
    seed: int = 0,
    send_posts: bool = False,
) -> Task:
    """Return a benchmark as choices for any model of Inspect's: a reply without one choice is a failure, and wrong.

    The solver may be replaced; whichever marks the choices is scored. Posts go to the model only with `send_posts`.
    """
    bench, context = load_benchmark(benchmark, seed=seed), load_condition(condition)
    if problem := context.unsupported(bench):
        raise ConditionError(problem)
    items = bench.select(limit=limit)
    queries = [entry.query for entry in prepared(context, bench, items)]
    if any(query.private for query in queries) and not send_posts:
        raise ConditionError(
            f"under {condition} the model would see what users wrote, and Inspect may send it anywhere. Allow that "
            "with send_posts=true (-T send_posts=true), or show nothing of the user, as under 'none'"
        )
    samples = [_question(item, query, bench) for item, query in zip(items, queries, strict=True)]
    return Task(
        dataset=MemoryDataset(samples, name=well_formed(f"{bench.card.name} {condition}")),
        solver=multiple_choice(),
        scorer=choice_of_preferred(),
        version=bench.content_hash[:8],
        metadata={RECORD: {"condition": condition, "content_hash": bench.content_hash, "seed": seed}},
    )


def _question(item: Item, query: Query, bench: Benchmark) -> Sample:
    return Sample(
        id=well_formed(item.id),
        input=well_formed(load_template(DEFAULT).render(query)),
        choices=list(map(well_formed, query.candidates)),
        target=[letter(index) for index in item.best],
        metadata={
            "cluster": well_formed(item.cluster),
            "domain": well_formed(item.domain),
            "benchmark": bench.card.name,
        },
    )


def _choice_of_preferred() -> Scorer:
    """Return the scorer: C where the choice is of the best grade, I where it is another, N where there is not one."""

    async def score(state: TaskState, target: Target) -> Score:
        marked = [index for index in range(len(state.choices)) if state.choices[index].correct]
        reply = state.output.completion
        if len(marked) != 1:
            problem = "no choice" if not marked else f"{len(marked)} choices"
            return Score(value=NOANSWER, explanation=f"parse: {problem} in the reply: {reply[-200:]}")
        answer = letter(marked[0])
        value: Literal["C", "I"] = cast("Literal['C', 'I']", CORRECT if answer in target.target else INCORRECT)
        return Score(value=value, answer=answer, explanation=reply)

    return score


choice_of_preferred = scorer(metrics=[accuracy(), stderr(cluster="cluster")], name=SCORE)(_choice_of_preferred)
task = register_task(name="benchmark")(benchmark_task)
