"""The lowest versions of the core dependencies that pyproject.toml allows, as constraints for pip.

python tests/lowest_versions.py > lowest.txt
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_LOWEST = re.compile(r"([\w.-]+)\s*>=\s*([\d.]+)")


def constraints(pyproject: str) -> Iterator[str]:
    """Yield `name==version` for each core dependency; ValueError for one without a lowest version."""
    for dependency in tomllib.loads(pyproject)["project"]["dependencies"]:
        match = _LOWEST.match(dependency)
        if match is None:
            raise ValueError(f"{dependency!r} has no lowest version")
        yield "==".join(match.groups())


if __name__ == "__main__":
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.writelines(f"{line}\n" for line in constraints(text))
