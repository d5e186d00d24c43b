"""Benchmarks by name. The table maps a kind to "module:attribute", so that nothing loads before its use.

>>> bench = load_benchmark("pocket-prb")
>>> len(bench.items), bench.card.licence
(60, 'Apache-2.0')

`prb:PATH` reads a file or a folder in that format; a bare PATH is read in the format that its first row's keys tell.
`skip=bad-rows` leaves out the rows that a file benchmark would refuse, and counts them.
`python:package.module:make` is a function of your own that returns a Benchmark.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from pluralrm.benchmarks.rows import exists, read_rows, shortened
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, check_type
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.specs import Form, Spec, parse


@dataclass(frozen=True, slots=True)
class BenchmarkKind:
    """One row of the table: who loads it, what it is, what its spec accepts, which keys a row of its format has.

    The loader is called as `load(spec, seed=seed)` and returns a Benchmark. `keys` is empty where a kind has no files.
    """

    loader: str
    card: str
    form: Form = field(default_factory=Form)
    keys: tuple[str, ...] = ()
    or_keys: tuple[str, ...] = ()
    """The keys of a row in the format's second form, where it has one."""

    def reads(self, row: Mapping[str, object]) -> bool:
        """Return whether a row has the keys of the format."""
        return any(keys and all(key in row for key in keys) for keys in (self.keys, self.or_keys))


_SIMULATED = (
    *("users", "items", "posts", "pairs", "candidates", "domains"),
    *("cares", "noise", "chatter", "sharpness", "crowd", "seed"),
)
_PERSONAL = ("users", "set", "revision", "skip")
_LAMP_QA = ("revision", "skip", "split")
_ROWS = Form("required", ("skip", "users"), example="rows:FILE")
_PAIRS = Form("required", example="context-pairs:FILE")
_PRISM = ("users", "answers", "revision", "skip")

KINDS: Mapping[str, BenchmarkKind] = {
    "pocket-prb": BenchmarkKind("pocket:load_prb", "pocket:PRB_CARD"),
    "pocket-rmgap": BenchmarkKind("pocket:load_rmgap", "pocket:RMGAP_CARD"),
    "simulated": BenchmarkKind("simulated:load", "simulated:CARD", Form("optional", _SIMULATED)),
    "prb": BenchmarkKind("prb:load", "prb:CARD", Form("optional", ("revision", "skip")), ("profile", "chosen")),
    "rmgap": BenchmarkKind("rmgap:load", "rmgap:CARD", Form("optional", ("prompts", "skip")), ("prompt_groups",)),
    "personal-rb": BenchmarkKind(
        "personal_rb:load", "personal_rb:CARD", Form("optional", _PERSONAL), ("user_id", "context")
    ),
    "prism": BenchmarkKind("prism:load", "prism:CARD", Form("optional", _PRISM), ("user_id", "conversation_history")),
    "lamp-qa": BenchmarkKind("lamp_qa:load", "lamp_qa:CARD", Form("optional", _LAMP_QA), ("profile", "question")),
    "context-pairs": BenchmarkKind("context_pairs:load", "context_pairs:CARD", _PAIRS, ("writer", "pairs")),
    "rows": BenchmarkKind("generic:load", "generic:CARD", _ROWS, ("chosen", "rejected"), ("candidates",)),
    "python": BenchmarkKind("promises:load", "promises:CARD", PLUGIN),
}
"""A file is of the first kind whose `keys` its first row has; prb stands before lamp-qa, whose rows lack `chosen`."""


def load_benchmark(spec: str | Path, *, seed: int = 0) -> Benchmark:
    """Return the benchmark that a spec string or a path names; the same seed places the candidates in the same way."""
    check_type(spec, (str, Path), "benchmark", "a name such as 'pocket-prb', or a path")
    parsed = spec_of(str(spec))
    benchmark: Benchmark = _attribute(KINDS[parsed.kind].loader)(parsed, seed=seed)
    return benchmark


def spec_of(text: str) -> Spec:
    """Return the parsed spec of a benchmark, or of a path in the format that its first row tells."""
    return _of_path(text) if _is_path(text) else parse_benchmark(text)


def parse_benchmark(text: str) -> Spec:
    """Return the parsed spec of a benchmark; unknown kinds and keys name the nearest known ones."""
    return parse(text, {name: kind.form for name, kind in KINDS.items()}, noun="benchmark")


def spec_of_card(card: Card) -> str:
    """Return what `load_benchmark` takes for a card, as far as the card says it; BENCH for a file of one's own."""
    drawn = card.revision.partition(" ")[0]  # simulated,users=60,...
    if drawn.startswith(f"{card.name},"):
        return drawn.replace(",", ":", 1)
    return card.name if card.name in KINDS else "BENCH"


def cards() -> list[Card]:
    """Return the card of every kind in the table, without loading any data."""
    return [_attribute(kind.card) for kind in KINDS.values()]


def _attribute(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a loader or a card
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def _is_path(text: str) -> bool:
    head = text.partition(",")[0].partition(":")[0]
    return head not in KINDS and ("/" in head or "." in head or (text != "" and exists(Path(text))))


def _of_path(text: str) -> Spec:
    """Return the spec for a bare path, options after a comma; the first row's keys tell its format."""
    from pluralrm.benchmarks.dirt import SKIP
    from pluralrm.benchmarks.rows import at_once
    from pluralrm.benchmarks.sources import find_sources, local_path

    path, options = (text, "") if exists(Path(text)) else text.partition(",")[::2]
    first = find_sources(local_path(path))[0].file
    skips = f"{SKIP}=" in options
    place, row = next(read_rows(first, (lambda _: None) if skips else at_once), (None, {}))
    if place is None:
        raise BenchmarkError(f"{shortened(str(first), 200)}: found no rows, wanted at least one")
    for name, kind in KINDS.items():
        if kind.reads(row):
            spec = parse_benchmark(f"{name}:-,{options}" if options else f"{name}:-")
            return Spec(name, path, spec.options)
    formats = "; ".join(
        f"{name} has {', or '.join(' and '.join(keys) for keys in (kind.keys, kind.or_keys) if keys)}"
        for name, kind in KINDS.items()
        if kind.keys
    )
    found = ", ".join(shortened(key) for key in list(row)[:8]) or "none"
    raise BenchmarkError(
        f"{place}: found the keys {found}, wanted those of a known format: {formats}. See 'pluralrm list benchmarks'"
    )


def placed(candidates: Iterable[str], item: str, seed: int) -> list[str]:
    """Return the candidates' ids in the order of this item and seed: file order and workers change nothing."""
    order = sorted(candidates)
    random.Random(f"{seed}:{item}").shuffle(order)
    return order
