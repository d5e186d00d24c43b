"""All of RMGAP, at its true size, loads and scores in little memory: twelve items share the text of four answers."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row, rmgap_row, write_jsonl, write_parquet

PEOPLE, POSTS, LONGEST = 2830, 348_000, 3159
"""Personalized RewardBench: its users, their posts, and the posts of the user who wrote most."""
LOADED = """
import re, sys
from pathlib import Path
from pluralrm import load_benchmark
bench = load_benchmark(sys.argv[1])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(sum(len(user.posts) for user in bench.users), max(len(user.posts) for user in bench.users), int(peak[1]) // 1024)
print(bench.card.load)
"""
COUNTS = {"Chat": 397, "Writing": 253, "Reasoning": 225, "Safety": 222}
CHILD = """
import re, sys
from pathlib import Path
from pluralrm import load_benchmark
from pluralrm.runs import score
run = score(load_benchmark(sys.argv[1]), "longest", out=sys.argv[2])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(len(run.rows), int(peak[1]) // 1024)
"""


def prose(rng: random.Random, characters: int) -> str:
    words = [f"{rng.randrange(16**6):x}" for _ in range(characters // 7)]
    return " ".join(words) + "\U0001f642" * (
        rng.random() < 0.1
    )  # one emoji makes Python hold a text in four times the memory


def full_size(rng: random.Random) -> Iterator[tuple[str, JsonRow]]:
    """Yield the domain and the row of every user: most wrote little, one wrote 3,159 posts; five posts are blank."""
    shares = [rng.lognormvariate(0, 1.4) for _ in range(PEOPLE - 1)]
    scale = (POSTS - LONGEST - len(shares)) / sum(shares)
    sizes = [1 + int(share * scale) for share in shares] + [LONGEST]
    for _ in range(POSTS - sum(sizes)):
        sizes[rng.randrange(PEOPLE - 1)] += 1
    words = [f"{rng.randrange(16**5):x}" for _ in range(20_000)]
    rng.shuffle(sizes)
    domains = [name for name, count in zip(DOMAINS, (767, 989, 1074), strict=True) for _ in range(count)]
    for number, (domain, size) in enumerate(zip(domains, sizes, strict=True)):
        texts = (" ".join(rng.choices(words, k=int(rng.lognormvariate(4, 0.7)) + 3)) for _ in range(size))
        posts = [{"id": f"q{number}-{n}", "category": "", "text": text} for n, text in enumerate(texts)]
        posts[-1]["text"] = " " if number % 600 == 0 else posts[-1]["text"]
        yield domain, prb_row(number, 0) | {"profile": posts}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_personalized_rewardbench_at_its_true_size_loads_in_less_than_1_gb(tmp_path: Path, form: str) -> None:
    rows: dict[str, list[JsonRow]] = {name: [] for name in DOMAINS}
    for domain, row in full_size(random.Random(0)):
        rows[domain].append(row)
    for domain, each in rows.items():
        path = tmp_path / f"{domain}_test.{form}"
        if form == "json":
            path.write_text(json.dumps(each, indent=1), encoding="utf-8")
        else:
            {"jsonl": write_jsonl, "parquet": write_parquet}[form](path, each)
    child = [sys.executable, "-c", LOADED, f"prb:{tmp_path}"]
    told = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    posts, longest, megabytes = map(int, told.split("\n")[0].split())
    assert (posts, longest) == (POSTS - 5, LONGEST)
    assert told.split("\n")[1] == "347,995 of 348,000 posts; 5 blank dropped"
    assert megabytes < 1000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize(
    ("part", "items", "most"), [(8, 1_656, 160), pytest.param(1, 13_164, 400, marks=pytest.mark.slow)]
)
def test_rmgap_at_its_true_size_stays_far_below_400_mb(tmp_path: Path, part: int, items: int, most: int) -> None:
    rng = random.Random(0)
    rows = [rmgap_row(1000 * d + n, domain) for d, domain in enumerate(COUNTS) for n in range(COUNTS[domain])][::part]
    for row in rows:
        for response in row["responses"]:
            response["text"] = prose(rng, 1500)
        for group in row["prompt_groups"]:
            for prompt in group["prompts"]:
                prompt["text"] = prose(rng, 400)
    path = write_jsonl(tmp_path / "test.jsonl", rows)
    child = [sys.executable, "-c", CHILD, f"rmgap:{path}", str(tmp_path)]
    found, megabytes = map(int, subprocess.run(child, capture_output=True, text=True, check=True).stdout.split())
    assert found == items
    assert megabytes < most
