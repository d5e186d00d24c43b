"""What the server does for one annotator: say where they are, show a screen, take a judgment. It knows no HTTP.

Only `screen_shown` decides what of a screen is sent, and nothing here reads a label but to tell that of a judged
example.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TypedDict

from pluralrm.annotate.design import Letter, Plan, Screen, answer_of_example, screen_shown
from pluralrm.annotate.judgments import answers_of, answers_text, other_questions
from pluralrm.annotate.store import Outcome, Store, Submission
from pluralrm.core import digest
from pluralrm.text import visible


class Standing(TypedDict):
    """Where one screen stands: its handle, how often something was said of it, whether a judgment stands."""

    item: str
    revision: int
    judged: bool


class State(TypedDict):
    """Where one annotator stands; `space` names what the browser keeps for this annotator and plan."""

    space: str
    items: list[Standing]


class Taken(TypedDict):
    """What became of a submission; `meant` is the labelled answer of an example that was just judged."""

    outcome: Outcome
    meant: Letter | None


class Desk:
    """A plan and what was said so far."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan, self.store = plan, store

    def state(self, annotator: str) -> State:
        """Return where an annotator stands, all screens in the order of the plan."""
        said = self.store.latest(annotator)
        items = [_standing(screen, said) for screen in self.plan.by_annotator[annotator]]
        return State(space=digest([self.plan.content_hash, annotator])[:16], items=items)

    def screen(self, annotator: str, handle: str) -> dict[str, object] | None:
        """Return what an annotator sees on a screen and last said of it; None unless it is one of their own."""
        screen = self._own(annotator, handle)
        if screen is None:
            return None
        shown = {name: _visible(value) for name, value in asdict(screen_shown(self.plan, screen)).items()}
        said = self.store.latest(annotator).get(handle)
        return {**shown, "said": said and {"answers": json.loads(said.answers)}}

    def take(self, said: Submission) -> Taken | None:
        """Keep what an annotator said; None where the screen is not theirs, ValueError where it answers no question."""
        screen = self._own(said.annotator, said.item)
        if screen is None:
            return None
        answers = answers_of(said.answers)
        if answers is not None and (why := other_questions(self.plan.declared, answers)):
            raise ValueError(f"answers: {why}")
        outcome = self.store.add(said._replace(answers=answers_text(answers)))
        known = answers is not None and outcome in {"kept", "again"}
        return Taken(outcome=outcome, meant=answer_of_example(self.plan, screen) if known else None)

    def _own(self, annotator: str, handle: str) -> Screen | None:
        screen = self.plan.screen.get(handle)
        return screen if screen is not None and screen.annotator == annotator else None


def _standing(screen: Screen, said: Mapping[str, Submission]) -> Standing:
    last = said.get(screen.handle)
    if last is None:
        return Standing(item=screen.handle, revision=0, judged=False)
    return Standing(item=screen.handle, revision=last.revision, judged=last.answers != "null")


def _visible(value: object) -> object:
    """Return a text, or a tuple of them, in which nothing is hidden; line ends are newlines."""
    if isinstance(value, str):
        return visible(value.replace("\r\n", "\n").replace("\r", "\n"))
    return [_visible(one) for one in value] if isinstance(value, tuple) else value
