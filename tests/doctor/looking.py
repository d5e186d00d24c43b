"""How the tests look at a model."""

from collections.abc import Mapping
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark
from pluralrm.doctor import Examination, Sign, examine, is_neural
from pluralrm.models import load_model

BENCH = load_benchmark("pocket-prb")
NAMES = ["bos", "answer", "padding", "length", "labels", "dtype", "batching", "packing", "order", "reach", "speed"]


def look(spec: str, condition: str = "none", *, item: str = "", benchmark: Benchmark = BENCH) -> Examination:
    model = load_model(spec)
    assert is_neural(model)
    return examine(model, benchmark, load_condition(condition), item=item)


def signs(found: Examination) -> Mapping[str, Sign]:
    return {sign.name: sign for sign in found.signs}


def chat(path: Path, source: str) -> str:
    """Return the key of a spec that names a chat template."""
    file = path / "own.jinja"
    file.write_text(source)
    return f",chat={file}"
