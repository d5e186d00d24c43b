"""A reward model of text, fine-tuned: `fit bt --base hf:FOLDER`.

What is trained is what is scored: queries go through the template, the chat template and the token limit by the code of
`hf:`, and the head is read at the same position. Written is a folder as transformers writes it, which `hf:` loads. A
language model may be the base: its head starts at 0, the constant scorer. Whole weights are trained, or LoRA beside
them that is merged in the end.

    loss of a group = -log softmax of the rewards, at the preferred answer

which for two answers is Bradley-Terry, and for four a winner against three.
"""

import json
import math
import random
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import transformers
from safetensors import SafetensorError

from pluralrm.core import Failure, Query
from pluralrm.digests import digest
from pluralrm.display import whole
from pluralrm.errors import MissingExtraError, ModelError, RunError
from pluralrm.files import is_free, replace_file, whole_folder
from pluralrm.folders import LOADED, read_json
from pluralrm.models import KINDS, parse_model
from pluralrm.models.neural.folder import ModelFolder
from pluralrm.models.neural.kind import chat_assembler, folder_of, template_of
from pluralrm.models.neural.loading import quietly
from pluralrm.models.neural.trees import StateRequest
from pluralrm.models.personal.algorithms import Epoch, Hyper, Tell
from pluralrm.models.personal.examples import split_held_out
from pluralrm.models.scalar import LabelReading, RewardHead

if TYPE_CHECKING:
    from transformers import PreTrainedModel


EXTRA = "tune"
Group = Sequence[StateRequest]
"""The answers to one question as token ids, the preferred one first; each ends where the head reads it."""
RECORD = "fit-text.json"
"""In the folder: what it was fitted from and with, and the losses."""
_COPIED = tuple(suffix for suffix in LOADED if suffix != ".safetensors")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "config.json", RECORD)
_BASES = ("ForSequenceClassification", "ForCausalLM")


class TextFit(NamedTuple):
    """What came of a fit: the folder, the losses, and how many groups were too long for the model."""

    folder: Path
    curve: tuple[Epoch, ...]
    groups: int
    too_long: int
    resumed: bool = False
    """True where the folder was there already, fitted in the same way."""


@dataclass(frozen=True)
class TextJob:
    """What is trained, from which queries of which clusters (the preferred candidate first), and how."""

    base: str
    """`hf:FOLDER` with the keys of `hf:`, a reward head or a language model."""
    labelled: Mapping[str, Sequence[Query]]
    settings: Hyper
    facts: Mapping[str, str]
    """Where the queries come from, to be kept in the folder."""
    seed: int = 0

    def opened(self) -> ModelFolder:
        """Return the folder of the base; a ModelError where it is neither a reward head nor a language model."""
        spec = parse_model(self.base)
        if not KINDS[spec.kind].trainable:
            raise ModelError(f"--base {self.base}: wanted hf:FOLDER, a reward head or a language model")
        folder = folder_of(spec)
        if not folder.architecture.endswith(_BASES) or folder.trusted:
            heads = " or ".join(f"...{name}" for name in _BASES)
            raise ModelError(f"--base {self.base}: found {folder.architecture}, wanted {heads} of transformers")
        return folder

    def groups(self, folder: ModelFolder) -> tuple[list[Group], list[Group]]:
        """Return the groups to train on and those of clusters held out; one is empty where an answer is too long."""
        spec = parse_model(self.base)
        head = RewardHead(template_of(spec), LabelReading(), _pad(folder))
        assembler = chat_assembler(spec, folder)
        judged = {
            name: [(query.prompt, query.candidates) for query in queries] for name, queries in self.labelled.items()
        }
        aside = split_held_out(judged, self.settings.real("held_out"), self.seed)
        parts: tuple[list[Group], list[Group]] = ([], [])
        for cluster, queries in self.labelled.items():
            for query in queries:
                sequences = assembler.assemble(query, head.conversations).sequences
                fit = [sequence for sequence in sequences if not isinstance(sequence, Failure)]
                parts[cluster in aside].append(
                    [head.ask(sequence) for sequence in fit] if len(fit) == len(sequences) else []
                )
        return parts

    def inputs(self, folder: ModelFolder) -> dict[str, object]:
        """Return what fixes the weights, as JSON."""
        content = digest([[cluster, [whole(query) for query in queries]] for cluster, queries in self.labelled.items()])
        facts = {"base": self.base, "base_hash": folder.hash(), "queries": content, "seed": self.seed}
        return {**self.facts, **facts, "settings": dict(self.settings.values)}


def fit_text(job: TextJob, out: Path, *, log: Tell) -> TextFit:
    """Return what came of fine-tuning.

    A folder that was fitted in the same way is left as it is; one that is anything else is a RunError. A fit that was
    stopped leaves nothing, and starts over.
    """
    folder = job.opened()
    inputs = job.inputs(folder)
    if (done := _done(out, inputs)) is not None:
        return done
    parts = job.groups(folder)
    train, held_out = ([group for group in part if group] for part in parts)
    if not (train and held_out):
        raise ModelError(
            f"--base {job.base}: found {len(train)} questions to train on and {len(held_out)} held out that fit the "
            "model's length, wanted at least one of each; show fewer posts"
        )
    tuned = tune(_loaded(folder), train, held_out, job.settings, seed=job.seed, log=log)
    groups = len(train) + len(held_out)
    done = TextFit(out, tuned.curve, groups, len(parts[0]) + len(parts[1]) - groups)
    _write(tuned.model, folder, done, inputs)
    return done


# ---------------------------------------------------------------- the base


def _pad(folder: ModelFolder) -> int | None:
    config = transformers.AutoConfig.from_pretrained(str(folder.path), local_files_only=True)
    pad: int | None = config.get_text_config().pad_token_id
    return pad


def _loaded(folder: ModelFolder) -> "PreTrainedModel":
    """Return the model with a head of one number; that of a language model is 0."""
    try:
        with quietly():
            model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
                str(folder.path),
                num_labels=1,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
    except (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as exc:
        raise ModelError(f"{folder.name}: cannot be loaded for training: {str(exc).strip()[:400]}") from exc
    head = getattr(model, "score", None)
    if not isinstance(head, torch.nn.Linear):
        raise ModelError(f"{folder.name}: found no linear head named 'score', wanted a decoder of transformers")
    missing = sorted(set(report["missing_keys"]) - {"score.weight"})
    if missing:
        raise ModelError(f"{folder.name}: its weights lack {', '.join(missing[:3])}: training would start from chance")
    if "score.weight" in report["missing_keys"]:
        torch.nn.init.zeros_(head.weight)
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


# ---------------------------------------------------------------- the folder


def _done(out: Path, inputs: Mapping[str, object]) -> TextFit | None:
    """Return the fit that is in the folder, or None where the folder is free."""
    if is_free(out):
        return None
    record = read_json(out / RECORD, label=str(out)) if (out / RECORD).is_file() else {}
    if not isinstance(record, dict) or record.get("inputs") != inputs:
        raise RunError(f"{out}: found something else, wanted a free folder or this very fit; name another with -o")
    curve = tuple(Epoch(*each) for each in record["curve"])
    return TextFit(out, curve, record["groups"], record["too_long"], resumed=True)


def _write(model: torch.nn.Module, base: ModelFolder, done: TextFit, inputs: Mapping[str, object]) -> None:
    """Write the folder at once: weights beside it first, so that a kill leaves nothing that looks whole."""
    record = {"inputs": inputs, "curve": done.curve, "groups": done.groups, "too_long": done.too_long}
    try:
        with whole_folder(done.folder) as beside:
            model.cpu().save_pretrained(beside)
            for file in base.path.iterdir():
                # Tokenizer and chat template as they are: written anew they might differ.
                if file.is_file() and file.suffix in _COPIED and file.name not in _WEIGHTS:
                    shutil.copyfile(file, beside / file.name)
            replace_file(beside / RECORD, json.dumps(record, indent=1))
    except BlockingIOError as exc:
        raise RunError(f"{done.folder}: another process is writing it; wait for it or stop it") from exc
    except (OSError, SafetensorError) as exc:
        raise RunError(f"cannot write {done.folder}: {exc}. Make room, or name another folder with -o") from exc


# ---------------------------------------------------------------- gradient steps


class Tuned(NamedTuple):
    """The model of the epoch with the least held-out loss, without adapters, and what every epoch lost."""

    model: torch.nn.Module
    curve: tuple[Epoch, ...]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from this seed (dropout, LoRA's first weights), and leave everybody's random numbers as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def tune(
    model: torch.nn.Module, train: Sequence[Group], held_out: Sequence[Group], settings: Hyper, *, seed: int, log: Tell
) -> Tuned:
    """Return the model after training; the one that was passed is changed."""
    with seeded(seed):
        model = _adapted(model, settings) if settings.whole("lora") else model
        trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
        curve, state = _epochs(model, trained, (train, held_out), settings, seed=seed, log=log)
    with torch.no_grad():
        for name, weights in trained.items():
            weights.copy_(state[name])
    model.eval()
    return Tuned(model.merge_and_unload() if settings.whole("lora") else model, curve)


_Kept = dict[str, torch.Tensor]


def _epochs(
    model: torch.nn.Module,
    trained: _Kept,
    groups: tuple[Sequence[Group], Sequence[Group]],
    settings: Hyper,
    *,
    seed: int,
    log: Tell,
) -> tuple[tuple[Epoch, ...], _Kept]:
    train, held_out = groups
    size, epochs = settings.whole("batch"), settings.whole("epochs")
    rate = _rate(settings.real("rate"), settings.real("warmup"), epochs * math.ceil(len(train) / size))
    optimizer = torch.optim.AdamW(list(trained.values()), weight_decay=0.0)
    curve: list[Epoch] = []
    state: _Kept = {}
    for number in range(epochs):
        model.train()
        lost: list[float] = []
        for batch in _shuffled(train, size, f"{seed}:{number}"):
            optimizer.param_groups[0]["lr"] = rate(len(curve) * math.ceil(len(train) / size) + len(lost))
            lost.append(_step(model, optimizer, batch))
        curve.append(Epoch(number, sum(lost) / len(lost), mean_loss(model, held_out, size)))
        log(curve[-1])
        best = min(curve, key=lambda epoch: epoch.held_out)
        if best is curve[-1]:
            state = {name: weights.detach().clone() for name, weights in trained.items()}
        if number - best.number >= settings.whole("patience"):
            break
    return tuple(curve), state


def _rate(most: float, warmup: float, steps: int) -> Callable[[int], float]:
    """Return the rate at each step: up along a line for a share of the steps, then down along a cosine."""
    rising = round(warmup * steps)

    def at(step: int) -> float:
        if step < rising:
            return most * (step + 1) / rising
        return most * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))

    return at


def _shuffled(groups: Sequence[Group], size: int, seed: str) -> Iterator[list[Group]]:
    order = random.Random(seed).sample(range(len(groups)), len(groups))
    for start in range(0, len(order), size):
        yield [groups[index] for index in order[start : start + size]]


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Sequence[Group]) -> float:
    optimizer.zero_grad()
    loss = group_losses(model, batch).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([each for each in model.parameters() if each.requires_grad], 1.0)
    optimizer.step()
    return float(loss.detach())


def mean_loss(model: torch.nn.Module, groups: Sequence[Group], size: int) -> float:
    """Return the mean loss over groups, without a step."""
    model.eval()
    with torch.no_grad():
        losses = [group_losses(model, groups[start : start + size]).double() for start in range(0, len(groups), size)]
    return float(torch.cat(losses).mean())


# ---------------------------------------------------------------- rewards


def group_losses(model: torch.nn.Module, groups: Sequence[Group]) -> torch.Tensor:
    """Return -log softmax at the first answer of each group, (groups,)."""
    scores = rewards(model, [ask for group in groups for ask in group])
    several = scores.split([len(group) for group in groups])
    return torch.stack([each.logsumexp(dim=0) - each[0] for each in several])


def rewards(model: torch.nn.Module, asks: Sequence[StateRequest]) -> torch.Tensor:
    """Return the head at the end of each sequence, (asks,), as `hf:` reads it; padded at the right."""
    device = next(model.parameters()).device
    needed = [ask.needed for ask in asks]
    width = max(map(len, needed))
    ids = torch.tensor([[*each, *[0] * (width - len(each))] for each in needed], device=device)
    mask = torch.tensor([[1] * len(each) + [0] * (width - len(each)) for each in needed], device=device)
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    states = whole.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    ends = torch.tensor([len(each) - 1 for each in needed], device=device)
    return whole.score(states[torch.arange(len(asks), device=device), ends])[:, 0].float()


# ---------------------------------------------------------------- LoRA


def _adapted(model: torch.nn.Module, settings: Hyper) -> torch.nn.Module:
    """Return the model with LoRA at every linear layer below the head, which itself is trained whole."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as exc:
        raise MissingExtraError("fit bt --base with lora above 0", EXTRA) from exc
    layers = [name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear) and name != "score"]
    if not layers:
        raise ModelError("found no linear layer that LoRA could stand beside; train whole weights with --set lora=0")
    chosen = LoraConfig(
        task_type="SEQ_CLS",
        r=settings.whole("lora"),
        lora_alpha=settings.whole("alpha"),
        lora_dropout=settings.real("dropout"),
        target_modules=layers,
        modules_to_save=["score"],
    )
    with warnings.catch_warnings():
        # peft reads a property under the name that transformers is about to drop.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        return get_peft_model(model, chosen)
