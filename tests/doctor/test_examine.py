"""The doctor as a whole: healthy models are all green, unwell ones are not, and what cannot be looked at is refused."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, ConditionError, SpecError
from tests.doctor.looking import BENCH, NAMES, look, signs

pytestmark = pytest.mark.hf

Shelf = Callable[..., Path]


# ---------------------------------------------------------------- healthy models


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "gemma3"])
def test_a_healthy_head_is_all_green(family: str, shelf: Shelf) -> None:
    found = look(f"hf:{shelf(family)},max_tokens=1024", "none")
    assert [sign.name for sign in found.signs] == NAMES
    assert {sign.colour for sign in found.signs} == {"green"}, found.signs
    assert not found.red
    assert all(sign.found and sign.reason and not sign.remedy for sign in found.signs)


@pytest.mark.parametrize("kind", ["endo", "verifier", "choice", "dpo"])
def test_a_healthy_language_model_is_all_green_and_has_no_labels(kind: str, shelf: Shelf) -> None:
    reference = f",reference={shelf(language=True, seed=1)}" if kind == "dpo" else ""
    found = look(f"{kind}:{shelf(language=True)}{reference}", "recent:2")
    assert [sign.name for sign in found.signs] == [name for name in NAMES if name != "labels"]
    assert {sign.colour for sign in found.signs} == {"green"}, found.signs


def test_an_encoder_that_reads_pairs_is_looked_into_too(shelf: Shelf) -> None:
    found = look(f"hf:{shelf('modernbert')},format=pair")
    assert signs(found)["bos"].found == "none"
    assert "pools by itself" in signs(found)["padding"].found
    assert signs(found)["packing"].found == "nothing is packed"
    assert {name for name, sign in signs(found).items() if sign.colour != "green"} <= {"answer"}  # a tiny vocabulary


# ---------------------------------------------------------------- scores


def test_a_judge_that_is_asked_in_one_order_is_red_where_the_place_decides(shelf: Shelf) -> None:
    spec = f"choice:{shelf(language=True)}"
    sign = signs(look(f"{spec},orders=first"))["order"]
    assert (sign.colour, sign.remedy) == ("red", "Ask in both orders: orders=both")
    assert signs(look(f"{spec},orders=both"))["order"].colour == "green"


def test_a_model_whose_packs_disagree_is_padded_and_that_is_yellow(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pluralrm.models.neural import engine

    monkeypatch.setattr(engine, "_AGREEMENT", {})
    monkeypatch.setattr(engine, "_HALF_AGREEMENT", 0.0)  # no rounding at all is allowed
    sign = signs(look(f"hf:{shelf()}"))["packing"]
    assert sign.colour == "yellow"
    assert sign.found.startswith("off: on random trees packed states differ")


# ---------------------------------------------------------------- what is asked for


def test_what_cannot_be_looked_at_is_refused(shelf: Shelf) -> None:
    spec = f"hf:{shelf()}"
    with pytest.raises(BenchmarkError, match=r"pocket-prb has no item 'art-1'. Did you mean 'art-01'"):
        look(spec, item="art-1")
    with pytest.raises(ConditionError, match="no posts to show"):
        look(spec, "raw:5", benchmark=load_benchmark("pocket-rmgap"))
    with pytest.raises(SpecError, match=r"2 labels \(0 = LABEL_0, 1 = LABEL_1\)"):
        look(f"hf:{shelf(num_labels=2)}")


def test_a_benchmark_of_prompts_alone_has_nothing_to_look_at(shelf: Shelf) -> None:
    prompts = Benchmark(BENCH.card, tuple(replace(item, candidates=(), preferred=None) for item in BENCH.items))
    with pytest.raises(BenchmarkError, match="has prompts only"):
        look(f"hf:{shelf()}", benchmark=prompts)


def test_items_beyond_200_are_spread_over_the_benchmark() -> None:
    from pluralrm.doctor.tokens import chosen

    many = load_benchmark("simulated:users=300,items=1")
    items = chosen(many, load_condition("none"), many.items[299].id)
    assert len(items) == len({item.id for item in items}) == 200
    assert items[0] is many.items[299]
    places = [many.items.index(item) for item in items[1:]]
    assert places == sorted(places)
    assert max(later - before for before, later in pairwise(places)) == 2
