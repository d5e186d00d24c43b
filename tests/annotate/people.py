"""Judgments written by hand: what each annotator says toward the labelled answer, on screens as the plan has them."""

from collections.abc import Callable, Mapping

from pluralrm.annotate.judgments import Choice, FitScores, GeneralScores, Judgment, PairAnswers
from pluralrm.annotate.plan import AnnotationPlan, Screen

Says = Callable[[Screen], Mapping[str, int | None]]
"""From -2 to 2 toward the labelled answer in each question; 0 where none is named, None for "cannot tell"."""
_CHOICES: dict[int | None, Choice] = {
    2: "a",
    1: "slightly_a",
    0: "equal",
    -1: "slightly_b",
    -2: "b",
    None: "cannot_tell",
}


def judged(
    plan: AnnotationPlan,
    says: Says,
    *,
    preferred: tuple[int | None, ...] = (4,) * 4,
    other: tuple[int | None, ...] = (4,) * 4,
) -> list[Judgment]:
    """Return one judgment of every screen; both answers have their scores everywhere, and all checks are passed."""
    kind = FitScores if plan.declared.rating_margin is not None else GeneralScores
    given = kind(*preferred), kind(*other)
    return [
        _judgment(plan, screen, {"overall": 2} if screen.kind == "check" else says(screen), given)
        for screen in plan.screens
    ]


def _judgment(
    plan: AnnotationPlan, screen: Screen, says: Mapping[str, int | None], given: tuple[GeneralScores, GeneralScores]
) -> Judgment:
    first = screen.order[0] == plan.item[screen.item].preferred
    scores_a, scores_b = given if first else given[::-1]

    def choice(question: str) -> Choice:
        side = says.get(question, 0)
        return _CHOICES[side if side is None or first else -side]

    answers = PairAnswers(
        overall=choice("overall"),
        factuality=choice("factuality"),
        relevance=choice("relevance"),
        helpfulness=choice("helpfulness"),
        personal_fit=choice("personal_fit"),
        scores_a=scores_a,
        scores_b=scores_b,
    )
    return Judgment(screen.annotator, screen.handle, 1, answers, 30.0, "2026-01-01T00:00:00+00:00")
