"""Rounds of the sides of a shape, in turn, and the table of them."""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module, metadata, util
from pathlib import Path
from pkgutil import iter_modules
from shutil import which
from typing import IO, Protocol

from bench import SHAPES, Outcome, Setup, Shape

ROOT = Path(__file__).parents[1]
CLEAR = Path("/proc/self/clear_refs")
"""Linux forgets a process's peak memory when 5 is written here."""
PROGRAMS = {"vllm": os.environ.get("VLLM", str(ROOT / ".vllm/bin/vllm")), "nvidia": "nvidia-smi"}
"""What `needs` may name beside modules."""
BEFORE = "before"
COLUMNS = ("shape", "side", "wall, s", "CPU, s", "ratio", "per second", "peak, MiB", "difference", "figures", "load")
LEGEND = (
    "Medians over the rounds (range). Ratio: time over that of the shape's first side, within a round; "
    "of `before`, over the same side's here. Difference: the largest, of results, from those of the same."
)


@dataclass(frozen=True)
class Timing:
    """One run of a side."""

    seconds: float
    cpu: float
    peak: float | None
    """MiB; None where sides share a process."""
    results: Sequence[float]
    units: float
    figures: Mapping[str, float]


@dataclass
class Line:
    """One side of a shape over all rounds, or why there is none."""

    shape: str
    side: str
    unit: str = ""
    timings: list[Timing] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    difference: float | None = None
    failure: str = ""


class Runner(Protocol):
    """Where sides run."""

    def run(self, side: str) -> Timing:
        """Return what one run took."""


class Opened:
    """Sides with their data, in this process."""

    def __init__(self, shape: Shape[object], sides: Iterable[str], *, quick: bool) -> None:
        self.setup = Setup(quick=quick)
        data = shape.data(self.setup)
        self._works = {side: shape.sides[side].open(data) for side in sides}

    def run(self, side: str) -> Timing:
        """Return what one run of a side took."""
        if CLEAR.exists():
            CLEAR.write_text("5")
        busy, start = _cpu(), time.perf_counter()
        outcome = self._works[side]()
        seconds, cpu = time.perf_counter() - start, _cpu() - busy
        done = outcome if isinstance(outcome, Outcome) else Outcome()
        seconds = done.scale * (seconds if done.seconds is None else done.seconds)
        peak = _peak() if len(self._works) == 1 else None
        return Timing(seconds, done.scale * cpu, peak, list(done.results), done.units, dict(done.figures))


def _cpu() -> float:
    """Return processor seconds of this process and of the commands that it has run to their end."""
    commands = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + commands.ru_utime + commands.ru_stime


def _peak() -> float:
    """Return the peak of memory in MiB since it was last forgotten, or that of the largest command, if higher."""
    commands = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    if not CLEAR.exists():
        return max(commands, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    lines = Path("/proc/self/status").read_text().splitlines()
    return max(commands, next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")))


class Worker:
    """Sides in a process of their own, which waits between runs."""

    def __init__(self, shape: str, sides: Sequence[str], *, quick: bool, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "bench", shape, "--work", json.dumps(sides), *["--quick"] * quick]
        self._child = subprocess.Popen(  # noqa: S603 - this package
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | environment
        )
        self._line()

    def run(self, side: str) -> Timing:
        """Return what one run of a side took."""
        stdin = _open(self._child.stdin)
        stdin.write(f"{side}\n")
        stdin.flush()
        return Timing(**json.loads(self._line()))

    def _line(self) -> str:
        line = _open(self._child.stdout).readline()
        if not line:
            raise ChildProcessError(f"ended with exit code {self._child.wait()}, see above")
        return line

    def close(self) -> None:
        """End the process."""
        _open(self._child.stdin).close()
        self._child.wait()
        _open(self._child.stdout).close()


def _open(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe


def work(shape: str, sides: Sequence[str], *, quick: bool) -> None:
    """Run a side for each line of standard input; what sides print goes to standard error."""
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    registered = load_shapes(shape)[shape]
    if not quick:  # imports, threads, the first call of a library
        warm = Opened(registered, sides, quick=True)
        with warm.setup:
            for side in sides:
                warm.run(side)
    opened = Opened(registered, sides, quick=quick)
    with opened.setup:
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(asdict(opened.run(line.rstrip("\n")))), file=answers, flush=True)


def has(name: str) -> bool:
    """Return whether a program or a module is there."""
    return bool(which(PROGRAMS[name]) if name in PROGRAMS else util.find_spec(name))


def load_shapes(shape: str = "") -> dict[str, Shape[object]]:
    """Return all shapes by name; or, with a shape's name, those of its module, so that no other takes memory."""
    for module in iter_modules([str(Path(__file__).parent)]):
        family = module.name.replace("_", "-")
        if module.name not in {"__main__", "run", "studies"} and (not shape or f"{shape}-".startswith(f"{family}-")):
            import_module(f"bench.{module.name}")
    return SHAPES


def measure(
    shape: Shape[object], *, quick: bool, rounds: int, before: Path | None = None, sides: Sequence[str] = ()
) -> list[Line]:
    """Return a line for each side, all where none are named, and for each on the package of another checkout.

    Where a module is missing or a process died, the line says so.
    """
    names = [side for side in shape.sides if not sides or side in sides]
    missing = [name for name in shape.needs if not has(name)]
    lines: dict[str, Line] = {}
    workers: dict[str, Worker] = {}
    try:
        for source in [None, before][: 1 + (before is not None)]:
            for group in [[side] for side in names] if shape.apart else [names]:
                labels = [side if source is None else f"{side}, {BEFORE}" for side in group]
                lines |= {label: Line(shape.name, label, shape.unit) for label in labels}
                path = {} if source is None else {"PYTHONPATH": str(source / "src")}
                try:
                    if not missing:
                        environment = {**shape.sides[group[0]].environment, **path}
                        worker = Worker(shape.name, group, quick=quick, environment=environment)
                        workers |= dict.fromkeys(labels, worker)
                except ChildProcessError as error:
                    for label in labels:
                        lines[label].failure = str(error)
        play(workers, lines, rounds)
    finally:
        for worker in workers.values():
            worker.close()
    for line in lines.values():
        line.failure = line.failure or (f"needs {', '.join(missing)}" if missing else "")
    return list(lines.values())


def play(runners: Mapping[str, Runner], lines: Mapping[str, Line], rounds: int) -> None:
    """Run the sides in turn and write down what they took; a side whose process died is left out from then on."""
    for number in range(rounds):
        load = os.getloadavg()[0]
        for side, runner in runners.items():
            line = lines[side]
            if line.failure:
                continue
            try:
                line.timings.append(runner.run(side.removesuffix(f", {BEFORE}")))
            except ChildProcessError as error:
                line.failure = str(error)
                continue
            line.loads.append(load)
            seconds = f"{line.timings[-1].seconds:.3g} s"
            print(f"{number + 1}/{rounds} {line.shape}, {side}: {seconds}", file=sys.stderr, flush=True)
    for side, line in lines.items():
        own = side.removesuffix(f", {BEFORE}")
        compare(line, lines[next(iter(lines)) if own == side else own])


def compare(line: Line, reference: Line) -> None:
    """Write down ratios of times and differences of results, round by round."""
    rounds = list(zip(line.timings, reference.timings, strict=False))
    line.ratios = [mine.seconds / theirs.seconds for mine, theirs in rounds]
    pairs = [pair for mine, theirs in rounds for pair in zip(mine.results, theirs.results, strict=False)]
    line.difference = max((abs(one - other) for one, other in pairs), default=None)


def failures(shapes: Iterable[Shape[object]], lines: Iterable[Line]) -> list[str]:
    """Return what makes the command fail: processes that died, results that differ."""
    tolerances = {shape.name: shape.tolerance for shape in shapes}
    failed = [f"{line.shape}, {line.side}: {line.failure}" for line in lines if "exit code" in line.failure]
    return failed + [
        f"{line.shape}, {line.side}: results differ by {line.difference:.2g}, at most {tolerances[line.shape]:g} wanted"
        for line in lines
        if line.difference is not None and not line.difference <= tolerances[line.shape]
    ]


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the Markdown table, a row for each side."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    yield from map(row, lines)


def row(line: Line) -> str:
    """Return the row of a side; a failure stands where the time would."""
    if not line.timings:
        return f"| {line.shape} | {line.side} | {line.failure} |{'  |' * (len(COLUMNS) - 3)}"
    timings = line.timings
    rates = [timing.units / timing.seconds for timing in timings if timing.units]
    peaks = [timing.peak for timing in timings if timing.peak is not None]
    figures = {name: [timing.figures[name] for timing in timings] for name in timings[0].figures}
    cells = (
        line.shape,
        line.side,
        spread([timing.seconds for timing in timings]) + (f"; then {line.failure}" if line.failure else ""),
        number(statistics.median(timing.cpu for timing in timings)),
        spread(line.ratios) if line.ratios else "",
        f"{number(statistics.median(rates))} {line.unit}" if rates else "",
        number(max(peaks)) if peaks else "",
        "" if line.difference is None else f"{line.difference:.1g}",
        "; ".join(f"{name} {spread(values)}" for name, values in figures.items()),
        spread(line.loads),
    )
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float]) -> str:
    """Return the median, and the range where values differ.

    >>> spread([1.5]), spread([1.0, 1.25, 1200])
    ('1.5', '1.25 (1–1,200)')
    """
    middle = number(statistics.median(values))
    return middle if min(values) == max(values) else f"{middle} ({number(min(values))}–{number(max(values))})"


def number(value: float) -> str:
    """Return three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def environment() -> str:
    """Return processor, threads and versions in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    threads = os.environ.get("OMP_NUM_THREADS", "as many as cores")
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    packages = ("numpy", "scipy", "torch", "transformers", "ray", "vllm")
    versions = [f"{name} {metadata.version(name)}" for name in packages if util.find_spec(name)]
    python = f"Python {platform.python_version()}"
    return ", ".join(
        [
            f"{model}, {os.cpu_count()} cores, threads: {threads}",
            python,
            *versions,
            f"revision {revision.stdout.strip()}",
        ]
    )
