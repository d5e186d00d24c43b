r"""`synthesizeme:MODEL`: a chat model that first learns who the user is from labelled pairs, and then judges.

The judge is that of `judge:MODEL,style=pairwise`, asked in both orders; what it is told beside the question is the
persona and the demonstrations of `profiles.py`. A user who shows no pairs is judged by the same question without them,
and the transcript says so.

>>> from pluralrm.chat import ScriptedChat
>>> from pluralrm.core import Query
>>> model = open_synthesize("synthesizeme:scripted", chat=ScriptedChat(lambda request: "Both will do.\nResult: A"))
>>> [verdict.scores for verdict in model.score([Query("q1", "Which flour?", ("Rye.", "Spelt."))])]
[(0.5, 0.5)]
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pluralrm.chat import ChatModel
from pluralrm.chat.options import chat_of, check_private, reasoning_markers, seed
from pluralrm.core import Exchange, Failure, Query, Verdict
from pluralrm.http import Settings, Tally
from pluralrm.models import parse_model
from pluralrm.models.judge import Judge, sampling
from pluralrm.models.judge.styles import Pairwise
from pluralrm.models.personal.profiles import Pairs, Profile, Reader
from pluralrm.specs import Spec
from pluralrm.templates import load_template

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
        templates = {"trace": reader.tracer.template.hash, "persona": reader.writer.hash}
        return {**reader.judge.identity, **templates}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.reader.judge.tally

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        """Yield one Verdict per query, in order; users are read before the first query is judged."""
        several = list(queries)
        self._read(several)
        told = (self._profile(query).told(query) for query in several if self._profile(query).failure is None)
        verdicts = self.reader.judge.score(told)
        for query in several:
            profile = self._profile(query)
            if profile.failure is not None:
                yield Verdict.failed(profile.failure.kind, profile.failure.detail, len(query.candidates))
                continue
            verdict = next(verdicts)
            yield replace(verdict, exchanges=(_account(query, profile), *verdict.exchanges))

    def _read(self, queries: Iterable[Query]) -> None:
        """Make the profiles that are not known yet; one that an outage kept from being made is tried again."""
        shown = dict.fromkeys(pairs for query in queries if (pairs := _pairs(query)))
        new = [pairs for pairs in shown if self._known.get(pairs, _UNKNOWN).failure is not None]
        if new:
            check_private(self.reader.judge.chat, self.spec, "it would be shown what users chose")
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
    named = ", ".join(pair.id for pair in profile.demonstrations) or "none"
    return Exchange(f"(read from {len(pairs)} pairs)", f"persona: {profile.persona or 'none'}\ndemonstrations: {named}")


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
    drawn, reasoning, chat = sampling(spec), reasoning_markers(spec), chat_of(spec, settings, chat)
    facts = {"demonstrations": str(_most(spec)), "sets": str(_sets(spec)), "sampling": repr(drawn)}

    def judge(template: str) -> Judge:
        style = Pairwise(drawn, seed=seed(spec))
        return Judge(str(spec), chat, style, load_template(template), seed(spec), reasoning, facts)

    reader = Reader(
        tracer=judge(_TRACE),
        judge=judge(_JUDGE),
        writer=load_template(_PERSONA),
        sampling=drawn,
        reasoning=reasoning,
        demonstrations=_most(spec),
        sets=_sets(spec),
        seed=seed(spec),
    )
    return SynthesizeMe(str(spec), reader)


def _most(spec: Spec) -> int:
    return spec.integer("demonstrations", _DEMONSTRATIONS, least=1)


def _sets(spec: Spec) -> int:
    return spec.integer("sets", _SETS, least=1)
