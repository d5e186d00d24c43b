"""What `ppo run` and `ppo grpo` have in common: their options, what they open, and how a training is carried out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.graders import named_grader, sends
from pluralrm.cli.options import Served
from pluralrm.cli.ppo_told import Curve, Teller
from pluralrm.cli.progress import Meter
from pluralrm.cli.rewarding import named, open_policy, open_rewarder
from pluralrm.cli.score import command
from pluralrm.cli.terminal import note

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Condition
    from pluralrm.grading import Grader
    from pluralrm.models.shaping import Shaping
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.training.job import TrainingJob
    from pluralrm.training.outcome import Result
    from pluralrm.training.records import Algorithm, EvaluationLine, StepLine
    from pluralrm.training.rewards import Rewarder
    from pluralrm.training.settings import TrainingSettings
    from pluralrm.training.split import Questions
    from pluralrm.training.trained import Told, Trained

    Tell = Callable[[Told[StepLine, EvaluationLine]], None]
    Done = Trained[StepLine, EvaluationLine]

BENCH: str = typer.Argument(..., metavar="BENCH", help="Whose prompts are trained on, and users held out.")
POLICY: str = typer.Option(..., "--policy", "-p", help="Who is trained: lm:FOLDER.")
REWARD: str = typer.Option(..., "--reward", help="The reward model, as 'score -m' takes it; or served.")
STEPS: int = typer.Option(..., "--steps", min=1, metavar="N", help="How many steps, all told.")
OUT: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="Folder of the training; the same command resumes.")
CONDITION: str = typer.Option("none", "--condition", "-c", help="What the policy sees of the user.")
REWARD_CONDITION: str = typer.Option("", "--reward-condition", help="What the reward model sees; default: -c.")
GRADER: str = typer.Option("", "--grader", "-g", help="Who grades held-out answers; another model than the reward.")
SAMPLES: int = typer.Option(1, "-n", min=1, metavar="N", help="Graded answers per item of the test users.")
EVALUATE_ON: str = typer.Option(
    "",
    "--evaluate-on",
    metavar="BENCH",
    help="Whose questions are asked before and after, too: of users who are neither trained on nor watched.",
)
SHAPING: str = typer.Option("raw", "--shaping", help="raw, z:FILE of 'ppo scale'; with ,clip=X.")
DOMAINS: list[str] = typer.Option([], "--domain", help="Only these domains.")
LIMIT: int | None = typer.Option(None, help="At most this many users, taken in turn from each domain.")
PARTS_SEED: int | None = typer.Option(
    None, "--parts-seed", help="Of the parts alone: trainings with several seeds, on the same users."
)


class Words(NamedTuple):
    """What the command line names."""

    benchmark: str
    policy: str
    reward: str
    condition: str
    reward_condition: str
    grader: str
    shaping: str


class Opened(NamedTuple):
    """What a job is made of, by the names of its fields."""

    benchmark: "Benchmark"
    policy: "LocalPolicy"
    condition: "Condition"
    rewarder: "Rewarder"
    reward_condition: str
    shaping: "Shaping"
    grader: "Grader | None"


def open_training(
    words: Words, chosen: "TrainingSettings", *, trust: Sequence[str], send: bool, served: Served
) -> Opened:
    """Return what the words name, opened; raise where it cannot be trained by it."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.models import KINDS
    from pluralrm.models.shaping import parse_shaping

    asked, elsewhere = served.settings(), bool(words.grader) and sends(words.grader)
    specs = named(words.reward, words.condition, words.reward_condition, send=send, elsewhere=elsewhere)
    opened, scale = open_policy(words.policy, trust, asked), parse_shaping(words.shaping)
    from pluralrm.grading import check_independent
    from pluralrm.training.rewards import Here, scored_by

    bench = open_benchmark(words.benchmark)
    watching = named_grader(words.grader, asked, send=send) if words.grader else None
    seen = load_condition(specs.condition, cache=asked.cache, settings=asked)
    shown = load_condition(specs.shown, cache=asked.cache, settings=asked)
    rewarder = open_rewarder(specs.models, bench, shown, asked=asked, chosen=chosen)
    if watching is not None:
        model = scored_by(rewarder)
        # Behind a server there may be a class, or a kind of model, that is not installed here.
        known = isinstance(rewarder, Here) or model.partition(":")[0] in KINDS.keys() - {"python"}
        check_independent(
            watching.spec,
            watching.model,
            picks=[model] if known else [],
            conditions=[shown.spec],
            does="rewards",
        )
    served.check([watching, seen, shown, *([rewarder.model] if isinstance(rewarder, Here) else [])])
    return Opened(bench, opened, seen, rewarder, shown.spec, scale, watching)


def check_folder(out: Path, kind: "Algorithm", chosen: "TrainingSettings", *, seed: int, steps: int) -> None:
    """Raise where a folder holds another training, as far as that is known before anything is opened."""
    from pluralrm.training.folder import check_begun

    check_begun(out, {"kind": kind, "settings": chosen.to_json(), "seed": seed}, steps)


class Way(NamedTuple):
    """An algorithm, as a command carries it out."""

    name: str
    curves: Sequence[Curve]
    train: "Callable[[Tell], Done]"
    page: "Callable[[Done], str]"


class Ended(NamedTuple):
    """A training that is over; `result` is None where nobody graded, `on` where no other questions were asked."""

    domain: str
    trained: "Done"
    result: "Result | None"
    on: "tuple[Questions, Result] | None" = None


def questions_of(jobs: "Sequence[TrainingJob]", evaluate_on: str) -> "list[Questions | None]":
    """Return what each policy is asked besides the test users' items; raise, before anything is trained, where none."""
    from pluralrm.cli.options import open_benchmark

    if not evaluate_on:
        return [None] * len(jobs)
    bench = open_benchmark(evaluate_on)
    return [job.questions(bench) for job in jobs]


def carried_out(job: "TrainingJob", way: Way, *, samples: int, questions: "Questions | None" = None) -> Ended:
    """Train, grade and write the report; Ctrl-C says how to go on."""
    from pluralrm.cli.terminal import write_page

    domain = job.domains[0] if len(job.domains) == 1 else ""
    teller = Teller(f"{way.name} {domain}".strip(), way.curves)
    try:
        trained = _trained(way, teller)
        result, on = None, None
        if (grader := job.grader) is not None:
            result = _asked(job, trained, grader, samples=samples)
            trained = trained.after(result.final)
            on = questions and (questions, _asked(job, trained, grader, samples=samples, of=questions))
    except KeyboardInterrupt:
        note(f"stopped. What was trained is kept; the same command goes on from there:\n  {command()}")
        raise typer.Exit(130) from None
    write_page(trained.folder / "report.html", way.page(trained))
    return Ended(domain, trained, result, on)


def _trained(way: Way, teller: Teller) -> "Done":
    """Train, and leave no half of a line behind, whatever stops it."""
    try:
        return way.train(teller.tell)
    finally:
        teller.end()


def _asked(
    job: "TrainingJob", trained: "Done", grader: "Grader", *, samples: int, of: "Questions | None" = None
) -> "Result":
    """Return the grades before and after, with progress on stderr: that most of them fail is said at once."""
    from pluralrm.training.outcome import outcome

    with Meter(f"{trained.folder} × {grader.spec}") as meter:
        return outcome(job, trained, grader, n=samples, of=of, tell=meter.update)


def as_json_of(ended: Ended) -> dict[str, object]:
    """Return what --json prints of a training."""
    from pluralrm.training.changes import held_out_changes

    trained, result = ended.trained, ended.result
    changes = held_out_changes(list(trained.evaluations.values()))._asdict()
    graded = {} if result is None else _as_json(result)
    return {
        "folder": str(trained.folder),
        "policy": trained.spec,
        "domain": ended.domain,
        "steps": len(trained.steps),
        "last": trained.steps[max(trained.steps)].model_dump(mode="json"),
        "held_out": {name: one.to_json() for name, one in changes.items() if one is not None},
        "alarms": [alarm._asdict() for alarm in trained.alarms],
        "outcome": "" if result is None else str(result.folder),
        **graded,
        **({} if ended.on is None else {"evaluated_on": _on_as_json(*ended.on)}),
    }


def _as_json(result: "Result") -> dict[str, object]:
    return {name: getattr(result, name).to_json() for name in ("before", "after", "change")}


def _on_as_json(questions: "Questions", result: "Result") -> dict[str, object]:
    asked = {"benchmark": questions.benchmark.card.name, "left_out": questions.left_out}
    return {**asked, "outcome": str(result.folder), **_as_json(result)}
