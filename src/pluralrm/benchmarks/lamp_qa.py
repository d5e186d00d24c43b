"""LaMP-QA (arXiv 2506.00137): personal questions with the posts of the person who asks, and no answers.

One row, shortened; the hub has one folder for each domain (`data/Art_and_Entertainment/`) with three splits:

    {"id": "writers_1203", "question": "How do I keep a reader in a slow first chapter?", "category": "writers",
     "narrative": "I have finished a draft that my friends put down after ten pages ...",
     "profile": [{"id": "writers_866", "category": "writers", "text": "Is a prologue always a bad idea? ..."}, ...],
     "rubric_aspects": [{"aspect": "Slow is not the same as empty", "evidence": "... put down after ten pages",
                         "reason": "The draft is slow on purpose; a fight on page one does not help."}, ...]}

The category may be left out. Null stands for nothing where nothing is harmless: a category, the narrative, the
evidence and the reason of an aspect, and the two lists. An item has no candidates: it asks, for policies to answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pluralrm.benchmarks.rows import Place, describe, repeated
from pluralrm.benchmarks.schema import Id, Label, NullAsNoList, Part, Row, Text
from pluralrm.benchmarks.sources import (
    SPLITS,
    Source,
    check_counts,
    find_sources,
    hub_snapshot,
    local_card,
    local_path,
    read_checked,
)
from pluralrm.core import Aspect, Benchmark, Card, Item, Oracle, Post, User
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec

DOMAINS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")

COUNTS: Mapping[str, Mapping[str, int]] = {
    "train": dict(zip(DOMAINS, (9349, 7370, 7614), strict=True)),
    "validation": dict(zip(DOMAINS, (801, 892, 810), strict=True)),
    "test": dict(zip(DOMAINS, (767, 989, 1074), strict=True)),
}

_LONGEST_DOMAIN = 80

HUB = "alireza7/LaMP-QA"

CARD = Card(
    name="lamp-qa",
    summary="Personal questions with the asker's posts and rubric, without answers: prompts for policies",
    licence="see the data set's page; the posts come from Stack Exchange communities",
    source=f"hub: {HUB}",
    labelled="no labels; the rubric aspects were drawn from the asker's own narrative",
    citation="Alireza Salemi and Hamed Zamani. LaMP-QA: A Benchmark for Personalized Long-form Question Answering. "
    "arXiv:2506.00137, 2025.",
    metrics=(),
)


class PostRow(Part):
    """Something the user wrote earlier."""

    id: Id
    category: Label
    text: Text


class AspectRow(Part):
    """One thing the user expects of an answer."""

    aspect: Text
    evidence: Label
    reason: Label


class QuestionRow(Row):
    """A question, who asks it, and what is expected of an answer."""

    question: Text
    category: Label = ""
    narrative: Label
    profile: Annotated[list[PostRow], NullAsNoList]
    rubric_aspects: Annotated[list[AspectRow], NullAsNoList]


def question(row: QuestionRow, place: Place, domain: str) -> Item:
    """Return the Item of a question, still without candidates; one question per user, so the row's id is the user's."""
    if (twice := repeated([post.id for post in row.profile])) is not None:
        found = f"{describe(row.profile[twice].id)} again"
        raise place.refuse(f"profile[{twice}].id", found=found, wanted="an id of its own")
    return Item(
        id=row.id,
        prompt=row.question,
        candidates=(),
        preferred=None,
        cluster=row.id,
        domain=_domain(row, place, domain),
        user=User(row.id, tuple(Post(post.id, post.text, post.category) for post in row.profile)),
        tags={"category": row.category} if row.category else {},
        oracle=Oracle(tuple(Aspect(x.aspect, x.evidence, x.reason) for x in row.rubric_aspects), row.narrative),
    )


def _domain(row: QuestionRow, place: Place, told: str) -> str:
    """Return the domain that the file's name told, or else the row's category: a domain of the file's own."""
    if told:
        return told
    if not (row.category.strip() and row.category.isprintable() and len(row.category) <= _LONGEST_DOMAIN):
        wanted = (
            f"the name of a domain, any text of 1 to {_LONGEST_DOMAIN} printable characters such as 'food' "
            f"(unless the name of the file or its folder begins with one of {', '.join(DOMAINS)})"
        )
        raise place.refuse("category", found=describe(row.category), wanted=wanted)
    return row.category


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the questions of `lamp-qa:PATH` or `lamp-qa,split=test` (from the hub). There is nothing to place."""
    split = spec.options.get("split", "test")
    if split not in SPLITS:
        raise SpecError(f"benchmark 'lamp-qa' has no split {split!r}.{did_you_mean(split, SPLITS)}")
    if spec.target:
        return _from_path(spec, split, seed)
    folder = hub_snapshot(HUB, spec.options.get("revision", ""), [f"data/{domain}/*{split}*" for domain in DOMAINS])
    items = _items(find_sources(folder, DOMAINS, split=split))
    check_counts(CARD.name, Counter(item.domain for item in items), COUNTS[split])
    card = replace(CARD, name=f"{CARD.name}-{split}", revision=folder.name)
    return Benchmark(card, items, seed)


def _from_path(spec: Spec, split: str, seed: int) -> Benchmark:
    path = local_path(spec.target)
    if "revision" in spec.options or ("split" in spec.options and path.is_file()):
        raise SpecError(
            f"benchmark {str(spec)!r}: revision= is for the hub, split= for the hub or a folder; leave it out"
        )
    items = _items(find_sources(path, DOMAINS, split=split))
    domains = [item.domain for item in items]
    # No row says its split; the counts of the three differ.
    known = next((name for name, counts in COUNTS.items() if Counter(domains) == Counter(counts)), "")
    card = replace(CARD, name=f"{CARD.name}-{known}") if known else CARD
    return Benchmark(local_card(card, path, domains, COUNTS.get(known, {})), items, seed)


def _items(sources: Sequence[Source]) -> tuple[Item, ...]:
    return tuple(read_checked(sources, QuestionRow, question))
