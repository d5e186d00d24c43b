"""`train verl export` from the command line: refusals before anything is written, and files found from anywhere."""

import json
import shlex
from pathlib import Path

import pytest

from pluralrm.templates import load_template
from tests.forked import command

WORDS = (
    "train",
    "verl",
    "export",
    "pocket-prb",
    "--policy",
    "Some/Policy",
    "-c",
    "raw:3",
    "--set",
    "batch=8",
    "--set",
    "minibatch=4",
)


MINE = """
from pluralrm import Verdict

class Model:
    spec = "mine"
    def score(self, queries):
        return (Verdict(tuple(float(len(one)) for one in query.candidates)) for query in queries)

class Single(Model):
    compares = False
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reward", "lsa"), "compares the answers"),
        (("--reward", "python:mine:Model"), "compares the answers"),
        (("--reward", "python:theirs:Model"), "no module 'theirs'"),
        (("--reward", "longest", "--no-kl", "--set", "kl_coefficient=0.1"), "given twice"),
        (("--reward", "longest", "lm:some/folder"), "wanted 'some/folder', without lm:"),
        (("--reward", "longest", "--reward-condition", "pairs:2"), "pairs:2: "),
    ],
)
def test_what_verl_could_not_train_with_is_refused_before_anything_is_written(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    *rest, policy = words if words[-1].startswith("lm:") else (*words, "Some/Policy")
    line = [policy if word == "Some/Policy" else word for word in WORDS]
    done = command([*line, *rest, "-o", "out"], cwd=tmp_path, environment={})
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_class_that_scores_each_answer_by_itself_is_found_from_the_training_s_own_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    words = [*WORDS, "--reward", "python:mine:Single", "-o", "out"]
    done = command(words, cwd=tmp_path, environment={})
    assert done.returncode == 0, done.stderr
    [line] = [one for one in (tmp_path / "out" / "launch.sh").read_text().splitlines() if '"$PLURALRM" serve' in one]
    assert line.startswith(f"PYTHONPATH={shlex.quote(str(tmp_path))}${{PYTHONPATH:+:$PYTHONPATH}} ")


def test_files_that_are_named_from_here_are_found_from_the_training_s_own_folder(tmp_path: Path) -> None:
    """The script changes into its folder, and there a relative path would be another file or none."""
    template = load_template("persona-v1")
    (tmp_path / "mine.jinja").write_text(template.source)
    (tmp_path / "head").mkdir()
    words = [
        "train",
        "verl",
        "export",
        "simulated:users=20,items=1",
        "--policy",
        "head",
        "--set",
        "batch=8",
        "--set",
        "minibatch=4",
    ]
    reward = ["--reward", "hf:head,template=mine.jinja", "-o", "out"]
    done = command([*words, *reward], cwd=tmp_path, environment={})
    assert done.returncode == 0, done.stderr
    [line] = [one for one in (tmp_path / "out" / "launch.sh").read_text().splitlines() if '"$PLURALRM" serve' in one]
    named = shlex.split(line)
    assert f"hf:{tmp_path}/head,template={tmp_path}/mine.jinja" in named
    assert "simulated:users=20,items=1" in named
    assert f"actor_rollout_ref.model.path='{tmp_path}/head'" in (tmp_path / "out" / "overrides.txt").read_text()
    assert json.loads((tmp_path / "out" / "export.json").read_text())["benchmark"] == "simulated:users=20,items=1"
