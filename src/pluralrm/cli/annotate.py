"""`pluralrm annotate`: people judge a benchmark; their claim; judgments and screens as files of other tools."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli import annotate_plan
from pluralrm.cli.annotate_agreement import JUDGMENTS, agreement
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import (
    Kind,
    check_new,
    check_place,
    console,
    note,
    print_json,
    print_legend,
    print_wrapped,
    table,
    write_page,
)
from pluralrm.errors import PlanError, PluralrmError, SpecError, did_you_mean
from pluralrm.text import estimated, p_value

if TYPE_CHECKING:
    from pluralrm.annotate.claim_result import ArmResult, ClaimResult
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
    judgments: Path | None = JUDGMENTS,
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
    configuration = out.with_suffix(".xml")
    check_new(out, *([configuration] if to == "label-studio" else []))
    if to == "label-studio" and out == configuration:
        raise SpecError(f"-o {out}: the configuration is written to it; name a file that does not end in .xml")
    content = read_plan(plan)
    if annotator and annotator not in content.arm:
        raise SpecError(f"--annotator {annotator!r}.{did_you_mean(annotator, content.arm)}")
    answers = [
        judgment for judgment in read_judgments(content, judgments or plan) if annotator in {"", judgment.annotator}
    ]
    written = _own(content, answers, test, seed) if to == "own" else _written(content, answers, to, annotator)
    replace_file(out, written.text)
    if written.beside:
        replace_file(configuration, written.beside)
    if as_json:
        print_json({"file": str(out), "format": to, "rows": written.rows, "rehearsal": is_rehearsal(answers)})
    else:
        print_wrapped(f"{out}: {written.rows:,} rows, {_TO[to]}")
        if written.told:
            print_wrapped(f"{written.told}.", first="  ", indent="    ")
        if is_rehearsal(answers):
            print_wrapped("REHEARSAL: these judgments are simulated", style="red")


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
        raise PlanError("no judgments yet: only label-studio and argilla have rows without; see --judgments FILE")
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
    check_new(out)
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

    if links is not None and links.exists():
        raise PluralrmError(f"--links {str(links)!r}: is there already; name a new file, or remove that one")

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


def _write_links(file: Path, links: "list[Link]") -> None:
    """Write links into a new file that only its owner may read."""
    import csv
    import os

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

    check_new(out)
    judgments = rehearsed(read_plan(plan), RehearsalWorld(fit, general, ties, likeness, lean), seed=seed)
    replace_file(out, "".join(f"{judgment_line(judgment)}\n" for judgment in judgments))
    if as_json:
        print_json({"file": str(out), "judgments": len(judgments), "rehearsal": True})
    else:
        print_wrapped(f"{out}: {len(judgments):,} simulated judgments.")


# ---------------------------------------------------------------- the claim


def claim(
    plan: Path = typer.Argument(..., metavar="PLAN", help="A plan's folder, which states the claim."),
    judgments: Path | None = JUDGMENTS,
    out: Path | None = typer.Option(None, "--out", "-o", metavar="FILE.html", help="Also write a page with plots."),
    figures: Path | None = typer.Option(None, metavar="DIR", help="Also write every plot here, as PDF and SVG."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Test the claim of a plan: the labelled answer wins in personal fit, and is equal in general quality.

    Equal is a win rate (and a mean rating) within the margins that the plan states, in factuality, relevance and
    helpfulness; what was not asked is not tested.

    Exit 1 if it is refuted. With four answers there is no claim, only how often people pick the labelled one.
    """
    from pluralrm.annotate.claim import claimed
    from pluralrm.annotate.claim_page import claim_page, write_figures
    from pluralrm.annotate.judgments import judged_plan

    if out is not None:
        check_place(out)
    content, answers = judged_plan(plan, judgments)
    if content.declared.task == "four":
        _print_fours(content, answers, path=out or figures, as_json=as_json)
        return
    with ProgressDisplay(f"claim of {plan}: testing"):
        result = claimed(content, answers)
    if out is not None:
        write_page(out, claim_page(result))
    if figures is not None:
        note(f"wrote {', '.join(file.name for file in write_figures(result, figures))} in {figures}")
    if as_json:
        print_json(result.to_json())
    else:
        _print_claim(result)
    if result.first.contrary:
        raise typer.Exit(1)


def _print_claim(result: "ClaimResult") -> None:
    from pluralrm.annotate import claim_result as words

    print_wrapped(f"{result.benchmark}: is personal fit what separates the pairs?", style="bold")
    if result.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    print_wrapped(words.verdict(result), style="red" if result.first.contrary else "")
    print_wrapped(f"{words.stated(result.declared)} Plan {result.plan_hash[:16]}.")
    for arm in result.arms:
        _print_arm(arm)
    level = 100 * (1 - 2 * result.claim.alpha)
    ends = f"Intervals of tests at {level:g}%, others at 95%, robust to items and annotators; of majorities, to items."
    p = "p of tests: one-sided, of equality (±) the larger of two; of log odds: two-sided."
    print_legend([f"{ends} {p}", words.ABOUT, f"{'; '.join(result.policies)}."])


def _print_arm(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    console().print()
    print_wrapped(f"{arm.arm}: {words.SEEN[arm.arm]}", style="bold")
    print_wrapped(f"{words.counts(arm)} {words.survival(arm)} {words.ceiling(arm)}")
    rows = [
        (test.name, test.unit, words.measured(test), p_value(test.test.p), words.state(test.test)) for test in arm.tests
    ]
    columns: list[tuple[str, Kind]] = [("test", "name"), ("in", "left"), ("estimate", "left"), ("p", "right")]
    console().print(table([*columns, ("", "left")], rows))
    if text := words.untold(arm):
        print_wrapped(text)
    _print_weights(arm)


def _print_weights(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    if not arm.weights:
        print_wrapped(f"No regression of the overall choice: {arm.why_no_weights}")
        return
    rows = [
        (words.named(weight.name), estimated(weight.log_odds, times=1, places=2), p_value(weight.p))
        for weight in arm.weights
    ]
    columns: list[tuple[str, Kind]] = [("the overall choice", "name"), ("log odds per step [95%]", "left")]
    console().print(table([*columns, ("p", "right")], rows))
    if text := words.held_down(arm):
        print_wrapped(text)


def _print_fours(plan: "AnnotationPlan", judgments: "list[Judgment]", *, path: Path | None, as_json: bool) -> None:
    """Print what people say of four answers."""
    from pluralrm.annotate.claim import fours

    if path is not None:
        raise SpecError(f"{path}: only the claim of two answers has a page and plots; leave out -o and --figures")
    result = fours(plan, judgments)
    if as_json:
        print_json(result.to_json())
        return
    print_wrapped(f"{result.benchmark}: do people pick the labelled answer?", style="bold")
    if result.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    for arm in result.arms:
        same = "no one could tell" if arm.paraphrases_same is None else estimated(arm.paraphrases_same)
        rows = [
            (f"labelled answer picked (by chance {100 * arm.chance:.0f})", "%", estimated(arm.picked)),
            ("items on which it is picked most", "%", estimated(arm.survives)),
            ("only one answer fits", "%", estimated(arm.only_one_fits)),
            ("no answer fits", "%", estimated(arm.none_fits)),
            ("paraphrases mean the same", "%", same),
            ("naturalness of the prompt", "1 to 5", estimated(arm.naturalness, times=1, places=2)),
        ]
        console().print()
        print_wrapped(f"{arm.picked.n:,} judgments of {arm.items:,} items by {arm.annotators:,} annotators")
        columns: list[tuple[str, Kind]] = [("", "name"), ("in", "left"), ("estimate [95%]", "left")]
        console().print(table(columns, rows))
    ends = "Intervals are robust to items and annotators. 'Cannot tell' counts as not picking the labelled answer."
    print_legend([ends, *([f"{result.left_out}."] if result.left_out else [])])


app = typer.Typer(no_args_is_help=True)


app.command("plan")(annotate_plan.plan)
app.command("rehearse")(rehearse)
app.command("serve")(serve)
app.command("agreement")(agreement)
app.command("claim")(claim)
app.command("export")(export)
app.command("import")(import_)
