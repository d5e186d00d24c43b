"""Policies: what answers. `chat:MODEL` is asked over HTTP, `lm:FOLDER` is a language model in a folder, and `simulated`
answers simulated users without either. `python:package.module:make` makes one of your own.

`load_policy` reads a spec. A policy of one's own needs no base class: `spec`, `identity` and `answer` are enough.
"""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from pluralrm.benchmarks.simulated.texts import attributes, texts_hash, topic_of, write_answer
from pluralrm.chat import KEYS as CHAT_KEYS
from pluralrm.chat import ChatModel, ChatReply, ChatRequest, ChatRole, Sampling, open_role
from pluralrm.chat.completions import Markers, spoken, whole
from pluralrm.core import FINAL_KINDS, OPEN_KINDS, Failure, Query
from pluralrm.errors import MissingExtraError, PoolError, SpecError, did_you_mean
from pluralrm.folders import local_folder
from pluralrm.http import Settings, Tally
from pluralrm.models import default_settings
from pluralrm.plugin import FORM as PLUGIN
from pluralrm.plugin import Maker, Wanted, find
from pluralrm.policies.pool import ANSWERED, AnswerFinish
from pluralrm.specs import Form, Spec, parse, refuse_secrets
from pluralrm.templates import DEFAULT, Message, load_template

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

_BITS = 31
"""Servers take seeds of at least so many bits."""


@dataclass(frozen=True, slots=True)
class Draw:
    """N answers per item from softmax(logits / temperature), among the likeliest tokens that make up `top_p`.

    The defaults are those of the best-of-N protocol of Personalized RewardBench.
    """

    n: int = 16
    temperature: float = 1.0
    top_p: float = 0.9
    max_tokens: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        rules = {
            "n": (self.n >= 1, "at least 1"),
            "temperature": (0 <= self.temperature <= 2, "a number from 0 to 2"),
            "top_p": (0 < self.top_p <= 1, "a number above 0, at most 1"),
            "max_tokens": (self.max_tokens >= 1, "at least 1"),
        }
        for name, (sound, words) in rules.items():
            if not sound:
                raise SpecError(f"{name} is {getattr(self, name)}; wanted {words}")
        if self.temperature == 0 and self.n > 1:
            raise SpecError(f"temperature 0 gives one answer {self.n} times; wanted n = 1, or a temperature above 0")

    def seed_of(self, item: str, index: int) -> int:
        """Return the seed of one answer: what is drawn before it, or beside it, changes nothing."""
        raw = hashlib.sha256(f"{self.seed}:{index}:{item}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(raw[:4], "big") >> (32 - _BITS)


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One answer that is wanted: the `index`-th to a query, drawn by a seed of its own. The query has no candidates."""

    query: Query
    index: int
    seed: int


class PolicyAnswer(NamedTuple):
    """An answer, how it ended, and its tokens where they are known."""

    text: str
    finish: AnswerFinish
    tokens: int | None = None
    posts_kept: int | None = None
    """How many posts fitted into the prompt, where the policy had to drop some."""


def policy_answer(
    text: str, reasoning: Markers | None, *, cut: bool, tokens: int | None, posts_kept: int | None = None
) -> PolicyAnswer | Failure:
    """Return what a policy wrote as an answer, without its reasoning; what was cut off is an answer still."""
    answer = spoken(text, reasoning)
    if cut:  # in the middle of its reasoning, perhaps: then nothing of the answer was said
        return PolicyAnswer("" if isinstance(answer, Failure) else answer, "length", tokens, posts_kept)
    if isinstance(answer, Failure):
        return answer
    if answer != text:  # blank lines between reasoning and answer are of neither
        answer = answer.strip()
    return PolicyAnswer(answer, "stop" if answer.strip() else "empty", tokens, posts_kept)


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

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        """Yield one answer or failure per ask, in order; the asks of one query follow each other.

        An answer depends on its ask and on `draw`, not on its neighbours.
        """
        ...


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """One row of the table: where the maker is, what its spec accepts, what the maker's module needs."""

    maker: str
    summary: str
    form: Form
    extra: str = ""
    weights: bool = False
    """True where its weights are on this machine, to be trained."""


_DRAWN = ("max_tokens", "seed", "temperature")
"""Keys of other chat models that say how replies are drawn: here the draw says that, for policies of all kinds."""

_ASKED = ("prompt_tokens", "reasoning", "template")
"""Keys of `lm:` that say what the policy reads and how its answers are read."""

KINDS: Mapping[str, PolicyKind] = {
    "chat": PolicyKind(
        "policy:chat",
        "chat:MODEL,url=URL, a chat model behind an OpenAI-compatible server",
        Form("required", tuple(key for key in CHAT_KEYS if key not in _DRAWN), example="chat:MODEL,url=URL"),
        extra="chat",
    ),
    "lm": PolicyKind(
        "local:lm",
        "lm:FOLDER, a language model computed here",
        Form("required", ("attn", "batch", "chat", "code", "device", "dtype", *_ASKED), example="lm:FOLDER"),
        extra="hf",
        weights=True,
    ),
    "simulated": PolicyKind("policy:simulated", "answers to simulated users, in all ways equally often", Form()),
    "python": PolicyKind(
        "policy:load_plugin", "python:package.module:make, your own: an object with answer(asks, draw)", PLUGIN
    ),
}


def parse_policy(text: str) -> Spec:
    """Return the parsed spec of a policy; unknown kinds and keys name the nearest known ones."""
    refuse_secrets(text)
    head = text.strip().partition(",")[0]
    kind = head.partition(":")[0]
    if kind not in KINDS and local_folder(head) is not None:
        raise SpecError(f"unknown policy {head!r}. A folder of weights is lm:{text.strip()}")
    if kind not in KINDS:
        raise SpecError(f"unknown policy {kind!r}.{did_you_mean(kind, KINDS)} See 'pluralrm sample --help'.")
    return parse(text, {name: kind.form for name, kind in KINDS.items()}, noun="policy")


def has_weights(text: str) -> bool:
    """Return whether a policy's weights are on this machine, to be trained."""
    return KINDS[parse_policy(text).kind].weights


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


def open_local(text: str, settings: Settings | None = None) -> "LocalPolicy":
    """Return the policy that a spec names; a SpecError where its weights are not on this machine."""
    if has_weights(text):
        opened = load_policy(text, settings=settings)
        from pluralrm.policies.local import LocalPolicy

        if isinstance(opened, LocalPolicy):
            return opened
    raise SpecError(f"--policy {text}: its weights are not here; wanted lm:FOLDER")


@dataclass(frozen=True)
class ChatPolicy:
    """A chat model behind an OpenAI-compatible server; its replies are kept, recorded and replayed as a judge's.

    >>> from pluralrm.chat import ScriptedChat
    >>> from pluralrm.core import Query
    >>> policy = open_chat("chat:scripted", chat=ScriptedChat(lambda request: f"Rye, says {request.tag}."))
    >>> [said.text for said in policy.answer([AnswerRequest(Query("q1", "Which flour?", ()), 0, seed=7)], Draw(n=1))]
    ['Rye, says q1 0.']
    """

    spec: str
    role: ChatRole

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a pool is resumed: the model and its server, the template."""
        return {**self.role.identity, "reasoning": repr(self.role.reasoning)}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.role.tally

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        """Yield one answer or failure per ask, in order; PrivacyError at posts that may not be sent."""
        for reply in self.role.chat.complete(self._requests(asks, draw)):
            yield reply if isinstance(reply, Failure) else self._answer_of(reply)

    def _requests(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[ChatRequest]:
        query, turns = None, tuple[Message, ...]()  # one conversation for all answers to a query
        for ask in asks:
            if ask.query is not query:
                query, turns = ask.query, tuple(self.role.template.turns(ask.query))
            role = replace(self.role, sampling=Sampling(draw.temperature, draw.top_p, draw.max_tokens, ask.seed))
            tag, stand_in = f"{query.id} {ask.index}", f"Answer {ask.index} to {query.id}."
            yield role.request(turns, public=not query.private, tag=tag, stand_in=stand_in)

    def _answer_of(self, reply: ChatReply) -> PolicyAnswer | Failure:
        cut = reply.finish_reason == "length"
        text = reply.text if cut else whole(reply)
        if isinstance(text, Failure):
            return text
        tokens = None if reply.usage is None else reply.usage.completion
        return policy_answer(text, self.role.reasoning, cut=cut, tokens=tokens)


def chat(spec: Spec, settings: Settings | None) -> ChatPolicy:
    """Return the policy of `chat:MODEL`."""
    return open_chat(spec, settings=settings)


def open_chat(spec: Spec | str, *, chat: ChatModel | None = None, settings: Settings | None = None) -> ChatPolicy:
    """Return the policy; `chat` stands in for the server that the spec names, `settings` say how one is used."""
    if isinstance(spec, str):
        spec = parse_policy(spec)
    template = load_template(spec.options.get("template", DEFAULT))
    return ChatPolicy(str(spec), open_role(spec, template, Sampling(), chat=chat, settings=settings))


@dataclass(frozen=True, slots=True)
class Simulated:
    """A policy that answers the questions of simulated users and knows nothing of who asks.

    >>> from pluralrm.benchmarks import load_benchmark
    >>> prompt = load_benchmark("simulated:users=1,items=1").items[0].prompt
    >>> [said.finish for said in Simulated().answer([AnswerRequest(Query("q1", prompt, ()), 0, seed=7)], Draw(n=1))]
    ['stop']

    Each attribute of an answer has any of its levels with the same probability, for every user. Where all are equally
    likely, neither a temperature nor a nucleus changes anything.
    """

    spec: str = "simulated"

    @property
    def identity(self) -> Mapping[str, str]:
        """The sentences that answers are made of."""
        return {"texts": texts_hash()}

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:  # noqa: ARG002 - all equally likely
        """Yield one answer per ask, whole whatever its length; a prompt of another benchmark is `unsupported`."""
        return map(_answer, asks)


def simulated(spec: Spec, _: Settings | None) -> Simulated:
    """Return the policy of `simulated`."""
    return Simulated(str(spec))


def _answer(ask: AnswerRequest) -> PolicyAnswer | Failure:
    topic = topic_of(ask.query.prompt)
    if topic is None:
        return Failure("unsupported", "the prompt is not a question of the simulated benchmark")
    rng = random.Random(ask.seed)
    levels = {attribute.name: rng.choice(list(attribute.levels)) for attribute in attributes()}
    return PolicyAnswer(write_answer(topic, levels, rng), "stop")


_WANTED = Wanted("policy", "package.module:make", PoolError, "'pluralrm sample --help'")


@dataclass(frozen=True)
class PluginPolicy:
    """Somebody's policy under the spec that named it; what it yields is checked before it is kept."""

    spec: str
    identity: Mapping[str, str]
    policy: Policy
    maker: Maker = field(compare=False, repr=False)

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        """Yield the policy's answers; what is neither a Said nor a Failure is a PoolError that says what was wanted."""
        stream = self.maker.ask(lambda: iter(self.policy.answer(asks, draw)), "raised")
        done = object()
        while (reply := self.maker.ask(lambda: next(stream, done), "raised")) is not done:
            if not _is_answer(reply):
                raise PoolError(
                    f"{self.spec} yielded {reply!r:.200}; wanted Said(text, finish) with a finish of "
                    f"{', '.join(ANSWERED)}, or a pluralrm.Failure"
                )
            yield cast("PolicyAnswer | Failure", reply)


def load_plugin(spec: Spec, settings: Settings | None) -> PluginPolicy:  # noqa: ARG001 - its own code has its own means
    """Return the policy that `python:module:make` names, made with the spec's keys."""
    maker = find(spec, _WANTED)
    policy = maker.make()
    maker.require(policy, {"answer": "answer(asks, draw)"})
    return PluginPolicy(str(spec), maker.identity(policy), cast("Policy", policy), maker)


def _is_answer(reply: object) -> bool:
    if isinstance(reply, Failure):
        return reply.kind in FINAL_KINDS + OPEN_KINDS
    if not isinstance(reply, PolicyAnswer):
        return False
    text: object = reply.text
    return isinstance(text, str) and reply.finish in ANSWERED
