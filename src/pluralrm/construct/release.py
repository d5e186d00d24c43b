"""A release appears at once and whole, or not at all: withheld where the audit finds that its labels leak."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.audit import Audit, audit_page
from pluralrm.construct.card import DATA, About, Edition, WrittenEdition, card_of, readme, write_edition
from pluralrm.construct.pipeline.engine import Built
from pluralrm.construct.pipeline.folder import unusable
from pluralrm.construct.pipeline.funnel import Funnel
from pluralrm.errors import RunError

_RELEASE, _FRESH, _OLD, _WITHHELD = "release", ".release-new", ".release-old", "withheld"


@dataclass(frozen=True, slots=True)
class Released:
    """What a release came to: its folder, or that of the audits alone where it is withheld for `leaks`.

    `loads` are the specs that load its benchmarks.
    """

    path: Path
    loads: tuple[str, ...]
    withheld: bool
    leaks: tuple[str, ...]
    audits: Mapping[str, Audit]


def require_kept(built: Built) -> None:
    """Raise RunError where a record still waits, or none came through: then there is nothing to release or to tell."""
    if not built.complete:
        raise RunError(
            f"{built.folder}: {built.funnel.waiting:,} records wait ({built.why}), so nothing is released; "
            "the same command resumes"
        )
    if not built.kept:
        raise RunError(
            f"{built.folder}: no record came through, so there is nothing to release; "
            f"'pluralrm construct show {built.folder}' says why"
        )


def release(
    built: Built, editions: Sequence[Edition], about: About, *, accept_leaks: bool = False, seed: int = 0
) -> Released:
    """Write DIR/release. RunError where a record still waits, or none came through.

    Where a probe of the audit finds a leak, the release is withheld, unless `accept_leaks`; the card then says so.
    """
    require_kept(built)
    try:
        return _released(built, editions, about, accept_leaks=accept_leaks, seed=seed)
    except OSError as exc:
        raise unusable(built.folder, exc) from exc


def _released(built: Built, editions: Sequence[Edition], about: About, *, accept_leaks: bool, seed: int) -> Released:
    fresh = built.folder / _FRESH
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    written = [write_edition(edition, fresh, seed=seed) for edition in editions if edition.rows]
    leaks = tuple(leak for one in written for leak in one.leaks)
    _write_audits(fresh, written)
    withheld = bool(leaks) and not accept_leaks
    if withheld:
        for path in fresh.iterdir():
            if path.name != "audit":
                shutil.rmtree(path)
    else:
        _write_cards(fresh, built, written, about)
    path = _replaced(fresh, built.folder / (_WITHHELD if withheld else _RELEASE))
    if not withheld:
        shutil.rmtree(built.folder / _WITHHELD, ignore_errors=True)
    loads = tuple(f"{one.edition.kind}:{path / DATA / one.edition.name}" for one in written if not withheld)
    return Released(path, loads, withheld, leaks, {one.edition.name: one.audit for one in written})


def _write_audits(folder: Path, written: Sequence[WrittenEdition]) -> None:
    (folder / "audit").mkdir()
    for one in written:
        _write_json(folder / "audit" / f"{one.edition.name}.json", one.audit.to_json())
        page = audit_page(one.audit)
        (folder / "audit" / f"{one.edition.name}.html").write_text(page, encoding="utf-8")


def _write_cards(folder: Path, built: Built, written: Sequence[WrittenEdition], about: About) -> None:
    card = card_of(built, written, about)
    _write_json(folder / "card.json", card)
    (folder / "README.md").write_text(readme(built, written, about, card), encoding="utf-8")
    (folder / "funnel.svg").write_text(funnel_figure(built.funnel), encoding="utf-8")


def funnel_figure(funnel: Funnel) -> str:
    """Return the funnel as SVG."""
    from pluralrm.pages.plots import FunnelStep, funnel_plot  # loads matplotlib

    steps = [FunnelStep(one.stage, one.kept, sum(one.rejected.values()), one.waiting) for one in funnel.stages]
    words = "; ".join(f"{one.name}: {one.kept} kept, {one.rejected} rejected, {one.waiting} waiting" for one in steps)
    title = f"What became of {funnel.records:,} records"
    return funnel_plot("funnel", steps, title=title, words=words, x_label="records").svg()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _replaced(fresh: Path, place: Path) -> Path:
    """Put a folder in the place of another; a kill in between leaves the old one, or none, never half of one."""
    old = place.with_name(_OLD)
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    fresh.rename(place)
    shutil.rmtree(old, ignore_errors=True)
    return place
