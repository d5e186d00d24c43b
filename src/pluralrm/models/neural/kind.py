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
from pluralrm.errors import ModelError, SpecError
from pluralrm.folders import panics_are_errors
from pluralrm.models.declarations import Workload
from pluralrm.models.neural.engine import Calculator, Values
from pluralrm.models.neural.families import family
from pluralrm.models.neural.folder import ModelFolder, code_trusted, load_chat_template, open_folder
from pluralrm.models.neural.loading import (
    LoadSettings,
    cache_bytes,
    device_of,
    open_language_model,
    precision,
    settings,
    weight_bytes,
)
from pluralrm.models.neural.prompts import Assembled, Assembler, Encoded, Speaker, Tokenizer, sequence_limit
from pluralrm.models.neural.trees import StateRequest, grow, rated
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
    loading: LoadSettings
    """How its weights are held and computed."""

    def __post_init__(self) -> None:
        if self.loading.dtype == "float16" and device_of(self.loading) == "cpu":
            raise SpecError(
                f"{self.spec}: float16 is no faster than float32 on a CPU, and overflows above 65,504; wanted "
                "bfloat16, float32, or a GPU"
            )

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed; files are hashed, no weight is held in memory."""
        facts = dict(self.facts)
        for name, folder in self.folders.items():
            facts[f"{name} revision".strip()] = folder.revision
            facts[f"{name} weights".strip()] = folder.hash()
        return facts if self.precision == "float32" else facts | {"dtype": self.precision}

    @property
    def precision(self) -> str:
        """How its weights are held, such as `bfloat16`; no weight is read to say so."""
        return " and ".join(sorted({precision(folder, self.loading) for folder in self.folders.values()}))

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; a conversation that cannot be assembled fails its candidate alone."""
        groups = map(self._assembled, queries)
        for entry, values in in_order(groups, lambda entry: filter(None, [entry.group]), self.network().values):
            yield self._verdict(entry, values)

    def workload(self, queries: Iterable[Query]) -> Workload:
        """Return what the network computes at most: in packs a token that a query's conversations share counts once."""
        work = Workload()
        for query in queries:
            requests = self._assembled(query).group
            whole = {request.needed for request in requests}
            tokens = grow([requests]).tokens if whole and self._packs else sum(map(len, whole))
            work = work.plus(Workload(1, len(self.folders) * tokens, max(map(len, whole), default=0)))
        return work

    @property
    def _packs(self) -> bool:
        entry = family(self.folders[""].config)
        return entry is not None and entry.packs and not self.loading.attn

    def memory(self, longest: int) -> int:
        """Return the bytes of one copy: weights as they are held, keys and values of a conversation so long."""
        return sum(
            weight_bytes(folder, self.loading) + cache_bytes(folder, self.loading, longest)
            for folder in self.folders.values()
        )

    def _assembled(self, query: Query) -> _Open:
        assembled = self.prompts.assemble(query, self.formula.conversations)
        asks = [
            sequence if isinstance(sequence, Failure) else self.formula.ask(sequence)
            for sequence in assembled.sequences
        ]
        has_posts = query.user is not None and bool(query.user.posts)
        return _Open(query, asks, assembled.posts_kept if has_posts else None)

    def _verdict(self, entry: _Open, values: Sequence[Values]) -> Verdict:
        stream = chain.from_iterable(values)
        outcomes = [ask if isinstance(ask, Failure) else self._finite(next(stream)) for ask in entry.asks]
        return replace(self.formula.verdict(entry.query, outcomes), posts_kept=entry.posts_kept)

    def _finite(self, values: NDArray[np.float64]) -> NeuralOutcome:
        """Return the values, or why they are none: a formula might make a number of an infinite one."""
        if np.isfinite(values).all():
            return values
        why = f"{values[~np.isfinite(values)][0]} in {self.precision}"
        limit = ": numbers above 65,504 overflow; use dtype=bfloat16 or float32" * ("float16" in self.precision.split())
        return Failure("nonfinite", why + limit)


def answered(template: Template, query: Query) -> list[list[Message]]:
    """Return one conversation per candidate, in which it is the assistant's turn."""
    turns = template.turns(query)
    return [[*turns, Message("assistant", answer)] for answer in query.candidates]


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
    limit = spec.integer("max_tokens", 0, least=1) if "max_tokens" in spec.options else None
    return sequence_limit(folder.config, tokenizer.max_length, limit)


def chat_assembler(spec: Spec, folder: ModelFolder, *, spare: int = 0) -> Assembler:
    """Return the assembler for the chat template of a spec or of its folder; `spare` tokens are kept for the kind."""
    tokenizer = Tokenizer(load_tokenizer(folder))
    source = spec.options.get("chat")
    chat = load_chat_template(folder.path, Path(source) if source else None, special=tokenizer.named)
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
        loading=chosen,
    )
