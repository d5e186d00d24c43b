"""Planted judges: each is named by its flaw, and an honest one, however noisy, is not accused."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.attack.judge import JudgeTrust, judge_ranks, judge_trust, probe_benchmarks, rank_changes
from pluralrm.attack.judge_checks import MEASURES
from pluralrm.chat import ChatRequest, ScriptedChat
from pluralrm.core import Benchmark, Failure, Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.models.judge import open_judge
from tests.attack.judge_worlds import IMPLIED, NAMES, Planted, judged_world, reds, trust_in
from tests.models.judge import judges

PRB, RMGAP = load_benchmark("pocket-prb"), load_benchmark("pocket-rmgap")


def _colours(result: JudgeTrust) -> dict[str, str]:
    return {check.name: check.colour for check in result.checks}


# ---------------------------------------------------------------- planted


@pytest.mark.parametrize("flaw", ["honest", "first", "longest", "deaf", "letter"])
def test_each_planted_judge_is_named_by_its_flaw(flaw: str) -> None:
    result = trust_in(judged_world(0, items=240), Planted(flaw, float(flaw != "honest")))
    assert reds(result) == ({NAMES[flaw]} if flaw in NAMES else set()) | IMPLIED.get(flaw, set())


@pytest.mark.parametrize(("flaw", "width"), [("first", 3), ("deaf", 4)])
def test_flaws_show_among_several_candidates_too(flaw: str, width: int) -> None:
    result = trust_in(judged_world(1, items=150, width=width), Planted(flaw, 0.8, 0.7))
    assert reds(result) == {NAMES[flaw]}
    assert [rate.place for rate in result.places] == list(range(1, width + 1))
    assert sum(rate.exposure for rate in result.places) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flaw", "share"),
    [("honest", 0.0), ("first", 1.0), ("longest", 1.0), ("deaf", 1.0), ("first", 0.3), ("deaf", 0.5), ("letter", 0.3)],
)
def test_planted_judges_are_named_rightly_in_95_of_100_worlds(flaw: str, share: float) -> None:
    named = Counter[frozenset[str]]()
    for seed in range(100):
        named[frozenset(reds(trust_in(judged_world(seed), Planted(flaw, share, seed=seed))))] += 1
    own = frozenset({NAMES[flaw]} if flaw in NAMES else set())
    right = sum(count for red, count in named.items() if own <= red <= own | IMPLIED.get(flaw, set()))
    assert right >= 95, named


def test_too_few_items_are_grey_and_no_accusation() -> None:
    result = trust_in(judged_world(0, items=24), Planted("honest", 0.0))
    assert not result.red
    assert "grey" in set(_colours(result).values())
    assert any("too few to say" in check.text for check in result.checks)


class Failing:
    """A judge of places that fails wherever it would show: in every order but the given one."""

    spec = "failing"

    def __init__(self) -> None:
        self.met: set[str] = set()

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            again = query.id in self.met
            self.met.add(query.id)
            yield Verdict.failed("parse", "no", 2) if again else Verdict((1.0, 0.0))


def test_failing_is_never_green() -> None:
    result = trust_in(judged_world(0, items=120), Failing())
    assert "green" not in set(_colours(result).values())
    assert result.all_orders.value < 0.5


# ---------------------------------------------------------------- any reward model, real run folders


def test_scalar_scores_have_no_place_and_no_question(tmp_path: Path) -> None:
    result = judge_trust(PRB, "longest", out=tmp_path)
    assert _colours(result) == {
        "places": "grey",
        "polarity": "grey",
        "question": "green",
        "answers": "green",
        "labels": "grey",
        "verbosity": "red",
    }
    assert result.checks[0].text == "places: skipped: each answer is scored by itself, so it stands in no place"
    assert result.places == ()
    assert probe_benchmarks(PRB, "longest") == [f"pocket-prb+{name}" for name in ("question", "answers", "pad")]


def test_a_judge_that_asks_in_both_orders_is_turned_by_nobody_and_its_letters_are_told_from_its_places(
    tmp_path: Path,
) -> None:
    few = Benchmark(PRB.card, PRB.items[::3])
    result = judge_trust(few, open_judge("judge:letter", chat=judges.scripted(judges.always_a)), out=tmp_path)
    assert reds(result) == {"places", "labels"}
    assert not list(tmp_path.rglob("*turn1*"))
    assert result.ability is None
    assert "a place all but decide every call" in result.why


def test_a_judge_with_one_order_per_pair_is_turned(tmp_path: Path) -> None:
    few = Benchmark(PRB.card, PRB.items[::3])
    chat = judges.scripted(judges.honest(judges.preferred(few)))
    result = judge_trust(few, open_judge("judge:honest,orders=coin", chat=chat), out=tmp_path)
    assert list(tmp_path.rglob("*turn1*"))
    assert result.all_orders.value == 1.0
    assert not {"places", "labels"} & reds(result)
    # A script that reads no question is deaf: it names the better answer, whichever is asked for.
    assert "polarity" in reds(result)
    asked = len(chat.requests)
    judge_trust(few, open_judge("judge:honest,orders=coin", chat=chat), out=tmp_path)
    assert len(chat.requests) == asked


def test_an_inverted_question_is_read_by_a_judge_that_reads(tmp_path: Path) -> None:
    def reads(request: ChatRequest) -> str:
        text = request.messages[0][1]
        shown = judges.answers(text)
        order = sorted(shown, key=lambda letter: len(shown[letter]))
        return ">".join(order[::-1] if "WORST first" in text else order)

    judge = open_judge("judge:reads,style=listwise", chat=ScriptedChat(reads))
    few = Benchmark(RMGAP.card, RMGAP.items[::6])
    result = judge_trust(few, judge, out=tmp_path)
    polarity = next(check for check in result.checks if check.name == "polarity")
    assert polarity.value is not None
    assert polarity.value.value < 0.2


def test_a_probe_that_stops_the_model_is_red(tmp_path: Path) -> None:
    class Fragile:
        spec = "fragile"

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for query in queries:
                if "\n\n" in query.prompt:
                    raise ModelError("two paragraphs")
                yield Verdict((0.0, float(len(query.candidates[1]))))

    result = judge_trust(judged_world(0, items=30), Fragile(), out=tmp_path)
    assert _colours(result)["question"] == "red"
    assert "the probe stops the model" in result.checks[2].text


def test_the_result_is_a_document_and_a_row_per_check() -> None:
    result = trust_in(judged_world(0, items=60), Planted("first", 0.5))
    document = json.loads(json.dumps(result.to_json()))
    assert [check["name"] for check in document["checks"]] == list(MEASURES) == [r["check"] for r in result.records()]
    assert document["places"][0]["wins"]["value"] > 0.5
    assert document["ability"]["low"] < document["ability"]["value"]


# ---------------------------------------------------------------- several judges


def test_a_rank_that_a_place_made_is_lost_over_all_orders() -> None:
    items = [item for item in judged_world(2, items=200).items if item.preferred == 0][:80]
    skewed = Benchmark(judged_world(2, items=200).card, tuple(items))
    placed, honest = (trust_in(skewed, Planted(*flaw)) for flaw in (("first", 0.8), ("honest", 0.0)))
    ranks = {rank.model.split("-")[1]: rank for rank in judge_ranks([placed, honest])}
    assert (ranks["first"].one_order, ranks["first"].all_orders) == (1, 2)
    assert (ranks["honest"].one_order, ranks["honest"].all_orders) == (2, 1)
    [change] = rank_changes([honest, placed])
    assert change.first == placed.model
    assert change.one_order.value > 0 > change.all_orders.value
    assert rank_changes([placed, placed]) == []


def test_failures_are_named_in_the_rows_of_no_check() -> None:
    class Silent:
        spec = "silent"

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for query in queries:
                yield Verdict((Failure("parse", "no"),) * len(query.candidates))

    result = trust_in(judged_world(0, items=20), Silent())
    assert (result.failed, result.red) == (20, False)
    assert set(_colours(result).values()) == {"grey"}
