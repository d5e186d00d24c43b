"""An audit in sentences and as an HTML page: what guessing reaches, what so few clusters could not have shown."""

from collections.abc import Sequence

from pluralrm._version import __version__
from pluralrm.audit.guesses import POWER
from pluralrm.audit.result import Audit, AuditVerdict, Probe
from pluralrm.pages.document import PageTable, TableCell, TableColumn, columns, interval_bar, render
from pluralrm.text import counted, estimated, p_value

GROSS = 0.15
"""A leak that must lift the accuracy by more than this to be seen is called gross."""


def verdict(probes: Sequence[Probe], chance: float | None, *, by_prompt: bool) -> str:
    """Return what guessing without the user reaches, and what that means for any accuracy on this benchmark."""
    if chance is None:
        return "No labels, so there is nothing to guess."
    if all(probe.verdict == "not available" for probe in probes):
        return f"Nothing was guessed: {probes[0].detail}."
    told = [f"Answers alone are at chance ({estimated(chance)}) by design."] if by_prompt else []
    if leak := _best(probes, "leak"):
        told.append(
            f"{leak.reads.capitalize()} alone give {estimated(leak.accuracy)} by {leak.title} (chance "
            f"{estimated(chance)}): only accuracy above that is evidence of using the user."
        )
    if shortcut := _best(probes, "shortcut"):
        told.append(
            f"Surface cues give {estimated(shortcut.accuracy)} by {shortcut.name} (chance {estimated(chance)}): only "
            "accuracy above that is evidence of understanding what a prompt asks for."
        )
    below = [probe for probe in probes if probe.verdict == "below chance"]
    if below:
        worst = min(below, key=lambda probe: probe.accuracy.value if probe.accuracy else 1.0)
        told.append(
            f"By {worst.title} a guess is right in {estimated(worst.accuracy)}, far below chance "
            f"({estimated(chance)}): {worst.detail}."
        )
    if not leak and not shortcut:
        asked = any(probe.verdict == "by design" and probe.p is not None for probe in probes)
        but = "But for the judge, which reads what a prompt asks for, no" if asked else "No"
        told.append(f"{but} probe is shown to beat chance ({estimated(chance)}).")
    return " ".join(told)


def limits(probes: Sequence[Probe], chance: float | None, clusters: str) -> str:
    """Return how large a leak had to be to be seen in `clusters` ("30 users"); nothing where nothing was guessed."""
    needed = [probe.detectable for probe in probes if probe.detectable is not None]
    if chance is None or not needed:
        return ""
    least, most = min(needed), max(needed)
    lucky = [probe.title for probe in probes if _against_odds(probe)]
    nevertheless = f"; nevertheless found: {', '.join(lucky)}" if lucky else ""
    if least >= 1:
        few = "are few" if lucky else "show no leak at all"
        return f"{clusters} {few}: even a perfect guess might go unseen{nevertheless}."
    gross = "show only gross leaks" if most > chance + GROSS else "show leaks of this size"
    found = f"{clusters} {gross}: a guess is found, with a chance of {POWER:.0%}, where it is right in"
    if most < 1:
        return f"{found} {estimated(least)} to {estimated(most)}% of items, depending on its kind."
    never = sum(needed_by >= 1 for needed_by in needed)
    kinds = f"{never} of the {len(needed)} kinds of guess, even a perfect one may go unseen"
    return f"{found} {estimated(least)}% of items or more; of {kinds}{nevertheless}."


def counts(audit: Audit) -> str:
    """Return how large the benchmark is: `30 items, 30 users`, and how many items have a label where not all do."""
    labelled = "" if audit.labelled == audit.items else f" ({audit.labelled:,} labelled)"
    return f"{counted(audit.items, 'item')}{labelled}, {counted(audit.clusters, audit.unit)}"


def found_from(probe: Probe) -> str:
    """Return the accuracy from which a guess would be found; `never` where even a perfect one might not be.

    A dash where that is so and the guess was found all the same.
    """
    if _against_odds(probe):
        return "–"
    return "never" if probe.detectable is not None and probe.detectable >= 1 else estimated(probe.detectable)


def reading(audit: Audit) -> str:
    """Return what the columns p and `found from` mean."""
    never = any(found_from(probe) == "never" for probe in audit.probes)
    return (
        f"p: by {audit.relabellings:,} relabellings of {_whole(audit)}, the cross-validation repeated for each, and "
        "adjusted over all probes (Holm): a sound benchmark is told that it leaks in at most "
        f"{audit.error_rate:.0%} of audits. "
        f"found from: the accuracy at which such a guess is found with a chance of {POWER:.0%}"
        + f"; never: in so few {audit.unit}s even a perfect guess might go unseen" * never
        + "; –: found, though even a perfect guess might have gone unseen" * any(map(_against_odds, audit.probes))
        + "."
    )


def _whole(audit: Audit) -> str:
    """Return what no relabelling takes apart."""
    unit = {"apart": "clusters", "together": f"{audit.unit}s that share texts", "crossed": "texts"}[audit.sharing]
    return f"whole {unit}" + f", {audit.unit}s by a two-way t-test" * (audit.sharing == "crossed")


def _against_odds(probe: Probe) -> bool:
    """Return whether a guess was found of a kind of which even a perfect one might have gone unseen."""
    return probe.verdict in {"leak", "shortcut"} and probe.detectable is not None and probe.detectable >= 1


def _best(probes: Sequence[Probe], kind: AuditVerdict) -> Probe | None:
    found = [probe for probe in probes if probe.verdict == kind]
    return max(found, key=lambda probe: probe.accuracy.value if probe.accuracy else 0.0, default=None)


def audit_page(audit: Audit) -> str:
    """Return the page: the verdict, every probe with its interval drawn, every finding."""
    return render(
        "pluralrm.audit",
        "audit.html.jinja",
        title=f"Audit of {audit.benchmark}",
        styles=["audit.css"],
        audit=audit,
        counts=counts(audit),
        reading=reading(audit),
        version=__version__,
        probes=PageTable(
            "Probes",
            [
                *columns("guess by", "reads"),
                TableColumn("right in % [95%]", "n"),
                TableColumn("0 to 100, chance dotted"),
                *columns("p", "found from", look="n"),
                TableColumn("verdict", "wide"),
            ],
            [_probe(audit, probe) for probe in audit.probes],
        ),
    ).html


def _probe(audit: Audit, probe: Probe) -> list[TableCell | str]:
    drawn = probe.accuracy is not None and audit.chance is not None
    return [
        probe.title,
        probe.reads,
        estimated(probe.accuracy),
        interval_bar(probe.accuracy, audit.chance) if drawn else "",  # type: ignore[arg-type]
        p_value(probe.adjusted_p),
        found_from(probe),
        TableCell(probe.verdict, probe.detail, "alarm" * probe.leak),
    ]
