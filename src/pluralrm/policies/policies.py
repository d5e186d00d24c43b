"""Policies: what answers. `chat:MODEL` is asked over HTTP, `lm:FOLDER` is a language model in a folder, and `simulated`
answers simulated users without either. `python:package.module:make` makes one of your own.

`load_policy` reads a spec. A policy of one's own needs no base class: `spec`, `identity` and `answer` are enough.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple, Protocol

from pluralrm.chat.completions import Markers, spoken
from pluralrm.chat.role import KEYS as CHAT_KEYS
from pluralrm.core import Failure, Query
from pluralrm.errors import MissingExtraError, SpecError, did_you_mean
from pluralrm.http import Settings
from pluralrm.models import default_settings
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.policies.draw import Draw
from pluralrm.policies.pool import Answered
from pluralrm.specs import Form, Spec, parse, refuse_secrets


@dataclass(frozen=True, slots=True)
class Ask:
    """One answer that is wanted: the `index`-th to a query, drawn by a seed of its own. The query has no candidates."""

    query: Query
    index: int
    seed: int


class Said(NamedTuple):
    """An answer, how it ended, and its tokens where they are known."""

    text: str
    finish: Answered
    tokens: int | None = None
    posts_kept: int | None = None
    """How many posts fitted into the prompt, where the policy had to drop some."""


def answered(
    text: str, reasoning: Markers | None, *, cut: bool, tokens: int | None, posts_kept: int | None = None
) -> Said | Failure:
    """Return what a policy wrote as an answer, without its reasoning; what was cut off is an answer still."""
    said = spoken(text, reasoning)
    if cut:  # in the middle of its reasoning, perhaps: then nothing of the answer was said
        return Said("" if isinstance(said, Failure) else said, "length", tokens, posts_kept)
    if isinstance(said, Failure):
        return said
    if said != text:  # blank lines between reasoning and answer are of neither
        said = said.strip()
    return Said(said, "stop" if said.strip() else "empty", tokens, posts_kept)


class Policy(Protocol):
    """Anything that answers. No base class: an object with these three is a policy."""

    @property
    def spec(self) -> str:
        """The string that names this policy in pools and tables."""
        ...

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a pool is resumed: model, weights, template, every setting."""
        ...

    def answer(self, asks: Iterable[Ask], draw: Draw) -> Iterator[Said | Failure]:
        """Yield one answer or failure per ask, in order; the asks of one query follow each other.

        An answer depends on its ask and on `draw`, not on its neighbours.
        """
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table: where the maker is, what its spec accepts, what the maker's module needs."""

    maker: str
    summary: str
    form: Form
    extra: str = ""


_DRAWN = ("max_tokens", "seed", "temperature")
"""Keys of other chat models that say how replies are drawn: here the draw says that, for policies of all kinds."""

_ASKED = ("prompt_tokens", "reasoning", "template")
"""Keys of `lm:` that say what the policy reads and how its answers are read."""

KINDS: Mapping[str, Kind] = {
    "chat": Kind(
        "chatting:chat",
        "chat:MODEL,url=URL, a chat model behind an OpenAI-compatible server",
        Form("required", tuple(key for key in CHAT_KEYS if key not in _DRAWN)),
        extra="chat",
    ),
    "lm": Kind(
        "local:lm",
        "lm:FOLDER, a language model computed here",
        Form("required", ("attn", "batch", "chat", "code", "device", "dtype", *_ASKED)),
        extra="hf",
    ),
    "simulated": Kind("simulated:simulated", "answers to simulated users, in all ways equally often", Form()),
    "python": Kind("plugin:load", "python:package.module:make, your own: an object with answer(asks, draw)", PLUGIN),
}


def parse_policy(text: str) -> Spec:
    """Return the parsed spec of a policy; unknown kinds and keys name the nearest known ones."""
    refuse_secrets(text)
    kind = text.strip().partition(",")[0].partition(":")[0]
    if kind not in KINDS:
        raise SpecError(f"unknown policy {kind!r}.{did_you_mean(kind, KINDS)} See docs/best-of-n.md.")
    return parse(text, {name: kind.form for name, kind in KINDS.items()}, noun="policy")


def load_policy(text: str, *, settings: Settings | None = None) -> Policy:
    """Return the policy that a spec string names; `settings` say how a server is asked, where one is.

    Without them replies are kept in the user's cache folder.
    """
    spec = parse_policy(text)
    kind = KINDS[spec.kind]
    module, _, attribute = kind.maker.partition(":")
    try:
        maker: Callable[[Spec, Settings | None], Policy] = getattr(
            import_module(f"pluralrm.policies.{module}"), attribute
        )
    except ImportError as exc:
        if (exc.name or "").startswith("pluralrm"):
            raise
        raise MissingExtraError(f"{spec.kind}:", kind.extra) from exc
    return maker(spec, settings or default_settings())
