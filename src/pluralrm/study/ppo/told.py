"""What was trained, as data: for study.json. Without a time, and without a path outside of the study's folder."""

from pathlib import Path

from pluralrm.study.ppo.found import Answers, Apart, Change, Found, Seeded, Trained
from pluralrm.study.ppo.recipe import Training
from pluralrm.training.prompts import Parts, asker
from pluralrm.training.records import RUN, TrainingManifest, read_run


def trained_json(found: Found) -> dict[str, object]:
    """Return what came of the trainings under its names."""
    recipe = found.recipe
    return {
        "policy": recipe.declared.policy,
        "condition": recipe.condition.spec,
        "benchmark": recipe.benchmark.card.name,
        "steps": recipe.declared.steps,
        "seeds": list(recipe.seeds),
        "n": recipe.declared.n,
        "shaping": recipe.declared.shaping,
        "domains": [name for name in recipe.parts if name],
        "users": {name: _users(found, name) for name in Parts._fields},
        **_questions(found),
        "trained": [_trained(one) for one in found.trained],
        "best_against_worst": [_apart(one) for one in found.apart],
    }


def _questions(found: Found) -> dict[str, object]:
    """Return whose questions were asked besides; nothing where none were."""
    recipe = found.recipe
    if recipe.evaluated is None:
        return {}
    asked = recipe.questions.values()
    counts = {"items": sum(len(one.items) for one in asked), "left_out": sum(one.left_out for one in asked)}
    about = {"benchmark": recipe.evaluated.card.name, "content_hash": recipe.evaluated.content_hash}
    return {"evaluated_on": {**about, **counts}}


def _users(found: Found, name: str) -> int:
    return len({asker(item) for parts in found.recipe.parts.values() for item in getattr(parts, name)})


def _trained(one: Trained) -> dict[str, object]:
    return {
        "model": one.reward,
        "condition": one.condition,
        "shown_rubric": one.shown_rubric,
        "whole": one.whole,
        **_answers(one),
        **({} if one.on is None else {"on": _answers(one.on)}),
        "seeds": [_seeded(seeded) for seeded in one.seeds],
    }


def _answers(one: Answers) -> dict[str, object]:
    return {"before": one.before.to_json(), "after": _change(one.after), "change": _change(one.change)}


def _seeded(one: Seeded) -> dict[str, object]:
    alarms = [{"name": alarm.name, "told": alarm.told, "domain": domain} for alarm, domain in one.alarms]
    return {
        "seed": one.seed,
        "before": one.before,
        "after": one.after,
        "change": one.change,
        **({} if one.on is None else {"on": {"before": one.on[0], "after": one.on[1]}}),
        "alarms": alarms,
        "reports": list(one.reports),
    }


def _apart(one: Apart) -> dict[str, object]:
    on = {"on": one.on} if one.on else {}
    return {"condition": one.condition, **on, "best": one.best, "worst": one.worst, **_change(one.difference)}


def _change(one: Change) -> dict[str, object]:
    return {"users": one.users.to_json(), "users_and_trainings": one.both.to_json()}


# ---------------------------------------------------------------- where it came from


def trainings_json(found: Found, out: Path) -> list[dict[str, object]]:
    """Return where each training lies, whole or not, and what shaped it."""
    begun = [one for one in found.recipe.trainings(out) if (one.folder / RUN).exists()]
    return [_training(one, read_run(one.folder), out) for one in begun]


def _training(one: Training, run: TrainingManifest, out: Path) -> dict[str, object]:
    return {
        "folder": one.folder.relative_to(out).as_posix(),
        "model": run.reward,
        "condition": run.reward_condition,
        "policy_condition": run.condition,
        "seed": run.seed,
        "domain": one.domain,
        "status": run.status,
        "steps": run.steps,
        "masked": run.masked,
        "identity": run.identity,
        "benchmark_hash": run.benchmark.content_hash,
        "users": {name: len(getattr(run.parts, name)) for name in Parts._fields},
        "left_out": run.parts.left_out,
        **({"shortened": run.shortened} if run.shortened else {}),
        "settings": run.settings,
        "shaping": run.shaping,
        "versions": run.versions,
    }
