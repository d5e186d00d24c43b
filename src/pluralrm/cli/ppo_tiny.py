"""`pluralrm ppo tiny`: a policy to try things with."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import typer

from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.errors import MissingExtraError
from pluralrm.specs import Spec

_QUIET = 15.0
"""Seconds between two lines where stderr is a file or a pipe."""


def tiny(
    out: Path = typer.Option(..., "--out", "-o", metavar="DIR", help="A new folder."),
    steps: int = typer.Option(700, "--steps", min=1, metavar="N", help="Of learning to write; fewer write worse."),
    seed: int = typer.Option(0, help="Of the first weights and of what is read."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a tiny policy from scratch that answers users of simulated:domains=1, in all ways alike."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingExtraError("pluralrm ppo tiny", "ppo")
    from pluralrm.training.ppo.tiny import tiny_policy

    teller = _Teller(steps)
    folder = tiny_policy(out, seed=seed, steps=steps, tell=teller.tell)
    teller.end()
    if as_json:
        print_json({"policy": str(Spec("lm", str(folder))), "steps": steps, "loss": teller.loss})
        return
    print_wrapped(f"{folder}: a tiny policy for simulated:domains=1, loss {teller.loss:.3f}", style="bold")


class _Teller:
    """Says on stderr how the learning goes, as `fit` does."""

    def __init__(self, steps: int) -> None:
        self._steps, self._shown, self._live = steps, time.monotonic(), sys.stderr.isatty()
        self.loss = 0.0

    def tell(self, step: int, loss: float) -> None:
        """Show a step's loss."""
        self.loss = loss
        text = f"ppo tiny: step {step + 1}/{self._steps}, loss {loss:.3f}"
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
