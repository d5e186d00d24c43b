"""What the kinds of neural reward models share: a formula says what to ask and what the values mean, the rest is here.

Weights are read on the first call of `score`. Queries are handed on one by one as the network asks for more, and
verdicts come as they are computed, in order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import transformers
from numpy.typing import NDArray

from pluralrm.core import Failure, Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.folders import panics_are_errors
from pluralrm.models.neural.engine import Calculator, Values
from pluralrm.models.neural.folder import ModelFolder, code_trusted, load_chat_template, open_folder
from pluralrm.models.neural.loading import open_language_model, settings
from pluralrm.models.neural.prompts import Assembled, Assembler, Encoded, Speaker, Tokenizer, sequence_limit
from pluralrm.models.neural.trees import StateRequest, rated
from pluralrm.ordered import in_order
from pluralrm.specs import Spec
from pluralrm.templates import DEFAULT, Message, Template, load_template

NeuralOutcome = NDArray[np.float64] | Failure
"""What came of one conversation: its values, or why there are none."""


class Formula(Protocol):
    """What tells one kind from another."""

    def conversations(self, query: Query) -> Sequence[Sequence[Message]]:
        """Return all conversations that one query asks about."""
        ...

    def ask(self, encoded: Encoded) -> StateRequest | Failure:
        """Return what is read of one conversation."""
        ...

    def verdict(self, query: Query, outcomes: Sequence[NeuralOutcome]) -> Verdict:
        """Return the verdict; outcomes come in the order of the conversations."""
        ...


class _Open(NamedTuple):
    """A query whose values are not there yet."""

    query: Query
    asks: list[StateRequest | Failure]
    posts_kept: int | None

    @property
    def group(self) -> list[StateRequest]:
        """What the network has to compute."""
        return [ask for ask in self.asks if isinstance(ask, StateRequest)]


class PromptEncoder(Protocol):
    """The way from a query to token ids: through a chat template, or as pairs."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes ids of texts."""
        ...

    @property
    def limit(self) -> int | None:
        """How many tokens a sequence may have, or None where that is unknown."""
        ...

    def assemble(self, query: Query, conversations: Speaker) -> Assembled:
        """Return one sequence per conversation."""
        ...


@dataclass(frozen=True)
class NeuralModel:
    """A reward model made of weights: a formula over what a network says of token ids."""

    spec: str
    formula: Formula
    prompts: PromptEncoder
    network: Callable[[], Calculator]
    """Opens the weights on its first call, and returns the same afterwards."""
    folders: Mapping[str, ModelFolder]
    """Where the weights come from: the model's own under an empty name, others under what they are to it."""
    facts: Mapping[str, str]
    """What else shapes the numbers: hashes of templates, and what the spec leaves to defaults."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed; files are hashed, no weight is held in memory."""
        found = dict(self.facts)
        for name, folder in self.folders.items():
            found[f"{name} revision".strip()] = folder.revision
            found[f"{name} weights".strip()] = folder.hash()
        return found

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; a conversation that cannot be assembled fails its candidate alone."""
        groups = map(self._assembled, queries)
        for asked, values in in_order(groups, lambda asked: filter(None, [asked.group]), self.network().values):
            yield self._verdict(asked, values)

    def _assembled(self, query: Query) -> _Open:
        assembled = self.prompts.assemble(query, self.formula.conversations)
        asks = [one if isinstance(one, Failure) else self.formula.ask(one) for one in assembled.sequences]
        shown = query.user is not None and bool(query.user.posts)
        return _Open(query, asks, assembled.posts_kept if shown else None)

    def _verdict(self, asked: _Open, values: Sequence[Values]) -> Verdict:
        stream = chain.from_iterable(values)
        outcomes: list[NeuralOutcome] = [ask if isinstance(ask, Failure) else next(stream) for ask in asked.asks]
        return replace(self.formula.verdict(asked.query, outcomes), posts_kept=asked.posts_kept)


def answered(template: Template, query: Query) -> list[list[Message]]:
    """Return one conversation per candidate, in which it is the assistant's turn."""
    asked = template.turns(query)
    return [[*asked, Message("assistant", answer)] for answer in query.candidates]


def rated_span(encoded: Encoded, *, turn: bool = False) -> StateRequest | Failure:
    """Return the Ask for the log-probs of the assistant's text; of an empty text there are none.

    With `turn` the tokens that the chat template writes after the text are rated too.
    """
    if encoded.start == encoded.end:
        return Failure("empty", "the answer has no token: a sum over nothing would beat every answer")
    if encoded.start == 0:
        return Failure("unsupported", "nothing stands before the answer: its first token has no log-prob")
    return rated(encoded.ids, encoded.start, len(encoded.ids) if turn else encoded.end)


# ---------------------------------------------------------------- from a spec to its parts


def template_of(spec: Spec, default: str = DEFAULT, *, answers: int = 0) -> Template:
    """Return the template that a spec names; one that leaves out an answer that is to be judged is a TemplateError."""
    template = load_template(spec.options.get("template", default))
    template.require_answers(answers)
    return template


def folder_of(spec: Spec) -> ModelFolder:
    """Return the folder that a spec's target names."""
    return open_folder(spec.target, kind=spec.kind, trusted=code_trusted(spec))


def load_tokenizer(folder: ModelFolder) -> "transformers.PreTrainedTokenizerBase":
    """Return a folder's tokenizer as transformers loads it; a ModelError where there is none."""
    try:
        with panics_are_errors():
            return transformers.AutoTokenizer.from_pretrained(
                str(folder.path), local_files_only=True, trust_remote_code=folder.trusted
            )
    except Exception as exc:  # of damaged files the libraries raise anything
        raise ModelError(f"{folder.name}: its tokenizer cannot be loaded: {str(exc).strip()[:300]}") from exc


def token_limit(spec: Spec, folder: ModelFolder, tokenizer: Tokenizer) -> int | None:
    """Return how many tokens a conversation may have, or None where that is unknown."""
    wanted = spec.integer("max_tokens", 0, least=1) if "max_tokens" in spec.options else None
    return sequence_limit(folder.config, tokenizer.max_length, wanted)


def chat_assembler(spec: Spec, folder: ModelFolder, *, spare: int = 0) -> Assembler:
    """Return the assembler for the chat template of a spec or of its folder; `spare` tokens are kept for the kind."""
    tokenizer = Tokenizer(load_tokenizer(folder))
    named = spec.options.get("chat")
    chat = load_chat_template(folder.path, Path(named) if named else None, special=tokenizer.named)
    limit = token_limit(spec, folder, tokenizer)
    return Assembler(chat, tokenizer, None if limit is None else limit - spare)


def language_model(spec: Spec, formula: Formula, template: Template, facts: Mapping[str, str]) -> NeuralModel:
    """Return the model that applies a formula to the log-probs of the language model in a spec's target."""
    folder, chosen = folder_of(spec), settings(spec)
    assembler = chat_assembler(spec, folder)
    return NeuralModel(
        spec=str(spec),
        formula=formula,
        prompts=assembler,
        network=cache(lambda: open_language_model(folder, chosen)),
        folders={"": folder},
        facts={"template": template.hash, "chat template": assembler.template.hash, **facts},
    )
