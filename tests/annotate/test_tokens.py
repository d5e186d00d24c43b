"""Tokens and limits: found whole or not at all, kept as hashes, and tries that run out and come back."""

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.annotate.server import Bucket
from pluralrm.annotate.store import ADMIN, annotator_of, key_of, new_token, owner, token_hash

TOKENS = {name: new_token() for name in (ADMIN, key_of("a01"), key_of(ADMIN))}
HASHES = {name: token_hash(token) for name, token in TOKENS.items()}


def test_every_token_has_one_owner() -> None:
    assert {name: owner(HASHES, token) for name, token in TOKENS.items()} == {name: name for name in TOKENS}


@given(st.text(max_size=60))
def test_nothing_else_has_one(text: str) -> None:
    assert owner(HASHES, text) is None


def test_a_token_that_is_cut_longer_or_given_as_its_hash_has_none() -> None:
    for token in TOKENS.values():
        for other in (token[:-1], token + "=", token.swapcase(), token_hash(token).hex(), ""):
            assert owner(HASHES, other) is None


def test_an_annotator_called_admin_is_not_the_admin() -> None:
    assert annotator_of(key_of(ADMIN)) == ADMIN
    assert annotator_of(ADMIN) is None


def test_tries_run_out_and_come_back_with_time() -> None:
    now = [0.0]
    bucket = Bucket(60, clock=lambda: now[0])
    assert [bucket.take("a") for _ in range(61)] == [0.0] * 60 + [1.0]
    assert bucket.take("b") == 0.0
    now[0] = 1.0
    assert bucket.take("a") == 0.0
    assert bucket.take("a") > 0.0
    now[0] = 1e6
    assert [bucket.take("a") for _ in range(61)] == [0.0] * 60 + [1.0]


def test_made_up_names_fill_no_memory() -> None:
    bucket = Bucket(1)
    for number in range(10_050):
        bucket.take(str(number))
    assert len(bucket._left) == 10_000
