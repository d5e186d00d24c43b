"""`pluralrm fit` as it is typed: a folder, its loss curve, what is refused, and the verbs that read the result."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.forked import command

TRAIN = "simulated:users=30,items=1,posts=2,pairs=6,seed=1"
EVAL = "simulated:users=9,items=2,posts=2,pairs=4"


def pluralrm(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return command(words, cwd=cwd, environment=os.environ)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cwd = tmp_path_factory.mktemp("fit")
    done = pluralrm("fit", "pref", "--train", TRAIN, "--set", "epochs=2", "-o", "mine", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "No label of an item was used" in " ".join(done.stdout.split())
    assert "personal:mine" in done.stdout
    return cwd


@pytest.fixture(scope="module")
def scored(folder: Path) -> str:
    """Return what `score` said of the fit and of a model that learns nothing, under pairs and their controls."""
    conditions = ("none", "pairs:2", "pairs:4", "pairs:4,of=swapped", "pairs:4,labels=shuffled")
    shown = [word for condition in conditions for word in ("-c", condition)]
    done = pluralrm("score", EVAL, "-m", "longest", "-m", "personal:mine", *shown, "-o", "runs", "--all", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fit_is_scored_like_any_model_and_its_controls_are_found(folder: Path, scored: str) -> None:
    assert "what the user's labelled pairs are worth under pairs:4" in scored
    assert "Cold start under pairs:K: K pairs, and none" in scored
    told = json.loads(pluralrm("compare", "runs", "--calibration", "--json", cwd=folder).stdout)
    (board,) = told
    personal = [one for one in board["personalization"] if one["conditions"]["own"] == "pairs:4"]
    assert {one["model"] for one in personal} == {"longest", "personal:mine"}
    for one in personal:
        assert one["conditions"]["swapped"] == "pairs:4,of=swapped"
        assert one["conditions"]["shuffled"] == "pairs:4,labels=shuffled"
        assert one["gain_over_shuffled"]["n"] == 18
    (curve,) = [one for one in board["cold_start"] if one["model"] == "personal:mine"]
    assert (curve["unit"], sorted(curve["accuracy"]), sorted(curve["lift"])) == ("pairs", ["0", "2", "4"], ["2", "4"])
    assert {one["model"] for one in board["calibration"]} == {"longest", "personal:mine"}


def test_what_the_model_was_shown_can_be_read(folder: Path) -> None:
    done = pluralrm("score", EVAL, "-m", "personal:mine", "-c", "pairs:2", "-o", "shown", cwd=folder)
    assert done.returncode == 0, done.stderr
    (place,) = (folder / "shown").rglob("run.json")
    identity = json.loads(place.read_text())["identity"]
    assert "users of simulated" in identity["trained on"]
    told = pluralrm("show", str(place.parent), "--item", "u00000-i0", cwd=folder).stdout
    assert "labelled pairs (2)" in told
    assert told.count("     chosen ") == 2


def test_users_who_were_trained_on_are_told_of(folder: Path) -> None:
    done = pluralrm("score", TRAIN, "-m", "personal:mine", "-c", "none", "-o", "seen", cwd=folder)
    assert "they are seen users" in done.stderr


@pytest.mark.usefixtures("scored")
def test_the_report_draws_a_curve_over_pairs_and_how_the_model_was_fitted(folder: Path) -> None:
    done = pluralrm("report", "runs", "-o", "report.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    page = (folder / "report.html").read_text()
    assert "Accuracy by number of pairs shown" in page
    assert "own − shuffled labels" in page
    assert "Loss of mine while it was fitted" in page


def test_the_same_command_again_says_the_same_and_fits_nothing(folder: Path) -> None:
    words = ("fit", "pref", "--train", TRAIN, "--set", "epochs=2", "-o", "mine", "--json")
    before = (folder / "mine" / "fit.json").stat().st_mtime_ns
    told = json.loads(pluralrm(*words, cwd=folder).stdout)
    assert (folder / "mine" / "fit.json").stat().st_mtime_ns == before
    assert told["status"] == "complete"
    assert [epoch["number"] for epoch in told["curve"]] == [0, 1]
    assert set(told["seconds"]) == {"features", "fit", "adapt"}


def test_several_algorithms_and_seeds_have_a_folder_each(folder: Path) -> None:
    words = ("fit", "pref", "bt", "--seed", "0", "--seed", "1", "--train", TRAIN, "--set", "epochs=2", "-o", "each")
    told = json.loads(pluralrm(*words, "--json", cwd=folder).stdout)
    assert [(fit["algorithm"], fit["seed"]) for fit in told] == [("pref", 0), ("pref", 1), ("bt", 0), ("bt", 1)]
    assert sorted(file.parent.name for file in folder.glob("each/*/fit.json")) == ["bt-0", "bt-1", "pref-0", "pref-1"]
    assert told[0]["files_hash"] == json.loads((folder / "mine" / "fit.json").read_text())["files_hash"]
    again = " ".join(pluralrm(*words, cwd=folder).stdout.split())
    assert [again.count(f"personal:each/{name}") for name in ("pref-1", "bt-0")] == [1, 1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("prfe", "--train", TRAIN), "Did you mean 'pref'"),
        (("pref", "--train", "pocket-prb"), "no labelled context pairs"),
        (("pref", "--train", TRAIN, "--set", "rank"), "wanted key=value"),
        (("pref", "--train", TRAIN, "--set", "rank=1", "--set", "rank=2"), "each key once"),
        (("pref", "--train", TRAIN, "--features", "tf"), "tfidf"),
        (("pref", "--train", TRAIN), "holds a fit with another"),
    ],
)
def test_what_cannot_be_fitted_is_one_message(folder: Path, words: tuple[str, ...], told: str) -> None:
    done = pluralrm("fit", *words, "-o", "mine" if told.startswith("holds") else "other", cwd=folder)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (folder / "other").exists() or not list((folder / "other").glob("*.safetensors"))


def test_the_algorithms_are_listed_with_the_source_of_each_default(folder: Path) -> None:
    told = json.loads(pluralrm("list", "algorithms", "--json", cwd=folder).stdout)
    numpy, torch = {"bt", "bt-posts", "lore", "pref", "eb", "knn"}, {"gpo", "vpl", "pal-a", "pal-b", "maml"}
    assert numpy | torch == {one["name"] for one in told}
    assert all(row["source"] for one in told for row in one["settings"].values())
