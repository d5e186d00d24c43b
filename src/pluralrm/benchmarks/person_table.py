"""Plain tables: a row is one judgment, with a person, an item and a label; yours, and those of POPQUORN (2023).

    person,item,label,prompt,lamp,candle,age
    ann,q1,lamp,Which light for reading?,A floor lamp.,Two candles.,25-34
    ben,q1,candle,Which light for reading?,A floor lamp.,Two candles.,65+

    table:votes.csv,options=lamp+candle,traits=age

| column | what | default |
|---|---|---|
| `person=COLUMN` | who judged: the user, and the unit that statistics resample | `person` |
| `item=COLUMN` | what was judged: the crossed cluster | `item` |
| `label=COLUMN` | a choice, or a number (below) | `label` |
| `prompt=COLUMN` | the question; the same in all rows of an item | `prompt`, may lack |
| `text=COLUMN` | what was judged, where no options are | `text`, may lack |
| `options=COLUMN+COLUMN` | the texts to choose from | none |
| `traits=COLUMN+COLUMN` | what the person declared; the same in all rows of a person | none |
| `tags=COLUMN+COLUMN` | slices, such as the language | none |
| `domain=COLUMN` | for tables by domain | none |

A label that is a choice names one of the `options` by its column or by its letter, the first being A. Without
`options` every label of the file is a candidate of every item, as it is written, and the prompt is the `prompt`, the
`text` or the item's id. `tie` is no preference: such rows are dropped and counted.

Labels that are numbers are ratings of the item's `text` (without one, of its id), and become pairs by a named rule
(`pairs=`, `gap=`, `per=`, `draw=`: `pluralrm.benchmarks.ratings`), of texts with the same prompt and domain.

A person who judged an item again has another item, `ann:q1#2`. JSON lines and Parquet have the same keys.
"""

import math
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pluralrm.benchmarks import ratings
from pluralrm.benchmarks.dataset import judgment
from pluralrm.benchmarks.dirt import Dirt, dirt_of, free_id
from pluralrm.benchmarks.preferences import items_in_part, users_of, with_split
from pluralrm.benchmarks.ratings import PairRule, RatedText, RatingTable, TextRating, rule_of
from pluralrm.benchmarks.rows import CsvRow, Place, describe, read_rows, repeated, shortened
from pluralrm.benchmarks.schema import is_missing
from pluralrm.benchmarks.sources import Source, find_sources, local_card, local_path, read_each, unclaimed
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, User
from pluralrm.errors import BenchmarkError, SpecError, did_you_mean
from pluralrm.specs import Spec

CARD = Card(
    name="table",
    summary="A table of your own: person, item, label, with as much of the item and the person as there is",
    licence="yours to state",
    source="a file or folder of yours",
    labelled="as the file's author says",
    citation="none of its own: cite where the rows come from",
)

QUESTION = "Which of these two was rated higher?"
TIE = "tie"
_LONGEST = 100
"""Characters of a person's or an item's id: an item of the benchmark is named by both."""


class Columns(NamedTuple):
    """Which column holds what, empty where none does; no row may lack one that is `required`."""

    person: str
    item: str
    label: str
    prompt: str
    text: str
    domain: str = ""
    options: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    named: bool = True
    """Whether a spec may name the columns."""

    @property
    def names(self) -> frozenset[str]:
        """Every column that is read."""
        single = {self.person, self.item, self.label, self.prompt, self.text, self.domain}
        return frozenset(single.union(self.options, self.traits, self.tags) - {""})


def columns_of(spec: Spec) -> Columns:
    """Return the columns that a spec names."""
    single = {name: spec.options.get(name, default) for name, default in _SINGLE.items()}
    several: dict[str, tuple[str, ...]] = {}
    for name in ("options", "traits", "tags"):
        text = spec.options.get(name, "")
        several[name] = tuple(text.split("+")) if text else ()
        if not all(several[name]) or repeated(several[name]) is not None:
            raise SpecError(f"table: {name} is {text!r}; wanted different columns, as in {name}=first+second")
    if len(several["options"]) == 1:
        raise SpecError(f"table: options is {spec.options['options']!r}; wanted two or more columns, as in options=a+b")
    required = frozenset(single[name] for name in ("prompt", "text", "domain") if name in spec.options)
    person, item, label, prompt, text, domain = single.values()
    listed = (several["options"], several["traits"], several["tags"])
    return Columns(person, item, label, prompt, text, domain, *listed, required=required)


_SINGLE = {"person": "person", "item": "item", "label": "label", "prompt": "prompt", "text": "text", "domain": ""}
"""The columns that a spec may name, and what they are called where it does not."""


class OptionChoice(NamedTuple):
    """One judgment: who preferred which of some options, by name."""

    person: str
    item: str
    label: str
    prompt: str
    options: Mapping[str, str]
    domain: str
    tags: Mapping[str, str]


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `table:PATH`, with the names of its columns; candidates placed by seed."""
    path, users, dirt = local_path(spec.target), users_of(spec), dirt_of(spec)
    rule, columns = rule_of(spec), columns_of(spec)
    reader = TableReader(columns, dirt, QUESTION)
    reader.read(find_sources(path))
    if not reader.is_rated and (of_ratings := sorted(spec.options.keys() & set(ratings.OPTIONS))):
        raise SpecError(
            f"table: {of_ratings[0]}= is for ratings, and the column {columns.label!r} has choices; leave it out"
        )
    items = items_in_part(reader.items(rule, seed=seed), users, f"{path.name}: ")
    card = with_split(local_card(CARD, path, [item.domain for item in items], {}), users)
    return Benchmark(dirt.onto(rule.onto(card) if reader.is_rated else card), items, seed)


@dataclass
class TableReader:
    """Reads judgments, and knows the people and items of the rows before."""

    columns: Columns
    dirt: Dirt
    question: str
    is_rated: bool | None = None
    """Whether labels are numbers; None: as in the first row."""
    _table: RatingTable = field(init=False)
    _choices: list[OptionChoice] = field(default_factory=list)
    _prompts: dict[str, str] = field(default_factory=dict)
    _columns: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._table = RatingTable(self.question)

    def read(self, sources: Sequence[Source]) -> None:
        """Read all rows of some files."""
        for _ in read_each(sources, self._judgment, self.dirt):
            pass
        lacking = [name for name in (*self.columns.traits, *self.columns.tags) if name not in self._columns]
        if lacking and self.columns.named:
            raise SpecError(f"table: no row has the column {lacking[0]!r}.{did_you_mean(lacking[0], self._columns)}")

    def items(self, rule: PairRule, *, seed: int) -> tuple[Item, ...]:
        """Return the judgments as items."""
        return self._table.items(rule, seed=seed, dirt=self.dirt) if self.is_rated else self._chosen(seed)

    # ---------------------------------------------------------------- rows

    def _judgment(self, raw: Mapping[str, object], location: Place, source: str) -> None:
        row = _Row(raw, location, self.columns)
        self._columns.update(_columns(raw))
        person, item, label = row.identifier("person"), row.identifier("item"), row.label()
        number = _number(label) if not self.columns.options else None
        if number is not None and not math.isfinite(number):
            raise location.refuse(self.columns.label, found=describe(label), wanted="a finite number, or a choice")
        if self.is_rated is not None and self.is_rated != (number is not None):  # the first row decides
            kind = "a number" if self.is_rated else "a choice"
            raise location.refuse(self.columns.label, found=describe(label), wanted=f"{kind}, as in the other rows")
        domain = row.optional(self.columns.domain) or source or "all"
        tags = {name: value for name in self.columns.tags if (value := row.optional(name))}
        prompt, text = row.optional(self.columns.prompt), row.optional(self.columns.text)
        traits = self._traits(person, row, location)
        if number is not None:
            self._table.add_text(item, RatedText(text or item, prompt, domain), location)
            self._table.rate(person, item, TextRating(number, tags))
        else:
            question = prompt or text or item
            choice, options = row.choice(label)
            if (first := self._prompts.setdefault(item, question)) != question:
                raise location.refuse(
                    self.columns.prompt,
                    found=describe(question),
                    wanted=f"{describe(first)}, as in an earlier row of {item!r}",
                )
            self._choices.append(OptionChoice(person, item, choice, question, options, domain, tags))
        self._table.traits[person] = traits
        self.is_rated = number is not None
        for name in raw.keys() - self.columns.names:
            self.dirt.ignore(str(name))
        self.dirt.hold(raw, location)

    def _traits(self, person: str, row: "_Row", location: Place) -> Mapping[str, str]:
        traits = {name: value for name in self.columns.traits if (value := row.optional(name))}
        first = self._table.traits.get(person, traits)
        for name in traits.keys() & first.keys():
            if traits[name] != first[name]:
                raise location.refuse(
                    name,
                    found=describe(traits[name]),
                    wanted=f"{describe(first[name])}, as in an earlier row of {person!r}",
                )
        return {**traits, **first}

    # ---------------------------------------------------------------- choices

    def _chosen(self, seed: int) -> tuple[Item, ...]:
        """Return the choices as items; ties are dropped and counted."""
        labels = {name: name for name in sorted({choice.label for choice in self._choices} - {TIE})}
        if not self.columns.options and len(labels) < 2:
            raise BenchmarkError(
                f"the column {self.columns.label!r}: found {' and '.join(map(repr, labels)) or 'ties'} alone, wanted "
                "two or more different labels, or numbers"
            )
        result: dict[str, Item] = {}
        times: Counter[tuple[str, str]] = Counter()
        for choice in self._choices:
            times[choice.person, choice.item] += 1
            if choice.label == TIE:
                self.dirt.drop("judgments", "ties")
                continue
            again = times[choice.person, choice.item]
            name = free_id(f"{choice.person}:{choice.item}" + f"#{again}" * (again > 1), result)
            options = choice.options or labels
            answers = {each: (text, float(each == choice.label)) for each, text in options.items()}
            user = User(choice.person, traits=self._table.traits[choice.person])
            item = judgment(name, choice.prompt, answers, seed=seed, domain=choice.domain, user=user, tags=choice.tags)
            result[name] = replace(item, prompt_id=choice.item)
        self.dirt.read("judgments", len(self._choices))
        self.dirt.settle()
        return tuple(result.values())


class _Row(NamedTuple):
    """The cells of a row by what their columns hold."""

    cells: Mapping[str, object]
    place: Place
    columns: Columns

    def identifier(self, role: str) -> str:
        """Return who, or what, was judged; a RowError where the cell is empty or no id."""
        column = str(getattr(self.columns, role))
        value = self._needed(column, f"the {role}" + self._remedy(role)).strip()
        if not value.isprintable() or len(value) > _LONGEST:
            raise self.place.refuse(column, found=describe(value), wanted=f"1 to {_LONGEST} printable characters")
        if role == "person" and is_missing(value):
            raise self.place.refuse(column, found=describe(value), wanted="a person's id")
        return value

    def label(self) -> str:
        """Return the label; `tie` in any case."""
        value = self._needed(self.columns.label, "a number or a choice" + self._remedy("label")).strip()
        return TIE if value.casefold() == TIE else value

    def optional(self, column: str) -> str:
        """Return a cell, or an empty text; a RowError where the spec names the column and the cell is empty."""
        if column in self.columns.required:
            return self._needed(column, "a value in the column that the spec names" if self.columns.named else "a text")
        return self._text(column) if column else ""

    def choice(self, label: str) -> tuple[str, Mapping[str, str]]:
        """Return the label as the name of an option, and the options of the row by name."""
        options = {name: text for name in self.columns.options if (text := self._text(name)).strip()}
        if not self.columns.options or (label == TIE and len(options) > 1):
            return label, options
        if len(options) < 2:
            wanted_here = f"two or more of the options {', '.join(self.columns.options)}"
            raise self.place.refuse("(row)", found=f"a text in {', '.join(options) or 'none'}", wanted=wanted_here)
        if (twice := repeated([text.strip() for text in options.values()])) is not None:
            raise self.place.refuse([*options][twice], found="the text of another option", wanted="different texts")
        letters = dict(zip(string.ascii_uppercase, self.columns.options, strict=False))
        name = label if label in options else letters.get(label.upper(), "")
        if name not in options:
            names = ", ".join(options)
            raise self.place.refuse(
                self.columns.label, found=describe(label), wanted=f"one of {names}, the letter of its column, or {TIE}"
            )
        return name, options

    def _remedy(self, role: str) -> str:
        return f"; name your column with {role}=COLUMN" * self.columns.named

    def _needed(self, column: str, what: str) -> str:
        if not (value := self._text(column)).strip():
            actual = "no value" if column in _columns(self.cells) else "no such column"
            raise self.place.refuse(column, found=actual, wanted=what)
        return value

    def _text(self, column: str) -> str:
        value = self.cells.get(column)
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return f"{value:.12g}"
        raise self.place.refuse(column, found=describe(value), wanted="a text or a number")


def _columns(row: Mapping[str, object]) -> Collection[str]:
    return row.columns if isinstance(row, CsvRow) else row.keys()


def _number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None


# ---------------------------------------------------------------- popquorn

# One row of its `dataset/offensiveness/raw_data.csv`, a rating from 1 to 5 with what the person declared:
#
#     instance_id,user_id,text,offensiveness,gender,race,age,occupation,education
#     12,7,They burnt the toast again.,2.0,Woman,Asian,40-44,Employed,College degree
#
# The person with the higher rating for a text prefers it as the answer to the question. The domain is what was rated.
# Answers and rewritten emails, the other two tasks of the data set, are no ratings and not read.
POPQUORN_QUESTIONS: Mapping[str, str] = {
    "offensiveness": "Which of these two comments is more offensive?",
    "politeness": "Which of these two emails is more polite?",
}
"""The columns of ratings, and what is asked of a pair, in our words."""
POPQUORN_TRAITS = ("gender", "race", "age", "occupation", "education")

POPQUORN = Card(
    name="popquorn",
    summary="POPQUORN: how offensive or polite a text is, rated by people of whom gender, race, age and more are known",
    licence="not stated; openly released",
    source="https://github.com/Jiaxin-Pei/Potato-Prolific-Dataset, dataset/offensiveness/raw_data.csv and others",
    labelled="by paid raters, each text by several, from 1 to 5",
    citation="Jiaxin Pei and David Jurgens. When Do Annotator Demographics Matter? Measuring the Influence of "
    "Annotator Demographics with the POPQUORN Dataset. LAW-XVII, 2023.",
)


def load_popquorn(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `popquorn:PATH`, the raw_data.csv of one kind of ratings."""
    path, users, rule, dirt = local_path(spec.target), users_of(spec), rule_of(spec), dirt_of(spec)
    sources = find_sources(path)
    location, first = next(read_rows(sources[0].file, lambda _: None), (None, {}))
    measure = next((name for name in POPQUORN_QUESTIONS if name in first), "")
    if not measure:
        header = ", ".join(map(shortened, first)) or "none"
        raise BenchmarkError(
            f"{location or path}: found the columns {header}, wanted ratings in {' or '.join(POPQUORN_QUESTIONS)}"
        )
    columns = Columns(
        "user_id", "instance_id", measure, "", "text", traits=POPQUORN_TRAITS, required=frozenset({"text"}), named=False
    )
    reader = TableReader(columns, dirt, POPQUORN_QUESTIONS[measure], is_rated=True)
    reader.read(sources)
    rated = (replace(item, domain=measure) for item in reader.items(rule, seed=seed))
    items = items_in_part(rated, users, f"{path.name}: ")
    return Benchmark(dirt.onto(rule.onto(with_split(unclaimed(POPQUORN, path), users))), items, seed)
