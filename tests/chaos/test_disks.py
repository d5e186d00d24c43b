"""A full disk is one message; nothing that is left looks finished; with room again, the same bytes."""

from pathlib import Path

import pytest

from tests.chaos.disks import findings
from tests.chaos.ledger import LEDGER, SEED, size
from tests.chaos.verbs import LOCAL, TINY

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

PROMISE = "a full disk is one message, and nothing looks finished"
VERBS = [name for name in LOCAL if "workers" not in name]


def _found(name: str, place: Path, default: int) -> list[str]:
    times = size("DISKS", default)
    found = findings(name, {**LOCAL, **TINY}[name], place, times=times, seed=SEED)
    LEDGER.enter(PROMISE, name, tried=times, findings=found, unit="disks")
    return found


@pytest.mark.parametrize("name", VERBS)
def test_a_full_disk_is_one_message_and_the_rest_is_done_later(tmp_path: Path, name: str) -> None:
    assert _found(name, tmp_path, 5) == []


@pytest.mark.hf
def test_a_full_disk_leaves_no_tiny_policy(tmp_path: Path) -> None:
    assert _found("train tiny", tmp_path, 2) == []
