"""RMB (arXiv 2410.09893): pairs, and best-of-N items of unequal size, for helpfulness and for harmlessness.

One pair and one best-of-N row, shortened; the authors' folder has one JSON list for each scenario
(`Pairwise_set/Helpfulness/Chat/Discussion.json`, `BoN_set/Harmlessness/S1.json`):

    {"pair_uid": "7989", "category_path": "Pairwise_set/Helpfulness/Chat/Discussion",
     "conversation_input": [{"role": "user", "content": "Cats or dogs?"}],
     "chosen": {"llm_name": "model-a", "answer": "It depends on ..."}, "reject": {"llm_name": "b", "answer": "Cats."}}
    {"bon_uid": "3163", "category_path": "BoN_set/Harmlessness/S1", "conversation_input": [...],
     "bon_best": {"llm_name": "model-a", "answer": "..."}, "loser_list": [{"llm_name": "b", "answer": "..."}, ...]}

The domain is the section: the goal, and pairs or best-of-N. Tags: `goal`, `set`, `category` (the scenario). Items with
one conversation are one cluster, across pairs and best-of-N.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from pluralrm.benchmarks.dataset import Dataset, comparison, differ, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.preferences import Turn, conversation
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, Part, Text, as_tag, checked
from pluralrm.benchmarks.sources import Source, read_each
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, Oracle
from pluralrm.specs import Spec

GOALS = ("Helpfulness", "Harmlessness")
PAIRS, BON = "pairs", "best-of-N"

CARD = Card(
    name="rmb",
    summary="RMB: pairs and best-of-N items in 49 scenarios of helpfulness and harmlessness",
    licence="none stated",
    source="https://github.com/Zhou-Zoey/RMB-Reward-Model-Benchmark, folder RMB_dataset",
    labelled="by ratings of an LLM against criteria of each query, checked by people on a sample",
    citation="Enyu Zhou, Guodong Zheng, Binghai Wang and others. RMB: Comprehensively Benchmarking Reward Models in "
    "LLM Alignment. arXiv:2410.09893, 2024.",
    notes="The authors publish no counts, so no copy is known to be the whole.",
    cluster="prompt",
    average="macro",
    rule="RMB",
)

_SET = Dataset(CARD, domains=GOALS)


class RmbAnswer(Part):
    """An answer, who wrote it, and the rating that made it win or lose."""

    answer: Text
    llm_name: Label = ""
    score: float | int | None = None


class RmbTurn(Turn):
    """A turn of the conversation, in a named language."""

    language: Label = ""


class RmbRow(Part):
    """A pair (`pair_uid`, `chosen`, `reject`), or a best answer and those that lose to it."""

    conversation_input: Annotated[list[RmbTurn], Field(min_length=1)]
    category_path: Label = ""
    pair_uid: Id | None = None
    chosen: RmbAnswer | None = None
    reject: RmbAnswer | None = None
    bon_uid: Id | None = None
    bon_best: RmbAnswer | None = None
    loser_list: Annotated[list[RmbAnswer] | None, Field(min_length=1)] = None


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rmb:PATH`: the folder RMB_dataset, a part of it or a file; candidates placed by seed."""

    def items(row: RmbRow, location: Place, goal: str) -> list[Item]:
        return [_item(row, location, goal, seed)]

    return load_dataset(spec, seed, _SET, lambda sources, dirt: read_items(sources, RmbRow, items, dirt))


def _item(row: RmbRow, location: Place, of_file: str, seed: int) -> Item:
    steps = row.category_path.split("/")
    goal = next((goal for goal in GOALS if goal in steps), of_file)
    if not goal:
        hint = f"a path with {' or '.join(GOALS)}, or a file in a folder of that name"
        raise location.refuse("category_path", found=describe(row.category_path), wanted=hint)
    kind, name, best, losers = _labelled(row, location)
    differ([best.answer], [loser.answer for loser in losers], location, "reject" if kind == PAIRS else "loser_list")
    names = ["rejected"] if kind == PAIRS else [f"loser{number}" for number in range(1, len(losers) + 1)]
    answers = {key: loser.answer for key, loser in zip(names, losers, strict=True)}
    category = "/".join(steps[steps.index(goal) + 1 :]) if goal in steps else ""
    return comparison(
        f"{goal}/{kind}/{name}",
        conversation(row.conversation_input),
        {"chosen": best.answer},
        answers,
        seed=seed,
        domain=f"{goal}, {kind}",
        tags={"goal": goal, "set": kind, "category": category},
    )


def _labelled(row: RmbRow, location: Place) -> tuple[str, str, RmbAnswer, list[RmbAnswer]]:
    """Return which set a row is of, its id, the best answer and those that lose."""
    if row.pair_uid is not None and row.bon_uid is None and row.chosen is not None and row.reject is not None:
        return PAIRS, row.pair_uid, row.chosen, [row.reject]
    if row.bon_uid is not None and row.pair_uid is None and row.bon_best is not None and row.loser_list:
        return BON, row.bon_uid, row.bon_best, row.loser_list
    raise location.refuse(
        "(row)", found="neither", wanted="pair_uid, chosen and reject; or bon_uid, bon_best and loser_list"
    )


# ---- RewardMATH

DOMAIN, REWARDMATH_FILE = "mathematics", "RewardMATH_direct"

REWARDMATH_CARD = Card(
    name="rewardmath",
    summary="RewardMATH: ten solutions of a problem by different models, one of them right; 483 problems",
    licence="MIT",
    source="https://github.com/kimsh0507/RewardMATH_official, dataset/benchmark/RewardMATH_direct.json",
    labelled="by the answers of MATH-500; right solutions are those of people, rewritten step by step by an LLM",
    citation="Sunghwan Kim, Dongjin Kang, Taeyoon Kwon, Hyungjoo Chae, Jungsoo Won, Dongha Lee and Jinyoung Yeo. "
    "Evaluating Robustness of Reward Models for Mathematical Reasoning. arXiv:2410.01729, 2024.",
    cluster="prompt",
    rule="RewardMATH",
)
"""RewardMATH (arXiv 2410.01729): which of ten solutions of a problem is right?

One row per solution (dataset/benchmark/RewardMATH_direct.json of https://github.com/kimsh0507/RewardMATH_official):

    {"problem_id": 7, "id": 70, "problem": "How many legs have 12 spiders?", "answer": "96", "subject": "Algebra",
     "level": 1, "solution_reference": "some-model", "solution_type": "chosen",
     "eval_solution": ["A spider has eight legs.", "So the answer is 96."]}

The rows of one `problem_id` are the candidates of one item, `solution0` to `solution9` in the order of the file; one
of them is `chosen`. A solution's steps are its lines. Tags: `subject`, `level`. The answer is the oracle's
reference.
"""


class SolutionRow(Part):
    """One solution of a problem."""

    problem_id: Id
    problem: Text
    eval_solution: Annotated[list[Label], Field(min_length=1)]
    solution_type: Literal["chosen", "rejected"]
    answer: Label = ""
    subject: Label = ""
    level: JsonValue = None
    solution_reference: Label = ""
    id: Id | None = None


def load_rewardmath(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rewardmath:PATH`, candidates placed by seed."""
    data = Dataset(REWARDMATH_CARD, ({DOMAIN: 483},), domains=(REWARDMATH_FILE,))
    return load_dataset(spec, seed, data, lambda sources, dirt: _items(sources, seed, dirt))


def _items(sources: Sequence[Source], seed: int, dirt: Dirt) -> list[Item]:
    problems: dict[str, list[tuple[SolutionRow, Place]]] = {}
    seen: dict[str, Place] = {}

    def solution(raw: Mapping[str, object], location: Place, _domain: str) -> tuple[SolutionRow, Place]:
        row = checked(SolutionRow, raw, location, dirt)
        first = problems.get(row.problem_id, [(row, location)])[0][0]
        if row.problem != first.problem:
            raise location.refuse("problem", found="another text than its first row has", wanted="one per problem_id")
        if not "".join(row.eval_solution).strip():
            raise location.refuse("eval_solution", found="steps without any text", wanted="a solution")
        if row.id is not None and seen.setdefault(row.id, location) is not location:
            raise location.refuse("id", found=f"{row.id!r} again (first at {seen[row.id]})", wanted="an id of its own")
        dirt.read("problems", row.problem_id not in problems)
        problems.setdefault(row.problem_id, []).append((row, location))
        return row, location

    list(read_each(sources, solution, dirt))
    items = []
    for name, rows in problems.items():
        chosen = [f"solution{index}" for index, (row, _) in enumerate(rows) if row.solution_type == "chosen"]
        if len(rows) < 2 or len(chosen) != 1:
            error = rows[-1][1].refuse(
                "solution_type",
                found=f"{len(chosen)} chosen of {len(rows)} solutions of problem {name!r}",
                wanted="one chosen of two or more",
            )
            dirt.recall(error, "problems", "without one right solution among others")
        else:
            items.append(_problem(name, rows, chosen[0], seed))
    dirt.tell()
    return items


def _problem(name: str, rows: Sequence[tuple[SolutionRow, Place]], chosen: str, seed: int) -> Item:
    texts = {f"solution{index}": "\n".join(row.eval_solution) for index, (row, _) in enumerate(rows)}
    right = {chosen: texts.pop(chosen)}
    first, location = rows[0]
    differ(right.values(), texts.values(), location, "eval_solution")
    tags = {"subject": first.subject.strip(), "level": "" if first.level is None else as_tag(first.level)}
    item = comparison(name, first.problem, right, texts, seed=seed, domain=DOMAIN, tags=tags)
    return replace(item, oracle=Oracle(reference=first.answer)) if first.answer.strip() else item
