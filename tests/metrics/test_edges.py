"""What metrics refuse by name, and what they say where a number, a count or a name is missing."""

import json
import random
from dataclasses import asdict, replace

import pytest

from pluralrm.core import Estimate, Failure, Reveals, Run, Vote
from pluralrm.errors import MetricError, SpecError
from pluralrm.metrics import leaderboard, published
from pluralrm.metrics.agreement import TITLES, Scaled, Votes, agreement, consensus
from pluralrm.metrics.calibration import calibration
from pluralrm.metrics.comparison import against_chance
from pluralrm.metrics.contrast import margins, tag_records
from pluralrm.metrics.estimates import headline, synthesised_notes, trained_notes
from pluralrm.metrics.leaderboard import uneven_posts
from pluralrm.metrics.official.formula import PlaceAccuracy
from pluralrm.metrics.overview import Comparison, answer, half_width, leaders, overview, sentence
from pluralrm.metrics.roles import roles
from pluralrm.metrics.units import groups, top_credit
from pluralrm.specs import short_names
from tests.builders import card
from tests.metrics.people import answering, people, told
from tests.metrics.rows import RESPONSES, Scorer, chance, constant, prompt_blind, records, row, run, users


def test_a_row_that_consistency_cannot_compare_is_refused() -> None:
    [first, *_] = records(1, chance)
    with pytest.raises(MetricError, match="does not name its candidates"):
        groups([replace(first, candidate_ids=())])
    with pytest.raises(MetricError, match="repeats phrasing '0' of its group"):
        groups([first, replace(first, item="again")])


def test_a_card_with_an_unknown_metric_names_the_known_ones() -> None:
    one = run(users(4, 0.5))
    with pytest.raises(MetricError, match=r"asks for the metrics sense; wanted one or more of .*accuracy"):
        headline(replace(one, card=replace(one.card, metrics=("sense",))))
    with pytest.raises(MetricError, match="asks for the metrics none"):
        headline(replace(one, card=replace(one.card, metrics=())))


def test_a_failed_item_has_no_margin() -> None:
    scored, failed = row("a", (2.0, 1.0)), row("b", (Failure("parse"), 0.0))
    assert margins([scored, failed])[1] == 0
    assert margins([scored, failed])[0] > 0


def test_one_cluster_lies_on_no_side_of_chance() -> None:
    alone = run([row(f"i{place}", (1.0, 0.0), cluster="u") for place in range(30)])
    told = against_chance([alone])
    assert (told.above, told.below) == ((), ())
    weak = [run(users(60, 0.62, seed=seed), model=f"m{seed}") for seed in range(6)]
    strong = run(users(200, 0.95), model="strong")
    found = against_chance([*weak, strong])
    assert 6 in found.above
    assert len(found.above) < 7, "an interval that Holm widens reaches chance again"


def test_numbers_for_json_are_those_of_the_object() -> None:
    found = calibration(run([*users(40, 0.7), row("gone", (Failure("parse"),) * 2)]))
    told = json.loads(json.dumps(found.to_json()))
    assert told["error"]["value"] == found.error.value
    assert found.bounds is not None
    assert told["bounds"] == found.bounds._asdict()
    assert PlaceAccuracy(3, None)._asdict() == {"items": 3, "accuracy": None}


def test_unequal_inputs_are_told_with_the_mean_of_each_model() -> None:
    few, many = ([replace(one, posts=posts) for one in users(12, 0.7)] for posts in (2, 5))
    [told] = uneven_posts([run(few, model="few", condition="raw:5"), run(many, model="many", condition="raw:5")])
    assert told.to_json() == asdict(told) | {"mean_posts": {"few": 2.0, "many": 5.0}}
    assert leaderboard([run(few, model="few", condition="raw:5"), run(many, model="many", condition="raw:5")]).entries


def test_a_judge_that_ranks_and_was_not_asked_in_the_drawn_order_counts_as_first_asked() -> None:
    rows = records(2, chance)
    places = tuple(range(4))
    votes = [tuple(Vote(order, ">".join(map(str, order))) for order in (places, places[::-1])) for _ in rows]
    asked = run([replace(one, votes=each) for one, each in zip(rows, votes, strict=True)], model="judge:m")
    told = published(asked)["bon"]
    assert told.value is not None
    assert "the drawn order was not asked on" in told.reason


def test_a_name_that_is_no_spec_has_no_ratings() -> None:
    """As in runs that were scored elsewhere: a failed item is no 5 there."""
    unread = (Failure("parse"),) * 4
    rows = [replace(one, scores=one.scores if place % 3 else unread) for place, one in enumerate(records(4, constant))]
    named = {name: _whole(run(rows, model=name)) for name in ("judge:m,style=pointwise", "some-lab/model", "judge:m")}
    rated, other, pairwise = (published(one)["pair"] for one in named.values())
    assert "unreadable rating" in rated.reason
    assert "unreadable rating" not in other.reason
    assert other.value == pairwise.value


def _whole(found: Run) -> Run:
    return replace(found, card=replace(found.card, name="rmgap"))


def test_how_controls_differ_is_noted() -> None:
    answers = [1, 0, 1, 1, 0, 1]
    own: frozenset[Reveals] = frozenset({"pairs"})
    other: frozenset[Reveals] = frozenset({"other_pairs"})
    unknown = answering("pairs:4", answers, reveals=own)
    lent = answering("pairs:4,of=swapped", answers, reveals=other)
    lent = replace(lent, rows=tuple(replace(one, pairs=4, lenders=2) for one in lent.rows))
    [found] = roles([unknown, lent, answering("none", answers)])
    assert "how many pairs were seen is not recorded under pairs:4" in " ".join(found.notes)
    assert "in 6 of 6 items several users lent together" in " ".join(found.notes)


def test_names_that_nothing_keeps_apart_stay_as_they_are() -> None:
    assert short_names(["hf:a/m", "hf:/a/m"]) == {"hf:a/m": "hf:a/m", "hf:/a/m": "hf:/a/m"}
    assert half_width(Estimate(0.5, None, None, 1, 0, "no interval")) is None
    assert half_width(Estimate(0.5, 0.25, 0.5, 9, 0, "")) == 0.125


def test_coefficients_have_titles_and_one_item_has_no_interval() -> None:
    one = agreement(Votes(("i", "i"), ("a", "b"), ("yes", "yes"), Scaled(("no", "yes"))))
    assert {coefficient.title for coefficient in one} <= set(TITLES.values())
    assert {coefficient.estimate.low for coefficient in one if coefficient.estimate} == {None}


def test_items_whose_most_frequent_label_is_not_the_consensus_are_named() -> None:
    """Two who know little say yes to what one who is always right calls no."""
    rng = random.Random(0)
    truth = [rng.choice(["no", "yes"]) for _ in range(60)]
    said = {"knows": truth, **{name: [rng.choice(["no", "yes"]) for _ in truth] for name in ("one", "two")}}
    rows = [(f"i{n:02}", name, labels[n]) for name, labels in said.items() for n in range(60)]
    items, names, labels = zip(*rows, strict=True)
    found = consensus(Votes(items, names, labels, Scaled(("no", "yes"))))
    assert found.differ
    assert all(one.most_frequent != one.consensus for one in found.differ)
    assert {one.item for one in found.differ} < {one.item for one in found.said}


def test_notes_are_one_sentence_each() -> None:
    pairs = [answering("pairs:4", [1, 0], model=name, reveals=frozenset({"pairs"})) for name in ("a", "b")]
    written = [replace(one, card=replace(one.card, pairs="pairs that a chat model wrote")) for one in pairs]
    assert synthesised_notes(written) == ["SYNTHESISED: under pairs:4 models were shown pairs that a chat model wrote"]
    assert synthesised_notes(pairs) == []
    trained = [replace(one, trained=("30 of 60 users",)) for one in pairs]
    assert trained_notes(trained) == ["TRAINED: 30 of 60 users"]


def test_only_some_verdicts_say_what_they_withstood() -> None:
    found = told(people({"raw:10": 0.6, "none": 0.6, "swapped:10": 0.6}, users=30))
    assert found.verdict not in {"personalized", "by subject", "unequal"}
    assert found.standing == ""


# ---------------------------------------------------------------- one row per model, on prompts alone


def _blind(record: str, item: str, name: str) -> float:
    return prompt_blind(record, item, name)


def _knowing(record: str, item: str, name: str) -> float:
    """Right in nine of ten."""
    winner = RESPONSES[int(item.split("/")[1])]
    return float(name == winner) if chance(record, item, "coin") < 0.9 else chance(record, item, name)


def _sentences(*scorers: Scorer) -> list[str]:
    runs = [run(records(24, scorer), model=f"m{place}") for place, scorer in enumerate(scorers)]
    found = overview(runs)
    names = {row.model: row.model for row in found.rows}
    said = {row.model: sentence(row, found, names) for row in found.rows}
    return [*(said[f"m{place}"] for place in range(len(scorers))), leaders(found, names)]


def test_what_is_said_of_models_on_prompts_alone() -> None:
    reads, blind, guesses, first = _sentences(_knowing, _blind, chance)
    assert reads.startswith("m0 reads the prompt: its choice earns +")
    assert blind == "m1 ignores the prompt: its scores are the same for every prompt of a record."
    assert guesses.startswith("m2's prompt sensitivity is not significantly above 0")
    assert first == "Best: m0."
    assert _sentences(chance, lambda record, item, name: chance(item, record, name))[-1] == (
        "Rank 1-2 of 2: no two models differ significantly."
    )
    assert _sentences(chance)[-1] == ""
    *_, several = _sentences(_knowing, _knowing, chance)
    assert several == "May be the best: m0 and m1."


def test_a_model_that_saw_the_rubric_is_an_upper_bound_and_one_without_prompts_to_read_says_nothing() -> None:
    seen = answering("oracle", [1] * 20, model="m", reveals=frozenset({"oracle"}))
    plain = answering("none", [1, 0] * 10, model="other", reveals=frozenset())
    found = overview([plain, seen])
    names = {row.model: row.model for row in found.rows}
    [upper] = [row for row in found.rows if row.oracle]
    assert (upper.verdict, upper.rank) == ("sees the rubric", None)
    assert sentence(upper, found, names) == "m saw the rubric: an upper bound, not ranked."
    [other] = [row for row in found.rows if not row.oracle]
    assert sentence(other, found, names) == ""


def test_an_answer_without_an_interval_says_no_more_than_the_count() -> None:
    found = overview(people({"raw:10": 0.9, "none": 0.5, "swapped:10": 0.5}, users=60))
    [row] = found.rows
    assert row.personal is not None
    gain = row.personal.gain
    assert gain is not None
    blunt = replace(row.personal, numbers={**row.personal.numbers, "gain": replace(gain, low=None, high=None)})
    without, names = replace(found, rows=(replace(row, personal=blunt),)), {row.model: row.model}
    assert answer(without, names).startswith("1 of 1 model is personalized: m (gain +")
    assert "settle each gain" not in answer(without, names)
    assert "60 users settle each gain to within ±" in answer(found, names)


def test_no_sentence_says_more_than_the_intervals() -> None:
    rates = {"raw:10": 0.72, "none": 0.72, "swapped:10": 0.62}  # own against swapped is settled, none against it is not
    found = overview(people(rates, users=400, personal=0.0))
    [row] = found.rows
    assert row.personal is not None
    assert row.personal.verdict == "gain only"
    words = sentence(row, found, {"m": "m"})
    assert words == "m does better with the user's own context than another's, not significantly than none."


def test_a_model_that_ignores_the_user_and_fails_has_its_failures_named() -> None:
    rows = [row(f"i{n}", (Failure("parse"), 0.0) if n < 3 else (1.0, 0.0), cluster=f"u{n}") for n in range(60)]
    runs = people({"raw:10": 0.7, "none": 0.7, "swapped:10": 0.7}, users=60, items=1)
    found = overview([replace(each, rows=tuple(rows)) for each in runs])
    [only] = found.rows
    assert only.personal is not None
    assert only.personal.verdict == "blind"
    assert sentence(only, found, {"m": "m"}).endswith(
        "with any user's context; failed items count -5.0 points at worst."
    )


def test_runs_that_cannot_be_compared_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MetricError("rows of other items")

    monkeypatch.setattr("pluralrm.metrics.overview.personalization", refuse)
    assert overview(people({"none": 0.5}, users=20)).unmeasured == "rows of other items"


def test_rows_that_cannot_show_whether_the_prompt_is_read_say_nothing_of_it() -> None:
    rows = [replace(one, tags={"record": "r"}) for one in users(20, 0.7)]
    found = overview([run(rows, card=card())])
    assert [row.sensitivity for row in found.rows] == [None]


def test_a_comparison_is_text_in_each_form() -> None:
    found = Comparison((overview(people({"raw:10": 0.9, "none": 0.5, "swapped:10": 0.5}, users=30)),))
    assert "raw:10" in str(found)
    assert found.to_latex() == found.to_text("latex")
    assert "tabular" in found.to_latex()
    with pytest.raises(SpecError, match="form is 'pdf'; wanted csv"):
        found.to_text("pdf")  # type: ignore[arg-type] # a user's slip


@pytest.mark.parametrize("tag", ["shift", "domain"])
def test_records_by_tag_are_the_means_of_their_items(tag: str) -> None:
    runs = people({"raw:10": 0.8, "none": 0.5, "swapped:10": 0.6}, users=40)
    places = range(len(runs[0].rows))
    tagged = [
        replace(
            one,
            card=card(average="macro"),
            rows=tuple(
                replace(one.rows[place], tags={"shift": "day" if place % 3 else "night"}, domain=f"d{place % 2}")
                for place in places
            ),
        )
        for one in runs
    ]
    own, none, swapped = ([top_credit(row) for row in one.rows] for one in tagged)
    names = {"m": "mine"}
    records = tag_records(tagged[:1], tagged, tag, names)
    values = {"shift": ["day", "night"], "domain": ["d0", "d1"]}[tag]
    assert [record[tag] for record in records][:2] == values
    for record in records[:2]:
        at = [
            place
            for place in places
            if record[tag] == (("day" if place % 3 else "night") if tag == "shift" else f"d{place % 2}")
        ]
        for name, other in (("lift", none), ("gain", swapped)):
            assert record[name] == pytest.approx(sum(own[n] - other[n] for n in at) / len(at))
        assert record["accuracy"] == pytest.approx(sum(own[n] for n in at) / len(at))
        assert (record["model"], record["spec"], record["condition"]) == ("mine", "m", "raw:10")
    alone = tag_records(tagged[:1], tagged[:1], tag, names)
    assert [record["lift"] for record in alone[:2]] == [None, None]
    other_items = [tagged[0], replace(tagged[1], benchmark_hash="other")]
    with pytest.raises(MetricError):
        roles(other_items)
    assert [record["gain"] for record in tag_records(tagged[:1], other_items, tag, names)[:2]] == [None, None]
