"""A build's folder outlives a kill, and takes nothing that belongs to another build."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.chat import ChatModel, ScriptedChat
from pluralrm.construct.pipeline import Folder, Pipeline, Record, Stage, build
from pluralrm.construct.pipeline.engine import manifest_of
from pluralrm.construct.pipeline.folder import DecisionLine, read_lines, read_manifest
from pluralrm.errors import RunError
from pluralrm.http import Settings
from pluralrm.templates import Template
from tests.builders import edit_json
from tests.construct.pipeline.worlds import PIPELINE, ROLES, answer, decisions, flour, opened, said
from tests.fake_chat import FakeChat

STAGES = PIPELINE.stages


def scripted() -> dict[str, ChatModel]:
    names = ("model-a", "model-b", "model-c", "model-d")
    return {name: ScriptedChat(lambda request: said(request.messages[0][1]), name=name) for name in names}


def made(place: Path, records: list[Record], pipeline: Pipeline = PIPELINE, **more: object) -> None:
    with opened(place, chats=scripted(), roles=more.pop("roles", ROLES)) as (folder, pools):  # type: ignore[arg-type]
        build(pipeline, records, folder, pools, **more)  # type: ignore[arg-type]


def with_stage(number: int, **changes: object) -> Pipeline:
    stage = STAGES[number]
    assert isinstance(stage, Stage)
    return replace(PIPELINE, stages=(*STAGES[:number], replace(stage, **changes), *STAGES[number + 1 :]))  # type: ignore[arg-type]


def test_a_torn_last_line_is_decided_again(tmp_path: Path) -> None:
    made(tmp_path / "whole", flour(20))
    for name in ("01-shown", "03-answers", "04-checked"):
        made(tmp_path / name, flour(20))
        file = tmp_path / name / "stages" / f"{name}.jsonl"
        file.write_bytes(file.read_bytes()[:-20])
        for later in (path for path in file.parent.iterdir() if path.name > file.name):
            later.unlink()  # a kill leaves nothing behind a stage that had not decided
        made(tmp_path / name, flour(20))
        assert decisions(tmp_path / name) == decisions(tmp_path / "whole")


@pytest.mark.parametrize(
    ("told", "other"),
    [
        ("another input", lambda place: made(place, flour(21))),
        ("another limit", lambda place: made(place, flour(20), limit=20)),
        ("another input; another limit", lambda place: made(place, flour(20), limit=5)),
        (
            "another most of the stage 'answers'",
            lambda place: made(place, flour(20), with_stage(2, settings={"least": 3})),
        ),
        (
            "another template in the stage 'checked'",
            lambda place: made(place, flour(20), with_stage(3, templates=(Template("flour-check", "?"),))),
        ),
        ("another list of stages", lambda place: made(place, flour(20), replace(PIPELINE, stages=STAGES[:3]))),
        (
            "another pool of models for the role 'judge'",
            lambda place: made(place, flour(20), roles={**ROLES, "judge": ("model-c", "model-d")}),
        ),
        (
            "another pool of models for the role 'judge'",
            lambda place: made(place, flour(20), roles={**ROLES, "judge": ("model-c,temperature=0.5",)}),
        ),
    ],
)
def test_another_build_is_refused_with_what_differs(tmp_path: Path, told: str, other: Callable[[Path], None]) -> None:
    made(tmp_path, flour(20))
    before = decisions(tmp_path)
    with pytest.raises(RunError, match=f"a build with {told}\\. What they make must not mix: name another folder"):
        other(tmp_path)
    assert decisions(tmp_path) == before


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with Folder(tmp_path), pytest.raises(RunError, match="another process is writing this build"), Folder(tmp_path):
        pass


def test_a_full_disk_is_told_in_words(tmp_path: Path) -> None:
    def written() -> None:
        with opened(tmp_path, chats=scripted()) as (folder, pools):
            folder.adopt(manifest_of(PIPELINE, flour(3), pools, None))
            (tmp_path / "stages" / "01-shown.jsonl").symlink_to("/dev/full")
            folder.decide(0, "shown", DecisionLine(id="q000", kept={}))

    with pytest.raises(RunError, match=r"No space left on device\. Make room: the same command resumes"):
        written()


def test_the_builds_own_cassette_is_recorded_unless_one_is_replayed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.settings(Settings()).record == tmp_path / "calls.jsonl"
    replaying = Settings(replay=tmp_path / "shipped.jsonl")
    assert folder.settings(replaying) == replaying


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_decisions_whose_replies_are_gone_are_not_built_upon(tmp_path: Path, left: str) -> None:
    with FakeChat(answer) as server:
        with opened(tmp_path, server.url) as (folder, pools):
            first = build(PIPELINE, flour(8), folder, pools)
        tape = (tmp_path / "calls.jsonl").rename(tmp_path / "tape.jsonl")
        if left == "an empty file":
            (tmp_path / "calls.jsonl").touch()
        with (
            opened(tmp_path, server.url) as (folder, pools),
            pytest.raises(RunError, match=r"calls\.jsonl holds no reply.* the set could not be made again"),
        ):
            build(PIPELINE, flour(8), folder, pools)
        with opened(tmp_path, server.url, settings=Settings(replay=tape)) as (folder, pools):
            assert build(PIPELINE, flour(8), folder, pools).kept == first.kept


def test_a_build_in_which_nobody_was_asked_yet_goes_on_without_replies(tmp_path: Path) -> None:
    with FakeChat(answer) as server:
        with opened(tmp_path, server.url) as (folder, pools):
            whole = build(PIPELINE, flour(8), folder, pools)
        for name in ("stages/03-answers.jsonl", "stages/04-checked.jsonl", "calls.jsonl"):
            (tmp_path / name).unlink()
        with opened(tmp_path, server.url) as (folder, pools):
            assert build(PIPELINE, flour(8), folder, pools).kept == whole.kept


def test_replies_of_two_recordings_do_not_mix(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with FakeChat(answer) as server:
        for place in (ours, theirs):
            with opened(place, server.url) as (folder, pools):
                whole = build(PIPELINE, flour(8), folder, pools)
        own = Settings(replay=theirs / ".." / "ours" / "calls.jsonl")
        with opened(ours, server.url, settings=own) as (folder, pools):
            assert build(PIPELINE, flour(8), folder, pools).kept == whole.kept
        with (
            opened(ours, server.url, settings=Settings(replay=theirs / "calls.jsonl")) as (folder, pools),
            pytest.raises(RunError, match=r"theirs/calls\.jsonl: .*ours holds replies of its own in calls\.jsonl"),
        ):
            build(PIPELINE, flour(8), folder, pools)


def sealed(line: DecisionLine) -> str:
    return line.sealed.text.decode().rstrip()


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("01-shown", '{"id": "q001", "kept": null, "reason": "x"}', "second decision on 'q001'"),
        ("01-shown", sealed(DecisionLine(id="zz", kept=None, reason="x")), "'zz', which is no record of the input"),
        ("01-shown", '{"id": "zz", "kept": null, "reason": "x"}', "'zz': the line is not as the build wrote it"),
        ("01-shown", '{"id": "q001"}', "kept: Field required"),
        ("01-shown", '{"id": "q001", "kept": {}, "score": 1}', "score: Extra inputs"),
        ("01-shown", "garbage", "Invalid JSON"),
        ("01-shown", '{"id": "q001", "kept": null}', "neither"),
        ("01-shown", '{"id": "q001", "kept": {"posts": []}, "reason": "x"}', "a reason beside a product"),
        ("03-answers", '{"id": "q009", "kept": null, "reason": "x"}', "did not come to this stage"),
        ("02-once", '{"id": "zz", "kept": null, "reason": "x"}', "did not come to this stage"),
    ],
)
def test_a_line_of_another_build_is_refused(tmp_path: Path, file: str, line: str, told: str) -> None:
    made(tmp_path, flour(20))
    with (tmp_path / "stages" / f"{file}.jsonl").open("a") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(RunError, match=told):
        made(tmp_path, flour(20))


def test_a_product_of_another_shape_is_refused(tmp_path: Path) -> None:
    made(tmp_path, flour(20))
    for later in ("02-once", "03-answers", "04-checked"):
        (tmp_path / "stages" / f"{later}.jsonl").unlink()
    file = tmp_path / "stages" / "01-shown.jsonl"
    file.write_text(sealed(DecisionLine(id="q000", kept={"posts": [7]})) + "\n")
    with pytest.raises(RunError, match=r"01-shown\.jsonl: 'q000': posts\.0: .* wanted a Shown"):
        made(tmp_path, flour(20))


def test_a_sieve_that_ran_on_other_records_is_refused(tmp_path: Path) -> None:
    made(tmp_path, flour(20))
    for name in ("02-once", "03-answers", "04-checked"):
        file = tmp_path / "stages" / f"{name}.jsonl"
        lines = [line for line in file.read_text().splitlines(keepends=True) if '"q005"' not in line]
        file.write_text("".join(lines))
    with pytest.raises(RunError, match=r"02-once\.jsonl: found 17 decisions, wanted 18"):
        made(tmp_path, flour(20))


def test_a_folder_without_a_build_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no build"):
        read_manifest(tmp_path)
    made(tmp_path, flour(5))
    (tmp_path / "build.json").write_text("{}")
    with pytest.raises(RunError, match=r"build\.json: \w+: Field required"):
        made(tmp_path, flour(5))


def test_a_folder_of_an_earlier_format_is_told_what_to_do(tmp_path: Path) -> None:
    made(tmp_path, flour(5))
    edit_json(tmp_path / "build.json", schema_version=1)
    with pytest.raises(
        RunError, match=r"found format 1 of a build's folder, wanted 2\. Copy calls\.jsonl into another"
    ):
        made(tmp_path, flour(5))


def test_an_input_without_records_or_with_two_of_one_id_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no record in the input"):
        made(tmp_path, [])
    with pytest.raises(RunError, match="two records 'q000'"):
        made(tmp_path, [*flour(2), *flour(1)])


def test_a_reader_sees_a_build_that_is_going_on(tmp_path: Path) -> None:
    made(tmp_path, flour(20))
    file = tmp_path / "stages" / "04-checked.jsonl"
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole)[:-5])
    lines = read_lines(tmp_path, read_manifest(tmp_path))
    assert len(lines[3]) == len(whole) - 1
    assert file.read_text() == "".join(whole)[:-5]  # only the builder cuts it


def test_a_build_is_the_same_where_only_a_class_got_another_name(tmp_path: Path) -> None:
    with opened(tmp_path / "b", chats=scripted()) as (folder, pools):
        then = build(PIPELINE, flour(3), folder, pools).manifest
    renamed = [stage.model_copy(update={"makes": "AnotherName"}) for stage in then.stages]
    assert then.model_copy(update={"stages": renamed}).differing(then) == []
    turned = [stage.model_copy(update={"kind": "sieve"}) for stage in then.stages]
    assert then.model_copy(update={"stages": turned}).differing(then)[0] == "kind of the stage 'shown'"
