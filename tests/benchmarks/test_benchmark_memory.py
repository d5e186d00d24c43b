"""All of RMGAP, at its true size, loads and scores in little memory: twelve items share the text of four answers."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.sample_rows import rmgap_row, write_jsonl

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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
def test_rmgap_at_its_true_size_stays_far_below_400_mb(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [rmgap_row(1000 * d + n, domain) for d, domain in enumerate(COUNTS) for n in range(COUNTS[domain])]
    for row in rows:
        for response in row["responses"]:
            response["text"] = prose(rng, 1500)
        for group in row["prompt_groups"]:
            for prompt in group["prompts"]:
                prompt["text"] = prose(rng, 400)
    path = write_jsonl(tmp_path / "test.jsonl", rows)
    child = [sys.executable, "-c", CHILD, f"rmgap:{path}", str(tmp_path)]
    items, megabytes = map(int, subprocess.run(child, capture_output=True, text=True, check=True).stdout.split())
    assert items == 13_164
    assert megabytes < 400
