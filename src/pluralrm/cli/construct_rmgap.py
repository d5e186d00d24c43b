"""`pluralrm construct rmgap`: four answers in four styles to a prompt, and prompts that want one of them."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pluralrm.cli.construction import ACCEPT_LEAKS, DRY_RUN, LIMIT, URL, BuildWork, ConstructOptions, run_build
from pluralrm.cli.options import SERVED, ServerOptions, with_server_options
from pluralrm.cli.terminal import console, note
from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from pluralrm.construct.card import About, Edition
    from pluralrm.construct.pipeline import Built
    from pluralrm.construct.rmgap.options import RmgapOptions as Rules

_DEMO = Path("rmgap-demo")
_REVIEWERS = 2
_NEXT = """
What to try next
  what each gate refused, and why
      pluralrm construct show {folder}
  a model that never reads the prompt is right in exactly 25 of 100, by design
      pluralrm score {load} -m longest -c none -o rmgap-runs
  whether the right answer can be guessed without the prompt
      pluralrm audit {load}
  a set from prompts of your own, written by models on your machine
      pluralrm construct rmgap my-prompts.jsonl -o my-set --url http://127.0.0.1:8000/v1 --generator A --generator B \\
          --rater C --reviewer C --reviewer D --chair E --tailor A --paraphraser B"""


@with_server_options
def construct_rmgap(
    prompts: list[str] = typer.Argument(
        None, metavar="FILE", help="Rows (text, domain, source), lines, or folders of sources."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", metavar="DIR", help="Folder; the same command resumes."),
    generator: list[str] = typer.Option(
        [], "--generator", metavar="MODEL", help="Writes the responses; repeat for more."
    ),
    rater: str = typer.Option("", "--rater", metavar="MODEL", help="Rates the source prompts."),
    reviewer: list[str] = typer.Option([], "--reviewer", metavar="MODEL", help="Reviews; name two or more."),
    chair: str = typer.Option(
        "", "--chair", metavar="MODEL", help="Decides where two reviewers disagree; takes the blind test."
    ),
    tailor: list[str] = typer.Option([], "--tailor", metavar="MODEL", help="Writes the prompts; repeat for more."),
    paraphraser: list[str] = typer.Option(
        [], "--paraphraser", metavar="MODEL", help="Rephrases.", show_default="the tailors"
    ),
    url: str = URL,
    embed: str = typer.Option("", "--embed", metavar="MODEL", help="embed:MODEL.", show_default="the packaged MiniLM"),
    attempts: int = typer.Option(3, "--attempts", min=1, metavar="N", help="Maximum attempts per text."),
    seed: int = typer.Option(0, "--seed", metavar="N", help="Seed of the styles and orders."),
    as_published: bool = typer.Option(
        False, "--as-published", help="Accept by the mean of four reviews, which can hide a bad one."
    ),
    licence: str = typer.Option("", "--licence", metavar="TEXT", help="Licence in the data card."),
    limit: int | None = LIMIT,
    dry_run: bool = DRY_RUN,
    demo: bool = typer.Option(False, "--demo", help="Build a small set from a shipped recording; no request is sent."),
    accept_leaks: bool = ACCEPT_LEAKS,
    served: ServerOptions = SERVED,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Build a benchmark of prompts that each match one of four answers, which differ only in style.

    Exit 3 if records wait for a server, 1 if the audit finds a leak.
    """
    models = {
        "generator": generator,
        "rater": [rater] * bool(rater),
        "reviewer": reviewer,
        "chair": [chair] * bool(chair),
        "tailor": tailor,
        "paraphraser": paraphraser or tailor,
    }
    options = ConstructOptions(out or _DEMO, url, limit, dry_run, accept_leaks, served=served, as_json=as_json)
    if demo:
        own = {"FILE": prompts, "--url": url, "--embed": embed, "--seed": seed, "--as-published": as_published}
        named = {f"--{role}": given for role, given in {**models, "paraphraser": paraphraser}.items()}
        _refuse_beside_demo(
            {**own, **named, "--attempts": attempts != 3, "--replay": served.replay, "--licence": licence}
        )
        _build_demo(options)
        return
    _require(prompts, out, models)
    rules = cache(lambda: _rules(embed, options, attempts=attempts, seed=seed, as_published=as_published))
    run_build(_work(prompts, models, rules, dry_run=dry_run, licence=licence), options)


def _require(prompts: Sequence[str], out: Path | None, models: Mapping[str, Sequence[str]]) -> None:
    """Raise where something is not named that a build cannot do without."""
    missing = [f"--{role} MODEL" for role, given in models.items() if not given and role != "paraphraser"]
    missing = ["FILE"] * (not prompts) + ["-o DIR"] * (out is None) + missing
    if missing:
        raise SpecError(f"wanted {', '.join(missing)}; or --demo, which needs none of them")
    if len(models["reviewer"]) < _REVIEWERS:
        raise SpecError(f"--reviewer: found {len(models['reviewer'])} model, wanted two: each text is reviewed by both")


def _rules(embed: str, options: ConstructOptions, *, attempts: int, seed: int, as_published: bool) -> "Rules":
    """Return what the build is told; it is asked for once the folder is held, where a served embedder records."""
    from pluralrm.audit.embedder import DEFAULT, open_embedder
    from pluralrm.construct.pipeline import Folder
    from pluralrm.construct.rmgap.options import RmgapOptions as Rules
    from pluralrm.construct.rmgap.options import for_dry_run
    from pluralrm.folders import default_cache

    settings = options.served.settings()
    kept = settings if options.dry_run else Folder(options.out).settings(settings)
    embedder = open_embedder(embed or DEFAULT, cache=options.served.cache or default_cache(), settings=kept)
    rules = Rules(embedder, attempts=attempts, rule="mean" if as_published else "each", seed=seed)
    return for_dry_run(rules) if options.dry_run else rules


def _work(
    prompts: Sequence[str],
    models: Mapping[str, Sequence[str]],
    rules: "Callable[[], Rules]",
    *,
    dry_run: bool,
    licence: str,
) -> BuildWork:
    from pluralrm.construct.rmgap.options import require_validators
    from pluralrm.construct.rmgap.products import SeedPrompt
    from pluralrm.construct.rmgap.sources import read_prompts
    from pluralrm.construct.rmgap.stages import pipeline, roles

    found = read_prompts(prompts)
    if found.rows > len(found.records):
        note(f"{found.rows:,} rows are {len(found.records):,} prompts: equal texts of one domain are one")
    if found.ignored:
        note(f"columns that are not read: {', '.join(found.ignored)}")
    if not dry_run:
        require_validators(record[SeedPrompt] for record in found.records)
    return BuildWork(
        found.records,
        roles(models),
        lambda: pipeline(rules()),
        lambda built: _released(built, rules(), found.rows, licence),
    )


def _released(built: "Built", rules: "Rules", rows: int, licence: str) -> "tuple[Sequence[Edition], About]":
    from pluralrm.construct.rmgap.stages import about, editions

    return editions(built), about(built, rules, rows_in=rows, licence=licence)


# ---------------------------------------------------------------- the demo


def _refuse_beside_demo(given: Mapping[str, object]) -> None:
    if named := [name for name, value in given.items() if value]:
        raise SpecError(f"{', '.join(named)}: --demo answers from its own recording; leave it out, or leave out --demo")


def _build_demo(options: ConstructOptions) -> None:
    from pluralrm.construct.demo import RMGAP_CASSETTE, rmgap_options, rmgap_records, rmgap_roles
    from pluralrm.construct.rmgap.options import for_dry_run
    from pluralrm.construct.rmgap.stages import pipeline

    rules, records = rmgap_options(), rmgap_records()
    rules = for_dry_run(rules) if options.dry_run else rules
    work = BuildWork(
        records, rmgap_roles(), lambda: pipeline(rules), lambda built: _released_demo(built, rules, len(records))
    )
    released = run_build(work, options._replace(served=options.served._replace(replay=RMGAP_CASSETTE)))
    if released is not None and not options.as_json:
        told = _NEXT.format(folder=shlex.quote(str(options.out)), load=shlex.quote(released.loads[-1]))
        console().print(told, markup=False, highlight=False)


def _released_demo(built: "Built", rules: "Rules", rows: int) -> "tuple[Sequence[Edition], About]":
    """Return the same as of any set; no file of the reader's is needed to make this one again."""
    editions, about = _released(built, rules, rows, "Apache-2.0; written for pluralrm")
    return editions, replace(about, command="pluralrm construct rmgap --demo -o DIR", packages=())
