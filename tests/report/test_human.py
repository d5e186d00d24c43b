"""People beside the runs: numbers by hand, the same items for both, and no drawn judgment without its mark."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from pluralrm.annotate.claim import claimed
from pluralrm.annotate.judgments import FourAnswers, Judgment, PairAnswers, judgment_line
from pluralrm.annotate.plan import AnnotationPlan, Claim, write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.benchmarks import load_benchmark
from pluralrm.cli.compare import compare
from pluralrm.cli.show import report
from pluralrm.core import Run
from pluralrm.errors import PlanError
from pluralrm.report import Beside, PlanJudgments, build_report, read_sources
from pluralrm.report.human import Human, humans
from pluralrm.report.sections import people_told
from pluralrm.runs import find_runs, load_run, score
from tests.annotate.people import judged
from tests.builders import bakery
from tests.report.folders import PAYLOADS, hostile, hostile_bench
from tests.report.people import runs, small_judgments, small_plan


def loaded(path: Path) -> list[Run]:
    return [load_run(one) for one in find_runs([path])]


def beside(plan: AnnotationPlan, said: list[Judgment], scored: list[Run]) -> Human:
    [found] = humans([PlanJudgments(plan, said)], [scored])
    assert found is not None
    return found


# ---------------------------------------------------------------- numbers


def test_people_earn_what_a_model_with_their_choices_would(tmp_path: Path) -> None:
    plan = small_plan()
    found = beside(plan, small_judgments(plan), loaded(runs(tmp_path)))
    assert (found.ceiling, found.narrative) == found.arms
    posts, narrative = found.arms
    assert (posts.arm, posts.one.value, posts.one.n, posts.annotators) == ("posts", 7.5 / 12, 12, 2)
    assert (posts.majority.value, posts.majority.n) == (4.5 / 6, 6)
    assert (posts.equal, posts.untold) == (1, 2)
    assert (narrative.arm, narrative.one.value, narrative.majority.value) == ("narrative", 1, 1)
    assert (found.items, found.of, found.chance, found.rehearsal) == (6, 6, 0.5, False)


def test_where_everybody_can_tell_one_person_earns_the_claims_win_rate(tmp_path: Path) -> None:
    """Value and interval: two pages do not call two numbers the human ceiling."""
    bench = bakery(20)
    plan = make_plan(bench, PlanRequest(8, each=3, checks=0, repeats=1, examples=0, condition="raw:2"), key="k")
    said = [replace(one, at="2026-01-01T00:00:00+00:00") for one in rehearsed(plan, RehearsalWorld(fit=0.7))]
    found = beside(plan, said, loaded(runs(tmp_path, bench)))
    for arm, there in product(found.arms, claimed(plan, said).arms):
        if arm.arm == there.arm:
            ours, rate = arm.one, there.wins[0].rate
            assert (ours.value, ours.low, ours.high, ours.n) == (rate.value, rate.low, rate.high, rate.n)
            assert arm.equal == there.wins[0].ties


def test_runs_are_measured_on_exactly_the_items_that_people_judged(tmp_path: Path) -> None:
    """Who saw the posts has judged three items so far; those told the narrative count on these three too."""
    plan, bench = small_plan(), bakery(6)
    kept = ("i0001", "i0004", "i0005")
    said = [
        one
        for one in small_judgments(plan)
        if plan.screen[one.handle].item in kept or plan.arm[one.annotator] == "narrative"
    ]
    found = beside(plan, said, loaded(runs(tmp_path)))
    right = [
        max(range(2), key=lambda place: len(item.candidates[place])) == item.preferred
        for item in bench.items
        if item.id in kept
    ]
    assert [one.value for one in found.runs] == [pytest.approx(sum(right) / 3)] * 2
    assert [one.n for one in found.runs] == [3, 3]
    assert (found.items, found.of) == (3, 6)
    assert [arm.majority.n for arm in found.arms] == [3, 3]
    assert found.arms[0].one.value == pytest.approx((1 + 0 + 0.5 + 1 + 1 + 0.5) / 6)


def test_of_four_answers_who_cannot_tell_earns_a_guess_and_who_picks_earns_the_answer(tmp_path: Path) -> None:
    bench = load_benchmark("pocket-rmgap")
    plan = make_plan(bench, PlanRequest(3, each=3, checks=0, repeats=0, examples=0), key="k")

    def answered(annotator: str, handle: str) -> Judgment:
        screen = plan.screen[handle]
        right = "ABCD"[screen.order.index(plan.item[screen.item].preferred or 0)]
        wrong = "A" if right != "A" else "B"
        best = {"a1": right, "a2": wrong, "a3": "cannot_tell"}[f"a{annotator[-1]}"]
        answers = FourAnswers(best, "one", 4, None)  # type: ignore[arg-type]
        return Judgment(annotator, handle, 1, answers, 9.0, "2026-01-01T00:00:00+00:00")

    said = [answered(screen.annotator, screen.handle) for screen in plan.screens]
    score(bench, "longest", "none", out=tmp_path)
    found = beside(plan, said, loaded(tmp_path))
    [prompt] = found.arms
    assert (prompt.arm, found.condition, found.chance) == ("prompt", "none", 0.25)
    assert prompt.one.value == pytest.approx(float((1 + 0 + Fraction(1, 4)) / 3))
    assert prompt.majority.value == 0.5  # right and wrong have a vote each
    assert (prompt.untold, prompt.equal) == (len(said) // 3, 0)
    assert "saw the prompt alone named" in " ".join(people_told(found, loaded(tmp_path)))


def test_who_fails_the_attention_checks_is_left_out_as_the_plan_states(tmp_path: Path) -> None:
    plan = small_plan(bakery(8), checks=2, claim=Claim(0.1, 3.0, attention=0.5))
    said = [
        _turned(one) if one.annotator == "a02" else one for one in judged(plan, lambda _: {"overall": 2})
    ]  # checks too
    found = beside(plan, said, loaded(runs(tmp_path, bakery(8))))
    assert found.ceiling is not None
    assert (found.ceiling.one.value, found.ceiling.annotators) == (1, 1)
    assert found.left_out == "left out for passing less than 50% of attention checks: a02"


def _turned(one: Judgment) -> Judgment:
    """Return the judgment with the other answer preferred."""
    assert isinstance(one.answers, PairAnswers)
    return replace(one, answers=replace(one.answers, overall="b" if one.answers.overall == "a" else "a"))


# ---------------------------------------------------------------- what is refused


def test_a_plan_of_another_benchmark_is_refused_with_what_differs(tmp_path: Path) -> None:
    scored = [loaded(runs(tmp_path))]
    other = small_plan(bakery(6, canary="another text"))
    with pytest.raises(
        PlanError, match=r"plan is of 'bakery' \(content \w{12}\).* 6 of its 6 items have an id of thei"
    ):
        humans([PlanJudgments(other, small_judgments(other))], scored)
    stranger = make_plan(load_benchmark("pocket-prb"), PlanRequest(6), key="k")
    with pytest.raises(PlanError, match=r"is of 'pocket-prb' .* found 'bakery' .* none of its items is among theirs"):
        humans([PlanJudgments(stranger, [])], scored)


def test_a_plan_that_can_say_nothing_of_the_runs_is_refused(tmp_path: Path) -> None:
    plan, scored = small_plan(), [loaded(runs(tmp_path))]
    said = small_judgments(plan)
    with pytest.raises(PlanError, match="no judgments of items that the runs were scored on"):
        humans([PlanJudgments(plan, [])], scored)
    with pytest.raises(PlanError, match="two plans of 'bakery', of the same content"):
        humans([PlanJudgments(plan, said), PlanJudgments(plan, said)], scored)
    own = make_plan(bakery(6), PlanRequest(2, each=2, mode="own", checks=0, repeats=0), key="k")
    with pytest.raises(PlanError, match="is of mode 'own': annotators were not asked about its labels"):
        humans([PlanJudgments(own, said)], scored)


# ---------------------------------------------------------------- words and page


def test_the_paragraph_says_what_people_infer_and_what_the_best_run_earns_there(tmp_path: Path) -> None:
    plan = small_plan()
    sources = read_sources([runs(tmp_path)])
    [words] = build_report(sources, beside=Beside(people=[PlanJudgments(plan, small_judgments(plan))])).paragraphs
    assert re.search(
        r"People who saw the posts alone \(raw:2\) named the labelled answer in 62\.5 \[.*\] per cent of", words
    )
    assert "by majority on 75.0 [" in words
    assert "estimated on 6 of the 6 items, and no bound." in words
    assert re.search(
        r"On exactly these items .* earns 50\.0, and the best of 1 run that saw the same, longer · raw:2, ", words
    )
    assert re.search(r"has in mind named the labelled answer in 100\.0 \[.*\] per cent of 12 judgments", words)


def test_a_run_is_above_one_person_only_where_the_intervals_do_not_touch(tmp_path: Path) -> None:
    """People who are hardly ever right, a model that often is; and the other way round."""
    bench = bakery(60)
    longest = {
        item.id for item in bench.items if len(item.candidates[item.preferred or 0]) == max(map(len, item.candidates))
    }
    kept = replace(bench, items=tuple(item for item in bench.items if item.id in longest), content_hash="")
    plan = small_plan(kept)
    scored = loaded(runs(tmp_path, kept))
    for side, above in ((-2, True), (2, False)):
        told = " ".join(people_told(beside(plan, judged(plan, lambda _: {"overall": side}), scored), scored))  # noqa: B023
        assert ("above one person by intervals that do not touch: longer · " in told) is above


def test_a_run_whose_interval_touches_that_of_people_is_not_said_to_be_above(tmp_path: Path) -> None:
    bench = bakery(60)
    long = [item for item in bench.items if len(item.candidates[item.preferred or 0]) == max(map(len, item.candidates))]
    kept = replace(bench, items=(*long[:8], *[item for item in bench.items if item not in long][:2]), content_hash="")
    plan, scored = small_plan(kept), loaded(runs(tmp_path, kept))
    named = {item.id for item in kept.items[:3]}
    said = judged(plan, lambda screen: {"overall": 2 if screen.item in named else -2})
    found = beside(plan, said, scored)
    assert found.ceiling is not None
    assert (found.ceiling.one.value, found.runs[0].value) == (0.3, 0.8)
    assert found.ceiling.one.high is not None
    assert (found.runs[0].low or 0) < found.ceiling.one.high < found.runs[0].value
    assert "above one person" not in " ".join(people_told(found, scored))


def test_without_the_arm_of_posts_there_is_no_ceiling(tmp_path: Path) -> None:
    plan = small_plan(arms=("narrative",))
    said = judged(plan, lambda _: {"overall": 2})
    scored = loaded(runs(tmp_path))
    found = beside(plan, said, scored)
    assert found.ceiling is None
    assert "no annotator judged by the posts alone" in " ".join(people_told(found, scored))
    html = build_report(read_sources([tmp_path]), beside=Beside(people=[PlanJudgments(plan, said)])).html
    assert "The line over a shade" not in html
    assert "Beside people" in html


def test_a_rehearsal_is_marked_wherever_it_is_shown(tmp_path: Path) -> None:
    plan = small_plan()
    sources = read_sources([runs(tmp_path)])
    drawn = [replace(one, at="rehearsal") for one in small_judgments(plan)]
    made = build_report(sources, beside=Beside(people=[PlanJudgments(plan, drawn)]))
    [words] = made.paragraphs
    for sentence in re.findall(r"[^.]*[Pp]eople who [^.]*", words):
        assert "REHEARSAL, simulated judgments" in sentence
    [plot] = [plot for name, plot in made.plots.items() if name.endswith("-human")]
    for shown in (plot.title, plot.words, plot.svg()):
        assert len(re.findall("one person", shown)) == len(re.findall("REHEARSAL: one person", shown))
        assert "REHEARSAL" in shown
    assert "REHEARSAL" in re.search(r'<table class="board sorts">\s*<caption>(.*?)</caption>', made.html, re.DOTALL)[1]  # type: ignore[index]
    part = re.search(r"Beside people</h3>(.*?)<h3", made.html, re.DOTALL)
    assert part is not None
    for caption in re.findall(r"<(?:fig)?caption>(.*?)</", part[1], re.DOTALL):
        assert "REHEARSAL" in caption
    for row in re.findall(r"<th scope=\"row\">(?:(?!</th>).)*(?:one person|majority),.*?</th>", part[1]):
        assert "REHEARSAL: " in row
    real = build_report(sources, beside=Beside(people=[PlanJudgments(plan, small_judgments(plan))]))
    assert "REHEARSAL" not in real.html
    assert "Beside people" in real.html


def test_names_of_a_strange_benchmark_are_only_ever_text(tmp_path: Path) -> None:
    """The plan of a benchmark whose every text is an attack, its people included."""
    scored = hostile(tmp_path)
    plan = make_plan(
        hostile_bench(), PlanRequest(4, each=2, checks=0, repeats=0, examples=0, condition="raw:2"), key="k"
    )
    said = judged(plan, lambda _: {"overall": 1})
    html = build_report(read_sources([scored]), beside=Beside(people=[PlanJudgments(plan, said)])).html
    part = re.search(r"Beside people</h3>(.*?)<h3", html, re.DOTALL)
    assert part is not None
    for payload in PAYLOADS[:5]:
        assert payload not in part[1]
    assert "&lt;script&gt;window.ran=1" in part[1]


# ---------------------------------------------------------------- the verb


def called(*words: str, verb: Callable[..., None] = report) -> Result:
    app = typer.Typer()
    app.command()(verb)
    return CliRunner().invoke(app, list(words))


def test_the_verb_reads_a_plan_and_judgments_that_lie_elsewhere(tmp_path: Path) -> None:
    plan, said = small_plan(), tmp_path / "said.jsonl"
    write_plan(plan, tmp_path / "plan")
    said.write_text("".join(f"{judgment_line(one)}\n" for one in small_judgments(plan)))
    out = tmp_path / "report.html"
    done = called(str(runs(tmp_path / "runs")), "-o", str(out), "--human", f"{tmp_path / 'plan'}:{said}")
    assert done.exit_code == 0, done.output
    assert "named the labelled answer in 62.5" in " ".join(done.stdout.split())
    assert "Beside people" in out.read_text(encoding="utf-8")


def test_compare_tells_the_same_and_has_it_as_json(tmp_path: Path) -> None:
    plan, said = small_plan(), tmp_path / "said.jsonl"
    write_plan(plan, tmp_path / "plan")
    said.write_text("".join(f"{judgment_line(one)}\n" for one in small_judgments(plan)))
    words = [str(runs(tmp_path / "runs")), "--human", f"{tmp_path / 'plan'}:{said}"]
    assert "named the labelled answer in 62.5 [" in " ".join(called(*words, verb=compare).stdout.split())
    [board] = json.loads(called(*words, "--json", verb=compare).stdout)
    assert board["human"]["arms"][0]["one_person"]["value"] == 0.625
    assert {(one["model"], one["condition"]) for one in board["human"]["runs"]} == {
        ("longer", "none"),
        ("longer", "raw:2"),
    }
    [bare] = json.loads(called(words[0], "--json", verb=compare).stdout)
    assert "human" not in bare


def test_a_plan_that_nobody_judged_is_one_message(tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path / "plan")
    done = called(str(runs(tmp_path / "runs")), "-o", str(tmp_path / "r.html"), "--human", str(tmp_path / "plan"))
    assert isinstance(done.exception, PlanError)
    assert not (tmp_path / "r.html").exists()
