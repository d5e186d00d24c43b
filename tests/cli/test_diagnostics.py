"""compare --calibration in a terminal: a model does not look calibrated by failing."""

import pytest

from pluralrm.cli.diagnostics import print_calibration
from pluralrm.core import Failure
from tests.metrics.test_calibration import rows_of, run_of


def test_what_failed_items_could_hide_stands_beside_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_calibration([run_of(rows_of([2.0, 1.0, Failure("refused"), Failure("parse")], each=1))])
    said = capsys.readouterr().out
    assert "2: 0.0 to 59.7" in said  # (.119 + .269 + 1 + 1) / 4: both could have been sure and wrong
    assert "whatever those would have said" in " ".join(said.split())


def test_without_failures_nothing_is_said_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_calibration([run_of(rows_of([2.0, -1.0, 0.5], each=1))])
    assert "failed" not in capsys.readouterr().out
