r"""Where prompts come from: files of rows, or of lines, merged into records whose ids are made of their texts.

    {"text": "Which flour does a starter want?", "domain": "Chat", "source": "forum"}
    {"text": "...", "domain": "Reasoning", "source": "written", "reference": "\\frac{1}{2}"}
    {"text": "...", "domain": "Reasoning", "source": "written", "tests": "assert half(4) == 2", "entry": "half"}

What the published pipeline reads and writes is read too: its merged and filtered prompts, with what answers are checked
by under `eval`; its `protocols.jsonl`; and the folders of sources before merging, `Reasoning/math-500/test.jsonl`,
whose rows have a `prompt`, `problem` or `query`, and in Reasoning an `answer`, or a `test` and its `entry_point`. There
the folder tells the domain and the source.

    {"id": "8a0c...", "prompt": "...", "domain": "Reasoning", "source": "math-500",
     "eval": {"type": "math", "answer": "15"}}

In a .txt file each line is a prompt; the file's name begins with the domain, as `writing-forum.txt` does, and is the
source. Neither the order of files nor that of rows decides anything.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pluralrm.benchmarks.rows import Place, Refused, describe, read_rows, visible
from pluralrm.benchmarks.schema import Label, Part, Text, checked
from pluralrm.benchmarks.sources import find_sources, local_path
from pluralrm.construct.pipeline import Record
from pluralrm.construct.rmgap.products import SeedPrompt
from pluralrm.core import digest
from pluralrm.errors import BenchmarkError, RowError, did_you_mean

Domain = Literal["Chat", "Writing", "Reasoning", "Safety"]
DOMAINS: tuple[str, ...] = get_args(Domain)
_DIGITS = 10
TEXTS = ("text", "prompt", "problem", "query", "original_prompt")
"""Where a row has its prompt; under one of them alone, or the same under each."""
_CHECKED_BY = {
    "reference": ("reference", "answer"),
    "tests": ("tests", "test"),
    "entry": ("entry", "entry_point"),
}
"""By what answers are checked, and the columns that hold it."""
_OWN = ("reference", "tests", "entry")
_READ = {*TEXTS, "id", "record_id", "domain", "source", "eval", "meta", *(x for y in _CHECKED_BY.values() for x in y)}


class SourceRow(Part):
    """A prompt as it comes in."""

    text: Text
    domain: Domain
    source: Label = ""
    reference: Label = ""
    tests: Label = ""
    entry: Label = ""


class Merged(NamedTuple):
    """The records by their ids, how many rows they were made of, and the columns of these that were not read."""

    records: list[Record]
    rows: int
    ignored: Sequence[str] = ()


def read_prompts(paths: Sequence[str]) -> Merged:
    """Return the prompts of some files and folders; those with one text and one domain become one record."""
    found: dict[str, tuple[SourceRow, Place]] = {}
    ignored: dict[str, None] = {}
    count = 0
    for row, place in (pair for path in paths for pair in _rows(path, ignored)):
        count += 1
        name = record_id(row.domain, row.text)
        known, first = found.get(name, (row, place))
        if (known.text, _answer(known)) != (row.text, _answer(row)):
            raise BenchmarkError(
                f"{place} and {first}: one prompt with two references or tests, wanted one; remove one"
            )
        sources = sorted({*known.source.split(" + "), row.source} - {""})
        found[name] = (known.model_copy(update={"source": " + ".join(sources)}), first)
    if not found:
        raise BenchmarkError(f"{', '.join(map(visible, paths))}: found no prompt, wanted at least one")
    return Merged([_record(name, row) for name, (row, _) in sorted(found.items())], count, tuple(ignored))


def record_id(domain: str, text: str) -> str:
    """Return the id of a prompt: its domain and the hash of its text."""
    return f"{domain.lower()}-{digest(text)[:_DIGITS]}"


def _answer(row: SourceRow) -> tuple[str, str, str]:
    return row.reference, row.tests, row.entry


def _record(name: str, row: SourceRow) -> Record:
    return Record(name, row.domain, SeedPrompt(**row.model_dump()))


def _rows(text: str, ignored: dict[str, None]) -> Iterator[tuple[SourceRow, Place]]:
    path = local_path(text)
    refused = Refused()
    for file in [path] if path.suffix == ".txt" else [Path(str(source.file)) for source in find_sources(path, DOMAINS)]:
        folder = _folder(file)
        for place, raw in _lines(file) if file.suffix == ".txt" else read_rows(file, refused.keep):
            try:
                row = checked(SourceRow, _as_ours(raw, place, folder), place)
                if row.domain != "Reasoning" and any(_answer(row)):
                    raise place.refuse(
                        "domain", found=row.domain, wanted="Reasoning, where there is an answer to check"
                    )
            except RowError as exc:
                refused.keep(exc)
            else:
                ignored.update(dict.fromkeys(visible(key) for key in raw if key not in _READ))
                yield row, place
    refused.tell()


class _Folder(NamedTuple):
    """What a file's folders tell of its rows, as far as they tell it."""

    domain: str = ""
    source: str = ""


def _folder(file: Path) -> _Folder:
    """Return the domain and the source that the folders around a file tell, or else the domain in its name."""
    names = {name.casefold(): name for name in DOMAINS}
    *_, outer, inner = ("", "", *file.absolute().parent.parts)
    if inner.casefold() in names:
        return _Folder(names[inner.casefold()], file.stem)
    if outer.casefold() in names:
        return _Folder(names[outer.casefold()], inner)
    words = {names[word] for word in re.split(r"[-_.]", file.stem.casefold()) if word in names}
    return _Folder(words.pop()) if len(words) == 1 else _Folder()


# ---------------------------------------------------------------- rows of others as rows of ours


def _as_ours(raw: Mapping[str, object], place: Place, folder: _Folder) -> dict[str, object]:
    """Return a row under our names; what is not there is left out, so that the format says what is missing."""
    domain = raw.get("domain")
    if folder.domain and domain not in DOMAINS:  # a column of the source's own
        domain = folder.domain
    row = {"text": _text(raw, place), "domain": domain, "source": raw.get("source") or folder.source}
    row |= _checks(raw, place, domain)
    return {key: value for key, value in row.items() if value is not None}


def _text(raw: Mapping[str, object], place: Place) -> object:
    found = [(key, raw[key]) for key in TEXTS if raw.get(key) is not None]
    for key, value in found[1:]:
        if value != found[0][1]:
            raise place.refuse(key, found=f"another prompt than under {found[0][0]}", wanted="one prompt")
    return found[0][1] if found else None


def _checks(raw: Mapping[str, object], place: Place, domain: object) -> dict[str, object]:
    """Return what answers are checked by: from `eval` where there is one, or else from columns of their own."""
    meta = raw.get("meta")
    given = raw.get("eval") or (meta.get("eval") if isinstance(meta, Mapping) else None)
    if isinstance(given, Mapping):
        return _of_eval(given, place)
    if given:
        raise place.refuse("eval", found=describe(given), wanted="an object with type, answer, tests, entry_point")
    # Elsewhere an answer is the source's own, and nothing that an answer could be checked by.
    columns = _CHECKED_BY if domain == "Reasoning" else {key: (key,) for key in _OWN}
    return {key: _first(raw, names) for key, names in columns.items()}


def _of_eval(given: Mapping[str, object], place: Place) -> dict[str, object]:
    types = given.get("type")
    kinds = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    if not kinds or not {"math", "code"}.issuperset(kind for kind in kinds if isinstance(kind, str)):
        raise place.refuse("eval.type", found=describe(types), wanted="math, code, or a list of both")
    found: dict[str, object] = {}
    if "math" in kinds:
        found["reference"] = _first(given, ("answer",))
    if "code" in kinds:
        found |= {"tests": _first(given, ("tests", "test")), "entry": _first(given, ("entry_point",))}
    for key, name in (("reference", "answer"), ("tests", "tests")):
        if key in found and not found[key]:
            raise place.refuse(f"eval.{name}", found=describe(given.get(name)), wanted="what answers are checked by")
    return found


def _first(row: Mapping[str, object], names: Sequence[str]) -> object:
    """Return the value of the first of some columns that has one; a number as text."""
    found = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    return str(found) if isinstance(found, int | float) and not isinstance(found, bool) else found


def _lines(file: Path) -> Iterator[tuple[Place, dict[str, object]]]:
    domain = next((name for name in DOMAINS if file.stem.casefold().startswith(name.casefold())), None)
    if domain is None:
        word = file.stem.partition("-")[0].capitalize()
        raise BenchmarkError(
            f"{visible(str(file))}: the name of a file of lines begins with a domain.{did_you_mean(word, DOMAINS)}"
        )
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as exc:
        raise BenchmarkError(f"{visible(str(file))}: found bytes that are not UTF-8 ({exc.reason})") from exc
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield Place(file.name, number), {"text": line.strip(), "domain": domain, "source": file.stem}
