"""The one parser of model, condition and benchmark strings: `kind[:target][,key=value]*`.

>>> spec = parse("recent:10", {"recent": Form(target="required")}, noun="condition")
>>> spec.kind, spec.target
('recent', '10')

A comma inside a target or a value is written %2C. An unknown kind or key names the nearest known one. Specs are printed
and end up in run folders, so that one in which a password or a key may stand is refused without being shown.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal
from urllib.parse import unquote

from pluralrm.errors import SpecError, did_you_mean

LISTED = frozenset({"benchmark", "model", "condition", "grader"})
"""Nouns whose kinds `pluralrm list` shows; of others a message names them all, for there are few."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a kind accepts: a target or not, and which keys."""

    target: Literal["none", "optional", "required"] = "none"
    keys: tuple[str, ...] = ()
    open_keys: bool = False
    """True where the keys belong to somebody else's code (`python:`), which checks them itself."""
    example: str = ""
    """A spec of this kind, for the message that its target is missing."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed spec string; `str()` gives the canonical spelling (keys sorted)."""

    kind: str
    target: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        head = f"{self.kind}:{_escape(self.target)}" if self.target else self.kind
        return ",".join([head, *(f"{key}={_escape(value)}" for key, value in sorted(self.options.items()))])

    def integer(self, key: str, default: int, *, least: int = 0) -> int:
        """Return an option as an integer of at least `least`."""
        return whole_number(self.options.get(key, str(default)), f"{self.kind}: {key}", least=least)

    def number(self, key: str, default: float, *, least: float, most: float, instead: str = "") -> float:
        """Return an option as a number from `least` to `most`; `instead` says what else an error may offer."""
        text = self.options.get(key, str(default))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise SpecError(f"{self.kind}: {key} is {text!r}; wanted a number from {least:g} to {most:g}{instead}")
        return number


def asks_target(spec: Spec) -> tuple[str, ...]:
    """Return the chat model that is a spec's target."""
    return (spec.target,)


def whole_number(text: str, name: str, *, least: int) -> int:
    """Return `text` as an integer, or raise a SpecError that says what was wanted."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise SpecError(f"{name} is {text!r}; wanted a whole number of at least {least}.")
    return number


def parse(text: str, forms: Mapping[str, Form], *, noun: str, advise: Callable[[str], str] = lambda _: "") -> Spec:
    """Return the Spec in `text`; `forms` says which kinds exist and what each accepts.

    `advise` says what to write in place of a text that begins with no known kind, where that can be seen.
    """
    refuse_secrets(text)
    try:
        spec = _parsed(text, forms, noun, advise)
    except SpecError:
        if _AFTER_URL.search(unquote(text)):  # a password with a comma in it, and its end taken for a key
            raise SpecError(f"a {noun} (redacted: an @ follows a URL) cannot be read. {_INSTEAD}") from None
        raise
    return spec


_AFTER_URL = re.compile(r"://.*[@?#]", re.DOTALL)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_INSTEAD = "Keep keys and passwords in an environment variable, and name that variable: key=NAME"


_NAMED = re.compile(r"([A-Za-z][\w.+-]*)=(.+)", re.DOTALL)


def split_name(text: str) -> tuple[str, str]:
    """Return the name and the spec of NAME=SPEC; of a SPEC, no name and itself.

    >>> split_name("ours=hf:models/rm,dtype=bf16"), split_name("hf:models/rm,dtype=bf16")
    (('ours', 'hf:models/rm,dtype=bf16'), ('', 'hf:models/rm,dtype=bf16'))
    """
    match = _NAMED.fullmatch(text)
    return (match[1], match[2]) if match else ("", text)


def refuse_secrets(text: str) -> None:
    """Raise where a spec's URL holds a user name, a password, a query or a fragment; nothing of it is shown."""
    if any(_AFTER_URL.search(unquote(part)) for part in text.split(",")):
        raise SpecError(f"a URL (redacted) holds a user name, a password, a query or a fragment. {_INSTEAD}")


def _parsed(text: str, forms: Mapping[str, Form], noun: str, advise: Callable[[str], str]) -> Spec:
    head, *pairs = text.strip().split(",")
    kind, _, target = head.partition(":")
    form = forms.get(kind)
    if form is None and (advice := advise(head)):
        raise SpecError(f"unknown {noun} {head!r}. {advice}")
    if form is None:
        hint = f"See 'pluralrm list {noun}s'" if noun in LISTED else f"Known: {', '.join(forms)}"
        raise SpecError(f"unknown {noun} {kind!r}.{did_you_mean(kind, forms)} {hint}.")
    if form.target == "required" and not target:
        raise SpecError(f"{noun} {kind!r} needs a target, as in {form.example or f'{kind}:...'}")
    if form.target == "none" and target:
        raise SpecError(f"{noun} {kind!r} takes no target, found {target!r}; wanted {kind}")
    if not form.open_keys and any(pair.startswith("key=") and not _VARIABLE.fullmatch(pair[4:]) for pair in pairs):
        raise SpecError(f"{noun} {kind!r}: key is no name in capitals, and is redacted. {_INSTEAD}")
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key and value):
            raise SpecError(f"{noun} {text!r}: found {pair!r}, wanted key=value (write a comma inside a value as %2C).")
        if not form.open_keys and key not in form.keys:
            raise SpecError(
                f"{noun} {kind!r} has no key {key!r}.{did_you_mean(key, form.keys) or ' It takes none; leave it out'}"
            )
        if key in options:
            raise SpecError(f"{noun} {text!r}: key {key!r} is given twice; leave one out")
        options[key] = unescape(value)
    return Spec(kind, unescape(target), options)


# A text is escaped, as a whole, where it holds a comma or what would read as an escaped one.
_ESCAPED = re.compile(r"%(25)*2C", re.IGNORECASE)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace(",", "%2C") if "," in text or _ESCAPED.search(text) else text


def unescape(text: str) -> str:
    """Return a target or value as it was before its commas were escaped."""
    if not _ESCAPED.search(text):
        return text
    return text.replace("%2C", ",").replace("%2c", ",").replace("%25", "%")


# ---------------------------------------------------------------- names in tables


def short_names(models: Sequence[str]) -> dict[str, str]:
    """Return the shortest form of each model that keeps all of them apart: ends of paths, no options that all share.

    >>> short_names(["hf:/models/rm-8b,dtype=bf16", "hf:/models/rm-70b,dtype=bf16", "bm25"])
    {'hf:/models/rm-8b,dtype=bf16': 'rm-8b', 'hf:/models/rm-70b,dtype=bf16': 'rm-70b', 'bm25': 'bm25'}
    """
    every = list(dict.fromkeys(models))
    deepest = max((model.count("/") for model in every), default=0)
    for parts, kind, options in product(range(1, deepest + 2), (False, True), (False, True)):
        short = {model: _ending(model, parts, kind=kind) for model in every}
        names = {model: name + ",".join(["", *_unshared(model, short)]) * options for model, name in short.items()}
        if len(set(names.values())) == len(every):
            return names
    return {model: model for model in every}


def _ending(model: str, parts: int, *, kind: bool) -> str:
    """Return the last parts of a model's path, after its kind if asked."""
    name, colon, target = model.partition(",")[0].partition(":")
    if name == "imported":  # what was not scored here is never without its mark
        return f"{target} (imported)"
    end = "/".join(target.strip("/").split("/")[-parts:])
    return f"{name}:{end}" if colon and kind else end or name


def _unshared(model: str, short: Mapping[str, str]) -> list[str]:
    """Return the options of a model that not all models of its short name have."""
    alike = [set(other.split(",")[1:]) for other, name in short.items() if name == short[model]]
    return [option for option in model.split(",")[1:] if option not in set.intersection(*alike)]
