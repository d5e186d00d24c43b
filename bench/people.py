"""Many people and shared prompts: a file in the shape of Community Alignment, and what it takes to read it.

python bench/people.py [--rows 90000] [--out FILE]

People leave 1 to 300 conversations each, in one of five languages. Half of the conversations open with a shared prompt,
each judged by at least ten people; a few people meet one twice. What they prefer depends on the answer (its quality and
its length), on their group (age), on the person and on the place of the answer, and is noisy.
"""

import argparse
import csv
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from candidates import timed  # `bench/` is the first folder of sys.path

ROWS, MOST, PEOPLE_PER_PROMPT = 90_000, 300, 15
"""Conversations, the most of one person, and how many people judge a shared prompt on average."""
TURNS = ("first", "second", "third", "fourth")
LETTERS = "abcd"
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
COLUMNS = (
    *("conversation_id", "annotator_id", "assigned_lang", *(f"annotator_{name}" for name in TRAITS)),
    *("wave", "is_pregenerated_first_prompt", "in_balanced_subset", "in_balanced_subset_10"),
    *(
        f"{turn}_turn_{part}"
        for turn in TURNS
        for part in ("prompt", *(f"response_{letter}" for letter in LETTERS), "preferred_response", "feedback")
    ),
)
Slot = tuple[str, tuple[str, ...], tuple[float, ...]]
"""A prompt, its four answers, and the quality of each."""


class Writer:
    """Prompts and answers of one language, cut from one long text."""

    def __init__(self, language: str, rng: random.Random) -> None:
        words = ["".join(rng.choices(SYLLABLES[language].split(), k=rng.randint(1, 4))) for _ in range(5_000)]
        ends = rng.choices((" ", ", ", ". ", '" ', "\n\n"), (60, 6, 4, 1, 1), k=300_000)
        self._text = "".join(map(str.__add__, rng.choices(words, k=300_000), ends))
        self._rng = rng

    def slot(self) -> Slot:
        """Return a new prompt with four answers."""
        answers = tuple(self.cut(300, 1_500) for _ in LETTERS)
        return self.cut(30, 200), answers, tuple(self._rng.gauss(0, 1) for _ in LETTERS)

    def cut(self, least: int, most: int) -> str:
        """Return a text of `least` to `most` characters."""
        start = self._rng.randrange(len(self._text) - most)
        return self._text[start : start + self._rng.randint(least, most)].strip() + "."


def people(rows: int, rng: random.Random) -> list[tuple[str, int]]:
    """Return the language of each person and how many conversations they leave: many leave few, some leave hundreds."""
    result: list[tuple[str, int]] = []
    left = rows
    while left:
        count = min(left, MOST, int(8 * rng.paretovariate(0.9)) - 7)
        result.append((rng.choice(list(SYLLABLES)), count))
        left -= count
    return result


def choice(slot: Slot, taste: Sequence[float], rng: random.Random) -> int:
    """Return the preferred answer: quality, length (as the person and their group like it), the first place, noise."""
    length, habit = taste
    utility = [
        quality + length * (len(answer) - 900) / 350 + habit * (place == 0) + rng.gauss(0, 1)
        for place, (answer, quality) in enumerate(zip(slot[1], slot[2], strict=True))
    ]
    return utility.index(max(utility))


def conversations(rows: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield the rows of the file, the conversations of one person after those of another."""
    rng = random.Random(seed)
    crowd = people(rows, rng)
    writers = {language: Writer(language, rng) for language in SYLLABLES}
    shared, position = {}, dict.fromkeys(SYLLABLES, 0)
    for language, writer in writers.items():
        total = sum(count // 2 for own, count in crowd if own == language)
        shared[language] = [writer.slot() for _ in range(max(MOST // 2, total // PEOPLE_PER_PROMPT))]
    number = 0
    for person, (language, count) in enumerate(crowd):
        age = rng.randrange(len(AGES))
        taste = (rng.gauss((age - 1.5) / 2, 0.5), rng.expovariate(2))
        background = {f"annotator_{name}": f"{name} {rng.randrange(4)}" for name in TRAITS}
        background |= {"annotator_country": COUNTRIES[language], "annotator_age": AGES[age]}
        background |= {"annotator_id": f"a{person}", "assigned_lang": language, "wave": f"wave{person % 3 + 1}"}
        first = position[language]
        for index in range(count):
            row = dict.fromkeys(COLUMNS, "") | background | {"conversation_id": f"c{number}"}
            row |= {"in_balanced_subset": str(person % 5 == 0), "in_balanced_subset_10": str(person % 10 == 0)}
            slots, is_shared = shared[language], index < count // 2
            if is_shared:
                again = index > 0 and rng.random() < 0.01
                position[language] += not again
                opening = slots[(first if again else position[language]) % len(slots)]
                first = position[language] if index == 0 else first
            else:
                opening = writers[language].slot()
            row["is_pregenerated_first_prompt"] = str(is_shared)
            _fill(row, opening, writers[language], taste=taste, rng=rng)
            number += 1
            yield row


def _fill(row: dict[str, str], opening: Slot, writer: Writer, *, taste: Sequence[float], rng: random.Random) -> None:
    """Put one to four turns into a row; some are without a choice, or with an equal or empty answer."""
    for turn in TURNS[: rng.choices((1, 2, 3, 4), (4, 3, 2, 1))[0]]:
        prompt, answers, _ = slot = opening if turn == "first" else writer.slot()
        preferred, luck = choice(slot, taste, rng), rng.random()
        if luck < 0.003:
            answers = (answers[0], answers[0], *answers[2:])
        elif luck < 0.006:
            answers = (*answers[:3], "EMPTY STRING")
        row[f"{turn}_turn_prompt"] = prompt
        row |= {f"{turn}_turn_response_{letter}": text for letter, text in zip(LETTERS, answers, strict=True)}
        row[f"{turn}_turn_preferred_response"] = "" if luck > 0.996 else f"response_{LETTERS[preferred]}"
        row[f"{turn}_turn_feedback"] = writer.cut(20, 200) if luck > 0.5 else ""


def write_people(path: Path, rows: int = ROWS, seed: int = 0) -> Path:
    """Write a file in the shape of `community_alignment.csv`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(conversations(rows, seed))
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--out", type=Path, help="keep the file here; it is made only where it is missing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.out or Path(folder) / "community_alignment.csv"
        if not path.exists():
            write_people(path, options.rows)
        print(f"{options.rows:,} conversations, {path.stat().st_size / 2**20:.0f} MiB")
        from pluralrm import load_benchmark

        bench = timed("load", lambda: load_benchmark(f"community-alignment:{path}"))
        print(f"{len(bench.items):,} items of {len(bench.users):,} people. {bench.card.load}")


if __name__ == "__main__":
    main()
