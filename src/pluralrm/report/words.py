"""Numbers and runs in words: the one place where the report says how a share, a difference or a run is written."""

from collections.abc import Sequence

from pluralrm.core import Estimate, Run
from pluralrm.draw import Tone
from pluralrm.metrics.estimates import synthesised
from pluralrm.metrics.roles import lender

_MINUS = "−"


def share(value: float | None) -> str:
    """Return `63.3` for 0.633, in per cent; a dash for None."""
    return "–" if value is None else _tidy(f"{100 * value:.1f}")


def signed(value: float) -> str:
    """Return `+3.3` or `−3.3` for a difference, in points; `0.0` without a sign."""
    text = f"{100 * value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", _MINUS)


def interval(estimate: Estimate) -> str:
    """Return `[45.2, 78.3]`, or `fixed` or `no interval` where the method says that there is none."""
    if estimate.low is None or estimate.high is None:
        return "fixed" if "fixed by design" in estimate.method else "no interval"
    return f"[{share(estimate.low)}, {share(estimate.high)}]"


def told(estimate: Estimate | None) -> str:
    """Return `63.3 [45.2, 78.3]`, or a dash for None."""
    return "–" if estimate is None else f"{share(estimate.value)} {interval(estimate)}"


def difference(estimate: Estimate | None) -> str:
    """Return `+12.0 [+3.1, +20.9]` in points, or a dash for None."""
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{signed(estimate.value)} {interval(estimate)}"
    return f"{signed(estimate.value)} [{signed(estimate.low)}, {signed(estimate.high)}]"


def p_value(p: float | None) -> str:
    """Return `0.034`, or `< 0.001`; a dash for None."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def counted(number: int, noun: str) -> str:
    """Return `1 run` or `2,830 runs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return `a, b and c`; beyond `most` names, `a, b, c and 5 more`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def capital(text: str) -> str:
    """Return a text that can begin a sentence; its other letters stay as they are."""
    return text[:1].upper() + text[1:]


def _tidy(text: str) -> str:
    return "0.0" if float(text) == 0 else text.replace("-", _MINUS)


def typeset(text: str) -> str:
    """Return a text of the terminal with the apostrophes of a page."""
    return text.replace("'", "’")


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
