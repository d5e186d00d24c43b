"""`pluralrm train verl`: what a training by verl needs, and the answers that it wrote."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import SEND, check_names, with_posts_of
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.errors import ConditionError, ModelError, SpecError
from pluralrm.templates import DEFAULT, load_template
from pluralrm.text import counted

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Condition
    from pluralrm.specs import Spec
    from pluralrm.training.verl import Exported
    from pluralrm.training.verl.settings import VerlSettings

app = typer.Typer(no_args_is_help=True, help="Export a training to verl; import its answers.")


@app.callback()
def _root() -> None:
    """Export a training to verl; import its answers."""


@app.command("export")
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
        DEFAULT, "--template", help="What renders the policy's prompts: a shipped one (sample-v1), or FILE.jinja."
    ),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains: one policy per domain, as published."),
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty, as published."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="batch, actor_rate, gpus and the like."),
    send: bool = SEND,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write Parquet files, verl's settings and a script that starts reward server and training together."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import condition_summaries, load_condition
    from pluralrm.models import KINDS
    from pluralrm.training.verl import Export
    from pluralrm.training.verl import export as write
    from pluralrm.training.verl.settings import read_verl_settings

    check_names([reward], "--reward", KINDS)
    check_names([condition, reward_condition or condition], "-c", condition_summaries())
    [reward], told = with_posts_of([reward], [condition, reward_condition or condition], allowed=send)
    own, shown = [load_condition(_placed_condition(one)) for one in told]
    bench = open_benchmark(benchmark)
    _check_reward(reward, shown, bench)
    chosen = read_verl_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])])
    found = _found(reward)
    modules = str(Path.cwd()) if found.kind == "python" else ""
    what = Export(bench, _placed(benchmark), _policy(policy), str(found), own, shown, modules, load_template(template))
    _tell(write(what, out, chosen, domains=domains), chosen, as_json=as_json)


def _check_reward(reward: str, shown: "Condition", bench: "Benchmark") -> None:
    """Raise where the reward server of the training could not start, or could answer nothing that verl asks."""
    from pluralrm.models import misfit, never_alone, unsupported

    if why := unsupported(reward, shown):
        raise ConditionError(why)
    if (why := shown.unsupported(bench)) is not None:
        raise ConditionError(f"{shown.spec}: {why}")
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


@app.command("import")
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
    return str(_whole(parse_benchmark(benchmark), place=True))


def _placed_condition(condition: str) -> str:
    """Return the condition as it is named from any folder."""
    from pluralrm.conditions import parse_condition

    return str(_whole(parse_condition(condition), place=False))


def _found(reward: str) -> "Spec":
    """Return the reward model as it is named from any folder."""
    from pluralrm.models import KINDS, parse_model

    spec = parse_model(reward)
    place = spec.kind != "python" and not KINDS[spec.kind].served and bool(spec.target)
    if place and not Path(spec.target).exists() and not spec.target.count("/") <= 1:
        raise ModelError(f"{reward}: no folder {spec.target!r}")
    return _whole(spec, place=place)


_FILES = ("template", "users")
"""Keys of models, conditions and benchmarks that may name a file."""


def _whole(spec: "Spec", *, place: bool) -> "Spec":
    """Return the spec with its files by their whole paths, and with its target where that is a place."""
    from dataclasses import replace

    files = {key: spec.options[key] for key in _FILES if key in spec.options and Path(spec.options[key]).suffix}
    target = _local(spec.target) if place and spec.target else spec.target
    return replace(spec, target=target, options={**spec.options, **{key: _local(one) for key, one in files.items()}})
