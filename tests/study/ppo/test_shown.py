"""The page and the terminal about trainings: every number, seed and alarm is in them, and nothing in them acts."""

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pluralrm.cli.study import tell_trainings
from pluralrm.http import Settings
from pluralrm.study.page import study_page
from pluralrm.study.parts import StudyContext
from pluralrm.study.ppo.results import Alarmed
from pluralrm.study.result import StudyResult, result_of
from pluralrm.study.steps import work
from pluralrm.text import difference, interval, share
from pluralrm.training.measures import Alarm
from tests.report.folders import PAYLOADS
from tests.study.ppo.written import MODELS, declared, recipe, write, write_all
from tests.study.test_page import _text


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, told = tmp_path_factory.mktemp("study"), recipe()
    for training in told.trainings(folder):
        if (training.cell.reward, training.seed) != ("random", 1):
            write(told, training, constant=training.cell.reward == "longest" and training.seed == 1)
    return folder


@pytest.fixture(scope="module")
def result(out: Path) -> StudyResult:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "torch", None)  # what is on disk is read, and nothing is trained
        return result_of(declared(), work(declared(), StudyContext(out, Settings())), out)


@pytest.fixture(scope="module")
def page(result: StudyResult) -> str:
    return study_page(result)


def test_a_policy_has_its_grades_before_and_after_and_the_change_with_intervals(result: StudyResult, page: str) -> None:
    text, found = _text(page), result.trained
    assert found is not None
    assert len(found.trained) == len(MODELS)
    for one in found.trained:
        row = text[text.index(f"{one.reward} ", text.index("Mean grade of the test users")) :][:300]
        for told in (one.before, one.after.users):
            assert f"{share(told.value)} {interval(told)}" in row
        assert difference(one.change.users) in row
        assert difference(one.change.both) in row


def test_the_questions_of_another_benchmark_have_a_table_and_a_sentence_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {
        "models": list(MODELS[:2]),
        "ppo": {"evaluate-on": "simulated:users=24,items=2,domains=2", "n": 1},
    }
    write_all(recipe(**changes), tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    asked = declared(**changes)
    result = result_of(asked, work(asked, StudyContext(tmp_path, Settings())), tmp_path)
    text, found = _text(study_page(result)), result.trained
    assert found is not None
    [questions] = found.recipe.questions.values()
    sentence = (
        f"and the {len(questions.items)} questions of simulated ({questions.left_out} of users who are trained on or "
        "watched left out), graded by truth"
    )
    assert sentence in text
    for one in found.trained:
        assert one.on is not None
        row = text[text.index(f"{one.reward} ", text.index("Mean grade of the questions of simulated")) :][:300]
        assert f"{share(one.on.before.value)} {interval(one.on.before)}" in row
        assert difference(one.on.change.users) in row
        assert difference(one.on.change.both) in row
    assert "Best against worst under raw:3 on simulated: " in text
    tell_trainings(found)
    told = " ".join(capsys.readouterr().out.split())
    assert "rewarded under raw:3; the questions of simulated; grade in per cent" in told
    assert sentence in told


def test_every_seed_is_named_with_a_way_to_its_report(result: StudyResult, page: str, out: Path) -> None:
    links = re.findall(r'<a href="(ppo/[^"]+)">report</a>', page)
    assert result.trained is not None
    reports = [report for one in result.trained.trained for seed in one.seeds for report in seed.reports]
    assert sorted(links) == sorted(reports)
    assert len(links) == 7
    assert all((out / link).is_file() for link in links)


def test_an_alarm_is_said_with_its_seeds_and_what_is_not_whole_with_what_it_has(page: str) -> None:
    text = _text(page)
    assert "constant (seed 1)" in text
    assert text.index("Alarm: longest: constant (seed 1)") < text.index("the best downstream first")
    assert "every answer of the last 3 steps had the same reward" in text
    assert "random 1 of 2 seeds, in no column" in text
    assert "simulated ppo raw:3" in text


def test_the_best_stands_against_the_worst_in_a_sentence(result: StudyResult, page: str) -> None:
    assert result.trained is not None
    [apart] = result.trained.apart
    assert f"{apart.best} − {apart.worst} = {difference(apart.difference.users)} points" in _text(page)


def test_the_correlation_is_with_the_trained_policies_and_says_that_three_models_are_few(result: StudyResult) -> None:
    assert result.correlation.report is not None
    [cell] = result.correlation.report.cells
    assert cell.downstream == "simulated ppo raw:3"
    assert set(cell.models) == {*MODELS} - {"random"}
    assert cell["spearman"].exact
    assert cell["spearman"].orders == 6
    assert any("few" in warning or "3 models" in warning for warning in cell.warnings)
    assert cell.clusters == 20, "the users of the benchmark, of whom eight are asked in the end"


def test_an_upper_control_is_marked_wherever_it_stands(
    result: StudyResult, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result.trained
    assert found is not None
    assert "ORACLE" not in page
    first, *others = found.trained
    control = replace(first, manifest=first.manifest.model_copy(update={"shown_rubric": True}))
    told = replace(found, trained=(control, *others))
    marked = study_page(replace(result, trained=told))
    assert marked.count('class="alarm">longest · ORACLE</th>') > 3
    assert len(re.findall(r">longest ORACLE<", marked)) == 2, "the curves for a desk and for a phone"
    tell_trainings(told)
    assert "longest ORACLE" in capsys.readouterr().out


def test_names_and_reasons_are_text(result: StudyResult, page: str) -> None:
    found = result.trained
    assert found is not None
    [apart] = found.apart
    alarms = tuple(Alarmed(Alarm(payload, payload), payload) for payload in PAYLOADS)
    hostile = [
        replace(one, reward=payload, seeds=tuple(replace(seed, alarms=alarms) for seed in one.seeds))
        for one, payload in zip(found.trained, PAYLOADS, strict=False)
    ]
    told = replace(found, trained=tuple(hostile), apart=(replace(apart, best=PAYLOADS[0], worst=PAYLOADS[1]),))
    attacked = study_page(replace(result, trained=told))
    tags = r"<(script|img|svg|iframe|style|base|form|object|embed|link|meta)\b"
    assert Counter(re.findall(tags, attacked)) == Counter(re.findall(tags, page))
    assert not [payload for payload in PAYLOADS if "<" in payload and payload in attacked]


def test_the_terminal_tells_seeds_and_alarms_too(result: StudyResult, capsys: pytest.CaptureFixture[str]) -> None:
    assert result.trained is not None
    tell_trainings(result.trained)
    told = " ".join(capsys.readouterr().out.split())
    for one in result.trained.trained:
        assert f"{100 * one.before.value:.1f}" in told
        for seed in one.seeds:
            assert f"seed {seed.seed}: {share(seed.before)} -> {share(seed.after)}" in told
    assert "ALARM longest: constant (seed 1)" in told
    assert "random (1 of 2 seeds)" in told
    assert "Best against worst under raw:3" in told
