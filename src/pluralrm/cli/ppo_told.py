"""How a training is told: a line while it goes, the curves' ends and what looks wrong when it is over."""

import sys
import time
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table

if TYPE_CHECKING:
    from pluralrm.downstream.ppo.outcome import Result
    from pluralrm.downstream.ppo.train import Told, Trained

_QUIET = 15.0
"""Seconds between two lines where stderr is a file or a pipe."""
_CURVES = (
    ("reward", "reward", "as the model gives it"),
    ("kl", "KL", "nats per answer from the reference"),
    ("entropy", "entropy", "nats per token"),
    ("clip_fraction", "clipped", "share of tokens"),
    ("value_loss", "value loss", ""),
    ("length", "length", "tokens per answer"),
    ("repetition", "repetition", "share of runs of four tokens"),
    ("masked", "masked", "answers without a reward"),
)


class Teller:
    """Says on stderr how a training goes: one line that redraws on a terminal, now and then a line in a file."""

    def __init__(self, title: str) -> None:
        self._title, self._shown = title, time.monotonic()
        self._live = sys.stderr.isatty()
        self._warned: set[str] = set()

    def tell(self, told: "Told") -> None:
        """Show a step; an alarm is a line of its own when it goes off."""
        step = told.step
        masked = f", {step.masked} masked" if step.masked else ""
        text = (
            f"{self._title}: step {step.step + 1}/{told.steps}, reward {step.reward:.3g}, KL {step.kl:.3g}, "
            f"entropy {step.entropy:.3g}, clipped {step.clip_fraction:.1%}, value loss {step.value_loss:.3g}, "
            f"length {step.length:.1f}{masked}"
        )
        if self._live:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
        elif time.monotonic() - self._shown > _QUIET:
            self._shown = time.monotonic()
            note(text)
        for alarm in told.alarms:
            if alarm.name not in self._warned:
                self.end()
                note(f"ALARM at step {step.step + 1}, {alarm.name}: {alarm.told}")
        self._warned = {alarm.name for alarm in told.alarms}

    def end(self) -> None:
        """Clear the line that redraws."""
        if self._live:
            sys.stderr.write("\r\x1b[K")


def tell_oracle(*, shown: bool) -> None:
    """Say where a training is an upper control and no result."""
    if shown:
        print_wrapped("ORACLE: the reward model was shown the rubric", style="red")


def tell_trained(trained: "Trained", result: "Result | None", *, domain: str) -> None:
    """Print the first and the last step, what looks wrong, and what the test users got."""
    from pluralrm.downstream.ppo.records import read_run

    first, last = trained.steps[min(trained.steps)], trained.steps[max(trained.steps)]
    named = f" on {domain}" if domain else ""
    print_wrapped(f"{trained.folder}: {len(trained.steps):,} steps of {first.answers:,} answers{named}", style="bold")
    tell_oracle(shown=read_run(trained.folder).shown_rubric)
    columns: list[tuple[str, Kind]] = [("", "left"), ("first", "right"), ("last", "right"), ("", "text")]
    rows = [(title, f"{getattr(first, name):.3g}", f"{getattr(last, name):.3g}", unit) for name, title, unit in _CURVES]
    console().print(table(columns, rows))
    for alarm in trained.alarms:
        print_wrapped(f"ALARM {alarm.name}: {alarm.told}", style="red")
    if result is not None:
        console().print()
        print_wrapped("test users, grade in per cent [95%]")
        graded: list[tuple[str, Kind]] = [("", "left"), ("grade", "left"), ("failed", "right")]
        grades = [
            (name, percent(one), f"{one.failed} of {one.n}")
            for name, one in (("before", result.before), ("after", result.after), ("change", result.change))
        ]
        console().print(table(graded, grades))
    print_legend([f"The policy: -p lm:{trained.policy}. The curves: {trained.folder}/report.html"])
