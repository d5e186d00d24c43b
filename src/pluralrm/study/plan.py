"""The dry run of a study: each step, how much of it is on disk, what is missing, calls and cost.

Conditions, models, policies and graders are the real ones: they write every request to a transport that counts and
sends nothing. What computes on this machine is not computed, and nothing is written to the study's folder. What cannot
be known yet says why: a benchmark that is not here, an extra that is not installed, answers that are still to be
sampled: in their place stand-ins are scored and graded in a temporary folder, which says how many calls there are at
most.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pluralrm.conditions import KINDS as CONDITIONS
from pluralrm.conditions import parse_condition
from pluralrm.conditions.posts import Preparing
from pluralrm.core import Benchmark, Item, Run
from pluralrm.display import JsonFields, json_fields
from pluralrm.errors import BenchmarkError, MissingExtraError
from pluralrm.grading import Grader, parse_grader
from pluralrm.http import FREE, Cost, DryRun, Requests, Settings, cost_of
from pluralrm.models import KINDS, default_settings, load_model, parse_model
from pluralrm.policies.best_of_n import selected
from pluralrm.policies.grades import dry_grade, grading_cost
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, parse_policy
from pluralrm.policies.pool import POOL, Pool, items_of, load_pool
from pluralrm.policies.sample import sample, sample_plan
from pluralrm.runs import GridCell, dry_score, load_run, run_folder
from pluralrm.runs import plan as grid
from pluralrm.runs.records import RUN
from pluralrm.study.file import BestOf, Ppo, StudyDeclaration
from pluralrm.study.parts import (
    RUNS,
    Answering,
    StudyContext,
    answered_benchmark,
    benchmark_of,
    check_benchmarks,
    models_of,
    points,
)
from pluralrm.study.ppo import Recipe, Training, recipe_of, rewarded_benchmark
from pluralrm.study.ppo.results import check_steps, curves, graded, steps_done
from pluralrm.study.ppo.trainer import ANSWERS, lacking, policy_folder, reference_folder, scale_file, trained_on
from pluralrm.study.steps import StudySteps
from pluralrm.training.job import Questions, of_step, watched_steps
from pluralrm.training.rewards import LocalRewarder, RewardRequest, rewarded

Verb = Literal["score", "sample", "score answers", "grade", "make", "train"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step; None is what cannot be known yet, and `notes` say why."""

    verb: Verb
    on: str
    """The benchmark, or the pool's."""
    who: str
    """The model, the policy or the grader."""
    condition: str
    done: int | None = None
    wanted: int | None = None
    calls: int | None = None
    cost: Cost | None = None
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> int | None:
        """What is not on disk yet."""
        return None if self.done is None or self.wanted is None else self.wanted - self.done

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        work = json_fields(self, "on", "who", "condition", "done", "wanted", "missing", "calls", "cost", "notes")
        return {"step": self.verb, **work}


@dataclass(frozen=True, slots=True)
class Plan(JsonFields):
    """All steps, in order."""

    in_json = ("steps", "calls", "cost")

    steps: tuple[Step, ...]

    @property
    def calls(self) -> int | None:
        """All calls; None where those of a step cannot be known yet."""
        calls = [step.calls for step in self.steps if step.calls is not None]
        return sum(calls) if len(calls) == len(self.steps) else None

    @property
    def cost(self) -> Cost | None:
        """What all of it costs; None where a step's cost cannot be known yet."""
        costs = [step.cost for step in self.steps if step.cost is not None]
        if len(costs) < len(self.steps):
            return None
        return Cost(sum(cost.least for cost in costs), sum(cost.most for cost in costs))


UNSAMPLED = "unknown until sampled"


def plan_study(
    declared: StudyDeclaration, *, out: str | Path, settings: Settings | None = None, fresh: Collection[str] = ()
) -> Plan:
    """Return the plan; unknown names are errors here too. Nothing is on disk of what begins anew."""
    counted = replace(settings or default_settings(), dry_run=(dry := DryRun()))
    with TemporaryDirectory() as scratch:
        means = StudyContext(Path(out), counted, fresh=frozenset(fresh))
        steps = _DrySteps(declared, models_of(declared), means, dry, Path(scratch))
        steps.go()
        return Plan(tuple(steps.counted))


@dataclass(frozen=True)
class _DrySteps(StudySteps):
    """The steps of a study on a transport that counts: what each would ask and do is noted in `counted`."""

    dry: DryRun
    scratch: Path
    counted: list[Step] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The benchmarks that are scored, by content, as the study names them."""

    def go(self) -> None:
        """Take the steps in the order of `steps.work`, those of what is not here too."""
        declared = self.declared
        benchmarks = {name: self._benchmark(name) for name in declared.benchmarks}
        check_benchmarks(declared, {name: bench for name, bench in benchmarks.items() if not isinstance(bench, str)})
        for name, benchmark in benchmarks.items():
            if isinstance(benchmark, str):
                self.counted.extend(self._unknown("score", name, declared.conditions, benchmark))
                continue
            self.names[benchmark.content_hash] = name
            cells = grid([benchmark], self.models, declared.conditions, settings=self.means.settings)
            self.score(cells, self.means.out / RUNS, domains=declared.domains, limit=declared.limit)
        if declared.best_of_n is not None:
            name = answered_benchmark(declared)
            self._answers(declared.best_of_n, name, benchmarks.get(name) or self._benchmark(name))
        if declared.ppo is not None:
            benchmark, on = self._benchmark(rewarded_benchmark(declared)), declared.ppo.evaluate_on
            trainings = TrainingPlanner(declared, self.means, self.dry)
            self.counted.extend(trainings.steps(benchmark, self._benchmark(on) if on else None))

    def _answers(self, best_of: BestOf, name: str, benchmark: Benchmark | str) -> None:
        """Take the steps from the pool to its grades."""
        try:
            reason = benchmark if isinstance(benchmark, str) else ""
            chain = None if isinstance(benchmark, str) else self.chain({name: benchmark})
        except MissingExtraError as exc:
            reason, chain = str(exc), None
        if chain is None:
            self.counted.extend(self._unplanned(best_of, name, reason))
        else:
            self.pick(*chain)

    # ------------------------------------------------------------ scoring

    def _benchmark(self, name: str) -> Benchmark | str:
        """Return a benchmark, or in words why it is missing."""
        try:
            return benchmark_of(self.declared, name)
        except (BenchmarkError, MissingExtraError) as exc:
            return f"cannot be planned without its data: {exc}"

    def scored(self, cell: GridCell, out: Path, *, domains: Sequence[str], limit: int | None) -> Run | None:
        """Note the step, and return its run where it is complete; with stand-in answers the calls are the most."""
        settings, real = self.means.settings, not out.is_relative_to(self.scratch)
        name = self.names.get(cell.benchmark.content_hash)
        verb: Verb = "score" if name else "score answers"
        step = Step(verb, name or answered_benchmark(self.declared), cell.model, cell.condition.spec)
        if cell.skip is not None:
            self.counted.append(replace(step, done=0, wanted=0, calls=0, cost=FREE, notes=(f"skipped: {cell.skip}",)))
            return None
        fresh, before = cell.model in self.means.fresh, self.dry.requests
        try:
            done, total = dry_score(
                cell.benchmark,
                cell.model,
                cell.condition,
                out=out,
                domains=domains,
                limit=limit,
                fresh=fresh,
                settings=settings,
            )
        except MissingExtraError as exc:
            self.counted.append(replace(step, notes=(str(exc),)))
            return None
        counts = self.dry.since(before)
        calls, step = _calls(counts), replace(step, done=done, wanted=total, notes=_lacks(cell.model))
        if calls and KINDS[parse_model(cell.model).kind].adaptive:
            step = replace(step, notes=("later calls depend on replies", *step.notes))
        elif calls and not real:
            step = replace(step, notes=(f"{UNSAMPLED}: at most {calls:,} calls", *step.notes))
        else:
            step = replace(step, calls=calls, cost=cost_of(counts, settings.prices))
        self.counted.append(step)
        items = cell.benchmark.select(domains=domains, limit=limit)
        folder = run_folder(out, cell.benchmark, cell.model, condition=cell.condition, items=items)
        return load_run(folder) if done == total and RUN.holds(folder) and not fresh else None

    def _unknown(self, verb: Verb, on: str, conditions: Sequence[str], reason: str) -> Iterator[Step]:
        """Yield a step per model and condition of which it is not known what is asked; for a local one, nothing is."""
        for condition in conditions:
            noted = "url" in CONDITIONS[parse_condition(condition).kind].form.keys
            for model in self.models:
                free = not (noted or KINDS[parse_model(model).kind].served)
                step = Step(verb, on, model, condition, None, None, notes=(reason, *_lacks(model)))
                yield replace(step, calls=0, cost=FREE) if free else step

    # ------------------------------------------------------------ answers

    def pool(self, who: Answering) -> Pool:
        """Note the step, and return the pool where it is complete; else stand-ins for the answers that it will hold."""
        folder, options, on = who.folder(self.means.out), who.declared, answered_benchmark(self.declared)
        fresh = who.policy is not None and who.policy.spec in self.means.fresh
        pool = load_pool(folder, incomplete=True) if POOL.holds(folder) and not fresh else None
        if who.policy is None:
            done = sum(map(len, pool.samples.values())) if pool else 0
            self.counted.append(Step("sample", on, options.from_, who.condition.spec, done, done or None, 0, FREE))
        else:
            counts = sample_plan(
                who.benchmark,
                who.policy,
                who.condition,
                out=folder,
                draw=who.draw,
                domains=options.domains,
                limit=options.limit,
                fresh=fresh,
                settings=self.means.settings,
            )
            calls, cost = _calls(counts.requests), cost_of(counts.requests, self.means.settings.prices)
            self.counted.append(
                Step("sample", on, who.policy.spec, who.condition.spec, counts.done, counts.wanted, calls, cost)
            )
        return pool if pool and pool.complete else self._stand_in(who)

    def _stand_in(self, who: Answering) -> Pool:
        """Return the pool of a file, or stand-ins for the answers of a policy, in the temporary folder."""
        out, options = self.scratch / "pool", who.declared
        if who.policy is None:
            return pool_from_jsonl(options.from_, who.benchmark, who.condition, out=out)
        return sample(
            who.benchmark,
            _StandInPolicy(who.policy.spec),
            who.condition,
            out=out,
            draw=who.draw,
            domains=options.domains,
            limit=options.limit,
            settings=self.means.settings,
        )

    def _unplanned(self, best_of: BestOf, on: str, reason: str) -> Iterator[Step]:
        """Yield the steps of a benchmark, a policy or a grader that is not here; unknown names are errors."""
        if best_of.policy:
            parse_policy(best_of.policy)
        parse_condition(best_of.condition)
        parse_grader(best_of.grader)
        points(self.declared, best_of.n)
        yield Step("sample", on, best_of.policy or best_of.from_, best_of.condition, notes=(reason,))
        yield from self._unknown("score answers", on, self.declared.see, UNSAMPLED)
        yield Step("grade", on, best_of.grader, "", notes=(UNSAMPLED,))

    def graded(self, pool: Pool, who: Answering, grader: Grader, runs: Sequence[Run]) -> bool:
        """Note the grading of all answers, or of the picks where those are known and nothing else is wanted."""
        real, prices = not Path(pool.folder).is_relative_to(self.scratch), self.means.settings.prices
        notes: tuple[str, ...] = ()
        texts = {(item.id, text) for item in items_of(pool, who.benchmark) for text in pool.texts(item.id)}
        whole = real and all(step.missing == 0 for step in self.counted if step.verb == "score answers")
        if who.declared.grade == "selected" and whole:
            texts = selected(pool, runs, who.declared.ks(pool.n))
        elif who.declared.grade == "selected":
            notes = ("at most: of these, the picks alone are graded",)
        grading = grading_cost(pool, who.benchmark, grader, texts)
        step = Step("grade", answered_benchmark(self.declared), grader.spec, "")
        if not real:
            most = f"{UNSAMPLED}: at most {grading.calls:,} calls by the grader" if grading.calls else UNSAMPLED
            step = replace(step, notes=(most,))
            self.counted.append(step if grading.calls else replace(step, calls=0, cost=FREE))
            return False
        price, cost = prices.get(grader.model), FREE if not grading.calls else None
        if price is not None:
            least = grading.cost(price.input) or 0.0
            cost = Cost(least, least + grading.reply_tokens * price.output / 1e6)
        done = len(texts) - grading.answers
        self.counted.append(replace(step, done=done, wanted=len(texts), calls=grading.calls, cost=cost, notes=notes))
        return False


class _StandInPolicy:
    """Answers with different texts that stand in for a policy's."""

    identity: Mapping[str, str] = {}

    def __init__(self, spec: str) -> None:
        self.spec = spec

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer]:  # noqa: ARG002 - as every policy takes it
        """Yield a text for each ask."""
        return (PolicyAnswer(f"Answer {ask.index} to {ask.query.id}.", "stop") for ask in asks)


def _calls(requests: Mapping[str, Requests]) -> int:
    return sum(request.calls for request in requests.values())


def _lacks(model: str) -> tuple[str, ...]:
    """Return what keeps a model from being made here; nothing is imported, loaded or fetched for that."""
    spec = parse_model(model)
    extra = KINDS[spec.kind].extra
    return (str(MissingExtraError(f"{spec.kind}:", extra)),) if extra and not _installed(extra) else ()


@cache
def _installed(extra: str) -> bool:
    """Return whether all libraries of an extra are here."""
    lines = [line for line in requires("pluralrm") or () if re.search(rf"extra == ['\"]{extra}['\"]", line)]
    try:
        return all(version(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines)
    except PackageNotFoundError:
        return False


UNTRAINED, UNSCORED = "unknown until trained", "unknown until the reference answers are sampled"


@dataclass(frozen=True)
class TrainingPlanner:
    """What of [ppo] is done and what is missing."""

    declared: StudyDeclaration
    means: StudyContext
    dry: DryRun

    def steps(self, benchmark: Benchmark | str, evaluated: Benchmark | str | None = None) -> Iterator[Step]:
        """Yield the steps; for a missing benchmark the reason in words."""
        ppo, name = self.declared.ppo, rewarded_benchmark(self.declared)
        if ppo is None:
            return
        if isinstance(benchmark, str):
            yield from self._unknown(ppo, name, benchmark)
            return
        opened = None if isinstance(evaluated, str) else evaluated
        try:
            recipe = recipe_of(self.declared, benchmark, self.means.settings, evaluated=opened)
        except MissingExtraError as exc:
            yield from self._unknown(ppo, name, str(exc))
            return
        check_steps(recipe, self.means.out, self.means.fresh)
        why = lacking(recipe.settings)
        notes = (why,) if why else ()
        if ppo.tiny is not None:
            there = int((self.means.out / policy_folder(recipe)).exists() and ppo.named not in self.means.fresh)
            yield Step("make", "policy", ppo.policy, "", there, 1, 0, FREE, notes)
        yield from self._reference(recipe, name, notes)
        yield from (self._training(recipe, job, name, notes) for job in recipe.trainings(self.means.out))
        yield self._grading(recipe, name, {domain: recipe.asked(domain)[0] for domain in recipe.parts})
        if recipe.questions:
            yield self._grading(recipe, ppo.evaluate_on, recipe.questions)
        elif isinstance(evaluated, str):
            yield Step("grade", f"{ppo.evaluate_on}, before and after", ppo.grader, "", notes=(evaluated,))

    def _unknown(self, ppo: Ppo, name: str, reason: str) -> Iterator[Step]:
        """Yield the steps of what is not here; unknown names are errors."""
        parse_condition(ppo.condition)
        parse_grader(ppo.grader)
        why = lacking(ppo.chosen())
        notes = (reason, why) if why else (reason,)
        for condition in self.declared.rewarded_under:
            parse_condition(condition)
            for model in self.declared.rewards:
                yield Step("train", name, model, condition, notes=notes)
        for on in filter(None, (name, ppo.evaluate_on)):
            yield Step("grade", on, ppo.grader, "", notes=(UNTRAINED,))

    def _reference(self, recipe: Recipe, name: str, notes: tuple[str, ...]) -> Iterator[Step]:
        """Yield the pool that gives all rewards one scale, and its scores, where they have one."""
        if recipe.declared.scaled().kind == "raw":
            return
        folder, total = reference_folder(recipe, self.means.out), len(trained_on(recipe).items) * ANSWERS
        there = POOL.holds(folder) and recipe.declared.named not in self.means.fresh
        pool = load_pool(folder, incomplete=True) if there else None
        done, on = sum(map(len, pool.samples.values())) if pool else 0, f"{name}, reference answers"
        yield Step("sample", on, recipe.declared.policy, recipe.condition.spec, done, total, 0, FREE, notes)
        for cell in recipe.cells:
            if cell.skip is None:
                scaled = pool is not None and cell.reward not in self.means.fresh
                scored = int(scaled and scale_file(recipe, cell, self.means.out).exists())
                free = scored or not (
                    isinstance(cell.condition, Preparing) or KINDS[parse_model(cell.reward).kind].served
                )
                step = Step("score answers", on, cell.reward, cell.condition.spec, scored * total, total)
                yield replace(step, calls=0, cost=FREE) if free else replace(step, notes=(UNSCORED,))

    def _training(self, recipe: Recipe, job: Training, name: str, notes: tuple[str, ...]) -> Step:
        """Return how far a training is; one that cannot be says why."""
        where = ", ".join([name, *([f"seed {job.seed}"] if len(recipe.seeds) > 1 else []), *filter(None, [job.domain])])
        cell = job.cell
        if cell.skip is not None:
            return Step("train", where, cell.reward, cell.condition.spec, 0, 0, 0, FREE, (f"skipped: {cell.skip}",))
        steps, anew = recipe.declared.steps, recipe.begins_anew(job, self.means.fresh)
        done = 0 if anew else steps_done(job.folder)
        calls = self._calls(recipe, job, done, evaluated=() if anew else curves(job.folder, steps)[1].keys())
        cost = FREE if calls == 0 else None
        return Step("train", where, cell.reward, cell.condition.spec, done, steps, calls, cost, notes)

    def _calls(self, recipe: Recipe, job: Training, done: int, *, evaluated: Collection[int]) -> int | None:
        """Return the calls of what is left of a training, by the reward model and the grader; None where not known.

        The prompts are those that its steps will have; each different one is rewarded once on the counting transport.
        """
        kind = KINDS[parse_model(job.cell.reward).kind]
        if isinstance(job.cell.condition, Preparing) or isinstance(recipe.condition, Preparing) or kind.adaptive:
            return None
        steps, chosen, parts = recipe.declared.steps, recipe.settings, recipe.parts[job.domain]
        evaluations = len(watched_steps(done, steps, every=chosen.evaluate_every, evaluated=evaluated))
        graded = evaluations * _prompts(recipe, parts.validation)
        if not kind.served:
            return graded
        trained = Counter(
            index
            for step in range(done, steps)
            for index in of_step(range(len(parts.train)), step, batch=chosen.batch, seed=job.seed)
        )
        model = load_model(job.cell.reward, settings=self.means.settings)
        rewarder = LocalRewarder(model, job.cell.condition, recipe.benchmark)
        rewards = sum(
            times * self._rewarded(rewarder, [parts.train[index]], chosen.answers) for index, times in trained.items()
        )
        return rewards + graded + evaluations * self._rewarded(rewarder, parts.validation, 1)

    def _rewarded(self, rewarder: LocalRewarder, items: Sequence[Item], answers: int) -> int:
        """Return the calls for the rewards of so many answers to each item."""
        before, texts = self.dry.requests, tuple(f"Answer {number}." for number in range(answers))
        rewarded(rewarder, [RewardRequest(item, texts) for item in items], "mask")
        return _calls(self.dry.since(before))

    def _grading(self, recipe: Recipe, name: str, of: Mapping[str, Questions]) -> Step:
        """Return the grading of answers to questions, by domain, before and after: how many calls there are at most."""
        grader, tests = recipe.grader, {domain: list(questions.items) for domain, questions in of.items()}
        trainings = [job for job in recipe.trainings(self.means.out) if job.cell.skip is None]
        times = _times_asked(trainings)
        ready = _times_asked([job for job in trainings if self._graded(recipe, job, of[job.domain].place)])
        done, total = (sum(len(tests[part]) for part in some.elements()) * recipe.declared.n for some in (ready, times))
        most = sum(_prompts(recipe, tests[part]) for part in (times - ready).elements()) * recipe.declared.n
        if not most:
            return Step("grade", f"{name}, before and after", grader.spec, "", done, total, 0, FREE)
        note = f"{UNTRAINED}: at most {most:,} calls by the grader"
        return Step("grade", f"{name}, before and after", grader.spec, "", done, total, notes=(note,))

    def _graded(self, recipe: Recipe, job: Training, sub: str) -> bool:
        return graded(recipe, job, sub) is not None and not recipe.begins_anew(job, self.means.fresh)


def _times_asked(trainings: Sequence[Training]) -> Counter[str]:
    """Return how often the test users of each domain are asked: after each training, before it once for each seed."""
    before = {(job.seed, job.domain) for job in trainings}
    return Counter([*(job.domain for job in trainings), *(domain for _, domain in before)])


def _prompts(recipe: Recipe, items: Sequence[Item]) -> int:
    """Return how many calls it takes to grade an answer to each item."""
    return dry_grade(recipe.grader, [(item, "An answer.") for item in items]).calls
