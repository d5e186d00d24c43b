"""Who sees what: balanced, blind, derived from the seed; and the plan on disk is the plan."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import combinations
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.annotate.plan import (
    GENERAL,
    ITEMS,
    PLAN,
    SCREENS,
    AnnotationPlan,
    Claim,
    answer_of_example,
    read_plan,
    screen_shown,
    write_plan,
)
from pluralrm.annotate.planner import PlanRequest, assigned, make_plan
from pluralrm.annotate.rehearsal import screening
from pluralrm.core import Benchmark, Item
from pluralrm.errors import PlanError, PluralrmError
from tests.annotate.plans import fours, loaded, pair_plan, pairs
from tests.builders import edit_json


def judged_by(plan: AnnotationPlan, arm: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for screen in plan.screens:
        if screen.kind == "item" and plan.arm[screen.annotator] == arm:
            found[screen.item].append(screen.annotator)
    return found


@settings(max_examples=25, deadline=None)
@given(annotators=st.integers(4, 30), each=st.integers(1, 2), seed=st.integers(0, 5))
def test_every_item_has_as_many_different_annotators_in_each_arm(annotators: int, each: int, seed: int) -> None:
    plan = pair_plan(annotators, each=each, seed=seed)
    for arm in ("narrative", "posts"):
        judges = judged_by(plan, arm)
        assert set(judges) == {item.id for item in plan.items if item.kind == "item"}
        assert all(len(names) == len(set(names)) == each for names in judges.values())
        loads = Counter(name for names in judges.values() for name in names)
        assert max(loads.values()) - min(loads.values()) <= 1
        assert set(loads) == {name for name, its in plan.arm.items() if its == arm}


def test_domains_and_company_are_spread_over_annotators() -> None:
    items = [Item(f"i{n}", "?", ("x", "y"), 0, f"i{n}", f"d{n % 3}") for n in range(180)]
    held = assigned(items, [f"a{n}" for n in range(6)], 2, seed=0)
    domains = Counter((name, item.domain) for name, own in held.items() for item in own)
    assert set(domains.values()) == {20}
    who = defaultdict(list)
    for name, own in held.items():
        for item in own:
            who[item.id].append(name)
    beside = Counter(frozenset(pair) for names in who.values() for pair in combinations(names, 2))
    assert len(beside) == 15
    assert max(beside.values()) - min(beside.values()) <= 6  # 12 each; dealt in turn, most pairs would have none


def test_a_seed_and_a_key_make_one_plan_and_the_key_changes_handles_alone() -> None:
    first = pair_plan(seed=3)
    assert first == pair_plan(seed=3)
    other = pair_plan(seed=3, key="another")
    assert not {s.handle for s in first.screens} & {s.handle for s in other.screens}
    assert [replace(s, handle="") for s in first.screens] == [replace(s, handle="") for s in other.screens]
    assert [s.order for s in first.screens] != [s.order for s in pair_plan(seed=4).screens]


def test_every_screen_has_a_handle_of_its_own() -> None:
    plan = pair_plan()
    assert len(plan.screen) == len(plan.screens)
    assert all(len(handle) == 24 and int(handle, 16) >= 0 for handle in plan.screen)


def test_checks_and_examples_are_of_items_that_nobody_judges() -> None:
    plan = pair_plan(checks=3, examples=2)
    kinds = {kind: {item.id for item in plan.items if item.kind == kind} for kind in ("item", "check", "example")}
    assert [len(kinds[kind]) for kind in ("item", "check", "example")] == [55, 3, 2]
    for screens in plan.by_annotator.values():
        assert [screen.kind for screen in screens[:2]] == ["example"] * 2
        assert {screen.item for screen in screens if screen.kind == "check"} == kinds["check"]
        assert {screen.item for screen in screens if screen.kind in {"item", "repeat"}} <= kinds["item"]


@pytest.mark.parametrize("benchmark", [pairs, fours])
def test_what_is_out_of_place_in_a_check_is_in_place_on_no_other_screen(benchmark: Callable[[], Benchmark]) -> None:
    plan = make_plan(benchmark(), PlanRequest(8, items=8, checks=3), key="k")
    checks = [item for item in plan.items if item.kind == "check"]
    shown = {text for item in plan.items if item.kind != "check" for text in item.candidates}
    assert not shown & {text for check in checks for text in check.candidates[1:]}


def test_a_check_sets_an_own_answer_beside_one_to_another_prompt() -> None:
    plan, items = pair_plan(), {item.id: item for item in pairs().items}
    for check in (item for item in plan.items if item.kind == "check"):
        item = items[check.id]
        own, other = check.candidates
        assert check.preferred == 0
        assert own == item.candidates[item.preferred or 0]
        assert any(other in one.candidates and one.domain != item.domain for one in items.values())


def test_a_repeat_stands_long_after_and_in_another_order() -> None:
    for screens in pair_plan(6).by_annotator.values():
        first = {screen.item: screen for screen in screens if screen.kind == "item"}
        repeats = [screen for screen in screens if screen.kind == "repeat"]
        assert len(repeats) == 3
        for screen in repeats:
            assert screen.order == first[screen.item].order[::-1]
            assert screen.place - first[screen.item].place >= len(screens) // 4


def test_the_labelled_answer_stands_at_either_place_alike_often_at_all_times() -> None:
    plan = make_plan(loaded("simulated:users=150"), PlanRequest(40, arms=("posts",), each=4), key="k")
    at_a = [
        (plan.item[screen.item].preferred == screen.order[0], screen.place)
        for screen in plan.screens
        if screen.kind != "repeat"
    ]
    assert abs(sum(first for first, _ in at_a) / len(at_a) - 0.5) < 4 * sqrt(0.25 / len(at_a))
    early = [first for first, place in at_a if place < 20]
    assert abs(sum(early) / len(early) - 0.5) < 4 * sqrt(0.25 / len(early))


def test_a_screen_shows_no_id_no_label_and_no_other_arm() -> None:
    plan = pair_plan()
    for screen in plan.screens:
        item, shown = plan.item[screen.item], screen_shown(plan, screen)
        told = json.dumps({**asdict(shown), "answers": "", "prompt": "", "posts": "", "narrative": ""})
        assert not any(word in told for word in (item.id, item.cluster, item.domain, "chosen", "rejected", "check"))
        assert sorted(shown.answers) == sorted(item.candidates)
        assert shown.posts == item.posts
        assert len(shown.posts) <= 10
        assert (shown.narrative == item.narrative) == (plan.arm[screen.annotator] == "narrative")
        assert (answer_of_example(plan, screen) is None) == (screen.kind != "example")


def test_only_one_phrasing_is_judged_and_the_others_are_its_paraphrases() -> None:
    plan = make_plan(fours(), PlanRequest(24, each=2), key="k")
    items = {item.id: item for item in fours().items}
    for item in plan.items:
        own = items[item.id].tags
        assert own["phrasing"] == "0"
        same = [
            one.prompt for one in items.values() if one.cluster == item.cluster and one.tags["group"] == own["group"]
        ]
        assert sorted([item.prompt, *item.paraphrases]) == sorted(same)


def test_nobody_judges_the_same_four_answers_twice_where_there_are_people_enough() -> None:
    plan = make_plan(fours(), PlanRequest(24, each=2), key="k")
    for screens in plan.by_annotator.values():
        records = [plan.item[screen.item].cluster for screen in screens if screen.kind != "repeat"]
        assert len(set(records)) == len(records)


def test_who_judges_for_themselves_sees_nothing_of_a_user_and_no_example() -> None:
    plan = pair_plan(mode="own")
    assert {annotator.arm for annotator in plan.annotators} == {"prompt"}
    assert "example" not in {screen.kind for screen in plan.screens}
    assert not any(screen_shown(plan, screen).posts for screen in plan.screens)
    assert not plan.claims


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (PlanRequest(8, items=60), "53 items are left"),
        (PlanRequest(4, each=3), "2 annotators in an arm cannot judge each item 3 times"),
        (PlanRequest(300, items=20), "for 150 annotators"),
        (PlanRequest(8, arms=("prompt",)), "has narrative, posts"),
        (PlanRequest(1), "1 annotators for 2 arms"),
        (PlanRequest(8, condition="oracle"), "reveals oracle"),
        (PlanRequest(8, claim=Claim(0.6, 3.0)), "margin between 0 and 0.5"),
        (PlanRequest(8, claim=Claim(0.1, 3.0, attention=1.2)), "a share of attention checks, from 0 to 1"),
        (PlanRequest(8, checks=-1), "no count below 0"),
        (PlanRequest(8, rating_margin=0.0), "points of a rating of 1 to 5"),
    ],
)
def test_a_plan_that_cannot_be_says_why(ask: PlanRequest, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        make_plan(pairs(), ask, key="k")


# ---------------------------------------------------------------- on disk


def test_a_plan_comes_back_from_its_folder_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    for name, plan in (("pairs", pair_plan()), ("fours", make_plan(fours(), PlanRequest(12), key="k"))):
        folder = tmp_path / name
        write_plan(plan, folder)
        assert read_plan(folder) == plan
        assert folder.stat().st_mode & 0o777 == 0o700
        assert "secret" not in (folder / PLAN).read_text()
        with pytest.raises(PlanError, match="exists already"):
            write_plan(plan, folder)


@pytest.mark.parametrize("file", [ITEMS, SCREENS, PLAN])
def test_a_plan_that_was_changed_is_refused(tmp_path: Path, file: str) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    path = tmp_path / "plan" / file
    old, new = {ITEMS: ('"preferred":1', '"preferred":0'), SCREENS: ("[0,1]", "[1,0]"), PLAN: ("0.1", "0.3")}[file]
    path.write_text(path.read_text().replace(old, new, 1))
    told = {PLAN: "plan.json: the file is not as it was written"}.get(file, f"{file}: was changed since")
    with pytest.raises(PlanError, match=told):
        read_plan(tmp_path / "plan")


def test_a_plan_of_before_that_was_changed_is_refused_without_the_name_of_the_file(tmp_path: Path) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    edit_json(tmp_path / "plan" / PLAN, files={})
    assert read_plan(tmp_path / "plan") == pair_plan()
    path = tmp_path / "plan" / ITEMS
    path.write_text(path.read_text().replace('"preferred":1', '"preferred":0', 1))
    with pytest.raises(PlanError, match="was changed since"):
        read_plan(tmp_path / "plan")


def test_who_is_left_out_is_in_the_hash_of_the_plan(tmp_path: Path) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    path = tmp_path / "plan" / PLAN
    assert read_plan(tmp_path / "plan").declared.claim.attention == 0.8
    path.write_text(path.read_text().replace('"attention": 0.8', '"attention": 0.2'))
    edit_json(path)  # without its checksum the hash of the plan still tells
    with pytest.raises(PlanError, match=r"plan\.json: was changed since"):
        read_plan(tmp_path / "plan")


def test_a_plan_of_before_loads_with_its_own_rule(tmp_path: Path) -> None:
    older = pair_plan(checks=2, claim=Claim(0.1, 3.0, attention=0.5))
    older = replace(older, declared=replace(older.declared, rating_margin=None))
    write_plan(older, tmp_path / "plan")
    path = tmp_path / "plan" / PLAN
    head = json.loads(path.read_text())
    # What was not known then did not stand there.
    del head["declared"]["rating_margin"], head["check"], head["files"]
    path.write_text(json.dumps(head))
    found = read_plan(tmp_path / "plan")
    assert found == older
    assert (found.declared.claim.attention, found.declared.rated) == (0.5, GENERAL)
    assert screening(found).clickers == 0.75


def test_a_folder_without_a_whole_plan_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="wanted a folder of 'pluralrm annotate plan'"):
        read_plan(tmp_path)
    write_plan(pair_plan(), tmp_path / "plan")
    path = tmp_path / "plan" / SCREENS
    path.write_text(path.read_text().replace('"place":0', '"place":"first"', 1))
    with pytest.raises(PluralrmError, match=r"screens.jsonl:1: place: found first"):
        read_plan(tmp_path / "plan")
