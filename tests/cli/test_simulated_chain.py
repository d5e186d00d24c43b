"""From simulated users to the exact curve, by commands alone: no server, no key, no torch."""

import json
from pathlib import Path
from typing import Any

from tests.cli.test_verbs import pluralrm

BENCH = "simulated:users=12,items=2"


def run(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    done = pluralrm(*words, cwd=cwd, PLURALRM_CACHE=str(cwd / "cache"))
    assert done.returncode == code, done.stderr
    return done.stdout, " ".join(done.stderr.split())


def told(*words: str, cwd: Path) -> Any:
    return json.loads(run(*words, "--json", cwd=cwd)[0])


def test_the_whole_chain_runs_without_a_server(tmp_path: Path) -> None:
    drawn = told("sample", BENCH, "-p", "simulated", "-n", "8", "-o", "pool", cwd=tmp_path)
    assert (drawn["items"], drawn["samples"], drawn["complete"]) == (24, 192, True)
    bill = told("grade", "pool", "-g", "truth", "--dry-run", cwd=tmp_path)["all"]
    assert bill == {"answers": drawn["different"], "calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0}
    done = told("grade", "pool", "-g", "truth", cwd=tmp_path)
    assert (done["graded"], done["failed"], done["open"]) == (drawn["different"], 0, 0)
    models = ["-m", "known:taste", "-m", "known:posts", "-m", "longest"]
    found = told("best-of-n", "pool", *models, "-c", "recent:10", cwd=tmp_path)
    assert (found["grader"], found["ungraded"]) == ("truth", 0)
    taste, posts, _ = found["curves"]
    assert [one["bon"]["value"] for one in taste["points"]] == [one["bon"]["value"] for one in found["oracle"]]
    assert taste["points"][-1]["bon"]["value"] > posts["points"][-1]["bon"]["value"]
    assert [curve["shown_rubric"] for curve in found["curves"]] == [True, False, False]


def test_who_reads_the_taste_is_marked_in_every_table(tmp_path: Path) -> None:
    models = ["-m", "known:taste", "-m", "known:posts"]
    out, _ = run("score", BENCH, *models, "-c", "recent:10", cwd=tmp_path)
    [taste] = [line for line in out.splitlines() if line.startswith("ORACLE ")]
    assert "taste" in taste
    out, _ = run("score", BENCH, *models, "-c", "recent:10", "--all", cwd=tmp_path)
    [taste] = [line for line in out.splitlines() if " known:taste " in line]
    assert "ORACLE recent:10" in taste
    assert "ORACLE" not in next(line for line in out.splitlines() if " known:posts " in line)
    run("sample", BENCH, "-p", "simulated", "-n", "2", "-o", "pool", cwd=tmp_path)
    out, _ = run("best-of-n", "pool", *models, "-g", "truth", cwd=tmp_path)
    assert "ORACLE: taste under none saw the rubric" in out
    assert "ORACLE: posts" not in out


def test_the_truth_is_known_of_simulated_users_alone_and_sends_nothing(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"item": "art-01", "text": text}) + "\n" for text in ("Rye.", "Spelt."))
    (tmp_path / "mine.jsonl").write_text(rows)
    run("sample", "pocket-prb", "--from", "mine.jsonl", "-o", "other", cwd=tmp_path)
    for verb in (["grade"], ["best-of-n", "-m", "longest"]):
        _, err = run(verb[0], "other", *verb[1:], "-g", "truth", cwd=tmp_path, code=2)
        assert "pocket-prb is not simulated" in err
    assert not (tmp_path / "other" / "scores").exists()
    for verb in (["grade"], ["best-of-n", "-m", "longest"]):
        _, err = run(verb[0], "other", *verb[1:], "-g", "truth", "--send-posts", cwd=tmp_path, code=2)
        assert "--send-posts: nothing is sent by" in err
