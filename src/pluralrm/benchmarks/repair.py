"""A copy of somebody's files that loads without dirt: what a load would leave out is not in it, and nothing else moves.

Bad rows, blank and repeated posts, repeated pairs and unknown columns go; a post that has the id of another gets a new
one. Every file becomes JSON lines. The copy must read as the same benchmark, content hash and all, or it is removed.
"""

import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import NamedTuple

from pluralrm.benchmarks import load_benchmark, spec_of
from pluralrm.benchmarks.dirt import BAD_ROWS, SKIP, KeptRow, free_id, recorded
from pluralrm.benchmarks.rows import exists, visible
from pluralrm.card import LoadReport
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

_POSTS = ("posts", "profile")
"""The columns in which the formats have posts."""


class Mended(NamedTuple):
    """The benchmark of the mended files, and what was done to the ones before."""

    benchmark: Benchmark
    done: LoadReport
    files: tuple[Path, ...]


def mend(name: str, out: Path) -> Mended:
    """Write the files of a benchmark without their dirt to `out`: a .jsonl file for a file, a folder for a folder."""
    spec = spec_of(name)
    path = Path(spec.target).expanduser()
    if not spec.target or not exists(path):
        raise BenchmarkError(f"{visible(name)}: is no file or folder, and only those are mended")
    _check(path, out)
    with recorded() as kept:
        found = load_benchmark(str(Spec(spec.kind, spec.target, {**spec.options, SKIP: BAD_ROWS})))
    if not kept:
        raise BenchmarkError(f"{visible(name)}: a benchmark of this kind is not mended")
    files: dict[Path, list[str]] = {}
    for each in kept:
        files.setdefault(_place(path, Path(each.place.file), out), []).append(_line(each))
    for file, lines in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines), encoding="utf-8")
    options = {key: value for key, value in spec.options.items() if key != SKIP}
    return Mended(_same(found, Spec(spec.kind, str(out), options), tuple(files)), found.card.load, tuple(files))


def _check(path: Path, out: Path) -> None:
    if exists(out):
        raise BenchmarkError(f"{visible(str(out))}: is there already; name a new {'folder' * path.is_dir() or 'file'}")
    if path.is_file() and out.suffix != ".jsonl":
        raise BenchmarkError(f"{visible(str(out))}: found a file of type {out.suffix!r}, wanted .jsonl")


def _same(found: Benchmark, spec: Spec, files: tuple[Path, ...]) -> Benchmark:
    """Return the benchmark of the mended files, or remove them where they read as another one."""
    problem: BenchmarkError | None = None
    try:
        mended = load_benchmark(str(spec), seed=found.seed)
    except BenchmarkError as exc:
        problem = exc
    else:
        if mended.content_hash == found.content_hash:
            return mended
    for file in files:
        file.unlink()
    raise BenchmarkError(
        f"{visible(spec.target)}: would read as another benchmark than the rows that are good. Where the name "
        "of a file tells the domain of its rows, give the mended one a name that begins like it"
    ) from problem


def _place(path: Path, file: Path, out: Path) -> Path:
    return out if path.is_file() else (out / file.relative_to(path)).with_suffix(".jsonl")


def _line(kept: KeptRow) -> str:
    row = dict(kept.row)
    for column in kept.ignored:
        row = _without(row, column.split("."))
    for field in _POSTS:
        if isinstance(posts := row.get(field), list):
            row[field] = _posts(posts)
    if isinstance(pairs := row.get("pairs"), list):
        row["pairs"] = list({_pair_key(pair): pair for pair in reversed(pairs)}.values())[::-1]
    return json.dumps(row, ensure_ascii=True, default=_plain) + "\n"


def _plain(value: object) -> str:
    """Return a date of a Parquet file as text."""
    as_text: Callable[[], str] | None = getattr(value, "isoformat", None)
    if as_text is None:
        raise BenchmarkError(f"cannot write a {type(value).__name__} as JSON")
    return as_text()


def _without(row: Mapping[str, object], steps: list[str]) -> dict[str, object]:
    """Return a row without the column `profile[].score`, told as its steps."""
    step, *inner = steps
    key = step.removesuffix("[]")
    if not inner:
        return {name: value for name, value in row.items() if name != step}
    value = row.get(key)
    if isinstance(value, dict):
        return {**row, key: _without(value, inner)}
    if isinstance(value, list):
        return {**row, key: [_without(each, inner) if isinstance(each, dict) else each for each in value]}
    return dict(row)


def _posts(posts: list[object]) -> list[object]:
    """Return the posts that `dirt.clean_posts` keeps, under the ids that it gives them."""
    kept: list[object] = []
    ids: set[str] = set()
    met: set[Hashable] = set()
    for post in posts:
        facts = post if isinstance(post, dict) else {"text": post}
        text, name = str(facts.get("text") or ""), facts.get("id")
        known = (str(name), text) if name is not None else (None, facts.get("date") or "", text)
        if not text.strip() or known in met:
            continue
        met.add(known)
        if name is not None and str(name) in ids:
            post = facts | {"id": free_id(str(name), ids)}  # noqa: PLW2901 - the post under its new id
        if isinstance(post, dict) and post.get("id") is not None:
            ids.add(str(post["id"]))
        kept.append(post)
    return kept


def _pair_key(pair: object) -> Hashable:
    return json.dumps(pair, sort_keys=True, default=str)
