"""What a reply says: all of it or none, and without its reasoning.

>>> whole(ChatReply("<think>Rye?</think>She bakes rye."), Markers("<think>", "</think>"))
'She bakes rye.'
>>> whole(ChatReply("She bak", "length")).kind
'parse'
"""

import re
from typing import NamedTuple

from pluralrm.chat.requests import ChatReply
from pluralrm.core import Failure

_COMPLETE = frozenset({"stop", "eos", "end_turn"})
_SHOWN = 200
"""Characters of an unreadable text's end that its failure keeps."""
_END = "; the text ends with "


class Markers(NamedTuple):
    """What a reasoning block begins and ends with."""

    open: str
    close: str


def unreadable(reason: str, text: str) -> Failure:
    """Return the failure of a text that does not say what was asked for, with the reason and the end of the text."""
    return Failure("parse", f"{reason}{_END}{text[-_SHOWN:]!r}")


def reason_of(failure: Failure) -> str:
    """Return why a text could not be read, without the text."""
    return failure.detail.partition(_END)[0]


def whole(reply: ChatReply, markers: Markers | None = None, most: int | None = None) -> str | Failure:
    """Return what a reply says; one that was withheld or cut off (after `most` tokens) says nothing."""
    if reply.finish_reason == "content_filter":
        return Failure("refused", "the server withheld the text (content_filter)")
    if reply.finish_reason == "length":
        return unreadable(f"the text was cut off (max_tokens={most})", reply.text)
    if reply.finish_reason not in _COMPLETE:
        found = reply.finish_reason or "none"
        return Failure("unsupported", f"the server does not say that its text is whole (finish_reason: {found})")
    return spoken(reply.text, markers)


def spoken(text: str, markers: Markers | None) -> str | Failure:
    """Return the text without its reasoning blocks; a block that does not end is a failure, whatever it holds.

    A text that closes a block before it opens one began inside of it: chat templates open the block themselves.
    """
    if markers is None:
        return text
    before, *rest = re.split(f"({re.escape(markers.open)}|{re.escape(markers.close)})", text)
    depth = int(rest[:1] == [markers.close])
    kept = [] if depth else [before]
    for marker, piece in zip(rest[::2], rest[1::2], strict=True):
        depth += 1 if marker == markers.open else -1
        if depth < 0:
            return unreadable(f"{markers.close} closes a block that was not opened", text)
        if depth == 0:
            kept.append(piece)
    return unreadable(f"the reasoning block {markers.open} does not end", text) if depth else "".join(kept)
