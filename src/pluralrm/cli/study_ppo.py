"""How the trainings of a study are told: a row per reward model, what went off, the best against the worst."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, percent, print_wrapped, table

if TYPE_CHECKING:
    from pluralrm.study.ppo.found import Found, Trained


def tell_trainings(found: "Found") -> None:
    """Print what each reward model made of the policy."""
    from pluralrm.study.ppo.shown import about, alarms, apart_told, seeded

    if found.conditions:
        console().print()
        print_wrapped(f"trained: {about(found)}")
    for condition in found.conditions:
        rows = [one for one in found.trained if one.condition == condition]
        rows.sort(key=lambda one: (not one.whole, -one.after.users.value))
        console().print()
        print_wrapped(f"rewarded under {condition}; grade in per cent, change in points [95%, over users]:")
        console().print(table(_columns(found, rows), [_row(found, one, rows) for one in rows]))
        for one in rows:
            several = ", ".join(f"seed {seed.seed}: {' -> '.join(seeded(seed)[:2])}" for seed in one.seeds)
            print_wrapped(f"{one.reward}: {several}", first="  ", indent="    ")
            if told := alarms(one):
                print_wrapped(f"ALARM {one.reward}: {told}", first="  ", indent="    ", style="red")
    for apart in found.apart:
        print_wrapped(apart_told(apart))


def _columns(found: "Found", rows: "Sequence[Trained]") -> list[tuple[str, Kind]]:
    more: list[tuple[str, Kind]] = [("over trainings too", "left")] if _several(found) else []
    failed: list[tuple[str, Kind]] = [("failed", "right")] if _failed(rows) else []
    return [("reward", "name"), ("before", "right"), ("change", "left"), *more, *failed]


def _row(found: "Found", one: "Trained", rows: "Sequence[Trained]") -> tuple[str, ...]:
    from pluralrm.study.ppo.shown import marked

    name = marked(one) if one.whole else f"{marked(one)} ({len(one.seeds)} of {len(found.recipe.seeds)} seeds)"
    more = [percent(one.change.both)] if _several(found) else []
    failed = [str(one.change.users.failed)] if _failed(rows) else []
    return name, f"{100 * one.before.value:.1f}", percent(one.change.users), *more, *failed


def _several(found: "Found") -> bool:
    return len(found.recipe.seeds) > 1


def _failed(rows: "Sequence[Trained]") -> bool:
    return any(one.change.users.failed for one in rows)
