"""The items of a section for the searchable table: scores, texts, and exactly what each model was given.

A text that several items share is stored once. Where all would be too much for one file, items are drawn evenly over
domains by a hash of their ids: first for their scores, then for their complete texts. The page says how many.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import zip_longest
from typing import cast

from pluralrm.core import Failure, Row, Run, Score
from pluralrm.digests import digest, plain_digest
from pluralrm.metrics.units import top_credit
from pluralrm.report.sections import Section, name
from pluralrm.runs import read_inputs

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

_SCORES_SHARE = 0.8
"""Of the room, for ids, prompts and scores; complete texts have the rest."""
_PROMPT = 160
"""Characters of a prompt in the list, where the item's complete texts are not there."""
_SMALLEST = 1_500
"""Bytes that one item's complete texts take at least: so many are worth reading at most."""


@dataclass(frozen=True, slots=True)
class ItemTable:
    """What the page's script reads, and how many of how many items it holds."""

    data: Json
    items: int
    complete: int
    total: int


@dataclass
class _Pool:
    """Texts by number; `bytes` is what they take in the file."""

    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    bytes: int = 0

    def number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
            self.bytes += len(json.dumps(text)) + 1
        return self.numbers[text]


def item_table(section: Section, room: int, *, text: bool = True) -> ItemTable:
    """Return the items that fit into so many bytes, in the order of the benchmark; without `text`, no text at all."""
    rows = [{row.item: row for row in run.rows} for run in section.runs]
    drawn = _drawn(section.first.rows)
    records = _records(section.runs, rows, drawn[: max(1, room // _SMALLEST)], drawn) if text else {}
    prompts = {item: str(record["prompt"]) for (item, _), record in records.items()}
    failures: dict[tuple[str, str], int] = {}
    lines = _within(room * _SCORES_SHARE, drawn, rows, prompts, failures=failures, text=text)
    order = [row.item for row in section.first.rows if row.item in lines]
    complete = drawn[: max(1, room // _SMALLEST)] if text else []
    views = _Views(rows, records)
    spent = sum(lines[item].bytes for item in order)
    for item in complete:
        if item in lines and spent + views.pool.bytes + views.bytes < room:
            views.add(item)
    return ItemTable(_data(section, order, lines, views, failures=failures), len(order), len(views.found), len(drawn))


@dataclass(frozen=True, slots=True)
class _Line:
    """One item of the list: its facts, its scores under each run, and what they take in the file."""

    facts: list[Json]
    scores: list[list[Json]]
    bytes: int


def _drawn(rows: Sequence[Row]) -> list[str]:
    """Return the items in the order in which they are drawn: domains in turn, each in the order of a hash."""
    domains: dict[str, list[str]] = {}
    for row in rows:
        domains.setdefault(row.domain, []).append(row.item)
    queues = [sorted(items, key=_hashed) for items in domains.values()]
    return [item for turn in zip_longest(*queues) for item in turn if item is not None]


def _hashed(item: str) -> str:
    return sha256(item.encode("utf-8", "surrogatepass")).hexdigest()


def _records(
    runs: Sequence[Run], rows: Sequence[Mapping[str, Row]], complete: Sequence[str], listed: Sequence[str]
) -> dict[tuple[str, str], Mapping[str, object]]:
    """Return what was given, by item and hash of the input; where a hash is shared one run is read for all.

    Items outside `complete` get one record with the prompt alone. A record that is not what its row's hash says is
    left out: the report shows what a model saw, or nothing.
    """
    records: dict[tuple[str, str], Mapping[str, object]] = {}
    whole, bare = set(complete), set(listed) - set(complete)
    for run, of_run in zip(runs, rows, strict=True):
        missing = {item for item in whole if (item, of_run[item].input_hash) not in records}
        if not missing and not bare:
            continue
        for record in read_inputs(run.path):
            item = str(record["item"])
            if item in missing and of_run[item].input_hash in _hashes(record):
                records[item, of_run[item].input_hash] = record
            elif item in bare:
                bare.discard(item)
                records[item, ""] = {"prompt": record["prompt"]}
    return records


def _hashes(record: Mapping[str, object]) -> Iterator[str]:
    """Yield the digest of a record with its keys in the order of the file, then with them sorted."""
    yield plain_digest(record)
    yield digest(record)


def _within(
    room: float,
    drawn: Sequence[str],
    rows: Sequence[Mapping[str, Row]],
    prompts: Mapping[str, str],
    *,
    failures: dict[tuple[str, str], int],
    text: bool,
) -> dict[str, _Line]:
    """Return the lines of as many drawn items as the room holds, at least one."""
    lines: dict[str, _Line] = {}
    spent = 0
    for item in drawn:
        row = rows[0][item]
        facts: list[Json] = [row.item, row.domain, row.cluster, _best(row), list(row.candidate_ids)]
        facts += [_short(prompts.get(item, "")) if text else "", [[k, v] for k, v in row.tags.items()] if text else []]
        scores = [_scores(of_run[item].scores, failures, text=text) for of_run in rows]
        line = _Line(facts, scores, len(json.dumps(facts)) + len(json.dumps(scores, separators=(",", ":"))))
        if lines and spent + line.bytes > room:
            break
        lines[item] = line
        spent += line.bytes
    return lines


def _best(row: Row) -> Json:
    """Return the preferred candidate, or all of the best grade."""
    return list(row.best) if row.preferred is None else row.preferred


def _short(prompt: str) -> str:
    return prompt if len(prompt) <= _PROMPT else f"{prompt[: _PROMPT - 1]}…"


def _scores(scores: Sequence[Score], failures: dict[tuple[str, str], int], *, text: bool) -> list[Json]:
    """Return numbers to three digits, or to as many as keep different scores different; a failure by its number."""
    if Failure not in map(type, scores):
        short = [float(f"{score:.3g}") for score in scores]
        if len(set(short)) == len(set(scores)):  # as nearly always
            return [*short]
    numbers = {score for score in scores if not isinstance(score, Failure)}
    digits = next((n for n in (3, 4, 6, 9) if len({float(f"{score:.{n}g}") for score in numbers}) == len(numbers)), 17)
    values: list[Json] = []
    for score in scores:
        if isinstance(score, Failure):
            # As text, to tell it from a score. Its detail may quote what a model read or wrote.
            key = (score.kind, score.detail if text else "")
            values.append(str(failures.setdefault(key, len(failures))))
        else:
            values.append(float(f"{score:.{digits}g}"))
    return values


def _outcome(row: Row) -> str:
    """Return one letter: right, tied, wrong or failed."""
    if row.failed:
        return "f"
    credit = top_credit(row)
    return "r" if credit == 1 else "t" if credit else "w"


class _Views:
    """What the models saw of some items, each distinct input once."""

    def __init__(
        self, rows: Sequence[Mapping[str, Row]], records: Mapping[tuple[str, str], Mapping[str, object]]
    ) -> None:
        self.rows, self._records = rows, records
        self.pool = _Pool()
        self.found: dict[str, Json] = {}
        self.bytes = 0

    def add(self, item: str) -> None:
        """Take an item in, with every input that is on disk; an item without any stays out."""
        seen: dict[tuple[str, int], list[int]] = {}
        for index, of_run in enumerate(self.rows):
            row = of_run[item]
            seen.setdefault((row.input_hash, row.posts), []).append(index)
        views: list[Json] = [
            [self._view(self._records[item, key], posts), list(places)]
            for (key, posts), places in seen.items()
            if (item, key) in self._records
        ]
        if views:
            self.found[item] = views
            self.bytes += len(json.dumps(self.found[item])) + len(json.dumps(item))

    def _view(self, record: Mapping[str, object], room: int) -> Json:
        number = self.pool.number
        user = cast("Mapping[str, Sequence[Mapping[str, str]]] | None", record["user"])
        posts: Json = (
            [[number(post["category"]), number(post["text"])] for post in user["posts"][:room]] if user else []
        )
        pairs: Json = (
            [[number(pair[key]) for key in ("prompt", "preferred", "other")] for pair in user["pairs"]] if user else []
        )
        candidates: Json = [number(answer) for answer in cast("Sequence[str]", record["candidates"])]
        traits = cast("Mapping[str, str]", user.get("traits", {}) if user else {})
        lines = [*(f"{trait}: {value}" for trait, value in traits.items()), *cast("Sequence[str]", record["notes"])]
        notes: Json = [number(note) for note in lines]
        return [number(str(record["prompt"])), candidates, posts, pairs, notes, bool(record["reveals_oracle"])]


def _models(section: Section) -> list[Json]:
    """Return each model, and each run that is none, with the places of its run and of its controls: none, other."""
    places = {(run.model, run.condition): index for index, run in reversed(list(enumerate(section.runs)))}
    rows = {(section.names[row.model], row.condition): row.personal for row in section.overview.rows}
    models: list[Json] = []
    for key in [*rows, *(key for key in places if key not in rows)]:
        conditions = personal.conditions if (personal := rows.get(key)) else {}
        controls = [places.get((key[0], conditions.get(role, "")), -1) for role in ("none", "swapped")]
        marks = " · ORACLE" * ("oracle" in section.runs[places[key]].reveals)
        models.append([f"{key[0]} · {key[1]}{marks}", places[key], *controls])
    return models


def _data(
    section: Section,
    order: Sequence[str],
    lines: Mapping[str, _Line],
    views: _Views,
    *,
    failures: Mapping[tuple[str, str], int],
) -> Json:
    domains = list(dict.fromkeys(str(lines[item].facts[1]) for item in order))
    ids = {tuple(cast("Sequence[str]", lines[item].facts[4])): 0 for item in order}
    ids = {names: index for index, names in enumerate(ids)}
    items: list[Json] = []
    for item in order:
        _, domain, cluster, preferred, names, prompt, tags = lines[item].facts
        who = "" if cluster == item else cluster
        items.append(
            [item, domains.index(str(domain)), who, preferred, ids[tuple(cast("Sequence[str]", names))], prompt, tags]
        )
    return {
        "unit": section.first.card.cluster,
        "runs": [[name(run), "oracle" in run.reveals] for run in section.runs],
        "models": _models(section),
        "domains": domains,
        "ids": [list(names) for names in ids],
        "items": items,
        "outcomes": ["".join(_outcome(of_run[item]) for item in order) for of_run in views.rows],
        "scores": [[lines[item].scores[index] for item in order] for index in range(len(section.runs))],
        "failures": [list(failure) for failure in failures],
        "texts": views.pool.texts,
        "views": {str(index): views.found[item] for index, item in enumerate(order) if item in views.found},
    }
