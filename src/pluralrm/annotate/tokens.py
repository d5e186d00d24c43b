"""Tokens: what an annotator's link carries, kept as hashes alone, and compared so that time tells nothing.

>>> token = new_token()
>>> owner({"ann": token_hash(token)}, token)
'ann'
>>> owner({"ann": token_hash(token)}, token[:-1]) is None
True
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping

ADMIN = "admin"
"""Whose token opens the page of progress and the export; no annotator's does."""
_BYTES = 32


def new_token() -> str:
    """Return 256 random bits in letters that a link takes: beyond guessing, so a plain hash keeps them safe."""
    return secrets.token_urlsafe(_BYTES)


def token_hash(token: str) -> bytes:
    """Return the SHA-256 of a token, all that is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def owner(hashes: Mapping[str, bytes], token: str) -> str | None:
    """Return whose token this is, or None. Every hash is compared, whole: how long it takes says nothing."""
    asked, found = token_hash(token), None
    for name, kept in hashes.items():
        if hmac.compare_digest(asked, kept):
            found = name
    return found


def key_of(annotator: str) -> str:
    """Return under which name an annotator's token is kept: none is the admin's, whatever an annotator is called."""
    return f"annotator:{annotator}"


def annotator_of(key: str) -> str | None:
    """Return whose key this is, or None for the admin's."""
    return key.removeprefix("annotator:") if key != ADMIN else None
