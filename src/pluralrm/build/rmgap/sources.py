r"""Where prompts come from: files of rows, or of lines, merged into records whose ids are made of their texts.

    {"text": "Which flour does a starter want?", "domain": "Chat", "source": "forum"}
    {"text": "...", "domain": "Reasoning", "source": "written", "reference": "\\frac{1}{2}"}
    {"text": "...", "domain": "Reasoning", "source": "written", "tests": "assert half(4) == 2", "entry": "half"}

In a .txt file each line is a prompt; the file's name begins with the domain, as `writing-forum.txt` does, and is the
source. Neither the order of files nor that of rows decides anything.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pluralrm.benchmarks.rows import Place, Refused, read_rows, visible
from pluralrm.benchmarks.schema import Label, Part, Text, checked
from pluralrm.benchmarks.sources import find_sources, local_path
from pluralrm.build.pipeline import Record
from pluralrm.build.rmgap.products import Prompt
from pluralrm.core import digest
from pluralrm.errors import BenchmarkError, RowError, did_you_mean

Domain = Literal["Chat", "Writing", "Reasoning", "Safety"]
DOMAINS: tuple[str, ...] = get_args(Domain)
_DIGITS = 10


class PromptRow(Part):
    """A prompt as it comes in."""

    text: Text
    domain: Domain
    source: Label = ""
    reference: Label = ""
    tests: Label = ""
    entry: Label = ""


class Merged(NamedTuple):
    """The records by their ids, and how many rows they were made of."""

    records: list[Record]
    rows: int


def read_prompts(paths: Sequence[str]) -> Merged:
    """Return the prompts of some files and folders; those with one text and one domain become one record."""
    found: dict[str, tuple[PromptRow, Place]] = {}
    count = 0
    for row, place in (pair for path in paths for pair in _rows(path)):
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
    return Merged([_record(name, row) for name, (row, _) in sorted(found.items())], count)


def record_id(domain: str, text: str) -> str:
    """Return the id of a prompt: its domain and the hash of its text."""
    return f"{domain.lower()}-{digest(text)[:_DIGITS]}"


def _answer(row: PromptRow) -> tuple[str, str, str]:
    return row.reference, row.tests, row.entry


def _record(name: str, row: PromptRow) -> Record:
    return Record(name, row.domain, Prompt(**row.model_dump()))


def _rows(text: str) -> Iterator[tuple[PromptRow, Place]]:
    path = local_path(text)
    refused = Refused()
    for file in [path] if path.suffix == ".txt" else [Path(str(source.file)) for source in find_sources(path)]:
        for place, raw in _lines(file) if file.suffix == ".txt" else read_rows(file, refused.keep):
            try:
                row = checked(PromptRow, raw, place)
                if row.domain != "Reasoning" and any(_answer(row)):
                    raise place.refuse(
                        "domain", found=row.domain, wanted="Reasoning, where there is an answer to check"
                    )
            except RowError as exc:
                refused.keep(exc)
            else:
                yield row, place
    refused.tell()


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
