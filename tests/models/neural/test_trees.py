"""Groups as trees, trees as packs: nothing is lost, nothing is computed twice, nothing comes before what it needs."""

from hypothesis import given
from hypothesis import strategies as st

from pluralrm.models.neural.trees import ROOT, StateRequest, Tree, common_prefix, grow, packs, pooled, rated

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


@given(groups())
def test_every_wanted_token_is_found_where_the_tree_says(asks):
    tree = grow(asks)
    for number, ask in enumerate(asks):
        for position in range(ask.wanted[-1] + 1):
            node, offset = tree.place(number, position)
            assert tree.node(node)[offset] == ask.ids[position]


@given(groups())
def test_no_two_leaves_are_equal_and_none_is_empty(asks):
    tree = grow(asks)
    assert len(set(tree.leaves)) == len(tree.leaves)
    assert all(tree.leaves)
    assert tree.tokens <= sum(ask.wanted[-1] + 1 for ask in asks)


@given(st.lists(groups(), min_size=1, max_size=4), st.integers(1, 20))
def test_packs_hold_every_token_once_and_roots_before_their_leaves(several, budget):
    trees = [grow(asks) for asks in several]
    seen: set[tuple[int, int, int]] = set()
    for pieces in packs(trees, budget):
        for piece in pieces:
            tokens = {(piece.tree, piece.node, place) for place in range(piece.first, piece.last)}
            assert tokens.isdisjoint(seen)
            seen |= tokens
            before = len(trees[piece.tree].root) if piece.node != ROOT else piece.first
            assert all((piece.tree, ROOT, place) in seen for place in range(before))
    assert len(seen) == sum(tree.tokens for tree in trees)


@given(st.lists(groups(), min_size=1, max_size=4), st.integers(1, 20))
def test_a_pack_is_larger_than_the_budget_only_where_one_leaf_is(several, budget):
    for pieces in packs([grow(asks) for asks in several], budget):
        size = sum(piece.last - piece.first for piece in pieces)
        assert size <= budget or len(pieces) == 1


def test_yes_and_no_after_one_prompt_are_one_sequence():
    tree = grow([rated((5, 6, 7, 1), 3, 4), rated((5, 6, 7, 2), 3, 4)])
    assert tree == Tree((5, 6, 7), (), (ROOT, ROOT))


def test_what_follows_the_last_wanted_token_is_not_computed():
    assert grow([StateRequest((5, 6, 7, 8), (1,)), StateRequest((5, 6, 9, 9), (1,))]).tokens == 2


def test_a_head_is_read_where_transformers_pools():
    assert pooled((4, 5, 6), None).wanted == (2,)
    assert pooled((4, 5, 6), 6).wanted == (1,)  # pad = eos: the answer's own end is taken for padding
    assert pooled((6, 5, 6, 6), 6).wanted == (1,)
    assert pooled((6, 6), 6).wanted == (0,)
