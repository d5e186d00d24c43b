"""Labels in general form everywhere else: audits, people, attacks, reports and plans, by brute force and by an index.

The world is uneven: 2 to 7 candidates of which 1 to 3 are the best, one person who asks twenty times beside many who
ask once, prompts and answers that several people share.
"""

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

import pluralrm
from pluralrm.annotate.claim import claimed, fours
from pluralrm.annotate.exchange import own_preferences
from pluralrm.annotate.judgments import FourAnswers, Judgment, progress
from pluralrm.annotate.labels import labels_of
from pluralrm.annotate.plan import ITEMS, LETTERS, AnnotationPlan, PlannedItem, answer_of_example, read_plan, write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.attack import ATTACKED, ATTACKS, attacked, robustness
from pluralrm.audit import Audit, audit
from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.findings import _agreement, candidate_lengths, candidate_positions, quality
from pluralrm.audit.probes import by_rule, trial
from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.promises import _position
from pluralrm.conditions import load_condition
from pluralrm.conditions.pairs import labelled
from pluralrm.core import Benchmark, Item, Post, Run, User
from pluralrm.errors import BenchmarkError, PlanError
from pluralrm.metrics import against_chance, measure, paired_difference
from pluralrm.metrics.units import numbers, winner
from pluralrm.power.detection import PowerSettings
from pluralrm.power.items import ItemsQuestion, plan_for_runs
from pluralrm.report import Beside, PlanJudgments, build_report, read_sources
from pluralrm.report.human import Human, humans
from pluralrm.testing import benchmark_findings
from tests.builders import WORDS, card

NAMES = tuple(f"c{index}" for index in range(7))


def words(rng: random.Random, least: int = 3, most: int = 20) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def world(*, several: bool, widths: Sequence[int] = (2, 3, 4, 5, 6, 7), people: int = 24, seed: int = 0) -> Benchmark:
    """Return graded items; without `several` each has one best candidate, and grades of other levels all the same."""
    rng = random.Random(f"labels:{seed}")
    prompts, answers = [words(rng) for _ in range(6)], [words(rng, 2, 40) for _ in range(30)]
    items = []
    for person in range(people):
        posts = tuple(Post(f"u{person}-{n}", words(rng), "") for n in range(rng.choice((1, 2, 20))))
        for number in range(20 if person == 0 else rng.choice((1, 1, 1, 3))):
            name = f"i{person:02}-{number:02}"
            width = rng.choice(widths)
            texts = rng.sample(answers, width) if rng.random() < 0.3 else [f"{words(rng, 2, 40)} {n}" for n in NAMES]
            best = rng.randint(1, min(3, width - 1)) if several else 1
            grades = [2.5] * best + [rng.choice((0.0, 1.0, 1.5)) for _ in range(width - best)]
            rng.shuffle(grades)
            prompt = rng.choice(prompts) if rng.random() < 0.3 else f"{words(rng)} {name}?"
            ratings = {f"quality:{NAMES[n]}": f"{rng.randint(1, 5)}" for n in range(width)}
            items.append(
                Item(
                    id=name,
                    prompt=prompt,
                    candidates=tuple(texts[:width]),
                    preferred=None,
                    grades=tuple(grades),
                    cluster=f"u{person}",
                    domain=("Bread", "Cake")[person % 2],
                    candidate_ids=NAMES[:width],
                    user=User(f"u{person}", posts),
                    tags=ratings,
                )
            )
    return Benchmark(card("graded"), tuple(items))


def by_index(bench: Benchmark) -> Benchmark:
    """Return the benchmark with no more of each label than the index of the best candidate."""
    items = [replace(item, grades=(), preferred=item.preferred) for item in bench.items]
    assert all(item.preferred is not None and set(item.grades) == {0.0, 1.0} for item in items)
    return replace(bench, items=tuple(items), content_hash="")


def credit(item: Item, scores: Sequence[float]) -> Fraction:
    top = {index for index, score in enumerate(scores) if score == max(scores)}
    return Fraction(len(top & set(item.best)), len(top))


QUICK = ItemsQuestion((0.3,), settings=PowerSettings(simulations=20))
SEVERAL, ONE = world(several=True), world(several=False)


def scored(bench: Benchmark, tmp_path: Path, *models: str) -> list[Run]:
    return pluralrm.score(bench, list(models), out=tmp_path, progress=False)


@cache
def audited() -> Audit:
    return audit(SEVERAL, relabellings=299)


def without_hashes(value: object) -> object:
    """Return JSON without what names the content: the same numbers are of two different files."""
    if isinstance(value, dict):
        return {key: without_hashes(each) for key, each in value.items() if key not in {"content_hash", "plan"}}
    return [without_hashes(each) for each in value] if isinstance(value, list) else value


def test_the_world_is_as_uneven_as_it_says() -> None:
    assert {len(item.candidates) for item in SEVERAL.items} == {2, 3, 4, 5, 6, 7}
    assert {len(item.best) for item in SEVERAL.items} == {1, 2, 3}
    assert any(len(set(item.grades)) > 2 for item in ONE.items)
    assert comparisons(SEVERAL.items).shared


# ---------------------------------------------------------------- audit


def test_an_audit_of_grades_is_that_of_an_index_where_one_candidate_is_the_best() -> None:
    found, expected = (audit(bench, relabellings=299).to_json() for bench in (ONE, by_index(ONE)))
    assert without_hashes(found) == without_hashes(expected)


def test_every_item_with_a_better_candidate_is_audited() -> None:
    table = comparisons(SEVERAL.items)
    assert [item.id for item in table.items] == sorted(item.id for item in SEVERAL.items)
    assert table.chance == pytest.approx(fmean(len(item.best) / len(item.candidates) for item in SEVERAL.items))
    level = replace(SEVERAL.items[0], preferred=None, grades=(1.0,) * len(SEVERAL.items[0].candidates))
    assert [item.id for item in comparisons([level, *SEVERAL.items[1:]]).items] == [
        item.id for item in SEVERAL.items if item.id != level.id
    ]


def test_guesses_earn_the_share_of_the_best_among_what_they_pick() -> None:
    table = comparisons(SEVERAL.items)
    draw = trial(table, relabellings=400)
    rules = {"long": np.array([float(len(text) // 40) for text in table.texts])}  # in steps, so that there are ties
    guess = by_rule(table, draw.labels, rules)
    expected = [credit(item, [len(text) // 40 for text in item.candidates]) for item in table.items]
    assert guess.credits == pytest.approx(list(map(float, expected)))
    assert table.credit(rules["long"][:, None], table.labels[:, None])[:, 0] == pytest.approx(guess.credits)
    # Labels that mean nothing are guessed at chance, over all items and so over each.
    assert guess.relabelled.mean() == pytest.approx(table.chance, abs=4 * guess.noise / 400**0.5)


def test_relabelling_keeps_how_many_candidates_are_the_best() -> None:
    table = comparisons(SEVERAL.items)
    labels = table.relabelled(50, seed=0)
    for index, item in enumerate(table.items):
        own = labels[table.labelled == index]
        assert len(own) == len(item.best)
        assert all(len(set(column)) == len(own) for column in own.T.tolist())
        assert 0 <= own.min() <= own.max() < len(item.candidates)
    # Items of one person that have the same answers get one permutation of them.
    twin = replace(table.items[0], id="twin", prompt="another?")
    both = comparisons([*table.items, twin])
    pair = [both.items.index(item) for item in (table.items[0], twin)]
    first, second = (both.relabelled(50, seed=0)[both.labelled == index] for index in pair)
    assert (np.sort(first, axis=0) == np.sort(second, axis=0)).all()


def test_places_lengths_and_ratings_are_those_of_a_count() -> None:
    table = comparisons(SEVERAL.items)
    shares = candidate_positions(table).measures.values()
    values = [share.value for share in shares if isinstance(share, pluralrm.Estimate)]
    assert values == pytest.approx([fmean(place in item.best for item in SEVERAL.items) for place in range(7)])
    assert f"{sum(len(item.best) > 1 for item in SEVERAL.items)} with several" in candidate_positions(table).found

    def ahead(item: Item, values: Sequence[float]) -> float:
        own = [values[index] for index in item.best]
        return fmean(own) - fmean(value for index, value in enumerate(values) if index not in item.best)

    longer = candidate_lengths(table).measures["characters more than the others"]
    assert isinstance(longer, pluralrm.Estimate)
    assert longer.value == pytest.approx(fmean(ahead(item, [*map(len, item.candidates)]) for item in SEVERAL.items))
    rated = quality(table).measures["preferred minus others"]
    assert isinstance(rated, pluralrm.Estimate)
    ratings = {item.id: [float(item.tags[f"quality:{name}"]) for name in item.candidate_ids] for item in SEVERAL.items}
    assert rated.value == pytest.approx(fmean(ahead(item, ratings[item.id]) for item in SEVERAL.items))


def test_two_people_agree_by_what_both_prefer() -> None:
    first = next(item for item in SEVERAL.items if len(item.candidates) == 4)
    labels = [(2, 2, 0, 0), (2, 2, 0, 0), (2, 0, 0, 0), (0, 0, 3, 3)]
    items = [
        replace(first, id=f"x{n}", cluster=f"x{n}", user=None, preferred=None, grades=tuple(map(float, label)))
        for n, label in enumerate(labels)
    ]
    best = [set(item.best) for item in items]
    pairs = [2 * len(a & b) / (len(a) + len(b)) for a, b in itertools.combinations(best, 2)]
    assert _agreement(comparisons(items)) == pytest.approx(fmean(pairs))


def test_a_leak_into_several_best_candidates_is_found() -> None:
    def marked(item: Item) -> Item:
        texts = [text + " saffron" * (index in item.best) for index, text in enumerate(item.candidates)]
        return replace(item, candidates=tuple(texts))

    leaky = replace(SEVERAL, items=tuple(map(marked, SEVERAL.items)), content_hash="")
    found = {probe.name: probe for probe in audit(leaky, relabellings=299).probes}
    assert found["words"].leak
    assert found["words"].accuracy is not None
    assert found["words"].accuracy.value > 0.9
    assert "more 'saffron'" in found["words"].detail or "'saffron' 100%" in found["words"].detail
    assert not audited().leaks


# ---------------------------------------------------------------- promises


@pytest.mark.parametrize(("width", "number"), [(3, 2), (4, 3), (7, 4)])
def test_places_of_several_are_balanced_as_those_of_the_rest(width: int, number: int) -> None:
    rng = random.Random(width)
    places = [rng.choices(range(width), weights=[2, *[1] * (width - 1)]) for _ in range(60)]
    sets = [{*own, *rng.sample([n for n in range(width) if n not in own], number - 1)} for own in places]

    def items(flip: bool) -> list[Item]:
        grades = [tuple(float((index in own) != flip) for index in range(width)) for own in sets]
        return [Item(f"{n}", "p", NAMES[:width], None, "u", "d", grades=each) for n, each in enumerate(grades)]

    assert _position(items(False)).detail.split(";")[0] == _position(items(True)).detail.split(";")[0]


def test_the_world_keeps_the_promises_and_one_grade_for_all_breaks_them() -> None:
    assert [finding for finding in benchmark_findings(SEVERAL) if finding.status == "fail"] == []
    level = [replace(item, preferred=None, grades=(1.0,) * len(item.candidates)) for item in SEVERAL.items[:2]]
    broken = Benchmark(SEVERAL.card, (*level, *SEVERAL.items[2:]))
    [failed] = [finding for finding in benchmark_findings(broken) if finding.status == "fail"]
    assert failed.check == "one candidate is better than another"
    assert all(repr(item.id) in failed.detail for item in level)


OWN = """\
from pluralrm import Benchmark, Card, Item

def make():
    item = Item("i1", "p", ("a", "b"), None, "u", "d", ("x", "y"), grades=GRADES)
    return Benchmark(Card("own", "s", "l", "s", "by"), (item,))
"""


@pytest.mark.parametrize(
    ("grades", "says"),
    [
        ("(1.0, 1.0)", r"one candidate is better than another: not so: 'i1'"),
        ("(1.0, float('nan'))", r"2 candidates, and the grades \(1.0, nan\); wanted a finite number for each"),
        ("(1.0, 0.0, 2.0)", r"2 candidates, and the grades \(1.0, 0.0, 2.0\); wanted a finite number for each"),
    ],
)
def test_a_benchmark_of_ones_own_with_grades_that_are_no_label_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grades: str, says: str
) -> None:
    module = f"own_grades_{abs(hash(grades))}"
    (tmp_path / f"{module}.py").write_text(OWN.replace("GRADES", grades))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BenchmarkError, match=says):
        load_benchmark(f"python:{module}:make")


def test_rows_that_differ_in_grades_alone_are_two_items(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "candidates": ["a", "b", "c"], "grades": grades} for grades in ([3, 2, 0], [3, 0, 2])]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, [*rows, rows[0]])))
    bench = load_benchmark(tmp_path / "b.jsonl")
    assert len(bench.items) == len({item.id for item in bench.items}) == 2


# ---------------------------------------------------------------- people


def four_plan(bench: Benchmark) -> AnnotationPlan:
    return make_plan(bench, PlanRequest(9, each=3, checks=3, examples=3, repeats=1, arms=("posts",)), key="k")


FOURS, ONE_OF_FOUR = (world(several=several, widths=(4,), seed=1) for several in (True, False))


def test_a_plan_keeps_the_grades_and_one_of_before_has_its_hash(tmp_path: Path) -> None:
    plan = four_plan(FOURS)
    write_plan(plan, tmp_path / "plan")
    assert read_plan(tmp_path / "plan") == plan
    source = {item.id: item for item in FOURS.items}
    assert all(item.grades == source[item.id].grades for item in plan.items if item.kind != "check")
    assert any(item.preferred is None for item in plan.items)
    index = four_plan(by_index(ONE_OF_FOUR))
    write_plan(index, tmp_path / "index")
    assert '"grades"' not in (tmp_path / "index" / ITEMS).read_text()
    assert read_plan(tmp_path / "index") == index


def test_a_plan_of_grades_asks_and_finds_what_one_of_an_index_does() -> None:
    graded, index = four_plan(ONE_OF_FOUR), four_plan(by_index(ONE_OF_FOUR))
    assert graded.screens == index.screens
    drawn, expected = (rehearsed(plan, RehearsalWorld()) for plan in (graded, index))
    assert drawn == expected
    assert labels_of(graded, drawn) == labels_of(index, expected)
    assert progress(graded, drawn) == progress(index, expected)
    assert without_hashes(fours(graded, drawn).to_json()) == without_hashes(fours(index, expected).to_json())


def picks(plan: AnnotationPlan, choose: Callable[[PlannedItem, int], int | None]) -> list[Judgment]:
    """Return judgments in which the n-th annotator of an item picks what `choose` says; checks are passed."""
    judgments, turns = [], dict[str, int]()
    for screen in plan.screens:
        item = plan.item[screen.item]
        turn = turns[screen.item] = turns.get(screen.item, -1) + (screen.kind == "item")
        pick = item.best[0] if screen.kind == "check" else choose(item, turn)
        letter = "cannot_tell" if pick is None else LETTERS[screen.order.index(pick)]
        answers = FourAnswers(letter, "one", 4, None)
        judgments.append(Judgment(screen.annotator, screen.handle, 1, answers, 9.0, "2026-01-01"))
    return judgments


def test_a_pick_of_any_best_answer_is_right() -> None:
    plan = four_plan(FOURS)
    judged = [item for item in plan.items if item.kind == "item"]
    [arm] = fours(plan, picks(plan, lambda item, turn: item.best[turn % len(item.best)])).arms
    assert (arm.picked.value, arm.survives.value) == (1.0, 1.0)
    assert arm.chance == pytest.approx(fmean(len(item.best) / 4 for item in judged))
    worst = {item.id: next(n for n in range(4) if n not in item.best) for item in plan.items}
    [arm] = fours(plan, picks(plan, lambda item, _: worst[item.id])).arms
    assert (arm.picked.value, arm.survives.value) == (0.0, 0.0)
    # Two of three pick one wrong answer, one a best one: a third of the picks is right, and no item survives.
    [arm] = fours(plan, picks(plan, lambda item, turn: worst[item.id] if turn % 3 else item.best[-1])).arms
    assert arm.picked.value == pytest.approx(1 / 3, abs=0.05)
    assert arm.survives.value == 0.0


def test_an_example_tells_all_answers_that_were_meant() -> None:
    plan = four_plan(FOURS)
    examples = [screen for screen in plan.screens if screen.kind == "example"]
    for screen in examples:
        told = answer_of_example(plan, screen)
        assert told is not None
        meant = {screen.order[LETTERS.index(letter)] for letter in told.split(" or ")}
        assert meant == set(plan.item[screen.item].best)
    assert any(" or " in (answer_of_example(plan, screen) or "") for screen in examples)
    assert all(answer_of_example(plan, screen) is None for screen in plan.screens if screen not in examples)


def test_rehearsed_people_pick_a_best_answer_as_often_as_their_world_says() -> None:
    bench = world(several=True, widths=(4,), people=200, seed=3)
    plan = make_plan(bench, PlanRequest(40, each=4, checks=5, examples=1, arms=("posts",)), key="k")
    sure, never = (RehearsalWorld(fit=fit, ties=0.0) for fit in (1.0, 0.0))
    for draws, expected in ((sure, 1.0), (never, 0.0)):
        [arm] = fours(plan, rehearsed(plan, draws)).arms
        assert arm.picked.value == expected
    assert all(pace.checks_right == pace.checks for pace in progress(plan, rehearsed(plan, sure)))


def test_pairs_by_grades_are_claimed_as_pairs_by_an_index() -> None:
    pairs = world(several=False, widths=(2,), people=40, seed=2)
    ask = PlanRequest(6, each=2, checks=2, arms=("posts",))
    graded, index = (make_plan(bench, ask, key="k") for bench in (pairs, by_index(pairs)))
    found, expected = (claimed(plan, rehearsed(plan, RehearsalWorld())).to_json() for plan in (graded, index))
    assert without_hashes(found) == without_hashes(expected)


def test_what_people_cannot_be_asked_is_refused_by_name() -> None:
    level = replace(FOURS.items[3], preferred=None, grades=(1.0,) * 4)
    bench = Benchmark(FOURS.card, (*FOURS.items[:3], level, *FOURS.items[4:]))
    with pytest.raises(PlanError, match=rf"1 item in which no answer is better than another \(such as '{level.id}'\)"):
        four_plan(bench)
    with pytest.raises(PlanError, match="items of 2, 3, 4, 5, 6, 7 answers"):
        four_plan(SEVERAL)


def test_ones_own_preferences_need_no_label() -> None:
    items = [replace(item, preferred=None, grades=(1.0,) * 4 * (n % 2)) for n, item in enumerate(FOURS.items)]
    bench = Benchmark(FOURS.card, tuple(items))
    plan = make_plan(bench, PlanRequest(4, each=2, checks=2, mode="own"), key="k")
    assert len(own_preferences(plan, rehearsed(plan, RehearsalWorld())).rows) > 0


def test_people_stand_beside_runs_with_the_credit_of_a_model(tmp_path: Path) -> None:
    plan = four_plan(FOURS)
    runs = scored(FOURS, tmp_path, "longest", "constant")

    def beside(judgments: list[Judgment]) -> Human:
        [human] = humans([PlanJudgments(plan, judgments)], [runs])
        assert human is not None
        return human

    human = beside(picks(plan, lambda item, turn: item.best[turn % len(item.best)]))
    assert (human.arms[0].one.value, human.arms[0].majority.value) == (1.0, 1.0)
    judged = [item for item in plan.items if item.kind == "item"]
    assert human.chance == pytest.approx(fmean(len(item.best) / 4 for item in judged))
    assert human.runs[1].value == pytest.approx(human.chance)
    nothing = beside(picks(plan, lambda *_: None))
    assert nothing.arms[0].one.value == pytest.approx(nothing.chance)
    # A split vote between a best answer and another one shares the credit, as a model's tie does.
    rest = {item.id: next(n for n in range(4) if n not in item.best) for item in plan.items}
    split = beside(picks(plan, lambda item, turn: (item.best[0], rest[item.id], None)[turn % 3]))
    assert split.arms[0].majority.value == pytest.approx(0.5, abs=0.05)


# ---------------------------------------------------------------- attacks, comparisons, reports


def test_no_attack_changes_a_best_answer() -> None:
    for attack in ("pad", "empty"):
        changed = {item.id: item for item in attacked(SEVERAL, ATTACKS[attack]).items}
        assert changed.keys() == {item.id for item in SEVERAL.items}
        for item in SEVERAL.items:
            assert int(changed[item.id].tags[ATTACKED]) not in item.best
            assert changed[item.id].grades == item.grades


def test_an_attack_by_grades_is_one_by_an_index(tmp_path: Path) -> None:
    benches = {"graded": ONE, "index": by_index(ONE)}
    found, expected = (
        robustness(bench, "longest", out=tmp_path / name, attacks=["pad", "empty"]).to_json()
        for name, bench in benches.items()
    )
    assert found == expected


def test_an_attacked_answer_wins_where_it_alone_is_on_top(tmp_path: Path) -> None:
    found = robustness(SEVERAL, "longest", out=tmp_path, attacks=["pad"])
    effect = next(effect for effect in found.effects if effect.attack.name == "pad")
    places = {item.id: int(item.tags[ATTACKED]) for item in attacked(SEVERAL, ATTACKS["pad"]).items}
    assert effect.before is not None
    by_hand = [
        Fraction(len(item.candidates[places[item.id]]) == max(lengths := [*map(len, item.candidates)]), 1)
        / lengths.count(max(lengths))
        for item in SEVERAL.items
    ]
    assert effect.before.value == pytest.approx(float(sum(by_hand) / len(by_hand)))


def test_runs_differ_by_the_credits_of_their_items(tmp_path: Path) -> None:
    runs = scored(SEVERAL, tmp_path, "longest", "shortest", "constant")
    items = {item.id: item for item in SEVERAL.items}

    def earned(run: Run) -> list[Fraction]:
        return [credit(items[row.item], numbers(row) or []) for row in sorted(run.rows, key=lambda row: row.item)]

    first, second, level = map(earned, runs)
    gap = float(sum(a - b for a, b in zip(first, second, strict=True)) / len(first))
    assert paired_difference(runs[0], runs[1]).difference.value == pytest.approx(gap, abs=1e-12)
    pilot = plan_for_runs(runs[:2], QUICK).pilot
    assert pilot is not None
    assert pilot.difference.value == pytest.approx(abs(gap), abs=1e-12)
    chance = float(sum(level) / len(level))
    assert measure(runs[2]).value == pytest.approx(chance)
    assert against_chance(runs).chance == pytest.approx(chance)
    assert 2 not in against_chance(runs).above


def test_runs_on_grades_compare_as_runs_on_an_index(tmp_path: Path) -> None:
    both = [scored(bench, tmp_path / name, "longest", "shortest") for name, bench in (("g", ONE), ("i", by_index(ONE)))]
    for first, second in zip(*both, strict=True):
        assert measure(first) == measure(second)
    assert paired_difference(both[0][0], both[0][1]) == paired_difference(both[1][0], both[1][1])
    pilots = [plan_for_runs(runs, QUICK).pilot for runs in both]
    assert pilots[0] == pilots[1]
    assert [winner(row) for row in both[0][0].rows] == [winner(row) for row in both[1][0].rows]


def test_a_report_of_grades_says_their_chance(tmp_path: Path) -> None:
    scored(SEVERAL, tmp_path / "runs", "longest", "constant")
    page = build_report(read_sources([tmp_path / "runs"]), beside=Beside(audits=[audited()]))
    chance = fmean(len(item.best) / len(item.candidates) for item in SEVERAL.items)
    assert f"a scorer that knows nothing earns {100 * chance:.1f}" in page.html


# ---------------------------------------------------------------- training on items


def test_each_best_candidate_is_a_question_beside_the_worse_ones() -> None:
    clusters = labelled(SEVERAL, load_condition("none"), "items")
    queries = {query.id: query for own in clusters.values() for query in own}
    assert len(queries) == sum(len(item.best) for item in SEVERAL.items)
    for item in SEVERAL.items:
        rest = tuple(text for index, text in enumerate(item.candidates) if index not in item.best)
        for number, index in enumerate(item.best):
            query = queries[f"{item.id}#{number + 1}" if number else item.id]
            assert query.candidates == (item.candidates[index], *rest)
    expected, found = (labelled(bench, load_condition("none"), "items") for bench in (by_index(ONE), ONE))
    assert found == expected
