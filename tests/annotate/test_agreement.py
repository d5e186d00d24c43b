"""Agreement of a plan's judgments and of outside files, under policies that are named in the output."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pluralrm.annotate.judgments import Judgment, PairAnswers, inattentive, judgment_line
from pluralrm.annotate.labels import (
    Label,
    Policies,
    agreed,
    jsonl_text,
    labels_of,
    read_labels,
    rows_of,
)
from pluralrm.annotate.plan import write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.cli import app
from pluralrm.errors import PluralrmError
from pluralrm.metrics.agreement import Scaled
from pluralrm.text import csv_text, guarded, unguarded
from tests.annotate.plans import fours, pair_plan

CSV = "item,annotator,label\n" + "".join(
    f"{item},{name},{label}\n"
    for item, pair in enumerate(["yy", "ny", "nn", "yy", "nn", "yn", "yy", "yy", "nn", "nn", "y-", "-n"])
    for name, label in zip(("ann", "bob"), pair, strict=True)
)


def run(*args: str | Path) -> str:
    quick = ["--resamples", "200"] if args[0] == "agreement" else []
    found = CliRunner().invoke(app, ["annotate", *map(str, args), *quick])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.stdout


def test_a_label_is_about_the_candidate_whatever_the_order_on_the_screen() -> None:
    plan = pair_plan()
    judgments = rehearsed(plan, RehearsalWorld(fit=1.0, ties=0.0, likeness=0.0, lean=0.0))
    fit = [one for one in labels_of(plan, judgments) if one.dimension == "personal_fit"]
    for one in fit:
        preferred = plan.item[one.item].preferred
        assert one.label.endswith("first" if preferred == 0 else "second")
    assert {one.round for one in fit} == {1, 2}
    assert {one.item for one in fit} == {item.id for item in plan.items if item.kind == "item"}


def test_people_who_say_the_same_agree_and_others_do_not() -> None:
    plan = pair_plan(12, each=3)
    alike = agreed(
        "p", labels_of(plan, rehearsed(plan, RehearsalWorld(likeness=0.98, lean=0.0))), Policies(), resamples=200
    )
    apart = agreed(
        "p", labels_of(plan, rehearsed(plan, RehearsalWorld(likeness=0.0, lean=0.0))), Policies(), resamples=200
    )
    values = [
        {(part.arm, part.dimension): part.coefficients[0].estimate for part in found.parts if not part.domain}
        for found in (alike, apart)
    ]
    for key in (("narrative", "factuality"), ("posts", "helpfulness")):
        high, low = values[0][key], values[1][key]
        assert high is not None
        assert low is not None
        assert high.value > 0.9
        assert low.value < 0.45


def test_policies_change_the_scale_and_are_named_with_counts() -> None:
    labels = [Label(f"i{n // 2:02}", "ab"[n % 2], said) for n, said in enumerate(["first", "equal", "", "second"] * 12)]
    kept = agreed("f", labels, Policies(), declared=Scaled(("first", "equal", "second"), "ordinal"))
    assert kept.policies == ("ties: kept as a label of their own (12 labels)", "cannot tell: left out (12 labels)")
    tie = agreed("f", labels, Policies(cannot_tell="tie"), declared=Scaled(("first", "equal", "second"), "ordinal"))
    assert [found.parts[0].labels for found in (kept, tie)] == [36, 48]
    assert tie.policies[1] == "cannot tell: counted as ties (12 labels)"
    with pytest.raises(PluralrmError, match="no item has two labels"):
        agreed("f", labels, Policies(ties="left_out"), declared=Scaled(("first", "equal", "second"), "ordinal"))


def test_merged_slight_preferences_agree_more() -> None:
    plan = pair_plan(8)
    labels = labels_of(plan, rehearsed(plan, RehearsalWorld(fit=1.0, ties=0.0)))
    shares = []
    for policies in (Policies(), Policies(slight="merged")):
        part = next(
            one for one in agreed("p", labels, policies, resamples=200).parts if one.dimension == "personal_fit"
        )
        estimate = part.coefficients[0].estimate
        assert estimate is not None
        shares.append(estimate.value)
    assert shares[0] < shares[1] == 1.0


# ---------------------------------------------------------------- files


def test_any_csv_with_item_annotator_and_label_has_its_agreement(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(CSV)
    told = run("agreement", file)
    assert "22 labels of 12 items by 2 annotators" in told
    assert "cannot tell: left out (2 labels)" in told
    found = json.loads(run("agreement", file, "--json"))["agreement"][0]
    assert found["percent"]["value"] == 0.8
    assert found["kappa"]["value"] == pytest.approx((0.8 - 0.5) / 0.5)
    assert found["kappa"]["failed"] == 2


def test_ratings_that_are_equal_everywhere_have_an_interval(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text("item,annotator,label\n" + "".join(f"{n},{who},4\n" for n in range(30) for who in "abc"))
    [share] = [one["percent"] for one in json.loads(run("agreement", file, "--json"))["agreement"]]
    assert (share["low"], share["high"]) == (pytest.approx(0.025 ** (1 / 30)), 1.0)
    told = run("agreement", file, "--labels", "1,2,3,4,5", "--scale", "interval")
    assert "1.00 [0.88, 1.00]" in told
    assert "exact, the same in all of 30" in " ".join(told.split())


def test_numbers_are_an_interval_scale_unless_told(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_text(
        "item,annotator,label\n"
        + "".join(f"{n},{who},{(n * k) % 10}\n" for n in range(20) for who, k in (("a", 3), ("b", 7)))
    )
    assert "alpha, interval" in run("agreement", file)
    assert "alpha, interval" not in run("agreement", file, "--scale", "nominal")


def test_labels_of_a_plan_read_back_from_csv_or_jsonl_have_the_same_agreement(tmp_path: Path) -> None:
    plan = make_plan(fours(), PlanRequest(12, each=2), key="k")
    labels = labels_of(plan, rehearsed(plan, RehearsalWorld()))
    whole = agreed("x", labels, Policies(), resamples=200)
    for name, text in (("l.csv", csv_text(rows_of(labels))), ("l.jsonl", jsonl_text(rows_of(labels)))):
        (tmp_path / name).write_text(text)
        assert agreed("x", read_labels(tmp_path / name), Policies(), resamples=200) == whole


@given(st.text())
def test_a_guarded_cell_comes_back_and_is_no_formula(text: str) -> None:
    assert unguarded(guarded(text)) == text
    assert not guarded(text).startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("item,label\n1,yes\n", "no column 'annotator'"),
        ("item,annotator,label\n1,a,yes\n1,a,no\n", r":3: annotator: found 'a' on '1' again"),
        ("item,annotator,label\n1,a\n", r":2: \(row\): found 2 cells, wanted 3"),
        ("item,annotator,label\n,a,yes\n", r":2: item: found an empty text, wanted a name"),
        ("item,annotator,label\n1,a,\n", "found no label"),
        ("item,annotator,label,round\n1,a,yes,x\n", "round: found 'x'"),
        ("item,annotator,label\n1,a,yes\n2,b,no\n", "no item has two labels"),
    ],
)
def test_a_file_that_does_not_fit_says_where_and_what(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(text)
    with pytest.raises(PluralrmError, match=told):
        run("agreement", file)


# ---------------------------------------------------------------- the verb on a plan


def test_a_rehearsal_says_that_nobody_judged(tmp_path: Path) -> None:
    plan, folder, file = pair_plan(), tmp_path / "plan", tmp_path / "drawn.jsonl"
    write_plan(plan, folder)
    with pytest.raises(PluralrmError, match="no judgments yet"):
        run("agreement", folder)
    run("rehearse", folder, "-o", file)
    told = run("agreement", folder, "--judgments", file)
    assert "REHEARSAL: these judgments are simulated" in told
    assert json.loads(run("agreement", folder, "--judgments", file, "--json"))["rehearsal"] is True
    with pytest.raises(PluralrmError, match="is there already"):
        run("rehearse", folder, "-o", file)


def test_who_fails_the_checks_can_be_left_out(tmp_path: Path) -> None:
    plan, folder = pair_plan(), tmp_path / "plan"
    write_plan(plan, folder)

    def careless(one: Judgment) -> Judgment:
        """Return what a01 says, who finds a check's answers equal."""
        mine = one.annotator == "a01" and plan.screen[one.handle].kind == "check"
        return (
            replace(one, answers=replace(one.answers, overall="equal"))
            if mine and isinstance(one.answers, PairAnswers)
            else one
        )

    judgments = rehearsed(plan, RehearsalWorld())
    lines = [judgment_line(careless(one)) for one in judgments]
    (tmp_path / "said.jsonl").write_text("\n".join(lines) + "\n")
    everyone, some = (
        json.loads(run("agreement", folder, "--judgments", tmp_path / "said.jsonl", "--attention", least, "--json"))
        for least in ("0", "1")
    )
    assert [found["agreement"][0]["annotators"] for found in (everyone, some)] == [4, 3]
    assert "a01" not in some["between"][0]["with_others"]
    assert some["policies"][-1] == "left out for passing less than 100% of attention checks: a01"


def test_the_plan_says_who_is_left_out_unless_told(tmp_path: Path) -> None:
    plan, folder, file = pair_plan(), tmp_path / "plan", tmp_path / "said.jsonl"
    write_plan(plan, folder)
    run("rehearse", folder, "-o", file)
    told = json.loads(run("agreement", folder, "--judgments", file, "--json"))
    assert told["policies"][-1] == "left out for passing less than 80% of attention checks: none"


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_exported_labels_of_a_rehearsal_still_say_so(tmp_path: Path, ending: str) -> None:
    plan, drawn = pair_plan(), rehearsed(pair_plan(), RehearsalWorld())
    for name, judgments in (("drawn", drawn), ("made", [replace(one, at="2026-01-01") for one in drawn])):
        rows = rows_of(labels_of(plan, judgments))
        (tmp_path / f"{name}.{ending}").write_text((csv_text if ending == "csv" else jsonl_text)(rows))
    assert "REHEARSAL" in run("agreement", tmp_path / f"drawn.{ending}")
    assert "REHEARSAL" not in run("agreement", tmp_path / f"made.{ending}")


def test_cannot_tell_is_a_tie_only_where_a_tie_can_be_said() -> None:
    rows = [("1", "ann", "a"), ("1", "bob", ""), ("2", "ann", "tie"), ("2", "bob", "tie")]
    compared = [Label(item, name, label, "overall") for item, name, label in rows]
    scored = [
        Label("1", "ann", "4", "score"),
        Label("1", "bob", "", "score"),
        Label("2", "ann", "3", "score"),
        Label("2", "bob", "3", "score"),
    ]
    found = agreed("f", [*compared, *scored], Policies(cannot_tell="tie"), resamples=200)
    assert [part.labels for part in found.parts] == [4, 3]
    assert found.policies[1:] == (
        "cannot tell: counted as ties (1 label)",
        "cannot tell where no label is a tie: left out (1 label)",
    )


def test_a_word_among_numbers_is_refused_and_not_taken_for_labels_without_an_order(tmp_path: Path) -> None:
    rows = [f"{item},{name},{label}" for item in range(12) for name, label in (("ann", item % 3), ("bob", item % 2))]
    (tmp_path / "f.csv").write_text("\n".join(["item,annotator,label", *rows, "12,ann,NA"]) + "\n")
    with pytest.raises(PluralrmError, match="numbers and 'NA' is none: leave such cells blank"):
        run("agreement", tmp_path / "f.csv")


def test_two_different_first_judgments_of_a_screen_are_refused(tmp_path: Path) -> None:
    plan, folder = pair_plan(), tmp_path / "plan"
    write_plan(plan, folder)
    one, other = (rehearsed(plan, RehearsalWorld(), seed=seed) for seed in (0, 1))
    (tmp_path / "twice.jsonl").write_text("".join(f"{judgment_line(said)}\n" for said in [*one, *one]))
    run("agreement", folder, "--judgments", tmp_path / "twice.jsonl")  # the same again is the same
    (tmp_path / "both.jsonl").write_text("".join(f"{judgment_line(said)}\n" for said in [*one, *other]))
    with pytest.raises(PluralrmError, match=r"two different judgments of .* with the revision 1"):
        run("agreement", folder, "--judgments", tmp_path / "both.jsonl")


def test_a_share_of_checks_is_compared_as_a_share() -> None:
    plan = pair_plan(checks=20)
    drawn = rehearsed(plan, RehearsalWorld())
    checks = [one.handle for one in drawn if plan.screen[one.handle].kind == "check" and one.annotator == "a01"]
    wrong = set(checks[11:])  # 11 of 20 are right, and 0.55 * 20 is 11.000000000000002

    def said(one: Judgment) -> Judgment:
        assert isinstance(one.answers, PairAnswers)
        return replace(one, answers=replace(one.answers, overall="equal")) if one.handle in wrong else one

    assert inattentive(plan, map(said, drawn), 0.55) == set()
    assert inattentive(plan, map(said, drawn), 0.56) == {"a01"}


def test_judgments_of_another_plan_are_refused(tmp_path: Path) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    lines = [judgment_line(one) for one in rehearsed(pair_plan(key="another"), RehearsalWorld())]
    (tmp_path / "said.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(PluralrmError, match="no screen of this plan"):
        run("agreement", tmp_path / "plan", "--judgments", tmp_path / "said.jsonl")
