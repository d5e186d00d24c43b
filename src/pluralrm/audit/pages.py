"""An audit as one HTML page that runs nothing and loads nothing."""

from pluralrm._version import __version__
from pluralrm.audit.result import Audit, Probe
from pluralrm.audit.words import counts, found_from, reading
from pluralrm.pages.document import Cell, Column, Table, columns, interval_bar, render
from pluralrm.text import estimated, p_value


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
        probes=Table(
            "Probes",
            [
                *columns("guess by", "reads"),
                Column("right in % [95%]", "n"),
                Column("0 to 100, chance dotted"),
                *columns("p", "found from", look="n"),
                Column("verdict", "wide"),
            ],
            [_probe(audit, probe) for probe in audit.probes],
        ),
    ).html


def _probe(audit: Audit, probe: Probe) -> list[Cell | str]:
    drawn = probe.accuracy is not None and audit.chance is not None
    return [
        probe.title,
        probe.reads,
        estimated(probe.accuracy),
        interval_bar(probe.accuracy, audit.chance) if drawn else "",  # type: ignore[arg-type]
        p_value(probe.adjusted_p),
        found_from(probe),
        Cell(probe.verdict, probe.detail, "alarm" * probe.leak),
    ]
