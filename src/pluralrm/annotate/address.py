"""Where a server listens, and how it is reached."""

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pluralrm.errors import PlanError

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - told apart, not listened at


@dataclass(frozen=True, slots=True)
class Address:
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
