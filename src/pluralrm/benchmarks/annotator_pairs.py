"""Pairs of answers that people were paid to compare: HelpSteer3, MultiPref and TL;DR, each described below its card."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from pluralrm.benchmarks.dataset import Dataset, judgment, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt, free_id
from pluralrm.benchmarks.preferences import Turn, conversation, word_of
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, NullAsNoList, Part, Text, Word
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, User
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

# ---- HelpSteer3

HELPSTEER3_HUB = "nvidia/HelpSteer3"
HELPSTEER3_ROWS = {"validation": 2_017, "train": 38_459}

HELPSTEER3 = Card(
    name="helpsteer3",
    summary="HelpSteer3 preference: two answers in a conversation, the aggregate of several people's scores",
    licence="CC BY 4.0",
    source=f"hub: {HELPSTEER3_HUB} (preference, split validation)",
    labelled="by people who scored each pair from -3 to 3; the label is their aggregate",
    citation="Zhilin Wang and others. HelpSteer3-Preference: Open Human-Annotated Preference Data across Diverse Tasks "
    "and Languages. arXiv:2505.11475, 2025.",
    notes="Ties are left out; a grade is the size of the aggregate.",
    cluster="prompt",
)
"""HelpSteer3 preference (arXiv 2505.11475): two answers in a conversation, judged by several people without ids.

A row (hub: nvidia/HelpSteer3, `preference/SPLIT.jsonl.gz`), shortened:

    {"domain": "general", "language": "english", "context": [{"role": "user", "content": "Name a fruit."}],
     "response1": "Plum.", "response2": "Yes.", "overall_preference": -2,
     "individual_preference": [{"score": -2}, {"score": -1}]}

`split=validation` (default), `train` or `all`. Without ids no person's judgments can be put together: a comparison is
one item with the aggregate as its label. Below 0 the first answer is better, by so many grades; 0 is a tie, dropped and
counted. Tags: `language`, `scores` (of each person), `disagreement` (their highest less their lowest), `strength`,
`place` (of the better answer in the file). An item's id is the hash of its content; an equal row is dropped.
"""

Preference = Annotated[int, Field(ge=-3, le=3)]


class IndividualPreference(Part):
    """One person's score of a pair."""

    score: Preference
    unread = ("reasoning", "feedback1", "feedback2")


class HelpSteerRow(Part):
    """A conversation with two answers."""

    domain: Label = ""
    language: Label = ""
    context: Annotated[list[Turn], Field(min_length=1)]
    response1: Label
    response2: Label
    overall_preference: Preference
    individual_preference: Annotated[list[IndividualPreference], NullAsNoList] = Field(default_factory=list)


def load_helpsteer3(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `helpsteer3`, `helpsteer3,split=train` (the hub) or `helpsteer3:PATH`."""
    split = word_of(spec, "split", (*HELPSTEER3_ROWS, "all"))
    card = (
        HELPSTEER3
        if split == "validation"
        else replace(HELPSTEER3, name=f"helpsteer3.{split}", source=f"hub: {HELPSTEER3_HUB} ({split})")
    )

    def read(sources: Sequence[Source], dirt: Dirt) -> Iterable[Item]:
        seen: set[str] = set()

        def items_of(row: HelpSteerRow, _location: Place, _domain: str) -> list[Item]:
            item, why = _scored_pair(row, seed), ""
            if row.response1.strip() == row.response2.strip() or not row.response1.strip() or not row.response2.strip():
                why = "of equal or empty answers"
            elif not row.overall_preference:
                why = "tied"
            elif item.id in seen:
                why = "repeated"
            dirt.read("comparisons", 1)
            seen.add(item.id)
            if why:
                dirt.drop("comparisons", why)
            return [] if why else [item]

        of_split = [source for source in sources if source.file.name.startswith(split)]
        return read_items(of_split or sources, HelpSteerRow, items_of, dirt)

    files = tuple(f"preference/{name}.jsonl.gz" for name in HELPSTEER3_ROWS if split in {name, "all"})
    rows = sum(count for name, count in HELPSTEER3_ROWS.items() if split in {name, "all"})
    return load_dataset(spec, seed, Dataset(card, hubs={HELPSTEER3_HUB: files}, rows=rows), read)


def _scored_pair(row: HelpSteerRow, seed: int) -> Item:
    prompt, aggregate = conversation(row.context), row.overall_preference
    scores = [each.score for each in row.individual_preference]
    tags = {"language": row.language.strip(), "strength": str(abs(aggregate)), "place": "12"[aggregate > 0]}
    if scores:
        tags |= {"scores": ",".join(map(str, scores)), "disagreement": str(max(scores) - min(scores))}
    answers = {
        "response1": (row.response1, float(max(-aggregate, 0))),
        "response2": (row.response2, float(max(aggregate, 0))),
    }
    name = digest([prompt, answers, scores])[:16]
    return judgment(name, prompt, answers, seed=seed, domain=row.domain.strip() or "all", tags=tags)


# ---- MultiPref

MULTIPREF_HUB = "allenai/multipref"
MULTIPREF_ROWS = 10_461

MULTIPREF = Card(
    name="multipref",
    summary="MultiPref: pairs of answers, each judged by two workers and two experts",
    licence="ODC-BY",
    source=f"hub: {MULTIPREF_HUB}",
    labelled="by four people a pair, on five levels from A to B",
    citation="Lester James V. Miranda, Yizhong Wang, Yanai Elazar, Sachin Kumar, Valentina Pyatkin, Faeze Brahman, "
    "Noah A. Smith, Hannaneh Hajishirzi and Pradeep Dasigi. Hybrid Preferences: Learning to Route Instances for Human "
    "vs. AI Feedback. arXiv:2410.19133, 2024.",
    notes="Rule clear-slight-tie: clearly better is 2 to 0, slightly better 1 to 0, ties are left out.",
)
"""MultiPref (arXiv 2410.19133): pairs of answers, each judged by four people, two workers and two experts.

A row (hub: allenai/multipref), shortened to what is read:

    {"comparison_id": "c1", "prompt_id": "p1", "text": "Name a fruit.", "completion_a": "Plum.", "completion_b": "Yes.",
     "source": "wildchat", "category": "Brainstorm",
     "normal_worker_annotations": [{"evaluator": "w1", "overall_pref": "A-is-slightly-better", "time_spent": 40}],
     "expert_worker_annotations": [{"evaluator": "e1", "overall_pref": "Tie"}]}

Each person's overall preference is an item, by the rule clear-slight-tie: clearly better is 2 to 0, slightly better is
1 to 0; a tie prefers neither, is no comparison, and is dropped and counted. The domain is the category. Tags: `worker`
(normal or expert), `source`, `strength` (clear or slight), `confidence`, `time_spent`, `helpful`, `truthful`,
`harmless`, and `place` (of the preferred answer in the file). The trait `worker` is expert of who judged once as one.
"""

GRADES = {
    "A-is-clearly-better": (2, 0),
    "A-is-slightly-better": (1, 0),
    "Tie": (0, 0),
    "B-is-slightly-better": (0, 1),
    "B-is-clearly-better": (0, 2),
}
"""The rule clear-slight-tie: the grades of A and B by level."""


_QUALITIES = ("helpful", "truthful", "harmless")


class MultiprefAnnotation(Part):
    """What one person said of a pair."""

    evaluator: Id
    overall_pref: Label = ""
    overall_confidence: Word = ""
    helpful_pref: Word = ""
    truthful_pref: Word = ""
    harmless_pref: Word = ""
    time_spent: Word = ""
    unread = (
        "timestamp",
        *(f"{name}_{part}" for part in ("confidence", "checked_reasons", "own_reason") for name in _QUALITIES),
    )


class MultiprefRow(Part):
    """A pair with everybody's judgments."""

    comparison_id: Id
    prompt_id: Id
    text: Text
    completion_a: Label
    completion_b: Label
    source: Label = ""
    category: Label = ""
    normal_worker_annotations: Annotated[list[MultiprefAnnotation], NullAsNoList]
    expert_worker_annotations: Annotated[list[MultiprefAnnotation], NullAsNoList]
    unread = ("model_a", "model_b")


def load_multipref(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `multipref` (the hub) or `multipref:PATH`."""

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        def items_of(row: MultiprefRow, location: Place, _domain: str) -> list[Item]:
            return _judgments(row, location, dirt, seed)

        items = list(read_items(sources, MultiprefRow, items_of, dirt))
        experts = {item.cluster for item in items if item.tags["worker"] == "expert"}
        kinds = {item.cluster: "expert" if item.cluster in experts else "normal" for item in items}
        people = {name: User(name, traits={"worker": kind}) for name, kind in kinds.items()}
        return [replace(item, user=people[item.cluster]) for item in items]

    return load_dataset(
        spec, seed, Dataset(MULTIPREF, hubs={MULTIPREF_HUB: ("data/train-*",)}, rows=MULTIPREF_ROWS), read
    )


def _judgments(row: MultiprefRow, location: Place, dirt: Dirt, seed: int) -> list[Item]:
    """Return an item for each person who preferred one of two answers that differ."""
    texts, items = (row.completion_a, row.completion_b), dict[str, Item]()
    different = all(map(str.strip, texts)) and texts[0].strip() != texts[1].strip()
    for worker in ("normal", "expert"):
        for annotation in getattr(row, f"{worker}_worker_annotations"):
            dirt.read("judgments", 1)
            level = annotation.overall_pref.strip()
            if level and level not in GRADES:
                raise location.refuse("overall_pref", found=describe(level), wanted=f"one of {', '.join(GRADES)}")
            grades = GRADES.get(level, (0, 0))
            if not different or grades == (0, 0):
                why = "of equal answers" if not different else "tied" if level else "without a preference"
                dirt.drop("judgments", why)
                continue
            user = User(annotation.evaluator)
            tags = {"worker": worker, "source": row.source.strip(), "strength": ("slight", "clear")[max(grades) - 1]}
            tags |= {
                "confidence": annotation.overall_confidence,
                "time_spent": annotation.time_spent,
                "place": "ab"[grades[1] > 0],
            }
            tags |= {name: getattr(annotation, f"{name}_pref") for name in _QUALITIES}
            name = free_id(f"{row.comparison_id}/{user.id}", items)
            answers = {key: (text, float(grade)) for key, text, grade in zip("ab", texts, grades, strict=True)}
            domain = row.category.strip() or "all"
            items[name] = replace(
                judgment(name, row.text, answers, seed=seed, domain=domain, user=user, tags=tags),
                prompt_id=row.prompt_id,
            )
    return list(items.values())


# ---- TL;DR

TLDR_HUB, TLDR_BRANCH = "openai/summarize_from_feedback", "refs/convert/parquet"

TLDR = Card(
    name="tldr",
    summary="TL;DR comparisons: which of two summaries of a post each worker prefers",
    licence="not stated",
    source=f"hub: {TLDR_HUB} (comparisons, branch {TLDR_BRANCH})",
    labelled="by workers with ids, one choice a row",
    citation="Nisan Stiennon, Long Ouyang, Jeff Wu, Daniel M. Ziegler, Ryan Lowe, Chelsea Voss, Alec Radford, Dario "
    "Amodei and Paul Christiano. Learning to summarize from human feedback. arXiv:2009.01325, 2020.",
)
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


class PostInfo(Part):
    """What was summarised."""

    id: Label = ""
    post: Label = ""
    article: Label = ""
    subreddit: Label = ""
    unread = ("title", "site")


class PostSummary(Part):
    """One summary; which model wrote it is not read."""

    text: Text
    unread = ("policy", "note")


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


def load_tldr(spec: Spec, *, seed: int) -> Benchmark:
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
            return [_summary_choice(row, location, people, seen, seed=seed)]

        items = list(read_items(sources, SummaryComparison, items_of, dirt))
        pairs = Counter(item.cluster for item in items)
        busy = [item for item in items if pairs[item.cluster] >= least]
        dirt.leave_out("judgments", f"of workers with fewer than {least} pairs", len(items) - len(busy))
        if not busy:
            raise BenchmarkError(f"tldr: found no worker with {least} pairs of split={split} among {len(items):,}")
        return busy

    return load_dataset(
        spec, seed, Dataset(TLDR, hubs={TLDR_HUB: ("comparisons/*/*.parquet",)}, revision=TLDR_BRANCH), read
    )


def _summary_choice(
    row: SummaryComparison, location: Place, people: dict[str, User], seen: set[str], *, seed: int
) -> Item:
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
