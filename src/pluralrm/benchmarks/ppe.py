"""PPE (arXiv 2410.14872): what people chose between two models' answers, and 32 answers that are right or wrong.

One row of each, shortened (hub: lmarena-ai/PPE-Human-Preference-V1 and lmarena-ai/PPE-MATH-Best-of-K):

    {"question_id": "h1", "prompt": "Is tea older than coffee?", "response_1": "Yes, by far. ...",
     "response_2": "Both are old. ...", "model_a": "model-x", "model_b": "model-y", "winner": "model_a",
     "language": "English", "is_code": false, "is_math": false, "hard_prompt": true}
    {"question_id": "m1", "model_name": "model-z", "prompt": "What is 12 x 8?", "response_1": "96.", ...
     "response_32": "98.", "scores": [true, ..., false], "mean_score": 0.6, "sampled_conflict_pairs": [[0, 31], ...]}

`set=human` is the first, `set=math` and so on one of the five data sets of answers, `set=correctness` all five. Left
out and counted: a choice that people called a tie, a question whose answers are all right or all wrong.

The domain is `human`, or the data set (of a path: told by the names of file and folder). Tags of a choice: the models
(`model:response_1`), `language`, `is_code` and the like; of a question: `model_name`, and `pairs`, the sampled pairs of
a right and a wrong answer, numbers from 1.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from pluralrm.benchmarks.dataset import comparison, differ, read_items
from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, Part, Text, as_tag
from pluralrm.benchmarks.sources import (
    Source,
    check_counts,
    find_sources,
    hub_snapshot,
    local_card,
    target_path,
    unclaimed,
)
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item
from pluralrm.errors import BenchmarkError, SpecError, did_you_mean
from pluralrm.specs import Spec

HUMAN = "human"
HUB: Mapping[str, str] = {
    HUMAN: "lmarena-ai/PPE-Human-Preference-V1",
    "mmlu-pro": "lmarena-ai/PPE-MMLU-Pro-Best-of-K",
    "math": "lmarena-ai/PPE-MATH-Best-of-K",
    "gpqa": "lmarena-ai/PPE-GPQA-Best-of-K",
    "mbpp-plus": "lmarena-ai/PPE-MBPP-Plus-Best-of-K",
    "ifeval": "lmarena-ai/PPE-IFEval-Best-of-K",
}
SETS: Mapping[str, tuple[str, ...]] = {**{name: (name,) for name in HUB}, "correctness": tuple(HUB)[1:]}
COUNTS: Mapping[str, int] = {HUMAN: 16_038, "correctness": 2_555}
"""Published numbers of rows."""

_CITATION = (
    "Evan Frick, Tianle Li, Connor Chen, Wei-Lin Chiang, Anastasios N. Angelopoulos, Jiantao Jiao, Banghua Zhu, "
    "Joseph E. Gonzalez and Ion Stoica. How to Evaluate Reward Models for RLHF. arXiv:2410.14872, 2024."
)
CARD = Card(
    name="ppe",
    summary="PPE: choices of people between two models' answers (set=human), or 32 answers, right or wrong",
    licence="CC BY 4.0 for what people wrote, the models' terms for what they wrote; see the data sets' pages",
    source=f"hub: {', '.join(f'{hub} (set={name})' for name, hub in HUB.items())}",
    labelled="by people on Chatbot Arena; answers by the programs of each data set",
    citation=_CITATION,
    cluster="prompt",
    average="macro",
    metrics=("pair", "accuracy"),
    rule="PPE answers",
)
CARD_HUMAN = replace(CARD, average="micro", metrics=("accuracy",), rule="PPE choices")

WINNERS: Mapping[str, tuple[str, ...]] = {
    "response_1": ("model_a", "model_1", "response_1"),
    "response_2": ("model_b", "model_2", "response_2"),
    "": ("tie", "tie (bothbad)"),
}
"""What a file calls the winner, by the id of the candidate; a tie has none."""


class PpeRow(Part):
    """A question with a winner of two answers, or with a score of each; `response_1` and so on stand in columns."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    question_id: Id
    prompt: Text
    winner: Text | None = None
    model_a: Label = ""
    model_b: Label = ""
    scores: Annotated[list[bool | float] | None, Field(min_length=2)] = None
    model_name: Label = ""
    sampled_conflict_pairs: list[Annotated[list[int], Field(min_length=2, max_length=2)]] | None = None


_TAGS = ("language", "is_code", "is_math", "hard_prompt", "easy_prompt", "if_prompt", "category")
"""Columns that become tags under their names."""
_RESPONSE = re.compile(r"response_([1-9][0-9]*)")


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `ppe,set=SET` (the hub) or `ppe:PATH`, candidates placed by seed."""
    dirt = dirt_of(spec)
    if spec.target:
        return _local(spec, seed, dirt)
    name = spec.options.get("set", "")
    if name not in SETS:
        actual = f"set is {name!r}" if name else "found neither a path nor a set"
        raise SpecError(f"benchmark 'ppe': {actual}; wanted set={', '.join(SETS)}.{did_you_mean(name, SETS)}")
    folders = [hub_snapshot(HUB[each], spec.options.get("revision", ""), ["data/*"]) for each in SETS[name]]
    sources = [
        replace(source, domain=each)
        for each, folder in zip(SETS[name], folders, strict=True)
        for source in find_sources(folder)
    ]
    items = _read(sources, seed, dirt)
    if name in COUNTS:
        check_counts(f"ppe.{name}", {"rows": dirt.rows}, {"rows": COUNTS[name]})
    revision = "+".join(folder.name for folder in folders)
    source = f"hub: {', '.join(HUB[each] for each in SETS[name])}"
    card = replace(_card(items), name=f"ppe.{name}", source=source, revision=revision)
    return Benchmark(dirt.onto(card), items, seed)


def _local(spec: Spec, seed: int, dirt: Dirt) -> Benchmark:
    path = target_path(spec, "set", "revision")
    items = _read(find_sources(path, tuple(_OF_FILE)), seed, dirt)
    card = _card(items)
    name = HUMAN if card.rule == CARD_HUMAN.rule else "correctness"
    if {item.domain for item in items} == set(SETS[name]) and dirt.rows == COUNTS[name]:
        card = local_card(replace(card, name=f"ppe.{name}"), path, ["rows"] * dirt.rows, {"rows": COUNTS[name]})
    else:
        card = unclaimed(card, path)
    return Benchmark(dirt.onto(card), items, seed)


_OF_FILE: Mapping[str, str] = {
    spelling: name
    for name in SETS["correctness"]
    for words in [HUB[name].removeprefix("lmarena-ai/PPE-").removesuffix("-Best-of-K")]
    for spelling in (f"PPE-{words}", words)
}
"""What the name of a file or folder begins with, and the data set that it is of."""


def _card(items: Sequence[Item]) -> Card:
    """Return the card of choices or of answers; a BenchmarkError where there are both."""
    human = {item.domain == HUMAN for item in items}
    if len(human) > 1:
        raise BenchmarkError("ppe: found choices of people and answers that are right or wrong; wanted one of the two")
    return CARD_HUMAN if True in human else CARD


def _read(sources: Sequence[Source], seed: int, dirt: Dirt) -> tuple[Item, ...]:
    def items_of(row: PpeRow, location: Place, of_file: str) -> list[Item]:
        for name in row.__pydantic_extra__:
            if name not in _TAGS and not _RESPONSE.fullmatch(name):
                dirt.ignore(name)
        if (row.winner is None) == (row.scores is None):
            raise location.refuse("winner", found="neither or both", wanted="winner, or scores")
        item = _choice(row, location, dirt, seed) if row.winner else _question(row, location, dirt, seed)
        domain = HUMAN if row.winner else _OF_FILE.get(of_file, of_file) or "answers"
        return [] if item is None else [replace(item, id=f"{domain}/{item.id}", domain=domain)]

    items = tuple(read_items(sources, PpeRow, items_of, dirt))
    if not items:
        raise BenchmarkError(f"ppe: found nothing to compare in {dirt.rows:,} rows; {dirt.report()}")
    return items


def _choice(row: PpeRow, location: Place, dirt: Dirt, seed: int) -> Item | None:
    winner = next((name for name, words in WINNERS.items() if row.winner in words), None)
    if winner is None:
        names = ", ".join(words[0] for words in WINNERS.values())
        raise location.refuse("winner", found=describe(row.winner), wanted=names)
    dirt.read("choices", 1)
    if not winner:
        dirt.drop("choices", "called a tie")
        return None
    answers = {name: _response(row, name, location) for name in ("response_1", "response_2")}
    chosen = {winner: answers.pop(winner)}
    differ(chosen.values(), answers.values(), location, "response_2")
    item = comparison(row.question_id, row.prompt, chosen, answers, seed=seed)
    models = {"model:response_1": row.model_a, "model:response_2": row.model_b}
    return replace(item, tags={**_tags(row), **(models if all(models.values()) else {})})


def _question(row: PpeRow, location: Place, dirt: Dirt, seed: int) -> Item | None:
    scores = row.scores or []
    if odd := [score for score in scores if score not in {0, 1}]:
        raise location.refuse("scores", found=describe(odd[0]), wanted="true or false for each answer")
    names = [f"response_{number}" for number in range(1, len(scores) + 1)]
    answers = {name: _response(row, name, location) for name in names}
    right = {name: text for (name, text), score in zip(answers.items(), scores, strict=True) if score}
    wrong = {name: text for name, text in answers.items() if name not in right}
    dirt.read("questions", 1)
    if not right or not wrong:
        dirt.drop("questions", f"with all answers {'wrong' if wrong else 'right'}")
        return None
    if not {text.strip() for text in right.values()}.isdisjoint(text.strip() for text in wrong.values()):
        dirt.keep("questions with one text that is right and wrong")
    name = f"{row.question_id}:{row.model_name}" if row.model_name else row.question_id
    tags = {**_tags(row), "model_name": row.model_name, "pairs": " ".join(_pairs(row, scores, location))}
    return comparison(name, row.prompt, right, wrong, seed=seed, tags=tags)


def _pairs(row: PpeRow, scores: Sequence[float], location: Place) -> list[str]:
    """Return the sampled pairs as `right-wrong`, numbers from 1."""
    pairs = []
    for first, second in row.sampled_conflict_pairs or []:
        if not (0 <= first < len(scores) and 0 <= second < len(scores)) or scores[first] == scores[second]:
            actual, needed = f"[{first}, {second}]", f"a right and a wrong one of {len(scores)} answers, numbers from 0"
            raise location.refuse("sampled_conflict_pairs", found=actual, wanted=needed)
        right, wrong = (first, second) if scores[first] else (second, first)
        pairs.append(f"{right + 1}-{wrong + 1}")
    return pairs


def _response(row: PpeRow, name: str, location: Place) -> str:
    text = row.__pydantic_extra__.get(name)
    if not isinstance(text, str) or not text.strip():
        raise location.refuse(name, found=describe(text), wanted="a text that is not empty")
    return text


def _tags(row: PpeRow) -> dict[str, str]:
    columns = row.__pydantic_extra__
    return {name: as_tag(columns[name]) for name in _TAGS if columns.get(name) is not None}
