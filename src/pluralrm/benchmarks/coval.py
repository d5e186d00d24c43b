"""CoVal: how people of many countries rank four answers to value-sensitive prompts, for themselves and for the world.

A row of `comparisons.jsonl` (hub: openai/coval) is one prompt with everybody's rankings:

    {"prompt_id": "p1", "prompt": {"messages": [{"role": "user", "content": "Should I report a friend?"}]},
     "responses": [{"response_index": "A", "messages": [{"role": "assistant", "content": "Talk first."}]},
                   {"response_index": "B", "messages": [{"role": "assistant", "content": "Always."}]}],
     "metadata": {"assessments": [{"annotator_id": "a7", "importance": "Very important",
        "ranking_blocks": {"personal": [{"ranking": "B>A"}], "world": [{"ranking": "A=B"}],
                           "unacceptable": [{"rating": ["B ..."]}]}}]}}

Each ranking is an item: the last place has grade 0, and each place above it one more; equal answers share a grade. With
`ranking=personal` (default) a person's ranking for the world stands in the tags `world:A`, ... as numbers; with
`ranking=world` it is the other way round. Who ranked a prompt twice has two items. A ranking that leaves answers out,
or has all of them equal, is dropped and counted. Tags: `importance`, `representativeness`, `subjectivity`, and
`unacceptable:A` where the person said so. `annotators.jsonl` in the same folder has a row per person, whose
`demographics` are the user's traits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from pluralrm.benchmarks.dataset import Dataset, judgment, load_dataset, read_items
from pluralrm.benchmarks.dirt import Dirt, free_id
from pluralrm.benchmarks.preferences import Turn, conversation, word_of
from pluralrm.benchmarks.rows import Place, describe
from pluralrm.benchmarks.schema import Id, Label, NullAsNoList, Part, as_tag, checked
from pluralrm.benchmarks.sources import Source, read_each
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, User
from pluralrm.specs import Spec

HUB = "openai/coval"
FILE, ANNOTATORS = "comparisons.jsonl", "annotators.jsonl"
PROMPTS = 1_078
RANKINGS = ("personal", "world")

CARD = Card(
    name="coval",
    summary="CoVal: four answers to value-sensitive prompts, ranked by people for themselves and for the world",
    licence="CC BY 4.0",
    source=f"hub: {HUB} ({FILE}, {ANNOTATORS})",
    labelled="by people who ranked the answers, ties allowed",
    citation="OpenAI. CoVal: crowd-originated, values-aware rubrics. Hugging Face data set openai/coval.",
)


class RankingBlock(Part):
    """A ranking, such as `B>A=C=D`."""

    ranking: Label = ""
    unread = ("rationale",)


class UnacceptableBlock(Part):
    """The answers that a person called unacceptable, each by a text that begins with its letter."""

    rating: Annotated[list[str], NullAsNoList] = Field(default_factory=list)
    unread = ("rationale",)


class RankingBlocks(Part):
    """What one person said of the answers."""

    personal: Annotated[list[RankingBlock], NullAsNoList] = Field(default_factory=list)
    world: Annotated[list[RankingBlock], NullAsNoList] = Field(default_factory=list)
    unacceptable: Annotated[list[UnacceptableBlock], NullAsNoList] = Field(default_factory=list)


class Assessment(Part):
    """One person's rankings of one prompt's answers."""

    annotator_id: Id
    ranking_blocks: RankingBlocks
    importance: Label = ""
    representativeness: Label = ""
    subjectivity: Label = ""
    unread = ("conversation_id",)


class CovalPrompt(Part):
    """The conversation before the answers."""

    messages: Annotated[list[Turn], Field(min_length=1)]
    unread = ("id",)


class CovalResponse(Part):
    """One answer."""

    response_index: Id
    messages: Annotated[list[Turn], Field(min_length=1)]


class CovalMetadata(Part):
    """Everybody's rankings."""

    assessments: list[Assessment]


class CovalRow(Part):
    """One prompt."""

    prompt_id: Id
    prompt: CovalPrompt
    responses: list[CovalResponse]
    metadata: CovalMetadata


class AnnotatorRow(Part):
    """One person."""

    annotator_id: Id
    demographics: dict[str, JsonValue] | None = None
    unread = ("assessments",)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `coval` (the hub) or `coval:PATH`, a folder or its comparisons.jsonl."""
    ranking = word_of(spec, "ranking", RANKINGS)

    def read(sources: Sequence[Source], dirt: Dirt) -> Sequence[Item]:
        files = [source for source in sources if source.file.name.startswith("comparisons")] or sources
        people = _people(Path(str(files[0].file)).with_name(ANNOTATORS), dirt)

        def items_of(row: CovalRow, location: Place, _domain: str) -> list[Item]:
            return _items(row, location, dirt, ranking=ranking, people=people, seed=seed)

        return list(read_items(files, CovalRow, items_of, dirt))

    return load_dataset(spec, seed, Dataset(CARD, hubs={HUB: (FILE, ANNOTATORS)}, rows=PROMPTS), read)


def _people(file: Path, dirt: Dirt) -> dict[str, User]:
    """Return the people with what they declared; none where no file of them stands beside the comparisons."""
    if not file.is_file():
        return {}
    people: dict[str, User] = {}
    own = Dirt()

    def declare(raw: Mapping[str, object], location: Place, _domain: str) -> None:
        row = checked(AnnotatorRow, raw, location, own)
        if row.annotator_id in people:
            raise location.refuse("annotator_id", found=f"{row.annotator_id!r} again", wanted="one row per person")
        declared = {
            name: as_tag(value).strip() for name, value in (row.demographics or {}).items() if value is not None
        }
        people[row.annotator_id] = User(
            row.annotator_id, traits={name: text for name, text in declared.items() if text}
        )

    for _ in read_each([Source(file)], declare, own):
        pass
    for column in own.report().ignored:
        dirt.ignore(f"{ANNOTATORS}: {column}")
    return people


def _items(
    row: CovalRow, location: Place, dirt: Dirt, *, ranking: str, people: dict[str, User], seed: int
) -> list[Item]:
    """Return an item for each ranking of a prompt."""
    answers = {each.response_index: "\n\n".join(turn.content for turn in each.messages) for each in row.responses}
    if len(set(map(str.strip, answers.values()))) < max(2, len(row.responses)):
        actual = f"{len(row.responses)} answers, some of one letter or one text"
        raise location.refuse("responses", found=actual, wanted="two or more that differ")
    prompt, items = conversation(row.prompt.messages), dict[str, Item]()
    for assessment in row.metadata.assessments:
        blocks = assessment.ranking_blocks
        other = RANKINGS[1 - RANKINGS.index(ranking)]
        beside = [_grades(block.ranking, answers, location) for block in getattr(blocks, other)]
        for number, block in enumerate(getattr(blocks, ranking)):
            grades = _grades(block.ranking, answers, location)
            dirt.read("rankings", 1)
            if len(set(grades.values())) < 2 or len(grades) < len(answers):
                dirt.drop("rankings", "incomplete" if len(grades) < len(answers) else "of equal answers")
                continue
            same = beside[min(number, len(beside) - 1)] if beside else {}
            tags = {f"{other}:{letter}": f"{grade:g}" for letter, grade in same.items() if len(same) == len(answers)}
            tags |= {
                name: getattr(assessment, name).strip() for name in ("importance", "representativeness", "subjectivity")
            }
            tags |= {f"unacceptable:{letter}": "yes" for letter in _unacceptable(blocks, answers)}
            user = people.setdefault(assessment.annotator_id, User(assessment.annotator_id))
            name = free_id(f"{row.prompt_id}/{user.id}", items)
            graded = {letter: (text, grades[letter]) for letter, text in answers.items()}
            items[name] = replace(
                judgment(name, prompt, graded, seed=seed, domain="all", user=user, tags=tags), prompt_id=row.prompt_id
            )
    return list(items.values())


def _grades(ranking: str, answers: Mapping[str, str], location: Place) -> dict[str, float]:
    """Return the grades of `B>A=C=D` by letter: places below one's own."""
    places = [[letter.strip() for letter in part.split("=") if letter.strip()] for part in ranking.split(">")]
    letters = [letter for part in places for letter in part]
    if len(set(letters)) < len(letters) or not answers.keys() >= set(letters):
        rule = f"each of {', '.join(sorted(answers))} at most once"
        raise location.refuse("ranking", found=describe(ranking), wanted=rule)
    levels = [part for part in places if part]
    return {letter: float(len(levels) - 1 - level) for level, part in enumerate(levels) for letter in part}


def _unacceptable(blocks: RankingBlocks, answers: Mapping[str, str]) -> list[str]:
    marks = [mark.strip() for block in blocks.unacceptable for mark in block.rating]
    return [letter for letter in answers if any(mark.partition(" ")[0].rstrip(":.") == letter for mark in marks)]
