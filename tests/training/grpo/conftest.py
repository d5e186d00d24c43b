"""A policy that has learned nothing, made once."""

import pytest

from tests.models.neural.tiny import language_folder


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"lm:{language_folder(tmp_path_factory.mktemp('lm') / 'policy')}"
