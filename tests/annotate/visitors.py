"""Simulated annotators over real HTTP, as the page behaves: what was not acknowledged is sent again, under its id."""

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.annotate.serving import Body, Reply, ask, judgment, send

_PATIENCE = 120.0


@dataclass
class Visitor:
    """Somebody who judges everything, with a bad connection, a nervous finger and second thoughts."""

    name: str
    port: int
    token: str
    task: str = "pair"
    acknowledged: list[Body] = field(default_factory=list)
    stands: dict[str, Body] = field(default_factory=dict)
    """What this person last said of each item, and was acknowledged."""
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.name)

    def judge_all(self) -> None:
        """Judge until nothing is left."""
        queue = self._resume()
        while queue:
            self._say(self._opinion(queue.pop(0)))
            mood = self._rng.random()
            if mood < 0.12:
                self._back()
            elif mood < 0.2:
                queue = self._undo() + queue
            elif mood < 0.35:
                self._count("closed the tab")
                queue = self._resume()

    def _resume(self) -> list[str]:
        """Open the page anew: it says where this person was, and no other place."""
        items = self._until(lambda: ask(self.port, "/api/state", token=self.token)).body["items"]
        for one in items:
            mine = self.stands.get(one["item"])
            revision, judged = (mine["revision"], mine["answers"] is not None) if mine else (0, False)
            if (one["revision"], one["judged"]) != (revision, judged):
                self.wrong.append(f"{self.name} resumed at {one}, left at {revision, judged}")
        return [one["item"] for one in items if not one["judged"]]

    def _back(self) -> None:
        """Go back to an item, see what one said, and say something else."""
        self._count("went back")
        item = self._rng.choice(list(self.stands))
        before = self.stands[item]
        shown = self._until(lambda: ask(self.port, f"/api/items/{item}", token=self.token)).body
        if shown["said"] != {"answers": before["answers"]}:
            self.wrong.append(f"{self.name} found {shown['said']}, had said {before}")
        if before["answers"] is not None:
            self._say(self._opinion(item))

    def _undo(self) -> list[str]:
        self._count("took back")
        item = list(self.stands)[-1]
        if self.stands[item]["answers"] is None:
            return []
        self._say({**self._opinion(item), "answers": None})
        return [item]

    def _opinion(self, item: str) -> Body:
        revision = self.stands[item]["revision"] + 1 if item in self.stands else 1
        return judgment(item, self._rng, revision=revision, task=self.task, comment=f"by {self.name}")

    def _say(self, said: Body) -> None:
        """Send until it is acknowledged; on the way connections break, and clicks are doubled."""
        if self._rng.random() < 0.25:
            self._count("dropped")
            self._drop(said)
        if self._rng.random() < 0.25:
            self._count("doubled")
            twins = [threading.Thread(target=self._once, args=(said,)) for _ in range(2)]
            for twin in twins:
                twin.start()
            for twin in twins:
                twin.join()
        reply = self._until(lambda: ask(self.port, "/api/judgments", token=self.token, body=said))
        if reply.status != 200:
            self.wrong.append(f"{self.name}: {reply.status} {reply.raw!r} for {said}")
        self.acknowledged.append(said)
        self.stands.pop(said["item"], None)
        self.stands[said["item"]] = said

    def _drop(self, said: Body) -> None:
        """Break off, with half of the body sent or before the answer came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        whole = json.dumps(said).encode()
        sent = whole if self._rng.random() < 0.6 else whole[: len(whole) // 2]
        try:
            send(connection, "/api/judgments", token=self.token, body=sent, Content_Length=str(len(whole)))
        except OSError:
            pass
        finally:
            connection.close()

    def _once(self, said: Body) -> None:
        try:
            ask(self.port, "/api/judgments", token=self.token, body=said)
        except (OSError, http.client.HTTPException):
            return

    def _until(self, asked: Callable[[], Reply]) -> Reply:
        """Ask until there is an answer, as the page does."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                reply = asked()
            except (OSError, http.client.HTTPException):
                self._count("unanswered")
                time.sleep(0.05)
            else:
                if reply.status != 429:
                    return reply
                self._count("told to wait")
                time.sleep(float(reply.headers["retry-after"]))
            assert time.monotonic() < end, f"{self.name}: no answer"

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
