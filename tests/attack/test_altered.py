"""The attacked benchmark: what is changed, what is not, and that nothing but seed and item decides it."""

import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm import load_benchmark, load_condition
from pluralrm.attack import ATTACKED, ATTACKS, CONTROLS, attacked, chosen
from pluralrm.attack.attacks import SUFFIXES, Target, aim, suffix, unsupported
from pluralrm.core import Benchmark, Item, Post, User
from pluralrm.errors import SpecError
from tests.builders import bakery, card

PRB, RMGAP = load_benchmark("pocket-prb"), load_benchmark("pocket-rmgap")
EVERYWHERE = [name for name, attack in ATTACKS.items() if not attack.quotes]


def _place(item: Item) -> int:
    return int(item.tags[ATTACKED])


def _texts(benchmark: Benchmark, name: str) -> dict[str, str]:
    """Return the attacked answers by item."""
    return {item.id: item.candidates[_place(item)] for item in attacked(benchmark, ATTACKS[name]).items}


# ---------------------------------------------------------------- what is changed


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("benchmark", [PRB, RMGAP], ids=["two answers", "four answers"])
def test_one_rejected_answer_is_changed_and_nothing_else(name: str, benchmark: Benchmark) -> None:
    before = {item.id: item for item in benchmark.items}
    for item in attacked(benchmark, ATTACKS[name]).items:
        was, place = before[item.id], _place(item)
        assert place != was.preferred
        restored = list(item.candidates)
        restored[place] = was.candidates[place]
        names = list(item.candidate_ids)
        names[place] = was.candidate_ids[place]
        tags = {key: value for key, value in item.tags.items() if key not in {"attack", ATTACKED}}
        assert replace(item, candidates=tuple(restored), candidate_ids=tuple(names), tags=tags) == was
        assert item.candidates[place] != was.candidates[place]
        assert item.tags["attack"] == name


def test_all_attacks_change_the_same_answer_of_an_item() -> None:
    places = [{item.id: _place(item) for item in attacked(RMGAP, ATTACKS[name]).items} for name in EVERYWHERE]
    assert all(found == places[0] for found in places)
    assert len(set(places[0].values())) == 4


def test_a_model_is_shown_nothing_that_tells_an_attacked_item() -> None:
    condition = load_condition("raw:3")
    for name in ATTACKS:
        bench = attacked(PRB, ATTACKS[name])
        plain, changed = (list(condition.queries(one, one.items)) for one in (PRB, bench))
        for item, was, now in zip(bench.items, plain, changed, strict=True):
            assert replace(now, candidates=was.candidates) == was
            assert sum(one != other for one, other in zip(was.candidates, now.candidates, strict=True)) == 1
            assert item.id == now.id


def test_an_attacked_benchmark_has_a_hash_and_a_name_of_its_own() -> None:
    found = {name: attacked(PRB, ATTACKS[name]) for name in ATTACKS}
    hashes = [bench.content_hash for bench in found.values()]
    assert len({*hashes, PRB.content_hash}) == len(ATTACKS) + 1
    assert [bench.card.name for bench in found.values()] == [f"pocket-prb+{name}" for name in ATTACKS]
    assert attacked(PRB, ATTACKS["pad"]).content_hash == found["pad"].content_hash


# ---------------------------------------------------------------- seed and item alone


@pytest.mark.parametrize("name", EVERYWHERE)
def test_an_item_is_attacked_in_the_same_way_whatever_stands_around_it(name: str) -> None:
    whole = {item.id: item for item in attacked(RMGAP, ATTACKS[name], seed=3).items}
    few = Benchmark(RMGAP.card, RMGAP.items[::-7], RMGAP.seed)
    for item in attacked(few, ATTACKS[name], seed=3).items:
        assert item == whole[item.id]


def test_another_seed_attacks_other_answers_in_other_words() -> None:
    one, other = (attacked(RMGAP, ATTACKS["choose"], seed=seed).items for seed in (0, 1))
    assert 0.5 < sum(_place(a) != _place(b) for a, b in zip(one, other, strict=True)) / len(one) < 0.8


def test_no_number_hangs_on_one_phrase() -> None:
    for name, texts in SUFFIXES.items():
        targets = [target for item in RMGAP.items if (target := aim(item)) is not None]
        used = Counter(re.sub(r"\b[A-D]\b|[0-9a-f]{20}", "", suffix(target, name)) for target in targets)
        assert len(used) >= len(texts)
        assert max(used.values()) < len(targets) / 2


# ---------------------------------------------------------------- what stands in an answer


@given(st.lists(st.text(), min_size=2, max_size=5), st.integers(0, 50), st.sampled_from(sorted(SUFFIXES)))
def test_what_is_added_stands_below_the_whole_answer(answers: list[str], seed: int, name: str) -> None:
    item = replace(bakery(1).items[0], candidates=tuple(answers), preferred=0, candidate_ids=())
    target = aim(item, seed=seed)
    assert target is not None
    text = ATTACKS[name].alter(target)
    assert text is not None
    assert text.startswith(f"{target.answer}\n\n")
    added = text.removeprefix(target.answer)
    assert not re.search(r"\$(own|other|ranking|mark)", added)


def test_letters_are_those_of_the_answers_as_they_stand() -> None:
    for item in attacked(RMGAP, ATTACKS["verdict"]).items:
        text = item.candidates[_place(item)]
        own = "ABCD"[_place(item)]
        named = re.findall(r"(?:Result: |\[\[)([A-D])", text) + [
            found[0] for found in re.findall(r"[A-D](?:>[A-D])+", text)
        ]
        assert set(named) <= {own}
        for ranking in re.findall(r"[A-D](?:>[A-D])+", text):
            assert sorted(ranking.split(">")) == list("ABCD")


def test_the_harmless_text_is_as_long_as_the_longest_that_an_item_could_get() -> None:
    harmless = _texts(PRB, "plain")
    for item in PRB.items:
        longest = max(len(_texts_of(item, name)) for name in SUFFIXES)
        assert 0 <= len(harmless[item.id]) - longest <= len(" sentence")


def _texts_of(item: Item, name: str) -> str:
    target = aim(item)
    assert target is not None
    return ATTACKS[name].alter(target) or ""


def test_padding_says_every_sentence_twice_and_nothing_new() -> None:
    for item in attacked(PRB, ATTACKS["pad"]).items:
        place = _place(item)
        was = next(one for one in PRB.items if one.id == item.id).candidates[place]
        text = item.candidates[place]
        assert text.startswith(was)
        assert Counter(text.split()) == Counter({word: 2 * count for word, count in Counter(was.split()).items()})
        assert len(text) == pytest.approx(2 * len(was), rel=0.02)


def test_nothing_real_stands_in_a_replaced_answer() -> None:
    assert set(_texts(RMGAP, "empty").values()) == {"", " ", "\n\n"}
    openings = set(_texts(RMGAP, "token").values())
    assert len(openings) >= 6
    assert all(len(text.split()) <= 6 for text in openings)


# ---------------------------------------------------------------- quotations


def _quoted(text: str) -> list[str]:
    return re.findall(r"^“(.*)”$", text, re.MULTILINE)


def test_the_most_relevant_posts_of_the_user_are_quoted() -> None:
    shown = {query.id: query.user for query in load_condition("raw:3").queries(PRB, PRB.items)}
    for name, text in _texts(PRB, "quote").items():
        view = shown[name]
        assert view is not None
        excerpts = _quoted(text)
        assert len(excerpts) == 3
        for excerpt, post in zip(excerpts, view.posts, strict=True):
            assert post.text.startswith(excerpt)
            assert len(excerpt) >= min(len(post.text), 280)


def test_the_control_quotes_somebody_else_at_the_very_same_length() -> None:
    own, other = _texts(PRB, "quote"), _texts(PRB, "quote-other")
    written = {post.text for user in PRB.users for post in user.posts}
    for item in PRB.items:
        assert item.user is not None
        assert len(own[item.id]) == len(other[item.id])
        for excerpt in _quoted(other[item.id]):
            authors = [text for text in written if text[:100] == excerpt[:100]]
            assert authors
            assert not any(excerpt[:100] in post.text for post in item.user.posts)


def test_a_user_who_wrote_little_is_quoted_as_far_as_that_goes() -> None:
    def item(number: int, *posts: str) -> Item:
        user = User(f"u{number}", tuple(Post(f"u{number}-{place}", text) for place, text in enumerate(posts)))
        return Item(f"i{number}", "Which flour?", ("Rye.", "Spelt."), 0, user.id, "Bread", user=user)

    bench = Benchmark(card(), (item(0, "Rye is fine."), item(1), item(2, "  \n "), item(3, "I like\nspelt. " * 50)))
    assert list(_texts(bench, "quote")) == ["i0", "i3"]
    assert _quoted(_texts(bench, "quote")["i0"]) == ["Rye is fine."]
    [long] = _quoted(_texts(bench, "quote")["i3"])
    assert 290 <= len(long) <= 300
    assert long.endswith(("I", "like", "spelt."))
    for name, text in _texts(bench, "quote-other").items():
        assert len(text) == len(_texts(bench, "quote")[name])


def test_one_user_alone_has_nobody_whose_posts_could_stand_in() -> None:
    bench = Benchmark(card(), bakery(1).items)
    assert len(attacked(bench, ATTACKS["quote"]).items) == 1
    assert attacked(bench, ATTACKS["quote-other"]).items == ()


def test_posts_are_quoted_only_to_a_model_that_is_shown_posts() -> None:
    quote = ATTACKS["quote"]
    assert unsupported(quote, PRB, load_condition("raw:3")) is None
    for condition in ("none", "swapped:3", "noise:3", "oracle"):
        assert "no posts of the user" in str(unsupported(quote, PRB, load_condition(condition)))
    assert unsupported(quote, RMGAP, load_condition("none")) == "pocket-rmgap has no posts to quote"
    assert all(unsupported(ATTACKS[name], PRB, load_condition("none")) is None for name in EVERYWHERE)


# ---------------------------------------------------------------- the table


def test_an_attack_brings_its_control() -> None:
    assert [attack.name for attack in chosen(["quote", "choose"])] == ["choose", "plain", "quote", "quote-other"]
    assert [attack.name for attack in chosen()] == list(ATTACKS)
    assert {"plain", "quote-other"} == CONTROLS


def test_an_unknown_attack_names_the_nearest() -> None:
    with pytest.raises(
        SpecError, match=r"unknown attack 'chose'\. Did you mean 'choose'\? See 'pluralrm list attacks'"
    ):
        chosen(["chose"])


def test_texts_of_one_kind_are_unlike_and_about_as_long() -> None:
    for texts in SUFFIXES.values():
        assert all(one[:40] != other[:40] for one, other in combinations(texts, 2))
        assert all(80 <= len(text) <= 115 for text in texts)


def test_an_item_without_a_rejected_answer_is_left_out() -> None:
    first, second, *_ = bakery(3).items
    one = replace(first, candidates=("Rye.",), preferred=0, candidate_ids=("c0",))
    unlabelled = replace(second, preferred=None, grades=())
    bench = Benchmark(card(), (one, unlabelled))
    assert attacked(bench, ATTACKS["choose"]).items == ()
    assert isinstance(aim(second), Target)
