"""Conditions decide what of the user a model may see; they are the only way from Item to Query.

none        the prompt and the candidates alone
recent:K    and the first K of the user's posts, in stored order (no benchmark here dates its posts)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pluralrm.core import Benchmark, Condition, Item, Query, Reveals, UserView
from pluralrm.specs import Form, Spec, parse, whole_number


def shown(item: Item, user: UserView | None = None) -> Query:
    """Return the Query for an item. This is the allow-list: whatever is not named here, no model sees."""
    return Query(id=item.id, prompt=item.prompt, candidates=item.candidates, user=user)


@dataclass(frozen=True, slots=True)
class NoContext:
    """The prompt and the candidates alone."""

    spec: str = "none"
    reveals: frozenset[Reveals] = frozenset()

    def unsupported(self, benchmark: Benchmark) -> str | None:  # noqa: ARG002 - every benchmark can be shown bare
        """Return None: nothing is needed."""
        return None

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:  # noqa: ARG002
        """Yield one bare Query per item."""
        return (shown(item) for item in items)


@dataclass(frozen=True, slots=True)
class Recent:
    """The first `posts` of the user's posts, in stored order."""

    posts: int
    reveals: frozenset[Reveals] = frozenset({"posts"})

    @property
    def spec(self) -> str:
        """The canonical string."""
        return f"recent:{self.posts}"

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not, where no user has a post."""
        return None if benchmark.has_posts else f"{benchmark.card.name} has no posts to show"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:  # noqa: ARG002
        """Yield one Query per item with the user's first posts; an item without a user gets none."""
        for item in items:
            user = item.user
            yield shown(item, None if user is None else UserView(user.id, user.posts[: self.posts]))


def _recent(spec: Spec) -> Condition:
    return Recent(whole_number(spec.target, "recent:K", least=1))


@dataclass(frozen=True, slots=True)
class _Kind:
    make: Callable[[Spec], Condition]
    form: Form
    summary: str


_KINDS: Mapping[str, _Kind] = {
    "none": _Kind(lambda spec: NoContext(), Form(), "the prompt alone: what is the model's general taste?"),  # noqa: ARG005
    "recent": _Kind(_recent, Form("required"), "recent:K, the user's first K posts in stored order"),
}


def load_condition(text: str) -> Condition:
    """Return the condition that a spec string names.

    >>> load_condition("recent:10").spec
    'recent:10'
    """
    spec = parse(text, {name: kind.form for name, kind in _KINDS.items()}, noun="condition")
    return _KINDS[spec.kind].make(spec)


def condition_summaries() -> dict[str, str]:
    """Return what each kind of condition shows, for `pluralrm list conditions`."""
    return {name: kind.summary for name, kind in _KINDS.items()}
