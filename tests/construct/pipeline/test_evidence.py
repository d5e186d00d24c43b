"""What is released was judged here, on replies that the cassette holds: edited lines and lost replies are refused."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pluralrm.chat import ScriptedChat
from pluralrm.construct.pipeline import Built, build
from pluralrm.construct.pipeline.folder import DecisionLine
from pluralrm.construct.release import release
from pluralrm.digests import digest
from pluralrm.errors import RunError, ServiceError
from pluralrm.http import Settings
from pluralrm.journal import unsealed_line
from tests.construct.pipeline.released import released
from tests.construct.pipeline.worlds import PIPELINE, answer, contents, decisions, flour, opened, said
from tests.fake_chat import Action, FakeChat, Seen, say, status


def going_on(place: Path, url: str, count: int = 14, **settings: Any) -> Built:
    with opened(place, url, settings=Settings(**settings)) as (folder, pools):
        return build(PIPELINE, flour(count), folder, pools)


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[tuple[Path, FakeChat]]:
    """A folder in which everything is decided, and the server that answered."""
    with FakeChat(answer) as server:
        going_on(tmp_path / "b", server.url)
        yield tmp_path / "b", server


def rewritten(path: Path, number: int, change: Callable[[dict[str, Any]], object], *, sealed: bool = False) -> str:
    """Change one line of a stage's file; whoever knows how puts a seal on it. Return whose it is."""
    lines = path.read_text().splitlines()
    line = json.loads(lines[number - 1])
    change(line)
    text = json.dumps(line)
    lines[number - 1] = DecisionLine.model_validate_json(text).sealed.text.decode().rstrip() if sealed else text
    path.write_text("\n".join(lines) + "\n")
    return str(line["id"])


# ---------------------------------------------------------------- texts that nobody judged


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("01-shown", lambda line: line["kept"].update(posts=["Another post."])),
        ("03-answers", lambda line: line["kept"].update(chosen=line["kept"]["chosen"] + " ")),
        ("03-answers", lambda line: line.update(attempts=99)),
        ("03-answers", lambda line: line["spent"][0].update(calls=0)),
        ("03-answers", lambda line: line.update(heard=[])),
        ("04-checked", lambda line: line["kept"].update(by=["me"])),
        ("04-checked", lambda line: line.update(kept=None, reason="says_nothing")),
        ("04-checked", lambda line: line.update(seal="")),
        ("02-once", lambda line: line.update(after="")),
    ],
)
def test_a_line_that_was_edited_by_hand_is_refused_by_file_and_line(
    finished: tuple[Path, FakeChat], file: str, change: Callable[[dict[str, Any]], object]
) -> None:
    place, server = finished
    path = place / "stages" / f"{file}.jsonl"
    kept = [at for at, text in enumerate(path.read_text().splitlines(), 1) if json.loads(text)["kept"] is not None]
    name = rewritten(path, kept[2], change)
    with pytest.raises(
        RunError, match=rf"stages/{file}\.jsonl:{kept[2]}: '{name}': the line is not as the build wrote it"
    ):
        going_on(place, server.url)


def test_the_way_out_that_the_error_names_judges_anew_and_asks_nobody_again(
    finished: tuple[Path, FakeChat], tmp_path: Path
) -> None:
    place, server = finished
    before, asked = decisions(place), len(server.requests)
    rewritten(place / "stages" / "03-answers.jsonl", 2, lambda line: line["kept"].update(chosen="Bake."))
    with pytest.raises(RunError, match=r"copy calls\.jsonl into another folder"):
        going_on(place, server.url)
    (tmp_path / "anew").mkdir()
    (tmp_path / "anew" / "calls.jsonl").write_bytes((place / "calls.jsonl").read_bytes())
    going_on(tmp_path / "anew", server.url)
    assert decisions(tmp_path / "anew") == before
    assert len(server.requests) == asked


def test_a_text_that_was_put_in_with_a_seal_was_not_judged_either(finished: tuple[Path, FakeChat]) -> None:
    """The line itself is as a build writes it; the one of the next stage was made on another."""
    place, server = finished
    judged = {str(line["id"]) for line in decisions(place)["04-checked.jsonl"]}
    path = place / "stages" / "03-answers.jsonl"
    number = next(at for at, text in enumerate(path.read_text().splitlines(), 1) if json.loads(text)["id"] in judged)
    name = rewritten(path, number, lambda line: line["kept"].update(chosen="Bake."), sealed=True)
    wanted = rf"04-checked\.jsonl:\d+: '{name}': was decided on another text"
    with pytest.raises(RunError, match=wanted):
        going_on(place, server.url)


def test_a_sieve_that_saw_another_crowd_is_refused(finished: tuple[Path, FakeChat]) -> None:
    place, server = finished
    rewritten(place / "stages" / "01-shown.jsonl", 1, lambda line: line["kept"].update(posts=["Spelt."]), sealed=True)
    with pytest.raises(RunError, match=r"02-once\.jsonl:1: .* was decided on another text than the stage before made"):
        going_on(place, server.url)


def test_a_stage_of_another_build_of_the_same_kind_is_refused(tmp_path: Path) -> None:
    """Same input, same models, other words: each line is sound, but what follows was made on others."""
    words = ["flour"]

    def reply(seen: Seen) -> Action:
        text = said(str(seen.body["messages"][0]["content"]))
        return say(f"{text} With {words[-1]}." if text.startswith("Use") else text)

    with FakeChat(reply) as server:
        going_on(tmp_path / "one", server.url)
        words.append("grain")
        going_on(tmp_path / "two", server.url)
        other = (tmp_path / "two" / "stages" / "03-answers.jsonl").read_bytes()
        (tmp_path / "one" / "stages" / "03-answers.jsonl").write_bytes(other)
        with pytest.raises(RunError, match=r"04-checked\.jsonl:\d+: .*(did not come to|another text)"):
            going_on(tmp_path / "one", server.url)


# ---------------------------------------------------------------- replies that are gone


@pytest.mark.parametrize("lost", [0, 7, -1])
def test_a_cassette_that_lost_a_line_is_noticed_when_all_is_decided(finished: tuple[Path, FakeChat], lost: int) -> None:
    place, server = finished
    tape = place / "calls.jsonl"
    lines = tape.read_bytes().splitlines(keepends=True)
    del lines[lost]
    tape.write_bytes(b"".join(lines))
    with pytest.raises(RunError, match=r"stages/0[34]-\w+\.jsonl:\d+: .* on a reply that is not on .*calls\.jsonl"):
        going_on(place, server.url)


def test_a_cassette_whose_words_were_changed_is_noticed(finished: tuple[Path, FakeChat]) -> None:
    place, server = finished
    tape = place / "calls.jsonl"
    whole = tape.read_bytes().splitlines(keepends=True)
    tape.write_bytes(b"".join(whole).replace(b"Use spelt", b"Use wheat", 1))
    with pytest.raises(ServiceError, match=r"calls\.jsonl:\d+: .*the line is not as it was written"):
        going_on(place, server.url)
    tape.write_bytes(b"".join(unsealed_line(line) + b"\n" for line in whole).replace(b"Use spelt", b"Use wheat", 1))
    with pytest.raises(RunError, match=r"on a reply that is another on .*calls\.jsonl"):
        going_on(place, server.url)


def test_lines_of_a_cassette_may_stand_in_another_order(finished: tuple[Path, FakeChat]) -> None:
    place, server = finished
    tape = place / "calls.jsonl"
    tape.write_bytes(b"".join(sorted(tape.read_bytes().splitlines(keepends=True))))
    assert going_on(place, server.url).complete


def test_two_replays_in_turn_are_refused_and_one_of_both_is_taken(
    finished: tuple[Path, FakeChat], tmp_path: Path
) -> None:
    """The first holds the replies about some records, the second those about the others: alone, none made the set."""
    place, server = finished
    lines = (place / "calls.jsonl").read_bytes().splitlines(keepends=True)
    early = set(heard(line for stage in decisions(place).values() for line in stage if str(line["id"]) < "q006"))
    mine = [digest(json.loads(line)["request"]) in early for line in lines]
    first, second, both = tmp_path / "first.jsonl", tmp_path / "second.jsonl", tmp_path / "both.jsonl"
    first.write_bytes(b"".join(line for line, one in zip(lines, mine, strict=True) if one))
    second.write_bytes(b"".join(line for line, one in zip(lines, mine, strict=True) if not one))
    both.write_bytes(second.read_bytes() + first.read_bytes())
    replayed = tmp_path / "replayed"
    assert going_on(replayed, server.url, replay=first).funnel.waiting == 7
    with pytest.raises(RunError, match=r"that is not on .*second\.jsonl\. Give --replay the file that answered before"):
        going_on(replayed, server.url, replay=second)
    assert going_on(replayed, server.url, replay=both).complete
    assert decisions(replayed) == decisions(place)


def test_a_call_that_was_too_long_is_replayed_and_looked_up_like_any_other(tmp_path: Path) -> None:
    """The server has no room for one record's calls, so that record is decided on the refusal."""
    asked: list[Seen] = []

    def short(seen: Seen) -> Action:
        asked.append(seen)
        return status(400, "maximum context length exceeded") if "loaf 3?" in seen.prompt else answer(seen)

    place, replayed = tmp_path / "b", tmp_path / "replayed"
    with FakeChat(short) as server:
        whole = going_on(place, server.url)
        tape = place / "calls.jsonl"
        refused = [line for line in map(json.loads, tape.read_text().splitlines()) if "too_long" in line]
        assert whole.complete
        assert refused
        count = len(asked)
        assert going_on(replayed, server.url, replay=tape).complete
        assert decisions(replayed) == decisions(place)
        assert digest(refused[0]["request"]) in heard(line for stage in decisions(place).values() for line in stage)
        kept = [line for line in tape.read_text().splitlines(keepends=True) if json.loads(line) != refused[0]]
        tape.write_text("".join(kept))
        with pytest.raises(RunError, match=r"was decided on a reply that is not on"):
            going_on(place, server.url)
        assert len(asked) == count


def heard(lines: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the replies that decisions name, by request."""
    return {one["request"]: one["reply"] for line in lines for one in line["heard"]}


def test_the_card_says_which_replies_the_set_rests_on(finished: tuple[Path, FakeChat], tmp_path: Path) -> None:
    """Whoever has the cassette can count them and hash them anew."""
    place, server = finished
    built = going_on(place, server.url)
    told = json.loads((release(built, *released(built)).path / "card.json").read_text())["replies"]
    noted = heard(line for stage in decisions(place).values() for line in stage)
    assert told["calls"] == len(noted) == len((place / "calls.jsonl").read_text().splitlines())
    again = going_on(tmp_path / "again", server.url, replay=place / "calls.jsonl")
    second = release(again, *released(again)).path
    assert json.loads((second / "card.json").read_text())["replies"] == told
    assert f"{told['calls']:,} replies" in (second / "README.md").read_text()


# ---------------------------------------------------------------- a power cut


def test_after_a_power_cut_the_build_goes_on_from_what_was_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that keeps of each file what it held at its last fsync: cut at every one of them."""
    disk: dict[str, bytes] = {}
    cuts: list[dict[str, bytes]] = []
    true_fsync = os.fsync
    place = tmp_path / "b"

    def fsync(descriptor: int) -> None:
        true_fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        name = {"build.tmp": "build.json"}.get(path.name, path.name.replace(".tmp", ".jsonl"))
        disk[str(path.with_name(name).relative_to(place))] = path.read_bytes()
        cuts.append(dict(disk))

    with FakeChat(answer) as server:
        monkeypatch.setattr(os, "fsync", fsync)
        with opened(place, server.url, sync_seconds=0.0) as (folder, pools):
            whole = build(PIPELINE, flour(12), folder, pools)
        monkeypatch.undo()
        assert len(cuts) > 50
        for number, cut in enumerate(cuts[:: max(1, len(cuts) // 7)]):
            left = tmp_path / f"cut-{number}"
            for name, content in cut.items():
                (left / name).parent.mkdir(parents=True, exist_ok=True)
                (left / name).write_bytes(content)
            assert going_on(left, server.url, 12).kept == whole.kept
            assert decisions(left) == decisions(place)
    assert contents(place)["calls.jsonl"] == cuts[-1]["calls.jsonl"]
    assert decisions(place)["04-checked.jsonl"] == sorted(
        map(json.loads, cuts[-1]["stages/04-checked.jsonl"].splitlines()), key=lambda line: str(line["id"])
    )


def test_decisions_of_a_script_rest_on_no_cassette(tmp_path: Path) -> None:
    chats = {
        name: ScriptedChat(lambda request: said(request.messages[0][1]), name=name)
        for name in ("model-a", "model-b", "model-c")
    }
    for _ in range(2):
        with opened(tmp_path, chats=dict(chats)) as (folder, pools):
            built = build(PIPELINE, flour(8), folder, pools)
    assert built.replies.calls == 0
    assert not (tmp_path / "calls.jsonl").exists()
