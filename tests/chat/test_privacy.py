"""What users wrote leaves this machine only where that was allowed, whoever asks."""

from dataclasses import replace

import pytest

from pluralrm.chat import ChatRequest, ServedChat, open_role, served
from pluralrm.core import Query, UserView
from pluralrm.errors import PrivacyError
from pluralrm.http import Call, Service, Settings, parse_address
from pluralrm.models import load_model
from pluralrm.specs import Spec
from pluralrm.templates import load_template
from tests.elsewhere import taken_for_elsewhere
from tests.fake_chat import FakeChat

POST = ChatRequest((("user", "Posts of the user: my knee hurts. What helps?"),))


def test_a_caller_that_forgets_about_privacy_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server:
        chat = served(Spec("summary", "m", {"url": server.url}), None)
        with chat, pytest.raises(PrivacyError, match="not on this machine"):
            list(chat.complete([POST]))
        with Service(parse_address(server.url), Settings()) as service, pytest.raises(PrivacyError):
            list(service.replies([Call("/chat/completions", {"messages": []})], lambda value: value))
        assert server.requests == []


def test_a_new_role_that_forgets_about_privacy_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted ninth asker: it opens a role and asks about posts, and says nothing of them."""
    taken_for_elsewhere(monkeypatch)
    spec = Spec("summary", "m", {})
    with FakeChat() as server:
        role = open_role(replace(spec, options={"url": server.url}), load_template())
        with pytest.raises(PrivacyError, match="not on this machine"):
            list(role.ask(["my knee hurts"], lambda posts: [role.call(f"Sum up: {posts}", str, "Say it again.")]))
        with pytest.raises(PrivacyError):
            list(role.chat.complete([role.request("Sum up: my knee hurts")]))
        assert server.requests == []
        allowed = open_role(replace(spec, options={"url": server.url, "send": "posts"}), load_template())
        [(_, [call])] = allowed.ask(["my knee hurts"], lambda posts: [allowed.call(posts, str, "Say it again.")])
        assert isinstance(call.outcome, str)


def test_a_role_that_is_always_private_is_refused_when_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server, pytest.raises(PrivacyError, match="it sums up posts"):
        open_role(Spec("summary", "m", {"url": server.url}), load_template(), private="it sums up posts")


def test_what_precedes_a_private_request_is_sent_and_nothing_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_for_elsewhere(monkeypatch)
    public = ChatRequest((("user", "Which flour?"),), public=True)
    with FakeChat() as server, ServedChat("m", url=server.url, settings=Settings(concurrency=1)) as chat:
        replies: list[object] = []
        with pytest.raises(PrivacyError):
            replies.extend(chat.complete([public, POST, public]))
        assert all("knee" not in str(seen.body) for seen in server.requests)
        assert len(server.requests) <= 1


def test_it_is_sent_where_that_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server, served(Spec("summary", "m", {"url": server.url, "send": "posts"}), None) as chat:
        assert len(list(chat.complete([POST]))) == 1


@pytest.mark.parametrize("user", [None, UserView("u")])
def test_a_question_without_a_user_is_public(user: UserView | None, monkeypatch: pytest.MonkeyPatch) -> None:
    taken_for_elsewhere(monkeypatch)
    with FakeChat() as server:
        model = load_model(f"judge:m,url={server.url}", settings=Settings())
        assert len(list(model.score([Query("q", "Which flour?", ("Rye.", "Spelt."), user)]))) == 1
        assert server.requests
