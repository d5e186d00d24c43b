"""People beside the runs, in words, as a plot and as a table: what can be inferred from what a model sees."""

from collections.abc import Iterator, Mapping, Sequence

from pluralrm.annotate.plan import Arm
from pluralrm.core import Estimate, Run
from pluralrm.draw import Band, Dot, Panel, Series, Tone, interval_plot
from pluralrm.metrics.estimates import remark
from pluralrm.report.human import Human, Named
from pluralrm.report.sections import Section, name, tone
from pluralrm.report.shown import Shown
from pluralrm.report.standing import Sentence
from pluralrm.report.words import capital, counted, listed, share, told

REHEARSAL = "REHEARSAL, nobody made these judgments: "
_SAW: Mapping[Arm, str] = {"posts": "the posts alone", "prompt": "the prompt alone", "narrative": "the narrative too"}
_TONES: Mapping[Arm, Tone] = {"posts": "second", "prompt": "second", "narrative": "noise"}


def people(section: Section) -> Iterator[Sentence]:
    """Say what people named, and what runs earn on exactly those items; nothing where nobody was asked."""
    if section.human is not None:
        for text in people_told(section.human, section.runs):
            yield Sentence(capital(text))


def people_told(human: Human, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the sentences on people and runs, the first letters small."""
    ceiling, narrative = human.ceiling, human.narrative
    if ceiling is not None:
        yield _inferred(human, ceiling)
        yield _same_sight(human, runs)
        yield from _beyond(human, ceiling, runs)
    else:
        yield f"{_mark(human)}nobody judged by the posts alone, so what people infer from them is not known."
    if narrative is not None:
        yield (
            f"{_mark(human)}people who were told what the asker has in mind named the labelled answer in "
            f"{told(narrative.one)} per cent of {counted(narrative.one.n, 'judgment')} (is the label right?), on "
            f"{narrative.majority.n:,} of the {counted(human.of, 'item')}."
        )


def _inferred(human: Human, ceiling: Named) -> str:
    saw = "posts alone" if ceiling.arm == "posts" else "prompt alone"
    condition = f" ({human.condition})" if ceiling.arm == "posts" else ""
    return (
        f"{_mark(human)}people who saw the {saw}{condition} named the labelled answer in {told(ceiling.one)} per cent "
        f"of {counted(ceiling.one.n, 'judgment')}, and by majority on {told(ceiling.majority)} per cent of the items: "
        f"what can be inferred, estimated on {human.items:,} of the {counted(human.of, 'item')}, and no bound."
    )


def _same_sight(human: Human, runs: Sequence[Run]) -> str:
    """Return what the best run earns that saw what these people saw, on exactly their items."""
    pairs = [(found, run) for found, run in zip(human.runs, runs, strict=True) if not remark(run)]
    same = [(found, run) for found, run in pairs if run.condition == human.condition]
    where = f"on exactly these items a scorer that knows nothing earns {share(human.chance)}"
    if not same:
        return f"{where}; no run saw what these people saw ({human.condition})."
    found, run = max(same, key=lambda pair: pair[0].value)
    return f"{where}, and the best of {counted(len(same), 'run')} that saw the same, {name(run)}, {told(found)}."


def _beyond(human: Human, ceiling: Named, runs: Sequence[Run]) -> Iterator[str]:
    """Say which runs lie above a single person: they found what people did not, in the posts or elsewhere."""
    high = ceiling.one.high
    above = [
        name(run)
        for run, found in zip(runs, human.runs, strict=True)
        if tone(run) in {"none", "own"}
        and not remark(run)
        and high is not None
        and found.low is not None
        and found.low > high
    ]
    if above:
        yield (
            f"above one person by intervals that do not touch: {listed(above)}. A model may infer more than a person; "
            "or the label can be guessed by other means, which an audit looks for."
        )


def _mark(human: Human) -> str:
    return REHEARSAL if human.rehearsal else ""


# ---------------------------------------------------------------- drawn, and as tables


def beside_people(section: Section, most: int) -> Iterator[Shown]:
    """Yield the plot of the runs on the items that people judged, with people as a line over its interval."""
    human, runs = section.human, section.runs
    if human is None:
        return
    mark = "REHEARSAL: " if human.rehearsal else ""
    title = f"{mark}Runs beside people on the items that people judged, {section.first.benchmark}"
    bands = [Band(f"{mark}one person, {_SAW[arm.arm]}", _dot(arm.one), _TONES[arm.arm]) for arm in human.arms]
    panel = Panel("", [Series("", [_dot(found) for found in human.runs[:most]])], 100 * human.chance, bands)
    plot = interval_plot(
        "human",
        [name(run) for run in runs[:most]],
        [panel],
        title=title,
        words="; ".join(f"{mark}one person who saw {_SAW[arm.arm]}: {told(arm.one)} per cent" for arm in human.arms),
        x_label="accuracy, per cent",
        marked=frozenset(place for place, run in enumerate(runs[:most]) if "oracle" in run.reveals),
    )
    more = f" The first {most} of {len(runs)} runs are drawn; the table has all." if len(runs) > most else ""
    yield Shown(plot, f"{_caption(human)}{more}", ("per cent",), tuple(_rows(human, runs, mark)))


def _caption(human: Human) -> str:
    mark = "REHEARSAL: nobody made these judgments, so what is drawn of people means nothing. " * human.rehearsal
    drawn = "The line is" if len(human.arms) == 1 else "Lines are"
    return (
        f"{mark}Dots are runs on exactly the {human.items:,} of {counted(human.of, 'item')} that people judged, the "
        f"mean over items, with 95% intervals; the dashed line is chance. {drawn} how often one person names the "
        "labelled answer, over the shade of its 95% interval, robust to items and annotators."
    )


def _rows(human: Human, runs: Sequence[Run], mark: str) -> Iterator[tuple[str, str]]:
    for arm in human.arms:
        yield f"{mark}one person, {_SAW[arm.arm]}", told(arm.one)
        yield f"{mark}majority, {_SAW[arm.arm]}", told(arm.majority)
    for run, found in zip(runs, human.runs, strict=True):
        yield name(run), told(found)


def seen_by_people(human: Human) -> list[tuple[str, ...]]:
    """Return one row per arm: what was seen, one person, the majority, and how many judged and said neither."""
    return [
        (
            _SAW[arm.arm],
            told(arm.one),
            told(arm.majority),
            f"{arm.majority.n:,}",
            f"{arm.one.n:,}",
            f"{arm.annotators:,}",
            f"{arm.equal:,}",
            f"{arm.untold:,}",
        )
        for arm in human.arms
    ]


def _dot(found: Estimate) -> Dot:
    low, high = (None if end is None else 100 * end for end in (found.low, found.high))
    return Dot(100 * found.value, low, high)
