"""Made-up rows of JudgeBench, LLMBar, RewardMATH and PPE, uneven in number; see `published_rows`."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from pluralrm.benchmarks.two_orders import CATEGORIES
from pluralrm.benchmarks.two_orders import LLMBAR_COUNTS as SUBSETS
from tests.benchmarks.sample_rows import JsonRow, write_jsonl


def words(rng: random.Random, name: str) -> str:
    """Return a text of its own, of a length that says nothing."""
    return f"{name}: {' '.join(['crust'] * rng.randint(1, 40))}"


def _write_list(path: Path, rows: Sequence[JsonRow]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=4), encoding="utf-8")
    return path


def judgebench_row(number: int, rng: random.Random, **changes: object) -> JsonRow:
    source = sorted(CATEGORIES)[number % 4 if number % 3 else 0]
    return {
        "pair_id": f"{number:04}-pair",
        "original_id": str(number),
        "source": f"{source}-rye" if number % 2 else source,
        "question": f"How long does loaf {number // 2} rest?",
        "response_model": "gpt-4o-2024-05-13",
        "response_A": words(rng, f"A{number}"),
        "response_B": words(rng, f"B{number}"),
        "label": ("A>B", "B>A")[rng.randrange(2)],
        "difficulty": "an unknown column",
        **changes,
    }


def judgebench(folder: Path, seed: int) -> Path:
    rng = random.Random(f"judgebench:{seed}")
    return write_jsonl(folder / "gpt.jsonl", [judgebench_row(n, rng) for n in range(53)])


def llmbar_row(number: int, rng: random.Random, **changes: object) -> JsonRow:
    answers = {"output_1": words(rng, f"First {number}"), "output_2": words(rng, f"Second {number}")}
    return {"input": f"Knead dough {number // 2}.", **answers, "label": rng.choice([1, 2]), **changes}


def llmbar(folder: Path, seed: int) -> Path:
    rng = random.Random(f"llmbar:{seed}")
    for place, subset in enumerate(SUBSETS):
        above = folder if subset == "Natural" else folder / "Adversarial"
        rows = [llmbar_row(100 * place + n, rng) for n in range(rng.choice([1, 4, 20]))]
        _write_list(above / subset / "dataset.json", rows)
    return folder


def solution_row(problem: int, place: int, rng: random.Random, **changes: object) -> JsonRow:
    return {
        "problem": f"How many grams are {problem} loaves?",
        "answer": str(750 * problem),
        "eval_solution": [f"One loaf is {750 + place} g.", words(rng, f"So {problem} are {(750 + place) * problem} g")],
        "solution_reference": f"model-{place}",
        "solution_type": "rejected" if place else "chosen",
        "subject": ("Algebra", "Geometry")[problem % 2],
        "level": 1 + problem % 5,
        "problem_id": 7 * problem,
        "id": 70 * problem + place,
        **changes,
    }


def rewardmath(folder: Path, seed: int) -> Path:
    rng = random.Random(f"rewardmath:{seed}")
    rows = [solution_row(problem, place, rng) for problem in range(1, 32) for place in range(10)]
    return _write_list(folder / "RewardMATH_direct.json", rows)


def choice_row(number: int, rng: random.Random, **changes: object) -> JsonRow:
    first, second = rng.sample(["m1", "m2", "m3", "m4"], 2)
    return {
        "question_id": f"h{number}",
        "model_a": first,
        "model_b": second,
        "winner": rng.choice(["model_a", "model_b"]),
        "prompt": f"Why does dough {number // 2} rise?",
        "response_1": words(rng, f"First {number}"),
        "response_2": words(rng, f"Second {number}"),
        "language": "English",
        "is_code": False,
        "judge_hash": "an unknown column",
        **changes,
    }


def ppe(folder: Path, seed: int) -> Path:
    rng = random.Random(f"ppe:{seed}")
    ties = [choice_row(200 + n, rng, winner=word) for n, word in enumerate(("tie", "tie (bothbad)"))]
    return write_jsonl(folder / "human.jsonl", [*(choice_row(n, rng) for n in range(60)), *ties])


def answers_row(number: int, right: Sequence[bool], rng: random.Random, **changes: object) -> JsonRow:
    pairs = [[i, j] for i in range(len(right)) for j in range(i) if right[i] != right[j]]
    return {
        "question_id": f"q{number}",
        "model_name": "model-z",
        "prompt": f"How much water takes flour {number}?",
        **{f"response_{place + 1}": words(rng, f"Answer {place}") for place in range(len(right))},
        "scores": list(right),
        "mean_score": sum(right) / len(right),
        "parsed_outputs": ["70 %"] * len(right),
        "sampled_conflict_pairs": rng.sample(pairs, min(5, len(pairs))),
        **changes,
    }


def answers(folder: Path, seed: int, *, width: int = 32) -> Path:
    """Write five data sets of K answers as the hub's folders are called."""
    rng = random.Random(f"answers:{seed}")
    for place, name in enumerate(("MMLU-Pro", "MATH", "GPQA", "MBPP-Plus", "IFEval")):
        rows = []
        for number in range(rng.choice([1, 3, 12])):
            right = [True, False, *(rng.random() < rng.choice([0.1, 0.5, 0.9]) for _ in range(width - 2))]
            rng.shuffle(right)
            rows.append(answers_row(100 * place + number, right, rng))
        write_jsonl(folder / f"PPE-{name}-Best-of-K" / "train.jsonl", rows)
    return folder


def hub_files() -> dict[str, dict[str, bytes]]:
    """Return the pairs of JudgeBench in their published number, and a few questions of two data sets of PPE."""
    rng, counts = random.Random(0), dict(zip(sorted(CATEGORIES), (56, 98, 42, 154), strict=True))
    sources = [source for source, count in counts.items() for _ in range(count)]
    pairs = [judgebench_row(n, rng, source=source) for n, source in enumerate(sources)]
    files = {"data/claude-00000-of-00001.jsonl": b"of another split", "data/gpt-00000-of-00001.jsonl": _lines(pairs)}
    math, gpqa = ([answers_row(10 * n + k, [True, False], rng) for k in range(n)] for n in (3, 1))
    return {
        "ScalerLab/JudgeBench": files,
        "lmarena-ai/PPE-MATH-Best-of-K": {"data/train-00000-of-00001.jsonl": _lines(math)},
        "lmarena-ai/PPE-GPQA-Best-of-K": {"data/train-00000-of-00001.jsonl": _lines(gpqa)},
    }


def _lines(rows: Sequence[JsonRow]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
