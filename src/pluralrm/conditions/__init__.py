"""Conditions decide what of the user a model may see; they are the only way from Item to Query.

none        the prompt and the candidates alone
recent:K    and the user's K newest posts; where no post has a date, the first K in stored order
raw:K       and the K posts of the user that rank highest for this prompt
pairs:N     and the first N labelled pairs of the user, and K posts with posts=K; controls: of=swapped, labels=shuffled
swapped:K   and as many posts of another person of the domain, ranked for this prompt: the lower control; with by=prompt
            of a person whose posts are near to the prompt
noise:K     and random posts of many other users: what any such text does
persona:M   and a short profile that the chat model M writes from the K posts that rank highest (k=K), no posts
planner:M   and the aspects that M expects the user to look for, from these posts and the prompt, no posts
oracle      and the rubric, no posts: the upper control, said so in every output
python:M:F  whatever the object shows that F in the module M makes, and declares that it shows

docs/conditions.md shows what a model sees under each.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pluralrm.conditions.others import Noise, Swapped, parse_lending
from pluralrm.conditions.own import Bare, OwnPosts, Rubric
from pluralrm.conditions.pairs import KEYS as _PAIRS
from pluralrm.conditions.pairs import open_pairs
from pluralrm.core import Condition, ConditionRole, Role
from pluralrm.errors import SpecError, check_type
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.retrieval import RANKING_KEYS, Ranking, parse_ranking
from pluralrm.specs import Form, Spec, parse, whole_number

if TYPE_CHECKING:
    from pluralrm.http import Settings

__all__ = ["KINDS", "ConditionKind", "condition_summaries", "load_condition", "parse_condition"]


class ConditionMeans(NamedTuple):
    """What a condition works with: where embeddings are kept, and how a server is asked; None is the default."""

    cache: Path | None = None
    settings: "Settings | None" = None


Make = Callable[[Spec, ConditionMeans], Condition]


def _recent(spec: Spec, means: ConditionMeans) -> Condition:
    return OwnPosts(whole_number(spec.target, "recent:K", least=1), Ranking("recent"), means.cache)


def _raw(spec: Spec, means: ConditionMeans) -> Condition:
    return OwnPosts(whole_number(spec.target, "raw:K", least=1), parse_ranking(spec), means.cache)


def _swapped(spec: Spec, means: ConditionMeans) -> Condition:
    posts = whole_number(spec.target, "swapped:K", least=1)
    ranking, by_prompt = parse_lending(spec)
    return Swapped(posts, ranking, spec.integer("seed", 0), means.cache, by_prompt)


def _noise(spec: Spec, means: ConditionMeans) -> Condition:  # noqa: ARG001 - nothing is ranked
    return Noise(whole_number(spec.target, "noise:K", least=1), spec.integer("seed", 0))


def _pairs(spec: Spec, means: ConditionMeans) -> Condition:
    return open_pairs(spec, means.cache)


# ---------------------------------------------------------------- what each kind is in a comparison


def amount_of(spec: Spec) -> int | None:
    """Return the K of `raw:K` or of `persona:MODEL,k=K`; None where the condition does not say."""
    return next((int(text) for text in (spec.target, spec.options.get("k", "")) if text.isdecimal()), None)


_NOT_CHOICES = frozenset({"k", "labels", "of"})
"""Options that say how much is shown and whose it is, not how it is chosen."""


def _choices(spec: Spec, **more: str) -> tuple[tuple[str, str], ...]:
    """Return how what is shown is chosen; a control that goes by the prompt ranks as one that does not."""
    stated = {**more, **spec.options, "by": spec.options.get("by", "").removeprefix("prompt").removeprefix(":")}
    stated["by"] = stated["by"] or more.get("by", "")
    return tuple(sorted((key, value) for key, value in stated.items() if value and key not in _NOT_CHOICES))


def _lender(spec: Spec) -> Role:
    return "nearest" if spec.options.get("by", "").partition(":")[0] == "prompt" else "swapped"


def _shows_nothing(_spec: Spec) -> ConditionRole:
    return ConditionRole("none")


def _shows_rubric(_spec: Spec) -> ConditionRole:
    return ConditionRole("oracle")


def _shows_posts(spec: Spec) -> ConditionRole:
    by = {"by": "recent"} if spec.kind == "recent" else {}
    control = Spec("swapped", spec.target, {**spec.options, **by})
    return ConditionRole("own", amount_of(spec), verbatim=True, options=_choices(spec, **by), control=str(control))


def _shows_others(spec: Spec) -> ConditionRole:
    role: Role = "noise" if spec.kind == "noise" else _lender(spec)
    return ConditionRole(role, amount_of(spec), verbatim=True, options=_choices(spec))


def _own_or_lent(spec: Spec) -> tuple[Role, str]:
    """Return the role of a kind with `of=swapped`, and its control."""
    if spec.options.get("of") == "swapped":
        return _lender(spec), ""
    if spec.options.get("labels") == "shuffled":
        return "shuffled", ""
    return "own", str(Spec(spec.kind, spec.target, {**spec.options, "of": "swapped"}))


def _shows_pairs(spec: Spec) -> ConditionRole:
    role, control = _own_or_lent(spec)
    beside = spec.options.get("posts", "0")
    shown = int(beside) if beside.isdecimal() else 0
    return ConditionRole(role, amount_of(spec), shown, verbatim=True, options=_choices(spec), control=control)


def _shows_notes(spec: Spec) -> ConditionRole:
    role, control = _own_or_lent(spec)
    notes = f"{spec.kind}:{spec.target}"
    return ConditionRole(role, amount_of(spec), notes=notes, options=_choices(spec, notes=notes), control=control)


# ---------------------------------------------------------------- the table


def _plugin(spec: Spec, means: ConditionMeans) -> Condition:  # noqa: ARG001 - its own code has its own means
    from pluralrm.conditions.plugin import load

    return load(spec)


def _asks_target(spec: Spec) -> tuple[str, ...]:
    return (spec.target,)


def _plugin_asks(spec: Spec) -> tuple[str, ...]:
    from pluralrm.conditions.plugin import asks as said

    return said(spec)


def _notes(spec: Spec, means: ConditionMeans) -> Condition:
    from pluralrm.conditions.notes import open_notes

    return open_notes(spec, cache=means.cache, settings=means.settings)


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """One row of the table: how a condition is made, what its spec accepts, what it shows."""

    make: Make
    form: Form
    summary: str
    role: Callable[[Spec], ConditionRole] | None = None
    """What it declares of its part in a comparison; None where the object itself does."""
    asks: Callable[[Spec], tuple[str, ...]] | None = None
    """The chat models that write what is shown, by name."""


_WRITER = ("k", "key", "max_tokens", "of", "posts", "reasoning", "revision", "send", "temperature", "template", "url")
"""Keys of a condition that asks a chat model, beside those of the ranking; docs/conditions.md has the table."""

KINDS: Mapping[str, ConditionKind] = {
    "none": ConditionKind(
        lambda _spec, _means: Bare(), Form(), "the prompt alone: what is the model's general taste?", _shows_nothing
    ),
    "recent": ConditionKind(
        _recent,
        Form("required", example="recent:10"),
        "recent:K, the user's K newest posts; without dates the first K in stored order",
        _shows_posts,
    ),
    "raw": ConditionKind(
        _raw,
        Form("required", RANKING_KEYS, example="raw:10"),
        "raw:K[,by=bm25|embed:MODEL|recent|random], the user's K posts that rank highest for the prompt",
        _shows_posts,
    ),
    "pairs": ConditionKind(
        _pairs,
        Form("required", (*RANKING_KEYS, *_PAIRS), example="pairs:8"),
        "pairs:N[,posts=K][,of=swapped[,by=prompt]][,labels=shuffled], the user's first N labelled pairs; the "
        "controls: another user's, or labels by a coin",
        _shows_pairs,
    ),
    "swapped": ConditionKind(
        _swapped,
        Form("required", RANKING_KEYS, example="swapped:10"),
        "swapped:K[,by=...][,seed=N], another user's posts ranked for the same prompt: the lower control; with "
        "by=prompt those of a user who writes near to the question",
        _shows_others,
    ),
    "noise": ConditionKind(
        _noise,
        Form("required", ("seed",), example="noise:10"),
        "noise:K[,seed=N], random posts of many other users",
        _shows_others,
    ),
    "persona": ConditionKind(
        _notes,
        Form("required", (*RANKING_KEYS, *_WRITER), example="persona:MODEL,url=URL"),
        "persona:MODEL,url=URL[,k=K][,by=...][,of=swapped], a profile that a chat model writes from the user's K posts",
        _shows_notes,
        asks=_asks_target,
    ),
    "planner": ConditionKind(
        _notes,
        Form("required", (*RANKING_KEYS, *_WRITER), example="planner:MODEL,url=URL"),
        "planner:MODEL,url=URL[,k=K][,by=...][,of=swapped], the aspects that a chat model expects the user to look for",
        _shows_notes,
        asks=_asks_target,
    ),
    "oracle": ConditionKind(
        lambda _spec, _means: Rubric(), Form(), "the rubric itself: the upper control, no result", _shows_rubric
    ),
    "python": ConditionKind(
        _plugin,
        PLUGIN,
        "python:package.module:make, your own: an object with reveals and queries(benchmark, items)",
        asks=_plugin_asks,
    ),
}


def load_condition(text: str, *, cache: Path | None = None, settings: "Settings | None" = None) -> Condition:
    """Return the condition that a spec string names.

    `cache` is the folder where embeddings are kept; `settings` say how a server is asked, where one is. Without them
    replies are kept in the user's cache folder.

    >>> load_condition("recent:10").spec
    'recent:10'
    >>> load_condition("raw:10,mmr=0.50,by=bm25").spec
    'raw:10,mmr=0.5'
    """
    check_type(text, (str,), "condition", "a condition's name such as 'none' or 'raw:10'")
    spec = parse_condition(text)
    return KINDS[spec.kind].make(spec, ConditionMeans(cache, settings))


def parse_condition(text: str) -> Spec:
    """Return the parsed spec of a condition; unknown kinds and keys name the nearest known ones."""
    return parse(text, {name: kind.form for name, kind in KINDS.items()}, noun="condition")


def condition_role(condition: Condition) -> ConditionRole:
    """Return what a condition declares of its part in a comparison: the object itself, or else the row of its kind."""
    if not hasattr(condition, "role"):
        return role_of_spec(condition.spec)
    from pluralrm.conditions.plugin import read_role

    return read_role(condition, condition.reveals)


def role_of_spec(text: str) -> ConditionRole:
    """Return the role that a spec declares, for runs that did not record it; of an unknown kind, its amount alone."""
    spec = read_condition(text)
    kind = KINDS.get(spec.kind)
    if kind is None or kind.role is None:
        return ConditionRole(None, amount_of(spec), options=_choices(spec))
    return kind.role(spec)


def read_condition(condition: str) -> Spec:
    """Return the condition's kind, target and options, whatever its kind; what the grammar cannot read is all kind."""
    kind = re.split("[:,]", condition.strip(), maxsplit=1)[0]
    try:
        return parse(condition, {kind: Form("optional", open_keys=True)}, noun="condition")
    except SpecError:
        return Spec(condition)


def asks(text: str) -> tuple[str, ...]:
    """Return the chat models that write what a condition shows, by name."""
    spec = parse_condition(text)
    asked = KINDS[spec.kind].asks
    return () if asked is None else asked(spec)


def condition_summaries() -> dict[str, str]:
    """Return what each kind of condition shows, for `pluralrm list conditions`."""
    return {name: kind.summary for name, kind in KINDS.items()}
