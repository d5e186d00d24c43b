"""The commands that made the golden folders, and the questions whose answers are frozen.

`python -m tests.golden.freeze` writes tests/golden/frozen/ from them; test_golden.py asks the questions of the frozen
folders, and remakes the folders that need no neural network.
"""

from collections.abc import Sequence
from dataclasses import dataclass

JUDGE = "judge:golden,url=http://127.0.0.1:8000/v1"
WORLD = "simulated:users=12,items=2"
TRAIN = [
    *(
        "train",
        "ppo",
        "simulated:users=24,items=2,domains=1",
        "-p",
        "lm:tiny-lm",
        "--reward",
        "shortest",
        "-g",
        "truth",
    ),
    *("--steps", "2", "--set", "batch=8", "--set", "minibatch=4", "--set", "max_tokens=8", "--set", "rows=8"),
    *("-o", "training"),
]


@dataclass(frozen=True)
class Kind:
    """Folders of one kind, and the commands that write them beside the others."""

    name: str
    folders: Sequence[str]
    commands: Sequence[Sequence[str]]
    neural: bool = False
    lasting: str = "**/*.jsonl"
    """Data files that the same commands write again byte for byte, times and seals aside; empty: none."""


def _score(model: str, *conditions: str, bench: str = "pocket-prb", more: Sequence[str] = (), out: str) -> list[str]:
    return ["score", bench, "-m", model, *(word for name in conditions for word in ("-c", name)), *more, "-o", out]


KINDS = (
    Kind(
        "runs",
        ["runs", "rmgap"],
        [
            *(
                _score(name, "none", "raw:4", "swapped:4", more=["--limit", "12"], out="runs")
                for name in ("bm25", "random")
            ),
            _score("longest", "none", bench="pocket-rmgap", more=["--limit", "12"], out="rmgap"),
        ],
    ),
    Kind(
        "judged",
        ["judged"],
        [_score(JUDGE, "none", "raw:4", more=["--limit", "6", "--replay", "tape.jsonl"], out="judged")],
    ),
    Kind(
        "pool",
        ["pool", "same"],
        [
            ["sample", WORLD, "-p", "simulated", "-n", "4", "-o", "pool"],
            ["grade", "pool", "-g", "truth"],
            [
                *(
                    "best-of-n",
                    "pool",
                    "-m",
                    "known:posts",
                    "-m",
                    "known:posts,blur=2",
                    "-m",
                    "random",
                    "-m",
                    "longest",
                ),
                *("-c", "raw:4"),
            ],
            *(
                _score(name, "raw:4", bench=WORLD, out="same")
                for name in ("known:posts", "known:posts,blur=2", "random", "longest")
            ),
        ],
    ),
    Kind(
        "fit",
        ["fit", "fitted"],
        [
            ["fit", "pref", "--train", "simulated:users=20,items=2", "--features", "tfidf:16", "-o", "fit"],
            _score("personal:fit", "none", "pairs:4", bench=WORLD, out="fitted"),
        ],
    ),
    Kind(
        "build",
        ["prb-build", "rmgap-build"],
        [["construct", "prb", "--demo", "-o", "prb-build"], ["construct", "rmgap", "--demo", "-o", "rmgap-build"]],
        lasting="release/**/*.jsonl",  # a stage's lines stand in the order in which replies came
    ),
    Kind(
        "plan",
        ["plan", "judgments.jsonl"],
        [
            ["annotate", "plan", "pocket-prb", "-n", "6", "-k", "3", "--items", "20", "-o", "plan"],
            ["annotate", "rehearse", "plan", "-o", "judgments.jsonl"],
        ],
        lasting="",  # screens have names drawn from the system's randomness: annotators cannot guess an item's
    ),
    Kind("study", ["study"], [["study", "study.toml", "-o", "study"]]),
    Kind(
        "neural", ["neural"], [_score("hf:tiny-rm", "none", "raw:2", more=["--limit", "4"], out="neural")], neural=True
    ),
    Kind("training", ["training", "tiny-lm"], [TRAIN], neural=True),
)


@dataclass(frozen=True)
class Question:
    """A command that prints JSON about frozen folders; a glob stands for what it matches."""

    name: str
    command: Sequence[str]
    of: str


QUESTIONS = (
    Question("compare-runs", ["compare", "runs", "--json"], "runs"),
    Question("compare-rmgap", ["compare", "rmgap", "--json"], "runs"),
    Question("show-run", ["show", "runs/*/bm25/raw*", "--json"], "runs"),
    Question("compare-judged", ["compare", "judged", "--json"], "judged"),
    Question("show-judged", ["show", "judged/*/*/none*", "--json"], "judged"),
    Question("best-of-n", [*KINDS[2].commands[2], "--json"], "pool"),
    Question("correlate", ["correlate", "same", "--outcome", "pool", "--json"], "pool"),
    Question("compare-fitted", ["compare", "fitted", "--json"], "fit"),
    Question("audit-pocket", ["audit", "pocket-prb", "--json"], ""),
    Question("audit-build", ["audit", "prb:prb-build/release/data/contrary", "--json"], "build"),
    Question("agreement", ["annotate", "agreement", "plan", "--judgments", "judgments.jsonl", "--json"], "plan"),
    Question("claim", ["annotate", "claim", "plan", "--judgments", "judgments.jsonl", "--json"], "plan"),
    Question("compare-neural", ["compare", "neural", "--json"], "neural"),
    Question("training", [*TRAIN, "--json"], "training"),
)
