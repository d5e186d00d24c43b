r"""Organic prompts from a file, and a classifier two-sample test of a benchmark's prompts against them, on style.

A file has one prompt a line as plain text, or rows: a text, or an object with the first of a text (or a list of
messages) under `prompt`, `question`, `text`, `instruction` or `query`; messages under `messages` or `conversation`; a
transcript with "\n\nHuman:" and "\n\nAssistant:" under `chosen`, `rejected` or `transcript` (HH-RLHF), or messages
there. Of a conversation it is what the person said first. The classifier
separates the two kinds (Lopez-Paz and Oquab 2017): the area under its curve on held-out prompts is 0.5 where they do
not differ; its p-value comes from relabelling, the whole cross-validation repeated each time.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pluralrm.audit.embedder import FEATURES, style
from pluralrm.audit.near import normalised
from pluralrm.audit.probes import RELABELLINGS, cluster_folds, held_out, ridge_folds, standardised
from pluralrm.audit.result import AuditFinding, Measures, Status
from pluralrm.benchmarks.rows import SUFFIXES, Place, describe, read_rows
from pluralrm.core import Benchmark, Estimate
from pluralrm.errors import BenchmarkError, RowError
from pluralrm.stats import cluster_means, spread, wilson
from pluralrm.stats.clusters import BoolArray, FloatArray
from pluralrm.stats.comparisons import one_thread
from pluralrm.stats.intervals import normal_quantile
from pluralrm.text import counted

KEYS = (
    *("prompt", "question", "text", "instruction", "query", "messages", "conversation"),
    *("chosen", "rejected", "transcript"),
)
"""Where a prompt is looked for, in this order."""
_TRANSCRIPTS = ("chosen", "rejected", "transcript")
_SAYS = ("content", "value", "text")
_WHO = ("role", "from")
_PERSON = ("user", "human", "prompter")
_HUMAN = re.compile(r"\A\s*Human:(.*?)(?=\n\n(?:Human|Assistant):|\Z)", re.DOTALL)


def read_prompts(path: Path) -> list[str]:
    """Return the prompts of a file, blank ones too: who compares leaves those out, and counts them.

    A file that cannot be read, or holds none, is an error; so is a row without a prompt. In plain text a blank line
    is no prompt.
    """
    try:
        prompts = list(_prompts(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as exc:
        raise BenchmarkError(f"cannot read organic prompts from {str(path)!r}: {exc}") from exc
    if not any(text.strip() for text in prompts):
        raise BenchmarkError(f"{str(path)!r}: found no prompts, wanted one a line")
    return prompts


def _prompts(path: Path) -> Iterator[str]:
    lines = path.name.endswith((".jsonl", ".jsonl.gz"))
    if not lines and path.suffix not in SUFFIXES:
        yield from (line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
        return
    for location, row in _json_lines(path) if lines else read_rows(path):
        text = prompt_of(row)
        if text is None:
            actual = f"the keys {', '.join(list(row)[:8])}" if isinstance(row, Mapping) else describe(row)
            expected = f"a text, or an object with a prompt under one of {', '.join(KEYS)}"
            raise location.refuse("(row)", found=actual, wanted=expected)
        yield text


def _json_lines(path: Path) -> Iterator[tuple[Place, object]]:
    """Yield every value of a file of JSON lines: here a line may be a text, and the file be packed by gzip."""
    with (
        gzip.open(path, "rt", encoding="utf-8-sig")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8-sig") as lines
    ):
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield Place(str(path), number), json.loads(line)
                except (ValueError, RecursionError) as exc:
                    raise RowError(str(path), number, "(line)", found=str(exc)[:200], wanted="JSON") from exc


def prompt_of(row: object) -> str | None:
    """Return the prompt of a row, or None where it has none."""
    if isinstance(row, str):
        return row
    if not isinstance(row, Mapping):
        return None
    texts = (_said(key, row[key]) for key in KEYS if row.get(key) is not None)
    return next((text for text in texts if text is not None), None)


def _said(key: str, value: object) -> str | None:
    if isinstance(value, str):
        if key not in _TRANSCRIPTS:
            return value
        opening = _HUMAN.match(value)
        return opening[1].strip() if opening else None
    return _opening(value) if isinstance(value, Sequence) else None


def _opening(messages: Sequence[object]) -> str | None:
    """Return what the person said first in a list of messages, or None where these are none."""
    for message in messages:
        if isinstance(message, Mapping) and any(str(message.get(key, "")).lower() in _PERSON for key in _WHO):
            return next((text for key in _SAYS if isinstance(text := message.get(key), str)), None)
    return None


TOPIC = "prompts against organic ones"
FEWEST = 20
"""Prompts on either side below which nothing is compared."""
MOST = 5_000
"""Prompts on either side that are looked at, drawn by seed: more would tell no more."""
PLAIN = 0.7
"""The area under the curve from which prompts are plainly of another kind, and an audit warns."""
LEVEL = 0.05
_BLOCK = 250


def against_organic(
    benchmark: Benchmark, organic: Sequence[str], *, seed: int = 0, relabellings: int = RELABELLINGS
) -> AuditFinding:
    """Return how well style tells the benchmark's prompts, one per cluster, from organic ones, each text once."""
    worded = [text for text in organic if normalised(text)]
    distinct = sorted(set(worded))
    own, others = _one_per_cluster(benchmark, seed), _drawn(distinct, seed)
    left_out = {
        "blank": len(organic) - len(worded),
        "repeated": len(worded) - len(distinct),
        "not drawn": len(distinct) - len(others),
    }
    note = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
    note = f"; of {len(organic):,} organic prompts left out: {note}" if note else ""
    if min(len(own), len(others)) < FEWEST:
        why = f"{counted(len(own), 'prompt')} and {len(others):,} organic, wanted {FEWEST} of each{note}"
        return AuditFinding(TOPIC, "not available", why, _left_out(left_out))
    features = standardised(style([*own, *others]))
    label = np.arange(len(features)) < len(own)
    with one_thread():
        areas, placements = _areas(features, label, seed, relabellings)
    p = float((1 + (areas[1:] >= areas[0] - 1e-12).sum()) / len(areas))
    area = _area_estimate(placements, label)
    detail = (
        f"a classifier on style tells {counted(len(own), 'prompt')} from {len(others):,} organic ones with an area "
        f"under the curve of {area.value:.2f}" + (f" [{area.low:.2f}, {area.high:.2f}]" if area.low is not None else "")
    )
    detail += f" (0.50: cannot; p = {p:.3f})" + (
        f": the benchmark's have {_features_apart(features, label)}" if p < LEVEL else ""
    )
    status: Status = "ok" if p >= LEVEL else "warn" if area.value >= PLAIN else "note"
    measures: Measures = {"area under the curve": area, "p": p, "organic prompts": len(others), **_left_out(left_out)}
    return AuditFinding(TOPIC, status, detail + note, measures)


def _left_out(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"organic prompts left out, {why}": count for why, count in counts.items() if count}


def _one_per_cluster(benchmark: Benchmark, seed: int) -> list[str]:
    """Return one prompt of each cluster, drawn by seed: prompts of one record or user are not independent."""
    prompts: dict[str, list[str]] = {}
    for item in sorted(benchmark.items, key=lambda item: item.id):
        if normalised(item.prompt):
            prompts.setdefault(item.cluster, []).append(item.prompt)
    rng = np.random.default_rng([seed, 3])
    return _drawn(sorted({group[int(rng.integers(len(group)))] for _, group in sorted(prompts.items())}), seed)


def _drawn(texts: list[str], seed: int) -> list[str]:
    if len(texts) <= MOST:
        return texts
    indices = np.random.default_rng([seed, 4]).choice(len(texts), MOST, replace=False)
    return [texts[index] for index in np.sort(indices)]


def _areas(features: FloatArray, label: BoolArray, seed: int, relabellings: int) -> tuple[FloatArray, FloatArray]:
    """Return the area under the curve for the true and each relabelling, and the true one's held-out ranks (n,)."""
    from scipy.stats import rankdata

    rng = np.random.default_rng([seed, 5])
    labels = np.stack([label, *(rng.permutation(label) for _ in range(relabellings))], axis=1)
    repeats = [ridge_folds(features, folds) for folds in cluster_folds(len(label), seed)]
    areas, truth = [], np.zeros(len(label))
    for start in range(0, labels.shape[1], _BLOCK):
        block = labels[:, start : start + _BLOCK]
        targets = block - label.mean()
        scores = np.mean([held_out(features, targets, folds) for folds in repeats], axis=0)
        ranks = rankdata(np.round(scores, 9), axis=0)
        if start == 0:
            truth = ranks[:, 0]
        first, second = int(label.sum()), int((~label).sum())
        areas.append((np.where(block, ranks, 0).sum(axis=0) - first * (first + 1) / 2) / (first * second))
    return np.concatenate(areas), truth


def _area_estimate(ranks: FloatArray, label: BoolArray) -> Estimate:
    """Return the area and its interval by DeLong's variance: each prompt's share of the other side that it outranks."""
    from scipy.stats import rankdata

    sides = []
    for side, sign in ((label, 1), (~label, -1)):
        own = rankdata(sign * ranks[side])
        sides.append((rankdata(sign * ranks)[side] - own) / int((~side).sum()))
    value = float(sides[0].mean())
    variance = sum(
        spread(cluster_means(side, [str(index) for index in range(len(side))]), 0).variance for side in sides
    )
    if not variance:
        return Estimate(value, None, None, len(label), 0, "no interval: the two never mix, or always")
    low, high = wilson(value, value * (1 - value) / variance, normal_quantile())
    return Estimate(value, low, high, len(label), 0, "DeLong's variance, score interval")


def _features_apart(features: FloatArray, label: BoolArray) -> str:
    apart = features[label].mean(axis=0) - features[~label].mean(axis=0)
    best = np.argsort(-np.abs(apart), kind="stable")[:3]
    return ", ".join(f"{'more' if apart[index] > 0 else 'less'} {FEATURES[index]}" for index in best)
