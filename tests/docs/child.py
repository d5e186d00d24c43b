"""A page in a process of its own, as its reader meets it."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

_ENVIRONMENT = {"COLUMNS": "80", "LINES": "25", "TERM": "dumb", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
_PRIVATE = re.compile(r"openai_.*|.*_proxy|hf_.*|huggingface_.*", re.IGNORECASE)


def play(page: Path, folder: Path, tier: str = "") -> subprocess.CompletedProcess[str]:
    """Run the blocks of a page in a folder, which holds all caches; no key, proxy or hub of this machine is known."""
    words = [sys.executable, "-W", "error", "-m", "tests.docs.stage", str(page), tier]
    public = {key: value for key, value in os.environ.items() if not _PRIVATE.fullmatch(key)}
    caches = {"PLURALRM_CACHE": str(folder / ".cache"), "HF_HOME": str(folder / ".hf")}
    environment = {**public, **_ENVIRONMENT, **caches}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
