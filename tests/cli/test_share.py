"""`pluralrm share` in a terminal, as JSON and CSV; what compare and report say where people crossed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pluralrm
from pluralrm.benchmarks import KINDS
from pluralrm.cli import app

BENCH = "simulated:users=24,items=5,crossed=12,groups=3,alike=0.7,repeats=0.4"


def _said(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_answer_comes_first_then_shares_floors_and_what_to_do_next() -> None:
    text = " ".join(_said("share", BENCH, "--trait", "group").split())
    order = ["points", "of 15 sets of candidates by 24 people", "everybody's", "the group's (group)", "noise",
             "in common by trait", "chance", "majority of the group", "the person again", "any scorer, at most", "next: score a model", "pluralrm score simulated:"]  # fmt: skip # noqa: E501
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_without_repeats_person_and_noise_stay_one_share() -> None:
    text = " ".join(_said("share", BENCH.replace("repeats=0.4", "repeats=0")).split())
    assert "At most" in text
    assert "no person judged twice" in text
    assert "the person's own, or noise" in text


def test_json_and_csv_have_every_number() -> None:
    record = json.loads(_said("share", BENCH, "--json"))
    assert record["consensus"]["value"] + record["person"]["value"] + record["noise"]["value"] == pytest.approx(1)
    assert record["group"] is None
    assert set(record["by_trait"]) == {"group", "hand"}
    assert record["floors"]["chance"]["value"] == 0.5
    lines = _said("share", BENCH, "--format", "csv").splitlines()
    assert lines[0] == "number,value,low,high,n,failed,method"
    assert {line.partition(",")[0] for line in lines} >= {"winnable", "trait hand", "nearest neighbours"}


def test_compare_and_report_say_what_a_model_wins(tmp_path: Path) -> None:
    known = "known:posts,crossed=12,groups=3,alike=0.7"
    runs = [pluralrm.score(BENCH, known, name, out=tmp_path / "runs") for name in ("recent:4", "none")]
    for extra in ([], ["--all"]):
        text = " ".join(_said("compare", str(tmp_path / "runs"), *extra).split())
        assert "winnable" in text
        assert "with the person" in text
    (board,) = json.loads(_said("compare", str(tmp_path / "runs"), "--json"))
    (among,) = board["among_people"]
    assert among["lift_share"]["share"]["n"] == len(runs[0].rows)
    assert among["sides"][0]["against"] == "crowd"
    page = tmp_path / "page.html"
    pluralrm.report(tmp_path / "runs", page)
    assert "where person and crowd differ it sides" in page.read_text().partition("<h3")[0]  # on the first screen


def test_where_people_do_not_cross_nothing_is_printed_of_it(tmp_path: Path) -> None:
    pluralrm.score("simulated:users=9", "longest", "none", out=tmp_path)
    assert "among_people" not in json.loads(_said("compare", str(tmp_path), "--json"))[0]
    result = CliRunner().invoke(app, ["share", "simulated:users=9"])
    message, _, named = str(result.exception).partition("Where people cross: ")
    assert message.startswith("no two people of simulated judged the same candidates")
    assert {name.partition(":")[0] for name in named.split(", ")} <= set(KINDS)


def test_what_to_do_next_promises_no_gain_where_one_person_is_alone(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    rows = [
        {"prompt": f"Q{n}?", "chosen": f"Yes {n}.", "rejected": "No.", "user": "u", "posts": ["P."]} for n in range(4)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = " ".join(_said("score", str(file), "-m", "longest", "-c", "none", "-o", str(tmp_path / "runs")).split())
    assert "No model saw the user's posts; this shows them; the gain takes a second user:" in text


def test_what_to_do_next_shows_only_what_the_benchmark_has_of_its_people(tmp_path: Path) -> None:
    votes = tmp_path / "votes.jsonl"
    rows = [
        {"person": f"p{person}", "item": f"q{item}", "label": "AB"[(person + item) % 2], "prompt": f"Q{item}?"}
        | {"A": f"Yes {item}.", "B": f"No {item}.", "age": f"{person % 2}"}
        for person in range(4)
        for item in range(6)
    ]
    votes.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for options, shown in (("", ""), (",traits=age", "traits")):
        bench, out = f"table:{votes},options=A+B{options}", str(tmp_path / f"runs{shown}")
        assert ("next: score" in (text := _said("share", bench))) is bool(shown)
        assert (f"-m MODEL -c {shown} -c none" in text) is bool(shown)
        text = " ".join(_said("score", bench, "-m", "longest", "-c", "none", "-o", out).replace("\\\n", "").split())
        assert ("No model saw the user's traits; this shows them" in text) is bool(shown)
        assert ("table-votes has no posts or traits. This shows earlier choices" in text) is not bool(shown)
        assert ("-c pairs:8 --controls" in text) is not bool(shown)
        assert "raw:10" not in text
