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

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pluralrm.benchmarks.dataset import Dataset, judgment, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt, free_id
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, NullAsNoList, Part, Text, Word
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, User
from pluralrm.specs import Spec

HUB = "allenai/multipref"
ROWS = 10_461

CARD = Card(
    name="multipref",
    summary="MultiPref: pairs of answers, each judged by two workers and two experts",
    licence="ODC-BY",
    source=f"hub: {HUB}",
    labelled="by four people a pair, on five levels from A to B",
    citation="Lester James V. Miranda, Yizhong Wang, Yanai Elazar, Sachin Kumar, Valentina Pyatkin, Faeze Brahman, "
    "Noah A. Smith, Hannaneh Hajishirzi and Pradeep Dasigi. Hybrid Preferences: Learning to Route Instances for Human "
    "vs. AI Feedback. arXiv:2410.19133, 2024.",
    notes="Rule clear-slight-tie: clearly better is 2 to 0, slightly better 1 to 0, ties are left out.",
)

GRADES = {
    "A-is-clearly-better": (2, 0),
    "A-is-slightly-better": (1, 0),
    "Tie": (0, 0),
    "B-is-slightly-better": (0, 1),
    "B-is-clearly-better": (0, 2),
}
"""The rule clear-slight-tie: the grades of A and B by level."""


class MultiprefAnnotation(Part):
    """What one person said of a pair."""

    evaluator: Id
    overall_pref: Label = ""
    overall_confidence: Word = ""
    helpful_pref: Word = ""
    truthful_pref: Word = ""
    harmless_pref: Word = ""
    time_spent: Word = ""
    # In the data set and not read.
    timestamp: object = None
    helpful_confidence: object = None
    truthful_confidence: object = None
    harmless_confidence: object = None
    helpful_checked_reasons: object = None
    truthful_checked_reasons: object = None
    harmless_checked_reasons: object = None
    helpful_own_reason: object = None
    truthful_own_reason: object = None
    harmless_own_reason: object = None


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
    model_a: object = None
    model_b: object = None


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `multipref` (the hub) or `multipref:PATH`."""

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        def items_of(row: MultiprefRow, location: Place, _domain: str) -> list[Item]:
            return _items(row, location, dirt, seed)

        items = list(read_items(sources, MultiprefRow, items_of, dirt))
        experts = {item.cluster for item in items if item.tags["worker"] == "expert"}
        kinds = {item.cluster: "expert" if item.cluster in experts else "normal" for item in items}
        people = {name: User(name, traits={"worker": kind}) for name, kind in kinds.items()}
        return [replace(item, user=people[item.cluster]) for item in items]

    return load_dataset(spec, seed, Dataset(CARD, hubs={HUB: ("data/train-*",)}, rows=ROWS), read)


def _items(row: MultiprefRow, location: Place, dirt: Dirt, seed: int) -> list[Item]:
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
            tags |= {name: getattr(annotation, f"{name}_pref") for name in ("helpful", "truthful", "harmless")}
            name = free_id(f"{row.comparison_id}/{user.id}", items)
            answers = {key: (text, float(grade)) for key, text, grade in zip("ab", texts, grades, strict=True)}
            domain = row.category.strip() or "all"
            items[name] = replace(
                judgment(name, row.text, answers, seed=seed, domain=domain, user=user, tags=tags),
                prompt_id=row.prompt_id,
            )
    return list(items.values())
