"""What is around the models: starting, loading and ranking at full size, resuming a complete run, the first score."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work
from bench.scoring import config
from pluralrm import load_benchmark
from pluralrm.benchmarks.lamp_qa import COUNTS
from pluralrm.benchmarks.rmgap import KEYS
from pluralrm.retrieval import Ranker, Request

MAIN = "import sys; from pluralrm.cli import main; sys.argv[0] = 'pluralrm'; main()"


def run(*words: str) -> None:
    """Run Python in a process of its own, with the package of this one and with bytecode, as an installed one has."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *words]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)  # noqa: S603


class Prose:
    """Texts cut from the prose of the pocket benchmark."""

    def __init__(self, seed: int) -> None:
        users = load_benchmark("pocket-prb").users
        self._words = [word for user in users for post in user.posts for word in post.text.split()]
        self.rng = random.Random(seed)

    def text(self, words: int) -> str:
        """Return so many words."""
        start = self.rng.randrange(len(self._words) - words)
        return " ".join(self._words[start : start + words])

    def post(self) -> str:
        """Return about 110 words, lognormal; one in seven has an apostrophe beyond ASCII."""
        text = self.text(int(min(600, max(8, self.rng.lognormvariate(4.5, 0.65)))))
        return text.replace("'", "\u2019") if self.rng.random() < 1 / 7 else text


# ---- starting


def nothing(setup: Setup) -> Path:
    return setup.folder()


starting = Shape("startup-process", "a process from its start to its end", nothing)


@starting.side
def python(_: Path) -> Work:
    return lambda: run("-c", "pass")


@starting.side
def import_pluralrm(_: Path) -> Work:
    return lambda: run("-c", "import pluralrm")


@starting.side
def help_page(_: Path) -> Work:
    return lambda: run("-c", MAIN, "--help")


@starting.side
def help_of_score(_: Path) -> Work:
    return lambda: run("-c", MAIN, "score", "--help")


# ---- Personalized RewardBench: 2,830 users, 348,090 posts, one JSON list a domain, 227 MB


class Published(NamedTuple):
    """The spec of a copy, and how many posts are in it."""

    spec: str
    posts: int


def rewardbench(setup: Setup) -> Published:
    prose, folder, users = Prose(1), setup.folder(), 0
    for domain, count in COUNTS["test"].items():
        (folder / domain).mkdir()
        names = [f"{domain}_{index}" for index in range(setup.size(count, 2))]
        users += len(names)
        rows = list(questions(prose, names, setup.size(123, 3)))
        (folder / domain / "test.json").write_text(json.dumps(rows), encoding="utf-8")
    return Published(f"prb:{folder}", users * setup.size(123, 3))


def questions(prose: Prose, names: Sequence[str], posts: int) -> Iterator[dict[str, object]]:
    for name in names:
        profile = [{"id": f"{name}_{index}", "category": "writers", "text": prose.post()} for index in range(posts)]
        aspect = {"aspect": prose.text(5), "evidence": prose.text(20), "reason": prose.text(30)}
        texts = {"question": prose.text(30), "narrative": prose.text(90), "chosen": prose.text(95)}
        texts |= {"rejected": prose.text(96), "category": "writers"}
        yield {"id": name, **texts, "profile": profile, "rubric_aspects": [aspect] * 5}


loading = Shape("startup-prb", "Personalized RewardBench at its size", rewardbench, unit="posts", rounds=3)


@loading.side
def load(data: Published) -> Work:
    return lambda: Outcome(units=data.posts, results=[len(load_benchmark(data.spec).items)])


@loading.side
def rank_by_words(data: Published) -> Work:
    items = load_benchmark(data.spec).items
    requests = [Request(item.id, item.prompt, item.user.posts) for item in items if item.user]

    def work() -> Outcome:
        Ranker().rank(requests)
        return Outcome(units=data.posts, results=[len(items)])

    return work


# ---- RMGAP: 13,164 items


def rmgap(setup: Setup) -> list[str]:
    """Return the words of the command whose run is complete."""
    prose, folder = Prose(2), setup.folder()
    records = [
        {
            "id": f"record-{index}",
            "domain": "Chat",
            "responses": [{"key": key, "text": prose.text(prose.rng.randrange(60, 350))} for key in KEYS],
            "prompt_groups": [
                {
                    "group": group,
                    "winner": key,
                    "prompts": [
                        {"role": role, "text": f"{index}-{group} {prose.text(60)}"}
                        for role in ("base", "rewrite", "rewrite")
                    ],
                }
                for group, key in enumerate(KEYS, 1)
            ],
        }
        for index in range(setup.size(1_097, 3))
    ]
    file = folder / "rmgap.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    words = ["-c", MAIN, "score", f"rmgap:{file}", "-m", "longest", "-o", str(folder / "runs")]
    run(*words)
    return words


resuming = Shape("startup-resume", "a complete run of 13,164 items, scored again", rmgap, rounds=3)


@resuming.side
def score_again(words: list[str]) -> Work:
    return lambda: run(*words)


# ---- a reward head of 52 M weights, from the start of a process to its first score

FIRST = """
import sys
from pluralrm.models.neural.folder import open_folder
from pluralrm.models.neural.loading import LoadSettings, open_head
from pluralrm.models.neural.trees import pooled
head = open_head(open_folder(sys.argv[1], kind="hf"), LoadSettings(dtype="float32", device="cpu"))
list(head.values([[pooled(tuple(range(5, 170)), 0)]]))
"""


def head_folder(setup: Setup) -> Path:
    import transformers

    folder = setup.folder()
    transformers.AutoModelForSequenceClassification.from_config(config(quick=setup.quick)).save_pretrained(folder)
    return folder


first = Shape("startup-hf", "a reward head's first score", head_folder, needs=("torch", "transformers"), rounds=3)


@first.side
def process(folder: Path) -> Work:
    return lambda: run("-c", FIRST, str(folder))


@first.side
def import_torch(_: Path) -> Work:
    return lambda: run("-c", "import torch")


@first.side
def import_class(_: Path) -> Work:
    return lambda: run("-c", "from transformers.models.qwen2.modeling_qwen2 import Qwen2ForSequenceClassification")


@first.side
def weights_and_score(folder: Path) -> Work:
    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head
    from pluralrm.models.neural.trees import pooled

    def work() -> None:
        head = open_head(open_folder(str(folder), kind="hf"), LoadSettings(dtype="float32", device="cpu"))
        list(head.values([[pooled(tuple(range(5, 170)), 0)]]))

    return work
