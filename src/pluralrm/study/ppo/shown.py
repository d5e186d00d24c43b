"""What was trained, as the page and the terminal show it: sentences and rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pluralrm.core import Estimate
from pluralrm.pages.document import fragment
from pluralrm.pages.lines import Line, line_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.study.ppo.found import Answers, Apart, Found, Seeded, Trained
from pluralrm.text import counted, difference, interval, listed, share, signed
from pluralrm.training.split import asker


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plot for a desk and for a phone."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class Under:
    """The policies that reward models made under one condition, the best first."""

    condition: str
    rows: Sequence[Trained]
    tables: Sequence["Table"]
    drawn: Drawn | None


@dataclass(frozen=True, slots=True)
class Table:
    """What the policies of one condition answer to the test users, or to the questions of another benchmark."""

    whose: str
    apart: str
    rows: Sequence[tuple[Trained, Answers]]


def trained_section(found: Found) -> Markup:
    """Return the section of the page; nothing is in it but escaped text and links to files beside the page."""
    return fragment(
        "pluralrm.study",
        "ppo.html.jinja",
        found=found,
        about=about(found),
        parts=[_under(found, condition, place) for place, condition in enumerate(found.conditions, 1)],
        several=len(found.recipe.seeds) > 1,
        alarms=alarms,
        seeded=seeded,
        parted=_parted,
        changed=_changed,
    )


def about(found: Found) -> str:
    """Return in a sentence what was trained, on whom, and who was asked in the end."""
    recipe, asked = found.recipe, found.recipe.declared
    train, test = (_users(found, name) for name in ("train", "test"))
    each = ", one policy for each domain" if asked.per_domain else ""
    seeds = f"seed{'s' * (len(recipe.seeds) > 1)} {_numbers(recipe.seeds)}"
    return (
        f"{asked.policy} shown {recipe.condition.spec}, trained by PPO for {counted(asked.steps, 'step')} on "
        f"{counted(train, 'user')} of {recipe.benchmark.card.name} ({seeds}{each}; shaping {asked.shaping}); "
        f"then {counted(test, 'user')} it has not met are asked{_also(found)}, graded by {asked.grader}."
    )


def _also(found: Found) -> str:
    """Return which questions are asked besides, and how many are not: those of users whom the training has seen."""
    recipe = found.recipe
    if recipe.evaluated is None:
        return ""
    asked = recipe.questions.values()
    items, known = sum(len(one.items) for one in asked), sum(one.left_out for one in asked)
    left = f" ({known:,} of users who are trained on or watched left out)" if known else ""
    return f", and the {counted(items, 'question')} of {recipe.evaluated.card.name}{left}"


def tables(found: Found, condition: str) -> list[Table]:
    """Return the tables of one condition, the best policy first: the test users, and the questions of evaluate-on."""
    rows = [one for one in found.trained if one.condition == condition]
    apart = {one.on: apart_told(one) for one in found.apart if one.condition == condition}
    told = [Table("the test users", apart.get("", ""), _ranked([(one, one) for one in rows]))]
    if found.recipe.evaluated is not None:
        name = found.recipe.evaluated.card.name
        asked = _ranked([(one, one.on) for one in rows if one.on is not None])
        told.append(Table(f"the questions of {name}", apart.get(name, ""), asked))
    return told


def _ranked(rows: Sequence[tuple[Trained, Answers]]) -> list[tuple[Trained, Answers]]:
    return sorted(rows, key=lambda row: (not row[0].whole, -row[1].after.users.value))


def alarms(one: Trained) -> str:
    """Return the alarms by name, each with the seeds at which it went off."""
    return "; ".join(f"{name} (seed{'s' * (len(at) > 1)} {_numbers(at)})" for name, at in one.alarms.items())


def marked(one: Trained) -> str:
    """Return a reward model's name, with the mark of an upper control."""
    return f"{one.reward} ORACLE" if one.shown_rubric else one.reward


def _numbers(numbers: Sequence[int]) -> str:
    return listed(list(map(str, numbers)), most=9)


def _users(found: Found, name: str) -> int:
    return len({asker(item) for parts in found.recipe.parts.values() for item in getattr(parts, name)})


def seeded(one: Seeded) -> tuple[str, str, str]:
    """Return what a seed gave before and after, and the change, in per cent and points."""
    return share(one.before), share(one.after), signed(one.change)


def apart_told(one: Apart) -> str:
    """Return the sentence about the best and the worst."""
    users, both = one.difference
    more = "" if both.low is None else f"; over other trainings too {difference(both)}"
    on = f" on {one.on}" if one.on else ""
    return (
        f"Best against worst under {one.condition}{on}: {one.best} − {one.worst} = {difference(users)} points{more} "
        "(chosen by looking, so the intervals hold for all pairs)."
    )


def _under(found: Found, condition: str, place: int) -> Under:
    told = tables(found, condition)
    rows = [one for one, _ in told[0].rows]
    lines = [
        Line(marked(one), {float(step): Dot(100 * grade) for step, grade in one.watched.items()})
        for one in rows
        if one.watched
    ]
    return Under(condition, rows, told, _drawn(_curves(lines, condition, place)) if lines else None)


def _curves(lines: Sequence[Line], condition: str, place: int) -> Plot:
    return line_plot(
        f"watched-{place}",
        lines,
        title=f"Grade of the watched users under {condition}",
        words=f"{len(lines)} policies while they are trained; the mean over users and seeds, a failed grade being 0.",
        labels=("step", "grade, per cent"),
        beside=True,
    )


def _drawn(plot: Plot) -> Drawn:
    # What draw returns is escaped XML of its own making.
    wide, narrow = (Markup(plot.inline(narrow=narrow)) for narrow in (False, True))  # noqa: S704
    return Drawn(wide, narrow)


def _parted(estimate: Estimate) -> tuple[str, str]:
    return share(estimate.value), interval(estimate)


def _changed(estimate: Estimate) -> tuple[str, str]:
    value, _, span = difference(estimate).partition(" ")
    return value, span
