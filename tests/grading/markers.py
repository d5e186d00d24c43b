"""Graders as scripts: they read aspect and answer out of a prompt, as a chat model would, and say a mark."""

import json
import re
from collections.abc import Callable

from pluralrm.chat import ScriptedChat
from tests.fake_chat import Action, Seen, say

_ANSWER = re.compile(
    r"^\[answer [0-9a-f]{20}\]\n(?P<text>.*?)\n\[end of answer [0-9a-f]{20}\]$", re.DOTALL | re.MULTILINE
)
_ASPECT = re.compile(r"^The one thing to check:\n\n(?P<text>.*)$", re.MULTILINE)
_ASPECTS = re.compile(r"^\d+\. (?P<text>.*)$", re.MULTILINE)

Mark = Callable[[str, str], int]
"""Takes an aspect and an answer and returns 0, 1 or 2."""


def answer_in(prompt: str) -> str:
    [found] = _ANSWER.findall(prompt)
    return str(found)


def marked(prompt: str, mark: Mark) -> str:
    """Return what a grader says about the answer in a prompt, in the form that the prompt asks for."""
    answer = answer_in(prompt)
    if (aspect := _ASPECT.search(prompt)) is not None:
        return json.dumps({"match_score": mark(aspect["text"], answer)})
    return json.dumps([mark(title, answer) for title in _ASPECTS.findall(prompt.partition("[answer ")[0])])


def by_words(aspect: str, answer: str) -> int:
    """Return more for an answer of more words, and less for one of too many; no two aspects agree on how many."""
    words, wanted = len(answer.split()), 3 + len(aspect) % 4
    return 0 if words > 4 * wanted else min(2, words // wanted)


def shared_words(aspect: str, answer: str) -> int:
    return min(2, len(set(aspect.lower().split()) & set(answer.lower().split())))


def scripted(mark: Mark = shared_words) -> ScriptedChat:
    return ScriptedChat(lambda request: marked(request.messages[0][1], mark))


def served(mark: Mark = shared_words) -> Callable[[Seen], Action]:
    return lambda seen: say(marked(seen.body["messages"][0]["content"], mark))
