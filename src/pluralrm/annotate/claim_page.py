"""claim.html: one page that opens anywhere, asks for nothing and runs nothing, and its plots; ready for an appendix."""

from pathlib import Path

from pluralrm._version import __version__
from pluralrm.annotate import claim_result
from pluralrm.annotate.claim_result import ArmResult, ClaimResult, named
from pluralrm.annotate.plan import GENERAL
from pluralrm.pages import Figure, PageTable, TableColumn, chip, columns, render
from pluralrm.pages.plots import Dot, Plot, PlotPanel, Series, dot_of, interval_plot, write_plots
from pluralrm.text import capital, estimated, p_value


def figures(result: ClaimResult) -> list[Plot]:
    """Return the plots of the claim, one panel per arm in each."""
    weighed = [arm for arm in result.arms if arm.weights]
    rated = [_ratings(result)] if result.first.ratings else []
    return [_wins(result), _scores(result), *rated, *([_weights(weighed)] if weighed else [])]


def _wins(result: ClaimResult) -> Plot:
    level = 100 * (1 - 2 * result.claim.alpha)
    tests = {arm.arm: dict(arm.equal) for arm in result.arms}
    names = [named(win.question) for win in result.first.wins]
    zone = Dot(50, 100 * (0.5 - result.claim.margin), 100 * (0.5 + result.claim.margin))
    panels = [
        PlotPanel(
            arm.arm,
            [
                Series("counts as equal", [zone if name in GENERAL else None for name in names], "none"),
                Series(
                    "labelled answer preferred",
                    [
                        dot_of(tests[arm.arm][win.question].estimate if win.question in GENERAL else win.rate, 100)
                        for win in arm.wins
                    ],
                ),
            ],
            50,
        )
        for arm in result.arms
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


def _scores(result: ClaimResult) -> Plot:
    def series(arm: ArmResult, answer: str) -> list[Dot | None]:
        return [dot_of(floor.test.estimate, 1) for floor in arm.floors if floor.answer == answer]

    panels = [
        PlotPanel(
            arm.arm,
            [
                Series("labelled answer", series(arm, "preferred")),
                Series("other answer", series(arm, "other"), "second"),
            ],
            result.claim.floor,
        )
        for arm in result.arms
    ]
    return interval_plot(
        "scores",
        list(GENERAL),
        panels,
        title="How good both answers are by themselves",
        words=f"Mean scores from 1 to 5 with {100 * (1 - 2 * result.claim.alpha):g}% intervals; the line is the floor.",
        x_label="mean score",
    )


def _ratings(result: ClaimResult) -> Plot:
    level, margin = 100 * (1 - 2 * result.claim.alpha), result.declared.rating_margin or 0.0
    names = [named(rating.dimension) for rating in result.first.ratings]
    zone = Dot(0, -margin, margin)
    panels = [
        PlotPanel(
            arm.arm,
            [
                Series("counts as equal", [zone if name in GENERAL else None for name in names], "none"),
                Series("labelled minus other", [dot_of(rating.difference.estimate, 1) for rating in arm.ratings]),
            ],
            0,
        )
        for arm in result.arms
    ]
    return interval_plot(
        "ratings",
        names,
        panels,
        title="Difference of the ratings of the two answers",
        words=f"Mean difference of ratings from 1 to 5, labelled minus other answer, with {level:g}% intervals. Shown "
        "equal where the interval lies inside what counts as equal.",
        x_label="points",
    )


def _weights(arms: list[ArmResult]) -> Plot:
    names = [named(weight.name) for weight in arms[0].weights]
    panels = [
        PlotPanel(arm.arm, [Series("log odds per step", [dot_of(weight.log_odds, 1) for weight in arm.weights])], 0)
        for arm in arms
    ]
    return interval_plot(
        "weights",
        names,
        panels,
        title="What predicts the overall choice",
        words="Logistic regression of the overall choice, with 95% intervals robust to items and annotators.",
        x_label="log odds per step of the scale",
    )


def claim_page(result: ClaimResult) -> str:
    """Return the page: the verdict, plots, and every number with its interval and method."""
    first = result.first
    look = "good" * first.holds or "alert" * bool(first.contrary)
    return render(
        "pluralrm.annotate",
        "claim.html.jinja",
        title=f"Is personal fit what separates the pairs of {result.benchmark}?",
        found=result,
        look=look if first.final else "",
        drawn=[Figure(plot, f"{plot.title}. {plot.words}") for plot in figures(result)],
        arms=[(arm.arm, arm.arm, "") for arm in result.arms],
        tables=[(arm, _tests(result, arm), _rating_table(arm), _regression(arm)) for arm in result.arms],
        words=claim_result,
        capital=capital,
        version=__version__,
    ).html


_LOOKS = {"shown": "good", "refuted": "bad", "open": ""}


def _tests(result: ClaimResult, arm: ArmResult) -> PageTable:
    claim = result.claim
    return PageTable(
        f"Tests, {arm.arm}",
        [
            *columns("test", "in"),
            *columns("estimate", "p", "judgments", "cannot tell", look="n"),
            TableColumn("result"),
        ],
        [
            (
                stated.name,
                stated.unit,
                claim_result.measured(stated),
                p_value(stated.test.p),
                str(stated.test.estimate.n),
                str(stated.test.estimate.failed),
                chip(state := claim_result.state(stated.test), _LOOKS[state]),
            )
            for stated in arm.tests
        ],
        f"What the claim needs: each row is one test at alpha {claim.alpha:g}, shown where the "
        f"{100 * (1 - 2 * claim.alpha):g}% interval lies within the row’s bound. p is one-sided; of equality (±) the "
        "larger of two.",
        "sorts",
    )


def _rating_table(arm: ArmResult) -> PageTable | None:
    if not arm.ratings:
        return None
    return PageTable(
        f"Ratings, {arm.arm}",
        [TableColumn("dimension"), *columns("labelled answer [95%]", "other answer [95%]", look="n")],
        [
            (
                named(rating.dimension),
                *(estimated(estimate, times=1, places=2) for estimate in (rating.preferred, rating.other)),
            )
            for rating in arm.ratings
        ],
        "Mean ratings of each answer by itself, from 1 to 5.",
    )


def _regression(arm: ArmResult) -> PageTable | None:
    if not arm.weights:
        return None
    return PageTable(
        f"Regression, {arm.arm}",
        [TableColumn("covariate"), *columns("log odds [95%]", "p", look="n")],
        [
            (named(weight.name), estimated(weight.log_odds, times=1, places=2), p_value(weight.p))
            for weight in arm.weights
        ],
        "Logistic regression of the overall choice on the four dimensions: log odds per step of the scale; p is "
        "two-sided.",
    )


def write_figures(result: ClaimResult, folder: Path) -> list[Path]:
    """Write every plot as SVG and as PDF; return the files."""
    return write_plots({plot.name: plot for plot in figures(result)}, folder)
