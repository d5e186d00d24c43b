"""The policy `simulated`: every level equally often, to the question asked, whoever asks."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy.stats import chisquare

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.texts import attributes, read_answer, read_answer_to
from pluralrm.core import Failure, Query
from pluralrm.errors import SpecError
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer, load_policy
from pluralrm.policies.pool import Pool
from pluralrm.policies.sample import sample
from tests.builders import bakery

BENCH = load_benchmark("simulated:users=4,items=3")
KINDS = 3 * 3 * 2 * 2 * 2 * 2 * 2
"""Answers that differ in a level."""


def said(prompt: str, seeds: Sequence[int]) -> list[str]:
    asks = [AnswerRequest(Query("q", prompt, ()), index, seed) for index, seed in enumerate(seeds)]
    replies = list(load_policy("simulated").answer(asks, Draw()))
    assert all(isinstance(reply, PolicyAnswer) and reply.finish == "stop" for reply in replies)
    return [reply.text for reply in replies if isinstance(reply, PolicyAnswer)]


def drawn(folder: Path, n: int, condition: str = "none") -> Pool:
    return sample(BENCH, "simulated", condition, out=folder / f"{condition}-{n}".replace(":", ""), draw=Draw(n=n))


def test_all_combinations_of_levels_are_equally_likely() -> None:
    texts = said(BENCH.items[0].prompt, range(20 * KINDS))
    seen = Counter(tuple(sorted((read_answer(text) or {}).items())) for text in texts)
    assert len(seen) == KINDS
    assert chisquare(list(seen.values())).pvalue > 0.001
    for attribute in attributes():
        levels = Counter(dict(kind)[attribute.name] for kind in seen.elements())
        assert chisquare(list(levels.values())).pvalue > 0.001


@pytest.mark.parametrize("item", BENCH.items, ids=lambda item: item.id)
def test_each_answer_is_to_the_question(item: object) -> None:
    prompt = item.prompt  # type: ignore[attr-defined]
    assert all(read_answer_to(prompt, text) for text in said(prompt, range(20)))


def test_the_first_answers_of_a_larger_pool_are_those_of_a_smaller_one(tmp_path: Path) -> None:
    few, many = drawn(tmp_path, 3), drawn(tmp_path, 8)
    assert {item: samples[:3] for item, samples in many.samples.items()} == few.samples


def test_it_knows_nothing_of_who_asks(tmp_path: Path) -> None:
    assert drawn(tmp_path, 4, "recent:5").samples == drawn(tmp_path, 4).samples


def test_a_question_of_another_benchmark_is_no_sample_with_words(tmp_path: Path) -> None:
    [reply] = load_policy("simulated").answer([AnswerRequest(Query("q", "Which flour?", ()), 0, 1)], Draw())
    assert isinstance(reply, Failure)
    assert reply.kind == "unsupported"
    pool = sample(bakery(2), "simulated", out=tmp_path / "pool", draw=Draw(n=2))
    assert {one.finish for several in pool.samples.values() for one in several} == {"unsupported"}


def test_it_takes_no_keys() -> None:
    for spec, told in (("simulated:users=3", "takes no target"), ("simulated,url=x", "has no key 'url'")):
        with pytest.raises(SpecError, match=told):
            load_policy(spec)
