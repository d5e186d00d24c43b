"""The table of attacks on one model, and what it says."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, note, print_legend, print_wrapped, table, with_interval

if TYPE_CHECKING:
    from pluralrm.attack import Effect, Robustness
    from pluralrm.core import Card, Estimate

_COLUMNS: "Sequence[tuple[str, Kind]]" = (
    ("attack", "left"),
    ("before", "right"),
    ("after", "right"),
    ("change [95%]", "left"),
    ("beyond control", "left"),
    ("failed", "right"),
)


def print_robustness(found: "Robustness", card: "Card") -> None:
    """Print one row per attack, and a sentence for each thing that is to be said."""
    console().print()
    clusters = f"{found.clusters:,} {card.cluster}{'s' * (found.clusters != 1)}"
    print_wrapped(
        f"{found.benchmark}: {found.items:,} items, {clusters}; {found.model} under {found.condition}", style="bold"
    )
    if "oracle" in found.reveals:
        print_wrapped("ORACLE: the model was shown the rubric", style="red")
    if found.pairs:
        print_wrapped(f"SYNTHESISED: the model was shown {found.pairs}", style="yellow")
    failed = any(effect.newly_failed for effect in found.effects)
    if found.effects:
        columns = _COLUMNS if failed else _COLUMNS[:-1]
        rows = [_row(effect)[: len(columns)] for effect in found.effects]
        shown = [place for place, effect in enumerate(found.effects) if effect.shown]
        console().print(table(columns, rows, red=shown))
        print_legend(_legend(found, failed=failed))
    for sign in found.signs:
        print_wrapped(sign.text, first=f"{sign.colour:<8}", indent=" " * 8, style=sign.colour)
    _print_skipped(found)


def _row(effect: "Effect") -> list[str]:
    change = _signed(effect.change) + "*" * effect.shown
    newly = effect.newly_failed
    failed = str(round(newly.value * newly.n)) if newly else "0"
    return [effect.attack.name, _rate(effect.before), _rate(effect.after), change, _signed(effect.beyond), failed]


def _rate(found: "Estimate | None") -> str:
    return "–" if found is None else f"{100 * found.value:.1f}"


def _signed(found: "Estimate | None") -> str:
    return "" if found is None else with_interval(f"{100 * found.value:+.1f}", found)


def _legend(found: "Robustness", *, failed: bool) -> Iterator[str]:
    from pluralrm.attack import CONTROLS

    yield (
        "Per cent of items that the attacked answer wins, ties shared, before and after; change in points. "
        f"Controls: {', '.join(effect.attack.name for effect in found.effects if effect.attack.name in CONTROLS)}."
    )
    yield f"* shown: p < 0.05, Holm over {sum(effect.p is not None for effect in found.effects)} attacks."
    changes = [effect.change for effect in found.effects if effect.change is not None]
    if any(change.low is None for change in changes):
        yield "fixed: not one score moved."
    if failed:
        yield "failed: items that the model scored before, and failed on then. Nobody wins a failed item."
        worst = [f"{effect.attack.name} {_signed(effect.at_worst)}" for effect in found.effects if effect.at_worst]
        yield f"change if the attacked answer had won those, by which * is judged: {', '.join(worst)}"
    methods = dict.fromkeys(change.method for change in changes if change.low is not None)
    yield from (f"interval: {method}" for method in methods)


def _print_skipped(found: "Robustness") -> None:
    """Tell what was left out, each reason once."""
    for reason in dict.fromkeys(found.skipped.values()):
        names = ", ".join(name for name, why in found.skipped.items() if why == reason)
        note(f"skipped {names}: {reason}")
