"""Prices, the account, and the cap."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.errors import ServiceError
from pluralrm.http import Price, Tally, Usage, load_prices
from pluralrm.http.calls import Ledger

PRICES = {"m": Price(0.5, 2.0)}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), max_size=30))
def test_the_cost_is_tokens_times_prices(replies: list[tuple[int, int]]) -> None:
    ledger = Ledger("m", PRICES, None)
    for prompt, completion in replies:
        ledger.charge(Usage(prompt, completion))
    expected = 0.5e-6 * sum(prompt for prompt, _ in replies) + 2e-6 * sum(completion for _, completion in replies)
    assert ledger.tally.cost == pytest.approx(expected)


def test_a_cost_nobody_knows_is_not_zero() -> None:
    ledger = Ledger("other", PRICES, None)
    ledger.charge(Usage(1, 1))
    assert ledger.tally.cost is None


def test_a_cap_without_a_price_refuses_to_start() -> None:
    with pytest.raises(ServiceError, match=r"price of 'n' is not known.*Did you mean 'm'|price of 'n' is not known"):
        Ledger("n", PRICES, 1.0)


@pytest.mark.parametrize("cap", [-1.0, float("nan")])
def test_a_cap_is_a_number_of_at_least_zero(cap: float) -> None:
    with pytest.raises(ServiceError, match="highest cost"):
        Ledger("m", PRICES, cap)


def test_a_reply_without_a_count_of_tokens_ends_a_capped_run() -> None:
    Ledger("m", PRICES, None).answer(cached=False, metered=False)
    with pytest.raises(ServiceError, match="no highest cost can be held"):
        Ledger("m", PRICES, 1.0).answer(cached=False, metered=False)


def test_when_the_cap_is_reached_no_call_is_sent() -> None:
    ledger = Ledger("m", PRICES, 0.001)
    assert ledger.refusal() is None
    ledger.charge(Usage(2000, 0))
    refusal = ledger.refusal()
    assert refusal is not None
    assert refusal.kind == "budget"
    assert Ledger("m", PRICES, 0.0).refusal() is not None


def _tally(cost: float | None, *counts: int) -> Tally:
    return Tally(*counts)._replace(cost=cost)


@given(st.lists(st.tuples(*[st.integers(0, 10**6)] * 6), min_size=1, max_size=6))
def test_what_several_have_asked_adds_up_and_comes_apart_again(counts: list[tuple[int, ...]]) -> None:
    tallies = [_tally(number / 8, *row) for number, row in enumerate(counts)]
    together = tallies[0]
    for tally in tallies[1:]:
        together = together.plus(tally)
    assert together[:-1] == tuple(map(sum, zip(*counts, strict=True)))
    assert together.cost == sum(number / 8 for number in range(len(counts)))
    for tally in tallies[1:]:
        together = together.since(tally)
    assert together == tallies[0]


def test_a_sum_with_a_cost_nobody_knows_is_not_known() -> None:
    asked, idle = _tally(None, 1, 0, 1), _tally(None)
    known = _tally(0.5, 1, 0, 1)
    assert known.plus(asked).cost is None
    assert known.plus(idle).cost == idle.plus(known).cost == 0.5  # who has sent nothing has spent nothing
    assert idle.plus(idle).cost is None


def test_prices_are_read_from_toml_and_json(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('["org/m-1.5"]\ninput = 0.15\noutput = 1\n')
    (tmp_path / "p.json").write_text('{"org/m-1.5": {"input": 0.15, "output": 1}}')
    expected = {"org/m-1.5": Price(0.15, 1.0)}
    assert load_prices(tmp_path / "p.toml") == load_prices(tmp_path / "p.json") == expected


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"m": 3}',
        '{"m": {"input": 1}}',
        '{"m": {"input": 1, "output": 1, "cached": 1}}',
        '{"m": {"input": "1", "output": 1}}',
        '{"m": {"input": true, "output": 1}}',
        '{"m": {"input": -1, "output": 1}}',
        '{"m": {"input": NaN, "output": 1}}',
        '{"m": ',
    ],
)
def test_a_malformed_price_is_named_not_guessed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ServiceError, match=r"prices\.json"):
        load_prices(path)


def test_a_price_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="nowhere"):
        load_prices(tmp_path / "nowhere.toml")
