"""`pluralrm list`: what can be named on the command line."""

from collections.abc import Sequence

import typer

from pluralrm.cli.terminal import Kind, console, line, paragraph, print_json, print_wrapped, table

NOUNS = ("benchmarks", "models", "conditions", "attacks", "graders", "algorithms")


def list_(
    noun: str = typer.Argument("", metavar="|".join(NOUNS), help="What to list.", show_default=False),
    name: str = typer.Argument("", help="Only this one; of a benchmark its whole card.", show_default=False),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List benchmarks (by name, with their card), models, conditions, attacks, graders, or the algorithms of fit."""
    from pluralrm.errors import SpecError, did_you_mean

    if not noun:
        raise SpecError("what is to be listed? " + ", ".join(f"'pluralrm list {one}'" for one in NOUNS))
    if noun not in NOUNS:
        raise SpecError(f"{noun!r} cannot be listed.{did_you_mean(noun, NOUNS)}")
    if noun == "benchmarks":
        _benchmarks(name, as_json)
        return
    if noun == "algorithms":
        _algorithms(name, as_json)
        return
    rows = {"models": _models, "conditions": _conditions, "attacks": _attacks, "graders": _graders}[noun]()
    kept = [row for row in rows if row[0] in _chosen(noun, name, [row[0] for row in rows])]
    if as_json:
        print_json([{"name": row[0], "summary": row[1], **({"extra": row[2]} if row[2:] else {})} for row in kept])
        return
    columns: list[tuple[str, Kind]] = [(noun.removesuffix("s"), "left"), ("what it is", "text")]
    console().print(table([*columns, ("extra", "left")] if rows[0][2:] else columns, kept))
    if rows[0][2:]:
        print_wrapped("extra: what it needs beside pluralrm itself, as in pip install 'pluralrm[hf]'")


def _chosen(noun: str, name: str, known: Sequence[str]) -> Sequence[str]:
    """Return the names to list: all, or the one that is asked for."""
    from pluralrm.errors import SpecError, did_you_mean

    if name and name not in known:
        raise SpecError(f"no {noun.removesuffix('s')} {name!r}.{did_you_mean(name, known)}")
    return [name] if name else known


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
        told = [
            {"name": name, "summary": row.summary, "settings": settings[name]}
            for name, row in ALGORITHMS.items()
            if name in names
        ]
        print_json(told)
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

    found = {card.name: card for card in cards()}
    names = _chosen("benchmarks", only, list(found))
    if as_json:
        print_json([asdict(found[name]) for name in names])
        return
    if not only:
        rows = [(name, f"{card.summary} ({card.licence})") for name, card in found.items()]
        console().print(table([("benchmark", "left"), ("what it is", "text")], rows))
        print_wrapped("The card of one, with its labels, source and citation: pluralrm list benchmarks prb")
        return
    card = found[only]
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
