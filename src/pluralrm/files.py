"""Files that outlive a kill: torn ends are cut, small files are replaced at once, a folder has one writer."""

import csv
import fcntl
import gzip
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pluralrm.errors import MetricError, MissingExtraError

LOCK = ".lock"
"""The file in a folder that its one writer holds."""
_TRIES, _INSTANT = 3, 0.01


def lock_folder(folder: Path) -> int:
    """Return a descriptor that holds a folder, made where it is missing, until it is closed.

    BlockingIOError where another process holds it.
    """
    return lock_file(folder / LOCK)


def lock_file(path: Path) -> int:
    """Return a descriptor that holds a file, made where it is missing, until it is closed.

    BlockingIOError where another process holds it. It is still read and written through other descriptors.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # the folder was removed in between
            continue
        try:
            _flock(lock)
        except OSError:
            os.close(lock)
            raise
        if _is_open_as(lock, path):
            return lock
        os.close(lock)  # the lock of a file that its holder removed before it let go: it keeps nobody out


@contextmanager
def held(path: Path, refusal: Exception) -> Iterator[None]:
    """Hold a file while the block runs; raise the refusal where another process holds it."""
    try:
        lock = lock_file(path)
    except BlockingIOError as exc:
        raise refusal from exc
    try:
        yield
    finally:
        os.close(lock)


def _flock(lock: int) -> None:
    """Take a lock; who only asks whether it is held has it for an instant, and is waited for."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_INSTANT)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(folder: Path) -> bool:
    """Return whether a process holds a folder; asking neither writes to it nor keeps anybody out."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _is_open_as(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def is_free(folder: Path) -> bool:
    """Return whether nothing is there, or an empty folder."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder beside, which takes this one's place once it is written: a kill or an error leaves what was there.

    BlockingIOError where another process writes it. What it replaces may be gone after a kill in between, never half.
    """
    beside = folder.with_name(f"{folder.name}.new")
    lock = lock_folder(beside)
    try:
        remove_contents(beside)
        yield beside
        for path in beside.rglob("*"):
            if path.is_file() and path.name != LOCK:
                sync(path)
        remove_folder(folder)
        beside.replace(folder)
        (folder / LOCK).unlink()
        sync(folder.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def sync(path: Path) -> None:
    """Put a file, or the names in a folder, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Remove a folder: a kill leaves all of it or none.

    BlockingIOError, and nothing removed, where another process holds the folder or one inside it.
    """
    aside = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if not folder.exists():
        return
    with ExitStack() as stack:
        for path in sorted({folder / LOCK, *folder.rglob(LOCK)}):
            stack.callback(os.close, lock_file(path))
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def remove_contents(folder: Path, *, last: str = "") -> None:
    """Remove what a folder that this process holds has in it, the file `last` at the end; the lock stays."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == last):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def append(path: Path, content: bytes) -> None:
    """Write at the end of a file and return when it is on disk."""
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def reserve(path: Path) -> None:
    """Take the room on the disk for all of a file that is written through memory; OSError where there is too little.

    Without it a full disk ends the process by a signal when a page is written.
    """
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def drop_torn_line(path: Path) -> None:
    """Cut a last line that a kill left without its end."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            step = min(65_536, end)
            file.seek(end - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                end = end - step + newline + 1
                break
            end -= step
        if end < size:
            file.truncate(end)


def drop_torn_member(path: Path) -> None:
    """Cut a last gzip member that a kill left without its end."""
    if not path.exists():
        return
    whole = sum(size for size, _ in members(path))
    if whole < path.stat().st_size:
        os.truncate(path, whole)


def drop_lines(path: Path, keep: Callable[[bytes], bool]) -> None:
    """Take out of a gzip file of lines those that are not wanted; a kill leaves the old file or the new one."""
    if not path.exists():
        return
    prefix, changed = 0, False
    rest: list[bytes] = []
    for size, text in members(path):
        lines = text.splitlines(keepends=True)
        chosen = [line for line in lines if keep(line)]
        changed = changed or len(chosen) < len(lines)
        if changed:
            rest += chosen
        else:
            prefix += size
    if changed:
        _rewrite(path, prefix, gzip.compress(b"".join(rest), mtime=0) if rest else b"")


def _rewrite(path: Path, prefix: int, end: bytes) -> None:
    beside = beside_of(path)
    with path.open("rb") as source, beside.open("wb") as file:
        shutil.copyfileobj(source, file)
        file.truncate(prefix)
        file.seek(prefix)
        file.write(end)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def members(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the compressed size and the text of each complete gzip member."""
    with path.open("rb") as file:
        ahead = b""
        while True:
            reader, parts, size = zlib.decompressobj(wbits=31), [], 0
            while not reader.eof:
                block = ahead or file.read(65_536)
                ahead = b""
                if not block:
                    return
                try:
                    parts.append(reader.decompress(block))
                except zlib.error:
                    return
                size += len(block)
            ahead = reader.unused_data
            yield size - len(ahead), b"".join(parts)


def beside_of(path: Path) -> Path:
    """Return the file that `replace_file` writes before it takes the place of this one; a kill may leave it."""
    return path.with_suffix(".tmp")


def replace_file(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write a file so that a kill leaves the old one or the new one, never half of one."""
    content = content.encode() if isinstance(content, str) else content
    beside = beside_of(path)
    with beside.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def csv_rows(path: str | Path, *, form: str) -> list[tuple[int, list[str]]]:
    """Return the rows of a CSV file in UTF-8 that are not blank, white space stripped, each with the line it ends on.

    A file that cannot be read is a MetricError, which says what `form` it should have.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise MetricError(f"cannot read {str(path)!r}: {exc}. Wanted a CSV file in UTF-8{form}") from exc
    return [(line, row) for line, row in rows if any(row)]


def write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as Parquet, with the columns that any of them has; MissingExtraError without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as exc:
        raise MissingExtraError("Parquet files", "hub") from exc
    columns = dict.fromkeys(name for row in rows for name in row)  # pyarrow takes those of the first row alone
    parquet.write_table(pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows]), path)
