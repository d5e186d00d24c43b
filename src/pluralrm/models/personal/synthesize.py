r"""`synthesizeme:MODEL`, `summary:MODEL`: a chat model that first reads who the user is from pairs, and then judges.

The judge is that of `judge:MODEL,style=pairwise`, asked in both orders; what it is told beside the question is the
profile. A user who shows no pairs is judged by the same question without one, and the transcript says so.

    synthesizeme
    pairs --a third held out--> traces: which answer was chosen, and why? asked in both orders, without the label
          --traces that predicted the choice in both orders--> persona
          --sets of pairs, tried on the held-out ones with the persona--> demonstrations

    summary
    pairs --half held out--> summaries, the first from all pairs that are left, the others from samples of those
          --each tried on the held-out pairs, and none--> the best; where none is better than none, none

All is a function of the pairs: who else is judged beside them, and what is asked later, changes nothing.

>>> from pluralrm.chat import ScriptedChat
>>> from pluralrm.core import Query
>>> model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(lambda request: "Both will do.\nResult: A"))
>>> [verdict.scores for verdict in model.score([Query("q1", "Which flour?", ("Rye.", "Spelt."))])]
[(0.5, 0.5)]
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple, Protocol

from pluralrm.chat import ChatCall, ChatModel, ChatRole, open_role, require_posts_allowed, seed
from pluralrm.chat.completions import unreadable
from pluralrm.core import OPEN_KINDS, ContextPair, Exchange, Failure, Query, UserView, Verdict
from pluralrm.digests import digest
from pluralrm.http import Settings, Tally
from pluralrm.models import parse_model
from pluralrm.models.judge import Judge, sampling
from pluralrm.models.judge.styles import Pairwise
from pluralrm.specs import Spec
from pluralrm.templates import load_template

Pairs = tuple[ContextPair, ...]
_HELD_OUT = 3
"""One pair in so many is held out; of fewer pairs, none."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is told of a user: a persona (or none) and demonstrations; or the failure that keeps it from being known."""

    persona: str = ""
    demonstrations: Pairs = ()
    failure: Failure | None = None
    account: str = ""
    """What a transcript says of it."""

    def told(self, query: Query) -> Query:
        """Return the query with the persona among its notes and the demonstrations in place of the pairs."""
        view = query.user or UserView("")
        notes = (*query.notes, self.persona) if self.persona else query.notes
        return Query(
            query.id,
            query.prompt,
            query.candidates,
            replace(view, pairs=self.demonstrations),
            notes,
            query.reveals_oracle,
        )


class Trace(NamedTuple):
    """A pair, and the reasons that foresaw its label; empty where it was not foreseen in both orders."""

    pair: ContextPair
    reasons: str


@dataclass(slots=True)
class _Draft:
    """A profile in preparation."""

    shown: list[ContextPair]
    held_out: list[ContextPair]
    rng: random.Random
    traces: list[Trace] = field(default_factory=list)
    persona: str = ""
    failure: Failure | None = None

    @property
    def verified(self) -> list[Trace]:
        """The traces that foresaw the choice."""
        return [trace for trace in self.traces if trace.reasons]

    @property
    def ranked(self) -> list[ContextPair]:
        """All pairs that may be demonstrations, the verified ones first."""
        return [trace.pair for trace in sorted(self.traces, key=lambda trace: not trace.reasons)]


class Reader(Protocol):
    """Who makes profiles of pairs: a writer, and the judge that they are for."""

    @property
    def judge(self) -> Judge:
        """Who gives the verdicts."""
        ...

    @property
    def writer(self) -> ChatRole:
        """Who writes about the user."""
        ...

    @property
    def templates(self) -> Mapping[str, str]:
        """The hash of each template beside the judge's."""
        ...

    @property
    def bare(self) -> str:
        """What a transcript says where no pair is shown."""
        ...

    def profiles(self, users: Sequence[Pairs]) -> Mapping[Pairs, Profile]:
        """Return the profile of each user; every step is taken for all of them, so that calls go side by side."""
        ...


@dataclass(frozen=True)
class PersonaReader:
    """SynthesizeMe: a judge that predicts choices, one that gives verdicts, and a writer of personas."""

    tracer: Judge
    judge: Judge
    writer: ChatRole
    demonstrations: int
    sets: int
    seed: int
    bare: str = "(judged without persona and demonstrations)"

    @property
    def templates(self) -> Mapping[str, str]:
        """Those of traces and personas."""
        return {"trace": self.tracer.role.template.hash, "persona": self.writer.template.hash}

    def profiles(self, users: Sequence[Pairs]) -> Mapping[Pairs, Profile]:
        """Return persona and demonstrations of each user."""
        drafts = [_draft(pairs, self.seed, len(pairs) // _HELD_OUT) for pairs in users]
        self._trace(drafts)
        self._write(drafts)
        chosen = self._choose(drafts)
        return {
            pairs: Profile(draft.persona, demonstrations, draft.failure, _persona_account(draft, demonstrations))
            for pairs, draft, demonstrations in zip(users, drafts, chosen, strict=True)
        }

    def _trace(self, drafts: Sequence[_Draft]) -> None:
        """Let every shown pair be foreseen from the others; a trace is verified where both orders foresaw it."""
        requests = [(draft, pair) for draft in drafts for pair in draft.shown]
        queries = (_query(pair, "", self._beside(draft, pair)) for draft, pair in requests)
        for (draft, pair), verdict in zip(requests, self.tracer.score(queries), strict=True):
            draft.failure = draft.failure or _outage(verdict)
            foreseen = verdict.scores[0] == 1.0
            draft.traces.append(Trace(pair, _reasons(verdict.exchanges[0].said) if foreseen else ""))

    def _beside(self, draft: _Draft, pair: ContextPair) -> Pairs:
        return tuple(other for other in draft.shown if other is not pair)[: self.demonstrations]

    def _write(self, drafts: Sequence[_Draft]) -> None:
        """Have the persona of each user written from the verified traces; without any there is none."""
        writing = [draft for draft in drafts if draft.verified and draft.failure is None]
        for draft, [call] in self.writer.ask(writing, lambda draft: [self._call(draft.verified)]):
            if isinstance(call.outcome, str):
                draft.persona = call.outcome
            elif call.outcome is not None:
                draft.failure = Failure(call.outcome.kind, f"no persona: {call.outcome.detail}")

    def _call(self, verified: Sequence[Trace]) -> ChatCall[str]:
        text = self.writer.template.fill(
            prompts=[trace.pair.prompt for trace in verified],
            preferred=[trace.pair.preferred for trace in verified],
            other=[trace.pair.other for trace in verified],
            reasons=[trace.reasons for trace in verified],
        )
        again = "Write one paragraph of at most 100 words about this person, and nothing else."
        return self.writer.call(text, _persona, again)

    def _choose(self, drafts: Sequence[_Draft]) -> list[Pairs]:
        """Return for each user the set of demonstrations that is right most often on the held-out pairs."""
        sets = [self._sets(draft) if draft.failure is None else [()] for draft in drafts]
        options = [[(draft.persona, some) for some in mine] for draft, mine in zip(drafts, sets, strict=True)]
        credits_ = _tried(self.judge, drafts, options)
        return [mine[_best(each)] for mine, each in zip(sets, credits_, strict=True)]

    def _sets(self, draft: _Draft) -> list[Pairs]:
        """Return the sets to try, without repetition; where nothing decides between two, the earlier is taken."""
        ranked, most = draft.ranked, self.demonstrations
        sizes = (draft.rng.randint(1, min(most, len(ranked))) for _ in range(self.sets - 1))
        others = (tuple(draft.rng.sample(ranked, size)) for size in sizes)
        return list(dict.fromkeys([tuple(ranked[:most]), *others, ()]))


_SUMMARY = "Write one paragraph of at most 60 words about this person, and nothing else."


@dataclass(frozen=True)
class SummaryReader:
    """A writer of several summaries, and the judge whose predictions of held-out pairs decide between them."""

    judge: Judge
    writer: ChatRole
    summaries: int
    seed: int
    bare: str = "(judged without a summary)"

    @property
    def templates(self) -> Mapping[str, str]:
        """That of summaries."""
        return {"summary": self.writer.template.hash}

    def profiles(self, users: Sequence[Pairs]) -> Mapping[Pairs, Profile]:
        """Return each user's best summary; none where no pair could be held out, or none predicts better than none."""
        drafts = [_draft(pairs, self.seed, len(pairs) // 2) for pairs in users]
        texts = self._written(drafts)
        options: list[list[Option]] = [[("", ()), *((text, ()) for text in mine)] for mine in texts]
        credits_ = _tried(self.judge, drafts, options)
        return {
            pairs: Profile((best := mine[_best(each)][0]), (), draft.failure, _summary_account(draft, best, each))
            for pairs, draft, mine, each in zip(users, drafts, options, credits_, strict=True)
        }

    def _written(self, drafts: Sequence[_Draft]) -> list[list[str]]:
        """Return the summaries of each user, without repetition; where none can be read, the draft has the failure."""
        samples = [
            (number, sample) for number, draft in enumerate(drafts) if draft.held_out for sample in self._samples(draft)
        ]
        texts: list[list[str]] = [[] for _ in drafts]
        unread: dict[int, Failure] = {}
        for (number, _), [call] in self.writer.ask(samples, lambda each: [self._call(each[1])]):
            if isinstance(call.outcome, str):
                texts[number].append(call.outcome)
            elif call.outcome is not None:
                unread[number] = Failure(call.outcome.kind, f"no summary: {call.outcome.detail}")
        for number, failure in unread.items():
            # Without a call that may yet succeed another summary could be chosen; an unreadable one is not tried.
            if failure.kind in OPEN_KINDS or not texts[number]:
                drafts[number].failure = failure
        return [list(dict.fromkeys(mine)) for mine in texts]

    def _samples(self, draft: _Draft) -> list[Pairs]:
        """Return what each summary is written from: all pairs that are not held out, and half of them or more."""
        count = len(draft.shown)
        sizes = (draft.rng.randint(-(-count // 2), count) for _ in range(self.summaries - 1))
        return list(
            dict.fromkeys([tuple(draft.shown), *(tuple(draft.rng.sample(draft.shown, size)) for size in sizes)])
        )

    def _call(self, pairs: Pairs) -> ChatCall[str]:
        text = self.writer.template.fill(
            prompts=[pair.prompt for pair in pairs],
            preferred=[pair.preferred for pair in pairs],
            other=[pair.other for pair in pairs],
        )
        return self.writer.call(text, _persona, _SUMMARY)


# ---------------------------------------------------------------- what is asked and said


def _draft(pairs: Pairs, seed: int, aside: int) -> _Draft:
    """Return the pairs in an order that follows from them and the seed, the first `aside` held out."""
    rows = [[pair.id, pair.prompt, pair.preferred, pair.other] for pair in pairs]
    rng = random.Random(f"{seed}:{digest(rows)}")
    order = rng.sample(pairs, len(pairs))
    return _Draft(order[aside:], order[:aside], rng)


Option = tuple[str, Pairs]
"""A persona or summary, and demonstrations."""


def _tried(judge: Judge, drafts: Sequence[_Draft], options: Sequence[Sequence[Option]]) -> list[list[float]]:
    """Return the mean credit of each user's options on the pairs held out; 0 where there is nothing to choose."""
    trials = [
        (number, index, pair)
        for number, draft in enumerate(drafts)
        for index in range(len(options[number]))
        for pair in (draft.held_out if len(options[number]) > 1 and draft.failure is None else ())
    ]
    queries = (_query(pair, *options[number][index]) for number, index, pair in trials)
    credited: dict[tuple[int, int], list[float]] = {}
    for (number, index, _), verdict in zip(trials, judge.score(queries), strict=True):
        drafts[number].failure = drafts[number].failure or _outage(verdict)
        credited.setdefault((number, index), []).append(_credit(verdict))
    return [
        [fmean(credited.get((number, index), [0.0])) for index in range(len(mine))]
        for number, mine in enumerate(options)
    ]


def _best(credits_: Sequence[float]) -> int:
    """Return the option with the most credit, the first of equals."""
    return max(range(len(credits_)), key=lambda index: (credits_[index], -index))


def _persona_account(draft: _Draft, demonstrations: Pairs) -> str:
    ids = ", ".join(pair.id for pair in demonstrations) or "none"
    return f"persona: {draft.persona or 'none'}\ndemonstrations: {ids}"


def _summary_account(draft: _Draft, summary: str, credits_: Sequence[float]) -> str:
    without, *others = (f"{each:.2f}" for each in credits_)
    accuracies = f"; accuracy of each: {', '.join(others)}; without: {without}" if others else ""
    return f"summary: {summary or 'none'}\nheld-out pairs: {len(draft.held_out)}{accuracies}"


def _query(pair: ContextPair, persona: str, demonstrations: Pairs) -> Query:
    """Return the question whether a pair's label is foreseen; both orders are asked, so the place says nothing."""
    view = UserView("", pairs=demonstrations)
    return Query(pair.id, pair.prompt, (pair.preferred, pair.other), view, (persona,) if persona else ())


def _reasons(reply: str) -> str:
    """Return what stands before the result line, as one line."""
    return " ".join(" ".join(reply.strip().splitlines()[:-1]).split()) or "(none given)"


_LETTER = re.compile(r"[^\W\d_]")


def _persona(text: str) -> str | Failure:
    """Return the text as one line; it cannot end the section of a prompt in which it will stand."""
    return " ".join(text.split()) if _LETTER.search(text) else unreadable("the text says nothing", text)


def _credit(verdict: Verdict) -> float:
    """Return 1 where the preferred answer won, 1/2 for a tie, 0 elsewhere: a failure is never worth anything."""
    first, second = verdict.scores
    if isinstance(first, Failure) or isinstance(second, Failure):
        return 0.0
    return 0.5 if first == second else float(first > second)


def _outage(verdict: Verdict) -> Failure | None:
    """Return the failure that may yet be mended: a profile made without that call would be another one."""
    return next((failure for failure in verdict.failures if failure.kind in OPEN_KINDS), None)


_TRACE, _PERSONA, _JUDGE = "synthesize-trace-v1", "synthesize-persona-v1", "pairwise-v1"
_WRITTEN = "synthesize-summary-v1"
_DEMONSTRATIONS, _SETS, _SUMMARIES = 4, 4, 4
_UNKNOWN = Profile(failure=Failure("transport", "not read yet"))


@dataclass(frozen=True)
class ProfiledJudge:
    """A judge that is shown a profile of the user; profiles are kept for as long as it lives."""

    spec: str
    reader: Reader
    _known: dict[Pairs, Profile] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, templates, every setting."""
        return {**self.reader.judge.identity, **self.reader.templates}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.reader.judge.tally

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; users are read before the first query is judged."""
        several = list(queries)
        self._read(several)
        requests = (self._profile(query).told(query) for query in several if self._profile(query).failure is None)
        verdicts = self.reader.judge.score(requests)
        for query in several:
            profile = self._profile(query)
            if profile.failure is not None:
                yield Verdict.failed(profile.failure.kind, profile.failure.detail, len(query.candidates))
                continue
            verdict = next(verdicts)
            yield replace(verdict, exchanges=(self._account(query, profile), *verdict.exchanges))

    def _read(self, queries: Iterable[Query]) -> None:
        """Make the profiles that are not known yet; one that an outage kept from being made is tried again."""
        groups = dict.fromkeys(pairs for query in queries if (pairs := _pairs(query)))
        new = [pairs for pairs in groups if self._known.get(pairs, _UNKNOWN).failure is not None]
        if new:
            require_posts_allowed(self.reader.writer.chat, self.spec, "it would be shown what users chose")
        self._known.update(self.reader.profiles(new))

    def _profile(self, query: Query) -> Profile:
        return self._known.get(_pairs(query), Profile())

    def _account(self, query: Query, profile: Profile) -> Exchange:
        """Return the profile as the first exchange of a transcript."""
        pairs = _pairs(query)
        if not pairs:
            return Exchange("(no pairs of this user are shown)", self.reader.bare)
        return Exchange(f"(read from {len(pairs)} pairs)", profile.account)


def _pairs(query: Query) -> Pairs:
    return query.user.pairs if query.user else ()


# ---------------------------------------------------------------- from a spec to its parts


def open_synthesize(
    spec: Spec | str, settings: Settings | None = None, *, chat: ChatModel | None = None
) -> ProfiledJudge:
    """Return the model of `synthesizeme:MODEL`; `settings` say how a server is used, `chat` stands in for one."""
    spec, demonstrations, sets = _parsed(spec), "demonstrations", "sets"
    most, count = spec.integer(demonstrations, _DEMONSTRATIONS, least=1), spec.integer(sets, _SETS, least=1)
    writer = open_role(spec, load_template(_PERSONA), sampling(spec), chat=chat, settings=settings)
    facts = {demonstrations: str(most), sets: str(count)}
    tracer, judge = (_judge(spec, writer, template, facts) for template in (_TRACE, _JUDGE))
    return ProfiledJudge(str(spec), PersonaReader(tracer, judge, writer, most, count, seed(spec)))


def open_summary(spec: Spec | str, settings: Settings | None = None, *, chat: ChatModel | None = None) -> ProfiledJudge:
    """Return the model of `summary:MODEL`, in the same way."""
    spec = _parsed(spec)
    count = spec.integer("summaries", _SUMMARIES, least=1)
    writer = open_role(spec, load_template(_WRITTEN), sampling(spec), chat=chat, settings=settings)
    judge = _judge(spec, writer, _JUDGE, {"summaries": str(count)})
    return ProfiledJudge(str(spec), SummaryReader(judge, writer, count, seed(spec)))


def _parsed(spec: Spec | str) -> Spec:
    return parse_model(spec) if isinstance(spec, str) else spec


def _judge(spec: Spec, writer: ChatRole, template: str, facts: Mapping[str, str]) -> Judge:
    """Return the judge by the model of the writer."""
    drawn, role = sampling(spec), replace(writer, template=load_template(template))
    return Judge(str(spec), role, Pairwise(drawn, seed=seed(spec)), seed(spec), {**facts, "sampling": repr(drawn)})
