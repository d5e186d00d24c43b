"""Tables of what the user, or the prompt, is worth to a model: one call per set of runs on the same items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, rate, table, with_interval
from pluralrm.text import points

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Role, Run
    from pluralrm.metrics.contrast import ColdStart
    from pluralrm.metrics.estimates import ByTag
    from pluralrm.metrics.personalization import Personalization
    from pluralrm.metrics.prompts import PromptUse

_ROLES: "tuple[Role, ...]" = ("none", "own", "swapped", "nearest", "group", "outside", "least", "oracle")
"""The columns of accuracies; there is no room for `noise`, which the report has."""
_LEGEND = (
    "Points. lift: own - none. gain: own - swapped. gap closed: per cent of oracle - none that own has. flips: per "
    "cent of verdicts that differ under another user's posts. Intervals are each by itself. p: own against swapped, "
    "by sign flips"
)
_PROMPT_LEGEND = (
    "sensitivity: points that a prompt's winner earns there, minus those it earns under the record's other prompts. "
    "one favourite: per cent of records where all prompts have the same strict favourite."
)


def print_personal(runs: "Sequence[Run]", *, seed: int = 0, by: str = "") -> None:
    """Print the pair (lift, gain) per own condition, all models together; nothing where no run shows posts.

    With `by` also the gain per value of a tag. What cannot be measured is said on stderr: the rest of a command's
    output does not depend on it.
    """
    from pluralrm.errors import MetricError
    from pluralrm.metrics.contrast import cold_start
    from pluralrm.metrics.estimates import synthesised, trained_notes
    from pluralrm.metrics.personalization import personalization
    from pluralrm.metrics.sides import among_people

    complete = _complete(runs)
    _note_left_out(runs)
    try:
        results = personalization(complete, seed=seed)
        curves = cold_start(complete)
    except MetricError as exc:
        note(f"nothing is said of personalization: {exc}")
        return
    for group in _same_conditions(results):
        _print_pairs(group)
    if results:
        pairs = dict.fromkeys(text for run in complete if (text := synthesised(run)))
        trained = [f"{text}." for text in trained_notes(complete)]
        print_legend([*_reading(results), *trained, *(f"SYNTHESISED: {text}." for text in pairs)])
    for family in dict.fromkeys(curve.family for curve in curves):
        _print_curves([curve for curve in curves if curve.family == family])
    if by:
        print_tags(complete, by)
    print_legend(f"{among.model} ({among.condition}): {among}." for among in among_people(complete))


def _same_conditions(results: "Sequence[Personalization]") -> "list[list[Personalization]]":
    """Return the models in groups whose conditions agree, role by role; a model may lack one that others have."""
    groups: list[list[Personalization]] = []
    for result in results:
        for group in groups:
            shared = _conditions(group)
            if result.conditions["own"] == shared["own"] and all(
                shared.get(role, spec) == spec for role, spec in result.conditions.items()
            ):
                group.append(result)
                break
        else:
            groups.append([result])
    return groups


def _conditions(group: "Sequence[Personalization]") -> "dict[Role, str]":
    return {role: spec for result in group for role, spec in result.conditions.items()}


def personal_json(runs: "Sequence[Run]", *, seed: int = 0, by: str = "") -> dict[str, object]:
    """Return the same for --json: `personalization`, `cold_start`, `among_people`, and `gain_by` of a tag.

    Runs that cannot be compared are a MetricError.
    """
    from pluralrm.metrics.contrast import cold_start
    from pluralrm.metrics.personalization import personalization
    from pluralrm.metrics.sides import among_people

    complete = _complete(runs)
    _note_left_out(runs)
    record: dict[str, object] = {
        "personalization": [result.to_json() for result in personalization(complete, seed=seed)],
        "cold_start": [curve.to_json() for curve in cold_start(complete)],
    }
    if among := among_people(complete):
        record["among_people"] = [result.to_json() for result in among]
    if by:
        from pluralrm.metrics.contrast import tag_contrasts

        record["lift_by"] = [
            {"model": model, "condition": condition, "groups": {value: each.to_json() for value, each in lift.items()}}
            for (model, condition), (lift, _) in tag_contrasts(complete, by).items()
            if lift
        ]
        record["gain_by"] = [
            {"model": run.model, "condition": run.condition, **result.to_json()}
            for run, result in _by_tag(complete, by)
        ]
    return record


def print_prompt_use(runs: "Sequence[Run]") -> None:
    """Print how much each run's model uses the prompt; nothing where the rows are no records of several prompts."""
    uses = _prompt_uses(runs)
    if not uses:
        return
    rows = [(use.model, use.condition, _points(use.sensitivity), percent(use.one_favourite)) for use in uses]
    _title(f"{uses[0].benchmark}: does the model read the prompt?")
    columns: list[tuple[str, Kind]] = [("model", "name"), ("condition", "name"), ("sensitivity [95%]", "left")]
    console().print(table([*columns, ("one favourite [95%]", "left")], rows))
    print_legend([_PROMPT_LEGEND, *_habits(uses)])


def chance_json(group: "Sequence[Run]") -> dict[str, object]:
    """Return which runs are above chance, and which below."""
    from pluralrm.metrics import against_chance

    result = against_chance(group)
    sides = {"above": result.above, "below": result.below}
    records = {
        side: [{"model": group[index].model, "condition": group[index].condition} for index in places]
        for side, places in sides.items()
    }
    return {"chance": result.chance, **records, "tested": result.tested}


def prompt_json(runs: "Sequence[Run]") -> list[dict[str, object]]:
    """Return the same for --json."""
    return [use.to_json() for use in _prompt_uses(runs)]


def _note_left_out(runs: "Sequence[Run]") -> None:
    """Say which runs are unfinished, and so not among what follows."""
    from pluralrm.metrics.estimates import remark

    for run in runs:
        if run.done and (reason := remark(run)):
            note(f"left out of personalization: {run.model} under {run.condition} is {reason}")


def _complete(runs: "Sequence[Run]") -> "list[Run]":
    from pluralrm.metrics.estimates import remark

    return [run for run in runs if run.done and not remark(run)]


def _prompt_uses(runs: "Sequence[Run]") -> "list[PromptUse]":
    from pluralrm.errors import MetricError
    from pluralrm.metrics.prompts import prompt_use

    uses = []
    for run in _complete(runs):
        if all("record" in row.tags for row in run.rows):
            try:
                uses.append(prompt_use(run))
            except MetricError as exc:
                note(f"no result for the prompts of {run.model} under {run.condition}: {exc}")
    return uses


def _print_pairs(group: "Sequence[Personalization]") -> None:
    """Print the pair, and the accuracies that it comes from, for models with the same own and control conditions."""
    from pluralrm.metrics.overview import WORDS

    conditions = _conditions(group)
    noun = "labelled pairs" if conditions["own"].startswith("pairs:") else "posts"
    _title(f"{group[0].benchmark}: what the user's {noun} are worth under {conditions['own']}")
    controls = ", ".join(spec for role, spec in sorted(conditions.items()) if role != "own")
    print_legend([f"control conditions: {controls or 'none'}"])
    if "oracle" in conditions:
        text = f"ORACLE: under {conditions['oracle']} the model saw the rubric"
        print_wrapped(text, first="  ", indent="  ", style="red")
    pairs = [(result.model, _points(result.lift), _points(result.gain), WORDS[result.verdict]) for result in group]
    console().print(table([("model", "name"), ("lift [95%]", "left"), ("gain [95%]", "left"), ("", "left")], pairs))
    roles = [role for role in _ROLES if role in conditions]
    numbers = (*roles, "gap\nclosed", "flips", "p")
    columns: list[tuple[str, Kind]] = [("model", "name"), *((number, "right") for number in numbers)]
    console().print(table(columns, [_behind(result, roles) for result in group]))
    print_legend(_remarks(group))


def _behind(result: "Personalization", roles: "Sequence[Role]") -> list[str]:
    p = result.p_adjusted
    return [
        result.model,
        *(rate(result.accuracy.get(role)) for role in roles),
        rate(result.numbers["gap_closed"]),
        rate(result.numbers["swap_sensitivity"]),
        "–" if p is None else "<.001" if p < 0.001 else f"{p:.3f}",
    ]


def _remarks(group: "Sequence[Personalization]") -> list[str]:
    """Return what must be known of these models: failures, and control conditions that are missing or not alike."""
    from pluralrm.metrics.overview import WORDS

    lines = []
    for result in group:
        failed = [f"{estimate.failed} under {role}" for role, estimate in result.accuracy.items() if estimate.failed]
        if failed:
            at_worst = "lift and gain count them at their worst: wrong under own, right under a control"
            lines.append(f"{result.model}: items failed, and so wrong: {', '.join(failed)}; {at_worst}.")
        lines += [f"{result.model}: the {name} shows nothing, {why}." for name, why in result.by_failing.items()]
        lines += [f"{result.model}: {WORDS[result.verdict]}, {result.standing}."] if result.standing else []
    for name in ("lift", "gain"):
        without: dict[str, list[str]] = {}
        for result in group:
            if name in result.absent:
                without.setdefault(result.absent[name], []).append(result.model)
        lines += [f"no {name} for {', '.join(models)}: {reason}." for reason, models in without.items()]
    return [*lines, *(f"{remark}." for remark in dict.fromkeys(remark for result in group for remark in result.notes))]


def _reading(results: "Sequence[Personalization]") -> list[str]:
    """Return what the columns and the verdicts mean."""
    from pluralrm.metrics.overview import WORDS
    from pluralrm.metrics.personalization import VERDICTS

    tests = sum(result.tested for result in results)
    family = f"Holm over {tests:,} tests here" if tests > 1 else "one test" if tests else "not tested here"
    lines = [f"{_LEGEND}, {family}."]
    if any("oracle" in result.conditions and result.numbers["gap_closed"] is None for result in results):
        lines.append("gap closed –: oracle - none is not significantly above 0, so there is no gap to close.")
    meanings: dict[str, list[str]] = {}
    for verdict in VERDICTS:
        if verdict != "unknown" and any(verdict == result.verdict for result in results):  # its word says it
            meanings.setdefault(WORDS[verdict], []).append(VERDICTS[verdict])
    return lines + [f"{word}: {'; or '.join(meaning)}." for word, meaning in meanings.items()]


def _print_curves(curves: "Sequence[ColdStart]") -> None:
    """Print accuracy and gain at each number of posts, for models under one family of conditions."""
    _title(f"Cold start under {curves[0].family}: K {curves[0].unit}, and none")
    rows = [
        (
            curve.model if index == 0 else "",
            str(posts),
            percent(estimate),
            _points(curve.gain[posts]) if posts in curve.gain else "",
        )
        for curve in curves
        for index, (posts, estimate) in enumerate(curve.accuracy.items())
    ]
    columns: list[tuple[str, Kind]] = [("model", "name"), ("K", "right"), ("accuracy [95%]", "left")]
    console().print(table([*columns, ("gain [95%]", "left")], rows))


def _by_tag(runs: "Sequence[Run]", tag: str) -> "list[tuple[Run, ByTag]]":
    from pluralrm.metrics.contrast import gain_by_tag
    from pluralrm.metrics.roles import roles

    return [(members.own, gain_by_tag(members, tag)) for members in roles(runs) if "swapped" in members.controls]


def print_tags(runs: "Sequence[Run]", tag: str) -> None:
    """Print lift and gain per value of a tag, of each finished run that has the control of the gain."""
    from pluralrm.metrics.contrast import tag_contrasts

    complete = _complete(runs)
    contrasts = tag_contrasts(complete, tag)
    for run, result in _by_tag(complete, tag):
        lift = contrasts[run.model, run.condition][0]
        _title(f"{run.model} under {run.condition}: gain by {tag}")
        rows = [
            (value or "(none)", *([_points(lift.get(value))] * bool(lift)), _points(gain), str(gain.n))
            for value, gain in result.groups.items()
        ]
        if result.worst is not None:
            empty = [""] * bool(lift)
            rows.append((f"lowest: {result.worst}", *empty, _points(result.lowest), ""))
            rows.append(("highest minus lowest", *empty, _points(result.gap), ""))
        columns: list[tuple[str, Kind]] = [(tag, "name")]
        columns += [("lift [95%]", "left")] if lift else []
        console().print(table([*columns, ("gain [95%]", "left"), ("items", "right")], rows))


def print_spread(runs: "Sequence[Run]", tag: str) -> None:
    """Print for each finished run that has its control where its gain is lowest, and how far the highest is above."""
    for run, result in _by_tag(_complete(runs), tag):
        if result.worst is not None:
            lowest = f"gain by {tag}: lowest {_points(result.lowest)} ({result.worst})"
            print_wrapped(f"{run.model} under {run.condition}: {lowest}; highest minus lowest {_points(result.gap)}.")


def _habits(prompt_uses: "Sequence[PromptUse]") -> list[str]:
    """Return which levels of style the models pick more often than they are offered, at most three of each."""
    lines, without = [], []
    for use in prompt_uses:
        favoured = [pick for pick in use.picks if pick.favoured][:3]
        levels = (f"{pick.level} {rate(pick.picked)} (offered {rate(pick.offered)})" for pick in favoured)
        if favoured:
            lines.append(f"{use.model} under {use.condition} picks, per cent: {', '.join(levels)}.")
        elif use.picks:
            without.append(f"{use.model} under {use.condition}")
    if without:
        lines.append(f"No level of style is picked more often than offered, beyond chance: {', '.join(without)}.")
    return lines


def _points(estimate: "Estimate | None") -> str:
    """Return `+12.3 [4.5, 20.1]` in points, or why there is no interval; a dash where there is no number."""
    return "–" if estimate is None else with_interval(points(estimate), estimate)


def _title(text: str) -> None:
    console().print()
    print_wrapped(text, style="bold")
