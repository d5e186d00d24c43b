"""What README and docs tell a reader to type works, as it stands there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/add-a-model.md")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# (\w+\.py)\n")
# What these do is tested where it can be: installing by .ci/run, the hub by a server on loopback.
_ELSEWHERE = re.compile(r"^(make|source|\.venv/bin/pip)\b|\bscore prb\b")


def _blocks(page: str, language: str) -> Iterator[str]:
    for found in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
        if found[1] == language:
            yield found[2]


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, env=os.environ.copy(), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages tell their reader to write."""
    folder = tmp_path_factory.mktemp("desk")
    for page in PAGES:
        for block in _blocks(page, "python"):
            if named := _NAMED.match(block):
                (folder / named[1]).write_text(block, encoding="utf-8")
    assert (folder / "my_model.py").exists()
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_runs(page: str, desk: Path) -> None:
    blocks = [block for block in _blocks(page, "python") if not _NAMED.match(block)]
    assert blocks
    for block in blocks:
        done = _run([sys.executable, "-W", "error", "-c", block], desk)
        assert done.returncode == 0, (block, done.stderr)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs(page: str, desk: Path) -> None:
    lines = [
        line for block in _blocks(page, "bash") for line in block.splitlines() if line and not line.startswith("#")
    ]
    commands = [line for line in lines if not _ELSEWHERE.search(line)]
    assert commands
    for line in commands:
        words = shlex.split(line, comments=True)
        assert words[0] == "pluralrm", line
        paths = [sorted(desk.glob(word)) if "*" in word else [word] for word in words[1:]]
        arguments = [str(path) for found in paths for path in found]
        done = _run([sys.executable, "-c", "from pluralrm.cli import main; main()", *arguments], desk)
        assert done.returncode == 0, (line, done.stderr)


def _links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            yield target


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    broken = [(page.name, target) for page in pages for target in _links(page) if not (page.parent / target).exists()]
    assert not broken
