"""Do the rewrites of a prompt still mean what it means? Their cosine, beside that with prompts of other groups."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pluralrm.audit.measured import amount, share
from pluralrm.audit.near import normalised
from pluralrm.audit.result import Finding, Status
from pluralrm.core import Benchmark, Estimate, Item
from pluralrm.text import counted, estimated

if TYPE_CHECKING:
    from pluralrm.audit.embedded import Embedder

TOPIC = "paraphrases"
COSINE = 0.70
"""What the published pipeline asks of a paraphrase."""
WARN = 0.05
"""The share of rewrites below COSINE, or with the words of its prompt, above which an audit warns."""


def paraphrases(benchmark: Benchmark, embedder: "Embedder | None") -> Finding:
    """Return the cosine of each rewrite with its base prompt, and of base prompts of one record with each other."""
    groups = _groups(benchmark)
    if not groups:
        return Finding(TOPIC, "not available", "no prompt has several phrasings (tags record, group, phrasing)", {})
    if embedder is None:
        return Finding(TOPIC, "not available", "no embedding model given (--embed embed:MODEL)", {})
    items = [item for group in groups for item in group]
    rows = dict(zip((item.id for item in items), embedder.rows([item.prompt for item in items]), strict=True))
    pairs = [(group[0], other) for group in groups for other in group[1:]]
    cosines = np.array([float(rows[base.id] @ rows[other.id]) for base, other in pairs])
    clusters = [base.cluster for base, _ in pairs]
    low = cosines < COSINE
    same = [normalised(base.prompt) == normalised(other.prompt) for base, other in pairs]
    mean, below, copied = amount(cosines, clusters), share(low, clusters), share(same, clusters)
    beside = _beside(groups, rows)
    found = (
        f"{counted(len(pairs), 'rewrite')} have a cosine of {mean.value:.2f} with their prompt by {embedder.spec} on "
        f"average (least {cosines.min():.2f}); {estimated(below)}% lie below {COSINE:.2f}"
        + (f" (such as {pairs[int(cosines.argmin())][1].id!r})" if low.any() else "")
        + (f"; prompts of other groups of the record have {beside:.2f}" if beside is not None else "")
        + f"; {estimated(copied)}% say the words of their prompt again"
    )
    measures: dict[str, Estimate | float | int] = {
        "cosine": mean,
        f"below {COSINE:.2f}": below,
        "same words": copied,
        "rewrites": len(pairs),
    }
    status: Status = "warn" if max(below.value, copied.value) > WARN else "note" if low.any() or any(same) else "ok"
    return Finding(TOPIC, status, found, measures if beside is None else measures | {"other groups": beside})


def _groups(benchmark: Benchmark) -> list[list[Item]]:
    """Return the phrasings of each group, the base first; groups with one phrasing are left out."""
    found: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in benchmark.items:
        if {"record", "group", "phrasing"} <= item.tags.keys():
            found[item.tags["record"], item.tags["group"]].append(item)
    several = [one for _, one in sorted(found.items()) if len(one) > 1]
    return [sorted(one, key=lambda item: (item.tags.get("role") != "base", item.id)) for one in several]


def _beside(groups: list[list[Item]], rows: Mapping[str, NDArray[np.float32]]) -> float | None:
    """Return the mean cosine of the base prompts of one record with each other; None where records have one group."""
    bases: dict[str, list[Item]] = defaultdict(list)
    for group in groups:
        bases[group[0].cluster].append(group[0])
    found = [
        float(rows[one.id] @ rows[other.id])
        for own in bases.values()
        for place, one in enumerate(own)
        for other in own[place + 1 :]
    ]
    return float(np.mean(found)) if found else None
