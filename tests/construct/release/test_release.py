"""A release is whole, in the published format, and can be made again from its card; one that leaks is withheld."""

import json
import resource
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pluralrm import load_benchmark
from pluralrm.chat import ChatCall, ChatReply, ChatRequest, Sampling, ScriptedChat
from pluralrm.construct import release as writing
from pluralrm.construct.pipeline import Built, Folder, Pipeline, Role, Stage, build, open_pools
from pluralrm.construct.release import About, Edition, release
from pluralrm.core import Failure
from pluralrm.errors import RunError
from pluralrm.http import Settings
from pluralrm.templates import Template
from tests.construct.pipeline.released import released
from tests.construct.pipeline.worlds import PIPELINE, Answers, contents, flour, opened, said
from tests.fake_chat import Action, FakeChat, Seen, say

Script = Callable[[ChatRequest], str | Failure]


def honest(request: ChatRequest) -> str:
    return said(request.messages[0][1])


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return made(tmp_path / "b", honest)


def made(place: Path, script: Script, count: int = 12) -> Built:
    chats = {name: ScriptedChat(script, name=name) for name in ("model-a", "model-b", "model-c")}
    with opened(place, chats=dict(chats)) as (folder, pools):
        return build(PIPELINE, flour(count), folder, pools)


def card(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "card.json").read_text())
    return found


# ---------------------------------------------------------------- made again


def test_a_second_team_makes_the_same_from_the_card_the_input_and_the_cassette(tmp_path: Path) -> None:
    with FakeChat(dice) as server, opened(tmp_path / "ours", server.url) as (folder, pools):
        ours = build(PIPELINE, flour(30), folder, pools, limit=20)
        first = release(ours, *released(ours)).path
    told = card(first)
    (tmp_path / "theirs").mkdir()
    tape = (tmp_path / "ours" / "calls.jsonl").rename(tmp_path / "theirs.jsonl")
    roles = [Role(name, [member["spec"] for member in pool]) for name, pool in told["roles"].items()]
    settings = Settings(replay=tape)
    with Folder(tmp_path / "theirs") as folder, open_pools(roles, settings=folder.settings(settings)) as pools:
        theirs = build(from_card(told), flour(30)[::-1], folder, pools, limit=told["input"]["limit"])
        assert theirs.manifest.input == told["input"]["hash"]
        second = release(theirs, *released(theirs)).path
    assert contents(second) == contents(first)
    assert len(contents(first)) == 7
    assert told["rebuild"].endswith("--replay calls.jsonl")


DRAWS = count()


def dice(seen: Seen) -> Action:
    """A server that never says the same twice: its words are on the cassette, or gone."""
    text = said(str(seen.body["messages"][0]["content"]))
    return say(f"{text} Draw {next(DRAWS)}." if text.startswith("Use") else text)


def from_card(told: dict[str, Any]) -> Pipeline:
    """Return the pipeline with the prompts and settings that the card shows, and none of our own."""
    prompts = {one["name"]: Template(one["name"], one["source"]) for one in told["templates"]}
    stages = []
    for stage, shown in zip(PIPELINE.stages, told["stages"], strict=True):
        assert stage.name == shown["name"]
        templates = tuple(prompts[name] for name in shown["templates"])
        assert {one.name: one.hash for one in templates} == shown["templates"]
        made_again = replace(stage, settings=shown["settings"])
        stages.append(replace(made_again, templates=templates) if isinstance(made_again, Stage) else made_again)
    return replace(PIPELINE, stages=tuple(stages))


def test_released_twice_it_is_the_same(built: Built) -> None:
    first = contents(release(built, *released(built)).path)
    assert contents(release(built, *released(built)).path) == first
    assert sorted(path.name for path in built.folder.iterdir() if path.name.startswith(".")) == [".lock"]


# ---------------------------------------------------------------- what it holds


def test_the_true_loader_reads_what_came_through(built: Built) -> None:
    done = release(built, *released(built))
    assert done.loads == (f"prb:{built.folder}/release/data/flour",)
    bench = load_benchmark(done.loads[0])
    by_id = {record.id: record[Answers] for record in built.kept}
    assert {item.id for item in bench.items} == set(by_id)
    for item in bench.items:
        assert item.preferred is not None
        assert item.candidates[item.preferred] == by_id[item.id].chosen
    parquet = load_benchmark(f"prb:{done.path / 'parquet' / 'flour'}")
    assert parquet.content_hash == bench.content_hash
    assert card(done.path)["editions"][0]["content_hash"] == bench.content_hash


def test_the_card_says_what_became_of_the_input(built: Built) -> None:
    found = card(release(built, *released(built)).path)
    assert found["funnel"] == json.loads(json.dumps(built.funnel.to_json()))
    assert sum(found["domains"].values()) == found["editions"][0]["rows"] == len(built.kept)
    assert found["roles"]["judge"][0]["sampling"] == {"temperature": 0.0, "max_tokens": 2048, "seed": None}
    assert found["versions"]["pluralrm"]
    # What counts, draws and packs: with another version of one of these, other bytes may come out.
    assert {"python", "numpy", "scipy", "scikit-learn", "matplotlib", "pyarrow"} <= set(found["versions"])


def test_the_card_says_what_is_sent_beside_the_prompts(built: Built) -> None:
    place = release(built, *released(built)).path
    told = card(place)["asked again"]
    assert told in (place / "README.md").read_text()
    request = ChatRequest((("user", "?"),), Sampling())
    call: ChatCall[str] = ChatCall(request, lambda _: Failure("parse", "no mark"), "Reply with a mark.")
    call.settle(ChatReply("hm"))
    second = call.ask_again().messages[-1][1]
    assert second == "This cannot be used: no mark. Reply with a mark."
    assert second.partition(":")[0] in told


def test_nothing_of_this_machine_is_in_a_release(tmp_path: Path, built: Built) -> None:
    whole = b"".join(contents(release(built, *released(built)).path).values())
    assert str(tmp_path).encode() not in whole


def test_without_pyarrow_there_are_json_lines_alone_and_the_card_says_so(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda _: None)
    place = release(built, *released(built)).path
    assert not (place / "parquet").exists()
    assert not card(place)["parquet"]
    assert "There is no Parquet" in (place / "README.md").read_text()
    assert load_benchmark(f"prb:{place / 'data' / 'flour'}").items


# ---------------------------------------------------------------- when there is none


def leaking(request: ChatRequest) -> str:
    """Say what gives the wanted answer away."""
    text = honest(request)
    return f"{text} Bake it today." if "manner plain" in request.messages[0][1] else text


def test_a_leak_withholds_the_release_until_it_is_accepted(tmp_path: Path) -> None:
    leaky = made(tmp_path / "b", leaking, 60)
    held = release(leaky, *released(leaky))
    assert held.withheld
    assert not (leaky.folder / "release").exists()
    assert sorted(contents(held.path)) == ["audit/flour.html", "audit/flour.json"]
    assert any("length" in leak for leak in held.leaks)
    accepted = release(leaky, *released(leaky), accept_leaks=True)
    assert not accepted.withheld
    assert not (leaky.folder / "withheld").exists()
    assert any("although it leaks" in warning for warning in card(accepted.path)["warnings"])
    assert "Warning" in (accepted.path / "README.md").read_text()


def test_a_build_with_waiting_records_releases_nothing(tmp_path: Path) -> None:
    def down(request: ChatRequest) -> str | Failure:
        return Failure("transport", "down") if "loaf 3" in request.messages[0][1] else honest(request)

    open_ = made(tmp_path / "b", down)
    with pytest.raises(RunError, match=r"1 records wait \(down\)"):
        release(open_, *released(open_))


def test_a_build_that_nothing_came_through_releases_nothing(tmp_path: Path) -> None:
    none = made(tmp_path / "b", lambda request: "NO" if "YES or NO" in request.messages[0][1] else honest(request))
    with pytest.raises(RunError, match="no record came through"):
        release(none, *released(none))
    assert not (none.folder / "release").exists()


def test_a_release_that_breaks_off_leaves_the_old_one(built: Built) -> None:
    first = contents(release(built, *released(built)).path)
    editions, about = released(built)
    [row, *others] = editions[0].files["Lifestyle_and_Personal_Development"]
    same = row.model_copy(update={"rejected": row.chosen})  # type: ignore[attr-defined]
    broken = Edition("flour", "prb", {"Lifestyle_and_Personal_Development": [same, *others]})
    with pytest.raises(Exception, match="two different answers"):
        release(built, [broken], about)
    assert contents(built.folder / "release") == first


def test_a_full_disk_is_told_in_words_and_leaves_the_old_release(built: Built) -> None:
    first = contents(release(built, *released(built)).path)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, usual[1]))  # a write beyond it fails as on a full disk
    try:
        with pytest.raises(RunError, match=r"File too large.*Make room: the same command resumes"):
            release(built, *released(built))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert contents(built.folder / "release") == first


def test_killed_while_it_takes_its_place_it_is_there_after_the_next_command(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = contents(release(built, *released(built)).path)
    rename, left = Path.rename, iter([True])

    def killed(self: Path, target: Path) -> Path:
        if self.name == ".release-new" and next(left, False):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        release(built, *released(built))
    assert not (built.folder / "release").exists()
    assert contents(release(built, *released(built)).path) == first
    assert not list(built.folder.glob(".release*"))


# ---------------------------------------------------------------- inert

HOSTILE = "<script>alert(1)</script> ![x](http://evil/x.png) [a](javascript:alert(1)) | `x` \n# H\n``` \u202e\x1b[31m"


def test_whatever_stands_in_a_card_stays_text(built: Built) -> None:
    editions, about = released(built)
    about = replace(about, name=HOSTILE, summary=HOSTILE, licence=HOSTILE, source=HOSTILE, command=HOSTILE)
    about = replace(about, limits=[HOSTILE], warnings=[HOSTILE], sections=[(HOSTILE, HOSTILE)], extras={"x": HOSTILE})
    stages = PIPELINE.stages
    asking = stages[3]
    assert isinstance(asking, Stage)
    hostile = replace(asking, gate=HOSTILE, templates=(Template(HOSTILE, f"{HOSTILE}\n````\n{HOSTILE}"),))
    shown = replace(built, pipeline=replace(PIPELINE, stages=(*stages[:3], hostile)))
    place = release(shown, editions, about).path
    text = (place / "README.md").read_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    prose = without_code(text)
    assert "<script" not in prose
    assert "![x]" not in prose.replace("\\!\\[x\\]", "")
    assert "](javascript" not in prose.replace("\\](javascript", "")
    assert card(place)["extras"] == {"x": HOSTILE}
    tables = [line for line in prose.splitlines() if line.startswith("|")]
    assert all(cell_count(line) in {2, 3, 4, 7} for line in tables)


def cell_count(line: str) -> int:
    return line.replace("\\|", "").count("|") - 1


def without_code(text: str) -> str:
    """Return the lines outside of fences, as CommonMark reads them."""
    kept, fence = [], ""
    for line in text.splitlines():
        ticks = len(line) - len(line.lstrip("`"))
        if not fence and ticks >= 3:
            fence = "`" * ticks
        elif fence and ticks >= len(fence) and not line.strip("`").strip():
            fence = ""
        elif not fence:
            kept.append(line)
    assert not fence
    return "\n".join(kept)


def test_an_about_needs_a_licence() -> None:
    with pytest.raises(TypeError, match="licence"):
        About(name="x", summary="x", source="x", command="x")  # type: ignore[call-arg]
