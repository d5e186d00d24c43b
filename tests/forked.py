"""The command line in a process of its own, forked from one that has loaded what most commands load.

Forked from the tests' own process it would inherit the locks of its threads. The server that it is forked from has one
thread; each worker of a test run starts one with its first command.
"""

import atexit
import gc
import locale
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory

import pluralrm

NEURAL = ("torch", "pluralrm.models.scalar", "pluralrm.models.logprob", "transformers.models.llama.modeling_llama")
"""What most commands of the tier hf load besides."""
PACKAGES = [Path(pluralrm.__file__).parent / name for name in ("annotate", "benchmarks", "cli", "metrics")]
LOADED = [
    *("pluralrm.cli", "pluralrm.attack", "pluralrm.audit", "pluralrm.correlate", "pluralrm.runs", "tests.forked"),
    *("pluralrm.benchmarks.simulated.scorers", "pluralrm.models.personal.fitting", "pluralrm.models.personal.kind"),
    *("pluralrm.models.personal.bt", "pluralrm.models.personal.lowrank", "pluralrm.models.personal.deviations"),
    *("pluralrm.policies.sample", "pluralrm.policies.best_of_n", "pluralrm.policies.imported", "pluralrm.grading"),
    *("pluralrm.models.controls", "pluralrm.models.judge", "pluralrm.models.served", "pluralrm.models.neural.sandbox"),
    *("pluralrm.attack.judge", "pluralrm.attack.personal", "pluralrm.audit.gallery", "pluralrm.construct.demo"),
    *("pluralrm.construct.context_pairs", "pluralrm.study", "pluralrm.power", "pluralrm.doctor", "pluralrm.align"),
    *("pluralrm.serve.server", "pluralrm.serve.dialects", "pluralrm.training.rewards", "pluralrm.exchange.tracking"),
    *("pluralrm.report", "pluralrm.retrieval", "pluralrm.testing", "pluralrm.exchange.results"),
    *("httpx2", "httpcore2._async.connection_pool", "anyio._backends._asyncio", "truststore", "jinja2.ext"),
    *("rich.console", "rich.table", "scipy.special", "scipy.stats", "encodings.unicode_escape", "importlib.readers"),
    *("sklearn.utils.extmath", "markdown_it", "rich.markdown", "pytest", "jinja2.sandbox", "uvicorn", "fastapi"),
    *("bm25s", "matplotlib.backends.backend_svg", "typer._adapters", "typer._click.decorators"),
    *(f"pluralrm.{path.name}.{module.name}" for path in PACKAGES for module in iter_modules([path])),
]


def command(words: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Return what became of `pluralrm` with these words in a folder and an environment."""
    with TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("out", "err")]
        status = run(words, cwd, environment, streams)
        told = [stream.read_text(encoding=locale.getencoding()) for stream in streams]
    return subprocess.CompletedProcess(words, status, *told)


def run(words: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Sequence[Path]) -> int:
    """Return the exit status of `pluralrm` with these words, which writes to two files, or to a terminal's."""
    process = _server().Process(target=_run, args=(list(words), cwd, dict(environment), streams))
    process.start()
    try:
        process.join()
    finally:  # also where the test's time is over
        process.kill()
    return process.exitcode or 0


class Forked:
    """A process beside the test, with what `subprocess.Popen` has to watch and to end it. What it prints is lost."""

    def __init__(self, work: Callable[..., object], *args: object, session: bool = False) -> None:
        self._process = _server().Process(target=_work, args=(work, args, session, dict(os.environ)))
        self._process.start()
        self.pid = self._process.pid or 0
        atexit.register(self.kill)  # or the end of the tests would wait for one that a failed test has left

    def poll(self) -> int | None:
        """Return the exit status; None of one that runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once it has ended."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("forked", timeout or 0)
        return code

    def send_signal(self, sign: int) -> None:
        """Send a signal to one that runs."""
        if self.poll() is None:
            os.kill(self.pid, sign)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(words: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Sequence[Path]) -> Forked:
    """Return `pluralrm` with these words while it runs."""
    return Forked(_run, list(words), cwd, dict(environment), streams)


def _work(work: Callable[..., object], args: Sequence[object], session: bool, environment: dict[str, str]) -> None:
    gc.freeze()
    if session:
        os.setsid()
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.environ.clear()
    os.environ.update(environment)
    status = work(*args)
    sys.exit(status if isinstance(status, int) else 0)


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context


def _run(words: list[str], cwd: Path, environment: dict[str, str], streams: Sequence[Path]) -> None:
    gc.freeze()  # what the server has loaded: a collection would read it all, and copy its pages
    for number, stream in enumerate(streams, 1):
        opened = os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY)
        os.dup2(opened, number)
        os.close(opened)
    # New file objects over the streams, as at the start.
    encoding = environment.get("PYTHONIOENCODING")
    sys.stdout = open(1, "w", closefd=False, encoding=encoding)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding=encoding, errors="backslashreplace", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path.insert(0, "")
    sys.argv = ["pluralrm", *words]
    from pluralrm.cli import main
    from pluralrm.http import attempts

    attempts._FIRST = 0.02  # as tests/fake_chat.py has it
    try:
        main()
    finally:
        sys.stdout.flush()
        atexit._run_exitfuncs()  # a process of multiprocessing ends without
