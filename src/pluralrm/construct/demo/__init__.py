"""The shipped demo builds: prose written for this project as the models' replies, recorded once, replayed offline."""

from importlib.resources import files
from pathlib import Path

URL = "https://demo.invalid/v1"
"""The address in the recordings. There is no such server: a demo is answered from its cassette alone."""


def shipped(name: str) -> Path:
    """Return the path of a shipped file."""
    return Path(str(files(__name__).joinpath(name)))
