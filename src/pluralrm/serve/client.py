"""Asks a reward server, with the standard library alone: what a trainer's process imports.

The first call shakes hands: the server has to be of the run that is named, and every later answer has to come from
the same identity. What is busy or gone is asked again until the time is over; then there is an error, never a number.
"""

import http.client
import json
import os
import random
import re
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit

from pluralrm.core import FINAL_KINDS, OPEN_KINDS, Failure, Score
from pluralrm.digests import digest
from pluralrm.errors import OutageError, ServiceError

_LARGEST = (2 - 2**-23) * 2.0**127
"""Of float32; bfloat16 reaches as far, to the last digits."""


def trainable(score: Score) -> Score:
    """Return the score, or the failure `nonfinite` where a tensor of float32 would hold infinity for it."""
    if isinstance(score, Failure) or abs(score) <= _LARGEST:
        return score
    return Failure("nonfinite", f"{score:g} is beyond float32, in which trainers keep rewards")


RUN_HEADER = "x-pluralrm-run"
IDENTITY_HEADER = "x-pluralrm-identity"

_SENDABLE = re.compile(r"[!-~]*")


def sendable(text: str, what: str) -> str:
    """Return a text that fits into a header; the ServiceError about another does not quote it: it may be secret."""
    if not _SENDABLE.fullmatch(text):
        raise ServiceError(
            f"{what}: found a space, a line break or a letter outside ASCII, wanted printable ASCII alone, for it "
            "travels in a header; a file read into a variable may end in a line break"
        )
    return text


@dataclass(frozen=True, slots=True)
class Identity:
    """Which rewards come from here: the model with all that shapes a score, what it sees of the user, for which run.

    `run` is chosen where server and training are started together. A server that was left over from another run has
    another one.
    """

    run: str
    model: str
    condition: str
    benchmark: str
    benchmark_hash: str
    facts: Mapping[str, str]
    reveals: tuple[str, ...]

    @property
    def hash(self) -> str:
        """The hash of all of it but the run: two servers of one hash give the same rewards."""
        return digest({name: value for name, value in self.to_json().items() if name != "run"})

    def to_json(self) -> dict[str, object]:
        """Return the fields under their names."""
        return {**asdict(self), "facts": dict(self.facts), "reveals": sorted(self.reveals)}


Policy = Literal["raise", "mask"]
"""What becomes of a reward that failed: an error that stops the training, or None, which the trainer leaves out."""

_AGAIN = frozenset({408, 429, 502, 503, 504})
_PART = 1024
"""Rollouts in one request, and answers too where a rollout has several: no server takes more rollouts (`dialects.py`),
and one with the usual room takes four such requests at once."""


@dataclass(slots=True)
class RewardCounts:
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
        self._secure, self._host, self._port, self._path = _parts(url)
        self._run, self._token = sendable(run, "the run's name"), sendable(token, "the reward server's token")
        self._seconds, self._expected, self._known = seconds, identity, ""
        self._turn = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()
        weakref.finalize(self, _close, self._idle)
        self.policy: Policy = policy
        self.told = RewardCounts()

    def close(self) -> None:
        """Close every connection that is not in use; a later call opens its own again."""
        with self._turn:
            _close(self._idle)

    @classmethod
    def from_environment(cls, *, policy: Policy = "raise") -> "RewardClient":
        """Return the client that PLURALRM_REWARD_URL, _RUN, _IDENTITY and _TOKEN describe, as a launch script does."""
        values = {name: os.environ.get(f"PLURALRM_REWARD_{name}", "") for name in ("URL", "RUN", "IDENTITY", "TOKEN")}
        if not values["URL"]:
            raise ServiceError("PLURALRM_REWARD_URL is not set; wanted the URL of 'pluralrm serve'")
        return cls(values["URL"], run=values["RUN"], identity=values["IDENTITY"], token=values["TOKEN"], policy=policy)

    def handshake(self) -> Mapping[str, object]:
        """Return what the server says of itself; ServiceError where it is another than is wanted, or wants a token."""
        status, headers, body = self._until("GET", "/health", b"")
        if status != 200:
            raise ServiceError(f"the reward server answers {status} to /health: {body[:200].decode(errors='replace')}")
        identity, authorised = _identity(body)
        self._check(headers | {RUN_HEADER: identity.run, IDENTITY_HEADER: identity.hash})
        if not authorised:
            raise ServiceError(
                f"the reward server wants {'another token' if self._token else 'a token'}: pass token=, or set "
                "PLURALRM_REWARD_TOKEN, to the one that 'pluralrm serve --token-env' was given"
            )
        return identity.to_json()

    def scores(self, rollouts: Sequence[Mapping[str, object]]) -> list[list[Score]]:
        """Return the scores of some rollouts, as `/score` takes them; ServiceError where the server has none.

        More than a server takes at once are asked in parts, in order; each part has the client's seconds.
        """
        return [row for part in _parted(rollouts) for row in self._scored(part)]

    def rewards(self, rollouts: Sequence[Mapping[str, object]]) -> list[list[float | None]]:
        """Return a number for every candidate; a failed one raises, or is None where the policy is to mask.

        An outage during one part of many rollouts masks the rewards of that part alone.
        """
        rows = (row for part in _parted(rollouts) for row in self._scored_or_masked(part))
        return [[self._reward(score) for score in row] for row in rows]

    def _scored_or_masked(self, part: Sequence[Mapping[str, object]]) -> list[list[Score]]:
        try:
            return self._scored(part)
        except OutageError as exc:
            if self.policy == "raise":
                raise
            failure = Failure("transport", str(exc))
            return [[failure] * len(_candidates(rollout)) for rollout in part]

    def _scored(self, part: Sequence[Mapping[str, object]]) -> list[list[Score]]:
        if not self._known:
            self.handshake()
        body = json.dumps({"rollouts": list(part)}).encode()
        status, headers, answer = self._until("POST", "/score", body)
        if status != 200:
            raise ServiceError(f"the reward server refused with {status}: {answer[:300].decode(errors='replace')}")
        self._check(headers)
        return _scores(answer, [len(_candidates(rollout)) for rollout in part])

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
        deadline = _Deadline(connection, left)
        headers = {RUN_HEADER: self._run, "content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            with deadline:
                try:
                    connection.request(method, f"{self._path}{path}", body, headers)
                except (BrokenPipeError, ConnectionResetError):
                    if connection.sock is None:
                        raise
                    # Refused before all of it was sent: the answer says why.
                deadline.sock = connection.sock
                response = connection.getresponse()
                answer = response.read()
        except BaseException:
            connection.close()
            raise
        with self._turn:
            self._idle.append(connection)
        return response.status, {name.lower(): value for name, value in response.getheaders()}, answer

    def _connection(self) -> http.client.HTTPConnection:
        """Return an idle connection; one that was closed opens itself again."""
        with self._turn:
            if self._process != os.getpid():  # after a fork the parent reads from the same sockets
                self._process, self._idle[:] = os.getpid(), []
            if self._idle:
                return self._idle.pop()
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port)

    def _check(self, headers: Mapping[str, str]) -> None:
        """Raise unless an answer comes from the run and the identity that are wanted."""
        run, identity = headers.get(RUN_HEADER, ""), headers.get(IDENTITY_HEADER, "")
        if run != self._run:
            raise ServiceError(
                f"the reward server is of run {run!r}, wanted {self._run!r}: it was left over, or replaced"
            )
        with self._turn:  # of two threads that ask first, one says which server is known
            expected = self._known or self._expected or identity
            if identity and identity == expected:
                self._known = identity
                return
        raise ServiceError(
            f"the reward server is not the one that was asked before or is wanted: identity {identity[:12]!r}, "
            f"wanted {expected[:12]!r}; its model, condition or benchmark differs"
        )


class _Deadline:
    """Ends what a connection is at after so many seconds: its socket's own time-out begins anew with every byte."""

    def __init__(self, connection: http.client.HTTPConnection, seconds: float) -> None:
        self._connection = connection
        self.sock: socket.socket | None = None
        """Of the answer: the connection forgets it where the answer says that it is the last."""
        self._passed = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._timer.cancel()
        # Also where nothing was raised: the beginning of an answer that says no length reads as all of it.
        if self._passed and (exc is None or isinstance(exc, OSError | http.client.HTTPException)):
            raise TimeoutError("the answer did not arrive whole in time") from exc

    def _end(self) -> None:
        self._passed = True
        if (sock := self.sock or self._connection.sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _parted(rollouts: Sequence[Mapping[str, object]]) -> Iterator[list[Mapping[str, object]]]:
    """Yield the rollouts in order, in parts that a server takes; a rollout is never cut."""
    part: list[Mapping[str, object]] = []
    answers = 0
    for rollout in rollouts:
        more = len(_candidates(rollout))
        if part and (len(part) == _PART or answers + more > _PART):
            yield part
            part, answers = [], 0
        part.append(rollout)
        answers += more
    if part:
        yield part


def _close(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    """Return whether it is secure, host, port and path."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as exc:
        raise ServiceError(f"reward server {url!r}: {exc}; wanted a URL such as http://127.0.0.1:8400") from exc
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ServiceError(f"reward server {url!r}: wanted a URL such as http://127.0.0.1:8400")
    return parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/")


def _identity(body: bytes) -> tuple[Identity, bool]:
    """Return what the server says of itself, and whether it would score for us; the hash is computed here."""
    try:
        fields = json.loads(body)
        return Identity(**fields["identity"]), fields["authorised"] is True
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise ServiceError(
            f"what answers is no reward server of this version: /health says {body[:80].decode(errors='replace')!r}; "
            "start 'pluralrm serve', and see that the URL and its port are the server's"
        ) from exc


def _scores(answer: bytes, counts: Sequence[int]) -> list[list[Score]]:
    """Return the scores that an answer holds, as many as there are candidates; a ServiceError about any other."""
    try:
        rows: list[list[object]] = json.loads(answer)["scores"]
        lengths = [len(row) for row in rows]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise ServiceError(f"the reward server sent no scores: {answer[:80].decode(errors='replace')!r}") from exc
    if lengths != list(counts):
        raise ServiceError(f"the reward server sent {lengths} scores per rollout, wanted {list(counts)}")
    return [[_score(score) for score in row] for row in rows]


def _candidates(rollout: Mapping[str, object]) -> Sequence[object]:
    candidates = rollout.get("candidates", ())  # without any, the server says what is wanted
    return candidates if isinstance(candidates, (list, tuple)) else [candidates]


def _score(value: object) -> Score:
    if isinstance(value, dict) and value.get("failure") in FINAL_KINDS + OPEN_KINDS:
        return Failure(value["failure"], str(value.get("detail", "")))
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ServiceError(
            f"the reward server sent {str(value)[:80]!r} for a score; wanted a finite number or a failure"
        )
    return trainable(float(value))


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0
