"""Simulated users: latent tastes, posts that reveal them noisily, and the best attainable accuracy known exactly.

>>> bench = load(Spec("simulated", options={"users": "40"}), seed=0)
>>> len(bench.items), len(bench.users)
(160, 40)

`ceilings.py` says how good any scorer can be on these items when it knows the taste, the posts or nothing;
`scorers.py` has the three scorers that get there. docs/simulated.md says how a user comes to choose.
"""

from dataclasses import replace
from functools import lru_cache

from pluralrm.benchmarks.simulated.population import population
from pluralrm.benchmarks.simulated.tastes import RANGES, SimulationSettings, read_settings
from pluralrm.benchmarks.simulated.texts import texts_hash
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Form, Spec, parse

CARD = Card(
    name="simulated",
    summary="Simulated users whose best attainable accuracy is known: taste known, posts known, nothing known",
    licence="Apache-2.0",
    source="drawn from a seed; the sentences were written for this project",
    labelled="by a Bradley-Terry draw from the utilities that the user's latent taste gives the answers",
    citation="The pluralrm developers. Simulated users, part of pluralrm.",
    notes="For testing methods, not for ranking models: no person is behind these tastes. Posts and answers are put "
    "together from written sentences, so a model can be good here by learning the sentences. With crowd=0 and two "
    "answers nothing is to be had without the user: answers alone are at .5 exactly, at any length and in any place. "
    "With three or four, the odd one out wins a little more often.",
)

_LEAK = "with probability {:g} the label is the longest answer, for any user"
_GENERAL = "with probability {:g} the other answers are about another topic, and the label is the one to the point"

FORM = Form("optional", tuple(RANGES))
"""What the spec accepts; the target is the first key=value, as in `simulated:users=200,items=4`."""


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the simulated benchmark of a spec; `seed` places the candidates, the spec's own seed makes the world."""
    return _world(read_settings(spec), seed)


@lru_cache(maxsize=8)  # a study, a training and a report read the same one many times; nothing of it can be changed
def _world(settings: SimulationSettings, seed: int) -> Benchmark:
    card = replace(CARD, revision=f"{settings} (texts {texts_hash()})")
    if settings.groups:
        card = replace(
            card, notes=f"{CARD.notes.partition(' With crowd=0')[0]} People of a group have tastes in common."
        )
    for name, share, rule in (("leaky", settings.leak, _LEAK), ("general", settings.general, _GENERAL)):
        if share:
            notes = f"{CARD.notes.partition(' With crowd=0')[0]} Labels can be guessed without the user."
            labelled = f"{rule.format(share)}; else {card.labelled}"
            card = replace(card, name=f"{card.name}-{name}", labelled=labelled, notes=notes)
    return Benchmark(card, tuple(population(settings, seed)), seed)


def settings_of(benchmark: Benchmark) -> SimulationSettings:
    """Return the settings by which a benchmark was made; one made elsewhere, or with other texts, is an error."""
    spec, _, texts = benchmark.card.revision.partition(" ")
    if not spec.startswith(f"{CARD.name},"):
        raise BenchmarkError(f"found {benchmark.card.name!r}, wanted a simulated benchmark: no other taste is known")
    if texts != f"(texts {texts_hash()})":
        raise BenchmarkError(f"found a benchmark of {texts or 'no texts'}, wanted (texts {texts_hash()}): make it anew")
    return read_settings(parse(spec, {CARD.name: FORM}, noun="benchmark"))
