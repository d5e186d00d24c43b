"""`persona:MODEL` and `planner:MODEL`: notes that a chat model writes about the user, in place of the user's posts.

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.chat import ScriptedChat
>>> persona = open_notes("persona:scripted,k=3", chat=ScriptedChat(lambda request: "Likes it loud."))
>>> bench = load_benchmark("pocket-prb")
>>> next(persona.queries(bench, bench.items)).notes
('Likes it loud.',)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pluralrm.chat import ChatModel
from pluralrm.chat.role import KEYS, ChatCall, ChatRole, open_role, seed
from pluralrm.conditions.aspects import aspects, profile
from pluralrm.conditions.others import Swapped, lending_options, parse_lending
from pluralrm.conditions.own import OwnPosts
from pluralrm.conditions.prepared import Prepared
from pluralrm.core import Benchmark, Exchange, Failure, Item, Query, Reveals, UserView
from pluralrm.errors import ServiceError, SpecError, did_you_mean
from pluralrm.folders import default_cache
from pluralrm.http import Settings, Tally
from pluralrm.retrieval import RANKING_KEYS, parse_ranking
from pluralrm.specs import Form, Spec, parse
from pluralrm.templates import load_template

FORM = Form("required", tuple(sorted({*KEYS, *RANKING_KEYS, "k", "of", "posts"})))
"""What the spec of either kind accepts."""

# ---------------------------------------------------------------- the chat model that writes


WrittenNotes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be written: how it is called and read, and what a second message asks for."""

    noun: str
    template: str
    read: Callable[[str], WrittenNotes | Failure]
    again: str
    question: bool
    """True where the question is shown beside the posts."""
    lead: str = ""
    """What each note begins with."""
    stand_in: str = "Likes it short."
    """A reply of the form that is asked for, for a dry run."""


class Written(NamedTuple):
    """A query, which shows the ranked posts, what was written of them or why nothing was, and what was said."""

    shown: Query
    notes: WrittenNotes | Failure
    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True)
class Writer:
    """A chat model with a task. What it is shown are posts and, where the task says so, the question: nothing else."""

    task: Task
    role: ChatRole

    def write(self, shown: Iterable[Query]) -> Iterator[Written]:
        """Yield what is written for each query, in order; a user without posts has no notes."""
        for query, calls in self.role.ask(shown, self._calls):
            notes: WrittenNotes | Failure = calls[0].outcome or () if calls else ()
            if isinstance(notes, Failure):
                notes = Failure(notes.kind, f"no {self.task.noun}: {notes.detail}")
            else:
                notes = tuple(f"{self.task.lead}{note}" for note in notes)
            yield Written(query, notes, calls[0].exchanges if calls else ())

    def _calls(self, query: Query) -> list[ChatCall[WrittenNotes]]:
        """Return the call; neither candidates nor names are part of it, so equal posts make equal requests."""
        posts = query.user.posts if query.user else ()
        if not posts:
            return []
        prompt = query.prompt if self.task.question else ""
        view = replace(query, id="", prompt=prompt, candidates=(), user=UserView("", posts))
        text, task = self.role.template.render(view), self.task
        return [self.role.call(text, task.read, task.again, stand_in=task.stand_in)]


# ---------------------------------------------------------------- the conditions


TASKS: Mapping[str, Task] = {
    "persona": Task(
        noun="persona",
        template="persona-v1",
        read=profile,
        again="Write one paragraph of at most 100 words about this person, and nothing else.",
        question=False,
    ),
    "planner": Task(
        noun="plan",
        template="planner-v1",
        read=aspects,
        again='Write the aspects, each on one line that begins with "- ", and nothing else.',
        question=True,
        lead="Probably wants from the answer: ",
        stand_in="- A short answer",
    ),
}
"""What is written, by the kind of condition."""

_POSTS = 10
_OWN, _SWAPPED = "own", "swapped"


@dataclass(frozen=True)
class Notes:
    """What a chat model writes about the user from at most K posts, and the first `beside` of these posts.

    `source` says whose posts they are and ranks them. Nothing else of an item reaches the writer but, for a plan, the
    prompt.
    """

    spec: str
    source: OwnPosts | Swapped
    writer: Writer
    beside: int = 0

    @property
    def reveals(self) -> frozenset[Reveals]:
        """What the notes are made of."""
        return self.source.reveals

    @property
    def identity(self) -> Mapping[str, str]:
        """What must not change while a run is resumed."""
        return {**self.source.identity, **self.writer.role.identity, **self.writer.role.drawing}

    @property
    def tally(self) -> Tally:
        """What was asked so far."""
        return self.writer.role.tally

    def unsupported(self, benchmark: Benchmark) -> str | None:
        """Return why not: no posts to write from, or no other user to swap with."""
        return self.source.unsupported(benchmark)

    def prepared(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Prepared]:
        """Yield one Prepared per item, with the notes, or with the failure that kept them from being had."""
        return map(self._prepared, self.writer.write(self.source.queries(benchmark, items)))

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        """Yield one Query per item; a ServiceError names the first for which the notes could not be had."""
        for one in self.prepared(benchmark, items):
            if one.failure is not None:
                raise ServiceError(f"{self.spec}: item {one.query.id!r}: {one.failure.kind}, {one.failure.detail}")
            yield one.query

    def _prepared(self, written: Written) -> Prepared:
        shown, notes, exchanges = written
        if isinstance(notes, Failure):
            return Prepared(_with(shown, 0), notes, exchanges)
        return Prepared(replace(_with(shown, self.beside), notes=notes), exchanges=exchanges)


def _with(query: Query, posts: int) -> Query:
    """Return the query with so many of its posts."""
    return query if query.user is None else replace(query, user=replace(query.user, posts=query.user.posts[:posts]))


# ---------------------------------------------------------------- from a spec to a condition


def open_notes(
    spec: Spec | str, *, chat: ChatModel | None = None, cache: Path | None = None, settings: Settings | None = None
) -> Notes:
    """Return the condition; `chat` stands in for the server that the spec names, `settings` say how one is used.

    `cache` is the folder of embeddings and, without settings, of replies.
    """
    if isinstance(spec, str):
        spec = parse(spec, dict.fromkeys(TASKS, FORM), noun="condition")
    task, posts = TASKS[spec.kind], spec.integer("k", _POSTS, least=1)
    source, beside = _source(spec, posts, cache), spec.integer("posts", 0)
    if beside > posts:
        raise SpecError(f"{spec.kind}: posts is {beside}; wanted at most k={posts}, the posts that the notes are from")
    template = load_template(spec.options.get("template", task.template))
    template.require_posts(question=task.question)
    settings = settings or Settings(cache=cache or default_cache())
    private = f"a {task.noun} is written from what users wrote"
    role = open_role(spec, template, chat=chat, settings=settings, private=private)
    return Notes(_canonical(spec, source, beside), source, Writer(task, role), beside)


def _source(spec: Spec, posts: int, cache: Path | None) -> OwnPosts | Swapped:
    of = spec.options.get("of", _OWN)
    if of not in (_OWN, _SWAPPED):
        raise SpecError(f"{spec.kind}: of is {of!r}.{did_you_mean(of, (_OWN, _SWAPPED))}")
    warm = spec.options.get("temperature", "0") != "0"
    if of == _SWAPPED:
        ranking, by_prompt = parse_lending(spec, drawn=warm)
        return Swapped(posts, ranking, 0 if by_prompt else seed(spec), cache, by_prompt)
    drawn = warm or spec.options.get("by") == "random"
    if "seed" in spec.options and not drawn:
        raise SpecError(f"{spec.kind}: seed= has a meaning only with by=random, of=swapped or a temperature")
    return OwnPosts(posts, parse_ranking(spec, seeded=drawn), cache)


def _canonical(spec: Spec, source: OwnPosts | Swapped, beside: int) -> str:
    """Return the one spelling: K is always said, and beside it what is not the default."""
    given = {key: spec.options[key] for key in KEYS if key in spec.options and key != "seed"}
    chosen = {
        "of": _SWAPPED if isinstance(source, Swapped) else "",
        "posts": str(beside) if beside else "",
        "seed": str(seed(spec)) if seed(spec) else "",
    }
    stated = {key: value for key, value in chosen.items() if value}
    by_prompt = isinstance(source, Swapped) and source.by_prompt
    ranked = lending_options(source.ranking, by_prompt=by_prompt)
    return str(Spec(spec.kind, spec.target, {**given, **ranked, **stated, "k": str(source.posts)}))
