"""One scale for the rewards of all models: each is scored on the same answers of the untrained policy to train users.

OUT/ppo/reference-HASH          the pool, with the scores of each model, as `sample` and `train scale` write them
OUT/ppo/reference-HASH/scales/  a file for each model and condition, for --shaping z:FILE
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pluralrm.core import Benchmark, Run, digest
from pluralrm.errors import OutageError
from pluralrm.models.shaping import Shaping, parse_shaping, write_scale
from pluralrm.policies.best_of_n import score_pool
from pluralrm.policies.policy import Draw
from pluralrm.policies.sample import sample
from pluralrm.runs import last_outage
from pluralrm.runs.loop import slug
from pluralrm.specs import Spec
from pluralrm.study.means import Means, Watching
from pluralrm.study.ppo.recipe import TRAININGS, Cell, Recipe
from pluralrm.training.prompts import asker

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.policies.pool import Pool

_USERS, ANSWERS = 128, 4
"""Of the reference pool: users at most, in turn from each domain, and answers to each of their items."""


@dataclass(frozen=True)
class Reference:
    """The reference pool of a recipe; `meter` shows how far drawing and scoring it are."""

    recipe: Recipe
    policy: "LocalPolicy"
    means: Means
    meter: Watching

    def shaping(self, cell: Cell) -> Shaping:
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
            progress=self.meter.update,
        )
        if not pool.complete:
            raise OutageError("not every reference answer is there; its condition got no answer from a server")
        return pool

    def _scored(self, pool: "Pool", cell: Cell) -> Run:
        """Return a model's scores of the pool; OutageError where one is open."""
        bench, settings = trained_on(self.recipe), self.means.settings
        run = score_pool(pool, bench, cell.reward, cell.condition, settings=settings, progress=self.meter.update)
        if not run.complete:
            raise OutageError(f"{run.done:,} of {run.items:,} reference items have scores; {last_outage(run.path)}")
        return run


def reference_folder(recipe: Recipe, out: Path) -> Path:
    """Return where the reference pool is; the hash covers all that shapes it but the policy's weights and code."""
    who = [recipe.declared.named, recipe.condition.spec, str(recipe.study_seed)]
    how = [recipe.settings.max_tokens, recipe.settings.temperature]
    whom = [recipe.benchmark.content_hash, recipe.benchmark.seed, [item.id for item in trained_on(recipe).items]]
    return out / TRAININGS / f"reference-{digest([*who, *how, *whom])[:8]}"


def scale_file(recipe: Recipe, cell: Cell, out: Path) -> Path:
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
    known = replace(recipe.benchmark, items=items, content_hash="")
    return replace(known, items=tuple(known.select(limit=_USERS)), content_hash="")
