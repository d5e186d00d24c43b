"""Run folders for tests, written by the run loop itself, with payloads in every text that a stranger controls."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Aspect, Benchmark, Failure, Item, Oracle, Post, Query, Run, User, Verdict
from pluralrm.runs import score
from tests.builders import Scripted, bakery, card

PAYLOADS = (
    "<script>window.ran=1</script>",
    "</script><script>window.ran=2</script>",
    "<img src=x onerror=window.ran=3>",
    '"><svg onload=window.ran=4>',
    "' onmouseover='window.ran=5' autofocus onfocus='window.ran=6",
    "javascript:window.ran=7",
    "<iframe srcdoc='<script>parent.ran=8</script>'></iframe>",
    "<style>*{display:none}</style>",
    "<a href=javascript:window.ran=9>x</a>",
    "{{ 7 * 7 }}{% for x in y %}",
    "<!--<script>window.ran=10</script>",
    "]]></desc></svg><script>window.ran=11</script>",
    "${window.ran=12}`${window.ran=13}`",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "</title></textarea></noscript><script>window.ran=14</script>",
    "\u2028\u2029<meta http-equiv=refresh content='0;url=https://example.invalid/'>",
    "<link rel=stylesheet href=https://example.invalid/a.css><base href=https://example.invalid/>",
    "$\\frac{a}{b}$ \\n % _",
)


@dataclass
class Lengths:
    """Scores by length, the shorter the better where the sign is negative; some items fail with a told detail."""

    spec: str
    sign: float = 1.0
    detail: str = ""

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for place, query in enumerate(queries):
            if self.detail and place % 4 == 0:
                yield Verdict((Failure("parse", self.detail),) * len(query.candidates))
            else:
                context = len(query.user.posts) if query.user else 0
                yield Verdict(tuple(self.sign * len(text) + context * (len(text) % 7) for text in query.candidates))


def folders(
    out: Path,
    *,
    conditions: Iterable[str] = ("none", "raw:2", "swapped:2", "oracle"),
    items: int = 12,
    models: tuple[str, str] = ("longer", "shorter"),
) -> Path:
    """Write runs of two models, the second of which prefers the shorter answer, on the bakery."""
    bench = bakery(items, canary="CANARY")
    for condition in conditions:
        for model in (Scripted(models[0]), Lengths(models[1], -1.0)):
            score(bench, model, load_condition(condition), out=out)
    return out


def rmgap_folders(out: Path) -> Path:
    """Write runs on pocket-rmgap."""
    for model in ("longest", "bm25"):
        score(load_benchmark("pocket-rmgap"), model, "none", out=out)
    return out


def hostile(out: Path) -> Path:
    """Write runs whose every text is an attack."""
    bench = hostile_bench()
    for place, condition in enumerate(("none", "raw:2", "swapped:2", "oracle")):
        for model in (Lengths(PAYLOADS[place]), Lengths(f"m{PAYLOADS[place + 4]}", -1.0, detail=PAYLOADS[place + 8])):
            score(bench, model, load_condition(condition), out=out)
    return out


def hostile_bench() -> Benchmark:
    """Return the benchmark whose every text is an attack."""
    return Benchmark(
        card(
            PAYLOADS[0],
            summary=PAYLOADS[1],
            labelled=PAYLOADS[2],
            source=PAYLOADS[3],
            licence=PAYLOADS[4],
            notes=PAYLOADS[6],
            citation=PAYLOADS[8],
            revision=PAYLOADS[5],
        ),
        tuple(_hostile_item(place) for place in range(2 * len(PAYLOADS))),
    )


def _hostile_item(place: int) -> Item:
    text = PAYLOADS[place % len(PAYLOADS)]
    posts = tuple(Post(f"p{n}{text}", f"post {n} {text}", text) for n in range(3))
    return Item(
        id=f"{place}{text}",
        prompt=f"prompt {text}",
        candidates=(f"answer {text}", f"another, longer answer {text}{text}"),
        preferred=place % 2,
        cluster=f"user {place} {text}",
        domain=PAYLOADS[place % 3],
        candidate_ids=(f"first{text}", f"second{text}"),
        user=User(f"u{place}{text}", posts),
        tags={"tag": text},
        oracle=Oracle((Aspect(f"wants {text}", text, text),), f"narrative {text}"),
    )


def unfinished(out: Path) -> Run:
    """Write a run whose second item met an outage."""
    return score(bakery(6), Scripted("down", moods={"i0001": "transport"}), "none", out=out)
