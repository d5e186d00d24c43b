"""The shapes of a training's files, and the only place where they are read and written.

run.json        what is trained, on whom, by what, with every setting; where it stands
metrics.jsonl   one line per step; where a step stands twice, the last line is what counts
held-out.jsonl  one line per evaluation: each validation item's reward and grade

An algorithm adds what it alone has to the two kinds of lines. All three carry a check of their text.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import FiniteFloat

from pluralrm.core import Reveals
from pluralrm.errors import RunError
from pluralrm.journal import Journal, JournalKind, Manifest, Strict, sealed_line
from pluralrm.runs.records import BenchmarkRecord, SelectionRecord

RUN, METRICS, HELD_OUT = "run.json", "metrics.jsonl", "held-out.jsonl"
Algorithm = Literal["ppo", "grpo"]


class PartsRecord(Strict):
    """The users of each part, and the items that have no prompt, by part and why."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    left_out: dict[str, int]


class TrainingManifest(Manifest):
    """run.json."""

    kind: Algorithm
    status: Literal["incomplete", "complete"]
    policy: str
    reward: str
    identity: dict[str, str]
    benchmark: BenchmarkRecord
    condition: str
    reward_condition: str
    reveals: tuple[Reveals, ...]
    reward_reveals: tuple[str, ...]
    selection: SelectionRecord
    parts: PartsRecord
    shortened: dict[str, int] = {}
    """Prompts that lost posts to fit, by part; none in trainings from before this was kept."""
    settings: dict[str, str]
    shaping: str
    grader: str = ""
    watch: str = ""
    """The second reward."""
    seed: int
    versions: dict[str, str]
    git: str
    started: str
    steps: int = 0
    """How many are done."""
    masked: int = 0
    """Answers of these steps that had no reward."""
    seconds: float = 0.0

    @property
    def shown_rubric(self) -> bool:
        """True where the reward knows what its answers are graded by: an upper control, not a result."""
        return "oracle" in self.reward_reveals

    def facts(self) -> dict[str, object]:
        """Return what must be the same for a training to be resumed."""
        names = (
            *("kind", "policy", "reward", "identity", "benchmark", "condition", "reward_condition", "selection"),
            *("parts", "settings", "shaping", "grader", "watch", "seed"),
        )
        return {**{name: getattr(self, name) for name in names}, "benchmark": self.benchmark.content}


class Errors(Strict):
    """Standard errors of a step's means, over users: the answers to one are alike."""

    users: FiniteFloat
    """How many with equally many answers would tell as much (Kish)."""
    length: FiniteFloat
    repetition: FiniteFloat
    cut: FiniteFloat
    masked: FiniteFloat


class UserMeans(Strict):
    """What a step's answers to each user measure on average: by these, later steps are tested against the first."""

    users: tuple[str, ...]
    length: tuple[FiniteFloat, ...]
    repetition: tuple[FiniteFloat, ...]
    cut: tuple[FiniteFloat, ...]
    masked: tuple[FiniteFloat, ...]


class StepWatch(Strict):
    """What a second reward says of the training so far: how much it has seen, and its alarms by claim."""

    prompts: int
    answers: int
    alarms: dict[str, str]


class StepLine(Strict):
    """What every line of metrics.jsonl has. Rewards are as the model gave them."""

    step: int
    answers: int
    masked: int
    failures: dict[str, int]
    reward: FiniteFloat
    reward_sd: FiniteFloat
    length: FiniteFloat
    """Tokens per answer."""
    cut: FiniteFloat
    """Share of answers that reached the longest."""
    repetition: FiniteFloat
    errors: Errors | None = None
    """None where a step has fewer than two users, and in lines from before these were kept."""
    by_user: UserMeans | None = None
    """None in lines from before these were kept: an interval alone decides there."""
    watch: StepWatch | None = None
    """None where no second reward watches."""


class EvaluationLine(Strict):
    """What every line of held-out.jsonl has, after so many steps; a reward or a grade that failed is None."""

    step: int
    items: tuple[str, ...]
    users: tuple[str, ...]
    prompts: tuple[str, ...] = ()
    """The prompt of each item where users share prompts."""
    rewards: tuple[FiniteFloat | None, ...]
    grades: tuple[FiniteFloat | None, ...] = ()
    failures: dict[str, int] = {}
    """Answers without a grade, by kind; none in lines from before these were kept, and without a grader."""
    length: FiniteFloat


TRAINING = JournalKind(
    noun="training",
    manifest=RUN,
    record=TrainingManifest,
    error=RunError,
    source="'pluralrm train ppo' and 'pluralrm train grpo' write one with -o",
    anew="train anew with another -o",
    other="Name another folder with -o, or give the command that began this one; in a study, --fresh with the model or "
    "the policy begins it anew",
    files=(METRICS, HELD_OUT),
)

Step = TypeVar("Step", bound=StepLine)
Evaluation = TypeVar("Evaluation", bound=EvaluationLine)
Line = TypeVar("Line", bound=StepLine | EvaluationLine)


def line_of(record: StepLine | EvaluationLine) -> str:
    """Return one line of a file."""
    return sealed_line(record.model_dump_json()) + "\n"


def read_lines(file: Path, kind: type[Line]) -> dict[int, Line]:
    """Return the last line of each step, by step; a torn last line is passed over."""
    lines = {record.step: record for record in TRAINING.lines(file, kind)}
    return {step: lines[step] for step in sorted(lines)}


def read_run(folder: Path) -> TrainingManifest:
    """Return the run.json in a folder; RunError where there is none of a training."""
    return TRAINING.read(folder)


class PpoStep(StepLine):
    """One line of metrics.jsonl; `shaped` is the reward that was learned from."""

    shaped: FiniteFloat
    kl: FiniteFloat
    """Nats per answer, from the reference."""
    kl_coefficient: FiniteFloat
    entropy: FiniteFloat
    """Nats per token."""
    clip_fraction: FiniteFloat
    value_clip_fraction: FiniteFloat
    policy_loss: FiniteFloat
    value_loss: FiniteFloat
    actor_norm: FiniteFloat
    critic_norm: FiniteFloat


class PpoEvaluation(EvaluationLine):
    """One line of held-out.jsonl."""

    repetition: FiniteFloat
    kl: FiniteFloat
    entropy: FiniteFloat


class GrpoStep(StepLine):
    """One line of metrics.jsonl."""

    kl: FiniteFloat | None
    """Nats per token, from the policy as it was; None without a penalty, for it is not computed then."""
    entropy: FiniteFloat
    """Nats per token."""
    clip_fraction: FiniteFloat
    groups_alike: FiniteFloat
    """Share of the answers whose group had one reward: they teach nothing."""
    loss: FiniteFloat
    norm: FiniteFloat


POLICY = "policy"
"""The folder of the trained policy, inside that of the training."""


class TrainingFolder(Journal[TrainingManifest], Generic[Step, Evaluation]):
    """One training, whose lines are of two kinds; `steps` and `evaluations` hold what is on disk, by step."""

    def __init__(self, path: Path, manifest: TrainingManifest, step: type[Step], evaluation: type[Evaluation]) -> None:
        super().__init__(path, TRAINING, manifest)
        self._kinds = step, evaluation
        self._began = time.monotonic()
        self.steps: dict[int, Step] = {}
        self.evaluations: dict[int, Evaluation] = {}

    def _resume(self) -> None:
        super()._resume()
        step, evaluation = self._kinds
        self.steps = read_lines(self.path / METRICS, step)
        self.evaluations = read_lines(self.path / HELD_OUT, evaluation)
        if not TRAINING.holds(self.path):
            self.note("incomplete", 0)

    def has(self, steps: int) -> bool:
        """Return whether so many steps are done and their policy is written; RunError where there are more."""
        _check_steps(self.path, self.manifest, steps)
        done = self.manifest.status == "complete" and self.manifest.steps == steps
        return done and (self.path / POLICY).exists()

    def add_step(self, record: Step) -> None:
        """Put a step's line on disk, where it is not there already: a step that is computed again says the same."""
        if (earlier := self.steps.get(record.step)) is not None:  # the watch has seen later steps since
            record = record.model_copy(update={"watch": earlier.watch})
        if earlier != record:
            self.append(METRICS, line_of(record))
            self.steps[record.step] = record

    def add_evaluation(self, record: Evaluation) -> None:
        """Put an evaluation's line on disk, where it is not there already."""
        if self.evaluations.get(record.step) != record:
            self.append(HELD_OUT, line_of(record))
            self.evaluations[record.step] = record

    def note(self, status: Literal["incomplete", "complete"], steps: int) -> None:
        """Write run.json: how many steps are done and kept."""
        now = time.monotonic()
        state = {
            "status": status,
            "steps": steps,
            "masked": sum(step.masked for step in self.steps.values() if step.step < steps),
            "seconds": round(self.manifest.seconds + now - self._began, 3),
        }
        self._began, self.manifest = now, self.manifest.model_copy(update=state)
        self.write(self.manifest)


def check_begun(path: Path, facts: Mapping[str, object], steps: int) -> None:
    """Raise where a folder holds a training of which some fact is another, or that has more steps."""
    if TRAINING.holds(path):
        earlier = TRAINING.read(path)
        TRAINING.check_same(path, earlier.model_copy(update=dict(facts)).facts(), earlier.facts())
        _check_steps(path, earlier, steps)


def _check_steps(path: Path, manifest: TrainingManifest, steps: int) -> None:
    if manifest.steps > steps:
        raise RunError(f"{path} holds a training of {manifest.steps} steps, wanted {steps}")
