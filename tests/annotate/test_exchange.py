"""Files in and out: nothing is lost on the way, nothing leaves that an annotator must not know."""

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pluralrm.annotate.exchange import (
    ScreenAnswers,
    answers_from,
    argilla_records,
    form,
    from_argilla,
    from_label_studio,
    judgments_given,
    label_studio_config,
    label_studio_tasks,
    own_preferences,
    values_of,
)
from pluralrm.annotate.judgments import (
    CHOICES,
    FitScores,
    FourAnswers,
    GeneralScores,
    Judgment,
    PairAnswers,
    answers_of,
    answers_text,
    check_judgment,
    judgment_line,
    read_judgments,
)
from pluralrm.annotate.plan import DIMENSIONS, AnnotationPlan, write_plan
from pluralrm.annotate.planner import PlanRequest, make_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, is_rehearsal, rehearsed
from pluralrm.benchmarks import load_benchmark
from pluralrm.cli import app
from pluralrm.errors import PlanError, PluralrmError, RowError
from tests.annotate.plans import fours, pair_plan

choices = st.sampled_from(CHOICES)
ratings = st.one_of(st.none(), st.integers(1, 5))


def _pair_answers(kind: type[GeneralScores], rated: int) -> st.SearchStrategy[PairAnswers]:
    scores = st.builds(kind, *[ratings] * rated)
    return st.builds(
        PairAnswers,
        *(choices for _ in range(5)),
        scores_a=scores,
        scores_b=scores,
        decided=st.one_of(st.none(), st.sampled_from(DIMENSIONS)),
        comment=st.text(max_size=40),
    )


pair_answers = st.one_of(_pair_answers(FitScores, 4), _pair_answers(GeneralScores, 3))
four_answers = st.builds(
    FourAnswers,
    st.sampled_from(["A", "B", "C", "D", "cannot_tell"]),
    st.sampled_from(["none", "one", "several"]),
    st.integers(1, 5),
    st.one_of(st.none(), st.sampled_from(["yes", "no", "cannot_tell"])),
    st.text(max_size=40),
)


def run(*args: str | Path) -> str:
    found = CliRunner().invoke(app, ["annotate", *map(str, args)])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.stdout


def four_plan() -> AnnotationPlan:
    return make_plan(fours(), PlanRequest(12, each=2), key="k")


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_a_rehearsal_comes_back_from_another_tool_as_a_rehearsal(tmp_path: Path, tool: str) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    run("rehearse", tmp_path / "plan", "-o", tmp_path / "drawn.jsonl")
    drawn = ("--judgments", tmp_path / "drawn.jsonl")
    assert "REHEARSAL" in run("export", tmp_path / "plan", *drawn, "--to", tool, "-o", tmp_path / "there.json")
    run("import", tmp_path / "there.json", "--plan", tmp_path / "plan", "--from", tool, "-o", tmp_path / "back.jsonl")
    assert is_rehearsal(read_judgments(pair_plan(), tmp_path / "back.jsonl"))


def test_a_screen_that_two_people_judged_in_label_studio_is_nobodys() -> None:
    plan = pair_plan()
    task = json.loads(json.dumps(label_studio_tasks(plan, rehearsed(plan, RehearsalWorld()), plan.screens[:1])))[0]
    [first] = task["annotations"]

    def found(*people: object) -> list[ScreenAnswers]:
        annotations = [first | {"completed_by": one, "created_at": f"{at}"} for at, one in enumerate(people)]
        return from_label_studio(json.dumps([{**task, "annotations": annotations}]), "f.json")

    assert len(found(7, {"id": 7, "email": "ann@example.org"})) == 2  # judged, and judged again
    with pytest.raises(PlanError, match="was answered by 2 users, wanted one"):
        found(7, 8)


def test_who_fails_the_checks_has_no_preferences_of_their_own(tmp_path: Path) -> None:
    plan = make_plan(load_benchmark("pocket-prb"), PlanRequest(4, each=2, mode="own", items=20), key="k")

    def careless(one: Judgment) -> Judgment:
        if one.annotator != "a02" or plan.screen[one.handle].kind != "check":
            return one
        assert isinstance(one.answers, PairAnswers)
        return replace(one, answers=replace(one.answers, overall="equal"))

    found = own_preferences(plan, map(careless, rehearsed(plan, RehearsalWorld())))
    assert {row["user_id"] for row in found.rows} == {"a01", "a03", "a04"}
    write_plan(plan, tmp_path / "plan")
    lines = [judgment_line(careless(one)) for one in rehearsed(plan, RehearsalWorld())]
    (tmp_path / "said.jsonl").write_text("\n".join(lines) + "\n")
    said = ("--judgments", tmp_path / "said.jsonl")
    told = run("export", tmp_path / "plan", *said, "--to", "own", "-o", tmp_path / "own.jsonl")
    assert "left out for passing less than 80% of attention checks: a02" in " ".join(told.split())


def test_only_the_files_that_are_written_have_to_be_new(tmp_path: Path) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    drawn = ("--judgments", tmp_path / "drawn.jsonl")
    run("rehearse", tmp_path / "plan", "-o", tmp_path / "drawn.jsonl")
    run("export", tmp_path / "plan", *drawn, "--to", "label-studio", "-o", tmp_path / "said.json")
    run("export", tmp_path / "plan", *drawn, "--to", "csv", "-o", tmp_path / "said.csv")  # beside said.xml
    with pytest.raises(PluralrmError, match=r"name a file that does not end in \.xml"):
        run("export", tmp_path / "plan", *drawn, "--to", "label-studio", "-o", tmp_path / "other.xml")


# ---------------------------------------------------------------- answers


@given(st.one_of(pair_answers, four_answers))
def test_answers_come_back_from_json_and_from_single_values(answers: PairAnswers | FourAnswers) -> None:
    assert answers_of(answers_text(answers)) == answers
    rates = isinstance(answers, PairAnswers) and answers.rates_fit
    declared = replace(pair_plan().declared, task=answers.task, rating_margin=0.5 if rates else None)
    assert answers_from(declared, values_of(answers)) == answers


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"task": "pair"}', "overall"),
        ('{"task": "three"}', "answers"),
        (answers_text(FourAnswers("A", "one", 3, None)).replace(":3", ":6"), "naturalness"),
        (answers_text(FourAnswers("A", "one", 3, None)).replace(":3", ':"3"'), "naturalness"),
        (answers_text(FourAnswers("A", "one", 3, None)).replace('"task"', '"label":1,"task"'), "label"),
        ("not json", "answers"),
    ],
)
def test_answers_that_do_not_fit_are_told_by_field(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        answers_of(text)


def test_a_rating_of_fit_that_the_plan_does_not_ask_for_is_refused_and_so_is_one_that_is_missing() -> None:
    plan = pair_plan()
    older = replace(plan, declared=replace(plan.declared, rating_margin=None))
    for asked, answered, told in ((plan, older, "no rating of each"), (older, plan, "a rating of each")):
        judgment = rehearsed(answered, RehearsalWorld())[0]
        check_judgment(answered, judgment)
        with pytest.raises(PlanError, match=f"with {told} answer's personal fit: wanted"):
            check_judgment(asked, judgment)


def test_a_rating_that_does_not_fit_is_told_by_its_field() -> None:
    [text] = {answers_text(one.answers) for one in rehearsed(pair_plan(), RehearsalWorld())[:1]}
    said = json.loads(text)
    said["scores_a"]["personal_fit"] = 6
    with pytest.raises(ValueError, match=r"^scores_a\.personal_fit: Input should be less than or equal to 5"):
        answers_of(json.dumps(said))
    del said["scores_a"]["personal_fit"]
    said["scores_a"]["relevance"] = 0
    with pytest.raises(ValueError, match=r"^scores_a\.relevance: "):
        answers_of(json.dumps(said))


def test_a_line_that_is_no_judgment_is_told_by_place(tmp_path: Path) -> None:
    plan = pair_plan()
    good = judgment_line(rehearsed(plan, RehearsalWorld())[0])
    bad = good.replace('"revision":1', '"revision":"x"')
    (tmp_path / "said.jsonl").write_text(f"{good}\n{bad}\n")
    with pytest.raises(RowError, match=r"said.jsonl:2: revision: found x"):
        read_judgments(plan, tmp_path / "said.jsonl")


# ---------------------------------------------------------------- Label Studio, Argilla


@pytest.mark.parametrize(
    ("rows_of", "read"), [(label_studio_tasks, from_label_studio), (argilla_records, from_argilla)]
)
@pytest.mark.parametrize("make", [pair_plan, four_plan])
def test_judgments_come_back_from_the_tool_that_they_went_to(
    rows_of: Callable[..., object], read: Callable[[str, str], list[ScreenAnswers]], make: object
) -> None:
    plan: AnnotationPlan = make()  # type: ignore[operator]
    said = rehearsed(plan, RehearsalWorld())
    rows = rows_of(plan, said, plan.screens)
    back = judgments_given(plan, read(json.dumps(rows), "f"), "f")
    assert {one.handle: one.answers for one in back} == {one.handle: one.answers for one in said}
    assert {one.annotator for one in back} == {one.id for one in plan.annotators}


@pytest.mark.parametrize("make", [pair_plan, four_plan])
def test_what_leaves_before_anybody_has_judged_has_no_id_and_no_label(make: object) -> None:
    plan: AnnotationPlan = make()  # type: ignore[operator]
    secret = {item.id for item in plan.items} | {item.cluster for item in plan.items}
    secret |= {name for item in plan.items for name in item.candidate_ids}
    rows = [*label_studio_tasks(plan, [], plan.screens), *argilla_records(plan, [], plan.screens)]
    for row in rows:
        texts = row.get("data") or row["fields"]
        assert isinstance(texts, dict)
        left = {key: value for key, value in texts.items() if key in {"handle", "annotator", "number"}}
        told = json.dumps([left, row.get("metadata"), row.get("responses"), row.get("annotations"), row.get("id")])
        assert not any(f'"{word}"' in told for word in secret)
        assert set(texts) <= {"handle", "annotator", "number", "prompt", "narrative", "posts", "paraphrases"} | {
            f"answer_{letter}" for letter in "abcd"
        }


@pytest.mark.parametrize("make", [pair_plan, four_plan])
def test_the_configuration_asks_every_question_about_a_text_that_is_there(make: object) -> None:
    plan: AnnotationPlan = make()  # type: ignore[operator]
    view = ET.fromstring(label_studio_config(plan))  # noqa: S314 - our own text
    names = {part.get("name") for part in view if part.tag == "Text"}
    data = label_studio_tasks(plan, [], plan.screens[:1])[0]["data"]
    assert {part.get("value") for part in view if part.tag == "Text"} == {f"${name}" for name in names}
    assert names <= set(data)  # type: ignore[call-overload]
    controls = {part.get("name"): part for part in view if part.get("toName")}
    assert set(controls) == {asked.name for asked in form(plan.declared)}
    assert all(part.get("toName") in names for part in controls.values())
    assert [choice.get("alias") for choice in controls["best" if plan.declared.task == "four" else "overall"]] == list(
        form(plan.declared)[0].options
    )


def test_a_skipped_task_is_no_judgment_and_a_second_annotation_is_a_revision() -> None:
    plan = pair_plan()
    said = rehearsed(plan, RehearsalWorld())
    rows = label_studio_tasks(plan, said, plan.screens[:2])
    first, second = (row["annotations"][0] for row in rows)  # type: ignore[index]
    rows[0]["annotations"] = [{**second, "created_at": "2026-02"}, {**first, "created_at": "2026-01"}]
    rows[1]["annotations"] = [{**second, "was_cancelled": True}]
    back = judgments_given(plan, from_label_studio(json.dumps(rows), "f"), "f")
    assert [(one.handle, one.revision) for one in back] == [(plan.screens[0].handle, 1), (plan.screens[0].handle, 2)]
    assert back[0].answers == next(one.answers for one in said if one.handle == plan.screens[0].handle)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "wanted a JSON list"),
        ("nonsense", "not JSON"),
        ('[{"data": {}}]', "handle"),
        ('[{"data": {"handle": "x"}, "annotations": [{"result": []}]}]', "'x' is no screen of this plan"),
        ("[]", "found no answers"),
    ],
)
def test_a_file_of_another_tool_or_plan_is_told(tmp_path: Path, text: str, told: str) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(PluralrmError, match=told):
        run("import", tmp_path / "f.json", "--plan", tmp_path / "plan", "--from", "label-studio", "-o", tmp_path / "o")


def test_answers_that_are_not_whole_are_told_with_their_screen() -> None:
    plan = pair_plan()
    handle = plan.screens[0].handle
    with pytest.raises(PlanError, match=f"screen '{handle}': overall"):
        judgments_given(plan, [ScreenAnswers(handle, {"factuality": "a"})], "f")
    with pytest.raises(PlanError, match="no question of the task 'pair'"):
        judgments_given(plan, [ScreenAnswers(handle, {"best": "A"})], "f")


def test_a_record_that_two_users_answered_is_nobodys() -> None:
    plan = pair_plan()
    rows = argilla_records(plan, rehearsed(plan, RehearsalWorld()), plan.screens[:1])
    responses = rows[0]["responses"]
    assert isinstance(responses, dict)
    responses["overall"] = [*responses["overall"], {"value": "a", "user_id": "someone"}]
    with pytest.raises(PlanError, match="was answered by 2 users"):
        from_argilla(json.dumps(rows), "f")


# ---------------------------------------------------------------- own preferences


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 100), test=st.floats(0.05, 0.95))
def test_every_preference_is_a_row_and_no_prompt_is_both_context_and_item(seed: int, test: float) -> None:
    plan = pair_plan(mode="own")
    found = own_preferences(plan, rehearsed(plan, RehearsalWorld(), seed=seed), test=test, seed=seed)
    judged = sum(screen.kind == "item" for screen in plan.screens)
    assert len(found.rows) + found.left_out == judged
    splits: dict[tuple[object, str], set[object]] = {}
    for row in found.rows:
        splits.setdefault((row["user_id"], str(row["context"])), set()).add(row["split"])
    assert all(len(split) == 1 for split in splits.values())
    for annotator in plan.annotators:
        assert {row["split"] for row in found.rows if row["user_id"] == annotator.id} == {"train", "test"}


@pytest.mark.parametrize("benchmark", ["pocket-prb", "pocket-rmgap"])
def test_what_people_prefer_themselves_is_a_benchmark_of_users(tmp_path: Path, benchmark: str) -> None:
    run("plan", benchmark, "--mode", "own", "-n", "6", "-k", "2", "-o", tmp_path / "plan")
    run("rehearse", tmp_path / "plan", "-o", tmp_path / "said.jsonl")
    run(
        "export", tmp_path / "plan", "--judgments", tmp_path / "said.jsonl", "--to", "own", "-o", tmp_path / "own.jsonl"
    )
    bench = load_benchmark(f"personal-rb:{tmp_path / 'own.jsonl'}")
    assert len({item.cluster for item in bench.items}) == 6
    assert all(item.user is not None and item.user.preferences for item in bench.items)


def test_judgments_for_others_are_no_preferences_of_ones_own() -> None:
    plan = pair_plan()
    with pytest.raises(PlanError, match="--mode own"):
        own_preferences(plan, rehearsed(plan, RehearsalWorld()))


# ---------------------------------------------------------------- the verb


def test_csv_of_hostile_texts_has_no_formula(tmp_path: Path) -> None:
    from pluralrm.annotate.labels import Label, read_labels, rows_of
    from pluralrm.text import csv_text

    labels = [Label(f"=cmd|{n}", f"+a{n % 2}", "-1" if n % 2 else "@x", domain="\tx") for n in range(4)]
    (tmp_path / "l.csv").write_text(csv_text(rows_of(labels)))
    with (tmp_path / "l.csv").open(newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert not any(re.match(r"[=+\-@\t\r]", cell) for cell in cells)
    back = read_labels(tmp_path / "l.csv")
    assert [(one.item, one.annotator, one.label) for one in back] == [(o.item, o.annotator, o.label) for o in labels]


def test_every_format_is_written_once_and_judgments_read_back_whole(tmp_path: Path) -> None:
    plan, folder, said = pair_plan(), tmp_path / "plan", tmp_path / "said.jsonl"
    write_plan(plan, folder)
    run("rehearse", folder, "-o", said)
    for to in ("judgments", "csv", "jsonl", "label-studio", "argilla"):
        run("export", folder, "--judgments", said, "--to", to, "-o", tmp_path / f"{to}.out")
        assert (tmp_path / f"{to}.out").stat().st_size > 1_000
    assert (tmp_path / "label-studio.xml").exists()
    assert (tmp_path / "judgments.out").read_text() == said.read_text()
    with pytest.raises(PluralrmError, match="is there already"):
        run("export", folder, "--judgments", said, "--to", "csv", "-o", tmp_path / "csv.out")
    with pytest.raises(PluralrmError, match=r"--to 'csb'. Did you mean 'csv'"):
        run("export", folder, "--judgments", said, "--to", "csb", "-o", tmp_path / "x")


def test_screens_of_one_annotator_are_exported_alone(tmp_path: Path) -> None:
    write_plan(pair_plan(), tmp_path / "plan")
    run("export", tmp_path / "plan", "--to", "argilla", "--annotator", "a03", "-o", tmp_path / "a03.json")
    rows = json.loads((tmp_path / "a03.json").read_text())
    assert {row["metadata"]["annotator"] for row in rows} == {"a03"}
    assert len(rows) == len(pair_plan().by_annotator["a03"])
