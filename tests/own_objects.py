"""Objects of a user's own, as `python:tests.own_objects:NAME` names them: sound ones, and one for each slip."""

# ruff: noqa: ARG002 - objects take what their protocols hand them

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pluralrm.card import Card
from pluralrm.core import Benchmark, ContextPair, Failure, Item, Oracle, Post, Query, UserView, Verdict
from pluralrm.grading import Graded
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer
from tests.builders import bakery, card

# ---------------------------------------------------------------- benchmarks


def bench(items: str = "12", width: str = "2") -> Benchmark:
    return bakery(int(items), width=int(width), name="my-bakery")


def seeded(seed: int, items: str = "12") -> Benchmark:
    made = bakery(int(items), name="my-seeded")
    turned = [
        replace(item, candidates=item.candidates[::-1], candidate_ids=item.candidate_ids[::-1], preferred=_other(item))
        if (seed + place) % 2
        else item
        for place, item in enumerate(made.items)
    ]
    return Benchmark(made.card, tuple(turned), content_hash="what the object says of itself")


def _other(item: Item) -> int:
    assert item.preferred is not None
    return 1 - item.preferred


def a_list() -> list[Item]:
    return list(bakery(2).items)


def list_items() -> Benchmark:
    made = bakery(2)
    return Benchmark(made.card, list(made.items), content_hash="x")  # type: ignore[arg-type]


def dict_card() -> Benchmark:
    return Benchmark({"name": "mine"}, bakery(2).items)  # type: ignore[arg-type]


def number_prompt() -> Benchmark:
    made = bakery(2)
    return Benchmark(made.card, (replace(made.items[0], prompt=3), made.items[1]))  # type: ignore[arg-type]


def twice() -> Benchmark:
    item = bakery(1).items[0]
    return Benchmark(Card("", "s", "l", "s", "l"), (item, replace(item, candidates=("a", "a"), preferred=5)))


def nothing() -> Benchmark:
    return Benchmark(card(), ())


def raising() -> Benchmark:
    raise ValueError("the disk is elsewhere")


# ---------------------------------------------------------------- conditions


class Last:
    """The user's last K posts: the end of what `recent:K` shows the beginning of."""

    reveals = frozenset({"posts"})

    def __init__(self, k: str = "2") -> None:
        self.k = int(k)

    def unsupported(self, benchmark: Benchmark) -> str | None:
        return None if benchmark.has_posts else "has no posts"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        for item in items:
            assert item.user is not None
            view = UserView(item.user.id, item.user.posts[-self.k :])
            yield Query(item.id, item.prompt, item.candidates, view)


class Borrowed(Last):
    """The last posts of the next item's user."""

    reveals = frozenset({"other_posts"})
    role = "swapped"

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        order = list(benchmark.items)
        place = {item.id: number for number, item in enumerate(order)}
        lenders = [order[(place[item.id] + 1) % len(order)] for item in items]
        for item, query in zip(items, super().queries(benchmark, lenders), strict=True):
            yield replace(query, id=item.id, prompt=item.prompt, candidates=item.candidates)


class Lent(Last):
    """The user's own last posts; its control is a condition of one's own too."""

    role, control = "own", "python:tests.own_objects:Borrowed"


class Confused(Last):
    role = "swapped"


class Unheard(Last):
    role = "swaped"


class Undeclared(Last):
    reveals = frozenset()


class Silent:
    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        return iter(())


class Misspelled(Last):
    reveals = frozenset({"post"})


class Slipping(Last):
    """A condition with one slip at the second item: `how` names it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        for place, query in enumerate(super().queries(benchmark, items)):
            yield self.slip(query, items[place]) if place == 1 else query

    def slip(self, query: Query, item: Item) -> Query:
        assert query.user is not None
        assert item.oracle is not None
        pair = ContextPair("p", item.prompt, item.candidates[0], "something else")
        foreign = ContextPair("q", "What of rye?", "Yes.", "No.")
        if self.how == "raise":
            raise KeyError("no such user")
        slips: dict[str, Query] = {
            "prompt": replace(query, prompt="What else?"),
            "candidates": replace(query, candidates=query.candidates[::-1]),
            "id": replace(query, id="another"),
            "other": replace(query, user=replace(query.user, posts=(Post("x", "I am somebody else."),))),
            "oracle": replace(query, reveals_oracle=True),
            "rubric": replace(query, notes=(f"They look for this: {item.oracle.aspects[0].aspect}",)),
            "pair": replace(query, user=replace(query.user, pairs=(foreign,))),
            "label": replace(query, user=replace(query.user, pairs=(pair,))),
            "word": "a text",  # type: ignore[dict-item]
        }
        return slips[self.how]


class Few(Last):
    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        return super().queries(benchmark, items[:-1])


class Upper(Last):
    reveals = frozenset({"oracle"})

    def queries(self, benchmark: Benchmark, items: Sequence[Item]) -> Iterator[Query]:
        for item in items:
            oracle = item.oracle or Oracle()
            yield Query(item.id, item.prompt, item.candidates, notes=tuple(one.aspect for one in oracle.aspects))


# ---------------------------------------------------------------- policies and graders


class Echo:
    """A policy that gives back the prompt, and as many words of its own as the seed says."""

    identity = {"words": "3"}  # noqa: RUF012

    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
        return (PolicyAnswer(f"{ask.query.prompt} {'word ' * (ask.seed % 3)}".strip(), "stop") for ask in asks)


class Plain:
    def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[str]:
        return ("a text" for _ in asks)


class Short:
    """A grader that likes short answers."""

    model = "short-lover"

    def __init__(self, at: str = "100") -> None:
        self.at = int(at)

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        return (Graded(item.id, text, max(0.0, 1 - len(text) / self.at)) for item, text in answers)


class Generous(Short):
    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        return (replace(one, grade=7.0) for one in super().grade(answers))


class Shuffled(Short):
    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        return iter(list(super().grade(answers))[::-1])


class Curt:
    """A reward model that likes short answers, and does not say whether it compares them."""

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict(tuple(1 / (1 + len(text)) for text in query.candidates)) for query in queries)


class Brief(Curt):
    """The same, and it says that it scores each answer by itself."""

    compares = False


a_number = 3
