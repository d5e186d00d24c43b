"""Many people and shared prompts: a file in the shape of Community Alignment, read, and turned into queries.

People leave 1 to 300 conversations each, in one of five languages. Half of the conversations open with a shared prompt,
each judged by at least ten people; a few people meet one twice. The first answer is preferred more often.
"""

import csv
import random
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work
from pluralrm import load_benchmark, load_condition
from pluralrm.core import Benchmark

MOST, PEOPLE_PER_PROMPT = 300, 15
"""The most conversations of one person, and how many people judge a shared prompt on average."""
TURNS, LETTERS = ("first", "second", "third", "fourth"), "abcd"
SYLLABLES = {
    "en": "the an ing er to of ed in is re",
    "fr": "le de ent ion é que ou ir un ais",
    "it": "la che re to ne con il ità va do",
    "hi": "का के में है और से को पर ता ना",
    "pt": "o da ção que em ar os não com ir",
}
COUNTRIES = {"en": "united states", "fr": "france", "it": "italy", "hi": "india", "pt": "brazil"}
AGES = ("18-34", "35-45", "46-54", "55+")
TRAITS = ("country", "age", "gender", "education_level", "ethnicity", "political")
PARTS = ("prompt", *(f"response_{letter}" for letter in LETTERS), "preferred_response", "feedback")
COLUMNS = (
    *("conversation_id", "annotator_id", "assigned_lang", *(f"annotator_{name}" for name in TRAITS)),
    *("wave", "is_pregenerated_first_prompt", "in_balanced_subset", "in_balanced_subset_10"),
    *(f"{turn}_turn_{part}" for turn in TURNS for part in PARTS),
)


class Slot(NamedTuple):
    """A prompt and its four answers."""

    prompt: str
    answers: tuple[str, ...]


class Writer:
    """Prompts and answers of one language, cut from one long text; shared prompts in turn."""

    def __init__(self, language: str, rng: random.Random, words: int) -> None:
        forms = ["".join(rng.choices(SYLLABLES[language].split(), k=rng.randint(1, 4))) for _ in range(5_000)]
        ends = rng.choices((" ", ", ", ". ", '" ', "\n\n"), (60, 6, 4, 1, 1), k=words)
        self._text = "".join(map(str.__add__, rng.choices(forms, k=words), ends))
        self._rng = rng
        self.shared: list[Slot] = []
        self.turn = 0

    def slot(self) -> Slot:
        """Return a new prompt with four answers."""
        return Slot(self.cut(30, 200), tuple(self.cut(300, 1_500) for _ in LETTERS))

    def cut(self, least: int, most: int) -> str:
        """Return a text of `least` to `most` characters."""
        start = self._rng.randrange(len(self._text) - most)
        return self._text[start : start + self._rng.randint(least, most)].strip() + "."


def conversations(count: int, words: int) -> Iterator[dict[str, str]]:
    """Yield rows person by person, their texts cut from so many words of each language."""
    rng, crowd = random.Random(0), []
    while count:  # many people leave few, some leave hundreds
        crowd.append((rng.choice(list(SYLLABLES)), min(count, MOST, int(8 * rng.paretovariate(0.9)) - 7)))
        count -= crowd[-1][1]
    writers = {language: Writer(language, rng, words) for language in SYLLABLES}
    for language, writer in writers.items():
        total = sum(own // 2 for spoken, own in crowd if spoken == language)
        writer.shared = [writer.slot() for _ in range(max(MOST // 2, total // PEOPLE_PER_PROMPT))]
    for person, (language, own) in enumerate(crowd):
        background = {f"annotator_{name}": f"{name} {rng.randrange(4)}" for name in TRAITS}
        background |= {"annotator_country": COUNTRIES[language], "annotator_age": rng.choice(AGES)}
        background |= {"in_balanced_subset": str(person % 5 == 0), "in_balanced_subset_10": str(person % 10 == 0)}
        background |= {"annotator_id": f"a{person}", "assigned_lang": language, "wave": f"wave{person % 3 + 1}"}
        writer = writers[language]
        for index in range(own):
            is_shared = index < own // 2
            if is_shared:
                writer.turn += index == 0 or rng.random() > 0.01  # else the same once more
            opening = writer.shared[writer.turn % len(writer.shared)] if is_shared else writer.slot()
            row = dict.fromkeys(COLUMNS, "") | background | {"conversation_id": f"c{person}-{index}"}
            row["is_pregenerated_first_prompt"] = str(is_shared)
            yield row | _turns(opening, writer, rng)


def _turns(opening: Slot, writer: Writer, rng: random.Random) -> dict[str, str]:
    """Return one to four turns of a row; some are without a choice, or with an equal or empty answer."""
    cells: dict[str, str] = {}
    for turn in TURNS[: rng.choices((1, 2, 3, 4), (4, 3, 2, 1))[0]]:
        prompt, answers = opening if turn == "first" else writer.slot()
        luck = rng.random()
        if luck < 0.003:
            answers = (answers[0], answers[0], *answers[2:])
        elif luck < 0.006:
            answers = (*answers[:3], "EMPTY STRING")
        preferred = "" if luck > 0.996 else f"response_{rng.choices(LETTERS, (4, 2, 2, 2))[0]}"
        feedback = writer.cut(20, 200) if luck > 0.5 else ""
        values = (prompt, *answers, preferred, feedback)
        cells |= {f"{turn}_turn_{part}": value for part, value in zip(PARTS, values, strict=True)}
    return cells


def table(setup: Setup) -> str:
    """Return the spec of a file in the shape of `community_alignment.csv`."""
    path = setup.folder() / "community_alignment.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS)
        rows.writeheader()
        rows.writerows(conversations(setup.size(90_000, 200), setup.size(300_000, 3_000)))
    return f"community-alignment:{path}"


people = Shape("people", "90,000 conversations of 2,600 people, 876 MiB", table, unit="items", rounds=1)


@people.side
def first_turns(spec: str) -> Work:
    return lambda: Outcome(units=len(load_benchmark(spec).items))


@people.side
def earlier_turns(spec: str) -> Work:
    return first_turns(f"{spec},context=earlier")


def queries(condition: str, spec: str) -> Work:
    """Return the work of a condition on items that are loaded before."""
    benchmark: Benchmark = load_benchmark(f"{spec},context=earlier")
    return lambda: Outcome(units=sum(1 for _ in load_condition(condition).queries(benchmark, benchmark.items)))


for condition in ("traits,of=swapped", "group:0,pairs=4,trait=age"):
    people.side(partial(queries, condition), name=f"queries {condition}")
