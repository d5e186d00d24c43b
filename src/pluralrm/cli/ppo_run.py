"""`pluralrm ppo run` and `ppo scale`: training on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.fit import given_settings
from pluralrm.cli.graders import BENCHMARK, named_grader, sends
from pluralrm.cli.ppo_told import Teller, tell_trained
from pluralrm.cli.rewarding import named, open_policy, open_rewarder
from pluralrm.cli.score import command
from pluralrm.cli.sending import SEND, with_posts_of
from pluralrm.cli.served import SERVED, Served, with_server_options
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.cli.trust import TRUST
from pluralrm.errors import ModelError

if TYPE_CHECKING:
    from pluralrm.downstream.ppo.job import Job
    from pluralrm.downstream.ppo.outcome import Result
    from pluralrm.downstream.ppo.train import Trained
    from pluralrm.grading import Grader


class Done(NamedTuple):
    """A training that is over; `result` is None where nobody graded."""

    domain: str
    trained: "Trained"
    result: "Result | None"


@with_server_options
def run(
    benchmark: str = typer.Argument(..., metavar="BENCH", help="Whose prompts are trained on, and users held out."),
    policy: str = typer.Option(..., "--policy", "-p", help="Who is trained: lm:FOLDER."),
    reward: str = typer.Option(..., "--reward", help="The reward model, as 'score -m' takes it; or served."),
    steps: int = typer.Option(..., "--steps", min=1, metavar="N", help="How many steps, all told."),
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="DIR", help="Folder of the training; the same command resumes."
    ),
    condition: str = typer.Option("none", "--condition", "-c", help="What the policy sees of the user."),
    reward_condition: str = typer.Option("", "--reward-condition", help="What the reward model sees; -c unless told."),
    grader: str = typer.Option(
        "", "--grader", "-g", help="Who grades held-out answers; another model than the reward."
    ),
    samples: int = typer.Option(1, "-n", min=1, metavar="N", help="Graded answers per item of the test users."),
    shaping: str = typer.Option("raw", "--shaping", help="raw, z:FILE of 'ppo scale'; with ,clip=X."),
    no_kl: bool = typer.Option(False, "--no-kl", help="No KL penalty, as published."),
    domains: list[str] = typer.Option([], "--domain", help="Only these domains."),
    per_domain: bool = typer.Option(False, "--per-domain", help="One policy for each domain, as published."),
    limit: int | None = typer.Option(None, help="At most this many users, taken in turn from each domain."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="batch, actor_rate, lora and the like."),
    seed: int = typer.Option(0, help="Of the parts, the prompts' order, every answer and every minibatch."),
    trust: list[str] = TRUST,
    send: bool = SEND,
    served: Served = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a policy by PPO, then grade what it answers to users it has not met. Exit 3 where a reward is out."""
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.downstream.ppo.settings import read_settings
    from pluralrm.models.shaping import parse_shaping

    asked, elsewhere = served.settings(), bool(grader) and sends(grader)
    specs = named(reward, condition, reward_condition, send=send, elsewhere=elsewhere)
    chosen = read_settings(given_settings([*settings, *(["kl_in=none"] if no_kl else [])]))
    opened, scale = open_policy(policy, trust, asked), parse_shaping(shaping)
    from pluralrm.downstream.ppo.job import Job
    from pluralrm.downstream.ppo.rewards import Here, scored_by

    bench, watching = load_benchmark(benchmark), named_grader(grader, asked, send=send) if grader else None
    seen = load_condition(specs.condition, cache=asked.cache, settings=asked)
    shown = load_condition(specs.shown, cache=asked.cache, settings=asked)
    rewarder = open_rewarder(specs.models, bench, shown, asked=asked, chosen=chosen)
    _check_apart(scored_by(rewarder), watching)
    served.check([watching, seen, shown, *([rewarder.model] if isinstance(rewarder, Here) else [])])
    job = Job(bench, opened, seen, rewarder, shown.spec, chosen, scale, watching, seed, domains, limit)
    done = [_trained(one, folder, steps, samples) for one, folder in _jobs(job, out, per_domain=per_domain)]
    if as_json:
        print_json([_json(one) for one in done] if per_domain else _json(done[0]))
        return
    for one in done:
        tell_trained(one.trained, one.result, domain=one.domain)


def _check_apart(model: str, grader: "Grader | None") -> None:
    """Raise where the model that rewards, here or behind a server, would grade what it brought about."""
    from pluralrm.models import parse_model

    if grader is not None and model.startswith("judge:") and parse_model(model).target == grader.model:
        raise ModelError(f"{model} rewards, and {grader.spec} grades: that is one model. Let another one grade")


def _jobs(job: "Job", out: Path, *, per_domain: bool) -> list[tuple["Job", Path]]:
    """Return the trainings: one, or one for each domain in a folder of its own."""
    from dataclasses import replace

    from pluralrm.runs.loop import slug

    if not per_domain:
        return [(job, out)]
    names = job.domains or job.benchmark.domains
    return [(replace(job, domains=[name]), out / slug(name)) for name in names]


def _trained(job: "Job", out: Path, steps: int, samples: int) -> Done:
    """Train, grade and write the report; Ctrl-C says how to go on."""
    from pluralrm.cli.written import write_page
    from pluralrm.downstream.ppo.records import read_run
    from pluralrm.downstream.ppo.report import report_page
    from pluralrm.downstream.ppo.train import train

    domain = job.domains[0] if len(job.domains) == 1 else ""
    teller = Teller(f"ppo {domain}".strip())
    try:
        trained = train(job, out, steps=steps, tell=teller.tell)
        teller.end()
        result = _graded(job, trained, job.grader, samples)
    except KeyboardInterrupt:
        note(f"stopped. What was trained is kept; the same command goes on from there:\n  {command()}")
        raise typer.Exit(130) from None
    write_page(out / "report.html", report_page(read_run(out), trained.steps, trained.evaluations))
    return Done(domain, trained, result)


def _graded(job: "Job", trained: "Trained", grader: "Grader | None", samples: int) -> "Result | None":
    from pluralrm.downstream.ppo.outcome import outcome

    return None if grader is None else outcome(job, trained, grader, n=samples)


def _json(done: Done) -> dict[str, object]:
    trained, result = done.trained, done.result
    graded = {} if result is None else {name: getattr(result, name).to_json() for name in ("before", "after", "change")}
    return {
        "folder": str(trained.folder),
        "policy": f"lm:{trained.policy}",
        "domain": done.domain,
        "steps": len(trained.steps),
        "last": trained.steps[max(trained.steps)].model_dump(mode="json"),
        "alarms": [alarm._asdict() for alarm in trained.alarms],
        "outcome": "" if result is None else str(result.folder),
        **graded,
    }


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
    from pluralrm.downstream.answers import source
    from pluralrm.downstream.best_of_n import score_pool
    from pluralrm.downstream.pool import load_pool
    from pluralrm.downstream.ppo.scale import scale_on
    from pluralrm.models import load_model
    from pluralrm.models.shaping import write_scale

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
