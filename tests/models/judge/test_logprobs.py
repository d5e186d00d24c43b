"""Verdicts by log-prob: exact where the server says enough, else a named failure, and never the text instead."""

import math
from collections.abc import Mapping

import pytest

from pluralrm.chat import ChatReply, ScriptedChat
from pluralrm.core import Failure
from pluralrm.models.judge import open_judge
from pluralrm.models.judge.verdicts import expected_score, share_of_yes
from tests.fake_chat import Action, FakeChat, Seen, say
from tests.models.judge import judges
from tests.models.judge.judges import query, spoken


def logs(**chances: float) -> Mapping[str, float]:
    """Return log-probs; `_` stands for a space and `n` before a number for nothing."""
    return {name.replace("_", " ").lstrip("n"): math.log(chance) for name, chance in chances.items()}


# ---------------------------------------------------------------- YES and NO


def test_the_share_of_yes_is_over_all_spellings() -> None:
    reply = spoken(("YES", logs(YES=0.5, Yes=0.1, _yes=0.1, NO=0.2, Perhaps=0.1)))
    assert share_of_yes(reply) == pytest.approx(0.7 / 0.9)


def test_blank_tokens_before_the_word_are_passed_over() -> None:
    reply = spoken(("\n", {"\n": -0.01}), ("NO", logs(YES=0.25, NO=0.75)))
    assert share_of_yes(reply) == pytest.approx(0.25)


def test_a_word_that_the_server_does_not_name_is_taken_as_impossible() -> None:
    assert share_of_yes(spoken(("YES", logs(YES=0.999)))) == 1.0


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (ChatReply("YES"), "unsupported"),
        (ChatReply("YES", logprobs=()), "unsupported"),
        (spoken(("YES", {})), "unsupported"),
        (spoken(("The", logs(The=0.9, YES=0.05, NO=0.05))), "parse"),
        (spoken((" ", logs(_=1.0))), "parse"),
    ],
)
def test_without_log_probs_of_yes_and_no_there_is_no_verdict(reply: ChatReply, kind: str) -> None:
    found = share_of_yes(reply)
    assert isinstance(found, Failure)
    assert found.kind == kind


def test_a_verifier_ranks_by_log_prob_over_http_and_reads_past_a_cut() -> None:
    chances = {"Rye.": 0.9, "Spelt.": 0.3}

    def answer(seen: Seen) -> Action:
        yes = chances[judges.answers(seen.prompt)[""]]
        return judges.with_logprobs(("YES" if yes > 0.5 else "NO", logs(YES=yes, NO=1 - yes)))

    with FakeChat(answer) as server:
        [verdict] = open_judge(f"judge:m,style=verifier,url={server.url}").score([query()])
        sent = server.requests[0].body
    assert verdict.scores == pytest.approx((0.9, 0.3))
    assert (sent["logprobs"], sent["top_logprobs"], sent["max_tokens"]) == (True, 20, 4)
    assert '"NO"' in verdict.exchanges[1].said


@pytest.mark.parametrize("keys", ["style=verifier", "style=pointwise,expect=yes"])
def test_a_server_that_leaves_log_probs_out_fails_by_name_and_is_not_asked_again(keys: str) -> None:
    text = "YES" if "verifier" in keys else "7"
    with FakeChat(lambda _: say(text)) as server:
        [verdict] = open_judge(f"judge:m,{keys},url={server.url}").score([query()])
        assert len(server.requests) == 2
    assert {failure.kind for failure in verdict.failures} == {"unsupported"}
    assert len(verdict.failures) == 2
    assert "left out the log-probs" in verdict.failures[0].detail


def test_by_text_needs_no_log_probs() -> None:
    chat = ScriptedChat(lambda request: "YES" if "Rye" in request.messages[0][1] else "no.")
    [verdict] = open_judge("judge:m,style=verifier,by=text", chat=chat).score([query()])
    assert verdict.scores == (1.0, 0.0)
    assert not chat.requests[0].sampling.logprobs


# ---------------------------------------------------------------- scores


def test_the_expectation_is_over_the_scores_that_the_server_names() -> None:
    reply = spoken(("8", logs(n8=0.5, n7=0.3, n9=0.1, _7=0.05, Good=0.05)))
    assert expected_score(reply, 8) == pytest.approx((8 * 0.5 + 7 * 0.35 + 9 * 0.1) / 0.95)


def test_the_number_is_found_where_it_is_said() -> None:
    tokens: tuple[tuple[str, Mapping[str, float]], ...]
    tokens = (("Score", {}), (":", {}), (" 7", logs(_7=0.6, _8=0.4)), ("/", {}), ("10", logs(n10=1.0)))
    assert expected_score(spoken(*tokens), 7) == pytest.approx(7.4)


def test_a_reasoning_block_and_an_end_token_are_no_part_of_the_number() -> None:
    reply = spoken(("<think>", {}), ("3", logs(n3=1.0)), ("</think>", {}), ("6", logs(n6=0.5, n5=0.5)))
    ended = ChatReply(reply.text, logprobs=(*(reply.logprobs or ()), *(spoken(("<|end|>", {})).logprobs or ())))
    assert expected_score(ended, 6) == pytest.approx(5.5)


def test_ten_as_one_token_is_ten() -> None:
    assert expected_score(spoken(("10", logs(n10=0.5, n1=0.25, n9=0.25))), 10) == pytest.approx(7.5)


@pytest.mark.parametrize(("second", "number"), [("0", 10), ("", 1)])
def test_ten_in_two_tokens_is_split_by_the_second(second: str, number: int) -> None:
    tokens = [("1", logs(n1=0.8, n9=0.2)), (second or "<end>", {"0": math.log(0.75), "<end>": math.log(0.25)})]
    reply = spoken(*tokens)
    reply = ChatReply("1" + second, logprobs=reply.logprobs)
    assert expected_score(reply, number) == pytest.approx(10 * 0.6 + 1 * 0.2 + 9 * 0.2)


def test_a_one_that_may_begin_ten_is_no_guess() -> None:
    found = expected_score(spoken(("9", logs(n9=0.6, n1=0.3, n8=0.1))), 9)
    assert isinstance(found, Failure)
    assert found.kind == "unsupported"
    assert '"1" has 30%' in found.detail
    small = expected_score(spoken(("9", logs(n9=0.6, n8=0.395, n1=0.005))), 9)
    assert small == pytest.approx((9 * 0.6 + 8 * 0.395) / 0.995)


@pytest.mark.parametrize(
    "reply",
    [
        spoken(("7/10", logs(n7=1.0))),
        ChatReply("7", logprobs=spoken(("8", logs(n8=1.0))).logprobs),
        spoken(("7", logs(n7=0.3, Good=0.6))),
        spoken(("x7", {"x7": -0.1})),
    ],
)
def test_tokens_that_do_not_spell_the_score_are_unsupported(reply: ChatReply) -> None:
    found = expected_score(reply, 7)
    assert isinstance(found, Failure)
    assert found.kind == "unsupported"


def test_expectations_tell_apart_what_the_text_ties_over_http() -> None:
    high = {"Rye.": 0.9, "Spelt.": 0.6}

    def answer(seen: Seen) -> Action:
        eight = high[judges.answers(seen.prompt)[""]]
        return judges.with_logprobs(("8", logs(n8=eight, n3=1 - eight)))

    with FakeChat(answer) as server:
        [plain] = open_judge(f"judge:m,style=pointwise,url={server.url}").score([query()])
        [expected] = open_judge(f"judge:m,style=pointwise,expect=yes,url={server.url}").score([query()])
        assert server.requests[0].body.get("logprobs") is None
    assert plain.scores == (8.0, 8.0)
    assert expected.scores == pytest.approx((7.5, 6.0))
