"""Building: records in, what the stages made of them out, and every decision on disk at once.

A record goes from stage to stage without waiting for others, until a sieve, which waits for all. What comes of it
depends on what was replied and on nothing else: neither on the window nor on who is asked first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pluralrm._version import __version__
from pluralrm.construct.pipeline.decisions import Decisions, Going
from pluralrm.construct.pipeline.folder import Folder, Manifest, StageEntry, as_json
from pluralrm.construct.pipeline.funnel import Funnel, funnel_of
from pluralrm.construct.pipeline.pools import Pools
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.replies import Replies, replies_of
from pluralrm.construct.pipeline.running import Walk
from pluralrm.construct.pipeline.stages import Pipeline, Sieve, Stage
from pluralrm.core import digest, digest_list
from pluralrm.errors import RunError

WINDOW = 256
"""Records that are worked on at one time."""


@dataclass(frozen=True)
class Built:
    """What a build came to. `kept` are the records that every stage kept, by id; none while a record waits.

    `replies` are those that its decisions rest on, and `why` says why the first record that waits does.
    """

    pipeline: Pipeline
    manifest: Manifest
    folder: Path
    pools: Pools
    kept: tuple[Record, ...]
    funnel: Funnel
    replies: Replies
    why: str = ""

    @property
    def complete(self) -> bool:
        """True where no record waits."""
        return not self.funnel.waiting


def build(
    pipeline: Pipeline,
    records: Iterable[Record],
    folder: Folder,
    pools: Pools,
    *,
    limit: int | None = None,
    window: int = WINDOW,
    tell: Callable[[Going], None] = lambda _going: None,
) -> Built:
    """Return what becomes of the records; the same call goes on where an earlier one was stopped.

    `limit` takes so many of them in the order of their ids' digests: a sample that does not depend on their order.
    """
    chosen = sampled(records, limit)
    manifest = manifest_of(pipeline, chosen, pools, limit)
    lines = folder.adopt(manifest)
    folder.require_replies(lines, pools.served)
    decisions = Decisions(pipeline, folder, lines, tell)
    decisions.check(chosen)
    kept = _through_all(decisions, pools, chosen, window)
    funnel, replies = funnel_of(manifest, decisions.lines), replies_of(decisions.lines)
    return Built(pipeline, manifest, folder.path, pools, tuple(kept), funnel, replies, decisions.why)


def _through_all(decisions: Decisions, pools: Pools, records: Sequence[Record], window: int) -> list[Record]:
    current, begin = list(records), 0
    for end in _ends(decisions.stages):
        if begin < end:
            current = Walk(decisions, pools, begin, end).kept(current, window)
        if decisions.waiting:
            return []
        if end < len(decisions.stages):
            current = _sifted(decisions, current, end)
        begin = end + 1
    return current


def _ends(stages: Sequence[Stage | Sieve]) -> Iterator[int]:
    """Yield the place of each sieve, and the end: a record goes at once through what lies between."""
    yield from (place for place, stage in enumerate(stages) if isinstance(stage, Sieve))
    yield len(stages)


def _sifted(decisions: Decisions, records: Sequence[Record], place: int) -> list[Record]:
    """Return what a sieve keeps of the records, which are in the order of their ids."""
    sieve = decisions.stages[place]
    if isinstance(sieve, Sieve) and not decisions.all_decided(records, place):
        decisions.decide_all(records, place, sieve.decide(records))
    adopted = (decisions.adopted(record, place) for record in records)
    return [record for record in adopted if record is not None]


def sampled(records: Iterable[Record], limit: int | None) -> tuple[Record, ...]:
    """Return the records that a build works on, in the order of their ids; RunError where there are none."""
    found = sorted(records, key=lambda record: record.id)
    for one, other in pairwise(found):
        if one.id == other.id:
            raise RunError(f"found two records {one.id!r} in the input, wanted ids that differ")
    if not found:
        raise RunError("found no record in the input, wanted at least one")
    if limit is not None:
        found = sorted(sorted(found, key=lambda record: digest(record.id))[:limit], key=lambda record: record.id)
    return tuple(found)


def manifest_of(pipeline: Pipeline, records: Sequence[Record], pools: Pools, limit: int | None) -> Manifest:
    """Return what a build is: where all of it is equal, and the replies are, it comes to the same."""
    for record in records:
        if type(record.source) is not pipeline.source:
            raise TypeError(
                f"record {record.id!r} has a {type(record.source).__name__}, not {pipeline.source.__name__}"
            )
    content = ([record.id, record.domain, record.source.model_dump(mode="json")] for record in records)
    roles = {role: sorted((member.to_json() for member in pool), key=digest) for role, pool in pools.roles.items()}
    return Manifest(
        pluralrm=__version__,
        pipeline=pipeline.name,
        input=digest_list(content),
        records=len(records),
        limit=limit,
        roles=as_json(roles),
        stages=[_entry(stage) for stage in pipeline.stages],
    )


def _entry(stage: Stage | Sieve) -> StageEntry:
    templates = stage.templates if isinstance(stage, Stage) else ()
    return StageEntry(
        name=stage.name,
        kind="stage" if isinstance(stage, Stage) else "sieve",
        makes=stage.makes.__name__,
        settings=dict(stage.settings),
        templates={template.name: template.hash for template in templates},
    )
