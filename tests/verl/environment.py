"""verl in an environment of its own: `python tests/verl/environment.py FOLDER TORCH` sets it up, pluralrm beside it.

It pins versions that the package leaves open, so the two never share one. About 2 GB on disk, for the CPU.
"""

import subprocess
import sys
import venv
from pathlib import Path

WANTED = ("verl==0.9.1", "TransferQueue==0.1.11", "cachetools", "fastapi")
"""The last three are what verl's trainer imports; whoever has vLLM and `verl[verl-core]` has them."""


def main(folder: Path, torch: list[str]) -> None:
    """Make the environment, or finish it."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    _pip(python, "install", *torch)  # alone and first: it may come from an index of its own
    _pip(python, "install", *WANTED)
    _pip(python, "install", "--editable", str(Path(__file__).parents[2]))
    subprocess.run([python, "-c", "import verl, pluralrm"], check=True)


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
