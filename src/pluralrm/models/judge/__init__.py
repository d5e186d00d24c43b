r"""`judge:MODEL`: a chat model behind a URL that is asked for verdicts.

style=pairwise    which of two answers is better: reasons, then A, B or tie; all pairs of more than two
style=pointwise   each answer from 1 to 10
style=listwise    all answers ranked at once
style=verifier    is the answer good, YES or NO

docs/judges.md has the keys and the formulas. A judge of your own, for tests, needs no server:

>>> from pluralrm.chat import ScriptedChat
>>> from pluralrm.core import Query
>>> always_a = open_judge("judge:scripted", chat=ScriptedChat(lambda request: "Both will do.\nResult: A"))
>>> [verdict.scores for verdict in always_a.score([Query("q1", "Which flour?", ("Rye.", "Spelt."))])]
[(0.5, 0.5)]
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from pluralrm.chat import TOKENS, ChatCall, ChatModel, ChatReply, ChatRole, Sampling, open_role, seed
from pluralrm.chat import sampling as chat_sampling
from pluralrm.core import Exchange, Failure, Query, RewardModel, Verdict
from pluralrm.errors import SpecError, did_you_mean
from pluralrm.http import Settings, Tally
from pluralrm.models.declarations import PROBES, JudgeProbe
from pluralrm.models.judge.styles import (
    AGGREGATES,
    BY,
    ORDERS,
    JudgeOutcome,
    Listwise,
    Order,
    Pairwise,
    Points,
    Pointwise,
    Style,
    Verifier,
    replies,
)
from pluralrm.models.judge.verdicts import FORMS, KEY, RESULT, ReplyForm, without_copies
from pluralrm.ordered import in_groups
from pluralrm.specs import Form, Spec, parse
from pluralrm.templates import Template, context_of, fenced, load_template, mark_of

__all__ = ["ASKS", "KEYS", "STYLES", "Judge", "open_judge", "rating_spec"]

ASKS = ("auto", "quality", "user", "scenario")
"""What is asked: general quality, fit to this user, fit to the scenario of the prompt; `auto` asks for fit to the user
where anything of the user is shown, and for quality elsewhere."""

INVERTED = "inverted"
"""What a template of one's own reads to ask for the worse answer: set to `yes` where that is asked."""

_FIRST_TOKENS = 4
"""A word by its log-prob: some tokenizers put a blank token before it."""


class _Kind(NamedTuple):
    """One style: how it is made, its template and how many answers that must show, its own keys."""

    make: Callable[[Spec], Style]
    template: str
    inverted: str
    """The template that asks for the worse answer."""
    shown: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgeCalls:
    """A query, the orders in which its candidates are put before the judge, and the call for each."""

    query: Query
    orders: list[Order]
    calls: list[ChatCall[Points]]

    def verdict(self, style: Style) -> Verdict:
        """Return the verdict; every call must have its outcome."""
        outcomes = [call.outcome for call in self.calls if call.outcome is not None]
        return Verdict(
            scores=tuple(style.scores(len(self.query.candidates), self.orders, outcomes)),
            votes=tuple(style.votes(self.orders, outcomes)),
            exchanges=tuple(Exchange(turn.sent, _said(turn.reply)) for call in self.calls for turn in call.turns),
        )


def _said(reply: ChatReply) -> str:
    """Return the text and, below it, the log-probs that a verdict may rest on: [token, log-prob, alternatives]."""
    if reply.logprobs is None:
        return reply.text
    return f"{reply.text}\n\nlog-probs: {json.dumps(reply.logprobs, ensure_ascii=False)}"


@dataclass(frozen=True)
class Judge:
    """A chat model that is asked for verdicts in one style."""

    spec: str
    role: ChatRole
    style: Style
    seed: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    relabelled: bool = False
    """Whether the answers bear their letters in reverse: the first one shown is the last of the alphabet."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, the template, every setting."""
        return {**self.role.identity, **self.facts}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.role.tally

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; PrivacyError where a query shows posts that may not be sent.

        What shows the same user, and then the same question, is asked in a row: a server keeps what prompts share.
        """
        yield from in_groups(queries, _beginning, self._verdicts)

    def probed(self, probe: JudgeProbe) -> RewardModel | str:
        """Return the same judge asked for the worse answer, or with the letters reversed; or why that means nothing."""
        spec = parse(self.spec, {"judge": Form("required", KEYS)}, noun="model")
        try:
            return open_judge(replace(spec, options={**spec.options, _PROBE: probe}), chat=self.role.chat)
        except SpecError as exc:
            return str(exc)

    # ------------------------------------------------------------ asking

    def _verdicts(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query, _ in self.role.ask(map(self._calls_of, queries), lambda query: query.calls):
            yield query.verdict(self.style)

    def _calls_of(self, query: Query) -> JudgeCalls:
        """Return a query with its calls."""
        orders = self.style.orders(query)
        return JudgeCalls(query, orders, [self._call(query, order) for order in orders])

    def _call(self, query: Query, order: Order) -> ChatCall[Points]:
        answers = [query.candidates[index] for index in order]
        mark = mark_of(answers, f"{query.id}\n{query.prompt}", seed=self.seed, context=context_of(query))
        names = self.style.names(len(order))
        pairs = zip(reversed(names) if self.relabelled else names, answers, strict=True)
        text = self.role.template.render(query, [fenced(name, answer, mark) for name, answer in pairs])
        request = self.role.request(text, public=not query.private)
        read, complaint = partial(self._read, answers), "No verdict can be read from this"
        return ChatCall(request, read, self.style.again, self.role.reasoning, complaint)

    # ------------------------------------------------------------ reading

    def _read(self, answers: Sequence[str], reply: ChatReply) -> JudgeOutcome:
        points = self._points(answers, reply)
        return points[::-1] if self.relabelled and not isinstance(points, Failure) else points

    def _points(self, answers: Sequence[str], reply: ChatReply) -> JudgeOutcome:
        """Return the points in the order of the letters."""
        if not self.style.whole and reply.finish_reason != "content_filter":
            return self.style.read(reply.text, reply, len(answers))
        text = self.role.said(reply)
        if isinstance(text, Failure):
            return text
        return self.style.read(without_copies(text, answers, self.style.form), reply, len(answers))


def _beginning(query: Query) -> tuple[Hashable, ...]:
    """Return what prompts of equal beginnings have in common: what is shown of the user, then the question."""
    user = query.user
    context = (tuple(user.pairs), tuple(user.posts), tuple(user.traits.items())) if user else ()
    return (tuple(query.notes), *context), query.prompt


# ---------------------------------------------------------------- from a spec to a judge


def open_judge(spec: Spec | str, settings: Settings | None = None, *, chat: ChatModel | None = None) -> Judge:
    """Return a judge; `chat` stands in for the server that the spec names, `settings` say how a server is used."""
    if isinstance(spec, str):
        spec = parse(spec, {"judge": Form("required", KEYS)}, noun="model")
    name = one_of(spec, "style", tuple(STYLES))
    kind = STYLES[name]
    for key in spec.options:
        if key not in (*_OF_ALL, *STYLES[name].keys):
            raise SpecError(f"judge: {key} means nothing with style={name}; leave it out, or name another style")
    style = kind.make(spec)
    role = open_role(spec, _template(spec, kind), style.sampling, chat=chat, settings=settings)
    facts = {"style": repr(style), "reasoning": repr(role.reasoning)}
    relabelled = spec.options.get(_PROBE) == "relabelled"
    if relabelled:
        if kind.shown < 2:
            raise SpecError(f"style={name} shows one answer at a time: no answer is named")
        facts[_PROBE] = "relabelled"
    return Judge(str(spec), role, style, seed(spec), facts, relabelled)


def rating_spec(text: str) -> Spec | None:
    """Return the spec of the same judge as one that rates each answer alone for anyone; None where it is no judge."""
    if text.partition(":")[0] != "judge":
        return None
    spec = parse(text, {"judge": Form("required", KEYS)}, noun="model")
    options = {key: value for key, value in spec.options.items() if key in _OF_ALL and key not in {"style", "template"}}
    return Spec("judge", spec.target, {**options, "style": "pointwise", "ask": "quality"})


# ---------------------------------------------------------------- styles


def _pairwise(spec: Spec) -> Style:
    return Pairwise(
        sampling(spec),
        orders_asked=one_of(spec, "orders", ORDERS),
        aggregate=one_of(spec, "aggregate", tuple(AGGREGATES)),
        seed=seed(spec),
        form=form(spec),
        tie=_tie(spec),
    )


def _pointwise(spec: Spec) -> Style:
    expect = one_of(spec, "expect", ("no", "yes")) == "yes"
    if expect and form(spec) != RESULT:
        raise SpecError("judge: expect=yes reads the number that the reply begins with; leave out verdict=")
    return Pointwise(sampling(spec, logprobs=expect), expect=expect, form=form(spec))


def _listwise(spec: Spec) -> Style:
    return Listwise(sampling(spec), spec.integer("rotations", 4, least=1), seed(spec), form(spec))


def _verifier(spec: Spec) -> Style:
    by = one_of(spec, "by", BY)
    return Verifier(sampling(spec) if by == "text" else sampling(spec, tokens=_FIRST_TOKENS, logprobs=True), by)


STYLES: Mapping[str, _Kind] = {
    "pairwise": _Kind(
        _pairwise, "pairwise-v1", "pairwise-inverted-v1", 2, ("aggregate", "orders", "tie", "verdict", "warn")
    ),
    "pointwise": _Kind(_pointwise, "pointwise-v1", "pointwise-inverted-v1", 1, ("expect", "top_logprobs", "verdict")),
    "listwise": _Kind(_listwise, "listwise-v1", "listwise-inverted-v1", 5, ("rotations", "verdict", "warn")),
    "verifier": _Kind(_verifier, "judge-verifier-v1", "judge-verifier-inverted-v1", 1, ("by", "top_logprobs")),
}
"""Each style by its name, the default first."""

_OF_ALL = (
    *("ask", "key", "max_tokens", "probe", "reasoning", "revision", "seed"),
    *("send", "style", "temperature", "template", "url"),
)
_PROBE = "probe"
KEYS = tuple(sorted({*_OF_ALL, *(key for kind in STYLES.values() for key in kind.keys)}))


# ---------------------------------------------------------------- from a spec to its parts


def _template(spec: Spec, kind: _Kind) -> Template:
    """Return the template with the question that is asked written into it, so that its hash says which."""
    inverted = _PROBE in spec.options and one_of(spec, _PROBE, PROBES) == "inverted"
    base = load_template(spec.options.get("template", kind.inverted if inverted else kind.template))
    if inverted and "template" in spec.options and re.search(rf"\b{INVERTED}\b", base.source) is None:
        raise SpecError(f"the template {base.name!r} asks one question; it can be inverted if it reads {INVERTED!r}")
    ask = one_of(spec, "ask", ASKS)
    if "ask" in spec.options and re.search(r"\bask\b", base.source) is None:
        raise SpecError(f"judge: the template {base.name!r} has a question of its own; leave out ask={ask}")
    values = _closing(spec, ask) | ({INVERTED: "yes"} if inverted else {})
    header = "".join(f"{{% set {name} = {json.dumps(value)} %}}\n" for name, value in values.items())
    template = Template(base.name, f"{header}{base.source}")
    template.require_answers(kind.shown)
    return template


def _closing(spec: Spec, ask: str) -> dict[str, str | list[str]]:
    """Return what a template is told beside the query; defaults are left out, and out of its hash."""
    values: dict[str, str | list[str]] = {"ask": ask}
    if one_of(spec, "warn", ("no", "yes")) == "yes":
        values["warn"] = "yes"
    if form(spec) != RESULT or not _tie(spec):
        values |= {"replies": replies(form(spec), tie=_tie(spec))}
    if form(spec) != RESULT:
        values |= {"number": form(spec).example("N"), "order": form(spec).example("X>Y>Z")}
    return values


def _tie(spec: Spec) -> bool:
    return one_of(spec, "tie", ("yes", "no")) == "yes"


_ALTERNATIVES = 20
"""The most that OpenAI gives, and vLLM by default."""


def one_of(spec: Spec, key: str, choices: Sequence[str]) -> str:
    """Return an option that has a few values, the first by default."""
    value = spec.options.get(key, choices[0])
    if value not in choices:
        raise SpecError(f"judge: {key} is {value!r}.{did_you_mean(value, choices)}")
    return value


def sampling(spec: Spec, *, tokens: int = TOKENS, logprobs: bool = False) -> Sampling:
    """Return how replies are drawn, with log-probs where they decide."""
    if not logprobs and "top_logprobs" in spec.options:
        raise SpecError("judge: top_logprobs means nothing where the text decides; leave it out")
    alternatives = spec.integer("top_logprobs", _ALTERNATIVES, least=2) if logprobs else 0
    return replace(chat_sampling(spec, tokens), logprobs=logprobs, top_logprobs=alternatives)


def form(spec: Spec) -> ReplyForm:
    """Return how replies give their verdict: `verdict=result|brackets|tag|json[:KEY]`."""
    name, _, key = spec.options.get("verdict", FORMS[0]).partition(":")
    if name not in FORMS:
        raise SpecError(
            f"judge: verdict is {name!r}; wanted {', '.join(FORMS[:-1])} or json:KEY.{did_you_mean(name, FORMS)}"
        )
    if key and name != "json":
        raise SpecError(f"judge: verdict={name}:{key}: only json has a key")
    if re.fullmatch(r"[\w-]*", key) is None:
        raise SpecError(f"judge: verdict=json:{key}: wanted a key of letters, digits, _ and -")
    return ReplyForm(name, key or KEY)
