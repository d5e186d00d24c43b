"""`pluralrm doctor`: what does a local neural model really read, and can its scores be trusted?"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import TRUST, with_trust
from pluralrm.cli.terminal import note, print_json, print_wrapped

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, RewardModel
    from pluralrm.doctor import Colour, Examination, Sign
    from pluralrm.doctor.tokens import TokenView

_COLOURS: "Mapping[str, Colour]" = {"pass": "green", "warn": "yellow", "fail": "red"}
_ENDS, _AROUND = 4, 3
"""Tokens that are shown at the ends of a conversation, and at each side of where its answer starts and ends."""
_INDENT = " " * 10


def doctor(
    model: str = typer.Argument(..., metavar="MODEL", help="For example hf:FOLDER; see 'pluralrm list models'."),
    condition: str = typer.Option("none", "--condition", "-c", help="What the model sees."),
    benchmark: str = typer.Option("pocket-prb", "--benchmark", metavar="BENCH", help="Where the queries come from."),
    item: str = typer.Option(
        "", "--item", "-i", metavar="ID", help="The item whose tokens are shown.", show_default="the first"
    ),
    trust: list[str] = TRUST,
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with all token ids."),
) -> None:
    """Show what a neural model really reads, and whether its scores depend on what they should. Exit 1 on any red."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.doctor import examine, is_neural
    from pluralrm.models import load_model

    [name] = with_trust([model], trust)
    loaded, bench, shown = load_model(name), open_benchmark(benchmark), load_condition(condition)
    found = examine(loaded, bench, shown, item=item) if is_neural(loaded) else _promises(loaded, bench)
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    if found.red:
        raise typer.Exit(1)


def _promises(model: "RewardModel", benchmark: "Benchmark") -> "Examination":
    """Return what applies to any reward model, and how much of the benchmark's texts a model of embeddings reads."""
    from pluralrm.doctor import Examination, Sign
    from pluralrm.models.declarations import Reads
    from pluralrm.testing import reward_model_findings

    note(f"{model.spec} is no folder of weights: its promises are checked, nothing else can be looked into")
    findings = reward_model_findings(model)
    signs = [Sign(one.check, _COLOURS[one.status], one.detail, "") for one in findings]
    if isinstance(model, Reads):
        reading = model.reading(benchmark)
        colour: Colour = "red" if reading.longer and reading.cut else "green"
        why = "what an answer says behind the cut has no part in its score" if colour == "red" else "nothing is cut"
        signs.append(Sign("length", colour, f"on {benchmark.card.name} {reading}", why))
    return Examination(model.spec, tuple(signs))


def _print(found: "Examination") -> None:
    print_wrapped(found.model, style="bold")
    if found.sample:
        _print_sample(found)
    for sign in found.signs:
        _print_sign(sign)
    counts = Counter(sign.colour for sign in found.signs)
    print_wrapped(", ".join(f"{counts[colour]} {colour}" for colour in ("green", "yellow", "red")), style="bold")


def _print_sample(found: "Examination") -> None:
    from pluralrm.core import Failure

    place = f"{found.benchmark} under {found.condition}, item {found.item!r}"
    for number, view in enumerate(found.sample, 1):
        if not isinstance(view, Failure):
            print_wrapped(f"{place}, conversation {number} of {len(found.sample)}: {len(view.ids)} tokens")
            print_wrapped(" ".join(_tokens(view)), first="  ", indent="  ", style="dim")
            return
    print_wrapped(f"{place}: no conversation can be asked about")


def _tokens(view: "TokenView") -> Iterator[str]:
    """Yield ids with their pieces, the answer in brackets; what is far from all ends is counted."""
    marks = (0, view.start, view.end, len(view.ids))
    shown = [
        place
        for place in range(len(view.ids))
        if any(
            -reach <= place - mark < reach for mark, reach in zip(marks, (_ENDS, _AROUND, _AROUND, _ENDS), strict=True)
        )
    ]
    before = -1
    for place in shown:
        if place > before + 1:
            yield f"… {place - before - 1} more …"
        opens, closes = "[ " * (place == view.start < view.end), " ]" * (place == view.end - 1 >= view.start)
        yield f"{opens}{view.ids[place]} {view.pieces[place]!r}{closes}"
        before = place


def _print_sign(sign: "Sign") -> None:
    head = f"{sign.name}: {sign.found}" if sign.found else sign.name
    print_wrapped(head, first=f"{sign.colour:<8}", indent=_INDENT, style=sign.colour)
    if sign.reason:
        print_wrapped(sign.reason, first=_INDENT, indent=_INDENT, style="dim")
    if sign.remedy:
        print_wrapped(f"→ {sign.remedy}", first=_INDENT, indent=f"{_INDENT}  ")
