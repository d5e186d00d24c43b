"""`pluralrm annotate`: people in the loop."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli import (
    annotate_agreement,
    annotate_claim,
    annotate_files,
    annotate_plan,
)
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.errors import PlanError

if TYPE_CHECKING:
    from pluralrm.annotate.service import Link, OpenServer


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
    from pluralrm.annotate.service import ServerAddress
    from pluralrm.annotate.service import serve as serve_plan

    if links is not None:
        _check_new(links)

    def opened(server: "OpenServer") -> None:
        if links is not None and server.links:
            _write_links(links, server.links)
        _print_links(server, links, as_json=as_json)

    address = ServerAddress(host, port, public=public, proxy=proxy, certificate=certificate, key=key)
    stopped = False
    try:
        serve_plan(plan, address, renew=renew, opened=opened)
    except KeyboardInterrupt:
        stopped = True
    note(f"stopped. Every judgment is kept in {plan}; the same command goes on, and links stay valid")
    raise typer.Exit(130 * stopped)


def _print_links(server: "OpenServer", links: Path | None, *, as_json: bool) -> None:
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


def _write_links(file: Path, links: "list[Link]") -> None:
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


def rehearse(
    plan: Path = typer.Argument(..., metavar="PLAN", help="A plan's folder."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="Where the drawn judgments go."),
    fit: float = typer.Option(0.8, metavar="P", help="How often the labelled answer fits better, ties aside."),
    general: float = typer.Option(0.5, metavar="P", help="How often it is better in general, ties aside."),
    ties: float = typer.Option(0.2, metavar="P", help="Share of ties."),
    likeness: float = typer.Option(0.3, metavar="R", help="Correlation of two judgments of an item."),
    lean: float = typer.Option(0.02, metavar="L", help="Correlation of an annotator's judgments."),
    seed: int = typer.Option(0, help="Of the draws."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Draw judgments for a plan, to rehearse agreement and claim before people begin. Nobody made them."""
    from pluralrm.annotate.judgments import judgment_line
    from pluralrm.annotate.plan import read_plan
    from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
    from pluralrm.files import replace_file

    if out.exists():
        raise PlanError(f"{out}: is there already; name another file with -o, or remove it")
    found = rehearsed(read_plan(plan), RehearsalWorld(fit, general, ties, likeness, lean), seed=seed)
    replace_file(out, "".join(f"{judgment_line(one)}\n" for one in found))
    if as_json:
        print_json({"file": str(out), "judgments": len(found), "rehearsal": True})
    else:
        print_wrapped(f"{out}: {len(found):,} drawn judgments. Nobody made them.")


app = typer.Typer(no_args_is_help=True, help="Have people judge a benchmark: plan, serve, agreement, claim.")


@app.callback()
def _root() -> None:
    """Have people judge a benchmark: plan, serve, agreement, claim."""


app.command("plan")(annotate_plan.plan)
app.command("rehearse")(rehearse)
app.command("serve")(serve)
app.command("agreement")(annotate_agreement.agreement)
app.command("claim")(annotate_claim.claim)
app.command("export")(annotate_files.export)
app.command("import")(annotate_files.import_)
