"""What the report's tables say of failures and of the places of answers."""

from pathlib import Path

from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.metrics import bounds, positions
from pluralrm.models.judge import open_judge
from pluralrm.pages.document import TableCell
from pluralrm.report import build_report, read_sources
from pluralrm.report.sections import sections
from pluralrm.report.tables import metrics, ranking
from pluralrm.runs import score
from tests.builders import bakery


def _says(request: ChatRequest) -> str:
    """Name the first, or nobody where the question has an even number of letters."""
    return "Result: A" if len(request.messages[0][1]) % 2 else "Neither."


def test_failures_and_places_of_a_judge_are_in_the_tables(tmp_path: Path) -> None:
    judge = score(bakery(40), open_judge("judge:m", chat=ScriptedChat(_says)), out=tmp_path)
    score(bakery(40), "longest", out=tmp_path)
    sources = read_sources([tmp_path])
    [section] = sections(sources)
    [board] = section.boards
    found, places = bounds(judge), positions(judge)
    assert found is not None
    assert found.failed > 0
    failed = {row[1][0]: row[-1] for row in ranking(section, board, "bakery").rows}
    assert failed == {"m": f"{found.failed}, at best {100 * found.best:.1f}", "longest": "0"}
    table = metrics(board, "bakery")
    cells = {row[0]: dict(zip([column.head for column in table.columns], row, strict=True)) for row in table.rows}
    consistent, first = "items with one outcome in all orders", "calls won by the answer shown first"
    assert cells["m · none"][first][0] == f"{100 * places.first.value:.1f}"
    assert cells["m · none"][consistent][0] == "0.0"
    assert cells["longest · none"][first] == cells["longest · none"][consistent] == TableCell("–")
    assert f"at best {100 * found.best:.1f}" in build_report(sources).html
