"""What the report's tables say of failures and of the places of answers."""

from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.metrics import bounds, by_tag, positions
from pluralrm.models.judge import open_judge
from pluralrm.pages import TableCell
from pluralrm.report import build_report, read_sources
from pluralrm.report.sections import sections
from pluralrm.report.tables import groups, metrics, ranking
from pluralrm.runs import score
from tests.builders import bakery


def _says(request: ChatRequest) -> str:
    """Name the first, or nobody where the question has an even number of letters."""
    return "Result: A" if len(request.messages[0][1]) % 2 else "Neither."


def test_the_lowest_group_of_every_trait_is_in_the_table_with_its_interval(tmp_path: Path) -> None:
    benchmark = load_benchmark("simulated:users=40,items=3,crossed=8,groups=3,seed=2")
    run = score(benchmark, "longest", out=tmp_path)
    [section] = sections(read_sources([tmp_path]))
    table = groups(section, "simulated")
    assert table is not None
    assert [[*row[:3]] for row in table.rows] == [["group", "3", "longest · none"], ["hand", "2", "longest · none"]]
    slices = by_tag(run, "trait:group")
    assert slices.lowest is not None
    assert slices.gap is not None
    assert table.rows[0][3] == slices.worst
    assert table.rows[0][4][0] == f"{100 * slices.lowest.value:.1f}"
    assert table.rows[0][5][0] == f"{100 * slices.gap.value:.1f}"
    html = build_report(read_sources([tmp_path])).html
    assert "By what users declared" in html
    assert "95% intervals over users and prompts" in html


def test_where_nobody_declared_anything_there_is_no_table_of_groups(tmp_path: Path) -> None:
    score(bakery(6), "longest", out=tmp_path)
    [section] = sections(read_sources([tmp_path]))
    assert groups(section, "bakery") is None


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
