"""The plots of a claim: win rates beside the margin, mean scores beside the floor, what moves the overall choice."""

from pluralrm.annotate.claim_result import Claimed, InArm
from pluralrm.annotate.claim_words import named
from pluralrm.annotate.design import GENERAL
from pluralrm.core import Estimate
from pluralrm.draw import Dot, Panel, Plot, Series, interval_plot


def figures(found: Claimed) -> list[Plot]:
    """Return the plots of the claim, one panel per arm in each."""
    weighed = [arm for arm in found.arms if arm.weights]
    rated = [_ratings(found)] if found.first.ratings else []
    return [_wins(found), _scores(found), *rated, *([_weights(weighed)] if weighed else [])]


def _wins(found: Claimed) -> Plot:
    level = 100 * (1 - 2 * found.claim.alpha)
    tests = {arm.arm: dict(arm.equal) for arm in found.arms}
    names = [named(win.question) for win in found.first.wins]
    zone = Dot(50, 100 * (0.5 - found.claim.margin), 100 * (0.5 + found.claim.margin))
    panels = [
        Panel(
            arm.arm,
            [
                Series("counts as equal", [zone if name in GENERAL else None for name in names], "none"),
                Series(
                    "labelled answer preferred",
                    [
                        _dot(tests[arm.arm][win.question].estimate if win.question in GENERAL else win.rate, 100)
                        for win in arm.wins
                    ],
                ),
            ],
            50,
        )
        for arm in found.arms
    ]
    return interval_plot(
        "wins",
        names,
        panels,
        title="How often the labelled answer is preferred",
        words=f"Win rates; {level:g}% intervals where equality is tested, 95% elsewhere. Shown equal where the "
        "interval lies inside what counts as equal.",
        x_label="per cent, ties count half",
    )


def _scores(found: Claimed) -> Plot:
    def series(arm: InArm, answer: str) -> list[Dot | None]:
        return [_dot(floor.test.estimate, 1) for floor in arm.floors if floor.answer == answer]

    panels = [
        Panel(
            arm.arm,
            [
                Series("labelled answer", series(arm, "preferred")),
                Series("other answer", series(arm, "other"), "second"),
            ],
            found.claim.floor,
        )
        for arm in found.arms
    ]
    return interval_plot(
        "scores",
        list(GENERAL),
        panels,
        title="How good both answers are by themselves",
        words=f"Mean scores from 1 to 5 with {100 * (1 - 2 * found.claim.alpha):g}% intervals; the line is the floor.",
        x_label="mean score",
    )


def _ratings(found: Claimed) -> Plot:
    level, margin = 100 * (1 - 2 * found.claim.alpha), found.declared.rating_margin or 0.0
    names = [named(rating.dimension) for rating in found.first.ratings]
    zone = Dot(0, -margin, margin)
    panels = [
        Panel(
            arm.arm,
            [
                Series("counts as equal", [zone if name in GENERAL else None for name in names], "none"),
                Series("labelled minus other", [_dot(rating.difference.estimate, 1) for rating in arm.ratings]),
            ],
            0,
        )
        for arm in found.arms
    ]
    return interval_plot(
        "ratings",
        names,
        panels,
        title="How far the ratings of the two answers are apart",
        words=f"Mean difference of ratings from 1 to 5, labelled minus other answer, with {level:g}% intervals. Shown "
        "equal where the interval lies inside what counts as equal.",
        x_label="points",
    )


def _weights(arms: list[InArm]) -> Plot:
    names = [named(weight.name) for weight in arms[0].weights]
    panels = [
        Panel(arm.arm, [Series("log odds per step", [_dot(weight.log_odds, 1) for weight in arm.weights])], 0)
        for arm in arms
    ]
    return interval_plot(
        "weights",
        names,
        panels,
        title="What goes with the overall choice",
        words="Logistic regression of the overall choice, with 95% intervals robust to items and annotators.",
        x_label="log odds per step of the scale",
    )


def _dot(found: Estimate, times: float) -> Dot:
    low, high = (None if end is None else times * end for end in (found.low, found.high))
    return Dot(times * found.value, low, high)
