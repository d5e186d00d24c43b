"""Serve a plan: where to listen and how it is reached, links handed out once, judgments taken until stopped.

Everything lies in the plan's folder.
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pluralrm.annotate.desk import AnnotationDesk
from pluralrm.annotate.plan import AnnotationPlan, read_plan
from pluralrm.annotate.store import ADMIN, Store, key_of, new_token, token_hash
from pluralrm.errors import MissingExtraError, PlanError, ServiceError, did_you_mean
from pluralrm.files import lock_folder

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - refused, not listened at


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where to listen, and how it is reached; port 0 takes any that is free.

    `public` is what links begin with where people reach the server by another name. `proxy` is the address of a
    reverse proxy whose word is taken for whose request it forwards. `certificate` and `key` are files for TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    public: str = ""
    proxy: str = ""
    certificate: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Raise where tokens and judgments would cross a network in the clear, or an option lacks its other half."""
        self._check_tls()
        if not (_loopback(self.host) or self.certificate or self.proxy):
            raise PlanError(
                f"{self.host!r} can be reached from other machines, and without TLS everybody between could read links "
                "and judgments. Name --tls-certificate and --tls-key, or --proxy ADDRESS where a reverse proxy does TLS"
            )
        if self.host in _EVERYWHERE and not self.public:
            raise PlanError(f"{self.host!r} is every address of this machine: name that of the links with --public-url")
        if self.public and urlsplit(self.public).scheme not in {"http", "https"}:
            raise PlanError(f"{self.public!r} is no address that people can open; wanted https://HOST/ or http://HOST/")

    def _check_tls(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise PlanError("TLS needs both a certificate and its key: --tls-certificate FILE --tls-key FILE")
        if self.certificate is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as exc:
            files = f"{str(self.certificate)!r} with the key {str(self.key)!r}"
            raise PlanError(
                f"cannot use the certificate {files}: {exc}. Wanted two PEM files that belong together"
            ) from exc

    def url(self, port: int) -> str:
        """Return what links begin with, with a slash at the end."""
        if self.public:
            return self.public.rstrip("/") + "/"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * (self.certificate is not None)}://{host}:{port}/"


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


EVERYBODY = "all"
_WAITING = 512
"""Connections that the system holds until they are taken."""


class Link(NamedTuple):
    """Somebody's way in; the token stands behind the #, which no browser sends along or tells another site."""

    whose: str
    url: str


class OpenServer(NamedTuple):
    """A server that listens: its address, and the links that were made now and can be had at no other time."""

    url: str
    links: list[Link]


def serve(
    folder: Path, address: ServerAddress, *, renew: Sequence[str] = (), opened: Callable[[OpenServer], None]
) -> None:
    """Serve the plan in a folder until Ctrl-C; `opened` is called once connections are taken.

    Who has no link yet gets one, and who is named in `renew` a new one (`all` for everybody).
    """
    try:
        from pluralrm.annotate.server import run
    except ModuleNotFoundError as exc:
        raise MissingExtraError("annotate serve", "annotate") from exc
    address.check()
    plan = read_plan(folder)
    with _held(folder), listening(address) as bound, closing(Store(folder, plan.content_hash)) as store:
        url = address.url(bound.getsockname()[1])
        opened(OpenServer(url, _links(plan, store, url, renew)))
        run(AnnotationDesk(plan, store), bound, address=address)


def _links(plan: AnnotationPlan, store: Store, url: str, renew: Sequence[str]) -> list[Link]:
    """Make links for those without one and those in `renew`; only hashes of their tokens are kept."""
    pages = {key_of(annotator.id): (annotator.id, url) for annotator in plan.annotators} | {
        ADMIN: (ADMIN, f"{url}admin")
    }
    asked = {key_of(name) if name != ADMIN else ADMIN for name in renew if name != EVERYBODY}
    if unknown := sorted(asked - pages.keys()):
        known = [whose for whose, _ in pages.values()]
        name = unknown[0].removeprefix(key_of(""))
        raise PlanError(f"--renew {name!r}: not an annotator of this plan.{did_you_mean(name, known)}")
    had = set() if EVERYBODY in renew else store.keys().keys() - asked
    tokens = {key: new_token() for key in pages if key not in had}
    store.set_keys({key: token_hash(token) for key, token in tokens.items()})
    return [Link(pages[key][0], f"{pages[key][1]}#{token}") for key, token in tokens.items()]


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    try:
        lock = lock_folder(folder)
    except BlockingIOError as exc:
        raise PlanError(f"{folder}: another server has this plan already. Stop it first") from exc
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def listening(address: ServerAddress) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Where the protocol is not named, asyncio leaves Nagle's algorithm on, and every reply takes 40 ms longer.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address.host, address.port))
        except (OSError, OverflowError) as exc:
            where = f"{address.host}:{address.port}"
            raise ServiceError(
                f"cannot listen at {where}: {exc}. Name another with --port; 0 takes any free one"
            ) from exc
        bound.listen(_WAITING)
        yield bound
