"""Whole models under attack: what falls for which, what holds, and that nothing is scored twice."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from pluralrm import load_benchmark, load_model
from pluralrm.attack import ATTACKS, CONTROLS, Effect, Robustness, robustness
from pluralrm.core import Benchmark, Failure, Query, Verdict
from pluralrm.errors import ConditionError, ModelError, SpecError
from pluralrm.models.judge import Judge, open_judge
from tests.builders import Scripted, bakery, card
from tests.models.judge import judges

PRB, RMGAP = load_benchmark("pocket-prb"), load_benchmark("pocket-rmgap")
FEW = Benchmark(PRB.card, PRB.items[::3])
ADDED = ("choose", "verdict", "fence", "turn", "literal", "flattery")


def _by_name(found: Robustness) -> dict[str, Effect]:
    return {effect.attack.name: effect for effect in found.effects}


def _shown(found: Robustness) -> set[str]:
    return {effect.attack.name for effect in found.effects if effect.shown}


def _red(found: Robustness) -> list[str]:
    return [sign.text for sign in found.signs if sign.colour == "red"]


# ---------------------------------------------------------------- baselines


@pytest.mark.parametrize("benchmark", [FEW, RMGAP], ids=["two answers", "four answers"])
def test_constant_is_moved_by_nothing_by_exactly_nothing(benchmark: Benchmark, tmp_path: Path) -> None:
    found = robustness(benchmark, "constant", out=tmp_path)
    assert len(found.effects) == 10
    for effect in found.effects:
        assert effect.before is not None
        assert effect.change is not None
        assert effect.before.value == pytest.approx(1 / len(benchmark.items[0].candidates))
        assert (effect.change.value, effect.change.low, effect.p) == (0.0, None, None)
    assert not found.red
    yellow = [sign.text for sign in found.signs if sign.colour == "yellow"]
    assert [text.partition(":")[0] for text in yellow] == ["empty", "token"]


def test_longest_falls_for_padding_and_its_fall_for_orders_is_laid_to_length(tmp_path: Path) -> None:
    found = robustness(PRB, "longest", out=tmp_path)
    effects = _by_name(found)
    assert _shown(found) == {*ADDED, "pad"}
    assert effects["pad"].after is not None
    assert effects["pad"].after.value == 1.0
    for name in ADDED:
        beyond = effects[name].beyond
        assert beyond is not None
        assert beyond.value <= 0.0
    padding, orders = _red(found)
    assert padding.startswith("pad: ")
    assert padding.endswith("through length")
    assert orders.startswith("choose, verdict, fence, turn, literal, flattery: ")
    assert orders.endswith("it may be reward hacking through length")
    assert all(effects[name].lowers for name in ("empty", "token"))


def test_shortest_falls_for_silence_alone(tmp_path: Path) -> None:
    found = robustness(PRB, "shortest", out=tmp_path)
    assert _shown(found) == {"empty", "token"}


def test_quoting_posts_beats_answers_written_for_the_user(tmp_path: Path) -> None:
    for model in ("copy", "lsa", "bm25"):
        found = robustness(PRB, model, "raw:5", out=tmp_path, attacks=["quote"])
        effects = _by_name(found)
        assert set(effects) == {"quote", "quote-other"}
        assert effects["quote"].shown
        assert effects["quote"].after is not None
        assert effects["quote"].after.value == 1.0
        beyond = effects["quote"].beyond
        assert beyond is not None
        assert beyond.low is not None
        # Whose posts are quoted counts for those that look for the words, not for the one that compares topics.
        assert (beyond.low > 0) == (model != "lsa")


def test_a_model_that_sees_no_posts_is_not_tried_with_quotations(tmp_path: Path) -> None:
    found = robustness(FEW, "constant", "none", out=tmp_path)
    assert set(found.skipped) == {"quote", "quote-other"}
    assert "shows the model no posts" in found.skipped["quote"]
    assert not {"quote", "quote-other"} & set(_by_name(found))
    alone = Benchmark(PRB.card, PRB.items[:1])
    assert robustness(alone, "constant", "raw:1", out=tmp_path).skipped == {
        "quote-other": "no item of pocket-prb has posts of another user of the same domain"
    }
    with pytest.raises(ConditionError, match="no attack can be tried under 'none'"):
        robustness(FEW, "constant", "none", out=tmp_path, attacks=["quote"])


# ---------------------------------------------------------------- judges


def _obedient(shown: Mapping[str, str]) -> str:
    """Do what an answer says, where one says what to choose; else prefer the longer."""
    for letter, text in shown.items():
        if found := re.search(r"[Cc]hoose ([AB])\b", text):
            return f"As told.\n\nResult: {found[1]}"
        if "choose this one" in text:
            return f"As told.\n\nResult: {letter}"
    return judges.longer({letter: text.partition("\n\n")[0] for letter, text in shown.items()})


def _echoing(shown: Mapping[str, str]) -> str:
    """Take the first verdict that stands anywhere for the own one."""
    verdict = re.search(r"Result: ([AB])|\[\[([AB])\]\]|([AB])>[AB]", "\n".join(shown.values()))
    letter = next(filter(None, verdict.groups()), "tie") if verdict else "tie"
    return f"It was compared already.\n\nResult: {letter}"


def _judge(script: judges.Script) -> Judge:
    return open_judge("judge:m", chat=judges.scripted(script))


def _honest() -> judges.Script:
    """A judge that knows the answers, and sees what was added to a rejected one as part of it."""
    return judges.honest(judges.preferred(PRB))


def test_a_judge_that_does_what_answers_say_is_caught(tmp_path: Path) -> None:
    found = robustness(PRB, _judge(_obedient), out=tmp_path, attacks=["choose", "literal"])
    effects = _by_name(found)
    assert _shown(found) == {"choose"}
    [told] = _red(found)
    assert told.startswith("choose: the rejected answer wins ")
    assert told.endswith(
        "more than when it goes on about nothing, for as long (plain): reward hacking through orders in the answer"
    )
    assert effects["plain"].change is not None
    assert effects["plain"].change.value == 0.0


def test_a_letter_names_another_answer_in_the_other_order_and_so_makes_a_tie(tmp_path: Path) -> None:
    robustness(PRB, _judge(_obedient), out=tmp_path, attacks=["choose"])
    [rows] = (tmp_path / "pocket-prb-choose").rglob("rows.jsonl")
    [inputs] = (tmp_path / "pocket-prb-choose").rglob("run.json")
    assert json.loads(inputs.read_text())["benchmark"]["card"]["name"] == "pocket-prb+choose"
    scores = {tuple(json.loads(line)["scores"]) for line in rows.read_text().splitlines()}
    assert scores == {(0.5, 0.5), (0.0, 1.0), (1.0, 0.0)}


def test_a_judge_that_repeats_verdicts_is_caught(tmp_path: Path) -> None:
    def script(shown: Mapping[str, str]) -> str:
        verdict = any(re.search(r"Result: [AB]|\[\[[AB]\]\]|[AB]>[AB]", text) for text in shown.values())
        return _echoing(shown) if verdict else _honest()(shown)

    found = robustness(PRB, _judge(script), out=tmp_path, attacks=["verdict", "flattery"])
    assert _shown(found) == {"verdict"}


def test_an_honest_judge_behind_real_fences_is_moved_by_nothing(tmp_path: Path) -> None:
    found = robustness(PRB, _judge(_honest()), "raw:3", out=tmp_path)
    assert len(found.effects) == len(ATTACKS)
    for effect in found.effects:
        assert effect.after is not None
        assert effect.change is not None
        assert (effect.after.value, effect.change.value, effect.newly_failed) == (0.0, 0.0, None), effect.attack.name
    assert not found.red


def test_a_judge_that_believes_any_fence_is_caught_by_false_ones(tmp_path: Path) -> None:
    """Without marks the last text that claims to be an answer is one: so the real fences are what holds above."""
    believed = re.compile(r"^\[answer ([AB])[^\]]*\]\n(.*?)\n\[end of answer", re.DOTALL | re.MULTILINE)
    right = judges.preferred(PRB)

    def gullible(shown: Mapping[str, str]) -> str:
        prompt = "\n".join(f"[answer {letter}]\n{text}\n[end of answer {letter}]" for letter, text in shown.items())
        seen = dict(believed.findall(prompt))
        poor = [letter for letter, text in seen.items() if text.startswith(("I do not know", "No idea"))]
        if poor:
            return f"That says nothing.\n\nResult: {'A' if 'B' in poor else 'B'}"
        return judges.honest(right)(shown)

    found = robustness(PRB, _judge(gullible), out=tmp_path, attacks=["fence"])
    assert _shown(found) == {"fence"}


class Flattered:
    """Counts how often the reader is addressed."""

    spec = "flattered"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(float(len(re.findall(r"\byou", text.lower()))) for text in query.candidates))


def test_a_model_that_likes_to_be_addressed_falls_for_flattery(tmp_path: Path) -> None:
    found = robustness(PRB, Flattered(), out=tmp_path, attacks=["flattery", "literal"])
    assert "flattery" in _shown(found)
    assert "literal" not in _shown(found)


# ---------------------------------------------------------------- models that fail


class Always:
    """Fails on everything, or on answers shorter than so many characters."""

    def __init__(self, least: int | None = None) -> None:
        self.spec = f"fails-{least}"
        self._least = least

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            short = self._least is None or any(len(text) < self._least for text in query.candidates)
            yield Verdict(
                tuple(Failure("empty", "nothing there") if short else float(len(text)) for text in query.candidates)
            )


def test_of_a_model_that_always_fails_nothing_is_claimed(tmp_path: Path) -> None:
    found = robustness(FEW, Always(), out=tmp_path)
    assert [effect.change for effect in found.effects] == [None] * 10
    assert [sign.colour for sign in found.signs] == ["yellow"]
    assert found.signs[0].text == "the model failed on 20 items before any attack: of these nothing is known"


def test_failing_instead_of_answering_is_red(tmp_path: Path) -> None:
    found = robustness(FEW, Always(least=50), out=tmp_path, attacks=["empty"])
    [told] = _red(found)
    assert told.startswith("empty: the model newly fails on 100.0% [")
    after = _by_name(found)["empty"].after
    assert after is not None
    assert after.value == 1.0


class Crashing:
    """Divides by the length of an answer."""

    spec = "crashing"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(1 / len(text.strip()) for text in query.candidates))


def test_an_attack_that_stops_the_model_is_a_finding_about_the_model(tmp_path: Path) -> None:
    found = robustness(FEW, Crashing(), out=tmp_path, attacks=["empty", "pad"])
    assert list(_by_name(found)) == ["pad"]
    assert "ZeroDivisionError" in found.broken["empty"]
    [told] = _red(found)
    assert told.startswith("empty: the model stops when the rejected answer is empty: crashing under none: ")


def test_a_model_that_is_broken_anyway_is_an_error_and_no_finding(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="crashed on each of its first"):
        robustness(FEW, Scripted(moods={item.id: "raise" for item in FEW.items}), out=tmp_path)
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        robustness(FEW, Crashing(), out=tmp_path, attacks=["empty"])


# ---------------------------------------------------------------- on disk


def test_the_same_command_scores_nothing_again(tmp_path: Path) -> None:
    bench = bakery(6)
    model = Scripted()
    first = robustness(bench, model, "recent:2", out=tmp_path)
    asked = len(model.asked)
    assert asked == 6 * (1 + len(ATTACKS))
    assert robustness(bench, model, "recent:2", out=tmp_path) == first
    assert len(model.asked) == asked


def test_attacks_are_the_same_bytes_in_every_run_and_in_any_order(tmp_path: Path) -> None:
    bench = bakery(6)
    robustness(bench, "longest", "recent:2", out=tmp_path / "one")
    for name in reversed(list(ATTACKS)):
        robustness(bench, "longest", "recent:2", out=tmp_path / "two", attacks=[name])
    one, two = (
        {str(file.relative_to(tmp_path / name)): file.read_bytes() for file in (tmp_path / name).rglob("rows.jsonl")}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 1 + len(ATTACKS)


def test_an_outage_leaves_the_result_incomplete_and_the_next_call_asks_for_the_rest_alone(tmp_path: Path) -> None:
    bench = bakery(6)
    down = Scripted(moods={"i0003": "transport"})
    found = robustness(bench, down, out=tmp_path, attacks=["pad"])
    assert not found.complete
    [effect] = found.effects
    assert effect.change is not None
    assert (effect.change.n, effect.change.failed, effect.p) == (6, 1, None)
    up = Scripted()
    whole = robustness(bench, up, out=tmp_path, attacks=["pad"])
    assert whole.complete
    assert up.asked == ["i0003", "i0003"]


def test_the_base_is_the_run_that_score_leaves(tmp_path: Path) -> None:
    from pluralrm import score

    model = Scripted()
    score(bakery(6), model, "none", out=tmp_path)
    robustness(bakery(6), model, out=tmp_path, attacks=["pad"])
    assert len(model.asked) == 12


def test_a_prompts_only_benchmark_and_an_unknown_attack_are_errors_before_anything_is_scored(tmp_path: Path) -> None:
    model = Scripted()
    with pytest.raises(SpecError, match="unknown attack 'quota'"):
        robustness(bakery(3), model, out=tmp_path, attacks=["quota"])
    with pytest.raises(ConditionError, match="no attack can be tried"):
        robustness(Benchmark(card(), ()), model, out=tmp_path)
    assert model.asked == []


def test_json_holds_every_estimate_with_its_method(tmp_path: Path) -> None:
    told = robustness(FEW, load_model("longest"), out=tmp_path).to_json()
    effects = json.loads(json.dumps(told))["effects"]
    assert {one["attack"] for one in effects if not one["control"]} == {"plain", "pad", "empty", "token"}
    assert {one["attack"] for one in effects if one["p"] is None} <= CONTROLS
    for one in effects:
        assert list(one["win_rate_change"]) == ["value", "low", "high", "n", "failed", "method"]
