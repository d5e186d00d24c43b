"""Who grades has no hand in what is graded: decided in one place, from what models and conditions say that they ask."""

import pytest

from pluralrm import conditions, models
from pluralrm.errors import SpecError
from pluralrm.grading import check_independent

URL = "url=http://127.0.0.1:9/v1"


class Asking:
    """A reward model of one's own that asks a chat model."""

    asks = ("m",)


class Silly:
    """Declares a text where a sequence is wanted."""

    asks = "m"


def check(*picks: str, shown: tuple[str, ...] = ("none",)) -> None:
    check_independent(f"joint:m,{URL}", "m", picks=picks, conditions=shown)


@pytest.mark.parametrize(
    "model",
    [
        f"judge:m,{URL}",
        f"judge:m,style=pointwise,{URL}",
        f"synthesizeme:m,{URL}",
        "python:tests.grading.test_independent:Asking",
    ],
)
def test_a_model_that_asks_the_grader_is_refused(model: str) -> None:
    with pytest.raises(SpecError, match=r"picks, and joint:m.* grades: both ask 'm'"):
        check("longest", model)


@pytest.mark.parametrize("condition", [f"persona:m,k=3,{URL}", f"planner:m,of=swapped,{URL}"])
def test_a_condition_that_the_grader_writes_is_refused(condition: str) -> None:
    with pytest.raises(SpecError, match="writes what is shown"):
        check("longest", shown=("none", condition))


def test_others_may_pick() -> None:
    picks = ("longest", f"judge:other,{URL}", f"synthesizeme:m2,{URL}", "vllm:http://127.0.0.1:9,model=m")
    assert [models.asks(text) for text in picks] == [(), ("other",), ("m2",), ()]
    assert [conditions.asks(text) for text in ("raw:3", f"persona:p,{URL}")] == [(), ("p",)]
    check(*picks, shown=("raw:3", f"persona:p,{URL}"))


def test_a_declaration_that_cannot_be_read_is_named() -> None:
    with pytest.raises(Exception, match=r"asks is 'm'; wanted the names"):
        check("python:tests.grading.test_independent:Silly")
