"""An uneven benchmark, models on it, and the files in which others would have published what they said."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pluralrm.benchmarks import placed
from pluralrm.core import Benchmark, Failure, Item, Query, Run, User, Verdict
from tests.builders import card

Json = Mapping[str, object]


def uneven(count: int = 40, *, widths: Sequence[int] = (2, 2, 3, 12), best: int = 1, name: str = "uneven") -> Benchmark:
    """Return items of several widths, people who come twice, and prompts that are asked twice; `best` are right."""
    items = []
    for number in range(count):
        width = widths[number % len(widths)]
        right = min(best, width - 1)
        names = [f"chosen{i}" for i in range(right)] + [f"rejected{i}" for i in range(width - right)]
        answers = {key: f"answer {key} to {number}" for key in names}
        order = placed(answers, f"i{number}", 0)
        items.append(
            Item(
                id=f"i{number}",
                prompt=f"prompt {number // 2 if width == 2 else number}",
                candidates=tuple(answers[key] for key in order),
                preferred=None,
                grades=tuple(float(key.startswith("chosen")) for key in order),
                cluster=f"u{number // 3}",
                domain=("a", "b")[number % 2],
                candidate_ids=tuple(order),
                user=User(f"u{number // 3}"),
            )
        )
    return Benchmark(card(name), tuple(items))


def pairs(count: int = 30) -> Benchmark:
    """Return pairs whose candidates are A and B, the right one now the one and now the other."""
    items = []
    for number in range(count):
        order, right = placed("AB", f"p{number}", 0), "AB"[number % 3 == 0]
        items.append(
            Item(
                id=f"p{number}",
                prompt=f"question {number}",
                candidates=tuple(f"text {key} of {number}" for key in order),
                preferred=order.index(right),
                cluster=f"u{number // 2}",
                domain="all",
                candidate_ids=tuple(order),
            )
        )
    return Benchmark(card("pairs"), tuple(items))


@dataclass
class Seeded:
    """A model whose scores depend on the answers' texts; some tie, and some items fail."""

    seed: int
    ties: float = 0.2
    failures: float = 0.0
    spec: str = "seeded"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            rng = random.Random(f"{self.seed}:{query.id}")
            if rng.random() < self.failures:
                yield Verdict.failed("empty", "nothing", len(query.candidates))
                continue
            level = 3 if rng.random() < self.ties else 10**9
            yield Verdict(tuple(random.Random(f"{self.seed}:{text}").randrange(level) / 7 for text in query.candidates))


def by_name(run: Run, item: str) -> dict[str, float | None]:
    """Return an item's scores by the candidates' names."""
    row = next(row for row in run.rows if row.item == item)
    scores = [None if isinstance(score, Failure) else score for score in row.scores]
    return dict(zip(row.candidate_ids, scores, strict=True))


def source_order(item: Item) -> list[str]:
    """Return the candidates' names as the source has them: the right ones first."""
    return sorted(
        item.candidate_ids, key=lambda name: (name.rstrip("0123456789"), int(name.lstrip("abcdehjnorst") or 0))
    )


def write(file: Path, rows: Sequence[Json], *, shuffle: int = 0) -> Path:
    """Write JSON lines, in an order of their own."""
    drawn = random.Random(shuffle).sample(list(rows), len(rows))
    file.write_text("".join(json.dumps(row) + "\n" for row in drawn), encoding="utf-8")
    return file


def scores_file(bench: Benchmark, run: Run) -> list[Json]:
    return [
        {"item": item.id, "candidate": name, "score": score}
        for item in bench.items
        for name, score in by_name(run, item.id).items()
    ]


def numbered_file(bench: Benchmark, run: Run) -> list[Json]:
    return [
        {"item": item.id, "candidate": number, "score": by_name(run, item.id)[name]}
        for item in bench.items
        for number, name in enumerate(source_order(item))
    ]


def rewardbench2_file(bench: Benchmark, run: Run) -> list[Json]:
    return [
        {
            "id": item.id,
            "subset": item.domain,
            "num_correct": len(item.best),
            "scores": [by_name(run, item.id)[name] for name in source_order(item)],
            "results": 1,
        }
        for item in bench.items
    ]


def rewardmath_file(bench: Benchmark, run: Run) -> list[Json]:
    rows: list[Json] = [
        {
            "problem": f"  {item.prompt} \n",
            "solution_reference": source_order(item),
            "score": [by_name(run, item.id)[name] for name in source_order(item)],
        }
        for item in bench.items
    ]
    return rows


def judgebench_file(bench: Benchmark, run: Run) -> list[Json]:
    rows: list[Json] = []
    for item in bench.items:
        a, b = (by_name(run, item.id)[name] for name in "AB")
        calls = [{"judgment": {"scores": shown, "prompt": ""}, "decision": "B>A"} for shown in ([a, b], [b, a])]
        label = "A>B" if item.preferred == item.candidate_ids.index("A") else "B>A"
        rows.append({"pair_id": item.id, "label": label, "judge_name": "reward_model", "judgments": calls})
    return rows
