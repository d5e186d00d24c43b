"""Made-up rows of data sets in which many people judge the same answers: uneven people, shared prompts, every trap."""

import csv
import gzip
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.published import as_parquet
from tests.benchmarks.sample_rows import JsonRow, write_jsonl

LETTERS = "abcd"


def opening(prompt: str, answers: Sequence[str], preferred: str, turn: str = "first") -> JsonRow:
    """Return one turn of a conversation of Community Alignment; `preferred` is a letter, or empty."""
    texts = {f"{turn}_turn_response_{letter}": text for letter, text in zip(LETTERS, answers, strict=True)}
    choice = f"response_{preferred}" if preferred else ""
    return {f"{turn}_turn_prompt": prompt, f"{turn}_turn_preferred_response": choice, **texts}


def talk(number: int, person: str, *turns: JsonRow, language: str = "en", **columns: object) -> JsonRow:
    """Return a conversation of Community Alignment."""
    row: JsonRow = {"conversation_id": f"c{number}", "annotator_id": person, "assigned_lang": language}
    row |= {"annotator_country": "india", "annotator_age": "18-34", "annotator_gender": "", "wave": "wave1"}
    row |= {"is_pregenerated_first_prompt": True, "in_balanced_subset": number % 2 == 0, "in_balanced_subset_10": False}
    for turn in turns:
        row |= turn
    return row | columns


def community_alignment(count: int, seed: int = 0) -> list[JsonRow]:
    """Return conversations of uneven people, of whom many meet one of six prompts, some twice."""
    rng = random.Random(f"community:{seed}")
    rows = []
    for number in range(count):
        person = int(8 * rng.random() ** 3)
        shared = rng.random() < 0.7
        prompt = f"Question {rng.randrange(6) if shared else number + 10} of all?"
        answers = [f"{prompt} Answer {letter} {'long ' * (n + len(prompt) % 3)}" for n, letter in enumerate("wxyz")]
        first = opening(prompt, answers, rng.choice("aabcd"))
        language = "en" if shared else ("fr", "it", "hi", "pt")[person % 4]
        rows.append(talk(number, f"p{person}", first, language=language, annotator_age=f"age {person % 2}"))
    return rows


def write_csv(path: Path, rows: Iterable[JsonRow]) -> Path:
    """Write rows as pandas does: True and False capitalized, nothing for what is missing."""
    rows = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), restval="")
        table.writeheader()
        table.writerows(rows)
    return path


def coval_row(number: int, *assessments: JsonRow, answers: str = "ABCD") -> JsonRow:
    """Return a prompt of CoVal with everybody's rankings."""
    said = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": f"Question {number}?"}]
    responses = [
        {"response_index": letter, "messages": [{"role": "assistant", "content": f"{number}{letter}" * n}]}
        for n, letter in enumerate(answers, 1)
    ]
    metadata = {"assessments": list(assessments)}
    return {
        "prompt_id": f"p{number}",
        "prompt": {"id": 1, "messages": said},
        "responses": responses,
        "metadata": metadata,
    }


def assessment(person: str, personal: Sequence[str], world: Sequence[str], bad: Sequence[str] = ()) -> JsonRow:
    """Return one person's rankings of a prompt of CoVal."""
    blocks: JsonRow = {"personal": [{"ranking": text, "rationale": "So."} for text in personal]}
    blocks |= {"world": [{"ranking": text} for text in world], "unacceptable": [{"rating": list(bad)}]}
    return {"annotator_id": person, "conversation_id": "c", "importance": "Very", "ranking_blocks": blocks}


RANKINGS = ("A>B>C>D", "B>A=C=D", "D > C > A = B", "A=B>C=D", "C>A>B>D")


def coval(count: int, seed: int = 0) -> list[JsonRow]:
    rng = random.Random(f"coval:{seed}")
    rows = []
    for number in range(count):
        people = [f"p{int(30 * rng.random() ** 3)}" for _ in range(rng.choice([1, 3, 12]))]
        made = [assessment(person, rng.choices(RANKINGS, k=1), rng.choices(RANKINGS, k=1)) for person in people]
        rows.append(coval_row(number, *made))
    return rows


def coval_people(count: int) -> list[JsonRow]:
    return [
        {
            "annotator_id": f"p{n}",
            "demographics": {"age": f"age {n % 3}", "country": None, "ai_usage": n % 2},
            "assessments": [],
        }
        for n in range(count)
    ]


LEVELS = ("A-is-clearly-better", "A-is-slightly-better", "Tie", "B-is-slightly-better", "B-is-clearly-better")


def annotation(person: str, level: str | None, **more: object) -> JsonRow:
    """Return one person's judgment of a pair of MultiPref."""
    row: JsonRow = {"evaluator": person, "overall_pref": level, "overall_confidence": "fairly-confident"}
    return row | {"helpful_pref": "Tie", "truthful_pref": None, "time_spent": 40, "timestamp": "x"} | more


def multipref_row(number: int, normal: Sequence[JsonRow], expert: Sequence[JsonRow]) -> JsonRow:
    """Return a pair of MultiPref."""
    row: JsonRow = {"comparison_id": f"c{number}", "prompt_id": f"p{number // 2}", "text": f"Question {number // 2}?"}
    row |= {"completion_a": f"Yes {number}.", "completion_b": "No. " * (number % 5 + 1), "model_a": "x", "model_b": "y"}
    row |= {"source": "wild", "category": "Open QA" if number % 3 else "", "subject_of_study": ["Math"]}
    return row | {"normal_worker_annotations": list(normal), "expert_worker_annotations": list(expert)}


def multipref(count: int, seed: int = 0) -> list[JsonRow]:
    rng = random.Random(f"multipref:{seed}")
    rows = []
    for number in range(count):
        people = rng.sample([f"w{n}" for n in range(9)], 4)
        made = [annotation(person, rng.choice(LEVELS)) for person in people]
        rows.append(multipref_row(number, made[:2], made[2:]))
    return rows


def helpsteer_row(number: int, preference: int, scores: Sequence[int] = (), **columns: object) -> JsonRow:
    """Return a comparison of HelpSteer3."""
    row: JsonRow = {
        "domain": "code" if number % 2 else "general",
        "language": ("english", "python", "french")[number % 3],
    }
    row |= {"context": [{"role": "user", "content": f"Question {number}?"}], "overall_preference": preference}
    row |= {"response1": f"Yes {number}.", "response2": "No. " * (number % 5 + 1)}
    individual = [{"score": score, "reasoning": "So.", "feedback1": "", "feedback2": ""} for score in scores]
    return row | {"individual_preference": individual} | columns


def helpsteer3(count: int, seed: int = 0) -> list[JsonRow]:
    rng = random.Random(f"helpsteer3:{seed}")
    return [
        helpsteer_row(number, rng.choice([-3, -1, 1, 2]), [rng.randint(-3, 3) for _ in range(rng.choice([2, 3]))])
        for number in range(count)
    ]


def tldr_row(number: int, worker: str, choice: int, **columns: object) -> JsonRow:
    """Return a comparison of TL;DR."""
    info = {"id": f"t{number}", "post": f"Post {number}. " * 9, "title": "T", "subreddit": "pets", "article": None}
    summaries = [
        {"text": f" Summary {number}.", "policy": "x", "note": None},
        {"text": "S. " * (number % 4 + 1), "note": ""},
    ]
    row: JsonRow = {"info": info, "summaries": summaries, "choice": choice, "worker": worker, "batch": "b3"}
    return row | {"split": "valid1", "extra": {"confidence": number % 9}} | columns


def tldr(count: int, seed: int = 0) -> list[JsonRow]:
    rng = random.Random(f"tldr:{seed}")
    return [
        tldr_row(rng.randrange(count // 3), f"w{int(9 * rng.random() ** 3)}", rng.randrange(2)) for _ in range(count)
    ]


def write_coval(folder: Path, rows: list[JsonRow]) -> Path:
    """Write the folder of CoVal: comparisons, the people, and a file that is not read."""
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / "comparisons.jsonl", rows)
    write_jsonl(folder / "annotators.jsonl", coval_people(30))
    write_jsonl(folder / "conversation_rubrics.jsonl", [{"prompt_id": "p1", "rubric": "x"}])
    return folder


def hub_files() -> dict[str, dict[str, bytes]]:
    """Return files as the hub has them, by their ids; CoVal and HelpSteer3 with the published numbers of rows."""
    with TemporaryDirectory() as folder:
        table = write_csv(Path(folder) / "x.csv", community_alignment(40)).read_bytes()
        path = write_coval(Path(folder) / "coval", coval(1_078))
        judged = {file.name: file.read_bytes() for file in path.iterdir()}
    lines = "".join(f"{json.dumps(row)}\n" for row in helpsteer3(2_017)).encode()
    return {
        "facebook/community-alignment-dataset": {"community_alignment.csv": table, "README.md": b"#"},
        "openai/coval": judged | {"merged_comparisons_annotators.jsonl": b"must not be read"},
        "allenai/multipref": {"data/train-00000-of-00001.parquet": as_parquet(multipref(40))},
        "nvidia/HelpSteer3": {
            "preference/validation.jsonl.gz": gzip.compress(lines),
            "preference/train.jsonl.gz": b"of another split: must not be read",
            "edit/validation.jsonl.gz": b"must not be read",
        },
    }


def tldr_branch() -> dict[str, bytes]:
    """Return the Parquet branch of TL;DR."""
    return {
        f"comparisons/{part}/0000.parquet": as_parquet(tldr(60, seed))
        for seed, part in enumerate(("train", "validation"))
    } | {"axis/test/0000.parquet": b"must not be read"}
