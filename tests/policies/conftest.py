"""The tiny policy, taught once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy


@pytest.fixture(autouse=True)
def _one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute with one thread where there is torch: bits depend on how many share a sum."""
    if request.node.get_closest_marker("hf") is None:
        yield
        return
    from pluralrm.models.personal.networks import threads

    with threads():
        yield


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> "LocalPolicy":
    """A policy that writes sentences, barely: enough for whatever is not about what it learns."""
    from tests.training.ppo.tones import tone_policy

    return tone_policy(Path(tmp_path_factory.mktemp("policy")) / "tones", steps=30, hidden=32)
