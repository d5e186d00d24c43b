"""Multiple choice for a person who has talked before: PersonaMem (arXiv 2504.14225), version 2 of it, and PrefEval.

The right option, one of several, is preferred. What the person said before is their posts, the newest first, and never
part of the prompt. What an assistant or the system said is no post: PersonaMem's system message holds the persona.

**PersonaMem**, one row of `questions_32k.csv`, shortened (hub: bowen-upenn/PersonaMem):

    {"persona_id": 3, "question_id": "q7", "question_type": "recall", "topic": "plants", "shared_context_id": "c1",
     "user_question_or_message": "Which plant for my desk?", "all_options": "['(a) A fern.', '(b) A cactus.']",
     "correct_answer": "(b)", "end_index_in_shared_context": 2, ...}

and of `shared_contexts_32k.jsonl` beside it, a conversation a line, which is cut at the end index:

    {"c1": [{"role": "user", "content": "I forget to water."}, {"role": "assistant", "content": "A cactus!"}, ...]}

`size=128k` and `size=1M` are longer contexts. `version=2` (arXiv 2512.06688; hub: bowen-upenn/PersonaMem-v2,
benchmark/text/benchmark.csv) has `user_query`, `correct_answer`, `incorrect_answers` and a link to each conversation.
The person is the persona, the domain the type of the question; tags: `question_type`, `topic`.

**PrefEval** (arXiv 2502.09597), one row of `mcq_options/TOPIC.json`, shortened; the right option stands first there:

    {"preference": "I dislike crowds.", "question": "What shall I do on Saturday?", "explanation": "...",
     "classification_task_options": ["Walk by the river.", "The market.", "The fair.", "The match."]}

`form=explicit` (default): it is a post. `form=choice` and `form=persona`: the conversation that shows it, in
the same row of `implicit_preference/choice-based` or `persona-driven`. `filler=K`: after that the first K turns of
`filtered_inter_turns.json`, so that what matters is no longer recent. The domain is the topic, the file's name.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pluralrm.benchmarks.dataset import comparison, differ
from pluralrm.benchmarks.dirt import Dirt, clean_posts, dirt_of
from pluralrm.benchmarks.preferences import Turn, conversation, items_in_part, users_of, with_split, word_of
from pluralrm.benchmarks.rows import Place, describe, read_rows, visible
from pluralrm.benchmarks.schema import CELL_IS_TEXT, Id, Label, Part, Text, checked
from pluralrm.benchmarks.sources import (
    Source,
    find_sources,
    hub_snapshot,
    local_path,
    read_each,
    refuse_again,
    target_path,
    unclaimed,
)
from pluralrm.card import Card
from pluralrm.core import Benchmark, Item, Post, User
from pluralrm.errors import BenchmarkError, RowError
from pluralrm.specs import Spec


class Options(NamedTuple):
    """The right option and the others, by their names."""

    right: Mapping[str, str]
    wrong: Mapping[str, str]


def _choice(name: str, prompt: str, options: Options, user: User, *, domain: str, seed: int) -> Item:
    """Return a question of a person with its options, placed by seed."""
    item = comparison(name, prompt, options.right, options.wrong, seed=seed, domain=domain or "all")
    return replace(item, cluster=user.id, user=user)


def _value(cell: object) -> object:
    """Return what a text holds as JSON, or as Python spells it; else the text."""
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell


# ---------------------------------------------------------------- PersonaMem

HUBS: Mapping[str, str] = {"1": "bowen-upenn/PersonaMem", "2": "bowen-upenn/PersonaMem-v2"}
SIZES = ("32k", "128k", "1M")
BENCHMARK = "benchmark/text/benchmark.csv"

CARD = Card(
    name="personamem",
    summary="PersonaMem: which answer suits a simulated person, of whom a long history of conversations is known",
    licence="MIT (code)",
    source=f"hub: {HUBS['1']} (questions_32k.csv); version=2: {HUBS['2']}",
    labelled="by the simulated persona for whom the right option was written",
    citation="Bowen Jiang and others. Know Me, Respond to Me: Benchmarking LLMs for Dynamic User Profiling and "
    "Personalized Responses at Scale. arXiv:2504.14225, 2025. Version 2: arXiv:2512.06688.",
    notes="The longest or shortest option, and a model without context, are reported to beat chance: see audit.",
)
_LETTERED = re.compile(r"\(([a-z])\)\s*(.*)", re.DOTALL | re.IGNORECASE)
_LETTER = re.compile(r"\(?([a-z])\)?\.?", re.IGNORECASE)


class MemoryRow(Part):
    """A question of version 1."""

    question_id: Id
    persona_id: Id | None = None
    question_type: Label = ""
    topic: Label = ""
    user_question_or_message: Text
    all_options: Annotated[str | list[str], CELL_IS_TEXT]
    correct_answer: Text
    shared_context_id: Id
    end_index_in_shared_context: Annotated[int, Field(ge=0)]
    unread = (
        *("stereotypical", "context_length_in_tokens", "context_length_in_letters", "distance_to_ref_in_blocks"),
        *("distance_to_ref_in_tokens", "num_irrelevant_tokens", "distance_to_ref_proportion_in_context"),
    )


class MemoryRow2(Part):
    """A question of version 2."""

    persona_id: Id
    user_query: Annotated[str | dict[str, object], CELL_IS_TEXT]
    correct_answer: Text
    incorrect_answers: Annotated[str | list[str], CELL_IS_TEXT]
    chat_history_32k_link: Label = ""
    chat_history_128k_link: Label = ""
    pref_type: Label = ""
    topic_query: Label = ""
    unread = (
        *("topic_preference", "preference", "prev_pref", "updated", "who", "sensitive_info", "conversation_scenario"),
        *("related_conversation_snippet", "raw_persona_file", "short_persona", "expanded_persona"),
    )


class History(NamedTuple):
    """A conversation: how many messages it has, and the posts of the person by their index."""

    length: int
    posts: tuple[tuple[int, Post], ...]

    def before(self, end: int) -> tuple[Post, ...]:
        """Return the posts before a message, the newest first."""
        return tuple(post for index, post in reversed(self.posts) if index < end)


def load(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `personamem[,version=2][,size=128k]` (the hub) or `personamem:PATH`."""
    version, size = word_of(spec, "version", tuple(HUBS)), word_of(spec, "size", SIZES)
    users, dirt = users_of(spec), dirt_of(spec)
    patterns = {
        "1": [f"questions_{size}.csv", f"shared_contexts_{size}.jsonl"],
        "2": [BENCHMARK, f"data/chat_history_{size}/*"],
    }
    path = target_path(spec, "version", "revision") if spec.target else None
    folder = path or hub_snapshot(HUBS[version], spec.options.get("revision", ""), patterns[version])
    file = _questions(folder, size)
    reader = _Reader(file, size, seed, dirt)
    items = items_in_part(read_each([Source(file)], reader.item, dirt), users, f"{visible(str(file))}: ")
    if path is None:
        name = ".".join([CARD.name, *(["v2"] * (version == "2")), *([size] * (size != SIZES[0]))])
        card = replace(CARD, name=name, source=f"hub: {HUBS[version]} ({size})", revision=folder.name)
    else:
        card = unclaimed(CARD, path)
    return Benchmark(dirt.onto(with_split(card, users)), items, seed)


def _questions(path: Path, size: str) -> Path:
    """Return the file of questions in a folder, or the file that is named."""
    if path.is_file():
        return Path(str(find_sources(path)[0].file))
    names = (f"questions_{size}.csv", BENCHMARK, "benchmark.csv")
    for name in names:
        if (path / name).is_file():
            return path / name
    raise BenchmarkError(f"{visible(str(path))}: found none of {', '.join(names)} in the folder; name a file, or size=")


class _Reader:
    """Makes items of rows of either version; knows the conversations and the ids."""

    def __init__(self, file: Path, size: str, seed: int, dirt: Dirt) -> None:
        self._file, self._size, self._seed, self._dirt = file, size, seed, dirt
        self._ids: dict[str, Place] = {}
        self._posts: dict[tuple[str, int], tuple[Post, ...]] = {}
        self._contexts: Mapping[str, History] | None = None
        self._files: dict[Path, History] = {}

    def item(self, raw: Mapping[str, object], location: Place, _domain: str) -> Item:
        """Return the item of a row."""
        item = self._second(raw, location) if "user_query" in raw else self._first(raw, location)
        refuse_again(item.id, self._ids, location, field="question_id")
        self._ids[item.id] = location
        return item

    def _first(self, raw: Mapping[str, object], location: Place) -> Item:
        row = checked(MemoryRow, raw, location, self._dirt)
        if self._contexts is None:
            self._contexts = _contexts(self._file)
        history, end = self._contexts.get(row.shared_context_id), row.end_index_in_shared_context
        if history is None:
            wanted_here = "the id of a conversation in the shared contexts"
            raise location.refuse("shared_context_id", found=describe(row.shared_context_id), wanted=wanted_here)
        if end > history.length:
            wanted_here = f"at most {history.length}, as the conversation has messages"
            raise location.refuse("end_index_in_shared_context", found=str(end), wanted=wanted_here)
        if (row.shared_context_id, end) not in self._posts:
            self._posts[row.shared_context_id, end] = history.before(end)
        self._dirt.read("posts", len(self._posts[row.shared_context_id, end]))
        user = User(f"persona-{row.persona_id or row.shared_context_id}", self._posts[row.shared_context_id, end])
        options = _lettered(row, location)
        item = _choice(
            row.question_id, row.user_question_or_message, options, user, domain=row.question_type, seed=self._seed
        )
        return replace(item, tags=_tags(row.question_type, row.topic))

    def _second(self, raw: Mapping[str, object], location: Place) -> Item:
        row = checked(MemoryRow2, raw, location, self._dirt)
        query = _value(row.user_query)
        prompt = query.get("content") if isinstance(query, dict) else row.user_query
        if not isinstance(prompt, str) or not prompt.strip():
            raise location.refuse("user_query", found=describe(row.user_query), wanted="a text, or a message")
        others = _value(row.incorrect_answers)
        if not isinstance(others, list) or not others or not all(isinstance(each, str) for each in others):
            raise location.refuse("incorrect_answers", found=describe(row.incorrect_answers), wanted="a list of texts")
        differ([row.correct_answer], others, location, "incorrect_answers")
        column = f"chat_history_{self._size}_link"
        link = {"32k": row.chat_history_32k_link, "128k": row.chat_history_128k_link}.get(self._size, "")
        inside = bool(link) and not Path(link).is_absolute() and ".." not in Path(link).parts
        bases = self._file.absolute().parents[:4] if inside else ()
        base = next((base for base in bases if (base / link).is_file()), None)
        if base is None:
            raise location.refuse(column, found=describe(link), wanted="the path of a conversation that is there")
        if base / link not in self._files:
            self._files[base / link] = _history_of(base / link)
        history = self._files[base / link]
        user = User(f"persona-{row.persona_id}", history.before(history.length))
        self._dirt.read("posts", len(user.posts))
        wrong = {f"wrong{number}": text for number, text in enumerate(dict.fromkeys(others), 1)}
        options = Options({"right": row.correct_answer}, wrong)
        name = f"{row.persona_id}-{location.line}"
        item = _choice(name, prompt, options, user, domain=row.pref_type, seed=self._seed)
        return replace(item, tags=_tags(row.pref_type, row.topic_query))


def _tags(question_type: str, topic: str) -> dict[str, str]:
    return {name: text for name, text in (("question_type", question_type), ("topic", topic)) if text.strip()}


def _lettered(row: MemoryRow, location: Place) -> Options:
    """Return the options without their letters, by them."""
    texts = _value(row.all_options)
    if not isinstance(texts, list) or len(texts) < 2 or not all(isinstance(text, str) for text in texts):
        raise location.refuse("all_options", found=describe(row.all_options), wanted="a list of two or more texts")
    matches = [_LETTERED.fullmatch(text.strip()) for text in texts]
    options = {match[1].lower(): match[2].strip() for match in matches if match is not None and match[2].strip()}
    letter = _LETTER.fullmatch(row.correct_answer.strip())
    if len(options) != len(texts):
        raise location.refuse(
            "all_options", found=describe(row.all_options), wanted="options that begin with (a), (b) ..."
        )
    if letter is None or letter[1].lower() not in options:
        wanted_here = f"one of {', '.join(f'({name})' for name in options)}"
        raise location.refuse("correct_answer", found=describe(row.correct_answer), wanted=wanted_here)
    right = letter[1].lower()
    wrong = {name: text for name, text in options.items() if name != right}
    differ([options[right]], wrong.values(), location, "all_options")
    return Options({right: options[right]}, wrong)


def _contexts(questions: Path) -> Mapping[str, History]:
    """Return the conversations in the file beside the questions, by id."""
    twin = questions.with_name(f"{questions.stem.replace('questions', 'shared_contexts')}.jsonl")
    files = [twin] if twin != questions and twin.is_file() else sorted(questions.parent.glob("shared_contexts*.jsonl"))
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise BenchmarkError(
            f"{visible(str(questions))}: found {names} of the shared contexts beside it, wanted {twin.name}"
        )
    return {
        name: _history(messages, location, name)
        for location, raw in read_rows(files[0])
        for name, messages in raw.items()
    }


def _history_of(file: Path) -> History:
    """Return the conversation of a file of version 2, which is one JSON object."""
    location = Place(str(file), 1)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise location.refuse("(file)", found=f"no JSON ({exc})", wanted="a conversation") from exc
    return _history(value.get("chat_history") if isinstance(value, dict) else value, location, "chat_history")


def _history(messages: object, location: Place, field: str) -> History:
    if not isinstance(messages, list):
        raise location.refuse(field, found=describe(messages), wanted="a list of messages")
    posts = []
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise location.refuse(f"{field}[{index}].content", found=describe(content), wanted="a text")
        if message.get("role") == "user" and content.strip():
            posts.append((index, Post(f"m{index}", content)))
    return History(len(messages), tuple(posts))


# ---------------------------------------------------------------- PrefEval

FORMS: Mapping[str, str] = {"explicit": "", "choice": "choice-based", "persona": "persona-driven"}
"""How a preference can be seen, and the folder of the conversations."""
OPTIONS, IMPLICIT, FILLER = "mcq_options", "implicit_preference", "filtered_inter_turns.json"
_USER = ("query", "user_selection")
"""The parts of a conversation by choice that the person says."""

PREFEVAL_CARD = Card(
    name="prefeval",
    summary="PrefEval: which of four options follows a preference that the person stated, or showed, before",
    licence="CC BY-NC 4.0",
    source="https://github.com/amazon-science/PrefEval, folder benchmark_dataset",
    labelled="by the authors: one option was written to follow the preference, three to violate it",
    citation="Siyan Zhao, Mingyi Hong, Yang Liu, Devamanyu Hazarika and Kaixiang Lin. Do LLMs Recognize Your "
    "Preferences? Evaluating Personalized Preference Following in LLMs. arXiv:2502.09597, 2025.",
)


class PreferenceQuestion(Part):
    """A preference with a question and its options, the right one first."""

    preference: Text
    question: Text
    explanation: Label = ""
    classification_task_options: Annotated[list[Text], Field(min_length=2)]


def load_prefeval(spec: Spec, *, seed: int) -> Benchmark:
    """Return the benchmark of `prefeval:PATH[,form=choice|persona][,filler=K]`: the folder, or a topic's file."""
    path, form, dirt = local_path(spec.target), word_of(spec, "form", tuple(FORMS)), dirt_of(spec)
    files = _topics(path)
    talks: dict[Path, Mapping[int, Mapping[str, object]]] = {}
    filler = _filler(files[0].parent.parent / FILLER, spec.integer("filler", 0))

    def item(raw: Mapping[str, object], location: Place, _domain: str) -> Item:
        row = checked(PreferenceQuestion, raw, location, dirt)
        file = Path(location.file)
        if form != "explicit" and file not in talks:
            talks[file] = _conversations(file.parent.parent / IMPLICIT / FORMS[form] / file.name)
        posts = _stated(row, location, form, talks.get(file, {}))
        name, (right, *wrong) = f"{file.stem}-{location.line}", row.classification_task_options
        differ([right], wrong, location, "classification_task_options[0]")
        options = Options({"right": right}, {f"wrong{n}": text for n, text in enumerate(dict.fromkeys(wrong), 1)})
        user = User(name, clean_posts([*filler, *posts], dirt))
        item = _choice(name, row.question, options, user, domain=file.stem, seed=seed)
        return replace(item, tags={"topic": file.stem, "form": form})

    items = tuple(read_each([Source(file) for file in files], item, dirt))
    note = f"form={form}, filler={len(filler)}."
    card = unclaimed(PREFEVAL_CARD, path)
    return Benchmark(dirt.onto(replace(card, notes=note)), items, seed)


def _topics(path: Path) -> list[Path]:
    """Return the files of the topics."""
    if path.is_file():
        return [Path(str(source.file)) for source in find_sources(path)]
    for folder in (path / "benchmark_dataset" / OPTIONS, path / OPTIONS, path):
        if files := sorted(folder.glob("*.json")):
            return files
    raise BenchmarkError(f"{visible(str(path))}: found no .json file, wanted benchmark_dataset or its folder {OPTIONS}")


def _stated(
    row: PreferenceQuestion, location: Place, form: str, rows: Mapping[int, Mapping[str, object]]
) -> Sequence[Post]:
    """Return what the person said from which the preference can be seen, the newest first; `rows` have it by number."""
    if form == "explicit":
        return [Post("preference", row.preference)]
    raw = rows.get(location.line, {})
    if raw.get("question") != row.question:
        actual = f"{describe(raw.get('question'))} in the same row of {FORMS[form]}"
        raise location.refuse("question", found=actual, wanted=f"the same question, {describe(row.question)}")
    talk = raw.get("conversation")
    if not isinstance(talk, dict) or not talk:
        raise location.refuse("conversation", found=describe(talk), wanted="a conversation")
    if form == "choice":
        turns = [
            Turn(role="user" if name in _USER else "assistant", content=text) for name, text in talk.items() if text
        ]
        return [Post("conversation", conversation(turns))]
    texts = [turn.get("user") for turn in talk.values() if isinstance(turn, dict)]
    return [Post(f"turn{index}", text) for index, text in enumerate(texts) if isinstance(text, str)][::-1]


def _conversations(file: Path) -> Mapping[int, Mapping[str, object]]:
    """Return the rows of a file by their numbers."""
    if not file.is_file():
        raise BenchmarkError(f"no such file: {visible(str(file))}; wanted the conversations of the topic")
    return {location.line: raw for location, raw in read_rows(file)}


def _filler(file: Path, count: int) -> list[Post]:
    """Return what is said in the first turns of other conversations, the newest first."""
    if not count:
        return []
    if not file.is_file():
        raise BenchmarkError(f"no such file: {visible(str(file))}; wanted the turns of filler={count}")
    texts = list(_turns(file))
    if len(texts) < count:
        raise BenchmarkError(f"{visible(str(file))}: found {len(texts)} turns, wanted filler={count}")
    return [Post(f"filler{number}", text) for number, text in enumerate(texts[:count], 1)][::-1]


def _turns(file: Path) -> Iterator[str]:
    for location, raw in read_rows(file):
        turns = raw.get("conversation")
        for turn in turns if isinstance(turns, list) else []:
            text = turn.get("content") if isinstance(turn, dict) else None
            if not isinstance(text, str):
                raise RowError(visible(location.file), location.line, "conversation", found="no text", wanted="turns")
            if turn.get("role") == "user" and text.strip():
                yield text
