"""The judge over a scripted chat model: what is asked, in which order, what comes back, and what is refused."""

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.core import ContextPair, Failure, Post, Query, RewardModel, UserView, Vote
from pluralrm.errors import PrivacyError, SpecError, TemplateError
from pluralrm.models import KINDS, model_scale, parse_model
from pluralrm.models.declarations import JudgeProbe
from pluralrm.models.judge import ASKS, KEYS, STYLES, Judge, open_judge
from pluralrm.templates import load_template
from pluralrm.testing import reward_model_findings
from tests.elsewhere import taken_for_elsewhere
from tests.fake_chat import FakeChat
from tests.models.judge import judges
from tests.models.judge.judges import query

POSTS = UserView("u", (Post("p", "I bake rye on Sundays.", "baking"),))
WIDE = query("aaaa", "aa", "a", "aaa")


def _votes(keys: str, script: judges.Script, asked: Query = WIDE) -> tuple[Vote, ...]:
    [verdict] = open_judge(f"judge:m,{keys}", chat=judges.scripted(script)).score([asked])
    return verdict.votes


def _requests(keys: str, asked: Query) -> list[ChatRequest]:
    chat = ScriptedChat(lambda _: Failure("transport", "no"))
    list(open_judge(f"judge:m,{keys}", chat=chat).score([asked]))
    return chat.requests


# ---------------------------------------------------------------- pairs


def test_a_transitive_judge_orders_all_candidates_whatever_the_aggregate() -> None:
    for aggregate, best in (("wins", 1.0), ("bt", None)):
        judge = open_judge(f"judge:m,aggregate={aggregate}", chat=judges.scripted(judges.longer))
        [verdict] = judge.score([WIDE])
        scores = [score for score in verdict.scores if isinstance(score, float)]
        assert sorted(range(4), key=lambda place: -scores[place]) == [0, 3, 1, 2]
        assert best in {None, scores[0]}


def test_votes_hold_every_order_and_its_outcome() -> None:
    votes = _votes("orders=both", judges.always_a, query())
    assert votes == (Vote((0, 1), "0"), Vote((1, 0), "1"))
    assert _votes("orders=both", lambda _: "Result: tie", query()) == (Vote((0, 1), "tie"), Vote((1, 0), "tie"))


def test_a_tie_in_one_order_is_a_tie() -> None:
    replies = ["Result: A", "Result: tie"]
    [verdict] = open_judge("judge:m", chat=ScriptedChat(replies)).score([query()])
    assert verdict.scores == (0.5, 0.5)
    assert [vote.outcome for vote in verdict.votes] == ["0", "tie"]


def test_the_coin_is_drawn_from_the_item_and_the_seed_alone() -> None:
    queries = [query(name=f"q{number}") for number in range(200)]
    chat = judges.scripted(judges.always_a)
    judge = open_judge("judge:m,orders=coin", chat=chat)
    forwards = [verdict.votes[0].order for verdict in judge.score(queries)]
    backwards = [verdict.votes[0].order for verdict in judge.score(queries[::-1])]
    assert forwards == backwards[::-1]
    assert forwards == [(0, 1) if random.Random(f"0:q{number}").random() < 0.5 else (1, 0) for number in range(200)]
    reseeded = open_judge("judge:m,orders=coin,seed=1", chat=chat)
    assert [verdict.votes[0].order for verdict in reseeded.score(queries)] != forwards


def test_one_candidate_alone_is_unsupported_and_costs_nothing() -> None:
    for style in ("pairwise", "listwise"):
        chat = judges.scripted(judges.always_a)
        one, two = open_judge(f"judge:m,style={style}", chat=chat).score([query("Rye."), query("Rye.")])
        assert chat.calls == 0
        assert one == two
        assert [failure.kind for failure in one.failures] == ["unsupported"]


def test_a_failed_pair_fails_its_two_candidates_and_no_other() -> None:
    def script(shown: Mapping[str, str]) -> str:
        return "Hm." if set(shown.values()) == {"a", "aa"} else judges.longer(shown)

    [verdict] = open_judge("judge:m", chat=judges.scripted(script)).score([WIDE])
    assert [isinstance(score, Failure) for score in verdict.scores] == [False, True, True, False]
    assert [vote.outcome for vote in verdict.votes].count("parse") == 2


# ---------------------------------------------------------------- the order of asking


def _shuffled(users: int = 5, each: int = 6) -> list[Query]:
    """Return queries of several users and questions in a seeded order, every candidate of its own length."""
    rng = random.Random(3)
    people = [UserView(f"u{n}", (Post(f"p{n}", f"I keep {n + 2} cats.", "pets"),)) for n in range(users)]
    queries = [
        Query(f"q{n}", f"Question {n // users % 2}?", ("x" * rng.randint(1, 99), "y" * 100), people[n % users])
        for n in range(users * each)
    ]
    rng.shuffle(queries)
    return queries


@pytest.mark.parametrize("keys", ["", ",style=pointwise", ",style=listwise", ",orders=coin"])
def test_calls_of_one_user_and_then_one_question_are_sent_in_a_row_and_no_verdict_changes(keys: str) -> None:
    queries, chat = _shuffled(), judges.scripted(judges.longer)
    verdicts = list(open_judge(f"judge:m{keys}", chat=chat).score(queries))
    for query_, verdict in zip(queries, verdicts, strict=True):
        [alone] = open_judge(f"judge:m{keys}", chat=judges.scripted(judges.longer)).score([query_])
        assert verdict == alone
    sent = [re.findall(r"I keep \d+ cats|Question \d", judges.asked(request))[:2] for request in chat.requests]
    runs = [piece for piece, _ in groupby(map(tuple, sent))]
    assert len(runs) == len(set(runs)) == 10
    assert len([user for user, _ in groupby(user for user, _ in sent)]) == 5


def test_all_prompts_of_a_question_are_alike_up_to_the_first_answer() -> None:
    user = UserView("u", POSTS.posts, pairs=(ContextPair("c", "Rye?", "yes", "no"),), traits={"age": "40"})
    query_ = replace(WIDE, user=user, notes=("Bakes.",))
    for style in STYLES:
        texts = [judges.asked(request) for request in _requests(f"style={style}", query_)]
        assert len(texts) >= 4
        [common] = {text[: text.index("\n[answer")] for text in texts}
        assert all(part in common for part in ("I bake rye", "Rye?", "40", "Bakes.", query_.prompt))


# ---------------------------------------------------------------- lists


def _ranked(shown: Mapping[str, str]) -> str:
    return ">".join(sorted(shown, key=lambda letter: -len(shown[letter])))


def test_a_ranking_becomes_even_steps_from_1_to_0() -> None:
    [verdict] = open_judge("judge:m,style=listwise", chat=judges.scripted(_ranked)).score([WIDE])
    assert list(verdict.scores) == pytest.approx([1, 1 / 3, 0, 2 / 3])
    assert {vote.outcome for vote in verdict.votes} == {"0>3>1>2"}


def test_rotations_put_each_answer_at_each_place_once() -> None:
    orders = [vote.order for vote in _votes("style=listwise", lambda _: "A>B>C>D")]
    assert len(orders) == 4
    for place in range(4):
        assert sorted(order[place] for order in orders) == [0, 1, 2, 3]
    [verdict] = open_judge("judge:m,style=listwise", chat=judges.scripted(lambda _: "A>B>C>D")).score([WIDE])
    assert verdict.scores == (0.5,) * 4


@pytest.mark.parametrize(("rotations", "calls"), [(1, 1), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_no_rotation_is_asked_twice(rotations: int, calls: int) -> None:
    orders = [vote.order for vote in _votes(f"style=listwise,rotations={rotations}", lambda _: "A>B>C>D")]
    assert len(orders) == len(set(orders)) == calls


def test_more_answers_than_letters_are_unsupported() -> None:
    chat = judges.scripted(judges.always_a)
    [verdict] = open_judge("judge:m,style=listwise", chat=chat).score([query(*(f"{n}" for n in range(27)))])
    assert {failure.kind for failure in verdict.failures} == {"unsupported"}
    assert chat.calls == 0


# ---------------------------------------------------------------- replies


@pytest.mark.parametrize(
    ("reply", "kind", "calls"),
    [
        (ChatReply("Result: A", "length"), "parse", 2),
        (ChatReply("Result: A", ""), "unsupported", 1),
        (ChatReply("Result: A", "tool_calls"), "unsupported", 1),
        (ChatReply("", "content_filter"), "refused", 1),
        (ChatReply(""), "parse", 2),
        (ChatReply("<think>Result: A"), "parse", 2),
        (Failure("refused", "no"), "refused", 1),
        (Failure("too_long", "no"), "too_long", 1),
        (Failure("transport", "no"), "transport", 1),
    ],
)
def test_a_text_that_is_not_whole_is_no_verdict(reply: ChatReply | Failure, kind: str, calls: int) -> None:
    chat = ScriptedChat(lambda _: reply)
    [verdict] = open_judge("judge:m,orders=coin", chat=chat).score([query()])
    assert [failure.kind for failure in verdict.failures] == [kind, kind]
    assert [vote.outcome for vote in verdict.votes] == [kind]
    assert chat.calls == calls


@pytest.mark.parametrize("style", ["pairwise", "listwise,rotations=2"])
def test_an_item_stays_open_while_any_of_its_calls_is(style: str) -> None:
    [first, _] = [judges.asked(request) for request in _requests(f"style={style}", query())]

    def answer(request: ChatRequest) -> str | Failure:
        return "Both are fine." if judges.asked(request) == first else Failure("transport", "connection reset")

    def otherwise(request: ChatRequest) -> str | Failure:
        return Failure("transport", "connection reset") if judges.asked(request) == first else "Both are fine."

    for script in (answer, otherwise):
        [verdict] = open_judge(f"judge:m,style={style}", chat=ScriptedChat(script)).score([query()])
        assert [failure.kind for failure in verdict.failures] == ["transport", "transport"]
        assert sorted(vote.outcome for vote in verdict.votes) == ["parse", "transport"]


def test_the_second_try_goes_on_with_the_conversation_without_its_reasoning_block() -> None:
    chat = ScriptedChat(["<think>Result: A</think>\nBoth are fine.", "Result: B"])
    [verdict] = open_judge("judge:m,orders=coin", chat=chat).score([query()])
    (_, first), (role, said), (_, told) = chat.requests[1].messages
    assert (role, said) == ("assistant", "Both are fine.")
    assert told.startswith('No verdict can be read from this: the last line is not "Result: A", "Result: B" or')
    assert told.endswith('Answer with one line and nothing else: "Result: A", "Result: B" or "Result: tie".')
    assert [exchange.sent for exchange in verdict.exchanges] == [first, told]
    assert [exchange.said for exchange in verdict.exchanges] == [
        "<think>Result: A</think>\nBoth are fine.",
        "Result: B",
    ]
    assert not verdict.failures


def test_an_empty_reply_is_not_sent_back_empty() -> None:
    chat = ScriptedChat(["", "Result: B"])
    list(open_judge("judge:m,orders=coin", chat=chat).score([query()]))
    assert chat.requests[1].messages[1] == ("assistant", "(no text)")


class Slow:
    """A chat model that takes requests far ahead of its replies, as a server does."""

    def __init__(self, inner: ScriptedChat, ahead: int) -> None:
        self.name, self.sees_posts, self._inner, self._ahead = "slow", True, inner, ahead

    def complete(self, requests: Iterable[ChatRequest]) -> Iterator[ChatReply | Failure]:
        source, waiting = iter(requests), list[ChatRequest]()
        while True:
            while len(waiting) < self._ahead and (request := next(source, None)) is not None:
                waiting.append(request)
            if not waiting:
                return
            yield from self._inner.complete([waiting.pop(0)])


@pytest.mark.parametrize("ahead", [1, 7, 500])
def test_verdicts_keep_their_order_whatever_has_to_be_asked_again(ahead: int) -> None:
    """Every third call is unreadable at first, and every ninth stays so: second tries in the stream and after it."""
    queries = [query(f"{number:03} long", f"{number:03}", name=f"q{number}") for number in range(400)]

    def answer(request: ChatRequest) -> str:
        number = int(judges.answers(judges.asked(request))["A"][:3])
        again = len(request.messages) > 1
        if number % 9 == 0 or (number % 3 == 0 and not again):
            return "Both are fine."
        return judges.longer(judges.answers(judges.asked(request)))

    judge = open_judge("judge:m", chat=Slow(ScriptedChat(answer), ahead))
    verdicts = list(judge.score(iter(queries)))
    assert len(verdicts) == 400
    for number, verdict in enumerate(verdicts):
        wanted = ["parse", "parse"] if number % 9 == 0 else []
        assert [failure.kind for failure in verdict.failures] == wanted
        assert len(verdict.exchanges) == (4 if number % 3 == 0 else 2)
        if not wanted:
            assert verdict.scores == (1.0, 0.0)


def test_verdicts_come_while_later_queries_are_still_to_be_asked() -> None:
    def endless() -> Iterator[Query]:
        number = 0
        while True:
            yield query(name=f"q{number}")
            number += 1

    def answer(request: ChatRequest) -> str:
        return "Result: A" if len(request.messages) > 1 or random.random() < 0.9 else "Hm."

    verdicts = open_judge("judge:m", chat=ScriptedChat(answer)).score(endless())
    assert len([next(verdicts) for _ in range(2000)]) == 2000


@pytest.mark.parametrize("keys", ["style=pairwise", "style=pairwise,aggregate=bt", "style=listwise"])
def test_a_sound_judge_keeps_the_promises_of_a_reward_model(keys: str) -> None:
    script = _ranked if "listwise" in keys else judges.longer
    judge = open_judge(f"judge:m,{keys}", chat=judges.scripted(script))
    assert {finding.status for finding in reward_model_findings(judge)} == {"pass"}


# ---------------------------------------------------------------- what leaves this machine


@pytest.mark.parametrize(
    "shown",
    [
        replace(query(), user=POSTS),
        replace(query(), user=UserView("u", pairs=(ContextPair("c", "Which?", "Rye.", "Oat."),))),
        replace(query(), notes=("bakes rye",)),
        replace(query(), user=UserView("u", traits={"age": "old"})),
    ],
)
def test_what_a_user_wrote_leaves_this_machine_only_with_permission(
    shown: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server:
        with pytest.raises(PrivacyError, match=r"send=posts.*--send-posts"):
            list(open_judge(f"judge:m,url={server.url}").score([shown]))
        assert server.requests == []
        allowed = open_judge(f"judge:m,send=posts,url={server.url}")
        assert [len(verdict.scores) for verdict in allowed.score([shown])] == [2]
        assert allowed.spec == f"judge:m,send=posts,url={server.url}"


def test_a_bare_question_needs_no_permission_and_neither_does_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    local = judges.scripted(judges.always_a)
    assert len(list(open_judge("judge:m", chat=local).score([replace(query(), user=POSTS)]))) == 1
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server:
        judge = open_judge(f"judge:m,url={server.url}")
        assert len(list(judge.score([query(), replace(query(), user=UserView("u"))]))) == 2


def test_a_served_judge_elsewhere_refuses_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "canary-key-0123456789")
    judge = open_judge("judge:m,url=https://judge.example/v1,key=JUDGE_KEY")
    with pytest.raises(PrivacyError, match="not on this machine"):
        list(judge.score([replace(query(), user=POSTS)]))
    assert "canary" not in repr(judge) + str(dict(judge.identity)) + judge.spec


# ---------------------------------------------------------------- the question asked


def _prompt(keys: str, asked: Query) -> str:
    chat = judges.scripted(judges.always_a)
    list(open_judge(f"judge:m{keys}", chat=chat).score([asked]))
    return judges.asked(chat.requests[0])


@pytest.mark.parametrize("style", STYLES)
def test_the_question_follows_what_is_shown_unless_it_is_named(style: str) -> None:
    bare, known = query(), replace(query(), user=POSTS)
    keys = f",style={style}" + (",by=text" if style == "verifier" else "")
    prompts = {ask: _prompt(f"{keys},ask={ask}", known) for ask in ASKS}
    assert prompts["auto"] == prompts["user"] == _prompt(keys, known)
    assert len(set(prompts.values())) == 3
    assert "particular person" in prompts["user"]
    assert "situation" in prompts["scenario"]
    assert all("I bake rye on Sundays." in prompt for prompt in prompts.values())
    assert _prompt(keys, bare) == _prompt(f"{keys},ask=quality", bare)
    assert "particular person" in _prompt(f"{keys},ask=user", bare)


def test_the_question_is_part_of_the_identity_and_so_is_every_setting() -> None:
    chat = judges.scripted(judges.always_a)
    keys = ["", ",ask=user", ",ask=quality", ",seed=1", ",max_tokens=64", ",temperature=0.5", ",reasoning=none"]
    keys += [",orders=coin", ",aggregate=bt", ",style=pointwise", ",style=listwise", ",style=listwise,rotations=1"]
    identities = [tuple(sorted(open_judge(f"judge:m{key}", chat=chat).identity.items())) for key in keys]
    assert len(set(identities)) == len(keys)


def test_the_template_hash_goes_with_every_request() -> None:
    chat = judges.scripted(judges.always_a)
    judge = open_judge("judge:m", chat=chat)
    list(judge.score([query()]))
    assert {request.template for request in chat.requests} == {judge.identity["template"]}


def test_own_templates_must_show_the_answers_and_may_have_their_own_question(tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text("{{ query.prompt }}\n{{ answers[0] }}\n{{ answers[1] }}\nWho asks best?", encoding="utf-8")
    assert "Who asks best?" in _prompt(f",template={own}", query())
    with pytest.raises(SpecError, match="has a question of its own; leave out ask=user"):
        open_judge(f"judge:m,template={own},ask=user")
    own.write_text("{{ query.prompt }} {{ answers[0] }}", encoding="utf-8")
    with pytest.raises(TemplateError, match="does not show the answer"):
        open_judge(f"judge:m,template={own}")


def test_the_shipped_templates_render_without_a_judge_too() -> None:
    for kind in STYLES.values():
        text = load_template(kind.template).render(query(), ["Rye.", "Spelt."])
        assert "Rye." in text


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("style=pairwse", "Did you mean 'pairwise'"),
        ("orders=all", "orders is 'all'"),
        ("aggregate=elo", "aggregate is 'elo'"),
        ("rotations=2", "rotations means nothing with style=pairwise"),
        ("style=listwise,orders=coin", "orders means nothing with style=listwise"),
        ("style=pointwise,top_logprobs=5", "top_logprobs means nothing where the text decides"),
        ("style=verifier,by=text,top_logprobs=5", "top_logprobs means nothing where the text decides"),
        ("style=verifier,by=guess", "by is 'guess'"),
        ("ask=me", "ask is 'me'"),
        ("send=all", "wanted send=posts"),
        ("temperature=hot", "wanted a number from 0 to 2"),
        ("temperature=nan", "wanted a number from 0 to 2"),
        ("max_tokens=0", "wanted a whole number of at least 1"),
        ("reasoning=<think>", "what a block begins and ends with"),
        ("reasoning=x%2Cx", "what a block begins and ends with"),
        ("sytle=pairwise", "Did you mean 'style'"),
    ],
)
def test_keys_that_cannot_be_meant_are_named(keys: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        open_judge(f"judge:m,{keys}", chat=judges.scripted(judges.always_a))


def test_other_markers_and_none_can_be_declared() -> None:
    text = "[r]Result: A[/r]\nResult: B"
    [verdict] = open_judge("judge:m,reasoning=[r]%2C[/r]", chat=ScriptedChat(lambda _: text)).score([query()])
    assert [vote.outcome for vote in verdict.votes] == ["1", "0"]
    text = "<think>so</think>Result: B"
    [verdict] = open_judge("judge:m,reasoning=none", chat=ScriptedChat(lambda _: text)).score([query()])
    assert len(verdict.failures) == 2


def test_settings_can_be_left_to_the_server() -> None:
    chat = judges.scripted(judges.always_a)
    list(open_judge("judge:m,max_tokens=server,temperature=server", chat=chat).score([query()]))
    assert (chat.requests[0].sampling.max_tokens, chat.requests[0].sampling.temperature) == (None, None)
    list(open_judge("judge:m", chat=chat).score([query()]))
    assert (chat.requests[-1].sampling.max_tokens, chat.requests[-1].sampling.temperature) == (512, 0.0)


def test_the_table_of_kinds_knows_every_key_and_each_style_has_its_scale() -> None:
    assert tuple(KINDS["judge"].form.keys) == KEYS
    scales = {style: model_scale(f"judge:m,style={style}") for style in STYLES}
    assert scales == {"pairwise": "unit", "pointwise": "unbounded", "listwise": "unit", "verifier": "unit"}
    assert model_scale("judge:m") == "unit"
    spec = "judge:m,key=JUDGE_KEY,style=listwise,url=http://127.0.0.1:8000/v1"
    assert str(parse_model(spec)) == spec


# ---------------------------------------------------------------- probes


def _probed(spec: str, probe: JudgeProbe, script: judges.Script) -> tuple[RewardModel, ScriptedChat]:
    chat = judges.scripted(script)
    variant = open_judge(spec, chat=chat).probed(probe)
    assert not isinstance(variant, str), variant
    return variant, chat


@pytest.mark.parametrize("style", ["pairwise", "listwise", "pointwise", "verifier,by=text"])
def test_an_inverted_question_asks_for_the_worse_answer_and_no_hash_of_the_other_changes(style: str) -> None:
    judge = open_judge(f"judge:j,style={style}", chat=judges.scripted(judges.longer))
    variant = judge.probed("inverted")
    assert isinstance(variant, Judge)
    assert "probe=inverted" in variant.spec
    plain, inverted = (each.role.template.render(WIDE, ["one", "two"]) for each in (judge, variant))
    assert any(word in inverted for word in ("WORSE", "WORST", "BAD", "FAILS"))
    assert not any(word in plain for word in ("WORSE", "WORST", "BAD", "FAILS"))
    assert variant.identity["template"] != judge.identity["template"]


@pytest.mark.parametrize("style", ["pairwise", "listwise"])
def test_reversed_letters_change_what_answers_are_called_and_not_who_wins(style: str) -> None:
    def longest_first(shown: Mapping[str, str]) -> str:
        order = sorted(shown, key=lambda letter: -len(shown[letter]))
        return ">".join(order) if style == "listwise" else f"It says more.\n\nResult: {order[0]}"

    variant, chat = _probed(f"judge:j,style={style}", "relabelled", longest_first)
    query = Query("q", "Which flour?", ("Rye.", "Spelt, of course.", "Wheat, as ever, I say."))
    [verdict] = variant.score([query])
    assert sorted(range(3), key=lambda index: verdict.scores[index]) == [0, 1, 2]
    sent = chat.requests[0].messages[0][1]
    assert sent.index("[answer B") < sent.index("[answer A")


def test_letters_cannot_be_reversed_where_there_are_none_nor_a_question_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("{{ query.prompt }} {{ answers[0] }} {{ answers[1] }}", encoding="utf-8")
    (tmp_path / "both.jinja").write_text(
        "{{ 'worse' if inverted is defined else 'better' }}: {{ query.prompt }} {{ answers[0] }} {{ answers[1] }}",
        encoding="utf-8",
    )
    chat = judges.scripted(judges.longer)
    alone = open_judge("judge:j,style=pointwise", chat=chat).probed("relabelled")
    own = open_judge(f"judge:j,template={tmp_path / 'own.jinja'}", chat=chat).probed("inverted")
    both = open_judge(f"judge:j,template={tmp_path / 'both.jinja'}", chat=chat).probed("inverted")
    assert alone == "style=pointwise shows one answer at a time: no answer is named"
    assert isinstance(own, str)
    assert "it can be inverted if it reads 'inverted'" in own
    assert isinstance(both, Judge)
    assert both.role.template.render(WIDE, ["one", "two"]).startswith("worse: ")
