"""Users as arrays, and who is held out."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import ContextPair, Post, User, UserView
from pluralrm.errors import ModelError, SpecError
from pluralrm.models.personal.algorithms import ALGORITHMS, DEFAULTS, find, read_settings
from pluralrm.models.personal.examples import split_held_out, together
from pluralrm.models.personal.features import (
    examples_of,
    examples_on_disk,
    fit_features,
    parse_features,
    training_texts,
)

NAMES = st.lists(st.text("abcdef", min_size=1, max_size=6), min_size=2, max_size=40, unique=True)

PAIRS = (
    ContextPair("c0", "Which flour?", "Rye flour, and be patient.", "Spelt flour."),
    ContextPair("c1", "Which oven?", "A stone oven.", "Any oven, and be quick."),
)
USERS = (
    User("ann", (Post("p0", "I like patience."), Post("p1", "Rye it is.")), PAIRS),
    User("bob", (Post("p0", "I like patience."),), PAIRS[:1]),
    User("cyd", (), PAIRS[1:]),
)


def apart(users: list[str]) -> dict[str, list[tuple[str, tuple[str, str]]]]:
    """Return users of whom none judged what another did."""
    return {user: [(f"asked of {user}", (f"a of {user}", f"b of {user}"))] for user in users}


@given(NAMES, st.floats(0, 0.9), st.integers(0, 99))
def test_somebody_is_held_out_and_somebody_trains(users: list[str], share: float, seed: int) -> None:
    held = split_held_out(apart(users), share, seed)
    assert 0 < len(held) < len(users)
    assert held <= set(users)
    assert split_held_out(apart(users[::-1]), share, seed) == held


def test_more_users_change_nobodys_lot() -> None:
    few, many = (split_held_out(apart([f"u{n}" for n in range(count)]), 0.2, 0) for count in (300, 900))
    assert few == {user for user in many if int(user[1:]) < 300}


def test_one_user_cannot_be_split() -> None:
    with pytest.raises(ModelError, match="wanted at least 2"):
        split_held_out(apart(["only"]), 0.1, 0)


def test_users_who_share_a_text_are_held_out_together() -> None:
    judged = {
        f"u{n:03}": [(f"question {n}", (f"a {n}", f"b {n}")), (f"asked in {n // 4}", (f"yes {n // 4}", f"no {n}"))]
        for n in range(120)
    }
    for seed in range(20):
        held = split_held_out(judged, 0.2, seed)
        assert 0 < len(held) < 120
        assert {int(user[1:]) // 4 for user in held} & {int(user[1:]) // 4 for user in judged.keys() - held} == set()


def test_a_chain_of_answers_is_one_group_and_a_prompt_of_all_is_none() -> None:
    chain = {f"u{n}": [("the same question", (f"a{n}", f"a{n + 1}" if n < 3 else f"b{n}"))] for n in range(20)}
    found = together(chain, 0.2)
    assert [found[f"u{n}"] for n in range(6)] == ["u0", "u0", "u0", "u0", "u4", "u5"]


def test_where_everybody_judges_everything_users_are_held_out_one_by_one() -> None:
    alike = {f"u{n}": [("one question", ("one", "two"))] for n in range(30)}
    alone = {f"u{n}": [(f"question {n}", (f"one {n}", f"two {n}"))] for n in range(30)}
    assert together(alike, 0.2) == {name: name for name in alike}
    assert split_held_out(alike, 0.3, 0) == split_held_out(alone, 0.3, 0)


def test_rows_on_disk_are_those_of_a_query_and_equal_texts_share_one(tmp_path: Path) -> None:
    features = fit_features(parse_features("tfidf:4"), training_texts(USERS), seed=0, cache=None)
    kept = examples_on_disk(USERS, features, tmp_path / "matrix.npy")
    matrix = np.load(tmp_path / "matrix.npy")
    width = matrix.shape[1]
    # Two posts, two questions, four answers: what several users share is one row.
    assert len(matrix) == 8
    for user, found in zip(USERS, kept, strict=True):
        shown = examples_of(UserView(user.id, user.posts, user.preferences), features, width)
        for one, other in zip(found[1:], shown[1:], strict=True):
            np.testing.assert_array_equal(one, other)
    assert [each.user for each in kept] == ["ann", "bob", "cyd"]
    assert (kept[0].pairs, kept[2].posts.shape) == (2, (0, width))
    np.testing.assert_array_equal(kept[0].differences[0], kept[0].preferred[0] - kept[0].other[0])
    assert [each.user for each in kept[1:]] == ["bob", "cyd"]


def test_a_vector_does_not_depend_on_what_stands_beside_it() -> None:
    features = fit_features(parse_features("tfidf"), training_texts(USERS), seed=0, cache=None)
    texts = [f"{pair.prompt}\n\n{pair.preferred}" for pair in PAIRS]
    together = features.vectors(texts, "answer")
    np.testing.assert_array_equal(together, np.concatenate([features.vectors([text], "answer") for text in texts]))


def test_features_that_are_not_known_are_named() -> None:
    with pytest.raises(SpecError, match="Did you mean 'tfidf'"):
        parse_features("tfdif")
    with pytest.raises(SpecError, match="at least 1"):
        parse_features("tfidf:0")


# ---------------------------------------------------------------- hyperparameters


def test_every_algorithm_has_hyperparameters_with_a_source_each() -> None:
    for name in ALGORITHMS:
        rows = DEFAULTS[name]
        assert {"held_out", "patience"} <= set(rows)
        assert all(row.source and row.meaning for row in rows.values())
        assert read_settings(name, {}).values == {key: row.value for key, row in rows.items()}


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"rnak": "3"}, "Did you mean 'rank'"),
        ({"rank": "0"}, "a whole number from 1"),
        ({"rank": "2.5"}, "a whole number"),
        ({"l2": "-1"}, "from 0"),
        ({"l2": "nan"}, "a number from 0"),
    ],
)
def test_a_wrong_hyperparameter_is_told(given_: dict[str, str], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        read_settings("pref", given_)


def test_an_unknown_algorithm_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="Did you mean 'lore'"):
        find("lroe")
