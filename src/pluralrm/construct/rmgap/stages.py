"""The pipeline: from a prompt to a record of RMGAP's kind, to its row, and to what the data card says of the set."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from pluralrm.benchmarks.rmgap import KEYS, STYLES, GroupRow, PromptRow, RecordRow, ResponseRow
from pluralrm.construct import filters
from pluralrm.construct.filters import THRESHOLD, similar
from pluralrm.construct.pipeline.engine import Built
from pluralrm.construct.pipeline.pools import Pools, Role
from pluralrm.construct.pipeline.stages import (
    Acceptance,
    Decision,
    ModelCall,
    Pipeline,
    Product,
    Record,
    Rejection,
    Sieve,
    Stage,
    StandIn,
    Work,
    ask,
    ask_all,
    at_once,
)
from pluralrm.construct.release import About, Edition
from pluralrm.construct.rmgap import (
    DistinctPrompt,
    Paraphrased,
    PromptRatings,
    Responses,
    RmgapOptions,
    SeedPrompt,
    Single,
    Styled,
    Tailored,
    Unique,
    Worded,
    prompts,
    responses,
)
from pluralrm.construct.rmgap.review import Fences, read_pick, read_ratings, shuffled
from pluralrm.core import Failure
from pluralrm.models.judge.verdicts import LETTERS
from pluralrm.templates import load_template


def wording() -> Stage:
    """Return the stage that refuses by rules on one text; it sends no request."""

    def decide(record: Record) -> Decision:
        prompt = record[SeedPrompt]
        if prompt.domain == "Reasoning" and not (prompt.reference or prompt.tests):
            return Rejection("unchecked", "Reasoning without a reference or tests: no answer could be checked")
        refused = filters.refused_text(prompt.text)
        return Rejection(refused.rule, refused.found) if refused else Acceptance(Worded())

    gate = (
        "a prompt that gives the model a role, one with a character that English and scientific notation do not have, "
    )
    gate += "and one of Reasoning whose answers could not be checked"
    return Stage("wording", Worded, at_once(decide), reads=(SeedPrompt,), gate=gate)


def exact() -> Sieve:
    """Return the sieve that keeps one of the prompts with the same letters and digits."""
    gate = "a prompt with the letters and digits, in lower case, of one of a smaller id"
    return Sieve("exact", Single, _sieve(filters.duplicates, Single), reads=(Worded,), gate=gate)


def semantic(options: RmgapOptions) -> Sieve:
    """Return the sieve that keeps a prompt whose cosine with every kept one of a smaller id is at most 0.70."""
    return Sieve(
        "semantic",
        DistinctPrompt,
        _sieve(lambda prompts: similar(prompts, options.embedder), DistinctPrompt),
        reads=(Single,),
        gate="a prompt whose cosine with one of a smaller id that is kept is above the threshold",
        settings={
            "threshold": THRESHOLD,
            "embedder": options.embedded_by,
            "embedder identity": options.embedder.identity,
        },
    )


def _sieve(
    drop: Callable[[filters.Prompts], dict[str, filters.FilterRefusal]], product: type[Product]
) -> Callable[[Sequence[Record]], Sequence[Decision]]:
    def decide(records: Sequence[Record]) -> Sequence[Decision]:
        dropped = drop({record.id: record[SeedPrompt].text for record in records})
        decisions: list[Decision] = []
        for record in records:
            refused = dropped.get(record.id)
            decisions.append(Rejection(refused.rule, refused.found) if refused else Acceptance(product()))
        return decisions

    return decide


def ratings() -> Stage:
    """Return the stage in which a rater gives six marks; which of them must be high depends on the domain."""
    template = load_template("build-rate-prompt-v1")

    def work(record: Record) -> Work[Decision]:
        prompt = record[SeedPrompt]
        quoted = Fences([prompt.text], record.id).one("prompt", prompt.text)
        again = "Reply with the JSON object of six whole numbers from 0 to 5 and nothing else."
        stand_in = StandIn(json.dumps(dict.fromkeys(filters.RATED, filters.HIGHEST)))
        reply = yield from ask(
            ModelCall("rater", template.fill(prompt=quoted), template, read_ratings, again, stand_in=stand_in)
        )
        if isinstance(reply, Failure):
            return Rejection("unjudged", f"{reply.kind}: {reply.detail}")
        refused = filters.refused_ratings(prompt.domain, reply.by_name())
        return Rejection(refused.rule, refused.found) if refused else Acceptance(reply)

    return Stage(
        "ratings",
        PromptRatings,
        work,
        reads=(SeedPrompt,),
        gate=f"a prompt with less than {filters.LEAST} of {filters.HIGHEST} on a dimension that suits its domain "
        "(openness does not count for Reasoning, safety not for Safety), and one whose rating cannot be read",
        templates=(template,),
        settings={"least": filters.LEAST, **{f"rated for {name}": ", ".join(on) for name, on in filters.GATES.items()}},
    )


NAME = "rmgap"
ROLES = ("generator", "rater", "reviewer", "chair", "tailor", "paraphraser")


def pipeline(options: RmgapOptions) -> Pipeline:
    """Return the stages in their order: what costs nothing before what is paid for."""
    return Pipeline(
        NAME,
        SeedPrompt,
        (
            wording(),
            exact(),
            semantic(options),
            ratings(),
            responses.styles(options.seed),
            responses.responses(options),
            prompts.prompts(options),
            unique(options),
            prompts.paraphrases(options),
        ),
    )


def roles(specs: Mapping[str, Sequence[str]]) -> list[Role]:
    """Return the parts that models play; prompts of files are no user's posts, so they may leave this machine."""
    return [Role(name, specs[name], private=False) for name in ROLES]


def rows(records: Sequence[Record], pools: Pools) -> list[RecordRow]:
    """Return the records in the published schema, each response with the name of its model."""
    return [_row(record, pools) for record in sorted(records, key=lambda record: record.id)]


def _row(record: Record, pools: Pools) -> RecordRow:
    prompt, texts = record[SeedPrompt], record[Responses].texts
    names = pools.models("generator", record.id)
    return RecordRow(
        id=record.id,
        domain=record.domain,  # type: ignore[arg-type] # one of the four, checked where it came in
        source=prompt.source,
        original_prompt=prompt.text,
        reference=prompt.reference or None,
        tests=prompt.tests or None,
        entry=prompt.entry or None,
        models={key: names[written.turn % len(names)] for key, written in zip(KEYS, texts, strict=True)},
        responses=[ResponseRow(key=key, text=written.text) for key, written in zip(KEYS, texts, strict=True)],
        prompt_groups=[_group(record, index) for index in range(len(KEYS))],
        style_assignments=record[Styled].styles,
    )


def _group(record: Record, index: int) -> GroupRow:
    each = prompts.EACH
    rewrites = record[Paraphrased].texts[each * index : each * (index + 1)]
    return GroupRow(
        group=index + 1,
        winner=KEYS[index],
        prompts=[
            PromptRow(role="base", text=record[Tailored].texts[index].text),
            *(PromptRow(role="rewrite", text=written.text) for written in rewrites),
        ],
    )


PICK = load_template("build-pick-v1")


def unique(options: RmgapOptions) -> Stage:
    """Return the stage in which the chair, who is not told the target, picks the response of every prompt, twice."""

    def work(record: Record) -> Work[Decision]:
        orders = [_orders(options.seed, record.id, index) for index in range(len(KEYS))]
        picks = yield from ask_all([_pick(record, index, order) for index, two in enumerate(orders) for order in two])
        requests = [(index, order) for index, two in enumerate(orders) for order in two]
        for (index, order), pick in zip(requests, picks, strict=True):
            if isinstance(pick, Failure):
                return Rejection("unjudged", f"prompt {index + 1}: {pick.kind}: {pick.detail}")
            if pick == "none" or order[pick] != index:
                choice = "none alone" if pick == "none" else f"response {order[pick] + 1}"
                return Rejection(
                    "unique", f"prompt {index + 1} was written for response {index + 1}; the judge picks {choice}"
                )
        return Acceptance(Unique(orders=[[list(order) for order in two] for two in orders]))

    return Stage(
        "unique",
        Unique,
        work,
        reads=(Responses, Tailored),
        gate="a record with a prompt for which a judge, who is not told the response that it was written for, picks "
        "another or none in one of two orders; every response stands at two places. There is no second try",
        templates=(PICK,),
        settings={"orders": 2, "seed": options.seed},
    )


def _orders(seed: int, record: str, index: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return an order of the responses, and one in which each stands at another place."""
    first = shuffled(len(KEYS), seed, record, "unique", index)
    half = len(first) // 2
    return first, first[half:] + first[:half]


def _pick(record: Record, index: int, order: Sequence[int]) -> ModelCall[int | Literal["none"]]:
    prompt, texts = record[Tailored].texts[index].text, [record[Responses].texts[other].text for other in order]
    fences = Fences([prompt, *texts], record.id)
    blocks = fences.each([f"response {letter}" for letter in LETTERS[: len(texts)]], texts)
    text = PICK.fill(prompt=fences.one("prompt", prompt), responses=blocks)
    again = 'Reply with one letter, or with "none", and nothing else.'
    stand_in = StandIn(LETTERS[order.index(index)])
    return ModelCall("chair", text, PICK, lambda reply: read_pick(reply, len(texts)), again, stand_in=stand_in)


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
    styles = [style for record in built.kept for style in record[Styled].styles.values()]
    return {
        dimension: {level: sum(style[dimension] == level for style in styles) for level in levels}
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
