"""How a spec string names a chat model and what it may do: the keys that judges and conditions have in common."""

from pluralrm.chat.replies import Markers
from pluralrm.chat.requests import ChatModel, Sampling
from pluralrm.chat.served import ServedChat
from pluralrm.errors import PrivacyError, SpecError
from pluralrm.http import Settings
from pluralrm.specs import Spec

KEYS = ("key", "max_tokens", "reasoning", "revision", "seed", "send", "temperature", "template", "url")
REASONING = "<think>,</think>"
SENT = "posts"
"""A spec with `send=posts` lets what users wrote leave this machine; --send-posts writes it."""

TOKENS = 512
"""The longest reply, where nothing else is said."""
_SERVER = "server"


def served(spec: Spec, settings: Settings | None) -> ServedChat:
    """Return the chat model that a spec's target, `url`, `key` and `revision` name."""
    options = spec.options
    return ServedChat(
        spec.target,
        url=options.get("url", ""),
        key=options.get("key"),
        settings=(settings or Settings()).allowing(posts=may_send(spec)),
        revision=options.get("revision", ""),
    )


def chat_of(spec: Spec, settings: Settings | None, stand_in: ChatModel | None) -> ChatModel:
    """Return what stands in for the server that a spec names, or the server; `send` is checked either way."""
    may_send(spec)
    return stand_in or served(spec, settings)


def check_private(chat: ChatModel, who: str, why: str) -> None:
    """Raise PrivacyError before any work where every request of a task holds what users wrote, and none may be sent."""
    if not chat.sees_posts:
        raise PrivacyError.of(who, why)


def seed(spec: Spec) -> int:
    """Return what all that is drawn is derived from."""
    return spec.integer("seed", 0)


def sampling(spec: Spec, tokens: int = TOKENS) -> Sampling:
    """Return how replies are drawn; only a draw by chance needs the seed."""
    temperature, most = _temperature(spec), spec.options.get("max_tokens")
    return Sampling(
        temperature=temperature,
        max_tokens=None if most == _SERVER else spec.integer("max_tokens", tokens, least=1),
        seed=seed(spec) if temperature else None,
    )


def _temperature(spec: Spec) -> float | None:
    """Return the temperature; None leaves it to the server, for models that take no other than their own."""
    if spec.options.get("temperature") == _SERVER:
        return None
    return spec.number("temperature", 0, least=0, most=2, instead=f", or {_SERVER!r}")


def reasoning_markers(spec: Spec) -> Markers | None:
    """Return what a reasoning block begins and ends with; None where blocks are not looked for."""
    text = spec.options.get("reasoning", REASONING)
    if text == "none":
        return None
    opened, _, closed = text.partition(",")
    if not (opened and closed) or opened == closed:
        raise SpecError(
            f"{spec.kind}: reasoning is {text!r}; wanted what a block begins and ends with, as in "
            "reasoning=<think>%2C</think>, or none"
        )
    return Markers(opened, closed)


def may_send(spec: Spec) -> bool:
    """Return whether a spec says `send=posts`; any other value is a SpecError."""
    found = spec.options.get("send")
    if found not in (None, SENT):
        raise SpecError(f"{spec.kind}: send is {found!r}; wanted send={SENT}, or leave it out")
    return found == SENT
