"""What an HTTP answer means: content, another attempt, a text that is too long, or the end of the run.

200            content, if it is JSON and says so
408 429 5xx    another attempt (`AgainError`)
400 413 422    Failure("too_long") where the server says that the text is; else like the rest
anything else  ServiceError: every further call would fare the same
"""

import json
import math
import re
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeGuard
from urllib.parse import urlsplit

from pluralrm.core import Failure
from pluralrm.errors import ServiceError
from pluralrm.http.calls import Usage

_SHOWN = 300
"""Characters of a server's message that are shown."""
_MOST_TOKENS = 2**40
"""A count of tokens above this is no count."""

# As worded by OpenAI, vLLM, SGLang, llama.cpp and text-generation-inference, in this order.
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length"
    r"|longer than the maximum model length|exceeds? (the )?(model'?s )?maximum (context|model) (length|size)"
    r"|longer than the model'?s context length|context_length"
    r"|exceed_context_size|exceeds? the available context size"
    r"|inputs?`? .{0,40}must (be|have) (<=|less than)|prompt is too long",
    re.IGNORECASE,
)


class AgainError(Exception):
    """An attempt that came to nothing and that another one may mend; `wait` is what the server asked for, in s."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(reason)


class Response(NamedTuple):
    """What matters of an HTTP answer: `value` is its JSON, `problem` why there is none. No part holds a key."""

    status: int
    media: str
    text: str
    """The answer as sent, where it is not sound JSON with HTTP 200: for messages."""
    value: object
    problem: str
    retry_after: str
    location: str


def read_response(
    status: int,
    media: str,
    text: str,
    *,
    retry_after: str = "",
    location: str = "",
    hide: Callable[[str], str] = str,
) -> Response:
    """Return the answer with `hide` applied to every string in it, after decoding: JSON escapes may spell a key."""
    value, problem = None, ""
    try:
        value = _hidden(json.loads(text), hide)
    except (ValueError, RecursionError) as exc:
        problem = str(exc)[:_SHOWN]
    sound = status == 200 and not problem and _is_json(media)
    return Response(status, hide(media), "" if sound else hide(text), value, problem, retry_after, hide(location))


def _hidden(value: object, hide: Callable[[str], str]) -> object:
    if hide is str:
        return value
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [_hidden(entry, hide) for entry in value]
    if isinstance(value, dict):
        return {hide(name): _hidden(entry, hide) for name, entry in value.items()}
    return value


def _is_json(media: str) -> bool:
    kind = media.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def worth_retrying(status: int) -> bool:
    """Return whether another attempt may mend this status: 408, 429 and every 5xx."""
    return status in {408, 429} or status >= 500


def asked_wait(header: str, wall: float) -> float:
    """Return the seconds that a Retry-After header asks for, as a number or a date; 0 where it says neither."""
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, wall)
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0


def _until(date: str, wall: float) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - wall


def content(answer: Response, place: str, hint: str) -> object | Failure:
    """Return the JSON of a sound answer, or Failure("too_long"); raise AgainError or ServiceError for the rest.

    `place` names the request in messages; `hint` says how the key was found.
    """
    if worth_retrying(answer.status):
        raise AgainError(f"HTTP {answer.status}: {_message(answer)}", asked_wait(answer.retry_after, time.time()))
    if answer.status == 200:
        return _parsed(answer)
    message = _message(answer)
    if answer.status == 413 or (answer.status in {400, 422} and _TOO_LONG.search(answer.text)):
        return Failure("too_long", f"HTTP {answer.status}: {message}")
    raise ServiceError(f"{place}: HTTP {answer.status}: {message}. {_next(answer, hint)}", answer.status)


def _parsed(answer: Response) -> object:
    if not _is_json(answer.media):
        kind = answer.media.partition(";")[0].strip().lower()
        raise AgainError(f"the reply is {kind or 'of no declared type'}, not JSON: {_message(answer)}")
    if answer.problem:
        raise AgainError(f"the reply is no complete JSON ({answer.problem})"[:_SHOWN])
    if answer.value is None:
        raise AgainError("the reply is null")
    return answer.value


def _message(answer: Response) -> str:
    """Return a server's message in one harmless line: the error it names, or the beginning of what it sent."""
    value = answer.value
    for name in ("error", "message", "detail"):
        while isinstance(value, dict) and name in value:
            value = value[name]
    return one_line(value if isinstance(value, str) else answer.text)


def one_line(message: str) -> str:
    """Return the beginning of a message in one line without anything that does not print."""
    printable = "".join(character if character.isprintable() else " " for character in message[: 4 * _SHOWN])
    return " ".join(printable.split())[:_SHOWN].rstrip(".") or "no message"


def _next(answer: Response, hint: str) -> str:
    if answer.status in {401, 403}:
        return hint
    if answer.status == 404:
        return "Is the model served under that name, and does the URL end where the API begins, as in .../v1?"
    if 300 <= answer.status < 400:
        target = urlsplit(answer.location).hostname or "elsewhere"
        return f"It redirects to {one_line(target)}; redirects are not followed, so give the URL that answers"
    return "The request itself is refused: look at the name of the model and at the parameters"


def usage_of(value: object) -> Usage | None:
    """Return the tokens that a reply says it took, or None; completion tokens are 0 where nothing is generated."""
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens") or 0
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    return Usage(prompt, completion)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
