"""What a study names, loaded: benchmarks, a policy, a grader, and the folders that its steps write."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, RewardModel, digest
from pluralrm.errors import ModelError, OutageError, ServiceError, StudyError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.grading import FORMS, Grader, check_independent, open_grader, parse_grader
from pluralrm.http import Settings
from pluralrm.models import load_model, parse_model
from pluralrm.policies.policy import Draw, Policy, load_policy
from pluralrm.runs import GridCell, Progress
from pluralrm.runs.loop import slug
from pluralrm.stats.best_of import check_ks
from pluralrm.study.file import BestOf, StudyDeclaration


class Watching(Protocol):
    """What shows how far a step is, while it is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def update(self, progress: Progress) -> None:
        """Show it."""


Watch = Callable[[str], Watching]
"""Is given a step's title."""


class Unwatched:
    """Shows nothing."""

    def __init__(self, title: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def update(self, progress: Progress) -> None:
        """Show no progress."""


class Missing(NamedTuple):
    """What a study lacks, and why: it cannot be, it broke, or a server gave no answer and will be asked again."""

    step: str
    why: Literal["skipped", "broken", "open"]
    reason: str


@dataclass(frozen=True)
class StudyContext:
    """Where a study lies and how it is worked on; models in `fresh`, and a policy, begin anew.

    What a step lacks is noted in `left`.
    """

    out: Path
    settings: Settings
    watch: Watch
    fresh: Collection[str] = ()
    left: list[Missing] = field(default_factory=list)

    @contextmanager
    def watched(self, name: str, who: str = "", condition: str = "") -> Iterator[Watching]:
        """Yield what shows a step; a broken model or server and an outage end this step, and no other.

        The error begins with whose it is, which the step's name says too.
        """
        try:
            with self.watch(name) as meter:
                yield meter
        except (ModelError, ServiceError) as exc:
            reason = str(exc).removeprefix(f"{who} under {condition}: ")
            self.left.append(Missing(name, "open" if isinstance(exc, OutageError) else "broken", reason))


RUNS, POOLS = "runs", "pools"


@dataclass(frozen=True)
class Answering:
    """Who answers what, shown what, drawn how; `policy` is None where a file holds the answers."""

    declared: BestOf
    benchmark: Benchmark
    policy: Policy | None
    condition: Condition
    draw: Draw

    def folder(self, out: Path) -> Path:
        """Return the pool's folder; its hash covers all that shapes the answers but the policy's weights and code."""
        asked = self.declared
        who = self.policy.spec if self.policy else f"given-{Path(asked.from_).name}"
        shape = [self.benchmark.content_hash, self.benchmark.seed, who, self.condition.spec]
        if self.policy is None:
            shape.append(file_hash(Path(asked.from_)))
        else:
            drawn = [getattr(self.draw, name) for name in Draw.__dataclass_fields__]
            shape += [*map(str, drawn), str(asked.limit), *asked.domains]
        return out / POOLS / f"{slug(who)}-{digest(shape)[:8]}"


def models_of(declared: StudyDeclaration) -> list[str]:
    """Return the models' specs in their canonical spelling, as runs and tables name them."""
    return [str(parse_model(text)) for text in declared.models]


def benchmark_of(declared: StudyDeclaration, name: str) -> Benchmark:
    """Return a benchmark of the study."""
    return load_benchmark(name, seed=declared.seed)


def answered_benchmark(declared: StudyDeclaration) -> str:
    """Return the name of the benchmark whose prompts are answered."""
    asked = declared.best_of_n
    return (asked and asked.benchmark) or declared.benchmarks[0]


def names_of(declared: StudyDeclaration) -> dict[str, str]:
    """Return what the models are called that have a name, by their specs."""
    return {spec: name for spec, name in zip(models_of(declared), declared.names, strict=False) if name}


def load_models(models: Sequence[str], settings: Settings) -> list[RewardModel]:
    """Return the models; one that is missing is an error now, not hours later."""
    return [load_model(model, settings=settings) for model in models]


def askers(declared: StudyDeclaration, settings: Settings) -> list[object]:
    """Return all that may ask a server: models, conditions, policy, grader."""
    asked, ppo = declared.best_of_n, declared.ppo
    conditions = [*declared.conditions, *declared.see, *([asked.condition] if asked else [])]
    conditions += [*declared.rewarded_under, ppo.condition] if ppo else []
    found: list[object] = [*load_models(models_of(declared), settings)]
    found += [load_condition(one, cache=settings.cache, settings=settings) for one in dict.fromkeys(conditions)]
    if asked is not None:
        found += [load_policy(asked.policy, settings=settings)] if asked.policy else []
    for grader in dict.fromkeys(one.grader for one in (asked, ppo) if one is not None):
        asks = "url" in FORMS[parse_grader(grader).kind].keys  # `truth` keeps an account too, of nothing
        found += [open_grader(grader, settings=settings)] if asks else []
    return found


def check_benchmarks(declared: StudyDeclaration, benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise where two names are of one content, or a benchmark lacks a domain that the study names."""
    known: dict[str, str] = {}
    for name, benchmark in benchmarks.items():
        if (first := known.setdefault(benchmark.content_hash, name)) != name:
            raise StudyError(f"benchmarks: {first!r} and {name!r} have the same items; leave one out")
        check_domains(benchmark, declared.domains, "domains")


def check_cells(cells: Sequence[GridCell]) -> None:
    """Raise where two names are of one model or of one condition, and where nothing can be scored."""
    if all(cell.skip for cell in cells):
        raise StudyError(f"nothing can be scored: {cells[0].skip}")
    twice = Counter((cell.benchmark.content_hash, cell.model, cell.condition.spec) for cell in cells)
    for (_, model, condition), times in twice.items():
        if times > 1:
            raise StudyError(f"{model} under {condition} comes {times} times, in other words; leave one out")


def answering(declared: StudyDeclaration, asked: BestOf, benchmark: Benchmark, settings: Settings) -> Answering:
    """Return who answers the benchmark's prompts."""
    policy = load_policy(asked.policy, settings=settings) if asked.policy else None
    condition = load_condition(asked.condition, cache=settings.cache, settings=settings)
    draw = Draw(asked.n, asked.temperature, asked.top_p, asked.max_tokens, declared.seed)
    if asked.from_ and not Path(asked.from_).is_file():
        raise StudyError(f"[best-of-n] from: no such file: {asked.from_!r}. Paths are those of the current folder")
    if (reason := condition.unsupported(benchmark)) is not None:
        raise StudyError(f"[best-of-n] condition: {reason}")
    check_domains(benchmark, asked.domains, "[best-of-n] domains")
    return Answering(asked, benchmark, policy, condition, draw)


def check_domains(benchmark: Benchmark, domains: Sequence[str], key: str) -> None:
    """Raise where a benchmark lacks a domain that the file names there."""
    for domain in domains:
        if domain not in benchmark.domains:
            hint = did_you_mean(domain, benchmark.domains)
            raise StudyError(f"{key}: {benchmark.card.name} has no {domain!r}.{hint}")


def grader_of(who: Answering, models: Sequence[str], conditions: Sequence[str], settings: Settings) -> Grader:
    """Return who grades; one that cannot grade these items, or a model that also picks, is an error."""
    asked = who.declared
    grader = open_grader(asked.grader, settings=settings)
    check_independent(grader.spec, grader.model, picks=models, conditions=conditions)
    if (reason := grader.unsupported(who.benchmark.select(domains=asked.domains, limit=asked.limit))) is not None:
        raise StudyError(f"[best-of-n] grader: {who.benchmark.card.name} {reason}")
    return grader


def points(declared: StudyDeclaration, n: int) -> tuple[int, ...]:
    """Return the k that are downstream results, of a pool of n answers; the largest, unless [correlate] names others.

    A k that is no point of the curves is an error.
    """
    asked = declared.best_of_n
    ks = asked.ks(n) if asked else ()
    check_ks(ks, n)
    wanted = tuple(sorted(set(declared.correlate.k))) or ks[-1:]
    if strange := [k for k in wanted if k not in ks]:
        raise StudyError(f"[correlate] k: found {strange[0]}, wanted points of the curves: {', '.join(map(str, ks))}")
    return wanted
