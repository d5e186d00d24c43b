"""What can go wrong for a user, as one tree; a bug is any other exception and keeps its traceback.

PluralrmError                 one message for the user, exit code 2
├── SpecError                 a model, condition or benchmark string that cannot be read
├── BenchmarkError            a benchmark that is missing or unusable
│   └── RowError              one malformed row: file, line, field, what was found, what was wanted
├── ConditionError            a condition that this benchmark cannot support
├── ModelError                a reward model that cannot be loaded, or breaks the RewardModel protocol
├── TemplateError             a template that cannot be found or rendered
├── RunError                  a run folder that cannot be read, written or resumed
├── PoolError                 a pool of answers that cannot be read, written or resumed
├── PlanError                 an annotation plan, or judgments of it, that cannot be made, read or used
├── StudyError                a study file that cannot be read, or asks for what cannot be
├── MetricError               a metric asked of rows that cannot answer it
├── SandboxError              code that was to be run, and no sandbox to run it in
├── ServiceError              a server, a key or kept replies that cannot be used as they are
│   ├── OutageError           a server that gave no answer: the same command tries again, exit code 3
│   └── PrivacyError          a server elsewhere that would see what a user wrote, without --send-posts
└── MissingExtraError         an optional dependency that is not installed
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import Signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import cast, get_args, get_origin

_LISTED = 15
"""Known words that a message names at most: an item may be one of thousands."""
_SLIPS, _SHORT = 2, 3
"""Slips in a word that is still recognised, and letters of a word in which it is one."""
_WIDEST = 60
"""Letters of a wrong argument that a message shows."""


class PluralrmError(Exception):
    """The user can mend this; the message says what, got, wanted, next."""


class SpecError(PluralrmError):
    """A model, condition or benchmark string that cannot be read."""


class BenchmarkError(PluralrmError):
    """A benchmark that is missing or unusable."""


class RowError(BenchmarkError):
    """One malformed row: file, line, field, what was found, what was wanted; `others` are messages about more rows."""

    def __init__(
        self, file: str, line: int, field: str, *, found: str, wanted: str, others: Sequence[str] = ()
    ) -> None:
        self.file, self.line, self.field, self.found, self.wanted = file, line, field, found, wanted
        super().__init__("\n".join([f"{file}:{line}: {field}: found {found}, wanted {wanted}", *others]))


class ConditionError(PluralrmError):
    """A condition that this benchmark cannot support."""


class ModelError(PluralrmError):
    """A reward model that cannot be loaded, or breaks the RewardModel protocol."""


class TemplateError(PluralrmError):
    """A template that cannot be found or rendered."""


class RunError(PluralrmError):
    """A run folder that cannot be read, written or resumed."""


class PoolError(PluralrmError):
    """A pool of answers that cannot be read, written or resumed."""


class PlanError(PluralrmError):
    """An annotation plan, or judgments of it, that cannot be made, read or used."""


class StudyError(PluralrmError):
    """A study file that cannot be read, or asks for what cannot be."""


class MetricError(PluralrmError):
    """A metric asked of rows that cannot answer it."""


class SandboxError(PluralrmError):
    """Code that was to be run, and no sandbox to run it in: nothing is run without one."""


class ServiceError(PluralrmError):
    """A server, a key or kept replies that cannot be used as they are; `status` is the server's answer, if any."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class OutageError(ServiceError):
    """A server that gave no answer: nothing is known of it yet, and the same command tries again."""


def together(errors: Sequence[PluralrmError]) -> PluralrmError:
    """Return several errors as one, each message once: an outage where all of them are, else a model that is broken.

    >>> str(together([ModelError("no route /tokenize"), ModelError("no route /tokenize")]))
    'no route /tokenize'
    """
    outage = all(isinstance(error, OutageError) for error in errors)
    return (OutageError if outage else ModelError)("\n".join(dict.fromkeys(map(str, errors))))


class PrivacyError(ServiceError):
    """A server that is not on this machine would be shown what a user wrote, and the user has not allowed that."""

    @classmethod
    def of(cls, who: str, why: str) -> "PrivacyError":
        """Return the error with its way out."""
        return cls(
            f"{who} is not on this machine, and {why}. Allow that with send=posts in the spec (--send-posts writes it "
            "there), name a server on this machine, or show nothing of the user, as under 'none'"
        )


class MissingExtraError(PluralrmError):
    """An optional dependency that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra {extra!r}: pip install 'pluralrm[{extra}]'")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return ` Did you mean 'prb'?`, or the known words (fifteen at most) when none is close, to end a message with.

    Close is what two slips at most make of it (one in a short word), what stands whole in it, or alone begins with it.
    """
    names = sorted(words)
    near = [(_slips(word.lower(), name.lower()), name) for name in names]
    close = [pair for pair in near if pair[0] <= (1 if len(word) <= _SHORT else _SLIPS)]
    inside = [name for name in names if len(name) > _SHORT and name.lower() in word.lower()]
    begun = [name for name in names if len(word) > _SHORT and name.lower().startswith(word.lower())]
    inside = inside or begun * (len(begun) == 1)
    if close or inside:
        return f" Did you mean {min(close)[1] if close else max(inside, key=len)!r}?"
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f" Known: {', '.join(names[:_LISTED])}{more}." if names else ""


def _slips(first: str, second: str) -> int:
    """Return how many letters are missing, added, wrong or swapped with their neighbour; three stands for more."""
    if abs(len(first) - len(second)) > _SLIPS or len(set(first) ^ set(second)) > 2 * _SLIPS:
        return _SLIPS + 1
    before, row = [0] * (len(second) + 1), list(range(len(second) + 1))
    for i, letter in enumerate(first):
        older, before, row = before, row, [i + 1]
        for j, other in enumerate(second):
            cost = min(before[j] + (letter != other), before[j + 1] + 1, row[j] + 1)
            if i and j and letter == second[j - 1] and first[i - 1] == other:
                cost = min(cost, older[j - 1] + 1)
            row.append(cost)
    return min(row[-1], _SLIPS + 1)


def check_type(value: object, kind: type | tuple[type, ...], name: str, expected: str) -> None:
    """Raise a SpecError that says what an argument is and what was wanted in its place."""
    if not isinstance(value, kind):
        text = repr(value)
        text = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
        raise SpecError(f"{name} is {text} ({type(value).__name__}); wanted {expected}")


def call_error(name: str, shape: Signature, args: Sequence[object], options: Mapping[str, object]) -> SpecError:
    """Return the error of a call whose arguments do not fit a function: which they are, and what was wanted."""
    parameters = list(shape.parameters.values())
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    needed = [each.name for each in parameters if each.name in names and each.default is each.empty]
    filled = positional[: len(args)]
    sentences = [f"no argument {word!r}.{did_you_mean(word, names)}" for word in options if word not in names]
    sentences += [f"{word!r} is given twice." for word in filled if word in options]
    if len(args) > len(positional):
        sentences.append(f"found {len(args)} arguments by position, wanted at most {len(positional)}.")
    if missing := [word for word in needed if word not in {*filled, *options}]:
        sentences.append(f"missing: {', '.join(missing)}.")
    usage = ", ".join([*needed, *["..."] * (len(names) > len(needed))])
    return SpecError(f"{name}: {' '.join(sentences)} Wanted {name}({usage}); see help(pluralrm.{name})")


_WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    Path: "a path",
    NoneType: "None",
}
_KINDS: Mapping[object, type] = {
    int: Integral,
    float: Real,
    Sequence: Sequence,
    Collection: Collection,
    Mapping: Mapping,
}
_GROUPS = {Sequence: "a list", Collection: "a list", Mapping: "a dict"}


def check_options(shape: Signature, options: Mapping[str, object]) -> None:
    """Raise a SpecError for a value given by name that is not of the simple type that a function declares for it."""
    for word, value in options.items():
        each = shape.parameters.get(word)
        if each is None or each.kind is not each.KEYWORD_ONLY:
            continue
        if each.annotation == "Settings | None" and value is not None and type(value).__name__ != "Settings":
            check_type(value, (), word, "pluralrm.http.Settings")
        choices = get_args(each.annotation) if isinstance(each.annotation, UnionType) else (each.annotation,)
        names = [_WORDS.get(choice) or _GROUPS.get(get_origin(choice), "") for choice in choices]
        if all(names) and not any(_fits(value, choice) for choice in choices):
            check_type(value, (), word, " or ".join(dict.fromkeys(names)))


def _fits(value: object, choice: object) -> bool:
    kind, parts = get_origin(choice) or choice, get_args(choice)
    if parts and isinstance(value, str):  # a text is no list of texts
        return False
    if not isinstance(value, _KINDS.get(kind, cast("type", kind))) or (isinstance(value, bool) and kind is not bool):
        return False
    values = cast("Iterable[object]", value) if parts and kind is not Mapping else ()
    return all(_fits(inner, parts[0]) for inner in values if parts[0] in _WORDS)
