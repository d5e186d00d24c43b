"""Which prompts are built on: rules of wording, equal ones, ones that mean the same, ratings.

What costs nothing comes first, and ratings, which are paid for, come last, in the published order too. The price is
known: of prompts that mean the same, the one of the smallest id is kept before anybody rates it.
"""

from collections.abc import Callable, Sequence

from pluralrm.construct import filters
from pluralrm.construct.pipeline.records import Product, Record
from pluralrm.construct.pipeline.stages import Calls, Sieve, Stage
from pluralrm.construct.pipeline.work import Ask, Decision, Kept, Rejected, Work, ask, at_once
from pluralrm.construct.rmgap.options import Options
from pluralrm.construct.rmgap.products import Distinct, Prompt, Ratings, Single, Worded
from pluralrm.construct.rmgap.replies import read_ratings
from pluralrm.construct.rmgap.shown import Fences
from pluralrm.construct.similar import THRESHOLD, similar
from pluralrm.core import Failure
from pluralrm.templates import load_template

_TOKENS = 4
"""Characters to a token, roughly."""


def wording() -> Stage:
    """Return the stage that refuses by rules on one text; it asks nobody."""

    def decide(record: Record) -> Decision:
        prompt = record[Prompt]
        if prompt.domain == "Reasoning" and not (prompt.reference or prompt.tests):
            return Rejected("unchecked", "Reasoning without a reference or tests: no answer could be checked")
        refused = filters.refused_text(prompt.text)
        return Rejected(refused.rule, refused.found) if refused else Kept(Worded())

    gate = (
        "a prompt that gives the model a role, one with a character that English and scientific notation do not have, "
    )
    gate += "and one of Reasoning whose answers could not be checked"
    return Stage("wording", Worded, at_once(decide), reads=(Prompt,), gate=gate)


def exact() -> Sieve:
    """Return the sieve that keeps one of the prompts with the same letters and digits."""
    gate = "a prompt with the letters and digits, in lower case, of one of a smaller id"
    return Sieve("exact", Single, _sieve(filters.duplicates, Single), reads=(Worded,), gate=gate)


def semantic(options: Options) -> Sieve:
    """Return the sieve that keeps a prompt whose cosine with every kept one of a smaller id is at most 0.70."""
    return Sieve(
        "semantic",
        Distinct,
        _sieve(lambda prompts: similar(prompts, options.embedder), Distinct),
        reads=(Single,),
        gate="a prompt whose cosine with one of a smaller id that is kept is above the threshold",
        settings={
            "threshold": THRESHOLD,
            "embedder": options.embedded_by,
            "embedder identity": options.embedder.identity,
        },
    )


def _sieve(
    drop: Callable[[filters.Prompts], dict[str, filters.Refusal]], product: type[Product]
) -> Callable[[Sequence[Record]], Sequence[Decision]]:
    def decide(records: Sequence[Record]) -> Sequence[Decision]:
        dropped = drop({record.id: record[Prompt].text for record in records})
        decisions: list[Decision] = []
        for record in records:
            refused = dropped.get(record.id)
            decisions.append(Rejected(refused.rule, refused.found) if refused else Kept(product()))
        return decisions

    return decide


def ratings() -> Stage:
    """Return the stage in which a rater gives six marks; which of them must be high depends on the domain."""
    template = load_template("build-rate-prompt-v1")

    def work(record: Record) -> Work[Decision]:
        prompt = record[Prompt]
        shown = Fences([prompt.text], record.id).one("prompt", prompt.text)
        again = "Reply with the JSON object of six whole numbers from 0 to 5 and nothing else."
        said = yield from ask(Ask("rater", template.fill(prompt=shown), template, read_ratings, again))
        if isinstance(said, Failure):
            return Rejected("unjudged", f"{said.kind}: {said.detail}")
        refused = filters.refused_ratings(prompt.domain, said.by_name())
        return Rejected(refused.rule, refused.found) if refused else Kept(said)

    return Stage(
        "ratings",
        Ratings,
        work,
        reads=(Prompt,),
        gate=f"a prompt with less than {filters.LEAST} of {filters.HIGHEST} on a dimension that suits its domain "
        "(openness does not count for Reasoning, safety not for Safety), and one whose rating cannot be read",
        templates=(template,),
        calls=lambda record: [Calls("rater", 1, 1, 300 + len(record[Prompt].text) // _TOKENS, 60)],
        settings={"least": filters.LEAST, **{f"rated for {name}": ", ".join(on) for name, on in filters.GATES.items()}},
    )
