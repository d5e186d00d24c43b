"""Disks that are full: a limit on the size of every file, and, where bubblewrap may mount, a small disk in memory.

With the limit a write ends in the middle, as on a disk that fills up, with another errno. Python ignores the signal
that comes with it.
"""

import random
import resource
from functools import partial
from pathlib import Path

from tests.chaos.kills import Verb, Work, live


def limited(folder: Path, work: Work, most: int) -> None:
    """Do the work where no file may grow beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    work(folder)


def findings(name: str, verb: Verb, place: Path, *, times: int, seed: int) -> list[str]:
    """Return what went wrong on so many full disks, on each of which the verb stops; the rest is done with room."""
    whole = verb.begun(place / "whole")
    before = set(whole.parent.rglob("*"))
    assert live(verb.work, whole).code == 0
    wanted, found = verb.contents(whole), []
    written = set(whole.parent.rglob("*")) - before  # the limit does not touch what was there
    largest = max(path.stat().st_size for path in written if path.is_file())
    for number in range(times):
        most = random.Random(f"{seed}:{name}:{number}").randrange(1, largest)
        folder = verb.begun(place / str(number))
        life = live(partial(limited, work=verb.work, most=most), folder)
        where = f"{name}, seed {seed}, {number}, at most {most:,} bytes"
        if life.code == 0 and not life.told:
            found.append(f"{where}: nothing was refused")
        elif life.code != 1 or "Error: " not in life.told or not _is_one_message(life.told):
            found.append(f"{where}: ended with {life.code}: {life.told[:300]}")
        if verb.looks_finished(folder) and verb.contents(folder) != wanted:
            found.append(f"{where}: looks finished, and is not whole")
        again = live(verb.work, folder)
        if again.code or verb.contents(folder) != wanted:
            found.append(f"{where}: with room again it ended with {again.code}: {again.told[:300]}, or otherwise")
    return found


def _is_one_message(told: str) -> bool:
    """Return whether it is an error of ours, and not that of the system."""
    return told.partition(":")[0] in {"RunError", "PoolError", "ModelError", "PlanError", "ServiceError", "StudyError"}
