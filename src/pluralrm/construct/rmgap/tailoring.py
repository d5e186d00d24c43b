"""Four prompts, each of which wants one of the responses, written and reviewed.

Reviewers are shown responses and prompts each in an order of its own and not told which belongs to which: what they
mark as effective they must have seen for themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pluralrm.benchmarks.rmgap import KEYS
from pluralrm.construct.filters import duplicate_key
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.stages import Calls, Stage
from pluralrm.construct.pipeline.work import Ask, Decision, Kept, Refusal, Rejected, Work
from pluralrm.construct.plain import faulty
from pluralrm.construct.rmgap.anew import Anew, Draft, Refused
from pluralrm.construct.rmgap.options import Options
from pluralrm.construct.rmgap.products import Prompt, Responses, Tailored
from pluralrm.construct.rmgap.replies import read_prompt_marks, read_text
from pluralrm.construct.rmgap.review import ENOUGH, LEAST, Marks, reviewed
from pluralrm.construct.rmgap.shown import Fences, labels, shuffled
from pluralrm.construct.rmgap.wording import COPIED, named_response, named_style, shared_run
from pluralrm.core import Failure
from pluralrm.templates import load_template

WRITE, REVIEW = load_template("build-tailor-v1"), load_template("build-review-prompts-v1")
MORE = 4_000
"""Characters by which a prompt may be longer than the one that it is made of."""
_TOKENS = 150
"""Of a tailored prompt, roughly."""
_SHOWN = 2000
"""Tokens of four responses and what is asked about them, roughly."""


def prompts(options: Options) -> Stage:
    """Return the stage that writes and reviews a prompt for each response."""

    def work(record: Record) -> Work[Decision]:
        gates = _Gates(record, options)
        done = yield from Anew(len(KEYS), gates.order, gates, options.attempts).work()
        return done if isinstance(done, Rejected) else Kept(Tailored(texts=done[0]), done[1])

    low = "one" if options.rule == "each" else "as published, four whose mean is"
    return Stage(
        "prompts",
        Tailored,
        work,
        reads=(Prompt, Responses),
        gate="a prompt with a word that names a style and is not in the seed prompt, or with a response's name; one "
        f"with {COPIED} words in a row of the response that it is for; one that repeats another, is "
        f"more than {MORE:,} characters longer than the seed prompt or has one that nobody sees; {low} below {ENOUGH} "
        "in quality, effectiveness or alignment with the seed prompt, by two reviewers who are not told which prompt "
        "is for which response, or by an area chair where they disagree. What is refused is written anew by the next "
        "model of the pool",
        templates=(WRITE, REVIEW),
        calls=lambda _record: [
            Calls("tailor", len(KEYS), len(KEYS) * options.attempts, _SHOWN, _TOKENS),
            Calls("reviewer", 2, 2 * options.attempts, _SHOWN + len(KEYS) * _TOKENS, 120),
            Calls("chair", 0, options.attempts, _SHOWN + len(KEYS) * _TOKENS, 120),
        ],
        settings={
            "attempts": options.attempts,
            "rule": options.rule,
            "least": LEAST,
            "characters more": MORE,
            "copied words": COPIED,
            "seed": options.seed,
        },
    )


def gives_away(text: str, seed_prompt: str, response: str) -> Refusal | None:
    """Return why a text's words tell which response it is for; words of the seed prompt give nothing away."""
    if word := named_style(text, seed_prompt):
        return Refusal("style_named", f"it says {word!r}, a word for a manner of answering")
    if name := named_response(text):
        return Refusal("response_named", f"it says {name!r}; nobody who asks has seen a response")
    if run := shared_run(text, response, besides=seed_prompt):
        return Refusal("copied", f"it has {run!r} from the response")
    return None


@dataclass(frozen=True)
class _Gates:
    record: Record
    options: Options

    @property
    def _seed_prompt(self) -> str:
        return self.record[Prompt].text

    @property
    def _responses(self) -> list[str]:
        return [written.text for written in self.record[Responses].texts]

    def order(self, place: int, attempt: int, why: Sequence[str]) -> Ask[str]:
        """Return the request for the prompt that wants the response at a place."""
        names = labels("R", len(KEYS))
        fences = Fences([self._seed_prompt, *self._responses], self.record.id)
        text = WRITE.fill(
            prompt=fences.one("prompt", self._seed_prompt),
            responses=fences.each([f"response {name}" for name in names], self._responses),
            target=names[place],
            refused=why,
        )
        return Ask("tailor", text, WRITE, read_text, "Write the prompt.", turn=attempt, tag=f"{attempt}")

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return prompts that say the same, name a style, or copy the response that they are for."""
        refused: dict[int, Refusal] = {}
        keys = [duplicate_key(written.text) for written in draft]
        for place in fresh:
            text, before = (
                draft[place].text,
                [keys[other] for other in range(len(draft)) if other not in fresh or other < place],
            )
            if why := faulty(text, len(self._seed_prompt) + MORE):
                refused[place] = Refusal("format", why)
            elif keys[place] in {*before, duplicate_key(self._seed_prompt)}:
                refused[place] = Refusal("same", "it has the words of the prompt as it was, or of another one")
            elif telling := gives_away(text, self._seed_prompt, self._responses[place]):
                refused[place] = telling
        return refused

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return the prompts that the reviewers refuse; only new ones are shown, or all where their mean counts."""
        counted = range(len(draft)) if self.options.rule == "mean" else new
        found = yield from reviewed(self._review(draft, counted, attempt), self.options.rule)
        if isinstance(found, Failure):
            return dict.fromkeys(counted, Refusal("unjudged", f"{found.kind}: {found.detail}"))
        refused: dict[int, Refusal] = {}
        for low in found:
            for place in counted if low.place is None else [counted[low.place]]:
                refused.setdefault(place, Refusal(low.dimension, str(low)))
        return refused

    def _review(self, draft: Draft, counted: Sequence[int], attempt: int) -> Callable[[str, int], Ask[Marks]]:
        names = labels("p", len(counted))

        def make(role: str, turn: int) -> Ask[Marks]:
            of = (self.options.seed, self.record.id, "prompts", attempt, role, turn)
            order = shuffled(len(counted), *of)
            shown = [draft[counted[position]].text for position in order]
            answers = [self._responses[place] for place in shuffled(len(KEYS), *of, "responses")]
            fences = Fences([self._seed_prompt, *answers, *shown], self.record.id)
            text = REVIEW.fill(
                prompt=fences.one("prompt", self._seed_prompt),
                responses=fences.each([f"response {name}" for name in labels("r", len(answers))], answers),
                prompts=fences.each([f"prompt {name}" for name in names], shown),
                labels=", ".join(names),
                example=_example(names),
            )
            wanted = [names[order.index(position)] for position in range(len(counted))]
            again = "Reply with the JSON object of marks and nothing else."
            return Ask(role, text, REVIEW, lambda said: read_prompt_marks(said, wanted), again, turn=turn)

        return make


def _example(names: Sequence[str]) -> str:
    marks = ", ".join(f'"{name}": 5' for name in names)
    return ", ".join(f'"{key}": {{{marks}}}' for key in ("quality_scores", "bias_scores", "semantic_scores")).join("{}")
