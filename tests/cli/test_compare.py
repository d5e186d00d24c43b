"""The leaderboard in the terminal says what its JSON says, and what the report says."""

import csv
import json
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pluralrm import compare, score
from pluralrm.benchmarks import pocket
from pluralrm.cli import app
from pluralrm.cli.compare import print_answers, print_boards, with_rows
from pluralrm.cli.diagnostics import print_plural
from pluralrm.cli.overview import View, table_text
from pluralrm.cli.show import print_summary
from pluralrm.core import Failure, Query, Run, Verdict, Vote
from pluralrm.errors import ConditionError
from pluralrm.runs import load_runs
from pluralrm.text import TextForm
from tests.builders import bakery
from tests.metrics.rows import chance, records, row, run, users


def test_the_terminal_and_its_json_name_the_same_runs_off_chance(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"coin": 0.5, "good": 0.8, "better": 0.9, "bad": 0.1}
    runs = [run(users(90, right, seed=place), model=model) for place, (model, right) in enumerate(rates.items())]
    print_boards(runs)
    told = " ".join(capsys.readouterr().out.split())
    how = "by 95% intervals, widened for 4 runs at once (Holm)"
    assert (
        f"Above chance (50.0), {how}: better (none), good (none). Below chance, by the same measure: bad (none)."
        in told
    )
    assert "* worse than the first, p < 0.05, Holm over 6 tests of pairs." in told
    print_boards(runs, as_json=True)
    [found] = json.loads(capsys.readouterr().out)
    assert found["against_chance"]["above"] == [
        {"model": name, "condition": "none", "name": name} for name in ("good", "better")
    ]
    assert found["against_chance"]["below"] == [{"model": "bad", "condition": "none", "name": "bad"}]
    assert (found["against_chance"]["tested"], found["reference"]) == (4, 0)


def test_a_star_is_never_for_not_having_seen_the_rubric(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"told": 0.99, "good": 0.9, "poor": 0.5}
    runs = [
        run(
            users(150, right, seed=place),
            model=model,
            condition="oracle" if model == "told" else "none",
            reveals=frozenset({"oracle"} if model == "told" else ()),
        )
        for place, (model, right) in enumerate(rates.items())
    ]
    print_boards(runs)
    lines = capsys.readouterr().out.splitlines()
    assert [("*" in line) for line in lines[2:7]] == [False, False, False, False, True]
    assert any("* worse than the first that did not see the rubric" in line for line in lines)


def _judged(*said: str) -> Run:
    """Return a run of a judge that named these answers, one item after the other, in both orders."""
    rows = []
    for number, words in enumerate(said):
        votes = tuple(Vote(order, word) for order, word in zip(((0, 1), (1, 0)), words.split(), strict=True))
        lost = [Failure("parse", "no verdict")] * 2
        rows.append(row(f"i{number:02}", lost if "parse" in words else [0.5, 0.5], votes=votes))
    return run(rows, model="judge:m")


def test_what_failures_could_hide_stands_beside_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    broken, whole = _judged("0 1", "parse 1", "0 parse", "0 1", "1 0"), run(users(5, 0.5), model="whole")
    broken = replace(broken, rows=tuple(replace(one, item=f"i{place:04}") for place, one in enumerate(broken.rows)))
    print_boards([broken, whole])
    told = capsys.readouterr().out
    assert "30.0" in told
    assert "2 ≤70" in told
    assert "failed: items that count as wrong; ≤ the accuracy if all of them were right." in " ".join(told.split())
    print_boards([broken, whole], as_json=True)
    entries = {entry["model"]: entry for entry in json.loads(capsys.readouterr().out)[0]["entries"]}
    assert entries["judge:m"]["bounds"] == {"worst": 0.3, "best": 0.7, "failed": 2}
    assert entries["whole"]["bounds"] is None
    print_summary(broken)
    assert "accuracy if all 2 failed items were right: 70.0" in capsys.readouterr().out


def test_where_nothing_failed_no_bound_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_boards([run(users(30, 0.7))])
    assert "≤" not in capsys.readouterr().out


@pytest.mark.parametrize("lost", [1, 40])
def test_a_board_of_many_metrics_keeps_its_table_at_80_columns(lost: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = records(12, chance)
    rows[:lost] = [replace(one, scores=(Failure("parse", "no verdict"),) * 4) for one in rows[:lost]]
    print_boards([run(rows, model=f"judge:Some-Long-Model-Name-{number}B") for number in (7, 70)])
    above, header, *lines = capsys.readouterr().out.splitlines()[2:6]
    assert above.split() == ["ties"]
    assert header.split()[-6:] == ["pair", "cons.", "all", "3", "failed", "lose"]
    for text in lines:
        assert re.search(rf" {lost} ≤\d+ +\S+$", text)
        assert len(text) <= 80


def test_the_places_of_judges_are_told_and_of_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    judge = _judged("0 1", "0 0", "1 1", "0 1")
    print_boards([judge, replace(judge, model="other", rows=tuple(replace(one, votes=()) for one in judge.rows))])
    told = capsys.readouterr().out
    [judged] = [text for text in told.splitlines() if text.startswith("judge:m") and "50.0" in text and "75.0" in text]
    assert "Position bias" in told
    assert "50 without position bias" in " ".join(told.split())
    assert judged.split()[1:3] == ["none", "50.0"]
    print_boards([judge], as_json=True)
    [entry] = json.loads(capsys.readouterr().out)[0]["entries"]
    numbers = entry["metrics"]
    assert (numbers["position_consistency"]["value"], numbers["first_position"]["value"]) == (0.5, 0.75)


def test_one_order_leaves_consistency_out(capsys: pytest.CaptureFixture[str]) -> None:
    judge = _judged("0 1", "0 0")
    coin = replace(judge, rows=tuple(replace(one, votes=one.votes[:1]) for one in judge.rows))
    print_boards([coin])
    assert "asked in one order" in capsys.readouterr().out
    print_boards([run(users(9, 0.6))])
    assert "What the place" not in capsys.readouterr().out


# ---------------------------------------------------------------- the answer: one row per model


def _world(*conditions: str, model: str = "m", right: float = 0.8) -> list[Run]:
    """Return runs of one model whose answers do not depend on the condition's name but on its place."""
    shown = {"none": (), "raw:10": ("posts",), "raw:3": ("posts",), "swapped:10": ("other_posts",)}
    shown |= {"swapped:3": ("other_posts",), "oracle": ("oracle",)}
    return [
        run(users(80, right, seed=place), model=model, condition=condition, reveals=frozenset(shown[condition]))
        for place, condition in enumerate(conditions)
    ]


def _screen(capsys: pytest.CaptureFixture[str], runs: list[Run], view: View | None = None) -> list[str]:
    print_answers(runs, view or View())
    return capsys.readouterr().out.splitlines()


def test_a_model_has_one_row_and_its_controls_are_columns(capsys: pytest.CaptureFixture[str]) -> None:
    runs = _world("none", "raw:10", "swapped:10", "oracle")
    lines = _screen(capsys, runs)
    assert lines[1].startswith("bakery: 80 users; own = raw:10; chance 50 ")
    assert lines[1].endswith("95% intervals over users")
    rows = [line for line in lines if re.match(r"m +\d", line)]
    assert len(rows) == 1
    found = re.findall(r"[+-]?\d+\.\d", rows[0])
    own, none, other = (
        sum(numbers[one.best[0]] == max(numbers) for one in runs[place].rows if (numbers := one.scores)) / 80
        for place in (1, 0, 2)
    )
    assert found == [f"{100 * own:.1f}", f"{100 * (own - none):+.1f}", f"{100 * (own - other):+.1f}"]
    assert not [line for line in lines if "swapped" in line.split("  ")[0]]
    assert all(len(line.rstrip()) <= 80 for line in lines)


def test_a_wide_screen_has_a_column_for_each_control(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = _screen(capsys, _world("none", "raw:10", "swapped:10", "oracle"))
    assert re.search(r"sees +accuracy .* none +other +nearest +oracle gap closed", lines[2])
    assert re.match(r"m +raw:10 +\d", lines[3])
    assert max(len(line.rstrip()) for line in lines) > 80


def test_a_model_under_two_contexts_has_two_rows_that_differ_in_name(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _screen(capsys, _world("none", "raw:10", "swapped:10", "raw:3", "swapped:3"))
    names = [line.split("  ")[0] for line in lines if re.match(r"m\b.*\d \[", line)]
    assert names in (["m", "m (raw:3)"], ["m", "m (raw:10)"])
    usual = "raw:10" if "m (raw:3)" in names else "raw:3"
    assert f"own = {usual}, or as named" in lines[1]


def test_every_model_has_a_row_though_it_has_no_context_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    runs = [
        *_world("none", "raw:10", "swapped:10"),
        *_world("none", model="bare"),
        *_world("oracle", model="told", right=1.0),
        *_world("swapped:10", model="lost"),
    ]
    lines = _screen(capsys, runs)
    rows = {line.split("  ")[0]: line for line in lines if re.search(r"\d\.\d (\[|fixed)", line)}
    assert set(rows) == {"m", "bare", "ORACLE told (oracle)", "lost (swapped:10)"}
    assert rows["bare"].rstrip().endswith("no context")
    assert rows["ORACLE told (oracle)"].rstrip().endswith("sees the rubric")
    assert not [line for line in lines if line.startswith(("Best", "May be")) and "told" in line]


@pytest.mark.parametrize(
    ("conditions", "asking", "line"),
    [
        (["raw:10"], "pluralrm score b -m m -c raw:10", "  pluralrm score b -m m -c raw:10 --controls"),
        (["none"], "pluralrm score b -m m", "  pluralrm score b -m m -c raw:10 --controls"),
        (["raw:10"], "", "  pluralrm score BENCH -m bm25 -c raw:10 --controls -o runs"),
        (["raw:10", "none", "swapped:10"], "", ""),
        (["raw:10"], None, ""),
    ],
)
def test_where_the_question_stays_open_the_last_line_is_the_command_that_answers_it(
    conditions: list[str], asking: str | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _screen(capsys, _world(*conditions, model="bm25"), View(asking=asking))
    assert ("--controls" in lines[-1]) == bool(line)
    assert not line or lines[-1] == line


def test_one_user_has_no_interval_no_rank_and_no_control_to_add(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten items of one person: nothing is resampled, and nobody else's posts can be lent."""
    rows = tuple(replace(row, cluster="ann") for row in users(10, 0.7))
    runs = [run(rows, model=model, condition="raw:10", reveals=frozenset({"posts"})) for model in ("bm25", "longest")]
    text = " ".join(" ".join(_screen(capsys, runs)).split())
    assert "no interval" in text
    assert "fixed" not in text  # it is a sample of one, not a number that nothing can change
    assert "Not ranked: all items are of one user." in text
    assert "bakery has one user: no other user's context can be lent" in text
    assert "--controls" not in text
    some = [replace(each, whole=False) for each in runs]  # the benchmark may have others
    assert "--controls" in " ".join(_screen(capsys, some))


def test_controls_are_added_only_in_domains_where_another_user_can_lend(capsys: pytest.CaptureFixture[str]) -> None:
    """Three domains; `users` deals them out in turn."""
    one_each, fourth_in_bread = users(3, 0.7), users(4, 0.7)
    bare = run(one_each, model="bm25", condition="raw:10", reveals=frozenset({"posts"}))
    text = " ".join(" ".join(_screen(capsys, [bare])).split())
    assert (
        "has one user in Bread, Cake and Pie: no other user's context can be lent there, so there is no gain." in text
    )
    assert "--controls" not in text
    *lines, last = _screen(capsys, [replace(bare, rows=tuple(fourth_in_bread), items=4)])
    assert "has one user in Cake and Pie" in " ".join(" ".join(lines).split())
    assert last.endswith("--domain Bread")
    assert "--domain" not in " ".join(_screen(capsys, [replace(bare, whole=False)]))


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_a_table_for_a_paper_says_why_a_number_has_no_interval(form: TextForm) -> None:
    rows = tuple(replace(row, cluster="ann") for row in users(10, 0.7))
    alone = [run(rows, model="bm25", condition="raw:10", reveals=frozenset({"posts"}))]
    assert "No interval (one cluster): bm25 accuracy." in table_text(alone, form, View())
    blind = [*_world("raw:10", "none", "swapped:10", model="m")]
    blind = [replace(each, rows=blind[0].rows) for each in blind]
    text = table_text(blind, form, View())
    assert "No interval (fixed by design: the same scores under both conditions on every item): m lift, m gain." in text
    assert "No interval" not in table_text(_world("raw:10", "none", "swapped:10"), form, View())


def test_a_model_that_is_there_twice_did_see_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    runs = _world("raw:10", "none", "swapped:10") + _world("raw:10", right=0.6)
    text = " ".join(" ".join(_screen(capsys, runs)).split())
    assert "is there twice" in text
    assert "did not see" not in text
    assert "no context" not in text


def test_a_model_without_an_answer_is_named_once_with_its_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    runs = _world("none", "raw:10", "swapped:10")
    dead = [replace(each, model="dead", rows=(), complete=False, items=80) for each in runs]
    assert with_rows([*runs, *dead]) == runs
    err = capsys.readouterr().err
    assert err == "dead is not in the table: it answered no item yet under none, raw:10 and swapped:10\n"


class _Short:
    """A model with room for one post."""

    spec = "short"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict(tuple(map(float, map(len, query.candidates))), posts_kept=1) for query in queries)


def test_an_item_is_shown_with_the_posts_that_the_model_had_room_for(tmp_path: Path) -> None:
    made = score(bakery(4), _Short(), "recent:3", out=tmp_path)
    words = ["show", made.path, "--item", made.rows[0].item]
    out = _typed(words)
    assert "posts (1 of 3: the others did not fit), in the order given" in out
    assert re.findall(r"^ +(\d)\. ", out, re.MULTILINE) == ["1"]
    assert json.loads(_typed([*words, "--json"]))["posts_kept"] == 1


def test_a_baseline_in_two_folders_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for out, models in (("a", ["bm25", "longest"]), ("b", ["bm25", "shortest"])):
        score("pocket-prb", models, "raw:4", out=out, limit=6)
    done = CliRunner().invoke(app, ["compare", "a", "b"])
    assert "left out, with the same rows in two folders: 1 run of bm25" in done.stderr
    assert len(re.findall(r"^bm25 +\d", done.stdout, re.MULTILINE)) == 1
    assert "twice" not in done.output


def test_a_long_command_can_be_copied_from_a_narrow_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    asking = "pluralrm score 'my bench.jsonl' " + " ".join(
        f"-m hf:/models/a-long-name-{size}b" for size in (7, 70, 700)
    )
    lines = _screen(capsys, _world("none"), View(asking=asking))
    start = next(place for place, line in enumerate(lines) if line.startswith("  pluralrm"))
    assert all(len(line) <= 60 for line in lines[start:])
    typed = "\n".join(lines[start:]).replace("\\\n", "")
    assert shlex.split(typed) == [*shlex.split(asking), "-c", "raw:10", "--controls"]


def _typed(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_that_is_printed_adds_the_controls_when_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with a space in its name, some of its domains and users, candidates in another order, named models."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(pocket.__file__).parent / "pocket-prb", "my prb")
    domains = ["--domain", "Art_and_Entertainment", "--domain", "Society_and_Culture"]
    some = ["--limit", "6", "--seed", "3", *domains, "-o", "r u n"]
    _typed(["score", "my prb", "-m", "ours=bm25", "-m", "longest", "-c", "raw:4", *some])
    lines = _typed(["compare", "r u n"]).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("  pluralrm"))
    typed = shlex.split("\n".join(lines[start:]).replace("\\\n", ""))
    assert _typed(typed[1:])
    shown = _typed(["compare", "r u n"])
    assert "missing" not in shown
    assert "ours" in shown
    assert len(load_runs("r u n")) == 2 * 4
    assert {run.items for run in load_runs("r u n")} == {6}


def test_a_model_that_knows_simulated_users_alone_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["score", "pocket-prb", "-m", "known:taste", "-o", str(tmp_path / "runs")])
    assert isinstance(done.exception, ConditionError)
    assert "known:taste scores simulated users alone, and pocket-prb has none of its world" in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_quiet_is_the_table_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _screen(capsys, _world("raw:10"), View(quiet=True))
    assert lines[-1].startswith("m ")
    assert len(lines) == 4


def test_failures_training_and_a_rule_for_ties_stand_under_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    own, none = _world("raw:10", "none")
    rows = (replace(own.rows[0], scores=(Failure("parse", "no verdict"),) * 2), *own.rows[1:])
    lines = _screen(capsys, [replace(own, rows=rows, trained=("m was trained on 3 users",)), none], View(ties="lose"))
    text = " ".join(lines)
    assert "m: failed items count as wrong: 1 of 80 under raw:10. The first: parse: no verdict." in text
    assert "TRAINED: m was trained on 3 users" in text
    assert "Ties lose" in text


def test_records_have_columns_of_their_own_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _screen(capsys, [run(records(12, chance), model="coin")])
    assert re.split(r" {2,}", lines[2].strip()) == ["model", "BoN [95%]", "pair", "consistency", "prompt sensitivity"]
    assert len(re.findall(r"\d\.\d \[", lines[3])) == 4


def test_runs_of_several_benchmarks_have_a_table_each(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = _world("none", "raw:10"), [run(records(9, chance), benchmark_hash="f" * 16)]
    lines = _screen(capsys, [*first, *second])
    assert sum(line.startswith("model") for line in lines) == 2


# ---------------------------------------------------------------- --plural


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plural")
    score("pocket-prb", ["bm25", "longest", "random"], ["none"], out=folder)
    return folder


def answered(*words: str) -> str:
    result = CliRunner().invoke(app, ["compare", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_plural_begins_with_a_sentence_and_says_the_numbers_of_python(scored: Path) -> None:
    [result] = compare(scored).plural
    text = " ".join(answered(str(scored), "--plural", "-q").split())
    assert "has no worst-served tenth: no user has two prompts" in text  # one item per user
    for entry in result.rows:
        assert f"{100 * entry.utilitarian.value:.1f} [" in text
        assert f"{100 * entry.nash.value:.1f} [" in text
    records = list(csv.DictReader(answered(str(scored), "--plural", "--format", "csv").splitlines()))
    assert [record["model"] for record in records] == [entry.label for entry in result.rows]
    assert [float(record["nash"]) for record in records] == [entry.nash.value for entry in result.rows]
    [board] = json.loads(answered(str(scored), "--plural", "--json"))
    assert board["plural"] == json.loads(json.dumps(result.to_json()))
    assert "entries" in board
    assert "| utilitarian |" in answered(str(scored), "--plural", "--format", "markdown")


def test_plural_counts_ties_by_the_rule_asked_for(tmp_path: Path) -> None:
    score("pocket-prb", ["constant", "longest"], ["none"], out=tmp_path)
    for rule, credit in (("share", 0.5), ("lose", 0.0), ("win", 1.0)):
        options = (str(tmp_path), "--plural", "--ties", rule)
        [board] = json.loads(answered(*options, "--json"))
        [constant] = [entry for entry in board["plural"]["models"] if entry["model"] == "constant"]
        assert constant["utilitarian"]["value"] == pytest.approx(credit)
        records = csv.DictReader(answered(*options, "--format", "csv").splitlines())
        assert [float(each["utilitarian"]) for each in records if each["model"] == "constant"] == pytest.approx(
            [credit]
        )
        assert f"constant {100 * credit:.1f}" in " ".join(answered(*options, "-q").split())


def test_plural_names_whom_a_model_leaves_behind(capsys: pytest.CaptureFixture[str]) -> None:
    rates = [0.9] * 36 + [0.1] * 4
    rows = [
        row(
            f"i{user:02}-{n:02}",
            (float(n < 20 * right), 0.5),
            cluster=f"u{user:02}",
            prompt=f"p{user}-{n}",
            others=(3, 1),
        )
        for user, right in enumerate(rates)
        for n in range(20)
    ]
    other = [replace(each, scores=(1.0, 0.5) if index % 2 else (0.0, 0.5)) for index, each in enumerate(rows)]
    print_plural([run(rows, model="good"), run(other, model="coin")], [], 0)
    shown = capsys.readouterr().out
    text = " ".join(shown.split())
    assert "40 users, 800 items For the tenth of users whom it serves worst, good is right on 10.0" in text
    assert re.search(
        r"72\.0 points below its mean over users\. 10\.0% of users have more items right with coin\.", text
    )
    assert "T fitted on other prompts" in text
    assert re.search(r"good 82\.0 \[\d+, \d+\] 10\.0 \[\d+, \d+\] \+72\.0", text)
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_a_named_list_is_tested_beside_the_best(scored: Path) -> None:
    [board] = json.loads(answered(str(scored), "--plural", "--list", "longest", "--list", "random", "--json"))
    names = [entry["list"] for entry in board["plural"]["stability"]]
    assert names == ["best 1", "best 2", "longest, random"]
    assert board["plural"]["stability"][-1]["rival"] == "bm25"


def test_one_model_alone_has_no_regret_and_no_list_and_an_unfinished_run_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [row(f"i{n}", (float(n % 3 > 0), 0.5), cluster=f"u{n % 5}", prompt=f"p{n}") for n in range(30)]
    print_plural([run(rows, model="only"), replace(run(rows, model="half"), complete=False)], [], 0, quiet=True)
    shown, notes = capsys.readouterr()
    assert "How only serves its worst tenth is open" in " ".join(shown.split())
    assert "regret" not in shown
    assert "half" not in shown
    assert "left out: half (none): incomplete" in " ".join(notes.split())


def test_plural_needs_users_and_names_what_lacks_them(tmp_path: Path, scored: Path) -> None:
    score("pocket-rmgap", "longest", "none", out=tmp_path)
    result = CliRunner().invoke(app, ["compare", str(tmp_path), "--plural"])
    assert result.exit_code != 0
    assert "plural numbers need users, and pocket-rmgap has records" in str(result.exception)
    boards = json.loads(answered(str(tmp_path), str(scored), "--plural", "--json"))
    assert [board["plural"] is None for board in boards] == [True, False]


def test_two_contents_of_one_name_have_titles_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A file of one's own that was edited between two runs: which table is of which was not said.
    before = bakery(6)
    edited = replace(
        before, content_hash="", items=tuple(replace(item, preferred=int(not item.preferred)) for item in before.items)
    )
    score(before, "longest", "none", out=tmp_path / "runs")
    print_answers(load_runs([tmp_path]), View())
    assert ", content " not in capsys.readouterr().out
    score(edited, "longest", "none", out=tmp_path / "edited")
    print_answers(load_runs([tmp_path]), View())
    told = capsys.readouterr().out
    for bench in (before, edited):
        assert f"bakery, content {bench.content_hash[:8]}: 6 users" in told
