"""The site, built as `make docs` builds it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


def build(folder: Path) -> Path:
    """Return the folder of the site; a warning is an error, and where Sphinx is not installed the test skips."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed: make docs")
    words = ["--quiet", "--fail-on-warning", "--keep-going", "--nitpicky", str(ROOT / "docs"), str(folder / "site")]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"
