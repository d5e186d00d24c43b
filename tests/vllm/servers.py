"""Real servers as processes of their own: started on a free port of loopback, waited for, ended to the last worker."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

BIN = Path(__file__).parents[2] / ".vllm" / "bin"
"""Where `make test-vllm` puts the engines."""
NAME = "tiny"
"""What vLLM calls the model that it serves."""

_PATIENCE = 400.0
"""Seconds until a server has to answer: about 40 on two idle cores."""
_GRACE = 20.0
_SHOWN = 30
"""Last lines of the log of a server that did not start."""

# Small, quiet, offline, and on one core: other tests may run beside it.
_VLLM = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
_COMMON = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}


@contextmanager
def vllm(folder: Path, *words: str, tokens: int = 4096) -> Iterator[str]:
    """Serve a folder by vLLM under NAME, and yield the server's address."""
    # Eager: compiling a model this small takes longer than all of its answers.
    asked = ("--dtype", "float32", "--max-model-len", str(tokens), "--enforce-eager", "--served-model-name", NAME)
    with _serving("vllm", "serve", str(folder), *asked, *words, home=folder.parent, more=_VLLM) as address:
        yield address


@contextmanager
def transformers(folder: Path) -> Iterator[str]:
    """Serve a folder by `transformers serve`, where the model's name is its path, and yield the server's address."""
    asked = ("--dtype", "float32", "--device", "cpu")
    with _serving("transformers", "serve", str(folder), *asked, home=folder.parent) as address:
        yield address


@contextmanager
def _serving(program: str, *words: str, home: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    if not (BIN / program).exists():
        pytest.skip(f"no {program} in {BIN.parent}: make test-vllm")
    port = _free_port()
    command = [str(BIN / program), *words, "--host", "127.0.0.1", "--port", str(port)]
    log = home / f"{program}.log"
    with log.open("w") as output, _group(command, _environment(home, more or {}), output) as process:
        _wait(process, port, log)
        yield f"http://127.0.0.1:{port}"


def _environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what the tests' own process was given, with every cache under `home`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "HF_HOME": str(home / "hub"), **_COMMON, **more}


@contextmanager
def _group(command: list[str], environment: dict[str, str], output) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a process group of its own, and end the whole group: workers may outlive their parent."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + _PATIENCE
    while not _healthy(port):
        if process.poll() is not None or time.monotonic() > ends:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN:])
            pytest.fail(f"the server does not answer (exit code {process.returncode}):\n{last}", pytrace=False)
        time.sleep(0.2)


def _healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
