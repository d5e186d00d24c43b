"""Tiny real models: folders as `save_pretrained` writes them, of several families, with random weights from a seed.

The libraries are imported on use: these files are collected where torch is not installed, too.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.models.neural.tokenizers import Build, load, save_tokenizer

DECODERS = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "gpt2", "gpt_neox")
ENCODERS = ("modernbert", "deberta")

# Weights are large, so that scores differ by whole numbers and a wrong token shows.
_SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "initializer_range": 0.3}
_DENSE = {**_SMALL, "intermediate_size": 48, "max_position_embeddings": 8192}
_GROUPED = {**_DENSE, "num_key_value_heads": 2}
_GEMMA = {**_GROUPED, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 24}
_SLIDES = ["sliding_attention", "full_attention", "sliding_attention"]
_RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}

CONFIGS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "llama": ("Llama", _GROUPED),
    "qwen2": ("Qwen2", _GROUPED),
    "qwen3": ("Qwen3", {**_GROUPED, "head_dim": 8}),
    "gemma2": ("Gemma2", {**_GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3Text", {**_GEMMA, "layer_types": _SLIDES}),
    "mistral": ("Mistral", {**_GROUPED, "head_dim": 8, "sliding_window": 24}),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 1024, "initializer_range": 0.3}),
    "gpt_neox": ("GPTNeoX", _DENSE),
    "modernbert": ("ModernBert", {**_DENSE, "local_attention": 16}),
    "deberta": ("DebertaV2", {**_DENSE, **_RELATIVE, "type_vocab_size": 2}),
}

_CODE = """
import torch
from transformers import {base}Config, {base}PreTrainedModel, {base}Model
from transformers.utils import ModelOutput
from dataclasses import dataclass
from pathlib import Path

Path({marker!r}).touch()

@dataclass
class Out(ModelOutput):
    first: torch.Tensor = None
    score: torch.Tensor = None

class {name}({base}PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = {base}Model(config)
        self.out = torch.nn.Linear(config.hidden_size, 1)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        ends = attention_mask.cumsum(dim=1).argmax(dim=1)
        pooled = self.out(hidden)[torch.arange(len(ends)), ends]
        return Out(first=pooled, score=10 * pooled[:, 0])
"""


def reward_folder(
    path: Path, family: str = "llama", build: Build | None = None, *, seed: int = 0, **changes: object
) -> Path:
    """Write a model with a reward head, of one label unless `num_labels` says otherwise, and return its folder."""
    name = f"{CONFIGS[family][0]}ForSequenceClassification"
    return _write(path, family, name, build, seed=seed, changes={"num_labels": 1, **changes})


def language_folder(
    path: Path, family: str = "llama", build: Build | None = None, *, seed: int = 0, **changes: object
) -> Path:
    """Write a language model, and return its folder."""
    named = {"gpt2": "GPT2LMHeadModel", "gemma3": "Gemma3ForCausalLM"}
    name = named.get(family, f"{CONFIGS[family][0]}ForCausalLM")
    return _write(path, family, name, build, seed=seed, changes=changes)


def own_code_folder(path: Path, name: str, auto: str, marker: Path, **changes: object) -> Path:
    """Write a reward model whose class is in the folder and touches `marker` when it is loaded; return the folder."""
    from safetensors.torch import load_file, save_file

    reward_folder(path)
    config = json.loads((path / "config.json").read_text())
    config |= {"architectures": [name], "auto_map": {auto: f"modeling_own.{name}"}, **changes}
    (path / "config.json").write_text(json.dumps(config))
    (path / "modeling_own.py").write_text(_CODE.format(base="Llama", name=name, marker=str(marker)))
    weights = load_file(path / "model.safetensors")
    weights["out.weight"] = weights.pop("score.weight")
    weights["out.bias"] = weights["out.weight"][:, 0] * 0 + 0.25
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path


def _write(
    path: Path, family: str, name: str, build: Build | None, *, seed: int, changes: Mapping[str, object]
) -> Path:
    import torch
    import transformers

    usual = Build("wordpiece", template=None) if family in ENCODERS else Build()
    tokenizer = load(save_tokenizer(build or usual, path))
    prefix, settings = CONFIGS[family]
    tokens = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id", None) for role in ("bos", "eos", "pad")}
    vocabulary = len(tokenizer) + 3  # a few more rows than tokens, as real models have
    config = getattr(transformers, f"{prefix}Config")(**{**settings, "vocab_size": vocabulary, **tokens, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        getattr(transformers, name)(config).save_pretrained(path)
    return path
