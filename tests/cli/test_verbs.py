"""The command line as its user meets it: a real process, its output, its exit code."""

import json
import os
import re
import subprocess
import sys
from fcntl import LOCK_EX, flock
from pathlib import Path
from shutil import copytree

import pytest
from typer.main import get_command

from pluralrm.cli import app, command_line
from pluralrm.cli.evaluate import RUNS
from tests.builders import empty_run
from tests.forked import command

ROOT = Path(__file__).parents[2]
OWN_MODEL = """
from pluralrm import Failure, Verdict

class Polite:
    def score(self, queries):
        for query in queries:
            yield Verdict(tuple(float(len(answer.split())) for answer in query.candidates))

class Down:
    def score(self, queries):
        for number, query in enumerate(queries):
            failing = Failure("transport", "connection refused")
            yield Verdict((failing,) * 2) if number == 3 else Verdict((1.0, 0.0))

class Broken:
    def score(self, queries):
        return [1 / 0 for query in queries]
"""


def pluralrm(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    whole = {**os.environ, "COLUMNS": "80", **environment}
    if not any(name.startswith(("PYTHONHASHSEED", "HF_")) for name in environment):  # which are read at the start
        return command(words, cwd=cwd, environment=whole)
    started = [sys.executable, "-c", "from pluralrm.cli import main; main()", *words]
    return subprocess.run(started, cwd=cwd, env=whole, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a folder with the demo's runs, and what it printed; the workers of a test run share one demo."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "the-demo"
    shared.mkdir(exist_ok=True)
    printed = shared / "printed.txt"
    with (shared / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not printed.exists():
            done = pluralrm("demo", cwd=shared)
            assert done.returncode == 0, done.stderr
            printed.write_text(done.stdout)
    return Path(copytree(shared, tmp_path_factory.mktemp("demo"), dirs_exist_ok=True)), printed.read_text()


def test_the_demo_shows_every_baseline_on_each_benchmark_in_one_screen_or_two(demo: tuple[Path, str]) -> None:
    _, out = demo
    assert "pocket-prb: 60 users; own = raw:10; chance 50         95% intervals over users" in out
    assert "pocket-rmgap: 12 records, 144 items; chance 25      95% intervals over records" in out
    for model in ("random", "constant", "longest", "shortest", "bm25", "lsa", "copy"):
        assert re.search(rf"^{model}\b", out, re.MULTILINE), model
    assert re.search(r"^constant +25\.0 fixed +50\.0 fixed +0\.0 fixed +0\.0 fixed *$", out, re.MULTILINE)
    assert re.search(r"^longest +25\.0 fixed +50\.0 fixed +100\.0 fixed +0\.0 fixed *$", out, re.MULTILINE)
    assert len(out.splitlines()) <= 45
    assert all(len(text) <= 80 for text in out.split("What to try next")[0].splitlines())


def test_the_demo_ends_with_who_is_personalized(demo: tuple[Path, str]) -> None:
    _, out = demo
    last = " ".join(" ".join(out.splitlines()[-23:]).split())
    assert "2 of 9 models are personalized: simulated-posts-known (gain +17.7), pref (gain +10.3)." in last
    assert len(re.findall(r" personalized *$", out, re.MULTILINE)) == 2
    assert re.search(r"^pref .* personalized *$", out, re.MULTILINE)
    assert len(re.findall(r"^longest .* 0\.0 fixed +0\.0 fixed +ignores user *$", out, re.MULTILINE)) == 2
    assert "oracle" not in out


def test_the_readme_shows_what_the_demo_prints(demo: tuple[Path, str]) -> None:
    _, out = demo
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    printed = "\n".join(line.rstrip() for line in out.splitlines())
    assert "personalized" in block
    assert block.strip() in printed


def test_what_the_demo_suggests_works(demo: tuple[Path, str]) -> None:
    folder, out = demo
    assert len(list((folder / "demo-runs").rglob("run.json"))) == RUNS
    (folder / "my_model.py").write_text(OWN_MODEL.replace("Polite", "MyModel"))
    suggested = re.findall(r"^  .* {2}pluralrm (.+)$", out, re.MULTILINE)
    assert len(suggested) == 5
    for words in suggested:
        done = pluralrm(*words.split(), cwd=folder)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout.strip()


def test_compare_prints_every_number_as_an_estimate(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    boards = json.loads(pluralrm("compare", "demo-runs", "--json", cwd=folder).stdout)
    assert {board["benchmark"] for board in boards} == {"pocket-prb", "pocket-rmgap", "simulated"}
    for board in boards:
        for entry in board["entries"]:
            for estimate in entry["metrics"].values():
                assert set(estimate) == {"value", "low", "high", "n", "failed", "method"}
            assert entry["rank"]["low"] <= entry["rank"]["high"]
        runs = len(board["entries"])
        assert len(board["differences"]) == runs * (runs - 1) / 2


@pytest.mark.parametrize("runs", ["demo-runs/pocket-prb", pytest.param("demo-runs", marks=pytest.mark.slow)])
def test_metrics_are_byte_identical_whatever_the_hash_seed(demo: tuple[Path, str], runs: str) -> None:
    folder, _ = demo
    seeds: list[dict[str, str]] = [{"PYTHONHASHSEED": "1"}, {}]  # and that of these tests
    printed = {pluralrm("compare", runs, "--json", cwd=folder, **seed).stdout for seed in seeds}
    assert len(printed) == 1


def test_groups_of_a_tag_are_shown_with_the_worst_and_the_gap(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    done = pluralrm("show", "demo-runs/pocket-rmgap/bm25", "--by", "winner:Formality", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "lowest: " in done.stdout
    assert "highest minus lowest" in done.stdout
    told = json.loads(pluralrm("show", "demo-runs/pocket-rmgap/bm25", "--by", "group", "--json", cwd=folder).stdout)
    assert set(told["by"]["groups"]) == {"1", "2", "3", "4"}


def test_an_item_is_shown_with_all_that_the_model_was_given(demo: tuple[Path, str]) -> None:
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import load_condition

    folder, _ = demo
    bench = load_benchmark("pocket-prb")
    item = bench.items[0]
    [query] = load_condition("raw:10").queries(bench, [item])
    [run] = (folder / "demo-runs/pocket-prb/lsa").glob("raw-10-*")
    done = pluralrm("show", str(run), "-i", item.id, cwd=folder, COLUMNS="100000")
    assert query.user is not None
    for text in (item.prompt, *item.candidates, *(post.text for post in query.user.posts)):
        assert text in done.stdout
    assert item.user is not None
    for post in set(item.user.posts) - set(query.user.posts):
        assert post.text not in done.stdout
    assert item.oracle is not None
    assert item.oracle.narrative not in done.stdout
    told = json.loads(pluralrm("show", str(run), "-i", item.id, "--json", cwd=folder).stdout)
    assert told["input"]["candidates"] == list(item.candidates)
    assert len(told["scores"]) == 2


def test_own_models_score_and_an_outage_exits_3(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_MODEL)
    done = pluralrm("score", "pocket-prb", "-m", "python:mine:Polite", "-m", "longest", "-c", "recent:3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "python:mine:Polite" in done.stdout
    down = pluralrm("score", "pocket-prb", "-m", "python:mine:Down", cwd=tmp_path)
    assert down.returncode == 3
    assert "incomplete" in down.stderr
    assert "has 59 of 60 items" in down.stderr


def test_a_broken_model_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_MODEL)
    done = pluralrm("score", "pocket-prb", "-m", "python:mine:Broken", cwd=tmp_path)
    assert done.returncode == 2
    assert "crashed on each of its first 8 items" in done.stderr
    assert "ZeroDivisionError: division by zero (mine.py:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_model_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_MODEL)
    done = pluralrm("score", "pocket-prb", "-m", "python:mine:Broken", "-m", "longest", cwd=tmp_path)
    assert done.returncode == 2
    assert "longest" in done.stdout
    assert "python:mine:Broken under none: the model crashed" in done.stderr
    assert len(list(tmp_path.rglob("run.json"))) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("score", "pocket-pbr", "-m", "longest"), "Did you mean 'pocket-prb'"),
        (("score", "pocket-prb", "-m", "longst"), "Did you mean 'longest'"),
        (("score", "pocket-prb", "-m", "longest", "-c", "recnt:3"), "Did you mean 'recent'"),
        (("score", "pocket-prb", "-m", "longest", "--domain", "Art"), "has no domain 'Art'"),
        (("score", "pocket-prb", "-m", "longest", "--limit", "0"), "limit is 0"),
        (("compare", "nowhere"), "no run at or below 'nowhere'"),
        (("show", "nowhere"), "no run at or below 'nowhere'"),
        (("check", "python:nothing_here:M"), "no module 'nothing_here'"),
        (("align", "none.jsonl", "-m", "lsa"), "no file 'none.jsonl'"),
    ],
)
def test_a_users_error_is_one_message_and_exit_2(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = pluralrm(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


@pytest.mark.parametrize(
    "words", [("compare", "runs"), ("compare", "runs", "--json"), ("report", "runs", "-o", "r.html")]
)
def test_runs_without_any_row_are_an_error_and_not_an_empty_table(tmp_path: Path, words: tuple[str, ...]) -> None:
    pluralrm("score", "pocket-prb", "-m", "longest", "-c", "none", "-o", "runs", "--limit", "3", cwd=tmp_path)
    [rows] = tmp_path.rglob("rows.jsonl")
    empty_run(rows.parent)
    done = pluralrm(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "at or below 'runs': 1 run, and it has no row yet" in done.stderr
    assert not done.stdout
    assert not (tmp_path / "r.html").exists()


def test_check_tells_of_a_sound_and_of_an_unsound_model(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_MODEL)
    assert pluralrm("check", "python:mine:Polite", cwd=tmp_path).returncode == 0
    unsound = pluralrm("check", "python:mine:Down", cwd=tmp_path)
    assert unsound.returncode == 1
    assert "one score per candidate" in unsound.stdout
    assert pluralrm("check", "pocket-rmgap", "--benchmark", cwd=tmp_path).returncode == 0


def test_align_reads_a_file_of_ratings(tmp_path: Path) -> None:
    rows = [{"output": f"rye bread {n}", "profile": ["I bake rye bread."], "human_score": n / 20} for n in range(20)]
    (tmp_path / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = json.loads(pluralrm("align", "ratings.jsonl", "-m", "lsa", "--json", cwd=tmp_path).stdout)
    assert told["mapping"] == "cosine: (1 + score) / 2"
    assert {"alignment", "pearson", "spearman"} <= set(told)
    assert "alignment" in pluralrm("align", "ratings.jsonl", "-m", "longest", cwd=tmp_path).stdout


def test_the_cards_are_listed(tmp_path: Path) -> None:
    out = pluralrm("list", "benchmarks", cwd=tmp_path).stdout
    for word in ("prb", "rmgap", "lamp-qa", "pocket-prb", "pocket-rmgap", "invented"):
        assert word in out
    card = pluralrm("list", "benchmarks", "pocket-prb", cwd=tmp_path).stdout
    assert all(word in card for word in ("licence", "labels", "source"))
    assert "python" in pluralrm("list", "models", cwd=tmp_path).stdout
    assert "recent" in pluralrm("list", "conditions", cwd=tmp_path).stdout
    assert "per-aspect" in pluralrm("list", "graders", cwd=tmp_path).stdout


_HOSTILE = "\x1b[31mred\x1b]0;title\x07 =1+1 @SUM(A1) \u202eevil [bold]x[/bold] \x9b5n \r\n\x00"


def test_hostile_texts_never_reach_the_terminal_raw(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"={n}+1 [bold]x[/bold]",
            "question": f"Which {_HOSTILE}?",
            "category": _HOSTILE,
            "narrative": _HOSTILE,
            "profile": [{"id": f"@{n}", "category": _HOSTILE, "text": f"post {_HOSTILE}"}],
            "rubric_aspects": [{"aspect": _HOSTILE, "evidence": _HOSTILE, "reason": _HOSTILE}],
            "chosen": f"a {_HOSTILE}",
            "rejected": f"b {_HOSTILE}",
        }
        for n in range(9)
    ]
    file = tmp_path / "Art_and_Entertainment.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("score", f"prb:{file}", "-m", "longest", "-m", "lsa", "-c", "recent:5", "-o", "runs")
    (tmp_path / "mine.py").write_text(
        OWN_MODEL.replace('"connection refused"', repr(_HOSTILE)).replace("transport", "parse")
    )
    outputs = [pluralrm(*words, "-m", "python:mine:Down", cwd=tmp_path)]
    folders = sorted(str(path.parent) for path in (tmp_path / "runs").rglob("run.json"))
    assert len(folders) == 3
    for folder in folders:
        outputs.append(pluralrm("show", folder, cwd=tmp_path))
        outputs.append(pluralrm("show", folder, "--by", "category", cwd=tmp_path))
        outputs.append(pluralrm("show", folder, "-i", rows[0]["id"], cwd=tmp_path))  # type: ignore[arg-type]
        outputs.append(pluralrm("show", folder, "-i", "none", cwd=tmp_path))
    outputs.append(pluralrm("compare", "runs", "--by", "category", cwd=tmp_path))
    outputs.append(pluralrm("check", str(file), "--benchmark", cwd=tmp_path))
    for done in outputs:
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout or done.stderr
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.stdout + done.stderr)


HELP = "import sys\nsys.argv[1:] = {}\nfrom pluralrm.cli import main\ntry: main()\nexcept SystemExit: pass\n"
OF_HELP = {"cli", "cli.terminal", "errors", "text"}
OF_SCORE = {
    *(f"cli.{name}" for name in ("compare", "diagnostics", "options", "overview", "plan", "progress", "score")),
    *("progress", "specs"),
}
DRAWING = {"annotated_doc", "rich", "shellingham", "typer", "typing_extensions"}
MARKDOWN = {"attr", "linkify_it", "markdown_it", "mdurl", "pygments", "uc_micro"}
"""What rich loads for Markdown, which no help here is written in."""
CHECKING = {"annotated_types", "pydantic", "pydantic_core", "typing_inspection"}
"""What typer loads to read options."""


@pytest.mark.parametrize(
    ("act", "ours", "others"),
    [
        ("import pluralrm", set[str](), set[str]()),
        ("import pluralrm.cli", {"cli"}, DRAWING),
        (HELP.format(["--help"]), OF_HELP, DRAWING | MARKDOWN),
        (HELP.format([]), OF_HELP, DRAWING | MARKDOWN),
        (HELP.format(["--version"]), OF_HELP, DRAWING),
        (HELP.format(["score", "--help"]), OF_HELP | OF_SCORE, DRAWING | MARKDOWN | CHECKING),
    ],
)
def test_importing_and_helping_load_these_modules_alone(
    act: str, ours: set[str], others: set[str], tmp_path: Path
) -> None:
    script = f"import sys\nbefore = set(sys.modules)\n{act}\nprint('loaded:', *sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("loaded:")[2].split()
    own = {name.removeprefix("pluralrm.") for name in loaded if name.startswith("pluralrm.")} - {"_version"}
    assert own == ours
    roots = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"pluralrm"}
    assert {name for name in roots if not name.startswith("_")} <= others


def test_help_lists_the_verbs_in_the_words_of_their_functions() -> None:
    for called in ("", "score"):
        listed = get_command(command_line(called)).commands  # type: ignore[attr-defined] # the app is a group
        whole = get_command(app).commands  # type: ignore[attr-defined]
        assert {name: verb.help for name, verb in listed.items()} == {name: verb.help for name, verb in whole.items()}


def test_every_public_name_is_there() -> None:
    import pluralrm

    assert len(pluralrm.__all__) <= 32
    for name in pluralrm.__all__:
        assert getattr(pluralrm, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'scoer'"):
        _ = pluralrm.scoer
