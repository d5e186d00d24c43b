"""The process that compares answers: a program of its own, with one short-lived child for each comparison.

The libraries take a second to load, so they are loaded once. A comparison runs in a fork of that state, under hard
limits: none can be told by an earlier one, and killing one costs nothing.
"""

import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import BinaryIO

_FORBIDDEN = frozenset(
    {"os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.putenv"}
    | {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"}
    | {"os.kill", "os.killpg", "signal.pthread_kill", "pty.spawn"}
)
_FORBIDDEN_FAMILIES = ("subprocess.", "socket.", "shutil.", "ctypes.", "tempfile.", "urllib.", "http.", "ftplib.")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What the libraries load and build for these is there in every child, and is not built again in each.
_WARM = (
    (r"\frac{1}{2}", "0.5"),
    (r"\frac{1}{2}", "3"),
    (r"\sqrt{8}", r"2\sqrt{3}"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\{1,2\}", r"\{2,3\}"),
    ("[0,1)", "(0,1]"),
    ("1 < x < 3", "1 < x < 4"),
    ("y=2x+1", "y=2x-1"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
    (r"\sin(x)", r"\cos(x)"),
    (r"5\text{ m}", r"50\text{ cm}"),
    (r"25\%", "0.5"),
    (r"\log_{2} 8", "5!"),
)


def main() -> None:
    """Answer one question a line until there are no more."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    logging.disable(logging.CRITICAL)
    from pluralrm.validate.equivalence import equal

    for reference, answer in _WARM:
        equal(reference, answer)
    gc.freeze()  # a child that collects garbage would copy all that it looks at
    _say(sink, ["ready", ""])
    for line in source:
        _say(sink, _answered(json.loads(line), equal, (source, sink)))


def _say(sink: BinaryIO, words: list[str]) -> None:
    sink.write(json.dumps(words).encode() + b"\n")
    sink.flush()


def _answered(
    question: dict[str, object], equal: Callable[[str, str], bool], streams: tuple[BinaryIO, BinaryIO]
) -> list[str]:
    """Return what a child makes of a question, or how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        for stream in streams:
            os.close(stream.fileno())
        _compare(question, equal, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        outcome = pipe.read(64)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return ["late", ""] if number == signal.SIGXCPU else ["killed", f"signal {number}"]
    return [outcome.decode("ascii", "replace") or "broken", f"status {os.WEXITSTATUS(status)}"]


def _compare(question: dict[str, object], equal: Callable[[str, str], bool], writing: int) -> None:
    """Write the outcome of one comparison and end the process."""
    outcome = b"broken"
    try:
        _limit(int(str(question["seconds"])), int(str(question["memory"])))
        sys.addaudithook(_harmless)
        outcome = b"equal" if equal(str(question["reference"]), str(question["answer"])) else b"different"
    except MemoryError:
        outcome = b"memory"
    except RecursionError:
        outcome = b"deep"
    finally:
        os.write(writing, outcome)
        os._exit(0)


def _limit(seconds: int, memory: int) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _harmless(event: str, details: tuple[object, ...]) -> None:
    """Refuse what no comparison does: start a process, write a file, open a connection."""
    if event == "open" and isinstance(details[2], int) and not details[2] & _WRITING:
        return
    if event == "open" or event in _FORBIDDEN or event.startswith(_FORBIDDEN_FAMILIES):
        raise PermissionError(f"a comparison of answers may not {event}")


if __name__ == "__main__":
    main()
