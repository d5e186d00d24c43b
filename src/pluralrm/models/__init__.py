"""Reward models by name. The table maps a kind to "module:attribute", so that nothing heavy loads before its use."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from pluralrm.benchmarks import KINDS as BENCHMARKS
from pluralrm.core import Benchmark, Condition, Reveals, RewardModel
from pluralrm.errors import MissingExtraError, SpecError, check_type, did_you_mean
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.specs import Form, Spec, asks_target, parse

if TYPE_CHECKING:
    from pluralrm.http import Settings

Scale = Literal["unit", "cosine", "unbounded"]
"""The range of a kind's scores: [0, 1], [-1, 1], or any number."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One row of the table: where the maker is, what its spec accepts, what it needs to be shown."""

    maker: str
    summary: str
    form: Form = field(default_factory=Form)
    needs_context: bool = False
    """True for what compares answers with the user's context: it cannot be asked without any."""
    learns: bool = False
    """True for what adapts to posts and pairs alone: it cannot be asked where only traits are shown."""
    scale: Scale | Callable[[Spec], Scale] = "unbounded"
    extra: str = ""
    """The optional dependencies that the maker's module imports."""
    served: bool = False
    """True for what is asked over HTTP: its maker takes the spec and the settings of the transport."""
    adaptive: bool = False
    """True where later requests depend on earlier replies: a dry run cannot count them."""
    limit: str = ""
    """The key that says how many tokens of a conversation the model is shown; posts beyond them are dropped."""
    misfit: str = ""
    """Where the function is that says why a model of this kind is not for a benchmark, if there is one."""
    relative: bool | Callable[[Spec], bool] = False
    """True where a candidate's score depends on the other candidates of its query."""
    asks: Callable[[Spec], tuple[str, ...]] | None = None
    """The chat models that it asks, by name; none of them may grade what this model brings about."""
    target_name: str = "path"
    """What the target is called where options are named: `load_model("judge", model=...)`."""
    alone: str = ""
    """What makes a model of this kind score each answer by itself, where something does."""
    rates: Callable[[Spec], bool] | None = None
    """Whether a score is a rating that a chat model writes for one answer: a reply may hold none."""
    target: Literal["", "path", "module"] = ""
    """What the target names on this machine: a folder or a file, a module of the user's; nothing where empty."""
    trainable: bool = False
    """True for a folder whose network 'fit' may train further."""


_FOLDER = ("attn", "chat", "code", "device", "dtype", "max_tokens", "template", "tokens")
"""Keys of every kind that is a folder of weights; docs/neural-models.md has the table."""
_SUM = ("aggregate", "clip", "discount", "end")


_JUDGE = (
    *("aggregate", "ask", "by", "expect", "key", "max_tokens", "orders", "probe", "reasoning", "revision", "rotations"),
    *("seed", "send", "style", "temperature", "template", "tie", "top_logprobs", "url", "verdict", "warn"),
)
"""Keys of a judge; docs/judges.md has the table."""

_SYNTHESIZE = (
    *("demonstrations", "key", "max_tokens", "reasoning", "revision", "seed", "send", "sets", "temperature", "url"),
)
"""Keys of SynthesizeMe; docs/text-models.md explains them."""
_SUMMARY = (*(key for key in _SYNTHESIZE if key not in {"demonstrations", "sets"}), "summaries")

_HEAD = ("chat", "key", "range", "revision", "send", "template")
_TOKENS = ("bos", "label", "max_tokens", "model")
"""Keys of a reward head behind a URL, and of one whose server shows its tokens; docs/served-models.md has the table."""

_WORLD = tuple("as blur cares crowd domains length noise seed sharpness crossed groups alike".split())  # noqa: SIM905
"""Keys of a scorer of simulated users; all but `as`, `blur` and `length` are the benchmark's: how users come about."""


def _known_scale(spec: Spec) -> Scale:
    exact = all(spec.options.get(key, "0") == "0" for key in ("blur", "length"))
    return "unit" if exact and not _known_relative(spec) else "unbounded"


def _known_relative(spec: Spec) -> bool:
    return spec.options.get("as", "choice") == "choice"


def _judge_scale(spec: Spec) -> Scale:
    return "unbounded" if _judge_rates(spec) else "unit"


def _judge_relative(spec: Spec) -> bool:
    return spec.options.get("style", "pairwise") in {"pairwise", "listwise"}


def _judge_rates(spec: Spec) -> bool:
    return spec.options.get("style") == "pointwise"


def _said_asks(spec: Spec) -> tuple[str, ...]:
    from pluralrm.models import declarations

    return declarations.asks(spec)


def _said_relative(spec: Spec) -> bool:
    from pluralrm.models import declarations

    return declarations.compares(spec)


def _neural(
    maker: str, summary: str, *keys: str, scale: Scale = "unbounded", relative: bool = False, trainable: bool = False
) -> ModelKind:
    return ModelKind(
        maker,
        summary,
        Form("required", (*_FOLDER, *keys), example=summary.partition(", log")[0].partition(", ")[0]),
        scale=scale,
        extra="hf",
        limit="max_tokens",
        relative=relative,
        target="path",
        trainable=trainable,
    )


def _served(summary: str, *keys: str) -> ModelKind:
    form = Form("required", (*_HEAD, *keys), example=summary.partition(", ")[0])
    limit = "max_tokens" if "max_tokens" in keys else ""
    return ModelKind(
        "served:head", summary, form, scale=_head_scale, extra="chat", served=True, limit=limit, target_name="url"
    )


def _head_scale(spec: Spec) -> Scale:
    return "unit" if spec.options.get("range") == "unit" else "unbounded"


KINDS: Mapping[str, ModelKind] = {
    "random": ModelKind("controls:random_", "a seeded coin for each candidate", Form(keys=("seed",)), scale="unit"),
    "constant": ModelKind("controls:constant", "the same score for all: what silence about the difference earns"),
    "longest": ModelKind("controls:longest", "the longer the better"),
    "shortest": ModelKind("controls:shortest", "the shorter the better"),
    "bm25": ModelKind("controls:bm25", "word overlap with the prompt and the posts (BM25)"),
    "lsa": ModelKind(
        "controls:lsa", "TF-IDF/SVD cosine with the user's posts", needs_context=True, scale="cosine", relative=True
    ),
    "copy": ModelKind("controls:copy", "share of word pairs quoted from the posts", needs_context=True, scale="unit"),
    "hf": _neural(
        "scalar:hf",
        "hf:FOLDER, a reward head (sequence classification), as its raw number",
        *("append", "format", "label", "output", "weights"),
        trainable=True,
    ),
    "dpo": _neural(
        "logprob:dpo",
        "dpo:POLICY,reference=REF, log-ratio of two language models over the answer's tokens",
        *("reference", *_SUM),
    ),
    "endo": _neural("logprob:endo", "endo:LM, discounted sum of the answer's log-probs", *_SUM),
    "verifier": _neural("logprob:verifier", "verifier:LM, log P(YES) - log P(NO) when asked about the answer", "form"),
    "choice": _neural(
        "logprob:choice",
        "choice:LM, chance that its letter is named, over all pairs of answers",
        "orders",
        scale="unit",
        relative=True,
    ),
    "judge": ModelKind(
        "judge:open_judge",
        "judge:MODEL,style=pairwise|pointwise|listwise|verifier,url=URL, a chat model asked for verdicts",
        Form("required", _JUDGE, example="judge:MODEL,url=URL"),
        scale=_judge_scale,
        served=True,
        relative=_judge_relative,
        asks=asks_target,
        target_name="model",
        alone="style=pointwise scores each answer by itself",
        rates=_judge_rates,
    ),
    "synthesizeme": ModelKind(
        "personal.synthesize:open_synthesize",
        "synthesizeme:MODEL,url=URL, a judge that first makes out who the user is from the pairs it is shown",
        Form("required", _SYNTHESIZE, example="synthesizeme:MODEL,url=URL"),
        scale="unit",
        served=True,
        adaptive=True,
        relative=True,
        asks=asks_target,
        target_name="model",
    ),
    "summary": ModelKind(
        "personal.synthesize:open_summary",
        "summary:MODEL,url=URL, a judge with the summary of the user that best predicts held-out pairs of theirs",
        Form("required", _SUMMARY, example="summary:MODEL,url=URL"),
        scale="unit",
        served=True,
        adaptive=True,
        relative=True,
        asks=asks_target,
        target_name="model",
    ),
    "vllm": _served("vllm:URL, a reward head that vLLM serves, as its raw number", *_TOKENS),
    "sglang": _served("sglang:URL,chat=FOLDER, a reward head that SGLang serves", *_TOKENS),
    "remote": _served("remote:URL,chat=FOLDER, a reward server with OpenRLHF's schema", "max_bytes"),
    "known": ModelKind(
        "controls:known",
        "known:taste|posts|nothing,as=choice|worth,blur=SIGMA,length=W, a scorer of known quality, on simulated alone "
        "(taste: an upper control)",
        Form("required", _WORLD, example="known:taste"),
        scale=_known_scale,
        misfit="controls:misfit",
        relative=_known_relative,
        alone="as=worth scores each answer by itself",
    ),
    "personal": ModelKind(
        "personal.kind:personal",
        "personal:FOLDER[,users=stored], a model of 'pluralrm fit', which adapts to the user that the condition shows",
        Form("required", ("users",), example="personal:FOLDER"),
        learns=True,
        target="path",
    ),
    "scores": ModelKind(
        "scores:scores",
        "scores:FILE[,benchmark=BENCH], scores made elsewhere: rows with item, candidate (its text, or its name in "
        "BENCH) and score",
        Form("required", ("benchmark",), example="scores:FILE"),
        misfit="scores:misfit",
        target="path",
    ),
    "python": ModelKind(
        "declarations:load",
        "your own class: python:package.module:Class",
        PLUGIN,
        # Where it says nothing, nobody knows what it compares, and its queries are left as they are asked.
        relative=_said_relative,
        asks=_said_asks,
        alone="a class that scores each answer by itself says so: compares = False",
        target="module",
    ),
}

_NAME = "a model's name such as 'bm25', 'hf:FOLDER' or 'judge:MODEL,url=URL'"
BASELINES = ("random", "constant", "longest", "shortest", "bm25", "lsa", "copy")


def parse_model(text: str) -> Spec:
    """Return the parsed spec of a model; unknown kinds and keys name the nearest known ones."""
    check_type(text, (str,), "model", _NAME)
    return parse(text, {name: kind.form for name, kind in KINDS.items()}, noun="model", advise=_advice)


def _advice(text: str) -> str:
    """Return what a folder, a hub id, a URL or a chat model's name is written as; nothing near a known kind."""
    if text.startswith("imported:"):
        advice = "It names a run that 'pluralrm import' wrote: there is no model to ask"
    elif text.startswith(("http:", "https:")):
        advice = f"A server is judge:MODEL,url={text} (a chat model), or vllm:{text}, sglang:{text}, remote:{text}"
    elif os.path.isfile(f"{text}/fit.json"):  # noqa: PTH113 - a Path raises where the name is too long
        advice = f"A folder that 'pluralrm fit' wrote is personal:{text}"
    elif os.path.isdir(text):  # noqa: PTH112
        advice = (
            f"A folder of weights is hf:{text} (a reward head), or dpo:, endo:, verifier:, choice: (language models)"
        )
    elif _HUB_ID.fullmatch(text):
        advice = f"A model on the hub is hf:{text} (a reward head); a chat model behind a server judge:{text},url=URL"
    elif text in BENCHMARKS:
        advice = "It is a benchmark; models: 'pluralrm list models'"
    elif ":" in text or "Did you mean" in did_you_mean(text, KINDS):
        advice = ""
    else:
        advice = f"A chat model is judge:{text},url=URL, weights are hf:FOLDER; all: 'pluralrm list models'"
    return advice


_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def load_model(text: str, *, settings: "Settings | None" = None, **options: str | float) -> RewardModel:
    """Return the reward model that a spec string names, or a kind and its options by name.

    `settings` say how a server is asked, where one is; without them replies are kept in the user's cache folder.

    >>> load_model("longest").spec
    'longest'
    >>> load_model("judge", model="gpt-5", url="http://127.0.0.1:8000/v1", style="pointwise").spec
    'judge:gpt-5,style=pointwise,url=http://127.0.0.1:8000/v1'
    """
    spec = _named(text, options) if options else parse_model(text)
    kind = KINDS[spec.kind]
    module, _, attribute = kind.maker.partition(":")
    try:
        maker = getattr(import_module(f"{__name__}.{module}"), attribute)
    except ImportError as exc:
        if not kind.extra or (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError(f"{spec.kind}:", kind.extra) from exc
    model: RewardModel = maker(spec, settings or default_settings()) if kind.served else maker(spec)
    return model


def _named(kind: str, options: Mapping[str, str | float]) -> Spec:
    """Return the spec of a kind whose options, the target among them, are named."""
    check_type(kind, (str,), "model", _NAME)
    entry = KINDS.get(kind)
    if entry is None:  # an unknown kind, or a spec that has its target already
        parse_model(kind)
        raise SpecError(f"model {kind!r}: options go by name beside a kind alone, as in load_model('judge', model=...)")
    name = entry.target_name
    target = str(options.get(name, "")) if entry.form.target != "none" else ""
    if entry.form.target == "required" and not target:
        raise SpecError(f"model {kind!r} needs {name}=...: load_model({kind!r}, {name}=...)")
    others = {key: str(value) for key, value in options.items() if not (target and key == name)}
    return parse_model(str(Spec(kind, target, others)))


def default_settings() -> "Settings":
    """Return the default settings of servers: replies are kept in the user's cache folder."""
    from pluralrm.folders import default_cache
    from pluralrm.http import Settings

    return Settings(cache=default_cache())


def model_scale(text: str) -> Scale:
    """Return the declared range of a model's scores."""
    spec = parse_model(text)
    scale = KINDS[spec.kind].scale
    return scale(spec) if callable(scale) else scale


def compares(text: str) -> bool:
    """Return whether a model's score of a candidate depends on the other candidates of its query.

    A class of somebody's own is imported to be asked, and is not made.
    """
    spec = parse_model(text)
    relative = KINDS[spec.kind].relative
    return relative(spec) if callable(relative) else relative


def asks(text: str) -> tuple[str, ...]:
    """Return the chat models that a reward model asks, by name; a reward head behind a URL is none."""
    spec = parse_model(text)
    names_of = KINDS[spec.kind].asks
    return () if names_of is None else names_of(spec)


def rates(text: str) -> bool:
    """Return whether a model's scores are ratings that a chat model writes, one answer at a time."""
    spec = parse_model(text)
    rating = KINDS[spec.kind].rates
    return rating is not None and rating(spec)


def never_alone(text: str) -> str | None:
    """Return why a model cannot score an answer without others beside it, and what changes that; None where it can."""
    if not compares(text):
        return None
    hint = KINDS[parse_model(text).kind].alone
    return f"{text} compares the answers to a prompt{hint and f' ({hint})'}"


_TEXTS = frozenset({"posts", "other_posts", "oracle"})
"""What a condition reveals that a model can compare an answer with."""
_TRAITS: frozenset[Reveals] = frozenset({"traits", "other_traits"})


def unsupported(text: str, condition: Condition) -> str | None:
    """Return why this model cannot be asked under this condition, or None."""
    if KINDS[parse_model(text).kind].needs_context and not condition.reveals & _TEXTS:
        return f"{text} needs posts or notes, and the condition {condition.spec!r} shows none; try raw:10"
    if KINDS[parse_model(text).kind].learns and condition.reveals and condition.reveals <= _TRAITS:
        return f"{text} reads posts and pairs, and the condition {condition.spec!r} shows traits alone; try raw:10"
    return None


def misfit(text: str, benchmark: Benchmark) -> str | None:
    """Return why this model is not for a benchmark, where that shows before a query is seen, or None."""
    spec = parse_model(text)
    module, _, attribute = KINDS[spec.kind].misfit.partition(":")
    if not module:
        return None
    why_not: Callable[[Spec, Benchmark], str | None] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return why_not(spec, benchmark)
