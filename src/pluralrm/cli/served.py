"""How servers are asked, for every verb that loads models: where replies are kept, how much at once, at what cost."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_type_hints

import typer

from pluralrm.errors import SpecError

if TYPE_CHECKING:
    from pluralrm.http import Settings


class Served(NamedTuple):
    """These options as given."""

    cache: Path | None = None
    concurrency: int | None = None
    max_cost: float | None = None
    prices: Path | None = None
    record: Path | None = None
    replay: Path | None = None

    def settings(self) -> "Settings":
        """Return how servers are asked; options that make no sense together are a SpecError."""
        from pluralrm.folders import default_cache
        from pluralrm.http import Settings, load_prices

        if self.max_cost is not None and self.prices is None:
            raise SpecError("--max-cost needs --prices FILE: without prices nobody knows what is spent")
        if self.record and self.replay:
            raise SpecError("--record and --replay: a command either records or replays; leave one out")
        settings = Settings(
            max_cost=self.max_cost,
            prices=load_prices(self.prices) if self.prices else {},
            cache=self.cache or default_cache(),
            record=self.record,
            replay=self.replay,
        )
        return settings if self.concurrency is None else replace(settings, concurrency=self.concurrency)

    def check(self, askers: Iterable[object]) -> None:
        """Raise where an option that is about servers was given and nothing of this command asks one."""
        from pluralrm.http import Metered

        about = ("concurrency", "max_cost", "prices", "record", "replay")
        given = [f"--{name.replace('_', '-')}" for name in about if getattr(self, name) is not None]
        if given and not any(isinstance(asker, Metered) for asker in askers):
            raise SpecError(f"{', '.join(given)}: nothing here is asked over HTTP; leave it out")


SERVED = Served()
_OPTIONS = {
    "cache": typer.Option(None, metavar="DIR", help="Keep replies and embeddings here, not in PLURALRM_CACHE."),
    "concurrency": typer.Option(None, min=1, metavar="N", help="Calls to a server at once; 32 unless told."),
    "max_cost": typer.Option(None, min=0.0, metavar="X", help="Send nothing more once X is spent; needs --prices."),
    "prices": typer.Option(None, metavar="FILE", help="TOML or JSON: per model, input and output per million tokens."),
    "record": typer.Option(None, metavar="FILE", help="Also write every request and reply to this cassette."),
    "replay": typer.Option(None, metavar="FILE", help="Answer from a cassette: nothing is sent, no key is needed."),
}


def with_server_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb with an option for each field of Served in the place of its parameter `served`."""
    kinds = get_type_hints(Served)
    options = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=option, annotation=kinds[name])
        for name, option in _OPTIONS.items()
    ]
    own = signature(verb, eval_str=True)
    parameters = [one for given in own.parameters.values() for one in (options if given.name == "served" else [given])]

    @wraps(verb)
    def run(**given: object) -> None:
        served = Served._make(given.pop(name) for name in Served._fields)
        verb(served=served, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # where typer looks
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
