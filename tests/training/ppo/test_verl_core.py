"""The formulas are those of the real verl, to 1e-5, where it is installed (make test-verl)."""

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.verl

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".verl" / "bin" / "python"


def test_the_core_functions_of_verl_give_the_same_numbers() -> None:
    script = Path(__file__).with_name("inside_verl.py")
    ran = subprocess.run([PYTHON, script], capture_output=True, text=True, check=False, timeout=250)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    names = {"advantages", "returns", "policy", "clipped", "value", "value clipped", "k1", "k2", "k3", "entropy"}
    assert found.keys() == names | {"coefficient"}
    assert max(found.values()) < 1e-5, found
