"""`simulated`: a policy that answers the questions of simulated users, without a network.

>>> from pluralrm.benchmarks import load_benchmark
>>> prompt = load_benchmark("simulated:users=1,items=1").items[0].prompt
>>> policy = Simulated()
>>> from pluralrm.core import Query
>>> [said.finish for said in policy.answer([Ask(Query("q1", prompt, ()), 0, seed=7)], Draw(n=1))]
['stop']

Each attribute of an answer has any of its levels with the same probability, whoever asks. Where all are equally likely,
neither a temperature nor a nucleus changes anything.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pluralrm.benchmarks.simulated.texts import attributes, texts_hash, topic_of, write_answer
from pluralrm.core import Failure
from pluralrm.http import Settings
from pluralrm.policies.draw import Draw
from pluralrm.policies.policies import Ask, Said
from pluralrm.specs import Spec


@dataclass(frozen=True, slots=True)
class Simulated:
    """A policy that knows how to answer, and nothing of who asks."""

    spec: str = "simulated"

    @property
    def identity(self) -> Mapping[str, str]:
        """The sentences that answers are made of."""
        return {"texts": texts_hash()}

    def answer(self, asks: Iterable[Ask], draw: Draw) -> Iterator[Said | Failure]:  # noqa: ARG002 - all equally likely
        """Yield one answer per ask, whole whatever its length; a prompt of another benchmark is `unsupported`."""
        return map(_answer, asks)


def simulated(spec: Spec, _: Settings | None) -> Simulated:
    """Return the policy of `simulated`."""
    return Simulated(str(spec))


def _answer(ask: Ask) -> Said | Failure:
    topic = topic_of(ask.query.prompt)
    if topic is None:
        return Failure("unsupported", "the prompt is not a question of the simulated benchmark")
    rng = random.Random(ask.seed)
    levels = {attribute.name: rng.choice(list(attribute.levels)) for attribute in attributes()}
    return Said(write_answer(topic, levels, rng), "stop")
