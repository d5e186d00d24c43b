"""Options that several verbs share: names of models and benchmarks, what may be sent, how servers are asked."""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_type_hints

import typer

from pluralrm.cli.terminal import clean, note, note_wait, print_wrapped
from pluralrm.errors import SpecError
from pluralrm.specs import refuse_secrets, split_name

if TYPE_CHECKING:
    from pluralrm.core import Benchmark, RewardModel, Run
    from pluralrm.http import Settings
    from pluralrm.report import PlanJudgments
    from pluralrm.report.human import Human
    from pluralrm.shards import Shard
    from pluralrm.specs import Spec
    from pluralrm.text import TextForm


# ---------------------------------------------------------------- names


def complete_benchmark(incomplete: str) -> list[str]:
    """Return the benchmarks that begin so, for the shell."""
    from pluralrm.benchmarks import KINDS

    return [name for name in KINDS if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds of models that begin so, and what each is."""
    from pluralrm.models import KINDS

    return [(name, kind.summary) for name, kind in KINDS.items() if name.startswith(incomplete)]


def complete_condition(incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds of conditions that begin so, and what each shows."""
    from pluralrm.conditions import condition_summaries

    return [(name, summary) for name, summary in condition_summaries().items() if name.startswith(incomplete)]


BENCH = typer.Argument(
    ..., metavar="BENCH", help="A name or a path; see 'pluralrm list benchmarks'.", autocompletion=complete_benchmark
)
MODEL = typer.Argument(
    ..., metavar="MODEL", help="A reward model, as 'score -m' takes it.", autocompletion=complete_model
)
MODELS = typer.Option(..., "--model", "-m", help="A reward model; repeat for more.", autocompletion=complete_model)
CONDITIONS = typer.Option(
    ["none"],
    "--condition",
    "-c",
    help="What the model sees of the user; repeat for more.",
    autocompletion=complete_condition,
)
CONDITION = typer.Option(
    "none", "--condition", "-c", help="What the model sees of the user.", autocompletion=complete_condition
)
LIMIT = typer.Option(
    None, "--limit", metavar="N", help="At most this many users (or records), taken in turn from each domain."
)
SHARD = typer.Option(
    "", "--shard", metavar="I/N", help="Only the I-th of N shards of the items; 'pluralrm merge' unites them."
)


def named_shard(text: str) -> "Shard | None":
    """Return the shard that an option names, with the command line that makes it; None where it names none."""
    from pluralrm.cli.progress import command
    from pluralrm.shards import Shard

    return Shard.parse(text, command()) if text else None


DEVICES = typer.Option("", metavar="NAMES", help="One process for each, as in cuda:0,cuda:1.", show_default=False)


ON = typer.Option(
    "",
    metavar="CLUSTER",
    help="Compute on a Ray cluster: ray, or ray:HOST:PORT,gpus=1,replicas=2-8.",
    show_default=False,
)


def listed_devices(text: str) -> list[str]:
    """Return the names in --devices."""
    return [name.strip() for name in text.split(",")] if text else []


class TableFormat(StrEnum):
    """What --format takes."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


TEXT_FORMS: "Mapping[TableFormat, TextForm]" = {
    TableFormat.CSV: "csv",
    TableFormat.MARKDOWN: "markdown",
    TableFormat.LATEX: "latex",
}
FORMAT = typer.Option(
    TableFormat.TABLE, "--format", help="csv has every digit; markdown and latex (booktabs) are for papers."
)


def output_format(chosen: TableFormat, *, as_json: bool) -> TableFormat:
    """Return the form of the output; --json is --format json."""
    if as_json and chosen not in {TableFormat.TABLE, TableFormat.JSON}:
        raise SpecError(f"--json and --format {chosen.value}: wanted one of them")
    return TableFormat.JSON if as_json else chosen


def print_records(records: "Sequence[Mapping[str, object]]", form: TableFormat, shares: Collection[str] = ()) -> None:
    """Write flat records to stdout as CSV, Markdown or LaTeX; `shares` are printed in per cent in the latter two."""
    from pluralrm.text import records_text

    sys.stdout.write(clean(records_text(records, TEXT_FORMS[form], shares)))


LOG = typer.Option(
    "",
    "--log",
    metavar="TRACKER",
    help="Log numbers to trackio, wandb or mlflow, or TRACKER:PROJECT.",
    show_default=False,
)
ALL = typer.Option(False, "--all", help="Print every run: controls, p, the paper's formula, diagnostics.")
QUIET = typer.Option(False, "--quiet", "-q", help="Print the table alone.")

HUMAN = typer.Option(
    [],
    "--human",
    metavar="PLAN[:FILE]",
    help="Show human accuracy beside the runs: an annotation plan, and its judgments if stored elsewhere.",
)


def asked(plans: Sequence[str]) -> "list[PlanJudgments]":
    """Return plans with what their annotators said."""
    if not plans:
        return []
    from pluralrm.report import read_asked

    return [read_asked(*_parted(text)) for text in plans]


def _parted(text: str) -> tuple[Path, Path | None]:
    """Return a plan's folder, and the file of its judgments where one is named."""
    plan, colon, file = text.rpartition(":")
    return (Path(text), None) if not colon or Path(text).is_dir() else (Path(plan), Path(file))


def beside(people: "Sequence[PlanJudgments]", groups: "Sequence[Sequence[Run]]") -> "list[Human | None]":
    """Return people beside each group of runs on the same items; None without plans."""
    if not people:
        return [None] * len(groups)
    from pluralrm.report.human import humans

    return humans(people, groups)


def human_json(human: "Human | None", group: "Sequence[Run]") -> dict[str, object]:
    """Return the field `human` of a leaderboard; null where its items have no judgments."""
    return {"human": None if human is None else human.to_json(group)}


def print_human(human: "Human | None", group: "Sequence[Run]") -> None:
    """Print what people named on the items of a leaderboard, and what its best run earns there."""
    if human is None:
        return
    from pluralrm.report.sections import people_told
    from pluralrm.text import capital

    words = " ".join(capital(text) for text in people_told(human, group))
    print_wrapped(words, indent="  ", style="red" if human.rehearsal else "")


def named_models(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names that models are to have, '' where none is given, and their specs: SPEC or NAME=SPEC."""
    pairs = list(map(split_name, texts))
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if name and names.count(name) > 1), ""):
        raise SpecError(f"two models are named {twice!r}; give each a name of its own")
    return names, [spec for _, spec in pairs]


def names_of(models: "Sequence[RewardModel]", names: Sequence[str]) -> dict[str, str]:
    """Return the name of each model that has one, by its spec."""
    return {model.spec: name for model, name in zip(models, names, strict=True) if name}


_CLASS = re.compile(r"[\w./-]+:[A-Za-z_]\w*(,.*)?")


def check_names(texts: Sequence[str], option: str, kinds: Iterable[str]) -> None:
    """Raise where several names stand in one option, as in `-c none,raw:10`."""
    words = frozenset(kinds)
    for text in texts:
        names = _several(text, words)
        if len(names) > 1:
            refuse_secrets(text)
            hint = " ".join(f"{option} {name}" for name in names)
            raise SpecError(f"{option} {text}: found {len(names)} names in one, wanted one each; repeat it: {hint}")


def _several(text: str, kinds: frozenset[str]) -> list[str]:
    """Return the names in a text that commas part: what follows a comma is a key of the name before, or a name."""
    names: list[str] = []
    for part in text.split(","):
        if names and part.strip().partition(":")[0] not in kinds:
            names[-1] += f",{part}"
        else:
            names.append(part.strip())
    return names


def open_benchmark(name: str, *, seed: int = 0) -> "Benchmark":
    """Return the benchmark of a name or path; what its loader dropped, left empty or skipped is noted on stderr."""
    from pluralrm.benchmarks import load_benchmark

    bench = load_benchmark(name, seed=seed)
    if text := str(bench.card.load):
        note(f"{bench.card.name}: {text}")
    return bench


def with_key(
    texts: Sequence[str], key: str, value: str, chosen: Sequence[bool], parse: "Callable[[str], Spec] | None" = None
) -> list[str]:
    """Return the specs (of models, unless `parse` reads others), with `key=value` in the chosen ones.

    Those are then in their canonical spelling.
    """
    from pluralrm.models import parse_model

    specs = [(parse or parse_model)(text) for text in texts]
    return [
        str(replace(spec, options={**spec.options, key: value})) if flag else text
        for text, spec, flag in zip(texts, specs, chosen, strict=True)
    ]


def model_spec(text: str) -> "Spec":
    """Return a model's parsed spec; a class without its kind, as in `my_model:MyModel`, is told where it belongs."""
    from pluralrm.models import KINDS, parse_model

    refuse_secrets(text)
    try:
        return parse_model(text)
    except SpecError as exc:
        if text.partition(":")[0] in {*KINDS, "imported"} or not _CLASS.fullmatch(text):
            raise
        raise SpecError(f"{exc} A class of your own is python:{text}") from exc


LENGTH = typer.Option(
    None,
    "--max-prompt-tokens",
    min=1,
    metavar="N",
    help="Longest conversation; beyond it the least relevant posts are dropped.",
)


def with_length(models: Sequence[str], tokens: int | None) -> list[str]:
    """Return the model specs, with `max_tokens=N` in those that drop posts by it; a SpecError where none does."""
    from pluralrm.models import KINDS, parse_model

    if tokens is None:
        return list(models)
    specs = [parse_model(text) for text in models]
    limited = [KINDS[spec.kind].limit == "max_tokens" for spec in specs]  # a judge's is the length of its reply
    if not any(limited):
        raise SpecError(f"--max-prompt-tokens: none of {', '.join(models)} drops posts by a limit; leave it out")
    for text, spec, flag in zip(models, specs, limited, strict=True):
        if flag and spec.options.get("max_tokens", str(tokens)) != str(tokens):
            raise SpecError(f"--max-prompt-tokens {tokens}: {text} says another number; leave one of them out")
    return with_key(models, "max_tokens", str(tokens), limited)


SERVERS = "Servers"
"""The panel of options about servers; the last one of every verb that has it."""

SEND = typer.Option(
    False,
    "--send-posts",
    rich_help_panel=SERVERS,
    help="Allow sending what users wrote to servers that are not on this machine.",
)


def with_posts_of(
    models: Sequence[str], conditions: Sequence[str], *, allowed: bool, elsewhere: bool = False
) -> tuple[list[str], list[str]]:
    """Return the specs, with `send=posts` in those that can send, where allowed: a condition may ask a model too.

    A SpecError where none can, and nothing `elsewhere` sends either.
    """
    from pluralrm.conditions import KINDS as CONDITIONS
    from pluralrm.conditions import parse_condition
    from pluralrm.models import KINDS, parse_model

    if not allowed:
        return list(models), list(conditions)
    sending = ["send" in KINDS[parse_model(text).kind].form.keys for text in models]
    telling = ["send" in CONDITIONS[parse_condition(text).kind].form.keys for text in conditions]
    if not (elsewhere or any(sending + telling)):
        raise SpecError(
            f"--send-posts: nothing is sent by {', '.join([*models, *conditions]) or 'a benchmark'}; leave it out"
        )
    return with_key(models, "send", "posts", sending), with_key(conditions, "send", "posts", telling, parse_condition)


TRUST = typer.Option(
    [], "--trust-remote-code", metavar="MODEL", help="Run the code in this model's folder; repeat for more."
)
"""MODEL as --model has it, without the kind: the folder, or the hub id with its revision."""


def with_trust(models: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the model specs, with `code=trusted` where a target is named; a name of none of them is a SpecError."""
    from pluralrm.errors import SpecError, did_you_mean
    from pluralrm.models import KINDS

    specs = [model_spec(text) for text in models]
    if not names:
        return list(models)
    from pluralrm.models.neural.folder import CODE_KEY, TRUSTED

    targets = [spec.target if CODE_KEY in KINDS[spec.kind].form.keys else None for spec in specs]
    folders = [target for target in targets if target is not None]
    for name in names:
        if name not in folders:
            raise SpecError(f"--trust-remote-code {name}: no model folder of that name.{did_you_mean(name, folders)}")
    return with_key(models, CODE_KEY, TRUSTED, [target in names for target in targets])


class ModelAccess(NamedTuple):
    """What a command allows its models, and the longest conversation that they are asked about."""

    trust: list[str]
    send: bool = False
    max_prompt_tokens: int | None = None

    def specs(
        self, models: Sequence[str], conditions: Sequence[str] = (), *, elsewhere: bool = False
    ) -> tuple[list[str], list[str]]:
        """Return the specs of models and conditions with that written into them; a SpecError where it means nothing.

        Posts may be sent `elsewhere`: by a grader.
        """
        trusted = with_trust(models, self.trust)
        models, conditions = with_posts_of(trusted, conditions, allowed=self.send, elsewhere=elsewhere)
        return with_length(models, self.max_prompt_tokens), conditions


class ServerOptions(NamedTuple):
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
            raise SpecError("--max-cost needs --prices FILE: without prices the cost is unknown")
        if self.record and self.replay:
            raise SpecError("--record and --replay: a command either records or replays; leave one out")
        settings = Settings(
            max_cost=self.max_cost,
            prices=load_prices(self.prices) if self.prices else {},
            cache=self.cache or default_cache(),
            record=self.record,
            replay=self.replay,
            on_wait=note_wait,
        )
        return settings if self.concurrency is None else replace(settings, concurrency=self.concurrency)

    def check(self, askers: Iterable[object]) -> None:
        """Raise where an option that is about servers was given and nothing of this command asks one."""
        from pluralrm.http import Metered

        about = ("concurrency", "max_cost", "prices", "record", "replay")
        names = [f"--{name.replace('_', '-')}" for name in about if getattr(self, name) is not None]
        if names and not any(isinstance(asker, Metered) for asker in askers):
            raise SpecError(f"{', '.join(names)}: nothing here is asked over HTTP; leave it out")


SERVED = ServerOptions()
PRICES = typer.Option(
    None, rich_help_panel=SERVERS, metavar="FILE", help="TOML or JSON: per model, input and output per million tokens."
)
_OPTIONS = {
    "cache": typer.Option(
        None,
        rich_help_panel=SERVERS,
        metavar="DIR",
        help="Cache of replies and embeddings.",
        show_default="PLURALRM_CACHE",
    ),
    "concurrency": typer.Option(
        None, rich_help_panel=SERVERS, min=1, metavar="N", help="Concurrent calls to a server.", show_default="32"
    ),
    "max_cost": typer.Option(
        None, rich_help_panel=SERVERS, min=0.0, metavar="X", help="Stop sending once X is spent; needs --prices."
    ),
    "prices": PRICES,
    "record": typer.Option(
        None, rich_help_panel=SERVERS, metavar="FILE", help="Also record every request and reply in this cassette."
    ),
    "replay": typer.Option(
        None, rich_help_panel=SERVERS, metavar="FILE", help="Answer from a cassette: nothing is sent, no key is needed."
    ),
}


Verb = Callable[..., None]


def with_options(
    parameter: str, record: Callable[..., object], options: Mapping[str, object]
) -> Callable[[Verb], Verb]:
    """Return what puts these options, the fields of `record`, in the place of one parameter of a verb."""
    kinds = get_type_hints(record)
    fields = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=option, annotation=kinds[name])
        for name, option in options.items()
    ]

    def expanded(verb: Verb) -> Verb:
        own = signature(verb, eval_str=True)
        parameters = [
            entry for item in own.parameters.values() for entry in (fields if item.name == parameter else [item])
        ]

        @wraps(verb)
        def run(**values: object) -> None:
            verb(**{parameter: record(**{name: values.pop(name) for name in options})}, **values)

        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # where typer looks
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return expanded


with_server_options = with_options("served", ServerOptions, _OPTIONS)
"""Puts an option for each field of ServerOptions in the place of a verb's parameter `served`."""

ACCESS = ModelAccess([])
with_access = with_options("access", ModelAccess, {"trust": TRUST, "send": SEND, "max_prompt_tokens": LENGTH})
"""Puts an option for each field of ModelAccess in the place of a verb's parameter `access`."""
