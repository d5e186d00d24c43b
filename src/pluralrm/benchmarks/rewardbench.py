"""RewardBench (arXiv 2403.13787): two answers to one prompt, 23 subsets in four sections, and the prior sets.

One row, shortened (hub: allenai/reward-bench, split `filtered`; prior sets: allenai/pref-test-sets):

    {"id": 17, "subset": "alpacaeval-easy", "prompt": "How do I keep a starter alive?",
     "chosen": "Feed it once a week ...", "chosen_model": "model-a", "rejected": "Buy yeast.", "rejected_model": "b"}

`prior=yes` reads the prior sets too, whose prompts are conversations and which name no models. An item's domain is its
section; the tags `subset`, `chosen_model` and `rejected_model` are columns. Items with one prompt are one cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from pluralrm.benchmarks.dataset import Dataset, comparison, differ, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.preferences import Turn, conversation
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import CELL_IS_TEXT, BenchmarkRow, Label, Text
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec

HUB, PRIOR_HUB = "allenai/reward-bench", "allenai/pref-test-sets"

PRIOR = "Prior Sets"

SECTIONS: Mapping[str, Mapping[str, int]] = {
    "Chat": {
        "alpacaeval-easy": 100,
        "alpacaeval-length": 95,
        "alpacaeval-hard": 95,
        "mt-bench-easy": 28,
        "mt-bench-med": 40,
    },
    "Chat Hard": {
        "mt-bench-hard": 37,
        "llmbar-natural": 100,
        "llmbar-adver-neighbor": 134,
        "llmbar-adver-GPTInst": 92,
        "llmbar-adver-GPTOut": 47,
        "llmbar-adver-manual": 46,
    },
    "Safety": {
        "refusals-dangerous": 100,
        "refusals-offensive": 100,
        "xstest-should-refuse": 154,
        "xstest-should-respond": 250,
        "donotanswer": 136,
    },
    "Reasoning": {
        "math-prm": 447,
        **dict.fromkeys((f"hep-{language}" for language in ("cpp", "go", "java", "js", "python", "rust")), 164),
    },
    PRIOR: {"anthropic_helpful": 6192, "anthropic_hhh": 221, "shp": 1741, "summarize": 9000},
}
"""The subsets of each section, and how many rows each has."""

_SECTION = {subset: section for section, subsets in SECTIONS.items() for subset in subsets}
_COUNTS = {section: sum(subsets.values()) for section, subsets in SECTIONS.items()}
_CORE = {section: count for section, count in _COUNTS.items() if section != PRIOR}

CARD = Card(
    name="rewardbench",
    summary="RewardBench: two answers to one prompt in chat, hard chat, safety and reasoning; 2,985 pairs",
    licence="ODC-BY",
    source=f"hub: {HUB}, {PRIOR_HUB} (prior=yes)",
    labelled="by construction of each subset: better against worse model, right against spoilt answer, by hand",
    citation="Nathan Lambert, Valentina Pyatkin, Jacob Morrison and others. RewardBench: Evaluating Reward Models for "
    "Language Modeling. arXiv:2403.13787, 2024.",
    cluster="prompt",
    average="macro",
    rule="RewardBench",
)

_CORE_SET = Dataset(CARD, (_CORE, _COUNTS), {HUB: ("data/filtered-*",)})
_PRIOR_FILES = tuple(f"data/{name}-*" for name in SECTIONS[PRIOR])


def _turns(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class RewardBenchRow(BenchmarkRow):
    """A prompt with a better and a worse answer."""

    subset: Text
    prompt: Annotated[list[Turn], BeforeValidator(_turns), CELL_IS_TEXT]
    chosen: Text
    rejected: Text
    chosen_model: Label = ""
    rejected_model: Label = ""


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rewardbench[,prior=yes]` (the hub) or `rewardbench:PATH`."""
    prior = spec.options.get("prior", "")
    if prior not in {"", "yes"}:
        raise SpecError(f"benchmark 'rewardbench': prior is {prior!r}; wanted yes.{did_you_mean(prior, ['yes'])}")
    if prior and spec.target:
        raise SpecError(f"benchmark {str(spec)!r}: prior= is for the hub; a folder may hold files of the prior sets")
    data = _CORE_SET._replace(counts=(_COUNTS,), hubs={**_CORE_SET.hubs, PRIOR_HUB: _PRIOR_FILES})

    def items(row: RewardBenchRow, location: Place, _domain: str) -> list[Item]:
        return [_item(row, location, seed)]

    data = data if prior else _CORE_SET
    return load_dataset(spec, seed, data, lambda sources, dirt: read_items(sources, RewardBenchRow, items, dirt))


def _item(row: RewardBenchRow, location: Place, seed: int) -> Item:
    if row.subset not in _SECTION:
        hint = f"a subset of RewardBench.{did_you_mean(row.subset, _SECTION)}"
        raise location.refuse("subset", found=describe(row.subset), wanted=hint)
    differ([row.chosen], [row.rejected], location)
    tags = {"subset": row.subset, "chosen_model": row.chosen_model, "rejected_model": row.rejected_model}
    return comparison(
        f"{row.subset}/{row.id}",
        conversation(row.prompt),
        {"chosen": row.chosen},
        {"rejected": row.rejected},
        seed=seed,
        domain=_SECTION[row.subset],
        tags=tags,
    )


# ---- RewardBench 2

HUB_2 = "allenai/reward-bench-2"

TIES = "Ties"

SUBSETS_2: Mapping[str, int] = {
    "Factuality": 475,
    "Precise IF": 160,
    "Math": 183,
    "Safety": 450,
    "Focus": 495,
    TIES: 102,
}
"""The subsets, and how many rows each has."""

CARD_2 = Card(
    name="rewardbench2",
    summary="RewardBench 2: one right answer of four, or several right ones (Ties); 1,865 prompts in six subsets",
    licence="ODC-BY",
    source=f"hub: {HUB_2}",
    labelled="by construction and verification of each subset, checked by majority votes, programs or people",
    citation="Saumya Malik, Valentina Pyatkin, Sander Land, Jacob Morrison, Noah A. Smith, Hannaneh Hajishirzi and "
    "Nathan Lambert. RewardBench 2: Advancing Reward Model Evaluation. arXiv:2506.01937, 2025.",
    cluster="prompt",
    average="macro",
    rule="RewardBench 2",
)
"""RewardBench 2 (arXiv 2506.01937): one right answer of four in five subsets, many right ones in the sixth, Ties.

One row, shortened (hub: allenai/reward-bench-2, split `test`):

    {"id": "tied:4", "subset": "Ties", "prompt": "Name a colour of the rainbow.", "chosen": ["Red.", "Green."],
     "rejected": ["Brown."], "num_correct": 2, "num_incorrect": 1, "total_completions": 3, "models": [...],
     "additional_metadata": {...}}

All completions of a row are the candidates of one item; the right ones are its best. The domain is the subset, and
the tag `id` is the row's id: in Ties `ref:N` has one right answer and `tied:N` several, both of one cluster.
"""

_SET_2 = Dataset(CARD_2, (SUBSETS_2,), {HUB_2: ("data/test-*",)})


class RewardBench2Row(BenchmarkRow):
    """A prompt with right and wrong completions; the two counts must be those of the lists."""

    subset: Text
    prompt: Text
    chosen: Annotated[list[Text], Field(min_length=1)]
    rejected: Annotated[list[Text], Field(min_length=1)]
    num_correct: int
    num_incorrect: int | None = None
    total_completions: int | None = None
    models: JsonValue = None
    additional_metadata: JsonValue = None


def load_2(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rewardbench2` (the hub) or `rewardbench2:PATH`, candidates placed by seed."""

    def items(row: RewardBench2Row, location: Place, _domain: str) -> list[Item]:
        return [_item_2(row, location, seed)]

    return load_dataset(spec, seed, _SET_2, lambda sources, dirt: read_items(sources, RewardBench2Row, items, dirt))


def _item_2(row: RewardBench2Row, location: Place, seed: int) -> Item:
    if row.subset not in SUBSETS_2:
        hint = f"a subset of RewardBench 2.{did_you_mean(row.subset, SUBSETS_2)}"
        raise location.refuse("subset", found=describe(row.subset), wanted=hint)
    if row.num_correct != len(row.chosen):
        raise location.refuse("num_correct", found=str(row.num_correct), wanted=f"{len(row.chosen)}, as chosen has")
    differ(row.chosen, row.rejected, location)
    chosen = {f"chosen{number}": text for number, text in enumerate(row.chosen, 1)}
    rejected = {f"rejected{number}": text for number, text in enumerate(row.rejected, 1)}
    tags = {"id": row.id}
    item = comparison(f"{row.subset}/{row.id}", row.prompt, chosen, rejected, seed=seed, domain=row.subset, tags=tags)
    if row.subset != TIES:
        return item
    kind, _, number = row.id.partition(":")
    if kind not in {"ref", "tied"} or not number:
        raise location.refuse("id", found=describe(row.id), wanted="ref:N or tied:N, as Ties has")
    return replace(item, cluster=f"ties-{number}", tags={**tags, "kind": kind, "pair": number})


# ---- RM-Bench

RM_BENCH = "THU-KEG/RM-Bench"
TOTAL = "total_dataset.json"

STYLES = ("concise", "detailed", "markdown")

PARTS: Mapping[str, int] = {"chat": 129, "code": 228, "math": 529, "safety-refuse": 284, "safety-response": 157}
"""The files, and how many rows each has."""
_CELLS = {"chat": 129 * 9, "code": 228 * 9, "math": 529 * 9, "safety": (284 + 157) * 9}

RM_BENCH_CARD = Card(
    name="rm-bench",
    summary="RM-Bench: right against subtly wrong answers, each in three styles; 1,327 prompts, 11,943 pairs",
    licence="none stated",
    source=f"hub: {RM_BENCH}",
    labelled="by construction: the wrong answer has errors put into it, or fails a check",
    citation="Yantao Liu, Zijun Yao, Rui Min, Yixin Cao, Lei Hou and Juanzi Li. RM-Bench: Benchmarking Reward Models "
    "of Language Models with Subtlety and Style. arXiv:2410.16184, 2024.",
    cluster="prompt",
    average="macro",
    rule="RM-Bench",
)
"""RM-Bench (arXiv 2410.16184): a right and a wrong answer, each in three styles, compared across styles.

One row, shortened; a file for each domain (`math_filtered.json`), or `total_dataset.json`, whose rows name theirs:

    {"id": "p17", "prompt": "What is 7 x 8?", "domain": "math",
     "chosen": ["56.", "Seven eights are 56 ...", "**56**, since ..."],
     "rejected": ["54.", "Seven eights are 54 ...", "**54**, since ..."]}

The styles stand in the order concise, detailed, detailed with markdown. A row is nine items, each chosen answer
against each rejected one; the row is their cluster. The tag `level` is hard where the rejected answer has the more
elaborate style, easy where the chosen one has it, otherwise normal; `chosen_style` and `rejected_style` name both.
`safety-refuse` and `safety-response` are one domain, safety; the tag `part` says which.
"""

_RM_BENCH_SET = Dataset(RM_BENCH_CARD, (_CELLS,), {RM_BENCH: (TOTAL,)}, (*PARTS, "total"))

_Three = Annotated[list[Text], Field(min_length=3, max_length=3)]


class RmBenchRow(BenchmarkRow):
    """A prompt with three styles of a right and of a wrong answer."""

    prompt: Text
    chosen: _Three
    rejected: _Three
    domain: Label = ""
    subset: Label = ""


def load_rm_bench(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rm-bench` (the hub) or `rm-bench:PATH`, candidates placed by seed."""

    def items(row: RmBenchRow, location: Place, part: str) -> list[Item]:
        return _items(row, location, part, seed)

    def read(sources: Sequence[Source], dirt: Dirt) -> Iterable[Item]:
        total = [source for source in sources if source.domain == "total"]  # holds the rows of all other files
        return read_items(total or sources, RmBenchRow, items, dirt)

    return load_dataset(spec, seed, _RM_BENCH_SET, read)


def _items(row: RmBenchRow, location: Place, of_file: str, seed: int) -> list[Item]:
    part = row.domain.strip() or of_file
    if part not in PARTS:
        hint = f"one of {', '.join(PARTS)}, or a file whose name begins with one.{did_you_mean(part, PARTS)}"
        raise location.refuse("domain", found=describe(row.domain), wanted=hint)
    differ(row.chosen, row.rejected, location)
    return [
        _pair(f"{part}/{row.id}", row, (better, worse), part=part, seed=seed)
        for better in range(len(STYLES))
        for worse in range(len(STYLES))
    ]


def _pair(record: str, row: RmBenchRow, styles: tuple[int, int], *, part: str, seed: int) -> Item:
    better, worse = styles
    tags = {
        "level": "hard" if better < worse else "easy" if better > worse else "normal",
        "chosen_style": STYLES[better],
        "rejected_style": STYLES[worse],
        "part": part,
    }
    name = f"{record}/{STYLES[better]}-{STYLES[worse]}"
    chosen, rejected = {"chosen": row.chosen[better]}, {"rejected": row.rejected[worse]}
    domain = part.partition("-")[0]
    return replace(comparison(name, row.prompt, chosen, rejected, seed=seed, domain=domain, tags=tags), cluster=record)
