"""No network but this machine: what tests, and the pages that they play, may connect to."""

import socket

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_connect = socket.socket.connect


def connect(self: socket.socket, address: object) -> None:
    """Connect as a socket does; an address that is not of this machine is an error. Stands in for socket.connect."""
    if self.family in {socket.AF_INET, socket.AF_INET6} and isinstance(address, tuple):
        assert address[0] in LOOPBACK, f"a test reached out to {address!r}"
    _connect(self, address)  # type: ignore[arg-type]
