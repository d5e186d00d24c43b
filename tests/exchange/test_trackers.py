"""The three libraries: their own stores have the numbers, and nothing but what they were given."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pluralrm.errors import MissingExtraError, SpecError
from pluralrm.exchange import trackers
from pluralrm.exchange.trackers import history, opened_log
from tests.exchange.recorder import Recorder

LIBRARIES = ("trackio", "wandb", "mlflow")


def test_an_unknown_tracker_and_a_missing_library_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match=r"unknown tracker 'wanbd'\. Did you mean 'wandb'"):
        opened_log("wanbd", print)

    def missing(_: str) -> Recorder:
        raise ModuleNotFoundError("No module named 'trackio'", name="trackio")

    monkeypatch.setitem(trackers.TRACKERS, "trackio", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'pluralrm\[trackio\]'"):
        opened_log("trackio", print)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("sqlite:////srv/mlflow.db", ""),
        ("./mlruns", ""),
        ("http://127.0.0.1:5000", ""),
        ("https://me:key@track.example.org/x?token=1", "https://track.example.org"),
        ("postgresql://me:key@10.0.0.1/db", "postgresql://10.0.0.1"),
    ],
)
def test_a_host_elsewhere_is_named_without_what_opens_it(url: str, host: str) -> None:
    assert trackers._elsewhere(url) == host
    assert "key" not in trackers._origin(url)
    assert "token" not in trackers._origin(url)


# ---------------------------------------------------------------- the real libraries


def child(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a command with all stores of the libraries inside a folder, offline."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    stores = {
        "TRACKIO_DIR": folder / "trackio",
        "WANDB_DIR": folder,
        "HOME": folder / "home",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    (folder / "home").mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", *words],
        cwd=folder,
        env={**kept, **{name: str(path) for name, path in stores.items()}, "WANDB_MODE": "offline", "HF_TOKEN": "hf_x"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(folder: Path, *words: str) -> str:
    process = child(folder, *words)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out


def stored(folder: Path, library: str) -> dict[str, list[tuple[int, str, object]]]:
    """Return step, name and value of every entry in a library's store, by the name of its run."""
    return {"trackio": of_trackio, "wandb": of_wandb, "mlflow": of_mlflow}[library](folder)


Entries = dict[str, list[tuple[int, str, object]]]


def of_trackio(folder: Path) -> Entries:
    entries: Entries = {}
    with sqlite3.connect(folder / "trackio" / "pluralrm.db") as store:
        for run, step, text in store.execute("select run_name, step, metrics from metrics order by id"):
            rows = entries.setdefault(run.rpartition(" ")[0], [])
            rows += [(step, name, value) for name, value in json.loads(text).items()]
    return entries


def of_wandb(folder: Path) -> Entries:
    entries: Entries = {}
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        rows = [(step, name, value) for step, values in history(file) for name, value in values.items()]
        entries.setdefault(file.stem, []).extend(row for row in rows if not row[1].startswith("_"))
    return entries


def of_mlflow(folder: Path) -> Entries:
    entries: Entries = {}
    query = "select name, step, key, value from metrics join runs using (run_uuid)"
    with sqlite3.connect(folder / "mlflow.db") as store:
        for run, step, name, value in store.execute(query):
            entries.setdefault(run, []).append((step, name, value))
    for file in folder.glob("mlruns/*/*/artifacts/**/*.*"):
        entries.setdefault("comparison", []).append((0, str(file), None))
    return entries


def files(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.read_bytes()


SCORED = """
import socket, sys
from pathlib import Path
from typer.testing import CliRunner
from pluralrm.cli import app
hosts = []
socket.getaddrinfo = lambda *host, **_: hosts.append(host) or []
def ran(*more):
    words = ["score", "pocket-prb", "-m", "bm25", "-c", "raw:10", "--controls", "--limit", "20", "--json", "-o", "runs"]
    result = CliRunner().invoke(app, [*words, *more])
    assert result.exit_code == 0, result.output
    return result.stdout
ran()
assert {path.name for path in Path().iterdir()} == {"home", "runs"}
assert not {"trackio", "wandb", "mlflow"} & set(sys.modules)
assert len({ran("--log", sys.argv[1]) for _ in range(2)}) == 1
assert hosts == []
print(ran())
"""


@pytest.mark.trackers
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_store_has_the_numbers_of_compare_each_once_and_no_text(tmp_path: Path, library: str) -> None:
    out = ran(tmp_path, "-c", SCORED, library)
    [board] = json.loads(out)
    entries = stored(tmp_path, library)
    [numbers] = [rows for run, rows in entries.items() if any("accuracy" in name for _, name, _ in rows)]
    assert len(numbers) == len({name for _, name, _ in numbers})
    values: Mapping[str, object] = {name: value for _, name, value in numbers}
    for entry in board["entries"]:
        name = "pocket-prb/{}/accuracy".format(entry["condition"].translate(str.maketrans(":,=", "---")))
        estimate = entry["metrics"]["accuracy"]
        ends = {name: estimate["value"], **{f"{name}_{end}": estimate[end] for end in ("low", "high", "n", "failed")}}
        assert {key: values[key] for key in ends} == ends
    [personal] = board["personalization"]
    assert values["pocket-prb/raw-10/gain_low"] == personal["gain"]["low"]
    assert len([1 for rows in entries.values() for _, name, _ in rows if "figures/" in name]) > 2
    texts = user_texts()
    held = [
        content
        for path in tmp_path.iterdir()
        if path.name != "runs"
        for content in (files(path) if path.is_dir() else [path.read_bytes()])
    ]
    assert held
    assert not [text for text in texts for content in held if text.encode() in content]


def user_texts() -> list[str]:
    """Return pieces of every post, prompt and candidate of the benchmark, and the users' ids."""
    from pluralrm.benchmarks import load_benchmark

    pieces = []
    for item in load_benchmark("pocket-prb").items:
        texts = [item.prompt, *item.candidates]
        texts += [post.text for post in item.user.posts] if item.user else []
        pieces += [text[:40] for text in texts if len(text) >= 40]
    assert len(pieces) > 500
    return pieces


TRAINING = """
import sys, time
from pathlib import Path
from pluralrm.exchange.tracking import TrainingLog
from pluralrm.exchange.trackers import opened_log
from tests.exchange import test_tracking as t
library, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
class Slow(TrainingLog):
    def tell(self, folder, progress):
        super().tell(folder, progress)
        print(progress.step.step, flush=True)
        time.sleep(pause)
with opened_log(library, lambda text: sys.exit(text)) as log:
    done = len(t.read_lines(Path("out/metrics.jsonl"), t.PpoStep)) if Path("out/metrics.jsonl").exists() else 0
    t.train(Path("out"), Slow(log), steps, resumed=done // 2)
"""


@pytest.mark.trackers
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_step_of_a_killed_training_is_in_the_store_once(tmp_path: Path, library: str) -> None:
    for until in (4, 9) if library == "trackio" else (5,):
        process = child(tmp_path, "-c", TRAINING, library, "12", "0.3")
        assert process.stdout is not None
        for text in process.stdout:
            if int(text) >= until:
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(0.2)
    ran(tmp_path, "-c", TRAINING, library, "12", "0")
    [rows] = stored(tmp_path, library).values()
    places = [(step, name) for step, name, _ in rows]
    assert len(places) == len(set(places))
    assert {step: value for step, name, value in rows if name == "train/reward"} == {n + 1: n / 7 for n in range(12)}
    assert {step for step, name, _ in rows if name == "held_out/grade"} == {0, 3, 6, 9, 12}


@pytest.mark.trackers
def test_a_store_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    (tmp_path / "trackio").write_text("no folder", encoding="utf-8")
    process = child(
        tmp_path,
        "-c",
        "from pluralrm.cli import main; main()",
        "score",
        "pocket-prb",
        "-m",
        "longest",
        "--limit",
        "4",
        "-o",
        "runs",
        "--log",
        "trackio",
    )
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "longest" in out
    assert err.count("nothing more is logged") == 1
