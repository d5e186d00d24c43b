"""What [ppo] of a study trains, before anything is trained: who rewards whom, who is trained on, in which folder."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pluralrm.benchmarks.simulated.texts import topic_of
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, Item
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, StudyError
from pluralrm.grading import Grader, check_independent, open_grader
from pluralrm.http import Settings
from pluralrm.models import misfit, never_alone, parse_model, unsupported
from pluralrm.runs.records import slug
from pluralrm.study.file import Ppo, StudyDeclaration
from pluralrm.study.parts import check_domains
from pluralrm.training.job import Questions, UserParts, questions, split
from pluralrm.training.settings import PpoSettings

TRAININGS = "ppo"


class TrainingCell(NamedTuple):
    """A reward model under a condition; `skip` says why no policy can be trained by it."""

    reward: str
    condition: Condition
    skip: str | None


class Training(NamedTuple):
    """One training of a cell; `domain` is empty where one policy is for all."""

    cell: TrainingCell
    seed: int
    domain: str
    folder: Path

    @property
    def title(self) -> str:
        """What the training is called."""
        where = f", {self.domain}" if self.domain else ""
        return f"ppo × {self.cell.reward} × {self.cell.condition.spec}, seed {self.seed}{where}"


@dataclass(frozen=True)
class Recipe:
    """Everything that all trainings of a study have in common, and the cells in which they differ.

    The same users are in the same part in all of them: `parts` are by the study's seed, by domain.
    """

    declared: Ppo
    benchmark: Benchmark
    condition: Condition
    settings: PpoSettings
    grader: Grader
    cells: tuple[TrainingCell, ...]
    seeds: tuple[int, ...]
    study_seed: int
    parts: Mapping[str, UserParts]
    questions: Mapping[str, Questions] = field(default_factory=dict)
    """Of [ppo] evaluate-on, by domain as the parts; none where it is left out."""

    @property
    def evaluated(self) -> Benchmark | None:
        """The benchmark whose questions are asked, too."""
        return next((question.benchmark for question in self.questions.values()), None)

    def asked(self, domain: str) -> list[Questions]:
        """Return what the policy of a domain is asked before and after: the test users' items, and the questions."""
        more = [self.questions[domain]] if domain in self.questions else []
        return [Questions(self.benchmark, self.parts[domain].test), *more]

    @property
    def test(self) -> list[Item]:
        """The items of the users who are kept for the end."""
        return [item for parts in self.parts.values() for item in parts.test]

    def trainings(self, out: Path) -> Iterator[Training]:
        """Yield the trainings in the order in which they are done: a seed for all rewards, then the next."""
        for seed in self.seeds:
            for cell in self.cells:
                yield from self.of(cell, seed, out)

    def of(self, cell: TrainingCell, seed: int, out: Path) -> list[Training]:
        """Return the trainings of a cell by one seed: one, or one for each domain."""
        folder = self._folder(cell, seed, out)
        return [Training(cell, seed, name, folder / slug(name) if name else folder) for name in self.parts]

    def _folder(self, cell: TrainingCell, seed: int, out: Path) -> Path:
        """Return where a cell is trained; the hash covers all that shapes it but the number of steps, weights and code.

        With more steps a training goes on.
        """
        ppo = self.declared
        who = [ppo.named, self.condition.spec, self.benchmark.content_hash, str(self.benchmark.seed)]
        how = [str(self.settings.to_json()), ppo.shaping, self.grader.spec, str(self.study_seed), str(seed)]
        whom = [str(ppo.limit), str(ppo.per_domain), *ppo.domains]
        shape = digest([*who, *how, *whom, cell.reward, cell.condition.spec])[:8]
        return out / TRAININGS / f"{slug(cell.reward)}-{slug(cell.condition.spec)}-seed-{seed}-{shape}"

    def begins_anew(self, training: Training, fresh: Collection[str]) -> bool:
        """Return whether the training's reward, or the policy, is among those that are others now."""
        return training.cell.reward in fresh or self.declared.named in fresh

    def domains(self, training: Training) -> Sequence[str]:
        """Return the domains whose users a training has."""
        return [training.domain] if training.domain else self.declared.domains


def recipe_of(
    declared: StudyDeclaration, benchmark: Benchmark, settings: Settings, *, evaluated: Benchmark | None = None
) -> Recipe:
    """Return what is trained; what cannot be, of a benchmark, a condition or a grader, is an error now.

    `evaluated` is the benchmark of `evaluate-on`.
    """
    ppo = declared.ppo
    if ppo is None:
        raise StudyError("no [ppo] in this study; wanted one")
    condition = load_condition(ppo.condition, cache=settings.cache, settings=settings)
    for shown_of in (benchmark, *([evaluated] if evaluated else [])):
        if (reason := condition.unsupported(shown_of)) is not None:
            raise StudyError(f"[ppo] condition: {reason}")
    check_domains(benchmark, ppo.domains, "[ppo] domains")
    grader, chosen = open_grader(ppo.grader, settings=settings), ppo.chosen()
    rewards = [str(parse_model(text)) for text in declared.rewards]
    check_independent(grader.spec, grader.model, picks=rewards, conditions=declared.rewarded_under, does="rewards")
    conditions = [load_condition(text, cache=settings.cache, settings=settings) for text in declared.rewarded_under]
    recipe = Recipe(
        declared=ppo,
        benchmark=benchmark,
        condition=condition,
        settings=chosen,
        grader=grader,
        cells=tuple(
            TrainingCell(reward, view, _why_not(reward, view, benchmark, chosen))
            for view in conditions
            for reward in rewards
        ),
        seeds=ppo.seeds or (declared.seed,),
        study_seed=declared.seed,
        parts=(parts := _parts(ppo, benchmark, chosen, declared.seed)),
        questions=_questions(ppo, benchmark, parts, evaluated),
    )
    _check(recipe)
    return recipe


def rewarded_benchmark(declared: StudyDeclaration) -> str:
    """Return the name of the benchmark whose users the policy is trained on."""
    return (declared.ppo and declared.ppo.benchmark) or declared.benchmarks[0]


def _why_not(reward: str, condition: Condition, benchmark: Benchmark, settings: PpoSettings) -> str | None:
    """Return why a model cannot reward under a condition, or None."""
    if settings.answers < 2 and (why := never_alone(reward)):
        return f"{why}: found answers = 1, wanted 2 or more in [ppo.settings]"
    return condition.unsupported(benchmark) or unsupported(reward, condition) or misfit(reward, benchmark)


def _parts(ppo: Ppo, benchmark: Benchmark, settings: PpoSettings, seed: int) -> dict[str, UserParts]:
    """Return the users of each part, by domain where each has a policy of its own."""
    names = (ppo.domains or benchmark.domains) if ppo.per_domain else [""]
    parts = {}
    for name in names:
        items = benchmark.select(domains=[name] if name else ppo.domains, limit=ppo.limit)
        try:
            parts[name] = split(items, seed, validation=settings.validation, test=settings.test)
        except BenchmarkError as exc:
            raise StudyError(f"[ppo] {f'{name}: ' if name else ''}{exc}") from exc
    return parts


def _questions(
    ppo: Ppo, benchmark: Benchmark, parts: Mapping[str, UserParts], evaluated: Benchmark | None
) -> dict[str, Questions]:
    """Return the questions of evaluate-on for the policy of each domain, as `train ppo` asks them."""
    if evaluated is None:
        return {}
    try:
        return {
            name: questions(benchmark, some, evaluated, domains=[name] if name else ppo.domains, limit=ppo.limit)
            for name, some in parts.items()
        }
    except BenchmarkError as exc:
        raise StudyError(f"[ppo] evaluate-on: {exc}") from exc


def _check(recipe: Recipe) -> None:
    """Raise where two cells are one, no test user is left, or the grader cannot grade their answers."""
    for (reward, condition), times in Counter((cell.reward, cell.condition.spec) for cell in recipe.cells).items():
        if times > 1:
            raise StudyError(
                f"[ppo] see: {reward} under {condition} comes {times} times, in other words; leave one out"
            )
    for bench in (recipe.benchmark, *([recipe.evaluated] if recipe.evaluated else [])):
        if recipe.declared.tiny is not None and not all(topic_of(item.prompt) for item in bench.items):
            name = bench.card.name
            raise StudyError(
                f"[ppo] policy: tiny can answer simulated users alone, and {name} has others; wanted lm:FOLDER"
            )
    if not recipe.test:
        raise StudyError("[ppo.settings] test: found 0, wanted a share above it: no user is kept for the test")
    for domain, parts in recipe.parts.items():
        for part in (Questions(recipe.benchmark, parts.validation), *recipe.asked(domain)):
            if part.items and (reason := recipe.grader.unsupported(part.items)) is not None:
                raise StudyError(f"[ppo] grader: {part.benchmark.card.name} {reason}")
