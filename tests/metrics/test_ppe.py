"""The twelve metrics of PPE against a plain reading of their text: loops, all subsets, a root finder."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import root
from scipy.stats import kendalltau, pearsonr, spearmanr

from pluralrm.core import Failure, Row, Score
from pluralrm.metrics.official.ppe import (
    RESAMPLES,
    SEED,
    Choice,
    GradedAnswers,
    best_of_k,
    human_preference,
    published_answers,
    published_choices,
    strengths,
)
from tests.metrics.rows import row

NAN = math.nan


# ---------------------------------------------------------------- answers


def _questions(rng: random.Random, width: int) -> list[GradedAnswers]:
    """Ties, NaN, infinite scores, and questions with answers all right or all wrong."""
    questions = []
    for _ in range(rng.randint(1, 6)):
        scores = [rng.choice([0.0, 1.0, rng.random(), rng.choice([NAN, math.inf, -math.inf])]) for _ in range(width)]
        right = [rng.random() < rng.choice([0.0, 0.3, 0.7, 1.0]) for _ in range(width)]
        pairs = [(i, j) for i in range(width) for j in range(width) if right[i] and not right[j]]
        questions.append(GradedAnswers(scores, right, rng.sample(pairs, min(3, len(pairs)))))
    return questions


def _picked(question: GradedAnswers, subset: Sequence[int]) -> float:
    """What the best of a subset is worth: ties shared, a missing score at its worst, 0 without any score."""
    known = [place for place in subset if not math.isnan(question.scores[place])]
    if not known:
        return 0.0
    highest = max(question.scores[place] for place in known)
    top = [place for place in known if question.scores[place] == highest]
    lowest = min((float(question.right[place]) for place in subset if place not in known), default=1.0)
    return sum(min(float(question.right[place]), lowest) for place in top) / len(top)


def _plainly(questions: Sequence[GradedAnswers]) -> list[float | None]:
    width = len(questions[0].right)
    curve, losses = [], []
    for k in range(1, width + 1):
        picks, distances = [], []
        for question in questions:
            subsets = list(itertools.combinations(range(width), k))
            values = [_picked(question, subset) for subset in subsets]
            best = [float(any(question.right[place] for place in subset)) for subset in subsets]
            picks.append(sum(values) / len(values))
            distances.append(sum(b - v for b, v in zip(best, values, strict=True)) / len(values))
        curve.append(sum(picks) / len(picks))
        losses.append(sum(distances) / len(distances))
    wins = [q.scores[i] > q.scores[j] for q in questions for i, j in q.pairs]
    areas = []
    for question in questions:
        sides = [
            [s for s, r in zip(question.scores, question.right, strict=True) if r == side] for side in (True, False)
        ]
        if all(sides):
            credit = [1.0 if a > b else 0.5 if a == b else 0.0 for a in sides[0] for b in sides[1]]
            areas.append(sum(credit) / len(credit))
    return [
        sum(wins) / len(wins) if wins else None,
        sum(areas) / len(areas) if areas else None,
        max(curve),
        curve[-1],
        sum(losses) / len(losses),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_best_of_k_agrees_with_all_subsets_on_random_tables(seed: int) -> None:
    rng = random.Random(seed)
    questions = _questions(rng, rng.randint(2, 6))
    for value, expected in zip(best_of_k(questions), _plainly(questions), strict=True):
        assert value == pytest.approx(expected, abs=1e-12)


def test_best_of_k_by_hand() -> None:
    """Two of four right; the wrong ones score first and third, so more answers first help, then hurt."""
    question = GradedAnswers([0.9, 0.8, 0.7, 0.1], [False, True, False, True], [(1, 0), (3, 2)])
    values = best_of_k([question])
    # k = 1: 2/4. k = 2: of 6 pairs the top is right in {1,2}, {1,3}: 2/6. k = 3: {1,2,3}: 1/4. k = 4: wrong.
    assert values.max_score == 0.5
    assert values.end_score == 0
    # the best of k: 2/4, 5/6, 1, 1
    assert values.loss == pytest.approx((0 + 3 / 6 + 3 / 4 + 1) / 4, abs=1e-12)
    assert (values.accuracy, values.auc) == (0, 1 / 4)


def test_the_square_of_the_loss_is_the_loss() -> None:
    rng = random.Random(5)
    question = GradedAnswers([rng.random() for _ in range(5)], [True, False, True, False, False], [])
    squares = []
    for k in range(1, 6):
        subsets = list(itertools.combinations(range(5), k))
        gaps = [(any(question.right[i] for i in subset) - _picked(question, subset)) ** 2 for subset in subsets]
        squares.append(sum(gaps) / len(gaps))
    assert best_of_k([question]).loss == pytest.approx(sum(squares) / 5, abs=1e-12)


def test_questions_with_different_numbers_of_answers_have_no_curve() -> None:
    values = best_of_k(
        [GradedAnswers([1, 0], [True, False], [(0, 1)]), GradedAnswers([1, 0, 0], [True, False, False], [(0, 2)])]
    )
    assert values == (1, 1, None, None, None)


@pytest.mark.parametrize("seed", range(5))
def test_a_missing_score_never_earns_more_than_any_score_would(seed: int) -> None:
    rng = random.Random(seed)
    question = GradedAnswers([rng.random() for _ in range(6)], [rng.random() < 0.5 for _ in range(5)] + [True], [])
    pairs = [(i, j) for i in range(6) for j in range(6) if question.right[i] and not question.right[j]]
    for place in range(6):
        failed = list(question.scores)
        failed[place] = NAN
        least = best_of_k([question._replace(scores=failed, pairs=pairs)])
        for other in (-1.0, 0.5, 2.0):
            failed[place] = other
            values = best_of_k([question._replace(scores=failed, pairs=pairs)])
            assert all(a is None or b is None or a <= b + 1e-12 for a, b in zip(least[:4], values[:4], strict=True))
            assert least.loss is not None
            assert values.loss is not None
            assert least.loss >= values.loss - 1e-12


# ---------------------------------------------------------------- choices


def _choices(rng: random.Random, models: int, count: int, *, skill: float, missing: float = 0.0) -> list[Choice]:
    worth = {f"m{place}": place / models for place in range(models)}
    choices = []
    for _ in range(count):
        first, second = rng.sample(sorted(worth), 2)
        chosen, other = (first, second) if rng.random() < 0.5 + (worth[first] - worth[second]) / 2 else (second, first)
        scores = [
            skill * worth[chosen] + rng.choice([0, rng.random()]),
            skill * worth[other] + rng.choice([0, rng.random()]),
        ]
        if rng.random() < missing:
            scores[rng.randrange(2)] = NAN
        choices.append(Choice(chosen, other, scores[0], scores[1]))
    return choices


def _shares(choices: Sequence[Choice], failed: float) -> list[float]:
    return [
        failed
        if math.isnan(c.score) or math.isnan(c.against)
        else 1.0
        if c.score > c.against
        else 0.5
        if c.score == c.against
        else 0.0
        for c in choices
    ]


def _table(choices: Sequence[Choice], shares: Sequence[float], counts: Sequence[float]) -> np.ndarray:
    names = sorted({name for c in choices for name in (c.chosen, c.other)})
    table = np.zeros((len(names), len(names)))
    for choice, share, count in zip(choices, shares, counts, strict=True):
        i, j = names.index(choice.chosen), names.index(choice.other)
        table[i, j] += count * share
        table[j, i] += count * (1 - share)
    return table


def _fitted(table: np.ndarray) -> list[float]:
    """Bradley-Terry as the root of its equations, wins as expected, half a win added to either side of a pair."""
    met = (table + table.T) > 0
    wins = table + 0.5 * met

    def surplus(rest: np.ndarray) -> list[float]:
        logs = [0.0, *rest]
        return [
            math.fsum(
                wins[i, j] - (wins[i, j] + wins[j, i]) / (1 + math.exp(logs[j] - logs[i]))
                for j in range(len(logs))
                if j != i
            )
            for i in range(1, len(logs))
        ]

    logs = np.array([0.0, *root(surplus, np.zeros(len(table) - 1), tol=1e-15).x])
    return [float(each) for each in logs - logs.mean()]


@pytest.mark.parametrize("seed", range(6))
def test_strengths_are_the_root_of_their_equations(seed: int) -> None:
    rng = random.Random(seed)
    choices = _choices(rng, rng.randint(2, 6), rng.randint(12, 120), skill=1.0)
    table = _table(choices, _shares(choices, 0.0), [1.0] * len(choices))
    assert strengths(table[None])[0] == pytest.approx(_fitted(table), abs=1e-12)


def test_strengths_stay_finite_where_a_model_lost_all_or_met_nobody() -> None:
    beaten = np.array([[0.0, 500.0, 3.0], [0.0, 0.0, 0.0], [2.0, 40.0, 0.0]])
    assert strengths(beaten[None])[0] == pytest.approx(_fitted(beaten), abs=1e-12)
    apart = np.zeros((5, 5))  # two and two that never met, and one without a match
    apart[0, 1], apart[1, 0], apart[2, 3], apart[3, 2] = 9, 1, 2, 4
    first, second, third, fourth, alone = strengths(apart[None])[0]
    assert first - second == pytest.approx(np.log(9.5 / 1.5), abs=1e-9)
    assert third - fourth == pytest.approx(np.log(2.5 / 4.5), abs=1e-9)
    assert first + second == pytest.approx(third + fourth, abs=1e-6) == pytest.approx(2 * alone, abs=1e-6)


@pytest.mark.parametrize(("seed", "missing"), [(0, 0.0), (2, 0.2)])
def test_the_metrics_of_choices_agree_with_a_plain_reading(seed: int, missing: float) -> None:
    choices = _choices(random.Random(seed), 5, 80, skill=2.0, missing=missing)
    values = human_preference(choices)
    draws = np.random.default_rng(SEED).multinomial(80, np.full(80, 1 / 80), RESAMPLES)
    names = sorted({name for c in choices for name in (c.chosen, c.other)})

    def fit(shares: Sequence[float], counts: Sequence[float]) -> list[float]:
        return [float(each) for each in strengths(_table(choices, shares, counts)[None])[0]]

    people, judge = [1.0] * 80, _shares(choices, 0.0)
    all_people, all_judge = fit(people, [1.0] * 80), fit(judge, [1.0] * 80)
    resampled = {
        name: [fit(shares, draw.tolist()) for draw in draws]
        for name, shares in (("people", people), ("judge", judge), ("lenient", _shares(choices, 0.5)))
    }
    agreement, separable, brier, pairs = 0, 0, 0.0, list(itertools.combinations(range(len(names)), 2))
    for i, j in pairs:
        sides = {
            name: _side([each[i] for each in fits], [each[j] for each in fits]) for name, fits in resampled.items()
        }
        agreement += sides["people"] * sides["judge"]
        separable += sides["lenient"] != 0
        above = sum(each[i] > each[j] for each in resampled["judge"]) / RESAMPLES
        brier += (above - float(all_people[i] > all_people[j])) ** 2
    rates = [_table(choices, shares, [1.0] * 80) for shares in (people, judge)]
    rows = []
    for i in range(len(names)):
        others = [j for j in range(len(names)) if rates[0][i, j] + rates[0][j, i] > 0]
        x, y = ([t[i, j] / (t[i, j] + t[j, i]) for j in others] for t in rates)
        rows.append(pearsonr(x, y)[0] if len(set(x)) > 1 and len(set(y)) > 1 else 0.0)
    expected = (
        sum(share == 1 for share in judge) / 80,
        sum(rows) / len(rows),
        spearmanr(all_people, all_judge)[0],
        kendalltau(all_people, all_judge)[0],
        separable / len(pairs),
        agreement / len(pairs),
        brier / len(pairs),
    )
    for value, plain in zip(values, expected, strict=True):
        assert value == pytest.approx(plain, abs=1e-12)


def _side(first: Sequence[float], second: Sequence[float]) -> int:
    low = [float(np.percentile(each, 2.5)) for each in (first, second)]
    high = [float(np.percentile(each, 97.5)) for each in (first, second)]
    return int(low[0] > high[1]) - int(low[1] > high[0])


def test_scores_that_agree_with_people_rank_the_models_as_they_do() -> None:
    choices = [c._replace(score=1.0, against=0.0) for c in _choices(random.Random(1), 6, 400, skill=0.0)]
    values = human_preference(choices)
    assert values[:4] == pytest.approx((1, 1, 1, 1))
    assert values.separability == values.confidence_agreement > 0
    assert values.brier < 0.1


def test_constant_scores_rank_nothing_and_silence_ranks_backwards() -> None:
    choices = _choices(random.Random(1), 6, 400, skill=0.0)
    constant = human_preference([c._replace(score=0.0, against=0.0) for c in choices])
    assert tuple(constant) == (0, 0, 0, 0, 0, 0, 0.25)
    silent = human_preference([c._replace(score=NAN, against=NAN) for c in choices])
    assert (silent.accuracy, silent.separability) == (0, 0)
    assert silent.spearman == pytest.approx(-1)
    assert silent.confidence_agreement < 0
    assert silent.brier > 0.75


# ---------------------------------------------------------------- rows


def _rows(score: Score, count: int = 8, width: int = 4) -> list[Row]:
    ids = tuple(f"response_{place}" for place in range(width, 0, -1))
    return [
        row(
            f"q{number}",
            [score] * width,
            None,
            candidate_ids=ids,
            grades=tuple(float((place + number) % width < 2) for place in range(width)),
            domain=("math", "gpqa")[number % 4 == 0],
            tags={"pairs": " ".join(_some_pairs(ids, number, width))},
        )
        for number in range(count)
    ]


def _some_pairs(ids: Sequence[str], number: int, width: int) -> list[str]:
    right = [name for place, name in enumerate(ids) if (place + number) % width < 2]
    wrong = [name for name in ids if name not in right]
    return [f"{a.removeprefix('response_')}-{b.removeprefix('response_')}" for a, b in zip(right, wrong, strict=True)]


def test_a_constant_scorer_of_answers_gets_chance_where_chance_is_defined_and_silence_nothing() -> None:
    constant, silent = published_answers(_rows(0.5), "PPE"), published_answers(_rows(Failure("empty")), "PPE")
    assert (constant.value, dict(constant.domains)) == (0, {"gpqa": 0, "math": 0})
    assert constant.parts == {"auc": 0.5, "max_score": 0.5, "end_score": 0.5, "loss": pytest.approx(1 / 3)}
    assert silent.value == 0
    assert silent.parts == {
        "auc": 0,
        "max_score": 0,
        "end_score": 0,
        "loss": pytest.approx((0.5 + 5 / 6 + 2) / 4),
    }
    assert silent.reason == (
        "16 sampled pairs, a tie a loss as published; all pairs, ties half, in the headline; 8 failed items: "
        "wrong in the headline, a missing score loses here."
    )


def test_the_mean_of_the_data_sets_is_the_value() -> None:
    rows = [
        row("a", [1.0, 0.0], 0, candidate_ids=("response_1", "response_2"), domain="math", tags={"pairs": "1-2"}),
        *(
            row(
                f"b{n}", [0.0, 1.0], 0, candidate_ids=("response_2", "response_1"), domain="gpqa", tags={"pairs": "2-1"}
            )
            for n in range(3)
        ),
    ]
    number = published_answers(rows, "")
    assert (number.value, number.domains["math"], number.domains["gpqa"]) == (0.5, 1, 0)
    assert number.parts["end_score"] == 0.5


def test_choices_without_the_names_of_models_have_an_accuracy_and_no_ranking() -> None:
    ids = ("response_2", "response_1")
    named = {"model:response_1": "x", "model:response_2": "y"}
    rows = [row(str(n), [0.0, 1.0], 1, candidate_ids=ids, tags=named, domain="human") for n in range(4)]
    number = published_choices(rows, "PPE")
    assert number.value == 1
    assert set(number.parts) == {"row_pearson", "spearman", "kendall", "separability", "confidence_agreement", "brier"}
    assert number.parts["spearman"] == pytest.approx(1)
    bare = published_choices([row(str(n), [0.0, 1.0], 1, candidate_ids=ids, domain="human") for n in range(4)], "PPE")
    assert (bare.value, dict(bare.parts)) == (1, {})
    assert bare.reason == "4 choices that do not say whose answers they compare: no ranking of models."
