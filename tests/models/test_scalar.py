"""`hf:` gives the number that the model itself gives for each conversation, whatever it is asked beside."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pluralrm.core import Failure, Post, Query, UserView
from pluralrm.errors import ModelError, SpecError
from pluralrm.models import load_model
from pluralrm.templates import render
from pluralrm.testing import reward_model_findings
from tests.models.neural.asking import AWKWARD, TOLERANCE, differences, disagreements, queries
from tests.models.neural.plain import Plain
from tests.models.neural.tiny import DECODERS, ENCODERS, language_folder, own_code_folder, reward_folder
from tests.models.neural.tokenizers import Build

pytestmark = pytest.mark.hf

HEAD = "AutoModelForSequenceClassification"
BUILDS = (
    Build(adds_bos=True, template="chatml-bos", side="left"),
    Build(pad="</s>", template="instructions", adds_bos=True),  # pad = eos, and turns end with eos
    Build(eos=False, pad=None, template="plain"),
    Build("unigram", pad="</s>", side="left", beyond=False),
    Build("llama", template="chatml-bos"),
)

Shelf = Callable[..., Path]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Write each tiny model once."""

    @cache
    def folder(family: str = "llama", build: Build | None = None, **changes: object) -> Path:
        return reward_folder(tmp_path_factory.mktemp(family), family, build, **changes)  # type: ignore[arg-type]

    return folder


def _plainly(folder: Path) -> Callable[[Query, str], float]:
    plain = Plain(folder, HEAD)
    return lambda query, answer: float(plain.reward(render(query), answer)[0])


# ---------------------------------------------------------------- the number itself


@pytest.mark.parametrize("family", DECODERS)
def test_a_score_is_the_heads_logit_for_the_conversation_alone(family: str, shelf: Shelf) -> None:
    folder = shelf(family)
    asked = [*queries(6), *AWKWARD]
    assert not disagreements(list(load_model(f"hf:{folder}").score(asked)), asked, _plainly(folder))


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_a_score_is_right_whatever_the_tokenizer_adds_and_pads(build: Build, shelf: Shelf) -> None:
    folder = shelf("llama", build)
    asked = [*queries(4), *(AWKWARD[1:] if build.model == "unigram" else AWKWARD)]
    assert not disagreements(list(load_model(f"hf:{folder}").score(asked)), asked, _plainly(folder))


_TEXT = st.text(st.sampled_from(list("abR 7.\n\t{}-é日")), min_size=0, max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(st.tuples(_TEXT, st.lists(_TEXT, min_size=1, max_size=5), st.lists(_TEXT, max_size=2)), max_size=4)
)
def test_random_texts_empty_ones_too_are_scored_as_they_stand(
    asked: list[tuple[str, list[str], list[str]]], random_head: tuple[object, Callable[[Query, str], float]]
) -> None:
    made = [
        Query(
            f"q{place}", prompt, tuple(answers), UserView("u", tuple(Post(f"p{n}", one) for n, one in enumerate(posts)))
        )
        for place, (prompt, answers, posts) in enumerate(asked)
    ]
    model, plainly = random_head
    assert not disagreements(list(model.score(made)), made, plainly)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def random_head(shelf: Shelf) -> tuple[object, Callable[[Query, str], float]]:
    folder = shelf("qwen3")
    return load_model(f"hf:{folder},tokens=64"), _plainly(folder)


@pytest.mark.parametrize("family", ENCODERS)
def test_an_encoder_is_asked_with_a_pair_of_texts(family: str, shelf: Shelf) -> None:
    assert not _off_with_pairs(shelf(family))


def test_an_encoder_is_told_which_text_is_which_where_its_tokenizer_tells(tmp_path: Path) -> None:
    folder = reward_folder(tmp_path / "m", "deberta")
    file = folder / "tokenizer_config.json"
    names = ["input_ids", "token_type_ids", "attention_mask"]
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_input_names": names}))
    assert "token_type_ids" in Plain(folder, HEAD).tokenizer("a", "b")
    assert not _off_with_pairs(folder)


def _off_with_pairs(folder: Path) -> list[object]:
    """Return where the scores of pairs of texts are not the plain ones."""
    plain = Plain(folder, HEAD)
    asked = [*queries(5), *AWKWARD]
    found = list(load_model(f"hf:{folder},format=pair").score(asked))
    return disagreements(found, asked, lambda query, answer: float(plain.reward_of_pair(render(query), answer)[0]))


# ---------------------------------------------------------------- whatever is asked beside


@pytest.mark.parametrize(
    ("family", "tokens"), [("llama", 24), ("llama", None), ("mistral", 300), ("gpt2", 70), ("gemma2", 300)]
)
def test_neither_the_batch_nor_the_budget_changes_a_score(family: str, tokens: int | None, shelf: Shelf) -> None:
    key = f",tokens={tokens}" if tokens else ""
    model = load_model(f"hf:{shelf(family)}{key}")
    asked = [*queries(11, seed=1), *AWKWARD]
    alone = [verdict for query in asked for verdict in model.score([query])]
    for size in range(1, 17):
        assert not differences(
            [v for first in range(0, 16, size) for v in model.score(asked[first : first + size])], alone
        )


def test_neither_the_order_of_queries_nor_that_of_candidates_changes_a_score(shelf: Shelf) -> None:
    model = load_model(f"hf:{shelf()}")
    asked = [*queries(10, seed=2), *AWKWARD]
    found = list(model.score(asked))
    assert not differences(list(model.score(asked[::-1]))[::-1], found)
    turned = [Query(q.id, q.prompt, q.candidates[::-1], q.user) for q in asked]
    for one, other in zip(found, model.score(turned), strict=True):
        assert one.scores == pytest.approx(other.scores[::-1], abs=TOLERANCE)


def test_equal_answers_have_the_very_same_score(shelf: Shelf) -> None:
    [verdict] = load_model(f"hf:{shelf()}").score([Query("q", "?", ("Rye.", "Spelt.", "Rye."))])
    assert verdict.scores[0] == verdict.scores[2] != verdict.scores[1]


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_a_head_keeps_the_promises_of_a_reward_model(family: str, shelf: Shelf) -> None:
    assert {finding.status for finding in reward_model_findings(load_model(f"hf:{shelf(family)}"))} == {"pass"}


def test_verdicts_come_before_the_last_query_is_read(shelf: Shelf) -> None:
    read: list[str] = []

    def stream() -> Iterator[Query]:
        for query in queries(50):
            read.append(query.id)
            yield query

    verdicts = load_model(f"hf:{shelf()},tokens=200").score(stream())
    next(verdicts)
    assert len(read) < 20
    assert len(list(verdicts)) == 49


# ---------------------------------------------------------------- what does not fit


def test_posts_are_dropped_for_all_candidates_alike_and_counted(shelf: Shelf) -> None:
    posts = tuple(Post(f"p{n}", "steam " * 20) for n in range(5))
    query = Query("q", "Which flour?", ("Rye.", "Spelt. " * 10), UserView("u", posts))
    folder = shelf()
    [whole] = load_model(f"hf:{folder}").score([query])
    [cut] = load_model(f"hf:{folder},max_tokens=200").score([query])
    assert whole.posts_kept == 5
    kept = cut.posts_kept
    assert kept is not None
    assert 0 < kept < 5
    fewer = Query("q", "Which flour?", query.candidates, UserView("u", posts[:kept]))
    assert not disagreements([cut], [fewer], _plainly(folder))


def test_an_answer_that_cannot_fit_fails_alone(shelf: Shelf) -> None:
    user = UserView("u", (Post("p", "I bake."),))
    asked = [
        Query("mixed", "Which flour?", ("Rye.", "Spelt. " * 200), user),
        Query("none", "Which flour?", ("Spelt. " * 200,), user),
        Query("fits", "Which flour?", ("Rye.",)),
    ]
    mixed, none, fits = load_model(f"hf:{shelf()},max_tokens=150").score(asked)
    assert isinstance(mixed.scores[0], float)
    for failed in (mixed.scores[1], none.scores[0]):
        assert isinstance(failed, Failure)
        assert failed.kind == "too_long"
    assert isinstance(fits.scores[0], float)
    assert fits.posts_kept is None  # no post was shown


def test_no_query_at_all_is_no_verdict_at_all(shelf: Shelf) -> None:
    assert list(load_model(f"hf:{shelf()}").score([])) == []


def test_a_user_asking_in_special_tokens_is_read_as_text(shelf: Shelf) -> None:
    plain, spelled = (Query("q", text, ("Rye.",)) for text in ("a<|im_end|>b", "a\\<|im_end|>b"))
    found = [verdict.scores for verdict in load_model(f"hf:{shelf()}").score([plain, spelled])]
    assert found[0] != found[1]


# ---------------------------------------------------------------- heads with several labels


@pytest.fixture(scope="module")
def three(shelf: Shelf) -> Path:
    return reward_folder(
        shelf().parent / "three", num_labels=3, id2label={0: "polite", 1: "right", 2: "7"}, label2id={}
    )


def test_a_head_with_several_labels_says_which_it_has_and_reads_none(three: Path) -> None:
    with pytest.raises(SpecError, match=r"3 labels \(0 = polite, 1 = right, 2 = 7\).*label=N.*weights=W1;W2"):
        load_model(f"hf:{three}")


@pytest.mark.parametrize(
    ("key", "weights"),
    [
        ("label=1", (0, 1, 0)),
        ("label=polite", (1, 0, 0)),
        ("label=7", (0, 0, 1)),
        ("weights=0.5;-2;1e-1", (0.5, -2, 0.1)),
    ],
)
def test_a_label_or_a_weighted_sum_is_read(key: str, weights: tuple[float, ...], three: Path) -> None:
    plain = Plain(three, HEAD)
    asked = queries(4)
    assert not disagreements(
        list(load_model(f"hf:{three},{key}").score(asked)),
        asked,
        lambda query, answer: float(plain.reward(render(query), answer) @ weights),
    )


def test_weights_may_stand_in_a_file_and_are_part_of_the_identity(three: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    file.write_text("[0.5, -2, 0.1]")
    named, spelled = load_model(f"hf:{three},weights={file}"), load_model(f"hf:{three},weights=0.5;-2;0.1")
    assert [v.scores for v in named.score(queries(2))] == [v.scores for v in spelled.score(queries(2))]
    before = named.identity["label"]  # type: ignore[attr-defined]
    for broken in ('"123"', "{}", "[[1], 2, 3]", "[]", "7"):
        file.write_text(broken)
        with pytest.raises(SpecError, match=r"a list of them|has 1 numbers"):
            load_model(f"hf:{three},weights={file}")
    file.write_text("[0.5, -2, 0.2]")
    assert load_model(f"hf:{three},weights={file}").identity["label"] != before  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("label=3", "label is '3'; wanted one of 0 = polite"),
        ("label=Right", "label is 'Right'"),
        ("label=-1", "label is '-1'"),
        ("weights=1;2", "weights has 2 numbers; .* has 3 labels"),
        ("weights=1;two;3", "W1;W2"),
        ("weights=1;nan;3", "finite"),
        ("label=1,weights=1;2;3", "one of them"),
    ],
)
def test_labels_that_are_not_there_are_refused(keys: str, message: str, three: Path) -> None:
    with pytest.raises(SpecError, match=message):
        load_model(f"hf:{three},{keys}")


# ---------------------------------------------------------------- rewards that come out elsewhere


@pytest.fixture
def own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep transformers' copies of model code out of the home folder."""
    import transformers.dynamic_module_utils

    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))


def _by_hand(folder: Path, query: Query, answer: str, append: int | None = None) -> float:
    """Return the linear head of the folder over the last token's state, by the stock decoder."""
    import torch
    import transformers
    from safetensors.torch import load_file

    plain = Plain(folder, "LlamaModel")
    ids = plain.tokenizer(plain.text([("user", render(query)), ("assistant", answer)]), add_special_tokens=False)
    sequence = [*ids["input_ids"], *([append] if append is not None else [])]
    weights = load_file(folder / "model.safetensors")
    assert isinstance(plain.model, transformers.LlamaModel)
    with torch.inference_mode():
        state = plain.model(input_ids=torch.tensor([sequence])).last_hidden_state[0, -1]
        return float(weights["out.weight"][0] @ state + weights["out.bias"][0])


@pytest.mark.usefixtures("own_modules")
def test_a_reward_that_is_the_first_output_after_a_token_of_the_config(tmp_path: Path) -> None:
    folder = own_code_folder(
        tmp_path / "m", "InternLM2ForRewardModel", "AutoModel", tmp_path / "ran", reward_token_id=5
    )
    with pytest.raises(ModelError, match=r"holds code of its own.*code=trusted"):
        load_model(f"hf:{folder}")
    assert not (tmp_path / "ran").exists()
    asked = queries(2)
    found = list(load_model(f"hf:{folder},code=trusted").score(asked))
    assert not disagreements(found, asked, lambda query, answer: _by_hand(folder, query, answer, append=5))
    assert (tmp_path / "ran").exists()


@pytest.mark.usefixtures("own_modules")
def test_a_reward_that_is_an_output_named_score(tmp_path: Path) -> None:
    name = "LlamaForRewardModelWithGating"
    folder = own_code_folder(tmp_path / "m", name, "AutoModelForSequenceClassification", tmp_path / "ran")
    asked = queries(2)
    found = list(load_model(f"hf:{folder},code=trusted").score(asked))
    assert not disagreements(found, asked, lambda query, answer: 10 * _by_hand(folder, query, answer))


@pytest.mark.usefixtures("own_modules")
def test_a_model_that_no_row_knows_is_declared_in_the_spec(tmp_path: Path) -> None:
    folder = own_code_folder(tmp_path / "m", "OurForReward", "AutoModel", tmp_path / "ran")
    asked = queries(2)
    found = list(load_model(f"hf:{folder},code=trusted,output=first,append=<|im_end|>").score(asked))
    token = Plain(folder, "LlamaModel").tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert not disagreements(found, asked, lambda query, answer: _by_hand(folder, query, answer, append=token))
    with pytest.raises(ModelError, match="has no 'logits'"):
        list(load_model(f"hf:{folder},code=trusted").score(asked))


def test_a_token_is_appended_where_it_does_not_stand_already(shelf: Shelf) -> None:
    [query] = queries(1)
    newline = Plain(shelf(), HEAD).tokenizer("\n", add_special_tokens=False)["input_ids"][0]

    def scores(keys: str) -> object:
        return next(iter(load_model(f"hf:{shelf()}{keys}").score([query]))).scores

    assert scores(f",append={newline}") == scores("")  # ChatML ends each turn with a newline
    assert scores(",append=</s>") == scores(",append=2") != scores("")


# ---------------------------------------------------------------- refused before any weight is read


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda:99", "torch finds .* here; leave it out, or use device=cpu"), ("gpu", "wanted cpu, cuda, cuda:1 or map")],
)
def test_a_device_that_is_not_here_is_no_crash_of_the_model(device: str, message: str, shelf: Shelf) -> None:
    with pytest.raises(ModelError, match=f"device is '{device}'.*{message}"):
        next(iter(load_model(f"hf:{shelf()},device={device}").score(queries(1))))


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (",lable=1", SpecError, "Did you mean 'label'"),
        (",dtype=float8", SpecError, "dtype is 'float8'"),
        (",format=pairs", SpecError, "wanted chat or pair"),
        (",format=pair,chat=x.jinja", SpecError, "leave one of them out"),
        (",output=first", SpecError, "for models with code of their own"),
        (",output=last", SpecError, "output is 'last'"),
        (",append=two words", SpecError, "wanted one token"),
        (",code=yes", SpecError, "wanted code=trusted"),
        (",max_tokens=0", SpecError, "max_tokens"),
        (",max_tokens=9999", SpecError, "reads at most 8192"),
        (",chat=/nowhere.jinja", ModelError, "cannot be read"),
    ],
)
def test_a_misspelt_spec_is_refused_before_weights_are_read(
    keys: str, error: type[Exception], message: str, shelf: Shelf
) -> None:
    with pytest.raises(error, match=message):
        load_model(f"hf:{shelf()}{keys}")


def test_folders_that_hold_no_reward_are_refused(tmp_path: Path, shelf: Shelf) -> None:
    with pytest.raises(SpecError, match="no such folder"):
        load_model(f"hf:{tmp_path / 'none'}")
    with pytest.raises(ModelError, match=r"found LlamaForCausalLM, wanted .*ForSequenceClassification"):
        load_model(f"hf:{language_folder(tmp_path / 'lm')}")
    with pytest.raises(ModelError, match=r"no chat template.*chat=FILE.*format=pair"):
        load_model(f"hf:{shelf('deberta')}")


def test_a_chat_template_of_ones_own_is_used_and_is_part_of_the_identity(shelf: Shelf, tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("{% for m in messages %}{{ m.role }}> {{ m.content }}\n{% endfor %}")
    usual, own = load_model(f"hf:{shelf()}"), load_model(f"hf:{shelf()},chat={file}")
    assert own.identity["chat template"] != usual.identity["chat template"]  # type: ignore[attr-defined]
    plain = Plain(shelf(), HEAD)
    plain.tokenizer.chat_template = file.read_text()
    asked = queries(3)
    assert not disagreements(
        list(own.score(asked)), asked, lambda query, answer: float(plain.reward(render(query), answer)[0])
    )


def test_the_identity_reads_no_weights_and_knows_them(tmp_path: Path) -> None:
    folder = reward_folder(tmp_path / "m")
    before = dict(load_model(f"hf:{folder}").identity)  # type: ignore[attr-defined]
    assert {"weights", "revision", "template", "chat template", "label"} <= before.keys()
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    head = whole[: 8 + int.from_bytes(whole[:8], "little")]
    weights.write_bytes(head + b"no weights at all")
    broken = load_model(f"hf:{folder}")
    after = dict(broken.identity)  # type: ignore[attr-defined]
    assert {name for name in before if before[name] != after[name]} == {"weights"}
    with pytest.raises(ModelError, match="cannot be loaded"):
        list(broken.score(queries(1)))
    weights.write_bytes(b"no head at all")
    with pytest.raises(ModelError, match=r"model\.safetensors is no whole safetensors file"):
        load_model(f"hf:{folder}")


def test_weights_are_read_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    opened = []
    real = transformers.AutoModelForSequenceClassification.from_pretrained

    def counted(*words: object, **keys: object) -> object:
        opened.append(words)
        return real(*words, **keys)

    monkeypatch.setattr(transformers.AutoModelForSequenceClassification, "from_pretrained", counted)
    model = load_model(f"hf:{shelf()}")
    assert not opened
    for _ in range(3):
        list(model.score(queries(1)))
    assert len(opened) == 1
