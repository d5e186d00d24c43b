"""What a training is, before it begins: its parts, their prompts by the path of `sample`, and what run.json says."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pluralrm.core import Benchmark, Condition, Failure, Identified, Item, Query, persons
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError, ConditionError, SpecError
from pluralrm.grading import Grader
from pluralrm.journal import provenance
from pluralrm.runs.loop import check_selection
from pluralrm.runs.records import benchmark_record, slug
from pluralrm.runs.verdicts import prepared
from pluralrm.serve.watch import SecondReward
from pluralrm.training.records import Algorithm, TrainingManifest, check_begun
from pluralrm.training.rewards import Rewarder, Shaping, scored_by
from pluralrm.training.settings import GrpoSettings, PpoSettings, TrainingSettings

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy


T = TypeVar("T")


class UserParts(NamedTuple):
    """The items of three disjoint groups of users, each in the order of the benchmark."""

    train: tuple[Item, ...]
    validation: tuple[Item, ...]
    test: tuple[Item, ...]


class Questions(NamedTuple):
    """Items that a policy is asked before and after its training."""

    benchmark: Benchmark
    items: tuple[Item, ...]
    place: str = ""
    """The folder of the answers inside the training's; empty for the users who are kept for the end."""
    left_out: int = 0
    """Items of users who are trained on or watched."""


def questions(
    trained: Benchmark, parts: UserParts, of: Benchmark, *, domains: Sequence[str] = (), limit: int | None = None
) -> Questions:
    """Return the items of a benchmark whose users are not trained on and not watched; an error where none is left.

    Users are known by their ids, and with all the ids of one person. `limit` counts users that are left.
    """
    check_selection(of, domains, limit)
    met = _of_persons(trained.items, {asker(item) for item in (*parts.train, *parts.validation)})
    excluded = _of_persons(of.items, met)
    whole = of.select(domains=domains)
    others = replace(of, items=tuple(item for item in whole if asker(item) not in excluded), content_hash="")
    if not others.items:
        raise BenchmarkError(
            f"{of.card.name}: all {len(whole):,} items are of users who are trained on or watched; wanted others"
        )
    items = tuple(others.select(limit=limit))
    shape = digest([of.content_hash, *(item.id for item in items)])[:8]
    return Questions(of, items, f"on-{slug(of.card.name)}-{shape}", len(whole) - len(others.items))


def _of_persons(items: Sequence[Item], users: Collection[str]) -> set[str]:
    """Return these users, and all users of the items who are the same persons."""
    who = persons(items)
    some = {who[item.cluster] for item in items if asker(item) in users}
    return {*users, *(asker(item) for item in items if who[item.cluster] in some)}


def split(items: Sequence[Item], seed: int, *, validation: float, test: float) -> UserParts:
    """Return the parts; a share above 0 has at least one person, and so has training."""
    who = persons(items)
    people = list(dict.fromkeys(who[item.cluster] for item in items))
    Random(f"{seed}:parts").shuffle(people)
    counts = [max(1, round(share * len(people))) if share else 0 for share in (validation, test)]
    if sum(counts) >= len(people):
        raise BenchmarkError(f"found {len(people)} users, wanted more: {sum(counts)} of them are not trained on")
    watched, testers = set(people[: counts[0]]), set(people[counts[0] : sum(counts)])
    parts = UserParts(
        train=tuple(item for item in items if who[item.cluster] not in watched | testers),
        validation=tuple(item for item in items if who[item.cluster] in watched),
        test=tuple(item for item in items if who[item.cluster] in testers),
    )
    return check_disjoint(parts)


def check_disjoint(parts: UserParts) -> UserParts:
    """Return the parts; a BenchmarkError names a user who is in two of them."""
    who = persons([item for part in parts for item in part])
    users: Mapping[str, set[str]] = {
        name: {who[item.cluster] for item in part} for name, part in parts._asdict().items()
    }
    for part, other in combinations(users, 2):
        if shared := users[part] & users[other]:
            raise BenchmarkError(
                f"{len(shared)} users are in {part} and in {other}, such as {min(shared)!r}: wanted them in one of the "
                "two, or what is learned of them is taken for what is learned of all"
            )
    return parts


def asker(item: Item) -> str:
    """Return the user of an item; the record where there is no user."""
    return item.cluster if item.user is None else item.user.id


@dataclass(frozen=True, slots=True)
class TrainingPrompt:
    """An item as the policy is shown it."""

    item: Item
    query: Query
    ids: tuple[int, ...]
    opened: str
    """What the chat template writes of the answer itself, such as the opening of a reasoning block."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of some items, how many items have none, by why, and how many prompts lost posts to fit."""

    prompts: tuple[TrainingPrompt, ...]
    left_out: Mapping[str, int]
    shortened: int = 0


def assembled(
    benchmark: Benchmark, items: Sequence[Item], condition: Condition, policy: "LocalPolicy", *, max_tokens: int
) -> Prompts:
    """Return the prompts of items under a condition, each with room for the longest answer."""
    if (reason := condition.unsupported(benchmark)) is not None:
        raise ConditionError(reason)
    assembler, prompts, left_out = policy.leaving_room(max_tokens), [], dict[str, int]()
    shortened = 0
    for item, result in zip(items, prepared(condition, benchmark, items), strict=True):
        query = replace(result.query, candidates=())  # no policy is shown a benchmark's answers
        written, n_posts = ((result.failure,), 0) if result.failure else assembler.assemble(query, policy.conversations)
        encoded = written[0]
        if isinstance(encoded, Failure):
            left_out[encoded.kind] = left_out.get(encoded.kind, 0) + 1
        else:
            shortened += n_posts < len(query.user.posts if query.user else ())
            prompts.append(TrainingPrompt(item, query, encoded.ids, policy.opened(query)))
    if items and not prompts:
        reasons = ", ".join(f"{count} {kind}" for kind, count in left_out.items())
        raise BenchmarkError(f"no prompt of {len(items)} items can be asked ({reasons}); show fewer posts")
    return Prompts(tuple(prompts), left_out, shortened)


def of_step(prompts: Sequence[T], step: int, *, batch: int, seed: int) -> list[T]:
    """Return the prompts of a step: all in an order drawn for each epoch, one epoch after another."""
    first, chosen, orders = step * batch, [], dict[int, list[int]]()
    for number in range(first, first + batch):
        epoch, inside = divmod(number, len(prompts))
        if epoch not in orders:
            orders[epoch] = Random(f"{seed}:prompts:{epoch}").sample(range(len(prompts)), len(prompts))
        chosen.append(prompts[orders[epoch][inside]])
    return chosen


def watched_steps(done: int, steps: int, *, every: int, evaluated: Collection[int]) -> set[int]:
    """Return after how many steps the watched users are asked, from `done` on; after the last step once."""
    return {step for step in range(done, steps) if step % every == 0} | ({steps} - set(evaluated))


@dataclass(frozen=True)
class TrainingJob:
    """Who is trained, on whom, by what. `condition` is what the policy sees, in training and whenever it is asked."""

    benchmark: Benchmark
    policy: "LocalPolicy"
    condition: Condition
    rewarder: Rewarder
    reward_condition: str
    settings: TrainingSettings
    shaping: Shaping = field(default_factory=lambda: Shaping("raw"))
    grader: Grader | None = None
    seed: int = 0
    domains: Sequence[str] = ()
    limit: int | None = None
    watch: SecondReward | None = None
    """Scores a step's answers again, by a second reward and under another user's context."""
    parts_seed: int | None = None
    """Of the parts; `seed` where left out. Trainings with several seeds on the same users have one."""

    def parts(self) -> UserParts:
        """Return the items of each part, which have no user in common; the same for every algorithm."""
        items = self.benchmark.select(domains=self.domains, limit=self.limit)
        chosen = self.settings
        seed = self.seed if self.parts_seed is None else self.parts_seed
        return split(items, seed, validation=chosen.validation, test=chosen.test)

    def questions(self, of: Benchmark | None = None) -> Questions:
        """Return what the policy is asked before and after: the test users' items, or those of another benchmark.

        Raise where no user is left, or no answer can be shown to the policy or graded.
        """
        parts = self.parts()
        if of is None:
            if not parts.test:
                raise BenchmarkError("there are no test users: the setting test is 0; wanted a share above it")
            return Questions(self.benchmark, parts.test)
        selection = questions(self.benchmark, parts, of, domains=self.domains, limit=self.limit)
        if (reason := self.condition.unsupported(of)) is not None:
            raise ConditionError(f"{self.condition.spec}: {reason}")
        if self.grader is None:
            raise SpecError(f"no grader for the answers to the questions of {of.card.name}; wanted one")
        if (reason := self.grader.unsupported(selection.items)) is not None:
            raise BenchmarkError(f"{of.card.name} {reason}")
        return selection


class PreparedJob(NamedTuple):
    """A training's parts, the prompts of those that are asked in it, and what run.json begins with."""

    train: tuple[TrainingPrompt, ...]
    validation: tuple[TrainingPrompt, ...]
    manifest: TrainingManifest


def prepared_for(
    job: TrainingJob, kind: Algorithm, out: Path, *, steps: int, more: Mapping[str, str] | None = None
) -> PreparedJob:
    """Return what is known before any weight is loaded; raise where it cannot be trained, or not there.

    `more` is identity, of the algorithm.
    """
    if steps < 1:
        raise SpecError(f"steps is {steps}; wanted at least 1")
    job.shaping.check(scored_by(job.rewarder), job.reward_condition)
    facts = _facts(job, kind)
    check_begun(out, facts, steps)  # before gigabytes are hashed, and thousands of prompts assembled
    parts = job.parts()
    if job.grader is not None and (reason := job.grader.unsupported(parts.validation)) is not None:
        raise BenchmarkError(f"{job.benchmark.card.name} {reason}")
    prompts = {
        name: assembled(job.benchmark, items, job.condition, job.policy, max_tokens=job.settings.max_tokens)
        for name, items in parts._asdict().items()
    }
    left_out = {f"{name} {why}": count for name, part in prompts.items() for why, count in part.left_out.items()}
    users = {name: tuple(dict.fromkeys(map(asker, items))) for name, items in parts._asdict().items()}
    manifest = TrainingManifest.model_validate(
        {
            "status": "incomplete",
            **facts,
            "identity": {**_identity(job), **(more or {})},
            "reveals": sorted(job.condition.reveals),
            "reward_reveals": sorted(job.rewarder.reveals),
            "selection": {"items": sum(map(len, parts)), "domains": tuple(job.domains), "limit": job.limit},
            "parts": {**users, "left_out": left_out},
            "shortened": {name: part.shortened for name, part in prompts.items() if part.shortened},
            **provenance(),
        }
    )
    return PreparedJob(prompts["train"].prompts, prompts["validation"].prompts, manifest)


def _facts(job: TrainingJob, kind: Algorithm) -> dict[str, object]:
    """Return what of run.json can be told at once."""
    return {
        "kind": kind,
        "policy": job.policy.spec,
        "reward": job.rewarder.spec,
        "benchmark": benchmark_record(job.benchmark),
        "condition": job.condition.spec,
        "reward_condition": job.reward_condition,
        "settings": job.settings.to_json(),
        "shaping": job.shaping.identity,
        "grader": job.grader.spec if job.grader else "",
        "watch": job.watch.model.spec if job.watch else "",
        "seed": job.seed,
    }


def _identity(job: TrainingJob) -> dict[str, str]:
    """Return what must not change while the training is resumed, by whose fact it is."""
    facts = {
        "policy": job.policy.identity,
        "condition": job.condition.identity if isinstance(job.condition, Identified) else {},
        "reward": job.rewarder.identity,
        "grader": job.grader.identity if job.grader else {},
    }
    return {f"{whose} {name}": fact for whose, several in facts.items() for name, fact in several.items()}


@dataclass(frozen=True)
class PpoJob(TrainingJob):
    """Who is trained, on whom, by what."""

    settings: PpoSettings


@dataclass(frozen=True)
class GrpoJob(TrainingJob):
    """Who is trained, on whom, by what; the users of a part are those of PPO with the same seed and shares."""

    settings: GrpoSettings
