"""LaMP-QA (arXiv 2506.00137): personal questions with the posts of the person who asks, and no answers.

One row, shortened; the hub has one folder for each domain (`data/Art_and_Entertainment/`) with three splits:

    {"id": "writers_1203", "question": "How do I keep a reader in a slow first chapter?", "category": "writers",
     "narrative": "I have finished a draft that my friends put down after ten pages ...",
     "profile": [{"id": "writers_866", "category": "writers", "text": "Is a prologue always a bad idea? ..."}, ...],
     "rubric_aspects": [{"aspect": "Slow is not the same as empty", "evidence": "... put down after ten pages",
                         "reason": "The draft is slow on purpose; a fight on page one does not help."}, ...]}

Category and narrative may lack, of the row and of posts; that is counted. Null stands for nothing where nothing is
harmless: the text of a post (which is then dropped, counted), the evidence and the reason of an aspect, and the two
lists. An item has no candidates: it asks, for policies to answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pluralrm.benchmarks.dirt import Dirt, clean_posts, dirt_of
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import EXPECTED, BenchmarkRow, Id, Label, NullAsNoList, Part, Text
from pluralrm.benchmarks.sources import (
    SPLITS,
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
from pluralrm.core import Aspect, Benchmark, Item, Oracle, Post, User
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
    """Something the user wrote earlier; blank ones are dropped by `clean_posts`."""

    id: Id
    category: Annotated[Label, EXPECTED] = ""
    text: Label


class AspectRow(Part):
    """One thing the user expects of an answer."""

    aspect: Text
    evidence: Label
    reason: Label


class QuestionRow(BenchmarkRow):
    """A question, who asks it, and what is expected of an answer."""

    question: Text
    category: Annotated[Label, EXPECTED] = ""
    narrative: Annotated[Label, EXPECTED] = ""
    profile: Annotated[list[PostRow], NullAsNoList]
    rubric_aspects: Annotated[list[AspectRow], NullAsNoList]


def question(row: QuestionRow, location: Place, domain: str, dirt: Dirt) -> Item:
    """Return the Item of a question, still without candidates; one question per user, so the row's id is the user's."""
    return Item(
        id=row.id,
        prompt=row.question,
        candidates=(),
        preferred=None,
        cluster=row.id,
        domain=_domain(row, location, domain),
        user=User(row.id, clean_posts((Post(post.id, post.text, post.category) for post in row.profile), dirt)),
        tags={"category": row.category} if row.category else {},
        oracle=Oracle(tuple(Aspect(x.aspect, x.evidence, x.reason) for x in row.rubric_aspects), row.narrative),
    )


def _domain(row: QuestionRow, location: Place, name: str) -> str:
    """Return the domain that the file's name told, or else the row's category: a domain of the file's own."""
    if name:
        return name
    if not (row.category.strip() and row.category.isprintable() and len(row.category) <= _LONGEST_DOMAIN):
        expected = (
            f"the name of a domain, any text of 1 to {_LONGEST_DOMAIN} printable characters such as 'food' "
            f"(unless the name of the file or its folder begins with one of {', '.join(DOMAINS)})"
        )
        raise location.refuse("category", found=describe(row.category), wanted=expected)
    return row.category


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the questions of `lamp-qa:PATH` or `lamp-qa,split=test` (from the hub). There is nothing to place."""
    split = spec.options.get("split", "test")
    if split not in SPLITS:
        raise SpecError(f"benchmark 'lamp-qa' has no split {split!r}.{did_you_mean(split, SPLITS)}")
    if spec.target:
        return _from_path(spec, split, seed)
    dirt = dirt_of(spec)
    folder = hub_snapshot(HUB, spec.options.get("revision", ""), [f"data/{domain}/*{split}*" for domain in DOMAINS])
    items = _items(find_sources(folder, DOMAINS, split=split), dirt)
    check_counts(CARD.name, Counter(item.domain for item in items), COUNTS[split], dirt.skipped)
    card = replace(CARD, name=f"{CARD.name}-{split}", revision=folder.name)
    if not dirt.skipped:
        remember(card, items)
    return Benchmark(dirt.onto(card), items, seed)


def _from_path(spec: Spec, split: str, seed: int) -> Benchmark:
    path = local_path(spec.target)
    if "revision" in spec.options or ("split" in spec.options and path.is_file()):
        raise SpecError(
            f"benchmark {str(spec)!r}: revision= is for the hub, split= for the hub or a folder; leave it out"
        )
    dirt = dirt_of(spec)
    items = _items(find_sources(path, DOMAINS, split=split), dirt)
    domains = [item.domain for item in items]
    # No row says its split; the counts of the three differ.
    part = next((name for name, counts in COUNTS.items() if Counter(domains) == Counter(counts)), "")
    card = replace(CARD, name=f"{CARD.name}-{part}") if part else CARD
    local = local_card(card, path, domains, COUNTS.get(part, {}))
    return Benchmark(dirt.onto(compared(local, card.name, items, unclaimed(CARD, path))), items, seed)


def _items(sources: Sequence[Source], dirt: Dirt) -> tuple[Item, ...]:
    return tuple(
        read_checked(sources, QuestionRow, lambda row, location, domain: question(row, location, domain, dirt), dirt)
    )
