"""How near the rewrites of a prompt stay to it."""

from pluralrm.audit.embedder import open_embedder
from pluralrm.audit.findings import paraphrases
from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark, Estimate
from tests.construct.worlds import changed, pairs

LETTERS = open_embedder("letters")


def test_each_rewrite_is_measured_against_its_base_alone() -> None:
    bench = load_benchmark("pocket-rmgap")
    found = paraphrases(bench, LETTERS)
    base = {(i.tags["record"], i.tags["group"]): i.prompt for i in bench.items if i.tags["role"] == "base"}
    rewrites = [i for i in bench.items if i.tags["role"] == "rewrite"]
    by_hand = []
    for item in rewrites:
        one, other = LETTERS.rows([base[item.tags["record"], item.tags["group"]], item.prompt])
        by_hand.append(float(one @ other))
    cosine, below = found.measures["cosine"], found.measures["below 0.70"]
    assert isinstance(cosine, Estimate)
    assert isinstance(below, Estimate)
    assert found.measures["rewrites"] == len(rewrites) == 96
    assert abs(cosine.value - sum(by_hand) / len(by_hand)) < 1e-6
    assert below.value == sum(one < 0.7 for one in by_hand) / len(by_hand)


def test_a_rewrite_that_says_something_else_or_the_same_words_is_found() -> None:
    bench = load_benchmark("pocket-rmgap")
    base = {(i.tags["record"], i.tags["group"]): i.prompt for i in bench.items if i.tags["role"] == "base"}
    items = [
        changed(i, prompt=base[i.tags["record"], i.tags["group"]].upper()) if i.tags["role"] == "rewrite" else i
        for i in bench.items
    ]
    found = paraphrases(Benchmark(bench.card, tuple(items)), LETTERS)
    copied = found.measures["same words"]
    assert isinstance(copied, Estimate)
    assert (found.status, copied.value) == ("warn", 1.0)
    lost = [changed(i, prompt="Xyz qqq.") if i.tags["role"] == "rewrite" else i for i in bench.items]
    below = paraphrases(Benchmark(bench.card, tuple(lost)), LETTERS).measures["below 0.70"]
    assert isinstance(below, Estimate)
    assert below.value == 1.0


def test_without_phrasings_or_a_model_nothing_is_measured() -> None:
    assert paraphrases(pairs(5), LETTERS).status == "not available"
    assert "--embed" in paraphrases(load_benchmark("pocket-rmgap"), None).found
