"""Plans of shipped benchmarks, and people whose opinions are known."""

from functools import cache

from pluralrm.annotate.plan import AnnotationPlan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Benchmark

loaded = cache(load_benchmark)


@cache
def pair_plan(
    annotators: int = 8, *, each: int = 2, seed: int = 0, key: str = "secret", **more: object
) -> AnnotationPlan:
    """Return a plan of the shipped pairs; a plan is frozen, and is made once."""
    ask = PlanRequest(annotators, each=each, seed=seed, **more)  # type: ignore[arg-type]
    return make_plan(pairs(), ask, key=key)


def pairs() -> Benchmark:
    """Return the shipped pairs, in both arms."""
    return loaded("pocket-prb")


def fours() -> Benchmark:
    """Return the shipped records of four answers."""
    return loaded("pocket-rmgap")
