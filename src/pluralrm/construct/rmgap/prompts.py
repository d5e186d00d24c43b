"""Four prompts, each of which wants one of the responses, and two paraphrases of each: other words, the same request.

Reviewers are shown responses and prompts each in an order of its own and not told which belongs to which: what they
mark as effective they must have seen for themselves.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pluralrm.benchmarks.rmgap import KEYS, STYLES
from pluralrm.construct.filters import cosine, duplicate_key, faulty
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
    ask_all,
    filler,
)
from pluralrm.construct.rmgap import Paraphrased, Responses, RmgapOptions, SeedPrompt, Tailored
from pluralrm.construct.rmgap.review import (
    ENOUGH,
    LEAST,
    MARKS_OF_PROMPTS,
    Anew,
    Draft,
    Fences,
    Marks,
    Refused,
    SameRequest,
    labels,
    read_kept,
    read_prompt_marks,
    read_text,
    review_stand_in,
    reviewed,
    shuffled,
)
from pluralrm.core import Failure
from pluralrm.templates import load_template

COPIED = 8
"""So many words in a row that stand in two texts are copied."""

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text in lower case; a hyphen or an apostrophe ends a word."""
    return [word.casefold() for word in _WORD.findall(text)]


# ---------------------------------------------------------------- a style that is named

_SAID = {
    "style": "style styles stylistic tone tones",
    "Formality": "formality formally informally casually",
    "Conciseness": "conciseness concisely tersely brief briefly succinct succinctly verbosity verbosely lengthy",
    "Technicality": "technicality technically jargon laymen laypeople layperson specialised specialized",
    "Objectivity": "objectivity objectively subjectivity subjectively opinionated impartial",
    "Structural_Coherence": "structure structured structural coherence coherent organised rigor rigour rigorously",
}
"""Words for a style beside the names of the levels."""


def _level_words() -> Iterator[str]:
    """Yield the words of the levels' names; "highly" and "strictly" alone name nothing."""
    for levels in STYLES.values():
        for level in levels:
            yield from (word for word in level.split("_") if word not in {"highly", "strictly", "semi", "well"})


STYLE_WORDS = frozenset(_level_words()) | {word for line in _SAID.values() for word in line.split()}


def named_style(text: str, original: str = "") -> str:
    """Return the first word that names a style, or an empty text; a word of the original prompt does not count.

    >>> named_style("Keep it formal, please.")
    'formal'
    """
    styles = STYLE_WORDS.difference(words(original))
    return next((word for word in words(text) if word in styles), "")


# The letter of an answer is a capital: "an answer a child gives" names none.
_LABEL = re.compile(r"\b(?i:R[1-4])\b|\b(?i:response|answer)\s+(?:[1-4]|[A-D])\b")


def named_response(text: str) -> str:
    """Return the first name of a response, as "response 2" or "R2", or an empty text."""
    match = _LABEL.search(text)
    return match[0] if match else ""


# ---------------------------------------------------------------- words in a row


def shared_run(text: str, other: str, count: int = COPIED, *, besides: str = "") -> str:
    """Return the first `count` words in a row that both texts have and `besides` has not, or an empty text.

    >>> shared_run("He said that the jar is cold now.", "They say that the jar is cold now, too.", 6)
    'that the jar is cold now'
    """
    copied = set(_runs(other, count)).difference(_runs(besides, count))
    return next((" ".join(run) for run in _runs(text, count) if run in copied), "")


def _runs(text: str, count: int) -> Iterator[tuple[str, ...]]:
    tokens = words(text)
    return (tuple(tokens[start : start + count]) for start in range(len(tokens) - count + 1))


def numbers(text: str) -> list[str]:
    """Return the numbers of a text in digits, sorted: a paraphrase has the same."""
    return sorted(_NUMBER.findall(text))


WRITE, REVIEW = load_template("build-tailor-v1"), load_template("build-review-prompts-v1")
MORE = 4_000
"""Characters by which a prompt may be longer than the one that it is made of."""
_TYPICAL_WORDS = 80
"""Of a tailored prompt, in a dry run."""


def prompts(options: RmgapOptions) -> Stage:
    """Return the stage that writes and reviews a prompt for each response."""

    def work(record: Record) -> Work[Decision]:
        gates = _Gates(record, options)
        done = yield from Anew(len(KEYS), gates.order, gates, options.attempts).work()
        return done if isinstance(done, Rejection) else Acceptance(Tailored(texts=done[0]), done[1])

    low = "one" if options.rule == "each" else "as published, four whose mean is"
    return Stage(
        "prompts",
        Tailored,
        work,
        reads=(SeedPrompt, Responses),
        gate="a prompt with a word that names a style and is not in the seed prompt, or with a response's name; one "
        f"with {COPIED} words in a row of the response that it is for; one that repeats another, is "
        f"more than {MORE:,} characters longer than the seed prompt or has an invisible one; {low} below {ENOUGH} "
        "in quality, effectiveness or alignment with the seed prompt, by two reviewers who are not told which prompt "
        "is for which response, or by an area chair where they disagree. What is refused is written anew by the next "
        "model of the pool",
        templates=(WRITE, REVIEW),
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
        return Refusal("response_named", f"it says {name!r}; a user has seen no response")
    if run := shared_run(text, response, besides=seed_prompt):
        return Refusal("copied", f"it has {run!r} from the response")
    return None


@dataclass(frozen=True)
class _Gates:
    record: Record
    options: RmgapOptions

    @property
    def _seed_prompt(self) -> str:
        return self.record[SeedPrompt].text

    @property
    def _responses(self) -> list[str]:
        return [written.text for written in self.record[Responses].texts]

    def order(self, index: int, attempt: int, why: Sequence[str]) -> ModelCall[str]:
        """Return the request for the prompt that wants the response at a place."""
        names = labels("R", len(KEYS))
        fences = Fences([self._seed_prompt, *self._responses], self.record.id)
        text = WRITE.fill(
            prompt=fences.one("prompt", self._seed_prompt),
            responses=fences.each([f"response {name}" for name in names], self._responses),
            target=names[index],
            refused=why,
        )
        stand_in = StandIn(filler(_TYPICAL_WORDS, self.record.id, "prompt", index, attempt))
        return ModelCall(
            "tailor", text, WRITE, read_text, "Write the prompt.", turn=attempt, tag=f"{attempt}", stand_in=stand_in
        )

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return prompts that say the same, name a style, or copy the response that they are for."""
        refused: dict[int, Refusal] = {}
        keys = [duplicate_key(written.text) for written in draft]
        for index in fresh:
            text, before = (
                draft[index].text,
                [keys[other] for other in range(len(draft)) if other not in fresh or other < index],
            )
            if why := faulty(text, len(self._seed_prompt) + MORE):
                refused[index] = Refusal("format", why)
            elif keys[index] in {*before, duplicate_key(self._seed_prompt)}:
                refused[index] = Refusal("same", "it has the words of the prompt as it was, or of another one")
            elif telling := gives_away(text, self._seed_prompt, self._responses[index]):
                refused[index] = telling
        return refused

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return the prompts that the reviewers refuse; only new ones are shown, or all where their mean counts."""
        counted = range(len(draft)) if self.options.rule == "mean" else new
        reviews = yield from reviewed(self._review(draft, counted, attempt), self.options.rule)
        if isinstance(reviews, Failure):
            return dict.fromkeys(counted, Refusal("unjudged", f"{reviews.kind}: {reviews.detail}"))
        refused: dict[int, Refusal] = {}
        for low in reviews:
            for index in counted if low.place is None else [counted[low.place]]:
                refused.setdefault(index, Refusal(low.dimension, str(low)))
        return refused

    def _review(self, draft: Draft, counted: Sequence[int], attempt: int) -> Callable[[str, int], ModelCall[Marks]]:
        names = labels("p", len(counted))

        def make(role: str, turn: int) -> ModelCall[Marks]:
            of = (self.options.seed, self.record.id, "prompts", attempt, role, turn)
            order = shuffled(len(counted), *of)
            prompts = [draft[counted[position]].text for position in order]
            answers = [self._responses[index] for index in shuffled(len(KEYS), *of, "responses")]
            fences = Fences([self._seed_prompt, *answers, *prompts], self.record.id)
            text = REVIEW.fill(
                prompt=fences.one("prompt", self._seed_prompt),
                responses=fences.each([f"response {name}" for name in labels("r", len(answers))], answers),
                prompts=fences.each([f"prompt {name}" for name in names], prompts),
                labels=", ".join(names),
                example=_example(names),
            )
            sequence = [names[order.index(position)] for position in range(len(counted))]
            again = "Reply with the JSON object of marks and nothing else."
            last = attempt + 1 == self.options.attempts
            stand_in = review_stand_in(MARKS_OF_PROMPTS, names, role, turn, last=last)
            return ModelCall(
                role,
                text,
                REVIEW,
                lambda reply: read_prompt_marks(reply, sequence),
                again,
                turn=turn,
                stand_in=stand_in,
            )

        return make


def _example(names: Sequence[str]) -> str:
    marks = ", ".join(f'"{name}": 5' for name in names)
    return ", ".join(f'"{key}": {{{marks}}}' for key in MARKS_OF_PROMPTS).join("{}")


PARAPHRASE, REVIEW_PARAPHRASES = load_template("build-paraphrase-v1"), load_template("build-review-paraphrases-v1")
EACH = 2
"""Paraphrases of a prompt."""
COSINE = 0.70
_WAYS = ("Begin with what is asked for, and then say why.", "Begin with the circumstances, and ask in the end.")


def paraphrases(options: RmgapOptions) -> Stage:
    """Return the stage that writes and checks the paraphrases."""

    def work(record: Record) -> Work[Decision]:
        gates = _ParaphraseGates(record, options)
        done = yield from Anew(len(KEYS) * EACH, gates.order, gates, options.attempts).work()
        return done if isinstance(done, Rejection) else Acceptance(Paraphrased(texts=done[0]), done[1])

    return Stage(
        "paraphrases",
        Paraphrased,
        work,
        reads=(SeedPrompt, Responses, Tailored),
        gate=f"a paraphrase that shares {COPIED} words in a row with the prompt or its other paraphrase, repeats one "
        f"of them, has other numbers, names a style that the seed prompt does not, names a response, has {COPIED} "
        "words in a row of the response that its prompt is for and not of the seed prompt, is more than "
        f"{MORE:,} characters longer than the prompt or has an invisible one, or whose cosine with the prompt is "
        f"below {COSINE:g}; one in which a reviewer finds something added, dropped or changed",
        templates=(PARAPHRASE, REVIEW_PARAPHRASES),
        settings={
            "attempts": options.attempts,
            "characters more": MORE,
            "copied words": COPIED,
            "copied words of the response": COPIED,
            "cosine": COSINE,
            "embedder": options.embedded_by,
            "embedder identity": options.embedder.identity,
            "names of responses": "refused",
        },
    )


@dataclass(frozen=True)
class _ParaphraseGates:
    record: Record
    options: RmgapOptions

    def order(self, index: int, attempt: int, why: Sequence[str]) -> ModelCall[str]:
        """Return the request for a paraphrase: the two of a prompt begin with different parts of it."""
        prompt = self._prompt(index)
        quoted = Fences([prompt], self.record.id).one("prompt", prompt)
        text = PARAPHRASE.fill(prompt=quoted, way=_WAYS[index % EACH], refused=why)
        return ModelCall(
            "paraphraser",
            text,
            PARAPHRASE,
            read_text,
            "Write the prompt in other words.",
            turn=attempt,
            tag=f"{attempt}",
            stand_in=StandIn(self._reordered(index, attempt)),
        )

    def _reordered(self, index: int, attempt: int) -> str:
        """Return the prompt's words for a dry run, in runs that are too short to count as copied, in another order."""
        tokens, length = self._prompt(index).split(), COPIED - 1 - index % EACH
        runs = [tokens[start : start + length] for start in range(0, len(tokens), length)]
        return " ".join([filler(1, self.record.id, index, attempt), *(word for run in reversed(runs) for word in run)])

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return paraphrases that are refused by their words or by their vector."""
        refused = {index: why for index in fresh if (why := self._by_words(draft, index, fresh))}
        left = [index for index in fresh if index not in refused]
        for index, value in self._cosines(draft, left).items():
            if value < COSINE:
                refused[index] = Refusal("cosine", f"cosine {value:.4f} with the prompt; wanted at least {COSINE:g}")
        return refused

    def _by_words(self, draft: Draft, index: int, fresh: Sequence[int]) -> Refusal | None:
        text, prompt, twin = draft[index].text, self._prompt(index), index ^ 1
        # Of two new ones that are alike, the second is written anew.
        others = [prompt] if twin in fresh and twin > index else [prompt, draft[twin].text]
        if why := faulty(text, len(prompt) + MORE):
            return Refusal("format", why)
        if duplicate_key(text) in map(duplicate_key, others):
            return Refusal("same", "it has the words of the prompt, or of its other paraphrase")
        if run := next(filter(None, (shared_run(text, other) for other in others)), ""):
            return Refusal("copied", f"it takes over {run!r}")
        response = self.record[Responses].texts[index // EACH].text
        if telling := gives_away(text, self.record[SeedPrompt].text, response):
            return telling
        if numbers(text) != numbers(prompt):
            return Refusal("numbers", f"its numbers are {_listed(text)}; those of the prompt are {_listed(prompt)}")
        return None

    def _cosines(self, draft: Draft, places: Sequence[int]) -> Mapping[int, float]:
        if not places:
            return {}
        texts = [text for index in places for text in (draft[index].text, self._prompt(index))]
        rows = self.options.embedder.rows(texts)
        return {index: cosine(rows[2 * row], rows[2 * row + 1]) for row, index in enumerate(places)}

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return paraphrases in which a reviewer finds something added, dropped or changed."""
        groups = [[index for index in new if index // EACH == group] for group in range(len(KEYS))]
        groups = [places for places in groups if places]
        outcomes = yield from ask_all([self._review(draft, places, attempt) for places in groups])
        refused: dict[int, Refusal] = {}
        for places, outcome in zip(groups, outcomes, strict=True):
            if isinstance(outcome, Failure):
                refused |= dict.fromkeys(places, Refusal("unjudged", f"{outcome.kind}: {outcome.detail}"))
                continue
            changed = {index: what for index, what in zip(places, outcome, strict=True) if what != "same"}
            refused |= {index: Refusal("meaning", f"something was {what}") for index, what in changed.items()}
        return refused

    def _review(self, draft: Draft, places: Sequence[int], attempt: int) -> ModelCall[list[SameRequest]]:
        names, texts = labels("p", len(places)), [draft[index].text for index in places]
        prompt = self._prompt(places[0])
        fences = Fences([prompt, *texts], self.record.id)
        text = REVIEW_PARAPHRASES.fill(
            prompt=fences.one("prompt", prompt),
            versions=fences.each([f"version {name}" for name in names], texts),
            labels=" and ".join(names),
            example=", ".join(f'"{name}": "same"' for name in names).join(['{"verdicts": {', "}}"]),
        )
        again = "Reply with the JSON object and nothing else."
        same, changed = (json.dumps({"verdicts": dict.fromkeys(names, verdict)}) for verdict in ("same", "changed"))
        stand_in = StandIn(same, "" if attempt + 1 == self.options.attempts else changed)
        return ModelCall(
            "reviewer", text, REVIEW_PARAPHRASES, lambda reply: read_kept(reply, names), again, stand_in=stand_in
        )

    def _prompt(self, index: int) -> str:
        return self.record[Tailored].texts[index // EACH].text


def _listed(text: str) -> str:
    return ", ".join(numbers(text)) or "none"
