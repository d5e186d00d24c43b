"""What a build of this kind is told, beside its prompts and its models."""

from collections.abc import Callable
from dataclasses import dataclass

from pluralrm.audit.embedded import Embedder
from pluralrm.construct.rmgap.answers import checked
from pluralrm.construct.rmgap.products import Prompt
from pluralrm.construct.rmgap.review import Rule
from pluralrm.errors import RunError
from pluralrm.validate import Outcome


@dataclass(frozen=True)
class Options:
    """`attempts` is how often a text may be written; `rule` is how reviews decide; `check` judges an answer."""

    embedder: Embedder
    attempts: int = 3
    rule: Rule = "each"
    seed: int = 0
    check: Callable[[Prompt, str], Outcome] = checked

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise RunError(f"attempts is {self.attempts}; wanted at least 1")

    @property
    def embedded_by(self) -> str:
        """The spec of the embedder, without the name of whose key it is asked with."""
        return ",".join(part for part in self.embedder.spec.split(",") if not part.startswith("key="))
