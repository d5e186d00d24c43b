"""The script of an exported training: its own server, under its own run, and nothing left over whoever dies first."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

import pytest

import pluralrm
from pluralrm.training.verl import export
from tests.training.verl.test_exporting import SMALL, what

TRAINER = """
import asyncio, json, os, sys
from pathlib import Path
from pluralrm.serve.trainers import compute_score
Path("seen.json").write_text(json.dumps({"words": sys.argv[1:], "url": os.environ["PLURALRM_REWARD_URL"]}))
print(asyncio.run(compute_score("pocket-prb", "four", None, {"item": "art-01"})), flush=True)
if "fail" in sys.argv: sys.exit(7)
if "stay" in sys.argv: import time; time.sleep(600)
"""


MINE = """
from pluralrm import Verdict

class Thrice:
    spec, compares = "thrice", False
    def score(self, queries):
        return (Verdict(tuple(3.0 * len(one) for one in query.candidates)) for query in queries)
"""


class Ended(NamedTuple):
    """A training that has ended: its folder, its last word, its exit status and what it printed."""

    folder: Path
    word: str
    code: int
    said: str
    complained: str


def with_stand_in(place: Path) -> Path:
    """Return the folder of an exported training, with a program of three lines where verl would be."""
    done = export(what(), place / "it's $(my) out", SMALL)
    stand_in = place / "stand-in" / "verl" / "trainer"
    stand_in.mkdir(parents=True)
    (stand_in / "main_ppo.py").write_text(TRAINER)
    return done.folder


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return with_stand_in(tmp_path)


def launched(folder: Path, *words: str) -> subprocess.Popen[str]:
    program = folder.parent / "pluralrm"
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from pluralrm.cli import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    shown = folder.parent / "python3"
    shown.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    shown.chmod(0o755)
    environment = {
        **os.environ,
        "PLURALRM": str(program),
        "PATH": f"{folder.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(folder.parent / "stand-in"), str(Path(pluralrm.__file__).parents[1])]),
    }
    return subprocess.Popen(
        ["bash", str(folder / "launch.sh"), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hang_up_as_usual,  # noqa: PLW1509 - no threads here
    )


def _hang_up_as_usual() -> None:
    """A shell ignores the signal for good where it was ignored at its start, as under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def gone(folder: Path) -> bool:
    """Return whether the server that the training asked does not listen any more."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(json.loads((folder / "seen.json").read_text())["url"])
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex((parts.hostname, parts.port)):
                return True
        time.sleep(0.1)
    return False


def ended(folder: Path, word: str) -> Ended:
    process = launched(folder, word)
    said, complained = process.communicate(timeout=240)
    return Ended(folder, word, process.returncode, said, complained)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A training that has ended well."""
    return ended(with_stand_in(tmp_path_factory.mktemp("trained")), "end")


@pytest.mark.parametrize("code", [0, 7])
def test_the_script_trains_against_its_own_server_and_takes_it_along(code: int, trained: Ended, tmp_path: Path) -> None:
    done = trained if code == 0 else ended(with_stand_in(tmp_path), "fail")
    assert done.code == code, done.complained
    assert "{'score': 4.0}" in done.said
    told = json.loads((done.folder / "seen.json").read_text())
    words = told["words"]
    assert words[-1] == done.word
    worker = "+ray_kwargs.ray_init.runtime_env.env_vars.PLURALRM_REWARD"
    assert f"{worker}_URL='{told['url']}'" in words
    [place] = [one for one in words if one.startswith("data.train_files='/")]
    assert place.partition("=")[2] == "'" + str(done.folder / "train.parquet").replace("'", "\\'") + "'"
    assert "reward.custom_reward_function.path='pkg://pluralrm.serve.trainers'" in words
    assert gone(done.folder)


def test_a_class_of_one_s_own_rewards_from_the_folder_where_it_was_exported(tmp_path: Path) -> None:
    place = tmp_path / "stand-in" / "verl" / "trainer"
    place.mkdir(parents=True)
    (place / "main_ppo.py").write_text(TRAINER)
    mine = tmp_path / "it's $(mine)"
    mine.mkdir()
    (mine / "model_of_this_test.py").write_text(MINE)
    reward = what(reward="python:model_of_this_test:Thrice")._replace(modules=str(mine))
    said, complained = launched(export(reward, tmp_path / "out", SMALL).folder, "end").communicate(timeout=240)
    assert "{'score': 12.0}" in said, complained


def test_interrupted_the_script_ends_its_server(exported: Path) -> None:
    process = launched(exported, "stay")
    while not (exported / "seen.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode != 0
    assert gone(exported)


def test_a_server_that_does_not_start_ends_the_script(tmp_path: Path) -> None:
    done = export(what(reward="nobody-knows-this"), tmp_path / "out", SMALL)
    process = launched(done.folder)
    said, complained = process.communicate(timeout=240)
    assert process.returncode == 3, said
    assert "nobody-knows-this" in complained
    assert "did not start" in complained


def begun(process: subprocess.Popen[str], folder: Path) -> None:
    """Return when the training has had its first reward."""
    while not (folder / "seen.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def servers(folder: Path) -> list[int]:
    """Return the processes whose command line names the training's run."""
    [log] = folder.glob("*/server.env")
    [run] = [line.partition("=")[2] for line in log.read_text().splitlines() if "REWARD_RUN" in line]
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_text()
        except OSError:
            continue  # it has ended
        if run in words and "serve" in words.split("\0"):
            found.append(int(place.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="a system without /proc")
def test_when_the_server_dies_the_training_is_stopped_and_the_script_says_why(exported: Path) -> None:
    process = launched(exported, "stay")
    begun(process, exported)
    [server] = servers(exported)
    os.kill(server, signal.SIGKILL)
    _, complained = process.communicate(timeout=240)  # the trainer would stay
    assert process.returncode == 4
    assert "the reward server ended" in complained


def test_the_script_alone_interrupted_ends_both(exported: Path) -> None:
    """As a scheduler does it: the signal goes to the script, not to what it started."""
    process = launched(exported, "stay")
    begun(process, exported)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 143
    assert gone(exported)


def test_checkpoints_of_another_reward_are_not_gone_on_with(trained: Ended, tmp_path: Path) -> None:
    """verl resumes from whatever checkpoint it finds."""
    exported = Path(copytree(trained.folder.parent, tmp_path / "copy")) / trained.folder.name
    [out] = [file.parent for file in exported.glob("*/server.env")]
    (out / "checkpoints").mkdir()
    assert ended(exported, "end").code == 0
    script = exported / "launch.sh"
    script.write_text(script.read_text().replace("serve longest", "serve shortest"))
    (exported / "seen.json").unlink()
    other = ended(exported, "end")
    assert other.code == 5
    assert "trained against another reward server" in other.complained
    assert not (exported / "seen.json").exists()


def test_a_hang_up_ends_both(exported: Path) -> None:
    process = launched(exported, "stay")
    begun(process, exported)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=240)
    assert process.returncode == 129
    assert gone(exported)
