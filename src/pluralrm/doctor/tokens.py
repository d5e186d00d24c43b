"""Which queries are looked at, how the model reads one, and the signs of token ids and folder: nothing is scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pluralrm.core import Benchmark, Condition, Failure, Item, Query
from pluralrm.doctor import Sign
from pluralrm.errors import BenchmarkError, ConditionError, did_you_mean
from pluralrm.models import parse_model
from pluralrm.models.neural.engine import Engine
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.kind import NeuralModel, load_tokenizer
from pluralrm.models.neural.prompts import Assembled, Assembler, sequence_limit
from pluralrm.models.neural.trees import StateRequest
from pluralrm.models.scalar import LabelReading, RewardHead

MOST = 200
"""Items whose length is looked at."""

T = TypeVar("T")


class Look(NamedTuple):
    """A query and what became of it on the way to token ids."""

    query: Query
    assembled: Assembled

    @property
    def posts(self) -> int:
        """How many posts the condition shows."""
        return len(self.query.user.posts) if self.query.user else 0

    @property
    def loses_posts(self) -> bool:
        """True where posts were dropped, for all candidates alike."""
        return self.assembled.posts_kept < self.posts

    @property
    def fails(self) -> bool:
        """True where a conversation is too long even without posts."""
        return any(
            isinstance(sequence, Failure) and sequence.kind == "too_long" for sequence in self.assembled.sequences
        )

    @property
    def unread(self) -> bool:
        """True where the tokenizer makes nothing of a conversation."""
        return any(
            isinstance(sequence, Failure) and sequence.kind == "unsupported" for sequence in self.assembled.sequences
        )


@dataclass(frozen=True, slots=True)
class TokenView:
    """One conversation as the model reads it: ids[start:end] are the assistant's text."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """What the vocabulary calls each id."""
    start: int
    end: int
    read: tuple[int, ...]
    """The places whose states are read; none where there is nothing to read."""
    answer: str
    """The assistant's text before it became tokens."""


class Pieces:
    """A folder's tokenizer as scripts load it: what ids are called, and at which side it would pad."""

    def __init__(self, folder: ModelFolder) -> None:
        self._tokenizer = load_tokenizer(folder)
        self.side = str(self._tokenizer.padding_side)

    def of(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return what the vocabulary calls each id; an empty text for an id that it does not have."""
        return tuple(piece or "" for piece in self._tokenizer.convert_ids_to_tokens(list(ids)))

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of some ids, special tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def chosen(benchmark: Benchmark, condition: Condition, item: str) -> list[Item]:
    """Return the item to be shown and up to 199 others, evenly spaced; without a name the first one is shown."""
    items = [item for item in benchmark.items if item.candidates]
    if not items:
        raise BenchmarkError(f"{benchmark.card.name} has prompts only: no answer whose tokens could be looked at")
    reason = condition.unsupported(benchmark)
    if reason is not None:
        raise ConditionError(reason)
    sample = next((entry for entry in items if entry.id == item), None) if item else items[0]
    if sample is None:
        raise BenchmarkError(f"{benchmark.card.name} has no item {item!r}.{did_you_mean(item, [i.id for i in items])}")
    others = [item for item in items if item is not sample]
    return [sample, *spaced(others, MOST - 1)]


def spaced(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many, evenly spaced: a benchmark may be sorted by domain."""
    count = min(len(items), most)
    return [items[index * len(items) // count] for index in range(count)]


def look(model: NeuralModel, query: Query) -> Look:
    """Return what becomes of a query."""
    return Look(query, model.prompts.assemble(query, model.formula.conversations))


def views(model: NeuralModel, sample: Look, pieces: Pieces) -> list[TokenView | Failure]:
    """Return every conversation of a query as the model reads it."""
    answers = [turns[-1].content for turns in model.formula.conversations(sample.query)]
    views: list[TokenView | Failure] = []
    for sequence, answer in zip(sample.assembled.sequences, answers, strict=True):
        if isinstance(sequence, Failure):
            views.append(sequence)
            continue
        ask = model.formula.ask(sequence)
        ids, read = (ask.ids, ask.wanted) if isinstance(ask, StateRequest) else (sequence.ids, ())
        views.append(TokenView(ids, pieces.of(ids), sequence.start, sequence.end, read, answer))
    return views


_NEIGHBOURS = 4
"""Tokens of the conversation that are shown at each side of the answer."""
_WIDEST = 48
"""Characters of a text; what is left out stands in its middle."""
_RAW = "Ask a server for raw numbers (use_activation=false for vLLM) before you compare its scores with these"


def token_signs(model: NeuralModel, view: TokenView, pieces: Pieces) -> list[Sign]:
    """Return what the ids of one conversation tell."""
    return [bos(model, view), answer(model, view, pieces), padding(model, view, pieces)]


# ---------------------------------------------------------------- BOS


def bos(model: NeuralModel, view: TokenView) -> Sign:
    """Return how many BOS tokens the sample begins with, and how many a script would feed."""
    tokenizer = model.prompts.tokenizer
    if tokenizer.bos is None:
        return Sign("bos", "green", "none", "the tokenizer has no BOS")
    count, adds = tokenizer.count_bos(view.ids), tokenizer.would_add_bos
    piece = repr(_piece(tokenizer.specials, tokenizer.bos))
    if count > 1:
        return Sign(
            "bos",
            "red",
            f"{count} at the start ({piece})",
            "the chat template writes it more than once, and models are trained with one",
            "Name a chat template that writes it once: chat=FILE.jinja",
        )
    if count == 0 and adds:
        return Sign(
            "bos",
            "yellow",
            f"none, though the tokenizer by itself puts {piece} first",
            "the chat template does not write it. Scripts that tokenize the rendered text with special tokens feed "
            "one, and the model may have been trained so",
            "If it was, name a chat template that begins with {{ bos_token }}: chat=FILE.jinja",
        )
    text = f"1 at the start ({piece})" if count else f"none ({piece} is not used)"
    chat = isinstance(model.prompts, Assembler)
    reason = _who_writes_it(count, adds=adds, chat=chat)
    differs = bool(chat and count and adds)
    remedy = "In such a script pass add_special_tokens=False; here nothing is to be done" if differs else ""
    return Sign("bos", "green", text, reason, remedy, differs=differs)


def _who_writes_it(count: int, *, adds: bool, chat: bool) -> str:
    if not chat:
        return "as the tokenizer itself encodes a pair of texts"
    if count and adds:
        return (
            "the chat template writes it, and the tokenizer by itself would, too: a script that tokenizes the "
            f"rendered text with special tokens feeds {count + 1}, and gets other scores"
        )
    return "the chat template writes it" if count else "neither the chat template nor the tokenizer writes one"


def _piece(specials: Mapping[str, int], number: int) -> str:
    return next((text for text, index in specials.items() if index == number), str(number))


# ---------------------------------------------------------------- the answer


def answer(model: NeuralModel, view: TokenView, pieces: Pieces) -> Sign:
    """Return where the assistant's text starts and ends, with its neighbours."""
    unknown = sum(token == model.prompts.tokenizer.unknown for token in view.ids[view.start : view.end])
    text = f"ids[{view.start}:{view.end}] of {len(view.ids)}: {_in_place(view, pieces)}"
    if view.start == view.end and view.answer.strip():
        return Sign(
            "answer",
            "red",
            f"no token of {_short(view.answer)} is in the {len(view.ids)} ids",
            "the chat template drops the assistant's text: no score can depend on it",
            "Name a chat template that writes it: chat=FILE.jinja",
        )
    if unknown:
        return Sign(
            "answer",
            "yellow",
            text,
            f"{unknown} of its {view.end - view.start} tokens are unknown to the vocabulary: what they say is lost",
            "A model whose vocabulary covers the language of the benchmark",
        )
    reason = "found by comparing the ids with those of other answers, not by lengths of texts"
    return Sign("answer", "green", text, reason)


def _in_place(view: TokenView, pieces: Pieces) -> str:
    before = view.ids[max(view.start - _NEIGHBOURS, 0) : view.start]
    after = view.ids[view.end : view.end + _NEIGHBOURS]
    own = _short(pieces.text(view.ids[view.start : view.end]))
    return f"{pieces.text(before)!r} [ {own} ] {pieces.text(after)!r}"


def _short(text: str) -> str:
    """Return a text as Python spells it, shortened in its middle."""
    half = _WIDEST // 2
    return repr(text if len(text) <= _WIDEST else f"{text[:half]}…{text[-half:]}")


# ---------------------------------------------------------------- padding


def padding(model: NeuralModel, view: TokenView, pieces: Pieces) -> Sign:
    """Return the pad token and its side, and at which token a head is read."""
    tokenizer, head = model.prompts.tokenizer, model.formula
    pad = head.pad if isinstance(head, RewardHead) else tokenizer.pad
    [name] = ["no pad token"] if pad is None else [f"{piece!r} ({pad})" for piece in pieces.of([pad])]
    text = f"{name}; the tokenizer pads at its {pieces.side}, here nothing is ever padded but at the right"
    if not isinstance(head, RewardHead):
        return Sign("padding", "green", text, "log-probs are read at tokens of the text: padding cannot reach them")
    last = len(view.ids) - 1
    if isinstance(model.network(), Engine):
        index = view.read[-1]
        text += f"; the head is read at ids[{index}], {view.pieces[index]!r}"
    else:
        index = last - (view.ids[last] == pad)
        text += "; the model pools by itself, with an attention mask"
    if index == last:
        equal = "pad = eos, but the conversation ends with another token: " * (pad is not None and pad == tokenizer.eos)
        return Sign("padding", "green", text, f"{equal}the last token is {view.pieces[last]!r}")
    return Sign(
        "padding",
        "yellow",
        text,
        f"the conversation ends with ids[{last}], {view.pieces[last]!r}, which is the pad token: a head is read before "
        "it, as transformers does",
        "Right for a model that was trained so, as with pad = eos it often was. Else give a copy of the folder another "
        "pad_token_id in config.json",
    )


# ---------------------------------------------------------------- length


def length(model: NeuralModel, looks: Sequence[Look]) -> Sign:
    """Return how long the sample is, the first of the looks, and how many items lose posts or fail."""
    sample, limit = looks[0], model.prompts.limit
    if unread := sum(look.unread for look in looks):
        return Sign(
            "length",
            "red",
            f"the tokenizer makes no token of {unread} of {len(looks)} items",
            "it drops every word that its vocabulary does not know, and says nothing: it may be another model's, or "
            "transformers may take it for the one that models of this type have",
            "Compare tokenizer.json with the model's, and tokenizer_class in tokenizer_config.json",
        )
    tokens = max(
        (len(sequence.ids) for sequence in sample.assembled.sequences if not isinstance(sequence, Failure)), default=0
    )
    posts = f" and {sample.assembled.posts_kept} of {sample.posts} posts" if sample.posts else ""
    size = f"the sample has {tokens} tokens{posts}" if tokens else "the sample is too long"
    if limit is None:
        return Sign(
            "length",
            "yellow",
            f"{size}; the model's limit is unknown",
            "neither config.json nor the tokenizer names a limit: nothing is dropped or refused",
            "If the model has a limit, name it: max_tokens=N",
        )
    failing = sum(look.fails for look in looks)
    losing = sum(look.loses_posts for look in looks if not look.fails)
    text = (
        f"{size}, the limit is {limit} ({_limit_of(model, limit)}); of {len(looks)} items {losing} lose posts, "
        f"{failing} are too long"
    )
    if failing:
        return Sign(
            "length",
            "red",
            text,
            "an item that is too long without any post fails and counts as wrong: an answer is never cut",
            "A model that reads more tokens, or a condition that shows fewer pairs or notes",
        )
    if losing:
        return Sign(
            "length",
            "yellow",
            text,
            "posts are dropped from the end, the least relevant, for all candidates alike; a row says how many it kept",
            "A condition with fewer posts; to compare models, the same max_tokens=N for all",
        )
    return Sign("length", "green", text, "nothing is dropped")


def _limit_of(model: NeuralModel, limit: int) -> str:
    """Return who says how many tokens there may be."""
    room = isinstance(model.formula, RewardHead) and model.formula.append is not None
    note = ", less one for the reward token" if room else ""
    if "max_tokens" in parse_model(model.spec).options:
        return f"max_tokens in the spec{note}"
    config = model.folders[""].config
    keys = (key for key, value in config.items() if sequence_limit({key: value}, 0, None) == limit + room)
    key = next(keys, None)
    return f"{key} in config.json{note}" if key else f"model_max_length of the tokenizer{note}"


# ---------------------------------------------------------------- labels


def labels(model: NeuralModel) -> list[Sign]:
    """Return what is read of a head, and what a server would make of it; nothing for log-probs."""
    if not isinstance(model.formula, RewardHead):
        return []
    config, reading, output = model.folders[""].config, model.formula.reading, model.facts["output"]
    if output != "logits":
        text = f"{output!r} of what the model's own code returns, as a raw number"
        return [Sign("labels", "green", text, "no server is known to put an activation on it")]
    several = reading.label is not None or bool(reading.weights)
    text = f"{_read_of(reading, config.get('id2label'))}, as a raw number"
    name = config.get("function_to_apply") or config.get("sbert_ce_default_activation_function")
    if name and name != "none":
        return [Sign("labels", "yellow", text, f"config.json asks for an activation ({name}): other numbers", _RAW)]
    if config.get("problem_type") == "regression":
        return [Sign("labels", "green", text, "problem_type is regression: a server gives the raw number, too")]
    if not several:
        reason = "a server such as vLLM applies a sigmoid to it by default: the same order, other numbers"
        return [Sign("labels", "green", text, reason)]
    each = config.get("problem_type") == "multi_label_classification"
    through = "a sigmoid of each label" if each else "a softmax over the labels"
    reason = f"a server such as vLLM gives {through}: other numbers, and perhaps another order"
    return [Sign("labels", "yellow", text, reason, _RAW)]


def _read_of(reading: LabelReading, names: object) -> str:
    labels = [f"{index} = {name}" for index, name in names.items()] if isinstance(names, Mapping) else []
    note = f" ({', '.join(labels)})" if labels else ""  # a config.json may leave the names to its class
    if reading.weights:
        return f"a weighted sum of {len(reading.weights)} labels{note}"
    return "the only label" if reading.label is None else f"label {reading.label} of several{note}"
