"""Servers that err: outages, cut and empty replies, resets, at random; and what a run over them must be in the end."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pluralrm.core import Run
from pluralrm.http import Settings
from pluralrm.runs import score
from tests.builders import bakery
from tests.fake_chat import Action, FakeChat, Seen, reply, reset, say, status, truncated

ITEMS = 24
IMPATIENT = Settings(attempts=2, attempt_seconds=5, concurrency=4)


def honest(seen: Seen) -> Action:
    """Prefer an answer by its text alone, whatever is tried for the second time."""
    return say(f"Compared.\nResult: {'A' if len(str(seen.body['messages'][0]['content'])) % 2 else 'B'}")


def erring(share: float, seed: int) -> Callable[[Seen], Action]:
    """Return the honest server with so many outages of all kinds: what it says at last is what it always says."""
    rng = random.Random(seed)
    kinds: tuple[Callable[[Seen], Action], ...] = (
        lambda _: status(500),
        lambda _: status(503),
        lambda _: status(429, retry_after="0"),
        lambda _: reset,
        lambda seen: truncated(honest(seen)),
        lambda _: reply({"error": "no"}),
        lambda _: Action(200, b"[" * 100_000, {"Content-Type": "application/json"}),
    )
    return lambda seen: rng.choice(kinds)(seen) if rng.random() < share else honest(seen)


@dataclass(frozen=True)
class Weather:
    """A server that errs for some runs, and is well after that."""

    share: float
    seed: int
    runs: int = 3

    def finding(self, place: Path) -> str | None:
        """Return what did not hold, or None: no verdict that the honest server does not give, and all in the end."""
        bad, well = erring(self.share, self.seed), [False]

        def answer(seen: Seen) -> Action:
            return honest(seen) if well[0] else bad(seen)

        with FakeChat(answer) as server:
            whole = scored(server.url, place / "whole", well, healthy=True)
            wanted = {row.item: row.scores for row in whole.rows}
            for number in range(self.runs):
                run = scored(server.url, place / "out", well, healthy=False)
                for row in run.rows:
                    if not row.failed and row.scores != wanted[row.item]:
                        return f"seed {self.seed}, run {number}: item {row.item} has another verdict"
                    if row.failed and not row.open:
                        return f"seed {self.seed}, run {number}: item {row.item} failed for good: {row.scores}"
                if run.complete != all(not row.open for row in run.rows):
                    return f"seed {self.seed}, run {number}: complete with open items, or incomplete without"
            last = scored(server.url, place / "out", well, healthy=True)
            calls = len(server.requests)
            scored(server.url, place / "out", well, healthy=True)
            if len(server.requests) != calls:
                return f"seed {self.seed}: a finished run asked again"
        if {row.item: row.scores for row in last.rows} != wanted or not last.complete:
            return f"seed {self.seed}: in the end the rows are others"
        return None


def scored(url: str, out: Path, well: list[bool], *, healthy: bool) -> Run:
    """Score with a judge; each folder has a cache of its own, so that the second run of one asks nothing twice."""
    well[0] = healthy
    settings = replace(IMPATIENT, cache=out.with_name(f"{out.name}-cache"))
    return score(bakery(ITEMS), f"judge:m,url={url}", "raw:2", out=out, settings=settings)
