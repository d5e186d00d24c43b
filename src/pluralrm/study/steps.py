"""The steps of a study, in their order. Each is what its own verb does, in a folder of its own, and resumes from it.

A model that breaks costs its own cells; what a server did not answer stays open. Both are named, and nothing stops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pluralrm.core import Benchmark, Run
from pluralrm.grading import Grader
from pluralrm.policies.best_of_n import BestOfN, best_of_n, scores_folder, selected
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.outcomes import write_outcomes
from pluralrm.policies.pool import Pool, pool_benchmark, pool_name
from pluralrm.policies.sample import sample
from pluralrm.progress import JobStep, size_of
from pluralrm.runs import GridCell, last_outage, plan, score
from pluralrm.study.file import StudyDeclaration
from pluralrm.study.parts import (
    RUNS,
    Answering,
    Missing,
    StudyContext,
    answered_benchmark,
    answering,
    benchmark_of,
    check_benchmarks,
    check_cells,
    grader_of,
    load_models,
    models_of,
    names_of,
    points,
)
from pluralrm.study.ppo import recipe_of, rewarded_benchmark
from pluralrm.study.ppo.results import TrainingResults, found_of
from pluralrm.study.ppo.trainer import Trainer


@dataclass(frozen=True)
class BestOfNResult:
    """A pool, what reward models made of it, and the k that are downstream results."""

    pool: Pool
    benchmark: Benchmark
    runs: tuple[Run, ...]
    grader: Grader
    found: BestOfN
    outcomes: tuple[Path, ...]
    points: tuple[int, ...]


@dataclass(frozen=True)
class StudyWork:
    """All that was scored, picked and graded, and what is left."""

    benchmarks: tuple[Benchmark, ...]
    runs: tuple[Run, ...]
    picked: BestOfNResult | None
    trained: TrainingResults | None = None
    left: list[Missing] = field(default_factory=list)

    @property
    def open(self) -> list[Missing]:
        """What the same command tries again."""
        return [missing for missing in self.left if missing.why == "open"]


def work(declared: StudyDeclaration, means: StudyContext) -> StudyWork:
    """Do what is not done yet. All that can be wrong with the file is said before anything is scored."""
    models = models_of(declared)
    benchmarks = {name: benchmark_of(declared, name) for name in declared.benchmarks}
    check_benchmarks(declared, benchmarks)
    load_models(models, means.settings)
    cells = plan(list(benchmarks.values()), models, declared.conditions, settings=means.settings)
    check_cells(cells)
    steps = StudySteps(declared, models, means)
    chain = steps.chain(benchmarks)
    trainer = _trainer(declared, benchmarks, means)
    if chain and chain[0].policy is None:
        points(declared, steps.pool_of_file(chain[0]).n)
    means.display.expect([*steps.expected(cells, *chain or ()), *(trainer.expected() if trainer else ())])
    runs = steps.score(cells, means.out / RUNS, domains=declared.domains, limit=declared.limit)
    best_of = steps.pick(*chain) if chain else None
    if trainer is not None:
        trainer.go()
    trained = found_of(trainer.recipe, means.out) if trainer else None
    return StudyWork(tuple(benchmarks.values()), tuple(runs), best_of, trained, means.left)


def _trainer(declared: StudyDeclaration, benchmarks: Mapping[str, Benchmark], means: StudyContext) -> Trainer | None:
    """Return who trains what; None where nothing is trained. What cannot be is an error now."""
    if declared.ppo is None:
        return None
    name, on = rewarded_benchmark(declared), declared.ppo.evaluate_on
    loaded = {key: benchmarks.get(key) or benchmark_of(declared, key) for key in (name, on) if key}
    recipe = recipe_of(declared, loaded[name], means.settings, evaluated=loaded.get(on))
    trainer = Trainer(recipe, means)
    trainer.check()
    return trainer


@dataclass(frozen=True)
class StudySteps:
    """The steps at work. A dry run takes the same ones, and counts in `scored`, `pool` and `graded` (study/plan.py)."""

    declared: StudyDeclaration
    models: Sequence[str]
    means: StudyContext

    def chain(self, benchmarks: Mapping[str, Benchmark]) -> tuple[Answering, Grader] | None:
        """Return who answers and who grades; None where the study is about scores alone."""
        declared, options, settings = self.declared, self.declared.best_of_n, self.means.settings
        if options is None:
            return None
        name = answered_benchmark(declared)
        who = answering(declared, options, benchmarks.get(name) or benchmark_of(declared, name), settings)
        if who.policy is not None:
            points(declared, options.n)
        return who, grader_of(who, self.models, declared.conditions, settings)

    def expected(
        self, cells: Sequence[GridCell], who: Answering | None = None, grader: Grader | None = None
    ) -> Iterator[JobStep]:
        """Yield the steps to come, each as large as the texts that it reads or writes."""
        for cell in cells:
            if cell.skip is None:
                size = size_of(cell.benchmark, self.declared.domains, self.declared.limit)
                yield JobStep(cell.title, cell.model, size)
        if who is None or grader is None:
            return
        options, settings = who.declared, self.means.settings
        size = options.n * len(who.benchmark.select(domains=options.domains, limit=options.limit))
        if who.policy is not None:
            yield JobStep(_drawing(who), who.policy.spec, size)
        card = replace(who.benchmark.card, name=pool_name(who.benchmark))
        for cell in plan([replace(who.benchmark, card=card)], self.models, self.declared.see, settings=settings):
            if cell.skip is None:
                yield JobStep(cell.title, cell.model, size)
        name = f"given:{Path(options.from_).name}" if who.policy is None else who.policy.spec
        yield JobStep(f"{name} × {grader.spec}", grader.spec, size)

    def score(
        self, cells: Sequence[GridCell], out: Path, *, domains: Sequence[str] = (), limit: int | None = None
    ) -> list[Run]:
        """Return the complete runs."""
        runs = [self.scored(cell, out, domains=domains, limit=limit) for cell in cells]
        return [run for run in runs if run is not None]

    def pick(self, who: Answering, grader: Grader) -> BestOfNResult | None:
        """Return what reward models make of the policy; None where answers or grades that are needed are missing."""
        pool = self.pool(who)
        if pool is None:
            return None
        downstream = points(self.declared, pool.n)
        answers, settings = pool_benchmark(pool, who.benchmark), self.means.settings
        runs = self.score(plan([answers], self.models, self.declared.see, settings=settings), scores_folder(pool))
        if not self.graded(pool, who, grader, runs):
            return None
        ks, exact = who.declared.ks(pool.n), who.declared.grade == "all"
        result = best_of_n(pool, who.benchmark, runs, read_grades(grade_folder(pool, grader)), ks=ks, exact=exact)
        outcomes = write_outcomes(pool, who.benchmark, runs, result, grader=grader.spec)
        return BestOfNResult(pool, who.benchmark, tuple(runs), grader, result, tuple(outcomes), downstream)

    def scored(self, cell: GridCell, out: Path, *, domains: Sequence[str], limit: int | None) -> Run | None:
        """Score a cell, and return its run where it is complete."""
        if cell.skip is not None:
            self.means.left.append(Missing(cell.title, "skipped", cell.skip))
            return None
        with self.means.watched(cell.title, cell.model, cell.condition.spec) as display:
            run = score(
                cell.benchmark,
                cell.model,
                cell.condition,
                out=out,
                domains=domains,
                limit=limit,
                fresh=cell.model in self.means.fresh,
                settings=self.means.settings,
                on=self.means.cluster,
                progress=display.update,
                alias=names_of(self.declared).get(cell.model, ""),
            )
            if run.complete:
                return _in_order(run, cell.benchmark)
            reason = f"{run.done:,} of {run.items:,} items; {last_outage(run.path)}"
            self.means.left.append(Missing(cell.title, "open", reason))
        return None

    def pool_of_file(self, who: Answering) -> Pool:
        """Return the pool of the answers in a file."""
        return pool_from_jsonl(who.declared.from_, who.benchmark, who.condition, out=who.folder(self.means.out))

    def pool(self, who: Answering) -> Pool | None:
        """Return the complete pool, or None where samples are open or the policy is broken."""
        options, bench = who.declared, who.benchmark
        if who.policy is None:
            return self.pool_of_file(who)
        name = _drawing(who)
        with self.means.watched(name, who.policy.spec, who.condition.spec) as display:
            pool = sample(
                bench,
                who.policy,
                who.condition,
                out=who.folder(self.means.out),
                draw=who.draw,
                domains=options.domains,
                limit=options.limit,
                fresh=who.policy.spec in self.means.fresh,
                settings=self.means.settings,
                on=self.means.cluster,
                progress=display.update,
            )
            if pool.complete:
                return pool
            drawn, total = sum(map(len, pool.samples.values())), len(pool.samples) * pool.n
            self.means.left.append(Missing(name, "open", f"{drawn:,} of {total:,} answers"))
        return None

    def graded(self, pool: Pool, who: Answering, grader: Grader, runs: Sequence[Run]) -> bool:
        """Grade what has no grade yet, and return whether all that is needed has one now."""
        if not runs:
            return False
        texts = None if who.declared.grade == "all" else selected(pool, runs, who.declared.ks(pool.n))
        name = f"{pool.policy} × {grader.spec}"
        with self.means.watched(name) as display:
            done = grade_pool(pool, who.benchmark, grader, only=texts, progress=display.update, on=self.means.cluster)
            if not done.open:
                return True
            graded = f"{done.total - done.open:,} of {done.total:,} answers have their grade"
            self.means.left.append(Missing(name, "open", graded))
        return False


def _drawing(who: Answering) -> str:
    return f"{who.benchmark.card.name} × {who.policy.spec if who.policy else ''} × {who.condition.spec}"


def _in_order(run: Run, benchmark: Benchmark) -> Run:
    """Return the run with its rows in the benchmark's order: what was open for a while stands at the end on disk."""
    index = {item.id: number for number, item in enumerate(benchmark.items)}
    return replace(run, rows=tuple(sorted(run.rows, key=lambda row: index[row.item])))
