"""A real server on loopback that is taken for one on another machine: what would leave can be counted."""

import pytest

from pluralrm.http import Address


def taken_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everybody think that no server is on this machine."""
    monkeypatch.setattr(Address, "loopback", property(lambda _: False))
