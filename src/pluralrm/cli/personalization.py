"""Tables of what the user, or the prompt, is worth to a model: one call per set of runs on the same items."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluralrm.cli.terminal import Kind, console, note, percent, print_legend, print_wrapped, table, with_interval
from pluralrm.text import estimated, points

if TYPE_CHECKING:
    from pluralrm.core import Estimate, Role, Run
    from pluralrm.metrics.coldstart import ColdStart
    from pluralrm.metrics.estimates import ByTag
    from pluralrm.metrics.personalization import Personalization
    from pluralrm.metrics.prompts import Pick, PromptUse

_LABELS = {
    "lift": "lift: own - none",
    "gain": "gain: own - swapped",
    "gain_over_nearest": "own - nearest to the question",
    "gain_over_noise": "own - noise",
    "gain_over_shuffled": "own - shuffled labels",
    "oracle_gap": "oracle - own",
    "gap_closed": "share of oracle - none",
    "swap_sensitivity": "verdicts changed by the swap",
    "gain_at_equal_length": "gain at equal length",
    "gain_at_equal_quality": "gain at equal quality",
    "user_spread": "gain: deviation of users",
}
_ROLES: "tuple[Role, ...]" = ("none", "own", "swapped", "nearest", "oracle")
"""The columns of accuracies; `noise` is among the details, for there is no room."""
_SHARES = ("gap_closed", "swap_sensitivity", "user_spread")
_LEGEND = (
    "Points. lift: own - none. gain: own - swapped. closed: per cent of oracle - none that own has. changed: per cent "
    "of verdicts that differ under another user's posts. Intervals are each by itself. p: own against swapped, by "
    "sign flips"
)
_PROMPT_LEGEND = (
    "sensitivity: points that a prompt's winner earns there, minus those it earns under the record's other prompts. "
    "one favourite: per cent of records where all prompts have the same strict favourite."
)
_STYLE_LEGEND = (
    "Per cent of the prompts where some candidates have the level and some have not. excess: picked minus offered, "
    "intervals for all levels at once; * off 0. BoN: accuracy where the winner has the level."
)


def print_personal(runs: "Sequence[Run]", *, seed: int = 0, by: str = "", details: bool = False) -> None:
    """Print the pair (lift, gain) per own condition, all models together; nothing where no run shows posts.

    With `details` every number of every model, with `by` the gain per value of a tag. What cannot be measured is
    said on stderr: the rest of a command's output does not depend on it.
    """
    from pluralrm.errors import MetricError
    from pluralrm.metrics.coldstart import cold_start
    from pluralrm.metrics.estimates import synthesised, trained_notes
    from pluralrm.metrics.personalization import personalization

    kept = _complete(runs)
    _note_left_out(runs)
    try:
        found = personalization(kept, seed=seed)
        curves = cold_start(kept)
    except MetricError as exc:
        note(f"nothing is said of personalization: {exc}")
        return
    for group in _same_conditions(found):
        _print_pairs(group)
    if found:
        pairs = dict.fromkeys(text for run in kept if (text := synthesised(run)))
        trained = [f"{text}." for text in trained_notes(kept)]
        print_legend([*_reading(found), *trained, *(f"SYNTHESISED: {text}." for text in pairs)])
    for told in found if details else ():
        _print_numbers(told)
    for family in dict.fromkeys(curve.family for curve in curves):
        _print_curves([curve for curve in curves if curve.family == family])
    if by:
        print_tags(kept, by)


def _same_conditions(found: "Sequence[Personalization]") -> "list[list[Personalization]]":
    """Return the models in groups whose conditions agree, role by role; a model may lack one that others have."""
    groups: list[list[Personalization]] = []
    for told in found:
        for group in groups:
            shared = _conditions(group)
            if told.conditions["own"] == shared["own"] and all(
                shared.get(role, spec) == spec for role, spec in told.conditions.items()
            ):
                group.append(told)
                break
        else:
            groups.append([told])
    return groups


def _conditions(group: "Sequence[Personalization]") -> "dict[Role, str]":
    return {role: spec for told in group for role, spec in told.conditions.items()}


def personal_json(runs: "Sequence[Run]", *, seed: int = 0, by: str = "") -> dict[str, object]:
    """Return the same for --json: `personalization`, `cold_start`, and `gain_by` where a tag is named.

    Runs that cannot be compared are a MetricError.
    """
    from pluralrm.metrics.coldstart import cold_start
    from pluralrm.metrics.personalization import personalization

    kept = _complete(runs)
    _note_left_out(runs)
    told: dict[str, object] = {
        "personalization": [found.to_json() for found in personalization(kept, seed=seed)],
        "cold_start": [curve.to_json() for curve in cold_start(kept)],
    }
    if by:
        told["gain_by"] = [
            {"model": run.model, "condition": run.condition, **found.to_json()} for run, found in _by_tag(kept, by)
        ]
    return told


def print_prompt_use(runs: "Sequence[Run]", *, details: bool = False) -> None:
    """Print how much each run's model uses the prompt; nothing where the rows are no records of several prompts."""
    found = _prompt_uses(runs)
    if not found:
        return
    rows = [(told.model, told.condition, _points(told.sensitivity), percent(told.one_favourite)) for told in found]
    _title(f"{found[0].benchmark}: does the model read the prompt?")
    columns: list[tuple[str, Kind]] = [("model", "name"), ("condition", "name"), ("sensitivity [95%]", "left")]
    console().print(table([*columns, ("one favourite [95%]", "left")], rows))
    print_legend([_PROMPT_LEGEND, *_habits(found)])
    for told in found if details else ():
        _print_styles(told)


def prompt_json(runs: "Sequence[Run]") -> list[dict[str, object]]:
    """Return the same for --json."""
    return [told.to_json() for told in _prompt_uses(runs)]


def _note_left_out(runs: "Sequence[Run]") -> None:
    """Say which runs are unfinished, and so not among what follows."""
    from pluralrm.metrics.estimates import remark

    for run in runs:
        if run.done and (told := remark(run)):
            note(f"left out of personalization: {run.model} under {run.condition} is {told}")


def _complete(runs: "Sequence[Run]") -> "list[Run]":
    from pluralrm.metrics.estimates import remark

    return [run for run in runs if run.done and not remark(run)]


def _prompt_uses(runs: "Sequence[Run]") -> "list[PromptUse]":
    from pluralrm.errors import MetricError
    from pluralrm.metrics.prompts import prompt_use

    found = []
    for run in _complete(runs):
        if all("record" in row.tags for row in run.rows):
            try:
                found.append(prompt_use(run))
            except MetricError as exc:
                note(f"no result for the prompts of {run.model} under {run.condition}: {exc}")
    return found


def _print_pairs(group: "Sequence[Personalization]") -> None:
    """Print the pair, and the accuracies that it comes from, for models with the same own and control conditions."""
    conditions = _conditions(group)
    shown = "labelled pairs" if conditions["own"].startswith("pairs:") else "posts"
    _title(f"{group[0].benchmark}: what the user's {shown} are worth under {conditions['own']}")
    controls = ", ".join(spec for role, spec in sorted(conditions.items()) if role != "own")
    print_legend([f"control conditions: {controls or 'none'}"])
    if "oracle" in conditions:
        told = f"ORACLE: under {conditions['oracle']} the model saw the rubric"
        print_wrapped(told, first="  ", indent="  ", style="red")
    pairs = [(one.model, _points(one.lift), _points(one.gain), one.verdict) for one in group]
    console().print(table([("model", "name"), ("lift [95%]", "left"), ("gain [95%]", "left"), ("", "left")], pairs))
    roles = [role for role in _ROLES if role in conditions]
    numbers = (*roles, "closed", "changed", "p")
    columns: list[tuple[str, Kind]] = [("model", "name"), *((number, "right") for number in numbers)]
    console().print(table(columns, [_behind(one, roles) for one in group]))
    print_legend(_remarks(group))


def _behind(told: "Personalization", roles: "Sequence[Role]") -> list[str]:
    p = told.p_adjusted
    return [
        told.model,
        *(_share(told.accuracy.get(role)) for role in roles),
        _share(told.numbers["gap_closed"]),
        _share(told.numbers["swap_sensitivity"]),
        "–" if p is None else "<.001" if p < 0.001 else f"{p:.3f}",
    ]


def _remarks(group: "Sequence[Personalization]") -> list[str]:
    """Return what must be known of these models: failures, and control conditions that are missing or not alike."""
    lines = []
    for told in group:
        failed = [f"{found.failed} under {role}" for role, found in told.accuracy.items() if found.failed]
        if failed:
            at_worst = "lift and gain count them at their worst: wrong under own, right under a control"
            lines.append(f"{told.model}: items failed, and so wrong: {', '.join(failed)}; {at_worst}.")
        lines += [f"{told.model}: the {name} shows nothing, {why}." for name, why in told.by_failing.items()]
        lines += [f"{told.model}: {told.verdict}, {told.standing}."] if told.standing else []
    for name in ("lift", "gain"):
        without: dict[str, list[str]] = {}
        for told in group:
            if name in told.absent:
                without.setdefault(told.absent[name], []).append(told.model)
        lines += [f"no {name} for {', '.join(models)}: {reason}." for reason, models in without.items()]
    return [*lines, *(f"{remark}." for remark in dict.fromkeys(remark for told in group for remark in told.notes))]


def _reading(found: "Sequence[Personalization]") -> list[str]:
    """Return what the columns and the verdicts mean."""
    tests = sum(told.tested for told in found)
    family = f"Holm over {tests:,} tests here" if tests > 1 else "one test" if tests else "not tested here"
    lines = [f"{_LEGEND}, {family}."]
    if any("oracle" in told.conditions and told.numbers["gap_closed"] is None for told in found):
        lines.append("closed –: oracle - none is not significantly above 0, so there is no gap to close.")
    from pluralrm.metrics.personalization import VERDICTS

    lines += [
        f"{verdict}: {VERDICTS[verdict]}." for verdict in VERDICTS if any(verdict == told.verdict for told in found)
    ]
    return lines


def _print_numbers(told: "Personalization") -> None:
    """Print every number of one model, and why one is not there."""
    _title(f"{told.model} under {told.conditions['own']} on {told.benchmark}: {told.verdict}")
    rows = []
    for name, found in told.numbers.items():
        if found is not None:
            text = percent(found) if name in _SHARES else _points(found)
            rows.append((_LABELS[name], text, str(found.n), str(found.failed)))
    rows += [(f"  gain, {name}", _points(one), str(one.n), str(one.failed)) for name, one in told.domains.items()]
    rows += [
        (f"  accuracy, {name} posts", percent(one), str(one.n), str(one.failed)) for name, one in told.by_posts.items()
    ]
    console().print(table([("", "name"), ("% [95%]", "left"), ("n", "right"), ("failed", "right")], rows))
    print_legend(f"no {_LABELS.get(name, name.replace('_', ' '))}: {why}" for name, why in told.absent.items())


def _print_curves(curves: "Sequence[ColdStart]") -> None:
    """Print accuracy and gain at each number of posts, for models under one family of conditions."""
    _title(f"Cold start under {curves[0].family}: K {curves[0].unit}, and none")
    rows = [
        (
            curve.model if place == 0 else "",
            str(posts),
            percent(found),
            _points(curve.gain[posts]) if posts in curve.gain else "",
        )
        for curve in curves
        for place, (posts, found) in enumerate(curve.accuracy.items())
    ]
    columns: list[tuple[str, Kind]] = [("model", "name"), ("K", "right"), ("accuracy [95%]", "left")]
    console().print(table([*columns, ("gain [95%]", "left")], rows))


def _by_tag(runs: "Sequence[Run]", tag: str) -> "list[tuple[Run, ByTag]]":
    from pluralrm.metrics.contrast import gain_by_tag
    from pluralrm.metrics.roles import roles

    return [(found.own, gain_by_tag(found, tag)) for found in roles(runs) if "swapped" in found.controls]


def print_tags(runs: "Sequence[Run]", tag: str) -> None:
    """Print the gain per value of a tag, of each finished run that has its control."""
    for run, found in _by_tag(_complete(runs), tag):
        _title(f"{run.model} under {run.condition}: gain by {tag}")
        rows = [(value or "(none)", _points(one), str(one.n)) for value, one in found.groups.items()]
        if found.worst is not None:
            rows.append((f"lowest: {found.worst}", _points(found.lowest), ""))
            rows.append(("highest minus lowest", _points(found.gap), ""))
        console().print(table([(tag, "name"), ("gain [95%]", "left"), ("items", "right")], rows))


def _habits(found: "Sequence[PromptUse]") -> list[str]:
    """Return which levels of style the models pick more often than they are offered, at most three of each."""
    lines, without = [], []
    for told in found:
        favoured = [pick for pick in told.picks if pick.favoured][:3]
        levels = (f"{one.level} {_share(one.picked)} (offered {_share(one.offered)})" for one in favoured)
        if favoured:
            lines.append(f"{told.model} under {told.condition} picks, per cent: {', '.join(levels)}.")
        elif told.picks:
            without.append(f"{told.model} under {told.condition}")
    if without:
        lines.append(f"No level of style is picked more often than offered, beyond chance: {', '.join(without)}.")
    return lines


def _print_styles(told: "PromptUse") -> None:
    _title(f"{told.model} under {told.condition}: which styles it picks, which it gets right")
    columns: list[tuple[str, Kind]] = [("level", "name"), ("picked", "right"), ("offered", "right")]
    columns += [("excess [95%]", "left"), ("BoN [95%]", "left")]
    console().print(table(columns, [_style(pick, told) for pick in told.picks]))
    print_legend([_STYLE_LEGEND])


def _style(pick: "Pick", told: "PromptUse") -> tuple[str, ...]:
    right = told.styles[pick.dimension].groups.get(pick.level)
    return (
        pick.level,
        f"{100 * pick.picked.value:.1f}",
        f"{100 * pick.offered.value:.1f}",
        _points(pick.excess) + "*" * (pick.favoured or pick.avoided),
        "" if right is None else percent(right),
    )


def _points(estimate: "Estimate | None") -> str:
    """Return `+12.3 [4.5, 20.1]` in points, or why there is no interval; a dash where there is no number."""
    return "–" if estimate is None else with_interval(points(estimate), estimate)


def _share(estimate: "Estimate | None") -> str:
    return estimated(estimate and estimate.value)


def _title(text: str) -> None:
    console().print()
    print_wrapped(text, style="bold")
