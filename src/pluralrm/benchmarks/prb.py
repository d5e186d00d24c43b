"""Personalized RewardBench (arXiv 2604.07343): which of two answers did this user want?

One row, shortened; the hub has one Parquet file for each domain (`Art_and_Entertainment/test-00000-of-00001.parquet`):

    {"id": "writers_1203", "question": "How do I keep a reader in a slow first chapter?", "category": "writers",
     "narrative": "I have finished a draft that my friends put down after ten pages ...",
     "profile": [{"id": "writers_866", "category": "writers", "text": "Is a prologue always a bad idea? ..."}, ...],
     "rubric_aspects": [{"aspect": "Slow is not the same as empty", "evidence": "... put down after ten pages",
                         "reason": "The draft is slow on purpose; a fight on page one does not help."}, ...],
     "chosen": "Give the slowness something to wait for. ...",
     "rejected": "Open on your strongest conflict. ..."}

The questions are those of LaMP-QA's test split: a row is a LaMP-QA row with two answers. Narrative and rubric are
oracle fields. One LLM wrote both answers: for `chosen` it was told the aspects that the user expects, for `rejected`
to avoid them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.lamp_qa import COUNTS, DOMAINS, QuestionRow, question
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.schema import Text
from pluralrm.benchmarks.sources import (
    Source,
    check_counts,
    compared,
    find_sources,
    hub_snapshot,
    local_card,
    local_path,
    read_checked,
    remember,
    unclaimed,
)
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.errors import SpecError
from pluralrm.specs import Spec

HUB = "QiyaoMa/Personalized-RewardBench"

CARD = Card(
    name="prb",
    summary="Personalized RewardBench: two answers to one question, one of them follows what this user expects",
    licence="Apache-2.0",
    source=f"hub: {HUB}",
    labelled="by construction: one LLM wrote both answers, told to meet or to avoid the aspects that the user expects",
    citation="Qiyao Ma, Dechen Gao, Rui Cai, Boqi Zhao, Hanchu Zhou, Junshan Zhang and Zhe Zhao. Personalized "
    "RewardBench: Evaluating Reward Models with Human Aligned Personalization. arXiv:2604.07343, 2026.",
    notes="One question per user, so no labelled pairs to learn a user from. The rejected answer may lose on coverage "
    "of the question rather than on taste.",
)


class PrbRow(QuestionRow):
    """A question with the answer that its user wanted and one that misses it."""

    chosen: Text
    rejected: Text


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `prb` (the hub; `revision=` for a fixed one) or `prb:PATH`, candidates placed by seed."""
    revision, dirt = spec.options.get("revision", ""), dirt_of(spec)
    if spec.target:
        if revision:
            raise SpecError(f"benchmark {str(spec)!r}: revision= is for the hub, and this is a path; leave it out")
        path = local_path(spec.target)
        items = read_items(find_sources(path, DOMAINS), seed, dirt)
        card = local_card(CARD, path, [item.domain for item in items], COUNTS["test"])
        return Benchmark(dirt.onto(compared(card, CARD.name, items, unclaimed(CARD, path))), items, seed)
    folder = hub_snapshot(HUB, revision, [f"{domain}/*.parquet" for domain in DOMAINS])
    items = read_items(find_sources(folder, DOMAINS), seed, dirt)
    check_counts(CARD.name, Counter(item.domain for item in items), COUNTS["test"], dirt.skipped)
    card = replace(CARD, revision=folder.name)
    if not dirt.skipped:
        remember(card, items)
    return Benchmark(dirt.onto(card), items, seed)


def read_items(sources: Sequence[Source], seed: int, dirt: Dirt) -> tuple[Item, ...]:
    """Return the items of some files in the format, candidates placed by seed."""
    return tuple(
        read_checked(
            sources,
            PrbRow,
            lambda row, place, domain: _item(question(row, place, domain, dirt), row, place, seed),
            dirt,
        )
    )


def _item(asked: Item, row: PrbRow, place: Place, seed: int) -> Item:
    if row.chosen.strip() == row.rejected.strip():
        raise place.refuse("rejected", found="the same text as chosen", wanted="two different answers")
    answers = {"chosen": row.chosen, "rejected": row.rejected}
    order = placed(answers, row.id, seed)
    return replace(
        asked,
        candidates=tuple(answers[key] for key in order),
        preferred=order.index("chosen"),
        candidate_ids=tuple(order),
    )
