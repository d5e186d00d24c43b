"""Tie rules by name, for any number of candidates: what they add up to, and what they leave alone."""

import itertools
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.cli.compare import print_boards
from pluralrm.cli.show import print_summary
from pluralrm.core import Failure, Score, Ties
from pluralrm.metrics import by_domain, by_domains, by_tag, leaderboard, measure, published, summary, with_ties
from tests.builders import card
from tests.metrics.rows import chance, constant, records, row, run, users

SCORES = st.lists(st.sampled_from([0.0, 0.5, 0.5, 1.0]), min_size=2, max_size=6)


@settings(deadline=None)
@given(SCORES, st.data())
def test_rules_are_the_ends_of_what_a_draw_among_the_best_can_give(found: list[float], data: st.DataObject) -> None:
    preferred = data.draw(st.integers(0, len(found) - 1))
    base = run([row("i", found, preferred)])
    draws = [place == preferred for place, score in enumerate(found) if score == max(found)]
    earned: list[tuple[Ties, float]] = [
        ("share", sum(draws) / len(draws)),
        ("lose", float(all(draws))),
        ("win", float(any(draws))),
    ]
    for rule, wanted in earned:
        assert measure(with_ties(base, rule)).value == pytest.approx(wanted, abs=1e-12)
    others = [score for place, score in enumerate(found) if place != preferred]
    below, level = (sum(map(test, others)) for test in (found[preferred].__gt__, found[preferred].__eq__))
    equal: list[tuple[Ties, float]] = [("share", 0.5), ("lose", 0.0), ("win", 1.0)]
    for rule, worth in equal:
        value = measure(with_ties(base, rule), "pair").value
        assert value == pytest.approx((below + worth * level) / len(others), abs=1e-12)


@pytest.mark.parametrize("rule", ["lose", "win"])
@pytest.mark.parametrize("width", [2, 3, 4, 7])
def test_a_constant_scorer_earns_nothing_or_all(rule: Ties, width: int) -> None:
    rows = [row(f"i{place}", [2.5] * width, place % width) for place in range(20)]
    told = measure(with_ties(run(rows), rule))
    assert told.value == float(rule == "win")
    assert told.method.endswith(f"ties {rule}")


@pytest.mark.parametrize("rule", ["share", "lose", "win"])
def test_a_failure_earns_nothing_by_any_rule(rule: Ties) -> None:
    scores: list[Score] = [Failure("parse"), Failure("parse")]
    assert measure(with_ties(run([row(f"i{place}", scores) for place in range(9)]), rule)).value == 0


@pytest.mark.parametrize("rule", ["lose", "win"])
def test_consistency_tie_rate_and_the_published_numbers_go_by_no_rule(rule: Ties) -> None:
    for base in (run(records(6, constant)), run(records(6, chance)), run(users(60, 0.6, ties=0.3))):
        plain, ruled = summary(base), summary(with_ties(base, rule))
        names = {"consistency", "all_phrasings", "tie_rate", "failure_rate"} & set(plain.metrics)
        assert {name: plain.metrics[name].value for name in names} == {
            name: ruled.metrics[name].value for name in names
        }
        assert {name: found.value for name, found in published(base).items()} == {
            name: found.value for name, found in published(with_ties(base, rule)).items()
        }


def test_ties_lose_is_what_the_paper_counts() -> None:
    base = run(users(90, 0.6, ties=0.3, failures=0.1))
    assert measure(with_ties(base, "lose")).value == pytest.approx(published(base)["accuracy"].value)


def test_no_claim_rests_on_ties_that_win(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run([row(f"i{place}", [1.0, 1.0], place % 2) for place in range(60)], model="constant")]
    runs.append(run([row(f"i{place}", [1.0, 0.0], place % 2) for place in range(60)], model="first"))
    print_boards(runs, ties="win")
    out = " ".join(capsys.readouterr().out.split())
    assert "Ties win: where other candidates have the preferred one's score, the item is right." in out
    assert "Above chance" not in out
    print_boards(runs, ties="win", as_json=True)
    [board] = json.loads(capsys.readouterr().out)
    assert {entry["ties"] for entry in board["entries"]} == {"win"}
    assert board["entries"][0]["metrics"]["accuracy"]["value"] == 1
    assert board["against_chance"]["above"] == []


# ------------------------------------------------------------ domains


def test_every_metric_per_domain_is_that_of_the_domain_alone() -> None:
    rows = records(9, chance)
    found = by_domains(run(rows))
    assert list(found) == sorted({one.domain for one in rows})
    for domain, metrics in found.items():
        alone = summary(run([one for one in rows if one.domain == domain])).metrics
        assert list(metrics) == ["bon", "pair", "consistency", "all_phrasings"]
        for name, one in metrics.items():
            assert one.value == pytest.approx(alone[name].value, abs=1e-12)
            assert one.n == alone[name].n
            assert (one.low, one.high) == pytest.approx((alone[name].low, alone[name].high), abs=1e-12)
    for name in ("bon", "all_phrasings"):
        headed = run(rows, card=card(metrics=(name,), average="macro"))
        assert {domain: metrics[name] for domain, metrics in found.items()} == by_domain(headed)


def test_domain_is_a_tag_where_no_row_has_one_of_that_name() -> None:
    rows = users(60, 0.7)
    assert set(by_tag(run(rows), "domain").groups) == {"Bread", "Cake", "Pie"}


def test_compare_by_domain_prints_pair_and_consistency_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run(records(12, chance), model="chance"), run(records(12, constant), model="constant")]
    print_boards(runs, by="domain")
    out = capsys.readouterr().out
    for domain in ("Chat", "Writing", "Reasoning", "Safety"):
        title = f"bakery, {domain}: 36 items"
        lines = out[out.index(title) :].splitlines()
        assert " ".join(lines[1].split()) == "model condition BoN [95%] pair [95%] cons. [95%] all 3 [95%]"
        assert len(lines[2]) <= 80
        assert lines[2].count("[") == 4
    print_boards(runs, by="domain", as_json=True)
    [board] = json.loads(capsys.readouterr().out)
    first = board["by"][0]
    assert set(first["domains"]["Chat"]) == {"bon", "pair", "consistency", "all_phrasings"}
    assert set(first["published_domains"]["pair"]) == {"Chat", "Writing", "Reasoning", "Safety"}


def test_show_by_domain_has_the_published_number_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(0)
    rows = [row(f"i{n}", [float(rng.randint(0, 1)), 0.0], domain="ab"[n % 2]) for n in range(40)]
    print_summary(run(rows), by="domain")
    out = capsys.readouterr().out
    strict = {key: f"{100 * sum(one.scores[0] == 1 for one in rows if one.domain == key) / 20:.1f}" for key in "ab"}
    for key, wanted in strict.items():
        tables = [text.split() for text in out.splitlines() if text.split()[:1] == [key]]
        assert tables[0][-1] == wanted
        assert out[out.index(f"bakery, {key}: 20 items") :].splitlines()[3].split()[-1] == wanted


def test_leaderboards_of_different_rules_differ_in_name() -> None:
    runs = [run(users(60, rate, ties=0.3, seed=seed), model=f"m{seed}") for seed, rate in enumerate((0.6, 0.8))]
    methods = [
        {
            entry.summary.metrics["accuracy"].method
            for entry in leaderboard([with_ties(one, rule) for one in runs]).entries
        }
        for rule in ("share", "lose", "win")
    ]
    assert all(not one & other for one, other in itertools.combinations(methods, 2))
