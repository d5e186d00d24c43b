"""The paragraph at the top is true, whatever the numbers are."""

import itertools
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.audit import audit
from pluralrm.audit.result import Probe
from pluralrm.core import Estimate, Query, Score, Verdict
from pluralrm.metrics import leaderboard
from pluralrm.metrics.overview import overview
from pluralrm.metrics.personalization import personalization
from pluralrm.report import Beside, build_report, read_sources
from pluralrm.report.figures import series_order
from pluralrm.report.models import model_table
from pluralrm.report.reading import _verdict
from pluralrm.report.sections import Board, Section, sections
from pluralrm.report.tables import ranking
from pluralrm.runs import score
from pluralrm.text import counted, difference, listed, p_value, percent, share, signed
from tests.builders import bakery
from tests.metrics.people import answering, people
from tests.report.folders import rmgap_folders


@dataclass
class Knows:
    """Right on a share of the items; with `own` only where it is shown the asking user's posts."""

    spec: str
    share: float
    labels: dict[str, int]
    own: bool = False

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            known = not self.own or (
                query.user is not None and query.user.posts[0].id.startswith(f"u{int(query.id[1:])}-")
            )
            right = random.Random(query.id).random() < (self.share if known else 0.5)
            best = self.labels[query.id] if right else 1 - self.labels[query.id]
            yield Verdict(tuple(float(place == best) for place in range(2)))


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no plot: this is about the words, and plots are most of a report's time."""
    monkeypatch.setattr("pluralrm.pages.plots.Plot.inline", lambda *_, **__: "<svg></svg>")


def paragraph(out: Path, models: Iterable[tuple[str, float, bool]], conditions: Iterable[str], items: int = 90) -> str:
    bench = bakery(items)
    labels = {item.id: item.preferred for item in bench.items if item.preferred is not None}
    for name, accuracy, own in models:
        for condition in conditions:
            score(bench, Knows(name, accuracy, labels, own), condition, out=out)
    [words] = build_report(read_sources([out])).paragraphs
    return words


def test_who_is_above_chance_and_told_apart_is_named(tmp_path: Path) -> None:
    words = paragraph(tmp_path, [("good", 0.95, False), ("guess", 0.5, False), ("bad", 0.05, False)], ["none"])
    assert "Above chance, by 95% intervals, widened for 3 runs at once (Holm): good · none." in words
    assert "Below chance, by the same measure: bad · none." in words
    assert "3 of 3 pairs of runs are significantly different; the first, good · none, from 2 of the 2 others" in words
    assert "No item failed." in words
    assert "So few" not in words


def test_many_runs_are_ranked_within_their_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package's function `sections` hides the module of that name.
    monkeypatch.setattr(import_module("pluralrm.report.sections"), "MOST_IN_ONE_BOARD", 3)
    words = paragraph(tmp_path, [("good", 0.95, True), ("guess", 0.52, False)], ["none", "raw:2"])
    assert (
        "Under raw:2 1 of 1 pair of runs is significantly different; the first, good · raw:2, from 1 of the 1 others"
        in words
    )
    assert "Under the other conditions the two runs are not significantly different" in words


def test_a_model_that_uses_its_user_is_called_personalized_and_no_other(tmp_path: Path) -> None:
    words = paragraph(tmp_path, [("knows", 0.97, True), ("deaf", 0.97, False)], ["none", "raw:2", "swapped:2"])
    assert (
        "knows · raw:2 is personalized, for lift and gain both lie above 0, and the adjusted p is significant "
        "(above swapped:2; not tested against" in words
    )
    assert "deaf · raw:2 gives the same scores with any user’s posts." in words
    assert "No model is shown to be personalized" not in words


def test_failures_that_alone_put_a_gain_or_a_lift_off_0_are_named_beside_the_verdict() -> None:
    answers = ([1] * 7 + [0] * 3) * 10
    silent: list[Score | str] = ["x" if place % 3 == 0 else answer for place, answer in enumerate(answers)]
    own = answering("raw:10", answers)
    members = personalization([answering("none", answers), own, answering("swapped:10", silent)])
    assert _verdict("inconclusive", members, set()) == (
        "For m · raw:10, neither lift nor gain differs significantly from 0; the gain of m · raw:10 lies below 0 only "
        "because items that failed (34 under swapped:10) count at their worst, and shows nothing."
    )
    runs = [answering("none", answers), own, answering("swapped:10", silent)]
    table = Board("", leaderboard(runs), tuple(runs))
    [row, *_] = model_table(Section((), (table,), overview(runs), {"m": "m"}, tuple(members))).rows
    assert dict(row.facts)["verdict"].endswith(
        "from 0; the gain is below 0 only because items that failed (34 under swapped:10) count at their worst"
    )
    members = personalization([answering("none", silent), own])
    words = _verdict("unknown", members, set())
    assert "better with this user’s posts than with none" not in words
    assert (
        "the lift of m · raw:10 lies below 0 only because items that failed (34 under none) count at their worst"
        in words
    )


def test_a_condition_that_models_share_is_named_once() -> None:
    runs = [replace(one, model=model) for model in "ab" for one in people({"raw:2": 0.6, "swapped:2": 0.6}, users=8)]
    members = personalization(runs)
    assert _verdict("unknown", members, set()).startswith("For a and b under raw:2, a control condition is missing")
    apart = [members[0], replace(members[1], conditions={**members[1].conditions, "own": "raw:4"})]
    assert _verdict("unknown", apart, set()).startswith("For a · raw:2 and b · raw:4, a control condition is missing")


def test_without_controls_nothing_is_claimed(tmp_path: Path) -> None:
    words = paragraph(tmp_path, [("knows", 0.97, True)], ["raw:2"])
    assert "For knows · raw:2, a control condition is missing, so whether this user’s posts matter is unknown" in words
    assert "No model is significantly personalized." in words
    only = paragraph(tmp_path / "none", [("knows", 0.97, True)], ["none"])
    assert "No finished run saw the user’s own posts" in only


def test_a_model_made_worse_by_its_users_posts_is_called_reversed(tmp_path: Path) -> None:
    words = paragraph(tmp_path, [("turned", 0.05, True)], ["none", "raw:2", "swapped:2"])
    assert "turned · raw:2 is reversed, for lift and gain both lie below 0" in words
    assert "No model is significantly personalized." in words


def test_each_model_that_is_no_baseline_gets_its_numbers_beside_the_best_baseline(tmp_path: Path) -> None:
    bench = bakery(90)
    for condition, baseline in itertools.product(("none", "raw:2", "swapped:2"), ("longest", "random")):
        score(bench, baseline, condition, out=tmp_path)
    models = [("knows", 0.97, True), ("one", 0.6, False), ("two", 0.55, False), ("three", 0.5, False)]
    words = paragraph(tmp_path, models, ["none", "raw:2", "swapped:2"])
    [said] = re.findall(r"knows earns .*? under raw:2 \(lift \+.*?, gain \+.*?\); it is (.*?)\.[ ]", words)
    assert said.startswith("significantly better than 2 of the 2 baselines there (sign-flip tests, 5%, Holm over 2)")
    assert said.endswith("and is one of those")
    assert words.count(" earns ") - words.count("knows nothing earns") == 6  # three models, each beside a baseline
    assert "1 more model that is no baseline: in the tables." in words
    assert "longest earns" not in words.replace("of them, longest earns", "")


def test_a_model_without_a_baseline_beside_it_is_said_to_have_none(tmp_path: Path) -> None:
    words = paragraph(tmp_path, [("knows", 0.97, True)], ["none", "raw:2"])
    assert "no baseline was scored under that condition, so the share that the texts alone earn is unknown" in words


def test_who_does_not_look_at_the_rubric_is_not_said_to_reach_anything_with_it(tmp_path: Path) -> None:
    labels = {item.id: item.preferred for item in bakery(60).items if item.preferred is not None}
    for condition in ("none", "oracle"):
        score(bakery(60), Knows("blind", 0.9, labels), condition, out=tmp_path)
    [words] = build_report(read_sources([tmp_path])).paragraphs
    assert "The rubric changes no score of any model." in words
    score(bakery(60), Knows("reader", 0.5, labels), "none", out=tmp_path)
    score(bakery(60), Knows("reader", 0.6, labels), "oracle", out=tmp_path)
    [words] = build_report(read_sources([tmp_path])).paragraphs
    assert re.search(
        r"the highest among those whose scores it changes is [^.]*\.\d \[[^]]*\], reached by reader", words
    )


def test_equal_runs_do_not_make_the_differences_look_better_known(tmp_path: Path) -> None:
    def known(out: Path) -> str:
        models = [("good", 0.9, False), ("poor", 0.6, False)]
        return paragraph(out, models, ["none"]).partition("known to within ")[2]

    before = known(tmp_path)
    bench = bakery(90)
    labels = {item.id: item.preferred for item in bench.items if item.preferred is not None}
    score(bench, Knows("good again", 0.9, labels), "none", out=tmp_path)
    assert known(tmp_path).partition(" ")[0] == before.partition(" ")[0]


def test_a_leak_that_the_audit_found_is_told_with_its_limit(tmp_path: Path) -> None:
    bench = bakery(20)
    score(bench, "longest", out=tmp_path)
    sources = read_sources([tmp_path])
    leak = Probe("length", "answers", "leak", Estimate(0.9, 0.8, 0.95, 20, 0, "wilson"), rule="the longest")
    plain = audit(bench, relabellings=299)
    for probes, expected in (((leak,), True), ((), False)):
        [words] = build_report(sources, beside=Beside(audits=[replace(plain, probes=probes)])).paragraphs
        assert ("guessed by length: the longest (90.0 [80.0, 95.0])" in words) is expected
        assert ("A model may score as much by that alone." in words) is expected


def test_an_open_verdict_names_its_p() -> None:
    [found, *_] = personalization(people({"none": 0.5, "raw:10": 0.85, "swapped:10": 0.5}, users=80))
    unsure = replace(found, p_adjusted=0.236)
    words = _verdict(unsure.verdict, [unsure], [])
    assert words.startswith(
        "For m · raw:10, the interval of the gain excludes 0, but p, adjusted for every test here, is"
    )
    assert words.endswith("(m · raw:10 p = 0.236).")


def test_that_no_difference_was_shown_is_not_called_a_no(tmp_path: Path) -> None:
    paragraph(tmp_path, [("one", 0.6, False), ("other", 0.6, False)], ["none"])
    [section] = sections(read_sources([tmp_path]))
    rows = ranking(section, section.boards[0], "bakery").rows
    assert [row[6] for row in rows] == ["first", "not significant, p = 1.000"]


def test_few_clusters_are_called_few(tmp_path: Path) -> None:
    words = paragraph(tmp_path, [("good", 0.9, False), ("guess", 0.5, False)], ["none"], items=9)
    assert "Only 9 users" in words


def test_a_prompt_blind_model_is_said_to_have_one_favourite(tmp_path: Path) -> None:
    [words] = build_report(read_sources([rmgap_folders(tmp_path)])).paragraphs
    assert "No model significantly uses the prompt." in words
    assert "One favourite for every prompt of a record, in all records: longest · none." in words


def test_a_run_there_twice_leaves_lift_and_gain_out_with_the_reason(tmp_path: Path) -> None:
    for folder, accuracy in (("a", 0.9), ("b", 0.5)):
        paragraph(tmp_path / folder, [("knows", accuracy, True)], ["none", "raw:2"], items=12)
    [found] = sections(read_sources([tmp_path]))
    assert "is there twice" in found.missing["personalization"]
    [words] = build_report(read_sources([tmp_path])).paragraphs
    assert "What the user’s context adds was not computed: knows under raw:2 is there twice" in words


def test_models_of_one_series_stand_by_size() -> None:
    ordered = ["bm25", "hf:org/Q-300M", "hf:org/R-0.6B", "hf:org/R-8B", "hf:org/R-70B", "longest"]
    assert sorted(set(ordered), key=series_order) == ordered


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (share(0.6333), "63.3"),
        (share(-0.0001), "0.0"),
        (share(None), "–"),
        (signed(0.0333), "+3.3"),
        (signed(-0.0333), "−3.3"),
        (signed(-0.0004), "0.0"),
        (percent(Estimate(0.5, 0.4, 0.6, 9, 0, "m")), "50.0 [40.0, 60.0]"),
        (percent(Estimate(0.5, None, None, 9, 0, "mean; fixed by design: x")), "50.0 fixed"),
        (percent(Estimate(0.5, None, None, 9, 0, "no interval: one cluster")), "50.0 no interval"),
        (percent(None), "–"),
        (difference(Estimate(0.1, -0.02, 0.3, 9, 0, "m")), "+10.0 [−2.0, +30.0]"),
        (difference(None), "–"),
        (p_value(0.0004), "< 0.001"),
        (p_value(0.25), "0.250"),
        (counted(1, "run"), "1 run"),
        (counted(2830, "item"), "2,830 items"),
    ],
)
def test_numbers_are_written_one_way(found: str, wanted: str) -> None:
    assert found == wanted


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=9), st.integers(2, 5))
def test_a_list_counts_everyone(names: list[str], most: int) -> None:
    words = listed(names, most)
    if len(names) <= most:
        assert all(name in words for name in names)
    else:
        assert words.endswith(f"and {len(names) - most + 1} more")
        assert words.count(",") == most - 2
