"""What the data card says of a set of this kind, beyond what every build says of itself."""

import shlex
from collections.abc import Sequence

from pydantic import JsonValue

from pluralrm.benchmarks.rmgap import STYLES
from pluralrm.construct.card import About, Edition
from pluralrm.construct.pipeline import Built, Pools
from pluralrm.construct.rmgap.options import RmgapOptions
from pluralrm.construct.rmgap.products import Responses, SeedPrompt, Styled
from pluralrm.construct.rmgap.stages import NAME, ROLES, rows

LICENCE = "not stated: the builder says what the prompts and the models' replies may be used for"
_LIMITS = (
    "Labels are by construction: models wrote and reviewed each prompt so that one of four responses fits it.",
    "The blind test's judge is a model: what it cannot distinguish is left out; that helps models that read alike.",
    "A record's twelve prompts share four responses: resample records, not prompts.",
)


def editions(built: Built) -> list[Edition]:
    """Return the one benchmark of the release."""
    return [Edition(NAME, "rmgap", {NAME: rows(built.kept, built.pools)})]


def about(built: Built, options: RmgapOptions, *, rows_in: int, licence: str = "") -> About:
    """Return what is known of the set; `rows_in` is how many rows the records were merged from."""
    sources = sorted({record[SeedPrompt].source for record in built.kept} - {""})
    return About(
        name=NAME,
        summary="As RMGAP: four responses in four styles to a prompt, and twelve prompts that each want one of them",
        licence=licence or LICENCE,
        source=f"{rows_in:,} rows of prompts; sources of those that are released: {', '.join(sources) or 'not stated'}",
        command=command(built, options),
        limits=_LIMITS,
        warnings=_warnings(built.pools, options),
        packages=_packages(built, options),
        extras={"rows": rows_in, "styles": _styles(built), "generators": _generators(built)},
    )


def command(built: Built, options: RmgapOptions) -> str:
    """Return the command that makes the set again from its inputs and its cassette."""
    words = ["pluralrm", "construct", "rmgap", "INPUT", "-o", "DIR", "--replay", "calls.jsonl"]
    for role in ROLES:
        for spec in built.pools.published(role):
            words += [f"--{role}", spec]
    words += ["--embed", options.embedded_by, "--attempts", str(options.attempts), "--seed", str(options.seed)]
    words += ["--as-published"] * (options.rule == "mean")
    words += ["--limit", str(built.manifest.limit)] if built.manifest.limit is not None else []
    return shlex.join(words)


def _warnings(pools: Pools, options: RmgapOptions) -> list[str]:
    writers = {member.name for role in ("generator", "tailor") for member in pools.roles[role]}
    judges = {member.name for role in ("reviewer", "chair") for member in pools.roles[role]}
    both = sorted(writers & judges)
    warnings = [f"{', '.join(both)}: writes and judges, so it may favour what it wrote"] if both else []
    if options.rule == "mean":
        warnings.append("reviewed by the published mean: a bad response or prompt may hide among three good ones")
    return warnings


def _packages(built: Built, options: RmgapOptions) -> list[str]:
    """Return the packages that decided on a record: what embeds, and what compares answers."""
    embeds = ["sentence-transformers", "torch"] * options.embedder.spec.startswith("embed:")
    return embeds + ["math-verify"] * any(record[SeedPrompt].reference for record in built.kept)


def _styles(built: Built) -> dict[str, JsonValue]:
    """Return how many responses have each level of each dimension."""
    given = [style for record in built.kept for style in record[Styled].styles.values()]
    return {
        dimension: {level: sum(style[dimension] == level for style in given) for level in levels}
        for dimension, levels in STYLES.items()
    }


def _generators(built: Built) -> dict[str, JsonValue]:
    """Return how many responses each model wrote."""
    names: Sequence[str] = [
        built.pools.models("generator", record.id)[written.turn % len(built.pools.roles["generator"])]
        for record in built.kept
        for written in record[Responses].texts
    ]
    return {name: names.count(name) for name in sorted(set(names))}
