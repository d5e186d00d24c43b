"""Where a name leads, what is read of a folder, and what its files hash to."""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm import folders
from pluralrm.digests import digest
from pluralrm.errors import MissingExtraError, ModelError
from tests.benchmarks.hub_server import Child, Hub
from tests.model_folders import model_files, write_folder

FETCH = """
import json, sys
from pluralrm.folders import fetch_folder
for line in sys.stdin:
    path, commit = fetch_folder(line.strip(), label="embed:x", extra="embed")
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    print(json.dumps({"commit": commit, "files": files}), flush=True)
"""


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "named"))
    assert folders.default_cache() == tmp_path / "named"
    monkeypatch.delenv("PLURALRM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert folders.default_cache() == tmp_path / "pluralrm"


def test_a_name_that_is_a_folder_is_that_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "owner" / "name").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    assert folders.local_folder("owner/name") == Path("owner/name")  # before the hub's model of that name
    assert folders.local_folder("~/owner") == tmp_path / "owner"
    for name in ("file", "nothing", "~nobody-by-that-name/model"):
        assert folders.local_folder(name) is None


@pytest.mark.parametrize(
    ("name", "is_id"),
    [
        ("owner/name", True),
        ("owner/name-7b.v2@main", True),
        ("owner/name@refs/pr/3", True),
        ("name", False),
        ("/owner/name", False),
        ("./owner/name", False),
        ("../name", False),
        ("owner/name/file", False),
        ("owner/name@", False),
        ("owner/na me", False),
        ("https://host/owner/name", False),
    ],
)
def test_what_can_be_a_hub_id(name: str, is_id: bool) -> None:
    assert folders.is_hub_id(name) is is_id


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"hf:owner/name needs .*pluralrm\[hf\]"):
        folders.fetch_folder("owner/name", label="hf:owner/name", extra="hf")


def test_a_model_that_cannot_be_had_is_one_line_with_the_way_out() -> None:
    with pytest.raises(ModelError, match=r"^hf:no/thing: cannot be fetched \(.+\)\. Name a local copy by its path$"):
        folders.fetch_folder("no/thing", label="hf:no/thing", extra="hf")


def test_only_safe_files_are_fetched_those_in_subfolders_too(tmp_path: Path) -> None:
    files = {"modules.json": b"[]", "1_Pooling/config.json": b"{}", "2_Dense/pytorch_model.bin": b"", "a.py": b""}
    with Hub() as hub:
        hub.publish("owner/encoder", "main", model_files() | files)
        with Child(hub.url, tmp_path, FETCH) as child:
            found = child.load("owner/encoder")
    assert found["commit"] == hub.commits["owner/encoder", "main"]
    assert {"modules.json", "1_Pooling/config.json", "model.safetensors"} <= set(found["files"])
    assert found["files"] == sorted(hub.downloaded)
    assert not any(name.endswith((".bin", ".py", ".md")) for name in hub.downloaded)


# ---------------------------------------------------------------- hashes


def _by_hand(folder: Path) -> str:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return digest([[str(file.relative_to(folder)), hashlib.sha256(file.read_bytes()).hexdigest()] for file in files])


@given(st.dictionaries(st.sampled_from(["a", "b", "sub/c"]), st.binary(max_size=40), min_size=1))
def test_a_hash_is_that_of_names_and_contents(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("hashed")
    write_folder(folder, contents)
    files = [folder / name for name in contents]
    assert folders.files_hash(folder, reversed(files)) == folders.files_hash(folder, files) == _by_hand(folder)


def _aged(file: Path, seconds: float) -> None:
    when = file.stat().st_mtime_ns - int(seconds * 1e9)
    os.utime(file, ns=(when, when))


def test_a_file_at_rest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    _aged(file, 60)
    wanted = folders.file_hash(file)
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("read again"))
    assert folders.file_hash(file) == wanted == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize("ages", [(0, 0, 0), (60, 50, 40)])
def test_a_file_that_changes_is_read_again(tmp_path: Path, ages: tuple[int, ...]) -> None:
    file = tmp_path / "model.safetensors"
    for age, content in zip(ages, (b"weights", b"weightz", b"longer weights"), strict=True):
        file.write_bytes(content)
        _aged(file, age)
        assert folders.file_hash(file) == hashlib.sha256(content).hexdigest()


def test_a_file_rewritten_within_a_tick_of_the_clock_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    folders.file_hash(file)
    before = file.stat().st_mtime_ns
    file.write_bytes(b"weightz")
    os.utime(file, ns=(before, before))
    assert folders.file_hash(file) == hashlib.sha256(b"weightz").hexdigest()


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, None])
def test_json_that_cannot_be_read_names_the_file(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"^hf:x: config\.json cannot be read: "):
        folders.read_json(tmp_path / "config.json", label="hf:x")


def test_json_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"größe": [1, null]}', encoding="utf-8")
    assert folders.read_json(tmp_path / "config.json", label="x") == {"größe": [1, None]}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "a.pt", "a.pth", "a.pkl", "last.ckpt"])
def test_a_pickle_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ModelError, match=rf"hf:x: found {name}, wanted .*can run code.*save_pretrained"):
        folders.refuse_pickles(["config.json", name], label="hf:x")


def refused(names: Sequence[str]) -> str:
    """Return what is said against some files, '' where nothing is."""
    try:
        folders.refuse_pickles(names, label="hf:x")
    except ModelError as exc:
        return str(exc)
    return ""


def test_safe_files_are_not_refused_and_a_pickle_among_them_is() -> None:
    safe = [*model_files(), "binary.txt"]
    assert refused(safe) == ""
    assert "found a.pkl, wanted" in refused([*safe, "a.pkl"])
