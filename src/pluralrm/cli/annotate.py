"""`pluralrm annotate`: people judge a benchmark; judgments and screens as files of other tools."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli import annotate_agreement, annotate_plan
from pluralrm.cli.terminal import note, print_json, print_wrapped
from pluralrm.errors import PlanError, SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.annotate.judgments import Judgment
    from pluralrm.annotate.plan import AnnotationPlan
    from pluralrm.annotate.service import Link, OpenServer


_TO = {
    "judgments": "every revision as it was given, which --judgments reads",
    "csv": "what stands, one row per label; no cell is a formula",
    "jsonl": "the same as lines of JSON",
    "label-studio": "screens as tasks, and the labelling configuration beside them",
    "argilla": "screens as records",
    "own": "preferences by user, which fit and score read as personal-rb:FILE",
}
_FROM = ("label-studio", "argilla")


def export(
    plan: Path = typer.Argument(..., metavar="PLAN", help="A plan's folder."),
    to: str = typer.Option(..., "--to", metavar="FORMAT", help=f"One of {', '.join(_TO)}."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE", help="A new file."),
    judgments: Path | None = typer.Option(
        None, "--judgments", metavar="FILE", help="judgments.jsonl, where they are not in the plan's folder."
    ),
    annotator: str = typer.Option("", metavar="ID", help="Only the screens of this annotator, for another tool."),
    test: float = typer.Option(0.3, metavar="P", help="With own: the share of a person's choices that are items."),
    seed: int = typer.Option(0, help="With own: seed of that split."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write judgments, or the screens to be judged, as judgments, csv, jsonl, label-studio, argilla or own."""
    from pluralrm.annotate.judgments import read_judgments
    from pluralrm.annotate.plan import read_plan
    from pluralrm.annotate.rehearsal import is_rehearsal
    from pluralrm.files import replace_file

    if to not in _TO:
        raise SpecError(f"--to {to!r}.{did_you_mean(to, _TO)}")
    _require_new(out, *([out.with_suffix(".xml")] if to == "label-studio" else []))
    content = read_plan(plan)
    if annotator and annotator not in content.arm:
        raise SpecError(f"--annotator {annotator!r}.{did_you_mean(annotator, content.arm)}")
    answers = [
        judgment for judgment in read_judgments(content, judgments or plan) if annotator in {"", judgment.annotator}
    ]
    written = _own(content, answers, test, seed) if to == "own" else _written(content, answers, to, annotator)
    replace_file(out, written.text)
    if written.beside:
        replace_file(out.with_suffix(".xml"), written.beside)
    if as_json:
        print_json({"file": str(out), "format": to, "rows": written.rows, "rehearsal": is_rehearsal(answers)})
    else:
        print_wrapped(f"{out}: {written.rows:,} rows, {_TO[to]}")
        if written.told:
            print_wrapped(f"{written.told}.", first="  ", indent="    ")
        if is_rehearsal(answers):
            print_wrapped("REHEARSAL: these judgments are simulated", style="red")


def _require_new(*files: Path) -> None:
    for file in files:
        if file.exists():
            raise PlanError(f"{file}: is there already; name another file with -o, or remove it")
    if len(set(files)) < len(files):
        raise SpecError(f"-o {files[0]}: the configuration is written to it; name a file that does not end in .xml")


class _ExportFile(NamedTuple):
    """A file's text, how many rows it has, the text of a file beside it, and what else is to be told."""

    text: str
    rows: int
    beside: str = ""
    told: str = ""


def _own(plan: "AnnotationPlan", judgments: "list[Judgment]", test: float, seed: int) -> _ExportFile:
    """Return people's own preferences."""
    from pluralrm.annotate.exchange import own_preferences
    from pluralrm.annotate.labels import jsonl_text

    result = own_preferences(plan, judgments, test=test, seed=seed)
    ties = f"{result.left_out:,} judgments are no preference"
    return _ExportFile(
        jsonl_text(result.rows), len(result.rows), told="; ".join(filter(None, (ties, result.inattentive)))
    )


def _written(plan: "AnnotationPlan", judgments: "list[Judgment]", to: str, annotator: str) -> _ExportFile:
    """Return the file of any other format."""
    from pluralrm.annotate.exchange import argilla_records, label_studio_config, label_studio_tasks
    from pluralrm.annotate.judgments import judgment_line
    from pluralrm.annotate.labels import jsonl_text, labels_of, rows_of
    from pluralrm.text import csv_text

    if to in {"label-studio", "argilla"}:
        screens = [screen for screen in plan.screens if annotator in {"", screen.annotator}]
        records = (label_studio_tasks if to == "label-studio" else argilla_records)(plan, judgments, screens)
        beside = label_studio_config(plan) if to == "label-studio" else ""
        return _ExportFile(json.dumps(records, ensure_ascii=False, indent=1) + "\n", len(records), beside)
    if not judgments:
        raise PlanError("no judgments yet: only label-studio and argilla have rows without judgments")
    if to == "judgments":
        return _ExportFile("".join(f"{judgment_line(judgment)}\n" for judgment in judgments), len(judgments))
    rows = rows_of(labels_of(plan, judgments))
    return _ExportFile((csv_text if to == "csv" else jsonl_text)(rows), len(rows))


def import_(
    file: Path = typer.Argument(..., metavar="FILE", help="What the tool exports: JSON."),
    plan: Path = typer.Option(..., "--plan", metavar="PLAN", help="The folder of the plan that was exported."),
    from_: str = typer.Option(..., "--from", metavar="FORMAT", help="label-studio or argilla."),
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="A new file, for --judgments."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Convert judgments of another tool into a file for --judgments of agreement and claim."""
    from pluralrm.annotate.exchange import from_argilla, from_label_studio, judgments_given
    from pluralrm.annotate.judgments import judgment_line
    from pluralrm.annotate.plan import read_plan
    from pluralrm.files import replace_file

    if from_ not in _FROM:
        raise SpecError(f"--from {from_!r}.{did_you_mean(from_, _FROM)}")
    _require_new(out)
    content = read_plan(plan)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PlanError(f"cannot read {str(file)!r}: {exc}") from exc
    replies = (from_label_studio if from_ == "label-studio" else from_argilla)(text, str(file))
    judgments = judgments_given(content, replies, str(file))
    replace_file(out, "".join(f"{judgment_line(judgment)}\n" for judgment in judgments))
    if as_json:
        print_json({"file": str(out), "judgments": len(judgments)})
    else:
        print_wrapped(f"{out}: {len(judgments):,} judgments")


def serve(
    plan: Path = typer.Argument(..., metavar="PLAN", help="The folder that 'pluralrm annotate plan' wrote."),
    host: str = typer.Option("127.0.0.1", "--host", help="Listen at this address; others can reach only their own."),
    port: int = typer.Option(8000, "--port", min=0, max=65_535, help="Port; 0 picks a free one and prints it."),
    public: str = typer.Option("", "--public-url", metavar="URL", help="Base URL of the links, behind a proxy."),
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
    note(f"stopped. Every judgment is kept in {plan}; the same command resumes, and links stay valid")
    raise typer.Exit(130 * stopped)


def _print_links(server: "OpenServer", links: Path | None, *, as_json: bool) -> None:
    visible = [] if links else server.links
    if as_json:
        print_json({"url": server.url, "links": {link.whose: link.url for link in visible}})
    else:
        print_wrapped(f"Serving at {server.url}", style="bold")
        for link in visible:
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
    out: Path = typer.Option(..., "--out", "-o", metavar="FILE.jsonl", help="File of the simulated judgments."),
    fit: float = typer.Option(0.8, metavar="P", help="How often the labelled answer fits better, ties aside."),
    general: float = typer.Option(0.5, metavar="P", help="How often it is better in general, ties aside."),
    ties: float = typer.Option(0.2, metavar="P", help="Share of ties."),
    likeness: float = typer.Option(0.3, metavar="R", help="Correlation of two judgments of an item."),
    lean: float = typer.Option(0.02, metavar="L", help="Correlation of an annotator's judgments."),
    seed: int = typer.Option(0, help="Seed of the draws."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Simulate judgments for a plan, to rehearse agreement and claim before people begin."""
    from pluralrm.annotate.judgments import judgment_line
    from pluralrm.annotate.plan import read_plan
    from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
    from pluralrm.files import replace_file

    if out.exists():
        raise PlanError(f"{out}: is there already; name another file with -o, or remove it")
    judgments = rehearsed(read_plan(plan), RehearsalWorld(fit, general, ties, likeness, lean), seed=seed)
    replace_file(out, "".join(f"{judgment_line(judgment)}\n" for judgment in judgments))
    if as_json:
        print_json({"file": str(out), "judgments": len(judgments), "rehearsal": True})
    else:
        print_wrapped(f"{out}: {len(judgments):,} simulated judgments.")


app = typer.Typer(no_args_is_help=True)


app.command("plan")(annotate_plan.plan)
app.command("rehearse")(rehearse)
app.command("serve")(serve)
app.command("agreement")(annotate_agreement.agreement)
app.command("claim")(annotate_agreement.claim)
app.command("export")(export)
app.command("import")(import_)
