"""The replies that a build's decisions rest on: which they were, and that the cassette still holds them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pluralrm.chat import ChatModel, ChatReply, ChatRequest, ServedChat
from pluralrm.chat.served import read_completion
from pluralrm.construct.pipeline.lines import Heard, Line, Placed
from pluralrm.core import Failure, digest
from pluralrm.http.calls import UnsoundError
from pluralrm.http.cassette import Cassette

_RECORDED = ("refused", "too_long")
"""What a cassette holds beside answers: that the model said no, or that the text was too long for it."""


class Replies(NamedTuple):
    """How many replies the decisions of a build rest on, and the hash of them, in whatever order they came."""

    calls: int
    hash: str


def heard(chat: ChatModel, request: ChatRequest, reply: ChatReply | Failure) -> Heard | None:
    """Return what is noted of a reply; None where no cassette holds it: a script's, or an outage."""
    if not isinstance(chat, ServedChat) or (isinstance(reply, Failure) and reply.kind not in _RECORDED):
        return None
    return Heard(request=chat.kept_under(request), reply=_said(reply))


def replies_of(lines: Sequence[Mapping[str, Line]]) -> Replies:
    """Return what the decisions rest on."""
    found = {one.request: one.reply for decided in lines for line in decided.values() for one in line.heard}
    return Replies(len(found), digest(found))


def check_replies(placed: Iterable[Placed], tape: Path, then: str) -> None:
    """Raise RunError where a reply that a decision rests on is not on the cassette, or is another there.

    `then` says what to do.
    """
    resting = [one for one in placed if one.line.heard]
    if not resting:
        return
    cassette = Cassette(tape, "replay")
    try:
        for one in resting:
            for reply in one.line.heard:
                if problem := _problem(cassette, reply):
                    raise one.error(f"was decided on a reply that {problem} on {tape}. {then}")
    finally:
        cassette.close()


def _problem(cassette: Cassette, noted: Heard) -> str:
    content = cassette.get(noted.request)
    if content is None:
        return "is not"
    try:
        said = content if isinstance(content, Failure) else read_completion(content)
        return "" if _said(said) == noted.reply else "is another"
    except UnsoundError:
        return "is no reply"


def _said(reply: ChatReply | Failure) -> str:
    told = list(reply) if isinstance(reply, Failure) else [reply.text, reply.finish_reason]
    return digest(told)
