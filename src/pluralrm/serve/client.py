"""Asks a reward server, with the standard library alone: what a trainer's process imports.

The first call shakes hands: the server has to be of the run that is named, and every later answer has to come from
the same identity. What is busy or gone is asked again until the time is over; then there is an error, never a number.
"""

import http.client
import json
import os
import random
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pluralrm.core import Failure, Score
from pluralrm.errors import OutageError, ServiceError
from pluralrm.serve.identity import IDENTITY_HEADER, RUN_HEADER, Identity

Policy = Literal["raise", "mask"]
"""What becomes of a reward that failed: an error that stops the training, or None, which the trainer leaves out."""

_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(slots=True)
class Told:
    """What became of the rewards so far."""

    rewards: int = 0
    failed: int = 0
    again: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


class RewardClient:
    """A server by its URL, of one run; safe to share among threads."""

    def __init__(
        self,
        url: str,
        *,
        run: str,
        identity: str = "",
        token: str = "",
        policy: Policy = "raise",
        seconds: float = 300.0,
    ) -> None:
        if not run:
            raise ServiceError(
                "a reward client needs the run that its server was started for (serve --run NAME): without it a server "
                "that was left over from another run would reward this one"
            )
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ServiceError(f"reward server {url!r}: wanted a URL such as http://127.0.0.1:8400")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path, self._run, self._token, self._seconds = parts.path.rstrip("/"), run, token, seconds
        self._expected, self._known = identity, ""
        self._local, self._turn = threading.local(), threading.Lock()
        self._connections: list[http.client.HTTPConnection] = []
        weakref.finalize(self, _close, self._connections)
        self.policy: Policy = policy
        self.told = Told()

    def close(self) -> None:
        """Close every connection; a later call opens its own again."""
        _close(self._connections)

    @classmethod
    def from_environment(cls, *, policy: Policy = "raise") -> "RewardClient":
        """Return the client that PLURALRM_REWARD_URL, _RUN, _IDENTITY and _TOKEN describe, as a launch script does."""
        named = {name: os.environ.get(f"PLURALRM_REWARD_{name}", "") for name in ("URL", "RUN", "IDENTITY", "TOKEN")}
        if not named["URL"]:
            raise ServiceError("PLURALRM_REWARD_URL is not set; wanted the URL of 'pluralrm serve'")
        return cls(named["URL"], run=named["RUN"], identity=named["IDENTITY"], token=named["TOKEN"], policy=policy)

    def handshake(self) -> Mapping[str, object]:
        """Return what the server says of itself; ServiceError where it is not the one that is wanted."""
        status, headers, body = self._until("GET", "/health", b"")
        if status != 200:
            raise ServiceError(f"the reward server answers {status} to /health: {body[:200].decode(errors='replace')}")
        told = json.loads(body)
        self._check(headers | {RUN_HEADER: str(told["identity"]["run"]), IDENTITY_HEADER: _rehashed(told)})
        found: Mapping[str, object] = told["identity"]
        return found

    def scores(self, rollouts: Sequence[Mapping[str, object]]) -> list[list[Score]]:
        """Return the scores of some rollouts, as `/score` takes them; ServiceError where the server has none."""
        if not self._known:
            self.handshake()
        body = json.dumps({"rollouts": list(rollouts)}).encode()
        status, headers, answer = self._until("POST", "/score", body)
        if status != 200:
            raise ServiceError(f"the reward server refused with {status}: {answer[:300].decode(errors='replace')}")
        self._check(headers)
        return [[_score(one) for one in row] for row in json.loads(answer)["scores"]]

    def rewards(self, rollouts: Sequence[Mapping[str, object]]) -> list[list[float | None]]:
        """Return a number for every candidate; a failed one raises, or is None where the policy is to mask."""
        try:
            found = self.scores(rollouts)
        except OutageError as exc:
            if self.policy == "raise":
                raise
            failure = Failure("transport", str(exc))
            found = [[failure] * len(_candidates(rollout)) for rollout in rollouts]
        return [[self._reward(score) for score in row] for row in found]

    def _reward(self, score: Score) -> float | None:
        with self._turn:
            if not isinstance(score, Failure):
                self.told.rewards += 1
                return score
            self.told.failed += 1
            self.told.reasons[score.kind] = self.told.reasons.get(score.kind, 0) + 1
        if self.policy == "raise":
            raise ServiceError(f"no reward ({score.kind}: {score.detail}); policy='mask' would leave it out")
        return None

    def _until(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Return the first answer that asking again would not change; OutageError where there is none in time."""
        until, wait, problem = time.monotonic() + self._seconds, 0.25, "no attempt"
        while (left := until - time.monotonic()) > 0:
            try:
                status, headers, answer = self._once(method, path, body, left)
            except (OSError, http.client.HTTPException) as exc:
                problem, after = f"{type(exc).__name__}: {exc}", wait
            else:
                if status not in _AGAIN:
                    return status, headers, answer
                problem = f"{status} {answer[:200].decode(errors='replace')}"
                after = max(wait, _seconds(headers.get("retry-after", "")))
            with self._turn:
                self.told.again += 1
            time.sleep(min(max(0.0, until - time.monotonic()), after * random.uniform(1.0, 1.25)))
            wait = min(5.0, 2 * wait)
        raise OutageError(f"the reward server gave no answer within {self._seconds:g} s; last: {problem}")

    def _once(self, method: str, path: str, body: bytes, left: float) -> tuple[int, dict[str, str], bytes]:
        connection = self._connection()
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)
        headers = {RUN_HEADER: self._run, "content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, f"{self._path}{path}", body, headers)
            response = connection.getresponse()
            answer = response.read()
        except BaseException:
            connection.close()
            raise
        return response.status, {name.lower(): value for name, value in response.getheaders()}, answer

    def _connection(self) -> http.client.HTTPConnection:
        """Return this thread's connection; it opens itself again after it was closed."""
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            found = self._local.connection = kind(self._host, self._port)
            self._connections.append(found)
        return found

    def _check(self, headers: Mapping[str, str]) -> None:
        """Raise unless an answer comes from the run and the identity that are wanted."""
        run, identity = headers.get(RUN_HEADER, ""), headers.get(IDENTITY_HEADER, "")
        if run != self._run:
            raise ServiceError(
                f"the reward server is of run {run!r}, wanted {self._run!r}: it was left over, or replaced"
            )
        wanted = self._known or self._expected or identity
        if not identity or identity != wanted:
            raise ServiceError(
                f"the reward server is not the one that was asked before or is wanted: identity {identity[:12]!r}, "
                f"wanted {wanted[:12]!r}; its model, condition or benchmark differs"
            )
        self._known = identity


def _close(connections: Sequence[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _rehashed(told: Mapping[str, dict[str, object]]) -> str:
    """Return the hash of what the server says of itself, which it has to be the hash of."""
    fields = dict(told["identity"])
    return Identity(**fields).hash  # type: ignore[arg-type] # as the server wrote them


def _candidates(rollout: Mapping[str, object]) -> Sequence[object]:
    found = rollout["candidates"]
    return found if isinstance(found, (list, tuple)) else [found]


def _score(value: object) -> Score:
    if isinstance(value, dict):
        return Failure(value["failure"], str(value.get("detail", "")))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServiceError(f"the reward server sent {value!r} for a score")
    return float(value)


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() else 0.0
