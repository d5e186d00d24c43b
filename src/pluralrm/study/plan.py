"""The plan of a study: each step, how much of it is on disk, what is missing, calls and cost. Nothing is run or asked.

What cannot be known yet says why: a benchmark that is not here, an extra that is not installed, answers that are still
to be sampled.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from pluralrm.conditions import KINDS as CONDITIONS
from pluralrm.conditions import parse_condition
from pluralrm.core import Benchmark, Run
from pluralrm.errors import BenchmarkError, MissingExtraError
from pluralrm.grading import Grader, parse_grader
from pluralrm.http import Price, Settings
from pluralrm.models import KINDS, default_settings, parse_model
from pluralrm.policies.answers import as_benchmark, items_of
from pluralrm.policies.best_of_n import scores_folder, selected
from pluralrm.policies.grading import bill as grading_bill
from pluralrm.policies.policies import parse_policy
from pluralrm.policies.pool import POOL, Pool, load_pool
from pluralrm.policies.sample import planned
from pluralrm.runs import Cell, load_run, run_folder
from pluralrm.runs import plan as grid
from pluralrm.runs.records import RUN
from pluralrm.runs.store import scored_items
from pluralrm.study.bills import FREE, Bill, sampling_bill, scoring_bill
from pluralrm.study.file import Declared
from pluralrm.study.parts import (
    RUNS,
    Answering,
    answered_benchmark,
    answering,
    benchmark_of,
    check_benchmarks,
    grader_of,
    models_of,
    points,
)
from pluralrm.study.ppo.planning import Planned
from pluralrm.study.ppo.recipe import rewarded_benchmark
from pluralrm.study.step import Plan, Step, Verb
from pluralrm.study.tables import BestOf

UNSAMPLED = "unknown until sampled"


def plan_study(
    declared: Declared, *, out: str | Path, settings: Settings | None = None, fresh: Collection[str] = ()
) -> Plan:
    """Return the plan; unknown names are errors here too. Nothing is on disk of what begins anew."""
    planner = _Planner(declared, Path(out), settings or default_settings(), models_of(declared), frozenset(fresh))
    return Plan((*planner.scoring(), *planner.best_of_n(), *planner.ppo()))


@dataclass(frozen=True)
class _Planner:
    declared: Declared
    out: Path
    settings: Settings
    models: Sequence[str]
    fresh: frozenset[str]

    def scoring(self) -> Iterator[Step]:
        """Yield one step per cell."""
        for name in self.declared.benchmarks:
            benchmark = self._benchmark(name)
            if isinstance(benchmark, str):
                yield from self._unknown("score", name, self.declared.conditions, items=None, reason=benchmark)
                continue
            check_benchmarks(self.declared, {name: benchmark})
            for cell in grid([benchmark], self.models, self.declared.conditions, settings=self.settings):
                yield self._cell("score", name, cell, self.out / RUNS, limited=True)[0]

    def best_of_n(self) -> Iterator[Step]:
        """Yield the steps from the pool to its grades."""
        asked = self.declared.best_of_n
        if asked is None:
            return
        name = answered_benchmark(self.declared)
        benchmark = self._benchmark(name)
        if isinstance(benchmark, str):
            yield from self._unplanned(asked, name, benchmark)
            return
        try:
            who = answering(self.declared, asked, benchmark, self.settings)
            grader = grader_of(who, self.models, self.declared.conditions, self.settings)
        except MissingExtraError as exc:
            yield from self._unplanned(asked, name, str(exc))
            return
        step, pool = self._sampling(who, name)
        yield step
        if pool is None:
            items = len(benchmark.select(domains=asked.domains, limit=asked.limit)) if asked.policy else None
            yield from self._unknown("score answers", name, self.declared.see, items=items, reason=UNSAMPLED)
            yield self._ungraded(who, name, grader)
            return
        points(self.declared, pool.n)
        cells = grid([as_benchmark(pool, benchmark)], self.models, self.declared.see, settings=self.settings)
        found = [self._cell("score answers", name, cell, scores_folder(pool)) for cell in cells]
        yield from (step for step, _ in found)
        runs = [run for _, run in found if run is not None and run.complete]
        whole = len(runs) == sum(cell.skip is None for cell in cells)
        yield self._grading(pool, who, name, grader, runs=runs if whole else None)

    def ppo(self) -> Iterator[Step]:
        """Yield the trainings, and the grading of what came of them."""
        if self.declared.ppo is not None:
            benchmark, on = self._benchmark(rewarded_benchmark(self.declared)), self.declared.ppo.evaluate_on
            evaluated = self._benchmark(on) if on else None
            yield from Planned(self.declared, self.out, self.settings, self.fresh).steps(benchmark, evaluated)

    # ------------------------------------------------------------ scoring

    def _benchmark(self, name: str) -> Benchmark | str:
        """Return a benchmark, or in words why it is missing."""
        try:
            return benchmark_of(self.declared, name)
        except (BenchmarkError, MissingExtraError) as exc:
            return f"cannot be planned without its data: {exc}"

    def _cell(self, verb: Verb, on: str, cell: Cell, out: Path, *, limited: bool = False) -> tuple[Step, Run | None]:
        """Return the step, and what there is of its run."""
        name = (verb, on, cell.model, cell.condition.spec)
        if cell.skip is not None:
            return Step(*name, 0, 0, 0, FREE, (f"skipped: {cell.skip}",)), None
        domains, limit = (self.declared.domains, self.declared.limit) if limited else ((), None)
        items = cell.benchmark.select(domains=domains, limit=limit)
        folder = run_folder(out, cell.benchmark, cell.model, condition=cell.condition, items=items)
        begun = RUN.holds(folder) and cell.model not in self.fresh
        done = scored_items(folder) if begun else set()
        run = load_run(folder) if begun and len(done) == len(items) else None
        todo = [item for item in items if item.id not in done]
        bill = scoring_bill(cell.model, cell.benchmark, cell.condition, todo)
        cost = bill.cost(self._price(cell.model))
        return Step(*name, len(done), len(items), bill.calls, cost, _lacks(cell.model)), run

    def _unknown(
        self, verb: Verb, on: str, conditions: Sequence[str], *, items: int | None, reason: str
    ) -> Iterator[Step]:
        """Yield a step per model and condition of which it is not known what is asked; for a local one, nothing is."""
        done = None if items is None else 0
        for condition in conditions:
            noted = "url" in CONDITIONS[parse_condition(condition).kind].form.keys
            for model in self.models:
                free = not (noted or KINDS[parse_model(model).kind].served)
                told = () if free and items is not None else (reason,)
                step = Step(verb, on, model, condition, done, items, notes=(*told, *_lacks(model)))
                yield replace(step, calls=0, cost=FREE) if free else step

    def _price(self, model: str) -> Price | None:
        spec = parse_model(model)
        return self.settings.prices.get(spec.options.get("model", spec.target))

    # ------------------------------------------------------------ answers

    def _sampling(self, who: Answering, on: str) -> tuple[Step, Pool | None]:
        """Return the step, and the pool where it is complete."""
        folder, asked = who.folder(self.out), who.declared
        fresh = who.policy is not None and who.policy.spec in self.fresh
        pool = load_pool(folder, incomplete=True) if POOL.holds(folder) and not fresh else None
        whole = pool if pool and pool.complete else None
        if who.policy is None:
            done = sum(map(len, pool.samples.values())) if pool else 0
            return Step("sample", on, asked.from_, who.condition.spec, done, done or None, 0, FREE), whole
        told = planned(
            who.benchmark,
            who.policy,
            who.condition,
            out=folder,
            draw=who.draw,
            domains=asked.domains,
            limit=asked.limit,
            fresh=fresh,
            settings=self.settings,
        )
        bill = sampling_bill(who.policy, who.condition, who.benchmark, draw=who.draw, lacking=self._open(who, pool))
        cost = bill.cost(self.settings.prices.get(parse_policy(asked.policy).target))
        return Step("sample", on, who.policy.spec, who.condition.spec, told.done, told.wanted, bill.calls, cost), whole

    def _open(self, who: Answering, pool: Pool | None) -> dict[str, int]:
        """Return how many samples each item lacks."""
        items = who.benchmark.select(domains=who.declared.domains, limit=who.declared.limit)
        return {item.id: who.draw.n - len(pool.samples[item.id] if pool else ()) for item in items}

    def _unplanned(self, asked: BestOf, on: str, reason: str) -> Iterator[Step]:
        """Yield the steps of a benchmark, a policy or a grader that is not here; unknown names are errors."""
        if asked.policy:
            parse_policy(asked.policy)
        parse_condition(asked.condition)
        parse_grader(asked.grader)
        points(self.declared, asked.n)
        yield Step("sample", on, asked.policy or asked.from_, asked.condition, notes=(reason,))
        yield from self._unknown("score answers", on, self.declared.see, items=None, reason=UNSAMPLED)
        yield Step("grade", on, asked.grader, "", notes=(UNSAMPLED,))

    def _ungraded(self, who: Answering, on: str, grader: Grader) -> Step:
        """Return the grading of answers that are not there: how many calls there are at most."""
        items = who.benchmark.select(domains=who.declared.domains, limit=who.declared.limit)
        most = sum(len(grader.prompts(item, "")) for item in items) * who.declared.n
        if not most:
            return Step("grade", on, grader.spec, "", calls=0, cost=FREE, notes=(UNSAMPLED,))
        return Step("grade", on, grader.spec, "", notes=(f"{UNSAMPLED}: at most {most:,} calls by the grader",))

    def _grading(self, pool: Pool, who: Answering, on: str, grader: Grader, *, runs: Sequence[Run] | None) -> Step:
        """Return the grading of all answers, or of the picks where those are known and nothing else is wanted."""
        note: tuple[str, ...] = ()
        all_ = {(item.id, text) for item in items_of(pool, who.benchmark) for text in pool.texts(item.id)}
        wanted = all_
        if who.declared.grade == "selected":
            wanted = all_ if runs is None else selected(pool, runs, who.declared.ks(pool.n))
            note = ("at most: of these, the picks alone are graded",) if runs is None else ()
        told = grading_bill(pool, who.benchmark, grader, wanted)
        bill = Bill(told.calls, told.prompt_tokens, None if told.calls else 0)
        cost = bill.cost(self.settings.prices.get(grader.model))
        return Step("grade", on, grader.spec, "", len(wanted) - told.answers, len(wanted), bill.calls, cost, note)


def _lacks(model: str) -> tuple[str, ...]:
    """Return what keeps a model from being made here; nothing is imported, loaded or fetched for that."""
    spec = parse_model(model)
    extra = KINDS[spec.kind].extra
    return (str(MissingExtraError(f"{spec.kind}:", extra)),) if extra and not _installed(extra) else ()


@cache
def _installed(extra: str) -> bool:
    """Return whether all libraries of an extra are here."""
    wanted = [line for line in requires("pluralrm") or () if re.search(rf"extra == ['\"]{extra}['\"]", line)]
    try:
        return all(version(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in wanted)
    except PackageNotFoundError:
        return False
