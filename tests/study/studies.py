"""Small studies for tests: real files and folders, nothing of the package replaced."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pluralrm.core import Query, Verdict
from pluralrm.http import Settings
from pluralrm.study import declare, study
from pluralrm.study.file import StudyDeclaration
from pluralrm.study.parts import StudyContext
from pluralrm.study.result import StudyResult
from pluralrm.study.steps import StudyWork, work

WORLD = "simulated:users=10,items=2"
MODELS = ["random", "longest", "shortest", "bm25", "known:posts", "known:posts,blur=2", "known:taste,blur=1"]
TABLE: Mapping[str, Any] = {
    "title": "A small study",
    "benchmarks": [WORLD],
    "models": MODELS,
    "conditions": ["raw:3"],
    "best-of-n": {"policy": "simulated", "n": 4, "grader": "truth"},
}


def table(**changes: Any) -> dict[str, Any]:
    """Return the table of the small study with some keys changed; `best_of_n` changes keys of that table."""
    best = {**TABLE["best-of-n"], **changes.pop("best_of_n", {})}
    return {**TABLE, "best-of-n": best, **changes}


def small(**changes: Any) -> StudyDeclaration:
    return declare(table(**changes))


def done(out: Path, **changes: Any) -> StudyResult:
    return study(small(**changes), out=out)


def worked(out: Path, *, fresh: Sequence[str] = (), **changes: Any) -> StudyWork:
    """Do the steps of the small study alone: nothing is correlated or drawn, which is what takes time."""
    return work(small(**changes), StudyContext(out, Settings(), fresh=fresh))


def data(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "study.json").read_bytes())
    return found


def report(out: Path) -> tuple[bytes, bytes]:
    """Return the bytes of the two files that a study ends with."""
    return (out / "study.json").read_bytes(), (out / "study.html").read_bytes()


def toml(file: Path, table: Mapping[str, Any]) -> Path:
    """Write a table as TOML: every value of these studies is one that JSON writes in the same way."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for name, inner in table.items():
        if isinstance(inner, Mapping):
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in inner.items())]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


class Counted:
    """Scores by length, and writes a line for every query that it is asked."""

    def __init__(self, to: str = "asked.txt", milliseconds: str = "0") -> None:
        self._to, self._seconds = Path(to), int(milliseconds) / 1000
        self.spec = "counted"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            time.sleep(self._seconds)
            with self._to.open("a") as file:
                file.write(f"{query.id}\n")
            yield Verdict(tuple(float(len(candidate)) for candidate in query.candidates))


class Broken:
    """Crashes on everything."""

    spec = "broken"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict((1 / len(query.id[:0]),))


def counted(file: Path, **keys: str) -> str:
    """Return the spec of a model that counts into a file."""
    options = "".join(f",{key}={value}" for key, value in {"to": str(file), **keys}.items())
    return f"python:tests.study.studies:Counted{options}"


def asked(file: Path) -> list[str]:
    """Return what such a model was asked."""
    return file.read_text().split() if file.exists() else []


def beside(file: str, out: str, begun: str) -> None:
    """Do a study of a file in a process beside the test, once a file says that everything is imported."""
    Path(begun).touch()
    study(file, out=out)
