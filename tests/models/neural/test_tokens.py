"""A tokenizer's ids: those of transformers, and no special token but those that a template wrote."""

import json
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pluralrm.conditions import load_condition
from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.folders import panics_are_errors
from pluralrm.models.neural.prompts import Tokenizer
from pluralrm.runs.verdicts import verdicts
from tests.builders import bakery
from tests.models.neural.tokenizers import (
    Build,
    Made,
    answered,
    load,
    plain_texts,
    quick,
    save_tokenizer,
    spells_none,
)

pytestmark = pytest.mark.hf

PIECES = st.sampled_from([*"<a>bq \n", "<a>", "<a>b>", "q<a>", "q<a>b\n", "<l>", "<r>", "<think>", "\n\n", "dough"])


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory) -> Made:
    """A tokenizer with tokens that begin or end like others, and that swallow white space."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("overlapping")
    backend = load(save_tokenizer(Build(template=None), folder)).backend_tokenizer
    special = [AddedToken(text, special=True, normalized=False) for text in ("<a>", "<a>b>", "q<a>b\n")]
    swallowing = [AddedToken("<l>", special=True, lstrip=True), AddedToken("<r>", special=True, rstrip=True)]
    backend.add_special_tokens([*special, *swallowing])
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)
    return Made(Build(template=None), folder, load(folder))


@quick
@given(st.lists(plain_texts, min_size=1, max_size=4).filter(lambda texts: spells_none(*texts)))
def test_the_way_of_spelled_tokens_changes_no_other_text(made: Made, texts: list[str]) -> None:
    conversations = [made.rendered(answered("Which flour?", text), tokenize=False) for text in texts]
    plainly = [tuple(made.theirs(text, add_special_tokens=False)["input_ids"]) for text in conversations]
    assert made.tokenizer.encode(conversations) == plainly
    assert made.tokenizer.encode(conversations, {"<s>": "\U000fabcd"}) == plainly


def test_a_spelled_token_reads_as_its_letters_even_where_the_vocabulary_has_it_whole(tmp_path) -> None:
    unigram = Made(Build("unigram"), tmp_path)
    assert "<s>" in unigram.theirs.backend_tokenizer.encode("<s>", add_special_tokens=False).tokens
    [found] = unigram.tokenizer.encode_plain(["the<s>"])
    assert unigram.tokenizer.specials["<s>"] not in found


def test_bos_is_written_by_the_template_alone(tmp_path) -> None:
    counts = {}
    for adds, template in ((True, "chatml"), (True, "chatml-bos"), (False, "chatml"), (False, "chatml-bos")):
        build = Build(adds_bos=adds, template=template)
        one = Made(build, tmp_path / build.name)
        [found] = one.encode(answered("<s>?", "<s>!"))
        counts[adds, template] = one.tokenizer.count_bos(found.ids)
        assert one.tokenizer.would_add_bos == adds
    assert counts == {(True, "chatml"): 0, (True, "chatml-bos"): 1, (False, "chatml"): 0, (False, "chatml-bos"): 1}


def test_two_bos_are_counted_as_two(bpe: Made) -> None:
    ids = bpe.tokenizer.encode(["<s><s>x<s>"])[0]
    assert bpe.tokenizer.count_bos(ids) == 2
    assert bpe.tokenizer.count_bos(bpe.tokenizer.encode_plain(["<s>x"])[0]) == 0


def test_no_switch_of_the_original_reaches_the_copy_nor_back(tmp_path) -> None:
    one = Made(Build(), tmp_path)
    before = one.encode(answered("Which <s> flour?", "Rye."))
    original = one.theirs.backend_tokenizer
    settings_before = (original.truncation, original.padding, original.encode_special_tokens, len(one.theirs))
    one.theirs(["a b c d e f g", "a"], padding="max_length", truncation=True, max_length=3, split_special_tokens=True)
    assert one.encode(answered("Which <s> flour?", "Rye.")) == before
    one.theirs.add_tokens(["flour"])
    assert one.encode(answered("Which <s> flour?", "Rye.")) == before
    fresh = load(tmp_path)
    Tokenizer(fresh).encode_plain(["<s>"])
    original = fresh.backend_tokenizer
    assert (original.truncation, original.padding, original.encode_special_tokens, len(fresh)) == settings_before


@settings(max_examples=300, deadline=None)
@given(
    common=st.lists(PIECES, max_size=5).map("".join),
    tails=st.lists(st.lists(PIECES, max_size=3).map("".join), min_size=1, max_size=4),
)
@example(common="q<a>", tails=["b\n", "b"])  # one goes on to a token that began before the one they share
def test_texts_that_begin_alike_are_encoded_as_each_alone(overlapping: Made, common: str, tails: list[str]) -> None:
    texts = [common + tail for tail in tails]
    alone = [tuple(overlapping.theirs(text, add_special_tokens=False)["input_ids"]) for text in texts]
    assert overlapping.tokenizer.encode(texts) == alone
    assert overlapping.tokenizer.encode(texts, {"<s>": "\U000fabcd"}) == alone


def test_a_model_that_is_given_no_type_ids_is_told_of_no_second_text(tmp_path) -> None:
    theirs = load(save_tokenizer(Build("wordpiece", template=None), tmp_path))
    [told] = Tokenizer(theirs).encode_pairs([("Which flour?", "Rye.")])
    theirs.model_input_names = ["input_ids", "attention_mask"]
    [untold] = Tokenizer(theirs).encode_pairs([("Which flour?", "Rye.")])
    assert told.second == told.start > 0
    assert untold == told._replace(second=0)


def test_a_tokenizer_that_is_not_a_fast_one_is_refused_by_name() -> None:
    class Slow:
        name_or_path = "old/model"

    with pytest.raises(ModelError, match=r"old/model: its tokenizer has no tokenizer\.json"):
        Tokenizer(Slow())


def test_a_panic_of_the_tokenizer_is_an_error_of_its_item_and_not_the_end_of_the_run() -> None:
    """A post-processor that names a text which is not there makes the Rust library panic, beyond `except Exception`."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models

    told = json.loads(Backend(models.WordLevel({"rye": 0}, unk_token="rye")).to_str())  # noqa: S106 - a word
    second = [{"Sequence": {"id": "B", "type_id": 0}}]
    told["post_processor"] = {"type": "TemplateProcessing", "single": second, "pair": second, "special_tokens": {}}
    panicking = Backend.from_str(json.dumps(told))

    class Panicking:
        spec = "panicking"

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for query in queries:
                if query.id == "i0002":
                    with panics_are_errors():
                        panicking.encode(query.prompt)
                yield Verdict((1.0, 0.0))

    with pytest.raises(RuntimeError, match="the tokenizer panicked: index out of bounds"), panics_are_errors():
        panicking.encode("rye")
    bench = bakery(6)
    queries = list(load_condition("none").queries(bench, bench.items))
    failed = [
        query.id for query, verdict in zip(queries, verdicts(Panicking(), queries), strict=True) if verdict.failures
    ]
    assert failed == ["i0002"]
