"""Models that are only called as a whole: encoders, families without a row, rewards exposed differently."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pluralrm.errors import ModelError
from pluralrm.models.neural.asks import Ask
from pluralrm.models.neural.packed import Group

_GROUPS_AT_ONCE = 64
_TOKENS_AT_ONCE = 4096

Values = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where a model's own forward pass puts the reward."""

    output: Literal["logits", "score", "first"] = "logits"
    """The attribute of its output; `first` is the first element, whatever its name."""
    append: int | None = None
    """A token that the model wants at the end, such as InternLM2's reward token."""
    custom: bool = False
    """True where the architecture is code of the folder's own, reached through AutoModel."""


PLAIN = Exposure()


class WholeHead:
    """Calls a model with ids and an attention mask; pooling is the model's own."""

    def __init__(self, model: torch.nn.Module, exposure: Exposure = PLAIN, *, budget: int | None = None) -> None:
        self._model = model
        self._exposure = exposure
        self._budget = budget or _TOKENS_AT_ONCE
        self._device = next(model.parameters()).device
        self._pad: int | None = model.config.pad_token_id
        self._names = inspect.signature(model.forward).parameters

    @property
    def dtype(self) -> str:
        """How numbers are held, such as `float32`."""
        return str(next(self._model.parameters()).dtype).removeprefix("torch.")

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array (1, labels) per ask; whatever position an ask names, the model pools."""
        stream = iter(groups)
        while several := list(islice(stream, _GROUPS_AT_ONCE)):
            found = self._scores({_key(ask): ask for group in several for ask in group})
            for group in several:
                yield [found[_key(ask)] for ask in group]

    def _scores(self, asks: dict[tuple[object, ...], Ask]) -> dict[tuple[object, ...], NDArray[np.float64]]:
        found: dict[tuple[object, ...], NDArray[np.float64]] = {}
        for batch in self._batches(list(asks.values())):
            with torch.inference_mode():
                rows = self._forward(batch).double().cpu().numpy()
            found |= {_key(ask): row[None] for ask, row in zip(batch, rows, strict=True)}
        return found

    def _batches(self, asks: Sequence[Ask]) -> Iterator[list[Ask]]:
        batch: list[Ask] = []
        for ask in sorted(asks, key=lambda ask: (-len(ask.ids), ask.ids)):
            # Without a pad token a model cannot tell where a shorter sequence of a batch ends.
            if batch and (self._pad is None or (len(batch) + 1) * len(batch[0].ids) > self._budget):
                yield batch
                batch = []
            batch.append(ask)
        if batch:
            yield batch

    def _forward(self, batch: list[Ask]) -> torch.Tensor:
        """Return (sequences, labels)."""
        width = max(len(ask.ids) for ask in batch)
        pad = 0 if self._pad is None else self._pad
        ids = [[*ask.ids, *(pad for _ in range(width - len(ask.ids)))] for ask in batch]
        mask = [[int(place < len(ask.ids)) for place in range(width)] for ask in batch]
        inputs = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self._names and all(ask.second for ask in batch):
            inputs["token_type_ids"] = [[int(place >= ask.second) for place in range(width)] for ask in batch]
        output = self._model(**{name: torch.tensor(value, device=self._device) for name, value in inputs.items()})
        return self._reward(output).float().reshape(len(batch), -1)

    def _reward(self, output: object) -> torch.Tensor:
        if self._exposure.output == "first":
            return output[0]  # type: ignore[index]
        reward = getattr(output, self._exposure.output, None)
        if not isinstance(reward, torch.Tensor):
            raise ModelError(f"the model's output has no {self._exposure.output!r}; declare output=logits|score|first")
        return reward


class WholeLanguageModel:
    """Calls a language model with one sequence at a time, without padding."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._device = next(model.parameters()).device

    @property
    def dtype(self) -> str:
        """How numbers are held, such as `float32`."""
        return str(next(self._model.parameters()).dtype).removeprefix("torch.")

    def values(self, groups: Iterable[Group]) -> Iterator[Values]:
        """Yield per group, in order, one array (wanted,) of log-probs per ask."""
        for group in groups:
            known: dict[Ask, NDArray[np.float64]] = {}
            for ask in group:
                if ask not in known:
                    known[ask] = self._logprobs(ask)
            yield [known[ask] for ask in group]

    def _logprobs(self, ask: Ask) -> NDArray[np.float64]:
        with torch.inference_mode():
            ids = torch.tensor([ask.needed], device=self._device)
            logits = self._model(input_ids=ids).logits[0, list(ask.wanted)].float()
            targets = torch.tensor(ask.targets, device=logits.device)[:, None]
            return np.asarray((logits.gather(1, targets)[:, 0] - logits.logsumexp(dim=1)).double().cpu())


def _key(ask: Ask) -> tuple[object, ...]:
    return ask.ids, ask.second
