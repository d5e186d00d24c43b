"""Real encoders: a tiny BERT with weights of its own, saved to disk and loaded by the code that loads any other.

Everything here imports torch, so all of it is marked `embed`.
"""

import json
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Identified, Post
from pluralrm.errors import ModelError
from pluralrm.retrieval import Encoder, Ranker, Ranking, Request
from pluralrm.retrieval.backend import SentenceBackend
from pluralrm.retrieval.encoder import (
    PACKAGED,
    Backend,
    EmbeddingFolder,
    EmbeddingModel,
    Pooling,
    Similarity,
    open_folder,
)
from pluralrm.runs import score
from tests.builders import WORDS, Scripted, bakery

pytestmark = pytest.mark.embed

Vectors = NDArray[np.float32]
PLAIN: list[tuple[Pooling, Similarity]] = [("mean", "dot"), ("cls", "cosine")]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformers folder without a word on pooling, like Contriever's."""
    return tiny_bert(tmp_path_factory.mktemp("plain"), seed=1)


@pytest.fixture(scope="module")
def finished(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as a sentence-transformers model with its own pooling, similarity and prompts."""
    from sentence_transformers import SentenceTransformer

    folder = tmp_path_factory.mktemp("finished") / "model"
    SentenceTransformer(
        str(plain), prompts={"query": "oven ", "document": ""}, similarity_fn_name="dot", device="cpu"
    ).save(str(folder), create_model_card=False)
    return folder


def tiny_bert(folder: Path, *, seed: int) -> Path:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz", "##s"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=32, initializer_range=0.5, **shape)
    BertModel(config).eval().save_pretrained(folder)
    return folder


def by_hand(folder: Path, text: str, pooling: Pooling) -> Vectors:
    """One text alone through transformers, pooled by the definition."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(text, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()(**tokens).last_hidden_state[0]
    row: Vectors = (states.mean(0) if pooling == "mean" else states[0]).numpy()
    return row


def unused(folder: EmbeddingFolder) -> Backend:
    pytest.fail(f"{folder.name} was loaded although every vector is in the cache")


def similarities(question: Vectors, posts: list[Vectors], similarity: Similarity) -> list[float]:
    rows = [row.astype(float) for row in (question, *posts)]
    if similarity == "cosine":
        rows = [row / np.linalg.norm(row) for row in rows]
    return [float(rows[0] @ row) for row in rows[1:]]


# ---------------------------------------------------------------- vectors and orders


@pytest.mark.parametrize(("pooling", "similarity"), PLAIN)
def test_a_plain_encoders_order_is_that_of_one_text_at_a_time(
    plain: Path, tmp_path: Path, pooling: Pooling, similarity: Similarity
) -> None:
    bench = bakery(6, posts=9)
    ranker = Ranker(Ranking("embed", EmbeddingModel(str(plain), pooling, similarity)), cache=tmp_path)
    requests = [Request(item.id, item.prompt, item.user.posts) for item in bench.items if item.user]
    for request, ranked in zip(requests, ranker.rank(requests), strict=True):
        posts = [by_hand(plain, post.text, pooling) for post in request.posts]
        found = similarities(by_hand(plain, request.question, pooling), posts, similarity)
        assert ranked == sorted(request.posts, key=lambda post: -found[request.posts.index(post)])


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_vector_does_not_depend_on_its_batch(plain: Path, tmp_path: Path, pooling: Pooling) -> None:
    texts = [" ".join(WORDS[: n % 15 + 1]) + " s" * (n % 4) for n in range(60)] + ["", "rye " * 100]
    vectors = Encoder(EmbeddingModel(str(plain), pooling, "dot"), tmp_path).vectors(texts, "document")
    for text in texts:
        assert vectors[text] == pytest.approx(by_hand(plain, text, pooling), abs=1e-5)
        assert vectors[text].dtype == np.float32


def test_a_finished_model_is_used_as_it_says(finished: Path, plain: Path, tmp_path: Path) -> None:
    encoder = Encoder(EmbeddingModel(str(finished)), tmp_path)
    assert encoder.similarity == "dot"
    asked, found = (encoder.vectors(["rye crust"], role)["rye crust"] for role in ("query", "document"))
    assert asked == pytest.approx(by_hand(plain, "oven rye crust", "mean"), abs=1e-5)  # the model's own prompt
    assert found == pytest.approx(by_hand(plain, "rye crust", "mean"), abs=1e-5)


def test_half_precision_weights_are_run_in_float32(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel

    folder = tiny_bert(tmp_path, seed=1)
    AutoModel.from_pretrained(folder).to(torch.bfloat16).save_pretrained(folder)
    vectors = Encoder(EmbeddingModel(str(folder), "mean", "dot"), tmp_path / "cache").vectors(["rye"], "query")
    assert vectors["rye"] == pytest.approx(by_hand(folder, "rye", "mean"), abs=1e-5)


def test_the_number_of_threads_is_as_before(plain: Path, tmp_path: Path) -> None:
    import torch

    before = torch.get_num_threads()
    Encoder(EmbeddingModel(str(plain), "mean", "dot"), tmp_path).vectors(
        [" ".join(WORDS[:n]) for n in range(9)], "query"
    )
    assert torch.get_num_threads() == before
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == before


# ---------------------------------------------------------------- memory


def test_a_second_ranking_makes_no_forward_pass(plain: Path, tmp_path: Path) -> None:
    ranking = Ranking("embed", EmbeddingModel(str(plain), "mean", "dot"))
    requests = [Request("q", "rye crust", [Post("a", "oven"), Post("b", "salt rye")])]
    first = Ranker(ranking, cache=tmp_path).rank(requests)
    assert Ranker(ranking, cache=tmp_path, load=unused).rank(requests) == first


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    folder, cache = tmp_path / "model", tmp_path / "cache"
    folder.mkdir()
    model = EmbeddingModel(str(folder), "mean", "dot")
    vectors, identities = [], set()
    for seed in (1, 2):
        tiny_bert(folder, seed=seed)
        encoder = Encoder(model, cache)
        vectors.append(encoder.vectors(["rye"], "query")["rye"])
        identities.add(encoder.identity)
        assert vectors[-1] == pytest.approx(by_hand(folder, "rye", "mean"), abs=1e-5)
    assert len(identities) == 2


# ---------------------------------------------------------------- in a run


def test_a_run_ranked_by_embeddings_resumes_with_the_same_queries(plain: Path, tmp_path: Path) -> None:
    spec = f"swapped:2,by=embed:{plain},pooling=mean,similarity=dot"
    bench = bakery(12)
    condition = load_condition(spec, cache=tmp_path / "cache")
    outage = Scripted(moods={item.id: "transport" for item in bench.items[::2]})
    score(bench, outage, condition, out=tmp_path / "torn")
    torn = score(bench, Scripted(), condition, out=tmp_path / "torn")
    whole = score(bench, Scripted(), condition, out=tmp_path / "whole")
    assert torn.condition == spec
    assert sorted(torn.rows, key=lambda row: row.item) == list(whole.rows)
    assert isinstance(condition, Identified)
    assert set(condition.identity) == {"embedding"}


# ---------------------------------------------------------------- code that is not run


def _trap(folder: Path, marker: Path) -> None:
    """Turn a model into one that wants to run its own code, which would leave a marker."""
    (folder / "trap.py").write_text(
        f"import pathlib\npathlib.Path({str(marker)!r}).write_text('run')\nclass Model: ...\n"
    )
    config = json.loads((folder / "config.json").read_text())
    wanted = {"model_type": "trap", "auto_map": {"AutoConfig": "trap.Model", "AutoModel": "trap.Model"}}
    (folder / "config.json").write_text(json.dumps({**config, **wanted}))


def _refused(folder: Path, *, marker: Path, cache: Path, plain: bool) -> str:
    model = EmbeddingModel(str(folder), "mean", "dot") if plain else EmbeddingModel(str(folder))
    with pytest.raises(ModelError) as caught:
        Encoder(model, cache).vectors(["rye"], "query")
    assert not marker.exists()
    return str(caught.value)


def test_code_in_a_models_folder_is_never_run(tmp_path: Path) -> None:
    folder, marker = tiny_bert(tmp_path, seed=1), tmp_path / "marker"
    _trap(folder, marker)
    assert "holds code of its own (trap.py" in _refused(folder, marker=marker, cache=tmp_path / "cache", plain=True)


def test_a_folder_cannot_allow_its_own_code(finished: Path, tmp_path: Path) -> None:
    folder, marker = tmp_path / "model", tmp_path / "marker"
    shutil.copytree(finished, folder)
    _trap(folder, marker)
    allow = {"trust_remote_code": True}
    for key in ("model_args", "config_args", "tokenizer_args", "model_kwargs", "config_kwargs", "processor_kwargs"):
        bert = json.loads((folder / "sentence_bert_config.json").read_text())
        (folder / "sentence_bert_config.json").write_text(json.dumps({**bert, key: allow}))
    assert "holds code of its own (trap.py" in _refused(folder, marker=marker, cache=tmp_path / "cache", plain=False)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "sub/config.json", "generation.json"])
@pytest.mark.parametrize(
    "asking", [{"auto_map": {"AutoModel": "owner/name--file.Class"}}, {"a": [{"attn_implementation": "owner/kernel"}]}]
)
def test_a_kernel_or_code_of_the_hub_is_refused_whichever_file_names_it(
    tmp_path: Path, file: str, asking: dict[str, object]
) -> None:
    folder = tiny_bert(tmp_path, seed=1)
    (folder / file).parent.mkdir(exist_ok=True)
    config = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    (folder / file).write_text(json.dumps({**config, **asking}))
    message = _refused(folder, marker=tmp_path / "none", cache=tmp_path / "cache", plain=True)
    assert f"{file} asks for code from elsewhere (owner/" in message


def test_a_network_far_beyond_its_weights_is_refused_before_it_is_built(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path, seed=1)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 10**9}))
    message = _refused(folder, marker=tmp_path / "none", cache=tmp_path / "cache", plain=True)
    assert "num_hidden_layers is 1,000,000,000" in message


class _Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[Path, str], int], tuple[Path, str]]:
        return Path.write_text, (self.marker, "run")


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    folder, marker = tiny_bert(tmp_path, seed=1), tmp_path / "marker"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb(marker)))
    message = _refused(folder, marker=marker, cache=tmp_path / "cache", plain=True)
    assert "found pytorch_model.bin, wanted *.safetensors" in message


def test_damaged_weights_are_an_error_and_no_vectors(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path, seed=1)
    (folder / "model.safetensors").write_bytes(b"torn")
    message = _refused(folder, marker=tmp_path / "none", cache=tmp_path / "cache", plain=True)
    assert "model.safetensors is no whole safetensors file" in message


# ---------------------------------------------------------------- the packaged model


def test_the_packaged_model_ranks_as_text_by_text(tmp_path: Path) -> None:
    bench = load_benchmark("pocket-prb")
    requests = [Request(item.id, item.prompt, item.user.posts) for item in bench.items[:4] if item.user]
    model = EmbeddingModel(PACKAGED)
    backend = SentenceBackend(open_folder(model))
    for request, ranked in zip(requests, Ranker(Ranking("embed", model), cache=tmp_path).rank(requests), strict=True):
        [question] = backend.encode([[request.question]], "query")
        posts = [rows[0] for rows in backend.encode([[post.text] for post in request.posts], "document")]
        found = similarities(question[0], posts, "cosine")
        assert ranked == sorted(request.posts, key=lambda post: -found[request.posts.index(post)])


def test_the_packaged_model_finds_the_post_that_matters(tmp_path: Path) -> None:
    posts = [Post("a", "The cat sleeps all day."), Post("b", "My loaf came out flat again."), Post("c", "Rent is due.")]
    ranker = Ranker(Ranking("embed", EmbeddingModel(PACKAGED)), cache=tmp_path)
    assert ranker.rank([Request("q", "Why does my bread not rise?", posts)], k=1) == [[posts[1]]]


def test_a_real_tokenizer_says_what_its_model_reads_to_the_end(plain: Path, tmp_path: Path) -> None:
    encoder = Encoder(EmbeddingModel(str(plain), "mean", "dot"), tmp_path)
    exactly, longer = "rye " * 30, "rye " * 31  # 32 tokens with the two at the ends, and 33
    windows = encoder.windows([exactly, longer], "document")
    assert len(windows[exactly]) == 1
    assert len(windows[longer]) == 2
    tail = f"{longer}oven crust salt"
    cut, whole = encoder.vectors([longer, tail], "document"), encoder.whole([longer, tail], "document")
    np.testing.assert_array_equal(cut[longer], cut[tail])  # what stands behind the window was not read
    assert np.abs(whole[longer] - whole[tail]).max() > 0.01
    pieces = encoder.windows([tail], "document")[tail]
    mean = np.mean([by_hand(plain, piece, "mean") for piece in pieces], axis=0)
    assert whole[tail] == pytest.approx(mean, abs=1e-5)
