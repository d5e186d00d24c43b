"""Pushing to a hub: what `export` prints is committed, once; nothing else changes; no text of ours has the token."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner, Result

from pluralrm.cli import app
from pluralrm.core import Benchmark
from pluralrm.errors import OutageError, RunError, ServiceError, SpecError
from pluralrm.exchange import hub as module
from pluralrm.exchange.card import insert_card, model_card
from pluralrm.exchange.hub import HubChange, HubRepository
from pluralrm.exchange.results import result_rows
from pluralrm.report.sections import read_sources, sections
from pluralrm.runs import score
from tests.builders import bakery, card
from tests.exchange.test_card import metadata_of, without
from tests.fake_hub import READER, WRITER, FakeHub, HubReply
from tests.house import SOURCE
from tests.report.folders import folders, hostile, rmgap_folders, unfinished

README = "---\nlicense: mit\n---\n# A model\r\n\r\nmine \x1b[31m\r\n"
CARD = ("export", "card", "-m", "longer", "--push", "lab/model")
RESULTS = ("export", "results", "--push", "lab/results")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("runs"), items=6, conditions=("none", "raw:2"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as server:
        server.add("lab/model", {"README.md": README, "config.json": "{}"})
        server.add("lab/results", {".gitattributes": ""}, "datasets")
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", WRITER)
        yield server


def ran(runs: Path, words: tuple[str, ...], *more: str) -> Result:
    result = CliRunner().invoke(app, [*words[:2], str(runs), *words[2:], *more])
    if isinstance(result.exception, SpecError | RunError | ServiceError):
        assert WRITER not in str(result.exception)
        raise result.exception
    assert result.exit_code == 0, result.exception
    assert WRITER not in result.output
    return result


def commits(hub: FakeHub, name: str, kind: str = "models") -> int:
    return len(hub.repositories[kind, name].commits)


# ---------------------------------------------------------------- what is pushed


def test_the_card_is_inserted_into_the_readme_and_nothing_else_changes(hub: FakeHub, runs: Path) -> None:
    result = ran(runs, CARD)
    files = hub.repositories["models", "lab/model"].files()
    readme = files["README.md"].decode()
    assert readme == insert_card(README, model_card(sections(read_sources([runs])), "longer")).text
    assert without(readme).rstrip() == README.rstrip()
    assert files | {"README.md": b""} == {"README.md": b"", "config.json": b"{}"}
    assert result.stderr.index(f"{hub.url.partition('//')[2]}/lab/model, as lab") == 0
    assert f"pushed: {hub.url}/lab/model/commit/" in result.stderr


def test_the_printed_change_is_the_one_that_is_made(hub: FakeHub, runs: Path) -> None:
    preview = ran(runs, CARD, "--dry-run")
    assert "nothing was pushed" in preview.stderr
    assert "\x1b" not in preview.stdout
    assert (hub.sent("/commit/"), hub.sent("/preupload/")) == ([], [])
    assert ran(runs, CARD).stdout == preview.stdout
    before, after = hub.repositories["models", "lab/model"].commits.values()
    more = Counter(after["README.md"].decode().splitlines()) - Counter(before["README.md"].decode().splitlines())
    changes = [line for line in preview.stdout.splitlines() if re.match(r"[+-](?!\+\+ |-- )", line)]
    assert Counter(changes) == Counter({f"+{line}": number for line, number in more.items()})


@pytest.mark.parametrize("words", [CARD, RESULTS])
@pytest.mark.parametrize("more", [(), ("--pr",)])
def test_pushed_twice_is_pushed_once(hub: FakeHub, runs: Path, words: tuple[str, ...], more: tuple[str, ...]) -> None:
    kind, name = "models" if words is CARD else "datasets", words[-1]
    ran(runs, words, *more)
    requests = len(hub.sent("/preupload/"))
    again = ran(runs, words, *more)
    assert "nothing to push" in again.stderr
    assert (commits(hub, name, kind), len(hub.sent("/preupload/"))) == (2, requests)
    assert len(hub.repositories[kind, name].titles) == len(more)


def test_a_pull_request_leaves_main_as_it_was_and_a_newer_card_goes_onto_it(hub: FakeHub, runs: Path) -> None:
    first = ran(runs, CARD, "--pr")
    assert f"pushed: {hub.url}/lab/model/discussions/1" in first.stderr
    repository = hub.repositories["models", "lab/model"]
    assert repository.files()["README.md"].decode() == README
    ran(runs, CARD, "--pr", "--url", "https://example.org/report")
    assert list(repository.titles) == ["refs/pr/1"]
    assert b"https://example.org/report" in repository.files("refs/pr/1")["README.md"]


def test_a_readme_that_is_not_there_is_begun(hub: FakeHub, runs: Path) -> None:
    hub.add("lab/model", {})
    ran(runs, CARD)
    readme = hub.repositories["models", "lab/model"].files()["README.md"].decode()
    assert list(metadata_of(readme)) == ["model-index"]


def test_entries_on_data_sets_of_the_hub_are_named_and_not_pushed(hub: FakeHub, tmp_path: Path) -> None:
    bench = Benchmark(card("on-hub", source="hub: lab/set (split test)"), bakery(6).items)
    score(bench, "longest", out=tmp_path)
    done = ran(tmp_path, ("export", "card", "--push", "lab/model"))
    assert ".eval_results/pluralrm.yaml is not pushed" in done.stderr
    assert set(hub.repositories["models", "lab/model"].files()) == {"README.md", "config.json"}


def test_json_names_the_page_of_the_commit(hub: FakeHub, runs: Path) -> None:
    record = json.loads(ran(runs, CARD, "--json").stdout)
    assert record["pushed"].startswith(f"{hub.url}/lab/model/commit/")
    assert json.loads(ran(runs, CARD, "--json").stdout) == record | {"pushed": ""}


# ---------------------------------------------------------------- data sets of results


def test_the_data_set_has_the_numbers_of_compare_and_a_readme_that_names_its_file(hub: FakeHub, tmp_path: Path) -> None:
    folders(tmp_path / "a", items=12)
    rmgap_folders(tmp_path / "b")
    unfinished(tmp_path / "c")
    runs = tmp_path
    done = ran(runs, RESULTS)
    assert "left out: down under none on bakery: it is incomplete" in done.stderr
    files = hub.repositories["datasets", "lab/results"].files()
    assert set(files) == {".gitattributes", "README.md", "results.jsonl"}
    readme = files["README.md"].decode()
    assert metadata_of(readme)["configs"] == [{"config_name": "default", "data_files": "results.jsonl"}]
    rows = [json.loads(line) for line in files["results.jsonl"].splitlines()]
    assert len({tuple(row) for row in rows}) == 1
    assert len({(row["benchmark_sha256"], row["model"], row["condition"], row["metric"]) for row in rows}) == len(rows)
    printed = json.loads(CliRunner().invoke(app, ["compare", str(runs), "--json"]).stdout)
    boards = {board["benchmark_hash"]: board for board in printed}
    for row in rows:
        board = boards[row["benchmark_sha256"]]
        if row["metric"] in {"lift", "gain"}:
            results = [each for each in board["personalization"] if each["model"] == row["model"]]
            expected = results[0][row["metric"]]
        else:
            key = (row["model"], row["condition"])
            entry = next(each for each in board["entries"] if (each["model"], each["condition"]) == key)
            expected = entry["metrics"][row["metric"]]
        assert {name: row[name] for name in expected} == expected
    assert "down" not in {row["model"] for row in rows}, "an unfinished run is no result"
    assert "oracle" not in {row["condition"] for row in rows}


def test_runs_without_a_result_leave_the_data_set_as_it_is(hub: FakeHub, tmp_path: Path) -> None:
    unfinished(tmp_path)
    with pytest.raises(RunError, match=r"no result: .* it is incomplete"):
        ran(tmp_path, RESULTS)
    assert commits(hub, "lab/results", "datasets") == 1


def test_no_text_of_an_item_no_spec_and_no_path_is_pushed(hub: FakeHub, tmp_path: Path) -> None:
    folders(tmp_path, items=12, models=("hf:/home/me/Longer", "hf:/home/me/other"))
    ran(tmp_path, RESULTS)
    ran(tmp_path, ("export", "card", "-m", "Longer", "--push", "lab/model"))
    pushed = b"".join(request.body for request in hub.requests)
    assert b"Longer" in pushed
    for text in (b"/home/me", str(tmp_path).encode(), b"CANARY"):
        assert text not in pushed


def test_hostile_names_are_rows_and_inert_in_the_readme(hub: FakeHub, tmp_path: Path) -> None:
    from tests.cli.test_export import acting

    every = sections(read_sources([hostile(tmp_path)]))
    ran(tmp_path, RESULTS)
    files = hub.repositories["datasets", "lab/results"].files()
    assert [json.loads(line) for line in files["results.jsonl"].splitlines()] == result_rows(every)
    assert files["results.jsonl"].isascii()
    assert acting(files["README.md"].decode().partition("\n---\n")[2]) == []


def test_rows_on_standard_output_and_in_a_folder_are_those_that_are_pushed(
    hub: FakeHub, runs: Path, tmp_path: Path
) -> None:
    ran(runs, RESULTS)
    ran(runs, ("export", "results", "-o", str(tmp_path / "new")))
    files = hub.repositories["datasets", "lab/results"].files()
    assert (tmp_path / "new/README.md").read_bytes() == files["README.md"]
    assert (tmp_path / "new/results.jsonl").read_bytes() == files["results.jsonl"]
    assert ran(runs, ("export", "results")).stdout.encode() == files["results.jsonl"]
    before = {file.name: file.read_bytes() for file in (tmp_path / "new").iterdir()}
    ran(runs, ("export", "results", "-o", str(tmp_path / "new")))
    assert {file.name: file.read_bytes() for file in (tmp_path / "new").iterdir()} == before


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # by the hub's client
def test_a_large_file_goes_to_the_store_of_large_files(hub: FakeHub, runs: Path) -> None:
    hub.is_large = ".jsonl"
    ran(runs, RESULTS)
    (large,) = hub.large.values()
    assert hub.repositories["datasets", "lab/results"].files()["results.jsonl"] == large
    assert {request.token for request in hub.sent("/large/")} == {""}


# ---------------------------------------------------------------- what fails, by name

FAULTS = [
    ("/whoami", 401, "the token is not accepted"),
    ("/revision/", 404, "no such model, or not for this account"),
    ("/resolve/", 404, "no such model"),
    ("/commit/", 401, "the token is not accepted"),
    ("/commit/", 403, "may not write there"),
    ("/commit/", 409, "has changed meanwhile"),
    ("/commit/", 412, "has changed meanwhile"),
    ("/commit/", 500, "no answer"),
    ("/commit/", 429, "no answer"),
    ("/validate-yaml", 400, "Invalid metadata"),
]


@pytest.mark.parametrize(("part", "status", "message"), FAULTS, ids=str)
def test_a_refusal_is_named_and_changes_nothing(hub: FakeHub, part: str, status: int, message: str) -> None:
    echo = {"error": f"you sent {WRITER}", "errors": [{"message": f"in {WRITER}"}]}
    hub.faults.append((part, HubReply(status, echo, {"X-Error-Message": f"seen: Bearer {WRITER}"})))
    with pytest.raises(OutageError if status in {429, 500} else ServiceError, match=message) as caught:
        pushed()
    assert WRITER not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    assert commits(hub, "lab/model") == 1
    pushed()
    assert commits(hub, "lab/model") == 2


def pushed() -> None:
    repository = HubRepository("lab/model", "model")
    assert repository.account() == "lab"
    base = repository.branch(["README.md"])
    repository.commit(base, base.changes({"README.md": "new"}), "A title")


def test_an_edit_between_reading_and_committing_is_kept(
    hub: FakeHub, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, repository = HubRepository.commit, hub.repositories["models", "lab/model"]

    def later(self: HubRepository, *args: object, **options: object) -> str:
        repository.commit({"README.md": b"# Edited\n"})
        return commit(self, *args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(HubRepository, "commit", later)
        with pytest.raises(ServiceError, match="changed meanwhile"):
            ran(runs, CARD)
    assert repository.files()["README.md"] == b"# Edited\n"
    ran(runs, CARD)
    assert repository.files()["README.md"].startswith(b"---\n# pluralrm:begin\n")
    assert b"# Edited\n" in repository.files()["README.md"]


def test_who_may_not_write_may_look(hub: FakeHub, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", READER)
    with pytest.raises(ServiceError, match="may not write there"):
        ran(runs, CARD)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nowhere")
    assert "without a token" in ran(runs, CARD, "--dry-run").stderr
    with pytest.raises(ServiceError, match="hf auth login"):
        ran(runs, CARD)
    assert commits(hub, "lab/model") == 1


def test_a_readme_that_is_not_utf8_is_refused(hub: FakeHub, runs: Path) -> None:
    hub.repositories["models", "lab/model"].commit({"README.md": b"\xff\xfe"})
    with pytest.raises(RunError, match="not UTF-8"):
        ran(runs, CARD)


def test_a_token_goes_to_no_other_host_and_never_unencrypted(
    hub: FakeHub, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeHub() as other:
        other.add("lab/model", {"README.md": README})
        target = f"{other.url}/lab/model/resolve/main/README.md"
        hub.faults.append(("/resolve/", HubReply(302, b"", {"Location": target})))
        ran(runs, CARD, "--dry-run")
        assert [request.token for request in other.requests] == [""]
    for url, message in (("http://192.0.2.1", "unencrypted"), ("https://lab:secret@192.0.2.1", "redacted")):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        with pytest.raises(ServiceError, match=message) as caught:
            ran(runs, CARD)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["model", "lab/model@main", "https://huggingface.co/lab/model", "../x"])
def test_what_is_no_repository_is_refused_before_anything_is_sent(hub: FakeHub, runs: Path, name: str) -> None:
    with pytest.raises(SpecError, match="wanted OWNER/NAME"):
        ran(runs, ("export", "card", "-m", "longer", "--push", name))
    assert hub.requests == []


@pytest.mark.parametrize("words", [("--pr",), ("--dry-run",), ("--push", "a/b", "--into", "x"), ("--push", "")])
def test_options_that_do_not_go_together_are_refused(runs: Path, words: tuple[str, ...]) -> None:
    if words == ("--push", ""):
        ran(runs, ("export", "card", "-m", "longer", *words))
        return
    with pytest.raises(SpecError):
        ran(runs, ("export", "card", "-m", "longer", *words))


@pytest.mark.usefixtures("hub")
def test_a_hub_that_is_not_there_is_an_outage(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OutageError, match="HF_HUB_OFFLINE"):
        ran(runs, CARD)


# ---------------------------------------------------------------- as its user runs it


def test_the_command_pushes_with_the_token_of_the_environment_and_writes_it_nowhere(runs: Path, tmp_path: Path) -> None:
    with FakeHub() as hub:
        hub.add("lab/model", {"README.md": README})
        names = {"HF_ENDPOINT": hub.url, "HF_TOKEN": WRITER, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)}
        names |= {"HOME": str(tmp_path), "PYTHONPATH": str(SOURCE.parent)}
        command = [sys.executable, "-c", "from pluralrm.cli import main; main()", *CARD[:2], str(runs), *CARD[2:]]
        done = subprocess.run(
            command, env={**os.environ, **names}, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "+## Evaluation by pluralrm" in done.stdout
        assert commits(hub, "lab/model") == 2
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if WRITER.encode() in file.read_bytes()]
    assert WRITER not in done.stdout + done.stderr


def test_a_long_change_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST", 15)
    lines = HubChange("a.txt", "", "\n".join(["long" * 5, *map(str, range(20))])).diff.splitlines()
    assert lines[2:5] == ["@@ -0,0 +1,21 @…", "+longlonglonglo…", "+0"]
    assert (len(lines), lines[-1]) == (16, "... 9 more lines")
