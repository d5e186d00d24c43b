"""The result in plain words: one paragraph per section, made from the numbers and true whatever they are."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from pluralrm.audit.result import Audit
from pluralrm.core import Estimate, Run
from pluralrm.metrics import Difference, Standing, against_chance, precision_pairs, uneven_posts
from pluralrm.metrics.comparison import SIGNIFICANT, items_of
from pluralrm.metrics.estimates import remark, source_notes, synthesised
from pluralrm.metrics.personalization import VERDICTS, Personalization, PersonalVerdict
from pluralrm.models import BASELINES
from pluralrm.report.sections import Board, Section, name, people_told, tone
from pluralrm.stats import holm
from pluralrm.stats.intervals import FEW_CLUSTERS
from pluralrm.text import capital, counted, difference, estimated, listed, p_value, percent, share, typeset

MOST_MODELS = 3
"""Models that get a sentence of their own."""
METRIC_NAMES = {
    "accuracy": "accuracy",
    "bon": "best-of-N accuracy",
    "pair": "pair accuracy",
    "consistency": "consistency",
    "all_phrasings": "right in all phrasings",
    "tie_rate": "ties at the top",
    "failure_rate": "failures",
    "length_controlled": "at equal length",
    "position_consistency": "items with one outcome in all orders",
    "first_position": "calls won by the answer shown first",
}
"""What a reader calls each metric."""


class Sentence(NamedTuple):
    """One sentence; `oracle` where it speaks of a run that saw the rubric, `answer` where it is the upshot."""

    text: str
    oracle: bool = False
    answer: bool = False


def reading(section: Section, audit: Audit | None = None) -> list[Sentence]:
    """Return the paragraph: who is above chance, which runs differ, what context adds, what stays open."""
    return [
        _what(section),
        *_trained(section),
        *_imported(section),
        *_synthesised(section),
        *_leaks(audit),
        *_off_chance(section),
        *_apart(section),
        *_own_models(section),
        *_people(section),
        *_uneven(section),
        *_context(section),
        *_rubric(section),
        *_prompts(section),
        *_failures(section),
        *_limits(section),
    ]


def caveats(section: Section, audit: Audit | None = None) -> list[Sentence]:
    """Return what must be known beside the answer: what was seen in training, where rows come from, leaks, failures."""
    return [
        *_trained(section),
        *_imported(section),
        *_synthesised(section),
        *_leaks(audit),
        *_people(section),
        *_failures(section),
    ]


def _trained(section: Section) -> Iterator[Sentence]:
    """Say which users or items of the benchmark models were trained on."""
    for text in dict.fromkeys(text for run in section.runs for text in run.trained):
        yield Sentence(f"Marked TRAINED: {text}.", answer=True)


def _imported(section: Section) -> Iterator[Sentence]:
    """Say where the rows of models come from that were not scored here, and how near published ones others are."""
    for text in source_notes(section.runs, section.names):
        yield Sentence(text, answer=True)


def _synthesised(section: Section) -> Iterator[Sentence]:
    """Say whose pairs were shown, where a chat model wrote them."""
    for text in dict.fromkeys(text for run in section.runs if (text := synthesised(run))):
        yield Sentence(f"Runs marked SYNTHESISED were shown {text}.")


def _what(section: Section) -> Sentence:
    first, models = section.first, len({run.model for run in section.runs})
    metric = METRIC_NAMES.get(section.entries[0].summary.headline, section.entries[0].summary.headline)
    unit = counted(section.clusters, first.card.cluster)
    runs = f"{counted(len(section.runs), 'run')} of {counted(models, 'model')}"
    items = f"{counted(len(first.rows), 'item')} of {unit}"
    return Sentence(
        f"{runs} on {items}, judged by {metric}; a scorer that knows nothing earns {share(section.chance)}."
    )


def _leaks(audit: Audit | None) -> Iterator[Sentence]:
    """Say by what the label can be guessed without the user; nothing where no leak was found or none looked for."""
    if audit is not None and audit.leaks:
        guesses = [f"{probe.title} ({estimated(probe.accuracy)})" for probe in audit.leaks if probe.accuracy]
        yield Sentence(
            f"The audit found a leak: without the user, the preferred candidate is guessed by {listed(guesses)}, where "
            f"chance is {share(audit.chance)}. A model may score as much by that alone."
        )


def _people(section: Section) -> Iterator[Sentence]:
    """Say what people named, and what runs earn on exactly those items; nothing without plans."""
    if section.human is not None:
        for text in people_told(section.human, section.runs):
            yield Sentence(capital(text))


def _uneven(section: Section) -> Iterator[Sentence]:
    warnings = [*uneven_posts(section.runs), *precision_pairs([source.run for source in section.sources])]
    yield from (Sentence(capital(f"{typeset(str(warning))}.")) for warning in warnings)


def _context(section: Section) -> Iterator[Sentence]:
    if "personalization" in section.missing:
        yield Sentence(
            f"What the user’s context adds was not computed: {section.missing['personalization'].rstrip('.')}."
        )
        return
    groups: dict[PersonalVerdict, list[Personalization]] = {}
    for member in section.personal:
        groups.setdefault(member.verdict, []).append(member)
    if not groups:
        if not section.prompts:
            yield Sentence("No finished run saw the user’s own posts, so nothing here is evidence of personalization.")
        return
    for verdict in sorted(groups, key=list(VERDICTS).index):
        answer = verdict in {"personalized", "reversed"}
        yield Sentence(_verdict(verdict, groups[verdict], named(section)), answer=answer)
    if "personalized" not in groups:
        yield Sentence("No model is significantly personalized.", answer=True)


_BEGIN: Mapping[PersonalVerdict, tuple[str, str]] = {
    "personalized": ("{} is personalized, for ", "{} are personalized, for "),
    "reversed": ("{} is reversed, for ", "{} are reversed, for "),
    "lift only": ("{} is ", "{} are "),
    "gain only": ("{} is ", "{} are "),
    "lift below": ("{} is ", "{} are "),
    "gain below": ("{} is ", "{} are "),
    "by subject": ("{} is ", "{} are "),
    "by group": ("{} is ", "{} are "),
    "by failing": ("For {}, ", "For {}, "),
    "open": ("For {}, ", "For {}, "),
    "unequal": ("For {} there is ", "For {} there is "),
    "blind": ("{} gives ", "{} give "),
    "inconclusive": ("For {}, ", "For {}, "),
    "unknown": ("For {}, ", "For {}, "),
}
"""How a sentence begins that ends as VERDICTS has it: of one model, and of several."""


def _verdict(verdict: PersonalVerdict, members: Sequence[Personalization], keys: Collection[tuple[str, str]]) -> str:
    """Return one sentence on models with one verdict, and their numbers unless `keys` has them already."""
    who = _all_of(members)
    if verdict in {"personalized", "reversed"}:
        pairs = [f" (lift {difference(member.lift)}, gain {difference(member.gain)})" for member in members]
        new = [(member.model, member.conditions["own"]) not in keys for member in members]
        who = listed([_who(member) + pair * here for member, pair, here in zip(members, pairs, new, strict=True)])
    begin = _BEGIN[verdict][len(members) > 1].format(who)
    text = f"{begin}{typeset(VERDICTS[verdict])}{_by_failing(members)}{_standing(members)}"
    if verdict == "open":
        text += f" ({listed([f'{_who(member)} p = {p_value(member.p_adjusted)}' for member in members])})"
    return f"{text}{_half_known(members)}." if verdict == "unknown" else f"{text}."


def _standing(members: Sequence[Personalization]) -> str:
    """Return what the verdict withstood, or why there is none; said once where it is the same for all."""
    told_of: dict[str, list[Personalization]] = {}
    for member in members:
        if member.standing:
            told_of.setdefault(member.standing, []).append(member)
    if len(told_of) == 1:
        return f" ({typeset(next(iter(told_of)))})"
    return "".join(f"; {_all_of(some)}: {typeset(text)}" for text, some in told_of.items())


def _by_failing(members: Sequence[Personalization]) -> str:
    """Return which intervals off 0 show nothing, since only failures put them there."""
    pairs = [(who, name, why) for who in members for name, why in who.by_failing.items()]
    told_of = [f"; the {name} of {_who(who)} lies {why}, and shows nothing" for who, name, why in pairs]
    return "".join(told_of)


def _half_known(members: Sequence[Personalization]) -> str:
    """Return what is not known where a control condition is missing, and what is."""
    end = ", so whether this user’s posts matter is unknown"
    better = [member for member in members if "lift" in member.shown]
    worse = [member for member in members if "lift" in member.below]
    for words, group in (("better", better), ("worse", worse)):
        if group:
            end += f"; {words} with this user’s posts than with none: {_all_of(group)}"
    return end


def _all_of(members: Sequence[Personalization]) -> str:
    """Return the names of models; a condition that several have in common is named once."""
    conditions = {member.conditions["own"] for member in members}
    if len(members) == 1 or len(conditions) > 1:
        return listed([_who(member) for member in members])
    return f"{listed([member.model for member in members])} under {conditions.pop()}"


def _who(member: Personalization) -> str:
    return f"{member.model} · {member.conditions['own']}"


def _rubric(section: Section) -> Iterator[Sentence]:
    """Say what is reached with the rubric in view by those that look at it: others earn what they always do."""
    pairs = [pair for board in section.boards for pair in board.pairs]
    oracles = [(entry, run) for entry, run in pairs if tone(run) == "oracle" and entry.summary.complete]
    looking = [(entry, run) for entry, run in oracles if not _ignored(run, section.runs)]
    if looking:
        best, run = max(looking, key=lambda pair: headline(pair[0]).value)
        yield Sentence(
            "With the rubric in view, a control condition and no result, the highest among those whose scores it "
            f"changes is {percent(headline(best))}, reached by {run.model}.",
            oracle=True,
        )
    elif oracles:
        yield Sentence("The rubric changes no score of any model.", oracle=True)


def _ignored(run: Run, runs: Sequence[Run]) -> bool:
    """Return whether the model gave the same scores without the rubric."""
    side = items_of(run)
    return any(
        side.same_as(items_of(other)) for other in runs if other.model == run.model and "oracle" not in other.reveals
    )


def _prompts(section: Section) -> Iterator[Sentence]:
    if not section.prompts:
        return
    reads = [prompt for prompt in section.prompts if prompt.sensitivity.low is not None and prompt.sensitivity.low > 0]
    if reads:
        names = listed([f"{prompt.model} ({difference(prompt.sensitivity)})" for prompt in reads], 3)
        told_of = f"Significantly uses the prompt (its winner earns more there than under other prompts): {names}."
        yield Sentence(told_of, answer=True)
    else:
        yield Sentence("No model significantly uses the prompt.", answer=True)
    same = [prompt for prompt in section.prompts if prompt.one_favourite.value == 1]
    if same:
        names = listed([f"{prompt.model} · {prompt.condition}" for prompt in same])
        yield Sentence(f"One favourite for every prompt of a record, in all records: {names}.")


def _failures(section: Section) -> Iterator[Sentence]:
    failed = {name(run): sum(row.failed and not row.open for row in run.rows) for run in section.runs}
    failing = {who: number for who, number in failed.items() if number}
    if not failing:
        yield Sentence("No item failed.")
    else:
        worst, most = max(failing.items(), key=lambda pair: pair[1])
        scored = sum(run.done for run in section.runs)
        where = f"in {counted(len(failing), 'run')}, {most:,} of them in {worst}"
        yield Sentence(f"{sum(failing.values()):,} of {scored:,} scored items failed and count as wrong, {where}.")
    for run in section.runs:
        if remark(run):
            done = f"{run.done:,} of {counted(run.items, 'item')}"
            yield Sentence(f"Unfinished, so not ranked or tested: {name(run)} has {done}; the others count as wrong.")


def _limits(section: Section) -> Iterator[Sentence]:
    unit = counted(section.clusters, section.first.card.cluster)
    if section.clusters < FEW_CLUSTERS:
        yield Sentence(f"Only {unit}: intervals are less exact below {FEW_CLUSTERS}, and only large differences show.")
    widths = _reach(section)
    if widths:
        yield Sentence(
            f"The difference of two runs is known to within ±{share(median(widths))} points (median half-width of the "
            "95% intervals): smaller differences may exist."
        )


# ---------------------------------------------------------------- against chance and each other

_WITHIN = "within each condition "
_TEST = "(sign-flip tests, 5%, Holm over these pairs)"
_TESTS = "(sign-flip tests, 5%, Holm over the pairs of each condition)"


class _Place(NamedTuple):
    board: Board
    place: int

    @property
    def run(self) -> Run:
        return self.board.runs[self.place]

    @property
    def value(self) -> Estimate:
        return headline(self.board.table.entries[self.place])


def headline(entry: Standing) -> Estimate:
    """Return the number that an entry is ranked by."""
    return entry.summary.metrics[entry.summary.headline]


def _off_chance(section: Section) -> Iterator[Sentence]:
    """Say which runs lie above chance and which below, all of them looked at together; control conditions aside."""
    result = against_chance(section.runs)
    if not result.tested:
        return
    above, below = ([name(section.runs[index]) for index in places] for places in (result.above, result.below))
    how = typeset(result.how)
    yield Sentence(f"Above chance, by {how}: {listed(above)}." if above else f"No run is above chance by {how}.")
    if below:
        yield Sentence(f"Below chance, by the same measure: {listed(below)}.")


def _apart(section: Section) -> Iterator[Sentence]:
    """Say how many pairs of runs are significantly different, and from how many others the first is."""
    boards = [board for board in section.boards if any(pair.tested for pair in board.table.differences)]
    silent = [board for board in boards if not any(pair.significant for pair in board.table.differences)]
    for board in boards:
        if board not in silent:
            yield _differing(board)
    if silent:
        pairs = sum(board.tests for board in silent)
        every = "the two runs are not" if pairs == 1 else f"none of the {_pairs(silent)} is"
        where = ""
        if len(section.boards) > 1:
            where = "under the other conditions " if len(silent) < len(boards) else _WITHIN
        yield Sentence(capital(f"{where}{every} significantly different {_TEST if len(silent) == 1 else _TESTS}."))


def _differing(board: Board) -> Sentence:
    table = board.table
    finished = sum(entry.rank is not None for entry in table.entries)
    best, below = board.runs[table.reference], finished - 1 - table.reference
    number = sum(pair.significant for pair in table.differences)
    worse = sum(entry.below_best for entry in table.entries)
    where = f"under {board.condition} " if board.condition else ""
    count = f"{number} of {_pairs([board])} {'is' if number == 1 else 'are'} significantly different"
    first = "the first that did not see the rubric" if table.reference else "the first"
    leader = f"{first}, {name(best)}, from {worse} of the {below} {'below it' if table.reference else 'others'}"
    return Sentence(capital(f"{where}{count}; {leader} {_TEST}."), "oracle" in best.reveals)


def _pairs(boards: Sequence[Board]) -> str:
    """Return how many pairs were tested, in words; runs with the same scores differ in nothing, and are none."""
    tested, every = sum(board.tests for board in boards), sum(len(board.table.differences) for board in boards)
    return f"{counted(tested, 'pair')} of runs{' with different scores' if tested < every else ''}"


def _own_models(section: Section) -> Iterator[Sentence]:
    """Say of each model that is no baseline what it earns, its lift and gain, and how the baselines beside it do."""
    ranked = _own_runs(section)
    for entry in ranked[:MOST_MODELS]:
        yield Sentence(_own_model(section, entry))
    more = len(ranked) - MOST_MODELS
    if more > 0:
        yield Sentence(f"{counted(more, 'more model')} that {'is' if more == 1 else 'are'} no baseline: in the tables.")


def named(section: Section) -> set[tuple[str, str]]:
    """Return model and condition of the runs that `own_models` gives numbers of."""
    return {(entry.run.model, entry.run.condition) for entry in _own_runs(section)[:MOST_MODELS]}


def _own_runs(section: Section) -> list[_Place]:
    """Return one run per model that is no baseline: that with most of the user's own posts; the best model first."""
    chosen: dict[str, _Place] = {}
    for board in section.boards:
        for index, run in enumerate(board.runs):
            if not is_baseline(section.spec(run.model)) and tone(run) in {"none", "own"}:
                here = _Place(board, index)
                chosen[run.model] = max(chosen.get(run.model, here), here, key=_posts)
    return sorted(chosen.values(), key=lambda entry: (-entry.value.value, entry.run.model))


def is_baseline(model: str) -> bool:
    """Return whether a model is one of those that come with pluralrm to be beaten."""
    return model.partition(",")[0] in BASELINES


def _posts(entry: _Place) -> tuple[bool, bool, float, str]:
    """Return what to choose a model's run by: finished, own posts if any, the most of them."""
    run = entry.run
    return not remark(run), tone(run) == "own", sum(row.posts for row in run.rows) / len(run.rows), run.condition


def _own_model(section: Section, entry: _Place) -> str:
    run = entry.run
    if remark(run):
        return f"{run.model} under {run.condition} is unfinished: {run.done:,} of {counted(run.items, 'item')}."
    earned = f"{run.model} earns {percent(entry.value)} under {run.condition}"
    pair = next(
        (
            member
            for member in section.personal
            if (member.model, member.conditions["own"]) == (run.model, run.condition)
        ),
        None,
    )
    if pair is not None:
        lift, gain = ("unknown" if estimate is None else difference(estimate) for estimate in (pair.lift, pair.gain))
        earned += f" (lift {lift}, gain {gain})"
    return f"{earned}; {_beside(section, entry)}."


def _beside(section: Section, entry: _Place) -> str:
    """Return from how many baselines under its condition the run is significantly different, and the best of them."""
    board, run = entry.board, entry.run
    rivals = [
        _Place(board, index)
        for index, other in enumerate(board.runs)
        if other.condition == run.condition and is_baseline(section.spec(other.model)) and not remark(other)
    ]
    if not rivals:
        return "no baseline was scored under that condition, so the share that the texts alone earn is unknown"
    # A question of its own, with a family of its own: is this model better than each baseline beside it?
    p = holm([_difference(board, entry.place, rival.place).p for rival in rivals]).tolist()
    differing = [rival for rival, each in zip(rivals, p, strict=True) if each < SIGNIFICANT]
    beaten, better = (
        [rival for rival in differing if (entry.value.value > rival.value.value) == above] for above in (True, False)
    )
    best = min(rivals, key=lambda rival: rival.place)
    words = f"significantly better than {len(beaten) or 'none'} of the {counted(len(rivals), 'baseline')} there"
    words += f" and worse than {len(better)}" * bool(better)
    state = (
        "one of those"
        if best in beaten
        else "one that is better"
        if best in better
        else "not significantly different from it"
    )
    return (
        f"it is {words} (sign-flip tests, 5%, Holm over {len(rivals)}); the best of them, {best.run.model}, earns "
        f"{percent(best.value)} and is {state}"
    )


def _difference(board: Board, first: int, other: int) -> Difference:
    pair = (min(first, other), max(first, other))
    return next(row for row in board.table.differences if (row.first, row.second) == pair)


def _reach(section: Section) -> list[float]:
    """Return the half-widths of the intervals of all pairs that differ in more than name; fixed ones have none."""
    return [
        (pair.difference.high - pair.difference.low) / 2
        for board in section.boards
        for pair in board.table.differences
        if pair.difference.low is not None and pair.difference.high is not None
    ]
