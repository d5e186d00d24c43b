"""`pluralrm share`: how much of a benchmark's preferences is personal, and how much of it is there to win?"""

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import BENCH, FORMAT, TEXT_FORMS, TableFormat, open_benchmark, output_format, print_records
from pluralrm.cli.progress import ProgressDisplay
from pluralrm.cli.terminal import Kind, console, print_json, print_legend, print_wrapped, table
from pluralrm.text import counted, estimated, listed

if TYPE_CHECKING:
    from pluralrm.core import Estimate
    from pluralrm.metrics.shares import Shares


def share(
    benchmark: str = BENCH,
    traits: list[str] = typer.Option(
        [], "--trait", metavar="NAME", help="People are one group who have this trait alike; repeat: all of them."
    ),
    seed: int = typer.Option(0, help="Seed of the order of candidates."),
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """How much is there to win by knowing the person? For benchmarks whose items several people judged.

    Shares of the preferences that are everybody's, a group's, a person's own or noise, and floors without a model.
    """
    from pluralrm.metrics.floors import ladder
    from pluralrm.metrics.shares import crossed_judgments, shares

    form = output_format(form, as_json=as_json)
    bench = open_benchmark(benchmark, seed=seed)
    with ProgressDisplay(f"share {benchmark}: comparing judgments"):
        judged = crossed_judgments(bench, traits)
        result, floors = shares(judged), ladder(judged)
    if form is TableFormat.JSON:
        print_json(result.to_json() | {"floors": {name: floor.to_json() for name, floor in floors.items()}})
    elif form in TEXT_FORMS:
        rows = [{"number": name, **floor.to_json()} for name, floor in floors.items()]
        print_records([*result.records(), *rows], form, ["value", "low", "high"])
    else:
        _print(result, floors, benchmark)


def _print(result: "Shares", floors: "dict[str, Estimate]", benchmark: str) -> None:
    print_wrapped(f"{result.benchmark}: {result.answer}", style="bold")
    repeated = f"{result.repeated:,} of them by people who judged twice" if result.repeated else "none repeated"
    alone = f"; {counted(result.alone, 'other')} by one person alone" * bool(result.alone)
    people = f"{counted(result.panels, 'set')} of candidates by {result.people:,} people"
    print_wrapped(f"{counted(result.judgments, 'judgment')} of {people}, {repeated}{alone}.")
    console().print()
    shares: list[tuple[str, Kind]] = [("whose preferences", "name"), ("share in % [95%]", "left")]
    console().print(table(shares, list(_share_rows(result))))
    console().print()
    if rows := [(trait, estimated(each)) for trait, each in result.by_trait.items() if (trait,) != result.traits]:
        by_trait: list[tuple[str, Kind]] = [("in common by trait", "name"), ("share in % [95%]", "left")]
        console().print(table(by_trait, rows))
        console().print()
    columns: list[tuple[str, Kind]] = [("what predicts a judgment", "name"), ("right in % [95%]", "left")]
    most = {"any scorer, at most": result.ceiling} if result.ceiling is not None else {}
    ladder = [(name, estimated(floor), f"{floor.n:,}") for name, floor in {**floors, **most}.items()]
    console().print(table([*columns, ("judgments", "right")], ladder))
    print_legend(list(_legend(result)))
    print_wrapped("next: score a model with the user and without; compare says what it wins of this", style="bold")
    console().print(f"pluralrm score {quote(benchmark)} -m MODEL -c recent:20 -c none", soft_wrap=True)


def _share_rows(result: "Shares") -> Iterator[tuple[str, str]]:
    group = f"the group's ({listed(result.traits)})"
    shares = {
        "everybody's": result.consensus,
        group: result.group,
        "the person's own": result.person,
        "noise": result.noise,
        "the person's own, or noise": result.rest,
    }
    yield from ((name, estimated(share)) for name, share in shares.items() if share is not None)


def _legend(result: "Shares") -> Iterator[str]:
    yield f"interval: {result.consensus.method}. Shares are unbiased: intervals may leave 0 to 100."
    if result.by_trait:
        hint = "" if result.traits else "; --trait adds the group's share and floors"
        yield f"in common by trait: beyond what is everybody's; intervals hold for all traits at once{hint}."
    yield "floors: each predicts a judgment from others; neighbours agreed with this person on other candidates."
    if result.ceiling is not None:
        yield "at most: by how often people agree with themselves; the low end is that agreement."
    else:
        yield "No person judged the same candidates twice: what is a person's own and what is noise stays one share."
