"""What `train ppo` and `train grpo` share: options, what they open, progress, the end of a training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli.grade import named_grader, sends
from pluralrm.cli.options import LOG, ServerOptions, check_names, with_key, with_options, with_posts_of
from pluralrm.cli.progress import ProgressDisplay, interruptible
from pluralrm.cli.sample import trusted_policy
from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, Condition
    from pluralrm.exchange.trackers import TrackerLog
    from pluralrm.grading import Grader
    from pluralrm.http import Settings
    from pluralrm.policies.local import LocalPolicy
    from pluralrm.serve.watch import SecondReward
    from pluralrm.training.job import Questions, TrainingJob
    from pluralrm.training.measures import FinishedTraining, TrainingProgress
    from pluralrm.training.outcome import GradedTraining, TrainingOutcome
    from pluralrm.training.records import Algorithm, EvaluationLine, StepLine
    from pluralrm.training.rewards import Rewarder, Shaping
    from pluralrm.training.settings import TrainingSettings

    Tell = Callable[[TrainingProgress[StepLine, EvaluationLine]], None]
    Done = FinishedTraining[StepLine, EvaluationLine]

SERVER = "served"
"""As --reward: the server that PLURALRM_REWARD_URL and its like name, which `pluralrm serve` prints."""


class RewardSpecs(NamedTuple):
    """Specs as they are to be opened: no model stands for a server, `shown` is what the reward is of."""

    models: Sequence[str]
    condition: str
    shown: str


def named(reward: str, condition: str, reward_condition: str, *, send: bool, elsewhere: bool) -> RewardSpecs:
    """Return the specs of reward and conditions, with what the command allows them written into them."""
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS, parse_model

    conditions, models = [condition, reward_condition or condition], [] if reward == SERVER else [reward]
    check_names(models, "--reward", KINDS)
    check_names(conditions, "-c", condition_summaries())
    for model in models:
        parse_model(model)
    models, conditions = with_posts_of(models, conditions, allowed=send, elsewhere=elsewhere)
    return RewardSpecs(models, *conditions)


def open_policy(policy: str, trust: Sequence[str], settings: "Settings") -> "LocalPolicy":
    """Return the policy; SpecError where its weights are not on this machine."""
    from pluralrm.policies.policy import has_weights, open_local

    return open_local(trusted_policy(policy, trust) if has_weights(policy) else policy, settings)


class TrainingOptions(NamedTuple):
    """What is trained, by what and on whom, as the command line names it."""

    benchmark: str
    policy: str
    reward: str
    steps: int
    out: Path
    condition: str
    reward_condition: str
    grader: str
    samples: int
    evaluate_on: str
    shaping: str
    watch: str
    log: str


_OPTIONS = {
    "benchmark": typer.Argument(..., metavar="BENCH", help="Benchmark of the training prompts and the held-out users."),
    "policy": typer.Option(..., "--policy", "-p", help="The policy to train: lm:FOLDER."),
    "reward": typer.Option(..., "--reward", help="The reward model, as 'score -m' takes it; or served."),
    "steps": typer.Option(..., "--steps", min=1, metavar="N", help="Total training steps."),
    "out": typer.Option(..., "--out", "-o", metavar="DIR", help="Folder of the training; the same command resumes."),
    "condition": typer.Option("none", "--condition", "-c", help="What the policy sees of the user."),
    "reward_condition": typer.Option(
        "", "--reward-condition", help="What the reward model sees.", show_default="that of -c"
    ),
    "grader": typer.Option("", "--grader", "-g", help="Grader of held-out answers; must differ from the reward model."),
    "samples": typer.Option(1, "-n", min=1, metavar="N", help="Graded answers per item of the test users."),
    "evaluate_on": typer.Option(
        "",
        "--evaluate-on",
        metavar="BENCH",
        help="Another benchmark to evaluate on, without users of the training and validation sets.",
    ),
    "shaping": typer.Option("raw", "--shaping", help="raw, z:FILE of 'train scale'; with ,clip=X."),
    "watch": typer.Option(
        "", "--watch", metavar="MODEL", help="A second reward for a sample of the answers; alarms where they part ways."
    ),
    "log": LOG,
}
with_training_options = with_options("options", TrainingOptions, _OPTIONS)
"""Puts an option for each field of TrainingOptions in the place of a verb's parameter `options`."""

DOMAINS: list[str] = typer.Option([], "--domain", help="Only these domains.")
LIMIT: int | None = typer.Option(None, help="At most this many users, taken in turn from each domain.")
PARTS_SEED: int | None = typer.Option(
    None, "--parts-seed", help="Seed of the split alone: several seeds on the same users."
)


class TrainingParts(NamedTuple):
    """What a job is made of, by the names of its fields."""

    benchmark: "Benchmark"
    policy: "LocalPolicy"
    condition: "Condition"
    rewarder: "Rewarder"
    reward_condition: str
    shaping: "Shaping"
    grader: "Grader | None"
    watch: "SecondReward | None"


def open_training(
    words: TrainingOptions, chosen: "TrainingSettings", *, trust: Sequence[str], send: bool, served: ServerOptions
) -> TrainingParts:
    """Return what the words name, opened; raise where it cannot be trained by it."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.models import KINDS
    from pluralrm.training.rewards import parse_shaping

    settings, elsewhere = served.settings(), bool(words.grader) and sends(words.grader)
    specs = named(words.reward, words.condition, words.reward_condition, send=send, elsewhere=elsewhere)
    opened, scale = open_policy(words.policy, trust, settings), parse_shaping(words.shaping)
    from pluralrm.grading import check_independent
    from pluralrm.training.rewards import LocalRewarder, open_rewarder, scored_by

    bench = open_benchmark(words.benchmark)
    watching = named_grader(words.grader, settings, send=send) if words.grader else None
    seen = load_condition(specs.condition, cache=settings.cache, settings=settings)
    context = load_condition(specs.shown, cache=settings.cache, settings=settings)
    model = next(iter(specs.models), None)
    rewarder = open_rewarder(model, bench, context, settings=settings, chosen=chosen)
    if watching is not None:
        model = scored_by(rewarder)
        # Behind a server there may be a class, or a kind of model, that is not installed here.
        kind = KINDS.get(model.partition(":")[0])
        is_known = isinstance(rewarder, LocalRewarder) or (kind is not None and kind.target != "module")
        check_independent(
            watching.spec, watching.model, picks=[model] if is_known else [], conditions=[context.spec], does="rewards"
        )
    served.check([watching, seen, context, *([rewarder.model] if isinstance(rewarder, LocalRewarder) else [])])
    watch = _second_reward(words.watch, rewarder, bench, context, settings=settings, send=send) if words.watch else None
    return TrainingParts(bench, opened, seen, rewarder, context.spec, scale, watching, watch)


def _second_reward(
    spec: str, rewarder: "Rewarder", bench: "Benchmark", context: "Condition", *, settings: "Settings", send: bool
) -> "SecondReward":
    """Return what watches a training; a reward behind a server is not asked about another user's context."""
    from pluralrm.models import KINDS, parse_model
    from pluralrm.serve.watch import open_second
    from pluralrm.training.rewards import LocalRewarder, scored_by

    check_names([spec], "--watch", KINDS)
    if str(parse_model(spec)) == scored_by(rewarder):
        raise SpecError(f"--watch {spec}: it is the reward itself; wanted another model")
    if send and "send" in KINDS[parse_model(spec).kind].form.keys:
        [spec] = with_key([spec], "send", "posts", [True])
    own = rewarder.model if isinstance(rewarder, LocalRewarder) else None
    return open_second(spec, own, context, benchmark=bench, settings=settings)


def check_folder(out: Path, kind: "Algorithm", chosen: "TrainingSettings", *, seed: int, steps: int) -> None:
    """Raise where a folder holds another training, as far as that is known before anything is opened."""
    from pluralrm.training.records import check_begun

    check_begun(out, {"kind": kind, "settings": chosen.to_json(), "seed": seed}, steps)


class ProgressCurve(NamedTuple):
    """What is told of each step; `live` is its format in the progress line, empty where it is not in it."""

    name: str
    title: str
    unit: str
    live: str = ""


REWARD_CURVE = ProgressCurve("reward", "reward", "as the model gives it", ".3g")
ENTROPY_CURVE = ProgressCurve("entropy", "entropy", "nats per token", ".3g")
CLIPPED_CURVE = ProgressCurve("clip_fraction", "clipped", "share of tokens", ".1%")
ANSWER_CURVES = (
    ProgressCurve("length", "length", "tokens per answer", ".1f"),
    ProgressCurve("repetition", "repetition", "share of repeated 4-grams"),
    ProgressCurve("cut", "cut", "share of answers cut at max_tokens"),
    ProgressCurve("masked", "masked", "answers without a reward"),
)


class TrainingDisplay(ProgressDisplay):
    """Shows how a training goes, step by step; an alarm is a line of its own when it goes off."""

    def __init__(self, title: str, curves: Sequence[ProgressCurve]) -> None:
        super().__init__(title, "steps")
        self._curves = curves
        self._alarms: frozenset[str] = frozenset()

    def tell(self, progress: "TrainingProgress[StepLine, EvaluationLine]") -> None:
        """Show a step, and the alarms that are new."""
        step = progress.step
        if step is not None:
            numbers = [
                f"{curve.title} {value:{curve.live}}"
                for curve in self._curves
                if curve.live and (value := getattr(step, curve.name)) is not None
            ]
            self.show(
                step.step + 1, progress.steps, ", ".join([*numbers, *[f"{step.masked} masked"] * bool(step.masked)])
            )
        when = "before the first step" if step is None else f"at step {step.step + 1}"
        for alarm in progress.alarms:
            if alarm.name not in self._alarms:
                note(f"ALARM {when}, {alarm.name}: {alarm.told}")
        self._alarms = frozenset(alarm.name for alarm in progress.alarms)


def run_trainings(
    jobs: "Sequence[tuple[TrainingJob, Path]]",
    algorithm: "Algorithm",
    curves: Sequence[ProgressCurve],
    options: TrainingOptions,
) -> "list[GradedTraining]":
    """Train each job in its folder, log, grade and write the reports."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.exchange.trackers import opened_log

    other = open_benchmark(options.evaluate_on) if options.evaluate_on else None
    several = [None if other is None else job.questions(other) for job, _ in jobs]  # raises before anything is trained
    with opened_log(options.log, note, note) as board:
        return [
            _run_training(job, algorithm, curves, out, options=options, board=board, questions=questions)
            for (job, out), questions in zip(jobs, several, strict=True)
        ]


def _run_training(
    job: "TrainingJob",
    algorithm: "Algorithm",
    curves: Sequence[ProgressCurve],
    out: Path,
    *,
    options: TrainingOptions,
    board: "TrackerLog",
    questions: "Questions | None" = None,
) -> "GradedTraining":
    """Train, log, grade and write the report; Ctrl-C says how to resume."""
    from pluralrm.exchange.tracking import TrainingLog
    from pluralrm.training.outcome import PAGE, graded, trainer

    train, domain, log = trainer(algorithm), job.domains[0] if len(job.domains) == 1 else "", TrainingLog(board)

    def tell(progress: "TrainingProgress[StepLine, EvaluationLine]") -> None:
        display.tell(progress)
        log.tell(out, progress)

    with interruptible("what was trained is kept"):
        with TrainingDisplay(f"{algorithm} {domain}".strip(), curves) as display:
            done = train(job, out, steps=options.steps, progress=tell)
        training = graded(job, done, n=options.samples, questions=questions, grade=_graded)
        log.end(out, options.steps, training)
    note(f"wrote {training.trained.folder / PAGE}")
    return training


def _graded(
    job: "TrainingJob", trained: "Done", grader: "Grader", *, n: int, of: "Questions | None" = None
) -> "TrainingOutcome":
    """Return the grades before and after, with progress on stderr: that most of them fail is said at once."""
    from pluralrm.training.outcome import outcome

    with ProgressDisplay(f"{trained.folder} × {grader.spec}") as meter:
        return outcome(job, trained, grader, n=n, of=of, progress=meter.update)


def as_json_of(training: "GradedTraining") -> dict[str, object]:
    """Return what --json prints of a training."""
    from pluralrm.training.measures import held_out_changes

    trained, result = training.trained, training.result
    changes = held_out_changes(list(trained.evaluations.values()))._asdict()
    graded = {} if result is None else _as_json(result)
    return {
        "folder": str(trained.folder),
        "policy": trained.spec,
        "domain": training.domain,
        "steps": len(trained.steps),
        "last": trained.steps[max(trained.steps)].model_dump(mode="json"),
        "held_out": {name: change.to_json() for name, change in changes.items() if change is not None},
        "alarms": [alarm._asdict() for alarm in trained.alarms],
        "outcome": "" if result is None else str(result.folder),
        **graded,
        **({} if training.on is None else {"evaluated_on": _on_as_json(*training.on)}),
    }


def _as_json(result: "TrainingOutcome") -> dict[str, object]:
    return {name: getattr(result, name).to_json() for name in ("before", "after", "change")}


def _on_as_json(questions: "Questions", result: "TrainingOutcome") -> dict[str, object]:
    source = {"benchmark": questions.benchmark.card.name, "left_out": questions.left_out}
    return {**source, "outcome": str(result.folder), **_as_json(result)}


def print_training(training: "GradedTraining", curves: Sequence[ProgressCurve]) -> None:
    """Print the first and the last step, what looks wrong, and what the held-out users got."""
    from pluralrm.training.records import read_run

    trained = training.trained
    first, last = trained.steps[min(trained.steps)], trained.steps[max(trained.steps)]
    where = f" on {training.domain}" if training.domain else ""
    print_wrapped(f"{trained.folder}: {len(trained.steps):,} steps of {first.answers:,} answers{where}", style="bold")
    if read_run(trained.folder).shown_rubric:
        print_wrapped("ORACLE: the reward model saw the rubric", style="red")
    columns: list[tuple[str, Kind]] = [("", "left"), ("first", "right"), ("last", "right"), ("", "text")]
    rows = [(curve.title, _value(first, curve), _value(last, curve), curve.unit) for curve in curves]
    console().print(table(columns, rows))
    for alarm in trained.alarms:
        print_wrapped(f"ALARM {alarm.name}: {alarm.told}", style="red")
    if last.watch is not None and not last.watch.alarms:
        print_wrapped(
            f"The second reward: no alarm after {last.watch.prompts:,} prompts, {last.watch.answers:,} answers"
        )
    if training.result is not None:
        _tell_result("test users", training.result)
    if training.on is not None:
        questions, result = training.on
        rest = f", without {questions.left_out:,} of users who are trained on or watched" if questions.left_out else ""
        _tell_result(f"{len(questions.items):,} questions of {questions.benchmark.card.name}{rest}", result)
    print_legend([*_changed(training), f"The policy: -p {trained.spec}. The curves: {trained.folder}/report.html"])


def _value(step: "StepLine", curve: ProgressCurve) -> str:
    value = getattr(step, curve.name)
    return "-" if value is None else f"{value:.3g}"


def _tell_result(whose: str, result: "TrainingOutcome") -> None:
    console().print()
    print_wrapped(f"{whose}, grade in per cent [95%]")
    graded: list[tuple[str, Kind]] = [("", "left"), ("grade", "left"), ("failed", "right")]
    grades = [
        (name, percent(estimate), f"{estimate.failed} of {estimate.n}")
        for name, estimate in (("before", result.before), ("after", result.after), ("change", result.change))
    ]
    console().print(table(graded, grades))


def _changed(training: "GradedTraining") -> list[str]:
    from pluralrm.training.measures import held_out_changes

    changes = held_out_changes(list(training.trained.evaluations.values()))
    rows = (("Reward", changes.rewards), ("Grade", changes.grades))
    return [f"{name} of the validation users' answers, after minus before: {change}" for name, change in rows if change]
