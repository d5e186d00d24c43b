"""`train verl export`: everything that a training by verl needs, in one folder."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from pluralrm.core import Benchmark, Condition, digest
from pluralrm.errors import BenchmarkError, RunError, SpecError
from pluralrm.files import whole_folder
from pluralrm.templates import DEFAULT, Template, load_template
from pluralrm.training.prompts import Parts, split
from pluralrm.training.verl.launch import launch_script
from pluralrm.training.verl.rows import rows_of, write_parquet
from pluralrm.training.verl.settings import VerlSettings, spelled

_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


class Export(NamedTuple):
    """What is to be trained: a policy on a benchmark's prompts under a condition, by a reward model's rewards."""

    benchmark: Benchmark
    named: str
    """The benchmark as a command line names it, for the server."""
    policy: str
    reward: str
    condition: Condition
    shown: Condition
    """What the reward model sees of the user; default: the policy's own condition."""
    modules: str = ""
    """The folder in which the module of a reward model of one's own lies: the server starts in another."""
    template: Template = load_template()
    """What the policy's prompts are rendered by."""

    def names(self, domains: Sequence[str]) -> list[str]:
        """Return what a training's name is made of."""
        shown = [] if self.shown.spec == self.condition.spec else [self.shown.spec]
        rendered = [] if self.template.name == DEFAULT else [f"{self.template.name}-{self.template.hash[:6]}"]
        return [self.policy, self.reward, self.condition.spec, *shown, *rendered, *domains]


@dataclass(frozen=True, slots=True)
class Exported:
    """Where it is, under which name, and how many prompts there are."""

    folder: Path
    name: str
    train: int
    validation: int
    test: int
    steps: int


def export(
    what: Export,
    folder: Path,
    settings: VerlSettings,
    *,
    domains: Sequence[str] = (),
    validation: float = 0.1,
    test: float = 0.2,
) -> Exported:
    """Write Parquet files, overrides, a launch script and `export.json`; an existing folder is a RunError.

    Users are trained on, watched or only asked in the end, never two of these. Names carry policy, reward model and
    conditions, so that no training writes over another's. A SpecError where there are fewer prompts than a batch has:
    verl takes whole batches alone.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder}: found files there, wanted an empty folder or none; name another with -o")
    items = what.benchmark.select(domains=domains)
    if not items:
        raise BenchmarkError(f"{what.benchmark.card.name}: no item of {', '.join(domains)}")
    parts = split(items, settings.parts_seed, validation=validation, test=test)
    if len(parts.train) < settings.batch:
        raise SpecError(
            f"{len(parts.train)} prompts to train on, and batch is {settings.batch}: verl takes whole batches; wanted "
            f"--set batch={len(parts.train)} or less"
        )
    name = "-".join(map(_plain, what.names(domains)))
    rows = {
        part: list(rows_of(what.benchmark, some, what.condition, split=part, template=what.template))
        for part, some in parts._asdict().items()
        if some
    }
    overrides = settings.overrides(
        policy=what.policy, name=name, train="train.parquet", validation="validation.parquet", out=name
    )
    serve = [what.reward, "-c", what.shown.spec, "-b", what.named]
    try:
        with whole_folder(folder) as beside:
            for part, shown in rows.items():
                write_parquet(shown, beside / f"{part}.parquet")
            script, text = (
                beside / "launch.sh",
                launch_script(serve, spelled(overrides), out=name, modules=what.modules),
            )
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)
            (beside / "export.json").write_text(f"{_record(what, parts, settings, name)}\n", encoding="utf-8")
            (beside / "overrides.txt").write_text("".join(f"{one}\n" for one in spelled(overrides)), encoding="utf-8")
    except OSError as exc:
        raise RunError(f"cannot write {folder}: {exc}. Make room, or name another folder with -o") from exc
    steps = len(parts.train) // settings.batch * settings.epochs
    return Exported(folder, name, len(parts.train), len(parts.validation), len(parts.test), steps)


def _plain(text: str) -> str:
    """Return a text as part of a file's name; what differs in what is left out differs in the hash."""
    short = _OTHER.sub("_", text.rstrip("/").rpartition("/")[2] or text).strip("_")[:40]
    return short if short == text else f"{short}.{digest(text)[:6]}"


def _record(what: Export, parts: Parts, settings: VerlSettings, name: str) -> str:
    told: Mapping[str, object] = {
        "engine": "verl",
        "name": name,
        "policy": what.policy,
        "reward": what.reward,
        "condition": what.condition.spec,
        "reward_condition": what.shown.spec,
        "benchmark": what.named,
        "content_hash": what.benchmark.content_hash,
        "template": what.template.name,
        "template_hash": what.template.hash,
        "settings": asdict(settings),
        "items": {part: [item.id for item in some] for part, some in parts._asdict().items()},
    }
    return json.dumps(told, indent=2)
