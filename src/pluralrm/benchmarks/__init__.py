"""Benchmarks by name. The table maps a kind to "module:attribute", so that nothing loads before its use.

>>> bench = load_benchmark("pocket-prb")
>>> len(bench.items), bench.card.licence
(60, 'Apache-2.0')

`prb:PATH` reads a file or a folder in that format; a bare PATH is read in the format that its first row's keys tell.
`skip=bad-rows` leaves out the rows that a file benchmark would refuse, and counts them.
`python:package.module:make` is a function of your own that returns a Benchmark.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from pluralrm.benchmarks.rows import exists, read_rows, shortened
from pluralrm.card import Card
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, check_type
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.specs import Form, Spec, parse, unescape


@dataclass(frozen=True, slots=True)
class BenchmarkKind:
    """One row of the table: who loads it, what it is, what its spec accepts, which keys a row of its format has.

    The loader is called as `load(spec, seed=seed)` and returns a Benchmark. `keys` is empty where a kind has no files.
    """

    loader: str
    card: str
    form: Form = field(default_factory=Form)
    keys: tuple[str, ...] = ()
    """A key such as `chosen[]` holds a list of texts."""
    or_keys: tuple[str, ...] = ()
    """The keys of a row in the format's second form, where it has one."""

    def reads(self, row: Mapping[str, object]) -> bool:
        """Return whether a row has the keys of the format."""
        return any(keys and all(_has(row, key) for key in keys) for keys in (self.keys, self.or_keys))


def _has(row: Mapping[str, object], key: str) -> bool:
    """Return whether a row has a key; of `chosen[]` whether a list of texts stands there."""
    value = row.get(key.removesuffix("[]"))
    return key in row if not key.endswith("[]") else isinstance(value, list) and all(isinstance(x, str) for x in value)


_SIMULATED = (
    *("users", "items", "posts", "pairs", "candidates", "domains"),
    *("cares", "noise", "chatter", "sharpness", "crowd", "seed", "leak", "general"),
    *("crossed", "groups", "alike", "repeats"),
)
_PERSONAL = ("users", "set", "revision", "skip")
_LAMP_QA = ("revision", "skip", "split")
_ROWS = Form("required", ("skip", "users"), example="rows:FILE")
_PAIRS = Form("required", example="context-pairs:FILE")
_HUB = Form("optional", ("revision", "skip"))
_PRISM = ("users", "answers", "revision", "skip")
_RATED = ("pairs", "gap", "per", "draw", "users", "skip")
_TABLE = ("person", "item", "label", "prompt", "text", "options", "traits", "tags", "domain")

KINDS: Mapping[str, BenchmarkKind] = {
    "pocket-prb": BenchmarkKind("pocket:load_prb", "pocket:PRB_CARD"),
    "pocket-rmgap": BenchmarkKind("pocket:load_rmgap", "pocket:RMGAP_CARD"),
    "simulated": BenchmarkKind("simulated:load", "simulated:CARD", Form("optional", _SIMULATED)),
    "alignx": BenchmarkKind(
        "alignx:load",
        "alignx:CARD",
        Form("required", ("skip",), example="alignx:benchmark/P-Soups"),
        ("chosen", "rejected", "ground_truth_persona"),
    ),
    "prb": BenchmarkKind("prb:load", "prb:CARD", Form("optional", ("revision", "skip")), ("profile", "chosen")),
    "rmgap": BenchmarkKind("rmgap:load", "rmgap:CARD", Form("optional", ("prompts", "skip")), ("prompt_groups",)),
    "personal-rb": BenchmarkKind(
        "prb:load_personal_rb", "prb:PERSONAL_RB_CARD", Form("optional", _PERSONAL), ("user_id", "context")
    ),
    "prism": BenchmarkKind("prism:load", "prism:CARD", Form("optional", _PRISM), ("user_id", "conversation_history")),
    "lamp-qa": BenchmarkKind("lamp_qa:load", "lamp_qa:CARD", Form("optional", _LAMP_QA), ("profile", "question")),
    "personamem": BenchmarkKind(
        "personamem:load",
        "personamem:CARD",
        Form("optional", ("version", "size", "users", "revision", "skip")),
        ("question_id", "shared_context_id"),
        ("persona_id", "user_query", "incorrect_answers"),
    ),
    "prefeval": BenchmarkKind(
        "personamem:load_prefeval",
        "personamem:PREFEVAL_CARD",
        Form("required", ("form", "filler", "skip"), example="prefeval:benchmark_dataset"),
        ("preference", "classification_task_options"),
    ),
    "rpr": BenchmarkKind(
        "alignx:load_rpr",
        "alignx:RPR_CARD",
        Form("optional", ("split", "revision", "skip")),
        ("response_a", "response_b", "criteria_x"),
    ),
    "community-alignment": BenchmarkKind(
        "community_alignment:load",
        "community_alignment:CARD",
        Form("optional", ("turns", "context", "subset", "users", "revision", "skip")),
        ("annotator_id", "assigned_lang"),
    ),
    "coval": BenchmarkKind(
        "coval:load",
        "coval:CARD",
        Form("optional", ("ranking", "revision", "skip")),
        ("prompt_id", "responses", "metadata"),
    ),
    "multipref": BenchmarkKind(
        "annotator_pairs:load_multipref",
        "annotator_pairs:MULTIPREF",
        _HUB,
        ("comparison_id", "normal_worker_annotations"),
    ),
    "tldr": BenchmarkKind(
        "annotator_pairs:load_tldr",
        "annotator_pairs:TLDR",
        Form("optional", ("least", "split", "revision", "skip")),
        ("summaries", "choice", "worker"),
    ),
    "helpsteer3": BenchmarkKind(
        "annotator_pairs:load_helpsteer3",
        "annotator_pairs:HELPSTEER3",
        Form("optional", ("split", "revision", "skip")),
        ("response1", "response2", "overall_preference"),
    ),
    "pluriharms": BenchmarkKind(
        "pluriharms:load",
        "pluriharms:CARD",
        Form("required", (*_RATED, "person", "text", "trial"), example="pluriharms:annotations.csv"),
        ("Rating_1", "Rating_2"),
    ),
    "popquorn": BenchmarkKind(
        "person_table:load_popquorn",
        "person_table:POPQUORN",
        Form("required", _RATED, example="popquorn:dataset/offensiveness/raw_data.csv"),
        ("instance_id", "user_id", "text"),
    ),
    "rewardbench": BenchmarkKind(
        "rewardbench:load",
        "rewardbench:CARD",
        Form("optional", ("prior", "revision", "skip")),
        ("chosen_model", "rejected_model", "subset"),
    ),
    "rewardbench2": BenchmarkKind("rewardbench:load_2", "rewardbench:CARD_2", _HUB, ("num_correct", "chosen[]")),
    "rm-bench": BenchmarkKind(
        "rewardbench:load_rm_bench", "rewardbench:RM_BENCH_CARD", _HUB, ("prompt", "chosen[]", "rejected[]")
    ),
    "rmb": BenchmarkKind(
        "rmb:load", "rmb:CARD", Form("required", ("skip",), example="rmb:RMB_dataset"), ("pair_uid",), ("bon_uid",)
    ),
    "judgebench": BenchmarkKind(
        "two_orders:load",
        "two_orders:CARD",
        Form("optional", ("split", "revision", "skip")),
        ("pair_id", "response_A", "response_B"),
    ),
    "rewardmath": BenchmarkKind(
        "rmb:load_rewardmath",
        "rmb:REWARDMATH_CARD",
        Form("required", ("skip",), example="rewardmath:RewardMATH_direct.json"),
        ("problem_id", "eval_solution"),
    ),
    "ppe": BenchmarkKind(
        "ppe:load",
        "ppe:CARD",
        Form("optional", ("set", "revision", "skip")),
        ("response_1", "response_2", "winner"),
        ("response_1", "response_2", "scores"),
    ),
    "llmbar": BenchmarkKind(
        "two_orders:load_llmbar",
        "two_orders:LLMBAR_CARD",
        Form("required", ("skip",), example="llmbar:Dataset/LLMBar"),
        ("output_1", "output_2", "label"),
    ),
    "context-pairs": BenchmarkKind("context_pairs:load", "context_pairs:CARD", _PAIRS, ("writer", "pairs")),
    "table": BenchmarkKind(
        "person_table:load",
        "person_table:CARD",
        Form("required", (*_TABLE, *_RATED), example="table:FILE.csv"),
        ("person", "item", "label"),
    ),
    "rows": BenchmarkKind("generic:load", "generic:CARD", _ROWS, ("chosen", "rejected"), ("candidates",)),
    "python": BenchmarkKind("promises:load", "promises:CARD", PLUGIN),
}
"""A file is of the first kind whose `keys` its first row has: alignx stands before prb, prb before lamp-qa."""


def load_benchmark(spec: str | Path, *, seed: int = 0) -> Benchmark:
    """Return the benchmark that a spec string or a path names; the same seed places the candidates in the same way."""
    check_type(spec, (str, Path), "benchmark", "a name such as 'pocket-prb', or a path")
    parsed = spec_of(str(spec))
    benchmark: Benchmark = _attribute(KINDS[parsed.kind].loader)(parsed, seed=seed)
    return replace(benchmark, spec=str(spec))


def spec_of(text: str) -> Spec:
    """Return the parsed spec of a benchmark, or of a path in the format that its first row tells."""
    return _of_path(text) if _is_path(text) else parse_benchmark(text)


def parse_benchmark(text: str) -> Spec:
    """Return the parsed spec of a benchmark; unknown kinds and keys name the nearest known ones."""
    return parse(text, {name: kind.form for name, kind in KINDS.items()}, noun="benchmark")


def spec_of_card(card: Card) -> str:
    """Return what `load_benchmark` takes for a card, as far as the card says it; BENCH for a file of one's own."""
    drawn = card.revision.partition(" ")[0]  # simulated,users=60,...
    if drawn.startswith(f"{card.name},"):
        return drawn.replace(",", ":", 1)
    return card.name if card.name in KINDS else "BENCH"


def cards() -> list[Card]:
    """Return the card of every kind in the table, without loading any data."""
    return [_attribute(kind.card) for kind in KINDS.values()]


def _attribute(name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a loader or a card
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def _is_path(text: str) -> bool:
    head = text.partition(",")[0].partition(":")[0]
    return head not in KINDS and ("/" in head or "." in head or (text != "" and exists(Path(text))))


_NEAREST = 4
"""Formats that a file of unknown rows is compared with in words: our own, and those with most of its keys."""


def _of_path(text: str) -> Spec:
    """Return the spec for a bare path, options after a comma; the first row's keys tell its format."""
    from pluralrm.benchmarks.dirt import SKIP
    from pluralrm.benchmarks.rows import at_once
    from pluralrm.benchmarks.sources import find_sources, local_path

    path, options = (text, "") if exists(Path(text)) else text.partition(",")[::2]
    if not exists(Path(path)):
        path = unescape(path)
    first = find_sources(local_path(path))[0].file
    skips = f"{SKIP}=" in options
    location, row = next(read_rows(first, (lambda _: None) if skips else at_once), (None, {}))
    if location is None:
        raise BenchmarkError(f"{shortened(str(first), 200)}: found no rows, wanted at least one")
    prompt = row.get("prompt")
    if (isinstance(prompt, list) and prompt and not isinstance(prompt[0], dict)) or (
        isinstance(prompt, dict) and "0" in prompt
    ):
        raise BenchmarkError(
            f"{location}: found all prompts in one object, wanted a row each (pandas: orient='records')"
        )
    for name, kind in KINDS.items():
        if kind.reads(row):
            spec = parse_benchmark(f"{name}:-,{options}" if options else f"{name}:-")
            return Spec(name, path, spec.options)
    formats = {
        name: f"{name} has {', or '.join(' and '.join(keys) for keys in (kind.keys, kind.or_keys) if keys)}"
        for name, kind in KINDS.items()
        if kind.keys
    }
    shared = {name: sum(key.removesuffix("[]") in row for key in KINDS[name].keys) for name in formats}
    near = sorted(formats, key=lambda name: (name != "rows", -shared[name]))[:_NEAREST]
    actual = ", ".join(shortened(key) for key in list(row)[:8]) or "none"
    raise BenchmarkError(
        f"{location}: found the keys {actual}, wanted those of a known format: "
        f"{'; '.join(formats[name] for name in near)}; or one of {len(formats) - len(near)} others. "
        "Who chose or rated what, one judgment a row: table:FILE,person=COLUMN,item=COLUMN,label=COLUMN. "
        "See 'pluralrm list benchmarks'"
    )


def placed(candidates: Iterable[str], item: str, seed: int) -> list[str]:
    """Return the candidates' ids in the order of this item and seed: file order and workers change nothing."""
    order = sorted(candidates)
    random.Random(f"{seed}:{item}").shuffle(order)
    return order
