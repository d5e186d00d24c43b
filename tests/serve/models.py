"""Reward models that go wrong, for a server in a process of its own: `python:tests.serve.models:Panics`."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pluralrm.core import Failure, Query, Verdict


class Unforeseen(BaseException):
    """What a library in another language raises when it panics: no Exception."""


class Panics:
    """Gives lengths, until somebody says `panic`."""

    spec = "panics"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            if "panic" in query.candidates:
                raise Unforeseen("the tokenizer is gone")
            yield Verdict(tuple(float(len(one)) for one in query.candidates))


class Stuck:
    """Never comes back; the file `taken` says that it was asked."""

    spec = "stuck"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            Path("taken").touch()
            time.sleep(1000)
            yield Verdict((0.0,) * len(query.candidates))


class Read:
    """Gives the numbers that an answer names, `USER OWN OTHER SECOND`: the second under the posts of anybody else."""

    spec = "read"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            owner = query.user.posts[0].text if query.user and query.user.posts else ""
            rows = [text.split() for text in query.candidates]
            yield Verdict(tuple(float(row[1] if owner == row[0] else row[2]) for row in rows))


class ReadSecond:
    """Gives the last number that an answer names; a word there is a failure."""

    spec = "read-second"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            words = [text.split()[-1] for text in query.candidates]
            yield Verdict(tuple(Failure("unsupported", word) if word == "none" else float(word) for word in words))
