"""Weights that more than one server serves."""

from pathlib import Path

import pytest

from tests.vllm import folders
from tests.vllm.saying import Sayer


@pytest.fixture(scope="session")
def sayer(tmp_path_factory: pytest.TempPathFactory) -> Sayer:
    """The judge's weights, as transformers alone reads them."""
    return Sayer(folders.judge(tmp_path_factory.mktemp("weights") / "judge"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a cache of its own."""
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    return tmp_path
