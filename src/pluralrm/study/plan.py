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
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pluralrm.conditions import KINDS as CONDITIONS
from pluralrm.conditions import parse_condition
from pluralrm.conditions.notes import Preparing
from pluralrm.core import Benchmark, Item, Run
from pluralrm.errors import BenchmarkError, MissingExtraError
from pluralrm.grading import Grader, parse_grader
from pluralrm.http import FREE, Cost, DryRun, Requests, Settings, cost_of
from pluralrm.models import KINDS, default_settings, load_model, parse_model
from pluralrm.policies.best_of_n import scores_folder, selected
from pluralrm.policies.grades import dry_grade
from pluralrm.policies.grades import grading_cost as grading_bill
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, parse_policy
from pluralrm.policies.pool import POOL, Pool, items_of, load_pool, pool_benchmark
from pluralrm.policies.sample import sample, sample_plan
from pluralrm.runs import GridCell, dry_score, load_run, run_folder
from pluralrm.runs import plan as grid
from pluralrm.runs.records import RUN
from pluralrm.study.file import BestOf, Ppo, StudyDeclaration
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
from pluralrm.study.ppo.recipe import Recipe, Training, TrainingCell, recipe_of, rewarded_benchmark
from pluralrm.study.ppo.results import check_steps, curves, graded, steps_done
from pluralrm.study.ppo.trainer import ANSWERS, lacking, policy_folder, reference_folder, scale_file, trained_on
from pluralrm.training.prompts import Questions
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
        return {
            "step": self.verb,
            "on": self.on,
            "who": self.who,
            "condition": self.condition,
            "done": self.done,
            "wanted": self.wanted,
            "missing": self.missing,
            "calls": self.calls,
            "cost": self.cost and self.cost._asdict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps, in order."""

    steps: tuple[Step, ...]

    @property
    def calls(self) -> int | None:
        """All calls; None where those of a step cannot be known yet."""
        found = [step.calls for step in self.steps if step.calls is not None]
        return sum(found) if len(found) == len(self.steps) else None

    @property
    def cost(self) -> Cost | None:
        """What all of it costs; None where a step's cost cannot be known yet."""
        found = [step.cost for step in self.steps if step.cost is not None]
        if len(found) < len(self.steps):
            return None
        return Cost(sum(one.least for one in found), sum(one.most for one in found))

    def to_json(self) -> dict[str, object]:
        """Return the steps, and what all of them take."""
        steps = [step.to_json() for step in self.steps]
        return {"steps": steps, "calls": self.calls, "cost": self.cost and self.cost._asdict()}


UNSAMPLED = "unknown until sampled"


def plan_study(
    declared: StudyDeclaration, *, out: str | Path, settings: Settings | None = None, fresh: Collection[str] = ()
) -> Plan:
    """Return the plan; unknown names are errors here too. Nothing is on disk of what begins anew."""
    counted = replace(settings or default_settings(), dry_run=(dry := DryRun()))
    with TemporaryDirectory() as scratch:
        planner = _Planner(declared, Path(out), counted, dry, models_of(declared), frozenset(fresh), Path(scratch))
        return Plan((*planner.scoring(), *planner.best_of_n(), *planner.ppo()))


@dataclass(frozen=True)
class _Planner:
    declared: StudyDeclaration
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


UNTRAINED, UNSCORED = "unknown until trained", "unknown until the reference answers are sampled"


@dataclass(frozen=True)
class TrainingPlanner:
    """What of [ppo] is done and what is missing."""

    declared: StudyDeclaration
    out: Path
    settings: Settings
    dry: DryRun
    fresh: Collection[str] = ()

    def steps(self, benchmark: Benchmark | str, evaluated: Benchmark | str | None = None) -> Iterator[Step]:
        """Yield the steps; for a missing benchmark the reason in words."""
        asked, name = self.declared.ppo, rewarded_benchmark(self.declared)
        if asked is None:
            return
        if isinstance(benchmark, str):
            yield from self._unknown(asked, name, benchmark)
            return
        known = None if isinstance(evaluated, str) else evaluated
        try:
            recipe = recipe_of(self.declared, benchmark, self.settings, evaluated=known)
        except MissingExtraError as exc:
            yield from self._unknown(asked, name, str(exc))
            return
        check_steps(recipe, self.out, self.fresh)
        why = lacking(recipe.settings)
        notes = (why,) if why else ()
        if asked.tiny is not None:
            there = int((self.out / policy_folder(recipe)).exists() and asked.named not in self.fresh)
            yield Step("make", "policy", asked.policy, "", there, 1, 0, FREE, notes)
        yield from self._reference(recipe, name, notes)
        yield from (self._training(recipe, one, name, notes) for one in recipe.trainings(self.out))
        yield self._grading(recipe, name, {domain: recipe.asked(domain)[0] for domain in recipe.parts})
        if recipe.questions:
            yield self._grading(recipe, asked.evaluate_on, recipe.questions)
        elif isinstance(evaluated, str):
            yield Step("grade", f"{asked.evaluate_on}, before and after", asked.grader, "", notes=(evaluated,))

    def _unknown(self, asked: Ppo, name: str, reason: str) -> Iterator[Step]:
        """Yield the steps of what is not here; unknown names are errors."""
        parse_condition(asked.condition)
        parse_grader(asked.grader)
        why = lacking(asked.chosen())
        notes = (reason, why) if why else (reason,)
        for condition in self.declared.rewarded_under:
            parse_condition(condition)
            for model in self.declared.rewards:
                yield Step("train", name, model, condition, notes=notes)
        for on in filter(None, (name, asked.evaluate_on)):
            yield Step("grade", on, asked.grader, "", notes=(UNTRAINED,))

    def _reference(self, recipe: Recipe, name: str, notes: tuple[str, ...]) -> Iterator[Step]:
        """Yield the pool that gives all rewards one scale, and its scores, where they have one."""
        if recipe.declared.scaled().kind == "raw":
            return
        folder, wanted = reference_folder(recipe, self.out), len(trained_on(recipe).items) * ANSWERS
        there = POOL.holds(folder) and recipe.declared.named not in self.fresh
        pool = load_pool(folder, incomplete=True) if there else None
        done, on = sum(map(len, pool.samples.values())) if pool else 0, f"{name}, reference answers"
        yield Step("sample", on, recipe.declared.policy, recipe.condition.spec, done, wanted, 0, FREE, notes)
        for cell in recipe.cells:
            if cell.skip is None:
                scaled = pool is not None and cell.reward not in self.fresh
                known = int(scaled and scale_file(recipe, cell, self.out).exists())
                free = known or not (
                    isinstance(cell.condition, Preparing) or KINDS[parse_model(cell.reward).kind].served
                )
                step = Step("score answers", on, cell.reward, cell.condition.spec, known * wanted, wanted)
                yield replace(step, calls=0, cost=FREE) if free else replace(step, notes=(UNSCORED,))

    def _training(self, recipe: Recipe, one: Training, name: str, notes: tuple[str, ...]) -> Step:
        """Return how far a training is; one that cannot be says why."""
        where = ", ".join([name, *([f"seed {one.seed}"] if len(recipe.seeds) > 1 else []), *filter(None, [one.domain])])
        cell = one.cell
        if cell.skip is not None:
            return Step("train", where, cell.reward, cell.condition.spec, 0, 0, 0, FREE, (f"skipped: {cell.skip}",))
        steps, anew = recipe.declared.steps, recipe.begins_anew(one, self.fresh)
        done = 0 if anew else steps_done(one.folder)
        calls = self._calls(recipe, one, done, evaluated=() if anew else curves(one.folder, steps)[1].keys())
        cost = FREE if calls == 0 else None
        return Step("train", where, cell.reward, cell.condition.spec, done, steps, calls, cost, notes)

    def _calls(self, recipe: Recipe, one: Training, done: int, *, evaluated: Collection[int]) -> int | None:
        """Return the calls of what is left of a training, by the reward model and the grader; None where not known."""
        if isinstance(one.cell.condition, Preparing) or isinstance(recipe.condition, Preparing):
            return None
        (prompts, evaluations), parts = _left(recipe, done, evaluated), recipe.parts[one.domain]
        each = self._reward_calls(recipe, one.cell, parts.train[0], recipe.settings.answers)
        watched = self._reward_calls(recipe, one.cell, parts.train[0], 1)
        if each is None or watched is None:
            return None
        rewards = prompts * each + evaluations * len(parts.validation) * watched
        return rewards + evaluations * _prompts(recipe, parts.validation)

    def _reward_calls(self, recipe: Recipe, cell: TrainingCell, item: Item, answers: int) -> int | None:
        """Return the calls for the rewards of so many answers to an item, as training asks for them."""
        kind = KINDS[parse_model(cell.reward).kind]
        if not kind.served or kind.adaptive:
            return None if kind.adaptive else 0
        before = self.dry.requests
        rewarder = LocalRewarder(load_model(cell.reward, settings=self.settings), cell.condition, recipe.benchmark)
        rewarded(rewarder, [RewardRequest(item, tuple(f"Answer {one}." for one in range(answers)))], "mask")
        return sum(asked.calls for asked in self.dry.since(before).values())

    def _grading(self, recipe: Recipe, name: str, of: Mapping[str, Questions]) -> Step:
        """Return the grading of answers to questions, by domain, before and after: how many calls there are at most."""
        grader, tests = recipe.grader, {domain: list(asked.items) for domain, asked in of.items()}
        trainings = [one for one in recipe.trainings(self.out) if one.cell.skip is None]
        asked = _times_asked(trainings)
        known = _times_asked([one for one in trainings if self._graded(recipe, one, of[one.domain].place)])
        done, wanted = (sum(len(tests[one]) for one in some.elements()) * recipe.declared.n for some in (known, asked))
        most = sum(_prompts(recipe, tests[one]) for one in (asked - known).elements()) * recipe.declared.n
        if not most:
            return Step("grade", f"{name}, before and after", grader.spec, "", done, wanted, 0, FREE)
        note = f"{UNTRAINED}: at most {most:,} calls by the grader"
        return Step("grade", f"{name}, before and after", grader.spec, "", done, wanted, notes=(note,))

    def _graded(self, recipe: Recipe, one: Training, place: str) -> bool:
        return graded(recipe, one, place) is not None and not recipe.begins_anew(one, self.fresh)


def _times_asked(trainings: Sequence[Training]) -> Counter[str]:
    """Return how often the test users of each domain are asked: after each training, before it once for each seed."""
    before = {(one.seed, one.domain) for one in trainings}
    return Counter([*(one.domain for one in trainings), *(domain for _, domain in before)])


def _prompts(recipe: Recipe, items: Sequence[Item]) -> int:
    """Return how many calls it takes to grade an answer to each item."""
    return dry_grade(recipe.grader, [(item, "An answer.") for item in items]).calls


def _left(recipe: Recipe, done: int, evaluated: Collection[int]) -> tuple[int, int]:
    """Return the prompts that are still rewarded, and the evaluations of the watched users."""
    steps, settings = recipe.declared.steps, recipe.settings
    wanted = {*range(0, steps, settings.evaluate_every), steps}
    return (steps - done) * settings.batch, len(wanted.difference(evaluated))
