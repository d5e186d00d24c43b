"""The nouns: frozen dataclasses, standard library only. What each one is and promises stands in its docstring."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import Literal, NamedTuple, Protocol, TypeVar, cast, get_args, runtime_checkable

from pluralrm.card import Card
from pluralrm.digests import digest_items, prompt_id
from pluralrm.display import Brief, Record, Tabular, row_record
from pluralrm.labels import Labelled, group_traits, other_votes

T = TypeVar("T")

FinalKind = Literal["parse", "refused", "nonfinite", "too_long", "empty", "unsupported", "crash"]
OpenKind = Literal["transport", "deadline", "budget", "missing"]
FailureKind = FinalKind | OpenKind
FINAL_KINDS: tuple[str, ...] = get_args(FinalKind)
OPEN_KINDS: tuple[str, ...] = get_args(OpenKind)
_KINDS = FINAL_KINDS + OPEN_KINDS

Reveals = Literal["posts", "other_posts", "pairs", "other_pairs", "false_pairs", "traits", "other_traits", "oracle"]
"""What may be put before a model: posts, context pairs and traits, own or others'; pairs by a coin; the rubric."""

OWN: frozenset[Reveals] = frozenset({"posts", "pairs", "traits"})
OTHERS: frozenset[Reveals] = frozenset({"other_posts", "other_pairs", "other_traits"})

Role = Literal["none", "own", "swapped", "nearest", "noise", "shuffled", "group", "outside", "least", "oracle"]
"""The part of a condition in a comparison: it shows nothing, what is the user's own, or is a control."""

Ties = Literal["share", "lose", "win"]
"""What the preferred candidate earns where others have its score: its share, nothing, or all."""


# ---------------------------------------------------------------- who asks, and what


@dataclass(frozen=True, slots=True, repr=False)
class Post(Brief):
    """Something the user wrote earlier."""

    id: str
    text: str
    category: str = ""
    date: str = ""
    """When it was written, in ISO 8601; empty where the source does not say."""


@dataclass(frozen=True, slots=True, repr=False)
class ContextPair(Brief):
    """A labelled preference of the user that a model may learn from; never the label of an Item."""

    id: str
    prompt: str
    preferred: str
    other: str


@dataclass(frozen=True, slots=True, repr=False)
class User(Brief):
    """A person as an item has them: the posts and pairs of the time of each question, the traits that they declared."""

    id: str
    posts: tuple[Post, ...] = ()
    preferences: tuple[ContextPair, ...] = ()
    traits: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing this user expects of a good answer: an oracle field, for graders, audits and the oracle condition."""

    aspect: str
    evidence: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Oracle(Brief):
    """What only graders, audits and the `oracle` condition may read."""

    aspects: tuple[Aspect, ...] = ()
    narrative: str = ""
    reference: str = ""
    """The known answer to a question of mathematics, in LaTeX."""
    tests: str = ""
    """What a right program passes: Python that asserts something of it."""
    entry: str = ""
    """The function that the tests call, where they do not say so themselves."""


@dataclass(frozen=True, slots=True, repr=False)
class Item(Labelled):
    """One judgment of one set of candidates; label and candidates are empty where a source has prompts only.

    The label is `grades`: a number per candidate, the higher the better, ties allowed; a pair is (1, 0). `preferred`
    is the index of the highest grade, None where several share it. Either one may be given for both.

    `cluster` is the unit that statistics resample: the user, or the record that several items share. `prompt_id` is
    the source's id of the prompt: many people may judge one (the crossed cluster). Empty: equal texts are one prompt.
    `candidate_ids` name the candidates in the source; they may give the label away, so no Query carries them.
    """

    id: str
    prompt: str
    candidates: tuple[str, ...]
    preferred: int | None
    cluster: str
    domain: str
    candidate_ids: tuple[str, ...] = ()
    user: User | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    oracle: Oracle | None = None
    prompt_id: str = ""
    grades: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.settle(len(self.candidates))

    @property
    def crossed(self) -> str:
        """The prompt's id in rows: as the source names it, or by the text, so that equal prompts are one."""
        return self.prompt_id or prompt_id(self.prompt)


@dataclass(frozen=True, repr=False)
class Benchmark(Brief):
    """Items and their Card. Immutable: name and revision resolve to one content hash.

    The loader has placed the candidates already: item order = query order = row order of scores.
    """

    card: Card
    items: tuple[Item, ...]
    seed: int = 0
    content_hash: str = ""
    spec: str = field(default="", compare=False)  # what `load_benchmark` was given; '' of items chosen elsewhere

    def __post_init__(self) -> None:
        if not self.content_hash:
            self.__dict__.update(content_hash=digest_items(self.items), spec="")

    @property
    def domains(self) -> list[str]:
        """Domain names in the order of their first item."""
        return list(dict.fromkeys(item.domain for item in self.items))

    @property
    def users(self) -> list[User]:
        """Every person once, in item order, with the posts and pairs of all their items; empty where there is none."""
        return [_user(stands, throughout=False) for stands in _stands(self.items)]

    @property
    def users_before(self) -> list[User]:
        """Every person once, with the posts and pairs that stand with each of their items: what is learned from.

        Nothing that came after one of their questions is among them, and no label of an item.
        """
        return [_user(stands, throughout=True) for stands in _stands(self.items)]

    @cached_property
    def other_votes(self) -> Mapping[str, tuple[float, ...]]:
        """By the id of each item that several people judged: how many others prefer each of its candidates."""
        return other_votes(self.items, persons(self.items))

    @cached_property
    def group_traits(self) -> Mapping[str, Mapping[str, str]]:
        """By user id: the traits by which people can be grouped, as tags `trait:NAME`."""
        return group_traits(user for stands in _stands(self.items) for user in stands[:1])

    @property
    def has_posts(self) -> bool:
        """True when at least one user has written something."""
        return any(item.user is not None and item.user.posts for item in self.items)

    def select(self, *, domains: Sequence[str] = (), limit: int | None = None) -> list[Item]:
        """Return the items of some domains, and of at most `limit` clusters taken in turn from each domain.

        Clusters stay whole: a record without all of its prompts could not be judged for consistency.
        """
        queues = [
            dict.fromkeys((item.domain, item.cluster) for item in self.items if item.domain == domain)
            for domain in domains or self.domains
        ]
        order = [record for turn in zip_longest(*queues) for record in turn if record is not None]
        clusters = set(order[:limit])
        return [item for item in self.items if (item.domain, item.cluster) in clusters]


def persons(items: Iterable[Item]) -> dict[str, str]:
    """Return who stands behind each cluster: clusters that have a user id in common are one person's.

    One person may ask under several user ids (one cluster), or leave several records under one id (several clusters).
    The person is named by the user id of the first item; by the cluster where there is no user.
    """
    who: dict[tuple[str, str], str] = {}
    for item in items:
        keys = [("cluster", item.cluster), *([("user", item.user.id)] if item.user else [])]
        names = dict.fromkeys(who[key] for key in keys if key in who)
        person, *same = names or [keys[-1][1]]
        if same:
            who.update({key: person for key, other in who.items() if other in same})
        who.update(dict.fromkeys(keys, person))
    return {name: person for (kind, name), person in who.items() if kind == "cluster"}


def _stands(items: Iterable[Item]) -> Iterable[list[User]]:
    """Return the different posts and pairs that each person stands with."""
    stands: dict[str, list[User]] = {}
    for user in (item.user for item in items if item.user is not None):
        users = stands.setdefault(user.id, [])
        if not any(user is other or user == other for other in users):
            users.append(user)
    return stands.values()


def _user(stands: Sequence[User], *, throughout: bool) -> User:
    """Return a person with the posts and pairs of any of their items, or with those that stand with each of them."""
    pairs = _merged([user.preferences for user in stands], throughout=throughout)
    return replace(stands[0], posts=_merged([user.posts for user in stands], throughout=throughout), preferences=pairs)


def _merged(parts: Sequence[tuple[T, ...]], *, throughout: bool) -> tuple[T, ...]:
    common = set(parts[0]).intersection(*parts[1:]) if throughout else set(chain(*parts))
    return tuple(each for each in dict.fromkeys(chain(*parts)) if each in common)


# ---------------------------------------------------------------- what a model sees, and what it says


@dataclass(frozen=True, slots=True, repr=False)
class UserView(Brief):
    """What a condition lets a model know of the user: posts ranked most relevant first, allowed context pairs."""

    id: str
    posts: tuple[Post, ...] = ()
    pairs: tuple[ContextPair, ...] = ()
    traits: Mapping[str, str] = field(default_factory=dict, hash=False)
    lenders: tuple[str, ...] = ()
    """The ids of the users who lent all this, where it is not the asker's own; several where no one had enough."""


@dataclass(frozen=True, slots=True, repr=False)
class Query(Brief):
    """All that a reward model may see. It holds no label and has no oracle field.

    `notes` are derived texts (a persona, planned aspects); only the `oracle` condition may put rubric text there,
    and then `reveals_oracle` is true and every output says so.
    """

    id: str
    prompt: str
    candidates: tuple[str, ...]
    user: UserView | None = None
    notes: tuple[str, ...] = ()
    reveals_oracle: bool = False

    @property
    def private(self) -> bool:
        """Whether it shows anything that a user wrote or chose, or that was derived from it."""
        user = self.user
        return bool(self.notes or (user is not None and (user.posts or user.pairs or user.traits)))


class Failure(NamedTuple):
    """A score that is missing: a value with a name, never a number."""

    kind: FailureKind
    detail: str = ""


Score = float | Failure


class Vote(NamedTuple):
    """One question put to a judge: the candidates in the order shown, and the outcome (a winner's index, or a word)."""

    order: tuple[int, ...]
    outcome: str


class Exchange(NamedTuple):
    """Exactly what was sent to a model and what it said."""

    sent: str
    said: str


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Brief):
    """One Score per candidate: finite, or a named Failure. A number that is not finite becomes a Failure here.

    `posts_kept` is how many posts fitted into the model's input, where the model had to drop some.
    """

    scores: tuple[Score, ...]
    votes: tuple[Vote, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    posts_kept: int | None = None

    def __post_init__(self) -> None:
        plain = type(self.scores) is tuple and set(map(type, self.scores)) == {float}
        if not plain or not all(map(math.isfinite, cast("Sequence[float]", self.scores))):
            object.__setattr__(self, "scores", tuple(map(_checked, self.scores)))

    @classmethod
    def failed(cls, kind: FailureKind, detail: str, candidates: int) -> "Verdict":
        """Return a verdict in which every candidate failed for one reason."""
        return cls((Failure(kind, detail),) * candidates)

    @property
    def failures(self) -> list[Failure]:
        """The failures among the scores."""
        return [score for score in self.scores if isinstance(score, Failure)]


def _checked(score: Score) -> Score:
    if isinstance(score, Failure):
        if score.kind not in _KINDS:
            raise ValueError(f"unknown failure kind {score.kind!r}; known: {', '.join(_KINDS)}")
        return score
    if isinstance(score, (bool, str, bytes)) or score is None:
        raise TypeError(f"a score is a number or a Failure, not {score!r}")
    number = float(score)  # also takes numpy scalars, which JSON would refuse
    return number if math.isfinite(number) else Failure("nonfinite", str(number))


class RewardModel(Protocol):
    """Anything that scores candidates. No base class: an object with these two is a reward model.

    One verdict per query, in order, independent of how the queries are batched.
    """

    @property
    def spec(self) -> str:
        """The string that names this model in runs and tables."""

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; work may be reordered only inside what it was handed."""


@runtime_checkable
class Identified(Protocol):
    """A reward model that can also say exactly which weights, code and settings it is (kept in run.json)."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Facts that must not change while a run is resumed: revision, weights hash, template hash."""


@dataclass(frozen=True, slots=True)
class ConditionRole:
    """What a condition declares of its part in a comparison. A control of an own condition shows as much as it does.

    `amount` is the most posts, or pairs, that it shows, and `beside` the most posts beside pairs; `notes` names what
    stands in place of posts (`persona:MODEL`, `traits:age`), `verbatim` says that posts are shown word for word.
    Of several controls the one named as `control` is taken, or else the one whose `options` differ least.
    """

    role: Role | None = None
    amount: int | None = None
    beside: int = 0
    notes: str = ""
    verbatim: bool = False
    options: tuple[tuple[str, str], ...] = ()
    control: str = ""


class Condition(Protocol):
    """The only way from Item to Query: decides what of the user a model may see."""

    @property
    def spec(self) -> str:
        """The canonical string, such as `recent:10`."""

    @property
    def reveals(self) -> frozenset[Reveals]:
        """What this condition may put before a model."""

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why this benchmark cannot be shown under this condition, or None."""

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item, in order; the whole benchmark is at hand because other users may be needed."""


@dataclass(frozen=True, slots=True, repr=False)
class Row(Labelled):
    """What a model said about one item, with all that a metric needs: a run needs nothing outside its folder."""

    item: str
    cluster: str
    domain: str
    preferred: int | None
    """The candidate with the highest grade; None where several share it."""
    scores: tuple[Score, ...]
    candidate_ids: tuple[str, ...]
    lengths: tuple[int, ...]
    """Characters of each candidate, for length control."""
    tags: Mapping[str, str] = field(default_factory=dict)
    votes: tuple[Vote, ...] = ()
    posts: int = 0  # how many posts the model saw
    input_hash: str = ""
    pairs: int | None = None
    """How many labelled pairs the model saw; None in runs that did not record it."""
    lenders: int = 0
    """How many other users lent what was shown; 0 where it was the user's own, or nothing."""
    prompt: str = ""
    """The prompt's id (`Item.crossed`), by which items of several users go together; empty in old runs."""
    ties: Ties = "share"
    """How equal scores count; never stored, `metrics.with_ties` sets it."""
    grades: tuple[float, ...] = ()
    """The label, a grade per candidate (`Item.grades`)."""
    others: tuple[float, ...] = ()
    """How many other people prefer each candidate; empty where no one else judged them, and in old runs."""
    traits: int = 0  # how many declared traits the model saw
    digests: tuple[str, ...] = ()
    """A short hash of each candidate, beside `others`: rows of one prompt and the same candidates are one panel."""
    failed: bool = field(init=False, compare=False)
    """An item with any failed candidate is failed."""

    def __post_init__(self) -> None:
        self.settle(len(self.scores))
        object.__setattr__(self, "failed", Failure in map(type, self.scores))

    @property
    def open(self) -> bool:
        """An item that met an outage, or was not come to, is open: failed for now, and tried again on resuming."""
        return self.failed and any(isinstance(score, Failure) and score.kind in OPEN_KINDS for score in self.scores)


@dataclass(frozen=True, repr=False)
class Run(Tabular):
    """One model on one benchmark under one condition: a row per item, in order; open ones count as failed."""

    model: str
    benchmark: str
    condition: str
    rows: tuple[Row, ...]
    card: Card
    reveals: frozenset[Reveals] = frozenset()
    complete: bool = True
    items: int = 0
    """How many items the run was asked to score."""
    benchmark_hash: str = ""
    path: str = ""
    whole: bool = True
    """False where only some domains, or a limited number of items, were asked for."""
    trained: tuple[str, ...] = ()
    """Which users or items of the benchmark the model was trained on, one sentence each."""
    condition_role: ConditionRole | None = None
    """What the condition declared; None in runs that did not record it."""
    name: str = ""
    """What the user calls the model; '' where it goes by its spec."""
    imported: str = ""
    """Where the rows come from, where somebody else scored them; of how many of the items."""
    gate: str = ""
    """How far the rows are those that somebody published of the same model, where that was tested."""
    dtype: str = ""  # in which a local model was computed, where that is not float32

    @cached_property
    def failed(self) -> int:
        """How many items failed, those that are open among them."""
        return sum(row.failed for row in self.rows)

    @cached_property
    def done(self) -> int:
        """How many items are scored, or failed for good."""
        return len(self.rows) - (sum(row.open for row in self.rows) if self.failed else 0)

    def records(self) -> list[Record]:
        """Return a row per item: what it is, its scores (None where one failed), the kind of its first failure."""
        return list(map(row_record, self.rows))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that one can trust: value, interval, how many items, how many of them failed, and the method.

    `low` and `high` are None only where no interval exists; `method` then says why ("fixed by design").
    """

    value: float
    low: float | None
    high: float | None
    n: int
    failed: int
    method: str

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.3f}, {self.high:.3f}]"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.value:.3f}{interval} (n = {self.n}{failed}; {self.method})"

    def to_json(self) -> dict[str, float | int | str | None]:
        """Return the six fields under their names, for --json."""
        return asdict(self)
