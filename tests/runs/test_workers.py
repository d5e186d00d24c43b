"""`--devices`: one process a device, which sees no other; rows and identity do not know which."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pluralrm.cli.options import listed_devices
from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError, SpecError
from pluralrm.runs import load_manifest, score
from pluralrm.runs.workers import WorkerPool, open_scorer
from tests.builders import bakery


class Seeing:
    """Notes which devices its process sees: `python:tests.runs.test_workers:Seeing,folder=DIR`."""

    spec = "seeing"

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        import os
        import time

        (self._folder / str(os.getpid())).write_text(json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES")))
        for query in queries:
            time.sleep(0.01)
            yield Verdict(tuple(len(candidate) / 7 for candidate in query.candidates))


def rows_of(folder: Path) -> bytes:
    [file] = folder.rglob("rows.jsonl")
    return file.read_bytes()


@pytest.mark.parametrize(
    ("names", "outer", "seen"),
    [("cpu,cpu", None, {""}), ("cuda:0,cuda:1", "4,GPU-7", {"4", "GPU-7"})],
)
def test_each_worker_sees_one_device(
    names: str, outer: str | None, seen: set[str], *, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outer is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", outer)
    (tmp_path / "seen").mkdir()
    spec = f"python:tests.runs.test_workers:Seeing,folder={tmp_path / 'seen'}"
    run = score(bakery(96), spec, out=tmp_path / "two", devices=listed_devices(names))
    alone = score(bakery(96), spec, out=tmp_path / "one")
    files = list((tmp_path / "seen").iterdir())
    assert {json.loads(file.read_text()) for file in files} - {outer} == seen
    assert rows_of(tmp_path / "two") == rows_of(tmp_path / "one")
    assert load_manifest(run.path).facts() == load_manifest(alone.path).facts()


@pytest.mark.parametrize(
    ("workers", "names", "told"),
    [
        (3, "cpu,cpu", "3 workers on 2 devices"),
        (1, "gpu:0", "found 'gpu:0', wanted cpu or cuda:N"),
        (1, "cuda", "found 'cuda', wanted cpu or cuda:N"),
        (1, "cpu,", "found '', wanted cpu or cuda:N"),
    ],
)
def test_devices_that_make_no_sense_are_refused(workers: int, names: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        open_scorer("longest", workers, devices=listed_devices(names))


def test_a_device_in_the_spec_and_devices_are_refused() -> None:
    with pytest.raises(SpecError, match="leave device= out"):
        open_scorer("hf:x,device=cpu", 2, devices=["cpu", "cpu"])


def test_without_torch_no_device_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "pluralrm.models.neural.loading", raising=False)
    with open_scorer("hf:x", 2, devices=["cuda:0", "cuda:1"]) as scorer:
        assert isinstance(scorer, WorkerPool)  # whose workers name the extra that is missing


@pytest.mark.hf
def test_a_model_of_weights_may_be_on_any_device_that_is_here() -> None:
    with open_scorer("hf:x", 1, devices=["cpu", "cpu"]) as scorer:
        assert isinstance(scorer, WorkerPool)


@pytest.mark.hf
def test_a_device_that_is_not_there_is_refused_before_a_worker_starts() -> None:
    with pytest.raises(ModelError, match="torch finds no CUDA device here"):
        open_scorer("hf:x", 2, devices=["cuda:0", "cuda:1"])
