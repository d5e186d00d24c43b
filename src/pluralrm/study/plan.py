"""The dry run of a study: each step, how much of it is on disk, what is missing, calls and cost.

Conditions, models, policies and graders are the real ones: they write every request to a transport that counts and
sends nothing. What computes on this machine is not computed, and nothing is written to the study's folder. What cannot
be known yet says why: a benchmark that is not here, an extra that is not installed, answers that are still to be
sampled: in their place stand-ins are scored and graded in a temporary folder, which says how many calls there are at
most.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory

from pluralrm.conditions import KINDS as CONDITIONS
from pluralrm.conditions import parse_condition
from pluralrm.core import Benchmark, Run
from pluralrm.errors import BenchmarkError, MissingExtraError
from pluralrm.grading import Grader, parse_grader
from pluralrm.http import FREE, Cost, DryRun, Requests, Settings, cost_of
from pluralrm.models import KINDS, default_settings, parse_model
from pluralrm.policies.best_of_n import scores_folder, selected
from pluralrm.policies.grades import grading_cost as grading_bill
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, parse_policy
from pluralrm.policies.pool import POOL, Pool, items_of, load_pool, pool_benchmark
from pluralrm.policies.sample import sample, sample_plan
from pluralrm.runs import GridCell, dry_score, load_run, run_folder
from pluralrm.runs import plan as grid
from pluralrm.runs.records import RUN
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
from pluralrm.study.ppo.planning import TrainingPlanner
from pluralrm.study.ppo.recipe import rewarded_benchmark
from pluralrm.study.step import Plan, Step, Verb
from pluralrm.study.tables import BestOf

UNSAMPLED = "unknown until sampled"


def plan_study(
    declared: Declared, *, out: str | Path, settings: Settings | None = None, fresh: Collection[str] = ()
) -> Plan:
    """Return the plan; unknown names are errors here too. Nothing is on disk of what begins anew."""
    counted = replace(settings or default_settings(), dry_run=(dry := DryRun()))
    with TemporaryDirectory() as scratch:
        planner = _Planner(declared, Path(out), counted, dry, models_of(declared), frozenset(fresh), Path(scratch))
        return Plan((*planner.scoring(), *planner.best_of_n(), *planner.ppo()))


@dataclass(frozen=True)
class _Planner:
    declared: Declared
    out: Path
    settings: Settings
    dry: DryRun
    models: Sequence[str]
    fresh: frozenset[str]
    scratch: Path

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
        known, folder = pool is not None, scores_folder(pool) if pool else self.scratch
        answers = pool or self._stand_in(who)
        points(self.declared, answers.n)
        cells = grid([pool_benchmark(answers, benchmark)], self.models, self.declared.see, settings=self.settings)
        found = [self._cell("score answers", name, cell, folder, known=known) for cell in cells]
        yield from (step for step, _ in found)
        runs = [run for _, run in found if run is not None and run.complete]
        whole = len(runs) == sum(cell.skip is None for cell in cells)
        yield self._grading(answers, who, name, grader, runs=runs if whole and known else None, known=known)

    def ppo(self) -> Iterator[Step]:
        """Yield the trainings, and the grading of what came of them."""
        if self.declared.ppo is not None:
            benchmark, on = self._benchmark(rewarded_benchmark(self.declared)), self.declared.ppo.evaluate_on
            evaluated = self._benchmark(on) if on else None
            yield from TrainingPlanner(self.declared, self.out, self.settings, self.dry, self.fresh).steps(
                benchmark, evaluated
            )

    # ------------------------------------------------------------ scoring

    def _benchmark(self, name: str) -> Benchmark | str:
        """Return a benchmark, or in words why it is missing."""
        try:
            return benchmark_of(self.declared, name)
        except (BenchmarkError, MissingExtraError) as exc:
            return f"cannot be planned without its data: {exc}"

    def _cell(
        self, verb: Verb, on: str, cell: GridCell, out: Path, *, limited: bool = False, known: bool = True
    ) -> tuple[Step, Run | None]:
        """Return the step, and what there is of its run; with stand-in answers the calls are known as the most."""
        name = (verb, on, cell.model, cell.condition.spec)
        if cell.skip is not None:
            return Step(*name, 0, 0, 0, FREE, (f"skipped: {cell.skip}",)), None
        domains, limit = (self.declared.domains, self.declared.limit) if limited else ((), None)
        fresh, before = cell.model in self.fresh, self.dry.requests
        try:
            done, wanted = dry_score(
                cell.benchmark,
                cell.model,
                cell.condition,
                out=out,
                domains=domains,
                limit=limit,
                fresh=fresh,
                settings=self.settings,
            )
        except MissingExtraError as exc:
            return Step(*name, notes=(str(exc),)), None
        asked = self.dry.since(before)
        notes, calls = _lacks(cell.model), _calls(asked)
        if calls and KINDS[parse_model(cell.model).kind].adaptive:
            return Step(*name, done, wanted, notes=("later calls depend on replies", *notes)), None
        if calls and not known:
            return Step(*name, done, wanted, notes=(f"{UNSAMPLED}: at most {calls:,} calls", *notes)), None
        items = cell.benchmark.select(domains=domains, limit=limit)
        folder = run_folder(out, cell.benchmark, cell.model, condition=cell.condition, items=items)
        run = load_run(folder) if done == wanted and RUN.holds(folder) and not fresh else None
        return Step(*name, done, wanted, calls, cost_of(asked, self.settings.prices), notes), run

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
        told = sample_plan(
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
        calls, cost = _calls(told.requests), cost_of(told.requests, self.settings.prices)
        return Step("sample", on, who.policy.spec, who.condition.spec, told.done, told.wanted, calls, cost), whole

    def _stand_in(self, who: Answering) -> Pool:
        """Return the pool of a file, or stand-ins for the answers of a policy, in the temporary folder."""
        out, asked = self.scratch / "pool", who.declared
        if who.policy is None:
            return pool_from_jsonl(asked.from_, who.benchmark, who.condition, out=out)
        return sample(
            who.benchmark,
            _StandInPolicy(who.policy.spec),
            who.condition,
            out=out,
            draw=who.draw,
            domains=asked.domains,
            limit=asked.limit,
            settings=self.settings,
        )

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

    def _grading(
        self, pool: Pool, who: Answering, on: str, grader: Grader, *, runs: Sequence[Run] | None, known: bool
    ) -> Step:
        """Return the grading of all answers, or of the picks where those are known and nothing else is wanted."""
        note: tuple[str, ...] = ()
        wanted = {(item.id, text) for item in items_of(pool, who.benchmark) for text in pool.texts(item.id)}
        if who.declared.grade == "selected" and runs is not None:
            wanted = selected(pool, runs, who.declared.ks(pool.n))
        elif who.declared.grade == "selected":
            note = ("at most: of these, the picks alone are graded",)
        told = grading_bill(pool, who.benchmark, grader, wanted)
        if not known:
            most = f"{UNSAMPLED}: at most {told.calls:,} calls by the grader" if told.calls else UNSAMPLED
            step = Step("grade", on, grader.spec, "", notes=(most,))
            return step if told.calls else replace(step, calls=0, cost=FREE)
        price, cost = self.settings.prices.get(grader.model), FREE if not told.calls else None
        if price is not None:
            least = told.cost(price.input) or 0.0
            cost = Cost(least, least + told.reply_tokens * price.output / 1e6)
        return Step("grade", on, grader.spec, "", len(wanted) - told.answers, len(wanted), told.calls, cost, note)


class _StandInPolicy:
    """Answers with different texts that stand in for a policy's."""

    identity: Mapping[str, str] = {}

    def __init__(self, spec: str) -> None:
        self.spec = spec

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer]:  # noqa: ARG002 - as every policy takes it
        """Yield a text for each ask."""
        return (PolicyAnswer(f"Answer {ask.index} to {ask.query.id}.", "stop") for ask in asks)


def _calls(requests: Mapping[str, Requests]) -> int:
    return sum(asked.calls for asked in requests.values())


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
