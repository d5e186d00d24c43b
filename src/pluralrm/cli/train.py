"""`pluralrm train`: PPO and GRPO on this machine, a tiny policy, a scale of rewards, and verl's files."""

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli import training as shared
from pluralrm.cli.fit import given_settings
from pluralrm.cli.grade import BENCHMARK
from pluralrm.cli.options import SEND, SERVED, TRUST, ServerOptions, check_names, with_posts_of, with_server_options
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.cli.training import (
    ANSWER_CURVES,
    CLIPPED_CURVE,
    ENTROPY_CURVE,
    REWARD_CURVE,
    ProgressCurve,
    print_training,
)
from pluralrm.errors import ConditionError, MissingExtraError, ModelError, SpecError
from pluralrm.specs import Spec
from pluralrm.templates import DEFAULT, load_template
from pluralrm.text import counted

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Condition
    from pluralrm.training.job import PpoJob
    from pluralrm.training.verl import Exported, VerlSettings


verl = typer.Typer(no_args_is_help=True, help="Export a training to verl; import its answers.")


@verl.callback()
def _verl_root() -> None:
    """Export a training to verl; import its answers."""


@verl.command("export")
def export(
    benchmark: str = typer.Argument(
        ..., metavar="BENCH", help="Benchmark of the training prompts and the held-out users."
    ),
    policy: str = typer.Option(..., "--policy", metavar="MODEL", help="A folder or hub id, as verl takes it."),
    reward: str = typer.Option(..., "--reward", metavar="MODEL", help="The reward model, as 'score -m' takes it."),
    out: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="A new folder."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the policy sees of the user."),
    reward_condition: str = typer.Option(
        "", "--reward-condition", help="What the reward model sees.", show_default="that of -c"
    ),
    template: str = typer.Option(
        DEFAULT, "--template", help="Template of the policy's prompts: a shipped one (sample-v1), or FILE.jinja."
    ),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains: one policy per domain, as published."),
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty, as published."),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="A setting: batch, actor_rate, gpus, ..."
    ),
    send: bool = SEND,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write Parquet files, verl's settings and a script that starts reward server and training together."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import condition_summaries, load_condition
    from pluralrm.models import KINDS
    from pluralrm.training.verl import Export, read_verl_settings
    from pluralrm.training.verl import export as write

    check_names([reward], "--reward", KINDS)
    check_names([condition, reward_condition or condition], "-c", condition_summaries())
    [reward], specs = with_posts_of([reward], [condition, reward_condition or condition], allowed=send)
    own, context = [load_condition(_placed_condition(text)) for text in specs]
    bench = open_benchmark(benchmark)
    _check_reward(reward, context, bench)
    chosen = read_verl_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])])
    spec = _found(reward)
    modules = str(Path.cwd()) if KINDS[spec.kind].target == "module" else ""
    what = Export(bench, _placed(benchmark), _policy(policy), str(spec), own, context, modules, load_template(template))
    _tell(write(what, out, chosen, domains=domains), chosen, as_json=as_json)


def _check_reward(reward: str, condition: "Condition", bench: "Benchmark") -> None:
    """Raise where the reward server of the training could not start, or could answer nothing that verl asks."""
    from pluralrm.models import misfit, never_alone, unsupported

    if why := unsupported(reward, condition):
        raise ConditionError(why)
    if (why := condition.unsupported(bench)) is not None:
        raise ConditionError(f"{condition.spec}: {why}")
    if why := never_alone(reward):
        raise ModelError(f"{why}, and verl asks about each alone: wanted another")
    if why := misfit(reward, bench):
        raise ModelError(f"{reward}: {why}")


def _tell(done: "Exported", chosen: "VerlSettings", *, as_json: bool) -> None:
    if as_json:
        counts = {"train": done.train, "validation": done.validation, "test": done.test, "steps": done.steps}
        print_json({"folder": str(done.folder), "name": done.name, **counts})
        return
    print_wrapped(f"{done.folder}: {done.name}", style="bold")
    parts = f"{done.train:,} prompts to train on, {done.validation:,} to watch, {done.test:,} of users kept for the end"
    print_wrapped(parts, first="  ")
    print_wrapped(f"{counted(done.steps, 'step')} of {chosen.batch:,} prompts", first="  ")
    print_wrapped("Where verl is installed, and pluralrm with the extra serve:", first="  ")
    typer.echo(f"    bash {shlex.quote(str(done.folder / 'launch.sh'))}")
    if not chosen.kl_coefficient:
        note("no KL penalty: nothing keeps the policy near where it began")


@verl.command("import")
def import_(
    generations: Path = typer.Argument(..., metavar="FILE.jsonl", help="verl's generations/STEP.jsonl."),
    benchmark: str = typer.Option(..., "--benchmark", "-b", metavar="BENCH", help="The benchmark of the export."),
    out: Path = typer.Option(..., "--out", "-o", metavar="POOL", help="A new folder."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the policy saw of the user."),
    policy: str = typer.Option(..., "--policy", metavar="NAME", help="Name of the pool's policy: verl:step-50."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Import the answers of a verl training as a pool, to be graded like any other."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.training.verl import import_generations

    pool = import_generations(generations, open_benchmark(benchmark), load_condition(condition), policy=policy, out=out)
    if as_json:
        print_json({"pool": str(out), "items": len(pool.samples), "n": pool.n, "policy": pool.policy})
        return
    print_wrapped(f"{out}: {pool.n} answers to each of {len(pool.samples):,} items by {pool.policy}", style="bold")


def _policy(name: str) -> str:
    """Return the policy as verl takes it: a folder by its whole path, or a hub id."""
    from pluralrm.policies.policy import KINDS

    kind, mark, target = name.partition(":")
    if mark and kind in KINDS and not Path(name).exists():
        raise SpecError(f"--policy {name}: verl takes a folder or a hub id; wanted {target!r}, without {kind}:")
    return _local(name)


def _local(name: str) -> str:
    """Return a folder by its whole path, for the script changes into its own; a hub id stays."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _placed(benchmark: str) -> str:
    """Return the benchmark as it is named from any folder."""
    from pluralrm.benchmarks import KINDS, parse_benchmark

    if benchmark.partition(",")[0].partition(":")[0] not in KINDS:
        return _local(benchmark)
    return str(_whole(parse_benchmark(benchmark), is_path=True))


def _placed_condition(condition: str) -> str:
    """Return the condition as it is named from any folder."""
    from pluralrm.conditions import parse_condition

    return str(_whole(parse_condition(condition), is_path=False))


def _found(reward: str) -> "Spec":
    """Return the reward model as it is named from any folder."""
    from pluralrm.models import KINDS, parse_model

    spec = parse_model(reward)
    is_path = KINDS[spec.kind].target == "path"
    if is_path and not Path(spec.target).exists() and not spec.target.count("/") <= 1:
        raise ModelError(f"{reward}: no folder {spec.target!r}")
    return _whole(spec, is_path=is_path)


_FILES = ("template", "users")
"""Keys of models, conditions and benchmarks that may name a file."""


def _whole(spec: "Spec", *, is_path: bool) -> "Spec":
    """Return the spec with its files by their whole paths, and with its target where that is a place."""
    from dataclasses import replace

    files = {key: spec.options[key] for key in _FILES if key in spec.options and Path(spec.options[key]).suffix}
    target = _local(spec.target) if is_path and spec.target else spec.target
    return replace(spec, target=target, options={**spec.options, **{key: _local(path) for key, path in files.items()}})


app = typer.Typer(no_args_is_help=True)


_PPO_CURVES = (
    REWARD_CURVE,
    ProgressCurve("kl", "KL", "nats per answer from the reference", ".3g"),
    ENTROPY_CURVE,
    CLIPPED_CURVE,
    ProgressCurve("value_loss", "value loss", "", ".3g"),
    *ANSWER_CURVES,
)


@app.command("ppo")
@with_server_options
@shared.with_training_options
def ppo(
    options: shared.TrainingOptions,
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty, as published."),
    domains: list[str] = shared.DOMAINS,
    per_domain: bool = typer.Option(False, "--per-domain", help="One policy for each domain, as published."),
    limit: int | None = shared.LIMIT,
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="A setting: batch, actor_rate, lora, ..."
    ),
    seed: int = typer.Option(0, help="Seed of the split, the order of prompts, the answers and the minibatches."),
    parts_seed: int | None = shared.PARTS_SEED,
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by PPO, then grade its answers to held-out users. Exit 3 on an outage."""
    from pluralrm.training.settings import read_ppo_settings

    chosen = read_ppo_settings(given_settings([*settings, *(["kl_in=none"] if no_kl else [])]))
    if not per_domain:
        shared.check_folder(options.out, "ppo", chosen, seed=seed, steps=options.steps)
    opened = shared.open_training(options, chosen, trust=trust, send=send, served=served)
    from pluralrm.training.job import PpoJob

    job = PpoJob(**opened._asdict(), settings=chosen, seed=seed, domains=domains, limit=limit, parts_seed=parts_seed)
    jobs = _jobs(job, options.out, per_domain=per_domain)
    done = shared.run_trainings(jobs, "ppo", _PPO_CURVES, options)
    if as_json:
        print_json(list(map(shared.as_json_of, done)) if per_domain else shared.as_json_of(done[0]))
        return
    for training in done:
        print_training(training, _PPO_CURVES)


def _jobs(job: "PpoJob", out: Path, *, per_domain: bool) -> list[tuple["PpoJob", Path]]:
    """Return the trainings: one, or one for each domain in a folder of its own."""
    from dataclasses import replace

    from pluralrm.runs.records import slug

    if not per_domain:
        return [(job, out)]
    names = job.domains or job.benchmark.domains
    return [(replace(job, domains=[name]), out / slug(name)) for name in names]


_GRPO_CURVES = (
    REWARD_CURVE,
    ProgressCurve("reward_sd", "deviation", "of the rewards of a step"),
    ProgressCurve("groups_alike", "alike", "share of answers whose group had one reward"),
    ProgressCurve("kl", "KL", "nats per token from the policy as it was", ".3g"),
    ENTROPY_CURVE,
    CLIPPED_CURVE,
    *ANSWER_CURVES,
)


@app.command("grpo")
@with_server_options
@shared.with_training_options
def grpo(
    options: shared.TrainingOptions,
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty."),
    domains: list[str] = shared.DOMAINS,
    limit: int | None = shared.LIMIT,
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="A setting: batch, answers, rate, ..."),
    seed: int = typer.Option(0, min=0, help="Seed of the split, the order of prompts and the answers."),
    parts_seed: int | None = shared.PARTS_SEED,
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by GRPO, through TRL: several answers per prompt, no critic. Exit 3 on an outage."""
    from pluralrm.training.settings import read_grpo_settings

    chosen = read_grpo_settings(given_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])]))
    shared.check_folder(options.out, "grpo", chosen, seed=seed, steps=options.steps)
    opened = shared.open_training(options, chosen, trust=trust, send=send, served=served)
    from pluralrm.training.job import GrpoJob

    job = GrpoJob(**opened._asdict(), settings=chosen, seed=seed, domains=domains, limit=limit, parts_seed=parts_seed)
    [training] = shared.run_trainings([(job, options.out)], "grpo", _GRPO_CURVES, options)
    if as_json:
        print_json(shared.as_json_of(training))
    else:
        print_training(training, _GRPO_CURVES)


@app.command("tiny")
def tiny(
    out: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="A new folder."),
    steps: int = typer.Option(700, "--steps", min=1, metavar="N", help="Training steps; with fewer it writes worse."),
    seed: int = typer.Option(0, help="Seed of the weights and the training text."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a tiny policy from scratch for simulated:domains=1, which writes every style equally often."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingExtraError("pluralrm train tiny", "ppo")
    from pluralrm.training.tiny import tiny_policy

    last = 0.0

    def report(step: int, loss: float) -> None:
        nonlocal last
        last = loss
        display.show(step + 1, steps, f"loss {loss:.3f}")

    with ProgressDisplay("train tiny", "steps") as display:
        folder = tiny_policy(out, seed=seed, steps=steps, progress=report)
    if as_json:
        print_json({"policy": str(Spec("lm", str(folder))), "steps": steps, "loss": last})
        return
    print_wrapped(f"{folder}: a tiny policy for simulated:domains=1, loss {last:.3f}", style="bold")


@app.command("scale")
@with_server_options
def scale(
    pool: Path = typer.Argument(..., metavar="POOL", help="Folder of a pool; 'pluralrm sample' writes one."),
    reward: str = typer.Option(..., "--reward", help="The reward model, as 'score -m' takes it."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE", help="The scale, for --shaping z:FILE."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the reward model sees of the user."),
    benchmark: str = BENCHMARK,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score a reference pool and write the scale of the scores, to make rewards of different models comparable."""
    from pluralrm.conditions import load_condition
    from pluralrm.models import load_model
    from pluralrm.policies.best_of_n import score_pool
    from pluralrm.policies.pool import load_pool, source
    from pluralrm.training.rewards import scale_on, write_scale

    settings, answered = served.settings(), load_pool(pool)
    [reward], [condition] = with_posts_of([reward], [condition], allowed=send)
    context = load_condition(condition, cache=settings.cache, settings=settings)
    model = load_model(reward, settings=settings)
    served.check([model, context])
    with ProgressDisplay(f"{pool} × {reward} × {condition}") as display:
        scored = score_pool(
            answered, source(answered, benchmark), model, context, settings=settings, progress=display.update
        )
    if not scored.complete:
        raise ModelError(f"{reward}: not every answer of {pool} has a score yet; the same command tries the rest again")
    result = scale_on(answered, scored)
    write_scale(result, out)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    failed = f", {result.failed} failed" if result.failed else ""
    print_wrapped(
        f"{result.model} under {result.condition}: mean {result.mean:.4g}, deviation {result.sd:.4g}", style="bold"
    )
    print_wrapped(f"over {result.n:,} samples of {pool}{failed}; --shaping z:{out}", first="  ")


app.add_typer(verl, name="verl")
