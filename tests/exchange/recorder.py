"""A tracker in memory, which keeps every entry that it is given, and may break."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pluralrm.exchange.trackers import Cell, Logged, TrackedRun, TrackerLog


@dataclass
class Recorder:
    """Entries of each run by its id, in their order: step, name, value."""

    breaks_at: int = -1
    host: str = ""
    project: str = "pluralrm"
    store: str = "memory"
    runs: dict[str, TrackedRun] = field(default_factory=dict)
    entries: dict[str, list[tuple[int, str, object]]] = field(default_factory=dict)
    calls: int = 0
    ended: int = 0

    def begin(self, run: TrackedRun) -> Logged:
        self._call()
        self.run = run.id
        self.runs[run.id] = run
        logged = Logged(0, defaultdict(set))
        for step, name, _ in self.entries.setdefault(run.id, []):
            logged.keys[step].add(name)
        return logged

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._call()
        self.entries[self.run] += [(step, name, value) for name, value in values.items()]

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self._call()
        self.entries[self.run].append((0, name, [dict(zip(columns, row, strict=True)) for row in rows]))

    def figure(self, name: str, svg: str) -> None:
        self._call()
        self.entries[self.run].append((0, name, svg))

    def end(self) -> None:
        self._call()
        self.ended += 1

    def values(self, name: str) -> dict[str, object]:
        """Return what the run of a name has at step 0."""
        [run] = [run.id for run in self.runs.values() if run.name == name]
        return {key: value for _, key, value in self.entries[run]}

    def _call(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.breaks_at:
            raise OSError("disk of http://me:key@a.b/ full\nmore of it")


def log_to(tracker: Recorder, words: list[str] | None = None) -> TrackerLog:
    """Return a log to it; what is said of it is added to `words`."""
    lines = [] if words is None else words
    return TrackerLog(tracker, lines.append, lines.append)
