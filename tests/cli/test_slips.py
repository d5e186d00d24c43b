"""What a newcomer mistypes: each slip is one message that says what to do, before any work and without a traceback."""

import json
import re
from pathlib import Path

import pytest

from pluralrm.runs import score
from tests.builders import Scripted, bakery
from tests.cli.test_verbs import OWN_MODEL, pluralrm
from tests.forked import command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "my_model:MyModel"), "A class of your own is python:my_model:MyModel"),
        (("score", "pocket-prb", "-m", "my_model:MyModel,k=1"), "A class of your own is python:my_model:MyModel,k=1"),
        (("check", "python:../w/my_model:MyModel"), "go to its folder (cd ../w) and write python:my_model:MyModel"),
        (
            ("check", "python:my_model.py:MyModel"),
            "'my_model.py' is a path, wanted the name of a module: write python:",
        ),
        (("check", "python:my-model:MyModel"), "'my-model' is no name of a Python module"),
        (("score", "pocket-prb", "-m", "longest", "-c", "none,raw:10"), "repeat it: -c none -c raw:10"),
        (("score", "pocket-prb", "-m", "longest, bm25"), "repeat it: -m longest -m bm25"),
        (("score", "my.csv", "-m", "longest"), "no such file or folder: my.csv"),
        (("list", "benchmark"), "'benchmark' cannot be listed. Did you mean 'benchmarks'?"),
        (("annotate", "claim", "plan", "mine.jsonl"), "pluralrm annotate claim plan --judgments mine.jsonl"),
        (("annotate", "agreement", "mine.jsonl", "."), "pluralrm annotate agreement . --judgments mine.jsonl"),
        (("annotate", "rehearse", "plan", "mine.jsonl"), "Wanted: pluralrm annotate rehearse plan --out mine.jsonl."),
        (("annotate", "export", "plan", "-o", "x"), "Wanted: pluralrm annotate export plan -o x --to FORMAT."),
        (("annotate", "serve", "plan", "8080"), "Wanted: pluralrm annotate serve plan --port 8080."),
        (
            ("annotate", "import", "plan", "--plan", "plan"),
            "missing --from FORMAT (label-studio or argilla), --out FILE",
        ),
        (("annotate", "plan", "pocket-prb", "-o", "x", "-n", "six"), "Found 'six'."),
        (("annotate", "pocket-prb"), "Known: agreement, claim, export, import, plan, rehearse, serve."),
        (("gate", "longest", "pocket-prb"), "unexpected 'pocket-prb'. Wanted: pluralrm gate longest --against FILE."),
        (("gate", "longest", "--againts", "x.csv"), "no option '--againts'. Did you mean '--against'?"),
        (("study", "mine.toml", "out"), "Wanted: pluralrm study mine.toml --out out."),
        (("train", "ppo", "pocket-prb", "-p", "lm:x"), "Wanted: pluralrm train ppo pocket-prb -p lm:x --reward REWARD"),
        (("train", "tiny", "-o"), "Option '-o' requires an argument."),
        (
            ("align", "r.jsonl", "-m", "lsa", "-m", "longest"),
            "--model stands 2 times, wanted once: only the last would count",
        ),
        (("annotate", "claim", "p", "--judgments", "a", "--judgments", "b"), "--judgments stands 2 times, wanted once"),
        (("audit", "pocket-prb", "-o", "."), "cannot write '.': found a folder, wanted the name of a file"),
    ],
)
def test_a_slip_is_one_line_that_says_what_to_write(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = pluralrm(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_is_on_disk_says_which_word_is_which(tmp_path: Path) -> None:
    (tmp_path / "plan").mkdir()
    (tmp_path / "done.jsonl").touch()
    export = pluralrm("annotate", "export", "plan", "done.jsonl", cwd=tmp_path).stderr
    assert "Wanted: pluralrm annotate export plan --judgments done.jsonl --to FORMAT --out FILE." in export
    swapped = pluralrm("annotate", "import", "plan", "done.jsonl", "--from", "argilla", cwd=tmp_path).stderr
    assert "Wanted: pluralrm annotate import done.jsonl --from argilla --plan plan --out FILE.jsonl." in swapped


def test_a_comma_before_a_key_is_no_slip(tmp_path: Path) -> None:
    done = pluralrm("score", "pocket-prb", "-m", "random,seed=3", "-c", "raw:3,by=random,seed=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("body", "place", "what"),
    [
        ("x = 1\ndef broken(:\n", "mine.py:2", "SyntaxError: invalid syntax"),
        ("import math\nimport no_such_module_here\n", "mine.py:2", "ModuleNotFoundError: No module named"),
        ("from math import no_such_name\n", "mine.py:1", "ImportError: cannot import name"),
        ("x = 1\n\nint('one')\n", "mine.py:3", "ValueError: invalid literal"),
        ("import helper\n", "helper.py:1", "ZeroDivisionError"),
        ("class M:\n    def __init__(self):\n        int('two')\n", "mine.py:3", "ValueError: invalid literal"),
        ("import json\nclass M:\n    def __init__(self):\n        json.loads('?')\n", "mine.py:4", "JSONDecodeError"),
    ],
)
def test_an_error_in_ones_own_file_is_its_line_and_its_own_words(
    tmp_path: Path, body: str, place: str, what: str
) -> None:
    (tmp_path / "mine.py").write_text(body)
    (tmp_path / "helper.py").write_text("1 / 0\n")
    done = pluralrm("score", "pocket-prb", "-m", "python:mine:M", cwd=tmp_path)
    assert done.returncode == 2
    assert f"/{place}: {what}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [("compare", "runs"), ("list", "benchmarks"), ("show", "RUN", "-i", "i0001")])
def test_a_terminal_without_unicode_gets_every_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    run = score(bakery(20, name="焼き物"), Scripted("naïve × 日本語"), out=tmp_path / "runs")
    named = [run.path if word == "RUN" else word for word in words]
    plain = pluralrm(*named, cwd=tmp_path, PYTHONIOENCODING="utf-8")
    spelled = pluralrm(*named, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (spelled.returncode, spelled.stderr.count("Traceback")) == (0, 0)
    assert spelled.stdout.isascii()
    assert len(spelled.stdout.splitlines()) >= len(plain.stdout.splitlines())
    assert ("\\u65e5\\u672c\\u8a9e" in spelled.stdout) == ("日本語" in plain.stdout)


def test_a_misspelled_tag_is_told_before_any_table(tmp_path: Path) -> None:
    run = score(bakery(20), Scripted(), out=tmp_path)
    for words in (("compare", "."), ("show", run.path)):
        done = pluralrm(*words, "--by", "shfit", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Did you mean 'shift'" in done.stderr


def test_a_grid_of_which_nothing_can_be_scored_is_an_error_with_its_reasons(tmp_path: Path) -> None:
    done = pluralrm("score", "pocket-rmgap", "-m", "lsa", "-m", "longest", "-c", "raw:3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pocket-rmgap × longest × raw:3: pocket-rmgap has no posts to show" in done.stderr
    some = pluralrm("score", "pocket-rmgap", "-m", "longest", "-c", "raw:3", "-c", "none", cwd=tmp_path)
    assert some.returncode == 0, some.stderr
    assert "skipped pocket-rmgap × longest × raw:3" in some.stderr


def test_an_item_that_is_not_there_does_not_list_hundreds(tmp_path: Path) -> None:
    run = score(bakery(300), Scripted(), out=tmp_path)
    done = pluralrm("show", run.path, "--item", "zz", cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(r"has no item 'zz'\. Known: (i\d{4}, ){14}i0014 and 285 more\.$", done.stderr.strip())


@pytest.mark.parametrize(
    "words",
    [
        ("annotate", "plan", "pocket-prb", "-n", "6", "-o", "taken.txt"),
        ("annotate", "rehearse", "plan", "-o", "taken.txt/x.jsonl"),
        pytest.param(("train", "tiny", "-o", "taken.txt", "--steps", "1"), marks=pytest.mark.hf),
        ("train", "verl", "export", "pocket-prb", "--policy", "x", "--reward", "longest", "-o", "taken.txt"),
        ("report", "runs", "-o", "r.html", "--figures", "taken.txt"),
    ],
)
def test_a_file_where_a_folder_goes_is_one_line_and_stays(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "taken.txt").write_text("mine")
    score(bakery(20), Scripted(), out=tmp_path / "runs")
    done = pluralrm(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "taken.txt" in done.stderr.splitlines()[-1]
    assert "with -o" in done.stderr or "Name another" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "taken.txt").read_text() == "mine"


def test_a_page_makes_its_folder(tmp_path: Path) -> None:
    assert pluralrm("audit", "pocket-prb", "-o", "new/folder/audit.html", cwd=tmp_path).returncode in {0, 1}
    assert (tmp_path / "new/folder/audit.html").stat().st_size > 1000
    run = score(bakery(20), Scripted(), out=tmp_path)
    assert pluralrm("report", run.path, "-o", "other/one/report.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "other/one/report.html").exists()


def test_why_items_failed_stands_under_the_table_with_where_to_see_more(tmp_path: Path) -> None:
    bench = bakery(30)
    moods = {item.id: "nan" for item in bench.items} | {"i0003": "refused"}
    run = score(bench, Scripted(moods=moods), out=tmp_path)
    out = " ".join(pluralrm("compare", run.path, "--all", cwd=tmp_path).stdout.split())
    assert "scripted under none: failed (nonfinite): 29 items, as in i0000: nan; more: pluralrm show" in out
    assert "scripted under none: failed (refused): 1 item, as in i0003: as told; more:" in out


def test_a_note_on_the_published_number_names_the_condition_it_is_about(tmp_path: Path) -> None:
    bench = bakery(30)
    for condition in ("none", "recent:2"):
        score(bench, "constant", condition, out=tmp_path)
    out = " ".join(pluralrm("compare", ".", "--all", cwd=tmp_path).stdout.split())
    assert "constant (none), constant (recent:2): accuracy 50.0, ties lose 0.0: 30 ties" in out


def test_an_unfinished_run_is_named_once(tmp_path: Path) -> None:
    bench = bakery(30)
    score(bench, Scripted(moods={"i0001": "transport"}), out=tmp_path)
    done = pluralrm("compare", ".", "--by", "shift", "--all", cwd=tmp_path)
    assert done.stderr.count("left out of personalization") == 1
    assert json.loads(pluralrm("compare", ".", "--json", cwd=tmp_path).stdout)


def test_a_changed_class_is_told_with_what_changed_and_how_to_go_on(tmp_path: Path) -> None:
    words = ("score", "pocket-prb", "-m", "python:mine:Polite")
    (tmp_path / "mine.py").write_text(OWN_MODEL)
    assert pluralrm(*words, cwd=tmp_path).returncode == 0
    (tmp_path / "mine.py").write_text(f"{OWN_MODEL}\n# another wording\n")
    done = pluralrm(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(r"another identity \(the source file of the class: '\w{12}…', was '\w{12}…'\)", done.stderr)
    assert "--fresh" in done.stderr
    assert pluralrm(*words, "--fresh", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("verb", ["score", "view", "serve", "train"])
def test_every_verb_has_a_short_help_option(verb: str, tmp_path: Path) -> None:
    done = command([verb, "-h"], cwd=tmp_path, environment={})
    assert done.returncode == 0, done.stderr
    assert f"pluralrm {verb}" in done.stdout
