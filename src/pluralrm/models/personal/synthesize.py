r"""`synthesizeme:MODEL`: a chat model that first learns who the user is from labelled pairs, and then judges.

The judge is that of `judge:MODEL,style=pairwise`, asked in both orders; what it is told beside the question is the
persona and the demonstrations of the profile. A user who shows no pairs is judged by the same question without them,
and the transcript says so.

    pairs --a third held out--> traces: which answer was chosen, and why? asked in both orders, without the label
          --traces that predicted the choice in both orders--> persona
          --sets of pairs, tried on the held-out ones with the persona--> demonstrations

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
from typing import NamedTuple

from pluralrm.chat import ChatModel
from pluralrm.chat.completions import unreadable
from pluralrm.chat.role import ChatCall, ChatRole, open_role, require_posts_allowed, seed
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
    """A profile in the making."""

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


@dataclass(frozen=True)
class Reader:
    """Who reads users: a judge that foresees choices, one that gives verdicts, and a writer of personas."""

    tracer: Judge
    judge: Judge
    writer: ChatRole
    demonstrations: int
    sets: int
    seed: int

    def profiles(self, users: Sequence[Pairs]) -> Mapping[Pairs, Profile]:
        """Return the profile of each user; every step is taken for all of them, so that calls go side by side."""
        drafts = [self._draft(pairs) for pairs in users]
        self._trace(drafts)
        self._write(drafts)
        chosen = self._choose(drafts)
        return {
            pairs: Profile(draft.persona, demonstrations, draft.failure)
            for pairs, draft, demonstrations in zip(users, drafts, chosen, strict=True)
        }

    def _draft(self, pairs: Pairs) -> _Draft:
        rows = [[pair.id, pair.prompt, pair.preferred, pair.other] for pair in pairs]
        rng = random.Random(f"{self.seed}:{digest(rows)}")
        order = rng.sample(pairs, len(pairs))
        aside = len(pairs) // _HELD_OUT
        return _Draft(order[aside:], order[:aside], rng)

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
        tried = [self._sets(draft) if draft.failure is None else [()] for draft in drafts]
        trials = [
            (number, index, pair)
            for number, draft in enumerate(drafts)
            for index in range(len(tried[number]))
            for pair in (draft.held_out if len(tried[number]) > 1 else ())
        ]
        queries = (_query(pair, drafts[number].persona, tried[number][index]) for number, index, pair in trials)
        credited: dict[tuple[int, int], list[float]] = {}
        for (number, index, _), verdict in zip(trials, self.judge.score(queries), strict=True):
            drafts[number].failure = drafts[number].failure or _outage(verdict)
            credited.setdefault((number, index), []).append(_credit(verdict))
        return [sets[_best(credited, number, len(sets))] for number, sets in enumerate(tried)]

    def _sets(self, draft: _Draft) -> list[Pairs]:
        """Return the sets to try, without repetition; where nothing decides between two, the earlier is taken."""
        ranked, most = draft.ranked, self.demonstrations
        sizes = (draft.rng.randint(1, min(most, len(ranked))) for _ in range(self.sets - 1))
        others = (tuple(draft.rng.sample(ranked, size)) for size in sizes)
        return list(dict.fromkeys([tuple(ranked[:most]), *others, ()]))


# ---------------------------------------------------------------- what is asked and said


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


def _best(credited: Mapping[tuple[int, int], Sequence[float]], number: int, sets: int) -> int:
    """Return the set with the most credit, the first of equals."""
    return max(range(sets), key=lambda index: (fmean(credited.get((number, index), [0.0])), -index))


_TRACE, _PERSONA, _JUDGE = "synthesize-trace-v1", "synthesize-persona-v1", "pairwise-v1"
_DEMONSTRATIONS, _SETS = 4, 4
_UNKNOWN = Profile(failure=Failure("transport", "not read yet"))


@dataclass(frozen=True)
class SynthesizeMe:
    """A judge that is told what it could make out about the user; profiles are kept for as long as it lives."""

    spec: str
    reader: Reader
    _known: dict[Pairs, Profile] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed: the model and its server, templates, every setting."""
        reader = self.reader
        templates = {"trace": reader.tracer.role.template.hash, "persona": reader.writer.template.hash}
        return {**reader.judge.identity, **templates}

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
            yield replace(verdict, exchanges=(_account(query, profile), *verdict.exchanges))

    def _read(self, queries: Iterable[Query]) -> None:
        """Make the profiles that are not known yet; one that an outage kept from being made is tried again."""
        groups = dict.fromkeys(pairs for query in queries if (pairs := _pairs(query)))
        new = [pairs for pairs in groups if self._known.get(pairs, _UNKNOWN).failure is not None]
        if new:
            require_posts_allowed(self.reader.writer.chat, self.spec, "it would be shown what users chose")
        self._known.update(self.reader.profiles(new))

    def _profile(self, query: Query) -> Profile:
        return self._known.get(_pairs(query), Profile())


def _pairs(query: Query) -> Pairs:
    return query.user.pairs if query.user else ()


def _account(query: Query, profile: Profile) -> Exchange:
    """Return what was made out about the user, as the first exchange of a transcript."""
    pairs = _pairs(query)
    if not pairs:
        return Exchange("(no pairs of this user are shown)", "(judged without persona and demonstrations)")
    ids = ", ".join(pair.id for pair in profile.demonstrations) or "none"
    return Exchange(f"(read from {len(pairs)} pairs)", f"persona: {profile.persona or 'none'}\ndemonstrations: {ids}")


# ---------------------------------------------------------------- from a spec to its parts


def synthesize(spec: Spec, settings: Settings) -> SynthesizeMe:
    """Return the model that a spec names."""
    return open_synthesize(spec, settings=settings)


def open_synthesize(
    spec: Spec | str, *, chat: ChatModel | None = None, settings: Settings | None = None
) -> SynthesizeMe:
    """Return the model; `chat` stands in for the server that the spec names, `settings` say how a server is used."""
    if isinstance(spec, str):
        spec = parse_model(spec)
    drawn = sampling(spec)
    writer = open_role(spec, load_template(_PERSONA), drawn, chat=chat, settings=settings)
    facts = {"demonstrations": str(_most(spec)), "sets": str(_sets(spec)), "sampling": repr(drawn)}

    def judge(template: str) -> Judge:
        role = replace(writer, template=load_template(template))
        return Judge(str(spec), role, Pairwise(drawn, seed=seed(spec)), seed(spec), facts)

    return SynthesizeMe(str(spec), Reader(judge(_TRACE), judge(_JUDGE), writer, _most(spec), _sets(spec), seed(spec)))


def _most(spec: Spec) -> int:
    return spec.integer("demonstrations", _DEMONSTRATIONS, least=1)


def _sets(spec: Spec) -> int:
    return spec.integer("sets", _SETS, least=1)
