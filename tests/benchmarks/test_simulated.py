"""Simulated users: texts say what the levels are, draws follow their declared laws, seeds decide everything."""

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pluralrm.benchmarks import KINDS
from pluralrm.benchmarks.simulated import CARD, FORM, load, person, spoken_for
from pluralrm.benchmarks.simulated.tastes import QUESTIONS, RANGES, SimulationSettings, read_settings
from pluralrm.benchmarks.simulated.texts import (
    Signal,
    attributes,
    domains,
    read_answer,
    read_answer_to,
    read_post,
    write_answer,
)
from pluralrm.core import Benchmark, Item, persons
from pluralrm.errors import SpecError
from pluralrm.labels import panels
from pluralrm.specs import Spec, parse
from pluralrm.testing import check_benchmark

# The declaration as docs/simulated.md gives it, written down a second time.
DECLARED = {
    "length": ("brief", "middling", "thorough"),
    "tone": ("warm", "plain", "playful"),
    "structure": ("steps", "prose"),
    "evidence": ("measured", "lived"),
    "examples": ("case", "rule"),
    "caution": ("careful", "bold"),
    "ending": ("asks", "settles"),
}
CROWD = dict(zip(DECLARED, ("thorough", "warm", "steps", "measured", "case", "careful", "asks"), strict=True))
SIGNALS = [(name, level) for name, levels in DECLARED.items() for level in levels]
TOPICS = [topic for domain in domains() for topic in domain.topics]


def made(options: str = "", *, seed: int = 0) -> Benchmark:
    return load(parse(f"simulated{options}", {"simulated": FORM}, noun="benchmark"), seed=seed)


def unplaced(item: Item) -> tuple[object, ...]:
    """Return an item with its candidates by name: what no placement may change."""
    answers = dict(zip(item.candidate_ids, item.candidates, strict=True))
    assert item.preferred is not None
    chosen = item.candidate_ids[item.preferred]
    return item.id, item.prompt, answers, chosen, item.user, dict(item.tags), item.oracle, item.domain, item.cluster


# ---------------------------------------------------------------- texts


def test_the_declared_attributes_are_the_documented_ones() -> None:
    assert {each.name: tuple(each.levels) for each in attributes()} == DECLARED
    assert {each.name: each.crowd for each in attributes()} == CROWD


def test_no_sentence_contains_another() -> None:
    written = [text for each in attributes() for level in each.levels.values() for text in level.posts]
    written += [text for each in attributes() for level in each.levels.values() for text in level.answers]
    for domain in domains():
        written += [*domain.leads, *domain.scenes, *domain.chatter]
        for topic in domain.topics:
            own = [
                text for (name, _), texts in topic.sayings.items() if name not in {"tone", "ending"} for text in texts
            ]
            written += [*topic.questions, *topic.core, *own]
    assert len(written) > 500
    assert not [pair for pair in permutations(written, 2) if pair[0] in pair[1]]
    assert all(text[-1] in ".?!" and text.isascii() and "  " not in text for text in written)


def test_each_level_is_spoken_for_in_six_ways_and_each_topic_has_every_part() -> None:
    assert all(len(level.posts) == 6 for each in attributes() for level in each.levels.values())
    for topic in TOPICS:
        assert (len(topic.questions), len(topic.core)) == (3, 7)
        assert set(topic.sayings) == {signal for signal in SIGNALS if signal[0] not in {"length", "structure"}}


@given(st.sampled_from(TOPICS), st.tuples(*map(st.sampled_from, DECLARED.values())), st.integers(0, 99))
def test_an_answer_reads_back_as_the_levels_it_was_written_with(topic, drawn, seed) -> None:
    levels = dict(zip(DECLARED, drawn, strict=True))
    text = write_answer(topic, levels, random.Random(seed))
    assert read_answer(text) == levels
    for name, wanted in DECLARED.items():
        texts = {level: write_answer(topic, levels | {name: level}, random.Random(seed)) for level in wanted}
        assert len(set(texts.values())) == len(wanted)
        if name == "length":
            brief, middling, thorough = (len(texts[level]) for level in wanted)
            assert 1.15 * brief < middling < thorough / 1.15


def test_only_one_whole_answer_is_read_as_one() -> None:
    first, second = made(":users=1").items[0].candidates
    assert read_answer(first) != read_answer(second)
    assert read_answer("Bake it hotter.") is None
    assert read_answer(f"{first}\n\n{second}") is None
    assert read_answer(first.rpartition("\n\n")[0]) is None


def test_a_post_reads_back_as_what_it_speaks_for() -> None:
    settings = SimulationSettings(users=30, posts=40)
    for user in made(":users=30,posts=40").users:
        drawn = spoken_for(person(int(user.id[1:]), settings))
        assert [read_post(post.text) for post in user.posts] == [() if each is None else (each,) for each in drawn]
    assert read_post("I bake on Sundays and I never measure anything twice.") == ()


def test_a_user_repeats_no_sentence_before_its_kind_is_used_up() -> None:
    level = {
        text: (each.name, level.name) for each in attributes() for level in each.levels.values() for text in level.posts
    }
    for user in made(":users=40,posts=30,noise=0").users:
        used: dict[object, list[str]] = {}
        for text in (text for post in user.posts for text in level if text in post.text):
            used.setdefault(level[text], []).append(text)
        for texts in used.values():
            assert len(set(texts[:6])) == len(texts[:6])


# ---------------------------------------------------------------- what a benchmark promises


@pytest.mark.parametrize(
    "options", ["", ":candidates=3,users=60", ":candidates=4,users=60,pairs=0", ":posts=0,users=60"]
)
def test_it_keeps_every_promise_of_a_benchmark(options: str) -> None:
    benchmark = made(options)
    check_benchmark(benchmark)
    assert benchmark.card.name == CARD.name == "simulated"
    assert benchmark.domains == ["Kitchen", "Garden", "Workshop"]
    assert {item.cluster for item in benchmark.items} == {user.id for user in benchmark.users}


def test_the_numbers_are_those_asked_for() -> None:
    benchmark = made(":users=12,items=5,posts=7,pairs=3,candidates=4,domains=2")
    assert Counter(item.cluster for item in benchmark.items) == Counter(
        dict.fromkeys([u.id for u in benchmark.users], 5)
    )
    assert [(len(user.posts), len(user.preferences)) for user in benchmark.users] == [(7, 3)] * 12
    assert {len(item.candidates) for item in benchmark.items} == {4}
    assert Counter(item.domain for item in benchmark.items) == {"Kitchen": 30, "Garden": 30}


def test_a_user_is_asked_nothing_twice_and_no_context_pair_is_an_item() -> None:
    for user_items in zip(
        *[iter(made(f":users=6,items={QUESTIONS - 20},pairs=20").items)] * (QUESTIONS - 20), strict=True
    ):
        user = user_items[0].user
        assert user is not None
        prompts = [item.prompt for item in user_items] + [pair.prompt for pair in user.preferences]
        assert len(set(prompts)) == len(prompts) == QUESTIONS


def test_answers_differ_in_every_attribute_and_are_dealt_out_evenly() -> None:
    for width, users in ((2, 60), (3, 60), (4, 200)):
        for item in made(f":candidates={width},users={users},posts=0,pairs=0").items:
            answers = [read_answer(text) for text in item.candidates]
            assert all(left != right for left, right in combinations(answers, 2))
            for name, levels in DECLARED.items():
                counts = Counter(answer[name] for answer in answers if answer is not None)
                assert len(counts) == min(width, len(levels))
                assert max(counts.values()) - min(counts.values()) <= 1


def test_the_rubric_tells_the_true_taste_in_words() -> None:
    words = {(each.name, level.name): level.wants for each in attributes() for level in each.levels.values()}
    for item in made(":users=30").items:
        assert item.oracle is not None
        taste = person(int(item.cluster[1:]), SimulationSettings()).taste
        assert [each.aspect for each in item.oracle.aspects] == [words[want[:2]] for want in taste]
        assert all(each.aspect in item.oracle.narrative for each in item.oracle.aspects)
        assert not any(each.aspect in text for each in item.oracle.aspects for text in (item.prompt, *item.candidates))


def test_tags_tell_the_winner_the_margin_and_what_decides() -> None:
    seen: Counter[str] = Counter()
    for item in made(":users=60").items:
        first, second = (read_answer(text) or {} for text in item.candidates)
        taste = person(int(item.cluster[1:]), SimulationSettings()).taste
        gains = {
            want.attribute: want.weight
            * ((first[want.attribute] == want.level) - (second[want.attribute] == want.level))
            for want in taste
        }
        margin = sum(gains.values())
        towards = {name: gain if margin > 0 else -gain for name, gain in gains.items()}
        top = [name for name, gain in towards.items() if gain == max(towards.values())]
        assert item.tags["margin"] == str(abs(margin))
        assert item.tags["decides"] == ("nothing" if margin == 0 else top[0] if len(top) == 1 else "several")
        winner = {name.removeprefix("winner:"): level for name, level in item.tags.items() if ":" in name}
        assert winner == (first, second)[item.preferred or 0]
        seen[item.tags["decides"]] += 1
    assert set(seen) == {"nothing", "several", *DECLARED}


def test_evidence_in_the_rubric_is_a_post_of_the_user_that_speaks_for_the_want() -> None:
    quoted = 0
    for item in made(":users=40,noise=0.2").items:
        assert item.oracle is not None
        assert item.user is not None
        wants = person(int(item.cluster[1:]), SimulationSettings()).taste
        for aspect, want in zip(item.oracle.aspects, wants, strict=True):
            speaking = [post.text for post in item.user.posts if Signal(*want[:2]) in read_post(post.text)]
            assert aspect.evidence == next(iter(speaking), "")
            quoted += bool(speaking)
    assert quoted > 400


# ---------------------------------------------------------------- seeds


def test_the_placement_seed_moves_candidates_and_nothing_else() -> None:
    first, second = made(":users=50", seed=0), made(":users=50", seed=7)
    assert [unplaced(item) for item in first.items] == [unplaced(item) for item in second.items]
    assert sum(a.candidates != b.candidates for a, b in zip(first.items, second.items, strict=True)) > 60
    for item in second.items:
        order = ["answer1", "answer2"]
        random.Random(f"7:{item.id}").shuffle(order)
        assert list(item.candidate_ids) == order


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ("users=9", lambda item: (item.candidates, item.preferred, item.user, item.oracle)),
        ("items=9", lambda item: (item.candidates, item.preferred, item.user, item.oracle)),
        ("pairs=1", lambda item: (item.candidates, item.preferred, item.user.posts, item.user.preferences[:1])),
        ("posts=8", lambda item: (item.candidates, item.preferred, item.user.posts[:8], item.user.preferences)),
        ("noise=0.9", lambda item: (item.candidates, item.preferred, item.user.preferences)),
        ("sharpness=3", lambda item: (set(item.candidates), item.user.posts, item.oracle)),
    ],
)
def test_a_setting_changes_only_what_it_speaks_of(options: str, same) -> None:
    changed = {item.id: item for item in made(f":{options}").items}
    kept = [item for item in made(":users=9").items if item.id in changed]
    assert len(kept) == 36
    for item in kept:
        assert same(item) == same(changed[item.id]), item.id


def test_leaky_labels_go_to_the_longest_and_all_else_stays() -> None:
    own, leaky = made(":users=30"), made(":users=30,leak=1")
    assert leaky.card.name == "simulated-leaky"
    assert "with probability 1 the label is the longest answer, for any user" in leaky.card.labelled
    for item, other in zip(own.items, leaky.items, strict=True):
        same = {"grades": item.grades, "tags": item.tags, "preferred": item.preferred}
        assert replace(other, **same) == item  # type: ignore[arg-type]
        assert other.preferred == max(range(2), key=lambda index: len(other.candidates[index]))
        assert other.tags["label"] == "length"


def test_a_leak_has_its_share_and_no_context_pair_leaks() -> None:
    own, half = made(":users=150"), made(":users=150,leak=0.5")
    leaked = [item.tags["label"] == "length" for item in half.items]
    assert abs(sum(leaked) / len(leaked) - 0.5) < 4 * (0.25 / len(leaked)) ** 0.5
    for item, other, leak in zip(own.items, half.items, leaked, strict=True):
        assert item.user == other.user
        assert leak or item.preferred == other.preferred


def test_general_labels_go_to_the_only_answer_that_is_to_the_point() -> None:
    own, general = made(":users=30,candidates=3"), made(":users=30,candidates=3,general=1")
    assert general.card.name == "simulated-general"
    for item, other in zip(own.items, general.items, strict=True):
        assert (item.prompt, item.user) == (other.prompt, other.user)
        assert other.preferred is not None
        to_point = [read_answer_to(other.prompt, text) is not None for text in other.candidates]
        assert to_point == [index == other.preferred for index in range(3)]
        assert all(read_answer(text) is not None for text in other.candidates)
        assert other.candidates[other.preferred] == item.candidates[other.preferred]


def test_worlds_without_a_leak_are_called_what_they_were() -> None:
    assert made(":users=3,leak=0").card == made(":users=3").card
    assert "leak" not in made(":users=3").card.revision


def test_seeds_make_different_worlds_and_one_seed_always_the_same() -> None:
    assert len({made(f":users=5,seed={seed}").content_hash for seed in range(4)}) == 4
    code = (
        "from pluralrm.benchmarks.simulated import load\n"
        "from pluralrm.specs import Spec\n"
        "print(load(Spec('simulated', 'users=3'), seed=0).content_hash)"
    )
    seen = {made(":users=3").content_hash}
    for seed in ("0", "1"):
        child = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(child.stdout.strip())
    # Pinned: a new text or another way to draw changes every number made on a simulated benchmark.
    assert seen == {"3f6c860920f5e6198666196b5c5bd2c3f36a4b16f12eb735af66484f75ffe0e7"}


def test_making_and_describing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from pluralrm.benchmarks.simulated import load\n"
        "from pluralrm.specs import Spec\n"
        "load(Spec('simulated', 'users=3'), seed=0)\n"
        "print(sorted({'numpy', 'scipy', 'pydantic', 'sklearn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---------------------------------------------------------------- draws


def test_tastes_follow_their_prior() -> None:
    settings = SimulationSettings(cares=2, crowd=0.4)
    drawn = Counter(
        (frozenset((want.attribute, want.level) for want in taste), sum(want.weight for want in taste))
        for taste in (person(number, settings).taste for number in range(20_000))
    )
    cells = {}
    for first, second in combinations(SIGNALS, 2):
        if first[0] != second[0]:
            level = [0.4 * (CROWD[name] == level) + 0.6 / len(DECLARED[name]) for name, level in (first, second)]
            for total, share in ((2, 0.25), (3, 0.5), (4, 0.25)):
                cells[frozenset({first, second}), total] = 20_000 * level[0] * level[1] / 21 * share
    assert set(drawn) <= set(cells)
    assert sum(cells.values()) == pytest.approx(20_000)
    assert chisquare([drawn[cell] for cell in cells], list(cells.values())).pvalue > 1e-4


def test_posts_follow_their_law() -> None:
    settings = SimulationSettings(users=1, posts=900, noise=0.4, chatter=0.25)
    for number in range(20):
        who = person(number, settings)
        total = sum(want.weight for want in who.taste)
        law: dict[Signal | None, float] = {Signal(*each): 0.75 * 0.4 / len(SIGNALS) for each in SIGNALS}
        for want in who.taste:
            law[Signal(want.attribute, want.level)] += 0.75 * 0.6 * want.weight / total
        law[None] = 0.25
        spoken = Counter(spoken_for(who))
        assert chisquare([spoken[each] for each in law], [900 * chance for chance in law.values()]).pvalue > 1e-5


# ---------------------------------------------------------------- settings


def test_a_spec_reads_the_same_with_its_first_key_after_a_colon() -> None:
    assert read_settings(Spec("simulated", "users=9", {"seed": "3"})) == SimulationSettings(users=9, seed=3)
    assert read_settings(Spec("simulated", options={"users": "9", "seed": "3"})) == SimulationSettings(users=9, seed=3)
    assert read_settings(Spec("simulated")) == SimulationSettings()


@given(
    st.fixed_dictionaries(
        {}, optional={"users": st.integers(1, 99), "noise": st.floats(0, 1), "seed": st.integers(0, 9)}
    )
)
def test_settings_survive_being_written_into_the_revision(options) -> None:
    settings = SimulationSettings(**options)
    assert read_settings(parse(str(settings), {"simulated": FORM}, noun="benchmark")) == settings
    assert set(FORM.keys) == set(RANGES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (":usrs=3", r"benchmark 'simulated' has no key 'usrs'\. Did you mean 'users'\?"),
        (":users", "found 'users', wanted key=value"),
        (":users=3,users=4", "key 'users' is given twice"),
        (":users=0", "simulated: users is '0'; wanted a whole number of at least 1"),
        (":users=1e3", "simulated: users is '1e3'; wanted a whole number"),
        (",candidates=5", "simulated: candidates is '5'; wanted at most 4"),
        (",noise=1.5", r"simulated: noise is '1\.5'; wanted a number from 0 to 1"),
        (",crowd=nan", "simulated: crowd is 'nan'; wanted a number from 0 to 1"),
        (",noise=much", "simulated: noise is 'much'; wanted a number"),
        (",items=100,pairs=45", "found items=100 and pairs=45, wanted at most 144 together"),
    ],
)
def test_a_wrong_setting_says_what_was_wanted(options: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        made(options)


def test_every_domain_has_as_many_questions_as_promised() -> None:
    for domain in domains():
        prompts = {f"{lead} {text}" for lead, topic in product(domain.leads, domain.topics) for text in topic.questions}
        assert len(prompts) == QUESTIONS


def test_the_table_knows_every_key() -> None:
    assert KINDS["simulated"].form == FORM


def test_crossed_people_judge_the_same_answers_in_their_own_order() -> None:
    benchmark = made(":users=24,items=5,crossed=4,domains=2")
    judged = panels(benchmark.items, persons(benchmark.items))
    assert [panel.people for panel in judged] == [4] * (24 * 5 // 4)
    assert len({panel.judgments[0].grades for panel in judged}) == 2
    orders = {item.candidate_ids for item in benchmark.items if item.prompt == benchmark.items[0].prompt}
    assert len(orders) == 2
    assert {item.domain for item in benchmark.items} == {"Kitchen", "Garden"}
    check_benchmark(benchmark)
    alone = made(":users=24,items=5,domains=2")
    for item, other in zip(alone.items, benchmark.items, strict=True):
        assert item.user is not None
        assert other.user is not None
        assert (item.id, item.user.posts) == (other.id, other.user.posts)


def test_a_repeat_is_another_judgment_of_the_same_answers() -> None:
    plain, twice = made(":users=60,items=4,crossed=5"), made(":users=60,items=4,crossed=5,repeats=0.4")
    first = {item.id: item for item in twice.items if not item.id.endswith("-again")}
    assert list(first.values()) == list(plain.items)
    again = [item for item in twice.items if item.id.endswith("-again")]
    assert abs(len(again) / 240 - 0.4) < 4 * (0.24 / 240) ** 0.5
    pairs = [(first[item.id.removesuffix("-again")], item) for item in again]
    for item, other in pairs:
        assert (item.prompt, item.cluster, set(item.candidates)) == (other.prompt, other.cluster, set(other.candidates))
    same = [item.candidates[item.best[0]] == other.candidates[other.best[0]] for item, other in pairs]
    assert 0.5 < sum(same) / len(same) < 1


def test_people_of_a_group_declare_it_and_share_a_taste() -> None:
    benchmark = made(":users=90,groups=3,alike=1")
    of_group: dict[str, set[str]] = {}
    for item in benchmark.items:
        assert item.user is not None
        assert item.oracle is not None
        of_group.setdefault(item.user.traits["group"], set()).add(str(sorted(a.aspect for a in item.oracle.aspects)))
    assert {group: len(tastes) for group, tastes in of_group.items()} == dict.fromkeys(("g00", "g01", "g02"), 1)
    own = made(":users=90,groups=3,alike=0")
    for item, other in zip(own.items, made(":users=90").items, strict=True):
        assert item.user is not None
        assert other.user is not None
        assert (item.oracle, item.candidates, item.user.posts) == (other.oracle, other.candidates, other.user.posts)
    assert set(benchmark.group_traits["u00004"]) == {"trait:group", "trait:hand"}
