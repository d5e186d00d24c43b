"""Tokenizers that more than one file asks."""

import pytest

from tests.models.neural.tokenizers import BUILDS, Build, Made


@pytest.fixture(scope="module", params=BUILDS, ids=lambda build: build.name)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Each build in turn."""
    return Made(request.param, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The build that most models have."""
    return Made(Build(), tmp_path_factory.mktemp("bpe"))
