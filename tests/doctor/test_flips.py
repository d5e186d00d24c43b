"""What a dtype changes: every preference that differs from float32 is counted, and no failure pays."""

from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Failure, Item, Query, Score, Verdict
from pluralrm.doctor import examine, is_neural, precision_flips
from pluralrm.models import load_model
from tests.doctor.looking import BENCH, look, signs

LOST = Failure("nonfinite", "nan in float16")
SCORE = st.integers(-3, 3).map(float) | st.just(LOST)
SIDES = st.lists(st.lists(st.tuples(SCORE, SCORE), min_size=2, max_size=4), min_size=1, max_size=6)


def items(widths: list[int]) -> list[Item]:
    return [
        Item(f"i{place}", f"question {place}", tuple(f"answer {n}" for n in range(width)), 0, f"u{place}", "Bread")
        for place, width in enumerate(widths)
    ]


@given(SIDES)
def test_every_pair_that_float32_orders_in_another_way_is_a_flip(sides: list[list[tuple[Score, Score]]]) -> None:
    exact, low = ([Verdict(tuple(pair[side] for pair in pairs)) for pairs in sides] for side in (0, 1))
    result = precision_flips(items([len(pairs) for pairs in sides]), exact, low)
    expected, scored, lost = [], 0, 0
    for number, pairs in enumerate(sides):
        for i in range(len(pairs)):
            for j in range(i):
                (a, b), (c, d) = pairs[j], pairs[i]
                if LOST in {a, c}:
                    lost += 1
                    continue
                scored += 1
                order = "failed" if LOST in {b, d} else (b > d) - (b < d)  # type: ignore[operator]
                if order != (a > c) - (a < c):  # type: ignore[operator]
                    expected.append((f"i{number}", (j, i)))
    assert (result.pairs, result.unscored) == (scored, lost)
    assert sorted((flip.item, flip.candidates) for flip in result.flips) == sorted(expected)
    assert [flip.margin for flip in result.flips] == sorted((flip.margin for flip in result.flips), reverse=True)
    if result.rate is not None:
        assert result.rate.value == pytest.approx(len(expected) / scored)
        assert result.sign.colour in {"yellow", "red"}  # so few items are no evidence of equality
    assert (result.rate is None) == (scored == 0)


@pytest.mark.parametrize(("changed", "colour"), [(0, "green"), (1, "green"), (8, "yellow"), (40, "red")])
def test_few_flips_of_many_pairs_are_green_and_many_are_red(changed: int, colour: str) -> None:
    exact = [Verdict((1.0, 0.0))] * 200
    low = [Verdict((0.0, 1.0))] * changed + exact[changed:]
    sign = precision_flips(items([2] * 200), exact, low).sign
    assert sign.colour == colour
    assert f"{changed} of 200 preferences differ" in sign.found


def test_a_score_that_is_lost_is_a_flip_and_names_the_item() -> None:
    result = precision_flips(items([2, 2]), [Verdict((1.0, 0.0))] * 2, [Verdict((1.0, 0.0)), Verdict((1.0, LOST))])
    assert [(flip.item, flip.kind, flip.margin) for flip in result.flips] == [("i1", "failed", 1.0)]
    assert result.rate is not None
    assert result.rate.failed == 1
    assert "1 failed" in result.sign.found
    assert "i1" in result.sign.reason


# ---------------------------------------------------------------- of a real model


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that has learned to prefer the longer answer: its margins are real."""
    import torch
    import transformers

    from tests.models.neural.tiny import reward_folder

    folder = reward_folder(tmp_path_factory.mktemp("taught"), initializer_range=0.1)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for step in range(10):
        texts = [f"Bread {'rye ' * ((step * 7 + place * 5) % 23)}" for place in range(8)]
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        goal = torch.tensor([len(text) / 50 for text in texts])
        loss = (model(**batch).logits[:, 0] - goal).square().mean()
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        with torch.no_grad():
            for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.sub_(slope.sign(), alpha=2e-3)
    model.save_pretrained(folder)
    return folder


@pytest.mark.hf
def test_the_doctor_counts_what_two_scorings_of_their_own_give(taught: Path) -> None:
    result = look(f"hf:{taught},dtype=bfloat16")
    sides = []
    for dtype in ("float32", "bfloat16"):
        queries = [Query(item.id, item.prompt, item.candidates) for item in BENCH.items]
        verdicts = load_model(f"hf:{taught},dtype={dtype}").score(queries)
        sides.append({query.id: verdict.scores for query, verdict in zip(queries, verdicts, strict=True)})
    expected = {
        item
        for item, (a, b) in sides[0].items()
        if (a > b, a < b) != (sides[1][item][0] > sides[1][item][1], sides[1][item][0] < sides[1][item][1])  # type: ignore[operator]
    }
    assert result.flips is not None
    assert {flip.item for flip in result.flips.flips} == expected
    assert result.flips.pairs == len(BENCH.items)
    moved = [abs(a - b) for item in sides[0] for a, b in zip(sides[0][item], sides[1][item], strict=True)]  # type: ignore[operator]
    assert result.flips.moved == pytest.approx((sum(moved) / len(moved), max(moved)))
    assert max(moved) > 0
    assert result.to_json()["flips"] == result.flips.to_json()
    assert signs(result)["flips"].found.startswith(f"{len(expected)} of {len(BENCH.items)} preferences")


@pytest.mark.hf
def test_fewer_items_are_compared_where_that_is_asked_for_and_none_in_float32(taught: Path) -> None:
    from pluralrm.conditions import load_condition

    model = load_model(f"hf:{taught},dtype=bfloat16")
    assert is_neural(model)
    flips = examine(model, BENCH, load_condition("none"), limit=7).flips
    assert flips is not None
    assert flips.pairs == 7
    assert look(f"hf:{taught}").flips is None
    assert "flips" not in look(f"hf:{taught}").to_json()


@pytest.mark.hf
def test_where_float32_does_not_fit_that_is_a_sign_and_the_others_stand(
    taught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from pluralrm.doctor import scores

    def full(_: object) -> NoReturn:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(scores, "exact_twin", full)
    result = look(f"hf:{taught},dtype=bfloat16")
    assert signs(result)["flips"][1:4] == ("yellow", "not measured: no scores in float32", "CUDA out of memory")
    assert result.flips is None
    assert "speed" in signs(result)
