"""What a look at a model finds: signs, each green, yellow or red."""

from typing import Literal, NamedTuple

Colour = Literal["green", "yellow", "red"]
"""As it should be; worth knowing before a number is published; numbers would be wrong, or fail."""


class Sign(NamedTuple):
    """One property of a model: what was found, why that is good or bad, and what to do where it is not good."""

    name: str
    colour: Colour
    found: str
    reason: str
    remedy: str = ""
