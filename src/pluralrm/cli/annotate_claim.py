"""`pluralrm annotate claim`: is personal fit what separates the pair?"""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.annotate_agreement import JUDGMENTS, judged
from pluralrm.cli.terminal import (
    Kind,
    check_place,
    console,
    note,
    print_json,
    print_legend,
    print_wrapped,
    table,
    write_page,
)
from pluralrm.errors import SpecError
from pluralrm.text import estimated, p_value

if TYPE_CHECKING:
    from pluralrm.annotate.claim_result import ArmResult, ClaimResult
    from pluralrm.annotate.judgments import Judgment
    from pluralrm.annotate.plan import AnnotationPlan


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

    if out is not None:
        check_place(out)
    made, said = judged(plan, judgments)
    if made.declared.task == "four":
        _print_fours(made, said, wanted=out or figures, as_json=as_json)
        return
    found = claimed(made, said)
    if out is not None:
        write_page(out, claim_page(found))
    if figures is not None:
        note(f"wrote {', '.join(file.name for file in write_figures(found, figures))} in {figures}")
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    if found.first.contrary:
        raise typer.Exit(1)


def _print(found: "ClaimResult") -> None:
    from pluralrm.annotate import claim_result as words

    print_wrapped(f"{found.benchmark}: is personal fit what separates the pairs?", style="bold")
    if found.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    print_wrapped(words.verdict(found), style="red" if found.first.contrary else "")
    print_wrapped(f"{words.stated(found.declared)} Plan {found.plan_hash[:16]}.")
    for arm in found.arms:
        _print_arm(arm)
    level = 100 * (1 - 2 * found.claim.alpha)
    ends = f"Intervals of tests at {level:g}%, others at 95%, robust to items and annotators; of majorities, to items."
    p = "p of tests: one-sided, of equality (±) the larger of two; of log odds: two-sided."
    print_legend([f"{ends} {p}", words.ABOUT, f"{'; '.join(found.policies)}."])


def _print_arm(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    console().print()
    print_wrapped(f"{arm.arm}: {words.SEEN[arm.arm]}", style="bold")
    print_wrapped(f"{words.counts(arm)} {words.survival(arm)} {words.ceiling(arm)}")
    rows = [(one.name, one.unit, words.measured(one), p_value(one.test.p), words.state(one.test)) for one in arm.tests]
    columns: list[tuple[str, Kind]] = [("test", "name"), ("in", "left"), ("estimate", "left"), ("p", "right")]
    console().print(table([*columns, ("", "left")], rows))
    if told := words.untold(arm):
        print_wrapped(told)
    _print_weights(arm)


def _print_weights(arm: "ArmResult") -> None:
    from pluralrm.annotate import claim_result as words

    if not arm.weights:
        print_wrapped(f"No regression of the overall choice: {arm.why_no_weights}")
        return
    rows = [(words.named(one.name), estimated(one.log_odds, times=1, places=2), p_value(one.p)) for one in arm.weights]
    columns: list[tuple[str, Kind]] = [("the overall choice", "name"), ("log odds per step [95%]", "left")]
    console().print(table([*columns, ("p", "right")], rows))
    if told := words.held_down(arm):
        print_wrapped(told)


def _print_fours(plan: "AnnotationPlan", said: "list[Judgment]", *, wanted: Path | None, as_json: bool) -> None:
    """Print what people say of four answers."""
    from pluralrm.annotate.claim import fours

    if wanted is not None:
        raise SpecError(f"{wanted}: only the claim of two answers has a page and plots; leave out -o and --figures")
    found = fours(plan, said)
    if as_json:
        print_json(found.to_json())
        return
    print_wrapped(f"{found.benchmark}: do people pick the labelled answer?", style="bold")
    if found.rehearsal:
        print_wrapped("REHEARSAL: these judgments are simulated", style="red")
    for arm in found.arms:
        same = "no one could tell" if arm.same is None else estimated(arm.same)
        rows = [
            ("labelled answer picked (by chance 25)", "%", estimated(arm.picked)),
            ("items on which it is picked most", "%", estimated(arm.survives)),
            ("only one answer fits", "%", estimated(arm.only_one)),
            ("no answer fits", "%", estimated(arm.none)),
            ("paraphrases mean the same", "%", same),
            ("naturalness of the prompt", "1 to 5", estimated(arm.naturalness, times=1, places=2)),
        ]
        console().print()
        print_wrapped(f"{arm.picked.n:,} judgments of {arm.items:,} items by {arm.annotators:,} annotators")
        columns: list[tuple[str, Kind]] = [("", "name"), ("in", "left"), ("estimate [95%]", "left")]
        console().print(table(columns, rows))
    ends = "Intervals are robust to items and annotators. 'Cannot tell' counts as not picking the labelled answer."
    print_legend([ends, *([f"{found.left_out}."] if found.left_out else [])])
