"""Folders that one process writes: removed at once, and never under the hands of another."""

import fcntl
import os
from pathlib import Path
from threading import Timer

import pytest

from pluralrm.errors import StudyError
from pluralrm.files import LOCK, is_held, lock_folder, remove_contents, remove_folder
from pluralrm.study.ppo.trainer import remove_at_once


@pytest.mark.parametrize("busy", [".", "scores/here"])
def test_a_folder_in_which_another_process_works_is_not_removed(tmp_path: Path, busy: str) -> None:
    folder = tmp_path / "training"
    lock = lock_folder(folder / busy)
    (folder / "run.json").write_text("{}")
    with pytest.raises(BlockingIOError):
        remove_folder(folder)
    with pytest.raises(StudyError, match="another process is working there"):
        remove_at_once(folder)
    assert (folder / "run.json").exists()
    os.close(lock)
    remove_at_once(folder)
    assert list(tmp_path.iterdir()) == []


def test_contents_are_removed_and_the_lock_stays(tmp_path: Path) -> None:
    lock = lock_folder(tmp_path)
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "run.json").write_text("{}")
    remove_contents(tmp_path, last="run.json")
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    os.close(lock)


def test_asking_whether_a_folder_is_held_keeps_no_writer_out(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    assert list(tmp_path.iterdir()) == []
    lock = lock_folder(tmp_path)
    assert is_held(tmp_path)
    os.close(lock)
    assert not is_held(tmp_path)
    # As is_held has it, for longer than it ever does.
    asked = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
    Timer(0.005, os.close, [asked]).start()
    os.close(lock_folder(tmp_path))
