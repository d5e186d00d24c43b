"""The conformance checks find what they are for."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from pluralrm.core import Benchmark, ContextPair, Post, Query, User, Verdict
from pluralrm.models import load_model
from pluralrm.testing import (
    benchmark_findings,
    check_benchmark,
    check_reward_model,
    reward_model_findings,
)
from tests.builders import bakery


@pytest.mark.parametrize("spec", ["random", "longest", "shortest", "bm25", "lsa", "copy"])
def test_the_baselines_conform(spec: str) -> None:
    check_reward_model(load_model(spec))


class _Model:
    spec = "broken"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict(tuple(float(len(text)) for text in query.candidates)) for query in queries)


class _Forgetful(_Model):
    counter = itertools.count()

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict(tuple(float(next(self.counter)) for _ in query.candidates)) for query in queries)


class _Batchy(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        window = list(queries)
        return (Verdict(tuple(len(text) / len(window) for text in query.candidates)) for query in window)


class _Lazy(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return itertools.islice(super().score(queries), 3)


class _Narrow(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict((1.0, 0.0)) for _ in queries)


class _Leaving(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        raise SystemExit(f"no weights for {queries}")


class _Raising(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        raise RuntimeError(f"no weights for {queries}")


class _Floats(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return iter([1.0 for _ in queries])  # type: ignore[misc]


class _Nameless(_Model):
    spec = ""


@pytest.mark.parametrize(
    ("model", "check"),
    [
        (_Forgetful(), "says the same twice"),
        (_Batchy(), "alone = in a batch"),
        (_Lazy(), "one per query"),
        (_Narrow(), "one score per candidate"),
        (_Raising(), "answers"),
        (_Leaving(), "answers"),
        (_Floats(), "yields Verdicts"),
        (_Nameless(), "spec is a text"),
    ],
)
def test_each_broken_promise_is_found(model: _Model, check: str) -> None:
    failed = {finding.check for finding in reward_model_findings(model) if finding.status == "fail"}
    assert check in failed
    with pytest.raises(AssertionError, match=check):
        check_reward_model(model)


class _Picky(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            if not all(query.candidates):
                raise ValueError("an empty answer")
            yield Verdict(tuple(float(len(text)) for text in query.candidates))


class _Skipping(_Model):
    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return super().score(query for query in queries if query.id != "long")


class _Uneven(_Model):
    """Forgets how many candidates there are, the second time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        self.asked += 1
        for query in queries:
            width = len(query.candidates) - (self.asked == 2 and query.id == "four")
            yield Verdict(tuple(float(len(text)) for text in query.candidates[:width]))


@pytest.mark.parametrize(
    ("model", "check", "detail"),
    [
        (_Picky(), "answers", r"ValueError: an empty answer \(.*test_testing\.py:\d+\); .*, 'empty-answer' gets none"),
        (
            _Raising(),
            "answers",
            r"RuntimeError: no weights .*test_testing\.py:\d+\); .*, none of the 8 gets",
        ),
        (_Lazy(), "one per query", r"^3 for 8 queries; asked one by one, each of the 8 gets one verdict$"),
        (_Skipping(), "one per query", r"^7 for 8 queries; asked one by one, 'long' gets none$"),
        (_Floats(), "yields Verdicts", r"^found float at 'plain', float at 'no-user', float at 'three'$"),
        (_Narrow(), "one score per candidate", r"^2 for 3 at 'three', 2 for 4 at 'four'$"),
        (_Batchy(), "alone = in a batch", r"^largest difference 3\.3e\+03, at 'long'$"),
        (_Uneven(), "says the same twice", r"^largest difference inf, at 'four'$"),
    ],
)
def test_a_broken_promise_names_the_sample_query_and_the_line(model: _Model, check: str, detail: str) -> None:
    [told] = [finding.detail for finding in reward_model_findings(model) if finding.check == check]
    assert re.search(detail, told), told


def test_a_model_that_prefers_nothing_or_the_first_place_is_warned_of() -> None:
    class First(_Model):
        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            return (Verdict(tuple(-float(n) for n in range(len(query.candidates)))) for query in queries)

    warned = {finding.check for finding in reward_model_findings(First()) if finding.status == "warn"}
    assert warned == {"order of candidates"}
    warned = {finding.check for finding in reward_model_findings(load_model("constant")) if finding.status == "warn"}
    assert warned == {"prefers something"}


def test_a_sound_benchmark_conforms() -> None:
    check_benchmark(bakery(60))
    assert {finding.status for finding in benchmark_findings(bakery(60))} == {"pass"}


def _broken(bench: Benchmark, **change: object) -> Benchmark:
    first, *rest = bench.items
    return Benchmark(bench.card, (replace(first, **change), *rest))  # type: ignore[arg-type]


_TWIN = User("u1", ())
_PAIRED = User("u0", preferences=(ContextPair("c", "Which?", "Rye.", "No."),))


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"id": "i0001"}, "item ids are unique"),
        ({"prompt": " "}, "texts are not empty"),
        ({"candidates": ("a", "a")}, "two or more different candidates"),
        ({"candidates": ("a",), "candidate_ids": ("c0",), "preferred": 0}, "two or more different candidates"),
        ({"preferred": 2}, "preferred is a candidate"),
        ({"candidate_ids": ("c0",)}, "one id per candidate"),
        ({"cluster": ""}, "clusters and domains are named"),
        ({"user": _TWIN}, "one cluster per user id"),
        ({"user": User("u0", (Post("p", "Rye.", date="May 3rd"),))}, "post dates are ISO 8601"),
        (
            {"user": _PAIRED, "prompt": "Which?", "candidates": ("Rye.", "Oat.")},
            "no context pair holds a preferred answer",
        ),
    ],
)
def test_each_broken_benchmark_is_found(change: dict[str, object], check: str) -> None:
    findings = benchmark_findings(_broken(bakery(60), **change))
    assert check in {finding.check for finding in findings if finding.status == "fail"}


def test_a_person_may_ask_several_questions_with_posts_cut_at_the_time_of_each() -> None:
    bench = bakery(60)
    asked = []
    for number, item in enumerate(bench.items):
        assert item.user is not None
        person = bench.items[number // 5 * 5].user
        assert person is not None
        asked.append(replace(item, user=replace(person, posts=item.user.posts[: number % 5]), cluster=person.id))
    check_benchmark(Benchmark(bench.card, tuple(asked)))


def test_a_label_that_always_stands_first_is_warned_of() -> None:
    bench = bakery(60)
    fixed = Benchmark(bench.card, tuple(replace(item, preferred=0) for item in bench.items))
    assert "places are balanced" in {finding.check for finding in benchmark_findings(fixed) if finding.status == "warn"}
