"""Groups as tries, tries as packs: nothing is lost, nothing is computed twice, nothing comes before what it needs."""

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.models.neural.trees import Chain, StateRequest, Trie, common_prefix, grow, packs, pooled, rated

# Few distinct tokens, so that prefixes, equal sequences and sequences inside one another are common.
SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=6)


@st.composite
def groups(draw: st.DrawFn) -> list[StateRequest]:
    asks = []
    for ids in draw(SEQUENCES):
        wanted = draw(st.sets(st.integers(0, len(ids) - 1), min_size=1))
        asks.append(StateRequest(ids, tuple(sorted(wanted))))
    return asks


@given(SEQUENCES)
def test_the_common_prefix_is_that_of_going_token_by_token(sequences):
    length = 0
    while all(len(ids) > length and ids[length] == sequences[0][length] for ids in sequences):
        length += 1
    assert common_prefix(sequences) == length


WINDOWS = st.lists(groups(), min_size=1, max_size=4)


@given(WINDOWS)
def test_every_wanted_token_stands_where_the_trie_says_behind_its_own_sequence(several):
    trie = grow(several)
    for group, asks in enumerate(several):
        for number, ask in enumerate(asks):
            for position in ask.wanted:
                name, offset = trie.locate(group, number, position)
                path = [*trie.path(name), (name, offset + 1)]
                seen = [token for chain, tokens in path for token in trie.chains[chain].ids[:tokens]]
                assert tuple(seen) == ask.ids[: position + 1]


@given(WINDOWS)
def test_every_distinct_token_of_a_window_is_held_once(several):
    prefixes = {ask.ids[:end] for asks in several for ask in asks for end in range(1, ask.wanted[-1] + 2)}
    assert grow(several).tokens == len(prefixes)


@given(WINDOWS)
def test_no_token_has_more_chains_before_it_than_the_logarithm_of_the_sequences(several):
    trie = grow(several)
    assert all(chain.ids for chain in trie.chains)
    assert all(2 ** len(trie.path(name)) <= len(trie.chains) for name in range(len(trie.chains)))


@given(WINDOWS, st.integers(1, 20))
def test_packs_hold_every_token_once_and_what_it_continues_before_it(several, budget):
    trie = grow(several)
    seen: set[tuple[int, int]] = set()
    for pieces in packs(trie, budget):
        assert sum(piece.last - piece.first for piece in pieces) <= budget
        for piece in pieces:
            past = [*trie.path(piece.chain), (piece.chain, piece.first)]
            assert all((chain, place) in seen for chain, tokens in past for place in range(tokens))
            tokens = {(piece.chain, place) for place in range(piece.first, piece.last)}
            assert tokens.isdisjoint(seen)
            seen |= tokens
    assert len(seen) == trie.tokens


def caterpillar(length: int) -> list[StateRequest]:
    """Sequences that each leave a common one at a token of its own: inserted one by one, a trie would be as deep."""
    return [StateRequest((*range(1, end), 0), (end - 1,)) for end in range(1, length)]


def test_sequences_that_part_one_by_one_hang_on_one_chain():
    trie = grow([caterpillar(500)])
    assert max(len(trie.path(name)) for name in range(len(trie.chains))) == 1
    assert trie.tokens == 498 + 499


def test_nested_sequences_are_one_chain():
    trie = grow([[StateRequest(tuple(range(end)), (end - 1,)) for end in range(1, 300)]])
    assert [len(chain.ids) for chain in trie.chains] == [299]


def test_two_prompts_of_one_user_share_what_their_texts_begin_with():
    head, posts = (1, 2), (7, 8, 9)
    window = [
        [pooled((*head, *posts, 20 + question, 30 + answer), None) for answer in range(2)] for question in range(3)
    ]
    assert grow(window).tokens == 5 + 3 * (1 + 2)


def test_yes_and_no_after_one_prompt_are_one_sequence():
    trie = grow([[rated((5, 6, 7, 1), 3, 4), rated((5, 6, 7, 2), 3, 4)]])
    assert trie == Trie((Chain((5, 6, 7), 0),), ((0, 0),))


def test_what_follows_the_last_wanted_token_is_not_computed():
    assert grow([[StateRequest((5, 6, 7, 8), (1,)), StateRequest((5, 6, 9, 9), (1,))]]).tokens == 2


def test_a_head_is_read_where_transformers_pools():
    assert pooled((4, 5, 6), None).wanted == (2,)
    assert pooled((4, 5, 6), 6).wanted == (1,)  # pad = eos: the answer's own end is taken for padding
    assert pooled((6, 5, 6, 6), 6).wanted == (1,)
    assert pooled((6, 6), 6).wanted == (0,)
