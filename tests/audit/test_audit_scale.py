"""A benchmark of the true size fits into the memory of a laptop."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.construct.full_size import write_prb

CHILD = """
import re, sys
from pathlib import Path
from pluralrm.benchmarks import load_benchmark
from pluralrm.audit import audit

bench = load_benchmark(f"prb:{sys.argv[1]}")
found = audit(bench, against=[item.prompt for item in bench.items[:500]])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(len(found.probes), sum(len(user.posts) for user in bench.users), int(peak[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
def test_2830_items_with_348000_posts_stay_below_1500_mb(tmp_path: Path) -> None:
    write_prb(tmp_path)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"(\d+) (\d+) (\d+)\n", done.stdout)
    assert found is not None
    assert int(found[1]) == 9
    assert int(found[2]) > 340_000
    assert int(found[3]) < 1_500
