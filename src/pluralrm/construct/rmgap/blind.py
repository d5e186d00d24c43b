"""The blind test: every prompt is traced back to its response by a judge who is not told which one it was written for.

It stands apart from the loop that writes anew: a test that may be repeated until it is passed is passed by chance in
the end.
"""

from collections.abc import Sequence
from typing import Literal

from pluralrm.benchmarks.rmgap import KEYS
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.stages import Calls, Stage
from pluralrm.construct.pipeline.work import Ask, Decision, Kept, Rejected, Work, ask_all
from pluralrm.construct.rmgap.options import Options
from pluralrm.construct.rmgap.products import Responses, Tailored, Unique
from pluralrm.construct.rmgap.replies import read_pick
from pluralrm.construct.rmgap.shown import Fences, shuffled
from pluralrm.core import Failure
from pluralrm.models.judge.verdicts import LETTERS
from pluralrm.templates import load_template

PICK = load_template("build-pick-v1")
_TOKENS = 2_150
"""Of four responses, a prompt and what is asked about them, roughly."""


def unique(options: Options) -> Stage:
    """Return the stage in which the chair, who is not told the target, picks the response of every prompt, twice."""

    def work(record: Record) -> Work[Decision]:
        orders = [_orders(options.seed, record.id, place) for place in range(len(KEYS))]
        picks = yield from ask_all([_pick(record, place, order) for place, two in enumerate(orders) for order in two])
        asked = [(place, order) for place, two in enumerate(orders) for order in two]
        for (place, order), pick in zip(asked, picks, strict=True):
            if isinstance(pick, Failure):
                return Rejected("unjudged", f"prompt {place + 1}: {pick.kind}: {pick.detail}")
            if pick == "none" or order[pick] != place:
                found = "none alone" if pick == "none" else f"response {order[pick] + 1}"
                return Rejected(
                    "unique", f"prompt {place + 1} was written for response {place + 1}; the judge picks {found}"
                )
        return Kept(Unique(orders=[[list(order) for order in two] for two in orders]))

    return Stage(
        "unique",
        Unique,
        work,
        reads=(Responses, Tailored),
        gate="a record with a prompt for which a judge, who is not told the response that it was written for, picks "
        "another or none in one of two orders; every response stands at two places. There is no second try",
        templates=(PICK,),
        calls=lambda _record: [Calls("chair", 2 * len(KEYS), 2 * len(KEYS), _TOKENS, 2)],
        settings={"orders": 2, "seed": options.seed},
    )


def _orders(seed: int, record: str, place: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return an order of the responses, and one in which each stands at another place."""
    first = shuffled(len(KEYS), seed, record, "unique", place)
    half = len(first) // 2
    return first, first[half:] + first[:half]


def _pick(record: Record, place: int, order: Sequence[int]) -> Ask[int | Literal["none"]]:
    prompt, texts = record[Tailored].texts[place].text, [record[Responses].texts[other].text for other in order]
    fences = Fences([prompt, *texts], record.id)
    shown = fences.each([f"response {letter}" for letter in LETTERS[: len(texts)]], texts)
    text = PICK.fill(prompt=fences.one("prompt", prompt), responses=shown)
    again = 'Reply with one letter, or with "none", and nothing else.'
    return Ask("chair", text, PICK, lambda said: read_pick(said, len(texts)), again)
