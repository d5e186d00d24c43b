"""Rubric and narrative never reach a model: canaries in every oracle text, searched for in all that leaves."""

import contextlib
import gzip
import inspect
import io
import logging
import types
from pathlib import Path

import pytest

from pluralrm import conditions
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Query
from pluralrm.models import BASELINES
from pluralrm.runs import score
from pluralrm.runs.records import query_record
from pluralrm.templates import load_template, template_names
from tests.builders import Scripted, bakery

CANARY = "zq-canary-7719"
CONDITIONS = ("none", "recent:3")


def _seen(query: Query) -> str:
    """Return every text of a query, and every template's rendering of it."""
    rendered = [load_template(name).render(query) for name in template_names()]
    return "\n".join([repr(query), str(query_record(query)), *rendered])


def _leaks(bench: Benchmark, load: object = load_condition) -> bool:
    texts = [_seen(query) for spec in CONDITIONS for query in load(spec).queries(bench, bench.items)]  # type: ignore[operator]
    assert len(texts) == len(CONDITIONS) * len(bench.items)
    return any(CANARY in text for text in texts)


def test_no_query_and_no_rendering_holds_a_canary() -> None:
    assert not _leaks(bakery(12, canary=CANARY))


@pytest.mark.parametrize(
    ("allowed", "mutated"),
    [
        ("prompt=item.prompt", "prompt=item.prompt + str(item.oracle)"),
        ("user=user)", "user=user, notes=(item.oracle.narrative,))"),
        ("id=item.id", "id=item.oracle.aspects[0].reason"),
    ],
)
def test_a_broken_allow_list_is_noticed(allowed: str, mutated: str) -> None:
    source = inspect.getsource(conditions)
    assert source.count(allowed) == 1
    broken = types.ModuleType("broken_conditions")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: __import__("sys").modules.pop("broken_conditions"))
        __import__("sys").modules["broken_conditions"] = broken
        exec(compile(source.replace(allowed, mutated), "broken_conditions", "exec"), broken.__dict__)  # noqa: S102
        assert _leaks(bakery(12, canary=CANARY), broken.load_condition)


def test_no_file_of_a_run_and_no_log_holds_a_canary(tmp_path: Path) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            bench = bakery(12, canary=CANARY)
            for spec in CONDITIONS:
                for model in (*BASELINES, Scripted(moods={"i0003": "raise", "i0005": "transport"})):
                    if spec == "none" and model in ("lsa", "copy"):
                        continue
                    score(bench, model, spec, out=tmp_path)
    finally:
        logging.getLogger().removeHandler(handler)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 40
    for file in files:
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        assert CANARY.encode() not in text, file
    assert CANARY not in heard.getvalue()
