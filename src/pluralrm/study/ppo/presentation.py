"""What was trained, as the page and the terminal show it: sentences and rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from pluralrm.pages.document import Figure, PageTable, TableCell, TableColumn, columns
from pluralrm.pages.lines import PlotLine, line_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.study.ppo.results import Answers, Apart, PolicyResult, Seeded, TrainingResults
from pluralrm.text import counted, difference, listed, percent, share, signed
from pluralrm.training.prompts import asker


@dataclass(frozen=True, slots=True)
class Under:
    """The policies that reward models made under one condition, the best first, as the page shows them."""

    condition: str
    rows: Sequence[PolicyResult]
    tables: Sequence[tuple[str, PageTable]]
    """Each below a sentence about the best and the worst."""
    each: PageTable
    drawn: Figure | None


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """What the policies of one condition answer to the test users, or to the questions of another benchmark."""

    whose: str
    apart: str
    rows: Sequence[tuple[PolicyResult, Answers]]


def trained_parts(found: TrainingResults) -> list[Under]:
    """Return what the page shows of each condition."""
    return [_under(found, condition, place) for place, condition in enumerate(found.conditions, 1)]


def about(found: TrainingResults) -> str:
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


def _also(found: TrainingResults) -> str:
    """Return which questions are asked besides, and how many are not: those of users whom the training has seen."""
    recipe = found.recipe
    if recipe.evaluated is None:
        return ""
    asked = recipe.questions.values()
    items, known = sum(len(one.items) for one in asked), sum(one.left_out for one in asked)
    left = f" ({known:,} of users who are trained on or watched left out)" if known else ""
    return f", and the {counted(items, 'question')} of {recipe.evaluated.card.name}{left}"


def tables(found: TrainingResults, condition: str) -> list[AnswerTable]:
    """Return the tables of one condition, the best policy first: the test users, and the questions of evaluate-on."""
    rows = [one for one in found.trained if one.condition == condition]
    apart = {one.on: apart_told(one) for one in found.apart if one.condition == condition}
    told = [AnswerTable("the test users", apart.get("", ""), _ranked([(one, one) for one in rows]))]
    if found.recipe.evaluated is not None:
        name = found.recipe.evaluated.card.name
        asked = _ranked([(one, one.on) for one in rows if one.on is not None])
        told.append(AnswerTable(f"the questions of {name}", apart.get(name, ""), asked))
    return told


def _ranked(rows: Sequence[tuple[PolicyResult, Answers]]) -> list[tuple[PolicyResult, Answers]]:
    return sorted(rows, key=lambda row: (not row[0].whole, -row[1].after.users.value))


def alarms(one: PolicyResult) -> str:
    """Return the alarms by name, each with the seeds at which it went off."""
    return "; ".join(f"{name} (seed{'s' * (len(at) > 1)} {_numbers(at)})" for name, at in one.alarms.items())


def marked(one: PolicyResult) -> str:
    """Return a reward model's name, with the mark of an upper control."""
    return f"{one.reward} ORACLE" if one.shown_rubric else one.reward


def _numbers(numbers: Sequence[int]) -> str:
    return listed(list(map(str, numbers)), most=9)


def _users(found: TrainingResults, name: str) -> int:
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


def _under(found: TrainingResults, condition: str, place: int) -> Under:
    answered = tables(found, condition)
    rows = [one for one, _ in answered[0].rows]
    lines = [
        PlotLine(marked(one), {float(step): Dot(100 * grade) for step, grade in one.watched.items()})
        for one in rows
        if one.watched
    ]
    caption = (
        "Users who are watched while the policy is trained, and no test users. Each training’s report has the curve of "
        "its reward."
    )
    drawn = Figure(_curves(lines, condition, place), caption) if lines else None
    shown = [(table.apart, _answered(found, condition, table)) for table in answered]
    return Under(condition, rows, shown, _trainings(condition, rows), drawn)


def _answered(found: TrainingResults, condition: str, table: AnswerTable) -> PageTable:
    several = len(found.recipe.seeds) > 1
    more = ("change, over trainings too",) * several
    over = " of these trainings; over trainings too: about other seeds as well" * several
    return PageTable(
        f"Policies before and after training, rewarded under {condition}: {table.whose}",
        [
            TableColumn("reward"),
            *columns("before", "after", "change", *more, "failed", look="n"),
            TableColumn("alarms"),
        ],
        [_row(found, one, answers, several=several) for one, answers in table.rows],
        f"Mean grade of {table.whose}, per cent, and the change in points, with 95% intervals over users{over}. What "
        "failed earns nothing.",
        "grades sorts",
    )


def _row(found: TrainingResults, one: PolicyResult, answers: Answers, *, several: bool) -> list[TableCell | str]:
    seeds = "" if one.whole else f"{len(one.seeds)} of {len(found.recipe.seeds)} seeds, in no column"
    change = answers.change
    return [
        TableCell(_oracle(one), seeds, "alarm" * one.shown_rubric),
        _cell(percent(answers.before)),
        _cell(percent(answers.after.users)),
        _cell(difference(change.users)),
        *([_cell(difference(change.both))] if several else []),
        str(change.users.failed),
        TableCell(alarms(one) or "–", look="alarm" * bool(one.alarms)),
    ]


def _trainings(condition: str, rows: Sequence[PolicyResult]) -> PageTable:
    return PageTable(
        f"Each training, rewarded under {condition}",
        [*columns("reward"), *columns("seed", "before", "after", "change", look="n"), *columns("report", "alarms")],
        [_training(one, seed) for one in rows for seed in one.seeds],
        "One row per seed: mean grade of the test users before and after, per cent; its alarms, and the report with "
        "its curves",
        "trainings sorts",
    )


def _training(one: PolicyResult, seed: Seeded) -> list[TableCell | str]:
    names = [f"report {place}" if len(seed.reports) > 1 else "report" for place in range(1, len(seed.reports) + 1)]
    links = [
        Markup('<a href="{}">{}</a>').format(quote(path), name) for path, name in zip(seed.reports, names, strict=True)
    ]
    went = ", ".join(f"{one.alarm.name}{f' ({one.domain})' if one.domain else ''}" for one in seed.alarms)
    return [
        TableCell(_oracle(one), look="alarm" * one.shown_rubric),
        str(seed.seed),
        *seeded(seed),
        Markup(" ").join(links),
        TableCell(went or "–", look="alarm" * bool(went)),
    ]


def _oracle(one: PolicyResult) -> str:
    return f"{one.reward} · ORACLE" if one.shown_rubric else one.reward


def _curves(lines: Sequence[PlotLine], condition: str, place: int) -> Plot:
    return line_plot(
        f"watched-{place}",
        lines,
        title=f"Grade of the watched users under {condition}",
        words=f"{len(lines)} policies while they are trained; the mean over users and seeds, a failed grade being 0.",
        labels=("step", "grade, per cent"),
        beside=True,
    )


def _cell(text: str) -> TableCell:
    value, _, span = text.partition(" ")
    return TableCell(value, span)
