"""Scores a benchmark of 400 items in a process of its own, to be killed: `python -m tests.runs.child OUT`."""

import sys

from pluralrm.runs import score
from tests.builders import bakery

MODEL = "python:tests.builders:SlowLength,milliseconds=2"

if __name__ == "__main__":
    run = score(bakery(400), MODEL, "recent:2", out=sys.argv[1])
    sys.exit(0 if run.complete else 3)
