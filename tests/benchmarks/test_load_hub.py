"""The hub, by the true client library in a process of its own, on a small server that speaks the hub's routes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from tests.benchmarks import crossed_rows
from tests.benchmarks.hub_server import Child, Files, Hub
from tests.benchmarks.published import LAMP_QA, PRB, as_parquet, prb_files, prb_rows
from tests.benchmarks.published_rows import hub_files
from tests.benchmarks.sample_rows import DOMAINS, JsonRow, prb_row, question_row, write_jsonl
from tests.benchmarks.test_load_alignx import reversal_row
from tests.benchmarks.test_load_preferences import published, said, talk

RPR, PRISM, ARENA = "microsoft/rpr", "HannahRoseKirk/prism-alignment", "MichaelR207/chatbot_arena_personalized_0125"

VALIDATION_COUNTS = (801, 892, 810)


def in_two_shards() -> Files:
    shards = {}
    for n, name in enumerate(DOMAINS):
        shards[f"{name}/test-00000-of-00002.parquet"] = as_parquet(prb_rows(n)[:300])
        shards[f"{name}/test-00001-of-00002.parquet"] = as_parquet(prb_rows(n)[300:])
    return shards


def lamp_qa_files() -> Files:
    files: dict[str, bytes] = {}
    for n, (name, count) in enumerate(zip(DOMAINS, VALIDATION_COUNTS, strict=True)):
        rows = [question_row(10_000 * n + k, posts=1) for k in range(count)]
        files[f"data/{name}/validation-00000-of-00001.parquet"] = as_parquet(rows)
        files[f"data/{name}/train-00000-of-00001.parquet"] = b"of another split: must not be read"
    return files


def lamp_qa_lists(count: int) -> Files:
    """Return the layout of the hub: a folder for each split, in it one JSON list."""
    files: dict[str, bytes] = {"README.md": b"# LaMP-QA"}
    for n, name in enumerate(DOMAINS):
        rows = [question_row(10_000 * n + k, posts=2) for k in range(VALIDATION_COUNTS[n] - count)]
        files[f"data/{name}/validation/validation.json"] = json.dumps(rows).encode()
        files[f"data/{name}/train/train.json"] = b"of another split: must not be read"
    return files


def prism_files(talks: int) -> Files:
    rows = []
    for n in range(talks):
        history = [said(0, "user", f"Q{n}?"), said(0, "model", f"A{n}.", 9, chosen=True), said(0, "model", "B.", 1)]
        rows.append(talk(n, user=f"u{n // 6}", history=history))
    survey = json.dumps({"user_id": "u0", "age": "18-24"}).encode()
    files = {"conversations.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows).encode(), "survey.jsonl": survey}
    return files | {"utterances.jsonl": b"not read"}


def arena_rows() -> list[JsonRow]:
    return [dict(published(n, split, dataset="arena")) for n, split in enumerate(["train", "val", *["test"] * 7])]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    files = prb_files()
    first, second, third = (f"{name}/test-00000-of-00001.parquet" for name in DOMAINS)
    with Hub() as server:
        server.publish(PRB, "main", files)
        server.publish(PRB, "sharded", in_two_shards())
        server.publish(PRB, "short", files | {second: as_parquet(prb_rows(1)[:-1])})
        server.publish(
            PRB, "bad-row", files | {third: as_parquet([prb_row(20_001), prb_row(20_002) | {"chosen": "  "}])}
        )
        server.publish(PRB, "torn", files | {first: files[first][:-100]})
        server.publish(PRB, "bare", {"README.md": b"nothing here yet"})
        server.publish(LAMP_QA, "main", lamp_qa_files())
        server.publish(LAMP_QA, "lists", lamp_qa_lists(0))
        server.publish(LAMP_QA, "short", lamp_qa_lists(1))
        server.publish(PRISM, "main", prism_files(8011))
        server.publish(PRISM, "short", prism_files(8010))
        server.publish(
            ARENA, "main", {"data/train-00000-of-00001.parquet": as_parquet(arena_rows()), "README.md": b"#"}
        )
        reversals = as_parquet([reversal_row(n) for n in range(1000)])
        train = {"data/train-00000-of-00001.parquet": b"of another split: must not be read"}
        server.publish(RPR, "main", train | {"data/test-00000-of-00001.parquet": reversals})
        server.publish("openai/summarize_from_feedback", "refs/convert/parquet", crossed_rows.tldr_branch())
        for name, files in (hub_files() | crossed_rows.hub_files()).items():
            server.publish(name, "main", files)
        yield server


@pytest.fixture(scope="module")
def child(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child(hub.url, tmp_path_factory.mktemp("hf")) as process:
        yield process


@pytest.fixture(scope="module")
def newest(child: Child) -> JsonRow:
    """What the child says of the newest PRB, once it is cached."""
    return child.load("prb")


@pytest.fixture(scope="module")
def cold(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """A child that has no copy of anything; it stays so as long as the hub refuses whatever it asks."""
    with Child(hub.url, tmp_path_factory.mktemp("cold")) as process:
        yield process


def test_the_hub_data_set_loads_with_its_commit_and_published_counts(hub: Hub, newest: JsonRow) -> None:
    assert newest["revision"] == hub.commits[PRB, "main"]
    assert (newest["name"], newest["items"], newest["domains"]) == ("prb", 2830, list(DOMAINS))


def test_the_hub_and_local_files_have_one_content_hash(newest: JsonRow, tmp_path: Path) -> None:
    for path, content in prb_files().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    local = load_benchmark(f"prb:{tmp_path}")
    assert newest["hash"] == local.content_hash
    assert (local.card.name, local.card.revision) == ("prb", "")


def test_a_second_load_downloads_nothing(hub: Hub, child: Child, newest: JsonRow) -> None:
    before = hub.requests.copy()
    assert child.load("prb") == newest
    assert hub.requests - before == {"info": 1}  # only: is there a newer commit?


def test_a_fixed_commit_in_the_cache_asks_nothing(hub: Hub, child: Child, newest: JsonRow) -> None:
    before = hub.requests.copy()
    assert child.load(f"prb,revision={newest['revision']}") == newest
    assert hub.requests == before


def test_when_the_hub_is_out_of_order_the_cached_copy_is_taken(hub: Hub, child: Child, newest: JsonRow) -> None:
    hub.fault = 500
    try:
        assert child.load("prb") == newest
    finally:
        hub.fault = 0


def test_a_named_revision_is_recorded_by_its_commit_however_it_is_sharded(
    hub: Hub, child: Child, newest: JsonRow
) -> None:
    reply = child.load("prb,revision=sharded")
    assert reply["revision"] == hub.commits[PRB, "sharded"] != hub.commits[PRB, "main"]
    assert reply["hash"] == newest["hash"]


def test_lamp_qa_loads_one_split_and_fetches_no_other(hub: Hub, child: Child) -> None:
    before = hub.requests["download"]
    reply = child.load("lamp-qa,split=validation")
    assert (reply["name"], reply["items"]) == ("lamp-qa-validation", sum(VALIDATION_COUNTS))
    assert reply["revision"] == hub.commits[LAMP_QA, "main"]
    assert hub.requests["download"] - before == 3


def test_lamp_qa_loads_the_lists_that_its_hub_holds(hub: Hub, child: Child, tmp_path: Path) -> None:
    reply = child.load("lamp-qa,split=validation,revision=lists")
    assert (reply["name"], reply["items"]) == ("lamp-qa-validation", sum(VALIDATION_COUNTS))
    assert (reply["revision"], reply["domains"]) == (hub.commits[LAMP_QA, "lists"], list(DOMAINS))
    # The same rows as its download script writes them: one indented list for each domain and split.
    for path, content in lamp_qa_lists(0).items():
        if path.endswith("/validation.json"):
            file = tmp_path / f"{path.split('/')[1]}_validation.json"
            file.write_text(json.dumps(json.loads(content), indent=4), encoding="utf-8")
    local = load_benchmark(f"lamp-qa:{tmp_path},split=validation")
    assert (local.card.name, local.content_hash) == ("lamp-qa-validation", reply["hash"])


def test_prism_is_fetched_without_its_other_files_and_known_by_its_count(hub: Hub, child: Child) -> None:
    before = len(hub.downloaded)
    reply = child.load("prism")
    assert (reply["name"], reply["revision"]) == ("prism", hub.commits[PRISM, "main"])
    assert reply["items"] == 1335 * 2 + 1  # six conversations of each person, the last two asked; one with a single one
    assert sorted(hub.downloaded[before:]) == ["conversations.jsonl", "survey.jsonl"]
    both = [child.load(f"prism,users={part}")["items"] for part in ("train", "test")]
    assert sum(both) == reply["items"]


def test_a_set_of_personal_rb_is_fetched_by_its_name(hub: Hub, child: Child, tmp_path: Path) -> None:
    reply = child.load("personal-rb,set=arena")
    assert (reply["name"], reply["revision"]) == ("personal-rb-arena", hub.commits[ARENA, "main"])
    assert (reply["items"], reply["domains"]) == (7, ["arena"])
    local = load_benchmark(f"personal-rb:{write_jsonl(tmp_path / 'rows.jsonl', arena_rows())}")
    assert reply["hash"] == local.content_hash


def test_rpr_is_one_split_with_two_people_for_each_row(hub: Hub, child: Child) -> None:
    reply = child.load("rpr")
    assert (reply["name"], reply["revision"]) == ("rpr", hub.commits[RPR, "main"])
    assert reply["items"] == 2000


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("lamp-qa,split=validation,revision=short", "BenchmarkError", f"{DOMAINS[0]} 800 (wanted 801)"),
        ("prism,revision=short", "BenchmarkError", "conversations 8010 (wanted 8011)"),
        ("prb,revision=none", "BenchmarkError", f"hub data set {PRB}: no revision 'none'; leave it out for the newest"),
        ("prb,revision=short", "BenchmarkError", f"{DOMAINS[1]} 988 (wanted 989)"),
        ("prb,revision=torn", "BenchmarkError", "test-00000-of-00001.parquet: not a whole Parquet file"),
        ("prb,revision=bare", "BenchmarkError", "no .jsonl, .json, .parquet, .csv, .jsonl.gz files in the folder"),
        ("prb,revision=bad-row", "RowError", ".parquet:2: chosen: found only white space, wanted a text that is not"),
        (
            "community-alignment",
            "BenchmarkError",
            "unexpected row counts, the data set is not the published one: rows 40 (wa",
        ),
        ("multipref", "BenchmarkError", "rows 40 (wanted 10461)"),
        ("lamp-qa,split=test", "BenchmarkError", "files of the split 'test' in the folder"),
    ],
)
def test_a_data_set_that_is_not_the_published_one_is_refused(child: Child, spec: str, error: str, message: str) -> None:
    reply = child.load(spec)
    assert reply["error"] == error
    assert message in reply["message"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "cannot be fetched (Server error '500 Internal Server Error'"),
        (503, "cannot be fetched (Server error '503 Service Unavailable'"),
        (404, "cannot be fetched (Client error '404 Not Found'"),
        (401, "cannot be fetched (Client error '401 Unauthorized'"),
        (403, "cannot be fetched (403 Forbidden"),
    ],
)
def test_a_server_that_refuses_is_a_benchmark_error(hub: Hub, cold: Child, status: int, message: str) -> None:
    hub.fault = status
    try:
        reply = cold.load("prb")
    finally:
        hub.fault = 0
    assert reply["error"] == "BenchmarkError"
    assert reply["message"].startswith(f"hub data set {PRB}: ")
    assert message in reply["message"]
    assert "\n" not in reply["message"]


def test_a_data_set_that_is_gone_is_a_benchmark_error(tmp_path: Path) -> None:
    with Hub() as empty, Child(empty.url, tmp_path) as process:
        reply = process.load("prb")
    assert reply["message"] == (
        f"hub data set {PRB}: not there, or not for this account to read; "
        "log in with 'hf auth login', or name a local copy by its path"
    )


def test_no_network_is_a_benchmark_error_that_says_what_to_do(tmp_path: Path) -> None:
    with Hub() as gone:
        url = gone.url
    with Child(url, tmp_path) as process:
        reply = process.load("prb")
    assert reply["error"] == "BenchmarkError"
    assert "Connection refused" in reply["message"]
    assert reply["message"].endswith("Try again later, or name a local copy by its path.")


def test_offline_without_a_cached_copy_is_a_benchmark_error() -> None:
    """The tests themselves run with HF_HUB_OFFLINE=1."""
    with pytest.raises(Exception, match=f"hub data set {PRB}: cannot be fetched"):
        load_benchmark("prb")


@pytest.mark.parametrize(
    ("spec", "items", "domains"),
    [
        ("rewardbench", 2985, ["Chat", "Chat Hard", "Safety", "Reasoning"]),
        pytest.param(
            *("rewardbench,prior=yes", 2985 + 17_154, ["Chat", "Chat Hard", "Safety", "Reasoning", "Prior Sets"]),
            marks=pytest.mark.slow,
        ),
        ("rewardbench2", 1865, ["Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties"]),
        ("rm-bench", 1327 * 9, ["chat", "code", "math", "safety"]),
        ("judgebench", 350, ["math", "reasoning", "coding", "knowledge"]),
        ("ppe,set=math", 3, ["math"]),
    ],
)
def test_benchmarks_without_users_load_with_their_published_counts(
    hub: Hub, child: Child, spec: str, *, items: int, domains: list[str]
) -> None:
    reply = child.load(spec)
    assert (reply.get("items"), reply.get("domains")) == (items, domains), reply
    assert reply["name"] == spec.partition(",")[0].replace("ppe", "ppe.math")
    repositories = {
        "rewardbench": "allenai/reward-bench",
        "rewardbench2": "allenai/reward-bench-2",
        "judgebench": "ScalerLab/JudgeBench",
        "ppe.math": "lmarena-ai/PPE-MATH-Best-of-K",
    }
    commit = hub.commits[repositories.get(reply["name"], "THU-KEG/RM-Bench"), "main"]
    assert reply["revision"].partition("+")[0] == commit


@pytest.mark.parametrize(
    ("spec", "repository", "revision", "items"),
    [
        ("coval", "openai/coval", "main", 5_000),
        ("helpsteer3", "nvidia/HelpSteer3", "main", 2_017),
        ("tldr", "openai/summarize_from_feedback", "refs/convert/parquet", 120),
    ],
)
def test_benchmarks_of_people_who_judge_the_same_are_fetched_without_other_files(
    hub: Hub, child: Child, spec: str, *, repository: str, revision: str, items: int
) -> None:
    reply = child.load(spec)
    assert reply.get("revision") == hub.commits[repository, revision], reply
    assert reply["name"] == spec
    assert reply["items"] == items or (spec == "coval" and reply["items"] > items)
