"""`personal:FOLDER`: a fitted model as a reward model. What it knows of a user is what the query shows.

Adapting is a function of the pairs and posts in the query, so a batch of one equals a batch of n, and the control is
the same model under another user's pairs. `users=stored` takes the parameters that were fitted for a training user,
where the query shows that user and nothing but what was trained on; others are adapted to as ever.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pluralrm.core import Benchmark, ContextPair, Item, Query, User, UserView, Verdict
from pluralrm.digests import digest
from pluralrm.errors import ModelError, SpecError, did_you_mean
from pluralrm.folders import local_folder
from pluralrm.models.declarations import LossPoint, TrainingHistory, WindowCount
from pluralrm.models.personal import fitting as disk
from pluralrm.models.personal.algorithms import Algorithm, Hyper, State, load_algorithm
from pluralrm.models.personal.examples import nobody
from pluralrm.models.personal.features import AnswerText, FeatureMap, Text, examples_of, load_features, parse_features
from pluralrm.models.personal.fitting import pair_hash, text_hash
from pluralrm.specs import Spec

WAYS = ("adapted", "stored")
_WINDOW = 256
"""Queries whose texts become vectors together."""
_REMEMBERED = 1024
"""Users whose parameters are remembered: the items of one follow each other, or come again."""
_DIGITS = 6
"""Scores are rounded, so that the last bits, which differ between BLAS builds, cannot break a tie."""


@dataclass(frozen=True, slots=True)
class FittedParts:
    """What a folder holds, in memory."""

    algorithm: Algorithm
    shared: State
    features: FeatureMap
    seen: Mapping[str, frozenset[str]]
    stored: Mapping[str, State]
    written: str = ""
    """Whose pairs were trained on, where not the users' own choices."""


class Personal:
    """A fitted model. One verdict per query; all candidates of a query are scored by one user's parameters."""

    def __init__(self, spec: str, parts: FittedParts, identity: Mapping[str, str], training: TrainingHistory) -> None:
        self.spec, self.identity, self.training = spec, identity, training
        self._parts = parts
        self._adapted = lru_cache(maxsize=_REMEMBERED)(self._adapt)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order."""
        stream = iter(queries)
        while window := list(islice(stream, _WINDOW)):
            texts = [AnswerText(query.prompt, candidate) for query in window for candidate in query.candidates]
            # Prompts only where there is one: the same kind of vector for all.
            answers = iter(self._parts.features.vectors(texts, "answer"))
            prompts = self._parts.features.vectors([query.prompt for query in window], "text")
            for query, prompt in zip(window, prompts, strict=True):
                rows = np.stack(list(islice(answers, len(query.candidates))))
                question = np.broadcast_to(prompt, (len(rows), len(prompt)))
                rewards = self._parts.algorithm.score(self._parts.shared, self._user(query.user, rows), question, rows)
                yield Verdict(tuple(float(reward) for reward in np.round(rewards.astype(np.float64), _DIGITS)))

    def met(self, benchmark: Benchmark) -> list[str]:
        """Return which users and items of a benchmark were trained on, as far as common pairs and texts show it."""
        name, total = benchmark.card.name, len(benchmark.users)
        overlap = user_overlap(self._parts.seen, benchmark.users)
        trained = {pair for hashes in self._parts.seen.values() for pair in hashes}
        items = sum(not trained.isdisjoint(_labels(item)) for item in benchmark.items)
        warnings = {
            f"on context pairs of {overlap.same:,} of the {total:,} users of {name}: they are seen users": overlap.same,
            f"on pairs or texts of {overlap.renamed:,} of the {total:,} users of {name}, under other ids: the same "
            "people, or others with equal ones": overlap.renamed,
            f"on some texts of {overlap.partly:,} of the {total:,} users of {name}, under the same ids: they may be "
            "seen users": overlap.partly,
            f"on the answers of {items:,} of the {len(benchmark.items):,} items of {name}, as pairs of its training "
            "users: accuracy there may be memory": items,
            self._parts.written and f"on {self._parts.written}": bool(self._parts.written),
        }
        return [f"{self.spec} was trained {remark}" for remark, count in warnings.items() if count]

    def reading(self, benchmark: Benchmark) -> WindowCount:
        """Return how many texts of a benchmark are longer than the features' window, and whether those are cut."""
        every: dict[Text, None] = {}
        for item in benchmark.items:
            every[item.prompt] = None
            every.update(dict.fromkeys(AnswerText(item.prompt, candidate) for candidate in item.candidates))
        texts, longer = self._parts.features.count(list(every))
        return WindowCount(texts, longer, cut=self._parts.features.rule == "joined")

    def _user(self, view: UserView | None, rows: "np.typing.NDArray[np.float32]") -> State:
        """Return the parameters of whom the query shows."""
        if view is not None and (stored := self._stored(view)) is not None:
            return stored
        # The id is nothing to adapt from: two users who show the same have the same parameters.
        user_view = UserView("", () if view is None else view.posts, () if view is None else view.pairs)
        return self._adapted(user_view, rows.shape[1])

    def _adapt(self, view: UserView, width: int) -> State:
        parts = self._parts
        needs = parts.algorithm.needs
        user_view = UserView(view.id, view.posts if "posts" in needs else (), view.pairs if "pairs" in needs else ())
        if not (user_view.posts or user_view.pairs):
            return parts.algorithm.adapt(parts.shared, nobody(width))
        return parts.algorithm.adapt(parts.shared, examples_of(user_view, parts.features, width))

    def _stored(self, view: UserView) -> State | None:
        """Return the stored parameters of a training user, where all that is shown was trained on."""
        stored = self._parts.stored.get(view.id)
        hashes = {pair_hash(pair) for pair in view.pairs} | {text_hash(post.text) for post in view.posts}
        return stored if stored is not None and hashes and hashes <= self._parts.seen[view.id] else None


# ---------------------------------------------------------------- who was trained on

_FEWEST = 20
"""Training users from whom a chance can be estimated."""
_ALIKE = 5
"""By how much likelier than strangers two people of one id may write the same text: ids that count, as those of
`simulated`, give both the same domain; there three times."""
_LEVEL = 0.05


class UserOverlap(NamedTuple):
    """How many users of a benchmark have what in common with training users."""

    same: int
    """A pair, or half of the texts (two at least), with the one of the same id."""
    renamed: int
    """Half of the pairs or texts (two at least) with one of another id; one pair where no two users share any."""
    partly: int
    """Fewer texts with the one of the same id, but more than strangers have in common."""


def user_overlap(seen: Mapping[str, frozenset[str]], users: Sequence[User]) -> UserOverlap:
    """Return how many users were trained on, by the hashes of what was seen of each training user."""
    owners: dict[str, list[str]] = {}
    for owner, hashes in seen.items():
        for each in hashes:
            owners.setdefault(each, []).append(owner)
    texts = [{text_hash(post.text) for post in user.posts} for user in users]
    pairs = [{pair_hash(pair) for pair in user.preferences} for user in users]
    private = max(Counter(chain.from_iterable(pairs)).values(), default=0) < 2
    same = renamed = 0
    others: list[_CommonTexts] = []
    for user, written, judged in zip(users, texts, pairs, strict=True):
        own = seen.get(user.id, frozenset[str]())
        common = written & own
        if judged & own or _mostly(len(common), written):
            same += 1
        elif (private and judged & owners.keys()) or any(_mostly_of_one(part, owners) for part in (judged, written)):
            renamed += 1
        elif own:
            single = [each for each in written if len(owners.get(each, ())) == 1]
            others.append(_CommonTexts(len(common), len(own.intersection(single)), len(single)))
    if same or len(seen) < _FEWEST:  # ids name the same people, or nothing says how often strangers' texts are equal
        return UserOverlap(same, renamed, sum(user.all > 0 for user in others))
    return UserOverlap(same, renamed, _beyond_chance(others, len(seen)))


class _CommonTexts(NamedTuple):
    """The texts of a user that the one of the same id wrote: all, and those of no other, with the count of such."""

    all: int
    single: int
    singles: int


def _mostly_of_one(hashes: AbstractSet[str], owners: Mapping[str, Sequence[str]]) -> bool:
    """Return whether one training user holds half of the hashes."""
    most = max(Counter(chain.from_iterable(owners.get(each, ()) for each in hashes)).values(), default=0)
    return _mostly(most, hashes)


def _mostly(count: int, hashes: AbstractSet[str]) -> bool:
    """Return whether a count is half of the hashes; one hash alone may be anybody's."""
    return count > 1 and 2 * count >= len(hashes)


def _beyond_chance(users: Sequence[_CommonTexts], owners: int) -> int:
    """Return how many users have more texts in common with the one of their id than strangers explain.

    Those are all who have any, where their sum is too large: a little of everybody was trained on.
    """
    if not users:
        return 0
    mean = sum(user.singles - user.single for user in users) / len(users)
    expected = [_ALIKE * max(mean, user.singles - user.single) / (owners - 1) for user in users]
    if _poisson_tail(sum(user.single for user in users), sum(expected)) < _LEVEL:
        return sum(user.all > 0 for user in users)
    tails = (_poisson_tail(user.single, rate) for user, rate in zip(users, expected, strict=True))
    return sum(tail < _LEVEL / len(users) for tail in tails)


def _poisson_tail(count: int, rate: float) -> float:
    """Return the probability of at least so many events."""
    if not rate:
        return float(not count)
    return 1 - math.fsum(math.exp(each * math.log(rate) - rate - math.lgamma(each + 1)) for each in range(count))


def _labels(item: Item) -> set[str]:
    """Return the hashes that the item would have as a labelled pair, either way round."""
    pairs = permutations(item.candidates, 2)
    return {pair_hash(ContextPair("", item.prompt, preferred, other)) for preferred, other in pairs}


def personal(spec: Spec) -> Personal:
    """Return the model of `personal:FOLDER[,users=stored]`."""
    mode = spec.options.get("users", WAYS[0])
    if mode not in WAYS:
        raise SpecError(f"personal: users is {mode!r}; wanted {' or '.join(WAYS)}.{did_you_mean(mode, WAYS)}")
    folder = local_folder(spec.target)
    if folder is None:
        raise ModelError(f"personal:{spec.target}: no such folder; wanted one that 'pluralrm fit' wrote")
    manifest = disk.FIT.read(folder)
    if manifest.status != "complete":
        raise ModelError(f"personal:{spec.target}: the fit was interrupted; its command starts it anew")
    disk.check_files(folder, manifest)
    parts = _open(folder, manifest, stored=mode == "stored")
    trained = manifest.trained_on
    return Personal(
        str(spec),
        parts,
        {
            "folder": disk.folder_hash(folder),
            "algorithm": manifest.algorithm,
            "features": f"{manifest.features} {manifest.features_identity[:16]}",
            "settings": digest(manifest.settings)[:16],
            "adapts from": " and ".join(sorted(parts.algorithm.needs)) or "nothing",
            "trained on": f"{trained.pairs} context pairs of {trained.users} users of {trained.benchmark} "
            f"({trained.content_hash[:8]}), labels {trained.labels}{f', {trained.written}' * bool(trained.written)}",
        },
        TrainingHistory(
            _told(manifest),
            tuple(LossPoint(*(getattr(epoch, name) for name in LossPoint._fields)) for epoch in manifest.curve),
        ),
    )


def _told(manifest: disk.FitManifest) -> str:
    """Return in a sentence on whom a model was fitted, and at what cost."""
    trained, seconds = manifest.trained_on, manifest.seconds
    shuffled = ", their labels shuffled" if trained.labels == "shuffled" else ""
    written = f" ({trained.written})" if trained.written else ""
    cost = ", ".join(f"{name} {taken:.2g} s" for name, taken in seconds.items())
    return (
        f"{manifest.algorithm} on {manifest.features}, fitted on {trained.pairs:,} context pairs of {trained.users:,} "
        f"users of {trained.benchmark}{written}{shuffled}; {trained.held_out:,} others held out to stop early. "
        f"Cost: {cost}."
    )


def _open(folder: Path, manifest: disk.FitManifest, *, stored: bool) -> FittedParts:
    features = load_features(parse_features(manifest.features), folder, None, rule=manifest.rule)
    if features.identity != manifest.features_identity:
        raise ModelError(
            f"personal:{folder}: fitted on {manifest.features} of hash {manifest.features_identity[:16]}, found "
            f"{features.identity[:16]}. The model of the features has changed: bring the old one back, or fit anew"
        )
    algorithm = load_algorithm(manifest.algorithm, Hyper(manifest.algorithm, manifest.settings))
    seen, users = disk.read_users(folder)
    if stored and not users:
        raise SpecError(f"personal:{folder}: users=stored has no meaning for {manifest.algorithm}, which stores none")
    return FittedParts(
        algorithm, disk.read_shared(folder), features, seen, users if stored else {}, manifest.trained_on.written
    )
