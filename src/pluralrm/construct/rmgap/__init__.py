r"""Building a benchmark of the kind of RMGAP: four answers in four styles, and prompts that want one of them.

Here is what is made of a prompt on its way to a record, a product per stage; and the options of a build, beside its
prompts and its models.

Where prompts come from: files of rows, or of lines, merged into records whose ids are made of their texts.

    {"text": "Which flour does a starter want?", "domain": "Chat", "source": "forum"}
    {"text": "...", "domain": "Reasoning", "source": "written", "reference": "\\frac{1}{2}"}
    {"text": "...", "domain": "Reasoning", "source": "written", "tests": "assert half(4) == 2", "entry": "half"}

What the published pipeline reads and writes is read too: its merged and filtered prompts, with what answers are
checked by under `eval`; its `protocols.jsonl`; and the folders of sources before merging,
`Reasoning/math-500/test.jsonl`, whose rows have a `prompt`, `problem` or `query`, and in Reasoning an `answer`, or a
`test` and its `entry_point`. There the folder tells the domain and the source.

    {"id": "8a0c...", "prompt": "...", "domain": "Reasoning", "source": "math-500",
     "eval": {"type": "math", "answer": "15"}}

In a .txt file each line is a prompt; the file's name begins with the domain, as `writing-forum.txt` does, and is the
source. Neither the order of files nor that of rows decides anything.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pluralrm import validate
from pluralrm.audit.embedder import Embedder, Letters, PackagedEmbedder
from pluralrm.benchmarks.rows import Place, Refused, describe, read_rows, visible
from pluralrm.benchmarks.schema import Label, Part, Text, checked
from pluralrm.benchmarks.sources import find_sources, local_path
from pluralrm.construct.filters import RATED
from pluralrm.construct.pipeline import Record
from pluralrm.construct.pipeline.stages import Product, Refusal
from pluralrm.core import Failure
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, RowError, RunError, did_you_mean
from pluralrm.validate import CodeTask, MathTask, Right, ValidationOutcome, Wrong, check_code, check_math
from pluralrm.validate.latex import boxed, reference_of

Rule = Literal["each", "mean"]
"""How reviews decide: each of them, or their mean."""


class SeedPrompt(Product):
    """A prompt that came in. Reasoning has a reference to compare an answer with, or tests to run a program against."""

    text: str
    domain: str
    source: str
    reference: str = ""
    tests: str = ""
    entry: str = ""
    """The function that the tests call, where they do not say so themselves."""


class Worded(Product):
    """The prompt breaks no rule of wording, and what it asks for can be checked."""


class Single(Product):
    """No prompt of a smaller id has the same letters and digits."""


class DistinctPrompt(Product):
    """No prompt that is kept means the same."""


class PromptRatings(Product):
    """The prompt's marks, 0 to 5."""

    clarity: int
    completeness: int
    naturalness: int
    safety: int
    openness: int
    overall: int

    def by_name(self) -> dict[str, float]:
        """Return the marks by their names."""
        return {name: getattr(self, name) for name in RATED}


class Styled(Product):
    """The style of each of the four responses, r1 to r4: a level on each dimension."""

    styles: dict[str, dict[str, str]]


class WrittenText(Product):
    """A text, and which model of the record's order wrote it."""

    text: str
    turn: int


class Responses(Product):
    """Four answers in four styles, r1 to r4."""

    texts: list[WrittenText]


class Tailored(Product):
    """Four prompts; each wants the response at its place."""

    texts: list[WrittenText]


class Unique(Product):
    """Every prompt was traced to its response by a judge who did not know it; the orders that the four were shown in.

    Two orders for each prompt; a number is the place of a response, from 0.
    """

    orders: list[list[list[int]]]


class Paraphrased(Product):
    """Two paraphrases of each prompt: those of the first, of the second, and so on."""

    texts: list[WrittenText]


BOXED = "Reason as the manner allows, and give the final answer once, in \\boxed{}."
PROGRAM = "Give the whole program in one block that begins with ```python and ends with ```."

_UNANSWERED = frozenset({"parse", "empty", "too_long"})
"""Failures that are the response's own: it has no answer that could be judged."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def answer_form(prompt: SeedPrompt) -> str:
    """Return what form an answer must have so that it can be checked; nothing for prompts of other domains."""
    if prompt.tests:
        return f"{PROGRAM} It defines {prompt.entry}." if prompt.entry else PROGRAM
    return BOXED if prompt.reference else ""


def right_answer(prompt: SeedPrompt) -> str:
    """Return the end of a right answer for a dry run, which writes no program that passes tests."""
    if prompt.tests:
        return f"```python\n{prompt.entry or 'answer'} = None\n```"
    return f"\\boxed{{{reference_of(prompt.reference)}}}" if prompt.reference else ""


def check_answer(prompt: SeedPrompt, response: str) -> ValidationOutcome:
    """Return whether the response is right by each of what the prompt has."""
    if prompt.reference:
        outcome = _by_reference(response, prompt.reference)
        if not (isinstance(outcome, Right) and prompt.tests):
            return outcome
    return check_code(response, prompt.tests, entry=prompt.entry)


def _by_reference(response: str, reference: str) -> ValidationOutcome:
    answer, target = boxed(response), reference_of(reference)
    if isinstance(answer, Failure):
        return answer
    # What needs no algebra needs no extra: the same text, and whole numbers in digits.
    if answer.split() == target.split():
        return Right()
    if _WHOLE.fullmatch(answer.strip()) and _WHOLE.fullmatch(target.strip()):
        return Right() if int(answer) == int(target) else Wrong(f"{answer} is not {target}")
    return check_math(response, reference)


def require_validators(prompts: Iterable[SeedPrompt]) -> None:
    """Return when all is there that answers to these prompts are checked with, or raise before anything is paid for."""
    tasks: list[CodeTask | MathTask] = []
    for prompt in prompts:
        tasks += [CodeTask("", prompt.tests, prompt.entry)] * bool(prompt.tests)
        tasks += [MathTask("", prompt.reference)] * bool(prompt.reference)
    validate.ready(tasks)


def answer_refusal(outcome: ValidationOutcome) -> Refusal | None:
    """Return the refusal of a response; one that could not be judged is refused too, by another name."""
    if isinstance(outcome, Right):
        return None
    if isinstance(outcome, Wrong):
        # The writer of the next try is told this: the reason itself would show the reference, or the tests.
        return Refusal("answer", "the answer is not right")
    return Refusal("answer" if outcome.kind in _UNANSWERED else "unjudged", f"{outcome.kind}: {outcome.detail}")


def for_dry_run(options: "RmgapOptions") -> "RmgapOptions":
    """Return options with which no program is run and no embedder but a local one is asked."""
    embedder = options.embedder if isinstance(options.embedder, PackagedEmbedder) else Letters()
    return replace(options, embedder=embedder, check=lambda _prompt, _response: Right())


@dataclass(frozen=True)
class RmgapOptions:
    """`attempts` is how often a text may be written; `rule` is how reviews decide; `check` judges an answer."""

    embedder: Embedder
    attempts: int = 3
    rule: Rule = "each"
    seed: int = 0
    check: Callable[[SeedPrompt, str], ValidationOutcome] = check_answer

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise RunError(f"attempts is {self.attempts}; wanted at least 1")

    @property
    def embedded_by(self) -> str:
        """The spec of the embedder, without the name of whose key it is asked with."""
        return ",".join(part for part in self.embedder.spec.split(",") if not part.startswith("key="))


# ---- Where prompts come from

Domain = Literal["Chat", "Writing", "Reasoning", "Safety"]
DOMAINS: tuple[str, ...] = get_args(Domain)
_DIGITS = 10
TEXTS = ("text", "prompt", "problem", "query", "original_prompt")
"""Where a row has its prompt; under one of them alone, or the same under each."""
_CHECKED_BY = {"reference": ("reference", "answer"), "tests": ("tests", "test"), "entry": ("entry", "entry_point")}
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
    merged: dict[str, tuple[SourceRow, Place]] = {}
    ignored: dict[str, None] = {}
    count = 0
    for row, location in (pair for path in paths for pair in _rows(path, ignored)):
        count += 1
        name = record_id(row.domain, row.text)
        earlier, first = merged.get(name, (row, location))
        if (earlier.text, _answer(earlier)) != (row.text, _answer(row)):
            raise BenchmarkError(
                f"{location} and {first}: one prompt with two references or tests, wanted one; remove one"
            )
        sources = sorted({*earlier.source.split(" + "), row.source} - {""})
        merged[name] = (earlier.model_copy(update={"source": " + ".join(sources)}), first)
    if not merged:
        raise BenchmarkError(f"{', '.join(map(visible, paths))}: found no prompt, wanted at least one")
    return Merged([_record(name, row) for name, (row, _) in sorted(merged.items())], count, tuple(ignored))


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
        for location, raw in _lines(file) if file.suffix == ".txt" else read_rows(file, refused.keep):
            try:
                row = checked(SourceRow, _as_ours(raw, location, folder), location)
                if row.domain != "Reasoning" and any(_answer(row)):
                    raise location.refuse(
                        "domain", found=row.domain, wanted="Reasoning, where there is an answer to check"
                    )
            except RowError as exc:
                refused.keep(exc)
            else:
                ignored.update(dict.fromkeys(visible(key) for key in raw if key not in _READ))
                yield row, location
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


def _as_ours(raw: Mapping[str, object], location: Place, folder: _Folder) -> dict[str, object]:
    """Return a row under our names; what is not there is left out, so that the format says what is missing."""
    domain = raw.get("domain")
    if folder.domain and domain not in DOMAINS:  # a column of the source's own
        domain = folder.domain
    row = {"text": _text(raw, location), "domain": domain, "source": raw.get("source") or folder.source}
    row |= _checks(raw, location, domain)
    return {key: value for key, value in row.items() if value is not None}


def _text(raw: Mapping[str, object], location: Place) -> object:
    texts = [(key, raw[key]) for key in TEXTS if raw.get(key) is not None]
    for key, value in texts[1:]:
        if value != texts[0][1]:
            raise location.refuse(key, found=f"another prompt than under {texts[0][0]}", wanted="one prompt")
    return texts[0][1] if texts else None


def _checks(raw: Mapping[str, object], location: Place, domain: object) -> dict[str, object]:
    """Return what answers are checked by: from `eval` where there is one, or else from columns of their own."""
    meta = raw.get("meta")
    check = raw.get("eval") or (meta.get("eval") if isinstance(meta, Mapping) else None)
    if isinstance(check, Mapping):
        return _of_eval(check, location)
    if check:
        raise location.refuse("eval", found=describe(check), wanted="an object with type, answer, tests, entry_point")
    # Elsewhere an answer is the source's own, and nothing that an answer could be checked by.
    columns = _CHECKED_BY if domain == "Reasoning" else {key: (key,) for key in _OWN}
    return {key: _first(raw, names) for key, names in columns.items()}


def _of_eval(check: Mapping[str, object], location: Place) -> dict[str, object]:
    types = check.get("type")
    kinds = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    if not kinds or not {"math", "code"}.issuperset(kind for kind in kinds if isinstance(kind, str)):
        raise location.refuse("eval.type", found=describe(types), wanted="math, code, or a list of both")
    fields: dict[str, object] = {}
    if "math" in kinds:
        fields["reference"] = _first(check, ("answer",))
    if "code" in kinds:
        fields |= {"tests": _first(check, ("tests", "test")), "entry": _first(check, ("entry_point",))}
    for key, name in (("reference", "answer"), ("tests", "tests")):
        if key in fields and not fields[key]:
            raise location.refuse(f"eval.{name}", found=describe(check.get(name)), wanted="what answers are checked by")
    return fields


def _first(row: Mapping[str, object], names: Sequence[str]) -> object:
    """Return the value of the first of some columns that has one; a number as text."""
    value = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


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
