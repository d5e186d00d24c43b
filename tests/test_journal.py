"""A folder of sealed lines: one writer, resumed where it stopped, errors by file, line and field."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pluralrm.errors import RunError
from pluralrm.journal import Journal, JournalKind, Manifest, Strict, differences, json_line, provenance


class LoafLine(Strict):
    number: int
    flour: str


class BakeryManifest(Manifest):
    oven: str
    settings: dict[str, int]

    def facts(self) -> Mapping[str, object]:
        return {"oven": self.oven, "settings": self.settings}


LOAVES = "loaves.jsonl"
BAKERY = JournalKind(
    noun="bakery",
    manifest="bakery.json",
    record=BakeryManifest,
    error=RunError,
    source="'bake' writes one",
    anew="bake again",
    other="Name another folder.",
    files=("flour.jsonl.gz", LOAVES),
)


def opened(path: Path, oven: str = "stone", **settings: int) -> Journal[BakeryManifest]:
    return Journal(path, BAKERY, BakeryManifest(oven=oven, settings=settings))


def baked(path: Path, *numbers: int) -> None:
    with opened(path, heat=230) as journal:
        journal.write(journal.manifest)
        for number in numbers:
            journal.queue({LOAVES: json_line({"number": number, "flour": "rye"})})


def numbers(path: Path) -> list[int]:
    return [line.number for line in BAKERY.lines(path / LOAVES, LoafLine, lambda line: f"loaf {line.number}")]


def test_lines_are_on_disk_at_the_end_and_a_torn_one_is_dropped_by_the_next_writer(tmp_path: Path) -> None:
    baked(tmp_path, *range(200))
    file = tmp_path / LOAVES
    file.write_bytes(file.read_bytes()[:-5])
    assert numbers(tmp_path) == list(range(199))  # a reader passes over it
    baked(tmp_path, 199)
    assert numbers(tmp_path) == list(range(200))


def test_an_error_in_the_loop_keeps_what_was_queued(tmp_path: Path) -> None:
    def interrupted() -> None:
        with opened(tmp_path) as journal:
            journal.queue({LOAVES: json_line({"number": 1, "flour": "rye"})})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert numbers(tmp_path) == [1]


def test_a_second_writer_and_another_command_are_refused_and_the_folder_is_free_afterwards(tmp_path: Path) -> None:
    baked(tmp_path, 1)
    with opened(tmp_path, heat=230), pytest.raises(RunError, match="another process is writing this bakery"):
        opened(tmp_path, heat=230).__enter__()
    wanted = r"holds a bakery with another oven; another settings \(heat: 200, was 230\)\. Name another folder\."
    with pytest.raises(RunError, match=wanted):
        opened(tmp_path, "steel", heat=200).__enter__()
    with opened(tmp_path, heat=230):
        pass


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (json_line({"number": 1, "flour": "rye"}), r"loaves\.jsonl:2: found a second loaf 1, wanted one\. Restore"),
        (json_line({"number": "x", "flour": "rye"}), r"loaves\.jsonl:2: number: Input should be a valid integer"),
        (json_line({"number": 2, "flour": "rye"}).replace("rye", "oat"), r":2: the line is not as it was written"),
        (json_line({"number": 2, "flour": "rye", "salt": 1}), r":2: salt: Extra inputs .* or bake again"),
    ],
)
def test_a_line_that_does_not_fit_is_named_by_file_line_and_field(tmp_path: Path, line: str, words: str) -> None:
    baked(tmp_path, 1)
    with (tmp_path / LOAVES).open("a") as file:
        file.write(line)
    with pytest.raises(RunError, match=words):
        numbers(tmp_path)


def test_a_manifest_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no bakery: there is no bakery\.json in it; 'bake' writes one"):
        BAKERY.read(tmp_path)
    baked(tmp_path)
    file = tmp_path / "bakery.json"
    file.write_text(file.read_text().replace("stone", "steel"))
    with pytest.raises(RunError, match=r"bakery\.json: the file is not as it was written\. Restore it"):
        BAKERY.read(tmp_path)


def test_facts_that_differ_are_named_one_by_one() -> None:
    now, then = {"a": 1, "b": {"x": 1, "y": "long " * 9}, "c": {}}, {"a": 1, "b": {"x": 1, "y": None}, "c": {"z": 0}}
    assert differences(now, then) == ["b (y: 'long long lo…', was nothing)", "c (z: nothing, was 0)"]


def test_provenance_names_time_versions_and_revision() -> None:
    facts = provenance()
    assert set(facts) == {"started", "versions", "git"}
