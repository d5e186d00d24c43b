"""`pluralrm train`: PPO and GRPO on this machine, a tiny policy, a scale of rewards, and verl's files."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli import train_verl
from pluralrm.cli import training as shared
from pluralrm.cli.fit import given_settings
from pluralrm.cli.grade import BENCHMARK
from pluralrm.cli.options import SEND, SERVED, TRUST, ServerOptions, with_posts_of, with_server_options
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import print_json, print_wrapped
from pluralrm.cli.training import (
    ANSWER_CURVES,
    CLIPPED_CURVE,
    ENTROPY_CURVE,
    REWARD_CURVE,
    ProgressCurve,
    print_training,
)
from pluralrm.errors import MissingExtraError, ModelError
from pluralrm.specs import Spec

if TYPE_CHECKING:
    from pluralrm.training.job import GrpoJob, PpoJob

app = typer.Typer(no_args_is_help=True, help="Train a policy against a reward model.")


@app.callback()
def _root() -> None:
    """Train a policy against a reward model."""


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
def ppo(
    benchmark: str = shared.BENCH,
    policy: str = shared.POLICY,
    reward: str = shared.REWARD,
    steps: int = shared.STEPS,
    out: Path = shared.OUT,
    condition: str = shared.CONDITION,
    reward_condition: str = shared.REWARD_CONDITION,
    grader: str = shared.GRADER,
    samples: int = shared.SAMPLES,
    evaluate_on: str = shared.EVALUATE_ON,
    shaping: str = shared.SHAPING,
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty, as published."),
    domains: list[str] = shared.DOMAINS,
    per_domain: bool = typer.Option(False, "--per-domain", help="One policy for each domain, as published."),
    limit: int | None = shared.LIMIT,
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="batch, actor_rate, lora and the like."),
    seed: int = typer.Option(0, help="Seed of the split, the order of prompts, the answers and the minibatches."),
    parts_seed: int | None = shared.PARTS_SEED,
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by PPO, then grade its answers to held-out users. Exit 3 on an outage."""
    from pluralrm.training.settings import read_ppo_settings

    words = shared.TrainingSpecs(benchmark, policy, reward, condition, reward_condition, grader, shaping)
    chosen = read_ppo_settings(given_settings([*settings, *(["kl_in=none"] if no_kl else [])]))
    if not per_domain:
        shared.check_folder(out, "ppo", chosen, seed=seed, steps=steps)
    opened = shared.open_training(words, chosen, trust=trust, send=send, served=served)
    from pluralrm.training.job import PpoJob

    job = PpoJob(**opened._asdict(), settings=chosen, seed=seed, domains=domains, limit=limit, parts_seed=parts_seed)
    jobs = _jobs(job, out, per_domain=per_domain)
    asked = shared.questions_of([one for one, _ in jobs], evaluate_on)
    done = [
        shared.run_training(one, _ppo_method(one, folder, steps), samples=samples, questions=questions)
        for (one, folder), questions in zip(jobs, asked, strict=True)
    ]
    if as_json:
        print_json(list(map(shared.as_json_of, done)) if per_domain else shared.as_json_of(done[0]))
        return
    for training in done:
        print_training(training, _PPO_CURVES)


def _jobs(job: "PpoJob", out: Path, *, per_domain: bool) -> list[tuple["PpoJob", Path]]:
    """Return the trainings: one, or one for each domain in a folder of its own."""
    from dataclasses import replace

    from pluralrm.runs.loop import slug

    if not per_domain:
        return [(job, out)]
    names = job.domains or job.benchmark.domains
    return [(replace(job, domains=[name]), out / slug(name)) for name in names]


def _ppo_method(job: "PpoJob", out: Path, steps: int) -> shared.TrainingMethod:
    from pluralrm.training.ppo import train
    from pluralrm.training.records import read_run
    from pluralrm.training.report import report_page

    return shared.TrainingMethod(
        "ppo",
        _PPO_CURVES,
        lambda tell: train(job, out, steps=steps, tell=tell),
        lambda done: report_page(read_run(done.folder), done.steps, done.evaluations, final=done.final),
    )


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
def grpo(
    benchmark: str = shared.BENCH,
    policy: str = shared.POLICY,
    reward: str = shared.REWARD,
    steps: int = shared.STEPS,
    out: Path = shared.OUT,
    condition: str = shared.CONDITION,
    reward_condition: str = shared.REWARD_CONDITION,
    grader: str = shared.GRADER,
    samples: int = shared.SAMPLES,
    evaluate_on: str = shared.EVALUATE_ON,
    shaping: str = shared.SHAPING,
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty."),
    domains: list[str] = shared.DOMAINS,
    limit: int | None = shared.LIMIT,
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="batch, answers, rate and the like."),
    seed: int = typer.Option(0, min=0, help="Seed of the split, the order of prompts and the answers."),
    parts_seed: int | None = shared.PARTS_SEED,
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by GRPO, through TRL: several answers per prompt, no critic. Exit 3 on an outage."""
    from pluralrm.training.settings import read_grpo_settings

    words = shared.TrainingSpecs(benchmark, policy, reward, condition, reward_condition, grader, shaping)
    chosen = read_grpo_settings(given_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])]))
    shared.check_folder(out, "grpo", chosen, seed=seed, steps=steps)
    opened = shared.open_training(words, chosen, trust=trust, send=send, served=served)
    from pluralrm.training.job import GrpoJob

    job = GrpoJob(**opened._asdict(), settings=chosen, seed=seed, domains=domains, limit=limit, parts_seed=parts_seed)
    [questions] = shared.questions_of([job], evaluate_on)
    training = shared.run_training(job, _grpo_method(job, out, steps), samples=samples, questions=questions)
    if as_json:
        print_json(shared.as_json_of(training))
    else:
        print_training(training, _GRPO_CURVES)


def _grpo_method(job: "GrpoJob", out: Path, steps: int) -> shared.TrainingMethod:
    try:
        from pluralrm.training.grpo import train
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError("pluralrm train grpo", "grpo") from exc
    from pluralrm.training.records import read_run
    from pluralrm.training.report import report_page

    return shared.TrainingMethod(
        "grpo",
        _GRPO_CURVES,
        lambda tell: train(job, out, steps=steps, tell=tell),
        lambda done: report_page(read_run(done.folder), done.steps, done.evaluations, final=done.final),
    )


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

    def tell(step: int, loss: float) -> None:
        nonlocal last
        last = loss
        display.show(step + 1, steps, f"loss {loss:.3f}")

    with ProgressDisplay("train tiny", "steps") as display:
        folder = tiny_policy(out, seed=seed, steps=steps, tell=tell)
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
    from pluralrm.models.shaping import write_scale
    from pluralrm.policies.best_of_n import score_pool
    from pluralrm.policies.pool import load_pool, source
    from pluralrm.training.rewards import scale_on

    asked, answered = served.settings(), load_pool(pool)
    [reward], [condition] = with_posts_of([reward], [condition], allowed=send)
    shown = load_condition(condition, cache=asked.cache, settings=asked)
    model = load_model(reward, settings=asked)
    served.check([model, shown])
    scored = score_pool(answered, source(answered, benchmark), model, shown, settings=asked)
    if not scored.complete:
        raise ModelError(f"{reward}: not every answer of {pool} has a score yet; the same command tries the rest again")
    found = scale_on(answered, scored)
    write_scale(found, out)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    failed = f", {found.failed} failed" if found.failed else ""
    print_wrapped(
        f"{found.model} under {found.condition}: mean {found.mean:.4g}, deviation {found.sd:.4g}", style="bold"
    )
    print_wrapped(f"over {found.n:,} samples of {pool}{failed}; --shaping z:{out}", first="  ")


app.add_typer(train_verl.app, name="verl")
