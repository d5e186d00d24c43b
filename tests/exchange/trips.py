"""Benchmarks, models and conditions drawn at random, and the way of a run to another tool and back."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from hypothesis import strategies as st

from pluralrm.core import (
    FINAL_KINDS,
    OPEN_KINDS,
    Benchmark,
    ContextPair,
    Exchange,
    Failure,
    Item,
    Post,
    Query,
    Row,
    Run,
    User,
    Verdict,
    Vote,
)
from pluralrm.metrics import summary
from pluralrm.runs import score
from pluralrm.runs.imported import ImportOptions, import_runs
from pluralrm.text import well_formed
from tests.builders import card

KEPT = "kept to myself"
"""In every post, pair and trait, and in all that a model says of them."""
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028${7*7}{{7*7}}=cmd|'/c calc'!A1 ../../x"

TEXTS = st.text(st.characters(exclude_categories=[]), min_size=1, max_size=12) | st.just(HOSTILE)
"""With control characters and lone surrogates."""
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.just(HOSTILE)
"""Without lone surrogates, which rows do not have."""
NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=8) | st.just("<b>../x")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 0.1, 1 / 3, 5e-324])
FAILURES = st.builds(Failure, st.sampled_from([*FINAL_KINDS, *OPEN_KINDS]), WORDS)
CONDITIONS = ("none", "recent:2", "pairs:1,posts=1", "traits", "swapped:1,by=recent")


@dataclass
class Spoken:
    """A model that says of each item what it was made to say."""

    verdicts: Mapping[str, Verdict]
    spec: str = "spoken"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (self.verdicts[query.id] for query in queries)


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    names = draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    named, width, domain = draw(st.booleans()), draw(st.integers(2, 4)), draw(NAMES)
    items = [replace(_item(draw, name, width, named=named), domain=domain) for name in names]
    return Benchmark(card(draw(NAMES)), tuple(items))


def _item(draw: st.DrawFn, name: str, width: int, *, named: bool) -> Item:
    grades = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=width, max_size=width))
    posts = tuple(Post(f"{name}-{n}", f"{KEPT} {draw(TEXTS)}") for n in range(3))
    return Item(
        id=name,
        prompt=draw(TEXTS),
        candidates=tuple(draw(st.lists(TEXTS, min_size=width, max_size=width, unique=True))),
        preferred=None,
        grades=tuple(grades) if len(set(grades)) > 1 else tuple(float(n == 1) for n in range(width)),
        cluster=f"u-{name}",
        domain="",
        candidate_ids=tuple(f"c{n}" for n in range(width)) if named else (),
        user=User(f"u-{name}", posts, (ContextPair(f"{name}-p", KEPT, KEPT, "no"),), {"mood": KEPT}),
        tags={"kind": draw(WORDS)},
    )


@st.composite
def models(draw: st.DrawFn, bench: Benchmark) -> Spoken:
    """Return a model that scores, judges or fails; the first item is scored, or else a crash of all is no run."""
    verdicts = {item.id: _verdict(draw, len(item.candidates)) for item in bench.items}
    first = bench.items[0]
    verdicts[first.id] = Verdict(tuple(draw(NUMBERS) for _ in first.candidates))
    return Spoken(verdicts, draw(st.sampled_from(["spoken", HOSTILE, "hf:org/name@main"])))


def _verdict(draw: st.DrawFn, width: int) -> Verdict:
    kind = draw(st.sampled_from(["scores", "judged", "failed", "partly"]))
    scores: list[float | Failure] = [draw(NUMBERS) for _ in range(width)]
    if kind == "failed":
        failure = draw(FAILURES)
        return Verdict((failure._replace(detail=f"{failure.detail} {KEPT}"),) * width)
    if kind == "partly":
        scores[draw(st.integers(0, width - 1))] = Failure("parse", f"{draw(WORDS)} {KEPT}")
    if kind == "scores":
        return Verdict(tuple(scores))
    orders = [tuple(range(width)), tuple(range(width))[::-1]]
    outcomes = st.sampled_from(["tie", "parse", "0", "1", ">".join(map(str, range(width))), "1=0"])
    votes = tuple(Vote(order, draw(outcomes)) for order in orders)
    return Verdict(tuple(scores), votes, (Exchange(f"sent {KEPT}", f"{draw(TEXTS)} {KEPT}"),))


@st.composite
def cells(draw: st.DrawFn) -> tuple[Benchmark, Spoken, str]:
    bench = draw(benchmarks())
    return bench, draw(models(bench)), draw(st.sampled_from(CONDITIONS))


def scored(cell: tuple[Benchmark, Spoken, str], folder: Path) -> Run:
    bench, model, condition = cell
    return score(bench, model, condition, out=folder / "own")


def back(module: ModuleType, file: Path, bench: Benchmark, folder: Path, *, form: str) -> Run:
    """Return what `pluralrm import` makes of a file."""
    header = module.read_header(file)
    options = ImportOptions(header.model, condition=header.condition or "none", reveals=header.reveals)
    [run] = import_runs(form, [file], bench, options, out=folder / "back", fresh=True, formats={form: module.FORMAT})
    return run


def plain(rows: Sequence[Row], detail: Callable[[str], str] = well_formed) -> list[Row]:
    """Return rows as far as they travel: an imported one has another input, and details may stay at home."""
    return [
        replace(
            row,
            input_hash="",
            scores=tuple(
                Failure(score.kind, detail(score.detail)) if isinstance(score, Failure) else score
                for score in row.scores
            ),
        )
        for row in rows
    ]


def by_text(run: Run, bench: Benchmark) -> list[object]:
    """Return what a run says of each candidate's text, with the votes in texts."""
    said: list[object] = []
    for row, item in zip(run.rows, bench.items, strict=True):
        votes = [
            (
                [item.candidates[n] for n in vote.order],
                [item.candidates[int(word)] if word.isdecimal() else word for word in re.split("([>=])", vote.outcome)],
            )
            for vote in row.votes
        ]
        scores = sorted(zip(item.candidates, map(repr, row.scores), strict=True))
        said.append((scores, votes))
    return said


def numbers(run: Run) -> dict[str, tuple[float | int | None, ...]]:
    told = summary(run)
    every = {**told.metrics, **{f"in {name}": estimate for name, estimate in told.domains.items()}}
    return {name: (each.value, each.low, each.high, each.n, each.failed) for name, each in every.items()}


def reordered(bench: Benchmark) -> Benchmark:
    """Return the benchmark with its candidates placed otherwise, as by another seed."""
    items = []
    for item in bench.items:
        order = [*range(1, len(item.candidates)), 0]
        items.append(
            replace(
                item,
                candidates=tuple(item.candidates[n] for n in order),
                candidate_ids=tuple(item.candidate_ids[n] for n in order) if item.candidate_ids else (),
                preferred=None,
                grades=tuple(item.grades[n] for n in order),
            )
        )
    return replace(bench, items=tuple(items), content_hash="")
