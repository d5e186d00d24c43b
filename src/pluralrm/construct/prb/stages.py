"""The pipeline of `construct prb`: users, posts, aspects, answers and their gates, in order."""

from collections.abc import Iterator
from functools import partial

from pluralrm.audit.near import THRESHOLD
from pluralrm.construct.pipeline import Pipeline, Sieve, Stage
from pluralrm.construct.prb import gates, judges, questions
from pluralrm.construct.prb.answers import MOST_PARTS, answer, aspects, parts
from pluralrm.construct.prb.judges import JudgeTemplates
from pluralrm.construct.prb.products import (
    CHOSEN,
    NAME,
    SIDES,
    AnswerSide,
    Balanced,
    Chosen,
    DistinctQuestion,
    PersonalQuestion,
    QuestionParts,
    QuestionRubric,
    Rules,
    Shown,
    Unrepeated,
)
from pluralrm.retrieval import Ranker
from pluralrm.templates import Template, load_template


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
            questions.distinct,
            (PersonalQuestion,),
            "a user without posts, a user who came before (by id, or by half of their posts), and a question that "
            "nearly repeats one before it",
            {"overlap": questions.OVERLAP, "fewest_words": questions.FEWEST, "near_duplicate": THRESHOLD},
        )

    def _posts(self) -> Sieve:
        return Sieve(
            "posts",
            Shown,
            lambda records: list(questions.shown(records, self._ranker, most=self._rules.posts)),
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
                "least_aspects": judges.LEAST,
                "most_aspects": judges.MOST,
                "title_words": judges.TITLE,
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
