"""What is made of a prompt on its way to a record of RMGAP's kind: a product per stage."""

from pluralrm.construct.filters import RATED
from pluralrm.construct.pipeline.stages import Product


class SeedPrompt(Product):
    """A prompt that came in. Reasoning has a reference to compare an answer with, or tests to run a program against."""

    text: str
    domain: str
    source: str
    reference: str = ""
    tests: str = ""
    entry: str = ""
    """The function that the tests call, where they do not say so themselves."""


class Worded(Product):
    """The prompt breaks no rule of wording, and what it asks for can be checked."""


class Single(Product):
    """No prompt of a smaller id has the same letters and digits."""


class DistinctPrompt(Product):
    """No prompt that is kept means the same."""


class PromptRatings(Product):
    """The prompt's marks, 0 to 5."""

    clarity: int
    completeness: int
    naturalness: int
    safety: int
    openness: int
    overall: int

    def by_name(self) -> dict[str, float]:
        """Return the marks by their names."""
        return {name: getattr(self, name) for name in RATED}


class Styled(Product):
    """The style of each of the four responses, r1 to r4: a level on each dimension."""

    styles: dict[str, dict[str, str]]


class WrittenText(Product):
    """A text, and which model of the record's order wrote it."""

    text: str
    turn: int


class Responses(Product):
    """Four answers in four styles, r1 to r4."""

    texts: list[WrittenText]


class Tailored(Product):
    """Four prompts; each wants the response at its place."""

    texts: list[WrittenText]


class Unique(Product):
    """Every prompt was traced to its response by a judge who did not know it; the orders that the four were shown in.

    Two orders for each prompt; a number is the place of a response, from 0.
    """

    orders: list[list[list[int]]]


class Paraphrased(Product):
    """Two paraphrases of each prompt: those of the first, of the second, and so on."""

    texts: list[WrittenText]
