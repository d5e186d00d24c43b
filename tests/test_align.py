"""One answer, one user, one human rating."""

import json
import math
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.align import align, evaluate_one
from pluralrm.core import Failure, Post, User
from pluralrm.errors import MetricError, RowError
from tests.builders import Scripted

POSTS = ["I bake rye bread on Sundays.", "My oven has no thermometer."]


class Fixed(Scripted):
    """Scores every answer with the number that it is."""

    def _answer(self, query):
        from pluralrm.core import Verdict

        return Verdict(tuple(float(text) for text in query.candidates))


@given(st.floats(-50, 50), st.floats(0, 1))
def test_alignment_is_one_minus_the_distance_of_the_logistic_reward(score: float, human: float) -> None:
    result = evaluate_one(repr(score), POSTS, human, Fixed())
    predicted = 1 / (1 + math.exp(-score))
    assert result.mapping == "logistic: 1 / (1 + exp(-score))"
    assert result.predicted == pytest.approx(predicted, abs=1e-12)
    assert result.alignment == pytest.approx(max(0, 1 - abs(predicted - human)), abs=1e-12)
    assert 0 <= result.alignment <= 1


@pytest.mark.parametrize("score", [-1e308, -1e4, 1e4, 1e308])
def test_extreme_rewards_stay_in_the_unit_interval(score: float) -> None:
    assert evaluate_one(repr(score), POSTS, 0.5, Fixed()).predicted == (0.0 if score < 0 else 1.0)


def test_the_mapping_follows_the_declared_range() -> None:
    assert evaluate_one("rye bread", POSTS, 0.5, "copy").mapping.startswith("identity")
    assert evaluate_one("rye bread", POSTS, 0.5, "lsa").mapping.startswith("cosine")
    assert evaluate_one("rye bread", POSTS, 0.5, "longest").mapping.startswith("logistic")
    assert evaluate_one("rye bread", POSTS, 0.5, "longest", mapping="identity").predicted == 1.0


def test_posts_may_be_texts_posts_or_a_user() -> None:
    posts = tuple(Post(f"p{n}", text) for n, text in enumerate(POSTS))
    results = [evaluate_one("rye bread", profile, 0.5, "lsa") for profile in (POSTS, posts, User("u", posts))]
    assert results[0] == results[1] == results[2]


def test_a_failed_model_aligns_with_nobody() -> None:
    result = evaluate_one("rye bread", [], 0.5, "lsa")
    assert result.predicted is None
    assert result.alignment == 0
    assert isinstance(result.score, Failure)


def test_the_result_is_immutable_and_the_human_score_is_checked() -> None:
    result = evaluate_one("rye bread", POSTS, 0.5, "lsa")
    with pytest.raises(FrozenInstanceError):
        result.alignment = 1.0  # type: ignore[misc]
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(MetricError, match="wanted a number in"):
            evaluate_one("rye bread", POSTS, wrong, "lsa")


def _file(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_over_a_file_the_estimates_are_those_of_numpy(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    human = rng.uniform(size=80)
    scores = np.log(human / (1 - human)) + rng.normal(size=80)
    rows = [
        {"output": repr(float(s)), "profile": POSTS, "human_score": float(h), "user": f"u{n % 40}"}
        for n, (s, h) in enumerate(zip(scores, human, strict=True))
    ]
    report = align(_file(tmp_path / "ratings.jsonl", rows), Fixed())
    predicted = 1 / (1 + np.exp(-scores))
    assert report.alignment.value == pytest.approx(np.mean(1 - np.abs(predicted - human)))
    assert report.pearson is not None
    assert report.spearman is not None
    assert report.pearson.value == pytest.approx(np.corrcoef(predicted, human)[0, 1])
    ranks = np.corrcoef(predicted.argsort().argsort(), human.argsort().argsort())[0, 1]
    assert report.spearman.value == pytest.approx(ranks)
    for estimate in (report.alignment, report.pearson, report.spearman):
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.value < estimate.high
        assert estimate.n == 80
        assert estimate.failed == 0


def test_not_answering_never_pays(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    rows: list[dict[str, object]] = [
        {"output": repr(float(h * 4 - 2 + e)), "profile": POSTS, "human_score": float(h), "prompt": str(n)}
        for n, (h, e) in enumerate(zip(rng.uniform(size=60), rng.normal(size=60), strict=True))
    ]
    whole = align(_file(tmp_path / "a.jsonl", rows), Fixed())
    for row in rows[::3]:
        row["output"] = "nan"
    broken = align(_file(tmp_path / "b.jsonl", rows), Fixed())
    assert broken.alignment.failed == 20
    assert broken.alignment.n == 60
    assert broken.alignment.value < whole.alignment.value
    for better, worse in ((whole.pearson, broken.pearson), (whole.spearman, broken.spearman)):
        assert better is not None
        assert worse is not None
        assert worse.value < better.value


def test_a_constant_reward_has_no_correlation(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"output": "1", "profile": POSTS, "human_score": n / 10} for n in range(10)]
    report = align(_file(tmp_path / "a.jsonl", rows), Fixed())
    assert report.pearson is None
    assert report.spearman is None
    assert report.alignment.n == 10


def test_copies_of_users_who_rate_the_same_prompts_shorten_no_interval(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(2), []
    for user in range(40):
        for place in range(1 + user % 3):
            output, human = rng.normal(), rng.random()
            row = {"output": repr(float(output)), "profile": POSTS, "human_score": float(human)}
            rows += [row | {"user": f"u{user}-{copy}", "prompt": f"What about {user}-{place}?"} for copy in range(4)]
    apart = [row | {"prompt": ""} for row in rows]
    single, copied, alone = (
        align(_file(tmp_path / "ratings.jsonl", each), Fixed()) for each in (rows[::4], rows, apart)
    )
    for name in ("alignment", "pearson", "spearman"):
        before, after, fresh = (getattr(report, name) for report in (single, copied, alone))
        assert after.value == pytest.approx(before.value)
        assert 0.75 < (after.high - after.low) / (before.high - before.low) < 1.2
        assert (fresh.high - fresh.low) / (before.high - before.low) < 0.6
        assert "two-way" in after.method


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"profile": [], "human_score": 1}, r"ratings\.jsonl:2: output: found nothing"),
        ({"output": "x", "profile": "me", "human_score": 1}, r"profile: found 'me', wanted a list"),
        ({"output": "x", "profile": [1], "human_score": 1}, "profile: found a list of 1"),
        ({"output": "x", "profile": [], "human_score": 2}, r"human_score: found 2, wanted a number in \[0, 1\]"),
        ({"output": "x", "profile": [], "human_score": True}, "human_score: found true"),
        ({"output": "x", "profile": [], "human_score": 1, "usr": "u"}, "usr: found an unknown key"),
        ({"output": 3, "profile": [], "human_score": 1}, "output: found 3, wanted a text"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    good = {"output": "1", "profile": [], "human_score": 1}
    with pytest.raises(RowError, match=message):
        align(_file(tmp_path / "ratings.jsonl", [good, row]), Fixed())


def test_no_file_and_no_rows_are_errors(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match="no file"):
        align(tmp_path / "none.jsonl", Fixed())
    with pytest.raises(MetricError, match="no rows"):
        align(_file(tmp_path / "empty.jsonl", []), Fixed())
