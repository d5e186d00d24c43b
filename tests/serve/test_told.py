"""What `pluralrm serve` prints can be pasted into a trainer's environment, and says where it cannot."""

import os
import signal
from pathlib import Path

import pytest

from tests.forked import start


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])  # noqa: S104 - with a token
def test_an_address_that_only_this_machine_understands_is_said_to_be_one(
    host: str, *, warned: bool, tmp_path: Path
) -> None:
    words = ["serve", "longest", "--host", host, "--token-env", "WORD"]
    printed, noted = tmp_path / "printed", tmp_path / "noted"
    os.mkfifo(printed)
    process = start(words, tmp_path, {"WORD": "a-word-between-the-two"}, [printed, noted])
    with printed.open() as lines:
        first = lines.readline()
        lines.readline()
        lines.readline()
        process.send_signal(signal.SIGINT)
        process.wait(240)
    assert first.startswith(f"export PLURALRM_REWARD_URL=http://{host}:")
    assert ("elsewhere write its name" in noted.read_text()) is warned
