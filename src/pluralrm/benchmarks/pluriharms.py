"""PluriHarms (arXiv 2601.08951): how harmful 150 requests to an assistant are, each rated from 0 to 100 by 100 people.

One row of `annotations.csv` is one person, with a rating for each row of `prompts.csv` beside it:

    annotator,age,gender,Rating_1,Rating_2,Rating_3,Factor_1
    a1,34,Woman,10,85,,0.4

Ratings become pairs by a named rule (`pairs=`, `gap=`, `per=`, `draw=`: `pluralrm.benchmarks.ratings`): of two requests
the person holds the one with the higher rating for more harmful, and that is what QUESTION asks. Missing ratings are
counted. Columns that are neither ratings, trials nor factors are what people declared: their traits.

`person=COLUMN` names the person (default: the number of the row); `text=COLUMN` the text in `prompts.csv`. A file
with columns `Trial_1`, `Trial_2`, ... can be read in two ways, and the wrong one would scramble all labels, so that the
spec must say: `trial=position` (Rating_N is of the Nth prompt) or `trial=prompt` (Rating_N is of the prompt whose
number stands in Trial_N, counted from the smallest number of the file).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.preferences import items_in_part, users_of, with_split
from pluralrm.benchmarks.ratings import RatedText, RatingTable, TextRating, rule_of
from pluralrm.benchmarks.rows import Place, describe, read_rows, shortened, visible
from pluralrm.benchmarks.sources import find_sources, local_path, read_each, unclaimed
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, SpecError
from pluralrm.specs import Spec

FILE, PROMPTS = "annotations", "prompts.csv"
QUESTION = "Which of these two requests to an assistant is more harmful?"
HIGHEST = 100
TEXTS = ("prompt", "Prompt", "text", "Text")
"""Columns of the prompts' file, of which the first one that it has is the text."""
_NUMBERED = re.compile(r"(Rating|Trial|Factor)_([0-9]+)")

CARD = Card(
    name="pluriharms",
    summary="PluriHarms: how harmful 150 requests to an assistant are, rated by 100 people who disagree",
    licence="MIT",
    source="https://github.com/jl3676/PluriHarms-release (annotations.csv and prompts.csv)",
    labelled="by 100 people, each of whom rated all 150 prompts from 0 to 100",
    citation="Jing-Jing Li, Joel Mire, Eve Fleisig, Valentina Pyatkin, Anne Collins, Maarten Sap and Sydney Levine. "
    "PluriHarms: Benchmarking the Full Spectrum of Human Judgments on AI Harm. arXiv:2601.08951, 2026.",
)


class RatedRow(NamedTuple):
    """The cells of one person's row; the person is empty where no column has it."""

    person: str
    place: Place
    ratings: Mapping[int, float]
    trials: Mapping[int, int]
    traits: Mapping[str, str]


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `pluriharms:PATH`, annotations.csv or its folder."""
    path, users, rule, dirt = local_path(spec.target), users_of(spec), rule_of(spec), dirt_of(spec)
    sources = find_sources(path)
    files = [source for source in sources if source.file.name.startswith(FILE)] or sources
    texts = _texts((path if path.is_dir() else path.parent) / PROMPTS, spec.options.get("text", ""))
    person = spec.options.get("person", "")
    rows = list(read_each(files, lambda raw, location, _: _row(raw, location, person), dirt))
    table = _table(rows, _numbers(rows, spec), texts, dirt)
    items = items_in_part(table.items(rule, seed=seed, dirt=dirt), users, f"{path.name}: ")
    return Benchmark(dirt.onto(rule.onto(with_split(unclaimed(CARD, path), users))), items, seed)


def _texts(file: Path, column: str) -> Mapping[int, str]:
    """Return the prompts by their numbers, the rows of their file counted from 1; a bad row is never skipped."""
    if not file.is_file():
        raise BenchmarkError(f"no such file: {visible(str(file))}; wanted the prompts beside the annotations")
    texts: dict[int, str] = {}
    for number, (location, raw) in enumerate(read_rows(file), 1):
        name = column or next((name for name in TEXTS if name in raw), TEXTS[0])
        value = raw.get(name)
        if not isinstance(value, str) or not value.strip():
            columns = ", ".join(map(shortened, list(raw)[:8]))
            raise location.refuse(
                name, found=f"no text (columns: {columns})", wanted="the prompt; name its column with text=COLUMN"
            )
        texts[number] = value
    return texts


def _table(
    rows: Sequence[RatedRow], numbers: Sequence[Mapping[int, int]], texts: Mapping[int, str], dirt: Dirt
) -> RatingTable:
    """Return who rated which prompt how; `numbers` has the prompts of a row's ratings."""
    table = RatingTable(QUESTION)
    width = len(str(len(texts)))
    for index, (row, prompts) in enumerate(zip(rows, numbers, strict=True), 1):
        person = row.person or f"person-{index:0{len(str(len(rows)))}}"
        if person in table.people:
            raise row.place.refuse("(row)", found=f"{person!r} again", wanted="one row for each person")
        table.traits[person] = row.traits
        for trial, rating in row.ratings.items():
            number = prompts.get(trial, trial)
            if number not in texts:
                wanted_here = f"a number from 1 to {len(texts)}, as {PROMPTS} has rows"
                raise row.place.refuse(f"Rating_{trial}", found=f"the prompt {number}", wanted=wanted_here)
            name = f"p{number:0{width}}"
            table.add_text(name, RatedText(texts[number]), row.place)
            table.rate(person, name, TextRating(rating, {}))
        dirt.read("ratings", len(texts))
        for _ in range(len(texts) - len(row.ratings)):
            dirt.drop("ratings", "missing")
    return table


def _row(raw: Mapping[str, object], location: Place, person: str) -> RatedRow:
    name = str(raw.get(person) or "").strip() if person else ""
    if person and not (name and name.isprintable()):
        raise location.refuse(person, found=describe(raw.get(person)), wanted="the person, in the column of person=")
    ratings: dict[int, float] = {}
    trials: dict[int, int] = {}
    traits: dict[str, str] = {}
    for column, value in raw.items():
        match = _NUMBERED.fullmatch(column)
        if not isinstance(value, str | int | float) or not str(value).strip() or column == person:
            continue
        if match is None:
            traits[column] = str(value).strip()
        elif match[1] == "Rating":
            ratings[int(match[2])] = _number(value, column, location)
        elif match[1] == "Trial":
            trials[int(match[2])] = int(_number(value, column, location, most=10**6))
    if not ratings:
        raise location.refuse("Rating_1", found="no rating", wanted=f"ratings from 0 to {HIGHEST}")
    return RatedRow(name, location, ratings, trials, traits)


def _number(value: str | float, name: str, location: Place, *, most: float = HIGHEST) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise location.refuse(name, found=describe(value), wanted=f"a number from 0 to {most:,}")
    return number


def _numbers(rows: Sequence[RatedRow], spec: Spec) -> list[Mapping[int, int]]:
    """Return for each row which prompt each of its ratings is of, where it is not the one of the same number."""
    word = spec.options.get("trial", "")
    if word not in {"", "position", "prompt"}:
        raise SpecError(f"pluriharms: trial is {word!r}; wanted position or prompt")
    numbered = [number for row in rows for number in row.trials.values()]
    if numbered and not word:
        raise BenchmarkError(
            f"{rows[0].place}: found columns Trial_N, and nothing says what they mean; wanted trial=position (Rating_N "
            "is of the Nth prompt) or trial=prompt (Rating_N is of the prompt whose number stands in Trial_N)"
        )
    if word != "prompt":
        return [{} for _ in rows]
    lowest = min(numbered, default=1)
    for row in rows:
        if lacking := row.ratings.keys() - row.trials.keys():
            raise row.place.refuse(f"Trial_{min(lacking)}", found="no value", wanted="the number of the prompt")
    return [{trial: number - lowest + 1 for trial, number in row.trials.items()} for row in rows]
