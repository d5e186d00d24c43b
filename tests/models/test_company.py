"""A class of somebody's own may say that it scores each answer by itself; then one answer at a time can be asked."""

from collections.abc import Iterable, Iterator
from functools import partial

import pytest

from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.models import compares, load_model
from pluralrm.testing import check_reward_model, reward_model_findings
from tests.serve.running import asked, running, together
from tests.serve.test_server import about, server_of

HERE = "python:tests.models.test_company:"


class Silent:
    """Gives lengths, and says nothing of company."""

    spec = "silent"

    def __init__(self, scale: str = "1") -> None:
        self.scale = float(scale)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict(tuple(self.scale * len(text) for text in query.candidates)) for query in queries)


class Single(Silent):
    compares = False


class Beside(Silent):
    compares = True


class Shares(Single):
    """Says that it does not compare, and gives each answer its share of the longest."""

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            longest = max(map(len, query.candidates)) or 1
            yield Verdict(tuple(len(text) / longest for text in query.candidates))


class Word(Silent):
    compares = "no"


class Asks(Silent):
    def compares(self) -> bool:
        return False


class Late(Silent):
    """Says it where nobody reads it before weights are there."""

    def __init__(self) -> None:
        super().__init__()
        self.compares = False


def made() -> Single:
    return Single()


def made_and_said() -> Single:
    return Single()


made_and_said.compares = False  # type: ignore[attr-defined] # of a function


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("Silent", True), ("Beside", True), ("Single", False), ("Single,scale=2", False), ("made_and_said", False)],
)
def test_a_class_compares_unless_it_says_otherwise(name: str, wanted: bool) -> None:
    assert compares(HERE + name) is wanted
    assert load_model(HERE + name).compares is wanted  # type: ignore[attr-defined] # a Plugin


@pytest.mark.parametrize("name", ["Word", "Asks"])
def test_anything_but_true_or_false_is_refused_before_a_model_is_made(name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: compares is .*wanted True or False"):
        compares(HERE + name)
    with pytest.raises(ModelError, match="wanted True or False"):
        load_model(HERE + name)


@pytest.mark.parametrize("name", ["Late", "made"])
def test_what_only_the_object_says_is_refused_and_not_overlooked(name: str) -> None:
    assert compares(HERE + name)
    with pytest.raises(ModelError, match=r"compares is False.*compares = False in the class"):
        load_model(HERE + name)


def test_a_score_that_changes_with_its_company_is_caught() -> None:
    with pytest.raises(AssertionError, match="alone = beside others"):
        check_reward_model(Shares())
    check_reward_model(Single())
    check_reward_model(load_model(HERE + "Single"))
    failed = [one.check for one in reward_model_findings(load_model(HERE + "Shares")) if one.status == "fail"]
    assert failed == ["alone = beside others"]


def test_check_tells_what_a_class_says() -> None:
    def told(name: str) -> dict[str, tuple[str, str]]:
        return {one.check: (one.status, one.detail) for one in reward_model_findings(load_model(HERE + name))}

    assert told("Single")["alone = beside others"] == ("pass", "largest difference 0")
    assert "compares" not in told("Single")
    assert told("Silent")["compares"] == ("pass", "yes, unless the class says compares = False")
    assert "alone = beside others" not in told("Silent")


def test_an_object_that_says_what_nobody_can_mean_fails_the_check() -> None:
    [found] = [one for one in reward_model_findings(Word()) if one.status == "fail"]
    assert found.check == "compares"
    assert "'no'" in found.detail


def test_a_server_gives_it_one_answer_at_a_time_and_asks_it_together() -> None:
    name = HERE + "Single"
    model = load_model(name)
    with running(server_of(model, relative=compares(name))) as url:
        found = together([partial(asked, url, "/score", about("Q?", "x" * size)) for size in range(1, 9)])
    assert [told["scores"] for _, told, _ in found] == [[[float(size)]] for size in range(1, 9)]


def test_a_server_refuses_one_answer_alone_of_a_class_that_says_nothing() -> None:
    name = HERE + "Silent"
    with running(server_of(load_model(name), relative=compares(name))) as url:
        assert asked(url, "/score", about("Q?", "rye"))[0] == 422
