"""Does the gate say when a published file is reproduced, and when it is not?"""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from pluralrm.core import Failure, Row, Run
from pluralrm.doctor import GateCard, gate, keep
from pluralrm.errors import MetricError, RunError
from pluralrm.runs import load_run, score
from tests.builders import edit_json
from tests.metrics.rows import row, run
from tests.runs.published import Seeded, uneven


def _rows(count: int, *, noise: float = 0.0, scale: float = 1.0, shift: float = 0.0, seed: int = 0) -> list[Row]:
    """Return the rows of one model, with noise on every score that is drawn anew for each seed."""
    rows = []
    for number in range(count):
        base, own = random.Random(f"model:{number}"), random.Random(f"{seed}:{number}")
        scores = [scale * base.gauss(0, 1) + shift + own.gauss(0, noise) for _ in range(2 + number % 3)]
        rows.append(row(f"i{number}", scores, 0, cluster=f"u{number // 2}"))
    return rows


def _against(own: Sequence[Row], published: Sequence[Row]) -> GateCard:
    return gate(run(own), published, "theirs.jsonl")


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1.0, 40.0), (3.0, -1.0)])
def test_the_same_decisions_are_green_however_scores_are_shifted(scale: float, shift: float) -> None:
    card = _against(_rows(400, scale=scale, shift=shift), random.Random(1).sample(_rows(400), 400))
    assert (card.colour, card.estimates["equal"].value, card.reasons) == ("green", 1.0, ())
    assert card.estimates["drift"].value == pytest.approx(abs(shift), abs=0.1 if scale == 1 else 5)
    assert card.estimates["ranks"].value == pytest.approx(1.0)


def test_noise_of_another_precision_flips_near_the_margin_alone() -> None:
    card = _against(_rows(800, noise=0.01), _rows(800))
    assert card.colour == "green"
    near, far = card.estimates["near"], card.estimates["far"]
    assert near.value > 0 == far.value
    assert near.n + far.n == 800


def test_each_number_is_that_of_a_computation_by_hand() -> None:
    own, published = _rows(300, noise=0.5, seed=1), _rows(300)
    card = _against(own, published)
    equal = [
        max(range(len(a.scores)), key=a.scores.__getitem__) == max(range(len(b.scores)), key=b.scores.__getitem__)
        for a, b in zip(own, published, strict=True)
    ]
    assert card.estimates["equal"].value == pytest.approx(sum(equal) / 300, abs=1e-12)
    xs, ys = ([score for each in rows for score in each.scores] for rows in (own, published))
    assert card.estimates["ranks"].value == pytest.approx(float(spearmanr(xs, ys).statistic), abs=1e-9)
    changes = [abs(x - y) for x, y in zip(xs, ys, strict=True)]  # type: ignore[operator]
    assert card.estimates["drift"].value == pytest.approx(sum(changes) / len(changes), abs=1e-12)
    ranked = [sorted(score for score in each.scores if isinstance(score, float)) for each in published]
    margins = [scores[-1] - scores[-2] for scores in ranked]
    nearest = sorted(range(300), key=margins.__getitem__)[:30]
    assert card.estimates["near"].value == pytest.approx(sum(not equal[index] for index in nearest) / 30, abs=1e-12)
    assert card.colour == "red"


def test_another_model_and_turned_scores_are_red() -> None:
    published = _rows(400)
    turned = [replace(each, scores=tuple(-score for score in each.scores)) for each in published]  # type: ignore[operator]
    assert _against(turned, published).colour == "red"
    other = [
        row(each.item, [random.Random(f"o{each.item}:{i}").random() for i in range(len(each.scores))], 0)
        for each in published
    ]
    assert _against(other, published).colour == "red"


def test_few_items_cannot_be_green_and_failures_equal_nothing() -> None:
    assert _against(_rows(30), _rows(30)).colour == "yellow"
    silent = [replace(each, scores=(Failure("empty", ""),) * len(each.scores)) for each in _rows(400)]
    card = _against(silent, silent)
    assert (card.colour, card.estimates["equal"].value, card.estimates["equal"].failed) == ("red", 0.0, 400)
    assert set(card.estimates) == {"equal"}
    some = [*_rows(400)[:390], *silent[390:]]
    assert _against(some, _rows(400)).estimates["equal"].value == pytest.approx(390 / 400)


def test_a_part_of_the_items_is_said_and_other_items_are_an_error() -> None:
    card = _against(_rows(400), _rows(200))
    assert "on 200 of 400 items" in str(card)
    with pytest.raises(MetricError, match="has no item"):
        _against(_rows(400), [replace(each, item=f"x{each.item}") for each in _rows(10)])


def test_choices_alone_have_decisions_and_no_drift() -> None:
    choices = [replace(each, scores=tuple(float(s == max(each.scores)) for s in each.scores)) for each in _rows(400)]
    card = _against(_rows(400), choices)
    assert (card.colour, set(card.estimates)) == ("green", {"equal"})


def test_the_card_is_kept_with_the_run_and_holds_for_its_rows_alone(tmp_path: Path) -> None:
    bench = uneven(60)
    own: Run = score(bench, Seeded(1), out=tmp_path)
    card = gate(own, own.rows, "theirs.jsonl")
    keep(own, card, ["c0ffee"])
    assert load_run(own.path).gate == str(card)
    edit_json(Path(own.path) / "gate.json", rows_hash="other")
    assert load_run(own.path).gate == ""
    (Path(own.path) / "gate.json").write_text("{")
    with pytest.raises(RunError, match=r"gate\.json"):
        load_run(own.path)
    score(bench, Seeded(1), out=tmp_path, fresh=True)
    assert load_run(own.path).gate == ""
