"""A dtype is never silent: marks, estimates, and a warning where two runs differ in it alone."""

import pytest

from pluralrm.core import Failure
from pluralrm.metrics import precision_pairs, summary
from pluralrm.metrics.estimates import marks, source_notes
from tests.metrics.rows import row, run, users

ROWS = [row("a", (1.0, 0.0)), row("b", (0.0, 1.0)), row("c", (0.5, 0.5)), row("d", (Failure("nonfinite"), 1.0))]
MOVED = [row("a", (0.9, 0.0)), row("b", (1.0, 0.0)), row("c", (0.6, 0.5)), row("d", (0.0, 1.0))]


def test_two_dtypes_of_one_model_are_named_with_the_decisions_that_differ() -> None:
    exact = run(ROWS, model="hf:rm,label=1")
    [pair] = precision_pairs([exact, run(MOVED, model="hf:rm,dtype=bfloat16,label=1", dtype="bfloat16")])
    assert (pair.differ, pair.of, pair.failed) == (2, 3, 1)  # b turns, the tie of c ends; d failed in float32
    assert str(pair).startswith(
        "one model in two dtypes under none: hf:rm,label=1 (float32), hf:rm,dtype=bfloat16,label=1 (bfloat16). 2 of 3"
    )
    assert str(pair).endswith("by rounding alone; 1 item failed in one of the runs alone")


def test_a_run_on_another_device_is_the_same_model_too() -> None:
    runs = [run(ROWS, model="hf:rm"), run(MOVED, model="hf:rm,device=cuda", dtype="bfloat16")]
    assert len(precision_pairs(runs)) == 1


@pytest.mark.parametrize(
    "other",
    [
        run(MOVED, model="hf:rm,device=cuda"),
        run(MOVED, model="hf:rm,label=1", dtype="bfloat16"),
        run(MOVED, model="hf:other", dtype="bfloat16"),
        run(MOVED, model="hf:rm", dtype="bfloat16", condition="raw:10"),
    ],
)
def test_runs_that_differ_in_more_or_not_in_dtype_are_no_pair(other) -> None:
    assert precision_pairs([run(ROWS, model="hf:rm"), other]) == []


def test_every_number_of_a_half_precision_run_says_so_and_no_other_does() -> None:
    low, exact = (run(users(20, 0.7), model=model, dtype=dtype) for model, dtype in (("l", "bfloat16"), ("e", "")))
    assert "computed in bfloat16" in summary(low).metrics["accuracy"].method
    assert summary(low).to_json()["dtype"] == "bfloat16"
    assert marks(low) == ["BFLOAT16"]
    assert source_notes([low, exact], {}) == ["l: computed in bfloat16."]
    assert "computed" not in summary(exact).metrics["accuracy"].method
    assert "dtype" not in summary(exact).to_json()
    assert marks(exact) == []
