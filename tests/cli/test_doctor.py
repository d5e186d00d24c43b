"""`pluralrm doctor`: what it prints, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_terminal import at_a_terminal
from tests.cli.test_verbs import pluralrm
from tests.doctor.looking import BENCH, NAMES
from tests.models.neural.tiny import reward_folder
from tests.models.neural.tokenizers import Build

hf = pytest.mark.hf

_CODE = """
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
import torch

class LastColumn(LlamaPreTrainedModel):
    '''Reads the last column of a batch, which is padding for all but the longest.'''

    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.score = torch.nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        return SequenceClassifierOutput(logits=self.score(self.model(input_ids=input_ids).last_hidden_state[:, -1]))
"""


@hf
def test_json_holds_all_ids_and_every_sign(tmp_path: Path) -> None:
    spec = f"hf:{reward_folder(tmp_path / 'm')}"
    item = BENCH.items[3].id
    done = pluralrm("doctor", spec, "-c", "raw:2", "--item", item, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["model", "benchmark", "condition", "item", "sample", "signs"]
    assert [found[name] for name in ("model", "benchmark", "condition", "item")] == [spec, "pocket-prb", "raw:2", item]
    fields = ["name", "colour", "found", "reason", "remedy", "differs"]
    assert [list(sign) for sign in found["signs"]] == [fields] * len(NAMES)
    for view in found["sample"]:
        assert list(view) == ["ids", "pieces", "start", "end", "read", "answer"]
        assert len(view["ids"]) == len(view["pieces"]) > view["end"] > view["start"] > 0


@hf
def test_a_terminal_of_80_columns_shows_the_ends_of_the_answer(tmp_path: Path) -> None:
    folder = reward_folder(tmp_path / "m", build=Build(pad="</s>", template="instructions"))
    words = ("doctor", f"hf:{folder}", "-c", "raw:2")
    shown = at_a_terminal(*words, cwd=tmp_path)
    piped = pluralrm(*words, cwd=tmp_path)
    assert piped.returncode == 0
    for out in (shown, piped.stdout):
        assert [text for text in out.splitlines() if len(text.rstrip()) > 80] == []
        assert "10 green, 1 yellow, 0 red" in out
        flat = " ".join(out.split())
        assert "'Ġ' [ 42 'G' 76 'i' 89 'v' …" in flat
        assert "17 '.' ] 2 '</s>'" in flat
    assert "\x1b" not in piped.stdout


@hf
def test_a_model_of_which_nothing_fits_says_so_at_the_terminal(tmp_path: Path) -> None:
    done = pluralrm("doctor", f"hf:{reward_folder(tmp_path / 'm')},max_tokens=20", cwd=tmp_path)
    assert done.returncode == 1
    assert "no conversation can be asked about" in done.stdout


def test_other_kinds_are_checked_for_their_promises_and_no_more(tmp_path: Path) -> None:
    done = pluralrm("doctor", "longest", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "green   alone = in a batch: largest difference 0" in done.stdout
    assert "9 green, 0 yellow, 0 red" in done.stdout
    assert "longest is no folder of weights" in done.stderr


def test_a_broken_model_of_ones_own_is_red(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class Broken:\n    def score(self, queries):\n        return [1 / 0]\n")
    done = pluralrm("doctor", "python:own:Broken", "--json", cwd=tmp_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["sample"], found["item"]) == ([], "")
    name, colour, what, *_ = found["signs"][-1].values()
    assert (name, colour) == ("answers", "red")
    assert what.startswith("ZeroDivisionError: division by zero (")
    assert what.endswith("own.py:3); asked one by one, none of the 8 gets one verdict")


def test_a_look_at_a_baseline_loads_no_torch() -> None:
    code = (
        "import sys; from pluralrm.doctor import is_neural; from pluralrm.models import load_model\n"
        "assert not is_neural(load_model('longest')); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def reads_padding(tmp_path: Path) -> Path:
    """A model whose own code makes a score depend on what is scored beside it."""
    folder = reward_folder(tmp_path / "m")
    (folder / "modeling_own.py").write_text(_CODE)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["LastColumn"],
        "auto_map": {"AutoModelForSequenceClassification": "modeling_own.LastColumn"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@hf
def test_a_model_that_reads_its_padding_is_red_once_its_code_may_run(reads_padding: Path, tmp_path: Path) -> None:
    modules = {"HF_MODULES_CACHE": str(tmp_path / "modules")}
    trusted = ("--trust-remote-code", str(reads_padding), "--json")
    done = pluralrm("doctor", f"hf:{reads_padding}", *trusted, cwd=tmp_path, **modules)
    assert done.returncode == 1, done.stderr
    batching = next(sign for sign in json.loads(done.stdout)["signs"] if sign["name"] == "batching")
    assert batching["colour"] == "red"
    assert batching["reason"].startswith("not so: a score is the same alone and beside others")
