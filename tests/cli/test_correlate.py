"""`pluralrm correlate` as its user meets it."""

import json
import shutil
from pathlib import Path

import pytest

from pluralrm.core import Reveals, Run
from pluralrm.correlate import Column, columns_of_runs, correlate, without_controls
from tests.cli.test_verbs import pluralrm
from tests.metrics.rows import run, users

# Ten models: one benchmark orders them nearly as downstream does, the other does not.
NUMBERS = """model,kind,good,poor,tuned
m1,small,10,55,20
m2,small,21,31,25
m3,small,29,-,24
m4,small,41,72,41
m5,small,52,44,50
m6,large,60,63,66
m7,large,71,12,63
m8,large,80,57,80
m9,large,88,20,84
m10,large,97,40,95
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "numbers.csv").write_text(NUMBERS, encoding="utf-8")
    return tmp_path


def test_the_verdict_comes_first_and_lines_fit_the_terminal(folder: Path) -> None:
    done = pluralrm(
        "correlate",
        *("--csv", "numbers.csv", "--benchmark", "good", "--benchmark", "poor"),
        *("--downstream", "tuned", "--group", "kind"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    said = " ".join(done.stdout.split())
    assert "good -> tuned: 10 models, no items good predicts the ranking by tuned (Spearman .976" in said
    assert "poor does not significantly predict the ranking by tuned" in said
    assert "poor -> tuned: 9 models, no items left out, with only one of the two scores: m3" in said
    assert "models alone resampled; about the mean over studies of as many models drawn alike, on the same" in said
    assert "In 2 of 45 pairs the model that ranks lower on good does better in tuned: " in said
    assert "good - poor" in said


def test_json_has_every_number(folder: Path) -> None:
    done = pluralrm(
        *("correlate", "--csv", "numbers.csv", "--benchmark", "good", "--downstream", "tuned", "--json"), cwd=folder
    )
    told = json.loads(done.stdout)
    [cell] = told["cells"]
    assert [one["measure"] for one in cell["findings"]][:2] == ["spearman", "kendall"]
    assert all({"value", "low", "high", "n", "p", "chance", "exact"} <= one.keys() for one in cell["findings"])
    assert [pair["above"] for pair in cell["reversals"]] == ["m7", "m3"]


def test_runs_are_the_benchmark_and_models_go_by_their_spec(folder: Path) -> None:
    models = ("copy", "longest", "shortest", "bm25", "lsa")
    flags = [word for model in models for word in ("-m", model)]
    scored = pluralrm("score", "pocket-prb", *flags, "-c", "raw:5", "--limit", "30", cwd=folder)
    assert scored.returncode == 0, scored.stderr
    rows = "".join(f"{model},{place}\n" for place, model in enumerate(models))
    (folder / "tuned.csv").write_text(f"model,tuned\n{rows}", encoding="utf-8")
    done = pluralrm("correlate", "runs", "--csv", "tuned.csv", "--downstream", "tuned", cwd=folder)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "pocket-prb raw:5 -> tuned: 5 models, 30 clusters of items" in said
    assert "these models only, 30 clusters of items" in said
    assert "5 models, fewer than 8: only items are resampled" in said
    assert "p lead" in done.stdout
    shutil.copytree(folder / "runs", folder / "again")
    both = pluralrm("correlate", "runs", "again", "--csv", "tuned.csv", "--downstream", "tuned", cwd=folder)
    assert (both.returncode, both.stdout) == (0, done.stdout), "a run in two folders is one run"


def test_a_matrix_is_a_row_for_each_pair_of_number_columns(folder: Path) -> None:
    (folder / "numbers.csv").write_text(NUMBERS.replace("41,72,41", "41,-,41"))  # 8 models have few orders, 9 have many
    done = pluralrm("correlate", "--csv", "numbers.csv", "--matrix", cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:4] for line in done.stdout.splitlines() if ", " in line and "[" in line]
    assert [row[:3] for row in rows] == [["good,", "poor", "8"], ["good,", "tuned", "10"], ["poor,", "tuned", "8"]]
    assert "left out: kind holds no numbers" in done.stdout
    assert "p Holm over 3 pairs of columns" in " ".join(done.stdout.split())
    told = json.loads(pluralrm("correlate", "--csv", "numbers.csv", "--matrix", "--json", cwd=folder).stdout)
    assert [cell["family"] for cell in told["cells"]] == [3, 3, 3]


def test_short_rows_few_models_and_starts_of_names_do_not_stop_the_rest(folder: Path) -> None:
    text = NUMBERS.replace("tuned\n", '"tuned\nby ppo",rare\n').replace("m10,large,97,40,95", "m10,large,97,40,95,1")
    (folder / "dirty.csv").write_text(text, encoding="utf-8")
    columns = ("--benchmark", "good", "--benchmark", "rare", "--benchmark", "tuned", "--downstream", "tuned")
    done = pluralrm("correlate", "--csv", "dirty.csv", *columns, cwd=folder)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "good -> tuned by ppo: 10 models" in said
    assert "left out: rare has a score for 1, wanted 3 models or more left out: tuned by ppo against itself" in said
    assert "9 of 10 rows end before the header does (line 3, 4, 5, 6, 7, ...)" in said
    assert "Holm" not in said  # one pair is left


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--downstream", "tuned"], "no benchmark; wanted run folders or --benchmark COL. Columns: kind, good"),
        (["--benchmark", "good"], "nothing to predict; wanted --outcome DIR or --downstream COL. Columns: kind, good"),
        (["--benchmark", "good", "-k", "4"], "-k: whose best-of-k? Wanted --outcome DIR beside it"),
        (
            ["--benchmark", "good", "--outcome", "."],
            "--outcome .: no outcome at or below it; 'pluralrm best-of-n POOL'",
        ),
        (["--downstream", "tunde", "--benchmark", "good"], "no column 'tunde'. Did you mean 'tuned'?"),
        (["--downstream", "kind", "--benchmark", "good"], "numbers.csv:2: kind: found 'small', wanted a number"),
        (["--downstream", "tuned", "--benchmark", "good", "--rbo-p", "2"], "--rbo-p 2: wanted a number between"),
    ],
)
def test_slips_are_one_message_and_exit_2(folder: Path, words: list[str], message: str) -> None:
    done = pluralrm("correlate", "--csv", "numbers.csv", *words, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_columns_without_their_file_are_a_slip(folder: Path) -> None:
    done = pluralrm("correlate", "--downstream", "tuned", "--group", "kind", cwd=folder)
    assert done.returncode == 2
    assert "--downstream, --group: which file has that column? Wanted --csv FILE beside it" in done.stderr


def _column(condition: str, reveals: set[Reveals], models: int = 3) -> list[Run]:
    names = [f"hf:/models/m{number}" for number in range(models)]
    return [
        run(users(20, 0.5, seed=place), model=name, condition=condition, reveals=frozenset(reveals))
        for place, name in enumerate(names)
    ]


def test_a_control_condition_is_no_column_unless_the_picks_are_under_it() -> None:
    runs = [*_column("none", set()), *_column("raw:4", {"posts"}), *_column("swapped:4", {"other_posts"})]
    columns = columns_of_runs(runs)
    kept, lines = without_controls(columns, runs)
    assert [column.condition for column in kept] == ["none", "raw:4"]
    assert lines == ["left out: bakery swapped:4 is a control: models saw what others wrote or chose"]
    picks = Column("picks", columns[0].scores, condition="swapped:4")
    assert without_controls(columns, runs, [picks]) == (columns, [])
    alone = [one for one in runs if one.condition == "swapped:4"]
    only = columns_of_runs(alone)
    assert without_controls(only, alone) == (only, [])


def test_models_under_short_names_give_the_same_numbers() -> None:
    first, second = columns_of_runs([*_column("none", set(), 6), *_column("raw:4", {"posts"}, 6)])
    names = {model: model.rpartition("/")[2] for model in first.scores}
    cells = [
        correlate([one], [two]).cells[0]
        for one, two in ((first, second), (first.renamed(names), second.renamed(names)))
    ]
    assert [found.estimate for found in cells[0].findings] == [found.estimate for found in cells[1].findings]
    assert cells[1].models == tuple(names[model] for model in cells[0].models)
