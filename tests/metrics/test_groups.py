"""People with a taste of their own or of their group: what the numbers on groups and traits say of models."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pytest

from pluralrm.core import Benchmark, Failure, Item, Post, Query, User, Verdict
from pluralrm.metrics.overview import overview, overview_records, sentence
from pluralrm.metrics.personalization import Personalization, personalization
from tests.builders import card
from tests.worlds import scored


def town(seed: int, *, own: float, people: int = 80, questions: int = 2) -> Benchmark:
    """Return people of two schools; a taste is the person's own with the chance `own`, else that of the school.

    A school has one taste, the other the other. Hands say nothing. Of 9 posts most, but not all, tell the taste.
    """
    rng = random.Random(seed)
    items = []
    for n in range(people):
        school, hand = f"s{n % 2}", rng.choice(["left", "right"])
        taste = rng.choice(["salt", "sweet"]) if rng.random() < own else ("salt", "sweet")[n % 2]
        other = {"salt": "sweet", "sweet": "salt"}[taste]
        posts = tuple(Post(f"p{p}", f"{n} {p} {taste if rng.random() < 0.8 else other}") for p in range(9))
        user = User(f"u{n:03}", posts, traits={"school": school, "hand": hand, "least_important": "hand"})
        for turn in range(questions):
            candidates = ("salt", "sweet") if rng.random() < 0.5 else ("sweet", "salt")
            right = candidates.index(taste if rng.random() < 0.9 else other)
            items.append(Item(f"i{n:03}-{turn}", f"bread {n} {turn}", candidates, right, user.id, "all", user=user))
    return Benchmark(card("town"), tuple(items))


@dataclass
class Reader:
    """A model that follows the posts, or what it believes of a trait; without either, and where they tie, a coin."""

    spec: str
    trait: str = ""

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(self._score(query, answer) for answer in query.candidates))

    def _score(self, query: Query, answer: str) -> float:
        value = query.user.traits.get(self.trait, "") if query.user else ""
        believed = {"s0": "salt", "s1": "sweet", "left": "salt", "right": "sweet"}.get(value)
        words = Counter(post.text.split()[-1] for post in query.user.posts) if query.user else Counter()
        likes = believed == answer if believed else words[answer]
        return float(likes) + random.Random(f"{query.id}{answer}").random() / 10


POSTS = ("none", "raw:9", "swapped:9", "group:9,trait=school", "group:9,of=outside,trait=school")
TRAITS = ("none", "traits", "traits,of=swapped", "traits,of=least")


def measured(bench: Benchmark, model: Reader, specs: Iterable[str]) -> Personalization:
    (result,) = personalization([scored(bench, model, spec) for spec in specs])
    return result


def ends(result: Personalization, name: str) -> tuple[float, float]:
    estimate = result.numbers[name]  # type: ignore[index]
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def test_a_taste_of_ones_own_is_personalized_beyond_the_group_and_one_of_the_group_is_not() -> None:
    honest = Reader("honest")
    own, group = (measured(town(1, own=share), honest, POSTS) for share in (1.0, 0.0))
    assert own.verdict == "personalized"
    assert "above swapped:9 and group:9,trait=school" in own.standing
    assert ends(own, "gain_over_group")[0] > 0.2
    low, high = ends(own, "group_over_outside")
    assert low < 0 < high
    assert group.verdict == "by group"
    assert group.standing == (
        "above swapped:9, not above group:9,trait=school; not tested against users who write on the same subject "
        "(a control with by=prompt)"
    )
    assert not group.personalized
    low, high = ends(group, "gain_over_group")
    assert low <= 0 <= high
    assert ends(group, "group_over_outside")[0] > 0.5


def test_without_a_run_on_groups_nothing_is_said_of_them_and_the_verdict_is_the_old_one() -> None:
    found = measured(town(1, own=0.0), Reader("honest"), POSTS[:3])
    assert found.verdict == "personalized"
    assert not {"gain_over_group", "group_over_outside", "least_sensitivity"} & {*found.numbers, *found.absent}


def test_a_stereotype_and_an_honest_reader_of_traits_have_different_verdicts() -> None:
    bench = town(2, own=0.0)
    honest, stereotype = (measured(bench, Reader(name, name), TRAITS) for name in ("school", "hand"))
    assert honest.verdict == "personalized"
    changed = honest.numbers["least_sensitivity"]
    assert changed is not None
    assert (changed.value, changed.low) == (0.0, None)
    assert stereotype.verdict not in {"personalized", "reversed"}
    assert ends(stereotype, "least_sensitivity")[0] > 0.5
    assert ends(stereotype, "gain_over_least")[0] < 0 < ends(stereotype, "gain_over_least")[1]
    both = measured(town(2, own=1.0), Reader("school", "school"), TRAITS)
    assert both.verdict not in {"personalized", "reversed"}


def test_who_declares_no_least_trait_does_not_hide_what_the_swap_changes_for_the_others() -> None:
    """One person in ten declares which trait matters least: the share is of the items in which it was swapped."""
    bench = town(2, own=0.0)
    quiet = Benchmark(
        bench.card,
        tuple(
            item
            if n % 20 < 2 or item.user is None
            else replace(item, user=replace(item.user, traits={**item.user.traits, "least_important": ""}))
            for n, item in enumerate(bench.items)
        ),
    )
    honest, stereotype = (measured(quiet, Reader(name, name), TRAITS) for name in ("school", "hand"))
    for result, value in ((honest, 0.0), (stereotype, 1.0)):
        changed = result.numbers["least_sensitivity"]
        assert changed is not None
        assert (changed.value, changed.n) == (value, 16)
        assert any("no trait was swapped" in note for note in result.notes)
    none = tuple(replace(row, lenders=0) for row in scored(quiet, Reader("hand", "hand"), TRAITS[3]).rows)
    runs = [scored(quiet, Reader("hand", "hand"), spec) for spec in TRAITS]
    [unknown] = personalization([*runs[:3], replace(runs[3], rows=none)])
    assert unknown.numbers["least_sensitivity"] is None
    assert unknown.absent["least_sensitivity"] == "traits,of=least swapped a trait in no item"


def test_the_overview_says_what_the_person_adds_to_the_group_and_what_the_least_trait_changes() -> None:
    bench = town(1, own=1.0)
    table = overview([scored(bench, Reader("honest"), spec) for spec in POSTS])
    text = sentence(table.rows[0], table, {"honest": "honest"})
    assert "points over the group; the group" in text
    [record] = overview_records(table, {"honest": "honest"})
    assert record["gain_over_group_low"] == table.rows[0].personal.numbers["gain_over_group"].low  # type: ignore[union-attr]
    table = overview([scored(bench, Reader("hand", "hand"), spec) for spec in TRAITS])
    text = sentence(table.rows[0], table, {"hand": "hand"})
    assert "Another value of the least important trait changes 100.0% of its verdicts" in text
    assert "it should change none" in text
    plain = overview([scored(bench, Reader("honest"), spec) for spec in POSTS[:3]])
    assert not any("group" in key or "least" in key for key in overview_records(plain, {"honest": "honest"})[0])


def test_outside_is_the_control_of_its_own_group_and_traits_have_controls_of_the_same_names() -> None:
    bench, model = town(1, own=1.0), Reader("honest")
    stray = measured(bench, model, [*POSTS[:4], "group:9,of=outside,trait=hand"])
    assert "group_over_outside" not in stray.numbers
    found = measured(bench, Reader("school", "school"), ["none", "traits:school", "traits,of=swapped", "swapped:9"])
    assert found.gain is None
    assert "another number of traits, or other traits, than traits:school" in found.absent["gain"]
    assert measured(bench, model, ["none", "raw:9", "traits,of=swapped"]).gain is None


def test_a_group_that_shows_less_gives_no_verdict() -> None:
    bench = town(1, own=1.0, people=40)
    few = Benchmark(
        bench.card,
        tuple(
            Item(
                i.id,
                i.prompt,
                i.candidates,
                i.preferred,
                i.cluster,
                i.domain,
                user=User(i.user.id, i.user.posts, traits={"town": i.cluster if n < 40 else "big"}),
            )
            for n, i in enumerate(bench.items)
            if i.user is not None
        ),
    )
    found = measured(few, Reader("honest"), [*POSTS[:3], "group:9,trait=town"])
    assert found.verdict == "unequal"
    assert "raw:9 showed 9.0 posts on average, group:9,trait=town 4.5" in found.standing


def test_failing_under_the_least_swap_makes_no_model_look_honest() -> None:
    bench = town(2, own=0.0)
    for name in ("school", "hand"):
        runs = [scored(bench, Reader(name, name), spec) for spec in TRAITS]
        before = personalization(runs)[0].numbers["least_sensitivity"]
        failed = tuple(replace(row, scores=(Failure("parse", "no"), 0.0)) for row in runs[-1].rows)
        after = personalization([*runs[:-1], replace(runs[-1], rows=failed)])[0].numbers["least_sensitivity"]
        assert before is not None
        assert after is not None
        assert before.value <= after.value == 1


@pytest.mark.slow
def test_personalized_beyond_the_group_is_said_in_at_most_five_per_cent_of_worlds_of_one_group_taste() -> None:
    """200 worlds in which a person has nothing that the group has not."""
    said = sum(measured(town(seed, own=0.0, people=60), Reader("honest"), POSTS).personalized for seed in range(200))
    assert said <= 16
