"""The table of kinds costs nothing until a model is loaded: no torch, and a clear word where it is not installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pluralrm.models import KINDS, load_model, model_scale, parse_model

NEURAL = ("hf", "dpo", "endo", "verifier", "choice")
_HEAVY = ("torch", "transformers", "safetensors", "tokenizers")


def _python(code: str, **texts: str) -> str:
    words = [sys.executable, "-W", "error", "-c", code, json.dumps(texts)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_neither_the_table_nor_other_kinds_load_torch() -> None:
    found = _python(
        "import sys; from pluralrm.models import KINDS, load_model, model_scale, parse_model\n"
        "for name in ('longest', 'constant', 'random', 'bm25'): load_model(name)\n"
        "for name in ('hf', 'dpo', 'endo', 'verifier', 'choice'): model_scale(name + ':x'), parse_model(name + ':x')\n"
        "from pluralrm.cli import main; sys.argv = ['pluralrm', 'list', 'models']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('loaded:', [name for name in {_HEAVY!r} if name in sys.modules])"
    )
    assert "loaded: []" in found
    for kind in NEURAL:
        assert f"{kind}:" in found


@pytest.mark.parametrize("missing", ["torch", pytest.param("transformers", marks=pytest.mark.hf)])
def test_a_missing_extra_is_named(missing: str) -> None:
    found = _python(
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from pluralrm.errors import MissingExtraError\n"
        "from pluralrm.models import load_model\n"
        f"for kind in {NEURAL!r}:\n"
        "    try: load_model(kind + ':somewhere')\n"
        "    except MissingExtraError as exc: print(exc)"
    )
    assert found.splitlines() == [f"{kind}: needs the extra 'hf': pip install 'pluralrm[hf]'" for kind in NEURAL]


def test_neural_kinds_need_a_folder_and_say_which_range_their_scores_have() -> None:
    for kind in NEURAL:
        assert KINDS[kind].form.target == "required"
        assert model_scale(f"{kind}:x") == ("unit" if kind == "choice" else "unbounded")


def test_keys_are_sorted_into_one_spelling() -> None:
    one, other = ("dpo:p,reference=r,aggregate=sum,dtype=float32", "dpo:p,dtype=float32,aggregate=sum,reference=r")
    assert str(parse_model(one)) == str(parse_model(other)) == "dpo:p,aggregate=sum,dtype=float32,reference=r"


@pytest.mark.hf
def test_every_setting_of_the_loader_is_a_key_of_every_neural_kind() -> None:
    from pluralrm.models.neural.folder import CODE_KEY

    for kind in NEURAL:
        assert {"dtype", "device", "attn", "tokens", CODE_KEY} <= set(KINDS[kind].form.keys)


@pytest.mark.hf
def test_a_model_has_the_canonical_spec(tmp_path: Path) -> None:
    from tests.models.neural.tiny import language_folder

    folder = language_folder(tmp_path / "m")
    assert load_model(f"endo:{folder},discount=0.5,clip=0.1").spec == f"endo:{folder},clip=0.1,discount=0.5"
