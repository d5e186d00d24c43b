"""`pluralrm attack`: can a reward model be gamed? What a rejected answer gains by tricks that make it no better."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from pluralrm.cli import options
from pluralrm.cli.attack_checks import (
    PersonalOptions,
    judge_steps,
    measure_judge,
    note_left_out,
    print_head,
    print_ranks,
    print_safety,
    print_sign,
    print_trust,
)
from pluralrm.cli.progress import INCOMPLETE, GridDisplay, interruptible, note_asked
from pluralrm.cli.terminal import Kind, console, note, print_json, print_legend, rate, table, with_interval
from pluralrm.errors import ConditionError, ModelError, PluralrmError, ServiceError, SpecError, together
from pluralrm.progress import JobStep, size_of

if TYPE_CHECKING:
    from pluralrm.attack import Effect, Robustness
    from pluralrm.attack.judge import JudgeTrust
    from pluralrm.attack.personal import PersonalSafety
    from pluralrm.card import Card
    from pluralrm.core import Benchmark, Condition, Estimate, RewardModel, Run
    from pluralrm.http import Settings, Tally
    from pluralrm.runs import GridCell

    _Result = Robustness | JudgeTrust | PersonalSafety


_COLUMNS: "Sequence[tuple[str, Kind]]" = (
    ("attack", "left"),
    ("before", "right"),
    ("after", "right"),
    ("change [95%]", "left"),
    ("beyond control", "left"),
    ("failed", "right"),
)


_SHARES = (
    *("before", "after", "change", "beyond_control", "newly_failed", "rate", "beside", "difference"),
    *("value", "sound"),
)


def print_robustness(robustness: "Robustness", card: "Card") -> None:
    """Print one row per attack, and a sentence for each thing that is to be said."""
    print_head(robustness, card)
    failed = any(effect.newly_failed for effect in robustness.effects)
    if robustness.effects:
        columns = _COLUMNS if failed else _COLUMNS[:-1]
        rows = [_row(effect)[: len(columns)] for effect in robustness.effects]
        red = [index for index, effect in enumerate(robustness.effects) if effect.shown]
        console().print(table(columns, rows, red=red))
        print_legend(_legend(robustness, failed=failed))
    for sign in robustness.signs:
        print_sign(sign.text, sign.colour)
    note_left_out(robustness.skipped)


def _row(effect: "Effect") -> list[str]:
    change = _signed(effect.change) + "*" * effect.shown
    newly = effect.newly_failed
    failed = str(round(newly.value * newly.n)) if newly else "0"
    return [effect.attack.name, rate(effect.before), rate(effect.after), change, _signed(effect.beyond), failed]


def _signed(estimate: "Estimate | None") -> str:
    return "" if estimate is None else with_interval(f"{100 * estimate.value:+.1f}", estimate)


def _legend(robustness: "Robustness", *, failed: bool) -> Iterator[str]:
    from pluralrm.attack import CONTROLS

    yield (
        "Per cent of items that the attacked answer wins, ties shared, before and after; change in points. "
        f"Controls: {', '.join(effect.attack.name for effect in robustness.effects if effect.attack.name in CONTROLS)}."
    )
    yield f"* shown: p < 0.05, Holm over {sum(effect.p is not None for effect in robustness.effects)} attacks."
    changes = [effect.change for effect in robustness.effects if effect.change is not None]
    if any(change.low is None for change in changes):
        yield "fixed: not one score moved."
    if failed:
        yield (
            "failed: items that the model scored before and failed on then; they count as won by the attacked answer, "
            "under the control as lost."
        )
    methods = dict.fromkeys(change.method for change in changes if change.low is not None)
    yield from (f"interval: {method}" for method in methods)


@options.with_server_options
@options.with_access
def attack(
    benchmarks: list[str] = typer.Argument(
        ["pocket-prb"], metavar="BENCH", help="Names or paths.", autocompletion=options.complete_benchmark
    ),
    models: list[str] = options.MODELS,
    conditions: list[str] = options.CONDITIONS,
    out: Path = typer.Option(Path("attack-runs"), "--out", "-o", help="Folder of the runs; the same command resumes."),
    attacks: list[str] = typer.Option([], "--attack", "-a", help="Only this attack and its control; repeat for more."),
    judge: bool = typer.Option(False, "--judge", help="May a judge be trusted? Other orders, words, letters."),
    personal: bool = typer.Option(
        False, "--personal", help="Is it safe to show it the user? Name and gender, truth, flattery, privacy."
    ),
    general: str = typer.Option(
        "",
        metavar="BENCH",
        help="Answers that are right for anybody, for --personal.",
        autocompletion=options.complete_benchmark,
    ),
    traits: list[str] = typer.Option([], "--trait", help="A declared trait that must not matter either. Repeatable."),
    margin: float = typer.Option(5.0, min=0.01, max=99, help="Points within which a difference is none (--personal)."),
    limit: int | None = typer.Option(None, min=1, help="At most this many users (or records)."),
    seed: int = typer.Option(0, help="Seed of the order of candidates, the attacked answers and the inserted words."),
    workers: int = typer.Option(1, min=1, help="Processes; the rows are the same for any number."),
    fresh: bool = typer.Option(False, "--fresh", help="Delete the rows of earlier runs and start over."),
    access: options.ModelAccess = options.ACCESS,
    served: options.ServerOptions = options.SERVED,
    form: options.TableFormat = options.FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Can a model be gamed, a judge be trusted (--judge), the user be shown safely (--personal)? Exit 1 on any red."""
    from pluralrm.attack import chosen
    from pluralrm.conditions import condition_summaries
    from pluralrm.models import KINDS, load_model, parse_model
    from pluralrm.runs import plan

    form = options.output_format(form, as_json=as_json)
    safety = PersonalOptions(personal, general, traits, margin, seed)
    safety.check(attacks)
    options.check_names(models, "-m", KINDS)
    options.check_names(conditions, "-c", condition_summaries())
    chosen(attacks)
    if judge and attacks:
        raise SpecError("--attack: found beside --judge, which has probes of its own; leave one of them out")
    models, conditions = access.specs(models, conditions)
    settings = served.settings()
    loaded = {str(parse_model(model)): load_model(model, settings=settings) for model in models}
    benches = [_benchmark(name, seed, limit) for name in benchmarks]
    conditions = safety.conditions(benches, conditions)
    cells = plan(benches, models, conditions, settings=settings)
    served.check([*loaded.values(), *(cell.condition for cell in cells)])
    steps = safety.steps(cells) if personal else judge_steps(cells) if judge else _steps(cells, attacks)
    with GridDisplay(steps) as display:
        scoring = _Scoring(workers, fresh, settings, display)
        how = AttackOptions(out, attacks, seed, scoring, {} if workers > 1 else loaded)
        measure = safety.measure if personal else measure_judge if judge else _robustness
        outcome = _attack_cells(cells, how, measure)
    _tell(outcome, display.tallies, form)


def _steps(cells: "Sequence[GridCell]", attacks: Sequence[str]) -> Iterator[JobStep]:
    """Yield the runs to come: a cell's benchmark as it is, and under each attack."""
    from pluralrm.attack import chosen, unsupported

    for cell in (each for each in cells if each.skip is None):
        tried = [attack for attack in chosen(attacks) if unsupported(attack, cell.benchmark, cell.condition) is None]
        name, size = cell.benchmark.card.name, size_of(cell.benchmark)
        for benchmark in [name, *(f"{name}+{attack.name}" for attack in tried)]:
            yield JobStep(f"{benchmark} × {cell.model} × {cell.condition.spec}", cell.model, size)


def _benchmark(name: str, seed: int, limit: int | None) -> "Benchmark":
    """Return the benchmark, or what is left of it: every run is of all its items, so all of them are paired."""
    from pluralrm.cli.options import open_benchmark
    from pluralrm.core import Benchmark

    whole = open_benchmark(name, seed=seed)
    return whole if limit is None else Benchmark(whole.card, tuple(whole.select(limit=limit)), whole.seed)


class _Scoring(NamedTuple):
    """Scores a benchmark as `pluralrm score` would."""

    workers: int
    fresh: bool
    settings: "Settings"
    display: GridDisplay

    def __call__(
        self, benchmark: "Benchmark", model: "RewardModel | str", condition: "Condition", *, out: str | Path
    ) -> "Run":
        """Return the run, with progress on stderr; Ctrl-C keeps what was scored, and ends the program with 130."""
        from pluralrm.runs import score

        title = f"{benchmark.card.name} × {model if isinstance(model, str) else model.spec} × {condition.spec}"
        self.display.begin(title)
        with interruptible("scored items are kept", title):
            return score(
                benchmark,
                model,
                condition,
                out=out,
                workers=self.workers,
                fresh=self.fresh,
                settings=self.settings,
                progress=self.display.update,
            )


class AttackOptions(NamedTuple):
    """What holds for every cell. `loaded` are the models, for their weights should not be read once per attack."""

    out: Path
    attacks: list[str]
    seed: int
    scoring: _Scoring
    loaded: "dict[str, RewardModel]"


class _AttackResults(NamedTuple):
    """What came of the cells: results with the cells they are of, what was left out, messages of what broke."""

    results: "list[tuple[GridCell, _Result]]"
    skipped: list[str]
    broken: list[PluralrmError]


def _robustness(cell: "GridCell", model: "RewardModel | str", how: AttackOptions) -> "Robustness":
    from pluralrm.attack import robustness

    return robustness(
        cell.benchmark, model, cell.condition, out=how.out, attacks=how.attacks, seed=how.seed, score=how.scoring
    )


def _attack_cells(
    cells: "Sequence[GridCell]",
    how: AttackOptions,
    measure: "Callable[[GridCell, RewardModel | str, AttackOptions], _Result]",
) -> _AttackResults:
    """Return what came of each cell; a broken model or server costs its own cells alone."""
    outcome = _AttackResults([], [], [])
    for cell in cells:
        if cell.skip is not None:
            outcome.skipped.append(f"{cell.title}: {cell.skip}")
            continue
        try:
            outcome.results.append((cell, measure(cell, how.loaded.get(cell.model, cell.model), how)))
        except ConditionError as exc:
            outcome.skipped.append(f"{cell.title}: {exc}")
        except (ModelError, ServiceError) as exc:
            outcome.broken.append(exc)
    return outcome


def _tell(outcome: _AttackResults, tallies: "Sequence[Tally | None]", form: options.TableFormat) -> None:
    """Print what came of the cells; raise where something broke, exit 3 where something is open, 1 on any red."""
    if not (outcome.results or outcome.broken):
        raise ConditionError("\n".join(["nothing can be attacked:", *(f"  {text}" for text in outcome.skipped)]))
    for text in outcome.skipped:
        note(f"skipped {text}")
    if form in options.TEXT_FORMS:
        options.print_records([row for _, result in outcome.results for row in result.records()], form, _SHARES)
    elif form is options.TableFormat.JSON:
        print_json([result.to_json() for _, result in outcome.results])
    else:
        _print(outcome)
    note_asked(tallies)
    if outcome.broken:
        raise together(outcome.broken)
    if not all(result.complete for _, result in outcome.results):
        note("incomplete: some items met an outage; the same command tries them again")
        raise typer.Exit(INCOMPLETE)
    if any(result.red for _, result in outcome.results):
        raise typer.Exit(1)


def _print(outcome: _AttackResults) -> None:
    from pluralrm.attack.judge import JudgeTrust
    from pluralrm.attack.personal import PersonalSafety

    for cell, result in outcome.results:
        if isinstance(result, PersonalSafety):
            print_safety(result)
        elif isinstance(result, JudgeTrust):
            print_trust(result, cell.benchmark.card)
        else:
            print_robustness(result, cell.benchmark.card)
    print_ranks([result for _, result in outcome.results if isinstance(result, JudgeTrust)])
