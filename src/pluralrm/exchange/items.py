"""Runs in the formats of other tools, and back: what both directions and all formats share.

| format | module | files |
|---|---|---|
| Inspect | `exchange.inspect` | one `.eval` log per run |
| EvalEval 0.3 | `exchange.evaleval` | an aggregate JSON and an instance JSONL per run |

The row of each item travels whole, as rows.jsonl has it, so that a run comes back to the last digit. What was derived
from a user's posts travels only where the user of this package says so.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast, get_args

from pydantic import ValidationError

from pluralrm.benchmarks.rows import Place, describe, shortened
from pluralrm.benchmarks.schema import Id, Part, checked
from pluralrm.core import Exchange, Failure, Item, Reveals, Row, Run, Score, Vote
from pluralrm.errors import PluralrmError, RunError
from pluralrm.journal import parse_json, unsealed_line
from pluralrm.labels import TRAIT
from pluralrm.metrics.units import numbers, top_credit
from pluralrm.runs import load_manifest, load_run, read_inputs, records
from pluralrm.runs.formats import UNDECIDED, ImportedEntry, Matching, check_best
from pluralrm.runs.imported import DECLARED, NOTE, declared_condition
from pluralrm.runs.records import TRANSCRIPTS, RowRecord, RunManifest
from pluralrm.shards import gzip_lines
from pluralrm.text import well_formed

Json = Mapping[str, object]
WITHHELD = "withheld: it may quote a user's posts; --posts exports it"
"""What stands in place of texts that were derived from a user."""


def pathless(text: str) -> str:
    """Return a spec with files and folders by their last names, without where they lie on this machine.

    >>> pathless("hf:/home/ada/models/rm-7b,revision=a1"), pathless("judge:m,url=http://127.0.0.1:8000/v1")
    ('hf:rm-7b,revision=a1', 'judge:m,url=http://127.0.0.1:8000/v1')
    """
    return re.sub(r"(?<![\w/.~])(?:~|\.\.?)?/(?!/)(?:[^/\s,;]+/)*(?=[^/\s,;])", "", well_formed(text))


def letter(index: int) -> str:
    """Return the letter of a choice: A to Z, then 1, 2, as Inspect counts them."""
    return chr(ord("A") + index) if index < 26 else str(index - 25)


def _index(text: str, width: int) -> int | None:
    """Return the choice that has this letter; None where it is of none."""
    word = text.strip().upper()
    return next((index for index in range(width) if letter(index) == word), None)


# ---------------------------------------------------------------- out


class RunItem(NamedTuple):
    """What a run says of one item, as far as it may leave this machine."""

    row: Row
    prompt: str
    """Empty where the item was not scored yet."""
    choices: tuple[str, ...]
    context: Json | None
    """What the model was shown of the user; None where that was nothing, or stays here."""
    exchanges: tuple[Exchange, ...]
    withheld: bool

    @property
    def error(self) -> str:
        """The first failure as `kind: detail`; nothing where the item is scored."""
        failure = next((score for score in self.row.scores if isinstance(score, Failure)), None)
        return "" if failure is None else well_formed(f"{failure.kind}: {failure.detail}")

    @property
    def top(self) -> list[int]:
        """The candidates with the highest score; none where the item failed."""
        scores = numbers(self.row)
        return [index for index, score in enumerate(scores) if score == max(scores)] if scores else []

    @property
    def credit(self) -> float:
        """What the item earns: the share of right candidates among those at the top, 0 where it failed."""
        return top_credit(self.row)

    @property
    def names(self) -> list[str]:
        """What the candidates are called: by the source, else by their letters."""
        return [well_formed(name) for name in self.row.candidate_ids] or list(map(letter, range(len(self.row.scores))))

    @property
    def explanation(self) -> str:
        """What the model said, else its scores."""
        if self.exchanges:
            return "\n\n".join(well_formed(exchange.said) for exchange in self.exchanges)
        scores = [score.kind if isinstance(score, Failure) else repr(score) for score in self.row.scores]
        return ", ".join(f"{name}: {score}" for name, score in zip(self.names, scores, strict=True))

    @property
    def record(self) -> dict[str, object]:
        """The line of the item in rows.jsonl."""
        line = json.loads(unsealed_line(records.row_line(self.row).encode()))
        return cast("dict[str, object]", _cleaned(line))


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return list(map(_cleaned, value))
    return {well_formed(key): _cleaned(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def run_items(run: Run, *, posts: bool = False) -> Iterator[RunItem]:
    """Yield what a run says of each item, in order; what was derived from users' posts only with `posts`."""
    inputs = {str(record["item"]): record for record in read_inputs(run.path)}
    replies = {str(record["item"]): record["exchanges"] for record in _transcripts(Path(run.path))}
    for row in run.rows:
        record = inputs.get(row.item, {})
        context = _context(record)
        private = bool(context) if record else bool(run.reveals)
        exchanges = [Exchange(**exchange) for exchange in cast("list[dict[str, str]]", replies.get(row.item, []))]
        withheld = private and not posts
        shared = row if posts else _without_traits(row)
        yield RunItem(
            row=_without_quotes(shared) if withheld else shared,
            prompt=well_formed(str(record.get("prompt", ""))),
            choices=tuple(map(well_formed, cast("list[str]", record.get("candidates", [])))),
            context=None if withheld else context,
            exchanges=() if withheld else tuple(exchanges),
            withheld=withheld,
        )


def _transcripts(folder: Path) -> Iterator[Json]:
    for line in gzip_lines(folder / TRANSCRIPTS):
        yield cast("Json", parse_json(line))


def _context(record: Json) -> Json | None:
    """Return what an input shows of the user; None where it shows nothing."""
    notes = [note for note in cast("list[str]", record.get("notes", [])) if note != NOTE]
    user = cast("Json | None", record.get("user"))
    if not notes and not (user and (user["posts"] or user["pairs"] or user.get("traits"))):
        return None
    return cast("Json", _cleaned({"user": user, "notes": notes}))


def _without_quotes(row: Row) -> Row:
    """Return the row without details of failures, which may quote the user."""
    scores = tuple(Failure(score.kind, WITHHELD) if isinstance(score, Failure) else score for score in row.scores)
    return replace(row, scores=scores)


def _without_traits(row: Row) -> Row:
    return replace(row, tags={name: value for name, value in row.tags.items() if not name.startswith(TRAIT)})


class RunHeader(NamedTuple):
    """What a run's file says of the whole, so that it can be read back."""

    model: str
    condition: str
    trained: tuple[str, ...] = ()
    reveals: tuple[Reveals, ...] = ()


def load_exportable(folder: str | Path) -> tuple[Run, RunManifest]:
    """Return a run with its manifest; one without any row is an error."""
    run = load_run(folder)
    if not run.done:
        raise RunError(f"{folder}: no row yet, wanted a run with some. The same 'pluralrm score' command resumes it")
    return run, load_manifest(folder)


def provenance_of(run: Run, manifest: RunManifest) -> dict[str, object]:
    """Return where a run comes from: hashes, versions, what was shown, and what `header_from` reads back."""
    card = manifest.benchmark.card
    facts = {
        "model": pathless(manifest.model),
        "name": pathless(manifest.name),
        "condition": pathless(run.condition),
        "reveals": sorted(run.reveals),
        "trained": list(run.trained),
        "imported": run.imported,
        "complete": run.complete,
        "benchmark": card.model_dump(exclude={"load"}, mode="json"),
        "content_hash": run.benchmark_hash,
        "seed": manifest.benchmark.seed,
        "identity": {name: pathless(fact) for name, fact in manifest.identity.items()},
        "rows_hash": manifest.rows_hash,
        "items_hash": manifest.items_hash,
        "versions": manifest.versions,
        "git": manifest.git,
        "started": manifest.started,
        "finished": manifest.finished or "",
        "failures": manifest.failures,
    }
    return cast("dict[str, object]", _cleaned(facts))


def header_from(facts: Json) -> RunHeader:
    """Return what `provenance_of` has written; a condition that only its author can build is declared as a file's."""
    condition = str(facts.get("condition") or "none")
    try:
        declared_condition(condition)
    except PluralrmError:
        condition = f"{DECLARED}:{condition}"
    name = facts.get("name") or facts.get("model") or ""
    trained, words = (_texts(facts.get(key)) for key in ("trained", "reveals"))
    reveals = tuple(word for word in words if word in get_args(Reveals))
    return RunHeader(str(name), condition, trained, cast("tuple[Reveals, ...]", reveals))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


# ---------------------------------------------------------------- back


class LoggedAnswer(Part):
    """What a file of another tool says of one item; `row` where this package wrote it."""

    item: Id
    choices: list[str] | None = None
    target: list[str] | None = None
    answer: str | None = None
    values: list[float] | dict[str, float] | None = None
    correct: bool | None = None
    error: str | None = None
    row: object = None


def logged_entries(raw: Json, location: Place, items: Matching) -> Iterator[ImportedEntry]:
    """Yield the entry of one item: its own row, else scores, else a choice by letter, name or text, else a failure."""
    answer = checked(LoggedAnswer, raw, location)
    item = items.item(answer.item, location)
    if answer.row is not None:
        yield _own_entry(answer, item, location)
        return
    places = _places(answer.choices, (), item, location)
    right = [_index(text, len(places)) for text in answer.target or []]
    if right and None not in right:
        check_best(item, [places[index] for index in right if index is not None], location, "target")
    yield ImportedEntry(item, location, _scores(answer, item, places, location))


def _scores(answer: LoggedAnswer, item: Item, places: Sequence[int], location: Place) -> dict[int, Score]:
    width = len(item.candidates)
    if answer.error:
        return dict.fromkeys(range(width), Failure("crash", shortened(answer.error, 500)))
    if answer.values is not None:
        return _numbers(answer.values, item, places, location)
    index = None if answer.answer is None else _chosen(answer.answer, answer.choices, item, places)
    if index is None and answer.correct is not None and not answer.answer and len(item.best) == 1 and width == 2:
        index = item.best[0] if answer.correct else 1 - item.best[0]
    if index is None and answer.answer:
        expected = "the letter, name or text of a choice"
        raise location.refuse("answer", found=describe(answer.answer), wanted=expected)
    if index is None:
        return dict.fromkeys(range(width), UNDECIDED)
    if answer.correct is not None and answer.correct != (index in item.best):
        actual = f"{'right' if answer.correct else 'wrong'} for a choice that {item.id!r} has otherwise"
        raise location.refuse("correct", found=actual, wanted="the labels of the benchmark")
    return {other: float(other == index) for other in range(width)}


def _numbers(
    values: list[float] | dict[str, float], item: Item, places: Sequence[int], location: Place
) -> dict[int, Score]:
    """Return scores of choices in their order, or by the names of candidates."""
    names = list(item.candidate_ids) if isinstance(values, dict) else list(range(len(places)))
    keys = list(values) if isinstance(values, dict) else list(range(len(values)))
    if sorted(map(str, names)) != sorted(map(str, keys)):
        expected = f"one of each of the {len(item.candidates)} candidates of {item.id!r}"
        raise location.refuse("scores", found=f"scores of {shortened(', '.join(map(str, keys)))}", wanted=expected)
    if isinstance(values, dict):
        return {item.candidate_ids.index(name): value for name, value in values.items()}
    return {places[index]: value for index, value in enumerate(values)}


def _chosen(text: str, choices: Sequence[str] | None, item: Item, places: Sequence[int]) -> int | None:
    """Return the candidate that an answer names: by letter among the choices, by its text, or by its name."""
    index = _index(text, len(places)) if choices else None
    if index is not None:
        return places[index]
    texts, names = list(map(well_formed, item.candidates)), item.candidate_ids
    if texts.count(text) == 1:
        return texts.index(text)
    return names.index(text) if text in names else None


def _places(choices: Sequence[str] | None, names: Sequence[str], item: Item, location: Place) -> list[int]:
    """Return where each choice of the file stands in the item: by the texts, by the names, else as they are."""
    texts = [well_formed(text) for text in item.candidates]
    if choices and sorted(choices) != sorted(texts):
        raise location.refuse("choices", found="other answers", wanted=f"the candidates of {item.id!r}")
    for labels, own in ((choices, texts), (names, [well_formed(name) for name in item.candidate_ids])):
        if labels and len(set(labels)) == len(labels) and sorted(labels) == sorted(own):
            return [own.index(text) for text in labels]
    if choices and list(choices) != texts:
        raise location.refuse("choices", found="equal ones in another order", wanted=f"the order of {item.id!r}")
    return list(range(len(texts)))


def _own_entry(answer: LoggedAnswer, item: Item, location: Place) -> ImportedEntry:
    """Return what our own row says, in the order of the item's candidates; a row of another item is refused."""
    try:
        row = records.row_of(RowRecord.model_validate_json(json.dumps(answer.row)))
    except (ValidationError, ValueError, TypeError) as exc:
        problem = shortened(str(exc).replace("\n", " "), 200)
        raise location.refuse("row", found=problem, wanted="the row of an item as 'pluralrm export' writes it") from exc
    places = _places(answer.choices, row.candidate_ids, item, location)
    labels = list(zip(row.grades, row.lengths, strict=True))
    benchmark = [(item.grades[slot], len(item.candidates[slot])) for slot in places]
    if len(set(row.scores)) == 1 and not answer.choices:  # of an item that stayed open, in whichever order
        labels, benchmark = sorted(labels), sorted(benchmark)
    if labels != benchmark:
        raise location.refuse("row", found=f"other labels or texts than {item.id!r} has", wanted="the same benchmark")
    votes = tuple(
        Vote(tuple(places[index] for index in vote.order), _moved(vote.outcome, places)) for vote in row.votes
    )
    scores = {places[index]: score for index, score in enumerate(row.scores)}
    return ImportedEntry(item, location, scores, votes, row=row)


def _moved(outcome: str, places: Sequence[int]) -> str:
    """Return the outcome of a vote with candidates by their new indices; a word stays as it is."""
    if not re.fullmatch(r"\d{1,4}([>=]\d{1,4})*", outcome):
        return outcome
    moved = {str(index): str(slot) for index, slot in enumerate(places)}
    return re.sub(r"\d+", lambda match: moved.get(match[0], match[0]), outcome)
