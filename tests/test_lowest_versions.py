"""Every core dependency has a lowest version, and it is the one that is tested."""

from pathlib import Path

import pytest

from tests.lowest_versions import constraints


def test_every_core_dependency_has_a_lowest_version() -> None:
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    found = dict(line.split("==") for line in constraints(text))
    assert found["numpy"] == "2.0"
    assert {"typer", "pydantic", "scipy"} < found.keys()


def test_a_dependency_without_a_lowest_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="'rich' has no lowest version"):
        list(constraints('[project]\ndependencies = ["numpy>=2.0,<3", "rich"]\n'))
