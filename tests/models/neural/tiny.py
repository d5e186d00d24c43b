"""Tiny real models: folders as `save_pretrained` writes them, of several families, with random weights from a seed.

The libraries are imported on use: these files are collected where torch is not installed, too.
"""

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
