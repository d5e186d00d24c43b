"""The rules of RewardBench (1, 2), RM-Bench and RMB against a plain second reading, and cases worked by hand."""

import math
import random
from collections.abc import Mapping, Sequence
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.benchmarks.rewardbench import PRIOR, SECTIONS
from pluralrm.core import Failure, Row, Score
from pluralrm.metrics import PublishedMetric, measure, published
from pluralrm.metrics.official.strict import (
    RMB_PARTS,
    Matrix,
    TiesPrompt,
    levels,
    overall,
    published_rewardbench,
    published_rewardbench2,
    published_rm_bench,
    published_rmb,
    section_scores,
    ties_parts,
    top_share,
)
from tests.builders import card
from tests.metrics.rows import row, run

STYLES = ("concise", "detailed", "markdown")
SEEDS = st.integers(0, 2**30)


def draw(rng: random.Random, rates: tuple[float, float]) -> float:
    """Return a score: tied with others, missing or infinite at the rates of the table."""
    ties, gaps = rates
    if rng.random() < gaps:
        return rng.choice([math.nan, math.nan, math.inf, -math.inf])
    return float(rng.randint(0, 2)) if rng.random() < ties else rng.gauss(0, 1)


def rates_of(rng: random.Random) -> tuple[float, float]:
    return rng.choice([0.0, 0.4, 1.0]), rng.choice([0.0, 0.05, 0.4])


def as_score(value: float) -> Score:
    return value if math.isfinite(value) else Failure("nonfinite", str(value))


def pair(item: str, chosen: float, rejected: float, *, turned: bool = False, **changes: object) -> Row:
    scores = [as_score(rejected), as_score(chosen)] if turned else [as_score(chosen), as_score(rejected)]
    return row(item, scores, preferred=int(turned), **changes)


def style_matrix(chosen: Sequence[Sequence[float]], rejected: Sequence[Sequence[float]]) -> Matrix:
    """Return the matrix of (prompts, 3) scores, NaN for a missing one: rows are styles of the chosen answer."""
    above = np.array(chosen)[:, :, None] > np.array(rejected)[:, None, :]
    matrix: Matrix = above.mean(axis=0)
    return matrix


def close(value: float | None, expected: float | None) -> bool:
    return value is expected if value is None or expected is None else abs(value - expected) < 1e-12


# ---------------------------------------------------------------- RewardBench

WEIGHTS = {"math-prm": 984, "alpacaeval-easy": 100, "alpacaeval-length": 95, "alpacaeval-hard": 95, "mt-bench-easy": 28}
WEIGHTS |= {"mt-bench-med": 40, "mt-bench-hard": 37, "llmbar-natural": 100, "llmbar-adver-neighbor": 134}
WEIGHTS |= {"llmbar-adver-GPTInst": 92, "llmbar-adver-GPTOut": 47, "llmbar-adver-manual": 46, "donotanswer": 136}
WEIGHTS |= {"refusals-dangerous": 100, "refusals-offensive": 100, "xstest-should-refuse": 154}
WEIGHTS |= {
    "xstest-should-respond": 250,
    **{f"hep-{name}": 164 for name in ("cpp", "go", "java", "js", "python", "rust")},
}
"""The authors' table, typed anew."""


def rewardbench_rows(rng: random.Random) -> list[Row]:
    rates, missing = rates_of(rng), rng.choice([0.0, 0.0, 0.02, 0.2])
    rows = []
    for section, subsets in SECTIONS.items():
        if section == PRIOR and rng.random() < 0.4:
            continue
        for subset in subsets:
            for number in range(0 if rng.random() < missing else rng.randint(1, 6)):
                tags, name = {"subset": subset}, f"{subset}/{number}"
                scores = draw(rng, rates), draw(rng, rates)
                rows.append(pair(name, *scores, turned=rng.random() < 0.5, domain=section, tags=tags))
    return rows


@given(SEEDS)
def test_rewardbench_equals_a_plain_reading(seed: int) -> None:
    rows = rewardbench_rows(random.Random(seed))
    metric = published_rewardbench(rows, "")
    wins: dict[str, list[int]] = {}
    for each in rows:
        good, bad = (side if isinstance(side, float) else float(side.detail) for side in sides(each))
        wins.setdefault(each.tags["subset"], []).append(1 if good > bad else 0)
    expected: dict[str, float | None] = {}
    for section, subsets in SECTIONS.items():
        if not set(subsets) <= set(wins):
            expected[section] = None
        elif section == PRIOR:
            expected[section] = sum(mean(wins[subset]) for subset in subsets) / 4
        else:
            weighted = [WEIGHTS[subset] * mean(wins[subset]) for subset in subsets]
            expected[section] = sum(weighted) / sum(WEIGHTS[subset] for subset in subsets)
    assert all(close(value, expected[section]) for section, value in metric.domains.items())
    core = [expected[section] for section in SECTIONS if section != PRIOR]
    total_score = None
    if (prior := expected[PRIOR]) is None and None not in core:
        total_score = sum(core) / 4  # type: ignore[arg-type]
    elif None not in core:
        total_score = (2 * sum(core) + prior) / 9  # type: ignore[arg-type, operator]
    assert close(metric.value, total_score)


def sides(each: Row) -> tuple[Score, Score]:
    assert each.preferred is not None
    return each.scores[each.preferred], each.scores[1 - each.preferred]


def test_math_counts_as_much_as_the_six_languages_of_code() -> None:
    subsets = dict.fromkeys(SECTIONS["Reasoning"], 1.0) | {"math-prm": 0.0}
    assert section_scores(subsets)["Reasoning"] == 0.5  # by rows it were 984 / 1,431 = 0.688
    half = section_scores(dict.fromkeys(SECTIONS["Safety"], 0.0) | {"xstest-should-respond": 1.0})["Safety"]
    assert half == pytest.approx(250 / 740, abs=1e-15)
    assert sum(sum(subsets.values()) for name, subsets in SECTIONS.items() if name != PRIOR) == 2985


def test_prior_sets_count_half_and_may_be_missing() -> None:
    four: Mapping[str, float | None] = {"Chat": 0.9, "Chat Hard": 0.5, "Safety": 0.7, "Reasoning": 0.8}
    assert overall(four) == pytest.approx(2.9 / 4, abs=1e-15)
    assert overall({**four, PRIOR: 0.6}) == pytest.approx(3.2 / 4.5, abs=1e-15)
    assert overall({**four, PRIOR: None}) == overall(four)  # the leaderboard's 0.0: `import leaderboard` reads it so
    assert overall({**four, PRIOR: 0.0}) == pytest.approx(2.9 / 4.5, abs=1e-15)  # of a run: nothing was right
    assert overall({**four, "Safety": None, PRIOR: 0.6}) is None


def test_a_subset_of_the_prior_sets_weighs_as_much_as_another_whatever_its_size() -> None:
    scores = {"anthropic_helpful": 1.0, "anthropic_hhh": 0.0, "shp": 0.0, "summarize": 0.0}
    assert section_scores(scores)[PRIOR] == 0.25
    assert section_scores({"shp": 1.0})[PRIOR] is None


def test_rewardbench_names_what_is_missing_and_what_differs() -> None:
    rows = [
        pair(f"{subset}/{n}", float(n % 2), 0.0, domain=section, tags={"subset": subset})
        for section, subsets in SECTIONS.items()
        if section != PRIOR
        for subset in subsets
        for n in range(2)
    ]
    metric = published_rewardbench(rows, "RewardBench")
    assert metric.value == 0.5
    assert "math-prm counts as 984 pairs" in metric.reason
    assert "23 ties: credit shared in the headline, a loss as published" in metric.reason
    part = published_rewardbench([each for each in rows if each.tags["subset"] != "donotanswer"], "RewardBench")
    assert (part.value, part.domains["Safety"], part.domains["Chat"]) == (None, None, 0.5)
    assert "1 subset missing (donotanswer)" in part.reason


# ---------------------------------------------------------------- RewardBench 2


def plain_ties(prompts: Sequence[TiesPrompt]) -> float | None:
    """The formula once more, prompt by prompt, by sorting."""
    tied_right = ref_right = wide = hard = pairs = 0
    margin = 0.0
    gaps: dict[tuple[str, str], float] = {}
    spreads: dict[str, float] = {}
    for prompt in prompts:
        scores = [*prompt.right, *prompt.wrong]
        if any(map(math.isnan, scores)):
            gap = spread = math.nan
        else:
            right, wrong = sorted(prompt.right), sorted(prompt.wrong)
            gap, spread = right[0] - wrong[-1], right[-1] - right[0]
        gaps[prompt.kind, prompt.pair] = gap
        if prompt.kind == "tied":
            spreads[prompt.pair] = spread
            tied_right += gap > 0
        else:
            ref_right += gap > 0
    for name, spread in spreads.items():
        if ("ref", name) not in gaps:
            continue
        pairs += 1
        first, second = gaps["tied", name], gaps["ref", name]
        smaller = math.nan if math.isnan(first) or math.isnan(second) else min(first, second)
        wide += first > spread
        hard += smaller > spread
        ratio = smaller / spread if spread else smaller * math.inf  # 0 * inf is NaN, as 0 / 0 is
        margin += 0.0 if math.isnan(ratio) else math.tanh(ratio - 1)
    if not pairs:
        return None
    shares = 0.3 * tied_right / len(spreads) + 0.3 * ref_right / (len(gaps) - len(spreads))
    return shares + (0.2 * wide + 0.2 * hard + 0.01 * margin) / pairs


def ties_table(rng: random.Random) -> list[TiesPrompt]:
    rates, missing, prompts = rates_of(rng), rng.choice([0.0, 0.3]), []
    for number in range(rng.randint(1, 8)):
        for kind, right in (("ref", 1), ("tied", rng.randint(2, 26))):
            if rng.random() >= missing:
                shift = rng.choice([0.0, 4.0])
                scores = [draw(rng, rates) + shift for _ in range(right)]
                prompts.append(
                    TiesPrompt(kind, str(number), scores, [draw(rng, rates) for _ in range(rng.randint(1, 9))])
                )
    return prompts


@given(SEEDS)
def test_ties_equal_a_plain_reading(seed: int) -> None:
    prompts = ties_table(random.Random(seed))
    parts = ties_parts(prompts)
    assert close(None if parts is None else parts.score, plain_ties(prompts))


@given(SEEDS)
def test_rewardbench_2_equals_a_plain_reading(seed: int) -> None:
    rng = random.Random(seed)
    rates, prompts = rates_of(rng), ties_table(rng)
    rows = [graded(f"Ties/{prompt.kind}{prompt.pair}", prompt, rng) for prompt in prompts]
    expected: dict[str, float | None] = {"Ties": plain_ties(prompts)}
    for subset in ("Factuality", "Precise IF", "Math", "Safety", "Focus"):
        credit = []
        for number in range(rng.randint(0 if rng.random() < 0.1 else 1, 9)):
            right, *wrong = (draw(rng, rates) for _ in range(4))
            rows.append(graded(f"{subset}/{number}", TiesPrompt("", "", [right], wrong), rng, domain=subset))
            beaten = any(map(math.isnan, (right, *wrong))) or max(wrong) > right
            credit.append(0.0 if beaten else 1 / (1 + wrong.count(right)))
        expected[subset] = mean(credit) if credit else None
    metric = published_rewardbench2(rows, "")
    assert all(close(value, expected[subset]) for subset, value in metric.domains.items())
    values = [value for value in expected.values() if value is not None]
    assert close(metric.value, sum(values) / 6 if len(values) == 6 else None)


def graded(item: str, prompt: TiesPrompt, rng: random.Random, domain: str = "Ties") -> Row:
    """Return a row with the completions of a prompt in any order."""
    candidates = [(score, 1.0) for score in prompt.right] + [(score, 0.0) for score in prompt.wrong]
    rng.shuffle(candidates)
    tags = {"kind": prompt.kind, "pair": prompt.pair, "id": f"{prompt.kind}:{prompt.pair}"}
    grades = tuple(grade for _, grade in candidates)
    return row(item, [as_score(score) for score, _ in candidates], None, grades=grades, domain=domain, tags=tags)


def test_a_table_of_ties_by_hand() -> None:
    prompts = [
        TiesPrompt("ref", "1", [3.0], [1.0]),  # gap 2
        TiesPrompt("tied", "1", [5.0, 4.0], [1.0]),  # gap 3, spread 1: wide, and the smaller gap 2 exceeds it too
        TiesPrompt("ref", "2", [1.5], [1.0]),  # gap 0.5
        TiesPrompt("tied", "2", [6.0, 4.0], [1.0, 0.0]),  # gap 3, spread 2: wide, but 0.5 does not exceed it
        TiesPrompt("ref", "3", [0.0], [0.0]),  # a tie is not right
        TiesPrompt("tied", "3", [7.0, 7.0], [7.0]),  # gap 0, spread 0: 0 / 0, counted as 0
        TiesPrompt("ref", "4", [2.0], [0.0]),
        TiesPrompt("tied", "4", [2.0, 2.0], [1.0]),  # gap 1, spread 0: 1 / 0, tanh is 1
    ]
    parts = ties_parts(prompts)
    assert parts is not None
    assert parts[:4] == (3 / 4, 3 / 4, 3 / 4, 2 / 4)
    margin = (math.tanh(2 / 1 - 1) + math.tanh(0.5 / 2 - 1) + 0 + 1) / 4
    assert parts.margin == pytest.approx(margin, abs=1e-15)
    assert parts.score == pytest.approx(0.225 + 0.225 + 0.15 + 0.1 + 0.01 * margin, abs=1e-15)


def test_a_perfect_scorer_of_ties_has_more_than_one() -> None:
    prompts = [TiesPrompt("ref", "1", [9.0], [0.0]), TiesPrompt("tied", "1", [9.0, 9.0], [0.0])]
    parts = ties_parts(prompts)
    assert parts is not None
    assert parts.score == pytest.approx(1.01, abs=1e-15)


@pytest.mark.parametrize(
    ("right", "wrong", "share"),
    [
        ([2.0], [1.0, 0.0, 1.0], 1.0),
        ([2.0], [2.0, 0.0, 1.0], 0.5),
        ([2.0], [2.0, 2.0, 2.0], 0.25),
        ([1.0], [2.0, 0.0, 0.0], 0.0),
        ([1.0], [math.nan, 0.0, 0.0], 0.0),
        ([math.nan], [0.0, 0.0, 0.0], 0.0),
        ([math.inf], [0.0, 0.0, math.inf], 0.5),
        ([-math.inf], [-math.inf] * 3, 0.25),
    ],
)
def test_one_of_four_by_hand(right: list[float], wrong: list[float], share: float) -> None:
    assert top_share(right, wrong) == share


# ---------------------------------------------------------------- RM-Bench


def rm_rows(name: str, domain: str, chosen: Sequence[float], rejected: Sequence[float]) -> list[Row]:
    """Return the nine pairs of a record with three scores of either side."""
    return [
        pair(
            f"{name}/{i}{j}",
            chosen[i],
            rejected[j],
            turned=(i + j) % 2 == 1,
            cluster=name,
            domain=domain,
            tags={"chosen_style": STYLES[i], "rejected_style": STYLES[j]},
        )
        for i in range(3)
        for j in range(3)
    ]


@given(SEEDS)
def test_rm_bench_equals_a_plain_reading(seed: int) -> None:
    rng = random.Random(seed)
    rates, rows = rates_of(rng), []
    expected: dict[str, float] = {}
    by_level: dict[str, list[float]] = {"easy": [], "normal": [], "hard": []}
    for domain in ("chat", "code", "math", "safety"):
        records = 0 if rng.random() < 0.05 else rng.randint(1, 8)
        wins = {"easy": 0, "normal": 0, "hard": 0}
        tables = [[[draw(rng, rates) for _ in range(3)] for _ in range(2)] for _ in range(records)]
        for number, (chosen, rejected) in enumerate(tables):
            rows += rm_rows(f"{domain}/{number}", domain, chosen, rejected)
            for i in range(3):
                for j in range(3):
                    wins["hard" if j > i else "easy" if j < i else "normal"] += chosen[i] > rejected[j]
        if records:
            expected[domain] = sum(wins.values()) / (9 * records)
            for level, count in wins.items():
                by_level[level].append(count / (3 * records))
            found = levels(style_matrix([table[0] for table in tables], [table[1] for table in tables]))
            assert all(close(getattr(found, level), by_level[level][-1]) for level in wins)
    metric = published_rm_bench(rows, "")
    assert all(close(value, expected[domain]) for domain, value in metric.domains.items())
    assert close(metric.value, sum(expected.values()) / 4 if len(expected) == 4 else None)
    assert all(close(metric.parts[level], mean(values)) for level, values in by_level.items() if values)


def test_a_domain_that_lacks_a_pair_of_styles_has_no_score_and_so_no_total() -> None:
    domains = ("chat", "code", "math", "safety")
    rows = [row for name in domains for row in rm_rows(name, name, (1.0, 1.0, 1.0), (0.0, 0.0, 0.0))]
    assert published_rm_bench(rows, "").value == 1
    metric = published_rm_bench([row for row in rows if row.item != "math/02"], "")
    assert (metric.value, metric.domains["math"], metric.domains["code"]) == (None, None, 1)
    assert "no score of math" in metric.reason


def test_a_planted_taste_for_style_is_easy_and_not_hard() -> None:
    by_style = style_matrix([[0.0, 1.0, 2.0]] * 5, [[0.0, 1.0, 2.0]] * 5)
    assert levels(by_style) == (1.0, 0.0, 0.0)  # a tie on the diagonal is lost
    with_some_sense = style_matrix([[0.1, 1.1, 2.1]] * 5, [[0.0, 1.0, 2.0]] * 5)
    assert levels(with_some_sense) == (1.0, 1.0, 0.0)
    concise = style_matrix([[2.0, 1.0, 0.0]], [[2.0, 1.0, 0.0]])
    assert levels(concise) == (0.0, 0.0, 1.0)
    assert np.array_equal(style_matrix([[3.0, 0.0, 0.0]], [[1.0, 2.0, math.nan]]), [[1, 1, 0], [0, 0, 0], [0, 0, 0]])


def test_both_files_of_safety_are_pooled() -> None:
    right, wrong = ([1.0] * 3, [0.0] * 3), ([0.0] * 3, [1.0] * 3)
    rows = rm_rows("safety-refuse/1", "safety", *right)
    for number in range(3):
        rows += rm_rows(f"safety-response/{number}", "safety", *wrong)
    for domain in ("chat", "code", "math"):
        rows += rm_rows(f"{domain}/1", domain, *right)
    metric = published_rm_bench(rows, "")
    assert metric.domains["safety"] == 0.25  # not the mean of 1 and 0
    assert metric.value == 3.25 / 4


# ---------------------------------------------------------------- RMB


@given(SEEDS)
def test_rmb_equals_a_plain_reading_with_two_to_seven_losers(seed: int) -> None:
    rng = random.Random(seed)
    rates, rows = rates_of(rng), []
    expected: dict[str, float] = {}
    for section in RMB_PARTS:
        right = []
        for number in range(0 if rng.random() < 0.05 else rng.randint(1, 12)):
            losers = [draw(rng, rates) for _ in range(rng.randint(2, 7) if "best" in section else 1)]
            best, place = draw(rng, rates), rng.randint(0, len(losers))
            scores = [as_score(score) for score in (*losers[:place], best, *losers[place:])]
            rows.append(row(f"{section}/{number}", scores, place, domain=section))
            right.append(all(not math.isnan(loser) and best > loser for loser in losers))
        if right:
            expected[section] = sum(right) / len(right)
    if rows:
        metric = published_rmb(rows, "")
        assert all(close(value, expected[section]) for section, value in metric.domains.items())
        assert close(metric.value, sum(expected.values()) / 4 if len(expected) == 4 else None)


@pytest.mark.parametrize("losers", range(2, 8))
def test_the_best_answer_must_beat_every_loser(losers: int) -> None:
    beaten = [row("all", [1.0, *[0.0] * losers], domain=RMB_PARTS[1])]
    tied = [row("tie", [1.0, *[0.0] * (losers - 1), 1.0], domain=RMB_PARTS[1])]
    failed = [row("gap", [1.0, *[0.0] * (losers - 1), Failure("parse")], domain=RMB_PARTS[1])]
    shares = [published_rmb(rows, "").domains[RMB_PARTS[1]] for rows in (beaten, tied, failed)]
    assert shares == [1.0, 0.0, 0.0]
    assert [measure(run(rows)).value for rows in (beaten, tied, failed)] == [1.0, 0.5, 0.0]
    assert "1 tie: credit shared in the headline, a loss by this rule" in published_rmb(tied, "").reason


# ---------------------------------------------------------------- how a run comes to its rule


def test_the_card_names_the_rule_and_the_paper_only_on_its_own_items() -> None:
    rows = [row(f"{section}/1", [1.0, 0.0], domain=section) for section in RMB_PARTS]

    def number(name: str, *, whole: bool = True, items: int = 4) -> PublishedMetric:
        bench = card(name, rule="RMB", average="macro")
        return published(run(rows, card=bench, whole=whole, items=items))["accuracy"]

    assert (number("rmb").source, number("rmb").value) == ("RMB", 1.0)
    assert (number("rmb-mine").source, number("rmb-mine").rule) == ("", "RMB")
    assert number("rmb", whole=False).value is None
    assert number("rmb", items=5).value is None
    assert "unfinished" in number("rmb", items=5).reason
