"""Which server is asked, and the key that goes to it: from the environment only, and to that server alone."""

import ipaddress
import os
import re
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass
from html.entities import html5
from urllib.parse import unquote, urlsplit

from pluralrm.errors import ServiceError

BASE_URL = "OPENAI_BASE_URL"
"""The environment variable with the base URL, where none is named."""
API_KEY = "OPENAI_API_KEY"
"""The environment variable with the key, where none is named."""
ENGINE = "engine"
"""In place of a URL: a server that each replica of the model on a cluster starts beside itself."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")
_GRAPHIC = re.compile(r"[!-~]+")
_PLACEHOLDER = 12
"""A key of fewer characters (EMPTY, none) is no secret, and hiding it would change what a server said."""
_TELLING = 16
"""So many of a key's first characters give it away: also a key that is cut off is hidden."""
_ESCAPES = "\\%&"
_UNSEEN = "[\u00ad\u200b-\u200f\u2060\ufeff]*"
"""Characters that no reader sees, and that may stand between those of a key."""


@dataclass(frozen=True, slots=True)
class Address:
    """A base URL in one spelling: scheme, host, port and path, nothing else. Only a user names one, never data."""

    url: str

    @property
    def host(self) -> str:
        """The host without its port."""
        return urlsplit(self.url).hostname or ""

    @property
    def loopback(self) -> bool:
        """True where what is sent stays on one machine; a name that only resolves to it does not count."""
        return self.host == "localhost" or _is_loopback(self.host) or self.url == ENGINE

    @property
    def guarded(self) -> bool:
        """True where no one on the way can read a key."""
        return self.loopback or self.url.startswith("https:")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(url: str = "") -> Address:
    """Return the address in a URL, or in OPENAI_BASE_URL where none is given; a ServiceError names what is wrong."""
    url = url or os.environ.get(BASE_URL, "")
    if not url:
        raise ServiceError(f"no server is named: give its URL, as in http://127.0.0.1:8000/v1, or set {BASE_URL}")
    if url == ENGINE:
        return Address(url)
    # Anywhere: a password with a slash in it would else pass for a host and a path, and be looked up.
    if "@" in unquote(url):
        raise ServiceError(
            "a URL holds a user name or a password (redacted). "
            "Keep it in an environment variable and name that variable instead: key=NAME"
        )
    if not _GRAPHIC.fullmatch(url):  # urlsplit drops line breaks in silence
        raise _unusable(url, "has blanks or characters outside of ASCII")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError as exc:
        raise _unusable(url, "cannot be read") from exc
    if parts.scheme not in {"http", "https"}:
        raise _unusable(url, "is neither http:// nor https://")
    if "?" in url or "#" in url:
        raise _unusable(url, "has a query or a fragment, which could hold a key; wanted none")
    if not (_HOST.fullmatch(host) or _is_ipv6(host)) or not _PATH.fullmatch(parts.path):
        raise _unusable(url, "has a host or a path with characters that are not allowed there")
    bracketed = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{bracketed}{f':{port}' if port is not None else ''}{parts.path.rstrip('/')}")


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6 and "%" not in host
    except ValueError:
        return False


def _unusable(url: str, reason: str) -> ServiceError:
    """Return the error about a URL; one in which a password or key might stand is redacted."""
    text = "(redacted)" if re.search("[?#]", unquote(url)) else repr(url)
    return ServiceError(f"the URL {text} {reason}; wanted one such as http://127.0.0.1:8000/v1")


class Secret:
    """A key. Its repr does not show it, and `hide` removes it from whatever a server echoes."""

    __slots__ = ("_begins", "_key", "_literals", "_rest", "name")

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self._key = key
        spelt = [_spellings(character) for character in key]
        whole = [_UNSEEN.join(spelt[:_TELLING]), *map(re.escape, _encoded(key))]
        self._begins = re.compile("|".join(whole), re.IGNORECASE)
        self._rest = [re.compile(_UNSEEN + spelling, re.IGNORECASE) for spelling in spelt[_TELLING:]]
        self._literals = [text.casefold() for text in (key[:_TELLING], *_encoded(key))]

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def header(self) -> str:
        """Return the value of the Authorization header."""
        return f"Bearer {self._key}"

    def hide(self, text: str) -> str:
        """Return a text in which the key reads [key], in any spelling: escaped once or often, encoded, cut off."""
        if len(self._key) < _PLACEHOLDER or not self._suspected(text):
            return text
        parts, end = [], 0
        for match in self._begins.finditer(text):
            if match.start() >= end:
                parts.append(text[end : match.start()])
                end = self._end(text, match.end())
        return "[key]".join([*parts, text[end:]])

    def _suspected(self, text: str) -> bool:
        """Return False where the key cannot stand in a text: a hundred times as quick as the pattern."""
        if not text.isascii() or any(mark in text for mark in _ESCAPES):
            return True
        folded = text.casefold()
        return any(literal in folded for literal in self._literals)

    def _end(self, text: str, end: int) -> int:
        """Return where the key ends whose beginning ends at a place; it may be cut off."""
        for character in self._rest:
            if (match := character.match(text, end)) is None:
                break
            end = match.end()
        return end


def _encoded(key: str) -> list[str]:
    """Return the key in the encodings in which servers log headers."""
    raw = key.encode()
    blobs = [b64encode(raw), urlsafe_b64encode(raw), b64encode(f"Bearer {key}".encode())]
    # The last character of base64 depends on what follows.
    return [*(blob.decode().rstrip("=")[:-1] for blob in blobs), raw.hex(), *(raw.hex(mark) for mark in ": -")]


def _spellings(character: str) -> str:
    """Return the pattern of a character: itself, or escaped as in JSON, C, URLs, HTML, also inside of one another."""
    code, literal = ord(character), re.escape(character)
    forms = "".join(f"|&(?:amp;)*{name}" for name, value in html5.items() if value == character and name.endswith(";"))
    return (
        rf"(?:{literal}|\\+(?:u00{code:02x}|u\{{0*{code:x}\}}|x{code:02x}|0?{code:03o}|{literal})"
        rf"|%(?:25)*{code:02x}|&(?:amp;)*#0*{code};|&(?:amp;)*#x0*{code:x};{forms})"
    )


def read_key(address: Address, name: str | None = None) -> Secret | None:
    """Return the key from the environment variable `name`, or from OPENAI_API_KEY where no name is given.

    A key without a name goes over https or to this machine only, and its absence is no error.
    """
    variable = name or API_KEY
    key = os.environ.get(variable, "").strip()
    if not key:
        if name:
            raise ServiceError(f"the environment variable {name!r} holds no key: set it, or name another with key=")
        return None
    if not _GRAPHIC.fullmatch(key):
        raise ServiceError(f"the key in {variable!r} (redacted) has blanks or characters outside of ASCII")
    return Secret(variable, key) if name or address.guarded else None
