"""The store: appended, never changed; sent twice is kept once."""

import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.annotate.judgments import answers_text, read_judgments
from pluralrm.annotate.plan import PLAN, read_plan, write_plan
from pluralrm.annotate.rehearsal import RehearsalWorld, rehearsed
from pluralrm.annotate.store import FILE, Store, Submission, read_submissions
from pluralrm.errors import RunError
from tests.annotate.plans import pair_plan

FIRST = Submission("ann", "id-1", "item-1", 1, '{"overall":"a"}', 3.5)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "plan-1")


def test_sent_twice_is_kept_once_with_the_first_time(store: Store, tmp_path: Path) -> None:
    assert store.add(FIRST) == "kept"
    assert store.add(FIRST._replace(seconds=9.0)) == "again"  # the page was reloaded, its clock ran on
    (kept,) = read_submissions(tmp_path)
    assert kept._replace(at="") == FIRST
    assert kept.at > "2020"


def test_an_id_is_not_taken_for_other_answers(store: Store) -> None:
    store.add(FIRST)
    assert store.add(FIRST._replace(answers='{"overall":"b"}')) == "reused"
    assert store.add(FIRST._replace(item="item-2")) == "reused"
    assert store.add(FIRST._replace(annotator="bob")) == "kept"
    assert len(store.every()) == 2


def test_only_the_next_revision_is_kept(store: Store) -> None:
    assert store.add(FIRST._replace(revision=2)) == "stale"
    assert store.add(FIRST) == "kept"
    assert store.add(FIRST._replace(id="id-2")) == "stale"
    assert store.add(FIRST._replace(id="id-2", revision=2, answers="null")) == "kept"
    assert store.latest("ann")["item-1"].answers == "null"
    assert [said.revision for said in store.every()] == [1, 2]


SAID = st.builds(
    Submission,
    st.sampled_from(["ann", "bob"]),
    st.sampled_from([f"id-{number}" for number in range(6)]),
    st.sampled_from(["x", "y"]),
    st.integers(1, 4),
    st.sampled_from(["1", "2", "null"]),
    st.just(1.0),
    st.just(""),
)


@given(st.lists(SAID, max_size=40))
def test_whatever_is_sent_each_item_has_revisions_1_to_n_once(said: list[Submission]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), "plan")
        kept = [one for one in said if store.add(one) == "kept"]
        read = [one._replace(at="") for one in store.every()]
        store.close()
    assert read == kept
    for name in ("ann", "bob"):
        for item in ("x", "y"):
            own = [one.revision for one in kept if (one.annotator, one.item) == (name, item)]
            assert own == list(range(1, len(own) + 1))
    assert len({(one.annotator, one.id) for one in kept}) == len(kept)


def test_the_file_itself_refuses_changes_and_removals(store: Store, tmp_path: Path) -> None:
    store.add(FIRST)
    store.close()
    with sqlite3.connect(tmp_path / FILE) as database:
        for attempt in ("UPDATE submissions SET answers = '{}'", "DELETE FROM submissions"):
            with pytest.raises(sqlite3.IntegrityError, match="appended, never"):
                database.execute(attempt)
    database.close()


def test_another_plan_is_refused(store: Store, tmp_path: Path) -> None:
    store.close()
    with pytest.raises(RunError, match="another plan"):
        Store(tmp_path, "plan-2")
    assert read_submissions(tmp_path, "plan-1") == []
    with pytest.raises(RunError, match="another plan"):
        read_submissions(tmp_path, "plan-2")


def test_a_margin_that_is_widened_after_people_began_is_refused_though_the_hash_is_put_right(tmp_path: Path) -> None:
    plan = pair_plan()
    write_plan(plan, tmp_path)
    kept = Store(tmp_path, plan.content_hash)
    said = answers_text(rehearsed(plan, RehearsalWorld())[0].answers)
    kept.add(Submission(plan.screens[0].annotator, "0" * 32, plan.screens[0].handle, 1, said, 9.0))
    kept.close()
    assert len(read_judgments(read_plan(tmp_path), tmp_path)) == 1
    wider = replace(plan, declared=replace(plan.declared, claim=plan.declared.claim._replace(margin=0.3)))
    (tmp_path / PLAN).unlink()
    head = tmp_path / "elsewhere"
    write_plan(wider, head)
    (head / PLAN).rename(tmp_path / PLAN)
    changed = read_plan(tmp_path)  # whole, by its own hash
    assert changed.declared.claim.margin == 0.3
    with pytest.raises(RunError, match="changed after people began"):
        read_judgments(changed, tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("these are not judgments " * 100)
    with pytest.raises(RunError, match="cannot use"):
        Store(tmp_path, "plan-1")
    with pytest.raises(RunError, match="cannot read"):
        read_submissions(tmp_path)


def test_judgments_are_read_while_the_server_holds_the_file(store: Store, tmp_path: Path) -> None:
    assert read_submissions(tmp_path / "nowhere") == []
    store.add(FIRST)
    assert len(read_submissions(tmp_path)) == 1
