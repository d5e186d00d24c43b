"""RMGAP (arXiv 2605.01831): four answers in four styles, and prompts that want one of them.

One record, shortened; the file has one a line (`data/test.jsonl` in the authors' repository):

    {"id": "chat_17", "domain": "Chat", "source": "WildChat", "models": {"response1": "some-model", ...},
     "responses": [{"key": "response1", "text": "Nah, not dead, just cold! ..."}, ... to response4],
     "prompt_groups": [{"group": 1, "winner": "response1",
                        "prompts": [{"role": "base", "text": "Quick one while I am at the shop: my starter ..."},
                                    {"role": "rewrite", "text": "..."}, {"role": "rewrite", "text": "..."}]},
                       ... four, each response wins one],
     "style_assignments": {"r1": {"Formality": "casual", "Conciseness": "terse", "Technicality": "layman",
                                  "Objectivity": "subjective", "Structural_Coherence": "loose"}, ... to r4}}

A record becomes twelve items that share their four answers, so statistics resample records. What a file leaves out,
the place decides: `group` counts from 1, the first prompt of a group is its base, and `r1` is the style of the first
response. `source` and `models` may be left out; without `style_assignments` no style is told. Response keys are any
four ids. Our own releases also hold `original_prompt`, which `prompts=original` asks instead of the tailored ones,
and of Reasoning the `reference` or the `tests` (and `entry`) by which answers are checked; graders alone read these.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pluralrm.benchmarks import placed
from pluralrm.benchmarks.dirt import Dirt, dirt_of
from pluralrm.benchmarks.preferences import word_of
from pluralrm.benchmarks.rows import Place, describe, is_unicode, repeated, shortened
from pluralrm.benchmarks.schema import EXPECTED, BenchmarkRow, Id, Label, Part, Text, wanted
from pluralrm.benchmarks.sources import Source, find_sources, local_card, local_path, read_checked
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, Oracle
from pluralrm.errors import BenchmarkError
from pluralrm.specs import Spec

COUNTS = {"Chat": 397, "Writing": 253, "Reasoning": 225, "Safety": 222}

STYLES: Mapping[str, tuple[str, ...]] = {
    "Formality": ("casual", "informal", "neutral", "formal", "highly_formal"),
    "Conciseness": ("terse", "concise", "moderate", "detailed", "verbose"),
    "Technicality": ("layman", "accessible", "semi_technical", "technical", "highly_specialized"),
    "Objectivity": ("highly_subjective", "subjective", "balanced", "objective", "strictly_objective"),
    "Structural_Coherence": ("fragmented", "loose", "organized", "well_structured", "rigorous"),
}
"""Each dimension of style with its five levels, in order."""

KEYS = ("response1", "response2", "response3", "response4")
HOME = "https://github.com/nanzhi84/RMGAP"

CARD = Card(
    name="rmgap",
    summary="RMGAP: which of four answers in different styles fits this prompt, asked in three phrasings?",
    licence="MIT",
    source=f"{HOME} (data/test.jsonl)",
    labelled="by construction: each prompt was written and reviewed by LLMs, so that one of the four answers fits it",
    citation="Yangyang Zhou and Yi-Chen Li. RMGAP: Benchmarking the Generalization of Reward Models across Diverse "
    "Preferences. arXiv:2605.01831, 2026.",
    notes="A record's twelve prompts share four answers. A scorer that never reads the prompt, and has no ties, has "
    "exactly BoN 25 and Pair 50.",
    cluster="record",
    average="macro",
    metrics=("bon", "pair", "consistency", "all_phrasings"),
)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and is_unicode(value)


def _names(value: object) -> object:
    names = list(value.values()) if isinstance(value, dict) else value
    if names is None or (isinstance(names, list) and all(name is None or _is_name(name) for name in names)):
        return value
    return wanted("the generators' names, in a list or by response")


def _group_number(value: int) -> int:
    return value if 0 <= value <= 99 else wanted("a whole number from 0 to 99")


class ResponseRow(Part):
    """One of the four answers."""

    key: Id
    text: Text


class PromptRow(Part):
    """One phrasing of a prompt; `id` is its number in the group, where a file has one."""

    id: Id | None = None
    role: Annotated[Literal["base", "rewrite"] | None, EXPECTED] = None
    text: Text


class GroupRow(Part):
    """Three phrasings of a prompt that one response fits."""

    group: Annotated[Annotated[int, AfterValidator(_group_number)] | None, EXPECTED] = None
    winner: Id
    prompts: Annotated[list[PromptRow], Field(min_length=3, max_length=3)]


class RecordRow(BenchmarkRow):
    """Four answers, four groups of prompts, and the style of each answer."""

    domain: Literal["Chat", "Writing", "Reasoning", "Safety"]
    source: Annotated[Label, EXPECTED] = ""
    original_prompt: Text | None = None
    reference: Text | None = None
    tests: Text | None = None
    entry: Text | None = None
    models: Annotated[object, AfterValidator(_names)] = None
    responses: Annotated[list[ResponseRow], Field(min_length=4, max_length=4)]
    prompt_groups: Annotated[list[GroupRow], Field(min_length=4, max_length=4)]
    style_assignments: Annotated[Mapping[str, object] | None, EXPECTED] = None


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `rmgap:PATH`, candidates placed by seed. Without a path, the error says how to get it.

    With `prompts=original` every item asks what its record's prompts were tailored from.
    """
    original = word_of(spec, "prompts", ("tailored", "original")) == "original"
    if not spec.target:
        raise BenchmarkError(
            f"benchmark 'rmgap' is not on the hub: download data/test.jsonl from {HOME}, then rmgap:PATH"
        )
    path, dirt = local_path(spec.target), dirt_of(spec)
    items = read_items(find_sources(path), seed, dirt, original=original)
    records = {item.cluster: item.domain for item in items}
    card = dirt.onto(local_card(CARD, path, list(records.values()), COUNTS))
    if original:
        card = replace(card, name=f"{card.name}-original", notes=f"{ORIGINAL} {card.notes}".strip())
    return Benchmark(card, items, seed)


ORIGINAL = (
    "Asked with the prompts before tailoring, which are the same for the four answers of a record: BoN is 25 and Pair "
    "50 for a scorer without ties, by design."
)


def read_items(sources: Sequence[Source], seed: int, dirt: Dirt, *, original: bool = False) -> tuple[Item, ...]:
    """Return twelve items for each record of some files in the format, candidates placed by seed.

    `original` asks the prompts before tailoring.
    """

    def items_of(row: RecordRow, location: Place, _domain: str) -> tuple[Item, ...]:
        if original and row.original_prompt is None:
            expected = "the prompt before tailoring, which releases of 'construct rmgap' hold"
            raise location.refuse("original_prompt", found="no such key", wanted=expected)
        return tuple(_items(row, location, seed, dirt, original=original))

    return tuple(item for items in read_checked(sources, RecordRow, items_of, dirt) for item in items)


def _items(row: RecordRow, location: Place, seed: int, dirt: Dirt, *, original: bool) -> Iterator[Item]:
    if (twice := repeated([response.key for response in row.responses])) is not None:
        actual = f"{describe(row.responses[twice].key)} again"
        raise location.refuse(f"responses[{twice}].key", found=actual, wanted="a key of its own")
    groups = [number if group.group is None else group.group for number, group in enumerate(row.prompt_groups, 1)]
    _check_groups(row, groups, location)
    styles = _styles(row, location, dirt)
    answers = {response.key: response.text for response in row.responses}
    texts = Counter(text.strip() for text in answers.values())
    oracle = Oracle(reference=row.reference or "", tests=row.tests or "", entry=row.entry or "")
    for group, number in zip(row.prompt_groups, groups, strict=True):
        roles, twice = _roles(group), texts[answers[group.winner].strip()] > 1
        style = {f"winner:{dimension}": level for dimension, level in styles.get(group.winner, {}).items()}
        for phrasing, prompt in enumerate(group.prompts):
            name = f"{row.id}/g{number}/p{phrasing}"
            if twice:
                dirt.keep("prompts whose answer has the text of another")
            tags = {"record": row.id, "group": str(number), "phrasing": str(phrasing), "role": roles[phrasing], **style}
            order = placed(answers, name, seed)
            yield Item(  # a judgment() with cluster and rubric replaced makes each twice
                id=name,
                prompt=row.original_prompt or "" if original else prompt.text,
                candidates=tuple(map(answers.__getitem__, order)),
                preferred=order.index(group.winner),
                cluster=row.id,
                domain=row.domain,
                candidate_ids=tuple(order),
                tags=tags,
                oracle=oracle if row.reference or row.tests else None,
            )


def _roles(group: GroupRow) -> list[str]:
    """Return the role of each prompt: the first is the base where no prompt says its role."""
    roles = [prompt.role for prompt in group.prompts]
    return ["base", "rewrite", "rewrite"] if roles == [None] * len(roles) else [str(role) for role in roles]


def _check_groups(row: RecordRow, numbers: Sequence[int], location: Place) -> None:
    keys = [response.key for response in row.responses]
    winners = [group.winner for group in row.prompt_groups]
    for index, group in enumerate(row.prompt_groups):
        field = f"prompt_groups[{index}]"
        if group.winner not in keys:
            expected = f"one of {', '.join(map(shortened, keys))}"
            raise location.refuse(f"{field}.winner", found=describe(group.winner), wanted=expected)
        if group.winner in winners[:index]:
            raise location.refuse(
                f"{field}.winner", found=f"{shortened(group.winner)} again", wanted="each response to win one group"
            )
        roles = _roles(group)
        if roles.count("base") != 1 or roles.count("rewrite") != len(roles) - 1:
            raise location.refuse(
                f"{field}.prompts", found=f"roles {', '.join(roles)}", wanted="one base, two rewrites"
            )
    if (twice := repeated(numbers)) is not None:
        raise location.refuse(
            f"prompt_groups[{twice}].group", found=f"{numbers[twice]} again", wanted="a number of its own"
        )


def _styles(row: RecordRow, location: Place, dirt: Dirt) -> dict[str, dict[str, str]]:
    """Return the style of each response, none where the file tells none: r1 is that of response1, or of the first."""
    if row.style_assignments is None:
        return {}
    keys = [response.key for response in row.responses]
    numbered = {f"r{number}": key for number, key in enumerate(KEYS if set(keys) == set(KEYS) else keys, 1)}
    assignments = _known(row.style_assignments, list(numbered), "style_assignments", location=location, dirt=dirt)
    styles: dict[str, dict[str, str]] = {}
    for name, key in numbered.items():
        field = f"style_assignments.{name}"
        levels = _known(assignments[name], list(STYLES), field, location=location, dirt=dirt)
        styles[key] = {
            dimension: _level(level, dimension, f"{field}.{dimension}", location) for dimension, level in levels.items()
        }
    return styles


def _known(value: object, keys: Sequence[str], field: str, *, location: Place, dirt: Dirt) -> dict[str, object]:
    """Return the values of some keys of an object, which must have them all; other keys are named as unknown."""
    if not isinstance(value, Mapping):
        raise location.refuse(field, found=describe(value), wanted=f"an object with the keys {', '.join(keys)}")
    for key in keys:
        if key not in value:
            raise location.refuse(f"{field}.{key}", found="no such key", wanted="this key: add it")
    for key in value:
        if key not in keys:
            dirt.ignore(f"{field}.{key}")
    return {key: value[key] for key in keys}


def _level(level: object, dimension: str, field: str, location: Place) -> str:
    if not isinstance(level, str) or level not in STYLES[dimension]:
        raise location.refuse(field, found=describe(level), wanted=f"one of {', '.join(STYLES[dimension])}")
    return level
