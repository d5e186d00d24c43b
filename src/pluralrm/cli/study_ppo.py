"""How the trainings of a study are told: a row per reward model, what went off, the best against the worst."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, percent, print_wrapped, table

if TYPE_CHECKING:
    from pluralrm.study.ppo.found import Answers, Found, Trained


def tell_trainings(found: "Found") -> None:
    """Print what each reward model made of the policy."""
    from pluralrm.study.ppo.shown import about, alarms, apart_told, seeded, tables

    if found.conditions:
        console().print()
        print_wrapped(f"trained: {about(found)}")
    for condition in found.conditions:
        told = tables(found, condition)
        for each in told:
            whose = f"; {each.whose}" if len(told) > 1 else ""
            console().print()
            print_wrapped(f"rewarded under {condition}{whose}; grade in per cent, change in points [95%, over users]:")
            said = [answers for _, answers in each.rows]
            console().print(table(_columns(found, said), [_row(found, *row, said) for row in each.rows]))
        for one, _ in told[0].rows:
            several = ", ".join(f"seed {seed.seed}: {' -> '.join(seeded(seed)[:2])}" for seed in one.seeds)
            print_wrapped(f"{one.reward}: {several}", first="  ", indent="    ")
            if gone := alarms(one):
                print_wrapped(f"ALARM {one.reward}: {gone}", first="  ", indent="    ", style="red")
    for apart in found.apart:
        print_wrapped(apart_told(apart))


def _columns(found: "Found", rows: "Sequence[Answers]") -> list[tuple[str, Kind]]:
    more: list[tuple[str, Kind]] = [("over trainings too", "left")] if _several(found) else []
    failed: list[tuple[str, Kind]] = [("failed", "right")] if _failed(rows) else []
    return [("reward", "name"), ("before", "right"), ("change", "left"), *more, *failed]


def _row(found: "Found", one: "Trained", said: "Answers", rows: "Sequence[Answers]") -> tuple[str, ...]:
    from pluralrm.study.ppo.shown import marked

    name = marked(one) if one.whole else f"{marked(one)} ({len(one.seeds)} of {len(found.recipe.seeds)} seeds)"
    more = [percent(said.change.both)] if _several(found) else []
    failed = [str(said.change.users.failed)] if _failed(rows) else []
    return name, f"{100 * said.before.value:.1f}", percent(said.change.users), *more, *failed


def _several(found: "Found") -> bool:
    return len(found.recipe.seeds) > 1


def _failed(rows: "Sequence[Answers]") -> bool:
    return any(one.change.users.failed for one in rows)
