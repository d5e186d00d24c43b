"""The rows that are kept are those of the plain greedy rule, for every block and at every distance to the threshold."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pluralrm.audit.embedder import Letters, Rows
from pluralrm.construct.filters import THRESHOLD, Selection, cosine, cosines, select, similar
from pluralrm.errors import ModelError
from pluralrm.stats.clusters import FloatArray

N = 5000


class Plain(NamedTuple):
    """What the rule gives, row by row: which are kept, and each row's highest cosine with a kept row before it."""

    kept: list[int]
    highest: FloatArray


def row_by_row(rows: Rows, threshold: float = THRESHOLD) -> Plain:
    """Return what a plain loop in float64 keeps."""
    exact = rows.astype(np.float64)
    size = np.linalg.norm(exact, axis=1)
    unit = exact / np.where(size > 0, size, 1)[:, None]
    kept: list[int] = []
    held = np.empty_like(unit)
    highest = np.full(len(rows), -2.0)
    for place, row in enumerate(unit):
        if kept:
            highest[place] = (held[: len(kept)] @ row).max()
        if highest[place] <= threshold:
            held[len(kept)] = row
            kept.append(place)
    return Plain(kept, highest)


# ---------------------------------------------------------------- shapes of 5,000 rows


def noise(rng: np.random.Generator, *shape: int) -> Rows:
    return rng.standard_normal(shape).astype(np.float32)


def apart(rng: np.random.Generator) -> Rows:
    """Nothing resembles anything: every row is kept."""
    return noise(rng, N, 64)


def duplicates_of_few(rng: np.random.Generator) -> Rows:
    """Four of five rows resemble an earlier one."""
    return noise(rng, N // 5, 96)[rng.integers(0, N // 5, N)] + np.float32(0.5) * noise(rng, N, 96)


def crowded(rng: np.random.Generator) -> Rows:
    """So few dimensions that most pairs are near the threshold."""
    return noise(rng, N, 6)


def chains(rng: np.random.Generator) -> Rows:
    """Walks in which each row resembles its neighbours and not those two steps on: who goes depends on who stayed."""
    angle = np.arange(50) * 0.6  # cos 0.6 is .83, cos 1.2 is .36
    planes = [np.linalg.qr(noise(rng, 64, 2))[0] for _ in range(N // 50)]
    walks = [np.outer(np.cos(angle), plane[:, 0]) + np.outer(np.sin(angle), plane[:, 1]) for plane in planes]
    return np.concatenate(walks)[rng.permutation(N)].astype(np.float32)


def near_the_threshold(rng: np.random.Generator) -> Rows:
    """Pairs whose cosine differs from the threshold by less than a float32 product is wrong."""
    first, second = np.linalg.qr(rng.standard_normal((N // 2, 96, 2)))[0].transpose(2, 0, 1)
    goal = THRESHOLD + rng.uniform(-5e-8, 5e-8, (N // 2, 1))
    other = goal * first + np.sqrt(1 - goal**2) * second
    return np.stack([first, other], axis=1).reshape(N, 96).astype(np.float32)


def with_zeros(rng: np.random.Generator) -> Rows:
    """Rows without anything to go by, between duplicates."""
    rows = duplicates_of_few(rng)
    rows[rng.random(N) < 0.3] = 0
    return rows


def all_equal(rng: np.random.Generator) -> Rows:
    """One row, again and again."""
    return np.tile(noise(rng, 1, 384), (N, 1))


def scaled(rng: np.random.Generator) -> Rows:
    """Lengths from 1e-15 to 1e15, which no cosine should see."""
    return (duplicates_of_few(rng) * 10.0 ** rng.integers(-15, 16, (N, 1))).astype(np.float32)


SHAPES = [apart, duplicates_of_few, crowded, chains, near_the_threshold, with_zeros, all_equal, scaled]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_the_selection_of_5000_rows_is_that_of_the_plain_loop(shape: Callable[[np.random.Generator], Rows]) -> None:
    rows = shape(np.random.default_rng(1))
    found, plain = select(rows), row_by_row(rows)
    assert np.flatnonzero(found.kept).tolist() == plain.kept
    dropped = np.flatnonzero(~found.kept)
    assert np.abs(found.cosine[dropped] - plain.highest[dropped]).max(initial=0) < 1e-12
    _check_neighbours(rows, found)


def _check_neighbours(rows: Rows, found: Selection) -> None:
    dropped = np.flatnonzero(~found.kept)
    near = found.nearest[dropped]
    assert found.kept[near].all()
    assert (near < dropped).all()
    assert np.array_equal(found.cosine[dropped], cosines(rows[dropped], rows[near]))
    assert (found.cosine[dropped] > THRESHOLD).all()
    assert (found.nearest[found.kept] == -1).all()
    assert not found.cosine[found.kept].any()


def test_float32_products_alone_would_choose_otherwise_near_the_threshold() -> None:
    rows = near_the_threshold(np.random.default_rng(1))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    single = (units[::2] * units[1::2]).sum(axis=1) > np.float32(THRESHOLD)
    assert (single != (cosines(rows[::2], rows[1::2]) > THRESHOLD)).sum() > 10


# ---------------------------------------------------------------- exact cases, decided in whole numbers


def in_fractions(rows: Rows, threshold: Fraction) -> list[int]:
    """Return what is kept, in exact arithmetic; a cosine that is the threshold keeps a row."""
    whole = [[int(value) for value in row] for row in rows]
    kept: list[int] = []
    for place, row in enumerate(whole):
        if not any(_above(row, whole[other], threshold) for other in kept):
            kept.append(place)
    return kept


def _above(one: list[int], other: list[int], threshold: Fraction) -> bool:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    lengths = sum(a * a for a in one) * sum(b * b for b in other)
    return product > 0 and product**2 > threshold**2 * lengths


def test_a_cosine_that_is_exactly_the_threshold_keeps_a_row() -> None:
    # (10, 0, 0, 0) and (7, 1, 1, 7) have lengths 10 and product 70; 0.70 is what people mean by the double below it.
    rows = np.array([[10, 0, 0, 0], [7, 1, 1, 7], [7, 1, 7, 1], [7.0001, 1, 1, 7]], np.float32)
    assert cosine(rows[0], rows[1]) == THRESHOLD
    assert select(rows[:2]).kept.all()
    assert select(rows[[0, 3]]).kept.tolist() == [True, False]
    assert select(rows[:2], threshold=math.nextafter(THRESHOLD, 0)).kept.tolist() == [True, False]


def test_rows_all_at_the_threshold_to_each_other_are_all_kept() -> None:
    # Any two of (3, ..., 0s, one 3-4-5 part each) have the same cosine 9/25: 0.36.
    rows = np.zeros((300, 301), np.float32)
    rows[:, 0] = 3
    rows[np.arange(300), np.arange(300) + 1] = 4
    assert select(rows, threshold=0.36, block=64).kept.all()
    assert select(rows, threshold=math.nextafter(0.36, 0), block=64).kept.sum() == 1


# Halves and the like have an exact double, so that the comparison in doubles is the one in fractions.
SMALL = arrays(np.float32, st.tuples(st.integers(0, 24), st.just(4)), elements=st.integers(-3, 3).map(float))


@given(SMALL, st.sampled_from([Fraction(1, 2), Fraction(3, 4), Fraction(1, 4), Fraction(1)]), st.integers(1, 9))
def test_small_whole_numbers_are_decided_as_in_exact_arithmetic(rows: Rows, threshold: Fraction, block: int) -> None:
    found = select(rows, threshold=float(threshold), block=block)
    assert np.flatnonzero(found.kept).tolist() == in_fractions(rows, threshold)


@given(SMALL, st.integers(1, 30), st.integers(1, 30))
def test_the_size_of_a_block_changes_nothing(rows: Rows, one: int, other: int) -> None:
    first, second = select(rows, block=one), select(rows, block=other)
    assert all(np.array_equal(left, right) for left, right in zip(first, second, strict=True))


def test_of_equal_neighbours_the_first_is_named() -> None:
    rows = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 2, 0], [0, 3, 0]], np.float32)
    for block in (1, 2, 5):
        found = select(rows, threshold=0.7, block=block)
        assert found.nearest.tolist() == [-1, -1, 0, 0, 1]
    assert found.cosine == pytest.approx([0, 0, math.sqrt(0.5), math.sqrt(0.5), 1])


def test_of_equal_neighbours_in_two_blocks_the_first_is_named() -> None:
    rows = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 1, 0]], np.float32)
    for block in (1, 2, 3, 4):
        assert select(rows, block=block).nearest.tolist() == [-1, -1, -1, 1]


def test_a_chain_keeps_every_other_row() -> None:
    steps = np.arange(7) * 0.6
    rows = np.stack([np.cos(steps), np.sin(steps)], axis=1).astype(np.float32)
    assert np.flatnonzero(select(rows[:5]).kept).tolist() == [0, 2, 4]


# ---------------------------------------------------------------- what has no cosine


def test_rows_of_zeros_resemble_nothing_and_stay() -> None:
    rows = np.zeros((5, 3), np.float32)
    assert select(rows).kept.all()
    assert cosine(rows[0], rows[1]) == cosine(rows[0], np.ones(3, np.float32)) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_by_its_row(bad: float) -> None:
    rows = np.ones((9, 3), np.float32)
    rows[[6, 8], 1] = bad
    with pytest.raises(ModelError, match="row 6 of the embeddings is not finite"):
        select(rows)


def test_no_row_and_one_row() -> None:
    assert select(np.zeros((0, 0), np.float32)).kept.tolist() == []
    assert select(np.ones((1, 3), np.float32)).kept.tolist() == [True]


# ---------------------------------------------------------------- the cosine


@given(arrays(np.float32, (2, 7), elements=st.integers(-1000, 1000).map(float)))
def test_the_cosine_is_that_of_exact_arithmetic(rows: Rows) -> None:
    one, other = ([int(value) for value in row] for row in rows)
    lengths = sum(a * a for a in one) * sum(b * b for b in other)
    product = sum(a * b for a, b in zip(one, other, strict=True))
    assert cosine(rows[0], rows[1]) == pytest.approx(product / math.sqrt(lengths) if lengths else 0, abs=1e-15)


def test_the_cosine_has_the_same_bits_alone_among_others_and_everywhere() -> None:
    rows = np.sin(np.arange(3 * 384, dtype=np.float64) ** 1.5).round(3).reshape(3, 384).astype(np.float32)
    together = cosines(rows[[0, 0, 1]], rows[[1, 2, 2]])
    assert [float(value).hex() for value in together] == EVERYWHERE
    assert together.tolist() == [cosine(rows[0], rows[1]), cosine(rows[0], rows[2]), cosine(rows[1], rows[2])]
    assert cosine(rows[1], rows[0]) == cosine(rows[0], rows[1])
    assert cosine(rows[0], rows[0]) == 1


EVERYWHERE = ["-0x1.f06acb9aec28fp-5", "-0x1.ce93e37dfcf12p-5", "0x1.6f64a2c68ba92p-8"]


# ---------------------------------------------------------------- prompts


def test_prompts_go_in_the_order_of_their_ids() -> None:
    prompts = {
        "b": "How do I bake a dark rye bread at home?",
        "a": "How do I bake dark rye bread at home?",
        "c": "Who was the first person on the moon?",
        "d": "?!",
        "e": "?",
    }
    found = similar(prompts, Letters())
    assert similar(dict(reversed(prompts.items())), Letters()) == found
    assert list(found) == ["b"]
    assert found["b"].other == "a"
    assert str(found["b"]).startswith("similar: cosine 0.9")
    assert similar(prompts, Letters(), threshold=1) == {}
