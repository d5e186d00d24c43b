"""What a study names, loaded: benchmarks, a policy, a grader, and the folders that its steps write."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pluralrm.benchmarks import load_benchmark
from pluralrm.cluster import Cluster
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Condition, RewardModel
from pluralrm.digests import digest
from pluralrm.errors import ModelError, OutageError, ServiceError, StudyError, did_you_mean
from pluralrm.folders import file_hash
from pluralrm.grading import FORMS, Grader, check_independent, open_grader, parse_grader
from pluralrm.http import Settings
from pluralrm.models import load_model, parse_model
from pluralrm.policies.policy import Draw, Policy, load_policy
from pluralrm.progress import JobDisplay, NoDisplay
from pluralrm.runs import GridCell
from pluralrm.runs.records import slug
from pluralrm.stats.best_of import check_ks
from pluralrm.study.file import BestOf, StudyDeclaration

if TYPE_CHECKING:
    from pluralrm.training.measures import TrainingProgress
    from pluralrm.training.records import EvaluationLine, StepLine


class Missing(NamedTuple):
    """What a study lacks, and why: it cannot be, it broke, or a server gave no answer and will be asked again."""

    step: str
    why: Literal["skipped", "broken", "open"]
    reason: str


class TrainingListener(Protocol):
    """Hears of each step of a training, and of its end."""

    def tell(self, folder: Path, progress: "TrainingProgress[StepLine, EvaluationLine]") -> None:
        """Hear of a step."""

    def end(self, folder: Path, steps: int) -> None:
        """Hear that all steps are done."""


@dataclass(frozen=True)
class StudyContext:
    """Where a study lies and how it is worked on; models in `fresh`, and a policy, begin anew.

    What a step lacks is noted in `left`.
    """

    out: Path
    settings: Settings
    display: JobDisplay = field(default_factory=NoDisplay)
    fresh: Collection[str] = ()
    left: list[Missing] = field(default_factory=list)
    cluster: Cluster | None = None
    listener: TrainingListener | None = None

    @contextmanager
    def watched(self, name: str, who: str = "", condition: str = "") -> Iterator[JobDisplay]:
        """Yield what shows a step; a broken model or server and an outage end this step, and no other.

        The error begins with whose it is, which the step's name says too.
        """
        self.display.begin(name)
        try:
            yield self.display
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
        options = self.declared
        who = self.policy.spec if self.policy else f"given-{Path(options.from_).name}"
        shape = [self.benchmark.content_hash, self.benchmark.seed, who, self.condition.spec]
        if self.policy is None:
            shape.append(file_hash(Path(options.from_)))
        else:
            drawn = [getattr(self.draw, name) for name in Draw.__dataclass_fields__]
            shape += [*map(str, drawn), str(options.limit), *options.domains]
        return out / POOLS / f"{slug(who)}-{digest(shape)[:8]}"


def models_of(declared: StudyDeclaration) -> list[str]:
    """Return the models' specs in their canonical spelling, as runs and tables name them."""
    return [str(parse_model(text)) for text in declared.models]


def benchmark_of(declared: StudyDeclaration, name: str) -> Benchmark:
    """Return a benchmark of the study."""
    return load_benchmark(name, seed=declared.seed)


def answered_benchmark(declared: StudyDeclaration) -> str:
    """Return the name of the benchmark whose prompts are answered."""
    options = declared.best_of_n
    return (options and options.benchmark) or declared.benchmarks[0]


def names_of(declared: StudyDeclaration) -> dict[str, str]:
    """Return what the models are called that have a name, by their specs."""
    return {spec: name for spec, name in zip(models_of(declared), declared.names, strict=False) if name}


def load_models(models: Sequence[str], settings: Settings) -> list[RewardModel]:
    """Return the models; one that is missing is an error now, not hours later."""
    return [load_model(model, settings=settings) for model in models]


def askers(declared: StudyDeclaration, settings: Settings) -> list[object]:
    """Return all that may ask a server: models, conditions, policy, grader."""
    options, ppo = declared.best_of_n, declared.ppo
    conditions = [*declared.conditions, *declared.see, *([options.condition] if options else [])]
    conditions += [*declared.rewarded_under, ppo.condition] if ppo else []
    parts: list[object] = [*load_models(models_of(declared), settings)]
    parts += [load_condition(name, cache=settings.cache, settings=settings) for name in dict.fromkeys(conditions)]
    if options is not None:
        parts += [load_policy(options.policy, settings=settings)] if options.policy else []
    for grader in dict.fromkeys(table.grader for table in (options, ppo) if table is not None):
        asks = "url" in FORMS[parse_grader(grader).kind].keys  # `truth` keeps an account too, of nothing
        parts += [open_grader(grader, settings=settings)] if asks else []
    return parts


def check_benchmarks(declared: StudyDeclaration, benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise where two names are of one content, or a benchmark lacks a domain that the study names."""
    names: dict[str, str] = {}
    for name, benchmark in benchmarks.items():
        if (first := names.setdefault(benchmark.content_hash, name)) != name:
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


def answering(declared: StudyDeclaration, options: BestOf, benchmark: Benchmark, settings: Settings) -> Answering:
    """Return who answers the benchmark's prompts."""
    policy = load_policy(options.policy, settings=settings) if options.policy else None
    condition = load_condition(options.condition, cache=settings.cache, settings=settings)
    draw = Draw(options.n, options.temperature, options.top_p, options.max_tokens, declared.seed)
    if options.from_ and not Path(options.from_).is_file():
        raise StudyError(f"[best-of-n] from: no such file: {options.from_!r}. Paths are those of the current folder")
    if (reason := condition.unsupported(benchmark)) is not None:
        raise StudyError(f"[best-of-n] condition: {reason}")
    check_domains(benchmark, options.domains, "[best-of-n] domains")
    return Answering(options, benchmark, policy, condition, draw)


def check_domains(benchmark: Benchmark, domains: Sequence[str], key: str) -> None:
    """Raise where a benchmark lacks a domain that the file names there."""
    for domain in domains:
        if domain not in benchmark.domains:
            hint = did_you_mean(domain, benchmark.domains)
            raise StudyError(f"{key}: {benchmark.card.name} has no {domain!r}.{hint}")


def grader_of(who: Answering, models: Sequence[str], conditions: Sequence[str], settings: Settings) -> Grader:
    """Return who grades; one that cannot grade these items, or a model that also picks, is an error."""
    options = who.declared
    grader = open_grader(options.grader, settings=settings)
    check_independent(grader.spec, grader.model, picks=models, conditions=conditions)
    if (reason := grader.unsupported(who.benchmark.select(domains=options.domains, limit=options.limit))) is not None:
        raise StudyError(f"[best-of-n] grader: {who.benchmark.card.name} {reason}")
    return grader


def points(declared: StudyDeclaration, n: int) -> tuple[int, ...]:
    """Return the k that are downstream results, of a pool of n answers; the largest, unless [correlate] names others.

    A k that is no point of the curves is an error.
    """
    options = declared.best_of_n
    ks = options.ks(n) if options else ()
    check_ks(ks, n)
    chosen = tuple(sorted(set(declared.correlate.k))) or ks[-1:]
    if strange := [k for k in chosen if k not in ks]:
        raise StudyError(f"[correlate] k: found {strange[0]}, wanted points of the curves: {', '.join(map(str, ks))}")
    return chosen
