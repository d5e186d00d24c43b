"""What `pluralrm serve` prints can be pasted into a trainer's environment, and says where it cannot."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])  # noqa: S104 - with a token
def test_an_address_that_only_this_machine_understands_is_said_to_be_one(
    host: str, *, warned: bool, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "from pluralrm.cli import main; main()", "serve", "longest"]
    process = subprocess.Popen(
        [*command, "--host", host, "--token-env", "WORD"],
        cwd=tmp_path,
        env={"WORD": "a-word-between-the-two"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, noted = process.communicate(timeout=240)
    assert first.startswith(f"export PLURALRM_REWARD_URL=http://{host}:")
    assert ("elsewhere write its name" in noted) is warned
