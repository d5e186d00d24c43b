"""Queries of every awkward shape for neural models, and how their verdicts are compared with plain numbers."""

import random
from collections.abc import Callable, Sequence

from pluralrm.core import Failure, Post, Query, UserView, Verdict
from tests.builders import WORDS

TOLERANCE = 1e-4
APART = 2e-4
"""Candidates whose plain scores differ by more than this keep their order."""

_WORDS = (*WORDS, "\n\n", "-", "1.", "(a)", "naïve", "日本")


def text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(_WORDS) for _ in range(words))


def queries(count: int, *, seed: int = 0, longest: int = 30) -> list[Query]:
    """Return queries with none to three posts and one to four answers that are not empty."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        posts = tuple(Post(f"p{n}", text(draw, draw.randint(1, 40)), "baking") for n in range(draw.randint(0, 3)))
        user = UserView(f"u{number}", posts) if draw.random() < 0.8 else None
        answers = tuple(f"Use {text(draw, draw.randint(1, longest))}." for _ in range(draw.randint(1, 4)))
        made.append(Query(f"q{number}", text(draw, draw.randint(1, 20)) + "?", answers, user))
    return made


AWKWARD = (
    Query("newline", "Which flour?", ("\nRye.", "\n\nRye.", "\n\n\nRye.", " Rye.", "Rye.\n", "Rye.")),
    Query("same", "Which flour?", ("Rye.", "Rye.", "Rye.")),
    Query("prefixes", "Which flour?", ("Rye", "Rye, or", "Rye, or spelt", "Rye, or spelt.", "R")),
    Query("alone", "Which flour?", ("Rye.",)),
    Query("braces", "{{ query }} {x}?", ("{% raw %}", "{{ answers[0] }}"), UserView("u", (Post("p", "{# no #}"),))),
)


def agree(verdicts: Sequence[Verdict], asked: Sequence[Query], plain: Callable[[Query, str], float]) -> None:
    """Assert that each score is the plain number, and that no order is turned."""
    assert len(verdicts) == len(asked)
    for query, verdict in zip(asked, verdicts, strict=True):
        wanted = [plain(query, answer) for answer in query.candidates]
        for answer, score, number in zip(query.candidates, verdict.scores, wanted, strict=True):
            assert not isinstance(score, Failure), (query.id, answer, score)
            assert abs(score - number) <= TOLERANCE, (query.id, answer, score, number)
        for one, a in zip(verdict.scores, wanted, strict=True):
            for other, b in zip(verdict.scores, wanted, strict=True):
                assert a - b <= APART or one > other, (query.id, "order turned")  # type: ignore[operator]


def close(some: Sequence[Verdict], others: Sequence[Verdict]) -> None:
    """Assert that two ways of asking say the same, failures included."""
    for one, other in zip(some, others, strict=True):
        assert one.posts_kept == other.posts_kept
        for a, b in zip(one.scores, other.scores, strict=True):
            if isinstance(a, Failure) or isinstance(b, Failure):
                assert a == b
            else:
                assert abs(a - b) <= TOLERANCE
