"""Four responses in four styles. Each must be good and, where it can be checked, right; the set must differ and agree.

Answers of Reasoning are checked before anybody reviews them, not in the end as published: a wrong one is written anew
while that is still cheap. Reviewers see the texts alone, each in another order, and not which style was asked of which.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pluralrm.benchmarks.rmgap import KEYS, STYLES
from pluralrm.construct.filters import duplicate_key, faulty
from pluralrm.construct.pipeline.stages import (
    Acceptance,
    Decision,
    ModelCall,
    Record,
    Refusal,
    Rejection,
    Stage,
    StandIn,
    Work,
    at_once,
    filler,
)
from pluralrm.construct.rmgap import (
    PromptRatings,
    Responses,
    RmgapOptions,
    SeedPrompt,
    Styled,
    answer_form,
    answer_refusal,
    right_answer,
)
from pluralrm.construct.rmgap.review import (
    ENOUGH,
    LEAST,
    MARKS_OF_PROMPTS,
    Anew,
    Draft,
    Fences,
    Marks,
    Refused,
    labels,
    read_response_marks,
    read_text,
    review_stand_in,
    reviewed,
    shuffled,
)
from pluralrm.core import Failure
from pluralrm.templates import load_template

Profile = tuple[int, ...]
"""A level, from 0 to 4, on each dimension of STYLES in its order."""

PROFILES: tuple[Profile, ...] = tuple(product(*(range(len(levels)) for levels in STYLES.values())))
"""All 3,125, in the order of their levels."""

APART = 8
"""Any two styles of a record differ by more, in levels summed over the dimensions (arXiv 2605.01831)."""


def distance(profile: Profile, other: Profile) -> int:
    """Return the Manhattan distance of two profiles, from 0 to 20."""
    return sum(abs(first - second) for first, second in zip(profile, other, strict=True))


def choose(record: str, *, seed: int | str = 0) -> tuple[Profile, Profile, Profile, Profile]:
    """Return four profiles, any two of them more than APART apart, by the record's id and the seed alone.

    >>> from itertools import combinations
    >>> min(distance(one, other) for one, other in combinations(choose("chat_17"), 2)) > 8
    True

    The first is drawn from all; each of the others is one of those farthest from the nearest that is chosen, and which
    of them is drawn too. tests/construct/rmgap proves that from every start, whatever is drawn, all four are apart.
    """
    # Only random() is used: of all draws it alone is promised to be the same in every release of Python.
    draw = random.Random(f"{seed}:{record}").random
    nearest = np.full(len(PROFILES), np.iinfo(np.int64).max)
    chosen: list[Profile] = []
    for _ in KEYS:
        farthest = np.flatnonzero(nearest == nearest.max())
        index = int(farthest[int(draw() * len(farthest))])
        chosen.append(PROFILES[index])
        nearest = np.minimum(nearest, np.abs(_levels() - _levels()[index]).sum(axis=1))
    # The first is like any profile and the others are near the ends: no response's number may tell them apart.
    for index in range(len(chosen) - 1, 0, -1):
        other = int(draw() * (index + 1))
        chosen[index], chosen[other] = chosen[other], chosen[index]
    first, second, third, fourth = chosen
    return first, second, third, fourth


@cache
def _levels() -> NDArray[np.int64]:
    return np.array(PROFILES, dtype=np.int64)


def describe(profile: Profile) -> dict[str, str]:
    """Return the level's name on each dimension."""
    return {dimension: levels[level] for (dimension, levels), level in zip(STYLES.items(), profile, strict=True)}


def assignments(profiles: Sequence[Profile]) -> dict[str, dict[str, str]]:
    """Return the published `style_assignments` of a record: r1 to r4, each with its levels."""
    return {f"r{number}": describe(profile) for number, profile in enumerate(profiles, 1)}


WRITE, REVIEW = load_template("build-respond-v1"), load_template("build-review-responses-v1")
LONGEST = 20_000
"""Characters of a response at most."""
_TYPICAL_WORDS = 250
"""Of a response, in a dry run."""


def styles(seed: int) -> Stage:
    """Return the stage that chooses four styles, far from each other, by the record's id; it sends no request."""

    def decide(record: Record) -> Decision:
        return Acceptance(Styled(styles=assignments(choose(record.id, seed=seed))))

    gate = f"nothing: from any first style there are three more, all of them more than {APART} levels apart"
    return Stage(
        "styles", Styled, at_once(decide), reads=(PromptRatings,), gate=gate, settings={"apart": APART, "seed": seed}
    )


def responses(options: RmgapOptions) -> Stage:
    """Return the stage that writes and reviews the responses."""

    def work(record: Record) -> Work[Decision]:
        gates = _Gates(record, options)
        done = yield from Anew(len(KEYS), gates.order, gates, options.attempts).work()
        return done if isinstance(done, Rejection) else Acceptance(Responses(texts=done[0]), done[1])

    low = "a response" if options.rule == "each" else "as published, four responses whose mean is"
    return Stage(
        "responses",
        Responses,
        work,
        reads=(SeedPrompt, Styled),
        gate=f"{low} below {ENOUGH} in quality; a set below that in diversity of style or consistency of content, by "
        "two reviewers, or by an area chair where they disagree; a response that another repeats, one of more than "
        f"{LONGEST:,} characters or with an invisible one; an answer of Reasoning that is not right. What is "
        "refused is written anew by the next model of the pool, the rest stays",
        templates=(WRITE, REVIEW),
        settings={
            "attempts": options.attempts,
            "rule": options.rule,
            "least": LEAST,
            "characters": LONGEST,
            "seed": options.seed,
        },
    )


@dataclass(frozen=True)
class _Gates:
    record: Record
    options: RmgapOptions

    def order(self, index: int, attempt: int, why: Sequence[str]) -> ModelCall[str]:
        """Return the request for a response in its style."""
        prompt, style = self.record[SeedPrompt], self.record[Styled].styles[f"r{index + 1}"]
        text = WRITE.fill(
            prompt=prompt.text,
            style=[f"{dimension}: {level}".replace("_", " ") for dimension, level in style.items()],
            form=answer_form(prompt),
            refused=why,
        )
        stand_in = StandIn(f"{filler(_TYPICAL_WORDS, self.record.id, index, attempt)}\n{right_answer(prompt)}".strip())
        return ModelCall(
            "generator", text, WRITE, read_text, "Write the answer.", turn=attempt, tag=f"{attempt}", stand_in=stand_in
        )

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return responses that say what another says, and those whose answer is not right."""
        bad: dict[int, Refusal] = {}
        prompt, keys = self.record[SeedPrompt], [duplicate_key(written.text) for written in draft]
        for index in fresh:
            before = [keys[other] for other in range(len(draft)) if other not in fresh or other < index]
            if why := faulty(draft[index].text, LONGEST):
                bad[index] = Refusal("format", why)
            elif keys[index] in before:
                bad[index] = Refusal("same", "another response has the same words")
            elif answer_form(prompt) and (wrong := answer_refusal(self.options.check(prompt, draft[index].text))):
                bad[index] = wrong
        return bad

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return the responses that the reviewers refuse; one that passed is not judged again, but for the set."""
        counted = range(len(draft)) if self.options.rule == "mean" else new
        reviews = yield from reviewed(self._review(draft, counted, attempt), self.options.rule)
        if isinstance(reviews, Failure):
            return dict.fromkeys(counted, Refusal("unjudged", f"{reviews.kind}: {reviews.detail}"))
        own = {
            counted[low.place]: Refusal(low.dimension, str(low))
            for low in reviews
            if low.dimension == "quality" and low.place is not None
        }
        # A set that lacks something may lack it for the sake of a bad response: that one is written anew first.
        return own or {index: Refusal(low.dimension, str(low)) for low in reviews[:1] for index in range(len(draft))}

    def _review(self, draft: Draft, counted: Sequence[int], attempt: int) -> Callable[[str, int], ModelCall[Marks]]:
        prompt, names = self.record[SeedPrompt].text, labels("r", len(draft))

        def make(role: str, turn: int) -> ModelCall[Marks]:
            order = shuffled(len(draft), self.options.seed, self.record.id, "responses", attempt, role, turn)
            texts = [draft[index].text for index in order]
            fences = Fences([prompt, *texts], self.record.id)
            blocks = fences.each([f"response {name}" for name in names], texts)
            label = {index: names[position] for position, index in enumerate(order)}

            def read(text: str) -> Marks | Failure:
                marks = read_response_marks(text, [label[index] for index in range(len(draft))])
                if isinstance(marks, Failure):
                    return marks
                return {**marks, "quality": tuple(marks["quality"][index] for index in counted)}

            text = REVIEW.fill(prompt=fences.one("prompt", prompt), responses=blocks)
            again = "Reply with the JSON object of marks and nothing else."
            last = attempt + 1 == self.options.attempts
            stand_in = review_stand_in(MARKS_OF_PROMPTS[:1], names, role, turn, last=last)
            return ModelCall(role, text, REVIEW, read, again, turn=turn, stand_in=stand_in)

        return make
