"""How posts are ranked, as a spec string says it: `by=bm25|embed:MODEL|recent|random` and what goes with each."""

from dataclasses import dataclass
from typing import Literal, get_args

from pluralrm.errors import SpecError, did_you_mean
from pluralrm.retrieval.folder import EmbeddingModel, Pooling, Similarity, check_named
from pluralrm.specs import Spec

By = Literal["bm25", "embed", "recent", "random"]
RANKING_KEYS = ("by", "mmr", "pooling", "seed", "similarity")
"""The keys of a spec that parse_ranking reads."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A rule for ordering posts. `mmr` is the weight of relevance against variety: 1 is relevance alone."""

    by: By = "bm25"
    model: EmbeddingModel | None = None
    mmr: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.by == "embed") != (self.model is not None):
            raise ValueError(f"a ranking by={self.by!r} with model={self.model!r}; embed, and only embed, takes one")

    @property
    def options(self) -> dict[str, str]:
        """What a canonical spec string says of this ranking: everything that is not the default."""
        model = self.model
        stated = {
            "by": (f"embed:{model.name}" if model else self.by, "bm25"),
            "mmr": (repr(self.mmr), "1.0"),
            "pooling": ((model and model.pooling) or "", ""),
            "seed": (str(self.seed), "0"),
            "similarity": ((model and model.similarity) or "", ""),
        }
        return {key: value for key, (value, default) in stated.items() if value != default}


def parse_ranking(spec: Spec, *, seeded: bool = False) -> Ranking:
    """Return the ranking that a spec's options say; an option that would change nothing is refused.

    `seeded` allows `seed` whatever the ranking, where the spec's kind has another use for it.
    """
    by, _, name = spec.options.get("by", "bm25").partition(":")
    if by not in get_args(By):
        raise SpecError(f"{spec.kind}: unknown ranking by={by!r}.{did_you_mean(by, get_args(By))}")
    if (by == "embed") != bool(name):
        wanted = "by=embed:MODEL" if by == "embed" else f"by={by}"
        raise SpecError(f"{spec.kind}: found by={spec.options['by']!r}, wanted {wanted}")
    ranked = by in ("bm25", "embed")
    _refuse(spec, ("mmr",), unless=ranked, needs="by=bm25 or by=embed:MODEL")
    _refuse(spec, ("pooling", "similarity"), unless=by == "embed", needs="by=embed:MODEL")
    _refuse(spec, ("seed",), unless=seeded or by == "random", needs="by=random")
    seed = spec.integer("seed", 0)
    return Ranking(by, _model(spec, name), _balance(spec), seed if by == "random" else 0)  # type: ignore[arg-type]


def _refuse(spec: Spec, keys: tuple[str, ...], *, unless: bool, needs: str) -> None:
    for key in keys:
        if key in spec.options and not unless:
            raise SpecError(f"{spec.kind}: {key}= has a meaning only with {needs}")


def _balance(spec: Spec) -> float:
    text = spec.options.get("mmr", "1")
    try:
        balance = float(text)
    except ValueError:
        balance = 0.0
    if not 0 < balance <= 1:
        raise SpecError(f"{spec.kind}: mmr is {text!r}; wanted a number above 0 and at most 1 (1: no variety wanted)")
    return balance


def _model(spec: Spec, name: str) -> EmbeddingModel | None:
    if not name:
        return None
    pooling = _one_of(spec, "pooling", get_args(Pooling))
    similarity = _one_of(spec, "similarity", get_args(Similarity))
    model = EmbeddingModel(name, pooling, similarity)  # type: ignore[arg-type]
    check_named(model)
    return model


def _one_of(spec: Spec, key: str, known: tuple[str, ...]) -> str | None:
    found = spec.options.get(key)
    if found is not None and found not in known:
        raise SpecError(f"{spec.kind}: {key} is {found!r}; wanted {' or '.join(known)}.{did_you_mean(found, known)}")
    return found
