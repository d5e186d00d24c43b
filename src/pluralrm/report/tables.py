"""The tables of a section, as the page shows them."""

from itertools import product

from pluralrm.core import Estimate, Run
from pluralrm.labels import TRAIT
from pluralrm.metrics import PublishedMetric, Standing, Summary, by_tag
from pluralrm.metrics.estimates import failure_kinds, marks
from pluralrm.metrics.official import RULES
from pluralrm.metrics.overview import main_runs
from pluralrm.metrics.plural import Plural
from pluralrm.pages import PageTable, TableCell, TableColumn, columns, interval_bar, number_cell
from pluralrm.report.human import SIGHT, Human
from pluralrm.report.reading import METRIC_NAMES
from pluralrm.report.sections import Board, Section, name
from pluralrm.stats import RankInterval
from pluralrm.text import capital, counted, difference, interval, p_value, percent, share

LANGUAGE = "language"
"""The tag of the language of an item: a slice with intervals of its own, as traits are."""


def ranking(section: Section, board: Board, title: str) -> PageTable:
    """Return a leaderboard, the best first."""
    headline, under = METRIC_NAMES[board.table.headline], f", under {board.condition}" if board.condition else ""
    heads = [
        TableColumn("rank", "nowrap"),
        TableColumn("model"),
        TableColumn("condition", "spec"),
        TableColumn(headline, "n"),
    ]
    heads += [TableColumn("95% interval", "nowrap"), TableColumn(""), TableColumn("worse than the first?", "nowrap")]
    heads += columns(formula(board), "failed", look="n")
    first = board.table.reference
    apart = ["above it"] * first + ["first"] + [_below(entry) for entry in board.table.entries[first + 1 :]]
    pairs = zip(apart, board.pairs, strict=True)
    return PageTable(
        f"Leaderboard of {title}{f' under {board.condition}' if board.condition else ''}",
        heads,
        [_rank(section, entry, run, "" if entry.rank is None else words) for words, (entry, run) in pairs],
        f"{capital(headline)}, per cent, mean of {'domains' if board.table.average == 'macro' else 'items'}{under}. "
        f"Rank: the places that the data leave open. {'The first: of runs that do not see the rubric. ' * bool(first)}"
        f"The dotted line is chance, {100 * section.chance:.1f}.{_people_line(section.human)}",
        "board sorts",
        head=1,
    )


def _people_line(human: Human | None) -> str:
    if human is None or human.ceiling is None:
        return ""
    mark = " REHEARSAL: these judgments are simulated." * human.rehearsal
    items = f"{human.items:,} of {counted(human.of, 'item')}"
    return f"{mark} The line over a shade: one person who saw the {human.ceiling.arm} alone, on {items}."


def _below(entry: Standing) -> str:
    if entry.p_best is None:
        return ""
    p = p_value(entry.p_best)
    return f"{'yes' if entry.below_best else 'not significant'}, p {p if p.startswith('<') else f'= {p}'}"


def _rank(section: Section, entry: Standing, run: Run, apart: str) -> list[TableCell | str]:
    summary, oracle = entry.summary, "alarm" * ("oracle" in run.reveals)
    value, published = summary.metrics[summary.headline], summary.published.get(summary.headline)
    people = ceiling(section.human)
    return [
        places(entry.rank),
        TableCell(summary.model, "" if summary.complete else "unfinished", oracle),
        TableCell(" · ".join([summary.condition, *["ORACLE"] * bool(oracle), *marks(run)]), look=oracle),
        TableCell(share(value.value), strong=True),
        interval(value),
        interval_bar(value, section.chance, people, look=oracle),
        apart,
        "–" if published is None else share(published.value),
        f"{value.failed:,}{at_best(summary)}",
    ]


def at_best(summary: Summary) -> str:
    """Return what a run would earn if every failed item were right; nothing where none failed."""
    return "" if summary.bounds is None else f", at best {share(summary.bounds.best)}"


def ceiling(human: Human | None) -> Estimate | None:
    """Return what one person earns who sees what a model may see; None where none was asked."""
    return None if human is None or human.ceiling is None else human.ceiling.one


def places(rank: RankInterval | None) -> str:
    """Return the ranks that the data leave open; an unfinished run has none."""
    if rank is None:
        return "–"
    return f"{rank.low}–{rank.high}" if rank.low != rank.high else str(rank.low)


def named_by_people(human: Human, title: str) -> PageTable:
    """Return one row per arm: what was seen, one person, the majority, and how many judged and said neither."""
    left_out = f" {capital(human.left_out)}." if human.left_out else ""
    return PageTable(
        f"What people named, {title}",
        [
            TableColumn("people saw"),
            *columns("one person", "majority", "items", "judgments", "annotators", "equal", "cannot tell", look="n"),
        ],
        [
            (
                SIGHT[arm.arm],
                percent(arm.one),
                percent(arm.majority),
                *(f"{n:,}" for n in (arm.majority.n, arm.one.n, arm.annotators, arm.equal, arm.untold)),
            )
            for arm in human.arms
        ],
        f"{'REHEARSAL. ' * human.rehearsal}Per cent of judgments, and of items, with 95% intervals. “Equal” and "
        f"“cannot tell” count as a guess.{left_out}",
        "stacked",
    )


def metric_name(key: str) -> str:
    """Return what a reader calls a metric: `accuracy, mean of domains` for accuracy_macro."""
    for ending, words in (("_macro", "mean of domains"), ("_micro", "mean of items")):
        if key.endswith(ending):
            return f"{METRIC_NAMES.get(key.removesuffix(ending), key)}, {words}"
    return METRIC_NAMES.get(key, key)


def metrics(board: Board, title: str) -> PageTable:
    """Return the metrics beside the headline, each one that any run has."""
    names = dict.fromkeys(key for entry in board.table.entries for key in entry.summary.metrics)
    keys = [key for key in names if key != board.table.headline]
    return PageTable(
        f"Other metrics of {title}",
        [TableColumn(""), *columns(*map(metric_name, keys), look="n")],
        [
            (name(run), *(number_cell(percent(entry.summary.metrics.get(key))) for key in keys))
            for entry, run in board.pairs
        ],
        "Other metrics, per cent, with 95% intervals",
        "stacked sorts",
    )


def reasons(board: Board) -> list[tuple[str, list[str]]]:
    """Return why a published number differs from ours, each reason with the runs that share it."""
    by_reason: dict[str, list[str]] = {}
    for entry, run in board.pairs:
        for key, published in entry.summary.published.items():
            own = entry.summary.metrics[key].value
            if published.value is None or abs(published.value - own) > 1e-12 or published.first or published.parts:
                by = published.source or f"the rule “{published.rule}”"
                numbers = f"{metric_name(key)} {share(own)} here, {share(published.value)} by {by}"
                by_reason.setdefault(f"{numbers}: {published.reason}", []).append(name(run))
    return [(reason, list(dict.fromkeys(runs))) for reason, runs in by_reason.items()]


def _published(board: Board) -> list[PublishedMetric]:
    """Return the headlines by a published formula."""
    published = (entry.summary.published.get(board.table.headline) for entry in board.table.entries)
    return [metric for metric in published if metric is not None]


def formula(board: Board) -> str:
    """Return the name of the column beside the headline: the paper's on its own items, elsewhere that of its rule."""
    published = _published(board)
    if any(metric.source for metric in published):
        return "as published"
    return " / ".join(dict.fromkeys(metric.rule for metric in published))


def formulas(board: Board) -> list[str]:
    """Return what the rules say that the column is named by; nothing where it is the paper's."""
    published = _published(board)
    rules = dict.fromkeys(metric.rule for metric in published if not any(other.source for other in published))
    return [f"{rule}: {RULES[rule]}" for rule in rules]


def methods(board: Board) -> list[str]:
    """Return how the intervals of the headline were computed."""
    values = [entry.summary.metrics[board.table.headline] for entry in board.table.entries]
    return list(dict.fromkeys(value.method for value in values))


def family(section: Section) -> str:
    """Return over how many models the p-values of lift and gain are adjusted, and why a table of pairs says more."""
    number = sum(member.tested for member in section.personal)
    words = f", adjusted over {counted(number, 'test')} (Holm; a model blind to whose posts are shown is none)"
    most = max((board.tests for board in section.boards), default=0)
    return f"{words}. “Every pair of runs” adjusts over {most:,}, so p may be larger there" if most > number else words


def matrix(board: Board, title: str) -> PageTable:
    """Return differences of runs above the diagonal, p below."""
    size = len(board.runs)
    cells = [[TableCell("", look="self") for _ in range(size)] for _ in range(size)]
    for pair in board.table.differences:
        value, shade = pair.difference, pair.significant
        text = number_cell(difference(value))
        look = f"difference{shade * (' up' if value.value > 0 else ' down')}"
        cells[pair.first][pair.second] = text._replace(look=look, strong=shade)
        cells[pair.second][pair.first] = TableCell(p_value(pair.p_adjusted), look=f"p{' up' * shade}", strong=shade)
    red = [" alarm" * ("oracle" in run.reveals) for run in board.runs]
    labels = [
        TableCell(f"{number} {name(run)}", look=f"nowrap{red[number - 1]}") for number, run in enumerate(board.runs, 1)
    ]
    return PageTable(
        f"Paired differences, {title}{f' under {board.condition}' if board.condition else ''}",
        [TableColumn(""), *columns(*(str(number) for number in range(1, size + 1)), look="n")],
        [(label, *row) for label, row in zip(labels, cells, strict=True)],
        "Above the diagonal: row minus column in points, with the 95% interval of this pair by itself; fixed: the same "
        "scores on every item, or both fixed by design. Below: p by sign flips, adjusted over the "
        f"{counted(board.tests, 'test')} of this table (Holm). Bold and shaded: significantly different at 5%.",
        "matrix",
    )


def prompt_sensitivity(section: Section, title: str) -> PageTable:
    """Return how much each run uses the prompt."""
    return PageTable(
        f"Use of the prompt, {title}",
        [
            *columns("model", "condition"),
            *columns("prompt sensitivity, points", "records with one favourite for all prompts, per cent", look="n"),
        ],
        [
            (prompt.model, prompt.condition, difference(prompt.sensitivity), percent(prompt.one_favourite))
            for prompt in section.prompts
        ],
        "Use of the prompt, with 95% intervals",
    )


def users(result: Plural, title: str) -> PageTable:
    """Return what users have of each model."""
    heads = ("user mean", "worst tenth", "below mean", "regret", "Nash", "calibration")
    rows = [
        (
            row.label,
            *(percent(row.utilitarian), percent(row.worst_decile), difference(row.below_mean)),
            *(difference(row.regret), percent(row.nash)),
            percent(None if row.calibration is None else row.calibration.error),
        )
        for row in result.rows
    ]
    full = [n for n in range(len(heads) + 1) if any(row[n] != "–" for row in rows)]
    numbers = [TableColumn("model"), *columns(*heads, look="n")]
    caption = "Per cent and points with 95% intervals, over users and the prompts that they share."
    return PageTable(
        f"Users of each model, {title}", [numbers[n] for n in full], [[row[n] for n in full] for row in rows], caption
    )


def sided(result: Plural, title: str) -> PageTable | None:
    """Return with whom each model sides where a person and the crowd, or their own world ranking, differ."""
    rows = [
        (
            row.label,
            "the crowd" if sides.against == "crowd" else "their world ranking",
            *map(percent, (sides.person, sides.crowd, sides.neither)),
            *(f"{n:,}" for n in (sides.person.failed, sides.person.n)),
        )
        for row in result.rows
        for sides in row.sides
    ]
    heads = ("with the person", "with the other", "neither", "failed", "items")
    numbers = [*columns("model", "person against"), *columns(*heads, look="n")]
    caption = "Per cent of the items on which the person prefers another candidate, with 95% intervals."
    return PageTable(f"With whom models side, {title}", numbers, rows, caption) if rows else None


def lists(result: Plural, title: str) -> PageTable | None:
    """Return for each list of models the largest group of users that prefers one other model."""
    rows = [
        (
            label,
            result.rows[entry.rival].label,
            percent(entry.group),
            f"{100 / len(entry.listed):.0f}" if len(entry.listed) > 1 else "–",
            difference(entry.advantage),
            entry.verdict if len(entry.listed) > 1 else "–",
        )
        for label, entry in result.lists
    ]
    heads = [
        *columns("list", "preferred"),
        *columns("by users", "over", "other items", look="n"),
        TableColumn("verdict"),
    ]
    caption = "Would a group above 1/k of the users rather have another model than each of the best k?"
    return PageTable(f"Lists of models, {title}", heads, rows, caption) if rows else None


def groups(section: Section, title: str) -> PageTable | None:
    """Return each model by what users declared, and by language: the lowest group, and how far below the highest."""
    tags = {tag for row in section.first.rows for tag in row.tags if tag == LANGUAGE or tag.startswith(TRAIT)}
    rows: list[list[TableCell | str]] = []
    for tag, run in product(sorted(tags), main_runs(section.runs)):
        slices = by_tag(run, tag)
        if slices.worst is not None:
            cells = [tag.removeprefix(TRAIT), f"{len(slices.groups):,}", name(run), slices.worst or "not declared"]
            rows.append([*cells, *(number_cell(percent(estimate)) for estimate in (slices.lowest, slices.gap))])
    heads = [*columns("by"), TableColumn("groups", "n"), TableColumn("run"), TableColumn("lowest group")]
    heads += columns("its users", "highest − lowest", look="n")
    caption = (
        f"{capital(METRIC_NAMES.get(section.overview.headline, section.overview.headline))} of the lowest group, per "
        "cent, and points; intervals hold for all groups at once. Every group, lift and gain: "
        "pluralrm compare RUNS --by trait:NAME"
    )
    return PageTable(f"By what users declared, {title}", heads, rows, caption, "sorts") if rows else None


def failures(section: Section, title: str, *, text: bool) -> PageTable | None:
    """Return the kinds of failures of each run, the most frequent first; without `text`, no example."""
    rows = []
    for run in (run for run in section.runs if run.failed):
        for kind, count, item, detail in failure_kinds(run):
            rows.append((name(run), kind, counted(count, "item"), f"{item}: {detail}" if text else item))
    if not rows:
        return None
    heads = [*columns("run", "kind"), TableColumn("items", "n"), TableColumn("an example", "wide")]
    caption = "Items without a score count as wrong and stay in the denominator"
    return PageTable(f"Failures, {title}", heads, rows, caption)
