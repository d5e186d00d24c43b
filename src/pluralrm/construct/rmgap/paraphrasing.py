"""Two paraphrases of each prompt: other words, another structure, the same request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pluralrm.benchmarks.rmgap import KEYS
from pluralrm.construct.filters import duplicate_key
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.stages import Calls, Stage
from pluralrm.construct.pipeline.work import Ask, Decision, Kept, Refusal, Rejected, Work, ask_all
from pluralrm.construct.plain import faulty
from pluralrm.construct.rmgap.anew import Anew, Draft, Refused
from pluralrm.construct.rmgap.options import Options
from pluralrm.construct.rmgap.products import Paraphrased, Prompt, Responses, Tailored
from pluralrm.construct.rmgap.replies import Kept as SameRequest
from pluralrm.construct.rmgap.replies import read_kept, read_text
from pluralrm.construct.rmgap.shown import Fences, labels
from pluralrm.construct.rmgap.tailoring import MORE, gives_away
from pluralrm.construct.rmgap.wording import COPIED, numbers, shared_run
from pluralrm.construct.similar import cosine
from pluralrm.core import Failure
from pluralrm.templates import load_template

WRITE, REVIEW = load_template("build-paraphrase-v1"), load_template("build-review-paraphrases-v1")
EACH = 2
"""Paraphrases of a prompt."""
COSINE = 0.70
_WAYS = ("Begin with what is asked for, and then say why.", "Begin with the circumstances, and ask in the end.")
_TOKENS = 150


def paraphrases(options: Options) -> Stage:
    """Return the stage that writes and checks the paraphrases."""

    def work(record: Record) -> Work[Decision]:
        gates = _Gates(record, options)
        done = yield from Anew(len(KEYS) * EACH, gates.order, gates, options.attempts).work()
        return done if isinstance(done, Rejected) else Kept(Paraphrased(texts=done[0]), done[1])

    written = len(KEYS) * EACH
    return Stage(
        "paraphrases",
        Paraphrased,
        work,
        reads=(Prompt, Responses, Tailored),
        gate=f"a paraphrase that shares {COPIED} words in a row with the prompt or its other paraphrase, repeats one "
        f"of them, has other numbers, names a style that the seed prompt does not, names a response, has {COPIED} "
        "words in a row of the response that its prompt is for and not of the seed prompt, is more than "
        f"{MORE:,} characters longer than the prompt or has one that nobody sees, or whose cosine with the prompt is "
        f"below {COSINE:g}; one in which a reviewer finds something added, dropped or changed",
        templates=(WRITE, REVIEW),
        calls=lambda _record: [
            Calls("paraphraser", written, written * options.attempts, 150 + _TOKENS, _TOKENS),
            Calls("reviewer", len(KEYS), len(KEYS) * options.attempts, 250 + (1 + EACH) * _TOKENS, 30),
        ],
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
class _Gates:
    record: Record
    options: Options

    def order(self, place: int, attempt: int, why: Sequence[str]) -> Ask[str]:
        """Return the request for a paraphrase: the two of a prompt begin with different parts of it."""
        prompt = self._prompt(place)
        shown = Fences([prompt], self.record.id).one("prompt", prompt)
        text = WRITE.fill(prompt=shown, way=_WAYS[place % EACH], refused=why)
        return Ask(
            "paraphraser", text, WRITE, read_text, "Write the prompt in other words.", turn=attempt, tag=f"{attempt}"
        )

    def looks(self, draft: Draft, fresh: Sequence[int]) -> Refused:
        """Return paraphrases that are refused by their words or by their vector."""
        refused = {place: why for place in fresh if (why := self._by_words(draft, place, fresh))}
        left = [place for place in fresh if place not in refused]
        for place, found in self._cosines(draft, left).items():
            if found < COSINE:
                refused[place] = Refusal("cosine", f"cosine {found:.4f} with the prompt; wanted at least {COSINE:g}")
        return refused

    def _by_words(self, draft: Draft, place: int, fresh: Sequence[int]) -> Refusal | None:
        text, prompt, twin = draft[place].text, self._prompt(place), place ^ 1
        # Of two new ones that are alike, the second is written anew.
        others = [prompt] if twin in fresh and twin > place else [prompt, draft[twin].text]
        if why := faulty(text, len(prompt) + MORE):
            return Refusal("format", why)
        if duplicate_key(text) in map(duplicate_key, others):
            return Refusal("same", "it has the words of the prompt, or of its other paraphrase")
        if run := next(filter(None, (shared_run(text, other) for other in others)), ""):
            return Refusal("copied", f"it takes over {run!r}")
        response = self.record[Responses].texts[place // EACH].text
        if telling := gives_away(text, self.record[Prompt].text, response):
            return telling
        if numbers(text) != numbers(prompt):
            return Refusal("numbers", f"its numbers are {_listed(text)}; those of the prompt are {_listed(prompt)}")
        return None

    def _cosines(self, draft: Draft, places: Sequence[int]) -> Mapping[int, float]:
        if not places:
            return {}
        texts = [text for place in places for text in (draft[place].text, self._prompt(place))]
        rows = self.options.embedder.rows(texts)
        return {place: cosine(rows[2 * index], rows[2 * index + 1]) for index, place in enumerate(places)}

    def asks(self, draft: Draft, new: Sequence[int], attempt: int) -> Work[Refused]:
        """Return paraphrases in which a reviewer finds something added, dropped or changed."""
        del attempt
        groups = [[place for place in new if place // EACH == group] for group in range(len(KEYS))]
        groups = [places for places in groups if places]
        found = yield from ask_all([self._review(draft, places) for places in groups])
        refused: dict[int, Refusal] = {}
        for places, outcome in zip(groups, found, strict=True):
            if isinstance(outcome, Failure):
                refused |= dict.fromkeys(places, Refusal("unjudged", f"{outcome.kind}: {outcome.detail}"))
                continue
            changed = {place: what for place, what in zip(places, outcome, strict=True) if what != "same"}
            refused |= {place: Refusal("meaning", f"something was {what}") for place, what in changed.items()}
        return refused

    def _review(self, draft: Draft, places: Sequence[int]) -> Ask[list[SameRequest]]:
        names, texts = labels("p", len(places)), [draft[place].text for place in places]
        prompt = self._prompt(places[0])
        fences = Fences([prompt, *texts], self.record.id)
        text = REVIEW.fill(
            prompt=fences.one("prompt", prompt),
            versions=fences.each([f"version {name}" for name in names], texts),
            labels=" and ".join(names),
            example=", ".join(f'"{name}": "same"' for name in names).join(['{"verdicts": {', "}}"]),
        )
        again = "Reply with the JSON object and nothing else."
        return Ask("reviewer", text, REVIEW, lambda said: read_kept(said, names), again)

    def _prompt(self, place: int) -> str:
        return self.record[Tailored].texts[place // EACH].text


def _listed(text: str) -> str:
    return ", ".join(numbers(text)) or "none"
