"""Judges on a real vLLM: a verdict is what the same weights say by transformers alone, and nothing else is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm.core import Failure, Row, Run
from tests.vllm import servers
from tests.vllm.saying import CHECK, COMPARE, MUSE, RATE, Said, Sayer, transcripts
from tests.vllm.scoring import score, scored

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

TOLERANCE = 2e-3
SOME = ("--limit", "6")
STYLES = {"pairwise": COMPARE, "pointwise": RATE, "verifier": CHECK}


@pytest.fixture(scope="module")
def url(sayer: Sayer) -> Iterator[str]:
    """The judge behind vLLM."""
    with servers.vllm(sayer.folder, tokens=8192) as address:
        yield f"{address}/v1"


def _scores(row: Row) -> list[float]:
    assert not row.failed, row.scores
    return [score for score in row.scores if isinstance(score, float)]


def _asked(runs: list[Run]) -> Iterator[tuple[Row, list[Said]]]:
    for run in runs:
        assert len(run.rows) == 6
        assert {row.posts for row in run.rows} == {0 if run.condition == "none" else 10}
        yield from zip(run.rows, transcripts(run), strict=True)


# ---------------------------------------------------------------- a verdict is what the weights say


def test_a_verifiers_score_is_the_share_of_yes_in_the_weights(url: str, sayer: Sayer, desk: Path) -> None:
    found = []
    for row, said in _asked(scored(f"judge:tiny,url={url},style=verifier", desk, *SOME)):
        wanted = [sayer.shares([("user", one.sent)], CHECK)["YES"] for one in said]
        assert _scores(row) == pytest.approx(wanted, abs=TOLERANCE)
        found += _scores(row)
    assert max(found) - min(found) > 0.05, "any constant would pass"


def test_a_comparison_is_won_by_the_word_that_is_likeliest(url: str, sayer: Sayer, desk: Path) -> None:
    outcomes = set()
    for row, said in _asked(scored(f"judge:tiny,url={url}", desk, *SOME)):
        for vote, one in zip(row.votes, said, strict=True):
            shares = sayer.shares([("user", one.sent)], COMPARE)
            assert shares[one.text] > max(shares.values()) - TOLERANCE
            word = one.text.removeprefix("Result: ")
            assert vote.outcome == ("tie" if word == "tie" else str(vote.order["AB".index(word)]))
            outcomes.add(word)
        outcome, *other = {vote.outcome for vote in row.votes}
        decided = not other and outcome != "tie"
        assert _scores(row) == ([float(str(place) == outcome) for place in (0, 1)] if decided else [0.5, 0.5])
    assert len(outcomes) > 1


def test_a_rating_is_the_number_that_is_likeliest(url: str, sayer: Sayer, desk: Path) -> None:
    for row, said in _asked(scored(f"judge:tiny,url={url},style=pointwise", desk, *SOME)):
        for rating, one in zip(_scores(row), said, strict=True):
            shares = sayer.shares([("user", one.sent)], RATE)
            assert shares[one.text] > max(shares.values()) - TOLERANCE
            assert rating == int(one.text)


def test_an_expected_rating_is_the_mean_over_the_weights(url: str, sayer: Sayer, desk: Path) -> None:
    for row, said in _asked(scored(f"judge:tiny,url={url},style=pointwise,expect=yes", desk, *SOME)):
        shares = [sayer.shares([("user", one.sent)], RATE) for one in said]
        means = [sum(int(word) * share for word, share in chances.items()) for chances in shares]
        assert _scores(row) == pytest.approx(means, abs=9 * TOLERANCE)  # a share is worth up to nine points
        assert not any(mean.is_integer() for mean in _scores(row))


# ---------------------------------------------------------------- nothing else is one


def test_a_judge_that_says_something_else_has_failed(url: str, desk: Path) -> None:
    for row, said in _asked(scored(f"judge:tiny,url={url},style=listwise", desk, *SOME)):
        assert [score.kind for score in row.scores if isinstance(score, Failure)] == ["parse", "parse"]
        assert {one.text for one in said} <= set(MUSE)


@pytest.mark.parametrize("style", STYLES)
def test_what_cannot_be_read_is_asked_again_and_the_second_reply_counts(
    style: str, url: str, sayer: Sayer, desk: Path
) -> None:
    (desk / "mine.jinja").write_text("{{ query.prompt }}\n{% for answer in answers %}{{ answer }}\n{% endfor %}Well?")
    for row, said in _asked(scored(f"judge:tiny,url={url},style={style},template=mine.jinja", desk, *SOME)):
        assert len(_scores(row)) == 2
        for first, second in zip(said[::2], said[1::2], strict=True):
            assert first.text in MUSE
            asked = [("user", first.sent), ("assistant", first.text), ("user", second.sent)]
            shares = sayer.shares(asked, STYLES[style])
            assert shares[second.text] > max(shares.values()) - TOLERANCE


def test_a_question_that_is_too_long_is_no_verdict(url: str, desk: Path) -> None:
    (desk / "long.jinja").write_text("{{ answers[0] }} YES or NO {{ 'dough ' * 9000 }}")
    for run in scored(f"judge:tiny,url={url},style=verifier,template=long.jinja", desk, *SOME):
        kinds = [score.kind for row in run.rows for score in row.scores if isinstance(score, Failure)]
        assert kinds == ["too_long"] * 12


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("other,url={url}", "The model `other` does not exist"),
        ("tiny,url={url},style=verifier,top_logprobs=21", "greater than max allowed: 20"),
        ("tiny,url={url},max_tokens=9000", "max_tokens=9000 cannot be greater than max_model_len=8192"),
    ],
)
def test_what_the_server_refuses_ends_the_run_with_its_reason(model: str, told: str, url: str, desk: Path) -> None:
    done = score(f"judge:{model.format(url=url)}", desk, *SOME)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
