"""Which plots a section has, each with its numbers as a table: what is drawn can also be read."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pluralrm.annotate.plan import Arm
from pluralrm.core import Estimate, Row, Run
from pluralrm.metrics.coldstart import ColdStart
from pluralrm.metrics.contrast import margins
from pluralrm.metrics.estimates import estimate, extra_length
from pluralrm.metrics.prompts import Pick, PromptUse
from pluralrm.metrics.roles import declared
from pluralrm.pages.document import Figure, PageTable, TableColumn, columns
from pluralrm.pages.lines import PlotLine, line_plot
from pluralrm.pages.plots import (
    Band,
    Dot,
    Panel,
    Plot,
    PostCurve,
    QuantileBar,
    Series,
    curve_plot,
    interval_plot,
    spread_plot,
)
from pluralrm.pages.style import Tone
from pluralrm.report.human import SIGHT, Human
from pluralrm.report.reading import METRIC_NAMES
from pluralrm.report.sections import Section
from pluralrm.report.words import marked, name, tone
from pluralrm.runs.records import TrainingRecord
from pluralrm.text import capital, counted, difference, listed, percent

MOST_ROWS = 30
"""Runs that one plot shows; its table has all."""
_PANELS = 4
_MOST_DOMAINS = 12
_TONES: Mapping[Arm, Tone] = {"posts": "second", "prompt": "second", "narrative": "noise"}


def figures(section: Section) -> dict[str, list[Figure]]:
    """Return the plots of a section under the part of the report they belong to; a part without data is left out."""
    parts: dict[str, Iterator[Figure]] = {
        "conditions": _conditions(section),
        "human": _beside_people(section, MOST_ROWS),
        "pair": _pair(section),
        "cold": _cold_start(section),
        "domains": _domains(section),
        "margins": _margins(section),
        "length": _length(section),
        "styles": _styles(section),
        "training": _trainings(section),
    }
    found = {part: list(shown) for part, shown in parts.items()}
    return {part: shown for part, shown in found.items() if shown}


def _figure(plot: Plot, caption: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Figure:
    """Return a plot with its numbers: what is drawn can also be read."""
    numbers = PageTable(f"{plot.title}, as a table", [TableColumn(""), *columns(*heads, look="n")], rows, plot.title)
    return Figure(plot, caption, numbers)


def _conditions(section: Section) -> Iterator[Figure]:
    conditions = list(dict.fromkeys(run.condition for run in sorted(section.runs, key=_by_condition)))
    if len(conditions) < 2:
        return
    measured = {(run.model, run.condition): _headline(section, place) for place, run in enumerate(section.runs)}
    tones = {run.condition: tone(run) for run in section.runs}
    models = sorted({run.model for run in section.runs}, key=series_order)
    series = [
        Series(marked(condition, tones[condition]), _dots(measured, models, condition), tones[condition])
        for condition in conditions
    ]
    metric = _metric(section)
    title = f"{capital(metric)} of each model under each condition, {section.first.benchmark}"
    words = f"{len(models)} models under {listed(conditions, 8)}; the dashed line is chance."
    plot = interval_plot(
        "conditions",
        models[:MOST_ROWS],
        [Panel("", [_cut(one) for one in series], 100 * section.chance)],
        title=title,
        words=words,
        x_label=f"{metric}, per cent",
    )
    rows = [(model, *(percent(measured.get((model, one))) for one in conditions)) for model in models]
    yield _figure(
        plot,
        f"Bars are 95% intervals, the dashed line is chance.{_more(models)} Models of one series stand by size.",
        tuple(marked(one, tones[one]) for one in conditions),
        tuple(rows),
    )


def _beside_people(section: Section, most: int) -> Iterator[Figure]:
    """Yield the plot of the runs on the items that people judged, with people as a line over its interval."""
    human, runs = section.human, section.runs
    if human is None:
        return
    mark = "REHEARSAL: " if human.rehearsal else ""
    title = f"{mark}Runs beside people on the items that people judged, {section.first.benchmark}"
    bands = [Band(f"{mark}one person, {SIGHT[arm.arm]}", _dot(arm.one), _TONES[arm.arm]) for arm in human.arms]
    panel = Panel("", [Series("", [_dot(found) for found in human.runs[:most]])], 100 * human.chance, bands)
    plot = interval_plot(
        "human",
        [name(run) for run in runs[:most]],
        [panel],
        title=title,
        words="; ".join(
            f"{mark}one person who saw {SIGHT[arm.arm]}: {percent(arm.one)} per cent" for arm in human.arms
        ),
        x_label="accuracy, per cent",
        marked=frozenset(place for place, run in enumerate(runs[:most]) if "oracle" in run.reveals),
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
    for run, found in zip(runs, human.runs, strict=True):
        yield name(run), percent(found)


def _pair(section: Section) -> Iterator[Figure]:
    known = [one for one in section.personal if one.lift is not None or one.gain is not None]
    if not known:
        return
    known.sort(key=lambda one: (*series_order(one.model), one.conditions["own"]))
    labels = [f"{one.model} · {one.conditions['own']}" for one in known]
    panels = [
        Panel("lift: own − none", [Series("", [_points(one.lift) for one in known[:MOST_ROWS]], "own")], 0.0),
        Panel("gain: own − other", [Series("", [_points(one.gain) for one in known[:MOST_ROWS]], "own")], 0.0),
    ]
    several = sum(one.personalized for one in known)
    plot = interval_plot(
        "pair",
        labels[:MOST_ROWS],
        panels,
        title=f"Context lift and personalization gain, {section.first.benchmark}",
        words=f"{several} of {len(known)} pairs are called personalized.",
        x_label="points",
    )
    rows = [(label, difference(one.lift), difference(one.gain)) for label, one in zip(labels, known, strict=True)]
    yield _figure(
        plot,
        "Only a model right of 0 in both panels, with a significant adjusted p, is called personalized. Bars are 95% "
        f"intervals.{_more(labels)}",
        ("lift", "gain"),
        tuple(rows),
    )


def _cold_start(section: Section) -> Iterator[Figure]:
    for unit in ("posts", "pairs"):
        if found := [one for one in section.curves if one.unit == unit]:
            yield _by_number(section, found, unit)


def _by_number(section: Section, found: Sequence[ColdStart], unit: str) -> Figure:
    curves = [
        PostCurve(
            one.model if len({c.family for c in found}) == 1 else f"{one.model} · {one.family}",
            {number: _dot(measured) for number, measured in one.accuracy.items()},
        )
        for one in found[:12]
    ]
    plot = curve_plot(
        "cold-start" if unit == "posts" else f"cold-start-{unit}",
        curves,
        title=f"Accuracy by number of {unit} shown, {section.first.benchmark}",
        words="One panel per model; the dashed line is chance.",
        labels=(unit, "per cent"),
        line=100 * section.chance,
    )
    counts = sorted({number for one in found for number in one.accuracy})
    rows = [(f"{one.model} · {one.family}", *(percent(one.accuracy.get(number)) for number in counts)) for one in found]
    caption = f"The same items at every number of {unit}; bars are 95% intervals.{_more(found, 12)}"
    return _figure(plot, caption, tuple(f"{number} {unit}" for number in counts), tuple(rows))


def _domains(section: Section) -> Iterator[Figure]:
    domains = list(section.entries[0].summary.domains)
    if len(domains) < 2:
        return
    runs, kept = section.runs, domains[:_MOST_DOMAINS]
    for start in range(0, len(kept), _PANELS):
        here = kept[start : start + _PANELS]
        panels = []
        for domain in here:
            dots = [_dot(entry.summary.domains[domain]) for entry in section.entries[:MOST_ROWS]]
            panels.append(Panel(domain.replace("_", " "), [Series("", dots)], 100 * _domain_chance(section, domain)))
        plot = interval_plot(
            f"domains-{start // _PANELS + 1}",
            _names(runs),
            panels,
            title=f"{capital(_metric(section))} by domain, {section.first.benchmark}",
            words=f"One panel per domain: {listed(here, 8)}; the dashed line is chance.",
            x_label="per cent",
            marked=_oracles(runs),
        )
        rows = [
            (name(run), *(percent(entry.summary.domains[domain]) for domain in here))
            for run, entry in zip(runs, section.entries, strict=True)
        ]
        more = f" The first {_MOST_DOMAINS} of {len(domains)} domains." if len(domains) > len(kept) else ""
        yield _figure(
            plot,
            f"Bars are 95% intervals of each domain alone, the dashed line is chance.{more}{_more(runs)}",
            tuple(here),
            tuple(rows),
        )


def _margins(section: Section) -> Iterator[Figure]:
    spreads = [_spread(run.rows) for run in section.runs]
    if not any(spreads):
        return
    plot = spread_plot(
        "margins",
        _names(section.runs),
        spreads[:MOST_ROWS],
        title=f"Score gaps, {section.first.benchmark}",
        words="Per run, how far the preferred answer's score stands above the best other's; right of 0 is right.",
        x_label="preferred minus best other, in the run’s own typical gaps",
        marked=_oracles(section.runs),
    )
    rows = [
        (name(run), *("–" if found is None else f"{value:+.2f}".replace("-", "−") for value in found or (0.0,) * 5))
        for run, found in zip(section.runs, spreads, strict=True)
    ]
    caption = (
        "Thin from the 5th to the 95th percentile of items, thick over the middle half, a dot at the median; right of "
        "0 the preferred answer wins. Scales of models differ, so each run’s gaps are divided by their root mean "
        f"square. Failed items have no gap.{_more(section.runs)}"
    )
    yield _figure(plot, caption, ("5%", "25%", "median", "75%", "95%"), tuple(rows))


def _length(section: Section) -> Iterator[Figure]:
    longer = [_where(run, lambda row: extra_length(row) > 0) for run in section.runs]
    shorter = [_where(run, lambda row: extra_length(row) < 0) for run in section.runs]
    if not any(longer) or not any(shorter):
        return
    series = [
        Series("preferred answer is the longer", [_points(found) for found in longer[:MOST_ROWS]], "plain"),
        Series("preferred answer is the shorter", [_points(found) for found in shorter[:MOST_ROWS]], "second"),
    ]
    plot = interval_plot(
        "length",
        _names(section.runs),
        [Panel("", series, 100 * section.chance)],
        title=f"Length bias, {section.first.benchmark}",
        words="Accuracy where the preferred answer is longer than the others on average, and where it is shorter.",
        x_label="accuracy, per cent",
        marked=_oracles(section.runs),
    )
    rows = [
        (name(run), percent(one), percent(other)) for run, one, other in zip(section.runs, longer, shorter, strict=True)
    ]
    kinds = [0 if found[0] is None else found[0].n for found in (longer, shorter)]
    counts = f"{kinds[0]:,} items are of the first kind, {kinds[1]:,} of the second"
    caption = (
        f"A model that ignores length has its two marks together; {counts}. Bars are 95% "
        f"intervals.{_more(section.runs)}"
    )
    yield _figure(plot, caption, ("longer", "shorter"), tuple(rows))


def _styles(section: Section) -> Iterator[Figure]:
    known = [one for one in section.prompts if one.picks]
    levels = sorted({(pick.dimension, pick.level) for one in known for pick in one.picks})
    for start in range(0, min(len(known), 12), _PANELS):
        here = known[start : start + _PANELS]
        picks = [{(pick.dimension, pick.level): pick for pick in one.picks} for one in here]
        panels = [
            Panel(f"{one.model} · {one.condition}", [Series("", [_excess(found.get(level)) for level in levels])], 0.0)
            for one, found in zip(here, picks, strict=True)
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
            (_level(*level), *(difference(found[level].excess) if level in found else "–" for found in picks))
            for level in levels
        ]
        caption = (
            "How often a model’s best answer has a style, minus how often that style is on offer. A bar that lies "
            "right of 0 is a style that the model favours over all prompts. Intervals hold for all styles of a model "
            "at once."
        )
        yield _figure(plot, caption, tuple(f"{one.model} · {one.condition}" for one in here), tuple(rows))


def _trainings(section: Section) -> Iterator[Figure]:
    """Yield the loss curves of each fitted model, once, whatever the conditions it was scored under."""
    known = {source.run.model: source.manifest.training for source in section.sources}
    fitted = {model: training for model, training in known.items() if training is not None and training.curve}
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
    for one in uses:
        found = [_level(pick.dimension, pick.level) for pick in one.picks if pick.favoured]
        told_of.append(f"{one.model} favours {listed(found, 3) if found else 'no style beyond chance'}")
    return f"{'; '.join(told_of)}."


def _level(dimension: str, level: str) -> str:
    return f"{dimension}: {level}".replace("_", " ")


def _excess(pick: Pick | None) -> Dot | None:
    return None if pick is None else _points(pick.excess)


def _where(run: Run, wanted: Callable[[Row], bool]) -> Estimate | None:
    rows = [row for row in run.rows if wanted(row)]
    return estimate(rows, "accuracy", "micro") if rows else None


def _spread(rows: Sequence[Row]) -> QuantileBar | None:
    known = [row for row in rows if not row.failed]
    if not known:
        return None
    return QuantileBar(*np.percentile(margins(known), [5, 25, 50, 75, 95]).tolist())


def _dots(measured: dict[tuple[str, str], Estimate], models: Sequence[str], condition: str) -> list[Dot | None]:
    return [_dot(measured[model, condition]) if (model, condition) in measured else None for model in models]


def _dot(found: Estimate) -> Dot:
    low, high = (None if end is None else 100 * end for end in (found.low, found.high))
    return Dot(100 * found.value, low, high)


def _points(found: Estimate | None) -> Dot | None:
    return None if found is None else _dot(found)


def _headline(section: Section, place: int) -> Estimate:
    told_of = section.entries[place].summary
    return told_of.metrics[told_of.headline]


def _metric(section: Section) -> str:
    return METRIC_NAMES[section.entries[0].summary.headline]


def _cut(series: Series) -> Series:
    return Series(series.name, series.dots[:MOST_ROWS], series.tone)


def _names(runs: Sequence[Run]) -> list[str]:
    return [name(run) for run in runs[:MOST_ROWS]]


def _oracles(runs: Sequence[Run]) -> frozenset[int]:
    return frozenset(place for place, run in enumerate(runs[:MOST_ROWS]) if "oracle" in run.reveals)


def _more(shown: Sequence[object], most: int = MOST_ROWS) -> str:
    return f" The first {most} of {len(shown)} are drawn; the table has all." if len(shown) > most else ""


def _by_condition(run: Run) -> tuple[int, int, str]:
    posts = declared(run).amount or 0
    return ("none", "own", "swapped", "noise", "oracle").index(tone(run)), posts, run.condition


def _domain_chance(section: Section, domain: str) -> float:
    widths = [1 / len(row.scores) for row in section.first.rows if row.domain == domain]
    return sum(widths) / len(widths)


# ---------------------------------------------------------------- the order of models

_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([mbt])(?![A-Za-z0-9])", re.IGNORECASE)
_UNITS = {"m": 1e6, "b": 1e9, "t": 1e12}


def series_order(model: str) -> tuple[str, float, str]:
    """Return a sort key: the name without its size, then the number of parameters that the name gives.

    >>> sorted(["org/M-70B", "org/M-8B", "org/A-1B"], key=series_order)
    ['org/A-1B', 'org/M-8B', 'org/M-70B']
    """
    found = _SIZE.search(model)
    if found is None:
        return model, 0.0, model
    return _SIZE.sub("", model, count=1), float(found[1]) * _UNITS[found[2].lower()], model
