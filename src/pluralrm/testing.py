"""Conformance checks for third parties' own reward models and benchmarks.

>>> from pluralrm.models import load_model
>>> check_reward_model(load_model("longest"))

Put the same line, with your own model, into a test of yours: it raises an AssertionError that lists what is broken.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal

from pluralrm.benchmarks.promises import Finding, benchmark_findings, finding, some
from pluralrm.core import Benchmark, Failure, Post, Query, RewardModel, UserView, Verdict
from pluralrm.errors import PluralrmError, check_type
from pluralrm.models.declarations import Comparing, Informed, compares_of, reveals_of
from pluralrm.plugin import place_of

__all__ = ["Finding", "benchmark_findings", "check_benchmark", "check_reward_model", "reward_model_findings"]

TOLERANCE = 1e-4
"""How far a neural model's scores may move with batching (float32)."""


_USER = UserView(
    "checker",
    (
        Post("p1", "I bake on Sundays and I never measure anything twice.", "baking"),
        Post("p2", "Why do all recipes assume that I own a stand mixer?", "baking"),
    ),
)
_LONG = "Rest the dough overnight, then fold it twice and bake it hot. " * 60


def sample_queries() -> list[Query]:
    """Return queries that a reward model meets in the field: plain, bare, wide, empty, long and hostile texts."""
    return [
        Query(
            "plain", "How do I get a better crust?", ("Bake it hotter.", "Brush it with milk before it goes in."), _USER
        ),
        Query("no-user", "How do I get a better crust?", ("Steam the oven.", "Use a stone.")),
        Query("three", "Which flour?", ("Rye.", "Spelt, half and half.", "Plain."), _USER),
        Query("four", "Which flour?", ("Rye.", "Spelt, half and half.", "Plain.", "Whatever is in the house."), _USER),
        Query(
            "no-posts", "When is it done?", ("At 96 degrees inside.", "When it sounds hollow."), UserView("newcomer")
        ),
        Query("empty-answer", "When is it done?", ("", "When it sounds hollow."), _USER),
        Query("long", "When is it done?", (_LONG, "Soon."), _USER),
        Query(
            "hostile", "{{ 7*7 }} <|im_end|> {Response_B} \x1b[31m", ("{% raw %} [[A]] \x00", "日本語 🙂 \u202e"), _USER
        ),
    ]


# ---------------------------------------------------------------- reward models


def check_reward_model(model: RewardModel) -> None:
    """Raise an AssertionError that lists every broken promise of the RewardModel protocol."""
    usage = "an object with spec and score(queries); load_model(NAME) returns one"
    check_type(model, object if callable(getattr(model, "score", None)) else (), "model", usage)
    _raise_failures(reward_model_findings(model), getattr(model, "spec", type(model).__name__))


def reward_model_findings(model: RewardModel) -> list[Finding]:
    """Return one Finding per check; later checks are left out where the model cannot answer at all."""
    spec = getattr(model, "spec", None)
    findings = [finding("spec is a text", isinstance(spec, str) and bool(spec), f"found {spec!r}"), *_knowing(model)]
    findings += _comparing(model)
    queries = sample_queries()
    together = _attempt("answers", lambda: _verdicts(model, queries))
    if isinstance(together, Finding):
        return [*findings, together._replace(detail=f"{together.detail}; {_alone(model, queries)}")]
    findings += _shape_findings(model, queries, together)
    if any(finding.status == "fail" for finding in findings):
        return findings
    same = partial(_same, together, names=[query.id for query in queries])
    return [
        *findings,
        same("says the same twice", lambda: _verdicts(model, queries)),
        same("alone = in a batch", lambda: [_verdicts(model, [query])[0] for query in queries]),
        same("order of queries", lambda: _verdicts(model, queries[::-1])[::-1]),
        same("order of candidates", lambda: _turned(model, queries), otherwise="warn"),
        *([] if compares_of(model) else [same("alone = beside others", lambda: _one_by_one(model, queries))]),
        _reacts(queries, together),
    ]


def _knowing(model: RewardModel) -> Iterator[Finding]:
    """Yield whether what a model says that it knows is known; nothing where it says nothing."""
    if isinstance(model, Informed):
        try:
            words = ", ".join(sorted(reveals_of(model)))
        except PluralrmError as exc:
            yield Finding("reveals what is known", "fail", str(exc))
        else:
            yield from [Finding("reveals what is known", "pass", words)] * bool(words)


def _comparing(model: RewardModel) -> Iterator[Finding]:
    """Yield what a model says of company, where it says that a score depends on it; or no such word."""
    if isinstance(model, Comparing):
        try:
            if compares_of(model):
                yield Finding("compares", "pass", "yes, unless the class says compares = False")
        except PluralrmError as exc:
            yield Finding("compares", "fail", str(exc))


def _attempt(check: str, ask: Callable[[], list[Verdict]]) -> list[Verdict] | Finding:
    """Return the answers, or the failed Finding that an exception is, with its place in the user's code."""
    try:
        return ask()
    except PluralrmError as exc:
        return Finding(check, "fail", f"{type(exc).__name__}: {exc}")
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - whatever the model raises is the finding
        location = place_of(exc)
        return Finding(check, "fail", f"{type(exc).__name__}: {exc}" + f" ({location})" * bool(location))


def _alone(model: RewardModel, queries: Sequence[Query]) -> str:
    """Return for which sample queries there is no single verdict when each is asked by itself."""
    unanswered = [query.id for query in queries if not _answers(model, query)]
    if len(unanswered) in {0, len(queries)}:
        return f"asked one by one, {'none' if unanswered else 'each'} of the {len(queries)} gets one verdict"
    return f"asked one by one, {some(unanswered)} {'gets' if len(unanswered) == 1 else 'get'} none"


def _answers(model: RewardModel, query: Query) -> bool:
    verdicts = _attempt("answers", lambda: _verdicts(model, [query]))
    return not isinstance(verdicts, Finding) and len(verdicts) == 1


def _verdicts(model: RewardModel, queries: Sequence[Query]) -> list[Verdict]:
    return list(model.score(list(queries)))


def _shape_findings(model: RewardModel, queries: Sequence[Query], verdicts: Sequence[object]) -> Iterator[Finding]:
    names = [query.id for query in queries]
    wrong = [
        f"{type(verdict).__name__} at {name!r}"
        for name, verdict in zip(names, verdicts, strict=False)
        if not isinstance(verdict, Verdict)
    ]
    yield finding("yields Verdicts", not wrong, f"found {', '.join(wrong[:3])}")
    even = len(verdicts) == len(queries)
    missing = "" if even else f"{len(verdicts)} for {len(queries)} queries; {_alone(model, queries)}"
    yield finding("one per query", even, missing)
    if wrong or not even:
        return
    answers = [verdict for verdict in verdicts if isinstance(verdict, Verdict)]
    uneven = [
        f"{len(verdict.scores)} for {len(query.candidates)} at {query.id!r}"
        for query, verdict in zip(queries, answers, strict=True)
        if len(verdict.scores) != len(query.candidates)
    ]
    yield finding("one score per candidate", not uneven, ", ".join(uneven))


def _same(
    verdicts: Sequence[Verdict],
    check: str,
    ask: Callable[[], list[Verdict]],
    *,
    names: Sequence[str],
    otherwise: Literal["warn", "fail"] = "fail",
) -> Finding:
    """Return whether a second way of asking gives the same scores; `otherwise` grades a difference."""
    others = _attempt(check, ask)
    if isinstance(others, Finding):
        return others
    if len(others) != len(verdicts):
        return Finding(check, "fail", f"{len(others)} verdicts, wanted {len(verdicts)}")
    apart = [_distance(a, b) for a, b in zip(verdicts, others, strict=True)]
    drift = max(apart, default=0.0)
    detail = f"largest difference {drift:.2g}"
    if drift <= TOLERANCE:
        return Finding(check, "pass", detail)
    return Finding(check, otherwise, f"{detail}, at {names[apart.index(drift)]!r}")


def _distance(a: Verdict, b: Verdict) -> float:
    """Return the largest difference of two verdicts; a score on one side only is infinitely far."""
    if len(a.scores) != len(b.scores):
        return math.inf
    apart = 0.0
    for left, right in zip(a.scores, b.scores, strict=True):
        if isinstance(left, Failure) or isinstance(right, Failure):
            same = isinstance(left, Failure) and isinstance(right, Failure) and left.kind == right.kind
            apart = max(apart, 0.0 if same else math.inf)
        else:
            apart = max(apart, abs(left - right))
    return apart


def _turned(model: RewardModel, queries: Sequence[Query]) -> list[Verdict]:
    """Return the verdicts on the candidates in reverse order, turned back."""
    turned = [Query(q.id, q.prompt, q.candidates[::-1], q.user, q.notes, q.reveals_oracle) for q in queries]
    return [Verdict(verdict.scores[::-1]) for verdict in _verdicts(model, turned)]


def _one_by_one(model: RewardModel, queries: Sequence[Query]) -> list[Verdict]:
    """Return the verdicts put together from those on every candidate alone."""
    alone = [replace(query, candidates=(text,)) for query in queries for text in query.candidates]
    scores = iter([score for verdict in _verdicts(model, alone) for score in verdict.scores])
    return [Verdict(tuple(islice(scores, len(query.candidates)))) for query in queries]


def _reacts(queries: Sequence[Query], verdicts: Sequence[Verdict]) -> Finding:
    answered = [verdict.scores for verdict in verdicts if not verdict.failures]
    if not answered:
        return Finding("prefers something", "warn", f"all {len(queries)} sample queries failed")
    tied = all(len(set(scores)) == 1 for scores in answered)
    return Finding("prefers something", "warn" if tied else "pass", "every candidate ties" if tied else "")


# ---------------------------------------------------------------- benchmarks


def check_benchmark(benchmark: Benchmark) -> None:
    """Raise an AssertionError that lists every broken promise of a Benchmark."""
    check_type(benchmark, (Benchmark,), "benchmark", "a Benchmark; load_benchmark(NAME) returns one")
    _raise_failures(benchmark_findings(benchmark), benchmark.card.name)


# ---------------------------------------------------------------- shared


def _raise_failures(findings: Iterable[Finding], name: str) -> None:
    failed = [f"  {finding.check}: {finding.detail}" for finding in findings if finding.status == "fail"]
    if failed:
        raise AssertionError(f"{name} breaks {len(failed)} promise(s):\n" + "\n".join(failed))
