"""`pluralrm ppo export` and `ppo import`: training at scale, by verl."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.given import check_names
from pluralrm.cli.sending import SEND, with_posts_of
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.errors import ConditionError, ModelError, SpecError

if TYPE_CHECKING:
    from pluralrm.specs import Spec

ENGINES = ("verl",)


def export(
    benchmark: str = typer.Argument(..., metavar="BENCH", help="Whose prompts are trained on, and users held out."),
    policy: str = typer.Option(..., "--policy", metavar="MODEL", help="A folder or hub id, as verl takes it."),
    reward: str = typer.Option(..., "--reward", metavar="MODEL", help="The reward model, as 'score -m' takes it."),
    out: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="A new folder."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the policy sees of the user."),
    reward_condition: str = typer.Option("", "--reward-condition", help="What the reward model sees; -c unless told."),
    engine: str = typer.Option("verl", "--engine", help="Who trains: verl."),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains: one policy per domain, as published."),
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty, as published."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="batch, actor_rate, gpus and the like."),
    send: bool = SEND,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write Parquet files, verl's settings and a script that starts reward server and training together."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import condition_summaries, load_condition
    from pluralrm.downstream.verl import Export
    from pluralrm.downstream.verl import export as write
    from pluralrm.downstream.verl.settings import read_settings
    from pluralrm.models import KINDS, unsupported

    if engine not in ENGINES:
        raise SpecError(f"--engine {engine}: wanted one of {', '.join(ENGINES)}")
    check_names([reward], "--reward", KINDS)
    check_names([condition, reward_condition or condition], "-c", condition_summaries())
    [reward], [condition, shown] = with_posts_of([reward], [condition, reward_condition or condition], allowed=send)
    opened = load_condition(shown)
    if why := unsupported(reward, opened):
        raise ConditionError(why)
    chosen = read_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])])
    what = Export(
        load_benchmark(benchmark),
        _placed(benchmark),
        _local(policy),
        str(_found(reward)),
        load_condition(condition),
        opened,
    )
    done = write(what, out, chosen, domains=domains)
    if as_json:
        counts = {"train": done.train, "validation": done.validation, "test": done.test}
        print_json({"folder": str(done.folder), "name": done.name, **counts})
        return
    print_wrapped(f"{done.folder}: {done.name}", style="bold")
    parts = f"{done.train:,} prompts to train on, {done.validation:,} to watch, {done.test:,} of users kept for the end"
    print_wrapped(parts, first="  ")
    print_wrapped("Where verl is installed, and pluralrm with the extra serve:", first="  ")
    typer.echo(f"    bash {done.folder}/launch.sh")
    if not chosen.kl_coefficient:
        note("no KL penalty: nothing keeps the policy near where it began")


def import_(
    generations: Path = typer.Argument(..., metavar="FILE.jsonl", help="verl's generations/STEP.jsonl."),
    benchmark: str = typer.Option(..., "--benchmark", "-b", metavar="BENCH", help="The benchmark of the export."),
    out: Path = typer.Option(..., "--out", "-o", metavar="POOL", help="A new folder."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the policy saw."),
    policy: str = typer.Option(..., "--policy", metavar="NAME", help="What the pool's policy is called: verl:step-50."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make a pool of the answers that a training wrote, to be graded like any other."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.downstream.verl import import_generations

    pool = import_generations(generations, load_benchmark(benchmark), load_condition(condition), policy=policy, out=out)
    if as_json:
        print_json({"pool": str(out), "items": len(pool.samples), "n": pool.n, "policy": pool.policy})
        return
    print_wrapped(f"{out}: {pool.n} answers to each of {len(pool.samples):,} items by {pool.policy}", style="bold")


def _local(name: str) -> str:
    """Return a folder by its whole path, for the script changes into its own; a hub id stays."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _placed(benchmark: str) -> str:
    kind, mark, target = benchmark.partition(":")
    if mark and Path(target).exists():
        return f"{kind}:{Path(target).resolve()}"
    return _local(benchmark)


def _found(reward: str) -> "Spec":
    """Return the reward model's spec with its folder by the whole path."""
    from dataclasses import replace

    from pluralrm.models import KINDS, parse_model

    spec = parse_model(reward)
    if spec.kind == "python" or KINDS[spec.kind].served or not spec.target:
        return spec
    if not Path(spec.target).exists() and not spec.target.count("/") <= 1:
        raise ModelError(f"{reward}: no folder {spec.target!r}")
    return replace(spec, target=_local(spec.target))
