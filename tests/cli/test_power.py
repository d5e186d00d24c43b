"""`pluralrm power` as its user meets it."""

import json
from pathlib import Path

import pytest

from pluralrm.core import Reveals, Run
from pluralrm.errors import SpecError
from pluralrm.power import ItemsQuestion, plan_for_runs
from tests.cli.test_verbs import pluralrm
from tests.metrics.rows import run, users

QUICK = ("--simulations", "200")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    done = pluralrm("score", "pocket-rmgap", "-m", "random", "-m", "longest", "-m", "bm25", "-c", "none", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "pocket-rmgap"


def test_two_runs_say_how_many_more_it_takes(runs: Path) -> None:
    done = pluralrm("power", "items", "random", "longest", "-d", "0.05", "-d", "0.1", *QUICK, cwd=runs)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    said = " ".join(done.stdout.split())
    assert "12 records detect a difference of" in said
    assert "to detect 5 points with 80% power:" in said
    assert "records of 12 items each" in said
    assert "assumes: new records are like these 12, and have as many items each" in said


def test_json_has_every_number_and_the_power_that_was_promised(runs: Path) -> None:
    done = pluralrm(
        "power", "items", "random", "longest", "-d", "0.1", "-i", "1", "-i", "6", *QUICK, "--json", cwd=runs
    )
    told = json.loads(done.stdout)
    assert {"difference", "p", "likeness", "clusters", "smallest_difference"} == told["observed"].keys()
    assert [one["items"] for one in told["needed"]] == [1, 6]
    for one in told["needed"]:
        number = one["clusters"]["value"]
        [there] = [point for point in one["curve"] if point["clusters"] == number]
        assert there["by_p"]["value"] >= 0.8
        assert one["clusters"]["low"] < number < one["clusters"]["high"]


def test_declared_numbers_need_no_run(tmp_path: Path) -> None:
    done = pluralrm("power", "items", "--disagree", "0.4", "-d", "0.2", *QUICK, cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert "two models, of which exactly one is right on 40% of the items" in said
    assert "correlate by 0.15 (assumed; --likeness declares another)" in said


def test_models_by_declared_noise_and_by_runs(runs: Path) -> None:
    done = pluralrm("power", "models", "-r", "0.9", "--noise", "0.2", "--models", "10", *QUICK, cwd=runs)
    said = " ".join(done.stdout.split())
    assert "to show a true rank correlation of 0.9 with 80% power:" in said
    assert "10 models show one of 0." in said
    few = pluralrm("power", "models", "random", "bm25", *QUICK, cwd=runs)
    assert few.returncode == 2
    assert "2 models are too few to show how far models differ; wanted 4 or more, or --noise" in few.stderr


def test_judgments_by_declared_numbers_and_by_ratings(tmp_path: Path) -> None:
    rows = "".join(f"i{i},a{(i + j) % 8},{'AB='[(i * 7 + j * (i % 3)) % 3]}\n" for i in range(40) for j in range(3))
    (tmp_path / "ratings.csv").write_text(f"item,annotator,label\n{rows}", encoding="utf-8")
    flags = ("--equivalence", "0.15", "-k", "2", *QUICK)
    declared = pluralrm("power", "judgments", "--ties", "0.2", *flags, cwd=tmp_path)
    assert "to show that a win rate of 50% is within ±15 points of it with 80% power:" in " ".join(
        declared.stdout.split()
    )
    given = ("--ratings", "ratings.csv", "--first", "A", "--second", "B")
    observed = pluralrm("power", "judgments", *given, *flags, "--json", cwd=tmp_path)
    told = json.loads(observed.stdout)
    assert told["observed"]["items"] == 40
    assert told["annotators"] == 8
    assert told["needed"][0]["goal"] == "equivalence"
    slip = pluralrm("power", "judgments", *given, *flags, "--win", "0.6", cwd=tmp_path)
    assert slip.returncode == 2
    assert "--win, --ties: ratings.csv says how often each label comes" in slip.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["items"], "wanted two runs, or --disagree Q"),
        (["items", "random"], "found 1 runs, wanted two on the same items"),
        (["items", "random", "bm25", "--likeness", "0.2"], "--likeness: the runs' users are drawn whole"),
        (["items", "--disagree", "0.2", "-d", "0.3"], "a difference of +0.3 where the models differ on 20%"),
        (["items", "--disagree", "0.2", "--power", "1"], "--power 1: wanted a share, above 0 and up to 0.99"),
        (["models", "-r", "1.2"], "--correlation 1.2: wanted a true rank correlation"),
        (["judgments"], "no goal; wanted one or more of --precision W"),
        (["judgments", "--first", "A", "--precision", "0.1"], "add --ratings FILE"),
    ],
)
def test_slips_are_one_message_and_exit_2(runs: Path, words: list[str], message: str) -> None:
    done = pluralrm("power", *words, cwd=runs)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_many_runs_are_answered_with_the_pair_of_each_gain() -> None:
    def scored(model: str, condition: str, reveals: set[Reveals], seed: int) -> Run:
        rows, path = users(20, 0.6, seed=seed), f"a folder/{model}/{condition}"
        return run(rows, model=model, condition=condition, reveals=frozenset(reveals), path=path)

    runs = [
        *(scored("m", name, shown, seed) for seed, (name, shown) in enumerate(_CONDITIONS.items())),
        *(scored("blind", name, shown, 7) for name, shown in _CONDITIONS.items()),
    ]
    with pytest.raises(SpecError, match="found 6 runs, wanted two on the same items") as slip:
        plan_for_runs(runs, ItemsQuestion([0.05], []))
    _, *lines = str(slip.value).splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        "pluralrm power items 'a folder/m/raw:4' 'a folder/m/swapped:4'"
    ]


_CONDITIONS: dict[str, set[Reveals]] = {"none": set(), "raw:4": {"posts"}, "swapped:4": {"other_posts"}}
