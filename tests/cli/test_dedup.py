"""`pluralrm construct dedup` as its user meets it."""

import json
from pathlib import Path

import pytest

from tests.cli.test_verbs import pluralrm
from tests.fake_chat import Action, FakeChat, Seen, reply

ROWS = [
    {"id": "p1", "prompt": "How do I keep basil alive on a windowsill in winter?"},
    {"id": "p2", "prompt": "how do I keep basil alive on a windowsill in winter"},
    {"id": "p3", "prompt": "How do I keep basil alive on the windowsill in winter?"},
    {"id": "p4", "prompt": "Who was first on the moon?"},
]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    (tmp_path / "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return tmp_path


def run(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    """Return what the verb says on stdout and on stderr, each in one line."""
    done = pluralrm("construct", "dedup", "prompts.jsonl", *words, cwd=cwd, PLURALRM_CACHE=str(cwd / "cache"))
    assert done.returncode == code, done.stderr
    return " ".join(done.stdout.split()), " ".join(done.stderr.split())


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_prompts_are_kept_and_left_out_with_their_reasons(prompts: Path) -> None:
    out, err = run("-o", "kept.jsonl", "--by", "letters", cwd=prompts)
    assert out.startswith("kept.jsonl: 2 of 4 prompts 1 have the letters and digits of another one. 1 have a cosine")
    assert "'p2' is left out. duplicate: the letters and digits of 'p1'" in out
    assert err == ""
    assert lines(prompts / "kept.jsonl") == [ROWS[0], ROWS[3]]
    first, second = lines(prompts / "kept.dropped.jsonl")
    assert (first["id"], first["rule"], first["kept"], first["cosine"]) == ("p2", "duplicate", "p1", None)
    assert (second["id"], second["rule"], second["kept"]) == ("p3", "similar", "p1")
    assert 0.7 < float(str(second["cosine"])) < 1


def test_json_has_the_counts(prompts: Path) -> None:
    out, _ = run("-o", "kept.jsonl", "--by", "letters", "--threshold", "1", "--json", cwd=prompts)
    found = json.loads(out)
    assert {key: found[key] for key in ("prompts", "kept", "duplicate", "similar", "threshold")} == {
        "prompts": 4,
        "kept": 3,
        "duplicate": 1,
        "similar": 0,
        "threshold": 1.0,
    }


@pytest.mark.parametrize("there", ["kept.jsonl", "kept.dropped.jsonl"])
def test_no_file_is_overwritten(prompts: Path, there: str) -> None:
    (prompts / there).write_text("mine")
    _, err = run("-o", "kept.jsonl", "--by", "letters", cwd=prompts, code=2)
    assert f"{there}: is there already" in err
    assert (prompts / there).read_text() == "mine"


def test_a_server_is_asked_and_told_of(prompts: Path) -> None:
    def one_for_all(_: Seen) -> Action:
        return reply({"data": [{"embedding": [1.0, 2.0]}], "usage": {"prompt_tokens": 9, "total_tokens": 9}})

    with FakeChat(one_for_all) as server:
        by = f"embed:my-model,url={server.url}"
        out, err = run("-o", "kept.jsonl", "--by", by, cwd=prompts)
        assert len(server.requests) == 3  # the equal one is left out before anything is paid for
    assert "kept.jsonl: 1 of 4 prompts" in out
    assert err.startswith("asked: 3 replies")


def test_options_for_servers_are_refused_where_none_is_asked(prompts: Path) -> None:
    _, err = run("-o", "kept.jsonl", "--by", "letters", "--concurrency", "3", cwd=prompts, code=2)
    assert "--concurrency: nothing here is asked over HTTP; leave it out" in err
