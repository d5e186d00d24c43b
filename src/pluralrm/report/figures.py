"""Which plots a section has, each with its numbers as a table: what is drawn can also be read."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pluralrm.annotate.plan import Arm
from pluralrm.core import Estimate, Row, Run
from pluralrm.metrics.contrast import ColdStart, margins
from pluralrm.metrics.estimates import estimate, extra_lengths
from pluralrm.metrics.prompts import Pick, PromptUse
from pluralrm.metrics.roles import declared
from pluralrm.metrics.units import by_chance, units_of
from pluralrm.pages import Figure, PageTable, TableColumn, Tone, columns
from pluralrm.pages.lines import PlotLine, line_plot
from pluralrm.pages.plots import (
    Band,
    Dot,
    Plot,
    PlotPanel,
    PostCurve,
    QuantileBar,
    Series,
    curve_plot,
    dot_of,
    interval_plot,
    spread_plot,
)
from pluralrm.report.human import SIGHT, Human
from pluralrm.report.reading import METRIC_NAMES
from pluralrm.report.sections import Section, marked, name, tone
from pluralrm.runs.records import TrainingRecord
from pluralrm.stats.clusters import BoolArray
from pluralrm.text import capital, counted, difference, listed, percent

MOST_ROWS = 30
"""Runs that one plot shows; its table has all."""
_MOST_MODELS = 20
"""Models that one plot shows, as the first screen ranks them; its table has every run."""
_PANELS = 4
_QUANTILES = (5, 25, 50, 75, 95)
_MOST_DOMAINS = 12
_TONES: Mapping[Arm, Tone] = {"posts": "second", "prompt": "second", "narrative": "noise"}


def figures(section: Section) -> dict[str, list[Figure]]:
    """Return the plots of a section under the part of the report they belong to; a part without data is left out."""
    parts: dict[str, Iterator[Figure]] = {
        "conditions": _conditions(section),
        "human": _beside_people(section, MOST_ROWS),
        "pair": _pair(section),
        "users": _users(section),
        "cold": _cold_start(section),
        "domains": _domains(section),
        "margins": _margins(section),
        "length": _length(section),
        "styles": _styles(section),
        "training": _trainings(section),
    }
    groups = {part: list(plots) for part, plots in parts.items()}
    return {part: plots for part, plots in groups.items() if plots}


def _figure(plot: Plot, caption: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Figure:
    """Return a plot with its numbers: what is drawn can also be read."""
    numbers = PageTable(f"{plot.title}, as a table", [TableColumn(""), *columns(*heads, look="n")], rows, plot.title)
    return Figure(plot, caption, numbers)


def _conditions(section: Section) -> Iterator[Figure]:
    conditions = list(dict.fromkeys(run.condition for run in sorted(section.runs, key=_by_condition)))
    if len(conditions) < 2:
        return
    measured = {(run.model, run.condition): _headline(section, index) for index, run in enumerate(section.runs)}
    tones = {run.condition: tone(run) for run in section.runs}
    models = sorted({section.runs[index].model for index in _chosen(section)}, key=series_order)
    every = sorted({run.model for run in section.runs}, key=series_order)
    series = [
        Series(marked(condition, tones[condition]), _dots(measured, models, condition), tones[condition])
        for condition in conditions
    ]
    metric = _metric(section)
    title = f"{capital(metric)} of each model under each condition, {section.first.benchmark}"
    words = f"{len(models)} models under {listed(conditions, 8)}; the dashed line is chance."
    plot = interval_plot(
        "conditions",
        models,
        [PlotPanel("", series, 100 * section.chance)],
        title=title,
        words=words,
        x_label=f"{metric}, per cent",
    )
    rows = [(model, *(percent(measured.get((model, condition))) for condition in conditions)) for model in every]
    yield _figure(
        plot,
        f"Bars are 95% intervals, the dashed line is chance.{_more(every, len(models))} Models of one series stand by "
        "size.",
        tuple(marked(condition, tones[condition]) for condition in conditions),
        tuple(rows),
    )


def _beside_people(section: Section, most: int) -> Iterator[Figure]:
    """Yield the plot of the runs on the items that people judged, with people as a line over its interval."""
    human, runs = section.human, section.runs
    if human is None:
        return
    mark = "REHEARSAL: " if human.rehearsal else ""
    title = f"{mark}Runs beside people on the items that people judged, {section.first.benchmark}"
    bands = [Band(f"{mark}one person, {SIGHT[arm.arm]}", dot_of(arm.one), _TONES[arm.arm]) for arm in human.arms]
    panel = PlotPanel("", [Series("", [dot_of(run) for run in human.runs[:most]])], 100 * human.chance, bands)
    plot = interval_plot(
        "human",
        [name(run) for run in runs[:most]],
        [panel],
        title=title,
        words="; ".join(
            f"{mark}one person who saw {SIGHT[arm.arm]}: {percent(arm.one)} per cent" for arm in human.arms
        ),
        x_label="accuracy, per cent",
        marked=frozenset(index for index, run in enumerate(runs[:most]) if "oracle" in run.reveals),
    )
    more = f" The first {most} of {len(runs)} runs are drawn; the table has all." if len(runs) > most else ""
    yield _figure(plot, f"{_people_caption(human)}{more}", ("per cent",), tuple(_people_rows(human, runs, mark)))


def _people_caption(human: Human) -> str:
    mark = "REHEARSAL: these judgments are simulated, so what is drawn of people means nothing. " * human.rehearsal
    drawn = "The line is" if len(human.arms) == 1 else "Lines are"
    return (
        f"{mark}Dots are runs on exactly the {human.items:,} of {counted(human.of, 'item')} that people judged, the "
        f"mean over items, with 95% intervals; the dashed line is chance. {drawn} how often one person names the "
        "labelled answer, over the shade of its 95% interval, robust to items and annotators."
    )


def _people_rows(human: Human, runs: Sequence[Run], mark: str) -> Iterator[tuple[str, str]]:
    for arm in human.arms:
        yield f"{mark}one person, {SIGHT[arm.arm]}", percent(arm.one)
        yield f"{mark}majority, {SIGHT[arm.arm]}", percent(arm.majority)
    for run, accuracy in zip(runs, human.runs, strict=True):
        yield name(run), percent(accuracy)


def _pair(section: Section) -> Iterator[Figure]:
    pairs = [pair for pair in section.personal if pair.lift is not None or pair.gain is not None]
    if not pairs:
        return
    pairs.sort(key=lambda pair: (*series_order(pair.model), pair.conditions["own"]))
    labels = [f"{pair.model} · {pair.conditions['own']}" for pair in pairs]
    panels = [
        PlotPanel("lift: own − none", [Series("", [_points(pair.lift) for pair in pairs[:MOST_ROWS]], "own")], 0.0),
        PlotPanel("gain: own − other", [Series("", [_points(pair.gain) for pair in pairs[:MOST_ROWS]], "own")], 0.0),
    ]
    several = sum(pair.personalized for pair in pairs)
    plot = interval_plot(
        "pair",
        labels[:MOST_ROWS],
        panels,
        title=f"Context lift and personalization gain, {section.first.benchmark}",
        words=f"{several} of {len(pairs)} pairs are called personalized.",
        x_label="points",
    )
    rows = [(label, difference(pair.lift), difference(pair.gain)) for label, pair in zip(labels, pairs, strict=True)]
    yield _figure(
        plot,
        "Only a model right of 0 in both panels, with a significant adjusted p, is called personalized. Bars are 95% "
        f"intervals.{_more(labels)}",
        ("lift", "gain"),
        tuple(rows),
    )


def _users(section: Section) -> Iterator[Figure]:
    """Yield the plot of users' accuracies, each model beside users who would differ by chance alone."""
    if section.plural is None:
        return
    rows, labels, bars = section.plural.rows, [], []
    for row in rows[:_MOST_MODELS]:
        labels += [row.label, "if users were alike"]
        bars += [QuantileBar(*np.percentile(100 * np.array(row.users), _QUANTILES).tolist())]
        bars += [QuantileBar(*(100 * value for value in row.equal))]
    plot = spread_plot(
        "users",
        labels,
        bars,
        title=f"Users' accuracies, {section.first.benchmark}",
        words="Per model, the spread of users' accuracies, and below it that of users of one accuracy.",
        x_label="accuracy of a user, per cent",
    )
    numbers = [(label, *(f"{value:.1f}" for value in bar)) for label, bar in zip(labels, bars, strict=True)]
    caption = (
        "Thin from the 5th to the 95th percentile of users, thick over the middle half, a dot at the median. Below it: "
        "what users of one accuracy would show on as many items, by chance. A clearly wider spread: users differ."
        f"{_more(rows, _MOST_MODELS)}"
    )
    yield _figure(plot, caption, ("5%", "25%", "median", "75%", "95%"), tuple(numbers))


def _cold_start(section: Section) -> Iterator[Figure]:
    for unit in ("posts", "pairs"):
        if curves := [curve for curve in section.curves if curve.unit == unit]:
            yield _by_number(section, curves, unit)


def _by_number(section: Section, cold_starts: Sequence[ColdStart], unit: str) -> Figure:
    curves = [
        PostCurve(
            curve.model if len({c.family for c in cold_starts}) == 1 else f"{curve.model} · {curve.family}",
            {number: dot_of(measured) for number, measured in curve.accuracy.items()},
        )
        for curve in cold_starts[:12]
    ]
    plot = curve_plot(
        "cold-start" if unit == "posts" else f"cold-start-{unit}",
        curves,
        title=f"Accuracy by number of {unit} shown, {section.first.benchmark}",
        words="One panel per model; the dashed line is chance.",
        labels=(unit, "per cent"),
        line=100 * section.chance,
    )
    counts = sorted({number for curve in cold_starts for number in curve.accuracy})
    rows = [
        (f"{curve.model} · {curve.family}", *(percent(curve.accuracy.get(number)) for number in counts))
        for curve in cold_starts
    ]
    caption = f"The same items at every number of {unit}; bars are 95% intervals.{_more(cold_starts, 12)}"
    return _figure(plot, caption, tuple(f"{number} {unit}" for number in counts), tuple(rows))


def _domains(section: Section) -> Iterator[Figure]:
    domains = list(section.entries[0].summary.domains)
    if len(domains) < 2:
        return
    runs, first = section.runs, domains[:_MOST_DOMAINS]
    for start in range(0, len(first), _PANELS):
        here = first[start : start + _PANELS]
        panels = []
        for domain in here:
            dots = [dot_of(section.entries[index].summary.domains[domain]) for index in _chosen(section)]
            panels.append(
                PlotPanel(domain.replace("_", " "), [Series("", dots)], 100 * _domain_chance(section, domain))
            )
        plot = interval_plot(
            f"domains-{start // _PANELS + 1}",
            _names(section),
            panels,
            title=f"{capital(_metric(section))} by domain, {section.first.benchmark}",
            words=f"One panel per domain: {listed(here, 8)}; the dashed line is chance.",
            x_label="per cent",
            marked=_oracles(section),
        )
        rows = [
            (name(run), *(percent(entry.summary.domains[domain]) for domain in here))
            for run, entry in zip(runs, section.entries, strict=True)
        ]
        more = f" The first {_MOST_DOMAINS} of {len(domains)} domains." if len(domains) > len(first) else ""
        yield _figure(
            plot,
            f"Bars are 95% intervals of each domain alone, the dashed line is chance.{more}{_of_models(section)}",
            tuple(here),
            tuple(rows),
        )


def _margins(section: Section) -> Iterator[Figure]:
    spreads = [_spread(run.rows) for run in section.runs]
    if not any(spreads):
        return
    plot = spread_plot(
        "margins",
        _names(section),
        [spreads[index] for index in _chosen(section)],
        title=f"Score gaps, {section.first.benchmark}",
        words="Per model, how far the preferred answer's score stands above the best other's; right of 0 is right.",
        x_label="preferred minus best other, in the run’s own typical gaps",
        marked=_oracles(section),
    )
    rows = [
        (name(run), *("–" if spread is None else f"{value:+.2f}".replace("-", "−") for value in spread or (0.0,) * 5))
        for run, spread in zip(section.runs, spreads, strict=True)
    ]
    caption = (
        "Thin from the 5th to the 95th percentile of items, thick over the middle half, a dot at the median; right of "
        "0 the preferred answer wins. Scales of models differ, so each run’s gaps are divided by their root mean "
        f"square. Failed items have no gap.{_of_models(section)}"
    )
    yield _figure(plot, caption, ("5%", "25%", "median", "75%", "95%"), tuple(rows))


def _length(section: Section) -> Iterator[Figure]:
    extra = [extra_lengths(run.rows) for run in section.runs]
    longer = [_where(run, lengths > 0) for run, lengths in zip(section.runs, extra, strict=True)]
    shorter = [_where(run, lengths < 0) for run, lengths in zip(section.runs, extra, strict=True)]
    if not any(longer) or not any(shorter):
        return
    series = [
        Series("preferred answer is the longer", [_points(longer[index]) for index in _chosen(section)], "plain"),
        Series("preferred answer is the shorter", [_points(shorter[index]) for index in _chosen(section)], "second"),
    ]
    plot = interval_plot(
        "length",
        _names(section),
        [PlotPanel("", series, 100 * section.chance)],
        title=f"Length bias, {section.first.benchmark}",
        words="Accuracy where the preferred answer is longer than the others on average, and where it is shorter.",
        x_label="accuracy, per cent",
        marked=_oracles(section),
    )
    rows = [
        (name(run), percent(first), percent(other))
        for run, first, other in zip(section.runs, longer, shorter, strict=True)
    ]
    kinds = [0 if side[0] is None else side[0].n for side in (longer, shorter)]
    counts = f"{kinds[0]:,} items are of the first kind, {kinds[1]:,} of the second"
    caption = (
        f"A model that ignores length has its two marks together; {counts}. Bars are 95% "
        f"intervals.{_of_models(section)}"
    )
    yield _figure(plot, caption, ("longer", "shorter"), tuple(rows))


def _styles(section: Section) -> Iterator[Figure]:
    uses = [prompt for prompt in section.prompts if prompt.picks]
    levels = sorted({(pick.dimension, pick.level) for use in uses for pick in use.picks})
    for start in range(0, min(len(uses), 12), _PANELS):
        here = uses[start : start + _PANELS]
        picks = [{(pick.dimension, pick.level): pick for pick in use.picks} for use in here]
        panels = [
            PlotPanel(
                f"{use.model} · {use.condition}", [Series("", [_excess(by_level.get(level)) for level in levels])], 0.0
            )
            for use, by_level in zip(here, picks, strict=True)
        ]
        plot = interval_plot(
            f"styles-{start // _PANELS + 1}",
            [_level(*level) for level in levels],
            panels,
            title=f"Which style each model picks, {section.first.benchmark}",
            words=_favoured(here),
            x_label="picked minus offered, points",
        )
        rows = [
            (_level(*level), *(difference(pick[level].excess) if level in pick else "–" for pick in picks))
            for level in levels
        ]
        caption = (
            "How often a model’s best answer has a style, minus how often that style is on offer. A bar that lies "
            "right of 0 is a style that the model favours over all prompts. Intervals hold for all styles of a model "
            "at once."
        )
        yield _figure(plot, caption, tuple(f"{use.model} · {use.condition}" for use in here), tuple(rows))


def _trainings(section: Section) -> Iterator[Figure]:
    """Yield the loss curves of each fitted model, once, whatever the conditions it was scored under."""
    trainings = {source.run.model: source.manifest.training for source in section.sources}
    fitted = {model: training for model, training in trainings.items() if training is not None and training.curve}
    for number, (model, training) in enumerate(fitted.items(), 1):
        yield _losses(number, model, training)


def _losses(number: int, model: str, training: TrainingRecord) -> Figure:
    plot = line_plot(
        f"training-{number}",
        [
            PlotLine("training users", {float(step.number): Dot(step.training) for step in training.curve}),
            PlotLine("users held out", {float(step.number): Dot(step.held_out) for step in training.curve}),
        ],
        title=f"Loss of {model} while it was fitted",
        words=f"{len(training.curve)} points: mean −log probability of a labelled pair; a coin flip has ln 2 = 0.693.",
        labels=("epoch", "loss"),
    )
    rows = tuple((str(step.number), f"{step.training:.4f}", f"{step.held_out:.4f}") for step in training.curve)
    loss = "The loss is the mean −log probability of a labelled pair; a coin flip has ln 2 = 0.693."
    caption = f"{model}: {training.told} {loss}"
    return _figure(plot, caption, ("training users", "users held out"), rows)


def _favoured(uses: Sequence[PromptUse]) -> str:
    told_of = []
    for use in uses:
        levels = [_level(pick.dimension, pick.level) for pick in use.picks if pick.favoured]
        told_of.append(f"{use.model} favours {listed(levels, 3) if levels else 'no style beyond chance'}")
    return f"{'; '.join(told_of)}."


def _level(dimension: str, level: str) -> str:
    return f"{dimension}: {level}".replace("_", " ")


def _excess(pick: Pick | None) -> Dot | None:
    return None if pick is None else _points(pick.excess)


def _where(run: Run, mask: BoolArray) -> Estimate | None:
    """Return the accuracy on the rows where the mask holds; None where it does nowhere."""
    places = np.flatnonzero(mask).tolist()
    rows = [run.rows[index] for index in places]
    return estimate(rows, "accuracy", "micro", parts=units_of(run, "accuracy").at(places)) if rows else None


def _spread(rows: Sequence[Row]) -> QuantileBar | None:
    valid = [row for row in rows if not row.failed]
    if not valid:
        return None
    return QuantileBar(*np.percentile(margins(valid), _QUANTILES).tolist())


def _dots(measured: dict[tuple[str, str], Estimate], models: Sequence[str], condition: str) -> list[Dot | None]:
    return [dot_of(measured[model, condition]) if (model, condition) in measured else None for model in models]


def _points(estimate: Estimate | None) -> Dot | None:
    return None if estimate is None else dot_of(estimate)


def _headline(section: Section, index: int) -> Estimate:
    told_of = section.entries[index].summary
    return told_of.metrics[told_of.headline]


def _metric(section: Section) -> str:
    return METRIC_NAMES[section.entries[0].summary.headline]


def _chosen(section: Section) -> list[int]:
    """Return the runs that are drawn: those of the first screen's rows, in their order, without control conditions."""
    places = {(run.model, run.condition): index for index, run in reversed(list(enumerate(section.runs)))}
    rows = section.overview.rows[:_MOST_MODELS]
    return [places[section.names[row.model], row.condition] for row in rows]


def _names(section: Section) -> list[str]:
    return [name(section.runs[index]) for index in _chosen(section)]


def _oracles(section: Section) -> frozenset[int]:
    return frozenset(n for n, index in enumerate(_chosen(section)) if "oracle" in section.runs[index].reveals)


def _of_models(section: Section) -> str:
    """Return which models are drawn; the table below a plot has control conditions too."""
    drawn, rows = len(_chosen(section)), len(section.overview.rows)
    first = f" The first {drawn} of {rows} models are drawn; the table has all." if drawn < rows else ""
    return first or " The table has the control conditions too." * (len(section.runs) > rows)


def _more(rows: Sequence[object], most: int = MOST_ROWS) -> str:
    return f" The first {most} of {len(rows)} are drawn; the table has all." if len(rows) > most else ""


def _by_condition(run: Run) -> tuple[int, int, str]:
    posts = declared(run).amount or 0
    return ("none", "own", "swapped", "noise", "oracle").index(tone(run)), posts, run.condition


def _domain_chance(section: Section, domain: str) -> float:
    shares = [by_chance(row) for row in section.first.rows if row.domain == domain]
    return sum(shares) / len(shares)


# ---------------------------------------------------------------- the order of models

_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([mbt])(?![A-Za-z0-9])", re.IGNORECASE)
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}


def series_order(model: str) -> tuple[str, float, str]:
    """Return a sort key: the name without its size, then the number of parameters that the name gives.

    >>> sorted(["org/M-70B", "org/M-8B", "org/A-1B"], key=series_order)
    ['org/A-1B', 'org/M-8B', 'org/M-70B']
    """
    match = _SIZE.search(model)
    if match is None:
        return model, 0.0, model
    return _SIZE.sub("", model, count=1), float(match[1]) * _UNITS[match[2].lower()], model
