"""What the report calls runs and conditions, and the part that each plays."""

from pluralrm.core import Run
from pluralrm.metrics.estimates import synthesised
from pluralrm.metrics.roles import lender
from pluralrm.pages.style import Tone


def name(run: Run) -> str:
    """Return how the report calls a run."""
    marks = " · TRAINED" * bool(run.trained) + " · SYNTHESISED" * bool(synthesised(run))
    return f"{run.model} · {marked(run.condition, tone(run))}{marks}"


def marked(condition: str, part: Tone) -> str:
    """Return how the report calls a condition: one that shows the rubric is marked, and not by colour alone."""
    return f"{condition} · ORACLE" if part == "oracle" else condition


def tone(run: Run) -> Tone:
    """Return the part that the run's condition plays."""
    if "oracle" in run.reveals:
        return "oracle"
    if run.reveals & {"other_posts", "other_pairs", "false_pairs"}:
        return "swapped" if lender(run) in {"swapped", "nearest"} else "noise"
    return "own" if run.reveals else "none"
