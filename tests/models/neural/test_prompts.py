"""From a Query to token ids: what transformers would encode, nothing doubled, nothing cut, the answer where it is."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.core import Failure, Post, Query, UserView
from pluralrm.errors import SpecError
from pluralrm.models.neural.folder import ChatTemplate
from pluralrm.models.neural.prompts import Assembler, Encoded, PairAssembler, sequence_limit
from pluralrm.templates import Message, load_template
from tests.models.neural.tokenizers import (
    Build,
    Made,
    answered,
    plain_texts,
    quick,
    spelling_texts,
    spells_none,
)

pytestmark = pytest.mark.hf

PROFILE = load_template()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Made:
    return Made(Build("wordpiece", template=None), tmp_path_factory.mktemp("wordpiece"))


# ---------------------------------------------------------------- which ids


@quick
@given(texts=st.tuples(plain_texts, plain_texts).filter(lambda texts: spells_none(*texts)), spoken=st.booleans())
def test_ids_are_those_of_the_conversation_tokenized_whole(made: Made, texts: tuple[str, str], *, spoken: bool) -> None:
    turns = answered(*texts)[: 1 + spoken]
    [found] = made.encode(turns)
    assert list(found.ids) == made.rendered(turns, tokenize=True)


@quick
@given(plain_texts, spelling_texts, spelling_texts)
def test_what_users_write_adds_no_special_token(made: Made, system: str, question: str, answer: str) -> None:
    neutral, spelling = made.encode(answered("a", "b"), answered(question + system, answer))
    assert made.controls(spelling.ids) == made.controls(neutral.ids)


@quick
@given(spelling_texts, spelling_texts)
def test_spelled_tokens_are_still_there_as_characters(bpe: Made, question: str, answer: str) -> None:
    turns = answered(question, answer)
    [found] = bpe.encode(turns)
    assert bpe.theirs.backend_tokenizer.decode(list(found.ids), skip_special_tokens=False) == bpe.rendered(
        turns, tokenize=False
    )


def test_threads_get_the_same_ids(bpe: Made) -> None:
    turns = [answered("<s>" * (number % 3), f"{number} </s> loaves") for number in range(60)]
    alone = [bpe.encode(one) for one in turns]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(bpe.encode, turns)) == alone


# ---------------------------------------------------------------- where the answer is


@quick
@given(st.tuples(plain_texts, plain_texts).filter(lambda texts: spells_none(*texts)))
def test_the_span_holds_the_answer_and_no_more_than_what_merges_with_it(made: Made, texts: tuple[str, str]) -> None:
    # Another way to the same: a mark shows where answers begin in the text, offsets which tokens are there.
    question, answer = texts
    turns = answered(question, answer)
    [found] = made.encode(turns)
    text = made.rendered(turns, tokenize=False)
    begins = made.rendered(answered(question, "¶¶"), tokenize=False).rindex("¶¶")
    body = answer.split("</think>")[-1].strip()
    low = text.index(body, begins)
    offsets = made.theirs(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    inside = [place for place, (first, last) in enumerate(offsets) if last > low and first < low + len(body)]
    assert not body or found.start <= inside[0] <= inside[-1] < found.end
    if inside and body == answer:
        before, after = text[offsets[found.start][0] : low], text[low + len(body) : offsets[found.end - 1][1]]
        assert len(before) <= 3, before
        assert len(after) <= 3, after


@quick
@given(st.lists(plain_texts | spelling_texts, min_size=2, max_size=6))
def test_all_before_and_after_the_span_is_alike_for_every_answer(made: Made, answers: list[str]) -> None:
    found = made.encode(*(answered("Which flour?", answer) for answer in answers))
    assert len({one.ids[: min(other.start for other in found)] for one in found}) == 1
    assert len({one.ids[len(one.ids) - min(len(other.ids) - other.end for other in found) :] for one in found}) == 1
    assert all(0 < one.start <= one.end <= len(one.ids) for one in found)


@quick
@given(answer=plain_texts | spelling_texts, others=st.lists(plain_texts, max_size=4))
def test_a_span_does_not_depend_on_the_other_answers(made: Made, answer: str, others: list[str]) -> None:
    [alone] = made.encode(answered("Which flour?", answer))
    together = made.encode(*(answered("Which flour?", text) for text in (*others, answer)), answered("Why?", answer))
    assert together[len(others)] == alone


def test_an_answer_that_begins_or_ends_like_a_probe_is_found_whole(bpe: Made) -> None:
    decode = bpe.theirs.backend_tokenizer.decode
    for answer in ("x", "7", "xx", "x7", "7x", "77 x", "x\n7"):
        [found] = bpe.encode(answered("Which flour?", answer))
        assert decode(list(found.ids[found.start : found.end])) == answer


def test_no_answer_has_no_span(made: Made) -> None:
    empty, blank, after_turn = made.encode(
        answered("Which flour?", ""), answered("Which flour?", " \n"), [Message("user", "Which flour?")]
    )
    assert empty.start == empty.end
    assert after_turn.start == after_turn.end == len(after_turn.ids)
    trims = made.build.strips or made.build.template in {"dated", "model-role"}
    assert (blank.start == blank.end) == trims


def test_conversations_of_one_query_may_differ_in_their_questions(bpe: Made) -> None:
    turns = [answered("A or B?", "A"), answered("B or A?", "A"), [Message("user", "A or B?")]]
    assert bpe.encode(*turns) == [bpe.encode(one)[0] for one in turns]


# ---------------------------------------------------------------- what does not fit


def _query(posts: Sequence[str], candidates: Sequence[str]) -> Query:
    user = UserView("u", tuple(Post(f"p{place}", text) for place, text in enumerate(posts)))
    return Query("q", "Which flour?", tuple(candidates), user)


def _speak(query: Query) -> list[list[Message]]:
    return [PROFILE.conversation(query, place) for place in range(len(query.candidates))]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("dough \n", max_size=40), max_size=6),
    st.lists(st.text("crust \n", max_size=60), min_size=1, max_size=3),
    st.integers(30, 260),
)
def test_posts_are_dropped_from_the_end_until_all_fit_that_can(
    bpe: Made, posts: list[str], candidates: list[str], limit: int
) -> None:
    query = _query(posts, candidates)
    free = [Assembler(bpe.template, bpe.tokenizer).assemble(_query(posts[:kept], candidates), _speak).sequences
            for kept in range(len(posts) + 1)]  # fmt: skip
    sizes = [[len(one.ids) for one in row if isinstance(one, Encoded)] for row in free]
    can = [size <= limit for size in sizes[0]]
    kept = max(
        (
            kept
            for kept, row in enumerate(sizes)
            if any(can) and all(s <= limit for s, c in zip(row, can, strict=True) if c)
        ),
        default=0,
    )
    found = Assembler(bpe.template, bpe.tokenizer, limit).assemble(query, _speak)
    assert found.posts_kept == kept
    for one, whole, fits, size in zip(found.sequences, free[kept], can, sizes[0], strict=True):
        assert one == (whole if fits else Failure("too_long", f"{size} tokens, limit {limit}"))


def test_without_a_limit_nothing_is_dropped(bpe: Made) -> None:
    found = Assembler(bpe.template, bpe.tokenizer).assemble(_query(["dough " * 900] * 9, ["Rye."]), _speak)
    assert found.posts_kept == 9
    [one] = found.sequences
    assert isinstance(one, Encoded)
    assert len(one.ids) > 5000


def test_a_query_without_a_user_keeps_no_posts(bpe: Made) -> None:
    found = Assembler(bpe.template, bpe.tokenizer, 5).assemble(Query("q", "Which flour?", ("Rye.", "Spelt.")), _speak)
    assert found.posts_kept == 0
    assert all(isinstance(one, Failure) and one.kind == "too_long" for one in found.sequences)


@pytest.mark.parametrize(
    ("config", "length", "wanted", "limit"),
    [
        ({"max_position_embeddings": 4096}, 10**30, None, 4096),
        ({"max_position_embeddings": 4096}, 2048, None, 2048),
        ({"max_position_embeddings": 514}, 512, 100, 100),
        ({"n_positions": 1024}, 10**30, 1024, 1024),
        ({"text_config": {"max_position_embeddings": 99}}, 10**30, None, 99),
        ({}, 10**30, None, None),
        ({}, 10**30, 300, 300),
        ({"max_position_embeddings": -1}, 10**30, None, None),
    ],
)
def test_the_least_limit_counts(config: dict[str, object], length: int, wanted: int | None, limit: int | None) -> None:
    assert sequence_limit(config, length, wanted) == limit


def test_more_than_the_model_reads_is_refused() -> None:
    with pytest.raises(SpecError, match="max_tokens is 4097; this model reads at most 4096"):
        sequence_limit({"max_position_embeddings": 4096}, 10**30, 4097)


# ---------------------------------------------------------------- pairs


@quick
@given(plain_texts, plain_texts)
def test_pairs_are_the_tokenizers_own(encoder: Made, question: str, answer: str) -> None:
    theirs = encoder.theirs([(question, answer)], return_token_type_ids=True)
    found = PairAssembler(encoder.tokenizer).assemble(Query("q", "?", ("",)), lambda _: [answered(question, answer)])
    [one] = found.sequences
    assert isinstance(one, Encoded)
    assert list(one.ids) == theirs["input_ids"][0]
    assert [place for place, text in enumerate(theirs.sequence_ids(0)) if text == 1] == list(range(one.start, one.end))
    assert [int(place >= one.second) for place in range(len(one.ids))] == theirs["token_type_ids"][0]


@quick
@given(st.lists(st.sampled_from(("[SEP]", "[CLS]", "[PAD]", "[sep]", "dough", " ")), max_size=5).map("".join))
def test_a_spelled_separator_separates_nothing(encoder: Made, text: str) -> None:
    found = PairAssembler(encoder.tokenizer).assemble(Query("q", "?", ("",)), lambda _: [answered(text, text)])
    [one] = found.sequences
    assert isinstance(one, Encoded)
    assert encoder.controls(one.ids) == 3


def test_pairs_are_cut_no_more_than_chats_are(encoder: Made) -> None:
    query = _query(["dough " * 20] * 4, ["Rye.", "Spelt, and water. " * 60])
    found = PairAssembler(encoder.tokenizer, 100).assemble(query, _speak)
    fits, fails = found.sequences
    assert isinstance(fits, Encoded)
    assert len(fits.ids) <= 100
    assert 0 < found.posts_kept < 4
    assert isinstance(fails, Failure)
    assert fails.kind == "too_long"


def test_a_template_of_the_user_is_used_as_it_is(bpe: Made) -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", bpe.tokenizer.named)
    found = Assembler(template, bpe.tokenizer).assemble(_query([], ["Rye."]), _speak)
    [one] = found.sequences
    assert isinstance(one, Encoded)
    assert one.ids == bpe.tokenizer.encode(["Which flour?</s>Rye.</s>"])[0]
