"""Builds and releases invented records in a process of its own: `python -m tests.construct.rmgap.child URL DIR COUNT`.

`--shuffled` hands the records over in another order; `--concurrency` and `--window` change how they are worked on.
"""

import argparse
import sys
from pathlib import Path

from tests.construct.rmgap.worlds import released_from


def main(*words: str) -> int:
    given = argparse.ArgumentParser()
    given.add_argument("url")
    given.add_argument("place", type=Path)
    given.add_argument("count", type=int)
    given.add_argument("--shuffled", action="store_true")
    given.add_argument("--concurrency", type=int, default=4)
    given.add_argument("--window", type=int, default=256)
    return 0 if released_from(**vars(given.parse_args(words))) else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
