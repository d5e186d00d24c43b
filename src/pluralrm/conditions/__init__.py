"""Conditions decide what of the user a model may see; they are the only way from Item to Query.

none        the prompt and the candidates alone
recent:K    and the user's K newest posts; where no post has a date, the first K in stored order
raw:K       and the K posts of the user that rank highest for this prompt
pairs:N     and the first N labelled pairs of the user, and K posts with posts=K; controls: of=swapped, labels=shuffled
swapped:K   and as many posts of another person of the domain, ranked for this prompt: the lower control; with by=prompt
            of a person whose posts are near to the prompt
noise:K     and random posts of many other users: what any such text does
traits      and the traits that the user declared, or those of traits:age+religion; controls: of=swapped, of=least
group:K     and K posts, or N pairs (pairs=N), of other people who share a trait; control: of=outside
persona:M   and a short profile that the chat model M writes from the K posts that rank highest (k=K), no posts
planner:M   and the aspects that M expects the user to look for, from these posts and the prompt, no posts
oracle      and the rubric, no posts: the upper control, said so in every output
python:M:F  whatever the object shows that F in the module M makes, and declares that it shows

docs/conditions.md shows what a model sees under each.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from pluralrm.conditions.pairs import KEYS as _PAIRS
from pluralrm.conditions.pairs import open_pairs
from pluralrm.conditions.posts import Bare, Noise, OwnPosts, Rubric, Swapped, parse_lending
from pluralrm.conditions.traits import GROUP_KEYS, TRAIT_KEYS, open_group, open_traits
from pluralrm.core import OWN, Benchmark, Condition, ConditionRole, ContextPair, Item, Post, Query, Reveals, Role, User
from pluralrm.errors import ConditionError, SpecError, check_type, did_you_mean
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.plugin import Maker, Wanted, asks_of, find, read_reveals
from pluralrm.retrieval import RANKING_KEYS, Ranking, parse_ranking
from pluralrm.specs import Form, Spec, asks_target, parse, whole_number

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
    posts = int(beside) if beside.isdecimal() else 0
    return ConditionRole(role, amount_of(spec), posts, verbatim=True, options=_choices(spec), control=control)


def _shows_traits(spec: Spec) -> ConditionRole:
    shows = str(Spec(spec.kind, spec.target))  # controls have the same traits, by name
    if spec.options.get("of") == "least":
        return ConditionRole("least", notes=shows)
    role, control = _own_or_lent(spec)
    return ConditionRole(role, notes=shows, control=control)


def _shows_group(spec: Spec) -> ConditionRole:
    posts, pairs = amount_of(spec) or 0, int(spec.options.get("pairs", "0"))
    amounts = (pairs, posts) if pairs else (posts, 0)
    outside = spec.options.get("of") == "outside"
    control = "" if outside else str(Spec(spec.kind, spec.target, {**spec.options, "of": "outside"}))
    role: Role = "outside" if outside else "group"
    return ConditionRole(role, *amounts, verbatim=True, options=_choices(spec), control=control)


def _shows_notes(spec: Spec) -> ConditionRole:
    role, control = _own_or_lent(spec)
    notes = f"{spec.kind}:{spec.target}"
    return ConditionRole(role, amount_of(spec), notes=notes, options=_choices(spec, notes=notes), control=control)


# ---------------------------------------------------------------- other people's conditions


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
        for index, item in enumerate(items):
            query = next(own, None)
            if query is None:
                raise ConditionError(f"{self.spec} gave {index:,} queries for {len(items):,} items; wanted one each")
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
        for name, value in (("id", item.id), ("prompt", item.prompt), ("candidates", item.candidates)):
            if getattr(query, name) != value:
                raise ConditionError(
                    f"{self.spec}: the query for {item.id!r} has another {name} than the item; a condition adds "
                    "what is known of the user, and changes nothing of the question"
                )
        if undeclared := sorted(_reveals_in(query, item) - self.reveals):
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


def _plugin_asks(spec: Spec) -> tuple[str, ...]:
    """Return the chat models that the object a spec names asks, by what it declares."""
    return asks_of(spec, _WANTED)


def _plugin(spec: Spec, means: ConditionMeans) -> PluginCondition:  # noqa: ARG001 - its own code has its own means
    """Return the condition that `python:module:make` names; one that does not declare `reveals` is refused."""
    maker = find(spec, _WANTED)
    plugin = maker.make()
    maker.require(plugin, {"queries": "queries(benchmark, items)"})
    if not hasattr(plugin, "reveals"):
        raise ConditionError(
            f"{spec.target!r} does not declare reveals: what it shows of the user, as a set (frozenset() for nothing); "
            f"see {_WANTED.page}"
        )
    condition = cast("Condition", plugin)
    owner = type(plugin).__name__
    reveals = maker.ask(lambda: read_reveals(condition.reveals, owner, ConditionError), "cannot say what it reveals")
    role = maker.ask(lambda: read_role(condition, reveals), "cannot say its role")
    return PluginCondition(str(spec), reveals, condition, maker, maker.identity(plugin), role)


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
    if reveals <= OWN:
        return ("own",)
    if reveals == {"traits", "other_traits"}:
        return ("least",)
    return ("swapped", "nearest", "noise", "group", "outside") if not reveals & OWN else ()


def _reveals_in(query: Query, item: Item) -> set[Reveals]:
    """Return what a query shows, as far as that can be seen in it."""
    kinds: set[Reveals] = set()
    user, view = item.user or User(""), query.user
    if view is not None:
        kinds |= {"posts" if _is_own(post, user) else "other_posts" for post in view.posts}
        kinds |= {_kind(pair, user) for pair in view.pairs}
        kinds |= {"traits" if user.traits.get(name) == value else "other_traits" for name, value in view.traits.items()}
    rubric = () if item.oracle is None else (item.oracle.narrative, *(aspect.aspect for aspect in item.oracle.aspects))
    if query.reveals_oracle or any(len(text) >= _TELLING and text in note for text in rubric for note in query.notes):
        kinds.add("oracle")
    return kinds


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


# ---------------------------------------------------------------- the table


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
    "traits": ConditionKind(
        lambda spec, _means: open_traits(spec),
        Form("optional", TRAIT_KEYS, example="traits:age+religion"),
        "traits[:NAME+NAME][,of=swapped][,of=least[,least=NAME]], what the user declared; the controls: another "
        "person's, or the user's own but the one that matters least",
        _shows_traits,
    ),
    "group": ConditionKind(
        lambda spec, means: open_group(spec, means.cache),
        Form("required", (*RANKING_KEYS, *GROUP_KEYS), example="group:10,trait=age"),
        "group:K[,trait=NAME][,pairs=N][,of=outside][,by=...], K posts, or N labelled pairs, of other people who share "
        "a trait; the control: of as many who do not",
        _shows_group,
    ),
    "persona": ConditionKind(
        _notes,
        Form("required", (*RANKING_KEYS, *_WRITER), example="persona:MODEL,url=URL"),
        "persona:MODEL,url=URL[,k=K][,by=...][,of=swapped], a profile that a chat model writes from the user's K posts",
        _shows_notes,
        asks=asks_target,
    ),
    "planner": ConditionKind(
        _notes,
        Form("required", (*RANKING_KEYS, *_WRITER), example="planner:MODEL,url=URL"),
        "planner:MODEL,url=URL[,k=K][,by=...][,of=swapped], the aspects that a chat model expects the user to look for",
        _shows_notes,
        asks=asks_target,
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
    names_of = KINDS[spec.kind].asks
    return () if names_of is None else names_of(spec)


def condition_summaries() -> dict[str, str]:
    """Return what each kind of condition shows, for `pluralrm list conditions`."""
    return {name: kind.summary for name, kind in KINDS.items()}
