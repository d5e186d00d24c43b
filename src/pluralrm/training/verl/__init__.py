"""`train verl export`: everything that a training by verl needs, in one folder."""

import json
import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from pluralrm.benchmarks.rows import read_rows
from pluralrm.core import Benchmark, Condition, Failure, Item
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, ConditionError, RunError, SpecError, did_you_mean
from pluralrm.files import is_free, whole_folder, write_parquet
from pluralrm.policies.imported import pool_from_jsonl
from pluralrm.policies.pool import Pool
from pluralrm.runs.verdicts import prepared
from pluralrm.templates import DEFAULT, Template, load_template
from pluralrm.text import hydra_quoted
from pluralrm.training.job import UserParts, split

Value = str | int | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlSettings:
    """The numbers of a training. The defaults are those of the published protocol, but for the KL penalty."""

    batch: int = 128
    minibatch: int = 16
    actor_rate: float = 5e-7
    critic_rate: float = 5e-6
    epochs: int = 1
    prompt_tokens: int = 8192
    answer_tokens: int = 512
    temperature: float = 1.0
    kl_coefficient: float = 0.001
    """0 trains without a KL penalty, as published."""
    gpus: int = 1
    """Of one machine, for the reward server listens on its loopback alone."""
    per_gpu: int = 4
    """Answers per GPU in one pass."""
    rollout: str = "vllm"
    seed: int = 0
    """Of the order of the prompts, of their answers and of the minibatches."""
    parts_seed: int = 0
    """Of who is trained on, watched and kept for the end: trainings that are compared share it."""
    save_every: int = 50
    test_every: int = 50

    def overrides(self, *, policy: str, name: str, train: str, validation: str, out: str) -> dict[str, Value]:
        """Return every key that differs from verl's own, by its path."""
        sizes = {"ppo_micro_batch_size_per_gpu": self.per_gpu, "ppo_mini_batch_size": self.minibatch}
        per_gpu = {"log_prob_micro_batch_size_per_gpu": self.per_gpu}
        return {
            "data.train_files": train,
            "data.val_files": validation,
            "data.train_batch_size": self.batch,
            "data.max_prompt_length": self.prompt_tokens,
            "data.max_response_length": self.answer_tokens,
            **_loaded("data.custom_cls", "WholePrompts"),
            "data.seed": self.seed,
            "actor_rollout_ref.model.path": policy,
            "actor_rollout_ref.actor.optim.lr": self.actor_rate,
            **_under("actor_rollout_ref.actor", sizes),
            "actor_rollout_ref.actor.use_kl_loss": False,
            "actor_rollout_ref.actor.data_loader_seed": self.seed,
            **_under("actor_rollout_ref.ref", per_gpu),
            **_under("actor_rollout_ref.rollout", per_gpu),
            "actor_rollout_ref.rollout.name": self.rollout,
            "actor_rollout_ref.rollout.temperature": self.temperature,
            "actor_rollout_ref.rollout.seed": self.seed,
            "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
            # Answers to the watched users are drawn as those to the others; verl's own would be greedy.
            "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
            "actor_rollout_ref.rollout.val_kwargs.temperature": self.temperature,
            "critic.model.path": policy,
            "critic.optim.lr": self.critic_rate,
            **_under("critic", sizes),
            "critic.data_loader_seed": self.seed,
            "algorithm.adv_estimator": "gae",
            "algorithm.use_kl_in_reward": self.kl_coefficient > 0,
            "algorithm.kl_ctrl.kl_coef": self.kl_coefficient,
            "reward.custom_reward_function.path": "pkg://pluralrm.serve.trainers",
            "reward.custom_reward_function.name": "compute_score",
            "trainer.project_name": "pluralrm",
            "trainer.experiment_name": name,
            "trainer.default_local_dir": f"{out}/checkpoints",
            "trainer.validation_data_dir": f"{out}/generations",
            "trainer.total_epochs": self.epochs,
            "trainer.n_gpus_per_node": self.gpus,
            "trainer.nnodes": 1,
            "trainer.save_freq": self.save_every,
            "trainer.test_freq": self.test_every,
            "trainer.val_before_train": True,
            "trainer.logger": ("console",),
            **_loaded("trainer.v1.sampler.custom_sampler", "EveryReward"),
        }


_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("batch", "minibatch", "epochs", "prompt_tokens", "answer_tokens", "gpus", "per_gpu"), (1, inf)),
    **dict.fromkeys(("save_every", "test_every"), (1, inf)),
    **dict.fromkeys(("actor_rate", "critic_rate", "kl_coefficient", "seed", "parts_seed"), (0, inf)),
    "temperature": (1e-2, 2),
}
ROLLOUTS = ("vllm", "sglang")
"""What draws the answers, by verl's names."""


def read_verl_settings(texts: Sequence[str]) -> VerlSettings:
    """Return the settings that KEY=VALUE texts change; an unknown key or a value of another type is a SpecError."""
    kinds: dict[str, type] = {field.name: type(field.default) for field in fields(VerlSettings)}
    values: dict[str, Value] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if key not in kinds or not mark:
            raise SpecError(
                f"--set {text}: wanted KEY=VALUE, with one of {', '.join(kinds)}.{did_you_mean(key, kinds)}"
            )
        if key in values:
            raise SpecError(f"--set {text}: {key} is given twice; --no-kl gives kl_coefficient, too")
        try:
            values[key] = kinds[key](value)
        except ValueError as exc:
            raise SpecError(f"--set {text}: wanted a {kinds[key].__name__}") from exc
    return checked(VerlSettings(**values))  # type: ignore[arg-type] # each value has its field's type


def checked(settings: VerlSettings) -> VerlSettings:
    """Return the settings; a SpecError says which of them cannot be, before verl has loaded any weights."""
    for key, (low, high) in _RANGES.items():
        value = getattr(settings, key)
        if not (low <= value <= high and value < inf):
            usage = f"at least {low:g}" if high == inf else f"a number from {low:g} to {high:g}"
            raise SpecError(f"verl: {key} is {value}; wanted {usage}")
    if settings.rollout not in ROLLOUTS:
        raise SpecError(f"verl: rollout is {settings.rollout!r}; wanted {' or '.join(ROLLOUTS)}")
    if settings.minibatch > settings.batch:
        raise SpecError(
            f"verl: minibatch is {settings.minibatch}, of a batch of {settings.batch}; wanted at most the batch"
        )
    if settings.batch % settings.gpus:
        raise SpecError(f"verl: batch is {settings.batch}; wanted a multiple of gpus, {settings.gpus}")
    return settings


def _loaded(prefix: str, name: str) -> dict[str, Value]:
    """Return the two keys by which verl loads a class of this package."""
    return {f"{prefix}.path": "pkg://pluralrm.training.verl.hooks", f"{prefix}.name": name}


def _under(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{prefix}.{name}": value for name, value in values.items()}


def spelled(overrides: Mapping[str, Value]) -> list[str]:
    """Return them as Hydra reads them on a command line; a path is quoted, so that nothing in it is an operator."""
    return [f"{name}={_spelled(value)}" for name, value in overrides.items()]


def _spelled(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, tuple):
        return f"[{','.join(map(_spelled, value))}]"
    return f"'{hydra_quoted(value)}'" if isinstance(value, str) else str(value)


VerlRow = Mapping[str, object]


def rows_of(
    benchmark: Benchmark, items: Sequence[Item], condition: Condition, *, split: str, template: Template | None = None
) -> Iterator[VerlRow]:
    """Yield one row per item; ConditionError where the condition cannot show one, such as for want of a note."""
    if (reason := condition.unsupported(benchmark)) is not None:
        raise ConditionError(f"{condition.spec}: {reason}")
    written = template or load_template(DEFAULT)
    for index, (item, result) in enumerate(zip(items, prepared(condition, benchmark, items), strict=True)):
        if isinstance(result.failure, Failure):
            raise ConditionError(f"{condition.spec}: item {item.id!r} cannot be shown ({result.failure.detail})")
        query = replace(result.query, candidates=())  # no policy is shown a benchmark's answers
        yield {
            "data_source": benchmark.card.name,
            "prompt": [turn._asdict() for turn in written.turns(query)],
            "ability": item.domain,
            "reward_model": {"style": "model", "ground_truth": item.id},
            "extra_info": {"split": split, "index": index, "item": item.id},
        }


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
        conditions = [] if self.shown.spec == self.condition.spec else [self.shown.spec]
        rendered = [] if self.template.name == DEFAULT else [f"{self.template.name}-{self.template.hash[:6]}"]
        return [self.policy, self.reward, self.condition.spec, *conditions, *rendered, *domains]


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
    if not is_free(folder):
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
            for part, table in rows.items():
                write_parquet(beside / f"{part}.parquet", [dict(row) for row in table])
            script, text = (
                beside / "launch.sh",
                launch_script(serve, spelled(overrides), out=name, modules=what.modules),
            )
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)
            (beside / "export.json").write_text(f"{_record(what, parts, settings, name)}\n", encoding="utf-8")
            (beside / "overrides.txt").write_text("".join(f"{line}\n" for line in spelled(overrides)), encoding="utf-8")
    except OSError as exc:
        raise RunError(f"cannot write {folder}: {exc}. Make room, or name another folder with -o") from exc
    steps = len(parts.train) // settings.batch * settings.epochs
    return Exported(folder, name, len(parts.train), len(parts.validation), len(parts.test), steps)


def _plain(text: str) -> str:
    """Return a text as part of a file's name; what differs in what is left out differs in the hash."""
    short = _OTHER.sub("_", text.rstrip("/").rpartition("/")[2] or text).strip("_")[:40]
    return short if short == text else f"{short}.{digest(text)[:6]}"


def _record(what: Export, parts: UserParts, settings: VerlSettings, name: str) -> str:
    record: Mapping[str, object] = {
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
    return json.dumps(record, indent=2)


_KEYS = frozenset({"input", "output", "gts", "score", "step"})


def import_generations(
    file: Path, benchmark: Benchmark, condition: Condition, *, policy: str, out: Path, fresh: bool = False
) -> Pool:
    """Return the pool of one file of generations, written to `out`, with the answers beside it as `answers.jsonl`.

    A RunError where the export that the file lies in was of another benchmark or condition, or has unanswered items.
    """
    rows = list(_answers(file))
    if not rows:
        raise RunError(f"{file}: found no line, wanted verl's generations, one answer per line")
    _check_export(file, benchmark, condition, answered={row["item"] for row in rows})
    answers = out.with_name(f"{out.name}.answers.jsonl")
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    if answers.exists() and answers.read_text(encoding="utf-8") != text:
        raise RunError(f"{answers}: found the answers of another file; name another pool with -o")
    out.mkdir(parents=True, exist_ok=True)
    answers.write_text(text, encoding="utf-8")
    return pool_from_jsonl(answers, benchmark, condition, out=out, policy=policy, fresh=fresh)


def _check_export(file: Path, benchmark: Benchmark, condition: Condition, *, answered: AbstractSet[str]) -> None:
    """Raise where the export around a file (FOLDER/NAME/generations/STEP.jsonl) says that the pool would be no such."""
    record = file.resolve().parent.parent.parent / "export.json"
    if not record.exists():
        return
    facts = json.loads(record.read_text(encoding="utf-8"))
    if facts["condition"] != condition.spec:
        raise RunError(f"-c {condition.spec}: the policy was trained and asked under {facts['condition']} ({record})")
    if facts["content_hash"] != benchmark.content_hash:
        raise RunError(f"{benchmark.card.name}: not the items of the export, {facts['benchmark']} ({record})")
    for part, items in facts["items"].items():
        if answered <= set(items) and (missing := sorted(set(items) - answered)):
            raise RunError(
                f"{file}: {len(missing)} of {len(items)} items of {part} have no answer, such as {missing[0]!r}. verl "
                "leaves out what could not be scored; of the rest alone there is no fair pool"
            )


def _answers(file: Path) -> Iterator[Mapping[str, str]]:
    for location, row in read_rows(file):
        if missing := sorted({"output", "gts"} - set(row)):
            keys = ", ".join(sorted(row))
            raise location.refuse(
                missing[0], found=f"a row with {keys}", wanted=f"verl's keys: {', '.join(sorted(_KEYS))}"
            )
        yield {"item": str(row["gts"]), "text": str(row["output"])}


_SCRIPT = """#!/usr/bin/env bash
# Starts the reward server and verl together; when either ends, or this script is interrupted, so does the other.
set -euo pipefail
cd "$(dirname "$0")"

# As Hydra reads it; verl's environment needs pluralrm for this and for the rewards.
here="$(python3 -c 'import os; from pluralrm.text import hydra_quoted; print(hydra_quoted(os.getcwd()))')"
PLURALRM_REWARD_RUN="$(python3 -c 'import uuid; print(uuid.uuid4().hex)')"
export PLURALRM_REWARD_RUN
# The reward server may live in an environment of its own: PLURALRM=/path/to/.venv/bin/pluralrm ./launch.sh
PLURALRM="${PLURALRM:-pluralrm}"
mkdir -p "$OUT_DIR"
: > "$OUT_DIR/server.env" # an earlier training left one, which names its own server

started=()
trap 'kill ${started[@]+"${started[@]}"} 2>/dev/null || true; wait' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "starting the reward server; what it says is in $PWD/$OUT_DIR/server.log" >&2
$MODULES"$PLURALRM" serve $SERVE --run "$PLURALRM_REWARD_RUN" > "$OUT_DIR/server.env" 2> "$OUT_DIR/server.log" &
server=$!
started+=("$server")

until grep -q PLURALRM_REWARD_IDENTITY "$OUT_DIR/server.env"; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$OUT_DIR/server.log" >&2
    echo "the reward server did not start" >&2
    exit 3
  fi
  sleep 1
done
source "$OUT_DIR/server.env"

# verl resumes from checkpoints that it finds. What they were trained against has to be what rewards them now.
if [ -d "$OUT_DIR/checkpoints" ] && ! grep -qsx "$PLURALRM_REWARD_IDENTITY" "$OUT_DIR/identity"; then
  echo "the checkpoints in $PWD/$OUT_DIR were trained against another reward server (model, condition or benchmark" >&2
  echo "differs); move that folder away to begin anew" >&2
  exit 5
fi
echo "$PLURALRM_REWARD_IDENTITY" > "$OUT_DIR/identity"

# Hydra writes its own record of the settings beside the checkpoints. Workers of a Ray cluster that runs already have
# another environment and another folder than this script: both are told them.
worker="+ray_kwargs.ray_init.runtime_env.env_vars.PLURALRM_REWARD"
python3 -m verl.trainer.main_ppo hydra.run.dir="$OUT_DIR/hydra" \\
$OVERRIDES \\
  data.train_files="'$here/train.parquet'" \\
  data.val_files="'$here/validation.parquet'" \\
  trainer.default_local_dir="'$here/$OUT_DIR/checkpoints'" \\
  trainer.validation_data_dir="'$here/$OUT_DIR/generations'" \\
  "${worker}_URL='$PLURALRM_REWARD_URL'" \\
  "${worker}_RUN='$PLURALRM_REWARD_RUN'" \\
  "${worker}_IDENTITY='$PLURALRM_REWARD_IDENTITY'" \\
  "$@" &
trainer=$!
started+=("$trainer")

while kill -0 "$trainer" 2>/dev/null; do
  if ! kill -0 "$server" 2>/dev/null; then
    cat "$OUT_DIR/server.log" >&2
    echo "the reward server ended; the training is stopped, for it has no rewards" >&2
    exit 4
  fi
  sleep 1
done
wait "$trainer"
"""


def launch_script(serve: Sequence[str], overrides: Sequence[str], *, out: str, modules: str = "") -> str:
    """Return the script; what it is told is quoted for the shell. `modules` is where the server finds Python's."""
    path = f"PYTHONPATH={shlex.quote(modules)}${{PYTHONPATH:+:$PYTHONPATH}} " if modules else ""
    lines = " \\\n".join(f"  {shlex.quote(override)}" for override in overrides)
    values = {"OVERRIDES": lines, "OUT_DIR": out, "SERVE": shlex.join(serve), "MODULES": path}
    return string.Template(_SCRIPT).safe_substitute(values)  # in one pass; the shell's own variables stay
