"""A dtype is never silent, and what overflows is a failure by name."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pluralrm.core import Failure, Query
from pluralrm.errors import RunError, SpecError
from pluralrm.models import load_model
from pluralrm.models.neural.engine import Values
from pluralrm.models.neural.folder import open_folder
from pluralrm.models.neural.kind import NeuralModel
from pluralrm.models.neural.loading import LoadSettings, precision
from pluralrm.models.neural.passes import Group
from pluralrm.runs import find_runs, load_manifest, load_run, score
from tests.builders import bakery
from tests.cli.test_verbs import pluralrm
from tests.models.neural.tiny import language_folder, reward_folder

pytestmark = pytest.mark.hf


def test_a_dtype_other_than_float32_stands_in_the_manifest_and_on_every_screen(desk: Path) -> None:
    words = ["-m", "hf:head", "-m", "hf:head,dtype=bfloat16", "-c", "none", "--limit", "3", "-o", "dtypes"]
    assert pluralrm("score", "pocket-prb", *words, cwd=desk).returncode == 0
    runs = {run.model: run for run in map(load_run, find_runs([desk / "dtypes"]))}
    low = runs["hf:head,dtype=bfloat16"]
    assert (runs["hf:head"].dtype, low.dtype) == ("", "bfloat16")
    assert load_manifest(low.path).identity["dtype"] == "bfloat16"
    assert "dtype" not in load_manifest(runs["hf:head"].path).identity
    assert "BFLOAT16: computed in bfloat16" in pluralrm("show", low.path, cwd=desk).stdout
    for words in ([], ["--all"]):
        text = " ".join(pluralrm("compare", "dtypes", *words, cwd=desk).stdout.split())
        assert "one model in two dtypes under none: hf:head (float32), hf:head,dtype=bfloat16 (bfloat16)." in text
        assert "computed in bfloat16" in text
    assert pluralrm("report", "dtypes", "-o", "dtypes.html", cwd=desk).returncode == 0
    html = (desk / "dtypes.html").read_text()
    assert "BFLOAT16" in html
    assert "One model in two dtypes under none" in html


def test_a_run_that_began_in_another_dtype_is_not_resumed(desk: Path) -> None:
    model = load_model(f"hf:{desk}/head")
    assert isinstance(model, NeuralModel)
    half = replace(model, loading=replace(model.loading, dtype="bfloat16"))  # as a GPU's default may be
    score(bakery(4), half, "none", out=desk / "mixed", limit=2)
    with pytest.raises(RunError, match="dtype"):
        score(bakery(4), model, "none", out=desk / "mixed", limit=2)


def test_float16_on_a_cpu_is_refused_before_weights_are_read(desk: Path) -> None:
    for model in ("hf:head,dtype=float16", "choice:lm,device=cpu,dtype=float16", "dpo:lm,reference=base,dtype=float16"):
        spec = model.replace(":", f":{desk}/").replace("reference=", f"reference={desk}/")
        with pytest.raises(SpecError, match="wanted bfloat16, float32, or a GPU"):
            load_model(spec)


class Overflowing:
    """A network whose numbers overflow for the first answer."""

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        for group in groups:
            yield [np.full((1, 1), np.nan if place == 0 else 1.5) for place, _ in enumerate(group)]


def test_what_overflows_is_a_failure_by_name_and_never_a_number(desk: Path) -> None:
    model = load_model(f"hf:{desk}/head")
    assert isinstance(model, NeuralModel)
    half = LoadSettings("float16", "cuda")
    [verdict] = replace(model, loading=half, network=Overflowing).score([Query("q", "Which?", ("Rye.", "Spelt."))])
    detail = "nan in float16: numbers above 65,504 overflow; use dtype=bfloat16 or float32"
    assert verdict.scores == (Failure("nonfinite", detail), 1.5)


@pytest.mark.parametrize("kind", ["hf:{}", "endo:{}", "verifier:{}", "choice:{}"])
def test_weights_that_overflow_in_any_dtype_fail_every_kind(kind: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write, last = (reward_folder, "score.weight") if kind.startswith("hf") else (language_folder, "lm_head.weight")
    folder = write(tmp_path / "m", tie_word_embeddings=False)
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {last: weights[last].sign() * 3e38}, folder / "model.safetensors", metadata={"format": "pt"})
    [verdict] = load_model(kind.format(folder)).score([Query("q", "Which?", ("Rye.", "Spelt, or rye."))])
    assert [score.kind for score in verdict.failures] == ["nonfinite"] * 2
    assert all("in float32" in score.detail for score in verdict.failures)


@pytest.mark.parametrize(
    ("config", "named", "device", "held"),
    [
        ({}, "", "cpu", "float32"),
        ({}, "bfloat16", "cpu", "bfloat16"),
        ({}, "", "cuda", "float32"),
        ({"dtype": "bfloat16"}, "", "cpu", "float32"),
        ({"dtype": "bfloat16"}, "", "cuda", "bfloat16"),
        ({"torch_dtype": "float16"}, "", "map", "float16"),
        ({"dtype": "bfloat16"}, "float32", "cuda", "float32"),
    ],
)
def test_weights_are_held_as_named_else_in_float32_on_a_cpu_else_as_stored(  # noqa: PLR0917 - a table
    config: dict[str, str], named: str, device: str, held: str, tmp_path: Path
) -> None:
    folder = reward_folder(tmp_path / "m")
    settings = json.loads((folder / "config.json").read_text())
    settings = {key: value for key, value in settings.items() if key not in {"dtype", "torch_dtype"}} | config
    (folder / "config.json").write_text(json.dumps(settings))
    assert precision(open_folder(str(folder), kind="hf"), LoadSettings(named, device)) == held
