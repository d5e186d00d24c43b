"""`pluralrm ppo grpo`: training on this machine by TRL's GRPO."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.fit import given_settings
from pluralrm.cli.ppo_told import tell_oracle
from pluralrm.cli.rewarding import named, open_policy, open_rewarder
from pluralrm.cli.score import command
from pluralrm.cli.sending import SEND
from pluralrm.cli.served import SERVED, Served, with_server_options
from pluralrm.cli.terminal import Kind, console, note, print_json, print_legend, print_wrapped, table
from pluralrm.cli.trust import TRUST
from pluralrm.errors import MissingExtraError

if TYPE_CHECKING:
    from pluralrm.core import Estimate
    from pluralrm.downstream.grpo.job import GrpoJob
    from pluralrm.downstream.grpo.records import StepRecord
    from pluralrm.downstream.grpo.train import Trained

_CURVES = (
    ("reward", "reward", "as the model gives it"),
    ("reward_sd", "deviation", "of the rewards of a step"),
    ("groups_alike", "alike", "share of answers whose group had one reward"),
    ("kl", "KL", "nats per token from the policy as it was"),
    ("entropy", "entropy", "nats per token"),
    ("length", "length", "tokens per answer"),
    ("repetition", "repetition", "share of runs of four tokens"),
    ("masked", "masked", "answers without a reward"),
)


@with_server_options
def grpo(
    benchmark: str = typer.Argument(..., metavar="BENCH", help="Whose prompts are trained on, and users held out."),
    policy: str = typer.Option(..., "--policy", "-p", help="Who is trained: lm:FOLDER."),
    reward: str = typer.Option(..., "--reward", help="The reward model, as 'score -m' takes it; or served."),
    steps: int = typer.Option(..., "--steps", min=1, metavar="N", help="How many steps, all told."),
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="DIR", help="Folder of the training; the same command resumes."
    ),
    condition: str = typer.Option("none", "--condition", "-c", help="What the policy sees of the user."),
    reward_condition: str = typer.Option("", "--reward-condition", help="What the reward model sees; -c unless told."),
    shaping: str = typer.Option("raw", "--shaping", help="raw, z:FILE of 'ppo scale'; with ,clip=X."),
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty."),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains."),
    limit: int | None = typer.Option(None, help="At most this many users, taken in turn from each domain."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="batch, answers, rate and the like."),
    seed: int = typer.Option(0, min=0, help="Of the parts, the prompts' order and every answer."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by GRPO, through TRL: several answers per prompt, no critic. Exit 3 where a reward is out."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.downstream.grpo.settings import read_settings
    from pluralrm.models.shaping import parse_shaping

    asked = served.settings()
    specs = named(reward, condition, reward_condition, send=send, elsewhere=False)
    chosen = read_settings(given_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])]))
    opened, scale = open_policy(policy, trust, asked), parse_shaping(shaping)
    from pluralrm.downstream.grpo.job import GrpoJob
    from pluralrm.downstream.ppo.rewards import Here

    bench = load_benchmark(benchmark)
    seen = load_condition(specs.condition, cache=asked.cache, settings=asked)
    shown = load_condition(specs.shown, cache=asked.cache, settings=asked)
    rewarder = open_rewarder(specs.models, bench, shown, asked=asked, chosen=chosen)
    served.check([seen, shown, *([rewarder.model] if isinstance(rewarder, Here) else [])])
    job = GrpoJob(bench, opened, seen, rewarder, shown.spec, chosen, scale, seed, domains, limit)
    _tell(_trained(job, out, steps), as_json=as_json)


def _trained(job: "GrpoJob", out: Path, steps: int) -> "Trained":
    """Train; Ctrl-C says how to go on."""
    try:
        from pluralrm.downstream.grpo.train import train
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError("ppo grpo", "grpo") from exc
    live = sys.stderr.isatty()

    def tell(step: "StepRecord") -> None:
        masked = f", {step.masked} masked" if step.masked else ""
        kl = "" if step.kl is None else f", KL {step.kl:.3g}"
        text = f"grpo: step {step.step + 1}/{steps}, reward {step.reward:.3g}{kl}, length {step.length:.1f}{masked}"
        if live:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
        elif (step.step + 1) % 10 == 0:
            note(text)

    try:
        return train(job, out, steps=steps, tell=tell)
    except KeyboardInterrupt:
        note(f"stopped. What was trained is kept; the same command goes on from there:\n  {command()}")
        raise typer.Exit(130) from None
    finally:
        if live:
            sys.stderr.write("\r\x1b[K")


def _tell(trained: "Trained", *, as_json: bool) -> None:
    from pluralrm.downstream.grpo.heldout import change
    from pluralrm.downstream.grpo.records import read_run

    first, last = trained.steps[min(trained.steps)], trained.steps[max(trained.steps)]
    watched = change(trained.evaluations)
    if as_json:
        found = {} if watched is None else {"held_out": watched.to_json()}
        policy = {"folder": str(trained.folder), "policy": f"lm:{trained.policy}", "steps": len(trained.steps)}
        print_json({**policy, "last": last.model_dump(mode="json"), **found})
        return
    print_wrapped(f"{trained.folder}: {len(trained.steps):,} steps of {first.answers:,} answers", style="bold")
    tell_oracle(shown=read_run(trained.folder).shown_rubric)
    columns: list[tuple[str, Kind]] = [("", "left"), ("first", "right"), ("last", "right"), ("", "text")]
    rows = [(title, _value(first, name), _value(last, name), unit) for name, title, unit in _CURVES]
    console().print(table(columns, rows))
    print_legend(
        [*_held_out(watched), f"The policy: -p lm:{trained.policy}. Every step: {trained.folder}/metrics.jsonl"]
    )


def _value(step: "StepRecord", name: str) -> str:
    value = getattr(step, name)
    return "-" if value is None else f"{value:.3g}"


def _held_out(watched: "Estimate | None") -> list[str]:
    if watched is None:
        return []
    return [f"Reward of the validation users' answers, after minus before: {watched}"]
