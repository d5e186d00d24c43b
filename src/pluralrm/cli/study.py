"""`pluralrm study`: a whole experiment from one file, each step resumed from what is on disk."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.options import (
    FORMAT,
    LOG,
    ON,
    SEND,
    SERVED,
    TEXT_FORMS,
    TRUST,
    ServerOptions,
    TableFormat,
    output_format,
    print_records,
    with_key,
    with_server_options,
    with_trust,
)
from pluralrm.cli.progress import INCOMPLETE, GridDisplay, command, interruptible, note_asked
from pluralrm.cli.terminal import Kind, console, note, percent, print_json, print_legend, print_wrapped, table
from pluralrm.errors import ModelError, SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.http import Cost
    from pluralrm.specs import Form, Spec
    from pluralrm.study import Plan, Step, StudyDeclaration, StudyResult

    Parse = Callable[[str], Spec]
    from pluralrm.study.ppo.results import Answers, PolicyResult, TrainingResults


def tell_trainings(results: "TrainingResults") -> None:
    """Print what each reward model made of the policy."""
    from pluralrm.study.ppo.presentation import about, alarms, apart_told, seeded, tables

    if results.conditions:
        console().print()
        print_wrapped(f"trained: {about(results)}")
    for condition in results.conditions:
        parts = tables(results, condition)
        for each in parts:
            whose = f"; {each.whose}" if len(parts) > 1 else ""
            console().print()
            print_wrapped(f"rewarded under {condition}{whose}; grade in per cent, change in points [95%, over users]:")
            answers = [answers for _, answers in each.rows]
            console().print(table(_columns(results, answers), [_row(results, *row, answers) for row in each.rows]))
        for policy, _ in parts[0].rows:
            several = ", ".join(f"seed {seed.seed}: {' -> '.join(seeded(seed)[:2])}" for seed in policy.seeds)
            print_wrapped(f"{policy.reward}: {several}", first="  ", indent="    ")
            if gone := alarms(policy):
                print_wrapped(f"ALARM {policy.reward}: {gone}", first="  ", indent="    ", style="red")
    for apart in results.apart:
        print_wrapped(apart_told(apart))


def _columns(results: "TrainingResults", rows: "Sequence[Answers]") -> list[tuple[str, Kind]]:
    more: list[tuple[str, Kind]] = [("over trainings too", "left")] if _several(results) else []
    failed: list[tuple[str, Kind]] = [("failed", "right")] if _failed(rows) else []
    return [("reward", "name"), ("before", "right"), ("change", "left"), *more, *failed]


def _row(
    results: "TrainingResults", policy: "PolicyResult", answers: "Answers", rows: "Sequence[Answers]"
) -> tuple[str, ...]:
    from pluralrm.study.ppo.presentation import marked

    name = (
        marked(policy)
        if policy.whole
        else f"{marked(policy)} ({len(policy.seeds)} of {len(results.recipe.seeds)} seeds)"
    )
    more = [percent(answers.change.both)] if _several(results) else []
    failed = [str(answers.change.users.failed)] if _failed(rows) else []
    return name, f"{100 * answers.before.value:.1f}", percent(answers.change.users), *more, *failed


def _several(results: "TrainingResults") -> bool:
    return len(results.recipe.seeds) > 1


def _failed(rows: "Sequence[Answers]") -> bool:
    return any(row.change.users.failed for row in rows)


@with_server_options
def study(
    file: Path = typer.Argument(..., metavar="FILE", help="The study, in TOML."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of all results; the same command resumes."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the plan, calls and cost, and stop."),
    fresh: list[str] = typer.Option(
        [], "--fresh", metavar="MODEL", help="Redo this model, or the policy: its code or weights have changed."
    ),
    trust: list[str] = TRUST,
    send: bool = SEND,
    on: str = ON,
    log: str = LOG,
    served: ServerOptions = SERVED,
    form: TableFormat = FORMAT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Run a declared study (score, pick, train, grade, correlate); write study.html. Exit 3 if some stay open."""
    from pluralrm.exchange.trackers import opened_log
    from pluralrm.exchange.tracking import TrainingLog, log_study
    from pluralrm.study import PAGE, plan_study, read_study
    from pluralrm.study import study as do_study
    from pluralrm.study.parts import RUNS, askers

    form = output_format(form, as_json=as_json)
    settings, declared = served.settings(), _allowed(read_study(file), trust, send=send)
    again = _named(fresh, declared)
    if dry_run:
        _tell_plan(plan_study(declared, out=out, settings=settings, fresh=again), as_json=form is TableFormat.JSON)
        return
    served.check(askers(declared, settings))
    with opened_log(log, note, note) as board:
        with interruptible("what is done is kept", fresh_has_value=True), GridDisplay(noun="step") as display:
            display.waits(f"study {file}")
            listener = TrainingLog(board)
            result = do_study(
                declared, out=out, settings=settings, on=on, fresh=again, display=display, listener=listener
            )
        log_study(board, declared.title, result.records(), out / RUNS)
    _tell(result, form)
    note_asked(display.tallies)
    note(f"{out / PAGE}")
    _tell_left(result)


# ---------------------------------------------------------------- what the command allows


def _allowed(declared: "StudyDeclaration", trust: Sequence[str], *, send: bool) -> "StudyDeclaration":
    """Return the study with what the command allows written into its specs."""
    trusted = _with_models(declared, with_trust(declared.models, trust))
    return _sending(trusted) if send else trusted


def _with_models(declared: "StudyDeclaration", models: Sequence[str]) -> "StudyDeclaration":
    """Return the study with its models' specs replaced, wherever they stand."""
    update: dict[str, object] = {"models": tuple(models)}
    if declared.ppo is not None:
        changed = dict(zip(declared.models, models, strict=True))
        rewards = tuple(changed[name] for name in declared.ppo.rewards)
        update["ppo"] = declared.ppo.model_copy(update={"rewards": rewards})
    return declared.model_copy(update=update)


def _sending(declared: "StudyDeclaration") -> "StudyDeclaration":
    """Return the study with `send=posts` in every spec that can send; a SpecError where none can."""
    from pluralrm.conditions import KINDS as CONDITIONS
    from pluralrm.conditions import parse_condition
    from pluralrm.grading import FORMS, parse_grader
    from pluralrm.models import KINDS, parse_model
    from pluralrm.policies.policy import KINDS as POLICIES
    from pluralrm.policies.policy import parse_policy

    conditions = {kind: row.form for kind, row in CONDITIONS.items()}
    policies = {kind: row.form for kind, row in POLICIES.items()}
    models = {kind: row.form for kind, row in KINDS.items()}

    def sent(texts: Sequence[str], parse: "Parse", forms: "Mapping[str, Form]") -> tuple[str, ...]:
        can = ["send" in forms[parse(text).kind].keys for text in texts]
        return tuple(with_key(texts, "send", "posts", can, parse))

    base = _with_models(declared, sent(declared.models, parse_model, models))
    update: dict[str, object] = {"conditions": sent(declared.conditions, parse_condition, conditions)}
    if (trained := base.ppo) is not None:
        seen = {
            "see": sent(trained.see, parse_condition, conditions),
            "condition": sent([trained.condition], parse_condition, conditions)[0],
            "grader": sent([trained.grader], parse_grader, FORMS)[0],
        }
        update["ppo"] = trained.model_copy(update=seen)
    if (selection := declared.best_of_n) is not None:
        more = {
            "see": sent(selection.see, parse_condition, conditions),
            "condition": sent([selection.condition], parse_condition, conditions)[0],
            "policy": selection.policy and sent([selection.policy], parse_policy, policies)[0],
            "grader": sent([selection.grader], parse_grader, FORMS)[0],
        }
        update["best_of_n"] = selection.model_copy(update=more)
    allowed = base.model_copy(update=update)
    if allowed == declared:
        raise SpecError("--send-posts: nothing in this study sends anything; leave it out")
    return allowed


def _named(fresh: Sequence[str], declared: "StudyDeclaration") -> frozenset[str]:
    """Return the models, and the policy, to begin anew, as folders name them; a name of none of them is a SpecError."""
    from pluralrm.models import parse_model
    from pluralrm.policies.policy import parse_policy
    from pluralrm.study.parts import names_of

    names = {text: str(parse_model(text)) for text in declared.models}
    names |= {name: spec for spec, name in names_of(declared).items()}
    if declared.best_of_n is not None and declared.best_of_n.policy:
        names[declared.best_of_n.policy] = str(parse_policy(declared.best_of_n.policy))
    if (ppo := declared.ppo) is not None:
        names[ppo.policy] = ppo.named
    names |= {name: name for name in names.values()}
    for name in fresh:
        if name not in names:
            raise SpecError(f"--fresh {name}: no model of this study.{did_you_mean(name, names)}")
    return frozenset(names[name] for name in fresh)


# ---------------------------------------------------------------- what is told


def _tell_plan(plan: "Plan", *, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_json())
        return
    places = dict.fromkeys((step.verb, step.on) for step in plan.steps)
    for verb, on in places:
        console().print()
        print_wrapped(f"{verb}: {on}", style="bold")
        columns: list[tuple[str, Kind]] = [
            (_WHO.get(verb, "model"), "name"),
            ("under", "name"),
            ("on disk", "right"),
            ("missing", "right"),
        ]
        columns += [("calls", "right"), ("cost", "right")]
        console().print(table(columns, [_planned(step) for step in plan.steps if (step.verb, step.on) == (verb, on)]))
    console().print()
    for why, times in Counter(why for step in plan.steps for why in step.notes).items():
        print_wrapped(f"{why} ({times} of {len(plan.steps)} steps)", first="  ", indent="    ")
    print_legend([f"altogether: {_count(plan.calls)} calls, cost {_cost(plan.cost)}.", f"cost: {_ABOUT_COST}"])


_WHO = {"sample": "policy", "grade": "grader", "make": "policy", "train": "reward"}
_ABOUT_COST = (
    "of the prompts alone (four letters a token), and with replies as long as they may be. ?: not known yet, or no "
    "price in --prices. Cached replies cost nothing."
)


def _planned(step: "Step") -> tuple[str, ...]:
    on_disk = "?" if step.done is None or step.wanted is None else f"{step.done:,} of {step.wanted:,}"
    return step.who, step.condition, on_disk, _count(step.missing), _count(step.calls), _cost(step.cost)


def _cost(cost: "Cost | None") -> str:
    if cost is None:
        return "?"
    return str(cost)


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _tell(result: "StudyResult", form: TableFormat) -> None:
    if form in TEXT_FORMS:
        print_records(result.records(), form, ["value"])
        return
    if form is TableFormat.JSON:
        print_json(result.to_json())
        return
    result = result.named()
    report = result.correlation.report
    for cell in report.cells if report else ():
        console().print()
        print_wrapped(cell.verdict)
        for warning in cell.warnings:
            print_wrapped(warning, first="warning: ", indent="  ", style="yellow")
    for dispute in report.disputes if report else ():
        console().print()
        print_wrapped(dispute.verdict)
    for reason in result.correlation.why_not:
        print_wrapped(f"not correlated: {reason}", indent="  ")
    sides = [*result.benchmarks, *result.downstream]
    columns: list[tuple[str, Kind]] = [("model", "name"), *((f"{side.name} [95%]", "left") for side in sides)]
    rows = [
        (model, *(percent(side.estimates[model]) if model in side.estimates else "-" for side in sides))
        for model in result.ranked
    ]
    console().print()
    console().print(table(columns, rows))
    if result.trained is not None:
        tell_trainings(result.trained)
    print_legend(_legend(result))


def _legend(result: "StudyResult") -> list[str]:
    more = " study.html has the correlations, the curves and the reversed pairs." * bool(result.downstream)
    lines = [f"Per cent; {result.order}.{more}"]
    lines += result.notes
    lines += [f"left out: {entry.step}: {entry.reason}" for entry in result.left if entry.why == "skipped"]
    return lines


def _tell_left(result: "StudyResult") -> None:
    """Name what is open or broken, and end with the code that says so."""
    is_open = [entry for entry in result.left if entry.why == "open"]
    for entry in is_open:
        note(f"incomplete: {entry.step}: {entry.reason}")
    if is_open:
        note(f"the same command tries the rest again:\n  {command(fresh_has_value=True)}")
    if broken := [entry for entry in result.left if entry.why == "broken"]:
        reasons = "\n".join(f"{entry.step}: {entry.reason}" for entry in broken)
        raise ModelError(
            f"{reasons}\nThe study continues without it; fix the model, and the same command scores it alone."
        )
    if is_open:
        raise typer.Exit(INCOMPLETE)
