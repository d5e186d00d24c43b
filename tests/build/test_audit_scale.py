"""A benchmark of the true size fits into the memory of a laptop."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import re
from pathlib import Path
import numpy as np
from pluralrm.build.audit import audit
from pluralrm.core import Aspect, Benchmark, Item, Oracle, Post, User
from tests.build.worlds import texts
from tests.builders import card

ITEMS, POSTS = 2_830, 60
rng = np.random.default_rng(0)
prompts, answers = texts(rng, [25] * ITEMS), texts(rng, [90] * 2 * ITEMS)
titles, posts = texts(rng, [5] * 4 * ITEMS), texts(rng, [60] * POSTS * ITEMS)
items = tuple(
    Item(
        id=f"i{n:04}", prompt=prompts[n], candidates=tuple(answers[2 * n : 2 * n + 2]), preferred=int(rng.integers(2)),
        cluster=f"i{n:04}", domain="ABC"[n % 3], candidate_ids=("a", "b"),
        user=User(f"i{n:04}", tuple(Post(f"{n}-{k}", posts[POSTS * n + k]) for k in range(POSTS))),
        oracle=Oracle(tuple(Aspect(title) for title in titles[4 * n : 4 * n + 4])),
    )
    for n in range(ITEMS)
)
found = audit(Benchmark(card(), items), against=prompts[:500])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(len(found.probes), int(peak[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
def test_2830_items_with_60_posts_each_stay_below_1500_mb() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", CHILD], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"(\d+) (\d+)\n", done.stdout)
    assert found is not None
    assert int(found[1]) == 9
    assert int(found[2]) < 1_500
