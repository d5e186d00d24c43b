"""After a training: users it has not met are asked, graded, and told of as an Outcome; the report and the alarms."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.errors import BenchmarkError, OutageError
from pluralrm.policies.outcomes import load_outcome
from pluralrm.policies.pool import load_pool
from tests.training.ppo.tones import ToneGrader, tone_of, tones_benchmark
from tests.training.ppo.trained import job

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

pytestmark = pytest.mark.hf


@pytest.fixture(scope="module")
def finished(taught: "LocalPolicy", tmp_path_factory: pytest.TempPathFactory):
    from dataclasses import replace

    from pluralrm.training.ppo import train

    graded = replace(job(taught, max_tokens=20), grader=ToneGrader())
    return graded, train(graded, tmp_path_factory.mktemp("finished"), steps=3)


def test_the_outcome_is_the_mean_grade_of_the_test_users_answers(finished) -> None:
    from pluralrm.training.outcome import outcome

    asked, trained = finished
    found = outcome(asked, trained, ToneGrader(), n=2)
    wanted = {item.id: item for item in asked.parts().test}
    pools = [load_pool(trained.folder / name) for name in ("before-2", "after-3-2")]
    by_hand = []
    for pool in pools:
        assert pool.samples.keys() == wanted.keys()
        right = [
            tone_of(one.text) == wanted[item].tags["tone"] for item, several in pool.samples.items() for one in several
        ]
        by_hand.append(sum(right) / len(right))
    assert [found.before.value, found.after.value] == pytest.approx(by_hand)
    assert found.change.value == pytest.approx(by_hand[1] - by_hand[0])
    assert [[one.seed for one in several] for several in pools[0].samples.values()] == [
        [one.seed for one in several] for several in pools[1].samples.values()
    ]
    written = load_outcome(found.folder)
    assert (written.manifest.kind, written.manifest.way, written.model) == ("ppo", "trained", "letters")
    assert sum(written.grades()) / len(written.rows) == pytest.approx(by_hand[1])
    assert outcome(asked, trained, ToneGrader(), n=2) == found


def test_before_and_after_are_asked_with_weights_as_they_are_held_in_training(
    finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pluralrm.policies.local import open_network
    from pluralrm.training.outcome import outcome

    opened = []

    def seen(folder, how):
        opened.append((folder.path, how.dtype))
        return open_network(folder, how)

    monkeypatch.setattr("pluralrm.policies.local.open_network", seen)
    asked, trained = finished
    outcome(asked, trained, ToneGrader(), n=3)
    assert opened == [(asked.policy.folder.path, "float32"), (trained.policy, "float32")]


def test_an_outcome_says_whose_pairs_its_reward_model_and_its_policy_saw(finished) -> None:
    from dataclasses import replace

    from pluralrm.training.measures import GradeTable, Ungraded
    from pluralrm.training.outcome import _manifest, outcome
    from pluralrm.training.records import read_run

    asked, trained = finished
    outcome(asked, trained, ToneGrader(), n=2)
    pool, run = load_pool(trained.folder / "after-3-2"), read_run(trained.folder)
    card = replace(asked.benchmark.card, pairs="pairs by scribe")
    written = replace(asked, benchmark=replace(asked.benchmark, card=card))

    def told(**shown: tuple[str, ...]) -> tuple[str, str]:
        table, run_of = GradeTable([], [], Ungraded(0, {})), run.model_copy(update=shown)
        found = _manifest(written, written.questions(), run_of, grader=ToneGrader(), pool=pool, table=table)
        return found.pairs, found.policy_pairs

    assert told() == ("", "")
    assert told(reward_reveals=("pairs", "posts")) == ("pairs by scribe", "")
    assert told(reveals=("other_pairs",)) == ("", "pairs by scribe")


def test_the_questions_of_another_benchmark_are_asked_of_the_same_policies(finished) -> None:
    """Held against the pools on disk, graded by hand; users who are trained on or watched are not among them."""
    from pluralrm.training.job import asker
    from pluralrm.training.outcome import outcome

    asked, trained = finished
    other = tones_benchmark(40, 3, seed=5)
    of = asked.questions(other)
    met = {asker(item) for part in asked.parts()[:2] for item in part}
    assert [item.id for item in of.items] == [item.id for item in other.items if asker(item) not in met]
    assert of.left_out == len(other.items) - len(of.items) == 3 * len(met) > 0
    found = outcome(asked, trained, ToneGrader(), n=2, of=of)
    wanted, by_hand = {item.id: item for item in of.items}, []
    for name in ("before-2", "after-3-2"):
        pool = load_pool(trained.folder / of.place / name)
        assert list(pool.samples) == list(wanted)
        right = [
            tone_of(one.text) == wanted[item].tags["tone"] for item, several in pool.samples.items() for one in several
        ]
        by_hand.append(sum(right) / len(right))
    assert [found.before.value, found.after.value] == pytest.approx(by_hand)
    assert found.change.value == pytest.approx(by_hand[1] - by_hand[0])
    assert found.change.n == len(of.items)
    own, theirs = outcome(asked, trained, ToneGrader(), n=2), load_outcome(found.folder)
    assert found.folder != own.folder
    assert (theirs.manifest.benchmark_hash, len(theirs.rows)) == (other.content_hash, len(of.items))
    assert theirs.manifest.pool_hash != load_outcome(own.folder).manifest.pool_hash
    assert outcome(asked, trained, ToneGrader(), n=2, of=of) == found, "what is on disk is not asked again"


def test_questions_that_nobody_could_grade_or_that_are_all_trained_on_are_refused(finished) -> None:
    from dataclasses import replace

    from pluralrm.errors import SpecError

    asked, _ = finished
    with pytest.raises(SpecError, match="no grader for the answers to the questions of tones"):
        replace(asked, grader=None).questions(asked.benchmark)
    trained_on = replace(asked.benchmark, items=asked.parts().train, content_hash="")
    with pytest.raises(BenchmarkError, match="items are of users who are trained on or watched"):
        asked.questions(trained_on)
    with pytest.raises(BenchmarkError, match="tones has no domain 'sport'"):
        replace(asked, domains=["tones", "sport"]).questions(asked.benchmark)


def test_two_rewards_of_one_training_are_models_of_one_column(finished, tmp_path: Path) -> None:
    from dataclasses import replace

    from pluralrm.correlate.columns import columns_of_outcomes
    from pluralrm.training.outcome import outcome
    from pluralrm.training.ppo import train
    from pluralrm.training.rewards import LocalRewarder
    from tests.training.ppo.tones import ToneReward

    asked, trained = finished
    other = replace(asked, rewarder=LocalRewarder(ToneReward(), asked.condition, asked.benchmark))
    folders = [
        outcome(one, done, ToneGrader(), n=2).folder
        for one, done in ((asked, trained), (other, train(other, tmp_path / "other", steps=3)))
    ]
    [column] = columns_of_outcomes([load_outcome(folder) for folder in folders])
    assert column.scores.keys() == {"letters", "tones"}
    assert "ppo" in column.name


def test_a_training_on_another_scale_is_no_model_of_that_column(finished, tmp_path: Path) -> None:
    from dataclasses import replace

    from pluralrm.training.outcome import outcome
    from pluralrm.training.ppo import train
    from pluralrm.training.rewards import parse_shaping

    asked, trained = finished
    clipped = replace(asked, shaping=parse_shaping("raw,clip=0.1"))
    found = [
        load_outcome(outcome(one, done, ToneGrader(), n=2).folder).manifest.pool_hash
        for one, done in ((asked, trained), (clipped, train(clipped, tmp_path / "clipped", steps=3)))
    ]
    assert found[0] != found[1]


def test_an_item_that_failed_before_or_after_is_counted_once_for_the_change() -> None:
    from pluralrm.training.measures import GradeTable, Ungraded
    from pluralrm.training.outcome import _result

    items, one = tones_benchmark(4, 1).items, Ungraded(8, {"parse": 1})
    before, after = (
        GradeTable([0.0, 0.5, 1.0, 0.5], [True, False, False, False], one),
        GradeTable([0.5, 0.0, 1.0, 0.5], [False, True, False, False], one),
    )
    found = _result(items, [before, after], Path())
    assert [one.failed for one in (found.before, found.after, found.change)] == [1, 1, 2]


def test_the_grade_of_answers_that_failed_is_drawn_as_0(finished) -> None:
    from pluralrm.training.outcome import report_page
    from pluralrm.training.records import read_run

    _, trained = finished
    silent = trained.evaluations[max(trained.evaluations)]
    lost = {**trained.evaluations, silent.step: silent.model_copy(update={"grades": (None,) * len(silent.items)})}
    assert f"0 at step {silent.step}." in report_page(read_run(trained.folder), trained.steps, lost)


def test_an_outage_of_the_grader_is_no_grade(taught: "LocalPolicy", tmp_path: Path) -> None:
    from dataclasses import replace

    from pluralrm.core import Failure
    from pluralrm.grading.grader import Graded
    from pluralrm.training.ppo import train

    class Away(ToneGrader):
        def grade(self, answers):
            yield from (Graded(item.id, text, Failure("transport", "gone")) for item, text in answers)

    with pytest.raises(OutageError, match="6 of 6 watched answers have no grade yet"):
        train(replace(job(taught), grader=Away()), tmp_path, steps=1)
    assert not (tmp_path / "held-out.jsonl").exists()
    assert (tmp_path / "checkpoint" / "state.json").exists()


def test_without_test_users_there_is_no_outcome(taught: "LocalPolicy", finished) -> None:
    from pluralrm.training.outcome import outcome

    with pytest.raises(BenchmarkError, match="no test users"):
        outcome(job(taught, test=0.0), finished[1], ToneGrader())


def test_the_report_shows_every_curve_and_says_what_looks_wrong(finished) -> None:
    from pluralrm.training.outcome import report_page
    from pluralrm.training.records import read_run

    _, trained = finished
    page = report_page(read_run(trained.folder), trained.steps, trained.evaluations)
    for title in ("Reward", "KL from the reference", "Entropy", "Clipped tokens", "Value loss", "Length", "Held-out"):
        assert title in page
    last = trained.steps[max(trained.steps)]
    longer = {
        **trained.steps,
        last.step: last.model_copy(update={"length": 9 * trained.steps[0].length, "by_user": None}),
    }
    assert "beyond a factor of 1.5" in report_page(read_run(trained.folder), longer, trained.evaluations)
    assert page == report_page(read_run(trained.folder), trained.steps, trained.evaluations)
