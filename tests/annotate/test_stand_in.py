"""A judge beside annotators: its labels from a file, its picks from a run, and what of them goes together."""

import json
from pathlib import Path

import pytest

import pluralrm
from pluralrm.annotate.labels import Label, read_labels, rows_of
from pluralrm.annotate.stand_in import LabelJudge, judges_in, parted, read_label_table, stand_ins
from pluralrm.core import Failure, Score
from pluralrm.errors import MetricError, PluralrmError, RowError
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
    with pytest.raises(RowError, match="does not end on its line"):
        read_label_table(tmp_path / "broken.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no rows, wanted a header and at least one row"),
        ("item;annotator;label\nq1;a;x\n", "found ';' between columns, wanted commas"),
        (
            "Item,Annotator,Label\nq1,a,x\n",
            "no column 'item'; found Item, Annotator and Label; wanted one row for each",
        ),
        ("item,ann,bob\nq1,x,y\n", "no column 'annotator'; found item, ann and bob; wanted one row for each judgment"),
        ("item,annotator,label\nq1,ann,x\nq1,ann,y\n", ":3: annotator: found 'ann' on 'q1' again, wanted one label"),
        ("item,annotator,label\nq1,,x\n", ":2: annotator: found an empty text, wanted a name"),
        ("item,annotator,label\nq1,ann,\nq2,ann,nan\n", "found no label; wanted one row for each judgment"),
    ],
)
def test_files_that_would_make_a_number_wrong_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(PluralrmError) as caught:
        read_label_table(tmp_path / "labels.csv")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"ann": {"q1": {"x": 1}}}', "label: found an object, wanted a text or a number"),
        ('{"ann": {"q1": 1, "q1": 2}}', "q1: found this key twice"),
        ('{"ann": [1, 2]}', "ann: found a list of 2, wanted {item: label}"),
        ("[1, 2]", "wanted one JSON list of objects"),
        ('{"ann": {"q1": NaN}}', "found no label"),
    ],
)
def test_json_that_would_make_a_number_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(PluralrmError) as caught:
        read_label_table(tmp_path / "labels.json")
    assert message in str(caught.value)


def test_marks_of_spreadsheets_and_missing_numbers_are_read_over(tmp_path: Path) -> None:
    text = "item,annotator,label,mood\nq1,ann,1,x\nq1,bob,NaN,\nq1,cyd,'-1,\n\n"
    (tmp_path / "labels.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    with pytest.warns(UserWarning, match="columns that are not read: mood"):
        labels = read_label_table(tmp_path / "labels.csv")
    assert [label.label for label in labels] == ["1", "", "-1"]


def test_labels_that_no_person_gives_are_named_and_none_in_common_is_refused() -> None:
    people = _labels({"ann": "abab", "bob": "abba", "cyd": "aabb"})
    result = _only(stand_ins("f", people, LabelJudge("llm", _labels({"llm": "AbbA"})), terms=TERMS))
    assert result.unmatched == ("A",)
    assert result.to_json()["unmatched"] == ["A"]
    with pytest.raises(MetricError, match="f: llm answers 'A' and 'B', and people 'a' and 'b'; wanted the same labels"):
        stand_ins("f", people, LabelJudge("llm", _labels({"llm": "ABAB"})), terms=TERMS)
    numbers = _labels({"ann": "1234", "bob": "2234", "cyd": "1334"})
    between = LabelJudge("llm", [Label(f"q{number}", "llm", label) for number, label in enumerate(["1.5", "n/a"])])
    assert _only(stand_ins("f", numbers, between, terms=TERMS)).unmatched == ("n/a",)


def test_people_who_all_give_one_label_are_judged_too() -> None:
    people = _labels({"ann": "aaaa", "bob": "aaaa", "cyd": "aaaa"})
    result = _only(stand_ins("f", people, LabelJudge("llm", _labels({"llm": "aaab"})), terms=TERMS))
    assert [test.lead.value for test in result.people] == [-0.25] * 3


def test_from_python_as_on_the_command_line(tmp_path: Path) -> None:
    rows = [f"q{item},{name},{'ab'[item % 2]}" for item in range(40) for name in ("ann", "bob", "cyd", "llm", "m2")]
    (tmp_path / "labels.csv").write_text("\n".join(["item,annotator,label", *rows, ""]))
    answers = pluralrm.stand_in(tmp_path / "labels.csv", ["llm", "m2", "llm"])
    assert [(answer.judge, answer.ruling, len(answer.people)) for answer in answers] == [
        ("llm", "may", 3),
        ("m2", "may", 3),
    ]
    (few,) = pluralrm.stand_in(str(tmp_path / "labels.csv"), "llm", fewest=41)
    assert few.ruling == "too few"
    assert few.to_json()["ruling"] == "too few"
    assert str(few) == (
        "too few to say of llm: 0 people have 41 independent items that others judged too; 3 are needed"
    )
    with pytest.raises(PluralrmError, match="wanted epsilon from 0 to below 1"):
        pluralrm.stand_in(tmp_path / "labels.csv", "llm", epsilon=1.5)
    with pytest.raises(PluralrmError, match="one plan or file of labels"):
        pluralrm.stand_in([tmp_path, tmp_path], "llm")
    bench = pluralrm.load_benchmark("simulated:users=4,items=8,crossed=4,groups=1,crowd=0.8")
    runs = [pluralrm.score(bench, "longest", out=tmp_path / "runs")]
    assert pluralrm.stand_in(runs) == pluralrm.stand_in(tmp_path / "runs") == [*pluralrm.stand_in(runs[0])]


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
    with pytest.warns(UserWarning, match="f: llm has no label in never judged: not compared"):
        results = stand_ins("f", people, judge, terms=TERMS)
    assert [result.data for result in results] == ["f, posts, tone", "f, prompt, tone", "f, prompt, facts"]
    assert [result.data for result in stand_ins("f", people, judge, dimension="facts", terms=TERMS)] == [
        "f, prompt, facts"
    ]
    with pytest.raises(
        MetricError, match="judged no item that two other people labelled; they labelled items such as q0 and q1"
    ):
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
