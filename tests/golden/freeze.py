"""Writes tests/golden/frozen anew: `python -m tests.golden.freeze [KIND...]`; only a changed published number needs it.

The judge's replies are recorded from a scripted server; the tiny neural models are built from configs with fixed seeds.
"""

import contextlib
import gzip
import hashlib
import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pluralrm.cli import app
from tests.fake_chat import Action, FakeChat, Seen, say
from tests.golden.commands import JUDGE, KINDS, QUESTIONS, Kind, Question

HERE = Path(__file__).parent
FROZEN = HERE / "frozen"
TAPE = HERE / "tape.jsonl.gz"
VOLATILE = (
    "versions",
    "git",
    "python",
    "platform",
    "seconds",
    "started",
    "finished",
    "timing",
    "created",
    "at",
    "when",
)
"""Keys whose values say when and with what, not what was found."""
LEFT_OUT = (".lock", ".html", "/checkpoint")
"""Files of a folder that no question reads."""
LONG = 12
"""A longer list in an answer is kept as its hash."""


def run(words: Sequence[str]) -> str:
    """Run a command in the current folder and return what it printed; an AssertionError unless it ended well."""
    result = CliRunner().invoke(app, [*words], catch_exceptions=False)
    assert result.exit_code == 0, f"{words}: {result.output}"
    return result.stdout


def answer(question: Question, folder: Path) -> Any:
    """Return what a question prints of the folders in `folder`, the current one, without times and versions."""
    words = [str(next(folder.glob(word)).relative_to(folder)) if "*" in word else word for word in question.command]
    return brief(lasting(json.loads(run(words))))


def lasting(value: Any) -> Any:
    """Return JSON without times and versions."""
    if isinstance(value, Mapping):
        return {key: lasting(inner) for key, inner in value.items() if key not in VOLATILE}
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


def brief(value: Any) -> Any:
    """Return JSON with the hash of every long list in its place."""
    if isinstance(value, Mapping):
        return {key: brief(inner) for key, inner in value.items()}
    if isinstance(value, list) and len(value) > LONG:
        return f"{len(value)} of sha256 {hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()}"
    return [brief(inner) for inner in value] if isinstance(value, list) else value


def texts(kind: Kind, folder: Path) -> dict[str, str]:
    """Return the hash of the lines of each data file of a kind (rows, samples, grades), without seals and times."""
    files = [file for name in kind.folders for file in sorted((folder / name).glob(kind.lasting))]
    return {
        str(file.relative_to(folder)): hashlib.sha256("\n".join(_lines(file)).encode()).hexdigest()
        for file in files
        if file.name != "attempts.jsonl"
    }


def _lines(file: Path) -> Iterator[str]:
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield json.dumps(lasting({key: value for key, value in row.items() if key != "check"}), sort_keys=True)


def pack(folder: Path, names: Sequence[str], to: Path) -> None:
    """Write folders into an archive whose bytes depend on nothing but theirs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for name in names:
            archive.add(folder / name, arcname=name, filter=_plain)
    to.write_bytes(buffer.getvalue())


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = (
        0,
        0,
        0,
        "",
        "",
        0o755 if info.isdir() else 0o644,
    )
    return None if info.name.endswith(LEFT_OUT) else info


def unpack(kinds: Sequence[Kind], folder: Path) -> None:
    """Write the frozen folders of some kinds into `folder`."""
    for kind in kinds:
        with tarfile.open(FROZEN / f"{kind.name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")


def prepare(folder: Path) -> None:
    """Write what the commands read beside each other's folders: the study's file and the judge's recording."""
    shutil.copy(HERE / "study.toml", folder)
    (folder / "tape.jsonl").write_bytes(gzip.decompress(TAPE.read_bytes()))


def _judged(seen: Seen) -> Action:
    side = hashlib.sha256(seen.prompt.encode()).digest()[0] % 5
    return say("Hmm." if side == 4 else f"Both were read.\nResult: {'AB'[side % 2]}")


def _record(folder: Path) -> None:
    """Record the judge's replies and keep them with the address that the frozen command names."""
    address = JUDGE.split("url=")[1]
    judged = next(kind for kind in KINDS if kind.name == "judged").commands[0]
    with FakeChat(_judged) as server, tempfile.TemporaryDirectory() as scratch:
        words = [word.replace(address, server.url) for word in judged]
        words[words.index("--replay")] = "--record"
        words[words.index("judged")] = scratch
        run(words)
        rows = map(
            json.loads, (folder / "tape.jsonl").read_text(encoding="utf-8").replace(server.url, address).splitlines()
        )
        lines = [json.dumps({key: value for key, value in row.items() if key != "check"}) for row in rows]
    TAPE.write_bytes(gzip.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), mtime=0))


def _models(folder: Path) -> None:
    from tests.models.neural.tiny import language_folder, reward_folder

    reward_folder(folder / "tiny-rm", seed=1)
    language_folder(folder / "tiny-lm", seed=2, hidden_size=16, intermediate_size=16)


def freeze(names: Sequence[str]) -> None:
    """Write the folders of the named kinds, or of all, and then the answers to every question."""
    FROZEN.mkdir(exist_ok=True)
    chosen = [kind for kind in KINDS if not names or kind.name in names]
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        folder = Path(scratch)
        unpack([kind for kind in KINDS if kind not in chosen], folder)
        if any(kind.name == "judged" for kind in chosen):
            _record(folder)
        prepare(folder)
        if any(kind.neural for kind in chosen):
            _models(folder)
        for kind in chosen:
            for command in kind.commands:
                run(command)
            pack(folder, kind.folders, FROZEN / f"{kind.name}.tar.xz")
        write(
            FROZEN / "texts.json",
            {kind.name: texts(kind, folder) for kind in KINDS if kind.lasting and not kind.neural},
        )
        for question in QUESTIONS:
            write(FROZEN / f"{question.name}.json", answer(question, folder))


def write(file: Path, value: object) -> None:
    """Write JSON as it can be read and compared in a diff."""
    file.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    freeze(sys.argv[1:])
