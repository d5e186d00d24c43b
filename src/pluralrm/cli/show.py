"""`pluralrm list`, `show`, `report`, `leaderboard` and `view`: what there is, a run or an item, runs as pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from pluralrm.cli.compare import TieRule, by_json, check_tag, formula_name, print_groups, share
from pluralrm.cli.diagnostics import print_failures
from pluralrm.cli.options import HUMAN, asked
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, console, line, note, paragraph, percent, print_json, print_wrapped, table
from pluralrm.errors import RunError
from pluralrm.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pluralrm.audit import Audit
    from pluralrm.core import Row, Run, Ties


def show(
    path: Path = typer.Argument(..., metavar="RUN", help="A run's folder, or a training watch's."),
    item: str = typer.Option("", "--item", "-i", help="One item: posts, answers, scores, what the model saw."),
    by: str = typer.Option(
        "", "--by", metavar="TAG", help="By a tag: each group, the worst, the gap; 'domain': every metric."
    ),
    ties: TieRule = typer.Option(TieRule.SHARE, "--ties", help="Credit where the preferred answer's score is tied."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show one run: its numbers and where they come from; or one item, exactly as the model saw it."""
    from pluralrm.runs import find_runs, load_run
    from pluralrm.runs.records import RUN

    if not RUN.holds(path) and _show_watch(path, as_json=as_json):
        return
    folders = find_runs([path])
    if len(folders) > 1:
        names = "\n  ".join(str(folder) for folder in folders[:20])
        raise RunError(f"{len(folders)} runs below {str(path)!r}; name one:\n  {names}")
    run = load_run(folders[0])
    if item:
        _show_item(run, item, as_json=as_json)
    else:
        print_summary(run, by=by, ties=ties.rule, as_json=as_json)
        if not as_json and run.rows:
            first = next((row for row in run.rows if not row.open), run.rows[0])
            note(f"one item: pluralrm show {run.path} --item {first.item}")


def _show_watch(path: Path, *, as_json: bool) -> bool:
    """Print what a training watch says so far, and return True; False where the folder holds none."""
    from pluralrm.serve.watch import ROLLOUTS, WATCH, WatchFolder, summary, verdict

    if not WATCH.holds(path):
        return False
    folder = WatchFolder.read(path)
    facts = {"verdict": verdict(folder.series), **summary(folder)}
    if as_json:
        print_json(facts)
        return True
    watch = folder.manifest
    context = f" under {watch.condition}" * (watch.condition != "none")
    print_wrapped(f"{watch.reward}{context}, watched by {watch.second}: {facts['verdict']}", style="bold")
    for alarm in cast("Sequence[Mapping[str, object]]", facts["alarms"]):
        lines = ", ".join(map(str, cast("Sequence[int]", alarm["read"])))
        print_wrapped(f"ALARM {alarm['claim']}: {alarm['message']}", style="red")
        print_wrapped(f"read lines {lines} of {path / ROLLOUTS}", first="  ", indent="    ")
    for kind, count in folder.failures.most_common():
        print_wrapped(f"{counted(count, 'score')} of {watch.second} failed: {kind}", style="yellow")
    return True


def _show_item(run: "Run", name: str, *, as_json: bool) -> None:
    from pluralrm.errors import did_you_mean
    from pluralrm.runs import load_inputs

    row = next((row for row in run.rows if row.item == name), None)
    if row is None:
        raise RunError(f"{run.path} has no item {name!r}.{did_you_mean(name, [row.item for row in run.rows])}")
    seen = load_inputs(run.path, name)
    if as_json:
        scores = [score if isinstance(score, float) else score._asdict() for score in row.scores]
        labels = {
            "preferred": row.preferred,
            "grades": list(row.grades),
            "scores": scores,
            "candidate_ids": list(row.candidate_ids),
        }
        facts = {"model": run.model, "condition": run.condition, "input": seen, "posts_kept": row.posts}
        print_json({**facts, "domain": row.domain, **labels})
        return
    out = console()
    out.print(f"{line(name)}  ({line(row.domain)}; {line(run.benchmark)})", style="bold")
    out.print(f"model {line(run.model)} under {line(run.condition)} was given:\n", style="bold")
    _print_seen(seen, row.posts)
    _print_answers(row, cast("Sequence[str]", seen["candidates"]))


def _print_seen(seen: "Mapping[str, object]", room: int) -> None:
    """Print what a condition showed, and of its posts those that the model had room for."""
    out = console()
    user = cast("Mapping[str, Sequence[Mapping[str, str]]] | None", seen["user"])
    posts = user["posts"] if user else []
    count = f"{len(posts)}" if room >= len(posts) else f"{room} of {len(posts)}: the others did not fit"
    out.print(f"posts ({count}), in the order given" if posts else "no posts", style="bold")
    for number, post in enumerate(posts[:room], 1):
        label = f"({post['category']})" if post["category"] else ""
        out.print(paragraph(f"{label} {post['text']}".strip(), first=f"{number:>3}. ", indent="     "))
    _print_pairs(user["pairs"] if user else [])
    for trait, value in cast("Mapping[str, str]", user.get("traits", {}) if user else {}).items():
        out.print(paragraph(f"{trait}: {value}", first="  trait: ", indent="    "))
    for remark in cast("Sequence[str]", seen["notes"]):
        style = "red" if seen["reveals_oracle"] else None
        out.print(paragraph(remark, first=f"  note{' (ORACLE)' if style else ''}: ", indent="    "), style=style)
    out.print("\nprompt", style="bold")
    out.print(paragraph(str(seen["prompt"]), first="  ", indent="  ") + "\n")


def _print_pairs(pairs: "Sequence[Mapping[str, str]]") -> None:
    """Print the labelled pairs that were shown, if any were."""
    out = console()
    if pairs:
        out.print(f"\nlabelled pairs ({len(pairs)})", style="bold")
    for number, pair in enumerate(pairs, 1):
        out.print(paragraph(pair["prompt"], first=f"{number:>3}. ", indent="     "))
        for word, text in (("chosen", pair["preferred"]), ("not", pair["other"])):
            out.print(paragraph(text, first=f"     {word:<7}", indent=" " * 12))


def _print_answers(row: "Row", candidates: "Sequence[str]") -> None:
    from pluralrm.labels import is_one_hot

    out = console()
    out.print("candidates, in the order given (the model did not see the mark)", style="bold")
    for index, (text, score) in enumerate(zip(candidates, row.scores, strict=True)):
        preferred = "preferred" if index in row.best else "not preferred"
        preferred += f" (grade {row.grades[index]:g})" * (not is_one_hot(row.grades))
        value = f"score {score:.6g}" if isinstance(score, float) else f"FAILED {score.kind}: {line(score.detail)}"
        out.print(f"  [{index}] {value}  · {line(row.candidate_ids[index])}, {preferred}", style="bold")
        out.print(paragraph(text, first="      ", indent="      "))


def print_summary(run: "Run", *, by: str = "", ties: "Ties" = "share", as_json: bool = False) -> None:
    """Print what is said about one run."""
    from pluralrm.metrics import summary, with_ties

    if by:
        check_tag([run], by)
    run = with_ties(run, ties)
    totals = summary(run)
    if as_json:
        print_json(totals.to_json() | ({"by": by_json(run, by)} if by else {}))
        return
    out = console()
    print_wrapped(f"{run.model} under {run.condition} on {run.benchmark}", style="bold")
    if "oracle" in run.reveals:
        out.print("ORACLE: the model saw the rubric", style="red")
    for text in totals.trained:
        print_wrapped(f"TRAINED: {text}", style="red")
    computed = totals.dtype and f"computed in {totals.dtype}, not in float32"
    remarks = {"IMPORTED": totals.imported, "SYNTHESISED": totals.pairs, totals.dtype.upper(): computed}
    for word, text in remarks.items():
        if text:
            print_wrapped(f"{word}: {text}", style="yellow")
    if not run.complete:
        print_wrapped(f"incomplete: {run.done:,} of {run.items:,} items; the others count as wrong", style="yellow")
    rows = [
        (name, percent(estimate), str(estimate.n), str(estimate.failed), share(totals.published.get(name)))
        for name, estimate in totals.metrics.items()
    ]
    headline = totals.published.get(totals.headline)
    formula = formula_name([headline] if headline else [])
    rows += [
        (f"  {domain}", percent(estimate), str(estimate.n), str(estimate.failed), share(headline, domain))
        for domain, estimate in totals.domains.items()
    ]
    columns: list[tuple[str, Kind]] = [("", "name"), ("% [95%]", "left"), ("n", "right"), ("failed", "right")]
    out.print(table([*columns, (formula, "right")], rows))
    for reason in dict.fromkeys(metric.reason for metric in totals.published.values()):
        print_wrapped(f"{formula}: {reason}", indent="  ", style="dim")
    if totals.bounds is not None:
        bound = (
            f"{totals.headline} if all {totals.bounds.failed:,} failed items were right: {100 * totals.bounds.best:.1f}"
        )
        print_wrapped(bound, first="  ", indent="    ", style="dim")
    print_failures(run)
    print_groups([run], by)


def report(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    out: Path = typer.Option(Path("report.html"), "--out", "-o", help="The HTML file to write."),
    figures: Path | None = typer.Option(None, metavar="DIR", help="Also write every plot here, as PDF and SVG."),
    audits: list[str] = typer.Option([], "--audit", metavar="BENCH", help="Audit this benchmark and show it."),
    human: list[str] = HUMAN,
    no_text: bool = typer.Option(False, "--no-text", help="Leave out what people wrote: posts, prompts, answers."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    force: bool = typer.Option(False, "--force", help="Replace a file that is not a report."),
    show: bool = typer.Option(False, "--open", help="Open the file in the browser."),
) -> None:
    """Write one offline HTML file: the answer in words, tables, plots, every item, provenance."""
    from pluralrm.report import Beside, write_report

    beside = Beside(_audited(audits, seed), asked(human))
    with ProgressDisplay(f"report: reading and comparing the runs in {', '.join(map(str, paths))}"):
        result = write_report(paths, out, text=not no_text, figures=figures, seed=seed, beside=beside, force=force)
    for sentences in result.answers:
        typer.echo(paragraph(sentences, indent="  "))
    size = f"{out.stat().st_size / 1e6:.1f} MB"
    note(f"{out} ({size}){f', figures in {figures}' if figures else ''}")
    for part in result.tables:
        if part.items < part.total:
            note(f"it holds {part.items:,} of {part.total:,} items; the others are in the run folders")
    if show:
        typer.launch(out.resolve().as_uri())


def leaderboard(
    paths: list[Path] = typer.Argument(..., metavar="RUN", help="Run folders, or folders that hold some."),
    out: Path = typer.Option(Path("site"), "--out", "-o", metavar="DIR", help="The folder of the site."),
    title: str = typer.Option("", help="The title of the site.", show_default="from the benchmarks"),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    force: bool = typer.Option(False, "--force", help="Replace an index.html that is not of a leaderboard."),
    show: bool = typer.Option(False, "--open", help="Open it in the browser."),
) -> None:
    """Write a static site of many models: ranks, groups that do not differ, verdicts, users, a page per model, JSON."""
    from pluralrm.exchange.leaderboard import write_site
    from pluralrm.report import read_sources

    with ProgressDisplay(f"leaderboard: reading and comparing the runs in {', '.join(map(str, paths))}"):
        site = write_site(read_sources(paths), out, title=title, seed=seed, force=force)
    for text in site.answers:
        typer.echo(paragraph(text, indent="  "))
    size = sum(len(text.encode()) for text in site.files.values()) / 1e6
    note(f"{out}/index.html: {counted(site.models, 'model')}, {len(site.files)} files, {size:.1f} MB")
    if show:
        typer.launch((out / "index.html").resolve().as_uri())


def view(
    folder: Path = typer.Argument(Path("runs"), metavar="DIR", help="The folder that runs are written to."),
    port: int = typer.Option(0, "--port", min=0, max=65535, help="Port; 0 picks a free one and prints it."),
    no_text: bool = typer.Option(False, "--no-text", help="Leave posts, prompts and answers out."),
    seed: int = typer.Option(0, help="Seed of the resampling."),
    show: bool = typer.Option(False, "--open", help="Open the page in the browser."),
) -> None:
    """Show the report of runs while they are scored, on this machine alone, until Ctrl-C. It only reads."""
    from pluralrm.report.view import ReportView, ViewServer

    if not folder.is_dir():
        raise RunError(f"no folder {str(folder)!r}; 'pluralrm score' writes runs with -o, by default to runs")
    with ViewServer(ReportView(folder, text=not no_text, seed=seed), port) as server:
        typer.echo(server.address)
        note("Ctrl-C ends it; runs go on")
        if show:
            typer.launch(server.address)
        try:
            server.run()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _audited(names: "Sequence[str]", seed: int) -> "list[Audit]":
    if not names:
        return []
    from pluralrm.audit import audit
    from pluralrm.cli.options import open_benchmark

    return [audit(open_benchmark(name), seed=seed) for name in names]


NOUNS = ("benchmarks", "models", "conditions", "attacks", "graders", "algorithms")


def list_(
    noun: str = typer.Argument("", metavar="|".join(NOUNS), help="What to list.", show_default=False),
    name: str = typer.Argument("", help="Only this one; of a benchmark its whole card.", show_default=False),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List benchmarks (by name, with their card), models, conditions, attacks, graders, or the algorithms of fit."""
    from pluralrm.errors import SpecError, did_you_mean

    if not noun:
        raise SpecError("what is to be listed? " + ", ".join(f"'pluralrm list {entry}'" for entry in NOUNS))
    if noun not in NOUNS:
        raise SpecError(f"{noun!r} cannot be listed.{did_you_mean(noun, NOUNS)}")
    if noun == "benchmarks":
        _benchmarks(name, as_json)
        return
    if noun == "algorithms":
        _algorithms(name, as_json)
        return
    rows = {"models": _models, "conditions": _conditions, "attacks": _attacks, "graders": _graders}[noun]()
    matches = [row for row in rows if row[0] in _chosen(noun, name, [row[0] for row in rows])]
    if as_json:
        print_json([{"name": row[0], "summary": row[1], **({"extra": row[2]} if row[2:] else {})} for row in matches])
        return
    columns: list[tuple[str, Kind]] = [(noun.removesuffix("s"), "left"), ("what it is", "text")]
    console().print(table([*columns, ("extra", "left")] if rows[0][2:] else columns, matches))
    if rows[0][2:]:
        print_wrapped("extra: what it needs beside pluralrm itself, as in pip install 'pluralrm[hf]'")


def _chosen(noun: str, name: str, names: Sequence[str]) -> Sequence[str]:
    """Return the names to list: all, or the one that is asked for."""
    from pluralrm.errors import SpecError, did_you_mean

    if name and name not in names:
        raise SpecError(f"no {noun.removesuffix('s')} {name!r}.{did_you_mean(name, names)}")
    return [name] if name else names


def _models() -> list[tuple[str, ...]]:
    from pluralrm.models import KINDS

    return [(name, kind.summary, kind.extra) for name, kind in KINDS.items()]


def _conditions() -> list[tuple[str, ...]]:
    from pluralrm.conditions import condition_summaries

    return list(condition_summaries().items())


def _attacks() -> list[tuple[str, ...]]:
    from pluralrm.attack import ATTACKS, CONTROLS

    return [
        (name, f"the rejected answer {attack.does}{' (a control)' * (name in CONTROLS)}")
        for name, attack in ATTACKS.items()
    ]


def _graders() -> list[tuple[str, ...]]:
    from pluralrm.grading import grader_summaries

    return list(grader_summaries().items())


def _algorithms(only: str, as_json: bool) -> None:
    """Print the algorithms of `fit`, each with its hyperparameters: default, what it is, who says so."""
    from pluralrm.models.personal.algorithms import ALGORITHMS, DEFAULTS, Size, by_size

    few = Size(150, 3000)
    names = _chosen("algorithms", only, list(ALGORITHMS))
    if as_json:
        settings = {
            name: {
                key: {"default": row.value, "meaning": row.meaning, "source": row.source} for key, row in rows.items()
            }
            for name, rows in DEFAULTS.items()
        }
        records = [
            {"name": name, "summary": row.summary, "settings": settings[name]}
            for name, row in ALGORITHMS.items()
            if name in names
        ]
        print_json(records)
        return
    out = console()
    for name, entry in ((name, ALGORITHMS[name]) for name in names):
        out.print(line(name), style="bold")
        out.print(paragraph(entry.summary, first="  ", indent="  "))
        for key, row in DEFAULTS[name].items():
            out.print(
                paragraph(f"{row.meaning} ({row.source})", first=f"  {f'{key}={row.value}':<18}", indent=" " * 20)
            )
        if chosen := by_size(name, few):
            values = ", ".join(f"{key}={value}" for key, value in chosen.items())
            text = f"Defaults go by size; with {few.users:,} users and {few.pairs:,} pairs to train on: {values}"
            out.print(paragraph(text, first="  ", indent="  "))
        out.print()


def _benchmarks(only: str, as_json: bool) -> None:
    """Print a line for each benchmark, or the card of one."""
    from dataclasses import asdict

    from pluralrm.benchmarks import cards

    by_name = {card.name: card for card in cards()}
    names = _chosen("benchmarks", only, list(by_name))
    if as_json:
        print_json([asdict(by_name[name]) for name in names])
        return
    if not only:
        rows = [(name, f"{card.summary} ({card.licence})") for name, card in by_name.items()]
        console().print(table([("benchmark", "left"), ("what it is", "text")], rows))
        print_wrapped("The card of one, with its labels, source and citation: pluralrm list benchmarks prb")
        return
    card = by_name[only]
    facts = {
        "what": card.summary,
        "labels": card.labelled,
        "licence": card.licence,
        "source": card.source,
        "revision": card.revision,
        "reports": ", ".join(card.metrics),
        "cite": card.citation,
        "notes": card.notes,
    }
    console().print(line(card.name), style="bold")
    for name, fact in facts.items():
        if fact:
            console().print(paragraph(fact, first=f"  {name:<9}", indent=" " * 11))
