"""Signs that weights give: a few queries are scored in several ways, which have to agree."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from pluralrm.core import Failure, Query, Score, Verdict
from pluralrm.doctor import Sign, agreement, score_drift
from pluralrm.doctor.tokens import Look
from pluralrm.models import load_model, parse_model
from pluralrm.models.logprob import ChoiceModel, Ratio
from pluralrm.models.neural.engine import Calculator, Engine
from pluralrm.models.neural.kind import NeuralModel
from pluralrm.models.neural.loading import WholeHead, WholeLanguageModel, stored_dtypes
from pluralrm.models.neural.trees import StateRequest, grow

_EXACT = ("float32", "float64")
_BEFORE, _AFTER = "Well now. ", " So much for that."


def score_signs(model: NeuralModel, looks: Sequence[Look], *, items: int) -> list[Sign]:
    """Return what scores of a few looks tell, the sample first; `items` is how many the benchmark has."""
    queries = [look.query for look in looks]
    alone = [verdict for query in queries for verdict in model.score([query])]
    start = time.perf_counter()
    together = list(model.score(queries))
    seconds = time.perf_counter() - start
    used = dtypes(model.network())
    return [
        dtype(used, sorted({kind for folder in model.folders.values() for kind in stored_dtypes(folder)})),
        batching(alone, together, used=used),
        packing(model, queries, together, used=used),
        order(model, queries, together, used=used),
        reach(model, queries[0]),
        speed(model, looks, seconds, items=items),
    ]


# ---------------------------------------------------------------- dtype


def dtypes(network: Calculator) -> list[str]:
    """Return how a network holds its numbers; a ratio has two."""
    if isinstance(network, Ratio):
        return sorted({*dtypes(network.policy), *dtypes(network.reference)})
    return [network.dtype] if isinstance(network, Engine | WholeHead | WholeLanguageModel) else []


def exact_twin(model: NeuralModel) -> NeuralModel:
    """Return the same model, to be opened in float32."""
    spec = parse_model(model.spec)
    return cast("NeuralModel", load_model(str(replace(spec, options={**spec.options, "dtype": "float32"}))))


def dtype(used: Sequence[str], saved: Sequence[str]) -> Sign:
    """Return whether weights are computed with all that was stored of them."""
    text = f"stored as {_and(saved)}, computed as {_and(used)}"
    if all(kind in _EXACT for kind in used):
        return Sign("dtype", "green", text, "no relevant precision is lost")
    if set(used) == set(saved):
        reason = "as stored; every operation rounds to two or three digits, and what that does to scores stands below"
        return Sign("dtype", "green", text, reason)
    return Sign(
        "dtype",
        "yellow",
        text,
        "weights are rounded before anything is computed",
        "Leave dtype out, or name float32 for numbers that others can reproduce",
    )


def _and(names: Sequence[str]) -> str:
    return " and ".join(names) or "unknown"


# ---------------------------------------------------------------- ways that have to agree


def batching(alone: Sequence[Verdict], together: Sequence[Verdict], *, used: Sequence[str]) -> Sign:
    """Return whether a query has the same scores alone and beside others."""
    promise = "a score is the same alone and beside others"
    return agreement("batching", score_drift(alone, together), promise=promise, remedy=_exactly(used))


def packing(model: NeuralModel, queries: Sequence[Query], together: Sequence[Verdict], *, used: Sequence[str]) -> Sign:
    """Return whether packed prefix trees give what plain padded batches give."""
    engines = list(_engines(model.network()))
    refused = [engine.drift for engine in engines if engine.drift is not None and not engine.packs]
    if refused:
        return Sign(
            "packing",
            "yellow",
            f"off: on random trees packed states differ from padded ones by {max(refused):.1g} of their size",
            "packs are verified when a model is opened and used only where they agree: slower, but correct",
            _exactly(used),
        )
    if not any(engine.packs for engine in engines):
        reason = "each sequence is computed whole: attn= was named, or packs do not serve this architecture"
        return Sign("packing", "green", "nothing is packed", reason)
    plainly = replace(model, network=lambda: _plain(model.network()))
    promise = "a prompt that is computed once for all candidates gives what plain batches give"
    drift = score_drift(list(plainly.score(queries)), together)
    return agreement("packing", drift, promise=promise, remedy=_exactly(used))


def _engines(network: Calculator) -> Iterator[Engine]:
    if isinstance(network, Ratio):
        yield from _engines(network.policy)
        yield from _engines(network.reference)
    elif isinstance(network, Engine):
        yield network


def _plain(network: Calculator) -> Calculator:
    if isinstance(network, Ratio):
        return Ratio(_plain(network.policy), _plain(network.reference))
    return network.plain if isinstance(network, Engine) else network


def order(model: NeuralModel, queries: Sequence[Query], together: Sequence[Verdict], *, used: Sequence[str]) -> Sign:
    """Return whether the order in which candidates stand changes nothing."""
    turned = [replace(query, candidates=query.candidates[::-1]) for query in queries]
    swapped = [replace(verdict, scores=verdict.scores[::-1]) for verdict in model.score(turned)]
    one_order = isinstance(model.formula, ChoiceModel) and not model.formula.both
    remedy = "Ask in both orders: orders=both" if one_order else _exactly(used)
    promise = "the place of a candidate does not change its score"
    return agreement("order", score_drift(together, swapped), promise=promise, remedy=remedy)


def _exactly(used: Sequence[str]) -> str:
    if all(kind in _EXACT for kind in used):
        return "Not rounding, in this dtype. Try attn=eager, and report the architecture in an issue"
    return "Name dtype=float32 for numbers that others can reproduce"


# ---------------------------------------------------------------- does the answer count?


def reach(model: NeuralModel, query: Query) -> Sign:
    """Return whether a change at either end of an answer changes its score; the user is left out, so that it fits."""
    bare = replace(query, user=None, notes=())
    first, *others = bare.candidates
    texts = (first, _BEFORE + first, first + _AFTER)
    scores = [_score(model, replace(bare, candidates=(text, *others))) for text in texts]
    failure = next((score for score in scores if isinstance(score, Failure)), None)
    if failure is not None:
        detail = failure.detail or "no reason given"
        return Sign("reach", "yellow", f"not measured ({failure.kind})", detail, "Look at another item: --item ID")
    usual, *changed = (score for score in scores if not isinstance(score, Failure))
    moves = {"beginning": changed[0] - usual, "end": changed[1] - usual}
    moved = " and ".join(f"{move:+.2g} at its {end}" for end, move in moves.items())
    text = f"a few words more in the answer move its score: {moved}"
    unmoved = [end for end, move in moves.items() if move == 0]
    if not unmoved:
        return Sign("reach", "green", text, "the score depends on the answer, from its first word to its last")
    reason = f"what stands at the {' and at the '.join(unmoved)} of an answer does not reach its score"
    remedy = "The chat template may drop or cut the answer (see above): name another with chat=FILE.jinja"
    return Sign("reach", "red" if len(unmoved) == len(moves) else "yellow", text, reason, remedy)


def _score(model: NeuralModel, query: Query) -> Score:
    """Return the score of the first candidate, computed beside nothing else: equal ids give the very same number."""
    return next(iter(model.score([query]))).scores[0]


# ---------------------------------------------------------------- speed


def speed(model: NeuralModel, looks: Sequence[Look], seconds: float, *, items: int) -> Sign:
    """Return what was measured, and what it comes to for the whole benchmark."""
    groups = [_asks(model, look) for look in looks]
    tokens = sum(len(ask.needed) for group in groups for ask in group)
    distinct = sum(grow([group]).tokens for group in groups if group)
    text = (
        f"{tokens / seconds:,.0f} tokens/s: {tokens:,} tokens of {len(looks)} items, {distinct:,} of them distinct, in "
        f"{seconds:.2g} s"
    )
    return Sign("speed", "green", text, f"all {items} items would take about {_time(seconds * items / len(looks))}")


def _asks(model: NeuralModel, look: Look) -> list[StateRequest]:
    asks = (model.formula.ask(sequence) for sequence in look.assembled.sequences if not isinstance(sequence, Failure))
    return [ask for ask in asks if isinstance(ask, StateRequest)]


def _time(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "a second"
