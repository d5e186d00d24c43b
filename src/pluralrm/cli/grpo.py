"""`pluralrm ppo grpo`: training on this machine by TRL's GRPO."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli import training as shared
from pluralrm.cli.fit import given_settings
from pluralrm.cli.options import SEND, SERVED, TRUST, Served, with_server_options
from pluralrm.cli.ppo_told import ANSWERS, CLIPPED, ENTROPY, REWARD, Curve, tell_ended
from pluralrm.cli.terminal import print_json
from pluralrm.errors import MissingExtraError

if TYPE_CHECKING:
    from pluralrm.training.grpo.job import GrpoJob

_CURVES = (
    REWARD,
    Curve("reward_sd", "deviation", "of the rewards of a step"),
    Curve("groups_alike", "alike", "share of answers whose group had one reward"),
    Curve("kl", "KL", "nats per token from the policy as it was", ".3g"),
    ENTROPY,
    CLIPPED,
    *ANSWERS,
)


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
    seed: int = typer.Option(0, min=0, help="Of the parts, the prompts' order and every answer."),
    parts_seed: int | None = shared.PARTS_SEED,
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by GRPO, through TRL: several answers per prompt, no critic. Exit 3 where a reward is out."""
    from pluralrm.training.grpo.settings import read_settings

    words = shared.Words(benchmark, policy, reward, condition, reward_condition, grader, shaping)
    chosen = read_settings(given_settings([*settings, *(["kl_coefficient=0"] if no_kl else [])]))
    shared.check_folder(out, "grpo", chosen, seed=seed, steps=steps)
    opened = shared.open_training(words, chosen, trust=trust, send=send, served=served)
    from pluralrm.training.grpo.job import GrpoJob

    job = GrpoJob(**opened._asdict(), settings=chosen, seed=seed, domains=domains, limit=limit, parts_seed=parts_seed)
    [questions] = shared.questions_of([job], evaluate_on)
    ended = shared.carried_out(job, _way(job, out, steps), samples=samples, questions=questions)
    if as_json:
        print_json(shared.as_json_of(ended))
    else:
        tell_ended(ended, _CURVES)


def _way(job: "GrpoJob", out: Path, steps: int) -> shared.Way:
    try:
        from pluralrm.training.grpo.train import train
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError("ppo grpo", "grpo") from exc
    from pluralrm.training.grpo.report import report_page
    from pluralrm.training.records import read_run

    return shared.Way(
        "grpo",
        _CURVES,
        lambda tell: train(job, out, steps=steps, tell=tell),
        lambda done: report_page(read_run(done.folder), done.steps, done.evaluations, final=done.final),
    )
