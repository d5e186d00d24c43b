"""Precision: a reward head in bfloat16 and float16 against float32, on an eighth of the prompts of scoring's shapes."""

from functools import partial

from bench import Setup, Shape
from bench.scoring import SHAPES, Sequences, engine, sequences


def part(name: str, setup: Setup) -> Sequences:
    """Return one prompt in eight, two at least."""
    data = sequences(name, setup)
    return data._replace(groups=data.groups[: max(2, len(data.groups) // 8)])


for name in SHAPES:
    shape = Shape(
        f"precision-{name}",
        f"{name} in half precision",
        partial(part, name),
        unit="answers",
        needs=("torch", "transformers"),
        rounds=3,
        tolerance=0.2,  # of scores that spread over about 1
    )
    for dtype in ("float32", "bfloat16", "float16"):
        shape.side(partial(engine, dtype=dtype), name=dtype)
