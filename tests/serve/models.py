"""Reward models that go wrong, for a server in a process of its own: `python:tests.serve.models:Panics`."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pluralrm.core import Query, Verdict


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
