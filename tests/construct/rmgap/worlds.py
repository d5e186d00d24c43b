"""Invented records in which every gate is passed, and ways to plant one fault; who answers them; builds of them.

world = [prose(0), prose(1)]
world[0]["response"][2]["attempt"][0]["quality"] = 3
built = build_of(world, tmp_path)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pluralrm.audit.embedder import Rows, open_embedder
from pluralrm.chat import ChatModel, ScriptedChat
from pluralrm.construct.pipeline import Built, Folder, Pools, Record, build, open_pools
from pluralrm.construct.release import release
from pluralrm.construct.rmgap import RmgapOptions, SeedPrompt, record_id
from pluralrm.construct.rmgap.stages import about, editions, pipeline, roles
from pluralrm.digests import digest
from pluralrm.http import Settings
from pluralrm.validate import Right, ValidationOutcome, Wrong
from tests.construct.rmgap.scripted import Script
from tests.fake_chat import Action, Seen, say

DOMAINS = ("Chat", "Writing", "Reasoning", "Safety")
MODELS = {
    "generator": ("prose-a", "prose-b"),
    "rater": ("rater",),
    "reviewer": ("reviewer-a", "reviewer-b"),
    "chair": ("chair",),
    "tailor": ("tailor",),
    "paraphraser": ("paraphraser",),
}
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_MANNERS = ("short", "long", "dry", "merry")


class Topics:
    """Vectors by the one word `zq...` that a text has: texts on one topic are equal, others have little in common."""

    spec = "topics"
    identity = "topics"

    def rows(self, texts: Sequence[str]) -> Rows:
        words = [next((word for word in text.split() if word.startswith("zq")), "") for text in texts]
        return open_embedder("letters").rows(words) if texts else np.zeros((0, 0), np.float32)


def prose(number: int, domain: str = "") -> dict[str, Any]:
    """Return a record that passes every gate at the first attempt."""
    domain, topic = domain or DOMAINS[number % len(DOMAINS)], _topic(number)
    return {
        "text": f"What is to be done about {topic} before winter comes?",
        "domain": domain,
        "source": "invented",
        **({"reference": str(number)} if domain == "Reasoning" else {}),
        "ratings": dict.fromkeys(("clarity", "completeness", "naturalness", "safety", "openness", "overall"), 5),
        "diversity": [8],
        "consistency": [9],
        "response": [{"attempt": [_response(topic, place, number, domain)]} for place in range(4)],
        "prompt": [_prompt(topic, place) for place in range(4)],
    }


def _topic(number: int) -> str:
    """Return a word of letters that has little in common with that of any other number."""
    return f"zq{digest(number)[:12].translate(_LETTERS)}"


def _response(topic: str, place: int, number: int, domain: str) -> dict[str, Any]:
    answer = f" So it is \\boxed{{{number}}}." if domain == "Reasoning" else ""
    return {"text": f"A {_MANNERS[place]} answer about {topic}.{answer}", "quality": 8}


def _prompt(topic: str, place: int) -> dict[str, Any]:
    who = ("baker", "nurse", "judge", "child")[place]
    return {
        "attempt": [
            {
                "text": f"As a {who} I need help with {topic} today.",
                "quality": 8,
                "effectiveness": 8,
                "alignment": 8,
                "picked": place + 1,
            }
        ],
        "paraphrases": [
            f"Please help me with {topic} : my work is that of a {who}.",
            f"My day as {who} turns on {topic} ; help!",
        ],
    }


def worded(entry: dict[str, Any], text: str) -> None:
    """Write a text at every attempt, each time a little otherwise."""
    marks = entry["attempt"][0]
    entry["attempt"] = [{**marks, "text": f"{text}{' Really' * number}."} for number in range(3)]


def marked(entry: dict[str, Any], **marks: int) -> None:
    """Give marks to a text that is written again and again, each time a little otherwise."""
    text = entry["attempt"][0]["text"]
    entry["attempt"] = [{**entry["attempt"][0], **marks, "text": f"{text}{' Well!' * number}"} for number in range(3)]


def records(world: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Return the records of the seed prompts."""
    made = []
    for one in world:
        given = {key: one[key] for key in ("text", "domain", "source", "reference", "tests", "entry") if key in one}
        made.append(Record(record_id(one["domain"], one["text"]), one["domain"], SeedPrompt(**given)))
    return made


def boxed(prompt: SeedPrompt, response: str) -> ValidationOutcome:
    """Compare the boxed answer as it is written."""
    return Right() if f"\\boxed{{{prompt.reference}}}" in response else Wrong("another box")


def options(**given: Any) -> RmgapOptions:
    return RmgapOptions(**{"embedder": Topics(), "check": boxed, **given})


@contextmanager
def opened(
    path: Path, url: str = "", *, settings: Settings | None = None, chats: Mapping[str, ChatModel] | None = None
) -> Iterator[tuple[Folder, Pools]]:
    """Open a folder and the pools; `url` goes with every model."""
    specs = {role: [f"{name},url={url}" if url else name for name in names] for role, names in MODELS.items()}
    with (
        Folder(path) as folder,
        open_pools(roles(specs), settings=folder.settings(settings or Settings()), chats=chats) as pools,
    ):
        yield folder, pools


def chats(
    script: Script, changed: Callable[[str, str, str], str] = lambda _model, _prompt, said: said
) -> dict[str, ChatModel]:
    """Return a chat model by each name; `changed(model, prompt, said)` may replace a reply."""

    def one(name: str) -> ChatModel:
        def says(request: Any) -> str:
            prompt = request.messages[0][1]
            return changed(name, prompt, script.reply(name, prompt))

        return ScriptedChat(says, name=name)

    return {name: one(name) for names in MODELS.values() for name in names}


def requests(model: ChatModel) -> list[str]:
    """Return the first messages of what a scripted model was asked."""
    assert isinstance(model, ScriptedChat)
    return [request.messages[0][1] for request in model.requests]


def build_of(
    world: Sequence[Mapping[str, Any]],
    path: Path,
    *,
    given: RmgapOptions | None = None,
    models: Mapping[str, ChatModel] | None = None,
) -> Built:
    """Return what becomes of a world in the hands of its own models."""
    with opened(path, chats=models or chats(Script(world))) as (folder, pools):
        return build(pipeline(given or options()), records(world), folder, pools)


def reasons(built: Built) -> dict[str, dict[str, int]]:
    """Return what was refused, by stage and reason."""
    return {counts.stage: dict(counts.rejected) for counts in built.funnel.stages if counts.rejected}


def mixed(count: int) -> list[dict[str, Any]]:
    """Return records of which some are refused, each by another gate, and some pass at a second attempt."""
    made = [prose(number) for number in range(count)]
    for number, one in enumerate(made):
        fault = number % 9
        if fault == 1:
            one["ratings"]["overall"] = 2
        if fault == 2:
            one["response"][1]["attempt"][0]["quality"] = [8, 4, 3]  # the last holds: it comes back unchanged
        if fault in {3, 4}:
            first = one["response"][fault % 4]["attempt"][0]
            one["response"][fault % 4]["attempt"] = [
                {**first, "quality": 3},
                {**first, "text": f"{first['text']} Indeed."},
            ]
        if fault == 5:
            one["prompt"][0]["attempt"][0]["picked"] = 4
        if fault == 6:
            one["text"] = f"Imagine! {one['text']}"
        if fault == 7:
            first = one["prompt"][3]["attempt"][0]
            one["prompt"][3]["attempt"] = [{**first, "alignment": 5}, {**first, "text": f"{first['text']} Please."}]
    return made


def answering(script: Script) -> Callable[[Seen], Action]:
    """Return what a server does that says what the script has."""
    return lambda seen: say(script.reply(seen.body["model"], str(seen.body["messages"][0]["content"])))


def released(path: Path) -> dict[str, bytes]:
    """Return every file of a release."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted((path / "release").rglob("*"))
        if file.is_file()
    }


def released_from(  # noqa: PLR0917 - the arguments of the child
    url: str, place: Path, count: int, shuffled: bool = False, concurrency: int = 4, window: int = 256
) -> bool:
    """Build and release mixed records, and return whether none waits."""
    found, chosen = records(mixed(count)), options()
    with opened(place, url, settings=Settings(concurrency=concurrency)) as (folder, pools):
        built = build(pipeline(chosen), found[::-1] if shuffled else found, folder, pools, window=window)
        if built.complete:
            release(built, editions(built), about(built, chosen, rows_in=len(found)))
    return built.complete
