"""The options of `pluralrm build prb` that say what a set has to meet: one for each field of its Rules."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

import typer

from pluralrm.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from pluralrm.build.prb import Rules
    from pluralrm.retrieval import Ranking


class Declared(NamedTuple):
    """These options as given; the fields of Rules, but for `by`, which says its ranking."""

    rejected: str = "published"
    posts: int = 10
    by: str = "bm25"
    attempts: int = 3
    most_words: int = 100
    band: float = 1.25
    high: float = 0.75
    low: float = 0.25
    opposite: float = 0.5
    margin: int = 1
    floor: int = 3
    coverage: float = 0.25

    def rules(self) -> "Rules":
        """Return the rules; values that make no sense are an error."""
        from pluralrm.build.prb import RejectedKinds, Rules

        kinds = get_args(RejectedKinds)
        if self.rejected not in kinds:
            raise SpecError(f"--rejected {self.rejected}: unknown kind.{did_you_mean(self.rejected, kinds)}")
        given = {name: value for name, value in self._asdict().items() if name != "by"}
        return Rules(ranking=_ranking(self.by), **given)

    @property
    def changed(self) -> list[str]:
        """The options that were given, and not as they are by default."""
        usual = Declared()
        changed = [name for name in self._fields if getattr(self, name) != getattr(usual, name)]
        return [f"--{name.replace('_', '-')}" for name in changed]


def _ranking(by: str) -> "Ranking":
    from pluralrm.retrieval import parse_ranking
    from pluralrm.specs import Spec

    return parse_ranking(Spec("posts", options={"by": by}))


DECLARED = Declared()
_HELP = {
    "rejected": ("KIND", "published: avoids the aspects; contrary: the opposite taste; both: two benchmarks."),
    "posts": ("K", "Posts that models are shown."),
    "by": ("RANKING", "How posts are ranked: bm25, embed:MODEL, recent, random."),
    "attempts": ("N", "How often a text is written at most."),
    "most_words": ("N", "Words of an answer at most."),
    "band": ("X", "The longer answer's words over the shorter's, at most."),
    "high": ("X", "Share of what the user expects that a chosen answer gives at least."),
    "low": ("X", "Share of it that a rejected answer gives at most."),
    "opposite": ("X", "Share of it in which a contrary answer goes the opposite way at least."),
    "margin": ("N", "Points of quality (1 to 5) by which the two may differ."),
    "floor": ("N", "Points of quality that both have at least."),
    "coverage": ("X", "Difference in coverage of the question between chosen and contrary at most."),
}


def with_rules(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb with an option for each field of Declared in the place of its parameter `declared`."""
    kinds: dict[str, Any] = get_type_hints(Declared)
    usual = Declared()._asdict()
    options = [
        Parameter(
            name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=typer.Option(usual[name], metavar=metavar, help=said),
            annotation=kinds[name],
        )
        for name, (metavar, said) in _HELP.items()
    ]
    own = signature(verb, eval_str=True)
    parameters = [
        one for given in own.parameters.values() for one in (options if given.name == "declared" else [given])
    ]

    @wraps(verb)
    def run(**given: object) -> None:
        declared = Declared(**{name: given.pop(name) for name in Declared._fields})  # type: ignore[arg-type] # as typed above
        verb(declared=declared, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # where typer looks
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
