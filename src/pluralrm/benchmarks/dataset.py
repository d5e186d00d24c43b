"""What the loaders of published benchmarks share: hub or local copy, rows to items, labelled candidates.

A loader declares a `Dataset`, makes items of a row, and hands both to `load_dataset`:

    DATA = Dataset(CARD, (COUNTS,), {HUB: ("data/test-*",)}, tuple(COUNTS))

    def load(spec: Spec, *, seed: int) -> Benchmark:
        return load_dataset(spec, seed, DATA, lambda sources, dirt: read_items(sources, SomeRow, make, dirt))

What the published rule needs (`metrics/official`) stands in the tags of the items, so that a run's rows carry it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import NamedTuple

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.schema import PartT, checked
from pluralrm.benchmarks.sources import (
    Source,
    check_counts,
    compared,
    find_sources,
    hub_snapshot,
    local_card,
    read_each,
    refuse_again,
    remember,
    target_path,
    unclaimed,
)
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, User
from pluralrm.digests import prompt_id
from pluralrm.specs import Spec


class Dataset(NamedTuple):
    """A published data set: its card, its numbers of items, and where its files are."""

    card: Card
    counts: tuple[Mapping[str, int], ...] = ()
    """Items per domain; a local copy may have any of these, and the hub the first. Empty where none are published."""
    hubs: Mapping[str, tuple[str, ...]] = {}
    """The files to fetch by hub id; `revision=` is that of the first."""
    domains: tuple[str, ...] = ()
    """Names that a file or its folder may begin with, to tell the domain of its rows."""
    rows: int = 0
    """Rows in the files, where these are what is published and not the items per domain."""
    revision: str = ""
    """The hub's revision that has the files, where it is not the newest of the main branch."""


Reader = Callable[[Sequence[Source], Dirt], Iterable[Item]]


def load_dataset(spec: Spec, seed: int, data: Dataset, read: Reader) -> Benchmark:
    """Return the benchmark of a path, or of the hub where the spec names none."""
    dirt = dirt_of(spec)
    if spec.target:
        path = target_path(spec, "revision")
        items = tuple(read(find_sources(path, data.domains), dirt))
        domains = [item.domain for item in items] if not data.rows else ["rows"] * (dirt.rows - dirt.skipped)
        counts = next((counts for counts in _published(data) if Counter(domains) == Counter(counts)), {})
        card = local_card(data.card, path, domains, counts)
        return Benchmark(dirt.onto(compared(card, data.card.name, items, unclaimed(data.card, path))), items, seed)
    folders: list[Path] = []
    for hub, patterns in data.hubs.items():
        revision = "" if folders else spec.options.get("revision", data.revision)
        folders.append(hub_snapshot(hub, revision, patterns))
    items = tuple(read([source for folder in folders for source in find_sources(folder, data.domains)], dirt))
    for counts in _published(data)[:1]:
        actual = Counter(item.domain for item in items) if not data.rows else {"rows": dirt.rows - dirt.skipped}
        check_counts(data.card.name, actual, counts, dirt.skipped)
    card = replace(data.card, revision="+".join(folder.name for folder in folders))
    if not dirt.skipped:
        remember(card, items)
    return Benchmark(dirt.onto(card), items, seed)


def _published(data: Dataset) -> tuple[Mapping[str, int], ...]:
    return ({"rows": data.rows},) if data.rows else data.counts


def read_items(
    sources: Sequence[Source], model: type[PartT], make: Callable[[PartT, Place, str], Sequence[Item]], dirt: Dirt
) -> Iterator[Item]:
    """Yield the items that `make(row, place, domain of the file)` returns; no item's id may come twice."""
    seen: dict[str, Place] = {}

    def new(raw: Mapping[str, object], location: Place, domain: str) -> Sequence[Item]:
        items = make(checked(model, raw, location, dirt), location, domain)
        for item in items:
            refuse_again(item.id, seen, location)
        seen.update((item.id, location) for item in items)
        return items

    for items in read_each(sources, new, dirt):
        yield from items


_NO_TAGS: Mapping[str, str] = MappingProxyType({})


def comparison(
    name: str,
    prompt: str,
    chosen: Mapping[str, str],
    rejected: Mapping[str, str],
    *,
    seed: int,
    domain: str = "",
    tags: Mapping[str, str] = _NO_TAGS,
) -> Item:
    """Return an item without a user, candidates by their ids and placed by seed; its cluster is the prompt.

    The loader sets the cluster where items share more than the prompt.
    """
    answers = {key: (text, float(key in chosen)) for key, text in {**chosen, **rejected}.items()}
    return judgment(name, prompt, answers, seed=seed, domain=domain, tags=tags)


def judgment(
    name: str,
    prompt: str,
    answers: Mapping[str, tuple[str, float]],
    *,
    seed: int,
    domain: str = "",
    user: User | None = None,
    tags: Mapping[str, str] = _NO_TAGS,
) -> Item:
    """Return the grades of some answers by their ids, placed by seed; the cluster is the person, or the prompt.

    Equal texts are one object in memory, and tags without a text are left out.
    """
    order = placed(answers, name, seed)
    return Item(
        id=name,
        prompt=intern(prompt),
        candidates=tuple(intern(answers[key][0]) for key in order),
        preferred=None,
        grades=tuple(float(answers[key][1]) for key in order),
        cluster=user.id if user else prompt_id(prompt),
        domain=intern(domain),
        candidate_ids=tuple(intern(key) for key in order),
        user=user,
        tags={key: intern(value) for key, value in tags.items() if value},
    )


def differ(chosen: Iterable[str], rejected: Iterable[str], location: Place, field: str = "rejected") -> None:
    """Raise a RowError where a right and a wrong answer have one text, so that no model could be right."""
    texts = {text.strip() for text in chosen}
    if any(text.strip() in texts for text in rejected):
        raise location.refuse(field, found="the text of a chosen answer", wanted="different answers")
