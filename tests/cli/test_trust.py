"""`--trust-remote-code`: code runs where a model is named, and nowhere else."""

import json
from pathlib import Path

import pytest

from pluralrm.cli.options import with_trust
from pluralrm.errors import SpecError
from pluralrm.models import KINDS, ModelKind, parse_model
from pluralrm.specs import Form
from tests.cli.test_verbs import pluralrm


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds with a folder, whatever else the table holds."""
    row = ModelKind("nowhere:load", "", Form("required", keys=("code", "dtype")))
    monkeypatch.setattr("pluralrm.models.KINDS", {**KINDS, "hf": row, "dpo": row})


def test_trust_is_written_into_the_spec_of_the_named_model_alone() -> None:
    models = ["hf:a/b@v1,dtype=float32", "hf:a/b", "dpo:a/b", "hf:other", "longest", "python:a/b"]
    wanted = [*models[:1], "hf:a/b,code=trusted", "dpo:a/b,code=trusted", *models[3:]]
    assert with_trust(models, ["a/b"]) == wanted
    assert with_trust(models, []) == models


def test_trust_is_given_once_and_keeps_what_the_spec_says() -> None:
    [model] = with_trust(["hf:a%2Cb,dtype=float32,code=trusted"], ["a,b", "a,b"])
    assert parse_model(model) == parse_model("hf:a%2Cb,code=trusted,dtype=float32")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("owner/nam", "Did you mean 'owner/name'?"),
        ("hf:owner/name", "Did you mean 'owner/name'?"),
        ("owner/name@main", "Did you mean 'owner/name'?"),
        ("longest", "Known: owner/name."),
        ("my_module:Mine", "Known: owner/name."),
    ],
)
def test_a_name_that_is_no_model_of_the_command_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        with_trust(["hf:owner/name", "longest", "python:my_module:Mine"], [name])
    assert f"--trust-remote-code {name}: no model folder of that name. {hint}" == str(caught.value)


def test_the_verbs_that_load_models_take_it(tmp_path: Path) -> None:
    (tmp_path / "ratings.jsonl").write_text(json.dumps({"output": "a", "profile": [], "human_score": 1}))
    verbs = [["score", "pocket-prb", "-m"], ["check"], ["check", "--benchmark"], ["align", "ratings.jsonl", "-m"]]
    for verb in verbs:
        done = pluralrm(*verb, "longest", "--trust-remote-code", "longest", cwd=tmp_path)
        assert done.returncode == 2
        assert "--trust-remote-code longest: no model folder of that name" in done.stderr
