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

from pluralrm.audit import judge_probe
from pluralrm.audit.comparisons import Comparisons, comparisons
from pluralrm.audit.findings import (
    candidate_lengths,
    candidate_positions,
    paraphrases,
    post_counts,
    quality,
    shared_texts,
    user_overlap,
)
from pluralrm.audit.guesses import RELABELLINGS
from pluralrm.audit.leaks import ERROR_RATE, leak_probes
from pluralrm.audit.near import post_texts, repeated_answers, repeated_posts, repeated_prompts
from pluralrm.audit.organic import TOPIC as AGAINST
from pluralrm.audit.organic import against_organic, read_prompts
from pluralrm.audit.result import Audit, AuditFinding, Probe
from pluralrm.audit.rubrics import GENERAL, Appraisal, aspect_kinds, general_aspects, rubric_findings
from pluralrm.audit.words import audit_page, counts, found_from, limits, reading, verdict
from pluralrm.core import Benchmark, Run
from pluralrm.errors import BenchmarkError
from pluralrm.text import counted

if TYPE_CHECKING:
    from pluralrm.audit.embedder import Embedder

__all__ = [
    "Appraisal",
    "Audit",
    "AuditFinding",
    "Probe",
    "aspect_kinds",
    "audit",
    "audit_page",
    "counts",
    "found_from",
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
    run = None if judge is None else judge_probe.readable(table, benchmark, judge)
    appraised = appraisal or Appraisal()
    rated = None if appraised.ratings is None else judge_probe.readable(table, benchmark, appraised.ratings)
    probes = tuple(leak_probes(table, seed=seed, relabellings=relabellings, judge=run))
    chance = table.chance if len(table.items) else None
    asked = judge_probe.finding(table, run, next((probe for probe in probes if probe.name == judge_probe.NAME), None))
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
            asked,
            _compared(benchmark, seed, against),
        ),
        judge="" if judge is None else judge.model,
        sharing=table.sharing,
    )


def _counts(table: Comparisons, unit: str) -> str:
    """Return on how many independent units guesses are judged: `30 users`, `60 texts of 30 users`."""
    clusters, units = counted(len(set(table.clusters)), unit), int(table.unit.max()) + 1 if len(table.items) else 0
    if table.sharing == "crossed":
        return f"{units:,} texts that {clusters} share"
    return clusters if table.sharing == "apart" else f"{counted(units, 'group')} of {clusters} who share texts"


def _findings(benchmark: Benchmark, table: Comparisons, ratings: Run | None) -> Iterator[AuditFinding]:
    yield candidate_positions(table)
    yield candidate_lengths(table)
    yield quality(table, ratings)
    yield shared_texts(table, benchmark.card.cluster)
    yield repeated_prompts(benchmark)
    yield repeated_answers(benchmark)
    written = post_texts(benchmark)
    yield repeated_posts(written)
    yield post_counts(benchmark)
    yield user_overlap(benchmark, written)
    del written  # the words of all posts


def _rubrics(benchmark: Benchmark, appraised: Appraisal) -> Iterator[AuditFinding]:
    for finding in rubric_findings(benchmark):
        asked = finding.topic == GENERAL and finding.status == "needs a judge" and appraised.kinds is not None
        yield general_aspects(benchmark, appraised) if asked else finding


def _compared(benchmark: Benchmark, seed: int, against: Sequence[str] | None) -> AuditFinding:
    if against is None:
        return AuditFinding(AGAINST, "not available", "no organic prompts given (--against FILE)", {})
    return against_organic(benchmark, against, seed=seed)
