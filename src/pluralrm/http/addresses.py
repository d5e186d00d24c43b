"""Which server is asked, and the key that goes to it: from the environment only, and to nobody else."""

import ipaddress
import json
import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from pluralrm.errors import ServiceError

BASE_URL = "OPENAI_BASE_URL"
"""The environment variable with the base URL, where none is named."""
API_KEY = "OPENAI_API_KEY"
"""The environment variable with the key, where none is named."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")
_GRAPHIC = re.compile(r"[!-~]+")
_PLACEHOLDER = 12
"""A key of fewer characters (EMPTY, none) is no secret, and hiding it would change what a server said."""


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
        """True where what is sent stays on this machine; a name that only resolves to it does not count."""
        return self.host == "localhost" or _is_loopback(self.host)

    @property
    def guarded(self) -> bool:
        """True where nobody on the way can read a key."""
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
    # Anywhere: a password with a slash in it would else pass for a host and a path, and be looked up.
    if "@" in unquote(url):
        raise ServiceError(
            "a URL holds a user name or a password (not shown). "
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
    shown = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}{parts.path.rstrip('/')}")


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6 and "%" not in host
    except ValueError:
        return False


def _unusable(url: str, reason: str) -> ServiceError:
    """Return the error about a URL; one in which a password or key might stand is not shown."""
    shown = "(not shown)" if re.search("[?#]", unquote(url)) else repr(url)
    return ServiceError(f"the URL {shown} {reason}. An example: http://127.0.0.1:8000/v1")


class Secret:
    """A key. It shows itself to nobody, and is taken out of whatever a server echoes."""

    __slots__ = ("_key", "_spellings", "name")

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self._key = key
        escaped = json.dumps(key)[1:-1]
        spellings = {key, escaped, escaped.replace("/", "\\/"), quote(key, safe="")}
        self._spellings = sorted(spellings, key=len, reverse=True) if len(key) >= _PLACEHOLDER else []

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def header(self) -> str:
        """Return the value of the Authorization header."""
        return f"Bearer {self._key}"

    def hide(self, text: str) -> str:
        """Return a text in which the key, in any spelling, reads [key]."""
        for spelling in self._spellings:
            text = text.replace(spelling, "[key]")
        return text


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
        raise ServiceError(f"the key in {variable!r} (not shown) has blanks or characters outside of ASCII")
    return Secret(variable, key) if name or address.guarded else None
