"""The claim: shown where it is true, refuted where something else separates the pairs, open where few have judged."""

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pluralrm.annotate.claim import claimed, fours
from pluralrm.annotate.claim_page import claim_page
from pluralrm.annotate.claim_result import ArmResult, ClaimResult, untold, verdict
from pluralrm.annotate.judgments import (
    Best,
    FitScores,
    FourAnswers,
    Judgment,
    PairAnswers,
    Same,
    answers_text,
    judgment_line,
)
from pluralrm.annotate.plan import GENERAL, LETTERS, AnnotationPlan, Claim, PlannedItem, Screen, write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.annotate.store import Store, Submission
from pluralrm.cli import app
from pluralrm.digests import digest
from pluralrm.errors import MetricError, PlanError
from tests.annotate.people import judged
from tests.annotate.plans import loaded, pair_plan

_SAME: tuple[Same, ...] = ("yes", "no", "cannot_tell")


@cache
def large() -> AnnotationPlan:
    """Return a plan of 300 items with 3 of 20 annotators each, in one arm."""
    ask = PlanRequest(20, each=3, arms=("narrative",), items=300, repeats=0)
    return make_plan(loaded("simulated:users=100"), ask, key="k")


@cache
def seen(**world: float) -> ClaimResult:
    return claimed(large(), rehearsed(large(), RehearsalWorld(**{"likeness": 0.2, "lean": 0.01, **world}), seed=1))


# ---------------------------------------------------------------- verdicts


def test_where_only_fit_differs_the_claim_is_shown() -> None:
    found = seen()
    assert found.first.holds
    assert verdict(found) == (
        "Shown (narrative): the labelled answer is preferred in personal fit (win rate above 50%) and rated to fit "
        "better; in factuality, relevance and helpfulness its win rates are within 50 ± 10% and the mean ratings of "
        "both answers above 3, less than 0.5 points apart."
    )
    strongest = max(found.first.weights, key=lambda one: one.log_odds.value)
    assert strongest.name == "personal_fit"


def test_where_the_labelled_answer_is_better_in_general_the_claim_is_refuted() -> None:
    found = seen(general=0.8)
    assert not found.first.holds
    assert {name for name, test in found.first.equal if test.contrary} == {"factuality", "relevance", "helpfulness"}
    assert verdict(found).startswith("Refuted (narrative): the win rate in factuality is outside 50 ± 10%, the win")


def test_where_the_other_answer_fits_better_the_claim_is_refuted() -> None:
    told = verdict(seen(fit=0.2))
    assert "the labelled answer's win rate in personal fit is below 50%" in told
    assert "the labelled answer's mean rating of personal fit is lower than the other's" in told


def test_where_nothing_fits_better_the_claim_stays_open() -> None:
    assert seen(fit=0.5).first.open == [
        "the labelled answer's win rate in personal fit is above 50%",
        "the labelled answer's mean rating of personal fit is higher than the other's",
    ]


def test_where_both_answers_are_poor_the_claim_is_refuted_by_the_floor() -> None:
    found = seen(score=2.0)
    assert found.first.contrary == [
        f"the {answer} answer's mean rating of {name} is below 3"
        for name in GENERAL
        for answer in ("labelled", "other")
    ]


def test_where_few_have_judged_nothing_is_shown() -> None:
    plan = pair_plan(6)
    found = claimed(plan, rehearsed(plan, RehearsalWorld()))
    assert [arm.arm for arm in found.arms] == ["narrative", "posts"]
    assert not any(test.shown for arm in found.arms for _, test in arm.equal)
    assert verdict(found).startswith("Not established (narrative). Open: ")


# ---------------------------------------------------------------- numbers


def test_the_majority_on_items_of_people_who_share_prompts_has_a_two_way_interval() -> None:
    plan = pair_plan(12, each=3, arms=("narrative",), repeats=0)
    shared = replace(plan, items=tuple(replace(item, prompt=f"p{n % 5}") for n, item in enumerate(plan.items)))

    def says(screen: Screen) -> dict[str, int | None]:
        return {"overall": 1 if sum(map(ord, screen.item)) % 3 else -1}

    methods = [claimed(each, judged(each, says)).first.survives.method for each in (plan, shared)]
    assert ["two-way" in method for method in methods] == [False, True]


def test_win_rates_are_those_counted_by_hand() -> None:
    plan = pair_plan(4, each=2)

    def says(screen: Screen) -> dict[str, int | None]:
        place = screen.place % 4
        return {"overall": (2, 1, 0, -1)[place], "factuality": (None, None, 0, -2)[place], "personal_fit": 1}

    judgments = judged(plan, says)
    arm = claimed(plan, judgments).first
    places = [s.place % 4 for s in plan.screens if s.kind == "item" and plan.arm[s.annotator] == "narrative"]
    overall, factuality, *_, fit = arm.wins
    assert overall.rate.value == pytest.approx(sum((1, 1, 0.5, 0)[place] for place in places) / len(places))
    assert overall.ties == places.count(2)
    assert (fit.rate.value, fit.rate.n) == (1.0, len(places))
    assert (factuality.rate.n, factuality.rate.failed) == (
        places.count(2) + places.count(3),
        places.count(0) + places.count(1),
    )


def test_a_label_survives_where_the_majority_prefers_it() -> None:
    plan = pair_plan(6, each=3, arms=("narrative",), repeats=0)
    judges: dict[str, list[str]] = {}
    for screen in plan.screens:
        judges.setdefault(screen.item, []).append(screen.annotator)
    items = sorted(item.id for item in plan.items if item.kind == "item")
    sides = {0: (1, 1, -2), 1: (0, 0, 1), 2: (2, -1, 0), 3: (-1, -1, 2), 4: (None, None, None)}

    def says(screen: Screen) -> dict[str, int | None]:
        item, annotator = screen.item, screen.annotator
        if item not in items:
            return {}
        return {"overall": sides[items.index(item) % 5][judges[item].index(annotator)]}

    arm = claimed(plan, judged(plan, says)).first
    kinds = [place % 5 for place in range(len(items))]
    assert arm.survives.value == pytest.approx(sum(kind in {0, 1} for kind in kinds) / len(kinds))
    assert arm.undecided == sum(kind in {2, 4} for kind in kinds)
    assert arm.survives.failed == kinds.count(4)


def turned_around(item: PlannedItem) -> PlannedItem:
    return replace(item, preferred=1 - (item.preferred or 0)) if item.kind == "item" else item


def test_turning_every_label_around_turns_every_win_rate_around() -> None:
    plan = pair_plan(6)
    judgments = rehearsed(plan, RehearsalWorld(general=0.6))
    turned = replace(plan, items=tuple(map(turned_around, plan.items)))
    one, other = claimed(plan, judgments).first, claimed(turned, judgments).first
    for win, lost in zip(one.wins, other.wins, strict=True):
        assert win.rate.value == pytest.approx(1 - lost.rate.value)
        assert win.rate.low == pytest.approx(1 - (lost.rate.high or 0))
    assert [w.log_odds.value for w in one.weights] == pytest.approx([w.log_odds.value for w in other.weights])


def test_scores_are_means_with_the_answer_they_belong_to() -> None:
    plan = pair_plan(6)
    arm = claimed(plan, judged(plan, lambda _: {}, preferred=(5, 4, 3, 4), other=(1, 2, 3, 2))).first
    assert [floor.test.estimate.value for floor in arm.floors] == pytest.approx([5, 1, 4, 2, 3, 3])
    assert [floor.test.shown for floor in arm.floors if floor.dimension == "factuality"] == [True, False]
    assert [rating.dimension for rating in arm.ratings] == ["personal_fit", *GENERAL]
    assert [rating.preferred.value for rating in arm.ratings] == pytest.approx([4, 5, 4, 3])
    assert [rating.other.value for rating in arm.ratings] == pytest.approx([2, 1, 2, 3])
    assert [rating.difference.estimate.value for rating in arm.ratings] == pytest.approx([2, 4, 2, 0], abs=1e-12)
    assert all(rating.difference.estimate.low is not None for rating in arm.ratings)


def test_a_difference_of_ratings_is_over_the_judgments_that_rate_both_answers() -> None:
    plan = pair_plan(8, each=3, arms=("posts",), repeats=0)
    lots, fits = random.Random(4), {}
    drawn = judged(plan, lambda _: {})
    said = []
    for one in drawn:
        assert isinstance(one.answers, PairAnswers)
        fits[one.handle] = [lots.choice([None, 1, 2, 3, 4, 5]) for _ in "ab"]
        sides = [FitScores(4, 4, 4, fit) for fit in fits[one.handle]]
        answers = replace(one.answers, scores_a=sides[0], scores_b=sides[1])
        said.append(replace(one, answers=answers))
    gaps = []
    for screen in plan.screens:
        first, second = fits[screen.handle]
        if screen.kind == "item" and first is not None and second is not None:
            gaps.append((first - second) * (1 if screen.order[0] == plan.item[screen.item].preferred else -1))
    fit = claimed(plan, said).first.ratings[0]
    assert fit.difference.estimate.value == pytest.approx(sum(gaps) / len(gaps), abs=1e-12)
    screens = sum(screen.kind == "item" for screen in plan.screens)
    assert (fit.difference.estimate.n, fit.difference.estimate.failed) == (len(gaps), screens - len(gaps))


def test_ratings_that_all_are_equal_are_equal_with_an_interval_and_fit_no_better() -> None:
    arm = claimed(large(), judged(large(), lambda _: {"overall": 1, "personal_fit": 1})).first
    fit, *general = arm.ratings
    assert (fit.difference.estimate.value, fit.difference.shown) == (0, False)
    for rating in arm.ratings:
        low, high = rating.difference.estimate.low, rating.difference.estimate.high
        assert low is not None
        assert high is not None
        assert low < 0 < high
    assert [rating.difference.shown for rating in general] == [
        abs(rating.difference.estimate.low or 9) < 0.5 for rating in general
    ]


def test_a_rating_that_goes_beyond_the_margin_refutes_the_claim() -> None:
    plan = replace(large(), declared=replace(large().declared, claim=Claim(0.1, 1.5)))
    found = claimed(plan, judged(plan, lambda _: {"personal_fit": 1}, preferred=(5, 4, 4, 5), other=(2, 4, 4, 3)))
    assert found.first.contrary == ["the mean ratings of factuality differ by more than 0.5 points"]


def test_an_older_plan_has_its_own_rule_and_no_test_of_ratings() -> None:
    claim = Claim(0.1, 3.0, attention=0.5)
    older = pair_plan(checks=2, claim=claim)
    older = replace(older, declared=replace(older.declared, rating_margin=None))
    assert older.content_hash == "63f60ffa32a8219c21e8bf2fc63985558cd124833d63692b2762bd4a011a725c"  # as it was made
    drawn = rehearsed(older, RehearsalWorld())
    assert digest([judgment_line(one) for one in drawn]) == (
        "9770be6b4022d703f936331ac5554e82b9ea00db7738fb7180c68618dd582239"  # as they were drawn
    )
    arm = claimed(older, drawn).first
    assert arm.ratings == ()
    assert len(arm.tests) == 10
    assert "rated" not in verdict(claimed(older, drawn))
    one_of_two = {screen.handle for screen in older.screens if screen.kind == "check"}
    first = {older.screen[handle].annotator: handle for handle in sorted(one_of_two)}

    def half(one: Judgment) -> Judgment:
        assert isinstance(one.answers, PairAnswers)
        wrong = one.handle in first.values()
        return replace(one, answers=replace(one.answers, overall="equal")) if wrong else one

    said = list(map(half, drawn))
    assert claimed(older, said).policies[-1] == "left out for passing less than 50% of attention checks: none"
    with pytest.raises(MetricError, match="less than 80% of attention checks: a01"):
        claimed(replace(older, declared=replace(older.declared, claim=Claim(0.1, 3.0))), said)


def test_the_last_revision_counts_and_one_taken_back_does_not() -> None:
    plan = pair_plan(6)
    judgments = judged(plan, lambda _: {"overall": 2})
    first, second = [one for one in judgments if plan.screen[one.handle].kind == "item"][:2]
    other = judged(plan, lambda _: {"overall": -2})
    turned = next(one for one in other if one.handle == first.handle)
    more = [*judgments, replace(turned, revision=2), replace(second, revision=2, answers=None)]
    arm = plan.declared.arms.index(plan.arm[first.annotator])
    before, after = (claimed(plan, said).arms[arm] for said in (judgments, more))
    assert after.judgments == before.judgments - 1
    assert after.wins[0].rate.value == pytest.approx(1 - 1 / after.judgments)


def test_the_margin_and_the_floor_come_from_the_plan() -> None:
    judgments = rehearsed(large(), RehearsalWorld(likeness=0.2, lean=0.01), seed=1)
    strict = replace(large(), declared=replace(large().declared, claim=Claim(0.02, 4.9), rating_margin=0.01))
    found = claimed(strict, judgments).first
    assert len(found.open) == 3 + 6 + 3
    assert found.contrary[-1] == "the other answer's mean rating of helpfulness is below 4.9"


def test_four_answers_have_no_claim_and_an_arm_without_judgments_is_told() -> None:
    with pytest.raises(PlanError, match=r"found a plan of (--mode own|more than two answers)"):
        claimed(make_plan(loaded("pocket-rmgap"), PlanRequest(12), key="k"), [])
    plan = pair_plan(6)
    some = [one for one in rehearsed(plan, RehearsalWorld()) if plan.arm[one.annotator] == "posts"]
    with pytest.raises(MetricError, match="arm 'narrative': no judgment of an item; wanted"):
        claimed(plan, some)


def test_what_one_of_ten_tests_shows_by_chance_refutes_nothing() -> None:
    # "Refuted" is an "or" of ten: at alpha each, a true claim at the margin would be refuted in far more than alpha.
    plan = make_plan(
        loaded("simulated:users=60"), PlanRequest(12, each=2, arms=("narrative",), items=60, repeats=0), key="k"
    )
    lots = random.Random(1)

    def winning(share: float) -> ArmResult:
        lots.seed(1)
        return claimed(plan, judged(plan, lambda _: {"factuality": 2 if lots.random() < share else -2})).first

    some, many = (winning(share).equal[0][1] for share in (0.70, 0.85))
    assert 0.6 < (some.estimate.low or 0) < (many.estimate.low or 0)
    assert (some.contrary, many.contrary) == (False, True)


# ---------------------------------------------------------------- who is left out, what is missing


def careless(plan: AnnotationPlan, judgments: list[Judgment], names: set[str]) -> list[Judgment]:
    """Return the judgments, but these people take the answers of checks for equal."""

    def said(one: Judgment) -> Judgment:
        if one.annotator not in names or plan.screen[one.handle].kind != "check":
            return one
        assert isinstance(one.answers, PairAnswers)
        return replace(one, answers=replace(one.answers, overall="equal"))

    return [said(one) for one in judgments]


def test_who_fails_the_checks_is_left_out_as_the_plan_says() -> None:
    plan = pair_plan(6)
    drawn = rehearsed(plan, RehearsalWorld())
    found = claimed(plan, careless(plan, drawn, {"a01"}))
    assert found.policies[-1] == "left out for passing less than 80% of attention checks: a01"
    assert (found.arms[0].annotators, found.arms[1].annotators) == (2, 3)
    assert found.arms[0].final
    assert found.arms[0].wins == claimed(plan, [one for one in drawn if one.annotator != "a01"]).arms[0].wins


def test_where_everybody_fails_the_checks_this_is_said() -> None:
    plan = pair_plan(6)
    with pytest.raises(MetricError, match=r"no judgment of an item, left out for passing less than 80%.*: a01, a02"):
        claimed(plan, careless(plan, rehearsed(plan, RehearsalWorld()), set(plan.arm)))


def test_what_is_shown_before_all_have_judged_is_not_final() -> None:
    drawn = rehearsed(large(), RehearsalWorld(likeness=0.2, lean=0.01), seed=1)
    found = claimed(large(), drawn[:-40])
    assert found.first.holds
    assert not found.first.final
    assert verdict(found).startswith(f"Not final: {found.first.judgments} of 900 planned judgments are in.")
    assert found.first.to_json()["planned"] == 900


def test_a_choice_that_fit_decides_has_log_odds_without_a_finite_estimate_and_says_so(tmp_path: Path) -> None:
    plan = pair_plan(8)
    lots = random.Random(3)

    def says(_: Screen) -> dict[str, int | None]:
        side = lots.choice([-2, -1, 1, 2])
        return {"overall": side, "personal_fit": side, **{name: lots.choice([-1, 0, 1]) for name in GENERAL}}

    found = claimed(plan, judged(plan, says))
    assert found.first.ridge
    assert "no finite estimate" in claim_page(found)
    write_plan(plan, tmp_path / "plan")
    lots.seed(3)
    (tmp_path / "said.jsonl").write_text("".join(f"{judgment_line(one)}\n" for one in judged(plan, says)))
    told = run("claim", tmp_path / "plan", "--judgments", tmp_path / "said.jsonl").stdout
    assert "no finite estimate" in " ".join(told.split())


def test_how_often_nobody_could_tell_is_said_beside_the_tests() -> None:
    plan = pair_plan(6, arms=("narrative",))
    arm = claimed(plan, judged(plan, lambda screen: {"factuality": None if screen.place % 2 else 1})).first
    many = sum(screen.kind == "item" and screen.place % 2 for screen in plan.screens)
    named = f"factuality: win rate 50 ± 10 ({many} of {arm.judgments})"
    assert untold(arm) == f"Cannot tell, and so not in these tests: {named}."
    assert untold(claimed(plan, judged(plan, lambda _: {})).first) == ""


def test_where_nobody_can_tell_a_dimension_it_is_named() -> None:
    plan = pair_plan(6)
    with pytest.raises(MetricError, match="factuality: every answer is 'cannot tell'"):
        claimed(plan, judged(plan, lambda screen: {"factuality": None, "overall": screen.place % 3 - 1}))


# ---------------------------------------------------------------- four answers


def test_of_four_answers_picks_and_fits_are_counted_by_hand() -> None:
    plan = make_plan(loaded("pocket-rmgap"), PlanRequest(12, each=3, repeats=0), key="k")
    turns: dict[str, int] = {}
    said = []
    for screen in plan.screens:
        item = plan.item[screen.item]
        turn = turns[screen.item] = turns.get(screen.item, -1) + 1
        kind = item.cluster[-1:] in "123456"  # half of the records: two of three pick the labelled answer
        right = screen.order.index(item.preferred or 0)
        known = screen.kind == "check"
        pick: Best = (
            LETTERS[right] if known or turn < (2 if kind else 1) else "cannot_tell" if turn == 1 else LETTERS[right - 1]
        )
        answers = FourAnswers(pick, "one" if turn else "several", 5 if kind else 2, _SAME[turn % 3])
        said.append(Judgment(screen.annotator, screen.handle, 1, answers, 9.0, "2026-01-01"))
    [arm] = fours(plan, said).arms
    kinds = [item.cluster[-1:] in "123456" for item in plan.items if item.kind == "item"]
    high, low = kinds.count(True), kinds.count(False)
    assert arm.picked.value == pytest.approx((2 * high + low) / (3 * len(kinds)))
    assert arm.survives.value == pytest.approx(high / len(kinds))
    assert arm.only_one_fits.value == pytest.approx(2 / 3)
    assert arm.none_fits.value == 0.0
    assert arm.naturalness.value == pytest.approx((5 * high + 2 * low) / len(kinds))
    assert arm.paraphrases_same is not None
    assert (arm.paraphrases_same.value, arm.paraphrases_same.failed) == (0.5, len(kinds))


def test_the_verb_says_of_four_answers_how_often_the_labelled_one_is_picked(tmp_path: Path) -> None:
    write_plan(make_plan(loaded("pocket-rmgap"), PlanRequest(12), key="k"), tmp_path / "plan")
    run("rehearse", tmp_path / "plan", "-o", tmp_path / "said.jsonl")
    found = run("claim", tmp_path / "plan", "--judgments", tmp_path / "said.jsonl")
    assert found.exit_code == 0
    assert "labelled answer picked (by chance 25)" in found.stdout
    assert "REHEARSAL" in found.stdout
    refused = run("claim", tmp_path / "plan", "--judgments", tmp_path / "said.jsonl", "-o", tmp_path / "c.html")
    assert "only the claim of two answers has a page" in str(refused.exception)


# ---------------------------------------------------------------- the verb and the page


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["annotate", *map(str, args)])


def test_the_verb_prints_writes_and_ends_with_one_where_refuted(tmp_path: Path) -> None:
    plan, folder, file = pair_plan(8, each=4), tmp_path / "plan", tmp_path / "said.jsonl"
    write_plan(plan, folder)

    def says(screen: Screen) -> dict[str, int | None]:
        return {"overall": 1, "factuality": 2 if screen.place % 9 else -2, "personal_fit": 1}

    file.write_text("".join(f"{judgment_line(one)}\n" for one in judged(plan, says)))
    found = run("claim", folder, "--judgments", file, "-o", tmp_path / "claim.html", "--figures", tmp_path / "plots")
    assert found.exit_code == 1
    assert "Refuted (narrative): the win rate in factuality is outside 50 ± 10%." in " ".join(found.stdout.split())
    assert "REHEARSAL" not in found.stdout
    assert sorted(one.name for one in (tmp_path / "plots").iterdir())[-2:] == ["wins.pdf", "wins.svg"]
    assert {one.suffix for one in (tmp_path / "plots").iterdir()} == {".svg", ".pdf"}
    assert "<script src" not in (tmp_path / "claim.html").read_text()
    told = json.loads(run("claim", folder, "--judgments", file, "--json").stdout)
    assert told["claim"] == {"margin": 0.1, "floor": 3.0, "alpha": 0.05, "attention": 0.8}
    assert told["arms"][0]["equivalence"]["factuality"]["contrary"] is True
    assert told["arms"][0]["log_odds_why_none"].startswith("a covariate is the same")


def test_what_the_server_keeps_is_what_a_file_of_judgments_holds(tmp_path: Path) -> None:
    plan, folder, file = pair_plan(6), tmp_path / "plan", tmp_path / "said.jsonl"
    write_plan(plan, folder)
    said = [replace(one, at="2026-01-01T00:00:00.000+00:00") for one in rehearsed(plan, RehearsalWorld())]
    file.write_text("".join(f"{judgment_line(one)}\n" for one in said))
    store = Store(folder, plan.content_hash)
    for place, one in enumerate(said):
        text = answers_text(one.answers)
        store.add(Submission(one.annotator, f"{place:032x}", one.handle, 1, text, one.seconds, one.at))
    store.close()
    assert run("claim", folder, "--json").stdout == run("claim", folder, "--judgments", file, "--json").stdout


def test_the_page_is_the_same_page_again_and_says_when_it_is_a_rehearsal() -> None:
    page = claim_page(seen())
    assert page == claim_page(seen())
    assert "REHEARSAL: these judgments are simulated." in page
    assert page.count("<figure>") == 4
    assert "style=" not in page.split("</style>", 1)[1].split("<svg", 1)[0]
