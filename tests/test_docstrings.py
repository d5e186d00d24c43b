"""Do the examples in docstrings print what stands below them?"""

import doctest
import importlib
from pathlib import Path

import pytest

import pluralrm

_SOURCE = Path(pluralrm.__file__).parent
_EXTRAS = {"models.neural.": pytest.mark.hf, "doctor": pytest.mark.hf, "validate": pytest.mark.sandbox}
"""Where examples need an extra: the mark of the tests that have it, by the beginning of a module's name."""


def _examples() -> list[object]:
    """Return the modules that hold an example, those that need an extra with the mark of its tests."""
    found: list[object] = []
    for path in sorted(_SOURCE.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__")
            marks = [mark for start, mark in _EXTRAS.items() if name.startswith(start)]
            found.append(pytest.param(name, marks=marks))
    return found


@pytest.mark.parametrize("name", _examples())
def test_examples_in_docstrings_print_what_stands_below_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"pluralrm.{name}".removesuffix(".__init__"))
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0


def test_a_wrong_example_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "with_wrong_example.py").write_text('"""\n>>> 1 + 1\n3\n"""\n', encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert doctest.testmod(importlib.import_module("with_wrong_example")).failed == 1
