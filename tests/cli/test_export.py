"""`pluralrm export`: tables as files, with the numbers of `compare` to the last digit; nothing in them can act."""

import csv
import io
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner, Result

from pluralrm.cli import app
from pluralrm.errors import RunError, SpecError
from pluralrm.text import markdown_line, unguarded
from tests.cli.test_formats import tabular
from tests.report.folders import PAYLOADS, folders, hostile

FORMS = {"csv": "csv", "markdown": "md", "latex": "tex"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("runs"), items=24)


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile(tmp_path_factory.mktemp("attack"))


def invoked(*words: str | Path) -> Result:
    result = CliRunner().invoke(app, list(map(str, words)))
    if isinstance(result.exception, SpecError | RunError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("options", [(), ("--all",), ("--by", "domain"), ("--plural",), ("--ties", "lose")])
@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_what_compare_prints(runs: Path, tmp_path: Path, form: str, options: tuple[str, ...]) -> None:
    file = tmp_path / f"table.{FORMS[form]}"
    invoked("export", "table", runs, "-o", file, *options)
    printed = invoked("compare", runs, "--format", form, *options).stdout
    assert file.read_text(encoding="utf-8") == printed
    assert invoked("export", "table", runs, "--format", form, *options).stdout == printed


@pytest.mark.parametrize("options", [(), ("--all",), ("--by", "domain"), ("--plural",)])
def test_parquet_holds_every_digit_of_the_csv(runs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "table.parquet"
    invoked("export", "table", runs, "-o", file, *options)
    table = pq.read_table(file)
    rows = list(csv.DictReader(io.StringIO(invoked("export", "table", runs, *options).stdout)))
    assert table.schema.names == list(rows[0])
    texts = [{key: "" if value is None else str(value) for key, value in row.items()} for row in table.to_pylist()]
    assert texts == rows


def test_a_file_that_is_there_is_replaced_only_if_asked(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="is there already"):
        invoked("export", "table", runs, "-o", file)
    assert file.read_text(encoding="utf-8") == "mine"
    invoked("export", "table", runs, "-o", file, "--force")
    assert file.read_text(encoding="utf-8").startswith("benchmark,")


def test_what_does_not_go_together_is_said_before_runs_are_read() -> None:
    for words in (["--format", "parquet"], ["--plural", "--all"], ["--plural", "--by", "domain"]):
        with pytest.raises(SpecError):
            invoked("export", "table", "no-such-folder", *words)


# ---------------------------------------------------------------- attacks


def test_no_cell_of_a_spreadsheet_is_a_formula(attack: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(invoked("export", "table", attack, "--all").stdout)))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if re.match(r"[=+@\t\r\n]|-(?!\d)", cell)]
    assert {unguarded(row["benchmark"]) for row in rows} == {PAYLOADS[0]}


def test_no_name_acts_in_markdown_or_latex(attack: Path) -> None:
    markdown = invoked("export", "table", attack, "--format", "markdown").stdout
    assert acting(markdown) == []
    for table in re.split(r"(?m)^(?=%)", invoked("export", "table", attack, "--format", "latex").stdout)[1:]:
        assert len(tabular(table)) > 1


def acting(text: str) -> list[str]:
    """Return what Markdown makes of a text beyond texts, tables, lists, headings, code and strong names."""
    plain = {"text", "code_inline", "softbreak", "strong_open", "strong_close", "html_comment"}
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inline = [token for block in tokens for token in block.children or () if token.type not in plain]
    blocks = [token for token in tokens if token.type in {"html_block", "code_block", "fence", "hr"}]
    return [f"{token.type}: {token.content}" for token in (*inline, *blocks) if not token.content.startswith("<!-- ")]


MARKED = st.text(st.sampled_from("ab_*`<>&[](){}!#|\\~$@:/.w-+=\"' \n\u2028é漢"), max_size=24)


@given(MARKED)
def test_any_text_is_shown_by_markdown_as_it_is(text: str) -> None:
    line = markdown_line(f"x{text}x")
    assert acting(line) == []
    (block,) = [token for token in MarkdownIt("commonmark").parse(line) if token.type == "inline"]
    assert "".join(token.content for token in block.children or ()) == " ".join(f"x{text}x".splitlines())
    assert not re.search(r"[a-z]://|www\.|\w@\w", line)


def test_an_attack_is_noticed() -> None:
    for text in ("<b>x</b>", "[x](y)", "![x](y)", "*x*", "<script>1</script>", "<http://example.org>"):
        assert acting(text), text
