"""A model's results for its README: a section in Markdown, and the metadata that model hubs read.

Every number is that of `compare` on the same runs. Between its marks the card replaces itself, and nothing else of a
file is touched. No path of this machine is in it: models go by their names.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pluralrm.core import Estimate
from pluralrm.errors import RunError, SpecError, did_you_mean
from pluralrm.metrics.estimates import precision
from pluralrm.metrics.overview import Overview, OverviewRow, sentence
from pluralrm.report.reading import METRIC_NAMES, is_baseline
from pluralrm.report.sections import RunSource, Section
from pluralrm.report.tables import places
from pluralrm.text import counted, difference, interval, listed, markdown_line, markdown_text, percent, share, typeset

Yaml = str | int | float | None | Sequence["Yaml"] | Mapping[str, "Yaml"]
"""What a YAML file may hold here."""

_HUB = re.compile(r"^hub: ([\w.-]+/[\w.-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BRIEF = 12
"""Letters of a hash in a table; the metadata have all."""


@dataclass(frozen=True)
class CardResult:
    """What a card says of a model on one benchmark: a row of its comparison, and the run behind it."""

    overview: Overview
    row: OverviewRow
    source: RunSource
    name: str
    """What the model is called."""
    words: str
    """The verdict in a sentence."""

    @property
    def value(self) -> Estimate:
        """The headline."""
        return self.row.metrics[self.overview.headline]

    @property
    def metric(self) -> str:
        """What a reader calls the headline."""
        return METRIC_NAMES.get(self.overview.headline, self.overview.headline)

    @property
    def benchmark_hash(self) -> str:
        """The digest of the items."""
        return self.source.run.benchmark_hash

    @property
    def template_hash(self) -> str:
        """The digest of the template by which the model was asked; '' for a model without one."""
        return self.source.manifest.identity.get("template", "")

    @property
    def hub(self) -> str:
        """The id of the data set on the hub; '' for one that lies elsewhere."""
        match = _HUB.match(self.source.manifest.benchmark.card.source)
        return match[1] if match else ""

    @property
    def date(self) -> str:
        """When the scoring ended, in ISO 8601."""
        return self.source.manifest.finished or self.source.manifest.started

    @property
    def version(self) -> str:
        """Which pluralrm made the run."""
        return self.source.manifest.versions.get("pluralrm", "")

    @property
    def rank(self) -> str:
        """The ranks that the data leave open, such as `1–3 of 9`; nothing where one model alone was scored."""
        ranked = sum(row.rank is not None for row in self.overview.rows)
        return f"{places(self.row.rank)} of {ranked}" if self.row.rank is not None and ranked > 1 else ""

    @property
    def remarks(self) -> list[str]:
        """What a reader must know of the number beside its interval."""
        run = self.source.run
        return [
            *(f"trained on what it is tested on: {text}" for text in run.trained),
            *([f"not scored by pluralrm, but {run.imported}"] if run.imported else []),
            *filter(None, (run.gate, precision(run))),
        ]

    def to_json(self) -> dict[str, object]:
        """Return everything under its name, for --json."""
        numbers = {"value": self.value, "lift": self.row.lift, "gain": self.row.gain}
        return {
            "benchmark": self.overview.benchmark,
            "model": self.name,
            "condition": self.row.condition,
            "metric": self.overview.headline,
            **{name: estimate and estimate.to_json() for name, estimate in numbers.items()},
            "chance": self.overview.chance,
            "verdict": self.row.verdict,
            "rank": self.row.rank and {"low": self.row.rank.low, "high": self.row.rank.high},
            "items": self.overview.items,
            f"{self.overview.cluster}s": self.overview.clusters,
            "benchmark_hash": self.benchmark_hash,
            "template_hash": self.template_hash,
            "date": self.date,
            "remarks": self.remarks,
        }


class ModelCard(NamedTuple):
    """The results of one model, and why others of its runs are none."""

    name: str
    results: tuple[CardResult, ...]
    left_out: tuple[str, ...] = ()
    url: str = ""
    """Where every run and item can be seen."""

    @property
    def words(self) -> list[str]:
        """What is said of the results in sentences; each names its benchmark where there are several results."""
        sizes = {(each.overview.benchmark, each.overview.items) for each in self.results}
        often = Counter(name for name, _ in sizes)
        texts = []
        for each in self.results:
            name, items = each.overview.benchmark, counted(each.overview.items, "item")
            label = f"{name}{f', {items}' * (often[name] > 1)}: " * (len(self.results) > 1)
            texts += [label + typeset(text) for text in (each.words, *each.remarks) if text]
        return list(dict.fromkeys(texts))


_URL = re.compile(r"https?://[^\s<>()\[\]\\\"'`]+")


def model_card(sections: Sequence[Section], model: str = "", *, url: str = "") -> ModelCard:
    """Return the card of a model, by its name or spec; the only one that is no baseline if none is named.

    Runs that saw the rubric and unfinished runs are no results; SpecError for an unknown model.
    """
    if url and not _URL.fullmatch(url):
        raise SpecError(f"--url {url!r} is no address of a page; wanted https://HOST/...")
    pairs = [(section.names[row.model], row.model) for section in sections for row in section.overview.rows]
    names = list(dict.fromkeys(name for name, _ in pairs))
    own = list(dict.fromkeys(name for name, spec in pairs if not is_baseline(spec))) or names
    if not model and len(own) > 1:
        raise SpecError(f"runs of {counted(len(own), 'model')}: {listed(own, 8)}; wanted the card of one: -m NAME")
    specs = {spec: name for name, spec in reversed(pairs) if (model or own[0]) in {name, spec}}
    if not specs:
        raise SpecError(f"no run of a model {model!r}.{did_you_mean(model, names)} There are {listed(names, 8)}")
    results, left_out = [], []
    for section in sections:
        for row in [row for row in section.overview.rows if row.model in specs]:
            if why := no_result(row):
                left_out.append(f"{row.condition} on {section.overview.benchmark}: {why}")
            else:
                results.append(card_result(section, row))
    name = next(iter(reversed(specs.values())))
    if not results:
        raise RunError(f"no result of {name}: {'; '.join(left_out)}")
    return ModelCard(name, tuple(results), tuple(left_out), url)


def no_result(row: OverviewRow) -> str:
    """Return why a row is no result to publish; '' for one that is."""
    return "it saw the rubric" if row.oracle else f"it is {row.unfinished}" if row.unfinished else ""


def card_result(section: Section, row: OverviewRow) -> CardResult:
    """Return what is said of a row of a section."""
    name = section.names[row.model]
    source = source_of(section, name, row.condition)
    return CardResult(section.overview, row, source, name, sentence(row, section.overview, section.names))


def source_of(section: Section, name: str, condition: str) -> RunSource:
    """Return the run of a model, by its name, under a condition."""
    return next(source for source in section.sources if (source.run.model, source.run.condition) == (name, condition))


# ---------------------------------------------------------------- Markdown


def card_section(card: ModelCard) -> str:
    """Return the section of a README, without its marks."""
    personal = any(result.overview.own for result in card.results)
    ranked = any(result.rank for result in card.results)
    head = ["benchmark", "sees", "score", *["lift", "gain", "verdict"] * personal, *["rank"] * ranked]
    rows = []
    for result in card.results:
        row, cells = result.row, [result.overview.benchmark, result.row.condition]
        cells.append(f"{percent(result.value)} {result.metric}")
        cells += [difference(row.lift), difference(row.gain), row.verdict or "–"] if personal else []
        rows.append([*cells, *[result.rank or "–"] * ranked])
    facts = [_facts(result) for result in card.results]
    legend = "Per cent, with 95% intervals; failed items count as wrong."
    if personal:
        legend += " Lift: with the user’s own context − without; gain: own − another user’s, in points."
    notes = "".join(f"- {markdown_line(text)}\n" for text in card.words)
    more = f"\nEvery run and item: <{card.url}>\n" if card.url else ""
    return (
        f"## Evaluation by pluralrm\n\n{markdown_text(head, rows)}\n{legend}\n\n{notes}\n"
        f"{markdown_text(list(facts[0]), [list(fact.values()) for fact in facts])}{more}"
    )


def _facts(result: CardResult) -> dict[str, str]:
    """Return the second table: of what the number is made."""
    overview, value = result.overview, result.value
    return {
        "benchmark": overview.benchmark,
        "items": f"{value.n:,}",
        "failed": f"{value.failed:,}",
        "of": counted(overview.clusters, overview.cluster),
        "chance": share(overview.chance),
        "content": result.benchmark_hash[:_BRIEF],
        "template": result.template_hash[:_BRIEF] or "–",
        "scored": result.date[:10],
        "pluralrm": result.version or "–",
    }


# ---------------------------------------------------------------- metadata


def model_index(card: ModelCard) -> Yaml:
    """Return `model-index` as model cards have it: one metric per result, with its interval and hashes in `args`."""
    return [{"name": card.name, "results": [_indexed(result, card.url) for result in card.results]}]


def _indexed(result: CardResult, url: str) -> Mapping[str, Yaml]:
    overview, value = result.overview, result.value
    revision = result.source.manifest.benchmark.card.revision
    metric: dict[str, Yaml] = {
        "type": overview.headline,
        "name": f"{result.metric}, sees {result.row.condition}",
        "value": _rounded(value.value),
        "args": _arguments(result),
    }
    return {
        "task": {"type": "text-ranking", "name": "Reward modelling"},
        "dataset": {
            "name": overview.benchmark,
            "type": result.hub or overview.benchmark,
            **({"revision": revision} if _COMMIT.fullmatch(revision) else {}),
        },
        "metrics": [metric],
        **({"source": {"name": "pluralrm", "url": url}} if url else {}),
    }


def _arguments(result: CardResult) -> Mapping[str, Yaml]:
    """Return what the number means, for programs: shares of 1 in full."""
    overview, row, value = result.overview, result.row, result.value
    differences: dict[str, Yaml] = {
        name: {"value": estimate.value, "low": estimate.low, "high": estimate.high}
        for name, estimate in (("lift", row.lift), ("gain", row.gain))
        if estimate is not None
    }
    return {
        "condition": row.condition,
        "share": value.value,
        "low": value.low,
        "high": value.high,
        "level": 0.95,
        "method": value.method,
        "n": value.n,
        "failed": value.failed,
        f"{overview.cluster}s": overview.clusters,
        "chance": overview.chance,
        **differences,
        "verdict": row.verdict or None,
        "benchmark_sha256": result.benchmark_hash,
        "template_sha256": result.template_hash or None,
        "pluralrm": result.version or None,
        **({"remarks": result.remarks} if result.remarks else {}),
    }


def eval_results(card: ModelCard) -> list[Yaml]:
    """Return the entries of a file in `.eval_results`: of results on data sets that are on the hub."""
    entries: list[Yaml] = []
    for result in card.results:
        if result.hub:
            revision = result.source.manifest.benchmark.card.revision
            more: dict[str, Yaml] = {"revision": revision} if _COMMIT.fullmatch(revision) else {}
            entry: dict[str, Yaml] = {
                "dataset": {"id": result.hub, "task_id": result.overview.benchmark, **more},
                "value": _rounded(result.value.value),
                "date": result.date,
            }
            if card.url:
                entry["source"] = {"url": card.url, "name": "pluralrm"}
            entries.append({**entry, "notes": "; ".join(_notes(result))})
    return entries


def _notes(result: CardResult) -> Iterator[str]:
    row, value = result.row, result.value
    yield f"{result.metric}, sees {row.condition}"
    yield f"95% interval {interval(value)} over {result.overview.over}, n = {value.n}, {value.failed} failed"
    if row.verdict:
        yield f"{row.verdict} (lift {difference(row.lift)}, gain {difference(row.gain)})"
    yield f"items sha256:{result.benchmark_hash}"
    if result.template_hash:
        yield f"template sha256:{result.template_hash}"
    yield from result.remarks


def _rounded(value: float) -> float:
    """Return a share in per cent as tables print it."""
    return round(100 * value, 1)


_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml_text(value: Yaml) -> str:
    """Return a mapping or list as YAML in which every text is quoted on one line: none of them can act.

    >>> print(yaml_text({"a": ["x: y", 1e-05, None]}), end="")
    a:
    - "x: y"
    - 1.0e-05
    - null
    """
    return "".join(f"{line}\n" for line in _yaml_lines(value))


def _yaml_lines(value: Yaml) -> Iterator[str]:
    if isinstance(value, str | int | float | None) or not value:
        yield _scalar(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(part, str | int | float | None) or not part:
                yield f"{key}: {_scalar(part)}"
            else:
                yield f"{key}:"
                indent = "  " * isinstance(part, Mapping)
                yield from (f"{indent}{line}" for line in _yaml_lines(part))
    else:
        for part in value:
            first, *rest = _yaml_lines(part)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _scalar(value: Yaml) -> str:
    if isinstance(value, float):
        text = repr(value)  # YAML 1.1 takes 1e-05 for a text
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if isinstance(value, str):
        text = json.dumps(value.encode(errors="backslashreplace").decode(), ensure_ascii=False)
        return _UNPRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return json.dumps(value)


# ---------------------------------------------------------------- into a README

_BEGIN, _END = "<!-- pluralrm:begin -->", "<!-- pluralrm:end -->"
_BEGIN_YAML, _END_YAML = "# pluralrm:begin", "# pluralrm:end"
_FRONT = re.compile(r"(---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"\s*(?:#|[\"']?[\w.-]+[\"']?\s*:|\Z)")
"""How metadata begin: a text between two rules does not."""


class Insertion(NamedTuple):
    """A README with a section of ours in it, and whether the metadata are of that section."""

    text: str
    indexed: bool


def insert_card(readme: str, card: ModelCard) -> Insertion:
    """Return a README with the card and its `model-index`, as `insert_section` puts them there."""
    return insert_section(readme, card_section(card), "model-index", model_index(card))


def insert_section(readme: str, section: str, key: str, value: Yaml) -> Insertion:
    """Return a README with a section between its marks, or at the end where there are none yet; the rest as it was.

    `key` stands between marks in the metadata at the top, which are begun where there are none. Metadata with that key
    of another origin stay as they are. RunError for marks that do not pair.
    """
    newline = "\r\n" if "\r\n" in readme else "\n"
    first = readme[: readme.startswith("\ufeff")]
    top, metadata, end, body = _parts(readme.removeprefix(first), newline)
    other = re.search(rf"^[\"']?{re.escape(key)}[\"']?\s*:", metadata, re.MULTILINE)
    foreign = _BEGIN_YAML not in metadata.splitlines() and other is not None
    if not foreign:
        block = yaml_text({key: value}).replace("\n", newline)
        metadata = _between(metadata, block, (_BEGIN_YAML, _END_YAML), newline)
    if body and _BEGIN not in body.splitlines():
        body = f"{body}{newline * (not body.endswith(newline))}{newline}"
    body = _between(body, section.replace("\n", newline), (_BEGIN, _END), newline)
    return Insertion(first + top + metadata + end + body, indexed=not foreign)


def _parts(readme: str, newline: str) -> tuple[str, str, str, str]:
    """Return the line that begins the metadata, the metadata, the line that ends them, and the rest."""
    front = _FRONT.match(readme)
    if front is None or not _KEY.match(front[2]):
        return f"---{newline}", "", f"---{newline}{newline * bool(readme)}", readme
    end = front[3] if front[3].endswith("\n") else front[3] + newline
    return front[1], front[2], end, readme[front.end() :]


def _between(text: str, block: str, marks: tuple[str, str], newline: str) -> str:
    """Return a text with a block between two marks, each a line of its own; at the end where it has none."""
    lines = text.splitlines(keepends=True)
    begins, ends = ([n for n, line in enumerate(lines) if line.rstrip("\r\n") == mark] for mark in marks)
    inside = f"{marks[0]}{newline}{block}{marks[1]}{newline}"
    if not begins and not ends:
        return f"{text}{inside}"
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise RunError(
            f"found {counted(len(begins), 'line')} {marks[0]!r} and {counted(len(ends), 'line')} {marks[1]!r}, "
            "wanted one of each, in this order; remove the others"
        )
    return "".join([*lines[: begins[0]], inside, *lines[ends[0] + 1 :]])
