"""Other people's posts: who lends to whom, that nobody gets an own post, and that neither file nor limit matters."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pluralrm.conditions import load_condition
from pluralrm.conditions.loans import Amount, Wish, lenders, spread
from pluralrm.core import Benchmark, ContextPair, Item, Post, Query, User, persons
from pluralrm.errors import ConditionError, SpecError
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


def partners(bench: Benchmark, seed: int, posts: int = 3) -> dict[tuple[str, str], User]:
    """Return who lends to each user, by domain and id."""
    return {(mine.domain, mine.user.id): author.user for mine, author in lenders(bench, Amount(posts), seed).items()}


@settings(deadline=None)
@given(_towns, _seeds)
def test_of_those_who_show_equally_many_everybody_is_used_once_and_nobody_by_himself(
    bench: Benchmark, seed: int
) -> None:
    for domain in bench.domains:
        level = {
            item.user.id for item in bench.items if item.domain == domain if item.user and len(item.user.posts) > 2
        }
        lent = {user: other.id for (home, user), other in partners(bench, seed).items() if home == domain}
        assert all(user != other for user, other in lent.items())
        if len(level) > 1:
            assert Counter(lent[user] for user in level) == Counter(level)


@settings(deadline=None)
@given(_towns, _seeds, st.sampled_from(["swapped:3", "swapped:3,by=random", "swapped:3,by=recent", "noise:3"]))
def test_no_own_post_ever(bench: Benchmark, seed: int, spec: str) -> None:
    queries = shown(f"{spec},seed={seed}", bench)
    for item in bench.items:
        assert not own(item) & {post.id for post in given_posts(queries[item.id])}


@settings(deadline=None)
@example(town(366), 0, "swapped:3", random.Random(3))  # lenders of two other domains have equally many posts
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
        assert len(given_posts(swapped[item.id])) == len(given_posts(raw[item.id]))
        if "+" not in lender.id:
            assert set(given_posts(swapped[item.id])) <= set(lender.posts)


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
        assert len(found) == len(set(found)) == min(posts, len(own(item)), len(texts))
        assert {(post.id, post.text) for post in found} <= texts
        assert len({post.id.split("-")[0] for post in found}) == min(len(found), len(others))


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


def crowd(seed: int, *, people: int = 12) -> Benchmark:
    """Return people with 1 to 100 posts and pairs (Zipf), who ask up to three questions under an id of their own each.

    What a question brings is cut at its time, so that one person has shelves of several sizes.
    """
    rng = random.Random(seed)
    items = []
    for person in range(people):
        name, size = f"p{person:02}", max(1, 100 // rng.randint(1, 40))
        posts = [Post(f"{name}-{n}", " ".join(rng.choices(WORDS, k=5))) for n in range(size)]
        pairs = [ContextPair(f"{name}-{n}", " ".join(rng.choices(WORDS, k=4)), "a", "b") for n in range(size)]
        for question in range(rng.randint(1, 3)):
            told = rng.randint(1, size)
            user = User(f"{name}/{question}", tuple(posts[:told]), tuple(pairs[:told]))
            prompt = " ".join(rng.choices(WORDS, k=4))
            items.append(Item(f"{name}/{question}", prompt, ("a", "b"), 0, name, DOMAINS[person % 2], user=user))
    rng.shuffle(items)
    return Benchmark(card(), tuple(items))


_crowds = st.integers(0, 10_000).map(crowd)
OWN_AND_CONTROLS = {
    "raw:10": ("swapped:10", "swapped:10,by=prompt", "swapped:10,by=random", "noise:10"),
    "recent:3": ("swapped:3,by=recent", "noise:3"),
    "pairs:8": ("pairs:8,of=swapped", "pairs:8,of=swapped,by=prompt", "pairs:8,labels=shuffled"),
    "pairs:8,posts=4": ("pairs:8,posts=4,of=swapped", "pairs:8,posts=4,of=swapped,by=prompt"),
}


@given(_crowds, st.sampled_from([(mine, other) for mine, some in OWN_AND_CONTROLS.items() for other in some]))
def test_a_control_shows_as_many_for_each_item_and_nothing_of_the_same_person(
    bench: Benchmark, conditions: tuple[str, str]
) -> None:
    mine, control = (shown(condition, bench) for condition in conditions)
    for item in bench.items:
        view, other = mine[item.id].user, control[item.id].user
        assert view is not None
        assert other is not None
        assert (len(other.posts), len(other.pairs)) == (len(view.posts), len(view.pairs))
        if "shuffled" in conditions[1]:
            continue
        ids = {post.id[:3] for post in other.posts} | {pair.id[:3] for pair in other.pairs}
        assert item.cluster not in ids
        assert item.cluster not in {lender[:3] for lender in other.lenders}


@settings(deadline=None, max_examples=20)
@given(_crowds, st.integers(0, 5))
def test_a_ring_is_a_permutation_wherever_no_person_has_more_than_half(bench: Benchmark, seed: int) -> None:
    found = lenders(bench, Amount(1), seed)  # everybody has a post: one level in each domain
    for domain in bench.domains:
        level = {one: author for one, author in found.items() if one.domain == domain}
        people = Counter(one.person for one in level)
        if 2 * max(people.values()) <= len(level):
            assert Counter(author.user.id for author in level.values()) == Counter(one.user.id for one in level)


def test_several_lend_together_where_nobody_has_as_many() -> None:
    sizes = {"rich": 10, "poor": 4, "poorer": 3, "far": 9}
    items = [
        Item(name, "rye", ("a", "b"), 0, name, "Cake" if name == "far" else "Bread", user=_writer(name, size))
        for name, size in sizes.items()
    ] + [Item("far too", "rye", ("a", "b"), 0, "far too", "Cake", user=_writer("far too", 1))]
    views = {name: query.user for name, query in shown("swapped:10", Benchmark(card(), tuple(items))).items()}
    assert {name: view.lenders for name, view in views.items() if view} == {
        "rich": ("poor", "poorer", "far"),  # of the own domain first
        "poor": ("rich",),
        "poorer": views["poorer"].lenders if views["poorer"] else (),
        "far": ("far too", "rich"),
        "far too": ("far",),
    }
    assert views["rich"] is not None
    assert (views["rich"].id, len(views["rich"].posts)) == ("poor+poorer+far", 10)


def _writer(name: str, posts: int) -> User:
    return User(name, tuple(Post(f"{name}-{n}", f"rye {name} {n}") for n in range(posts)))


def test_by_prompt_lends_from_whoever_writes_nearest_to_the_question() -> None:
    subjects = {"bread": "crust rye", "choir": "alto tenor", "boats": "sail mast"}
    items = [
        Item(f"{name}{n}", subject, ("a", "b"), 0, f"{name}{n}", "all", user=_on(f"{name}{n}", subject))
        for name, subject in subjects.items()
        for n in range(3)
    ]
    bench = Benchmark(card(), tuple(items))
    for spec in ("swapped:2,by=prompt", "pairs:2,of=swapped,by=prompt"):
        for item in bench.items:
            view = shown(spec, bench)[item.id].user
            assert view is not None
            assert view.id[:5] == item.id[:5]
            assert view.id != item.id


_wishes = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.integers(0, 20), min_size=8, max_size=8)), min_size=1, max_size=14
)


@given(_wishes)
def test_lending_is_spread_as_if_the_nearest_pair_left_were_sought_each_time(
    drawn: list[tuple[int, list[int]]],
) -> None:
    people = ["a", "b", "c", "d", "e", "a", "b", "f"]
    wishes = []
    for number, (asker, near) in enumerate(drawn):
        others = sorted((-value, place) for place, value in enumerate(near) if people[place] != people[asker])
        wishes.append(Wish(f"i{number:02}", people[asker], [place for _, place in others], [-one for one, _ in others]))
    found = {wish.item: place for wish, place in spread(wishes, people)}
    asked = Counter(wish.asker for wish in wishes)
    lent: dict[str, set[str]] = {person: set() for person in people}
    left = {wish.item: wish for wish in wishes}
    for rounds in itertools.count(1):
        while True:
            open_pairs = [
                (-near, wish.item, rank, place)
                for wish in left.values()
                for rank, (place, near) in enumerate(zip(wish.shelves, wish.nearness, strict=True))
                if wish.asker in lent[people[place]] or len(lent[people[place]]) < rounds * max(2, asked[people[place]])
            ]
            if not open_pairs:
                break
            _, item, _, place = min(open_pairs)
            lent[people[place]].add(left.pop(item).asker)
            assert found[item] == place
        if not left:
            break


def _on(name: str, subject: str) -> User:
    texts = [f"my {subject} {n}" for n in range(2)]
    pairs = tuple(ContextPair(f"{name}-{text}", text, f"a, says {name}", "b") for text in texts)
    texts[1] += name  # one word, which no question has: equal texts are not lent
    return User(name, tuple(Post(f"{name}-{text}", text) for text in texts), pairs)


@pytest.mark.parametrize("spec", ["swapped:3,by=prompt", "pairs:3,of=swapped,by=prompt", "swapped:3,by=prompt,mmr=0.5"])
def test_by_prompt_has_one_spelling(spec: str) -> None:
    assert load_condition(spec).spec == load_condition(load_condition(spec).spec).spec
    assert "by=prompt" in load_condition(spec).spec
    with pytest.raises(SpecError, match="seed"):
        load_condition(f"{spec},seed=3")


def test_by_prompt_is_for_lenders_alone() -> None:
    for spec in ("raw:3,by=prompt", "swapped:3,by=prompt:random", "pairs:3,by=prompt"):
        with pytest.raises(SpecError, match="by="):
            load_condition(spec)


def test_what_is_learned_of_a_person_is_never_tested_on_the_same_person() -> None:
    from pluralrm.conditions.pairs import labelled
    from pluralrm.models.personal.algorithms import read_settings
    from pluralrm.models.personal.fitting import FitRequest, held_out, trainable
    from pluralrm.training.job import split

    bench = crowd(5)
    people = {item.user.id: item.cluster for item in bench.items if item.user is not None}
    assert len(people) > len(set(people.values()))  # several ask under several ids
    asked = FitRequest(read_settings("bt", {"held_out": "0.4"}))
    users = trainable(bench, asked)
    held = {people[name] for name in held_out(bench, users, asked)}
    assert held
    assert held_out(bench, users, asked) == {user.id for user in users if people[user.id] in held}
    who = persons(bench.items)
    assert set(labelled(bench, load_condition("none"), "pairs")) == set(who.values())
    parts = split(bench.items, 0, validation=0.2, test=0.3)
    groups = [{item.cluster for item in part} for part in parts]
    assert sum(map(len, groups)) == len(set(people.values()))


def test_one_user_id_in_several_clusters_is_one_person() -> None:
    posts = {name: tuple(Post(f"{name}-{n}", f"rye {name} {n}") for n in range(2)) for name in "uvw"}
    clusters = [("c0", "u"), ("c1", "u"), ("c1", "v"), ("c2", "v"), ("c3", "w")]
    items = [
        Item(f"i{n}", "rye", ("a", "b"), 0, cluster, "all", user=User(name, posts[name]))
        for n, (cluster, name) in enumerate(clusters)
    ]
    assert persons(items) == {"c0": "u", "c1": "u", "c2": "u", "c3": "w"}
    assert persons(items[::-1]) == {"c3": "w", "c2": "v", "c1": "v", "c0": "v"}
    bench = Benchmark(card(), tuple(items))
    for spec in ("swapped:2", "swapped:2,by=prompt", "noise:2"):
        for item in items[:4]:
            assert {post.id[0] for post in given_posts(shown(spec, bench)[item.id])} == {"w"}


def club(sets: int, *, users: int = 24) -> Benchmark:
    """Return users of whom several share their posts and pairs word for word, under post ids of their own."""
    texts = [tuple(f"{word} of set {number}" for word in WORDS[:3]) for number in range(sets)]
    items = []
    for item in bakery(users).items:
        number = int(item.id[1:]) % sets
        posts = tuple(Post(f"{item.id}-{at}", text) for at, text in enumerate(texts[number]))
        pairs = (ContextPair(f"{item.id}-pair", "Which?", f"rye {number}", "oat"),)
        items.append(replace(item, domain="Bread", user=User(item.cluster, posts, pairs)))
    return Benchmark(card(), tuple(items))


LENDING = ["swapped:2", "swapped:2,by=prompt", "pairs:1,of=swapped", "pairs:1,of=swapped,by=prompt,posts=2"]


@pytest.mark.parametrize("spec", LENDING)
def test_nobody_is_lent_the_texts_that_they_have_themselves(spec: str) -> None:
    bench = club(2)
    for item, query in zip(bench.items, shown(spec, bench).values(), strict=True):
        assert item.user is not None
        assert query.user is not None
        assert len(query.user.posts) + len(query.user.pairs) > 0
        assert not {post.text for post in item.user.posts} & {post.text for post in query.user.posts}
        assert not {pair.preferred for pair in item.user.preferences} & {pair.preferred for pair in query.user.pairs}


@pytest.mark.parametrize("spec", LENDING)
def test_where_everybody_has_the_same_texts_there_is_no_control(spec: str) -> None:
    # A model would be called blind to the user because it was shown the same posts twice.
    noun = "pairs" if spec.startswith("pairs") else "posts"
    condition = load_condition(spec)
    reason = f"{condition.spec} needs users with different {noun}, and all those of bakery have the same"
    assert condition.unsupported(club(1)) == reason
