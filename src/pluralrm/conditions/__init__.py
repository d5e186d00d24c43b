"""Conditions decide what of the user a model may see; they are the only way from Item to Query.

none        the prompt and the candidates alone
recent:K    and the first K of the user's posts, in stored order (no benchmark here dates its posts)
raw:K       and the K posts of the user that rank highest for this prompt
pairs:N     and the first N labelled pairs of the user, no posts
swapped:K   and posts of another user of the domain, ranked for this prompt: the lower control
noise:K     and random posts of many other users: what any such text does
oracle      and the rubric, no posts: the upper control, said so in every output

docs/conditions.md shows what a model sees under each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pluralrm.conditions.others import Noise, Swapped
from pluralrm.conditions.own import Bare, OwnPairs, OwnPosts
from pluralrm.conditions.rubric import Rubric
from pluralrm.core import Condition
from pluralrm.retrieval import RANKING_KEYS, Ranking, parse_ranking
from pluralrm.specs import Form, Spec, parse, whole_number

__all__ = ["condition_summaries", "load_condition"]

Make = Callable[[Spec, Path | None], Condition]


def _recent(spec: Spec, cache: Path | None) -> Condition:
    return OwnPosts(whole_number(spec.target, "recent:K", least=1), Ranking("recent"), cache)


def _raw(spec: Spec, cache: Path | None) -> Condition:
    return OwnPosts(whole_number(spec.target, "raw:K", least=1), parse_ranking(spec), cache)


def _swapped(spec: Spec, cache: Path | None) -> Condition:
    posts = whole_number(spec.target, "swapped:K", least=1)
    return Swapped(posts, parse_ranking(spec, seeded=True), spec.integer("seed", 0), cache)


def _noise(spec: Spec, cache: Path | None) -> Condition:  # noqa: ARG001 - nothing is ranked
    return Noise(whole_number(spec.target, "noise:K", least=1), spec.integer("seed", 0))


def _pairs(spec: Spec, cache: Path | None) -> Condition:  # noqa: ARG001 - nothing is ranked
    return OwnPairs(whole_number(spec.target, "pairs:N", least=1))


@dataclass(frozen=True, slots=True)
class _Kind:
    make: Make
    form: Form
    summary: str


_KINDS: Mapping[str, _Kind] = {
    "none": _Kind(lambda _spec, _cache: Bare(), Form(), "the prompt alone: what is the model's general taste?"),
    "recent": _Kind(_recent, Form("required"), "recent:K, the user's first K posts in stored order"),
    "raw": _Kind(
        _raw,
        Form("required", RANKING_KEYS),
        "raw:K[,by=bm25|embed:MODEL|recent|random], the user's K posts that rank highest for the prompt",
    ),
    "pairs": _Kind(_pairs, Form("required"), "pairs:N, the user's first N labelled pairs"),
    "swapped": _Kind(
        _swapped,
        Form("required", RANKING_KEYS),
        "swapped:K[,by=...][,seed=N], another user's posts ranked for the same prompt: the lower control",
    ),
    "noise": _Kind(_noise, Form("required", ("seed",)), "noise:K[,seed=N], random posts of many other users"),
    "oracle": _Kind(lambda _spec, _cache: Rubric(), Form(), "the rubric itself: the upper control, no result"),
}


def load_condition(text: str, *, cache: Path | None = None) -> Condition:
    """Return the condition that a spec string names. `cache` is the folder where embeddings are kept.

    >>> load_condition("recent:10").spec
    'recent:10'
    >>> load_condition("raw:10,mmr=0.50,by=bm25").spec
    'raw:10,mmr=0.5'
    """
    spec = parse(text, {name: kind.form for name, kind in _KINDS.items()}, noun="condition")
    return _KINDS[spec.kind].make(spec, cache)


def condition_summaries() -> dict[str, str]:
    """Return what each kind of condition shows, for `pluralrm list conditions`."""
    return {name: kind.summary for name, kind in _KINDS.items()}
