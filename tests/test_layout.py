"""Sizes of files and functions and names of folders; each check is shown to fail on a planted offender."""

from pathlib import Path

from tests import house

FILES = 340
LINES = 101_900
FILE = 500
FUNCTION = 60


def test_source_has_at_most_so_many_files() -> None:
    assert len(house.python_files(house.SOURCE)) <= FILES


def test_source_has_at_most_so_many_lines() -> None:
    assert sum(map(house.lines_of, house.python_files(house.SOURCE))) <= LINES


def test_no_file_is_too_long() -> None:
    assert house.long_files(house.SOURCE, FILE) == []


def test_no_function_is_too_long() -> None:
    assert house.long_functions(house.SOURCE, FUNCTION) == []


def test_no_folder_has_a_name_that_tools_take_for_output() -> None:
    assert house.output_folders(house.SOURCE) == []


def test_files_and_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "short.py").write_text("x = 1\n" * 500)
    (tmp_path / "pages/long.py").write_text("x = 1\n" * 501)
    (tmp_path / "page.jinja").write_text("x\n" * 900)
    assert [house.lines_of(path) for path in house.python_files(tmp_path)] == [501, 500]
    assert house.long_files(tmp_path, FILE) == ["pages/long.py: 501 lines"]


def test_a_long_function_is_found_wherever_it_is_defined(tmp_path: Path) -> None:
    body = "        x = 1\n"
    (tmp_path / "a.py").write_text(
        f"class A:\n    def short(self):\n{body * 59}\n    async def long(self):\n{body * 60}\n"
    )
    assert house.long_functions(tmp_path, FUNCTION) == ["a.py:63: long has 61 lines"]


def test_an_output_folder_is_found_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "pages/build/a").mkdir(parents=True)
    (tmp_path / "dist").mkdir()
    (tmp_path / "builder").mkdir()
    (tmp_path / "out.py").touch()
    assert house.output_folders(tmp_path) == ["dist", "pages/build"]
