"""`pluralrm show`: one run, or one of its items with exactly what the model was given."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from pluralrm.cli.compare import TieRule, by_json, check_tag, formula_name, print_failures, print_groups, share
from pluralrm.cli.terminal import console, line, note, paragraph, percent, print_json, print_wrapped, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pluralrm.cli.terminal import Kind
    from pluralrm.core import Row, Run, Ties


def show(
    path: Path = typer.Argument(..., metavar="RUN", help="A run's folder."),
    item: str = typer.Option("", "--item", "-i", help="One item: posts, answers, scores, what the model saw."),
    by: str = typer.Option(
        "", "--by", metavar="TAG", help="By a tag: each group, the worst, the gap; 'domain': every metric."
    ),
    ties: TieRule = typer.Option(TieRule.SHARE, "--ties", help="Credit where the preferred answer's score is tied."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show one run: its numbers and where they come from; or one item, exactly as the model saw it."""
    from pluralrm.errors import RunError
    from pluralrm.runs import find_runs, load_run

    found = find_runs([path])
    if len(found) > 1:
        names = "\n  ".join(str(one) for one in found[:20])
        raise RunError(f"{len(found)} runs below {str(path)!r}; name one:\n  {names}")
    run = load_run(found[0])
    if item:
        _show_item(run, item, as_json=as_json)
    else:
        print_summary(run, by=by, ties=ties.rule, as_json=as_json)
        if not as_json and run.rows:
            first = next((row for row in run.rows if not row.open), run.rows[0])
            note(f"one item: pluralrm show {run.path} --item {first.item}")


def _show_item(run: "Run", name: str, *, as_json: bool) -> None:
    from pluralrm.errors import RunError, did_you_mean
    from pluralrm.runs import load_inputs

    row = next((row for row in run.rows if row.item == name), None)
    if row is None:
        raise RunError(f"{run.path} has no item {name!r}.{did_you_mean(name, [row.item for row in run.rows])}")
    seen = load_inputs(run.path, name)
    if as_json:
        scores = [score if isinstance(score, float) else score._asdict() for score in row.scores]
        labels = {"preferred": row.preferred, "scores": scores, "candidate_ids": list(row.candidate_ids)}
        print_json({"model": run.model, "condition": run.condition, "input": seen, "domain": row.domain, **labels})
        return
    out = console()
    out.print(f"{line(name)}  ({line(row.domain)}; {line(run.benchmark)})", style="bold")
    out.print(f"model {line(run.model)} under {line(run.condition)} was given:\n", style="bold")
    _print_seen(seen)
    _print_answers(row, cast("Sequence[str]", seen["candidates"]))


def _print_seen(seen: "Mapping[str, object]") -> None:
    out = console()
    user = cast("Mapping[str, Sequence[Mapping[str, str]]] | None", seen["user"])
    posts = user["posts"] if user else []
    out.print(f"posts ({len(posts)}), in the order given" if posts else "no posts", style="bold")
    for number, post in enumerate(posts, 1):
        label = f"({post['category']})" if post["category"] else ""
        out.print(paragraph(f"{label} {post['text']}".strip(), first=f"{number:>3}. ", indent="     "))
    _print_pairs(user["pairs"] if user else [])
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
    out = console()
    out.print("candidates, in the order given (the model did not see the mark)", style="bold")
    for place, (text, score) in enumerate(zip(candidates, row.scores, strict=True)):
        preferred = "preferred" if place == row.preferred else "not preferred"
        value = f"score {score:.6g}" if isinstance(score, float) else f"FAILED {score.kind}: {line(score.detail)}"
        out.print(f"  [{place}] {value}  · {line(row.candidate_ids[place])}, {preferred}", style="bold")
        out.print(paragraph(text, first="      ", indent="      "))


def print_summary(run: "Run", *, by: str = "", ties: "Ties" = "share", as_json: bool = False) -> None:
    """Print what is said about one run."""
    from pluralrm.metrics import summary, with_ties

    if by:
        check_tag([run], by)
    run = with_ties(run, ties)
    told = summary(run)
    if as_json:
        print_json(told.to_json() | ({"by": by_json(run, by)} if by else {}))
        return
    out = console()
    print_wrapped(f"{run.model} under {run.condition} on {run.benchmark}", style="bold")
    if "oracle" in run.reveals:
        out.print("ORACLE: the model saw the rubric", style="red")
    for text in told.trained:
        print_wrapped(f"TRAINED: {text}", style="red")
    if told.pairs:
        print_wrapped(f"SYNTHESISED: {told.pairs}", style="yellow")
    if not run.complete:
        print_wrapped(f"incomplete: {run.done:,} of {run.items:,} items; the others count as wrong", style="yellow")
    rows = [
        (name, percent(found), str(found.n), str(found.failed), share(told.published.get(name)))
        for name, found in told.metrics.items()
    ]
    ours = told.published.get(told.headline)
    formula = formula_name([ours] if ours else [])
    rows += [
        (f"  {domain}", percent(found), str(found.n), str(found.failed), share(ours, domain))
        for domain, found in told.domains.items()
    ]
    columns: list[tuple[str, Kind]] = [("", "name"), ("% [95%]", "left"), ("n", "right"), ("failed", "right")]
    out.print(table([*columns, (formula, "right")], rows))
    for reason in dict.fromkeys(found.reason for found in told.published.values()):
        print_wrapped(f"{formula}: {reason}", indent="  ", style="dim")
    if told.bounds is not None:
        bound = f"{told.headline} if all {told.bounds.failed:,} failed items were right: {100 * told.bounds.best:.1f}"
        print_wrapped(bound, first="  ", indent="    ", style="dim")
    print_failures(run)
    print_groups([run], by)
