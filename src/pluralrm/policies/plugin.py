"""Other people's policies: `python:package.module:make,key=value`, an object with `answer(asks, draw)`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from pluralrm.core import FINAL_KINDS, OPEN_KINDS, Failure
from pluralrm.errors import PoolError
from pluralrm.http import Settings
from pluralrm.plugin import Maker, Wanted, find
from pluralrm.policies.draw import Draw
from pluralrm.policies.policies import Ask, Policy, Said
from pluralrm.policies.pool import ANSWERED
from pluralrm.specs import Spec

_WANTED = Wanted("policy", "package.module:make", PoolError, "docs/best-of-n.md")


@dataclass(frozen=True)
class PluginPolicy:
    """Somebody's policy under the spec that named it; what it yields is checked before it is kept."""

    spec: str
    identity: Mapping[str, str]
    policy: Policy
    maker: Maker = field(compare=False, repr=False)

    def answer(self, asks: Iterable[Ask], draw: Draw) -> Iterator[Said | Failure]:
        """Yield the policy's answers; what is neither a Said nor a Failure is a PoolError that says what was wanted."""
        stream = self.maker.ask(lambda: iter(self.policy.answer(asks, draw)), "raised")
        done = object()
        while (said := self.maker.ask(lambda: next(stream, done), "raised")) is not done:
            if not _is_answer(said):
                raise PoolError(
                    f"{self.spec} yielded {said!r:.200}; wanted Said(text, finish) with a finish of "
                    f"{', '.join(ANSWERED)}, or a pluralrm.Failure"
                )
            yield cast("Said | Failure", said)


def load(spec: Spec, settings: Settings | None) -> PluginPolicy:  # noqa: ARG001 - its own code has its own means
    """Return the policy that `python:module:make` names, made with the spec's keys."""
    maker = find(spec, _WANTED)
    made = maker.make()
    maker.require(made, {"answer": "answer(asks, draw)"})
    return PluginPolicy(str(spec), maker.identity(made), cast(Policy, made), maker)


def _is_answer(said: object) -> bool:
    if isinstance(said, Failure):
        return said.kind in FINAL_KINDS + OPEN_KINDS
    if not isinstance(said, Said):
        return False
    text: object = said.text
    return isinstance(text, str) and said.finish in ANSWERED
