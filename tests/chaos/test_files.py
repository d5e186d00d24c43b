"""Damaged files of every kind, hundreds of each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.files import NEURAL, OWN, SEALED, Kind, findings
from tests.chaos.ledger import LEDGER, SEED, size

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

PROMISE = "a damaged file is one message, never another number"


def _found(make: Callable[[Path], Kind], name: str, place: Path, default: int = 100) -> list[str]:
    times = size("MUTATIONS", default)
    found = findings(make(place), times, SEED + 1)
    LEDGER.enter(PROMISE, name, tried=times, findings=found, unit="mutations")
    return found


@pytest.mark.parametrize("name", [*SEALED, *OWN])
def test_a_damaged_file_is_one_message_and_never_another_number(tmp_path: Path, name: str) -> None:
    assert _found({**SEALED, **OWN}[name], name, tmp_path) == []


@pytest.mark.hf
@pytest.mark.parametrize("name", NEURAL)
def test_a_damaged_model_is_one_message(tmp_path: Path, name: str) -> None:
    assert _found(NEURAL[name], name, tmp_path, 40) == []
