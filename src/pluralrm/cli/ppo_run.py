"""`pluralrm ppo run` and `ppo scale`: training on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli import training as shared
from pluralrm.cli.fit import given_settings
from pluralrm.cli.graders import BENCHMARK
from pluralrm.cli.options import SEND, SERVED, TRUST, Served, with_posts_of, with_server_options
from pluralrm.cli.ppo_told import ANSWERS, CLIPPED, ENTROPY, REWARD, Curve, tell_ended
from pluralrm.cli.terminal import print_json, print_wrapped
from pluralrm.errors import ModelError

if TYPE_CHECKING:
    from pluralrm.training.ppo.job import Job

_CURVES = (
    REWARD,
    Curve("kl", "KL", "nats per answer from the reference", ".3g"),
    ENTROPY,
    CLIPPED,
    Curve("value_loss", "value loss", "", ".3g"),
    *ANSWERS,
)


@with_server_options
def run(
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
    seed: int = typer.Option(0, help="Of the parts, the prompts' order, every answer and every minibatch."),
    parts_seed: int | None = shared.PARTS_SEED,
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by PPO, then grade what it answers to users it has not met. Exit 3 where a reward is out."""
    from pluralrm.training.ppo.settings import read_settings

    words = shared.Words(benchmark, policy, reward, condition, reward_condition, grader, shaping)
    chosen = read_settings(given_settings([*settings, *(["kl_in=none"] if no_kl else [])]))
    if not per_domain:
        shared.check_folder(out, "ppo", chosen, seed=seed, steps=steps)
    opened = shared.open_training(words, chosen, trust=trust, send=send, served=served)
    from pluralrm.training.ppo.job import Job

    job = Job(**opened._asdict(), settings=chosen, seed=seed, domains=domains, limit=limit, parts_seed=parts_seed)
    jobs = _jobs(job, out, per_domain=per_domain)
    asked = shared.questions_of([one for one, _ in jobs], evaluate_on)
    done = [
        shared.carried_out(one, _way(one, folder, steps), samples=samples, questions=questions)
        for (one, folder), questions in zip(jobs, asked, strict=True)
    ]
    if as_json:
        print_json(list(map(shared.as_json_of, done)) if per_domain else shared.as_json_of(done[0]))
        return
    for ended in done:
        tell_ended(ended, _CURVES)


def _jobs(job: "Job", out: Path, *, per_domain: bool) -> list[tuple["Job", Path]]:
    """Return the trainings: one, or one for each domain in a folder of its own."""
    from dataclasses import replace

    from pluralrm.runs.loop import slug

    if not per_domain:
        return [(job, out)]
    names = job.domains or job.benchmark.domains
    return [(replace(job, domains=[name]), out / slug(name)) for name in names]


def _way(job: "Job", out: Path, steps: int) -> shared.Way:
    from pluralrm.training.ppo.report import report_page
    from pluralrm.training.ppo.train import train
    from pluralrm.training.records import read_run

    return shared.Way(
        "ppo",
        _CURVES,
        lambda tell: train(job, out, steps=steps, tell=tell),
        lambda done: report_page(read_run(done.folder), done.steps, done.evaluations, final=done.final),
    )


@with_server_options
def scale(
    pool: Path = typer.Argument(..., metavar="POOL", help="Folder of a pool; 'pluralrm sample' writes one."),
    reward: str = typer.Option(..., "--reward", help="The reward model, as 'score -m' takes it."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE", help="The scale, for --shaping z:FILE."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the reward model sees of the user."),
    benchmark: str = BENCHMARK,
    send: bool = SEND,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score a reference pool, and write where the scores lie: rewards of different models on one scale."""
    from pluralrm.conditions import load_condition
    from pluralrm.models import load_model
    from pluralrm.models.shaping import write_scale
    from pluralrm.policies.answers import source
    from pluralrm.policies.best_of_n import score_pool
    from pluralrm.policies.pool import load_pool
    from pluralrm.training.ppo.scale import scale_on

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
