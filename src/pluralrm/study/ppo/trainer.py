"""Training what a study trains: each training is what `train ppo` does, in a folder of its own, and resumes from it."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pluralrm.core import Benchmark, Run
from pluralrm.digests import digest
from pluralrm.errors import (
    BenchmarkError,
    ConditionError,
    MissingExtraError,
    ModelError,
    OutageError,
    SpecError,
    StudyError,
)
from pluralrm.files import LOCK, remove_folder, replace_file, whole_folder
from pluralrm.models import load_model
from pluralrm.policies.best_of_n import score_pool
from pluralrm.policies.policy import Draw, load_policy
from pluralrm.policies.sample import sample
from pluralrm.progress import JobStep
from pluralrm.runs import Progress, last_outage
from pluralrm.runs.records import slug
from pluralrm.specs import Spec
from pluralrm.study.parts import Missing, StudyContext
from pluralrm.study.ppo import TRAININGS, Recipe, Training, TrainingCell
from pluralrm.study.ppo.results import REPORT, check_steps, graded, is_graded, places
from pluralrm.training.job import asker
from pluralrm.training.rewards import Shaping, parse_shaping, write_scale
from pluralrm.training.settings import PpoSettings

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.policies.pool import Pool
    from pluralrm.training.job import PpoJob
    from pluralrm.training.ppo import Progress as PpoProgress


POLICIES = "policies"
_TINY_STEPS = 700


def lacking(settings: PpoSettings) -> str:
    """Return which extra is missing for these trainings; nothing where all is here. Nothing is imported for that."""
    packages = ["torch", "transformers", *(["peft"] if settings.lora else [])]
    return str(MissingExtraError("[ppo]", "ppo")) if any(find_spec(name) is None for name in packages) else ""


def policy_folder(recipe: Recipe) -> Path:
    """Return where a policy that the study makes is, inside the study's folder."""
    return Path(POLICIES, f"{slug(recipe.declared.named)}-seed-{recipe.study_seed}")


def remove_at_once(folder: Path) -> None:
    """Remove a folder: a kill leaves all of it or none, or a new training would resume from an old checkpoint.

    StudyError, and nothing removed, where another process works in it.
    """
    try:
        remove_folder(folder)
    except BlockingIOError as exc:
        raise StudyError(f"{folder}: another process is working there; wait for it or stop it") from exc


def _progress(line: "PpoProgress") -> Progress:
    """Return how far a training is; what its watched answers lack is said at once."""
    warning = next((alarm.told for alarm in line.alarms if alarm.name == "ungraded"), "")
    return Progress(0 if line.step is None else line.step.step + 1, line.steps, 0, 0, warning=warning)


@dataclass(frozen=True)
class Trainer:
    """The trainings of a study at work; what one lacks is noted in `means.left`."""

    recipe: Recipe
    means: StudyContext

    def check(self) -> None:
        """Raise where a policy's folder cannot be used, or a training has gone too far, before anything is done."""
        check_steps(self.recipe, self.means.out, self.means.fresh)
        if self.recipe.declared.tiny is None and not lacking(self.recipe.settings):
            self._opened(self.recipe.declared.policy)

    def expected(self) -> Iterator[JobStep]:
        """Yield the steps to come, each as large as the texts that its answers are read and written."""
        ppo, drawn = self.recipe.declared, self.recipe.settings.drawn
        if ppo.tiny is not None:
            yield JobStep(ppo.policy, ppo.policy, drawn)
        for training in self.recipe.trainings(self.means.out):
            if training.cell.skip is None:
                yield JobStep(training.title, f"ppo × {training.cell.reward}", ppo.steps * drawn)

    def go(self) -> None:
        """Do what is missing; a training that breaks, or meets an outage, costs itself."""
        for cell in self.recipe.cells:
            if cell.skip is not None:
                title = f"ppo × {cell.reward} × {cell.condition.spec}"
                self.means.left.append(Missing(title, "skipped", cell.skip))
        todo = [training for training in self.recipe.trainings(self.means.out) if training.cell.skip is None]
        if why := lacking(self.recipe.settings):
            missing = [training for training in todo if not is_graded(self.recipe, training)]
            self.means.left.extend(Missing(training.title, "broken", why) for training in missing)
            return
        self._begin_anew(todo)
        policy = self._policy()
        for training in todo:
            self._trained(training, policy)

    def _begin_anew(self, todo: list[Training]) -> None:
        """Remove the trainings of models that are others now, and all of them where the policy is."""
        ppo, reference = self.recipe.declared, reference_folder(self.recipe, self.means.out)
        for training in (training for training in todo if self.recipe.begins_anew(training, self.means.fresh)):
            remove_at_once(training.folder)
            for scores in (reference / "scores").glob(f"*/{slug(training.cell.reward)}"):
                remove_at_once(scores)
        if ppo.named in self.means.fresh:
            remove_at_once(reference)
            if ppo.tiny is not None:
                remove_at_once(self.means.out / policy_folder(self.recipe))

    # ------------------------------------------------------------ the policy

    def _policy(self) -> "LocalPolicy":
        """Return who is trained, made where it is to be made."""
        ppo = self.recipe.declared
        if ppo.tiny is None:
            return self._opened(ppo.policy)
        name = policy_folder(self.recipe)
        self.means.display.begin(ppo.policy)
        if not (self.means.out / name).exists():
            self._write_tiny(self.means.out / name, ppo.tiny.integer("steps", _TINY_STEPS, least=1))
        # Named as inside the study's folder, so that the folder can be moved.
        opened = self._opened(str(Spec("lm", str(self.means.out / name))))
        return replace(opened, spec=str(Spec("lm", name.as_posix())))

    def _write_tiny(self, folder: Path, steps: int) -> None:
        from pluralrm.training.tiny import tiny_policy

        tiny_policy(
            folder,
            seed=self.recipe.study_seed,
            steps=steps,
            progress=lambda step, _: self.means.display.update(Progress(step + 1, steps, 0, 0)),
        )

    def _opened(self, spec: str) -> "LocalPolicy":
        from pluralrm.policies.local import LocalPolicy

        policy = load_policy(spec, settings=self.means.settings)
        if not isinstance(policy, LocalPolicy):
            raise SpecError(f"[ppo] policy: {spec!r} has no weights here; wanted lm:FOLDER or tiny")
        return policy

    # ------------------------------------------------------------ one training

    def _trained(self, training: Training, policy: "LocalPolicy") -> None:
        """Train, and note what keeps it from being whole."""
        cell = training.cell
        with self.means.watched(training.title, cell.reward, cell.condition.spec):
            self._train(training, policy)

    def _train(self, training: Training, policy: "LocalPolicy") -> None:
        """Train, ask the test users before and after, grade, and write the report, as `train ppo` does."""
        from pluralrm.training.outcome import outcome, report_page
        from pluralrm.training.ppo import train
        from pluralrm.training.records import read_run

        ppo = self.recipe.declared
        try:
            job = self._job(training, policy)
            done = train(job, training.folder, steps=ppo.steps, progress=partial(self._tell, training.folder))
            if self.means.listener is not None:
                self.means.listener.end(training.folder, ppo.steps)
            if is_graded(self.recipe, training):
                return
            (training.folder / REPORT).unlink(missing_ok=True)  # of fewer steps, perhaps
            for of in self.recipe.asked(training.domain):
                if graded(self.recipe, training, of.place) is None:
                    self._lend(training, of.place)
                    grading = partial(self.means.display.update, part=f"grades on {of.benchmark.card.name}")
                    outcome(job, done, self.recipe.grader, n=ppo.n, of=of, progress=grading)
            grades = graded(self.recipe, training)
            final = None if grades is None else grades.final
            replace_file(
                training.folder / REPORT,
                report_page(read_run(training.folder), done.steps, done.evaluations, final=final),
            )
        except (BenchmarkError, ConditionError, SpecError) as exc:
            # Such as prompts that leave no room for an answer: the others may have it.
            raise ModelError(str(exc)) from exc

    def _tell(self, folder: Path, line: "PpoProgress") -> None:
        self.means.display.update(_progress(line))
        if self.means.listener is not None:
            self.means.listener.tell(folder, line)

    def _job(self, training: Training, policy: "LocalPolicy") -> "PpoJob":
        from pluralrm.training.job import PpoJob
        from pluralrm.training.rewards import LocalRewarder

        recipe, condition = self.recipe, training.cell.condition
        model = load_model(training.cell.reward, settings=self.means.settings)
        return PpoJob(
            benchmark=recipe.benchmark,
            policy=policy,
            condition=recipe.condition,
            rewarder=LocalRewarder(model, condition, recipe.benchmark),
            reward_condition=condition.spec,
            settings=recipe.settings,
            shaping=Reference(recipe, policy, self.means).shaping(training.cell),
            grader=recipe.grader,
            seed=training.seed,
            domains=recipe.domains(training),
            limit=recipe.declared.limit,
            parts_seed=recipe.study_seed,
        )

    def _lend(self, training: Training, sub: str) -> None:
        """Copy the answers before training, with their grades, from a training that has them: they are the same."""
        ppo = self.recipe.declared
        mine = places(training.folder, steps=ppo.steps, n=ppo.n, sub=sub).before
        for cell in self.recipe.cells:
            for other in self.recipe.of(cell, training.seed, self.means.out):
                source = places(other.folder, steps=ppo.steps, n=ppo.n, sub=sub).before
                lent = other.domain == training.domain and not mine.exists()
                if lent and graded(self.recipe, other, sub) is not None:
                    with whole_folder(mine) as beside:
                        shutil.copytree(source, beside, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK))


_USERS, ANSWERS = 128, 4
"""Of the reference pool: users at most, in turn from each domain, and answers to each of their items."""


@dataclass(frozen=True)
class Reference:
    """The reference pool of a recipe."""

    recipe: Recipe
    policy: "LocalPolicy"
    means: StudyContext

    def shaping(self, cell: TrainingCell) -> Shaping:
        """Return what becomes of a model's score: itself, or its distance from the mean on the reference pool."""
        spec = self.recipe.declared.scaled()
        if spec.kind == "raw":
            return parse_shaping(str(spec))
        from pluralrm.training.rewards import scale_on

        pool, file = self._pool(), scale_file(self.recipe, cell, self.means.out)
        write_scale(scale_on(pool, self._scored(pool, cell)), file)
        return parse_shaping(str(Spec("z", str(file), spec.options)))

    def _pool(self) -> "Pool":
        """Return the answers of the untrained policy, drawn as in training; OutageError where one is open."""
        recipe, means = self.recipe, self.means
        pool = sample(
            trained_on(recipe),
            self.policy,
            recipe.condition,
            out=reference_folder(recipe, means.out),
            draw=Draw(ANSWERS, recipe.settings.temperature, 1.0, recipe.settings.max_tokens, recipe.study_seed),
            settings=means.settings,
            progress=partial(means.display.update, part="reference answers"),
        )
        if not pool.complete:
            raise OutageError("not every reference answer is there; its condition got no answer from a server")
        return pool

    def _scored(self, pool: "Pool", cell: TrainingCell) -> Run:
        """Return a model's scores of the pool; OutageError where one is open."""
        bench, settings = trained_on(self.recipe), self.means.settings
        update = partial(self.means.display.update, part="reference scores")
        run = score_pool(pool, bench, cell.reward, cell.condition, settings=settings, progress=update)
        if not run.complete:
            raise OutageError(f"{run.done:,} of {run.items:,} reference items have scores; {last_outage(run.path)}")
        return run


def reference_folder(recipe: Recipe, out: Path) -> Path:
    """Return where the reference pool is; the hash covers all that shapes it but the policy's weights and code."""
    who = [recipe.declared.named, recipe.condition.spec, str(recipe.study_seed)]
    how = [recipe.settings.max_tokens, recipe.settings.temperature]
    whom = [recipe.benchmark.content_hash, recipe.benchmark.seed, [item.id for item in trained_on(recipe).items]]
    return out / TRAININGS / f"reference-{digest([*who, *how, *whom])[:8]}"


def scale_file(recipe: Recipe, cell: TrainingCell, out: Path) -> Path:
    """Return where the scale of a model under a condition is."""
    name = f"{slug(cell.reward)}-{digest([cell.reward, cell.condition.spec])[:8]}.json"
    return reference_folder(recipe, out) / "scales" / name


def trained_on(recipe: Recipe) -> Benchmark:
    """Return items of users who are trained on: no other users' answers shape a reward.

    With a policy for each domain a user may be trained on in one and asked in another; such users are left out.
    """
    train = [item for parts in recipe.parts.values() for item in parts.train]
    others = {asker(item) for parts in recipe.parts.values() for item in (*parts.validation, *parts.test)}
    items = tuple(item for item in train if asker(item) not in others)
    bench = replace(recipe.benchmark, items=items, content_hash="")
    return replace(bench, items=tuple(bench.select(limit=_USERS)), content_hash="")
