"""What was trained, as the page and the terminal show it: sentences and rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from pluralrm.pages import Figure, PageTable, TableCell, TableColumn, columns, number_cell
from pluralrm.pages.lines import PlotLine, line_plot
from pluralrm.pages.plots import Dot, Plot
from pluralrm.study.ppo.results import Answers, Apart, PolicyResult, Seeded, TrainingResults
from pluralrm.text import counted, difference, listed, percent, share, signed


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


def trained_parts(results: TrainingResults) -> list[Under]:
    """Return what the page shows of each condition."""
    return [_under(results, condition, number) for number, condition in enumerate(results.conditions, 1)]


def about(results: TrainingResults) -> str:
    """Return in a sentence what was trained, on whom, and who was asked in the end."""
    recipe, options = results.recipe, results.recipe.declared
    train, test = map(results.users, ("train", "test"))
    each = ", one policy for each domain" if options.per_domain else ""
    seeds = f"seed{'s' * (len(recipe.seeds) > 1)} {_numbers(recipe.seeds)}"
    return (
        f"{options.policy} shown {recipe.condition.spec}, trained by PPO for {counted(options.steps, 'step')} on "
        f"{counted(train, 'user')} of {recipe.benchmark.card.name} ({seeds}{each}; shaping {options.shaping}); "
        f"then {counted(test, 'user')} it has not met are asked{_also(results)}, graded by {options.grader}."
    )


def _also(results: TrainingResults) -> str:
    """Return which questions are asked besides, and how many are not: those of users whom the training has seen."""
    recipe = results.recipe
    if recipe.evaluated is None:
        return ""
    questions = recipe.questions.values()
    items, skipped = sum(len(part.items) for part in questions), sum(part.left_out for part in questions)
    left = f" ({skipped:,} of users who are trained on or watched left out)" if skipped else ""
    return f", and the {counted(items, 'question')} of {recipe.evaluated.card.name}{left}"


def tables(results: TrainingResults, condition: str) -> list[AnswerTable]:
    """Return the tables of one condition, the best policy first: the test users, and the questions of evaluate-on."""
    rows = [policy for policy in results.trained if policy.condition == condition]
    apart = {pair.on: apart_told(pair) for pair in results.apart if pair.condition == condition}
    answer_tables = [AnswerTable("the test users", apart.get("", ""), _ranked([(row, row) for row in rows]))]
    if results.recipe.evaluated is not None:
        name = results.recipe.evaluated.card.name
        ranking = _ranked([(policy, policy.on) for policy in rows if policy.on is not None])
        answer_tables.append(AnswerTable(f"the questions of {name}", apart.get(name, ""), ranking))
    return answer_tables


def _ranked(rows: Sequence[tuple[PolicyResult, Answers]]) -> list[tuple[PolicyResult, Answers]]:
    return sorted(rows, key=lambda row: (not row[0].whole, -row[1].after.users.value))


def alarms(policy: PolicyResult) -> str:
    """Return the alarms by name, each with the seeds at which it went off."""
    return "; ".join(f"{name} (seed{'s' * (len(at) > 1)} {_numbers(at)})" for name, at in policy.alarms.items())


def marked(policy: PolicyResult) -> str:
    """Return a reward model's name, with the mark of an upper control."""
    return f"{policy.reward} ORACLE" if policy.shown_rubric else policy.reward


def _numbers(numbers: Sequence[int]) -> str:
    return listed(list(map(str, numbers)), most=9)


def seeded(seed: Seeded) -> tuple[str, str, str]:
    """Return what a seed gave before and after, and the change, in per cent and points."""
    return share(seed.before), share(seed.after), signed(seed.change)


def apart_told(pair: Apart) -> str:
    """Return the sentence about the best and the worst."""
    users, both = pair.difference
    more = "" if both.low is None else f"; over other trainings too {difference(both)}"
    on = f" on {pair.on}" if pair.on else ""
    return (
        f"Best against worst under {pair.condition}{on}: {pair.best} − {pair.worst} = {difference(users)} points{more} "
        "(chosen by looking, so the intervals hold for all pairs)."
    )


def _under(results: TrainingResults, condition: str, number: int) -> Under:
    answered = tables(results, condition)
    rows = [policy for policy, _ in answered[0].rows]
    lines = [
        PlotLine(marked(policy), {float(step): Dot(100 * grade) for step, grade in policy.watched.items()})
        for policy in rows
        if policy.watched
    ]
    caption = (
        "Users who are watched while the policy is trained, and no test users. Each training’s report has the curve of "
        "its reward."
    )
    drawn = Figure(_curves(lines, condition, number), caption) if lines else None
    parts = [(table.apart, _answered(results, condition, table)) for table in answered]
    return Under(condition, rows, parts, _trainings(condition, rows), drawn)


def _answered(results: TrainingResults, condition: str, table: AnswerTable) -> PageTable:
    several = len(results.recipe.seeds) > 1
    more = ("change, over trainings too",) * several
    over = " of these trainings; over trainings too: about other seeds as well" * several
    return PageTable(
        f"Policies before and after training, rewarded under {condition}: {table.whose}",
        [
            TableColumn("reward"),
            *columns("before", "after", "change", *more, "failed", look="n"),
            TableColumn("alarms"),
        ],
        [_row(results, policy, answers, several=several) for policy, answers in table.rows],
        f"Mean grade of {table.whose}, per cent, and the change in points, with 95% intervals over users{over}. What "
        "failed earns nothing.",
        "grades sorts",
    )


def _row(results: TrainingResults, policy: PolicyResult, answers: Answers, *, several: bool) -> list[TableCell | str]:
    seeds = "" if policy.whole else f"{len(policy.seeds)} of {len(results.recipe.seeds)} seeds, in no column"
    change = answers.change
    return [
        TableCell(_oracle(policy), seeds, "alarm" * policy.shown_rubric),
        number_cell(percent(answers.before)),
        number_cell(percent(answers.after.users)),
        number_cell(difference(change.users)),
        *([number_cell(difference(change.both))] if several else []),
        str(change.users.failed),
        TableCell(alarms(policy) or "–", look="alarm" * bool(policy.alarms)),
    ]


def _trainings(condition: str, rows: Sequence[PolicyResult]) -> PageTable:
    return PageTable(
        f"Each training, rewarded under {condition}",
        [*columns("reward"), *columns("seed", "before", "after", "change", look="n"), *columns("report", "alarms")],
        [_training(row, seed) for row in rows for seed in row.seeds],
        "One row per seed: mean grade of the test users before and after, per cent; its alarms, and the report with "
        "its curves",
        "trainings sorts",
    )


def _training(policy: PolicyResult, seed: Seeded) -> list[TableCell | str]:
    names = [f"report {number}" if len(seed.reports) > 1 else "report" for number in range(1, len(seed.reports) + 1)]
    links = [
        Markup('<a href="{}">{}</a>').format(quote(path), name) for path, name in zip(seed.reports, names, strict=True)
    ]
    went = ", ".join(f"{alarm.alarm.name}{f' ({alarm.domain})' if alarm.domain else ''}" for alarm in seed.alarms)
    return [
        TableCell(_oracle(policy), look="alarm" * policy.shown_rubric),
        str(seed.seed),
        *seeded(seed),
        Markup(" ").join(links),
        TableCell(went or "–", look="alarm" * bool(went)),
    ]


def _oracle(policy: PolicyResult) -> str:
    return f"{policy.reward} · ORACLE" if policy.shown_rubric else policy.reward


def _curves(lines: Sequence[PlotLine], condition: str, number: int) -> Plot:
    return line_plot(
        f"watched-{number}",
        lines,
        title=f"Grade of the watched users under {condition}",
        words=f"{len(lines)} policies while they are trained; the mean over users and seeds, a failed grade being 0.",
        labels=("step", "grade, per cent"),
        beside=True,
    )
