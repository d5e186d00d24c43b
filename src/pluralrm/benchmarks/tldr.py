"""TL;DR comparisons by worker (arXiv 2009.01325): which of two summaries of a post a person prefers.

A row of `comparisons` (hub: openai/summarize_from_feedback), shortened to what is read:

    {"info": {"id": "t3_1", "post": "I moved last week ...", "subreddit": "relationships"}, "worker": "w7", "choice": 1,
     "summaries": [{"text": "I moved."}, {"text": "Moved, regret it."}], "batch": "batch3", "split": "valid1",
     "extra": {"confidence": 7}}

The hub's own repository is a loading script; its Parquet branch is read, and so are JSON lines and Parquet files. Each
row is an item of its worker: the post is the prompt (an article in the batches of news, which are the domain `news`).
`least=50` keeps the workers with at least so many pairs, `split=train|valid1|valid2` the rows of a split. Tags:
`split`, `batch`, `subreddit`, `confidence`, `place` (of the preferred summary in the file). An item's id is the hash of
its content; a judgment that stands there twice stays.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from pluralrm.benchmarks.dataset import Dataset, judgment, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt, free_id
from pluralrm.benchmarks.preferences import word_of
from pluralrm.benchmarks.rows import Place
from pluralrm.benchmarks.schema import Id, Label, Part, Text, Word
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, User
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

HUB, BRANCH = "openai/summarize_from_feedback", "refs/convert/parquet"

CARD = Card(
    name="tldr",
    summary="TL;DR comparisons: which of two summaries of a post each worker prefers",
    licence="not stated",
    source=f"hub: {HUB} (comparisons, branch {BRANCH})",
    labelled="by workers with ids, one choice a row",
    citation="Nisan Stiennon, Long Ouyang, Jeff Wu, Daniel M. Ziegler, Ryan Lowe, Chelsea Voss, Alec Radford, Dario "
    "Amodei and Paul Christiano. Learning to summarize from human feedback. arXiv:2009.01325, 2020.",
)


class PostInfo(Part):
    """What was summarised."""

    id: Label = ""
    post: Label = ""
    article: Label = ""
    subreddit: Label = ""
    title: object = None
    site: object = None


class PostSummary(Part):
    """One summary; which model wrote it is not read."""

    text: Text
    policy: object = None
    note: object = None


class ComparisonExtra(Part):
    """How sure the worker was."""

    confidence: Word = ""


class SummaryComparison(Part):
    """One worker's choice."""

    info: PostInfo
    summaries: Annotated[list[PostSummary], Field(min_length=2, max_length=2)]
    choice: Literal[0, 1]
    worker: Id
    batch: Label = ""
    split: Label = ""
    extra: ComparisonExtra | None = None


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `tldr` (the hub) or `tldr:PATH`; `least=50`, `split=valid1`."""
    least, split = spec.integer("least", 1, least=1), word_of(spec, "split", ("all", "train", "valid1", "valid2"))
    people: dict[str, User] = {}
    seen: set[str] = set()

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        def items_of(row: SummaryComparison, location: Place, _domain: str) -> list[Item]:
            dirt.read("judgments", 1)
            if split not in {"all", row.split}:
                dirt.drop("judgments", "of another split")
                return []
            if row.summaries[0].text.strip() == row.summaries[1].text.strip():
                dirt.drop("judgments", "of equal summaries")
                return []
            return [_item(row, location, people, seen, seed=seed)]

        items = list(read_items(sources, SummaryComparison, items_of, dirt))
        pairs = Counter(item.cluster for item in items)
        busy = [item for item in items if pairs[item.cluster] >= least]
        dirt.leave_out("judgments", f"of workers with fewer than {least} pairs", len(items) - len(busy))
        if not busy:
            raise BenchmarkError(f"tldr: found no worker with {least} pairs of split={split} among {len(items):,}")
        return busy

    return load_dataset(spec, seed, Dataset(CARD, hubs={HUB: ("comparisons/*/*.parquet",)}, revision=BRANCH), read)


def _item(row: SummaryComparison, location: Place, people: dict[str, User], seen: set[str], *, seed: int) -> Item:
    prompt = row.info.post or row.info.article
    if not prompt.strip():
        raise location.refuse("info.post", found="no text", wanted="a post or an article")
    tags = {"split": row.split, "batch": row.batch, "subreddit": row.info.subreddit}
    tags |= {"confidence": row.extra.confidence if row.extra else "", "place": "ab"[row.choice]}
    answers = {key: (each.text, float(key == "ab"[row.choice])) for key, each in zip("ab", row.summaries, strict=True)}
    name = free_id(digest([row.worker, row.info.id, prompt, answers, tags])[:16], seen)
    seen.add(name)
    user = people.setdefault(row.worker, User(row.worker))
    domain = "tldr" if row.info.post else "news"
    return judgment(name, prompt, answers, seed=seed, domain=domain, user=user, tags=tags)
