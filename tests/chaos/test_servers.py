"""Servers that err at random: no verdict is invented, no failure is final, and the rows in the end are the same."""

from pathlib import Path

import pytest

from tests.chaos.ledger import LEDGER, SEED, size
from tests.chaos.servers import Weather

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_faults_invent_no_verdict_and_leave_no_trace(tmp_path: Path, share: float) -> None:
    times = size("FAULTS", 3)
    made = [Weather(share, SEED + number).finding(tmp_path / str(number)) for number in range(times)]
    found = [one for one in made if one is not None]
    LEDGER.enter("faults invent nothing", f"score judge, {share:.0%}", tried=times, findings=found, unit="servers")
    assert found == []
