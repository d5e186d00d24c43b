"""Made-up rows in the formats of published benchmarks, uneven in number, and the files that hold them.

`WORLDS` has one writer per kind: it writes rows drawn by a seed below a folder and returns the path to load.
"""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from pluralrm.benchmarks.rewardbench import PARTS, PRIOR, SECTIONS, SUBSETS_2, TIES
from tests.benchmarks import judged_rows
from tests.benchmarks.published import as_parquet
from tests.benchmarks.sample_rows import JsonRow, write_jsonl

Writer = Callable[[Path, int], Path]


def text(rng: random.Random, name: str) -> str:
    """Return a text of its own, of a length that says nothing."""
    return f"{name}: {' '.join(['dough'] * rng.randint(1, 40))}"


def write_json(path: Path, rows: list[JsonRow]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return path


def rewardbench_row(number: int, subset: str, rng: random.Random) -> JsonRow:
    row = {"id": number, "subset": subset, "prompt": f"Question {number % 50} of {subset}?"}
    answers = {"chosen": text(rng, f"Good {number}"), "rejected": text(rng, f"Bad {number}")}
    return row | answers | {"chosen_model": f"model-{number % 7}", "rejected_model": "weak", "review": "unknown column"}


def prior_row(number: int, subset: str, rng: random.Random) -> JsonRow:
    turns = [{"role": "user", "content": f"Hello {number}"}, {"role": "assistant", "content": "Yes?"}]
    prompt = [*turns, {"role": "user", "content": "Why?"}] if number % 2 else turns[:1]
    answers = {"chosen": text(rng, f"Good {number}"), "rejected": text(rng, f"Bad {number}")}
    return {"id": number, "subset": subset, "prompt": prompt} | answers


def rewardbench(folder: Path, seed: int) -> Path:
    rng, number = random.Random(f"rewardbench:{seed}"), 0
    for section, subsets in SECTIONS.items():
        make = prior_row if section == PRIOR else rewardbench_row
        for subset in subsets:
            rows = [make(number + n, subset, rng) for n in range(rng.choice([1, 2, 5, 20]))]
            number += len(rows)
            write_jsonl(folder / f"{subset}.jsonl", rows)
    return folder


def rewardbench2_row(name: str, subset: str, sides: tuple[int, int], rng: random.Random) -> JsonRow:
    right, wrong = sides
    return {
        "id": name,
        "subset": subset,
        "prompt": f"Question {name} of {subset}?",
        "chosen": [text(rng, f"Right {n}") for n in range(right)],
        "rejected": [text(rng, f"Wrong {n}") for n in range(wrong)],
        "num_correct": right,
        "num_incorrect": wrong,
        "total_completions": right + wrong,
        "models": ["model-a"] * (right + wrong),
        "additional_metadata": {"category": None, "valid": 1.0},
    }


def rewardbench2(folder: Path, seed: int) -> Path:
    rng = random.Random(f"rewardbench2:{seed}")
    rows = []
    for subset in SUBSETS_2:
        if subset != TIES:
            rows += [rewardbench2_row(str(n), subset, (1, 3), rng) for n in range(rng.randint(1, 30))]
    for number in range(rng.randint(2, 9)):
        wrong = rng.randint(1, 12)
        rows.append(rewardbench2_row(f"ref:{number}", TIES, (1, wrong), rng))
        rows.append(rewardbench2_row(f"tied:{number}", TIES, (rng.randint(2, 26), wrong), rng))
    rng.shuffle(rows)
    return write_jsonl(folder / "test-00000-of-00001.jsonl", rows)


def rm_bench_row(name: str, rng: random.Random, **changes: object) -> JsonRow:
    answers = {side: [text(rng, f"{side} {style}") for style in range(3)] for side in ("chosen", "rejected")}
    return {"id": name, "prompt": f"Task {name}?", **answers, **changes}


def rm_bench(folder: Path, seed: int) -> Path:
    rng = random.Random(f"rm-bench:{seed}")
    for part in PARTS:
        rows = [rm_bench_row(str(n), rng, subset=part) for n in range(rng.choice([1, 2, 7]))]
        write_json(folder / f"{part}_filtered.json", rows)
    return folder


def rmb_pair(number: int, path: str, rng: random.Random) -> JsonRow:
    return {
        "pair_uid": str(number),
        "category_path": f"Pairwise_set/{path}",
        "conversation_input": [{"role": "user", "content": f"Query {number // 3} of {path}", "language": "English"}],
        "chosen": {"llm_name": "model-a", "answer": text(rng, "Good"), "score": 5.0},
        "reject": {"llm_name": "model-b", "answer": text(rng, "Bad"), "score": 4},
    }


def rmb_best_of(number: int, path: str, losers: int, rng: random.Random) -> JsonRow:
    return {
        "bon_uid": str(number),
        "category_path": f"BoN_set/{path}",
        "conversation_input": [{"role": "user", "content": f"Query {number // 3} of {path}", "language": "English"}],
        "bon_best": {"llm_name": "model-a", "answer": text(rng, "Best")},
        "loser_list": [{"llm_name": f"model-{n}", "answer": text(rng, f"Loser {n}")} for n in range(losers)],
    }


def rmb(folder: Path, seed: int) -> Path:
    rng = random.Random(f"rmb:{seed}")
    for path in ("Helpfulness/Chat/Discussion", "Helpfulness/Code/Data Management", "Harmlessness/S1"):
        first = rng.randrange(10**6)
        pairs = [rmb_pair(first + n, path, rng) for n in range(rng.choice([1, 4, 20]))]
        write_json(folder / "Pairwise_set" / f"{path}.json", pairs)
        best = [rmb_best_of(first + n, path, rng.randint(2, 7), rng) for n in range(rng.choice([1, 3, 12]))]
        write_json(folder / "BoN_set" / f"{path}.json", best)
    return folder


def whole_rewardbench2() -> list[JsonRow]:
    """Return as many rows as each subset has."""
    rng = random.Random(0)
    counts = {subset: count for subset, count in SUBSETS_2.items() if subset != TIES}
    rows = [rewardbench2_row(str(n), subset, (1, 3), rng) for subset, count in counts.items() for n in range(count)]
    for n in range(SUBSETS_2[TIES] // 2):
        rows += [rewardbench2_row(f"ref:{n}", TIES, (1, 4), rng), rewardbench2_row(f"tied:{n}", TIES, (3, 4), rng)]
    return rows


def hub_files() -> dict[str, dict[str, bytes]]:
    """Return data sets with the published numbers of rows, as the hub has them, by their ids."""
    rng, other = random.Random(0), {"data/raw-00000-of-00001.parquet": b"of another split: must not be read"}
    core = {subset: count for section in SECTIONS if section != PRIOR for subset, count in SECTIONS[section].items()}
    first = [rewardbench_row(n, subset, rng) for subset, count in core.items() for n in range(count)]
    prior = {subset: [prior_row(n, subset, rng) for n in range(count)] for subset, count in SECTIONS[PRIOR].items()}
    total = [rm_bench_row(str(n), rng, domain=part) for part, count in PARTS.items() for n in range(count)]
    return {
        "allenai/reward-bench": other | {"data/filtered-00000-of-00001.parquet": as_parquet(first)},
        "allenai/pref-test-sets": other
        | {f"data/{subset}-00000-of-00001.parquet": as_parquet(rows) for subset, rows in prior.items()},
        "allenai/reward-bench-2": {"data/test-00000-of-00001.parquet": as_parquet(whole_rewardbench2())},
        "THU-KEG/RM-Bench": {"total_dataset.json": json.dumps(total).encode(), "chat_filtered.json": b"in the total"},
        **judged_rows.hub_files(),
    }


WORLDS: Mapping[str, Writer] = {
    "rewardbench": rewardbench,
    "rewardbench2": rewardbench2,
    "rm-bench": rm_bench,
    "rmb": rmb,
    "judgebench": judged_rows.judgebench,
    "rewardmath": judged_rows.rewardmath,
    "ppe": judged_rows.ppe,
    "llmbar": judged_rows.llmbar,
}
