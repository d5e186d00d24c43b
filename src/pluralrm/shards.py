"""Shards: one of N parts of a run, pool, build or grades, in a folder of its own, and the merge of all of them.

>>> [Shard.parse(f"{index}/3").of(["a", "b", "c", "d", "e"]) for index in (1, 2, 3)]
[['a', 'd'], ['b', 'c'], ['e']]
"""

import filecmp
import gzip
import re
import shlex
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import groupby, islice
from pathlib import Path
from typing import Generic, NamedTuple, Self, TypeVar

from pluralrm.core import Item
from pluralrm.digests import digest
from pluralrm.display import Brief
from pluralrm.errors import PluralrmError, RunError, SpecError, check_type
from pluralrm.files import LOCK, is_held, members, replace_file
from pluralrm.journal import MERGE, Document, JournalKind, LockedFolder, Strict, differences

_FORM = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*")
_NAME = re.compile(r"(.+)\.shard-[0-9]+-of-[0-9]+")
_MEMBER = 64
_OPTION = re.compile(r"--shard[ =]('?)[0-9]+/[0-9]+\1")


class Shard(Strict):
    """The `index`-th of `count` parts of some work, counted from 1; `command` makes it, where a command line does."""

    index: int
    count: int
    command: str = ""

    @classmethod
    def parse(cls, text: str, command: str = "") -> Self:
        """Return the shard that `I/N` names."""
        check_type(text, str, "shard", "I/N such as '2/7'")
        if (match := _FORM.fullmatch(text)) is None or not 1 <= int(match[1]) <= int(match[2]):
            raise SpecError(f"shard {text!r}: wanted I/N with I from 1 to N, such as 2/7")
        return cls(index=int(match[1]), count=int(match[2]), command=command)

    def __str__(self) -> str:
        return f"shard {self.index} of {self.count}"

    def of(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that are dealt to this shard, in their order: which they are depends on no order."""
        ids = list(ids)
        mine = set(sorted(ids, key=_order)[self.index - 1 :: self.count])
        return [name for name in ids if name in mine]

    def size(self, total: int) -> int:
        """Return how many of so many items are dealt to this shard."""
        return len(range(self.index - 1, total, self.count))

    def folder(self, whole: Path) -> Path:
        """Return the folder of this shard, beside that of the whole."""
        whole = whole if whole.name not in {"", ".."} else whole.resolve()
        return whole.with_name(f"{whole.name}.shard-{self.index}-of-{self.count}")

    def again(self, index: int) -> str:
        """Return what makes another shard of the same work, or this one."""
        if not self.command:
            return f"the same call with shard='{index}/{self.count}'"
        return _OPTION.sub(f"--shard {index}/{self.count}", self.command)


def dealt(items: Sequence[Item], shard: Shard | None) -> list[Item]:
    """Return the items of a shard, in their order; all of them where there is none."""
    if shard is None:
        return list(items)
    mine = set(shard.of(item.id for item in items))
    return [item for item in items if item.id in mine]


def open_shard(shard: Shard | str | None) -> Shard | None:
    """Return the shard that a caller names."""
    return Shard.parse(shard) if isinstance(shard, str) else shard


@lru_cache(1 << 16)
def _order(name: str) -> tuple[str, str]:
    """Return what ids are dealt by; each cell of a grid deals the same ids."""
    return digest(name), name


class ShardedDocument(Document):
    """The manifest of what can be sharded; that of a shard names all items of the whole selection."""

    shard: Shard | None = None

    @property
    def part(self) -> str:
        """Which shard the folder holds; nothing where it holds the whole."""
        return "" if self.shard is None else str(self.shard)


@dataclass(frozen=True, repr=False)
class ShardProgress(Brief):
    """How far a shard is, in items, samples or answers. It is no run and no pool: `merge` makes those."""

    folder: str
    index: int
    count: int
    done: int
    size: int
    failed: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do in this shard."""
        return self.done == self.size

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        return {**vars(self), "complete": self.complete}


# ---------------------------------------------------------------- finding and merging

Record = TypeVar("Record", bound=ShardedDocument)


def whole_name(folder: Path) -> str:
    """Return the name of the folder that holds the whole; blank where a folder is not called as a shard's."""
    match = _NAME.fullmatch(folder.name)
    return match[1] if match else ""


def named_whole(folder: Path) -> str:
    """Return the name of the folder that holds the whole; RunError where a shard's folder has another name."""
    if not (name := whole_name(folder)):
        raise RunError(f"{folder}: a shard's folder is called NAME.shard-I-of-N; give it its name back")
    return name


def is_merged(folder: Path, kind: JournalKind[Record], complete: Callable[[Record], bool] = lambda _: True) -> bool:
    """Return whether a folder holds a shard, and its complete whole lies beside it."""
    if not (name := whole_name(folder)) or not kind.holds(whole := folder.with_name(name)):
        return False
    return kind.read(folder, shards=True).shard is not None and complete(kind.read(whole, shards=True))


class FoundShard(NamedTuple, Generic[Record]):
    """A shard on disk."""

    folder: Path
    manifest: Record
    shard: Shard
    facts: Mapping[str, object]


class MergedWork(NamedTuple):
    """A whole that `merge` wrote, or found there as it would have written it (`new` is false)."""

    kind: str
    folder: Path
    shards: int
    new: bool


class Merger(ABC, Generic[Record]):
    """How the shards of one kind of folder become one."""

    kind: JournalKind[Record]

    @abstractmethod
    def facts(self, folder: Path, manifest: Record) -> Mapping[str, object]:
        """Return what must be the same in all shards."""

    @abstractmethod
    def label(self, manifest: Record) -> str:
        """Return what the work is called, though its facts may differ."""

    @abstractmethod
    def unfinished(self, folder: Path, manifest: Record) -> str:
        """Return how far a shard is that is not complete; nothing of one that is. What is damaged is an error."""

    @abstractmethod
    def place(self, shard: FoundShard[Record]) -> Path:
        """Return the folder of the whole below the folder that a user names."""

    @abstractmethod
    def holds(self, folder: Path, shards: Sequence[FoundShard[Record]]) -> bool:
        """Return whether a folder holds the whole already; RunError where it holds other work."""

    @abstractmethod
    def merge(self, folder: Path, shards: Sequence[FoundShard[Record]], command: str) -> bool:
        """Write the whole, which `command` completes where it is stopped; return whether it was not there before."""

    def differing(self, shards: Sequence[FoundShard[Record]]) -> str:  # noqa: ARG002 - what only some kinds have
        """Return how the models of shards differ though their facts are the same."""
        return ""


class FolderMerger(Merger[Record]):
    """How the shards of one kind of folder become one folder."""

    def merge(self, folder: Path, shards: Sequence[FoundShard[Record]], command: str) -> bool:
        """Write the folder; a kill leaves there what no other command takes for its own."""
        new = not self.holds(folder, shards)
        if new or (folder / MERGE).exists():
            with _MergeFolder(folder, self.kind, command) as whole:
                if new:
                    self.write(whole, shards)
        return new

    @abstractmethod
    def write(self, whole: LockedFolder[Record], shards: Sequence[FoundShard[Record]]) -> None:
        """Write the whole, its manifest last."""


class _MergeFolder(LockedFolder[Record]):
    """The folder of a whole while it is merged."""

    def __init__(self, path: Path, kind: JournalKind[Record], command: str) -> None:
        super().__init__(path, kind)
        self._command = command

    def _resume(self) -> None:
        replace_file(self.path / MERGE, self._command)

    def _close(self, exc: BaseException | None) -> None:
        if exc is None:
            (self.path / MERGE).unlink()


class MergeResult(NamedTuple):
    """What was merged, and why the rest was refused."""

    merged: list[MergedWork]
    refused: list[str]


MERGERS = (
    *("runs.store:RunMerger", "policies.sample:PoolMerger", "policies.grades:GradeMerger"),
    *("construct.pipeline.funnel:BuildMerger", "construct.context_pairs:PairsMerger"),
)


def merge(folders: str | Path | Sequence[str | Path] = "runs", out: str | Path | None = None) -> MergeResult:
    """Make runs, pools, grades, pairs and builds of the shards below some folders; `refused` says what is missing.

    A whole is written beside its shards, or below `out`.
    """
    result, count = MergeResult([], []), 0
    several = [folders] if isinstance(folders, str | Path) else folders
    check_type(several, (list, tuple), "folders", "a folder with shards, or a list of folders")
    paths, out = list(map(Path, several)), None if out is None else Path(out)
    words = ["pluralrm", "merge", *map(str, paths), *(["-o", str(out)] if out else [])]
    for module, _, name in (merger.partition(":") for merger in MERGERS):
        merger: Merger[ShardedDocument] = getattr(import_module(f"pluralrm.{module}"), name)()
        shards = list(_shards(paths, merger, result.refused))
        count += len(shards)
        for group in _groups(shards, merger, result.refused):
            try:
                result.merged.append(_merged(group, out, merger, shlex.join(words)))
            except PluralrmError as exc:
                result.refused.append(str(exc))
    if not count and not result.refused:
        where = ", ".join(repr(str(path)) for path in paths)
        raise RunError(
            f"no shard at or below {where}; --shard 1/4 of 'score', 'sample', 'grade' or 'construct' makes one"
        )
    return result


def _shards(paths: Sequence[Path], merger: Merger[Record], refused: list[str]) -> Iterator[FoundShard[Record]]:
    """Yield the shards below some folders, each once; those that cannot be read are refused."""
    seen = set[Path]()
    for path in paths:
        for file in sorted(path.rglob(merger.kind.manifest)):
            folder = file.parent
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            try:
                manifest = merger.kind.read(folder, shards=True)
                if manifest.shard is not None:
                    yield FoundShard(folder, manifest, manifest.shard, merger.facts(folder, manifest))
            except PluralrmError as exc:
                if whole_name(folder):
                    refused.append(str(exc))


def _groups(
    shards: Sequence[FoundShard[Record]], merger: Merger[Record], refused: list[str]
) -> Iterator[list[FoundShard[Record]]]:
    """Yield the shards of each whole, in their order, where there is each once; refuse the others."""
    groups: defaultdict[str, list[FoundShard[Record]]] = defaultdict(list)
    for shard in shards:
        groups[digest([merger.label(shard.manifest), shard.facts])].append(shard)
    explained = set[Path]()
    for group in sorted(groups.values(), key=len, reverse=True):
        if {shard.folder for shard in group} <= explained:
            continue
        others = [other for other in shards if merger.label(other.manifest) == merger.label(group[0].manifest)]
        problems = list(_problems(sorted(group, key=lambda shard: (shard.shard.count, shard.shard.index)), merger))
        problems += _gaps(group, [other for other in others if other not in group], merger, explained)
        if problems:
            refused.extend(problems)
        else:
            once = {member.shard.index: member for member in group}
            yield [once[index] for index in sorted(once)]


def _problems(group: Sequence[FoundShard[Record]], merger: Merger[Record]) -> Iterator[str]:
    """Yield what is wrong with shards of one whole: another number of parts, a shard twice, unfinished, damaged."""
    if len(counts := {shard.shard.count for shard in group}) > 1:
        folders = ", ".join(str(shard.folder) for shard in group)
        numbers = " and of ".join(str(count) for count in sorted(counts))
        yield f"{folders}: shards of {numbers}; name the folders of one division"
    for (_, index), several in groupby(group, key=lambda shard: (shard.shard.count, shard.shard.index)):
        first, *rest = several
        if unlike := next((shard for shard in rest if not _are_copies(first.folder, shard.folder)), None):
            yield (
                f"{first.folder} and {unlike.folder} are both {first.shard}, and neither is a copy of the other; name "
                "one of them"
            )
        try:
            if is_held(first.folder):
                yield f"{first.folder}: another process is writing {first.shard}; wait for it"
            elif far := merger.unfinished(first.folder, first.manifest):
                yield f"{first.folder}: {first.shard} has {far}. What resumes it: {first.shard.again(index)}"
        except PluralrmError as exc:
            yield str(exc)
    if changed := merger.differing(group):
        yield changed


def _gaps(
    group: Sequence[FoundShard[Record]],
    others: Sequence[FoundShard[Record]],
    merger: Merger[Record],
    explained: set[Path],
) -> Iterator[str]:
    """Yield which shards are missing and what makes them; those in their place that are of other work, by name."""
    shard, label = group[0].shard, merger.label(group[0].manifest)
    missing = sorted(set(range(1, shard.count + 1)) - {member.shard.index for member in group})
    if not missing or len({member.shard.count for member in group}) > 1:
        return
    for other in others:
        if other.shard.count == shard.count and other.shard.index in missing:
            explained.add(other.folder)
            changed = "; ".join(differences(other.facts, group[0].facts, was="here"))
            yield f"{other.folder}: {other.shard} is of another {merger.kind.noun}; it differs in {changed}"
    numbers = ", ".join(map(str, missing))
    yield (
        f"{label}: missing shard{'s' * (len(missing) > 1)} {numbers} of {shard.count} beside {group[0].folder}. What "
        f"makes {'the first of them' if len(missing) > 1 else 'it'}: {shard.again(missing[0])}"
    )


def _are_copies(first: Path, second: Path) -> bool:
    """Return whether two folders hold the same files, byte by byte."""
    files = [{path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} for folder in (first, second)]
    names = [name for name in files[0] | files[1] if name.name != LOCK]
    return not any(filecmp.cmpfiles(first, second, names, shallow=False)[1:])


def _merged(shards: Sequence[FoundShard[Record]], out: Path | None, merger: Merger[Record], command: str) -> MergedWork:
    wholes = {
        shard.folder.parent / merger.place(shard).name if out is None else out / merger.place(shard) for shard in shards
    }
    if len(wholes) > 1:
        raise RunError(
            f"{', '.join(str(shard.folder) for shard in shards)}: shards of one {merger.kind.noun} in several folders; "
            "wanted -o OUT for the whole"
        )
    [folder] = wholes
    try:
        new = merger.merge(folder, shards, command)
    except OSError as exc:
        raise RunError(
            f"cannot write to {folder}: {exc.strerror or exc}. The shards are kept: make room, and the same command "
            "merges them; or choose another folder with -o"
        ) from exc
    return MergedWork(merger.kind.noun, folder, len(shards), new)


# ---------------------------------------------------------------- lines of several files


def united(order: Iterable[Hashable], files: Sequence[Callable[[], Iterable[tuple[object, bytes]]]]) -> Iterator[bytes]:
    """Yield the lines of several files in an order of their keys.

    Each file is read twice; lines are held only where a file has them in another order.
    """
    home: dict[object, int] = {key: number for number, lines in enumerate(files) for key, _ in lines()}
    streams, waiting = [iter(lines()) for lines in files], dict[object, bytes]()
    for key in order:
        while key in home and key not in waiting:
            other, line = next(streams[home[key]])
            waiting[other] = line
        if key in home:
            yield waiting.pop(key)


def gzip_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a gzip file that may be missing, without what follows a torn end."""
    if path.exists():
        for _, text in members(path):
            yield from text.splitlines(keepends=True)


def gzip_pieces(lines: Iterable[bytes], effort: int) -> Iterator[bytes]:
    """Yield lines as gzip members of some lines each."""
    stream = iter(lines)
    while several := b"".join(islice(stream, _MEMBER)):
        yield gzip.compress(several, effort, mtime=0)
