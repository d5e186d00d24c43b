"""Other people's posts: who lends to whom, that nobody gets an own post, and that neither file nor limit matters."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.conditions import load_condition
from pluralrm.conditions.others import partners
from pluralrm.core import Benchmark, Item, Post, Query, User
from pluralrm.errors import ConditionError
from pluralrm.retrieval import Ranker, Request
from pluralrm.runs import score
from tests.builders import DOMAINS, WORDS, Scripted, bakery, card


def town(seed: int, *, users: int = 14, alone: bool = False) -> Benchmark:
    """Return users with 0 to 5 posts, each asking up to three questions, in any of three domains."""
    rng = random.Random(seed)
    people = [
        User(f"u{n}", tuple(Post(f"u{n}-p{p}", " ".join(rng.choices(WORDS, k=4))) for p in range(rng.randint(0, 5))))
        for n in range(users)
    ]
    asked = [(person, domain) for person in people for domain in rng.sample(DOMAINS, rng.randint(1, 2))]
    for domain in DOMAINS:  # at least two users in each domain, so that everybody has somebody to swap with
        asked += [(people[0], domain), (people[1], domain)]
    if alone:
        asked.append((people[0], "Soup"))
    items = [
        Item(f"i{n:03}", "rye crust oven", ("a", "b"), 0, person.id, domain, user=person)
        for n, (person, domain) in enumerate(asked)
    ]
    rng.shuffle(items)
    return Benchmark(card(), tuple(items))


def shown(spec: str, bench: Benchmark, items: list[Item] | None = None) -> dict[str, Query]:
    return {query.id: query for query in load_condition(spec).queries(bench, items or bench.items)}


def own(item: Item) -> set[str]:
    assert item.user is not None
    return {post.id for post in item.user.posts}


def given_posts(query: Query) -> list[Post]:
    assert query.user is not None
    return list(query.user.posts)


_towns = st.integers(0, 10_000).map(town)
_seeds = st.integers(0, 50)


@settings(deadline=None)
@given(_towns, _seeds)
def test_everybody_is_used_once_and_nobody_by_himself(bench: Benchmark, seed: int) -> None:
    partner = partners(bench, seed)
    for domain in bench.domains:
        users = {item.user.id for item in bench.items if item.domain == domain and item.user is not None}
        lent = {user: partner[domain, user].id for user in users}
        assert Counter(lent.values()) == Counter(users)
        assert all(user != other for user, other in lent.items())


@settings(deadline=None)
@given(_towns, _seeds, st.sampled_from(["swapped:3", "swapped:3,by=random", "swapped:3,by=recent", "noise:3"]))
def test_no_own_post_ever(bench: Benchmark, seed: int, spec: str) -> None:
    queries = shown(f"{spec},seed={seed}", bench)
    for item in bench.items:
        assert not own(item) & {post.id for post in given_posts(queries[item.id])}


@settings(deadline=None)
@given(_towns, _seeds, st.sampled_from(["swapped:3", "swapped:3,by=random", "noise:3"]), st.randoms())
def test_neither_the_files_order_nor_a_limit_matters(
    bench: Benchmark, seed: int, spec: str, rng: random.Random
) -> None:
    spec = f"{spec},seed={seed}"
    queries = shown(spec, bench)
    posts = {user.id: rng.sample(user.posts, len(user.posts)) for user in bench.users}
    users = {user.id: replace(user, posts=tuple(posts[user.id])) for user in bench.users}
    items = [replace(item, user=users[item.user.id]) for item in bench.items if item.user is not None]
    rng.shuffle(items)
    assert shown(spec, Benchmark(bench.card, tuple(items))) == queries
    for domain in bench.domains:
        some = bench.select(domains=[domain], limit=3)
        assert shown(spec, bench, some) == {item.id: queries[item.id] for item in some}


@settings(deadline=None)
@given(_towns, _seeds)
def test_swapped_is_the_partners_posts_ranked_for_this_question(bench: Benchmark, seed: int) -> None:
    queries, partner = shown(f"swapped:3,seed={seed}", bench), partners(bench, seed)
    for item in bench.items:
        assert item.user is not None
        lender = partner[item.domain, item.user.id]
        [ranked] = Ranker().rank([Request(item.id, item.prompt, lender.posts)], k=min(3, len(item.user.posts)))
        view = queries[item.id].user
        assert view is not None
        assert (view.id, list(view.posts), view.pairs) == (lender.id, ranked, ())


@settings(deadline=None)
@given(_towns)
def test_as_many_posts_as_the_own_condition_shows(bench: Benchmark) -> None:
    swapped, raw, partner = shown("swapped:3", bench), shown("raw:3", bench), partners(bench, 0)
    for item in bench.items:
        assert item.user is not None
        lender = partner[item.domain, item.user.id]
        wanted = min(len(given_posts(raw[item.id])), len(lender.posts))
        assert len(given_posts(swapped[item.id])) == wanted


def test_the_items_ids_are_no_part_of_a_pairing() -> None:
    bench = bakery(30)
    renamed = tuple(replace(item, id=f"q{29 - place:02}") for place, item in enumerate(bench.items))
    assert partners(Benchmark(bench.card, renamed), 3) == partners(bench, 3)


def test_two_users_of_a_domain_swap() -> None:
    for seed in range(5):
        partner = partners(bakery(6), seed)
        lent = {user: other.id for (_, user), other in partner.items()}
        assert lent == {"u0": "u3", "u1": "u4", "u2": "u5", "u3": "u0", "u4": "u1", "u5": "u2"}


def test_a_user_with_several_items_has_one_partner_in_a_domain() -> None:
    bench = bakery(6)
    twice = tuple(replace(item, id=f"{item.id}-again") for item in bench.items)
    queries = shown("swapped:2", Benchmark(bench.card, bench.items + twice))
    for item in bench.items:
        once, again = queries[item.id].user, queries[f"{item.id}-again"].user
        assert once is not None
        assert again is not None
        assert once.id == again.id


def test_a_seed_gives_one_pairing_and_another_seed_another() -> None:
    bench = bakery(60)
    pairings = [{key: user.id for key, user in partners(bench, seed).items()} for seed in (0, 0, 1)]
    assert pairings[0] == pairings[1] != pairings[2]
    assert shown("noise:3", bench) == shown("noise:3,seed=0", bench) != shown("noise:3,seed=1", bench)


def test_every_other_user_is_as_likely_a_partner() -> None:
    bench = bakery(15)  # five users in each domain
    lent = Counter(partners(bench, seed)["Bread", "u0"].id for seed in range(800))
    assert set(lent) == {"u3", "u6", "u9", "u12"}
    assert all(abs(times - 200) < 62 for times in lent.values())  # standard deviation 12.2, five of them


def test_a_domain_with_one_user_is_named() -> None:
    bench = town(3, alone=True)
    reason = "swapped:3 needs two users in every domain, and bakery has one in 'Soup'"
    assert load_condition("swapped:3").unsupported(bench) == reason
    with pytest.raises(ConditionError, match="one in 'Soup'"):
        load_condition("swapped:3").queries(bench, bench.items)
    with pytest.raises(ConditionError, match="one in 'Soup'"):
        score(bench, Scripted(), "swapped:3", out="never-written")


@settings(deadline=None)
@given(_towns, st.integers(1, 30), _seeds)
def test_noise_is_of_as_many_users_as_there_are(bench: Benchmark, posts: int, seed: int) -> None:
    queries = shown(f"noise:{posts},seed={seed}", bench)
    for item in bench.items:
        others = [user for user in bench.users if user != item.user and user.posts]
        found = given_posts(queries[item.id])
        texts = {(post.id, post.text) for user in others for post in user.posts}
        assert len(found) == len(set(found)) == min(posts, len(texts))
        assert {(post.id, post.text) for post in found} <= texts
        assert len({post.id.split("-")[0] for post in found}) == min(posts, len(others))


def test_noise_is_nobodys() -> None:
    bench = bakery(6)
    names = {query.user.id for query in shown("noise:2", bench).values() if query.user is not None}
    assert len(names) == 6
    assert not names & {user.id for user in bench.users}


def test_noise_needs_somebody_else() -> None:
    lonely = Benchmark(card(), bakery(3).items[:1])
    assert load_condition("noise:2").unsupported(lonely) is not None


def test_noise_of_every_other_user_alike() -> None:
    bench = bakery(9)
    drawn = Counter(
        post.id.split("-")[0]
        for seed in range(400)
        for post in given_posts(shown(f"noise:2,seed={seed}", bench, [bench.items[0]])["i0000"])
    )
    assert set(drawn) == {f"u{n}" for n in range(1, 9)}
    assert all(abs(times - 100) < 45 for times in drawn.values())
