"""The trainings of a study as steps of its plan: how far each is, and what is asked of servers. Nothing is run."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pluralrm.conditions import parse_condition
from pluralrm.conditions.notes import Preparing
from pluralrm.core import Benchmark, Item
from pluralrm.errors import MissingExtraError
from pluralrm.grading import parse_grader
from pluralrm.http import FREE, DryRun, Settings
from pluralrm.models import KINDS, load_model, parse_model
from pluralrm.policies.grades import dry_grade
from pluralrm.policies.pool import POOL, load_pool
from pluralrm.study.file import Declared
from pluralrm.study.ppo.read import check_steps, curves, graded, steps_done
from pluralrm.study.ppo.recipe import Cell, Recipe, Training, recipe_of, rewarded_benchmark
from pluralrm.study.ppo.running import lacking, policy_folder
from pluralrm.study.ppo.scales import ANSWERS, reference_folder, scale_file, trained_on
from pluralrm.study.step import Step
from pluralrm.study.tables import Ppo
from pluralrm.training.prompts import Questions
from pluralrm.training.rewards import LocalRewarder, RewardRequest, rewarded

UNTRAINED, UNSCORED = "unknown until trained", "unknown until the reference answers are sampled"


@dataclass(frozen=True)
class TrainingPlanner:
    """What of [ppo] is done and what is missing."""

    declared: Declared
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
        left, parts = _left(recipe, done, evaluated), recipe.parts[one.domain]
        each = self._reward_calls(recipe, one.cell, parts.train[0], recipe.settings.answers)
        watched = self._reward_calls(recipe, one.cell, parts.train[0], 1)
        if each is None or watched is None:
            return None
        rewards = left.prompts * each + left.evaluations * len(parts.validation) * watched
        return rewards + left.evaluations * _prompts(recipe, parts.validation)

    def _reward_calls(self, recipe: Recipe, cell: Cell, item: Item, answers: int) -> int | None:
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


class _Remaining(NamedTuple):
    """What is left of a training: prompts that are rewarded, and evaluations of the watched users."""

    prompts: int
    evaluations: int


def _left(recipe: Recipe, done: int, evaluated: Collection[int]) -> _Remaining:
    steps, settings = recipe.declared.steps, recipe.settings
    wanted = {*range(0, steps, settings.evaluate_every), steps}
    return _Remaining((steps - done) * settings.batch, len(wanted.difference(evaluated)))
