"""`hf:`: a reward head, read as the raw number that it gives for a whole conversation.

score = head(state of the last token that is not config.pad_token_id), without a sigmoid or any other activation

A head with several labels needs label= or weights=. A model whose reward comes out elsewhere is a row of EXPOSURES, or
is declared in the spec. docs/neural-models.md has the keys.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
import transformers
from numpy.typing import NDArray

from pluralrm.core import Failure, Query, Verdict
from pluralrm.errors import ModelError, SpecError, did_you_mean
from pluralrm.folders import read_json
from pluralrm.models.neural.folder import CODE_KEY, TRUSTED, ModelFolder
from pluralrm.models.neural.kind import (
    NeuralModel,
    NeuralOutcome,
    answered,
    chat_assembler,
    folder_of,
    load_tokenizer,
    template_of,
    token_limit,
)
from pluralrm.models.neural.loading import Exposure, open_head, settings
from pluralrm.models.neural.prompts import Assembler, Encoded, PairAssembler, Tokenizer
from pluralrm.models.neural.trees import StateRequest, pooled
from pluralrm.specs import Spec
from pluralrm.templates import Message, Template

Output = Literal["logits", "score", "first"]
_HEAD = "ForSequenceClassification"
_AUTO_CLASSES = ("AutoModel", "AutoModelForSequenceClassification")


class Declaration(NamedTuple):
    """Where an architecture of a folder's own code puts its reward."""

    output: Output
    """The attribute of what its forward pass returns; `first` is the first element, whatever its name."""
    append: str = ""
    """The key of config.json that names a token which has to stand at the end of the conversation."""


EXPOSURES: Mapping[str, Declaration] = {
    "InternLM2ForRewardModel": Declaration("first", append="reward_token_id"),
    "LlamaForRewardModelWithGating": Declaration("score"),
}
"""By the name of the architecture in config.json. All of these are code of the folder's own."""


@dataclass(frozen=True, slots=True)
class LabelReading:
    """How a head's numbers become one: its only label, the label that is named, or a weighted sum."""

    label: int | None = None
    weights: tuple[float, ...] = ()

    def __call__(self, labels: NDArray[np.float64]) -> float:
        """Return the score; a ModelError where the head has not the labels that were declared."""
        if self.weights:
            if len(labels) != len(self.weights):
                raise ModelError(f"the head gives {len(labels)} numbers, and weights has {len(self.weights)}")
            return float(labels @ np.array(self.weights))
        if self.label is None and len(labels) != 1:
            raise ModelError(f"the head gives {len(labels)} numbers; declare which with label=N, or weights=W1;W2;...")
        if self.label is not None and self.label >= len(labels):
            raise ModelError(f"the head gives {len(labels)} numbers; there is no label {self.label}")
        return float(labels[self.label or 0])

    @property
    def fact(self) -> str:
        """What the identity keeps: weights may come from a file."""
        return ";".join(map(str, self.weights)) or ("only" if self.label is None else str(self.label))


@dataclass(frozen=True, slots=True)
class RewardHead:
    """Every candidate is the assistant's turn; what is read is the head at the position where transformers pools."""

    template: Template
    reading: LabelReading
    pad: int | None
    append: int | None = None

    def conversations(self, query: Query) -> list[list[Message]]:
        """Return one conversation per candidate."""
        return answered(self.template, query)

    def ask(self, encoded: Encoded) -> StateRequest:
        """Return the Ask for the pooled position, after the token that the model wants at the end."""
        ids = encoded.ids
        if self.append is not None and ids[-1:] != (self.append,):
            ids = (*ids, self.append)
        return pooled(ids, self.pad)._replace(second=encoded.second)

    def verdict(self, query: Query, outcomes: Sequence[NeuralOutcome]) -> Verdict:  # noqa: ARG002 - one outcome per candidate
        """Return each candidate's number."""
        return Verdict(
            tuple(outcome if isinstance(outcome, Failure) else self.reading(outcome[0]) for outcome in outcomes)
        )


def hf(spec: Spec) -> NeuralModel:
    """Return the model of `hf:FOLDER`."""
    template, chosen, folder = template_of(spec), settings(spec), folder_of(spec)
    config = _config(folder)
    exposure = _exposure(spec, folder)
    prompts = _prompts(spec, folder, spare=int(exposure.append is not None))
    head = RewardHead(
        template=template,
        reading=_reading(spec, folder, {} if exposure.custom else config.id2label),
        pad=config.get_text_config().pad_token_id,
        append=exposure.append,
    )
    return NeuralModel(
        spec=str(spec),
        formula=head,
        prompts=prompts,
        network=cache(lambda: open_head(folder, chosen, exposure)),
        folders={"": folder},
        facts={
            "template": template.hash,
            **({"chat template": prompts.template.hash} if isinstance(prompts, Assembler) else {}),
            "output": exposure.output,
            "append": str(exposure.append),
            "label": head.reading.fact,
        },
        loading=chosen,
    )


def _config(folder: ModelFolder) -> "transformers.PretrainedConfig":
    """Return the config with the defaults of its class: labels and pad token may be left to them."""
    try:
        return transformers.AutoConfig.from_pretrained(
            str(folder.path), local_files_only=True, trust_remote_code=folder.trusted
        )
    except Exception as exc:  # of damaged files the libraries raise anything
        raise ModelError(f"{folder.name}: its config cannot be read: {str(exc).strip()[:300]}") from exc


# ---------------------------------------------------------------- text


def _prompts(spec: Spec, folder: ModelFolder, *, spare: int) -> Assembler | PairAssembler:
    form = spec.options.get("format", "chat")
    if form == "chat":
        return chat_assembler(spec, folder, spare=spare)
    if form != "pair":
        raise SpecError(f"hf: format is {form!r}; wanted chat or pair")
    if "chat" in spec.options:
        raise SpecError("hf: chat= means nothing with format=pair; leave one of them out")
    tokenizer = Tokenizer(load_tokenizer(folder))
    limit = token_limit(spec, folder, tokenizer)
    return PairAssembler(tokenizer, None if limit is None else limit - spare)


# ---------------------------------------------------------------- where the reward is


def _exposure(spec: Spec, folder: ModelFolder) -> Exposure:
    """Return where this model puts its reward: as the spec says, as EXPOSURES says, or in transformers' logits."""
    declared = EXPOSURES.get(folder.architecture)
    classes = folder.config.get("auto_map")
    custom = folder.trusted and isinstance(classes, Mapping) and not classes.keys().isdisjoint(_AUTO_CLASSES)
    if not custom and (declared or not folder.architecture.endswith(_HEAD)):
        raise ModelError(
            f"hf:{folder.name}: found {folder.architecture or 'no architecture'}, wanted ...{_HEAD}. A reward that is "
            "computed by code in the folder needs that code (auto_map in config.json) and your leave: "
            f"{CODE_KEY}={TRUSTED} in the spec. A language model is no reward head; see 'pluralrm list models'"
        )
    output = spec.options.get("output", declared.output if declared else "logits")
    if output not in get_args(Output):
        raise SpecError(f"hf: output is {output!r}.{did_you_mean(output, get_args(Output))}")
    if "output" in spec.options and not custom:
        raise SpecError(f"hf: output={output} is for models with code of their own; a head of transformers has logits")
    return Exposure(cast("Output", output), _appended(spec, folder, declared), custom)


def _appended(spec: Spec, folder: ModelFolder, declared: Declaration | None) -> int | None:
    """Return the token that has to stand at the end, if any: an id, or the text of a single token."""
    text = spec.options.get("append")
    if text is None:
        return _declared_token(folder, declared.append) if declared and declared.append else None
    if text.isdecimal():
        return int(text)
    tokenizer = Tokenizer(load_tokenizer(folder))
    if text in tokenizer.specials:
        return tokenizer.specials[text]
    [ids] = tokenizer.encode([text])
    if len(ids) != 1:
        raise SpecError(f"hf: append is {text!r}, which is {len(ids)} tokens; wanted one token, or its id")
    return ids[0]


def _declared_token(folder: ModelFolder, key: str) -> int:
    token = folder.config.get(key)
    if not isinstance(token, int):
        raise ModelError(f"hf:{folder.name}: config.json: {key} is {token!r}; wanted the id of the reward token")
    return token


# ---------------------------------------------------------------- one number of several


def _reading(spec: Spec, folder: ModelFolder, labels: Mapping[int, str]) -> LabelReading:
    """Return what is read of the labels; none are known of a model with code of its own, which is checked at use."""
    if "label" in spec.options and "weights" in spec.options:
        raise SpecError("hf: found label= and weights=, wanted one of them")
    if "label" in spec.options:
        return LabelReading(label=_label(spec.options["label"], labels))
    if "weights" in spec.options:
        weights = _weights(spec.options["weights"])
        if labels and len(weights) != len(labels):
            raise SpecError(
                f"hf: weights has {len(weights)} numbers; {folder.name} has {len(labels)} labels: {_list(labels)}"
            )
        return LabelReading(weights=weights)
    if len(labels) > 1:
        raise SpecError(
            f"hf:{folder.name}: its head has {len(labels)} labels ({_list(labels)}), and none of them is known to be "
            "the reward: name one with label=N, or weigh them with weights=W1;W2;..."
        )
    return LabelReading()


def _label(text: str, labels: Mapping[int, str]) -> int:
    """Return the index of a label by its name, or by the index itself."""
    for index, name in labels.items():
        if name == text:
            return index
    if text.isdecimal() and (int(text) in labels or not labels):
        return int(text)
    raise SpecError(f"hf: label is {text!r}; wanted one of {_list(labels) or '0, 1, ...'}")


def _list(labels: Mapping[int, str]) -> str:
    return ", ".join(f"{index} = {name}" for index, name in sorted(labels.items()))


def _weights(text: str) -> tuple[float, ...]:
    """Return numbers with semicolons between them, or those of a JSON list in a file."""
    values = read_json(Path(text), label="hf: weights") if text.endswith(".json") else text.split(";")
    try:
        weights = tuple(map(float, values if isinstance(values, list) else [values]))
    except (TypeError, ValueError):
        weights = (math.nan,)
    if not weights or not all(map(math.isfinite, weights)):
        raise SpecError(
            f"hf: weights is {text!r}; wanted finite numbers, W1;W2;... or a .json file with a list of them"
        )
    return weights
