"""What the decisions of a build come to: its funnel, and one build of several shards.

How many records came to each stage, how many stayed, why the others did not, and what it took.

At every stage: came in = kept + rejected + waiting, and what one stage keeps is what comes to the next.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from pluralrm.construct.pipeline.folder import (
    ANEW,
    BUILD,
    CALLS,
    STAGES,
    BuildManifest,
    DecisionLine,
    Spent,
    by_record,
    check_replies,
    placed_lines,
    read_lines,
    read_manifest,
    stage_file,
)
from pluralrm.digests import digest
from pluralrm.display import json_fields
from pluralrm.errors import RunError
from pluralrm.files import replace_file
from pluralrm.http import Price, Usage
from pluralrm.journal import LockedFolder, unsealed_line
from pluralrm.shards import FolderMerger, FoundShard, named_whole


@dataclass(frozen=True, slots=True)
class Counts:
    """One stage. `rejected` counts by reason, the most frequent first; `attempts` is how often texts were written."""

    stage: str
    kind: str
    came_in: int
    kept: int
    rejected: Mapping[str, int]
    waiting: int
    attempts: int = 0
    spent: tuple[Spent, ...] = ()

    @property
    def calls(self) -> int:
        """Calls about the records that are decided on; those that others asked for as well count for each."""
        return sum(spent.calls for spent in self.spent)

    def cost(self, prices: Mapping[str, Price]) -> float | None:
        """Return what its calls cost; None where the price of a model that was asked is not known."""
        return _cost(self.spent, prices)

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        fields = json_fields(self, "stage", "kind", "came_in", "kept", "rejected", "waiting", "attempts")
        return {**fields, "spent": [spent.model_dump() for spent in self.spent]}


@dataclass(frozen=True, slots=True)
class Funnel:
    """All stages of a build, in order."""

    pipeline: str
    records: int
    stages: tuple[Counts, ...]

    @property
    def kept(self) -> int:
        """How many records came through."""
        return self.stages[-1].kept if self.stages else self.records

    @property
    def waiting(self) -> int:
        """How many records wait at any stage."""
        return sum(counts.waiting for counts in self.stages)

    def cost(self, prices: Mapping[str, Price]) -> float | None:
        """Return what all calls cost."""
        return _cost([spent for counts in self.stages for spent in counts.spent], prices)

    def to_json(self) -> dict[str, object]:
        """Return everything under its name."""
        return json_fields(self, "pipeline", "records", "kept", "stages")


def _cost(spent: Sequence[Spent], prices: Mapping[str, Price]) -> float | None:
    if not all(row.model in prices for row in spent):
        return None
    return fsum(prices[row.model].of(Usage(row.tokens_in, row.tokens_out)) for row in spent)


def funnel_of(manifest: BuildManifest, lines: Sequence[Mapping[str, DecisionLine]]) -> Funnel:
    """Return the funnel of a build's decisions; RunError where it does not add up."""
    came_in, stages = manifest.records, []
    for stage, decided in zip(manifest.stages, lines, strict=True):
        counts = _counts(stage.name, stage.kind, came_in, list(decided.values()))
        stages.append(counts)
        came_in = counts.kept
    return checked(Funnel(manifest.pipeline, manifest.records, tuple(stages)))


def _counts(stage: str, kind: str, came_in: int, decided: Sequence[DecisionLine]) -> Counts:
    reasons = Counter(line.reason for line in decided if line.kept is None)
    rejected = dict(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])))
    return Counts(
        stage=stage,
        kind=kind,
        came_in=came_in,
        kept=sum(line.kept is not None for line in decided),
        rejected=rejected,
        waiting=came_in - len(decided),
        attempts=sum(line.attempts for line in decided),
        spent=_together(spent for line in decided for spent in line.spent),
    )


def _together(spent: Iterable[Spent]) -> tuple[Spent, ...]:
    """Return one entry for each role and model."""
    sums: dict[tuple[str, str], list[int]] = {}
    for row in spent:
        numbers = (row.calls, row.unmetered, row.tokens_in, row.tokens_out)
        before = sums.get((row.role, row.model), [0] * len(numbers))
        sums[row.role, row.model] = [old + new for old, new in zip(before, numbers, strict=True)]
    return tuple(
        Spent(role=role, model=model, calls=calls, unmetered=unmetered, tokens_in=tokens_in, tokens_out=tokens_out)
        for (role, model), (calls, unmetered, tokens_in, tokens_out) in sorted(sums.items())
    )


def checked(funnel: Funnel) -> Funnel:
    """Return the funnel; RunError where a record is lost or counted twice."""
    expected = funnel.records
    for counts in funnel.stages:
        ends = counts.kept + sum(counts.rejected.values()) + counts.waiting
        if not (counts.came_in == expected == ends and counts.waiting >= 0):
            raise RunError(
                f"stage {counts.stage!r}: {expected:,} records came in, and {counts.kept:,} kept, "
                f"{sum(counts.rejected.values()):,} rejected and {counts.waiting:,} waiting are {ends:,}. A file of "
                "the build was changed from outside; build in another folder"
            )
        expected = counts.kept
    return funnel


COLUMNS = ("stage", "came in", "kept", "rejected", "waiting", "attempts", "calls", "tokens", "cost")


def funnel_rows(funnel: Funnel, prices: Mapping[str, Price] | None = None) -> list[tuple[str, ...]]:
    """Return the funnel as rows of COLUMNS."""
    rows = []
    for counts in funnel.stages:
        tokens = [sum(row.tokens_in for row in counts.spent), sum(row.tokens_out for row in counts.spent)]
        cost = counts.cost(prices) if prices else None
        numbers = (counts.came_in, counts.kept, sum(counts.rejected.values()), counts.waiting, counts.attempts)
        cells = [f"{number:,}" for number in (*numbers, counts.calls)]
        text = f"{tokens[0]:,} + {tokens[1]:,}" if counts.spent else "–"
        rows.append((counts.stage, *cells, text, "–" if cost is None or not counts.spent else f"{cost:.4g}"))
    return rows


class BuildMerger(FolderMerger[BuildManifest]):
    """Makes a build of its shards up to the sieve that waits for all; the same command without a shard goes on."""

    kind = BUILD

    def facts(self, folder: Path, manifest: BuildManifest) -> Mapping[str, object]:  # noqa: ARG002 - all in the manifest
        """Return what must be the same for a build to be resumed, long facts by their hashes."""
        names = ("pluralrm", "pipeline", "input", "records", "limit")
        stages = {stage.name: stage.model_dump(mode="json", exclude={"makes"}) for stage in manifest.stages}
        return {
            **{name: getattr(manifest, name) for name in names},
            "roles": {role: digest(pool) for role, pool in manifest.roles.items()},
            "stages": {name: digest(stage) for name, stage in stages.items()},
        }

    def label(self, manifest: BuildManifest) -> str:
        """Return the pipeline."""
        return f"build {manifest.pipeline}"

    def unfinished(self, folder: Path, manifest: BuildManifest) -> str:
        """Return how many records of a shard are decided where some wait; RunError where replies are lost."""
        placed = placed_lines(folder, manifest)
        if (folder / CALLS).exists():
            check_replies((row for stage in placed for row in stage), folder / CALLS, ANEW)
        far = manifest.progress(folder, by_record(placed))
        return "" if far.complete else f"{far.done:,} of {far.size:,} records"

    def differing(self, shards: Sequence[FoundShard[BuildManifest]]) -> str:
        """Return which shard's sieves, which see all records, decided otherwise than those of the first."""
        first, *rest = shards
        sieved = self._sieved(first)
        for other in rest:
            if self._sieved(other) != sieved:
                return (
                    f"{other.folder}: its stages before the first call decided otherwise than in {first.folder}; rank "
                    "and embed by the same model on the same kind of machine"
                )
        return ""

    def place(self, shard: FoundShard[BuildManifest]) -> Path:
        """Return the folder of the build, as the shard's is called."""
        return Path(named_whole(shard.folder))

    def holds(self, folder: Path, shards: Sequence[FoundShard[BuildManifest]]) -> bool:
        """Return whether a build is there that has all decisions of the shards."""
        if not BUILD.holds(folder):
            return False
        whole = read_manifest(folder)
        lines = read_lines(folder, whole)
        same = self.facts(folder, whole) == shards[0].facts
        for shard in shards:
            for mine, there in zip(read_lines(shard.folder, shard.manifest), lines, strict=False):
                same = same and all(name in there and there[name].seal == line.seal for name, line in mine.items())
        if not same:
            raise RunError(
                f"{folder} holds a build with other decisions than those shards; merge into another folder (-o)"
            )
        return True

    def write(self, whole: LockedFolder[BuildManifest], shards: Sequence[FoundShard[BuildManifest]]) -> None:
        """Write the replies, then the decisions stage by stage, then build.json."""
        (whole.path / STAGES).mkdir(exist_ok=True)
        if calls := list(self._calls(shards)):
            replace_file(whole.path / CALLS, calls)
        manifest = shards[0].manifest
        for index, stage in enumerate(manifest.stages[: manifest.asking.stop]):
            files = [stage_file(shard.folder, index, stage.name) for shard in shards]
            lines = {line.id: line.text for file in files for line in BUILD.lines(file, DecisionLine)}
            if lines:
                replace_file(stage_file(whole.path, index, stage.name), (lines[name] for name in sorted(lines)))
        whole.write(manifest.model_copy(update={"shard": None, "own": ()}))

    def _calls(self, shards: Sequence[FoundShard[BuildManifest]]) -> Iterator[bytes]:
        """Yield the lines of all cassettes, one for each request."""
        replies: dict[str, object] = {}
        for file in (shard.folder / CALLS for shard in shards):
            for line in file.read_bytes().splitlines(keepends=True) if file.exists() else []:
                call = json.loads(unsealed_line(line))
                request = digest(call.pop("request"))
                if request not in replies:
                    replies[request] = call
                    yield line
                elif replies[request] != call:
                    raise RunError(f"{file}: another reply to a request than in another shard; build one of them again")

    def _sieved(self, shard: FoundShard[BuildManifest]) -> list[dict[str, str]]:
        lines = read_lines(shard.folder, shard.manifest)
        return [{name: line.seal for name, line in stage.items()} for stage in lines[: shard.manifest.asking.start]]
