"""The notebook runs from its first cell to its last, as a reader runs it, and ends in what it promises."""

import ast
import json
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

NOTEBOOK = ROOT / "docs/notebook.ipynb"
CELLS = [
    "".join(cell["source"])
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def test_it_begins_with_the_installation_and_has_ten_cells() -> None:
    assert CELLS[0].startswith("%pip install")
    assert len(CELLS) == 10


def test_no_output_is_stored() -> None:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in stored)


@pytest.mark.pages
def test_it_goes_to_a_table_a_figure_and_a_latex_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    shown = [_run(cell, names) for cell in CELLS[1:]]
    pages = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert sum("<td>shared-words</td>" in page for page in pages) == 2  # the comparison, and the data frame
    assert "\\begin{tabular}" in capsys.readouterr().out
    figure = names["figure"]
    assert figure.axes[0].get_lines()  # type: ignore[attr-defined]
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert max(len(repr(value)) for value in shown if "pandas" not in type(value).__module__) < 500


def _run(cell: str, names: dict[str, object]) -> object:
    """Run a cell and return what a notebook would show below it: the value of an expression that ends it."""
    *body, last = ast.parse(cell).body
    value = isinstance(last, ast.Expr) and not cell.rstrip().endswith(";")
    exec(compile(ast.Module([*body, *([] if value else [last])], []), "cell", "exec"), names)  # noqa: S102 - as a notebook does
    if not isinstance(last, ast.Expr) or not value:
        return None
    shown: object = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - as a notebook does
    return shown
