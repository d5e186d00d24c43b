"""What README and docs tell a reader to type works, and prints what they show."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.child import play
from tests.docs.pages import MARKS, PAGES, ROOT, RUN, Block, blocks, name
from tests.docs.props import PROPS, find, tier
from tests.docs.stage import commands, is_output, matches, played, unknown_words

LANGUAGES = (*RUN, "text", "json", "jsonl", "toml", "")
DIRECTIVES = ("index.md", "changelog.md")
ALL = [block for page in PAGES for block in blocks(page)]
TIERS = ("", *sorted({prop.tier for prop in PROPS.values()} - {""}))
PLAYED = [
    (page, wanted)
    for page in PAGES
    for wanted in TIERS
    if any(block.runs and tier(block.needs) == wanted for block in blocks(page))
]
# Of the tier pages, or of the one that its props need: embed, exchange, hf, sandbox.
CASES = [
    pytest.param(page, wanted, marks=[getattr(pytest.mark, wanted or "pages")], id=f"{name(page)} {wanted}")
    for page, wanted in PLAYED
]


@pytest.mark.timeout(900)  # whole pages, with servers and small trainings
@pytest.mark.parametrize(("page", "wanted"), CASES)
def test_what_a_page_tells_to_type_works_and_prints_what_it_shows(page: Path, wanted: str, tmp_path: Path) -> None:
    done = play(page, tmp_path, wanted)
    assert done.returncode == 0, done.stderr


def test_every_block_is_of_a_known_kind() -> None:
    strange = [block for block in ALL if block.language not in LANGUAGES and "file" not in block.marks]
    assert not [block.place for block in strange if block.page.name not in DIRECTIVES or "{" not in block.language]
    assert not [(block.place, mark) for block in ALL for mark in block.marks if mark not in MARKS]


def test_every_fence_stands_at_the_beginning_of_its_line_and_is_one_of_ours() -> None:
    fences = [
        f"{name(page)}:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"\s+```|~~~|````", line)
    ]
    assert not fences


def test_every_block_of_commands_or_python_is_run_by_some_test() -> None:
    code = [block for block in ALL if block.language in RUN and "file" not in block.marks]
    assert len(code) > 60
    assert all(block.runs for block in code)
    assert {block.place for page, wanted in PLAYED for block in played(page, wanted) if block.runs} == {
        block.place for block in code
    }


def test_what_a_block_needs_is_something_that_the_stage_can_put_up() -> None:
    needs = [(block, need) for block in ALL for need in block.needs]
    assert {find(need)[0] for _, need in needs} == set(PROPS.values())
    assert all(block.language in RUN for block, _ in needs)


def test_the_page_on_these_pages_names_every_need() -> None:
    told = (ROOT / "docs" / "design" / "docs.md").read_text(encoding="utf-8").replace("FOLDER", "NAME")
    assert [need for need in PROPS if f"`{need}`" not in told] == []


def test_json_blocks_are_json() -> None:
    for block in ALL:
        if block.language in {"json", "jsonl"} and not is_output(block):
            documents = [block.text] if block.language == "json" else block.text.splitlines()
            assert all(json.loads(document) is not None for document in documents), block.place


def test_a_reader_is_told_the_name_of_each_file() -> None:
    for block in ALL:
        if "file" in block.marks:
            visible = re.sub(r"<!--.*?-->", "", block.page.read_text(encoding="utf-8"))
            assert block.marks["file"] in visible, block.place


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\n", "a\nb\n", False),
        ("b\n", "a\nb\n", False),
        ("a\n...\n", "a\nb\nc\n", True),
        ("...\nc\n", "a\nb\nc\n", True),
        ("a\n...\nc\n", "a\nc\n", True),
        ("a\n...\nb\n", "a\nc\n", False),
        ("took ... s, right in 58.3\n", "took 0.12 s, right in 58.3\n", True),
        ("took ... s, right in 58.3\n", "took 0.12 s, right in 58.4\n", False),
        ("a...c\n", "a\nc\n", False),
        (".\n", "a\n", False),
    ],
)
def test_a_shown_output_must_be_the_printed_one(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


@pytest.mark.parametrize(
    "line",
    [
        "make nothing-of-the-kind",
        "pip install 'pluralrm[nothing]'",
        "pip install something-else",
        "head -3 rows.jsonl",
        "rm -rf /",
    ],
)
def test_a_command_that_does_not_exist_is_not_known(line: str) -> None:
    [words] = commands(Block(ROOT / "README.md", 1, "bash", line, {}, adjacent=False))
    assert unknown_words(words) != []


@pytest.mark.parametrize(
    "line",
    ["make lint test", "make PYTHON=python3.12 demo", "pip install 'pluralrm[hub]'"],
)
def test_a_command_that_exists_is_known(line: str) -> None:
    [words] = commands(Block(ROOT / "README.md", 1, "bash", line, {}, adjacent=False))
    assert unknown_words(words) == []


def test_the_page_on_python_names_everything_public() -> None:
    import pluralrm

    told = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert not [one for one in pluralrm.__all__ if not re.search(rf"\b{one}\b", told) and one != "__version__"]
