"""Rows and runs for tests, as a model would leave them."""

import random
from collections.abc import Callable, Sequence

from pluralrm.core import Failure, Row, Run, Score
from tests.builders import card

RESPONSES = ("response1", "response2", "response3", "response4")
Scorer = Callable[[str, str, str], Score]
"""Takes the record, the prompt's name and a response's name."""


def row(item: str, scores: Sequence[Score], preferred: int | None = 0, **changes: object) -> Row:
    facts: dict[str, object] = {
        "item": item,
        "cluster": f"u-{item}",
        "domain": "Bread",
        "preferred": preferred,
        "scores": tuple(scores),
        "candidate_ids": tuple(f"c{place}" for place in range(len(scores))),
        "lengths": tuple(100 + place for place in range(len(scores))),
        **changes,
    }
    return Row(**facts)  # type: ignore[arg-type]


def run(rows: Sequence[Row], *, model: str = "m", condition: str = "none", **changes: object) -> Run:
    rmgap = bool(rows) and "record" in rows[0].tags
    metrics = ("bon", "pair", "consistency", "all_phrasings") if rmgap else ("accuracy",)
    facts: dict[str, object] = {
        "benchmark": "bakery",
        "card": card(metrics=metrics, average="macro" if rmgap else "micro"),
        "items": len(rows),
        "benchmark_hash": "0123456789abcdef",
        **changes,
    }
    return Run(model=model, condition=condition, rows=tuple(rows), **facts)  # type: ignore[arg-type]


def users(count: int, right: float, *, seed: int = 0, ties: float = 0.0, failures: float = 0.0) -> list[Row]:
    """One item per user over three domains; a seeded model is right, ties or fails with these chances."""
    return [_user(number, random.Random(f"{seed}:{number}"), right, (ties, failures)) for number in range(count)]


def _user(number: int, rng: random.Random, right: float, odds: tuple[float, float]) -> Row:
    preferred = rng.randrange(2)
    scores: list[Score] = [0.0, 0.0]
    if rng.random() >= odds[0]:
        scores[preferred if rng.random() < right else 1 - preferred] = 1.0
    if rng.random() < odds[1]:
        scores[rng.randrange(2)] = Failure("parse", "no verdict")
    domain = ("Bread", "Cake", "Pie")[number % 3]
    lengths = (rng.randint(80, 200), rng.randint(80, 200))
    return row(f"i{number:04}", scores, preferred, domain=domain, lengths=lengths)


def records(count: int, scorer: Scorer, *, seed: int = 0, phrasings: int = 3) -> list[Row]:
    """RMGAP-like rows: four groups per record, group g won by response g, candidates in an order of their own."""
    rows = []
    for number in range(count):
        record = f"r{number:03}"
        for group, winner in enumerate(RESPONSES):
            for phrasing in range(phrasings):
                item = f"{record}/{group}/{phrasing}"
                order = random.Random(f"{seed}:{item}").sample(RESPONSES, 4)
                rows.append(
                    row(
                        item,
                        [scorer(record, item, name) for name in order],
                        order.index(winner),
                        cluster=record,
                        domain=("Chat", "Writing", "Reasoning", "Safety")[number % 4],
                        candidate_ids=tuple(order),
                        lengths=tuple(100 + 17 * RESPONSES.index(name) for name in order),
                        tags={"record": record, "group": str(group), "phrasing": str(phrasing)},
                    )
                )
    return rows


def chance(record: str, item: str, name: str) -> float:
    """Independent scores without ties."""
    return random.Random(f"{record}:{item}:{name}").random()


def prompt_blind(record: str, item: str, name: str) -> float:
    """Reads the response only: one score per response of a record, no two alike."""
    del item
    return random.Random(f"{record}:{name}").random()


def constant(record: str, item: str, name: str) -> float:
    del record, item, name
    return 0.5
