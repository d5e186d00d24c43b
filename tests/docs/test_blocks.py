"""What README and docs tell a reader to type works, and prints what they show."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import MARKS, PAGES, REASONS, ROOT, RUN, Block, blocks, name
from tests.docs.stage import PageError, check_words, commands, is_output, matches

LANGUAGES = (*RUN, "text", "json", "jsonl", "toml", "")
DIRECTIVES = ("index.md", "changelog.md")
ALL = [block for page in PAGES for block in blocks(page)]
PLAYED = [page for page in PAGES if any(block.runs for block in blocks(page))]
_ENVIRONMENT = {"COLUMNS": "80", "LINES": "25", "TERM": "dumb", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}


def play(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a page in a folder, in a process of its own; its cache is there too."""
    words = [sys.executable, "-W", "error", "-m", "tests.docs.stage", str(page)]
    environment = {**os.environ, **_ENVIRONMENT, "PLURALRM_CACHE": str(folder / ".cache")}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PLAYED, ids=name)
def test_what_a_page_tells_to_type_works_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    done = play(page, tmp_path)
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


def test_every_block_of_commands_or_python_is_run_or_says_why_not() -> None:
    code = [block for block in ALL if block.language in RUN]
    assert len(code) > 20
    silent = [block.place for block in code if not block.runs and not {"file", "not run"} & set(block.marks)]
    assert not silent


def test_what_is_not_run_has_one_of_four_reasons() -> None:
    others = [
        (block.place, block.marks["not run"]) for block in ALL if block.marks.get("not run", REASONS[0]) not in REASONS
    ]
    assert not others


@pytest.mark.parametrize(
    "block",
    [block for block in ALL if "not run" in block.marks],
    ids=lambda block: f"{block.place}: {block.marks['not run']}",
)
def test_what_is_not_run_is_at_least_well_formed(block: Block) -> None:
    assert block.language in RUN
    if block.language == "python":
        ast.parse(block.text)
        return
    for words in commands(block):
        check_words(words, block.place)


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
        "pluralrm scoer pocket-prb -m longest",
        "pluralrm score pocket-prb --modle longest",
        "pluralrm list models | head",
        "rm -rf /",
    ],
)
def test_a_command_that_does_not_exist_is_not_known(line: str) -> None:
    with pytest.raises(PageError):
        check_words(commands(Block(ROOT / "README.md", 1, "bash", line, {}, adjacent=False))[0], "here:1")


@pytest.mark.parametrize(
    "line",
    ["make lint test", "make PYTHON=python3.12 demo", "pip install 'pluralrm[hub]'", "pluralrm score prb -m bm25"],
)
def test_a_command_that_exists_is_known(line: str) -> None:
    check_words(commands(Block(ROOT / "README.md", 1, "bash", line, {}, adjacent=False))[0], "here:1")


PAGE = """
<!-- file: mine.py -->
```python
VALUE = 1
```

```python
import mine
print("said", mine.VALUE + 1)
```

```text
said {said}
```

<!-- exit: {exit} -->
```bash
pluralrm score pocket-prb -m longst
```

A sentence.

<!-- output -->
```text
pluralrm: unknown model 'longst'. Did you mean 'longest'?...
```
"""


@pytest.mark.parametrize(
    ("said", "code", "complaint"),
    [("2", "2", ""), ("3", "2", "page.md:12: the page says\nsaid 3"), ("2", "0", "page.md:17: pluralrm score")],
)
def test_a_page_that_is_wrong_is_found_out(tmp_path: Path, said: str, code: str, complaint: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(said=said, exit=code), encoding="utf-8")
    done = play(page, tmp_path)
    assert (done.returncode == 0) is (not complaint)
    assert complaint in done.stderr


@pytest.mark.parametrize("text", ["```python\nleft = 'open'\n", "<!-- file: a.txt -->\n\nA sentence.\n"])
def test_a_fence_left_open_and_a_mark_without_a_block_are_errors(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"never closed|has no block"):
        blocks(tmp_path / "page.md")


def test_the_page_on_python_names_everything_public() -> None:
    import pluralrm

    told = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert not [one for one in pluralrm.__all__ if not re.search(rf"\b{one}\b", told) and one != "__version__"]
