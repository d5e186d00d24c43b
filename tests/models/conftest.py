"""Models that more than one file scores."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three tiny models in it."""
    from tests.models.neural.tiny import language_folder, reward_folder  # loads torch

    desk = tmp_path_factory.mktemp("desk")
    reward_folder(desk / "head")
    language_folder(desk / "lm")
    language_folder(desk / "base", seed=1)
    return desk
