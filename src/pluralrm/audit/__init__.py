"""Is a benchmark itself sound? Can its labels be guessed without the user, and what else should a reader know?

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.audit import audit
>>> found = audit(load_benchmark("pocket-prb"))
>>> found.leaks
[]

docs/audit.md says what each probe does and what its numbers mean.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pluralrm._version import __version__
from pluralrm.audit.comparisons import Comparisons, comparisons
from pluralrm.audit.findings import (
    candidate_lengths,
    candidate_positions,
    item_counts,
    paraphrases,
    post_counts,
    quality,
    shared_texts,
    user_overlap,
)
from pluralrm.audit.leaks import ERROR_RATE, IN_CONTEXT, JUDGE, OTHERS, judge_finding, leak_probes, scored_by_judge
from pluralrm.audit.near import equal_items, post_texts, repeated_answers, repeated_posts, repeated_prompts
from pluralrm.audit.organic import TOPIC as AGAINST
from pluralrm.audit.organic import against_organic, read_prompts
from pluralrm.audit.probes import POWER, RELABELLINGS
from pluralrm.audit.result import Audit, AuditFinding, AuditVerdict, Probe
from pluralrm.audit.rubrics import GENERAL, Appraisal, aspect_kinds, general_aspects, rubric_findings
from pluralrm.core import Benchmark, Run
from pluralrm.errors import BenchmarkError
from pluralrm.pages import PageTable, TableCell, TableColumn, chip, columns, interval_bar, render
from pluralrm.text import counted, estimated, p_value

if TYPE_CHECKING:
    from pluralrm.audit.embedder import Embedder


GROSS = 0.15
"""A leak that must lift the accuracy by more than this to be seen is called gross."""


def verdict(probes: Sequence[Probe], chance: float | None, *, by_prompt: bool) -> str:
    """Return what guessing without the user reaches, and what that means for any accuracy on this benchmark."""
    if chance is None:
        return "No labels, so there is nothing to guess."
    if all(probe.verdict == "not available" for probe in probes):
        return f"Nothing was guessed: {probes[0].detail}."
    sentences = [f"Answers alone are at chance ({estimated(chance)}) by design."] if by_prompt else []
    if leak := _best(probes, "leak"):
        copies = leak.name == IN_CONTEXT
        sentences.append(
            f"{'Copying gives' if copies else f'{leak.reads.capitalize()} alone give'} {estimated(leak.accuracy)} by "
            f"{leak.title} (chance {estimated(chance)}): only accuracy above that is evidence of "
            f"{'understanding' if copies else 'using'} the user."
        )
    if shortcut := _best(probes, "shortcut"):
        sentences.append(
            f"Surface cues give {estimated(shortcut.accuracy)} by {shortcut.name} (chance {estimated(chance)}): only "
            "accuracy above that is evidence of understanding what a prompt asks for."
        )
    if common := _best(probes, "not personal"):
        sentences.append(f"Other people predict the label as well as the person does: {common.detail}.")
    below = [probe for probe in probes if probe.verdict == "below chance"]
    if below:
        worst = min(below, key=lambda probe: probe.accuracy.value if probe.accuracy else 1.0)
        sentences.append(
            f"By {worst.title} a guess is right in {estimated(worst.accuracy)}, far below chance "
            f"({estimated(chance)}): {worst.detail}."
        )
    if not any(probe.flaw for probe in probes):
        but = "No"
        if any(probe.verdict == "by design" and probe.p is not None for probe in probes):
            but = "But for the judge, which reads what a prompt asks for, no"
        elif any(probe.name == OTHERS and probe.p is not None for probe in probes):
            but = "But for the votes of others, no"
        sentences.append(f"{but} probe is shown to beat chance ({estimated(chance)}).")
    return " ".join(sentences)


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
    begins = f"{clusters} {gross}: a guess is found, with a chance of {POWER:.0%}, where it is right in"
    if most < 1:
        return f"{begins} {estimated(least)} to {estimated(most)}% of items, depending on its kind."
    never = sum(needed_by >= 1 for needed_by in needed)
    kinds = f"{never} of the {len(needed)} kinds of guess, even a perfect one may go unseen"
    return f"{begins} {estimated(least)}% of items or more; of {kinds}{nevertheless}."


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
        + "; – beside other people: too few to say whether the own is better" * any(map(_vague, audit.probes))
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


def _vague(probe: Probe) -> bool:
    return probe.compares and probe.detectable is None


def _best(probes: Sequence[Probe], kind: AuditVerdict) -> Probe | None:
    matches = [probe for probe in probes if probe.verdict == kind]
    return max(matches, key=lambda probe: probe.accuracy.value if probe.accuracy else 0.0, default=None)


def audit_page(audit: Audit) -> str:
    """Return the page: the verdict, every probe with its interval drawn, every finding."""
    return render(
        "pluralrm.audit",
        "audit.html.jinja",
        title=f"Audit of {audit.benchmark}",
        audit=audit,
        counts=counts(audit),
        reading=reading(audit),
        version=__version__,
        probes=probe_table(audit),
        findings=finding_table(audit),
    ).html


def probe_table(audit: Audit) -> PageTable:
    """Return by what the preferred answer was guessed without the user, and how often rightly."""
    return PageTable(
        "Probes",
        [
            *columns("guess by", "reads"),
            TableColumn("right in % [95%]", "n"),
            TableColumn("0 to 100, chance dotted"),
            *columns("p", "found from", look="n"),
            TableColumn("verdict", "wide"),
        ],
        [_probe(audit, probe) for probe in audit.probes],
        look="sorts",
    )


def _probe(audit: Audit, probe: Probe) -> list[TableCell | str]:
    drawn = probe.accuracy is not None and audit.chance is not None
    return [
        probe.title,
        probe.reads,
        estimated(probe.accuracy),
        interval_bar(probe.accuracy, audit.chance) if drawn else "",  # type: ignore[arg-type]
        p_value(probe.adjusted_p),
        found_from(probe),
        chip(probe.verdict, "bad" * (probe.leak or probe.verdict == "not personal"), probe.detail),
    ]


def finding_table(audit: Audit) -> PageTable:
    """Return what else is known of the benchmark: warnings first, what could not be measured last."""
    looks = {"warn": "bad", "note": "partial", "ok": "good"}
    order = {status: rank for rank, status in enumerate(looks)}
    ranked = sorted(audit.findings, key=lambda finding: order.get(finding.status, len(order)))
    return PageTable(
        "Other findings",
        [*columns("topic", "status"), TableColumn("finding", "wide")],
        [(finding.topic, chip(finding.status, looks.get(finding.status, "")), finding.found) for finding in ranked],
        look="sorts",
    )


__all__ = [
    "Appraisal",
    "Audit",
    "AuditFinding",
    "Probe",
    "aspect_kinds",
    "audit",
    "audit_page",
    "counts",
    "finding_table",
    "found_from",
    "probe_table",
    "read_prompts",
    "reading",
]


def audit(
    benchmark: Benchmark,
    *,
    seed: int = 0,
    against: Sequence[str] | None = None,
    judge: Run | None = None,
    appraisal: Appraisal | None = None,
    embedder: "Embedder | None" = None,
    relabellings: int = RELABELLINGS,
) -> Audit:
    """Return what is known of a benchmark's soundness.

    `against` are organic prompts to compare its prompts with, `judge` is a model's run on it under the condition
    `none`, `appraisal` what a judge says of answers and rubrics in general, `embedder` measures how near the rewrites
    of a prompt (RMGAP) stay to it. The same for the same items and seed, whatever their order. Without labels nothing
    is guessed, and the rest is still said; a benchmark without items is an error.
    """
    if not benchmark.items:
        raise BenchmarkError(f"benchmark {benchmark.card.name!r} has no items to audit; name one that has")
    table = comparisons(benchmark.items)
    run = None if judge is None else scored_by_judge(table, benchmark, judge)
    appraised = appraisal or Appraisal()
    rated = None if appraised.ratings is None else scored_by_judge(table, benchmark, appraised.ratings)
    probes = tuple(leak_probes(table, seed=seed, relabellings=relabellings, judge=run))
    chance = table.chance if len(table.items) else None
    finding = judge_finding(table, run, next((probe for probe in probes if probe.name == JUDGE), None))
    measured = paraphrases(benchmark, embedder)
    return Audit(
        benchmark=benchmark.card.name,
        content_hash=benchmark.content_hash,
        seed=seed,
        items=len(benchmark.items),
        labelled=len(table.items),
        clusters=len({item.cluster for item in benchmark.items}),
        unit=benchmark.card.cluster,
        chance=chance,
        error_rate=ERROR_RATE,
        relabellings=relabellings,
        verdict=verdict(probes, chance, by_prompt=table.balanced),
        limits=limits(probes, chance, _counts(table, benchmark.card.cluster)),
        probes=probes,
        findings=(
            *_findings(benchmark, table, rated if isinstance(rated, Run) else None),
            *_rubrics(benchmark, appraised),
            measured,
            finding,
            _compared(benchmark, seed, against),
        ),
        judge="" if judge is None else judge.model,
        sharing=table.sharing,
    )


def _counts(table: Comparisons, unit: str) -> str:
    """Return on how many independent units guesses are judged: `30 users`, `30 users who share some of 60 texts`."""
    clusters, units = counted(len(set(table.clusters)), unit), int(table.unit.max()) + 1 if len(table.items) else 0
    if table.sharing == "crossed":
        return f"{clusters} who share some of {units:,} texts"
    return clusters if table.sharing == "apart" else f"{counted(units, 'group')} of {clusters} who share texts"


def _findings(benchmark: Benchmark, table: Comparisons, ratings: Run | None) -> Iterator[AuditFinding]:
    yield candidate_positions(table)
    yield candidate_lengths(table)
    yield quality(table, ratings)
    yield shared_texts(table, benchmark.card.cluster)
    yield equal_items(benchmark)
    yield repeated_prompts(benchmark)
    yield repeated_answers(benchmark)
    written = post_texts(benchmark)
    yield repeated_posts(written)
    yield item_counts(benchmark)
    yield post_counts(benchmark)
    yield user_overlap(benchmark, written)
    del written  # the words of all posts


def _rubrics(benchmark: Benchmark, appraised: Appraisal) -> Iterator[AuditFinding]:
    for finding in rubric_findings(benchmark):
        is_general = finding.topic == GENERAL and finding.status == "needs a judge" and appraised.kinds is not None
        yield general_aspects(benchmark, appraised) if is_general else finding


def _compared(benchmark: Benchmark, seed: int, against: Sequence[str] | None) -> AuditFinding:
    if against is None:
        return AuditFinding(AGAINST, "not available", "no organic prompts given (--against FILE)", {})
    return against_organic(benchmark, against, seed=seed)
