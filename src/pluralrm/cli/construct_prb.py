"""`pluralrm construct prb`: pairs of answers to personal questions, written and judged by models, released if sound."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

import typer

from pluralrm.cli.construction import (
    ACCEPT_LEAKS,
    DRY_RUN,
    LIMIT,
    URL,
    BuildWork,
    ConstructOptions,
    build_demo,
    refuse_beside_demo,
    run_build,
)
from pluralrm.cli.options import SEND, SERVED, SHARD, ServerOptions, named_shard, with_options, with_server_options
from pluralrm.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.card import Card
    from pluralrm.construct.pipeline import Built
    from pluralrm.construct.prb import Rules
    from pluralrm.construct.release import About, Edition
    from pluralrm.retrieval import Ranking


class PrbOptions(NamedTuple):
    """These options as given; the fields of Rules, but for `by`, which says its ranking."""

    rejected: str = "published"
    posts: int = 10
    by: str = "bm25"
    attempts: int = 3
    most_words: int = 100
    band: float = 1.25
    high: float = 0.75
    low: float = 0.25
    opposite: float = 0.5
    margin: int = 1
    floor: int = 3
    coverage: float = 0.25

    def rules(self) -> "Rules":
        """Return the rules; values that make no sense are an error."""
        from pluralrm.construct.prb import RejectedKinds, Rules

        kinds = get_args(RejectedKinds)
        if self.rejected not in kinds:
            raise SpecError(f"--rejected {self.rejected}: unknown kind.{did_you_mean(self.rejected, kinds)}")
        values = {name: value for name, value in self._asdict().items() if name != "by"}
        return Rules(ranking=_ranking(self.by), **values)

    @property
    def changed(self) -> list[str]:
        """The options that were given, and not as they are by default."""
        changed = [name for name in self._fields if getattr(self, name) != getattr(DECLARED, name)]
        return [f"--{name.replace('_', '-')}" for name in changed]


def _ranking(by: str) -> "Ranking":
    from pluralrm.retrieval import parse_ranking
    from pluralrm.specs import Spec

    return parse_ranking(Spec("posts", options={"by": by}))


DECLARED = PrbOptions()
_RULES = {
    "rejected": ("KIND", "published: avoids the aspects; contrary: the opposite taste; both: two benchmarks."),
    "posts": ("K", "Posts that models see."),
    "by": ("RANKING", "How posts are ranked: bm25, embed:MODEL, recent, random."),
    "attempts": ("N", "Maximum attempts per text."),
    "most_words": ("N", "Maximum words per answer."),
    "band": ("X", "Maximum length ratio of the two answers, in words."),
    "high": ("X", "Minimum share of the expected aspects that a chosen answer covers."),
    "low": ("X", "Maximum share of them that a rejected answer covers."),
    "opposite": ("X", "Minimum share of them that a contrary answer contradicts."),
    "margin": ("N", "Maximum difference of the two in quality (1 to 5)."),
    "floor": ("N", "Minimum quality of both."),
    "coverage": ("X", "Maximum difference in coverage of the question between chosen and contrary."),
}
with_rules = with_options(
    "declared",
    PrbOptions,
    {
        name: typer.Option(getattr(DECLARED, name), metavar=metavar, help=text)
        for name, (metavar, text) in _RULES.items()
    },
)
"""Puts an option for each field of PrbOptions in the place of a verb's parameter `declared`."""

_OUT = typer.Option(None, "--out", "-o", metavar="DIR", help="Folder of the build; the same command resumes.")
_DEMO = Path("prb-demo")
_NEXT = """
What to try next
  what each gate refused, and why
      pluralrm construct show {folder}
  models that know nothing of the user: half of the pairs are theirs by chance
      pluralrm score {load} -m longest -m bm25 -c none -o prb-runs
  whether the labels can be guessed without the user
      pluralrm audit {load}
  a set from your own questions, written by a model on your machine
      pluralrm construct prb my-questions.jsonl -o my-set --writer MODEL --judge MODEL --url http://127.0.0.1:8000/v1"""


@with_rules
@with_server_options
def construct_prb(
    benchmark: str = typer.Argument("", metavar="[BENCH]", help="Questions with posts: lamp-qa, or JSONL like it."),
    out: Path | None = _OUT,
    writer: list[str] = typer.Option([], "--writer", metavar="MODEL", help="Writes the answers; repeat for more."),
    judge: list[str] = typer.Option([], "--judge", metavar="MODEL", help="Judges the answers; repeat for more."),
    planner: list[str] = typer.Option(
        [],
        "--planner",
        metavar="MODEL",
        help="Infers rubric aspects where the data has none.",
        show_default="the writers",
    ),
    url: str = URL,
    declared: PrbOptions = DECLARED,
    licence: str = typer.Option("", "--licence", metavar="TEXT", help="Licence in the data card."),
    limit: int | None = LIMIT,
    shard: str = SHARD,
    dry_run: bool = DRY_RUN,
    demo: bool = typer.Option(False, "--demo", help="Build a small set from a shipped recording; no request is sent."),
    accept_leaks: bool = ACCEPT_LEAKS,
    send: bool = SEND,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Build a benchmark of two answers to each question: one gives this user what they expect, one does not.

    Exit 3 if records wait for a server, 1 if the audit finds a leak.
    """
    part = named_shard(shard)
    if demo:
        models = {"--writer": writer, "--judge": judge, "--planner": planner, "--url": url}
        others = {"--licence": licence, "--send-posts": send, "--replay": served.replay}
        changed = dict.fromkeys(declared.changed, True)
        refuse_beside_demo({"BENCH": benchmark, **models, **others, **changed})
        options = ConstructOptions(
            out or _DEMO, limit=limit, dry_run=dry_run, accept_leaks=accept_leaks, as_json=as_json, shard=part
        )
        _build_demo(options, served)
        return
    if not benchmark or out is None or not writer or not judge:
        raise SpecError("wanted BENCH, -o DIR, --writer MODEL and --judge MODEL; or --demo, which needs none of them")
    work = _work(benchmark, declared.rules(), (writer, judge, planner), licence=licence, served=served)
    run_build(work, ConstructOptions(out, url, limit, dry_run, accept_leaks, send, served, as_json, part))


def _work(
    benchmark: str,
    rules: "Rules",
    models: tuple[list[str], list[str], list[str]],
    *,
    licence: str,
    served: ServerOptions,
) -> BuildWork:
    from pluralrm.cli.options import open_benchmark
    from pluralrm.construct.prb import prb_pipeline, records_of, roles
    from pluralrm.folders import default_cache
    from pluralrm.retrieval import Ranker

    bench = open_benchmark(benchmark)
    ranker = Ranker(rules.ranking, cache=served.cache or default_cache())
    return BuildWork(
        records_of(bench),
        roles(*models),
        lambda: prb_pipeline(rules, ranker=ranker),
        lambda built: _released(built, rules, bench.card, licence),
    )


def _released(built: "Built", rules: "Rules", card: "Card", licence: str) -> "tuple[Sequence[Edition], About]":
    from pluralrm.construct.prb.card import about, editions

    return editions(built.kept, rules.kinds), about(built, rules, card, licence=licence)


# ---------------------------------------------------------------- the demo


def _build_demo(options: ConstructOptions, served: ServerOptions) -> None:
    from pluralrm.cli.options import open_benchmark
    from pluralrm.construct.demo import BENCHMARK, PRB_CASSETTE, RULES, prb_records, prb_roles
    from pluralrm.construct.prb import prb_pipeline

    card = open_benchmark(BENCHMARK).card
    work = BuildWork(
        prb_records(), prb_roles(), lambda: prb_pipeline(RULES), lambda built: _released_demo(built, RULES, card)
    )
    build_demo(work, options._replace(served=served._replace(replay=PRB_CASSETTE)), _NEXT)


def _released_demo(built: "Built", rules: "Rules", card: "Card") -> "tuple[Sequence[Edition], About]":
    """Return the same as of any set; no file of the reader's is needed to make this one again."""
    editions, about = _released(built, rules, card, card.licence)
    return editions, replace(about, command="pluralrm construct prb --demo -o DIR")
