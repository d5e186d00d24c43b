"""A stand-in for vLLM: `python -m tests.fake_engine MODEL PORT FOLDER` serves a judge under the key of VLLM_API_KEY.

Its process has a file in the folder, by its number. A model named `broken` ends at once with a complaint.
"""

import os
import signal
import sys
from pathlib import Path

from tests.fake_chat import Action, FakeChat, Seen, reply, say, status

NAMES = f"{sys.executable} -m {__spec__.name if __name__ == '__main__' else __name__}"


def command(folder: Path) -> str:
    """Return what starts it, as PLURALRM_ENGINE."""
    return f"{NAMES} {{model}} {{port}} {folder}"


def processes(folder: Path) -> list[int]:
    """Return the processes that were started with a folder and still run."""
    numbers = [int(file.name) for file in folder.iterdir()]
    return [number for number in numbers if str(folder).encode() in arguments(number)]


def arguments(process: int) -> bytes:
    """Return a process' command line; nothing where it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def verdict(seen: Seen) -> Action:
    """Prefer an answer by the length of what is asked."""
    return say("Result: A" if len(seen.prompt) % 2 else "Result: B")


def serve(model: str, port: str, folder: str) -> None:
    def answer(seen: Seen) -> Action:
        if seen.headers.get("authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            return status(401)
        return reply({"data": [{"id": model}]}) if seen.method == "GET" else verdict(seen)

    if model == "broken":
        sys.exit("no such weights")
    (Path(folder) / str(os.getpid())).touch()
    with FakeChat(answer, latency=0.01, port=int(port)):
        signal.pause()


if __name__ == "__main__":
    serve(*sys.argv[1:])
