"""Only `oracle` shows rubric and narrative to a model: canaries in every oracle text, searched in all that leaves."""

import contextlib
import gc
import gzip
import inspect
import io
import json
import logging
import re
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.conditions import condition_summaries, load_condition, posts, traits
from pluralrm.core import Benchmark, Query
from pluralrm.models import BASELINES, unsupported
from pluralrm.runs import score
from pluralrm.runs.records import query_record
from pluralrm.templates import load_template, template_names
from tests.builders import Scripted, bakery
from tests.conditions.test_conditions import paired
from tests.fake_chat import FakeChat, say

CANARY = "zq-canary-7719"
WRITTEN = ("persona:m,k=2", "planner:m,k=2,posts=1", "planner:m,k=2,of=swapped")
TRAITS = (
    "traits",
    "traits,of=swapped",
    "traits,of=least,least=hand",
    "group:2,trait=age",
    "group:2,trait=age,of=outside",
)
CONDITIONS = ("none", "recent:3", "raw:2", "raw:2,by=random", "pairs:1", "swapped:2", "noise:2", *TRAITS, *WRITTEN)
"""All but `oracle`."""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A writer of notes that repeats a canary wherever it is shown one, and the folder where its replies are kept."""
    folder = tmp_path_factory.mktemp("cache")
    with FakeChat(lambda seen: say(f"- saw {CANARY if CANARY in str(seen.body) else 'nothing'}")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("PLURALRM_CACHE", str(folder))
        yield folder


def _seen(query: Query) -> str:
    """Return every text of a query, and every template's rendering of it."""
    filled = ("audit-", "build-", "grade-", "synthesize-p", "synthesize-su")  # persona, pairs, summary: not of a Query
    names = [name for name in template_names() if not name.startswith((*filled, "sample-"))]
    rendered = [load_template(name).render(query, query.candidates[:2]) for name in names]
    rendered += [turn.content for turn in load_template("sample-v1").turns(query)]
    return "\n".join([repr(query), str(query_record(query)), *rendered])


def _leaks(bench: Benchmark, spec: str) -> bool:
    texts = [_seen(query) for query in load_condition(spec).queries(bench, bench.items)]
    assert len(texts) == len(bench.items)
    return any(CANARY in text for text in texts)


def _planted() -> Benchmark:
    bench = paired(bakery(12, canary=CANARY))
    ages, hands = ("young", "old"), ("left", "right", "both")
    declared = [{"age": ages[number % 2], "hand": hands[number % 3]} for number in range(12)]
    items = zip(bench.items, declared, strict=True)
    people = tuple(replace(item, user=replace(item.user, traits=own)) for item, own in items if item.user)
    return replace(bench, items=people)


def test_every_condition_is_searched() -> None:
    kinds = {re.split("[:,]", spec)[0] for spec in CONDITIONS}
    assert kinds | {"oracle", "python"} == set(condition_summaries())  # python: is code of the user's own


@pytest.mark.parametrize("spec", CONDITIONS)
def test_no_query_and_no_rendering_holds_a_canary(spec: str) -> None:
    assert not _leaks(_planted(), spec)


def test_the_oracle_shows_all_of_them_and_says_so(tmp_path: Path) -> None:
    bench = _planted()
    for query in load_condition("oracle").queries(bench, bench.items):
        assert query.reveals_oracle
        assert sum(note.count(CANARY) for note in query.notes) == 4  # narrative; aspect, reason, evidence
    run = score(bench, "longest", "oracle", out=tmp_path)
    assert run.reveals == {"oracle"}
    assert json.loads((Path(run.path) / "run.json").read_text())["reveals"] == ["oracle"]
    assert CANARY.encode() in gzip.decompress((Path(run.path) / "inputs.jsonl.gz").read_bytes())


@pytest.mark.parametrize(
    ("allowed_text", "mutated"),
    [
        ("prompt=item.prompt", "prompt=item.prompt + str(item.oracle)"),
        ("user=user)", "user=user, notes=(item.oracle.narrative,))"),
        ("id=item.id", "id=item.oracle.aspects[0].reason"),
    ],
)
def test_a_broken_allow_list_is_noticed(allowed_text: str, mutated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(posts)
    assert source.count(allowed_text) == 1
    broken = types.ModuleType("broken_allow_list")
    exec(compile(source.replace(allowed_text, mutated), "broken_allow_list", "exec"), broken.__dict__)  # noqa: S102
    for module in (posts, traits):
        monkeypatch.setattr(module, "allowed_query", broken.allowed_query)
    # Notes that are written take the place of those that a broken list adds.
    exposed = [spec for spec in CONDITIONS if not (spec in WRITTEN and "notes=" in mutated)]
    assert all(_leaks(_planted(), spec) for spec in exposed)


def test_nothing_but_the_allow_list_makes_a_query() -> None:
    package = Path(inspect.getfile(posts)).parent
    makers = {file.name: count for file in package.glob("*.py") if (count := file.read_text().count(" Query("))}
    assert makers == {"posts.py": 1}


def test_no_file_of_a_run_and_no_log_holds_a_canary(tmp_path: Path, cache: Path) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            bench = _planted()
            for spec in CONDITIONS:
                for model in (*BASELINES, Scripted(moods={"i0003": "raise", "i0005": "transport"})):
                    if isinstance(model, str) and unsupported(model, load_condition(spec)):
                        continue
                    score(bench, model, spec, out=tmp_path)
    finally:
        logging.getLogger().removeHandler(handler)
    gc.collect()  # a cache that is dropped while the files are read takes its -shm and -wal with it
    kept = [file for file in cache.rglob("*") if file.is_file()]
    assert any(b"saw nothing" in file.read_bytes() for file in kept)
    files = [file for file in tmp_path.rglob("*") if file.is_file()] + kept
    assert len(files) > 200
    for file in files:
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        assert CANARY.encode() not in text, file
    assert CANARY not in heard.getvalue()
