"""Wherever a number rests on pairs that a chat model wrote, the verb that tells it says so."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.construct.context_pairs import open_writer, write_pairs
from pluralrm.core import Query, Verdict
from pluralrm.correlate import columns_of_outcomes
from pluralrm.policies.best_of_n import best_of_n, score_pool
from pluralrm.policies.grades import key
from pluralrm.policies.outcomes import find_outcomes, load_outcome, write_outcomes
from pluralrm.runs import score
from tests.cli.test_verbs import pluralrm
from tests.construct.pipeline.worlds import chance
from tests.fake_chat import FakeChat
from tests.grading.markers import served
from tests.policies.pools import babble, pool_of

SAID = "pairs written by scribe from the user's posts, not the user's choices"
QUICK = ("--simulations", "200")


def invented(request: ChatRequest) -> str:
    mark = sha256(request.messages[0][1].encode()).hexdigest()[:6]
    return json.dumps(
        [{"prompt": f"How is {mark} {n} done?", "preferred": f"Rye {n}.", "other": f"Spelt {n}."} for n in range(2)]
    )


@dataclass
class Skilled:
    """Right about so many of the prompts."""

    spec: str
    right: dict[str, str]
    share: float

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            mark = 1.0 if chance(query.prompt) < self.share else -1.0
            yield Verdict(tuple(mark * (text == self.right[query.prompt]) for text in query.candidates))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark with written pairs, and runs of two models with and without them."""
    place = tmp_path_factory.mktemp("written")
    writer = open_writer("scribe", count=2, chat=ScriptedChat(invented, name="scribe"))
    write_pairs(load_benchmark("pocket-prb"), "pocket-prb", writer, place / "pairs.jsonl")
    bench = load_benchmark(str(place / "pairs.jsonl"))
    right = {item.prompt: item.candidates[item.preferred or 0] for item in bench.items}
    for condition in ("none", "pairs:2"):
        for share in (0.95, 0.7, 0.4, 0.1):
            score(bench, Skilled(f"right-{share}", right, share), condition, out=place / "runs")
    return place


def told(words: list[str], folder: Path) -> tuple[str, dict[str, Any]]:
    """Return what a verb prints, in one line, and its JSON."""
    printed = pluralrm(*words, cwd=folder, PLURALRM_CACHE=str(folder / "cache"))
    assert printed.returncode == 0, printed.stderr
    found: dict[str, Any] = json.loads(pluralrm(*words, "--json", cwd=folder).stdout)
    return " ".join(printed.stdout.split()), found


def runs(folder: Path, condition: str) -> list[str]:
    found = [path.parent for path in (folder / "runs").rglob("run.json")]
    return sorted(str(path) for path in found if json.loads((path / "run.json").read_text())["condition"] == condition)


@pytest.mark.parametrize(("condition", "notes"), [("pairs:2", 1), ("none", 0)])
def test_power_of_runs_says_whose_pairs_they_saw(folder: Path, condition: str, notes: int) -> None:
    found = runs(folder, condition)
    said, told_so = told(["power", "items", *found[1:3], "-d", "0.1", *QUICK], folder)
    assert said.count(f"SYNTHESISED: under pairs:2 models were shown {SAID}") == notes
    assert told_so["notes"] == [f"SYNTHESISED: under pairs:2 models were shown {SAID}"] * notes


def test_power_of_models_says_it_too(folder: Path) -> None:
    words = ["power", "models", *runs(folder, "pairs:2"), "-r", "0.9", *QUICK, "--json"]
    done = pluralrm(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["notes"] == [f"SYNTHESISED: under pairs:2 models were shown {SAID}"]


def test_best_of_n_says_whose_pairs_a_model_saw(folder: Path) -> None:
    bench = load_benchmark(str(folder / "pairs.jsonl"))
    pool_of({item.id: babble(item, 4) for item in bench.items[:6]}, folder, bench)
    with FakeChat(served()) as server:
        by = ["-g", f"joint:m,url={server.url}", "--benchmark", "pairs.jsonl"]
        words = ["best-of-n", "pool", "-m", "longest", "-m", "shortest", "-c", "none", "-c", "pairs:2", *by]
        said, found = told(words, folder)
        plain, _ = told(["best-of-n", "pool", "-m", "longest", "-c", "none", *by], folder)
    assert said.count(f"SYNTHESISED: under pairs:2 models were shown {SAID}") == 1
    assert found["notes"] == [f"SYNTHESISED: under pairs:2 models were shown {SAID}"]
    assert "SYNTHESISED" not in plain
    marks = {one.manifest.condition: one.manifest.pairs for one in map(load_outcome, find_outcomes([folder / "pool"]))}
    assert marks == {"none": "", "pairs:2": SAID}


def test_a_correlation_of_picks_says_whose_pairs_the_models_saw(folder: Path) -> None:
    bench = load_benchmark(str(folder / "pairs.jsonl"))
    pool = pool_of({item.id: babble(item, 4) for item in bench.items[:6]}, folder / "picks", bench)
    truth = {key(item, text): chance(text) for item in pool.samples for text in pool.texts(item)}
    for condition in ("none", "pairs:2"):
        picks = [score_pool(pool, bench, model, condition) for model in ("longest", "shortest", "random", "constant")]
        write_outcomes(pool, bench, picks, best_of_n(pool, bench, picks, truth, ks=[1, 4]), grader="hashes")
    outcomes = [load_outcome(one) for one in find_outcomes([Path(pool.folder)])]
    notes = [note for column in columns_of_outcomes(outcomes) for note in column.notes]
    assert len(outcomes) == 8
    assert notes == [f"SYNTHESISED: under {bench.card.name} best-of-4 pairs:2 models were shown {SAID}"]


def test_an_attack_says_whose_pairs_the_model_saw(folder: Path) -> None:
    words = ["attack", "pairs.jsonl", "-m", "longest", "-c", "pairs:2", "-c", "none"]
    done = pluralrm(*words, cwd=folder)
    assert done.returncode == 1  # it is red: who adds words wins
    assert " ".join(done.stdout.split()).count(f"SYNTHESISED: the model was shown {SAID}") == 1
    found = json.loads(pluralrm(*words, "--json", cwd=folder).stdout)
    assert [(one["condition"], one.get("pairs")) for one in found] == [("pairs:2", SAID), ("none", None)]


def test_the_checks_of_a_personalized_model_say_it_too(folder: Path) -> None:
    words = ["attack", "--personal", "pairs.jsonl", "-m", "longest", "-c", "pairs:2"]
    assert " ".join(pluralrm(*words, cwd=folder).stdout.split()).count(f"SYNTHESISED: the model was shown {SAID}") == 1
    [safety] = json.loads(pluralrm(*words, "--json", cwd=folder).stdout)
    assert safety["pairs"] == SAID
