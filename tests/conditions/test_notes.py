"""Notes that a chat model writes: what it is shown, what is made of its replies, and what nobody is ever shown."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.conditions import KINDS, load_condition
from pluralrm.conditions.loans import Amount
from pluralrm.conditions.notes import FORM, open_notes
from pluralrm.conditions.posts import PreparedQuery, Preparing, partners
from pluralrm.core import Benchmark, Failure, Item, Oracle, Query, User
from pluralrm.errors import PrivacyError, ServiceError, SpecError, TemplateError
from pluralrm.retrieval import Ranker, Request
from tests.builders import bakery, card

Script = Callable[[ChatRequest], str | ChatReply | Failure]
BOTH = ("persona", "planner")


def asked(request: ChatRequest) -> str:
    return request.messages[0][1]


def writes(text: str = "- Bakes by feel.") -> ScriptedChat:
    """A profile and a plan of one aspect alike."""
    return ScriptedChat(lambda _: text)


def made(spec: str, chat: ScriptedChat, bench: Benchmark) -> list[PreparedQuery]:
    return list(open_notes(spec, chat=chat).prepared(bench, bench.items))


def queries(spec: str, chat: ScriptedChat, bench: Benchmark) -> list[Query]:
    return list(open_notes(spec, chat=chat).queries(bench, bench.items))


def the_user(item: Item) -> User:
    assert item.user is not None
    return item.user


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("persona:m", "persona:m,k=10"),
        ("persona:m,k=07", "persona:m,k=7"),
        ("planner:m,by=bm25,mmr=1,posts=0,of=own", "planner:m,k=10"),
        ("persona:m,by=random,seed=3", "persona:m,by=random,k=10,seed=3"),
        ("persona:m,of=swapped,seed=3,by=recent", "persona:m,by=recent,k=10,of=swapped,seed=3"),
        ("planner:m,posts=2,k=5,temperature=1,seed=4", "planner:m,k=5,posts=2,seed=4,temperature=1"),
        ("planner:m,send=posts,url=https://example.org/v1", "planner:m,k=10,send=posts,url=https://example.org/v1"),
        ("persona:m,reasoning=none,max_tokens=99", "persona:m,k=10,max_tokens=99,reasoning=none"),
    ],
)
def test_a_condition_has_one_name(written: str, canonical: str) -> None:
    chat = writes()
    assert open_notes(written, chat=chat).spec == canonical
    assert open_notes(canonical, chat=chat) == open_notes(written, chat=chat)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("persona", "needs a target"),
        ("persona:m,k=0", "persona: k is '0'; wanted a whole number of at least 1"),
        ("planner:m,k=3,posts=4", "planner: posts is 4; wanted at most k=3"),
        ("persona:m,of=swaped", "persona: of is 'swaped'. Did you mean 'swapped'"),
        ("persona:m,seed=1", "seed= has a meaning only with by=random, of=swapped or a temperature"),
        ("persona:m,by=embed", "wanted by=embed:MODEL"),
        ("persona:m,send=all", "persona: send is 'all'; wanted send=posts"),
        ("planner:m,temperature=hot", "planner: temperature is 'hot'"),
        ("persona:m,reasoning=x", "persona: reasoning is 'x'"),
        ("persona:m,modle=x", "has no key 'modle'"),
    ],
)
def test_what_is_wrong_with_a_spec_is_named(spec: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        open_notes(spec, chat=writes())
    assert message in str(caught.value)


def test_the_table_knows_every_key() -> None:
    for kind in BOTH:
        assert set(KINDS[kind].form.keys) == set(FORM.keys)


def test_a_template_that_leaves_out_the_posts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blind.jinja").write_text("Who asks {{ query.prompt }}?")
    (tmp_path / "deaf.jinja").write_text("{% for post in query.user.posts %}{{ post.text }}{% endfor %}")
    with pytest.raises(TemplateError, match="'blind' does not show the posts"):
        open_notes(f"persona:m,template={tmp_path}/blind.jinja", chat=writes())
    with pytest.raises(TemplateError, match="'deaf' does not show the question"):
        open_notes(f"planner:m,template={tmp_path}/deaf.jinja", chat=writes())
    assert open_notes(f"persona:m,template={tmp_path}/deaf.jinja", chat=writes()).spec


# ---------------------------------------------------------------- what the writer is shown


@pytest.mark.parametrize("kind", BOTH)
def test_the_writer_is_shown_the_ranked_posts_and_only_a_planner_the_question(kind: str) -> None:
    bench, chat = bakery(9, posts=6), writes()
    made(f"{kind}:m,k=3", chat, bench)
    assert chat.calls == 9
    for item, request in zip(bench.items, chat.requests, strict=True):
        user, text = the_user(item), asked(request)
        [ranked] = Ranker().rank([Request(item.id, item.prompt, user.posts)], k=3)
        places = [text.index(f"] (baking) {post.text}") for post in ranked]
        assert places == sorted(places)
        assert [post for post in user.posts if post.text in text] == [post for post in user.posts if post in ranked]
        assert (item.prompt in text) == (kind == "planner")
        assert not any(hidden in text for hidden in (*item.candidates, item.id, user.id, item.domain))


@pytest.mark.parametrize("kind", BOTH)
def test_swapped_is_written_from_the_partners_posts(kind: str) -> None:
    bench, chat = bakery(12, posts=5), writes()
    found = queries(f"{kind}:m,k=3,of=swapped", chat, bench)
    lender = partners(bench, Amount(3), 0)
    for item, request, query in zip(bench.items, chat.requests, found, strict=True):
        author = lender(item)
        assert author is not None
        other = author.user
        [ranked] = Ranker().rank([Request(item.id, item.prompt, other.posts)], k=3)
        assert all(post.text in asked(request) for post in ranked)
        assert not any(post.text in asked(request) for post in the_user(item).posts)
        assert query.user is not None
        assert query.user.id == other.id


def test_a_condition_reveals_whose_posts_the_notes_are_made_of() -> None:
    assert open_notes("persona:m", chat=writes()).reveals == {"posts"}
    assert open_notes("planner:m,of=swapped", chat=writes()).reveals == {"other_posts"}


class Trap:
    """An oracle that may not be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the oracle was read")


@pytest.mark.parametrize("spec", ["persona:m", "planner:m,posts=1", "planner:m,of=swapped"])
def test_the_oracle_is_never_touched(spec: str) -> None:
    items = tuple(replace(item, oracle=cast("Oracle", Trap())) for item in bakery(9).items)
    chat = writes()
    found = queries(spec, chat, Benchmark(card(), items, content_hash="not computed"))
    assert len(found) == chat.calls == 9
    with pytest.raises(AssertionError, match="of the oracle was read"):
        Benchmark(card(), items)  # the trap works


# ---------------------------------------------------------------- what a model is shown


def test_a_persona_is_one_note_and_stands_in_for_the_posts() -> None:
    bench = bakery(3)
    for item, query in zip(
        bench.items, queries("persona:m", writes("Bakes by\n\nfeel,  not by book."), bench), strict=True
    ):
        assert query.notes == ("Bakes by feel, not by book.",)
        assert query.user is not None
        assert (query.user.id, query.user.posts, query.user.pairs) == (the_user(item).id, (), ())
        assert (query.id, query.prompt, query.candidates) == (item.id, item.prompt, item.candidates)
        assert not query.reveals_oracle


def test_a_plan_is_one_note_for_each_aspect() -> None:
    [query, *_] = queries("planner:m", writes("- No scales\n- Ready by noon"), bakery(3))
    assert query.notes == ("Probably wants from the answer: No scales", "Probably wants from the answer: Ready by noon")


def test_posts_stand_beside_the_notes_where_asked_for() -> None:
    bench = bakery(6, posts=6)
    for item, query in zip(bench.items, queries("persona:m,k=4,posts=2", writes(), bench), strict=True):
        [ranked] = Ranker().rank([Request(item.id, item.prompt, the_user(item).posts)], k=4)
        assert query.user is not None
        assert list(query.user.posts) == ranked[:2]


def test_without_posts_nothing_is_asked_and_nothing_told() -> None:
    first, second, *rest = bakery(6).items
    silent = replace(first, user=User("silent"))
    nobody = replace(second, user=None)
    chat = writes()
    found = queries("persona:m,posts=1", chat, Benchmark(card(), (silent, *rest, nobody)))
    assert chat.calls == 4
    assert [len(query.notes) for query in found] == [0, 1, 1, 1, 1, 0]
    assert found[-1] == next(iter(load_condition("none").queries(bakery(6), [nobody])))


@pytest.mark.parametrize("kind", BOTH)
def test_what_a_benchmark_cannot_show_is_said(kind: str) -> None:
    bare = Benchmark(card(), tuple(replace(item, user=None) for item in bakery(3).items))
    reason = open_notes(f"{kind}:m", chat=writes()).unsupported(bare)
    assert reason == "bakery has no posts to show; its condition is none"
    alone = Benchmark(card(), bakery(2).items)
    assert "needs two users" in str(open_notes(f"{kind}:m,of=swapped", chat=writes()).unsupported(alone))


# ---------------------------------------------------------------- what cannot be read


def test_what_cannot_be_read_is_asked_once_more_with_the_reason() -> None:
    chat = ScriptedChat(lambda request: "- No scales" if len(request.messages) > 1 else "<think>Hm.</think>Sure!")
    bench = bakery(5)
    for one in made("planner:m", chat, bench):
        assert one.query.notes == ("Probably wants from the answer: No scales",)
        assert [exchange.said for exchange in one.exchanges] == ["<think>Hm.</think>Sure!", "- No scales"]
        assert one.exchanges[1].sent == (
            "This cannot be used: the line 'Sure!' is no aspect. "
            'Write the aspects, each on one line that begins with "- ", and nothing else.'
        )
    assert chat.calls == 10
    roles = [
        [(role, text) for role, text in request.messages[1:]] for request in chat.requests if len(request.messages) > 1
    ]
    assert [turns[0] for turns in roles] == [("assistant", "Sure!")] * 5


@pytest.mark.parametrize(
    ("reply", "kind", "calls"),
    [
        ("Sure!", "parse", 2),
        ("", "parse", 2),
        ("<think>- No scales", "parse", 2),
        (ChatReply("- No sca", "length"), "parse", 2),
        (ChatReply("- No scales", "content_filter"), "refused", 1),
        (ChatReply("- No scales", ""), "unsupported", 1),
        (Failure("too_long", "4097 tokens"), "too_long", 1),
        (Failure("transport", "6 attempts"), "transport", 1),
        (Failure("budget", "spent"), "budget", 1),
    ],
)
def test_what_is_not_written_is_a_failure_and_the_query_holds_nothing(reply: Any, kind: str, calls: int) -> None:
    chat = ScriptedChat(lambda _: reply)
    [one] = made("planner:m,posts=2", chat, Benchmark(card(), bakery(1).items))
    assert one.failure is not None
    assert one.failure.kind == kind
    assert one.failure.detail.startswith("no plan: ")
    assert one.query.notes == ()
    assert one.query.user is not None
    assert one.query.user.posts == ()
    assert chat.calls == calls


def test_queries_alone_name_the_first_item_without_notes() -> None:
    condition, bench = open_notes("planner:m", chat=writes("Sure!")), bakery(3)
    assert isinstance(condition, Preparing)
    with pytest.raises(
        ServiceError, match=r"planner:m,k=10: item 'i0000': parse, no plan: the line 'Sure!' is no aspect"
    ):
        list(condition.queries(bench, bench.items))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["good", "late", "never", "down", "silent"]), max_size=40), st.integers(0, 9))
def test_each_item_gets_its_own_notes_whatever_the_others_get(moods: list[str], seed: int) -> None:
    bench = bakery(len(moods), posts=2)
    items = [
        replace(item, user=User(the_user(item).id)) if mood == "silent" else item
        for item, mood in zip(bench.items, moods, strict=True)
    ]
    mood_of = {item.prompt: mood for item, mood in zip(items, moods, strict=True)}
    prompts = {item.prompt: item.id for item in items}
    wanted = {"good": "ok", "late": "ok", "never": "parse", "down": "transport", "silent": "nothing"}

    def script(request: ChatRequest) -> str | Failure:
        [prompt] = [prompt for prompt in prompts if f"\n{prompt}\n" in asked(request)]
        if mood_of[prompt] == "down":
            return Failure("transport", "reset")
        good = mood_of[prompt] == "good" or (mood_of[prompt] == "late" and len(request.messages) > 1)
        return f"- for {prompts[prompt]}" if good else "Sure!"

    found = list(open_notes("planner:m", chat=_Hasty(script, seed)).prepared(bench, items))
    assert [one.query.id for one in found] == [item.id for item in items]
    for one, mood in zip(found, moods, strict=True):
        outcome = one.failure.kind if one.failure else "ok" if one.query.notes else "nothing"
        assert outcome == wanted[mood]
        assert one.query.notes == ((f"Probably wants from the answer: for {one.query.id}",) if outcome == "ok" else ())


class _Hasty(ScriptedChat):
    """Takes several requests before it answers the first, as a server with calls in flight does."""

    def __init__(self, script: Script, seed: int) -> None:
        super().__init__(script)
        self._rng = random.Random(seed)

    def complete(self, requests: Any) -> Any:
        waiting: list[ChatRequest] = []
        for request in requests:
            waiting.append(request)
            while waiting and self._rng.random() < 0.4:
                yield from super().complete([waiting.pop(0)])
        for request in waiting:
            yield from super().complete([request])


# ---------------------------------------------------------------- who may be told


@pytest.mark.parametrize("kind", BOTH)
def test_posts_leave_this_machine_only_where_the_spec_says_so(kind: str) -> None:
    spec = f"{kind}:m,url=https://persona.example/v1"
    with pytest.raises(PrivacyError, match="send=posts") as caught:
        load_condition(spec)
    assert "--send-posts" in str(caught.value)
    assert load_condition(f"{spec},send=posts").spec == f"{kind}:m,k=10,send=posts,url=https://persona.example/v1"
    assert load_condition(f"{kind}:m,url=http://127.0.0.1:9/v1").spec


def test_what_shapes_the_notes_is_part_of_the_identity(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("{% for post in query.user.posts %}{{ post.text }}{% endfor %}")
    specs = ["persona:m", "persona:m,max_tokens=9", "persona:m,temperature=1", "persona:m,reasoning=none"]
    specs += [f"persona:m,template={tmp_path}/own.jinja", "planner:m"]
    found = [tuple(sorted(open_notes(spec, chat=writes()).identity.items())) for spec in specs]
    assert len(set(found)) == len(specs)
    served = [load_condition(f"persona:m,url=http://127.0.0.1:{port}/v1") for port in (8, 9)]
    assert served[0].identity != served[1].identity  # type: ignore[attr-defined]
