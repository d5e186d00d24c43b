"""What every verb that builds a benchmark tells its user: the funnel, what to do next, exit codes."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import typer

from pluralrm.cli.construction import BuildWork, ConstructOptions, run_build
from pluralrm.cli.options import ServerOptions
from pluralrm.construct.pipeline import Built, Role
from pluralrm.construct.release import About, Edition
from pluralrm.errors import RunError, SpecError
from tests.cli.test_verbs import pluralrm
from tests.construct.pipeline.released import released
from tests.construct.pipeline.worlds import PIPELINE, ROLES, answer, flour, said
from tests.fake_chat import Action, FakeChat, Seen, say
from tests.forked import start

PRICES = "".join(f'["model-{letter}"]\ninput = 1.0\noutput = 2.0\n' for letter in "abc")


def work(records: int = 20) -> BuildWork:
    roles = [Role(name, specs) for name, specs in ROLES.items()]
    return BuildWork(flour(records), roles, lambda: PIPELINE, released)


def told(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    out, err = capsys.readouterr()
    return " ".join(out.split()), " ".join(err.split())


def given(place: Path, url: str, served: ServerOptions | None = None, **more: bool | int) -> ConstructOptions:
    cached = served or ServerOptions(cache=place / "cache")
    return ConstructOptions(place / "b", url=url, served=cached, **more)  # type: ignore[arg-type]


def test_a_build_prints_its_funnel_and_where_its_release_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    with FakeChat(answer) as server:
        run_build(work(), given(tmp_path, server.url, ServerOptions(tmp_path / "cache", prices=prices)))
        calls = len(server.requests)
    out, err = told(capsys)
    assert "of 20 records came through" in out
    assert "rejected at shown: 2 bare" in out
    assert f"load it as prb:{tmp_path}/b/release/data/flour" in out
    assert f"{calls} sent" in err
    assert f"{calls * (100 * 1.0 + 10 * 2.0) / 1e6:.4g}" in err  # what the fake server says it used


def test_where_nothing_came_through_that_is_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def of_some(built: Built) -> tuple[list[Edition], About]:
        assert built.kept, "what is told of a set is told of its records"
        return released(built)

    def refusing(seen: Seen) -> Action:
        return say("NO") if "YES or NO" in seen.prompt else answer(seen)

    with (
        FakeChat(refusing) as server,
        pytest.raises(RunError, match=r"no record came through.*'pluralrm construct show"),
    ):
        run_build(work()._replace(released=of_some), given(tmp_path, server.url))
    assert "0 of 20 records came through" in told(capsys)[0]
    assert not (tmp_path / "b" / "release").exists()


def test_json_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeChat(answer) as server:
        run_build(work(), given(tmp_path, server.url, as_json=True))
    found = json.loads(capsys.readouterr().out)
    assert found["funnel"]["records"] == 20
    assert found["released"] == str(tmp_path / "b" / "release")
    assert (found["leaks"], found["cost"]) == ([], None)


def test_a_dry_run_asks_nobody_and_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeChat(answer) as server:
        assert run_build(work(), given(tmp_path, server.url, dry_run=True, limit=10)) is None
        assert not server.requests
    out, _ = told(capsys)
    assert "flour: 10 records; nothing was sent" in out
    assert "answers writer 18 to 54" in out  # a record without posts asks nothing
    assert not (tmp_path / "b").exists()


def test_records_that_wait_are_exit_3_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    with FakeChat(answer) as server:
        broke = ServerOptions(tmp_path / "cache", concurrency=1, max_cost=0.001, prices=prices)
        with pytest.raises(typer.Exit) as ended:
            run_build(work(), given(tmp_path, server.url, broke))
        out, err = told(capsys)
        assert ended.value.exit_code == 3
        assert "waiting" in out
        assert "records wait (0.001" in err
        assert "spent, of 0.001 allowed); the same command resumes" in err
        assert run_build(work(), given(tmp_path, server.url)) is not None
        assert len(server.prompts) == len({json.dumps(seen.body) for seen in server.requests})


def test_a_leak_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def leaking(seen: Seen) -> Action:
        prompt = str(seen.body["messages"][0]["content"])
        return say(said(prompt) + " Bake it today." * ("manner plain" in prompt))

    with FakeChat(leaking) as server:
        with pytest.raises(typer.Exit) as ended:
            run_build(work(60), given(tmp_path, server.url))
        assert ended.value.exit_code == 1
        assert "--accept-leaks releases it anyway" in told(capsys)[0]
        assert run_build(work(60), given(tmp_path, server.url, accept_leaks=True)) is not None


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    models = ["--writer", "w", "--judge", "j", "--planner", "p"]
    typed = ["construct", "prb", "pocket-prb", "-o", "b", *models, "--cache", "kept", "--url"]
    with FakeChat(latency=300) as server:
        process = start([*typed, server.url], tmp_path, os.environ, [tmp_path / "stdout", tmp_path / "stderr"])
        while len(server.requests) < 3:
            assert process.poll() is None, (tmp_path / "stderr").read_text()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=240) == 130
    complaint = (tmp_path / "stderr").read_text()
    assert f"The same command resumes:\n  pluralrm {' '.join(typed)} {server.url}" in complaint


def test_a_build_has_a_cassette_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="leave it out"):
        run_build(work(), given(tmp_path, "", ServerOptions(record=tmp_path / "tape.jsonl")))


def test_show_tells_why_records_are_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeChat(answer) as server:
        run_build(work(), given(tmp_path, server.url))
    capsys.readouterr()
    whole = pluralrm("construct", "show", "b", cwd=tmp_path)
    assert "shown: bare: q009: q009 wrote nothing" in " ".join(whole.stdout.split())
    listed = pluralrm("construct", "show", "b", "--rejected", "bare", cwd=tmp_path)
    assert "q009 wrote nothing" in listed.stdout
    assert "q019 wrote nothing" in listed.stdout
    slip = pluralrm("construct", "show", "b", "--rejected", "bear", cwd=tmp_path)
    assert slip.returncode == 2
    assert "Did you mean 'bare'?" in slip.stderr
    as_json = json.loads(pluralrm("construct", "show", "b", "--json", cwd=tmp_path).stdout)
    assert as_json["funnel"]["records"] == 20
    assert {"stage": "shown", "reason": "bare", "id": "q009", "detail": "q009 wrote nothing", "attempts": 1} in as_json[
        "rejected"
    ]


def test_show_of_another_folder_is_told(tmp_path: Path) -> None:
    done = pluralrm("construct", "show", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert "holds no build" in done.stderr
