"""Other people's conditions: `python:package.module:make,key=value`, an object with `reveals` and `queries`.

What it shows is compared with what it declares, query by query: the question and its answers stay as they are, and
posts, pairs and rubric are shown only where `reveals` names them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from pluralrm.core import Benchmark, Condition, ConditionRole, ContextPair, Item, Post, Query, Reveals, Role, User
from pluralrm.errors import ConditionError, did_you_mean
from pluralrm.plugin import Maker, Wanted, asks_of, find, read_reveals
from pluralrm.specs import Spec

_WANTED = Wanted("condition", "package.module:make", ConditionError, "'pluralrm list conditions'")
_TELLING = 20
"""Characters from which on a text of the rubric in a note is no chance."""


@dataclass(frozen=True)
class PluginCondition:
    """Somebody's condition under the spec that named it."""

    spec: str
    reveals: frozenset[Reveals]
    condition: Condition
    maker: Maker = field(compare=False, repr=False)
    identity: Mapping[str, str] = field(default_factory=dict)
    role: ConditionRole = field(default_factory=ConditionRole)

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why this benchmark cannot be shown; None where the condition says nothing of that."""
        why_not = getattr(self.condition, "unsupported", None)
        if why_not is None:
            return None
        reason: str | None = self.maker.ask(lambda: why_not(benchmark), "cannot say what it does not support")
        return reason

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item; anything else, and what shows more than is declared, is a ConditionError."""
        own = self._own(benchmark, items)
        for place, item in enumerate(items):
            query = next(own, None)
            if query is None:
                raise ConditionError(f"{self.spec} gave {place:,} queries for {len(items):,} items; wanted one each")
            self._check(query, item)
            yield replace(query, reveals_oracle="oracle" in self.reveals)
        if next(own, None) is not None:
            raise ConditionError(
                f"{self.spec} gave more queries than there are items ({len(items):,}); wanted one each"
            )

    def _own(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        stream = self.maker.ask(lambda: iter(self.condition.queries(benchmark, items)), "raised")
        while (query := self.maker.ask(lambda: next(stream, None), "raised")) is not None:
            yield query

    def _check(self, query: object, item: Item) -> None:
        if not isinstance(query, Query):
            raise ConditionError(f"{self.spec} gave a {type(query).__name__} for {item.id!r}; wanted a pluralrm.Query")
        for name, wanted in (("id", item.id), ("prompt", item.prompt), ("candidates", item.candidates)):
            if getattr(query, name) != wanted:
                raise ConditionError(
                    f"{self.spec}: the query for {item.id!r} has another {name} than the item; a condition adds "
                    "what is known of the user, and changes nothing of the question"
                )
        if undeclared := sorted(_shown(query, item) - self.reveals):
            raise ConditionError(
                f"{self.spec} shows {', '.join(undeclared)} at {item.id!r}, and its reveals names "
                f"{', '.join(sorted(self.reveals)) or 'nothing'}; declare what it shows"
            )
        if query.notes and not self.reveals:
            raise ConditionError(
                f"{self.spec} shows notes at {item.id!r}, and its reveals names nothing that they were made of"
            )
        if query.user and any(_is_label(pair, item) for pair in query.user.pairs):
            raise ConditionError(f"{self.spec} shows {item.id!r} its own label, as a pair; leave that pair out")


def asks(spec: Spec) -> tuple[str, ...]:
    """Return the chat models that the object a spec names asks, by what it declares."""
    return asks_of(spec, _WANTED)


def load(spec: Spec) -> PluginCondition:
    """Return the condition that `python:module:make` names; one that does not declare `reveals` is refused."""
    maker = find(spec, _WANTED)
    made = maker.make()
    maker.require(made, {"queries": "queries(benchmark, items)"})
    if not hasattr(made, "reveals"):
        raise ConditionError(
            f"{spec.target!r} does not declare reveals: what it shows of the user, as a set (frozenset() for nothing); "
            f"see {_WANTED.page}"
        )
    condition = cast(Condition, made)
    owner = type(made).__name__
    reveals = maker.ask(lambda: read_reveals(condition.reveals, owner, ConditionError), "cannot say what it reveals")
    role = maker.ask(lambda: read_role(condition, reveals), "cannot say its role")
    return PluginCondition(str(spec), reveals, condition, maker, maker.identity(made), role)


def read_role(condition: Condition, reveals: frozenset[Reveals]) -> ConditionRole:
    """Return what an object declares as `role`, and as `control`: the condition that shows the same of another person.

    Both may be missing; a role that does not go with what is revealed is a ConditionError.
    """
    role, control = getattr(condition, "role", None), getattr(condition, "control", "")
    if isinstance(role, ConditionRole):
        return role
    owner = type(condition).__name__
    if role is not None and role not in get_args(Role):
        raise ConditionError(f"{owner}: role is {role!r}.{did_you_mean(str(role), get_args(Role))}")
    if not isinstance(control, str):
        raise ConditionError(f"{owner}: control is {control!r}; wanted the spec of a condition, as 'swapped:10'")
    if role is not None and role not in _roles_that_reveal(reveals):
        raise ConditionError(
            f"{owner}: role is {role!r}, and reveals is {', '.join(sorted(reveals)) or 'nothing'}; wanted "
            f"{' or '.join(_roles_that_reveal(reveals)) or 'no role'}"
        )
    return ConditionRole(role, control=control)


def _roles_that_reveal(reveals: frozenset[Reveals]) -> tuple[Role, ...]:
    """Return the roles that go with what is revealed; none for a mixture of the user's own and others'."""
    if not reveals:
        return ("none",)
    if "oracle" in reveals:
        return ("oracle",)
    if "false_pairs" in reveals:
        return ("shuffled",)
    if reveals <= {"posts", "pairs"}:
        return ("own",)
    return ("swapped", "nearest", "noise") if reveals <= {"other_posts", "other_pairs"} else ()


def _shown(query: Query, item: Item) -> set[Reveals]:
    """Return what a query shows, as far as that can be seen in it."""
    found: set[Reveals] = set()
    user, view = item.user or User(""), query.user
    if view is not None:
        found |= {"posts" if _is_own(post, user) else "other_posts" for post in view.posts}
        found |= {_kind(pair, user) for pair in view.pairs}
    rubric = () if item.oracle is None else (item.oracle.narrative, *(one.aspect for one in item.oracle.aspects))
    if query.reveals_oracle or any(len(text) >= _TELLING and text in note for text in rubric for note in query.notes):
        found.add("oracle")
    return found


def _is_own(post: Post, user: User) -> bool:
    """Return whether a post is the user's: by its id where it was shortened, by its text where it was renamed."""
    return any(post.id == own.id or post.text == own.text for own in user.posts)


def _kind(pair: ContextPair, user: User) -> Reveals:
    for own in user.preferences:
        if pair.id == own.id or pair.prompt == own.prompt:
            return "pairs" if pair.preferred == own.preferred else "false_pairs"
    return "other_pairs"


def _is_label(pair: ContextPair, item: Item) -> bool:
    return pair.prompt == item.prompt and bool({pair.preferred, pair.other} & set(item.candidates))
