"""A judge beside annotators: its labels from a file, its picks from a run, and what of them goes together."""

import json
from pathlib import Path

import pytest

from pluralrm.annotate.labels import Label, read_labels, rows_of
from pluralrm.annotate.stand_in import LabelJudge, judges_in, parted, read_label_table, stand_ins
from pluralrm.core import Failure, Score
from pluralrm.errors import MetricError, RowError
from pluralrm.metrics.agreement import Scaled
from pluralrm.metrics.stand_in import StandInResult, StandInTerms
from tests.metrics.rows import row, run

TERMS = StandInTerms(fewest=2)


def _labels(table: dict[str, str], **changes: str) -> list[Label]:
    """annotator -> one letter per item; a dot is a missing label."""
    return [
        Label(f"q{number}", name, label.replace(".", ""), **changes)  # type: ignore[arg-type] # texts alone
        for name, labels in table.items()
        for number, label in enumerate(labels)
    ]


def _only(results: list[StandInResult]) -> StandInResult:
    (result,) = results
    return result


def test_an_annotator_of_the_file_may_be_the_judge() -> None:
    people, judge = parted(_labels({"ann": "aab.", "bob": "abba", "cyd": "aaba", "llm": "ab.b"}), "llm")
    result = _only(stand_ins("labels", people, judge, terms=TERMS))
    assert [(test.person, test.items) for test in result.people] == [("ann", 3), ("bob", 4), ("cyd", 4)]
    # ann: q0 both, q1 1/2 each, q2 no answer.
    assert (result.people[0].judge, result.people[0].own) == (2 / 3, 1.0)
    with pytest.raises(MetricError, match="Did you mean 'llm'"):
        parted(people + list(judge.labels), "lm")


def test_each_annotator_of_a_second_file_is_a_judge(tmp_path: Path) -> None:
    (tmp_path / "llm.json").write_text(json.dumps({"m1": {"q0": 1, "q1": None}, "m2": {"q0": 2.5}}))
    judges = judges_in(read_label_table(tmp_path / "llm.json"))
    assert [(judge.name, [label.label for label in judge.labels]) for judge in judges] == [
        ("m1", ["1", ""]),
        ("m2", ["2.5"]),
    ]
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(MetricError, match="cannot read"):
        read_label_table(tmp_path / "broken.json")


def test_certainty_is_read_and_changes_no_export(tmp_path: Path) -> None:
    (tmp_path / "llm.csv").write_text("item,annotator,label,certainty\nq0,llm,a,0.9\nq1,llm,b,\n")
    labels = read_labels(tmp_path / "llm.csv")
    assert [label.certainty for label in labels] == [0.9, None]
    assert "certainty" not in rows_of(labels)[0]
    (tmp_path / "llm.csv").write_text("item,annotator,label,certainty\nq0,llm,a,high\n")
    with pytest.raises(RowError, match="certainty"):
        read_labels(tmp_path / "llm.csv")


def test_ratings_that_are_no_numbers_and_repeats_are_no_answers() -> None:
    people = _labels({"ann": "135", "bob": "145", "cyd": "235"})
    again = [Label("q0", "ann", "5", round=2)]
    scale = Scaled(tuple("12345"), "interval", (1, 2, 3, 4, 5))
    judge = LabelJudge("llm", _labels({"llm": "1x?"}))
    result = _only(stand_ins("ratings", people + again, judge, declared=scale, terms=TERMS))
    assert [(test.items, test.judge) for test in result.people] == [(3, 1 / 3)] * 3
    assert result.risks[0].risk.failed == 6
    between = LabelJudge("llm", [Label("q0", "llm", "1.2"), Label("q1", "llm", "nan"), Label("q2", "llm", "5")])
    assert _only(stand_ins("ratings", people, between, terms=TERMS)).risks[0].risk.failed == 3


def test_arms_and_dimensions_are_data_sets_of_their_own() -> None:
    people = [
        *_labels({"ann": "ab", "bob": "ab"}, dimension="tone", arm="posts"),
        *_labels({"cyd": "ab", "dee": "aa"}, dimension="tone", arm="prompt"),
        *_labels({"cyd": "ab", "dee": "aa"}, dimension="facts", arm="prompt"),
        *_labels({"cyd": "ab", "dee": "aa"}, dimension="never judged", arm="prompt"),
    ]
    judge = LabelJudge("llm", [*_labels({"llm": "bb"}, dimension="tone"), *_labels({"llm": "ab"}, dimension="facts")])
    assert [result.data for result in stand_ins("f", people, judge, terms=TERMS)] == [
        "f, posts, tone",
        "f, prompt, tone",
        "f, prompt, facts",
    ]
    assert [result.data for result in stand_ins("f", people, judge, dimension="facts", terms=TERMS)] == [
        "f, prompt, facts"
    ]
    with pytest.raises(MetricError, match="judged no item that two people labelled, such as q0 and q1"):
        stand_ins("f", people, LabelJudge("llm", [Label("elsewhere", "llm", "a", dimension="tone")]), terms=TERMS)


@pytest.mark.parametrize(
    ("first", "second", "tie"), [("first", "second", "equal"), ("answer1", "answer2", "tie"), ("c0", "c1", "equal")]
)
def test_a_run_names_candidates_as_the_labels_do(first: str, second: str, tie: str) -> None:
    people = [
        Label(f"q{number}", name, label)
        for number, labels in enumerate([(first, first), (second, second), (tie, tie), (first, second)])
        for name, label in zip(("ann", "bob"), labels, strict=True)
    ]
    scores: list[tuple[Score, Score]] = [(2.0, 1.0), (2.0, 1.0), (1.0, 1.0), (Failure("parse", "?"), 1.0)]
    judge = LabelJudge("m", run=run([row(f"q{number}", pair) for number, pair in enumerate(scores)]))
    result = _only(stand_ins("f", people, judge, terms=TERMS))
    assert [(test.judge, test.own) for test in result.people] == [(0.5, 1.0)] * 2
    assert result.risks[0].risk.failed == 2


def test_slight_preferences_are_preferences_beside_a_run() -> None:
    people = [Label("q0", "ann", "slightly_second"), Label("q0", "bob", "second"), Label("q1", "ann", "first")]
    judge = LabelJudge("m", run=run([row("q0", (1.0, 2.0)), row("q9", (1.0, 2.0))]))
    result = _only(stand_ins("f", people, judge, terms=TERMS))
    assert [(test.items, test.judge, test.own) for test in result.people] == [(1, 1.0, 1.0)] * 2


def test_labels_that_name_no_candidate_are_refused() -> None:
    people = [Label("q0", "ann", "good"), Label("q0", "bob", "bad")]
    with pytest.raises(MetricError, match="bad and good name no candidates"):
        stand_ins("f", people, LabelJudge("m", run=run([row("q0", (1.0, 2.0))])), terms=TERMS)
