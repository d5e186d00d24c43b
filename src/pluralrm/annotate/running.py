"""Serve a plan: bind, hand out links once, take judgments until stopped. Everything lies in the plan's folder."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from pluralrm.annotate.address import Address
from pluralrm.annotate.design import Plan
from pluralrm.annotate.desk import Desk
from pluralrm.annotate.folder import read_plan
from pluralrm.annotate.store import Store
from pluralrm.annotate.tokens import ADMIN, key_of, new_token, token_hash
from pluralrm.errors import MissingExtraError, PlanError, ServiceError, did_you_mean
from pluralrm.files import lock_folder

EVERYBODY = "all"
_WAITING = 512
"""Connections that the system holds until they are taken."""


class Link(NamedTuple):
    """Somebody's way in; the token stands behind the #, which no browser sends along or tells another site."""

    whose: str
    url: str


class Opened(NamedTuple):
    """A server that listens: its address, and the links that were made now and can be had at no other time."""

    url: str
    links: list[Link]


def serve(folder: Path, address: Address, *, renew: Sequence[str] = (), opened: Callable[[Opened], None]) -> None:
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
        opened(Opened(url, _links(plan, store, url, renew)))
        run(Desk(plan, store), bound, address=address)


def _links(plan: Plan, store: Store, url: str, renew: Sequence[str]) -> list[Link]:
    """Make links for those without one and those in `renew`; only hashes of their tokens are kept."""
    pages = {key_of(annotator.id): (annotator.id, url) for annotator in plan.annotators} | {
        ADMIN: (ADMIN, f"{url}admin")
    }
    asked = {key_of(name) if name != ADMIN else ADMIN for name in renew if name != EVERYBODY}
    if unknown := sorted(asked - pages.keys()):
        known = [whose for whose, _ in pages.values()]
        name = unknown[0].removeprefix(key_of(""))
        raise PlanError(f"--renew {name!r}: nobody of this plan.{did_you_mean(name, known)}")
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
def listening(address: Address) -> Iterator[socket.socket]:
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
