"""The pipeline: from a prompt to a record of RMGAP's kind, and to its row."""

from collections.abc import Mapping, Sequence

from pluralrm.benchmarks.rmgap import KEYS, GroupRow, PromptRow, RecordRow, ResponseRow
from pluralrm.construct.pipeline import Pipeline, Pools, Record, Role
from pluralrm.construct.rmgap import blind, paraphrasing, responding, selecting, tailoring
from pluralrm.construct.rmgap.options import Options
from pluralrm.construct.rmgap.products import Paraphrased, Prompt, Responses, Styled, Tailored

NAME = "rmgap"
ROLES = ("generator", "rater", "reviewer", "chair", "tailor", "paraphraser")
REVIEWERS = 2


def pipeline(options: Options) -> Pipeline:
    """Return the stages in their order: what costs nothing before what is paid for."""
    return Pipeline(
        NAME,
        Prompt,
        (
            selecting.wording(),
            selecting.exact(),
            selecting.semantic(options),
            selecting.ratings(),
            responding.styles(options.seed),
            responding.responses(options),
            tailoring.prompts(options),
            blind.unique(options),
            paraphrasing.paraphrases(options),
        ),
    )


def roles(specs: Mapping[str, Sequence[str]]) -> list[Role]:
    """Return the parts that models play; prompts of files are nobody's posts, so they may leave this machine."""
    return [Role(name, specs[name], private=False) for name in ROLES]


def rows(records: Sequence[Record], pools: Pools) -> list[RecordRow]:
    """Return the records in the published schema, each response with the name of its model."""
    return [_row(record, pools) for record in sorted(records, key=lambda record: record.id)]


def _row(record: Record, pools: Pools) -> RecordRow:
    prompt, responses = record[Prompt], record[Responses].texts
    names = pools.models("generator", record.id)
    return RecordRow(
        id=record.id,
        domain=record.domain,  # type: ignore[arg-type] # one of the four, checked where it came in
        source=prompt.source,
        original_prompt=prompt.text,
        reference=prompt.reference or None,
        tests=prompt.tests or None,
        entry=prompt.entry or None,
        models={key: names[written.turn % len(names)] for key, written in zip(KEYS, responses, strict=True)},
        responses=[ResponseRow(key=key, text=written.text) for key, written in zip(KEYS, responses, strict=True)],
        prompt_groups=[_group(record, place) for place in range(len(KEYS))],
        style_assignments=record[Styled].styles,
    )


def _group(record: Record, place: int) -> GroupRow:
    each = paraphrasing.EACH
    rewrites = record[Paraphrased].texts[each * place : each * (place + 1)]
    return GroupRow(
        group=place + 1,
        winner=KEYS[place],
        prompts=[
            PromptRow(role="base", text=record[Tailored].texts[place].text),
            *(PromptRow(role="rewrite", text=written.text) for written in rewrites),
        ],
    )
