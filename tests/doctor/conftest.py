"""Tiny models, each written once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.models.neural.tiny import language_folder, reward_folder
from tests.models.neural.tokenizers import Build


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the folder of a tiny model, by its family, its tokenizer and what differs in its config."""

    @cache
    def folder(family: str = "llama", build: Build | None = None, *, language: bool = False, **changes: object) -> Path:
        write = language_folder if language else reward_folder
        return write(tmp_path_factory.mktemp(family), family, build, **changes)  # type: ignore[arg-type]

    return folder
