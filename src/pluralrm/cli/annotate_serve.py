"""`pluralrm annotate serve`: the page on which people judge."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.terminal import note, print_json, print_wrapped

if TYPE_CHECKING:
    from pluralrm.annotate.running import Link, Opened


def serve(
    plan: Path = typer.Argument(..., metavar="PLAN", help="The folder that 'pluralrm annotate plan' wrote."),
    host: str = typer.Option("127.0.0.1", "--host", help="Listen at this address; others can reach only their own."),
    port: int = typer.Option(8000, "--port", min=0, max=65_535, help="0 takes any free one, and says which."),
    public: str = typer.Option("", "--public-url", metavar="URL", help="What links begin with, behind a proxy."),
    proxy: str = typer.Option("", "--proxy", metavar="ADDRESS", help="The reverse proxy that forwards requests."),
    certificate: Path | None = typer.Option(None, "--tls-certificate", metavar="FILE", help="TLS without a proxy."),
    key: Path | None = typer.Option(None, "--tls-key", metavar="FILE", help="The certificate's key."),
    links: Path | None = typer.Option(None, "--links", metavar="FILE.csv", help="Write new links there, not here."),
    renew: list[str] = typer.Option(
        [], "--renew", metavar="NAME", help="A new link for an annotator, 'admin' or 'all'; the old one is void."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Serve a plan to its annotators, one link each, until Ctrl-C. Judgments stay in the plan's folder."""
    from pluralrm.annotate.address import Address
    from pluralrm.annotate.running import serve as serve_plan

    if links is not None:
        _check_new(links)

    def opened(server: "Opened") -> None:
        if links is not None and server.links:
            _write(links, server.links)
        _tell(server, links, as_json=as_json)

    address = Address(host, port, public=public, proxy=proxy, certificate=certificate, key=key)
    stopped = False
    try:
        serve_plan(plan, address, renew=renew, opened=opened)
    except KeyboardInterrupt:
        stopped = True
    note(f"stopped. Every judgment is kept in {plan}; the same command goes on, and links stay valid")
    raise typer.Exit(130 * stopped)


def _tell(server: "Opened", links: Path | None, *, as_json: bool) -> None:
    shown = [] if links else server.links
    if as_json:
        print_json({"url": server.url, "links": {link.whose: link.url for link in shown}})
    else:
        print_wrapped(f"Serving at {server.url}", style="bold")
        for link in shown:
            print(f"{link.whose}\t{link.url}", flush=True)
    if server.links:
        note("These links are shown once: only hashes of them are kept. Who has one can judge in that name.")


def _check_new(file: Path) -> None:
    from pluralrm.errors import PluralrmError

    if file.exists():
        raise PluralrmError(f"--links {str(file)!r}: is there already; name a new file, or remove that one")


def _write(file: Path, links: "list[Link]") -> None:
    """Write links into a new file that only its owner may read."""
    import csv
    import os

    from pluralrm.errors import PluralrmError

    try:
        with os.fdopen(
            os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline=""
        ) as out:
            writer = csv.writer(out)
            writer.writerow(("annotator", "link"))
            writer.writerows(links)
    except OSError as exc:
        raise PluralrmError(f"cannot write {str(file)!r}: {exc}. New links: --renew all --links ANOTHER.csv") from exc
    note(f"wrote {file}: {len(links):,} links")
