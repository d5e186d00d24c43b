"""Where rows come from: files and folders of the user, or a data set on the Hugging Face hub.

A copy with the published number of rows may have been edited by hand. Where a revision of the data set was loaded on
this machine, the hash of its rows decides whether a copy may carry the published name; it does not depend on the seed.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.rows import SUFFIXES, Place, describe, exists, read_rows, shortened, visible
from pluralrm.benchmarks.schema import RowT, checked
from pluralrm.card import Card
from pluralrm.core import Item
from pluralrm.digests import digest_list
from pluralrm.errors import BenchmarkError, MissingExtraError, RowError, SpecError
from pluralrm.files import replace_file
from pluralrm.folders import default_cache, hub_failures
from pluralrm.labels import is_one_hot
from pluralrm.specs import Spec

FILE = "published.json"


def rows_hash(items: Iterable[Item]) -> str:
    """Return the hash of what the rows say, wherever the candidates are placed."""
    return digest_list(map(_said, items))


def _said(item: Item) -> list[object]:
    user, oracle = item.user, item.oracle
    answers = sorted(zip(item.candidate_ids, item.candidates, strict=False))
    label: object = None if item.preferred is None else item.candidates[item.preferred]
    if item.grades and not is_one_hot(item.grades):
        label = sorted(zip(item.candidates, item.grades, strict=True))
    posts = [[post.id, post.text, post.category] for post in user.posts] if user else []
    rubric = [[each.aspect, each.evidence, each.reason] for each in oracle.aspects] if oracle else []
    fields = [item.id, item.prompt, item.domain, item.cluster, dict(item.tags), oracle.narrative if oracle else ""]
    return [*fields, answers, label, posts, rubric]


def remember(card: Card, items: Iterable[Item]) -> None:
    """Keep the hash of a hub data set under its name and revision; a cache that cannot be written keeps nothing."""
    hashes = _known()
    own_hash = rows_hash(items)
    if hashes.get(card.name, {}).get(card.revision) == own_hash:
        return
    with contextlib.suppress(OSError):
        default_cache().mkdir(parents=True, exist_ok=True)
        content = {**hashes, card.name: {**hashes.get(card.name, {}), card.revision: own_hash}}
        replace_file(default_cache() / FILE, json.dumps(content, indent=1, sort_keys=True))


def compared(card: Card, published: str, items: Iterable[Item], otherwise: Card) -> Card:
    """Return the card of a local copy: with the revision that it equals, or `otherwise` where it differs from all.

    The card is as it was where it claims no published name, or where no revision was loaded on this machine.
    """
    hashes = _known().get(published, {}) if card.name == published else {}
    if not hashes:
        return card
    own_hash = rows_hash(items)
    if (revision := next((name for name, rows in hashes.items() if rows == own_hash), None)) is not None:
        note = f"A local copy with the content of revision {revision}."
        return replace(card, revision=revision, notes=card.notes.replace(COUNTED, note))
    names = ", ".join(sorted(hashes))
    return replace(otherwise, notes=f"The published number of rows, and other content than revision {names}.")


COUNTED = "A local copy with the published number of rows in each domain; not compared with the source."
"""What the card of a copy says whose rows were counted and no more."""


def _known() -> Mapping[str, Mapping[str, str]]:
    """Return the hashes by name and revision; a file that cannot be read holds none."""
    path: Path = default_cache() / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) and all(isinstance(each, dict) for each in data.values()) else {}


SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Source:
    """One file of rows, and the domain that its name or its folder tells; empty where each row must tell it."""

    file: Traversable
    domain: str = ""


# ---------------------------------------------------------------- files and folders


def local_path(text: str) -> Path:
    """Return the path with `~` filled in, or raise a BenchmarkError where nothing is there."""
    try:
        path = Path(text).expanduser()
    except RuntimeError:  # ~name of a user who does not exist
        path = Path(text)
    if not exists(path):
        raise BenchmarkError(f"no such file or folder: {visible(text)}; for names see 'pluralrm list benchmarks'")
    return path


def target_path(spec: Spec, *of_hub: str) -> Path:
    """Return the path that a spec names, which must have none of the keys that are for the hub."""
    if keys := sorted(spec.options.keys() & set(of_hub)):
        raise SpecError(f"benchmark {str(spec)!r}: {keys[0]}= is for the hub, and this is a path; leave it out")
    return local_path(spec.target)


def find_sources(path: Path, domains: Sequence[str] = (), *, split: str = "") -> list[Source]:
    """Return the files to read, by domain and then by name; `split` leaves out the files of other splits.

    A file is of a domain when its own name, or that of a folder around it, starts with the domain's name. In a folder,
    .json and .csv files without one are left alone beside other files: they are likelier about the rows than rows.
    """
    if path.is_file():
        return [Source(_readable(path), _domain_of(path.absolute().parts[-2:], domains))]
    files = [
        Source(file, _domain_of((path.absolute().name, *file.relative_to(path).parts), domains))
        for file in _files_in(path)
        if not split or _split_of(file) in {split, ""}
    ]
    tables = [source for source in files if source.file.name.endswith(".csv")]
    sources = [source for source in files if source.domain or not source.file.name.endswith(_BESIDE)] or tables
    if not sources:
        of_split = f" of the split {split!r}" if split else ""
        starts = " or ".join(domains) or "a domain of the format; name the format, as in rm-bench:FOLDER"
        counts = f"; a .json file counts where its name starts with {starts}" if files else ""
        raise BenchmarkError(
            f"no {_SUFFIX_LIST} files{of_split} in the folder {visible(str(path))}, wanted at least one{counts}"
        )
    order = [*domains, ""]
    return sorted(sources, key=lambda source: (order.index(source.domain), str(source.file)))


_BESIDE = (".json", ".csv")
_SUFFIX_LIST = ", ".join(SUFFIXES)


def _readable(path: Path) -> Path:
    if not path.name.endswith(SUFFIXES):
        raise BenchmarkError(
            f"{visible(str(path))}: found a file of type {visible(path.suffix)!r}, wanted {_SUFFIX_LIST}"
        )
    return path


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the data files of a folder and of three levels below it; hidden ones are somebody's bookkeeping."""
    for pattern in ("*", "*/*", "*/*/*", "*/*/*/*"):
        for file in folder.glob(pattern):
            hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
            if file.name.endswith(SUFFIXES) and not hidden and file.is_file():
                yield file


def _domain_of(names: Sequence[str], domains: Sequence[str]) -> str:
    """Return the domain that the innermost of some names starts with, or an empty text."""
    for name in reversed(names):
        for domain in domains:
            if re.match(rf"{re.escape(domain)}(?![A-Za-z0-9])", name):
                return domain
    return ""


def _split_of(file: Path) -> str:
    """Return the split that a file's name starts or ends with, or an empty text."""
    words = re.split(r"[-_.]", file.stem)
    return next((split for split in SPLITS if split in (words[0], words[-1])), "")


# ---------------------------------------------------------------- the hub


def hub_snapshot(repository: str, revision: str, patterns: Sequence[str]) -> Path:
    """Return a folder with a hub data set's files; its name is the commit. Cached files are not fetched again.

    Without a network the newest cached copy is taken, if it is whole.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
    except ImportError as exc:
        raise MissingExtraError("The Hugging Face hub", "hub") from exc
    try:
        folder = snapshot_download(
            repository, repo_type="dataset", revision=revision or None, allow_patterns=list(patterns)
        )
    except RevisionNotFoundError as exc:
        raise BenchmarkError(
            f"hub data set {repository}: no revision {revision!r}; leave it out for the newest"
        ) from exc
    except RepositoryNotFoundError as exc:
        raise BenchmarkError(
            f"hub data set {repository}: not there, or not for this account to read; "
            "log in with 'hf auth login', or name a local copy by its path"
        ) from exc
    except hub_failures() as exc:
        reason = shortened(str(exc.__cause__ or exc).strip().split("\n")[0], 200)
        hint = "Try again later, or name a local copy by its path"
        raise BenchmarkError(f"hub data set {repository}: cannot be fetched ({reason}). {hint}.") from exc
    return Path(folder)


# ---------------------------------------------------------------- rows and cards


MadeT = TypeVar("MadeT")


def read_checked(
    sources: Sequence[Source], model: type[RowT], make: Callable[[RowT, Place, str], MadeT], dirt: Dirt | None = None
) -> Iterator[MadeT]:
    """Yield what `make(row, place, domain of the file)` returns for every row; no id may come twice, no file be empty.

    Rows that are refused, by the model or by `make`, are told together at the end. In files of other people (`dirt`)
    unknown columns are ignored and expected fields may lack; without it both are refused.
    """
    seen: dict[str, Place] = {}

    def new(raw: Mapping[str, object], location: Place, domain: str) -> MadeT:
        row = checked(model, raw, location, dirt)
        refuse_again(row.id, seen, location)
        result = make(row, location, domain)
        seen[row.id] = location
        return result

    yield from read_each(sources, new, dirt or Dirt())


def refuse_again(
    name: str, seen: Mapping[str, Place], location: Place, *, field: str = "id", each: str = "an id of its own"
) -> None:
    """Raise a RowError where a name stood in a row before."""
    if name in seen:
        raise location.refuse(field, found=f"{describe(name)} again (first at {seen[name]})", wanted=each)


def read_each(
    sources: Sequence[Source], make: Callable[[Mapping[str, object], Place, str], MadeT], dirt: Dirt
) -> Iterator[MadeT]:
    """Yield what `make(raw row, place, domain of the file)` returns for every row, all of one file after another.

    A row for which it raises a RowError goes to `dirt`, as does a line that is no row; a file without any row, or
    without any good one, is a BenchmarkError.
    """
    good = False
    for source in sources:
        before = dirt.rows
        for location, raw in read_rows(source.file, dirt.refuse):
            try:
                result = make(raw, location, source.domain)
            except RowError as exc:
                dirt.refuse(exc)
            else:
                dirt.accept()
                good = True
                yield result
        if dirt.rows == before:
            dirt.tell()
            raise BenchmarkError(f"{visible(str(source.file))}: found no rows, wanted at least one")
    dirt.tell()
    if not good:
        raise BenchmarkError(f"{visible(str(sources[0].file))}: found no good row among {dirt.rows:,}: {dirt.report()}")


def check_counts(name: str, counts: Mapping[str, int], published: Mapping[str, int], skipped: int = 0) -> None:
    """Raise a BenchmarkError unless every domain has as many rows as were published, less those that were skipped."""
    lacking = {domain: count - counts.get(domain, 0) for domain, count in published.items()}
    more = counts.keys() - published.keys() or min(lacking.values()) < 0
    if more or sum(lacking.values()) != skipped:
        wrong = [f"{domain} {counts.get(domain, 0)} (wanted {count})" for domain, count in published.items()]
        raise BenchmarkError(
            f"{name}: unexpected row counts, the data set is not the published one: {', '.join(wrong)}. "
            "Name the published revision=, or load your own copy by its path"
        )


LOCAL = "local: "
"""What the source of a local file's card begins with; the file's name follows."""


def local_card(card: Card, path: Path, domains: Sequence[str], published: Mapping[str, int]) -> Card:
    """Return the card for a local file: the published one where the counts agree, else one that claims nothing.

    `domains` is the domain of every row. A part of a benchmark, or other people's rows, must not carry its name.
    """
    source = f"{LOCAL}{visible(path.absolute().name)}"
    if Counter(domains) == Counter(published):
        return replace(card, source=source, notes=f"{COUNTED} {card.notes}".strip())
    return unclaimed(card, path)


def unclaimed(card: Card, path: Path) -> Card:
    """Return the card of a file whose rows have a benchmark's format, and claim to be nothing else."""
    name = path.absolute().name
    return Card(
        name=f"{card.name}-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(name).stem)}",
        summary=f"Rows in the format of {card.name}",
        licence="not stated",
        source=f"{LOCAL}{visible(name)}",
        labelled="not stated",
        cluster=card.cluster,
        average=card.average,
        metrics=card.metrics,
        rule=card.rule,
    )
