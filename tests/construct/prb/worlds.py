"""A world of invented users whose models do all that is asked of them, so that one fault at a time can be planted.

    world = World(marks={("q003", "chosen", 0): {"factuality": 1}})
    built = world.built(tmp_path, 12)

Every text names itself in its first word (Zq003x1f0c2a: a hash of record, side and attempt, which tells the audit
nothing), so a reply depends on its prompt alone, whoever asks, in whatever order.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from pluralrm.benchmarks.lamp_qa import AspectRow, PostRow
from pluralrm.chat import ScriptedChat
from pluralrm.construct.pipeline import Built, Folder, Record, build, open_pools
from pluralrm.construct.prb import PersonalQuestion, Rules, prb_pipeline, roles
from tests.construct.pipeline.worlds import decisions
from tests.fake_chat import Action, Seen, say
from tests.grading.markers import answer_in

Key = tuple[str, str, int]
"""Record, side (chosen, published, contrary), attempt."""

_SIDES = {"gives all of the following": "chosen", "does without all": "published", "opposite taste in each": "contrary"}
_NAME = re.compile(r"Z(q\d{3})x[0-9a-f]{6}")
_ATTEMPTS = 4
_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
GIVEN = {"chosen": 2, "published": 0, "contrary": 0}
OPPOSED = {"chosen": 0, "published": 1, "contrary": 2}


def invented(seed: str, count: int) -> str:
    """Return so many words that no other seed has."""
    draw = random.Random(seed)
    return " ".join("".join(draw.choices(_SYLLABLES, k=3)) for _ in range(count))


def name_of(record: str, side: str, attempt: int) -> str:
    """Return the first word of a text."""
    return f"Z{record}x{sha256(f'{record}{side}{attempt}'.encode()).hexdigest()[:6]}"


def _key_of(name: str, record: str) -> Key:
    keys = ((record, side, attempt) for side in _SIDES.values() for attempt in range(_ATTEMPTS))
    return next(key for key in keys if name_of(*key) == name)


def text_of(record: str, side: str, attempt: int, words: int) -> str:
    """Return a text that names itself."""
    return f"{name_of(record, side, attempt)} {invented(f'{record}{side}{attempt}', words - 1)}."


def question(number: int, *, aspects: bool = True) -> Record:
    """Return a question of a user of their own, in one of three domains."""
    name = f"q{number:03}"
    posts = tuple(
        PostRow(id=f"{name}-{place}", category="bread", text=f"{invented(f'{name} {place}', 12)}.")
        for place in range(3)
    )
    wanted = tuple(
        AspectRow(aspect=invented(f"{name} wants {place}", 5), evidence="seen", reason="it is so") for place in range(3)
    )
    source = PersonalQuestion(
        user=name,
        question=f"{name}: {invented(f'{name} asks', 9)}?",
        category="bread",
        narrative=f"{invented(f'{name} lives', 8)}.",
        posts=posts,
        aspects=wanted if aspects else (),
    )
    return Record(name, ("Art_and_Entertainment", "Society_and_Culture")[number % 2], source)


@dataclass
class World:
    """The models: `texts` and `marks` take the place of what a good writer and a fair judge would say."""

    texts: Mapping[Key, str] = field(default_factory=dict)
    marks: Mapping[Key, Mapping[str, int]] = field(default_factory=dict)
    words: Callable[[str, str], int] = lambda record, side: 60 + 4 * ((int(record[1:]) + len(side)) % 2)
    rules: Rules = field(default_factory=lambda: Rules(rejected="both"))
    planned: Callable[[str], str] = lambda _prompt: "no list"
    prompts: list[str] = field(default_factory=list)

    def reply(self, prompt: str) -> str:
        """Return what is said to a prompt."""
        self.prompts.append(prompt)
        if prompt.startswith("You answer what one person asks"):
            return self._written(prompt)
        if prompt.startswith("You say what a question asks for"):
            return "- What to do\n- When to do it"
        if prompt.startswith("You read what one person wrote"):
            return self.planned(prompt)
        return self._judged(prompt)

    def answer(self, seen: Seen) -> Action:
        """Reply over HTTP; a second try is answered as the first."""
        return say(self.reply(str(seen.body["messages"][0]["content"])))

    def text(self, record: str, side: str, attempt: int) -> str:
        """Return what the writer writes."""
        return self.texts.get((record, side, attempt)) or text_of(record, side, attempt, self.words(record, side))

    def _written(self, prompt: str) -> str:
        [side] = (side for words, side in _SIDES.items() if words in prompt)
        record = next(iter(re.findall(r"^(q\d{3}): ", prompt, re.MULTILINE)))
        keys = [_key_of(found[0], found[1]) for found in _NAME.finditer(prompt)]
        before = [attempt for name, written, attempt in keys if (name, written) == (record, side)]
        return self.text(record, side, before[-1] + 1 if before else 0)

    def _judged(self, prompt: str) -> str:
        found = _NAME.search(answer_in(prompt))
        assert found is not None, prompt
        _, side, _ = key = _key_of(found[0], found[1])
        marks = self.marks.get(key, {})
        if "match_score" in prompt:
            what, usual = ("opposite", OPPOSED) if "taste, in one thing" in prompt else ("adherence", GIVEN)
            return json.dumps({"match_score": marks.get(what, usual[side])})
        if "factuality" in prompt:
            return json.dumps({name: marks.get(name, 4) for name in ("factuality", "relevance", "helpfulness")})
        covered = marks.get("coverage", 2)
        return json.dumps([marks.get("first part", covered), covered])

    def built(self, place: Path, records: int | Iterable[Record] = 12) -> Built:
        """Build with these models in this process."""
        sources = list(map(question, range(records))) if isinstance(records, int) else list(records)
        chats = {name: ScriptedChat(lambda request: self.reply(request.messages[0][1]), name=name) for name in "wjp"}
        with Folder(place) as folder, open_pools(roles(["w"], ["j"], ["p"]), chats=chats) as pools:
            return build(prb_pipeline(self.rules), sources, folder, pools)


def named(place: Path) -> dict[str, tuple[str, str]]:
    """Return the stage and the reason of every record that was rejected."""
    return {
        str(line["id"]): (file.split("-", 1)[1].removesuffix(".jsonl"), str(line["reason"]))
        for file, lines in decisions(place).items()
        for line in lines
        if line["kept"] is None
    }
