"""What a plan says of a model of weights, against what the network really embeds, holds and caches."""

from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Query
from pluralrm.models import load_model
from pluralrm.models.neural.kind import NeuralModel
from pluralrm.models.neural.loading import LoadSettings, cache_bytes, weight_bytes
from tests.models.neural.tiny import language_folder, reward_folder

pytestmark = pytest.mark.hf


def queries() -> list[Query]:
    """Questions of users with many posts and with none, one of them with the same answer twice."""
    benchmark = load_benchmark("pocket-prb")
    several = [
        query for name in ("none", "raw:10") for query in load_condition(name).queries(benchmark, benchmark.items[:5])
    ]
    return [*several, Query("twice", "Rye or spelt?", ("Rye.", "Rye."))]


def embedded(model: NeuralModel, asked: list[Query]) -> int:
    """Return how many tokens a network embeds to score the queries."""
    import torch

    network = model.network()
    module = next(part for part in vars(network).values() if hasattr(part, "decoder")).decoder
    tokens = [0]

    def count(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...], __: object) -> None:
        tokens.append(int(inputs[0].numel()))

    handle = module.get_input_embeddings().register_forward_hook(count)
    list(model.score(asked))
    handle.remove()
    return sum(tokens)


@pytest.mark.parametrize("spec", ["hf:head", "endo:lm", "verifier:lm"])
def test_the_tokens_of_a_plan_are_those_that_the_network_embeds(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reward_folder(tmp_path / "head")
    language_folder(tmp_path / "lm")
    model = load_model(spec)
    assert isinstance(model, NeuralModel)
    list(model.score(queries()[:1]))  # proving the packs embeds tokens of its own
    work = model.workload(queries()).tokens
    assert work == sum(embedded(model, [query]) for query in queries())
    assert 0.9 * work < embedded(model, queries()) <= work  # what neighbouring queries share is computed once


def test_where_nothing_is_shared_each_conversation_counts_whole(tmp_path: Path) -> None:
    shared = load_model(f"hf:{reward_folder(tmp_path / 'llama')}")
    alone = load_model(f"hf:{reward_folder(tmp_path / 'gemma2', 'gemma2')}")
    assert isinstance(shared, NeuralModel)
    assert isinstance(alone, NeuralModel)
    lengths = [
        {sequence.ids for sequence in alone.prompts.assemble(query, alone.formula.conversations).sequences}  # type: ignore[union-attr]
        for query in queries()
    ]
    work = alone.workload(queries())
    assert work.tokens == sum(len(ids) for several in lengths for ids in several)
    assert work.longest == max(len(ids) for several in lengths for ids in several)
    assert work.queries == len(queries())
    assert shared.workload(queries()).tokens < work.tokens


def test_a_ratio_of_two_models_computes_everything_twice(tmp_path: Path) -> None:
    policy, reference = language_folder(tmp_path / "policy"), language_folder(tmp_path / "reference", seed=1)
    ratio, one = load_model(f"dpo:{policy},reference={reference}"), load_model(f"endo:{policy}")
    assert isinstance(ratio, NeuralModel)
    assert isinstance(one, NeuralModel)
    assert ratio.workload(queries()).tokens == 2 * one.workload(queries()).tokens
    assert ratio.memory(100) == 2 * one.memory(100)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "gpt_neox", "gemma3"])
def test_weights_and_keys_take_what_the_plan_says(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    from pluralrm.models.neural.folder import open_folder

    folder = open_folder(str(language_folder(tmp_path / family, family)), kind="endo")
    network = transformers.AutoModelForCausalLM.from_pretrained(folder.path)
    held = {weights.data_ptr(): weights.nbytes for weights in network.parameters()}  # tied weights are one
    assert weight_bytes(folder, LoadSettings(dtype="float32")) == sum(held.values())
    assert weight_bytes(folder, LoadSettings(dtype="bfloat16")) == sum(held.values()) / 2
    stored = weight_bytes(folder, LoadSettings(device="cuda"))  # as stored: that the files hold, with their heads
    assert sum(held.values()) <= stored < 1.2 * sum(held.values())
    with torch.inference_mode():
        cache = network(torch.arange(20)[None], use_cache=True).past_key_values
    kept = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert cache_bytes(folder, LoadSettings(dtype="float32"), 20) == kept
