"""Who answers in the tests and in the shipped demo: models that say what a list of records holds, and nothing else.

A record is what `demo/rmgap.toml` has: a seed prompt, its ratings, and for each response, prompt and paraphrase what
is written at each attempt, and how it is marked. A mark that is a list has those of `reviewer-a`, `reviewer-b` and
`chair`. What is asked tells all: the same request has the same reply, whenever it comes.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pluralrm.construct.rmgap import record_id
from pluralrm.construct.rmgap.responses import choose, describe
from pluralrm.templates import load_template

Prose = Mapping[str, Any]
"""A record of prose, as TOML has it."""

JUDGES = ("reviewer-a", "reviewer-b", "chair")
_FENCED = re.compile(
    r"^\[(?P<name>[^\]\n]+) (?P<mark>[0-9a-f]{20})\]\n(?P<text>.*?)\n\[end of (?P=name) (?P=mark)\]$",
    re.MULTILINE | re.DOTALL,
)


def fenced(prompt: str) -> dict[str, str]:
    """Return what stands in fences, by name, in the order shown."""
    return {found["name"]: found["text"] for found in _FENCED.finditer(prompt)}


def attempt_of(prompt: str) -> int:
    """Return how many texts were refused before."""
    _, told, listed = prompt.partition("were refused:\n\n")
    return len(re.findall(r"^- ", listed, re.MULTILINE)) if told else 0


def at(attempts: Sequence[Any], attempt: int) -> Any:
    """Return what is said at an attempt; the last holds for all after it."""
    return attempts[min(attempt, len(attempts) - 1)]


def attempts(entry: Mapping[str, Any]) -> Sequence[Prose]:
    found: Sequence[Prose] = entry["attempt"]
    return found


def versions(paraphrase: str | Sequence[str]) -> Sequence[str]:
    return [paraphrase] if isinstance(paraphrase, str) else paraphrase


class Script:
    """Replies by the text that is asked about."""

    def __init__(self, records: Sequence[Prose]) -> None:
        self.seeds = {record["text"]: record for record in records}
        self.responses: dict[str, tuple[Prose, int, int, Prose]] = {}
        self.prompts: dict[str, tuple[Prose, int, Prose]] = {}
        self.meanings: dict[str, str] = {}
        for record in records:
            for place, entry in enumerate(record.get("response", ())):
                for number, one in enumerate(attempts(entry)):
                    self.responses[one["text"].strip()] = (record, place, number, one)
            for place, entry in enumerate(record.get("prompt", ())):
                self.meanings |= entry.get("meanings", {})
                for one in attempts(entry):
                    self.prompts[one["text"].strip()] = (record, place, one)
        self._says: dict[str, Callable[[str, str], str]] = {
            "build-rate-prompt-v1": self._rate,
            "build-respond-v1": self._respond,
            "build-review-responses-v1": self._review_responses,
            "build-tailor-v1": self._tailor,
            "build-review-prompts-v1": self._review_prompts,
            "build-pick-v1": self._pick,
            "build-paraphrase-v1": self._paraphrase,
            "build-review-paraphrases-v1": self._review_paraphrases,
        }

    def reply(self, model: str, prompt: str) -> str:
        """Return what a model says to a first message."""
        return self._says[asked_by(prompt)](model, prompt)

    def _rate(self, _model: str, prompt: str) -> str:
        return json.dumps(self.seeds[fenced(prompt)["prompt"]]["ratings"])

    def _respond(self, _model: str, prompt: str) -> str:
        text = prompt.partition("The prompt:\n\n")[2].partition("\n\nThe manner, on five")[0]
        record = self.seeds[text]
        styles = [describe(profile) for profile in choose(record_id(record["domain"], text))]
        lines = [[f"- {name}: {level}".replace("_", " ") for name, level in style.items()] for style in styles]
        place = next(place for place, some in enumerate(lines) if "\n".join(some) in prompt)
        return str(at(attempts(record["response"][place]), attempt_of(prompt))["text"])

    def _review_responses(self, model: str, prompt: str) -> str:
        shown = fenced(prompt)
        found = {
            name.removeprefix("response "): self.responses[text] for name, text in shown.items() if name != "prompt"
        }
        record, number = self.seeds[shown["prompt"]], max(number for _, _, number, _ in found.values())
        marks = {
            "quality_scores": {name: mark(one["quality"], model) for name, (_, _, _, one) in found.items()},
            "style_score": mark(at(record["diversity"], number), model),
            "semantic_score": mark(at(record["consistency"], number), model),
        }
        return json.dumps(marks)

    def _tailor(self, _model: str, prompt: str) -> str:
        record = self.seeds[fenced(prompt)["prompt"]]
        place = int(prompt.partition("for whom response R")[2][0]) - 1
        return str(at(attempts(record["prompt"][place]), attempt_of(prompt))["text"])

    def _review_prompts(self, model: str, prompt: str) -> str:
        shown = {
            name.removeprefix("prompt "): text for name, text in fenced(prompt).items() if name.startswith("prompt ")
        }
        found = {name: self.prompts[text][2] for name, text in shown.items()}
        keys = {"quality_scores": "quality", "bias_scores": "effectiveness", "semantic_scores": "alignment"}
        return json.dumps(
            {key: {name: mark(one[of], model) for name, one in found.items()} for key, of in keys.items()}
        )

    def _pick(self, _model: str, prompt: str) -> str:
        shown = fenced(prompt)
        picked = self.prompts[shown["prompt"]][2]["picked"]
        letters = {self.responses[text][1]: name[-1] for name, text in shown.items() if name != "prompt"}
        return letters[picked - 1] if picked else "none"

    def _paraphrase(self, _model: str, prompt: str) -> str:
        record, place, _ = self.prompts[fenced(prompt)["prompt"]]
        number = 0 if "Begin with what is asked for" in prompt else 1
        return str(at(versions(record["prompt"][place]["paraphrases"][number]), attempt_of(prompt)))

    def _review_paraphrases(self, _model: str, prompt: str) -> str:
        shown = {name.removeprefix("version "): text for name, text in fenced(prompt).items() if name != "prompt"}
        return json.dumps({"verdicts": {name: self.meanings.get(text, "same") for name, text in shown.items()}})


def mark(given: int | Sequence[int], model: str) -> int:
    return given if isinstance(given, int) else given[JUDGES.index(model.removeprefix("demo-"))]


TEMPLATES = (
    "build-rate-prompt-v1",
    "build-respond-v1",
    "build-review-responses-v1",
    "build-tailor-v1",
    "build-review-prompts-v1",
    "build-pick-v1",
    "build-paraphrase-v1",
    "build-review-paraphrases-v1",
)


def asked_by(prompt: str) -> str:
    """Return the name of the template that wrote a request."""
    return next(name for name in TEMPLATES if prompt.startswith(load_template(name).source.partition("{{")[0][:60]))
