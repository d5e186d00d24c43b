"""`personal:FOLDER`: a fitted model as a reward model. What it knows of a user is what the query shows.

Adapting is a function of the pairs and posts in the query, so a batch of one equals a batch of n, and the control is
the same model under another user's pairs. `users=stored` takes the parameters that were fitted for a training user,
where the query shows that user and nothing but what was trained on; others are adapted to as ever.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, permutations
from pathlib import Path

import numpy as np

from pluralrm.core import Benchmark, ContextPair, Item, Query, UserView, Verdict
from pluralrm.digests import digest
from pluralrm.errors import ModelError, SpecError, did_you_mean
from pluralrm.folders import local_folder
from pluralrm.models.declarations import LossPoint, TrainingHistory, WindowCount
from pluralrm.models.personal import fitting as disk
from pluralrm.models.personal.algorithms import Algorithm, Hyper, State, load_algorithm
from pluralrm.models.personal.examples import nobody
from pluralrm.models.personal.features import AnswerText, FeatureMap, Text, examples_of, load_features, parse_features
from pluralrm.models.personal.fitting import pair_hash, seen_hashes, text_hash
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
        """Return that users of a benchmark were trained on, or items of it, which then evaluate nothing."""
        seen = self._parts.seen
        every = frozenset[str]().union(*seen.values())
        users = sum(not seen.get(user.id, frozenset()).isdisjoint(seen_hashes(user)) for user in benchmark.users)
        items = sum(not every.isdisjoint(_labels(item)) for item in benchmark.items)
        warnings = []
        if users:
            of = f"{users:,} of the {len(benchmark.users):,} users"
            warnings.append(
                f"{self.spec} was trained on context pairs of {of} of {benchmark.card.name}: they are seen users"
            )
        if items:
            warnings.append(
                f"{self.spec} was trained on {items:,} of the {len(benchmark.items):,} items of {benchmark.card.name}: "
                "its accuracy there is no evaluation"
            )
        if self._parts.written:
            warnings.append(f"{self.spec} was trained on {self._parts.written}")
        return warnings

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
