"""Conformance checks for third parties' own reward models and benchmarks.

>>> from pluralrm.models import load_model
>>> check_reward_model(load_model("longest"))

Put the same line, with your own model, into a test of yours: it raises an AssertionError that lists what is broken.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

from pluralrm.core import Benchmark, Failure, Item, Post, Query, RewardModel, UserView, Verdict
from pluralrm.errors import PluralrmError
from pluralrm.models.informed import Comparing, Informed, compares_of, reveals_of
from pluralrm.models.plugin import place_of

TOLERANCE = 1e-4
"""How far a neural model's scores may move with batching (float32)."""


class Finding(NamedTuple):
    """The outcome of one check."""

    check: str
    status: Literal["pass", "warn", "fail"]
    detail: str = ""


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
    _raise_failures(reward_model_findings(model), getattr(model, "spec", type(model).__name__))


def reward_model_findings(model: RewardModel) -> list[Finding]:
    """Return one Finding per check; later checks are left out where the model cannot answer at all."""
    spec = getattr(model, "spec", None)
    findings = [_finding("spec is a text", isinstance(spec, str) and bool(spec), f"found {spec!r}"), *_knowing(model)]
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
            known = ", ".join(sorted(reveals_of(model)))
        except PluralrmError as exc:
            yield Finding("reveals what is known", "fail", str(exc))
        else:
            yield from [Finding("reveals what is known", "pass", known)] * bool(known)


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
    except Exception as exc:  # noqa: BLE001 - whatever the model raises is the finding
        place = place_of(exc)
        return Finding(check, "fail", f"{type(exc).__name__}: {exc}" + f" ({place})" * bool(place))


def _alone(model: RewardModel, queries: Sequence[Query]) -> str:
    """Return for which sample queries there is no single verdict when each is asked by itself."""
    unanswered = [query.id for query in queries if not _answers(model, query)]
    if len(unanswered) in {0, len(queries)}:
        return f"asked one by one, {'none' if unanswered else 'each'} of the {len(queries)} gets one verdict"
    return f"asked one by one, {_some(unanswered)} {'gets' if len(unanswered) == 1 else 'get'} none"


def _answers(model: RewardModel, query: Query) -> bool:
    found = _attempt("answers", lambda: _verdicts(model, [query]))
    return not isinstance(found, Finding) and len(found) == 1


def _verdicts(model: RewardModel, queries: Sequence[Query]) -> list[Verdict]:
    return list(model.score(list(queries)))


def _shape_findings(model: RewardModel, queries: Sequence[Query], verdicts: Sequence[object]) -> Iterator[Finding]:
    names = [query.id for query in queries]
    wrong = [
        f"{type(verdict).__name__} at {name!r}"
        for name, verdict in zip(names, verdicts, strict=False)
        if not isinstance(verdict, Verdict)
    ]
    yield _finding("yields Verdicts", not wrong, f"found {', '.join(wrong[:3])}")
    even = len(verdicts) == len(queries)
    missing = "" if even else f"{len(verdicts)} for {len(queries)} queries; {_alone(model, queries)}"
    yield _finding("one per query", even, missing)
    if wrong or not even:
        return
    answers = [verdict for verdict in verdicts if isinstance(verdict, Verdict)]
    uneven = [
        f"{len(verdict.scores)} for {len(query.candidates)} at {query.id!r}"
        for query, verdict in zip(queries, answers, strict=True)
        if len(verdict.scores) != len(query.candidates)
    ]
    yield _finding("one score per candidate", not uneven, ", ".join(uneven))


def _same(
    wanted: Sequence[Verdict],
    check: str,
    ask: Callable[[], list[Verdict]],
    *,
    names: Sequence[str],
    otherwise: Literal["warn", "fail"] = "fail",
) -> Finding:
    """Return whether a second way of asking gives the same scores; `otherwise` grades a difference."""
    found = _attempt(check, ask)
    if isinstance(found, Finding):
        return found
    if len(found) != len(wanted):
        return Finding(check, "fail", f"{len(found)} verdicts, wanted {len(wanted)}")
    apart = [_distance(a, b) for a, b in zip(wanted, found, strict=True)]
    drift = max(apart, default=0.0)
    told = f"largest difference {drift:.2g}"
    if drift <= TOLERANCE:
        return Finding(check, "pass", told)
    return Finding(check, otherwise, f"{told}, at {names[apart.index(drift)]!r}")


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
    _raise_failures(benchmark_findings(benchmark), benchmark.card.name)


def benchmark_findings(benchmark: Benchmark) -> list[Finding]:
    """Return one Finding per check, in a fixed order."""
    items = benchmark.items
    twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
    card = benchmark.card
    nameless = [name for name in ("name", "summary", "licence", "source", "labelled") if not getattr(card, name)]
    return [
        _finding("has items", bool(items)),
        _finding("the card is filled in", not nameless, f"empty: {', '.join(nameless)}"),
        _finding("item ids are unique", not twice, f"twice: {_some(twice)}"),
        _none_of("texts are not empty", items, _has_empty_text),
        _none_of("two or more different candidates", items, _has_bad_candidates),
        _none_of("preferred is a candidate", items, _has_bad_label),
        _none_of("one id per candidate", items, lambda item: len(item.candidate_ids) != len(item.candidates)),
        _none_of("clusters and domains are named", items, lambda item: not (item.cluster and item.domain)),
        _finding("one user per user id", *_users_agree(items)),
        _none_of("post ids are unique", items, _has_repeated_posts),
        _none_of("context pairs are not the item itself", items, _leaks_a_pair),
        _none_of("the prompt does not hold the rubric", items, _leaks_the_rubric, status="warn"),
        _position(items),
    ]


def _none_of(
    check: str, items: Sequence[Item], broken: Callable[[Item], bool], status: Literal["warn", "fail"] = "fail"
) -> Finding:
    culprits = [item.id for item in items if broken(item)]
    return Finding(check, status if culprits else "pass", f"not so: {_some(culprits)}" if culprits else "")


def _has_empty_text(item: Item) -> bool:
    return not all(text.strip() for text in (item.prompt, *item.candidates))


def _has_bad_candidates(item: Item) -> bool:
    return item.preferred is not None and not 2 <= len(item.candidates) == len(set(item.candidates))


def _has_bad_label(item: Item) -> bool:
    return item.preferred is not None and not 0 <= item.preferred < len(item.candidates)


def _has_repeated_posts(item: Item) -> bool:
    posts = item.user.posts if item.user else ()
    return len({post.id for post in posts}) < len(posts)


def _leaks_a_pair(item: Item) -> bool:
    pairs = item.user.preferences if item.user else ()
    return any(pair.prompt == item.prompt and pair.preferred in item.candidates for pair in pairs)


def _leaks_the_rubric(item: Item) -> bool:
    return item.oracle is not None and any(
        len(aspect.aspect) > 20 and aspect.aspect.lower() in item.prompt.lower() for aspect in item.oracle.aspects
    )


def _users_agree(items: Sequence[Item]) -> tuple[bool, str]:
    seen = {item.user.id: item.user for item in items if item.user is not None}
    differing = [item.id for item in items if item.user is not None and seen[item.user.id] != item.user]
    return not differing, f"not so: {_some(differing)}"


def _position(items: Sequence[Item]) -> Finding:
    """Return whether the preferred candidate stands at each place about equally often (1 in 1,000 by chance)."""
    from scipy.stats import chisquare

    labelled = [item for item in items if item.preferred is not None]
    widths = Counter(len(item.candidates) for item in labelled)
    worst = 1.0
    for width in widths:
        places = Counter(item.preferred for item in labelled if len(item.candidates) == width)
        worst = min(worst, float(chisquare([places[place] for place in range(width)]).pvalue)) if width > 1 else worst
    detail = f"chi-squared p = {worst:.2g}; place candidates with Random(f'{{seed}}:{{item.id}}')"
    return Finding("places are balanced", "pass" if worst > 1e-3 else "warn", "" if worst > 1e-3 else detail)


# ---------------------------------------------------------------- shared


def _finding(check: str, holds: bool, detail: str = "") -> Finding:
    return Finding(check, "pass") if holds else Finding(check, "fail", detail)


def _some(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _raise_failures(findings: Iterable[Finding], name: str) -> None:
    failed = [f"  {finding.check}: {finding.detail}" for finding in findings if finding.status == "fail"]
    if failed:
        raise AssertionError(f"{name} breaks {len(failed)} promise(s):\n" + "\n".join(failed))
