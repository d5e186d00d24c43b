"""Pairs of answers to personal questions: one that gives the user what they expect, one that does not, else equal.

>>> from pluralrm.benchmarks import load_benchmark
>>> from pluralrm.construct.prb import Rules, prb_pipeline, records_of
>>> [stage.name for stage in prb_pipeline(Rules(rejected="contrary")).stages]
['users', 'posts', 'aspects', 'parts', 'chosen', 'contrary', 'duplicates', 'balance']
>>> len(records_of(load_benchmark("pocket-prb")))
60

docs/construct-prb.md is the how-to, docs/design/construct.md says why each gate is as it is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pluralrm.audit.near import THRESHOLD, near_duplicates, normalised
from pluralrm.benchmarks.lamp_qa import DOMAINS, AspectRow, PostRow
from pluralrm.construct.pipeline import Pipeline, Role, Sieve, Stage
from pluralrm.construct.pipeline.stages import Acceptance, Decision, Record, Rejection
from pluralrm.construct.prb import answers, gates
from pluralrm.construct.prb.answers import JUDGE, MOST_PARTS, PLANNER, WRITER, JudgeTemplates, answer, aspects, parts
from pluralrm.construct.prb.products import (
    CHOSEN,
    NAME,
    SIDES,
    AnswerSide,
    Balanced,
    Chosen,
    DistinctQuestion,
    Kind,
    PersonalQuestion,
    QuestionParts,
    QuestionRubric,
    RejectedKinds,
    Rules,
    Shown,
    Unrepeated,
)
from pluralrm.core import Benchmark, Item, Post, User
from pluralrm.digests import digest
from pluralrm.errors import BenchmarkError
from pluralrm.retrieval import Ranker, Request
from pluralrm.templates import Template, load_template

__all__ = ["NAME", "Kind", "PersonalQuestion", "RejectedKinds", "Rules", "prb_pipeline", "records_of", "roles"]

_TOKENS: Mapping[str, int] = {WRITER: 2048, PLANNER: 4096, JUDGE: 2048}
"""The longest reply of each role, reasoning included."""


def roles(writers: Sequence[str], judges: Sequence[str], planners: Sequence[str] = ()) -> list[Role]:
    """Return the roles of a build; where no planner is named, the writers plan."""
    specs = {WRITER: writers, JUDGE: judges, PLANNER: planners or writers}
    return [Role(name, tuple(models), _TOKENS[name]) for name, models in specs.items()]


OVERLAP = 0.5
"""The share of the posts of the one who wrote less from which two users are one."""
FEWEST = 5
"""Words below which a post shows nothing of who wrote it: "Thank you all!"."""


def records_of(bench: Benchmark) -> list[Record]:
    """Return a record per item; one without a user has no posts, and the first stage says so."""
    records = [_record(item, item.user or User(item.id)) for item in bench.items]
    if not any(record[PersonalQuestion].posts for record in records):
        raise BenchmarkError(
            f"{bench.card.name}: found no question with posts of who asks it, wanted rows with question and profile "
            "(the page 'Construct pairs for your own users' of the documentation shows one)"
        )
    return records


def _record(item: Item, user: User) -> Record:
    oracle, category = item.oracle, item.tags.get("category", "")
    aspects = oracle.aspects if oracle else ()
    source = PersonalQuestion(
        user=user.id,
        question=item.prompt,
        # A row of another domain than the three is loaded back as of the domain that its category says.
        category=category if item.domain in DOMAINS else item.domain,
        narrative=oracle.narrative if oracle else "",
        posts=tuple(PostRow(id=post.id, category=post.category, text=post.text) for post in user.posts),
        aspects=tuple(
            AspectRow(aspect=aspect.aspect, evidence=aspect.evidence, reason=aspect.reason) for aspect in aspects
        ),
    )
    return Record(item.id, item.domain, source)


# ---------------------------------------------------------------- who and what came twice


def distinct(records: Sequence[Record]) -> list[Decision]:
    """Return for each record whether its user and its question are new; of two alike the smaller id stays."""
    seen, questions = _Users(), _alike_before([record[PersonalQuestion].question for record in records])
    accepted: set[int] = set()
    decided: list[Decision] = []
    for index, record in enumerate(records):
        texts = {text for text in (normalised(post.text) for post in record[PersonalQuestion].posts) if text}
        twin = seen.twin(record[PersonalQuestion].user, texts)
        like = next((other for other in questions[index] if other in accepted), None)
        if not record[PersonalQuestion].posts:
            decided.append(Rejection("no_posts", "the user has written nothing"))
        elif twin:
            decided.append(Rejection("duplicate_user", f"the user or their posts are those of record {twin!r}"))
        elif like is not None:
            decided.append(Rejection("duplicate_question", f"nearly the question of record {records[like].id!r}"))
        else:
            accepted.add(index)
            seen.add(record, texts)
            decided.append(Acceptance(DistinctQuestion(posts_hash=digest(sorted(texts)))))
    return decided


class _Users:
    """The users so far, found by id and by what they wrote."""

    def __init__(self) -> None:
        self._by_user: dict[str, str] = {}
        self._by_post: dict[str, list[str]] = defaultdict(list)
        self._written: dict[str, int] = {}

    def twin(self, user: str, texts: set[str]) -> str:
        """Return the record of the same user or of one with the same posts, '' where there is none."""
        if user in self._by_user:
            return self._by_user[user]
        telling = _telling(texts)
        shared = Counter(record for text in telling for record in self._by_post[text])
        same = [
            record for record, count in shared.items() if count >= OVERLAP * min(len(telling), self._written[record])
        ]
        return min(same, default="")

    def add(self, record: Record, texts: set[str]) -> None:
        self._by_user[record[PersonalQuestion].user] = record.id
        telling = _telling(texts)
        self._written[record.id] = len(telling)
        for text in telling:
            self._by_post[text].append(record.id)


def _telling(texts: set[str]) -> set[str]:
    """Return the posts that show who wrote them; all of them where none does."""
    return {text for text in texts if text.count(" ") + 1 >= FEWEST} or texts


def _alike_before(texts: Sequence[str]) -> list[list[int]]:
    """Return for each text the places before it whose text is nearly the same."""
    before: list[list[int]] = [[] for _ in texts]
    first: dict[str, int] = {}
    for index, text in enumerate(map(normalised, texts)):
        if text in first:
            before[index].append(first[text])
        first.setdefault(text, index)
    near = near_duplicates(list(texts))
    for left, other in zip(near.first.tolist(), near.second.tolist(), strict=True):
        before[max(left, other)].append(min(left, other))
    return [sorted(set(places)) for places in before]


# ---------------------------------------------------------------- which posts are shown


def shown(records: Sequence[Record], ranker: Ranker, *, most: int) -> Iterator[Decision]:
    """Yield the posts of each record that say most about its question, best first."""
    requests = [Request(record.id, record[PersonalQuestion].question, _posts(record)) for record in records]
    for ranked in ranker.rank(requests, k=most):
        rows = tuple(PostRow(id=post.id, category=post.category, text=post.text) for post in ranked)
        yield Acceptance(Shown(posts=rows))


def _posts(record: Record) -> list[Post]:
    return [Post(post.id, post.text, post.category) for post in record[PersonalQuestion].posts]


def prb_pipeline(rules: Rules, *, ranker: Ranker | None = None) -> Pipeline:
    """Return the stages that make a set by these rules; `ranker` stands in for the one that the rules name."""
    stages = _Stages(rules, ranker or Ranker(rules.ranking))
    return Pipeline(NAME, PersonalQuestion, tuple(stages.all()))


class _Stages:
    """The stages of a set by some rules."""

    def __init__(self, rules: Rules, ranker: Ranker) -> None:
        self._rules, self._ranker = rules, ranker
        self._covered = "contrary" in rules.kinds
        self._write = load_template("build-answer-v1")
        self._judges = JudgeTemplates(
            adherence=load_template("grade-aspect-v1"),
            quality=load_template("build-quality-v1"),
            coverage=load_template("grade-joint-v1"),
            opposite=load_template("build-opposite-v1"),
        )

    def all(self) -> Iterator[Stage | Sieve]:
        yield self._users()
        yield self._posts()
        yield self._aspects()
        if self._covered:
            yield self._parts()
        yield self._side("chosen", CHOSEN)
        for kind in self._rules.kinds:
            yield self._side(kind, SIDES[kind])
        yield self._duplicates()
        yield self._balance()

    def _users(self) -> Sieve:
        return Sieve(
            "users",
            DistinctQuestion,
            distinct,
            (PersonalQuestion,),
            "a user without posts, a user who came before (by id, or by half of their posts), and a question that "
            "nearly repeats one before it",
            {"overlap": OVERLAP, "fewest_words": FEWEST, "near_duplicate": THRESHOLD},
        )

    def _posts(self) -> Sieve:
        return Sieve(
            "posts",
            Shown,
            lambda records: list(shown(records, self._ranker, most=self._rules.posts)),
            (PersonalQuestion, DistinctQuestion),
            settings={"posts": self._rules.posts, "by": "bm25", **self._rules.ranking.options, **self._ranker.identity},
        )

    def _aspects(self) -> Stage:
        template = load_template("build-aspects-v1")
        return Stage(
            "aspects",
            QuestionRubric,
            partial(aspects, template=template, attempts=self._rules.attempts),
            (PersonalQuestion, Shown),
            "an aspect that a planner found whose evidence is no passage of the posts or the narrative",
            (template,),
            settings={
                **self._rules.settings("attempts"),
                "quoted_words": gates.QUOTED,
                "least_aspects": answers.LEAST,
                "most_aspects": answers.MOST,
                "title_words": answers.TITLE,
                "letters_of_a_word": gates.LETTERS,
            },
        )

    def _parts(self) -> Stage:
        template = load_template("build-parts-v1")
        return Stage(
            "parts",
            QuestionParts,
            partial(parts, template=template),
            (PersonalQuestion,),
            "a question whose parts the planner does not name in a list",
            (template,),
            settings={"most_parts": MOST_PARTS},
        )

    def _side(self, name: str, side: AnswerSide) -> Stage:
        beside = () if side.makes is Chosen else (Chosen,)
        own = {"meet": ("high",), "avoid": ("low", "band"), "contrary": ("low", "band", "opposite", "coverage")}
        return Stage(
            name,
            side.makes,
            partial(answer, side=side, rules=self._rules, template=self._write, judges=self._judges),
            (PersonalQuestion, Shown, QuestionRubric, *((QuestionParts,) if self._covered else ()), *beside),
            _GATES[side.task],
            self._templates(),
            settings={
                **self._rules.settings("attempts", "most_words", "floor", "margin", *own[side.task]),
                "letters_of_a_word": gates.LETTERS,
                **({"near_duplicate": THRESHOLD} if beside else {}),
                "wording_words": gates.OWN,
                "wording_part": round(gates.PART, 3),
                "wording_run": gates.RUN,
            },
        )

    def _templates(self) -> tuple[Template, ...]:
        always = (self._write, self._judges.adherence, self._judges.quality)
        return (*always, self._judges.coverage, self._judges.opposite) if self._covered else always

    def _duplicates(self) -> Sieve:
        return Sieve(
            "duplicates",
            Unrepeated,
            lambda records: gates.unrepeated(records, self._rules.kinds),
            self._answers(),
            "a record with an answer that nearly repeats one of a record before it",
            {"near_duplicate": THRESHOLD},
        )

    def _balance(self) -> Sieve:
        return Sieve(
            "balance",
            Balanced,
            lambda records: gates.balanced(records, self._rules.kinds),
            self._answers(),
            "the surplus of records in which the chosen answer is the longer, or the shorter, one, where an exact "
            "binomial test excludes that this is chance",
            {"error_rate": gates.ERROR_RATE},
        )

    def _answers(self) -> tuple[type[Chosen] | type, ...]:
        return (Chosen, *(SIDES[kind].makes for kind in self._rules.kinds))


_COMMON = (
    "an answer in another form than asked for, one that repeats the wording of an aspect, one below the floor of "
    "quality, and one whose judge cannot be read"
)
_BESIDE = "one of another length than the chosen one's, one that nearly repeats it, one of unequal quality"
_GATES = {
    "meet": f"{_COMMON}; one that gives too little of what the user expects",
    "avoid": f"{_COMMON}; {_BESIDE}, and one that gives too much of what the user expects",
    "contrary": f"{_COMMON}; {_BESIDE}, one that gives too much of what the user expects, one that does not plainly go "
    "the opposite way, and one that covers other parts of the question",
}
