"""The steps: each resumes from its own folder, a broken model costs its own cells, an outage stays open."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pluralrm.errors import PluralrmError, RunError, StudyError
from pluralrm.http import Settings
from pluralrm.progress import JobStep, NoDisplay
from pluralrm.runs import find_runs, load_run
from pluralrm.study import declare, study
from pluralrm.study.parts import StudyContext
from pluralrm.study.steps import work
from tests.fake_chat import Action, FakeChat, Seen, say, status
from tests.grading.markers import by_words, marked
from tests.study.studies import MODELS, WORLD, asked, counted, data, done, report, small, worked

BROKEN = "python:tests.study.studies:Broken"


def test_doing_it_again_asks_nothing_and_changes_no_byte(tmp_path: Path) -> None:
    models = [counted(tmp_path / "asked.txt"), "longest", "bm25"]
    done(tmp_path / "out", models=models)
    first, before = report(tmp_path / "out"), asked(tmp_path / "asked.txt")
    assert len(before) == 20 + 20  # the benchmark's items, and the answers to each
    done(tmp_path / "out", models=models)
    assert report(tmp_path / "out") == first
    assert asked(tmp_path / "asked.txt") == before


def test_one_more_model_is_scored_and_no_other(tmp_path: Path) -> None:
    first, second = counted(tmp_path / "first.txt"), counted(tmp_path / "second.txt")
    worked(tmp_path / "out", models=[first, "longest"])
    before = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*.jsonl")}
    found = worked(tmp_path / "out", models=[first, "longest", second])
    assert len(asked(tmp_path / "first.txt")) == len(asked(tmp_path / "second.txt")) == 40
    assert {file: file.read_bytes() for file in before} == before
    assert len(found.runs) == 3


def test_a_new_point_of_the_curve_asks_nothing(tmp_path: Path) -> None:
    models = [counted(tmp_path / "asked.txt"), "longest"]
    worked(tmp_path / "out", models=models)
    found = worked(tmp_path / "out", models=models, best_of_n={"k": [1, 3, 4]}, correlate={"k": [3, 4]})
    assert len(asked(tmp_path / "asked.txt")) == 40
    assert found.picked is not None
    assert (found.picked.found.ks, found.picked.points) == ((1, 3, 4), (3, 4))


def test_more_answers_are_another_pool_and_the_benchmark_is_not_scored_again(tmp_path: Path) -> None:
    models = [counted(tmp_path / "asked.txt"), "longest"]
    worked(tmp_path / "out", models=models)
    worked(tmp_path / "out", models=models, best_of_n={"n": 6})
    assert len(asked(tmp_path / "asked.txt")) == 20 + 20 + 20
    assert len(list((tmp_path / "out" / "pools").iterdir())) == 2


def test_a_model_in_fresh_is_scored_from_the_start_and_no_other(tmp_path: Path) -> None:
    models = [counted(tmp_path / "first.txt"), counted(tmp_path / "second.txt")]
    worked(tmp_path / "out", models=models)
    worked(tmp_path / "out", models=models, fresh=models[1:])
    assert (len(asked(tmp_path / "first.txt")), len(asked(tmp_path / "second.txt"))) == (40, 80)


def test_a_policy_in_fresh_draws_its_answers_anew(tmp_path: Path) -> None:
    models = [counted(tmp_path / "asked.txt")]
    first = worked(tmp_path / "out", models=models)
    again = worked(tmp_path / "out", models=models, fresh=["simulated"])
    assert first.picked is not None
    assert again.picked is not None
    assert again.picked.pool.content_hash == first.picked.pool.content_hash
    manifests = [path.read_text() for path in (tmp_path / "out").rglob("pool.json")]
    assert len(manifests) == 1
    assert len(asked(tmp_path / "asked.txt")) == 40, "equal answers are not scored again"


def test_another_code_of_a_model_is_refused_before_old_and_new_rows_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = (Path(__file__).parent / "studies.py").read_text()
    (tmp_path / "mine_to_change.py").write_text(code)
    models = ["python:mine_to_change:Counted", "longest"]
    worked(tmp_path / "out", models=models)
    (tmp_path / "mine_to_change.py").write_text(f"{code}\n# another one\n")
    with pytest.raises(RunError, match="--fresh"):
        worked(tmp_path / "out", models=models)


def test_a_broken_model_costs_its_own_cells_and_is_named(tmp_path: Path) -> None:
    result = done(tmp_path / "out", models=[BROKEN, *MODELS])
    assert [(one.why, one.step) for one in result.left] == [
        ("broken", f"simulated × {BROKEN} × raw:3"),
        ("broken", f"simulated-pool × {BROKEN} × raw:3"),
    ]
    assert "ZeroDivisionError" in result.left[0].reason
    assert result.correlation.report is not None
    assert result.correlation.report.cells[0].models == tuple(MODELS)
    _, page = report(tmp_path / "out")
    assert BROKEN.encode() in page
    assert b"ZeroDivisionError" in page
    assert not data(tmp_path / "out")["complete"]
    assert not [run for run in find_runs([tmp_path / "out"]) if load_run(run).model == BROKEN]


def test_what_cannot_be_is_left_out_by_name(tmp_path: Path) -> None:
    found = worked(tmp_path, models=["longest", "lsa"], conditions=["none", "raw:3"])
    assert [(one.why, one.step) for one in found.left] == [
        ("skipped", "simulated × lsa × none"),
        ("skipped", "simulated-pool × lsa × none"),
    ]
    assert found.open == []


def test_a_score_goes_with_the_picks_under_its_own_condition_and_the_report_says_what_is_left_out(
    tmp_path: Path,
) -> None:
    models = ["longest", "bm25", "known:taste"]
    result = done(tmp_path, models=models, conditions=["none", "raw:3"], best_of_n={"see": ["raw:3"]})
    report = result.correlation.report
    assert report is not None
    assert [cell.benchmark for cell in report.cells] == ["simulated raw:3"]
    assert any("simulated none" in note for note in report.notes)
    assert "simulated none, for no model picks under none" in (tmp_path / "study.html").read_text()


def _served(url: str) -> dict[str, object]:
    """Return a study in which a judge picks and another one grades, on answers from a file."""
    judge = f"judge:m,style=pointwise,url={url}"
    return {
        "benchmarks": ["pocket-prb"],
        "limit": 4,
        "models": [judge, "longest", "bm25", "shortest"],
        "conditions": ["raw:2"],
        "best_of_n": {"policy": f"chat:p,url={url}", "n": 3, "limit": 4, "grader": f"joint:g,url={url}"},
    }


@pytest.mark.parametrize("failing", ["m", "p", "g"])
def test_an_outage_stays_open_and_ends_in_the_same_bytes(failing: str, tmp_path: Path) -> None:
    """A judge, the policy or the grader does not answer for a while."""
    down = {failing}

    def sometimes(seen: Seen) -> Action:
        if seen.body["model"] in down:
            return status(500)
        if "top_p" in seen.body:
            return say(f"Rye, {'very ' * (seen.body['seed'] % 3)}slowly, says {seen.body['seed']}.")
        prompt = str(seen.body["messages"][0]["content"])
        if "from 1 to 10" in prompt:
            return say(str(1 + len(prompt) % 10))
        return say(marked(prompt, by_words))

    with FakeChat(sometimes) as server:
        declared = small(**_served(server.url))
        settings = Settings(attempts=1)
        found = work(declared, StudyContext(tmp_path / "out", settings))
        assert {one.why for one in found.left} == {"open"}
        assert (found.picked is None) == (failing != "m")
        down.clear()
        result = study(declared, out=tmp_path / "out", settings=settings)
        assert result.left == ()
        study(declared, out=tmp_path / "whole", settings=settings)
    assert report(tmp_path / "out") == report(tmp_path / "whole")


def test_answers_from_a_file_are_a_pool_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = worked(tmp_path / "out", models=["longest", "bm25"])
    assert drawn.picked is not None
    samples = [one for several in drawn.picked.pool.samples.values() for one in several]
    Path("mine.jsonl").write_text("".join(f"{json.dumps({'item': one.item, 'text': one.text})}\n" for one in samples))
    table = small(models=["longest", "bm25"]).to_json() | {"best-of-n": {"from": "mine.jsonl", "grader": "truth"}}
    given = study(declare(table), out=tmp_path / "given")
    assert given.picked is not None
    assert given.picked.found == drawn.picked.found


def test_grades_of_the_picks_alone_give_the_first_k(tmp_path: Path) -> None:
    models = ["longest", "known:posts"]
    exact = worked(tmp_path / "all", models=models)
    picks = worked(tmp_path / "picks", models=models, best_of_n={"grade": "selected"})
    assert exact.picked is not None
    assert picks.picked is not None
    assert not picks.picked.found.exact
    for whole, curve in zip(exact.picked.found.curves, picks.picked.found.curves, strict=True):
        assert [point.first and point.first.value for point in whole.points] == [
            point.grade.value for point in curve.points
        ]


def test_scores_alone_are_a_study_without_a_verdict(tmp_path: Path) -> None:
    result = study(declare({"benchmarks": ["pocket-rmgap"], "models": ["longest", "random"]}), out=tmp_path)
    assert result.verdicts == []
    assert [side.metric for side in result.benchmarks] == ["bon"]
    assert "no downstream result" in (tmp_path / "study.html").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"domains": ["Garden", "Kichen"]}, "domains: simulated has no 'Kichen'. Did you mean 'Kitchen'?"),
        ({"best_of_n": {"domains": ["x"]}}, "[best-of-n] domains: simulated has no 'x'."),
        ({"benchmarks": [WORLD, f"{WORLD},posts=20"]}, f"benchmarks: '{WORLD}' and '{WORLD},posts=20' have"),
        ({"models": ["lsa", "copy"], "conditions": ["none"]}, "nothing can be scored: lsa needs posts"),
        ({"conditions": ["raw:3", "raw:3,by=bm25"]}, "longest under raw:3 comes 2 times, in other words"),
        ({"benchmarks": ["pocket-prb"], "best_of_n": {"grader": "truth"}}, "[best-of-n] grader: pocket-prb is not sim"),
        ({"best_of_n": {"condition": "pairs:2", "benchmark": "pocket-prb"}}, "[best-of-n] condition: "),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_scored(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(PluralrmError) as found:
        worked(tmp_path / "out", **{"models": ["longest"], **changes})
    assert str(found.value).startswith(said)
    assert not (tmp_path / "out").exists()


def test_answers_that_cannot_be_read_are_told_before_anything_is_scored(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"item": "nobody", "text": "x"}\n')
    for name, said in (("none.jsonl", "no such file"), ("bad.jsonl", "item")):
        table = small().to_json() | {"best-of-n": {"from": str(tmp_path / name), "grader": "truth"}}
        with pytest.raises(PluralrmError, match=said):
            study(declare(table), out=tmp_path / "out")
        assert not list((tmp_path / "out").rglob("rows.jsonl"))


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "out" / "study.json").mkdir(parents=True)
    with pytest.raises(StudyError, match=r"cannot write to .* Name another place with -o"):
        done(tmp_path / "out", models=["longest", "bm25"])


class _Heard(NoDisplay):
    """Keeps which steps were expected, and which began."""

    def expect(self, steps: Sequence[JobStep]) -> None:
        self.expected = [step.title for step in steps]
        self.begun: list[str] = []

    def begin(self, title: str) -> None:
        self.begun.append(title)


def test_every_step_of_a_study_is_expected_before_the_first(tmp_path: Path) -> None:
    display = _Heard()
    work(small(models=["longest", "bm25"], conditions=["none", "raw:3"]), StudyContext(tmp_path, Settings(), display))
    assert display.begun == display.expected
    assert len(display.expected) == 4 + 1 + 4 + 1  # models are scored; answers are drawn, scored and graded
