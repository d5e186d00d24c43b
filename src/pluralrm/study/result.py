"""What a study found, as data: a function of what is on disk, without a time, and without a path outside its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm._version import __version__
from pluralrm.core import Estimate, Run
from pluralrm.policies.best_of_n import BestOfN
from pluralrm.policies.curves import BestOfCurve, CurvePoint
from pluralrm.policies.pool import POOL
from pluralrm.runs import load_manifest
from pluralrm.study.columns import (
    Correlation,
    Side,
    benchmark_sides,
    correlation,
    downstream_sides,
    trained_sides,
)
from pluralrm.study.file import Declared
from pluralrm.study.means import Left
from pluralrm.study.parts import models_of
from pluralrm.study.ppo.found import Found
from pluralrm.study.ppo.told import trained_json, trainings_json
from pluralrm.study.steps import Done, Picked


@dataclass(frozen=True)
class Result:
    """The study, its numbers, and where each came from."""

    declared: Declared
    models: tuple[str, ...]
    benchmarks: tuple[Side, ...]
    downstream: tuple[Side, ...]
    correlation: Correlation
    picked: Picked | None
    trained: Found | None
    left: tuple[Left, ...]
    provenance: Mapping[str, object]
    loads: tuple[str, ...] = ()
    """What the loaders dropped, left empty or skipped, a sentence for each benchmark that was not clean."""

    @property
    def complete(self) -> bool:
        """False where the same command has something to try again, or a model is broken."""
        return not any(one.why in {"open", "broken"} for one in self.left)

    @property
    def verdicts(self) -> list[str]:
        """Whether each benchmark predicts each downstream result, and how sure that is."""
        report = self.correlation.report
        return [cell.verdict for cell in report.cells] if report else []

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know, such as who saw the rubric; correlated or not."""
        report = self.correlation.report
        columns = [side.column for side in (*self.benchmarks, *self.downstream)]
        said = [*self.loads, *(report.notes if report else ()), *(note for column in columns for note in column.notes)]
        return list(dict.fromkeys(said))

    @property
    def ranked(self) -> list[str]:
        """The models, the best downstream first; without a downstream result, the best on the first benchmark."""
        order = [*self.downstream[::-1][:1], *self.benchmarks[:1]]
        return sorted(self.models, key=lambda model: [-_value(side, model) for side in order])

    def to_json(self) -> dict[str, object]:
        """Return everything under its name; equal folders give equal bytes."""
        report = self.correlation.report
        return {
            "schema": 1,
            "title": self.declared.title,
            "complete": self.complete,
            "verdicts": self.verdicts,
            "notes": self.notes,
            "models": [
                {"model": model, "benchmarks": _of(self.benchmarks, model), "downstream": _of(self.downstream, model)}
                for model in self.ranked
            ],
            "best_of_n": _best_of(self.picked.found) if self.picked else None,
            "ppo": trained_json(self.trained) if self.trained else None,
            "correlation": report and report.to_json(),
            "not_correlated": list(self.correlation.why_not),
            "left": [one._asdict() for one in self.left],
            "study": self.declared.to_json(),
            "provenance": dict(self.provenance),
        }


def result_of(declared: Declared, done: Done, out: Path) -> Result:
    """Return what was found."""
    benchmarks = benchmark_sides(done)
    downstream = [
        *(downstream_sides(done.picked) if done.picked else ()),
        *(trained_sides(done.trained) if done.trained else ()),
    ]
    return Result(
        declared=declared,
        models=tuple(models_of(declared)),
        benchmarks=tuple(benchmarks),
        downstream=tuple(downstream),
        correlation=correlation(benchmarks, downstream, rbo_p=declared.correlate.rbo_p, seed=declared.seed)
        if downstream
        else Correlation(None),
        picked=done.picked,
        trained=done.trained,
        left=tuple(done.left),
        provenance=_provenance(done, out),
        loads=_loads(done),
    )


def _loads(done: Done) -> tuple[str, ...]:
    found = [*done.benchmarks, *([done.picked.benchmark] if done.picked else [])]
    cards = {benchmark.content_hash: benchmark.card for benchmark in found}.values()
    return tuple(f"{card.name}: {told}" for card in cards if (told := str(card.load)))


def _value(side: Side, model: str) -> float:
    return side.estimates[model].value if model in side.estimates else -1.0


def _of(sides: Sequence[Side], model: str) -> list[dict[str, object]]:
    return [
        {"column": side.name, "condition": side.condition, "metric": side.metric, **side.estimates[model].to_json()}
        for side in sides
        if model in side.estimates
    ]


def _best_of(found: BestOfN) -> dict[str, object]:
    return {
        "way": "exact" if found.exact else "first",
        "ks": list(found.ks),
        "ungraded": found.ungraded,
        "oracle": [one.to_json() for one in found.oracle],
        "random": [one.to_json() for one in found.random],
        "curves": [_curve(curve) for curve in found.curves],
    }


def _curve(curve: BestOfCurve) -> dict[str, object]:
    return {
        "model": curve.model,
        "condition": curve.condition,
        "shown_rubric": curve.shown_rubric,
        "peak": curve.peak,
        "over_optimised": curve.over_optimised,
        "fall": _json(curve.fall),
        "points": [_point(point) for point in curve.points],
    }


def _point(point: CurvePoint) -> dict[str, object]:
    beside = {"first": _json(point.first), "regret": _json(point.regret), "at_most": point.at_most}
    return {"k": point.k, "kl": point.kl, "grade": point.grade.to_json(), **beside, "score": point.score}


def _json(estimate: Estimate | None) -> dict[str, float | int | str | None] | None:
    return None if estimate is None else estimate.to_json()


# ---------------------------------------------------------------- where it came from


def _provenance(done: Done, out: Path) -> dict[str, object]:
    picked = done.picked
    return {
        "pluralrm": __version__,
        "benchmarks": [
            {"name": one.card.name, "revision": one.card.revision, "content_hash": one.content_hash, "seed": one.seed}
            for one in done.benchmarks
        ],
        "runs": [_run(run, out) for run in done.runs],
        "pool": picked and _pool(picked, out),
        "trainings": trainings_json(done.trained, out) if done.trained else [],
        "picks": [_run(run, out) for run in picked.runs] if picked else [],
        "grader": picked and {"spec": picked.grader.spec, "identity": dict(picked.grader.identity)},
    }


def _run(run: Run, out: Path) -> dict[str, object]:
    manifest = load_manifest(run.path)
    return {
        "folder": _inside(run.path, out),
        "model": run.model,
        "identity": manifest.identity,
        "benchmark_hash": run.benchmark_hash,
        "condition": run.condition,
        "items": run.items,
        "failures": manifest.failures,
        "versions": manifest.versions,
    }


def _pool(picked: Picked, out: Path) -> dict[str, object]:
    manifest = POOL.read(picked.pool.folder)
    return {
        "folder": _inside(picked.pool.folder, out),
        "policy": manifest.policy,
        "identity": manifest.identity,
        "condition": manifest.condition,
        "benchmark_hash": picked.pool.benchmark_hash,
        "content_hash": picked.pool.content_hash,
        "draw": manifest.draw.model_dump(),
        "finishes": manifest.finishes,
        "versions": manifest.versions,
    }


def _inside(path: str, out: Path) -> str:
    """Return a folder as it is called inside the study's, the same on every machine."""
    return Path(path).relative_to(out).as_posix()
