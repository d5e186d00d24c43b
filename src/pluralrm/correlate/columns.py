"""A column of scores, one per model, and what it rests on: whatever is to be correlated becomes one.

Runs: the headline of each model, one column per benchmark and condition. Outcomes: what best-of-k earned under each
model, one column per pool, condition and k; clusters are those of the benchmark whose prompts the policy answered, so
that a benchmark and best-of-k on the same users are resampled together. Published numbers: from a CSV file, one row a
model, its name in the first column; blank and "-" are missing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pluralrm.core import OTHERS, Run
from pluralrm.display import Brief
from pluralrm.errors import MetricError, RowError, did_you_mean
from pluralrm.files import csv_rows
from pluralrm.metrics.comparison import together
from pluralrm.metrics.estimates import headline, remark, synthesised
from pluralrm.policies.outcomes import Outcome, OutcomeManifest
from pluralrm.stats.clusters import ClusterMeans, FloatArray, cluster_means, covariances, crossing
from pluralrm.stats.correlation import Scores


@dataclass(frozen=True, slots=True)
class Items:
    """What the scores of a column are means of: the models in order, the clusters' names, and what each adds."""

    models: tuple[str, ...]
    clusters: tuple[str, ...]
    means: ClusterMeans
    prompts: tuple[str, ...] = ()
    """The names of the prompts, where clusters share them."""


@dataclass(frozen=True, slots=True, repr=False)
class Column(Brief):
    """A benchmark or a downstream result: a score for each model that has one. Higher is better.

    `items` is None where only the scores are known. `failed` counts the items on which a model failed. `source` is
    the hash of the benchmark that it is about, `condition` what models saw there, where both are known.
    """

    name: str
    scores: Mapping[str, float]
    items: Items | None = None
    failed: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    source: str = ""
    condition: str = ""

    def is_again(self, other: "Column") -> bool:
        """Return whether two columns are one, named twice."""
        return self.name == other.name and self.scores == other.scores

    def renamed(self, names: Mapping[str, str]) -> "Column":
        """Return the column with models under other names, no two alike."""
        return replace(
            self,
            scores={names[model]: score for model, score in self.scores.items()},
            items=self.items and replace(self.items, models=tuple(names[model] for model in self.items.models)),
            failed={names[model]: count for model, count in self.failed.items()},
        )


def column_of_items(
    name: str,
    values: Mapping[str, ArrayLike],
    clusters: Sequence[str],
    *,
    strata: Sequence[str] | None = None,
    crossed: Sequence[str] | None = None,
    unit: str = "",
) -> Column:
    """Return a column of means over items, from one array per model over the same items in the same order.

    Clusters of two columns are the same, and are resampled together, where `unit` and the cluster's name are; so are
    the prompts of `crossed` that several clusters share.
    """
    if not values:
        raise MetricError(f"{name}: no models; wanted an array of values for each.")
    means = cluster_means(
        np.stack([np.asarray(row, np.float64) for row in values.values()], axis=1),
        clusters,
        strata=strata,
        crossed=crossed,
    )
    names, prompts = (
        tuple(f"{unit}\x00{name}" for name in _in_order(side, strata)) if side else ()
        for side in (clusters, crossed and crossing(clusters, crossed))
    )
    scores = dict(zip(values, map(float, means.means), strict=True))
    return Column(name, scores, Items(tuple(values), names, means, prompts))


def scores_of(columns: Sequence[Column], models: Sequence[str]) -> Scores:
    """Return the columns' scores of some models as rows, with what each cluster of any of them adds."""
    values = np.array([[column.scores[model] for model in models] for column in columns])
    items = [column.items for column in columns if column.items]
    clusters = sorted({(False, name) for part in items for name in part.clusters})
    prompts = sorted({(True, name) for part in items for name in part.prompts})
    index = {name: number for number, name in enumerate([*clusters, *prompts])}
    influence = np.zeros((len(index), *values.shape))
    for row, column in enumerate(columns):
        if column.items:
            rows = [index[False, name] for name in column.items.clusters]
            rows += [index[True, name] for name in column.items.prompts]
            influence[rows, row] = _influence(column.items, models)
    return Scores(values, influence, len(prompts))


def complete(columns: Sequence[Column], models: Sequence[str]) -> list[str]:
    """Return the models that have a score in each of the columns."""
    return [model for model in models if all(model in column.scores for column in columns)]


def _influence(items: Items, models: Sequence[str]) -> FloatArray:
    """Return by how much each cluster, and each prompt, moves the models; what is in both is taken off once."""
    columns = [items.models.index(model) for model in models]
    own = items.means.scores[:, columns]
    if items.means.crossed is None:
        return own
    both = np.vstack([own, items.means.crossed.prompts.scores[:, columns]])
    twice, once = (both**2).sum(axis=0), np.diag(covariances(items.means))[columns]
    moved: FloatArray = both * np.sqrt(np.clip(once / np.maximum(twice, np.finfo(float).tiny), 0.5, 1.0))
    return moved


def _in_order(clusters: Sequence[str], strata: Sequence[str] | None) -> list[str]:
    """Return the clusters' names in the order in which their means are kept: by stratum, unless one lies in several."""
    pairs = sorted(set(zip(strata or [""] * len(clusters), clusters, strict=True)))
    names = [cluster for _, cluster in pairs]
    return names if len(set(names)) == len(names) else sorted(set(names))


def columns_of_runs(runs: Sequence[Run]) -> list[Column]:
    """Return one column per benchmark and condition, models named by their spec; a model that comes twice is an error.

    A failed item is wrong here as everywhere, and so is an open one of an unfinished run. Runs of one column have the
    same items. The scores of a pool are left out: nothing is right or wrong there.
    """
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if run.done and run.card.metrics:
            groups.setdefault((run.benchmark, run.benchmark_hash, run.condition), []).append(run)
    return [
        _column_of_runs(group, [key[:1] + key[2:] for key in groups].count(key[:1] + key[2:]) > 1)
        for key, group in groups.items()
    ]


def without_controls(
    columns: Sequence[Column], runs: Sequence[Run], downstream: Sequence[Column] = ()
) -> tuple[list[Column], list[str]]:
    """Return the columns that are not under a control condition, and a line for each that is left out.

    A control is kept where the downstream result is under it too, or where there is nothing but controls.
    """
    controls = {run.condition for run in runs if run.reveals & {*OTHERS, "false_pairs"}}
    controls -= {column.condition for column in downstream}
    rest = [column for column in columns if column.condition not in controls]
    if not rest:
        return list(columns), []
    left = [column.name for column in columns if column.condition in controls]
    return rest, [f"left out: {name} is a control: models saw what others wrote or chose" for name in left]


def _column_of_runs(runs: Sequence[Run], twin: bool) -> Column:
    """Return one column; where another benchmark content has the same name, its hash is part of the name."""
    first = runs[0]
    name = f"{first.benchmark} {first.condition}" + (f" {first.benchmark_hash[:8]}" if twin else "")
    models = [run.model for run in runs]
    for model in models:
        if models.count(model) > 1:
            raise MetricError(f"{name}: {model!r} has several runs. Give one run of each model.")
    units = together(runs, headline(first))
    strata = units[0].domains if first.card.average == "macro" else None
    values = {model: part.values for model, part in zip(models, units, strict=True)}
    column = column_of_items(
        name, values, units[0].clusters, strata=strata, crossed=units[0].prompts, unit=first.benchmark_hash
    )
    failed = {model: sum(part.failed) for model, part in zip(models, units, strict=True) if any(part.failed)}
    return Column(
        name, column.scores, column.items, failed, tuple(_run_notes(name, runs)), first.benchmark_hash, first.condition
    )


def _run_notes(name: str, runs: Sequence[Run]) -> list[str]:
    notes = [f"{name}, {run.model}: {remark(run)}" for run in runs if remark(run)]
    notes += [f"{name}, {run.model}: {run.imported}" for run in runs if run.imported]
    if readers := [run.model for run in runs if "oracle" in run.reveals]:
        who = "models saw the rubric" if len(readers) == len(runs) else f"the rubric was shown to {', '.join(readers)}"
        notes.append(f"ORACLE: under {name} {who}")
    written = dict.fromkeys(text for run in runs if (text := synthesised(run)))
    return [*notes, *(f"SYNTHESISED: under {name} models were shown {text}" for text in written)]


class _Kind(NamedTuple):
    """What the outcomes of one column have in common, but for k."""

    benchmark: str
    benchmark_hash: str
    pool_hash: str
    condition: str
    grader: str
    way: str
    """Of picks, over which k; of what a trained policy answers, by which algorithm."""


def columns_of_outcomes(outcomes: Sequence[Outcome], ks: Sequence[int] = ()) -> list[Column]:
    """Return one column per pool, condition and k (default: the largest that all models have).

    Models are named by their spec. A model without some k is missing in its column; a k that none has is an error, and
    so are two outcomes of one model that differ.
    """
    groups: dict[_Kind, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(_kind(outcome), []).append(outcome)
    columns = [
        _column_of_outcomes(_outcome_name(kind, list(groups), k), kind, group, k)
        for kind, group in groups.items()
        for k in _chosen_ks(group, ks)
    ]
    if lost := [k for k in ks if not any(k in outcome.manifest.ks for outcome in outcomes)]:
        present = sorted({k for outcome in outcomes for k in outcome.manifest.ks})
        raise MetricError(f"no outcome of best-of-{lost[0]}; there are k = {', '.join(map(str, present)) or 'none'}")
    return columns


def _kind(outcome: Outcome) -> _Kind:
    facts = outcome.manifest
    kind = facts.kind if facts.way == "trained" else facts.way
    return _Kind(facts.benchmark, facts.benchmark_hash, facts.pool_hash, facts.condition, facts.grader, kind)


def _outcome_name(kind: _Kind, kinds: Sequence[_Kind], k: int) -> str:
    """Return a name that tells these outcomes from all others; pool and grader are part of it where there are two."""
    what = {"exact": f"best-of-{k}", "first": f"first-{k}"}.get(kind.way, kind.way)
    pools, graders = {other.pool_hash for other in kinds}, {kind.grader for kind in kinds}
    pool = f", pool {kind.pool_hash[:8]}" if len(pools) > 1 else ""
    by = f", by {kind.grader}" if len(graders) > 1 else ""
    return f"{kind.benchmark} {what} {kind.condition}{pool}{by}"


def _chosen_ks(group: Sequence[Outcome], ks: Sequence[int]) -> list[int]:
    """Return the k of a group's columns: those asked for that any model has, or the largest that all have."""
    have = [
        {k for row in group if row.model == model for k in row.manifest.ks} for model in {row.model for row in group}
    ]
    if ks:
        return [k for k in dict.fromkeys(ks) if any(k in own for own in have)]
    common = set.intersection(*have)
    if not common:
        first = group[0]
        raise MetricError(f"{first.path}: its models have no k in common; -k names one that most of them have")
    return [max(common)]


def _column_of_outcomes(name: str, kind: _Kind, group: Sequence[Outcome], k: int) -> Column:
    models: dict[str, Outcome] = {}
    for row in group:
        if k in row.manifest.ks:
            first = models.setdefault(row.model, row)
            if not _alike(_grades(first, k), _grades(row, k)):
                raise MetricError(f"{name}: {row.model!r} has outcomes that differ: {first.path}, {row.path}. Give one")
    grades = {model: _grades(row, k) for model, row in models.items()}
    rows = next(iter(models.values())).rows
    if any(grade.keys() != {row.item for row in rows} for grade in grades.values()):
        raise MetricError(f"{name}: the outcomes are of different items; 'pluralrm best-of-n' writes them anew")
    column = column_of_items(
        name,
        {model: [by_item[row.item] for row in rows] for model, by_item in grades.items()},
        [row.cluster for row in rows],
        strata=[row.domain for row in rows] if group[0].manifest.average == "macro" else None,
        crossed=[row.prompt for row in rows],
        unit=kind.benchmark_hash,
    )
    failed = {model: outcome.manifest.failed for model, outcome in models.items() if outcome.manifest.failed}
    notes = notes_of(name, {model: outcome.manifest for model, outcome in models.items()})
    return Column(name, column.scores, column.items, failed, notes, kind.benchmark_hash, kind.condition)


def notes_of(name: str, models: Mapping[str, OutcomeManifest]) -> tuple[str, ...]:
    """Return what a reader of a column must know: which models saw the rubric, or synthesised pairs."""
    readers = [model for model, manifest in models.items() if manifest.shown_rubric]
    oracle = [f"ORACLE: under {name} the rubric was shown to {', '.join(readers)}"] * bool(readers)
    return (*oracle, *_writer_notes(name, list(models.values())))


def _writer_notes(name: str, outcomes: Sequence[OutcomeManifest]) -> list[str]:
    """Return a sentence for each chat model that wrote pairs which reward models, or the policy, were shown."""
    pairs = {"models were": [outcome.pairs for outcome in outcomes]}
    pairs["the policy was"] = [outcome.policy_pairs for outcome in outcomes]
    return [
        f"SYNTHESISED: under {name} {who} shown {text}"
        for who, texts in pairs.items()
        for text in dict.fromkeys(filter(None, texts))
    ]


def _alike(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Return whether two outcomes are one: with other k beside it, the last bits of a grade may be others."""
    return first.keys() == second.keys() and all(
        math.isclose(first[item], second[item], abs_tol=1e-9) for item in first
    )


def _grades(outcome: Outcome, k: int) -> dict[str, float]:
    index = outcome.manifest.ks.index(k)
    return {row.item: grade for row in outcome.rows if isinstance(grade := row.scores[index], float)}


_MISSING = frozenset({"", "-"})
_LINES = 5
"""Lines of short rows that are named."""


@dataclass(frozen=True, slots=True, repr=False)
class PublishedTable(Brief):
    """The cells of a table as they are written, by model and column, and the line that each model stands on."""

    file: str
    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, int]
    padded: tuple[int, ...] = ()
    """The lines of the rows that end before the header does."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers must know."""

    @property
    def models(self) -> list[str]:
        """The models' names, in the order of the rows."""
        return list(self.cells)

    def numbers(self, column: str) -> Column:
        """Return a column of numbers without its missing cells; anything else in it is a RowError."""
        name = self.column(column)
        written = {model: cells[name] for model, cells in self.cells.items() if cells[name] not in _MISSING}
        scores = {model: self._number(model, name, text) for model, text in written.items()}
        return Column(name, scores, notes=self._notes())

    def words(self, column: str) -> dict[str, str]:
        """Return a column of names, such as groups, without its missing cells."""
        name = self.column(column)
        return {model: cells[name] for model, cells in self.cells.items() if cells[name] not in _MISSING}

    def texts(self) -> list[str]:
        """Return the columns without one number, such as groups; of others `numbers` names the first bad cell."""
        return [name for name in self.columns if not any(_is_number(cells[name]) for cells in self.cells.values())]

    def column(self, name: str) -> str:
        """Return the column that has this name, or the only one that begins with it.

        A line break in a header counts as a blank, however it is written.
        """
        prefix = _one_line(name)
        matches = [column for column in self.columns if column == prefix]
        matches = matches or [column for column in self.columns if prefix and column.startswith(prefix)]
        if len(matches) > 1:
            raise MetricError(f"{self.file}: {name!r} begins {len(matches)} columns: {', '.join(matches)}")
        if not matches:
            raise MetricError(f"{self.file}: no column {name!r}.{did_you_mean(prefix, self.columns)}")
        return matches[0]

    def _notes(self) -> tuple[str, ...]:
        if not self.padded:
            return self.notes
        lines = ", ".join(map(str, self.padded[:_LINES])) + (", ..." if len(self.padded) > _LINES else "")
        rows = f"{len(self.padded)} of {len(self.cells)} rows end before the header does (line {lines})"
        return (f"{self.file}: {rows}; the cells that they lack are missing", *self.notes)

    def _number(self, model: str, column: str, text: str) -> float:
        if not _is_number(text):
            raise RowError(self.file, self.lines[model], column, found=repr(text), wanted="a number, blank or '-'")
        return float(text)


def read_published(path: str | Path) -> PublishedTable:
    """Return the table in a CSV file; a row longer than its header, or a model named twice, is a RowError.

    A row that ends early lacks its last cells; blank cells beyond the header are nothing.
    """
    file, rows = str(path), csv_rows(path, form=", one row a model")
    if len(rows) < 2:
        raise MetricError(f"{file}: found {len(rows)} rows, wanted a header and one row a model")
    header = _header(file, *rows[0])
    return _table(file, header, rows[1:])


def _header(file: str, line: int, row: Sequence[str]) -> tuple[str, ...]:
    names = [_one_line(name) for name in _without_blanks(row)]
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if len(names) < 2 or twice:
        problem = f"{twice[0]!r} twice" if twice else "one column"
        raise RowError(file, line, "header", found=problem, wanted="the models' column and others, each named once")
    return tuple(names[1:])


def _table(file: str, columns: tuple[str, ...], rows: Sequence[tuple[int, Sequence[str]]]) -> PublishedTable:
    cells: dict[str, dict[str, str]] = {}
    lines: dict[str, int] = {}
    padded = []
    for line, (model, *rest) in rows:
        if len(values := _without_blanks(rest)) > len(columns):
            raise RowError(file, line, "row", found=f"{len(values) + 1} cells", wanted=f"{len(columns) + 1}")
        if not model or model in cells:
            problem = f"{model!r} again, as on line {lines[model]}" if model else "no name"
            raise RowError(file, line, "model", found=problem, wanted="each model's name once")
        padded += [line] * (len(rest) < len(columns))
        cells[model], lines[model] = dict(zip_longest(columns, values, fillvalue="")), line
    return PublishedTable(file, columns, cells, lines, tuple(padded))


def _one_line(name: str) -> str:
    r"""Return a header's name on one line: a spreadsheet breaks lines in it, and a shell passes on ``\n`` as typed."""
    return " ".join(name.replace("\\n", " ").split())


def _without_blanks(row: Sequence[str]) -> list[str]:
    """Return a row without the blank cells at its end."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return list(row[:end])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
