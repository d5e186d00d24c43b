"""`pluralrm list`: what can be named on the command line."""

import typer

from pluralrm.cli.terminal import console, line, paragraph, print_json, table

NOUNS = ("benchmarks", "models", "conditions", "attacks", "graders", "algorithms")


def list_(
    noun: str = typer.Argument(..., metavar="|".join(NOUNS), help="What to list."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List benchmarks (with their cards), models, conditions, attacks, graders, or the algorithms of fit."""
    from pluralrm.errors import SpecError, did_you_mean

    if noun not in NOUNS:
        raise SpecError(f"{noun!r} cannot be listed.{did_you_mean(noun, NOUNS)}")
    if noun == "benchmarks":
        _benchmarks(as_json)
        return
    if noun == "algorithms":
        _algorithms(as_json)
        return
    rows = {"models": _models, "conditions": _conditions, "attacks": _attacks, "graders": _graders}[noun]()
    if as_json:
        print_json([{"name": name, "summary": summary} for name, summary in rows])
    else:
        console().print(table([(noun.removesuffix("s"), "left"), ("what it is", "text")], rows))


def _models() -> list[tuple[str, str]]:
    from pluralrm.models import KINDS

    return [(name, kind.summary) for name, kind in KINDS.items()]


def _conditions() -> list[tuple[str, str]]:
    from pluralrm.conditions import condition_summaries

    return list(condition_summaries().items())


def _attacks() -> list[tuple[str, str]]:
    from pluralrm.attack import ATTACKS, CONTROLS

    return [
        (name, f"the rejected answer {attack.does}{' (a control)' * (name in CONTROLS)}")
        for name, attack in ATTACKS.items()
    ]


def _graders() -> list[tuple[str, str]]:
    from pluralrm.grading import grader_summaries

    return list(grader_summaries().items())


def _algorithms(as_json: bool) -> None:
    """Print the algorithms of `fit`, each with its hyperparameters: default, what it is, who says so."""
    from pluralrm.models.personal.algorithms import ALGORITHMS, DEFAULTS, Size, by_size

    few = Size(150, 3000)
    if as_json:
        settings = {
            name: {
                key: {"default": row.value, "meaning": row.meaning, "source": row.source} for key, row in rows.items()
            }
            for name, rows in DEFAULTS.items()
        }
        told = [{"name": name, "summary": row.summary, "settings": settings[name]} for name, row in ALGORITHMS.items()]
        print_json(told)
        return
    out = console()
    for name, entry in ALGORITHMS.items():
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


def _benchmarks(as_json: bool) -> None:
    from dataclasses import asdict

    from pluralrm.benchmarks import cards

    if as_json:
        print_json([asdict(card) for card in cards()])
        return
    out = console()
    for card in cards():
        out.print(line(card.name), style="bold")
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
        for name, fact in facts.items():
            if fact:
                out.print(paragraph(fact, first=f"  {name:<9}", indent=" " * 11))
        out.print()
