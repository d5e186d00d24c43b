"""Trackers of experiments: trackio, wandb and MLflow by one protocol, each in an adapter that alone knows its library.

A store is asked what it has before anything is written, so that what is logged again after a kill stands there once.
What the libraries collect of their own accord (console, code, machine, usage) is switched off.
"""

import contextlib
import io
import json
import math
import os
import re
import struct
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast
from urllib.parse import urlsplit

from pluralrm.errors import MissingExtraError, RunError, SpecError, did_you_mean
from pluralrm.http.addresses import Address
from pluralrm.text import counted, records_text

PROJECT = "pluralrm"
"""The project, or experiment, where none is named."""
_PATIENCE = 60
"""Seconds that a server may take to begin a run, and to end one."""

Cell = str | float | None
Say = Callable[[str], None]
T = TypeVar("T")


class TrackedRun(NamedTuple):
    """A run on a board. Equal content has one `id`: logged again, it is the same run."""

    id: str
    name: str
    config: Mapping[str, str | float]


class Logged(NamedTuple):
    """What a store has of a run: everything `before` a step, and keys by step."""

    before: int
    keys: defaultdict[int, set[str]]

    def has(self, key: str, step: int) -> bool:
        """Return whether the store has a value of this key at this step."""
        return step < self.before or key in self.keys[step]


class Tracker(Protocol):
    """A store of runs, one of which is open at a time."""

    project: str
    host: str
    """Where numbers are sent; '' where they stay on this machine."""
    store: str
    """Where a reader finds them."""

    def begin(self, run: TrackedRun) -> Logged:
        """Open a run, a new one or one that is there, and return what it has."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers."""

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Write a table, at step 0."""

    def figure(self, name: str, svg: str) -> None:
        """Write a figure, at step 0."""

    def end(self) -> None:
        """Close the run; RunError where the store has not all of it."""


# ---------------------------------------------------------------- a log that never costs the work


class TrackerLog:
    """Where a command's numbers go besides its folder: nowhere without a tracker, and nowhere after a failure of it."""

    def __init__(self, tracker: Tracker | None, say: Say, done: Say) -> None:
        self._tracker, self._say, self._done = tracker, say, done
        self._logged, self._open, self._runs = _by_step(()), False, 0

    @property
    def live(self) -> bool:
        """True where something is logged."""
        return self._tracker is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self._tracker is not None and self._runs:
            self._done(f"logged {counted(self._runs, 'run')} to {self._tracker.store}")

    def begin(self, run: TrackedRun) -> None:
        """Open a run, after closing the one before."""
        self.end()
        self._logged = self._guarded(lambda tracker: tracker.begin(run)) or _by_step(())
        self._open, self._runs = self.live, self._runs + 1

    def log(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log the finite numbers that the store does not have at this step."""
        finite = {key: float(value) for key, value in values.items() if math.isfinite(value)}
        if new := {key: value for key, value in finite.items() if not self._logged.has(key, step)}:
            self._guarded(lambda tracker: tracker.log(new, step))
            self._logged.keys[step].update(new)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Log a table that the store does not have."""
        if not self._logged.has(name, 0):
            self._guarded(lambda tracker: tracker.table(name, columns, rows))

    def figure(self, name: str, svg: Callable[[], str]) -> None:
        """Log a figure that the store does not have; only then is it drawn."""
        if self.live and not self._logged.has(name, 0):
            drawn = svg()
            self._guarded(lambda tracker: tracker.figure(name, drawn))

    def end(self) -> None:
        """Close the open run."""
        if self._open:
            self._open = False
            self._guarded(lambda tracker: tracker.end())

    def _guarded(self, call: Callable[[Tracker], T]) -> T | None:
        """Return what a call returns; its first failure is the end of the logging, and of nothing else."""
        if self._tracker is None:
            return None
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # they greet amidst --json
                warnings.simplefilter("ignore")  # what is lost is said below, once
                return call(self._tracker)
        except Exception as exc:  # noqa: BLE001 - whatever a library raises: disk, network, its own bugs
            reason = _brief(next(iter(str(exc).strip().splitlines()), type(exc).__name__))
            self._say(f"--log: {reason}; nothing more is logged. The same command logs what is missing")
            self._tracker = None
            return None


_LONGEST = 200
"""Letters of a library's error."""


def _brief(text: str) -> str:
    """Return the beginning of an error, without user and password of a URL in it."""
    safe = re.sub(r"//[^/@\s]*@", "//", text)
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]}..."


def _silent(text: str) -> None:
    del text


def opened_log(text: str, say: Say, done: Say = _silent, *, sharded: bool = False) -> TrackerLog:
    """Return the log that `LIBRARY` or `LIBRARY:PROJECT` names; an idle one for ''.

    A host elsewhere is named by `say` before anything is sent there; `done` hears where the numbers are. SpecError for
    the work of a shard.
    """
    if not text:
        return TrackerLog(None, say, done)
    if sharded:
        raise SpecError("--log and --shard: a shard has no estimate yet; after 'merge', score with --log alone")
    library, _, project = text.partition(":")
    if library not in TRACKERS:
        raise SpecError(f"--log {text}: unknown tracker {library!r}.{did_you_mean(library, TRACKERS)}")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            tracker = TRACKERS[library](project)
    except ImportError as exc:
        raise MissingExtraError(f"--log {library}", library) from exc
    if tracker.host:
        say(
            f"--log: numbers, settings and figures go to {tracker.host}, project {tracker.project!r}; no text of a user"
        )
    return TrackerLog(tracker, say, done)


def _elsewhere(url: str) -> str:
    """Return where a URL leads, without what may be a password; '' for this machine."""
    parts = urlsplit(url)
    return "" if not parts.hostname or Address(url).loopback else f"{parts.scheme}://{parts.hostname}"


def _by_step(rows: Iterable[tuple[int, Iterable[str]]], *, before: int = 0) -> Logged:
    logged = Logged(before, defaultdict(set))
    for step, keys in rows:
        logged.keys[step].update(keys)
    return logged


# ---------------------------------------------------------------- trackio


class TrackioTracker:
    """A local SQLite file in TRACKIO_DIR, or what TRACKIO_SPACE_ID or TRACKIO_SERVER_URL names."""

    def __init__(self, project: str) -> None:
        self.project, self._run, self._rows_before, self._sent = project or PROJECT, cast("Any", None), 0, 0
        self._library, utils = import_module("trackio"), import_module("trackio.utils")
        self._stored = import_module("trackio.sqlite_storage").SQLiteStorage
        self._hub = import_module("huggingface_hub").constants
        space, server = utils.resolve_space_id_and_server_url(None, None)
        self._local = not (space or server)
        self.host = f"https://huggingface.co/spaces/{space}" if space else _elsewhere(server or "")
        self.store = self.host or (f"{utils.TRACKIO_DIR}: trackio show --project {self.project}" if self._local else "")
        self.store = self.store or _origin(server)

    def begin(self, run: TrackedRun) -> Logged:
        """Open a run, known by its name, to which some of its id is added."""
        offline = self._hub.HF_HUB_OFFLINE
        self._hub.HF_HUB_OFFLINE = offline or self._local  # or it asks the hub who the user is
        try:
            self._run = self._library.init(
                self.project,
                f"{run.name} {run.id[:6]}",
                config=dict(run.config),
                resume="allow",
                private=True,
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
        finally:
            self._hub.HF_HUB_OFFLINE = offline
        if not self._local:
            return _by_step((), before=self._run._next_step)  # noqa: SLF001 - what the server has; there is no public name
        rows = self._rows()
        self._rows_before, self._sent = len(rows), 0
        return _by_step((row["step"], row) for row in rows)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Hand numbers to the thread that writes twice a second."""
        self._send(values, step)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Write a table."""
        self._send({name: self._library.Table(columns=list(columns), data=[list(row) for row in rows])}, 0)

    def figure(self, name: str, svg: str) -> None:
        """Write a figure as a small page."""
        self._send({name: self._library.Html(svg)}, 0)

    def end(self) -> None:
        """Close the run; trackio warns where it cannot write, and raises nothing."""
        self._library.finish()
        if self._local and (rows := len(self._rows()) - self._rows_before) < self._sent:
            raise RunError(f"trackio has {rows} of {self._sent} entries in {self.store}")
        if not self._local and self._stored.has_pending_data(self.project):
            raise RunError(f"{self.store} is away; trackio keeps what it did not take, and sends it the next time")

    def _send(self, values: Mapping[str, object], step: int) -> None:
        self._run.log(dict(values), step=step)
        self._sent += 1

    def _rows(self) -> list[dict[str, Any]]:
        return list(self._stored.get_logs(self.project, self._run.name, run_id=self._run.id))


# ---------------------------------------------------------------- wandb


class WandbTracker:
    """The server of `wandb login`; with WANDB_MODE=offline a folder in WANDB_DIR for `wandb sync`."""

    def __init__(self, project: str) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self._library, self._run = import_module("wandb"), cast("Any", None)
        chosen = self._library.setup().settings
        self._online = chosen.mode in {"online", "shared", "run"}
        self.project = project or chosen.project or PROJECT
        self.host = _elsewhere(chosen.base_url) if self._online else ""
        self.store = self.host or (
            chosen.base_url if self._online else f"{chosen.wandb_dir} (WANDB_MODE={chosen.mode})"
        )
        if self._online and not self._library.login(prompt=False, verify=False):
            raise SpecError(f"--log wandb: no key for {chosen.base_url}; run 'wandb login', or set WANDB_MODE=offline")

    def begin(self, run: TrackedRun) -> Logged:
        """Open a run without console, code, machine and usage, which it would collect by default."""
        name = run.id[:16]
        settings = self._library.Settings(
            console="off",
            silent=True,
            host="",
            disable_code=True,
            disable_git=True,
            save_code=False,
            finish_timeout=_PATIENCE,
            finish_timeout_raises=True,
            init_timeout=_PATIENCE,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            x_transaction_log_flush_interval=1.0,  # a kill costs what is not flushed, until the run is resumed
        )
        self._run = self._library.init(
            project=self.project, id=name, name=run.name, resume="allow", config=dict(run.config), settings=settings
        )
        if self._online:
            return _by_step((), before=self._run.starting_step)
        folder = Path(self._run.settings.wandb_dir)
        return _by_step(row for file in folder.glob(f"offline-run-*-{name}/run-{name}.wandb") for row in history(file))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add numbers to the row of a step, which is written when a later one begins."""
        self._run.log(dict(values), step=step)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Write a table."""
        data = [list(row) for row in rows]
        self._run.log({name: self._library.Table(columns=list(columns), data=data, allow_mixed_types=True)}, step=0)

    def figure(self, name: str, svg: str) -> None:
        """Write a figure as a small page: wandb takes no SVG as an image."""
        self._run.log({name: self._library.Html(svg, inject=False)}, step=0)

    def end(self) -> None:
        """Close the run, and wait until a server has it."""
        self._run.finish()


_BLOCK, _HEADER = 32_768, struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4
"""Kinds of a piece that ends a record."""


def history(file: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield step and values of each row in a .wandb file, up to where a kill cut it: wandb has no reader in Python.

    It is a log of LevelDB: blocks of 32 KiB with pieces of records, each after its check, length and kind.
    """
    record = import_module("wandb.proto.wandb_internal_pb2").Record
    data, at, pieces = file.read_bytes(), _HEADER.size, b""
    while at + _HEADER.size <= len(data):
        if (rest := _BLOCK - at % _BLOCK) < _HEADER.size:
            at += rest
            continue
        _, length, kind = _HEADER.unpack_from(data, at)
        at += _HEADER.size + length
        if not kind or at > len(data):
            return
        pieces += data[at - length : at]
        if kind in {_WHOLE, _LAST}:
            row, pieces = record.FromString(pieces).history, b""
            values = {(*item.nested_key, item.key)[0]: json.loads(item.value_json) for item in row.item}
            if values:
                yield row.step.num, values


# ---------------------------------------------------------------- MLflow


class MlflowTracker:
    """The store of MLFLOW_TRACKING_URI; by default mlflow.db in the current folder."""

    def __init__(self, project: str) -> None:
        defaults = {"DISABLE_TELEMETRY": "true", "LOGGING_LEVEL": "WARNING"}
        defaults |= {"HTTP_REQUEST_MAX_RETRIES": "2", "HTTP_REQUEST_TIMEOUT": "20"}
        for name, value in defaults.items():
            os.environ.setdefault(f"MLFLOW_{name}", value)
        self._entities = import_module("mlflow.entities")
        self._client, self._run = import_module("mlflow.tracking").MlflowClient(), ""
        self.project = project or os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        uri = self._client.tracking_uri
        self.host = uri.partition(":")[0] if uri.startswith("databricks") else _elsewhere(uri)
        self.store = self.host or f"{_origin(uri)}, experiment {self.project}"

    def begin(self, run: TrackedRun) -> Logged:
        """Open the run that has the id as a tag."""
        earlier = self._client.get_experiment_by_name(self.project)
        experiment = earlier.experiment_id if earlier else self._client.create_experiment(self.project)
        runs = self._client.search_runs([experiment], f"tags.`{_ID}` = '{run.id}'")
        opened = runs[0] if runs else self._client.create_run(experiment, run_name=run.name, tags={_ID: run.id})
        self._run = opened.info.run_id
        params = [(key, value) for key, value in run.config.items() if key not in opened.data.params]
        for first in range(0, len(params), _PARAMS):
            several = [self._entities.Param(key, str(value)) for key, value in params[first : first + _PARAMS]]
            self._client.log_batch(self._run, params=several)
        steps = [(entry.step, [key]) for key in opened.data.metrics for entry in self._history(key)]
        return _by_step([*steps, *((0, [name]) for name in self._files())])

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers."""
        now, entries = int(time.time() * 1000), list(values.items())
        for first in range(0, len(entries), _METRICS):
            several = [self._entities.Metric(key, value, now, step) for key, value in entries[first : first + _METRICS]]
            self._client.log_batch(self._run, metrics=several)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Write a table as CSV, which MLflow shows as one."""
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        self._client.log_text(self._run, records_text(records, "csv"), f"{name}.csv")

    def figure(self, name: str, svg: str) -> None:
        """Write a figure."""
        self._client.log_text(self._run, svg, f"{name}.svg")

    def end(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._run)

    def _history(self, key: str) -> Sequence[Any]:
        return list(self._client.get_metric_history(self._run, key))

    def _files(self, folder: str | None = None) -> Iterator[str]:
        """Yield the names of tables and figures."""
        for file in self._client.list_artifacts(self._run, folder):
            if file.is_dir:
                yield from self._files(file.path)
            else:
                yield file.path.rpartition(".")[0]


_ID = "pluralrm.id"
_PARAMS, _METRICS = 100, 1000
"""At most so many in one call."""


def _origin(uri: str) -> str:
    """Return a URI without user, password and query."""
    return re.sub(r"//[^/@]*@", "//", uri.partition("?")[0])


TRACKERS: Mapping[str, Callable[[str], Tracker]] = {
    "trackio": TrackioTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}
