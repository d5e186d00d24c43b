"""How a training is told: a line while it goes, the curves' ends and what looks wrong when it is over."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table

if TYPE_CHECKING:
    from pluralrm.cli.training import Ended
    from pluralrm.training.outcome import Result
    from pluralrm.training.records import EvaluationLine, StepLine
    from pluralrm.training.trained import Told

_QUIET = 15.0
"""Seconds between two lines where stderr is a file or a pipe."""


class Curve(NamedTuple):
    """What is told of each step; `live` is how it stands in the line that redraws, nothing where it does not."""

    name: str
    title: str
    unit: str
    live: str = ""


REWARD = Curve("reward", "reward", "as the model gives it", ".3g")
ENTROPY = Curve("entropy", "entropy", "nats per token", ".3g")
CLIPPED = Curve("clip_fraction", "clipped", "share of tokens", ".1%")
ANSWERS = (
    Curve("length", "length", "tokens per answer", ".1f"),
    Curve("repetition", "repetition", "share of runs of four tokens"),
    Curve("cut", "cut", "share of answers that reached the longest"),
    Curve("masked", "masked", "answers without a reward"),
)


class Teller:
    """Says on stderr how a training goes: one line that redraws on a terminal, now and then a line in a file."""

    def __init__(self, title: str, curves: Sequence[Curve]) -> None:
        self._title, self._shown, self._curves = title, time.monotonic(), curves
        self._live = sys.stderr.isatty()
        self._warned: set[str] = set()

    def tell(self, told: "Told[StepLine, EvaluationLine]") -> None:
        """Show a step; an alarm is a line of its own when it goes off."""
        if told.step is not None:
            self._tell_step(told.step, told.steps)
        when = "before the first step" if told.step is None else f"at step {told.step.step + 1}"
        for alarm in told.alarms:
            if alarm.name not in self._warned:
                self.end()
                note(f"ALARM {when}, {alarm.name}: {alarm.told}")
        self._warned = {alarm.name for alarm in told.alarms}

    def _tell_step(self, step: "StepLine", steps: int) -> None:
        masked = f", {step.masked} masked" if step.masked else ""
        numbers = [
            f"{one.title} {value:{one.live}}"
            for one in self._curves
            if one.live and (value := getattr(step, one.name)) is not None
        ]
        text = f"{self._title}: step {step.step + 1}/{steps}, {', '.join(numbers)}{masked}"
        if self._live:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
        elif time.monotonic() - self._shown > _QUIET:
            self._shown = time.monotonic()
            note(text)

    def end(self) -> None:
        """Clear the line that redraws."""
        if self._live:
            sys.stderr.write("\r\x1b[K")


def tell_ended(ended: "Ended", curves: Sequence[Curve]) -> None:
    """Print the first and the last step, what looks wrong, and what the held-out users got."""
    from pluralrm.training.records import read_run

    trained = ended.trained
    first, last = trained.steps[min(trained.steps)], trained.steps[max(trained.steps)]
    where = f" on {ended.domain}" if ended.domain else ""
    print_wrapped(f"{trained.folder}: {len(trained.steps):,} steps of {first.answers:,} answers{where}", style="bold")
    if read_run(trained.folder).shown_rubric:
        print_wrapped("ORACLE: the reward model was shown the rubric", style="red")
    columns: list[tuple[str, Kind]] = [("", "left"), ("first", "right"), ("last", "right"), ("", "text")]
    rows = [(one.title, _value(first, one), _value(last, one), one.unit) for one in curves]
    console().print(table(columns, rows))
    for alarm in trained.alarms:
        print_wrapped(f"ALARM {alarm.name}: {alarm.told}", style="red")
    if ended.result is not None:
        _tell_result("test users", ended.result)
    if ended.on is not None:
        questions, result = ended.on
        known = f", without {questions.left_out:,} of users who are trained on or watched" if questions.left_out else ""
        _tell_result(f"{len(questions.items):,} questions of {questions.benchmark.card.name}{known}", result)
    print_legend([*_changed(ended), f"The policy: -p {trained.spec}. The curves: {trained.folder}/report.html"])


def _value(step: "StepLine", curve: Curve) -> str:
    value = getattr(step, curve.name)
    return "-" if value is None else f"{value:.3g}"


def _tell_result(whose: str, result: "Result") -> None:
    console().print()
    print_wrapped(f"{whose}, grade in per cent [95%]")
    graded: list[tuple[str, Kind]] = [("", "left"), ("grade", "left"), ("failed", "right")]
    grades = [
        (name, percent(one), f"{one.failed} of {one.n}")
        for name, one in (("before", result.before), ("after", result.after), ("change", result.change))
    ]
    console().print(table(graded, grades))


def _changed(ended: "Ended") -> list[str]:
    from pluralrm.training.changes import held_out_changes

    found = held_out_changes(list(ended.trained.evaluations.values()))
    told = (("Reward", found.rewards), ("Grade", found.grades))
    return [f"{name} of the validation users' answers, after minus before: {one}" for name, one in told if one]
