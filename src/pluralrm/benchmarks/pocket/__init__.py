"""The shipped benchmarks: 60 items in the format of Personalized RewardBench, 12 records in that of RMGAP. No download.

The rows are read by the very code that reads the real benchmarks; `prb.py` and `rmgap.py` show one of each.
"""

from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from pluralrm.benchmarks import prb, rmgap
from pluralrm.benchmarks.dirt import Dirt
from pluralrm.benchmarks.lamp_qa import DOMAINS
from pluralrm.benchmarks.sources import Source
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.specs import Spec

PRB_CARD = Card(
    name="pocket-prb",
    summary="60 items in the format of Personalized RewardBench, shipped: invented users, no download",
    licence="Apache-2.0",
    source="shipped with pluralrm; written for this project",
    labelled="by construction: both answers were written for the user, one of them along the expected aspects",
    citation="The pluralrm developers. pocket-prb, part of pluralrm.",
    notes="Every user is invented; each item is a user of its own with 12 to 14 posts. The longer answer is the chosen "
    "one in about half of the items, and wording was balanced until a cross-validated bag-of-words classifier that "
    "sees only the answers stayed at chance, on these very items: a property of the set, no proof that nothing leaks. "
    "60 items would show a leak of 68% accuracy or more in four of five cases, a "
    "smaller one less often. They show that a pipeline works and catch gross failures; the interval of an accuracy is "
    "about 25 points wide, so they cannot rank models. Use prb for a number to publish.",
)

RMGAP_CARD = Card(
    name="pocket-rmgap",
    summary="12 records (144 prompts) in the format of RMGAP, shipped: no download",
    licence="Apache-2.0",
    source="shipped with pluralrm; written for this project",
    labelled="by construction: each prompt was written for a scenario that one of the four answers fits",
    citation="The pluralrm developers. pocket-rmgap, part of pluralrm.",
    notes="Twelve records, three a domain, show that a pipeline works and catch gross failures; with twelve clusters "
    "they cannot rank models. Prompts and the answers that fit them share some habits of style (contractions, first "
    "person): matching those alone is right in about 41% of prompts, where chance is 25%. Use rmgap for a number to "
    "publish.",
    cluster=rmgap.CARD.cluster,
    average=rmgap.CARD.average,
    metrics=rmgap.CARD.metrics,
)


def load_prb(spec: Spec, *, seed: int) -> Benchmark:  # noqa: ARG001 - every loader takes the spec
    """Return pocket-prb, candidates placed by seed."""
    return _prb(seed)


@lru_cache(maxsize=8)  # what is shipped does not change while a program runs
def _prb(seed: int) -> Benchmark:
    sources = [Source(_shipped("pocket-prb", f"{domain}.jsonl"), domain) for domain in DOMAINS]
    return Benchmark(PRB_CARD, prb.read_items(sources, seed, Dirt()), seed)


def load_rmgap(spec: Spec, *, seed: int) -> Benchmark:  # noqa: ARG001 - every loader takes the spec
    """Return pocket-rmgap, candidates placed by seed."""
    return _rmgap(seed)


@lru_cache(maxsize=8)
def _rmgap(seed: int) -> Benchmark:
    return Benchmark(RMGAP_CARD, rmgap.read_items([Source(_shipped("pocket-rmgap.jsonl"))], seed, Dirt()), seed)


def _shipped(*parts: str) -> Traversable:
    return files(__name__).joinpath(*parts)
