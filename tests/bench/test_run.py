import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.__main__ import chosen, main
from bench.run import COLUMNS, Line, Opened, failures, load_shapes, measure, play, table

from bench import SHAPES, Outcome, Shape, Work

FOLDER = Path(__file__).parents[2] / "bench"
MARKS = {
    "nvidia": pytest.mark.gpu,
    "vllm": pytest.mark.vllm,
    "torch": pytest.mark.hf,
    "ray": pytest.mark.ray,
}
"""The first of these that a shape needs says which tests it belongs to."""
EVERY = [
    pytest.param(shape, id=name, marks=[MARKS[need] for need in shape.needs if need in MARKS][:1])
    for name, shape in load_shapes().items()
]


def played(shape: Shape[object], rounds: int = 1) -> list[Line]:
    """Return a shape's lines at its smallest size, all sides in this process."""
    lines = {side: Line(shape.name, side, shape.unit) for side in shape.sides}
    opened = Opened(shape, shape.sides, quick=True)
    with opened.setup:
        play(dict.fromkeys(shape.sides, opened), lines, rounds)
    return list(lines.values())


@pytest.mark.parametrize("shape", EVERY)
def test_every_shape_runs_at_its_smallest_size(shape: Shape[object]) -> None:
    # Ray keeps the token and the address of the first cluster of a process.
    lines = measure(shape, quick=True, rounds=1) if "ray" in shape.needs else played(shape)
    rows = list(table(lines))[2:]
    assert len(rows) == len(shape.sides) >= 1
    for row, side in zip(rows, shape.sides, strict=True):
        assert row.startswith(f"| {shape.name} | {side} | ")
        assert row.count("|") == len(COLUMNS) + 1
    assert all(math.isfinite(ratio) and ratio > 0 for line in lines for ratio in line.ratios)
    assert all(len(line.ratios) == 1 for line in lines)
    assert failures([shape], lines) == []


@pytest.fixture
def sums() -> Iterator[Shape[int]]:
    """A shape whose sides keep their own time: 2 s, 4 s for half of the work, and one that is wrong by 0.5."""
    shape = Shape("sums", "a sum", lambda setup: setup.size(100, 10), unit="terms", tolerance=1e-9)

    @shape.side
    def ours(size: int) -> Work:
        return lambda: Outcome([size], units=size, seconds=2.0, figures={"terms": size})

    @shape.side
    def half_a_loop(size: int) -> Work:
        return lambda: Outcome([size], units=size, seconds=4.0, scale=2.0)

    shape.side(lambda size: lambda: Outcome([size + 0.5], seconds=1.0), name="wrong")
    yield shape
    del SHAPES["sums"]


def test_times_are_scaled_to_the_whole_and_ratios_are_to_the_first_side(sums: Shape[object]) -> None:
    ours, half, wrong = list(table(played(sums, rounds=3)))[2:]
    assert ours.startswith("| sums | ours | 2 | ")
    assert " | 1 | 5 terms | " in ours
    assert "| terms 10 |" in ours
    assert half.startswith("| sums | half a loop | 8 | ")
    assert " | 4 | 1.25 terms | " in half
    assert " | 0.5 |  |  | 0.5 |" in wrong


def test_results_that_differ_fail(sums: Shape[object]) -> None:
    assert failures([sums], played(sums)) == ["sums, wrong: results differ by 0.5, at most 1e-09 wanted"]


def test_nan_is_not_within_the_tolerance(sums: Shape[object]) -> None:
    sums.sides.pop("wrong")
    sums.side(lambda _: lambda: Outcome([math.nan], seconds=1.0), name="nan")
    assert failures([sums], played(sums)) == ["sums, nan: results differ by nan, at most 1e-09 wanted"]


def test_a_side_whose_process_died_has_a_row_that_says_so(sums: Shape[object]) -> None:
    class Dying:
        def run(self, _: str):
            raise ChildProcessError("ended with exit code 1, see above")

    lines = {side: Line("sums", side) for side in sums.sides}
    opened = Opened(sums, sums.sides, quick=True)
    play({side: Dying() if side == "ours" else opened for side in sums.sides}, lines, 2)
    assert next(row for row in table(list(lines.values())) if "| ours |" in row).startswith(
        "| sums | ours | ended with exit code 1, see above | "
    )
    assert "sums, ours: ended with exit code 1, see above" in failures([sums], lines.values())
    assert [line.ratios for line in lines.values()] == [[], [], []]


def test_a_missing_module_is_a_row() -> None:
    shape: Shape[int] = Shape("rare", "", lambda _: 0, needs=("module_that_nobody_has",))
    del SHAPES["rare"]
    shape.side(lambda _: lambda: None, name="ours")
    [line] = measure(shape, quick=True, rounds=1)  # type: ignore[arg-type]
    assert line.failure == "needs module_that_nobody_has"
    assert failures([shape], [line]) == []  # type: ignore[list-item]


def test_a_family_is_chosen_by_its_first_word_and_an_unknown_name_is_refused() -> None:
    shapes = load_shapes()
    assert [shape.name for shape in chosen(["dedup", "best-of", "dedup-mostly"], shapes)] == [
        "dedup-nothing",
        "dedup-mostly",
        "best-of",
    ]
    assert chosen(["scoring-pairs"], shapes) == [shapes["scoring-pairs"]]
    assert chosen(["scoring-pairs*"], shapes) == [shapes["scoring-pairs"], shapes["scoring-pairs-posts"]]
    assert {shape.name for shape in chosen([], shapes)} == set(shapes)
    with pytest.raises(SystemExit, match=r"unknown shape 'best-off'\. Did you mean 'best-of'\?"):
        chosen(["best-off"], shapes)


@pytest.mark.usefixtures("sums")
def test_two_shapes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two shapes have the name 'sums'"):
        Shape("sums", "", lambda _: 0)


def test_the_command_runs_each_side_in_a_process_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    monkeypatch.setattr(
        "sys.argv",
        ["bench", "dedup-mostly", "--quick", "--rounds", "1", "--json", str(out), "--sides", "blocks", "best loop"],
    )
    main()
    lines = json.loads(out.read_text())["lines"]
    assert [line["side"] for line in lines] == ["blocks", "best loop"]
    assert [line["difference"] for line in lines] == [0, 0]
    assert all(line["timings"][0]["peak"] > 1 for line in lines)
    assert capfd.readouterr().out.count("| dedup-mostly |") == 2


def test_a_module_has_the_shapes_of_its_name() -> None:
    for name in load_shapes():
        family = [path.stem for path in FOLDER.glob("*.py") if f"{name}-".startswith(f"{path.stem.replace('_', '-')}-")]
        assert len(family) == 1, name
