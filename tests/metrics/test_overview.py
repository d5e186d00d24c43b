"""One row per model: its numbers are those of its runs, names keep models apart, sentences are short."""

import csv
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Run, Score
from pluralrm.metrics.overview import (
    MOODS,
    WORDS,
    Overview,
    answer,
    model_names,
    overview,
    overview_records,
    overview_table,
    overviews_text,
    sentence,
)
from pluralrm.metrics.personalization import VERDICTS
from pluralrm.specs import short_names
from pluralrm.text import csv_text, latex_text, markdown_text
from tests.builders import left_open
from tests.metrics.people import answering
from tests.worlds import runs_of


def _world(own: float = 1.0) -> list[Run]:
    return list(runs_of("personal", "counter", 0, own=own))


@pytest.fixture(scope="module")
def found() -> Overview:
    return overview(_world())


def _names(found: Overview) -> dict[str, str]:
    return short_names([row.model for row in found.rows])


def _share_right(run: Run) -> float:
    """Count by hand: a top score shared by k candidates earns 1/k."""
    earned = []
    for row in run.rows:
        scores = [float(score) for score in row.scores if isinstance(score, float)]
        earned.append((scores[row.best[0]] == max(scores)) / scores.count(max(scores)))
    return fmean(earned)


def test_a_row_has_the_shares_of_its_own_runs(found: Overview) -> None:
    runs = {run.condition: run for run in _world()}
    [row] = found.rows
    assert row.personal is not None
    assert row.personal.lift is not None
    assert row.personal.gain is not None
    own, none = _share_right(runs[row.condition]), _share_right(runs["none"])
    other = _share_right(runs[row.personal.conditions["swapped"]])
    assert row.metrics["accuracy"].value == pytest.approx(own, abs=1e-12)
    assert row.personal.lift.value == pytest.approx(own - none, abs=1e-12)
    assert row.personal.gain.value == pytest.approx(own - other, abs=1e-12)
    assert found.resolution == pytest.approx((row.personal.gain.high or 0) / 2 - (row.personal.gain.low or 0) / 2)


def test_a_gain_that_lies_below_zero_by_failed_items_alone_is_explained_where_it_stands() -> None:
    own: Sequence[Score | str] = ["x"] * 15 + [1, 0, 1] * 15
    other: Sequence[Score | str] = ["x"] * 15 + [0, 1, 1] * 15
    world: Mapping[str, Sequence[Score | str]] = {"none": [0] * 15 + [1, 1, 0] * 15, "raw:10": own, "swapped:10": other}
    [row] = (found := overview([answering(name, answers) for name, answers in world.items()])).rows
    assert row.personal is not None
    assert row.personal.verdict == "inconclusive"
    assert row.personal.gain is not None
    assert row.personal.gain.high is not None
    assert row.personal.gain.high < 0
    assert sentence(row, found, {row.model: "m"}) == (
        "m is not significantly personalized; the gain is below 0 only because items that failed "
        "(15 under raw:10 and 15 under swapped:10) count at their worst."
    )


def test_control_conditions_have_no_row_and_a_model_without_own_context_has_one(found: Overview) -> None:
    runs = _world()
    assert [row.condition for row in found.rows] == list(found.own)
    plain = replace(next(run for run in runs if run.condition == "none"), model="prompt-only")
    both = overview([*runs, plain])
    assert {(row.model, row.condition) for row in both.rows} == {
        (runs[0].model, found.own[0]),
        ("prompt-only", "none"),
    }
    alone = next(row for row in both.rows if row.model == "prompt-only")
    assert (alone.personal, alone.verdict) == (None, "")
    assert sentence(alone, both, _names(both)) == "prompt-only did not see the user's posts."


def test_the_order_of_runs_and_the_names_of_users_change_nothing(found: Overview) -> None:
    shuffled = random.Random(3).sample(_world(), len(_world()))
    assert overview(shuffled).rows == found.rows


def test_an_unfinished_run_has_no_verdict_and_no_rank(found: Overview) -> None:
    runs = _world()
    own = next(run for run in runs if run.condition == found.own[0])
    gaps = left_open(own, {row.item for row in own.rows[:5]})
    seen = overview([run for run in runs if run is not own] + [gaps])
    [row] = seen.rows
    assert (row.rank, row.personal, row.verdict) == (None, None, "incomplete: 155 of 160 items")
    assert answer(seen, _names(seen)) == ""
    assert "run the same command again" in sentence(row, seen, _names(seen))


def test_the_answer_has_at_most_thirty_words_and_names_who_is_personalized(found: Overview) -> None:
    told = answer(found, _names(found))
    assert told.startswith("1 of 1 model is personalized: ")
    assert len(told.split()) <= 30
    assert len(sentence(found.rows[0], found, _names(found)).split()) <= 30


def test_a_model_that_decides_little_is_said_to() -> None:
    # A judge that always names the first answer ties every item: that it ignores the user is the lesser news.
    for ties, text in ((40, "It decides little: 40 of 40 items are ties."), (20, "20 of 40 items are ties."), (19, "")):
        answers: list[Score | str] = [0.5 if place < ties else 1 for place in range(40)]
        runs = [answering(condition, answers) for condition in ("none", "raw:10", "swapped:10")]
        [row] = (tied := overview(runs)).rows
        said = sentence(row, tied, _names(tied))
        assert said.startswith("m ignores the user")
        assert said.endswith(text)
        assert ("decides little" in said) == bool(text)


def test_what_failures_cost_a_blind_model_has_an_interval() -> None:
    # How many items failed is a number of this sample, not of the design.
    runs = [answering(condition, ["x", 1, 0, 1] * 10) for condition in ("none", "raw:10", "swapped:10")]
    [row] = overview(runs).rows
    assert row.verdict == "ignores user"
    for number in (row.lift, row.gain):
        assert number is not None
        assert number.low is not None
        assert number.high is not None
        assert -1 < number.low < number.value == -0.25 < number.high < 0


def test_every_verdict_has_a_word() -> None:
    assert WORDS.keys() == VERDICTS.keys()


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (["hf:/a/b/rm,dtype=bf16", "hf:/a/c/rm,dtype=bf16"], ["b/rm", "c/rm"]),
        (["judge:m,url=http://x/v1,style=pairwise", "judge:m,url=http://x/v1"], ["m,style=pairwise", "m"]),
        (["bm25", "hf:x/bm25"], ["bm25", "hf:bm25"]),
        (["hf:a/rm,x=1", "hf:b/rm,x=1", "hf:b/rm,x=2"], ["a/rm", "b/rm,x=1", "b/rm,x=2"]),
        (["vllm:http://h:1", "vllm:http://h:2"], ["h:1", "h:2"]),
    ],
)
def test_names_leave_out_what_all_share_and_never_what_differs(models: Sequence[str], names: Sequence[str]) -> None:
    assert list(short_names(models).values()) == names


_PART = st.sampled_from(["a", "b", "rm", "models"])
_MODEL = st.builds(
    lambda kind, parts, options: ",".join([f"{kind}:/{'/'.join(parts)}", *sorted(options)]),
    st.sampled_from(["hf", "judge"]),
    st.lists(_PART, min_size=1, max_size=3),
    st.sets(st.sampled_from(["x=1", "x=2", "y=1", "z=3"]), max_size=2),
)


@given(st.lists(_MODEL, min_size=1, max_size=5, unique=True))
def test_no_two_models_have_one_name_and_no_name_is_longer_than_the_model(models: Sequence[str]) -> None:
    names = short_names(models)
    assert all(names[one] != names[other] for one, other in combinations(models, 2))
    assert all(len(name) <= len(model) for model, name in names.items())
    assert not any(name.startswith("/") for name in names.values())


def test_records_and_the_paper_table_hold_the_numbers_of_the_rows(found: Overview) -> None:
    names = _names(found)
    [record] = overview_records(found, names)
    [row] = found.rows
    assert row.personal is not None
    assert row.personal.gain is not None
    assert (record["value"], record["gain"], record["gain_low"]) == (
        row.metrics["accuracy"].value,
        row.personal.gain.value,
        row.personal.gain.low,
    )
    assert record["other"] == row.personal.accuracy["swapped"].value
    read = list(csv.DictReader(io.StringIO(csv_text([record]))))
    assert [float(read[0][key]) for key in ("value", "lift", "gain_high")] == [
        record[key] for key in ("value", "lift", "gain_high")
    ]
    head, [cells] = overview_table(found, names)
    assert len(head) == len(cells)
    assert cells[head.index("gain (own - other)")].startswith(f"{100 * row.personal.gain.value:+.1f} [")
    assert cells[-1] in markdown_text(head, [cells])


def test_a_model_with_any_name_breaks_no_table() -> None:
    name = "=a|b_$%&\\{}~^<x>\n#*`"
    [row] = csv.reader(io.StringIO(csv_text([{"model": name}]).split("\n", 1)[1]))
    assert row == [f"'{name}"]
    assert markdown_text(["model", "n"], [[name, "-1"]]).splitlines()[2].replace("\\|", "").count("|") == 3
    assert latex_text(["m", "n"], [[name, "−1"]]).splitlines()[4] == (
        r"=a|b\_\$\%\&\textbackslash{}\{\}\textasciitilde{}\textasciicircum{}\textless{}x\textgreater{} \#*` & $-$1 \\"
    )


def test_every_verdict_of_a_side_has_its_colour() -> None:
    assert set(MOODS) <= set(WORDS.values())
    assert [MOODS.get(WORDS[one], "") for one in ("personalized", "reversed", "lift only", "blind")] == [
        "good",
        "bad",
        "partial",
        "",
    ]


def test_several_overviews_are_one_csv_and_a_table_each(found: Overview) -> None:
    names = [_names(found)] * 2
    both = csv.DictReader(io.StringIO(overviews_text([found, found], names, "csv")))
    assert [row["benchmark"] for row in both] == [found.benchmark] * 2
    assert overviews_text([found, found], names, "markdown").count("| :-- |") == 2
    assert overviews_text([found, found], names, "latex").count(r"\bottomrule") == 2


def test_a_model_goes_by_the_name_that_its_user_gave_it_unless_another_has_it() -> None:
    runs = [replace(run, model="hf:/a/rm") for run in _world()[:1]]
    runs += [replace(runs[0], model="hf:/b/rm"), replace(runs[0], model="bm25")]
    assert model_names(runs) == {"hf:/a/rm": "a/rm", "hf:/b/rm": "b/rm", "bm25": "bm25"}
    assert model_names([replace(runs[0], name="ours"), *runs[1:]])["hf:/a/rm"] == "ours"
    twins = [replace(runs[0], name="ours"), replace(runs[1], name="ours"), runs[2]]
    assert model_names(twins) == {"hf:/a/rm": "a/rm", "hf:/b/rm": "b/rm", "bm25": "bm25"}
    assert model_names([replace(runs[0], name="bm25"), *runs[1:]])["hf:/a/rm"] == "a/rm"
