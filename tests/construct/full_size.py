"""A file of Personalized RewardBench's true size, in invented words: 2,830 questions, 348,000 posts, very uneven."""

import json
from pathlib import Path

import numpy as np

ITEMS = {"Art_and_Entertainment": 767, "Lifestyle_and_Personal_Development": 989, "Society_and_Culture": 1_074}
POSTS = 348_000


def write_prb(folder: Path, *, posts: int = POSTS, shrink: int = 1, seed: int = 0) -> None:
    """Write one JSONL file for each domain; `shrink` divides the number of items.

    Users have between one and some thousand posts (log-normal), posts between three and some hundred words; words
    follow Zipf's law over 60,000, one post in fifty is copied from another user and one in fifty from the same one.
    """
    rng = np.random.default_rng(seed)
    names = [f"{domain}_{n}" for domain, count in ITEMS.items() for n in range(-(-count // shrink))]
    weight = rng.lognormal(0, 1.2, len(names))
    counts = np.maximum(1, np.floor(weight / weight.sum() * posts)).astype(int)
    counts[int(counts.argmax())] += posts - int(counts.sum())
    words = [f"{'bcdfghklmnprst'[n % 14]}{'aeiou'[n // 14 % 5]}{n:x}" for n in range(60_000)]
    chance = 1 / np.arange(1, len(words) + 1)
    writer = _Writer(rng, words, np.cumsum(chance / chance.sum()))
    owners = dict(zip(names, counts.tolist(), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    known: list[str] = []
    for domain in ITEMS:
        with (folder / f"{domain}.jsonl").open("w") as file:
            for name in (name for name in names if name.startswith(domain)):
                file.write(json.dumps(_row(writer, name, owners[name], known)) + "\n")


class _Writer:
    def __init__(self, rng: np.random.Generator, words: list[str], cumulative: np.ndarray) -> None:
        self.rng, self.words, self.cumulative = rng, words, cumulative

    def text(self, length: int) -> str:
        """Return so many words, in sentences of a dozen."""
        places = np.searchsorted(self.cumulative, self.rng.random(length))
        drawn = [self.words[min(place, len(self.words) - 1)] for place in places.tolist()]
        return ". ".join(" ".join(drawn[start : start + 12]) for start in range(0, length, 12)) + "."


def _row(writer: _Writer, name: str, posts: int, known: list[str]) -> dict[str, object]:
    rng = writer.rng
    profile: list[dict[str, str]] = []
    for place, size in enumerate(np.clip(rng.lognormal(4.2, 0.8, posts), 3, 600).astype(int).tolist()):
        copied = rng.random()
        if copied < 0.02 and known:
            text = known[int(rng.integers(len(known)))]
        elif copied < 0.04 and profile:
            text = profile[int(rng.integers(len(profile)))]["text"]
        else:
            text = writer.text(size)
        profile.append({"id": f"{name}-{place}", "category": "made up", "text": text})
    known.append(profile[0]["text"])
    aspects = [{"aspect": writer.text(5), "evidence": writer.text(20), "reason": writer.text(15)} for _ in range(4)]
    return {
        "id": name,
        "question": writer.text(25),
        "category": "made up",
        "narrative": writer.text(60),
        "profile": profile,
        "rubric_aspects": aspects,
        "chosen": writer.text(int(rng.integers(70, 100))),
        "rejected": writer.text(int(rng.integers(70, 100))),
    }
