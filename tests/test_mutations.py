"""Files that are damaged at random: one clear message that names the file, or the same numbers; never another number.

A few of each kind; `make test-chaos` makes hundreds. The seed stands in each finding.
"""

from pathlib import Path

import pytest

from tests.chaos.files import OWN, SEALED, findings

SEED = 20261122
FEW = {"fit": 15, "cassette": 25, "build": 8, "annotation judgments": 25, "study": 10}


@pytest.mark.parametrize("kind", [*SEALED, *OWN])
def test_a_damaged_file_is_one_message_and_never_another_number(tmp_path: Path, kind: str) -> None:
    assert findings({**SEALED, **OWN}[kind](tmp_path), FEW.get(kind, 20), SEED) == []
