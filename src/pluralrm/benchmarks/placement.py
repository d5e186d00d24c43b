"""Where candidates stand: derived from the seed and the item, never drawn in turn."""

import random
from collections.abc import Iterable


def placed(candidates: Iterable[str], item: str, seed: int) -> list[str]:
    """Return the candidates' ids in the order of this item and seed: file order and workers change nothing."""
    order = sorted(candidates)
    random.Random(f"{seed}:{item}").shuffle(order)
    return order
