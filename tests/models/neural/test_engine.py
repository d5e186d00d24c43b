"""The engine against one plain forward pass per sequence: no padding, no packs, no shared prefix, float32."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pluralrm.errors import ModelError
from pluralrm.models.neural.trees import StateRequest, pooled, rated
from tests.models.neural.tiny import DECODERS, language_folder, reward_folder

pytestmark = pytest.mark.hf

TOLERANCE = 1e-4
VOCABULARY = 200
BUDGETS = (1, 7, 64, 4096)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("engine")
    heads = {family: reward_folder(root / f"{family}-head", family) for family in DECODERS}
    models = {family: language_folder(root / f"{family}-lm", family) for family in DECODERS}
    return heads, models


@pytest.fixture(scope="session")
def opened(folders):
    """Return a function that gives the engine and the plain model of a family, each loaded once."""
    import transformers

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head, open_language_model

    known = {}

    def get(family: str, kind: str):
        if (family, kind) not in known:
            path = str(folders[kind == "lm"][family])
            ours = open_language_model if kind == "lm" else open_head
            loader = "AutoModelForCausalLM" if kind == "lm" else "AutoModelForSequenceClassification"
            # eager: the plainest attention that transformers has, and the only one with Gemma 2's soft cap
            plain = getattr(transformers, loader).from_pretrained(path, attn_implementation="eager").eval()
            known[family, kind] = ours(open_folder(path, kind="hf"), LoadSettings(dtype="float32", device="cpu")), plain
        return known[family, kind]

    return get


def plain_head(model: Any, ids: tuple[int, ...]) -> Any:
    import torch

    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].tolist()


def plain_logprobs(model: Any, ask: StateRequest) -> list[float]:
    import torch

    with torch.no_grad():
        logprobs = model(input_ids=torch.tensor([ask.ids])).logits[0].log_softmax(-1)
    return [float(logprobs[place, token]) for place, token in zip(ask.wanted, ask.targets, strict=True)]


TOKENS = st.integers(0, VOCABULARY - 1)


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Draw the sequences of one query: a shared prompt, answers that may be equal, nested or of one token."""
    prompt = tuple(draw(st.lists(TOKENS, max_size=40)))
    longest = tuple(draw(st.lists(TOKENS, min_size=2, max_size=30)))
    own = st.lists(TOKENS, min_size=2, max_size=20).map(tuple)
    nested = st.integers(2, len(longest)).map(lambda end: longest[:end])
    return [prompt + answer for answer in draw(st.lists(st.one_of(own, nested), min_size=1, max_size=5))]


QUERIES = st.lists(sequences(), min_size=1, max_size=6)


@pytest.mark.parametrize("family", DECODERS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(queries=QUERIES, budget=st.sampled_from(BUDGETS))
def test_a_head_scores_as_a_plain_forward_pass_does(opened, family, queries, budget):
    engine, plain = opened(family, "head")
    pad = plain.config.pad_token_id
    groups = [[pooled(ids, pad) for ids in group] for group in queries]
    engine.budget = budget
    found = list(engine.values(groups))
    for group, values in zip(groups, found, strict=True):
        wanted = [plain_head(plain, ask.ids) for ask in group]
        assert [value[0].tolist() for value in values] == [pytest.approx(one, abs=TOLERANCE) for one in wanted]


@pytest.mark.parametrize("family", DECODERS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(queries=QUERIES, budget=st.sampled_from(BUDGETS), data=st.data())
def test_log_probs_are_those_of_a_plain_forward_pass(opened, family, *, queries, budget, data):
    engine, plain = opened(family, "lm")
    groups = [[rated(ids, data.draw(st.integers(1, len(ids) - 1)), len(ids)) for ids in group] for group in queries]
    engine.budget = budget
    for group, values in zip(groups, engine.values(groups), strict=True):
        for ask, value in zip(group, values, strict=True):
            assert value.tolist() == pytest.approx(plain_logprobs(plain, ask), abs=TOLERANCE)


@pytest.mark.parametrize("family", [family for family in DECODERS if family != "gemma2"])
def test_packs_are_used_wherever_attention_allows_them(opened, family):
    engine, _ = opened(family, "head")
    assert engine.packs
    assert engine.drift < 1e-5


def test_a_soft_cap_is_padded(opened):
    engine, _ = opened("gemma2", "head")
    assert not engine.packs


def test_a_sequence_beyond_a_sliding_window_is_padded_and_a_shorter_one_packed(opened, monkeypatch):
    engine, plain = opened("mistral", "head")
    window = plain.config.sliding_window
    used: list[str] = []

    def noted(way: Any) -> None:
        whole = way.passes

        def passes(self: Any, *args: Any) -> Any:
            used.append(way.__name__)
            return whole(self, *args)

        monkeypatch.setattr(way, "passes", passes)

    noted(type(engine._network.packed))
    noted(type(engine._network.padded))
    for length in (window, window + 1):
        list(engine.values([[pooled(tuple(range(3, 3 + length)), None)]]))
    assert used == ["Packed", "Padded"]


def test_no_pass_is_larger_than_the_budget_whatever_the_order_of_the_file(opened):
    engine, _ = opened("llama", "head")
    sizes = []
    hook = engine._network.decoder.register_forward_pre_hook(
        lambda _module, _args, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    root = tuple(range(5, 155))
    pools = [[pooled((*root, 7, answer), None) for answer in range(64)], [pooled((9, 8, 7), None)]]
    engine.budget = 32
    for order in (pools, pools[::-1]):
        list(engine.values(order))
    hook.remove()
    assert max(sizes) <= 32
    assert sum(sizes) == 2 * (151 + 64 + 3)  # a pool of 64 is one prompt and 64 tokens, not 64 prompts


@pytest.mark.parametrize(("beginning", "most"), [((), 9), (tuple(range(50, 60)), 60)])
def test_verdicts_come_before_the_last_question_is_known(opened, monkeypatch, beginning, most):
    engine, _ = opened("llama", "head")
    engine.budget = 16
    monkeypatch.setattr(engine, "_streams", 2)
    asked = []

    def groups() -> Iterator[list[StateRequest]]:
        for number in range(99):
            asked.append(number)
            yield [pooled((*beginning, 3 + number, *range(3, 11)), None)]

    next(engine.values(groups()))
    assert len(asked) < most


def test_what_neighbouring_questions_share_is_computed_once(opened):
    engine, plain = opened("llama", "head")
    sizes = []
    hook = engine._network.decoder.register_forward_pre_hook(
        lambda _module, _args, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    profile = tuple(range(5, 155))
    asks = [[pooled((*profile, question, 7, answer), None) for answer in (20, 21)] for question in range(5)]
    engine.budget = 32
    values = list(engine.values(asks))
    hook.remove()
    assert sum(sizes) == 150 + 5 * (2 + 2)
    assert max(sizes) <= 32
    for group, several in zip(asks, values, strict=True):
        for ask, value in zip(group, several, strict=True):
            assert value[0].tolist() == pytest.approx(plain_head(plain, ask.ids), abs=TOLERANCE)


def test_what_is_computed_together_has_a_bound_however_much_is_shared(opened):
    from pluralrm.models.neural.trees import grow

    engine, _ = opened("llama", "head")
    engine.budget = 32
    profile = tuple(range(5, 105))
    groups = [
        [pooled((*profile, *((question + 7 * place) % 190 + 5 for place in range(10))), None)] for question in range(90)
    ]
    portions = list(engine._portions(groups))
    assert [group for portion in portions for group in portion.groups] == groups
    assert len(portions) < 9
    assert all(grow(portion.groups).tokens <= 8 * engine.budget for portion in portions)


FEW = st.lists(st.integers(20, 21), min_size=1, max_size=24).map(tuple)
"""Sequences of two tokens: they share beginnings of every length, end inside each other, and part often."""


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt_neox", "gemma3"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(window=st.lists(st.lists(FEW, min_size=1, max_size=6), min_size=1, max_size=5), budget=st.sampled_from(BUDGETS))
def test_random_tries_score_as_plain_forward_passes_do(opened, family, window, budget):
    engine, plain = opened(family, "head")
    engine.budget = budget
    for group, values in zip(
        window, engine.values([[pooled(ids, None) for ids in group] for group in window]), strict=True
    ):
        for ids, value in zip(group, values, strict=True):
            assert value[0].tolist() == pytest.approx(plain_head(plain, ids), abs=TOLERANCE)


class Fails:
    """A way to states whose passes run out of memory above a number of tokens."""

    def __init__(self, way: Any, limit: int, message: str) -> None:
        self.way, self.limit, self.message = way, limit, message

    def passes(self, groups: Any, trees: Any, budget: int) -> Any:
        return [self.out_of_memory if budget > self.limit else one for one in self.way.passes(groups, trees, budget)]

    def out_of_memory(self) -> None:
        raise RuntimeError(self.message)


NO_MEMORY = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes"


def starved(engine: Any, *, limit: int, message: str = NO_MEMORY) -> Any:
    from pluralrm.models.neural.engine import Engine

    copy = object.__new__(Engine)
    copy.__dict__ |= engine.__dict__
    copy._network = engine._network._replace(packed=Fails(engine._network.packed, limit, message))
    copy.budget = 1024
    return copy


def test_out_of_memory_halves_the_budget_and_goes_on_with_a_note(opened, caplog):
    engine, _ = opened("llama", "head")
    groups = [[pooled((*range(3, 40), last), None) for last in range(3)] for _ in range(9)]
    engine.budget = 1024
    wanted = [value.tolist() for group in engine.values(groups) for value in group]
    tight = starved(engine, limit=128)
    with caplog.at_level(logging.WARNING, logger="pluralrm"):
        found = [value.tolist() for group in tight.values(groups) for value in group]
    assert found == [[pytest.approx(one, abs=TOLERANCE) for one in row] for row in wanted]
    assert tight.budget == 128
    assert [record.getMessage() for record in caplog.records] == [
        f"out of memory: going on with {tokens} tokens at a time" for tokens in (512, 256, 128)
    ]


def test_a_pass_that_fails_keeps_no_other_waiting(opened, caplog):
    """The chunks of a root run beside each other: those after the one that failed wait for keys that never come."""
    engine, _ = opened("llama", "head")
    groups = [[pooled((*range(3, 203), last), None) for last in range(3)] for _ in range(3)]
    engine.budget = 512
    wanted = [value.tolist() for group in engine.values(groups) for value in group]
    engine.budget = 128
    passes = count()

    def fail_once(_module: Any, _args: Any) -> None:
        if next(passes) == 0:
            raise RuntimeError(NO_MEMORY)

    hook = engine._network.decoder.register_forward_pre_hook(fail_once)
    with caplog.at_level(logging.WARNING, logger="pluralrm"):
        found = [value.tolist() for group in engine.values(groups) for value in group]
    hook.remove()
    assert found == [[pytest.approx(one, abs=TOLERANCE) for one in row] for row in wanted]
    assert [record.getMessage() for record in caplog.records] == ["out of memory: going on with 64 tokens at a time"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_keys_are_read_once_they_are_there_whoever_comes_first(order):
    import torch

    from pluralrm.models.neural.attention import StoredKeys

    root, whole = StoredKeys(9, readers=2), torch.arange(9.0).reshape(1, 1, 9, 1)

    def write(chunk: int) -> None:
        part = whole[:, :, 3 * chunk : 3 * chunk + 3]
        root.write(0, 3 * chunk, (part, -part))

    with ThreadPoolExecutor(4) as pool:
        reading = pool.submit(root.read, 0, 8)
        for chunk in order:
            pool.submit(write, chunk)
        keys, values = reading.result(timeout=240)
    assert keys.flatten().tolist() == list(range(8))
    assert values.flatten().tolist() == [-key for key in range(8)]


def test_keys_are_dropped_once_the_last_pack_has_read_them():
    import torch

    from pluralrm.models.neural.attention import StoredKeys

    keys = StoredKeys(3, readers=2)
    keys.write(0, 0, (torch.ones(1, 1, 5, 1), torch.ones(1, 1, 5, 1)))  # of a piece of 5, later packs see 3
    for held in (1, 0):
        assert keys.read(0, 3)[0].shape[2] == 3
        keys.let_go(0)
        assert len(keys._layers) == held


def test_whoever_waits_for_keys_that_will_not_come_is_told():
    from pluralrm.models.neural.attention import AbandonedError, StoredKeys

    root = StoredKeys(4, readers=1)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(root.read, 0, 4)
        root.give_up()
        with pytest.raises(AbandonedError):
            reading.result(timeout=240)


def test_out_of_memory_at_the_least_budget_is_an_error_that_says_what_to_do(opened):
    engine, _ = opened("llama", "head")
    with pytest.raises(ModelError, match="dtype=bfloat16"):
        list(starved(engine, limit=0).values([[pooled((3, 4, 5), None)]]))


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_trained_norms_and_biases_count(folders, tmp_path, family):
    """Norms begin as ones and biases as zeros, with which a lost or doubled one would not be seen."""
    import torch
    import transformers

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head

    load = transformers.AutoModelForSequenceClassification.from_pretrained
    plain = load(folders[0][family], attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in plain.parameters():
            if weights.ndim == 1:
                weights.add_(0.4 * torch.randn(weights.shape, generator=generator))
    plain.save_pretrained(tmp_path)
    engine: Any = open_head(
        open_folder(str(tmp_path), kind="hf"), LoadSettings(dtype="float32", device="cpu", tokens=64)
    )
    group = [pooled((*range(3, 150), last), plain.config.pad_token_id) for last in range(4)]
    [values], [padded] = engine.values([group]), engine.plain.values([group])
    for ask, value, other in zip(group, values, padded, strict=True):
        assert value[0].tolist() == pytest.approx(plain_head(plain, ask.ids), abs=TOLERANCE)
        assert other[0].tolist() == pytest.approx(plain_head(plain, ask.ids), abs=TOLERANCE)


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_layers_over_several_devices_score_alike(folders, opened, family):
    """One device under several names, but with the hooks that carry states from one to the next."""
    import transformers
    from accelerate import dispatch_model

    from pluralrm.models.neural import attention, families, loading
    from pluralrm.models.neural.engine import Engine, HeadReader

    _, plain = opened(family, "head")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folders[0][family], attn_implementation=attention.NAME
    ).eval()
    layers = model.base_model.layers
    parts = {name for name, module in model.named_modules() if not list(module.children()) or module in [*layers]}
    owners = {name for name in parts if not any(name.startswith(f"{other}.") for other in parts)}
    dispatch_model(model, dict.fromkeys(sorted(owners), "cpu"), main_device="cpu", force_hooks=True)
    known = families.FAMILIES[family]
    engine = Engine(
        loading._network(model, known, loading.LoadSettings(device="map")), HeadReader(model.score), budget=64
    )
    assert engine.packs
    group = [pooled((*range(3, 150), last), plain.config.pad_token_id) for last in range(4)]
    [values] = engine.values([group])
    for ask, value in zip(group, values, strict=True):
        assert value[0].tolist() == pytest.approx(plain_head(plain, ask.ids), abs=TOLERANCE)


def test_a_map_of_one_device_is_that_device(folders, opened):
    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head

    engine, _ = opened("qwen2", "head")
    mapped = open_head(open_folder(str(folders[0]["qwen2"]), kind="hf"), LoadSettings(dtype="float32", device="map"))
    group = [pooled((*range(3, 50), last), None) for last in range(4)]
    [wanted], [found] = engine.values([group]), mapped.values([group])
    assert [float(one[0, 0]) for one in found] == pytest.approx([float(one[0, 0]) for one in wanted], abs=TOLERANCE)


def test_a_model_that_does_not_fit_is_refused_before_it_crawls(folders):
    import transformers
    from accelerate import cpu_offload

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import _check_placed

    path = folders[0]["llama"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(path)
    cpu_offload(model)
    with pytest.raises(ModelError, match="does not fit"):
        _check_placed(open_folder(str(path), kind="hf"), model)


def test_another_error_is_not_taken_for_a_lack_of_memory(opened):
    engine, _ = opened("llama", "head")
    with pytest.raises(RuntimeError, match="shapes"):
        list(starved(engine, limit=0, message="shapes cannot be multiplied").values([[pooled((3, 4, 5), None)]]))


def test_an_engine_that_would_be_wrong_finds_out_when_it_opens(opened, caplog):
    """Packed as if there were no soft cap: the proof must see it, or packs could be wrong unnoticed."""
    import transformers

    from pluralrm.models.neural import attention
    from pluralrm.models.neural.engine import DecoderNetwork, Engine, HeadReader
    from pluralrm.models.neural.passes import Packed, Padded

    class Capped(Padded):
        """Scores as a model with a cap on its states would."""

        def _run(self, batch: Any) -> Any:
            return super()._run(batch).tanh()

    attention.register()
    _, plain = opened("llama", "head")
    model = transformers.AutoModelForSequenceClassification.from_config(
        plain.config, attn_implementation=attention.NAME
    )
    decoder = model.eval().base_model
    packed = Packed(decoder, layers=decoder.layers, prune=True)
    with caplog.at_level(logging.WARNING, logger="pluralrm"):
        engine = Engine(DecoderNetwork(decoder, Capped(decoder), packed, None, VOCABULARY), HeadReader(model.score))
    assert not engine.packs
    assert "this model is padded" in caplog.text


def test_without_the_private_kernel_the_numbers_are_the_same(opened, monkeypatch):
    from pluralrm.models.neural import attention

    engine, plain = opened("qwen3", "head")
    groups = [[pooled((*range(3, 60), last), plain.config.pad_token_id) for last in range(4)]]
    engine.budget = 16
    monkeypatch.setattr(attention, "_KERNELS", {})
    [values] = engine.values(groups)
    wanted = [plain_head(plain, ask.ids) for ask in groups[0]]
    assert [value[0].tolist() for value in values] == [pytest.approx(one, abs=TOLERANCE) for one in wanted]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_kernel_sees_what_plain_matrix_products_see(data):
    import torch

    from pluralrm.models.neural import attention

    rows, shared, heads = (data.draw(st.integers(1, top)) for top in (40, 3, 2))
    causal = data.draw(st.booleans())
    keys = rows if causal else data.draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    query = torch.randn(1, heads * shared, rows, 8, generator=generator)
    pair = (torch.randn(1, heads, keys, 8, generator=generator), torch.randn(1, heads, keys, 8, generator=generator))
    found = attention.attend(query, pair, causal=causal, scale=0.3)
    wanted = attention.attend_plainly(query, pair, causal=causal, scale=0.3)
    assert torch.allclose(found[0], wanted[0], atol=1e-5)
    assert torch.allclose(found[1], wanted[1], atol=1e-5)
    mask = torch.ones(rows, keys, dtype=torch.bool).tril() if causal else None
    torchs = torch.nn.functional.scaled_dot_product_attention(query, *pair, attn_mask=mask, scale=0.3, enable_gqa=True)
    assert torch.allclose(wanted[0], torchs, atol=1e-5)


def test_a_long_causal_block_is_cut_without_a_trace(opened):
    engine, plain = opened("llama", "head")
    engine.budget = 4096
    ids = tuple((7 * place) % VOCABULARY for place in range(1500))
    [[value]] = engine.values([[pooled(ids, None)]])
    assert value[0].tolist() == pytest.approx(plain_head(plain, ids), abs=TOLERANCE)


def test_an_ask_may_want_any_positions_of_its_sequence(opened):
    import torch

    engine, plain = opened("gpt_neox", "head")
    asks = [StateRequest((5, 6, 7, 8, 9, 10), (0, 3, 4)), StateRequest((5, 6, 7, 20, 21), (1, 4))]
    engine.budget = 64
    [values] = engine.values([asks])
    for ask, value in zip(asks, values, strict=True):
        with torch.no_grad():
            states = plain.base_model(input_ids=torch.tensor([ask.ids])).last_hidden_state[0]
            wanted = plain.score(states[list(ask.wanted)])
        assert value.tolist() == [pytest.approx(row, abs=TOLERANCE) for row in wanted.tolist()]


def test_a_model_whose_positions_depend_on_its_neighbours_is_asked_one_at_a_time(tmp_path):
    """LongRoPE has other factors for passes of more than 16 tokens: the longest of a batch would decide."""
    import transformers

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head

    scaled: dict[str, Any] = {
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [2.0, 3.0, 4.0, 5.0],
            "original_max_position_embeddings": 16,
        }
    }
    path = str(reward_folder(tmp_path, "llama", **scaled))
    ours: Any = open_head(open_folder(path, kind="hf"), LoadSettings(dtype="float32", device="cpu"))
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    group = [pooled(tuple(range(3, 3 + length)), plain.config.pad_token_id) for length in (9, 12, 60, 30, 11)]
    [values] = ours.values([group])
    for ask, value in zip(group, values, strict=True):
        assert value[0].tolist() == pytest.approx(plain_head(plain, ask.ids), abs=TOLERANCE)
    ours._budget = 4096
    [together] = ours.values([group])
    assert together[0][0] != pytest.approx(values[0][0], abs=TOLERANCE)  # the danger is real
