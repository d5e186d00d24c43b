"""`pluralrm construct rmgap --demo`: offline, on the core install, to a benchmark that score and audit take."""

import json
from pathlib import Path

import numpy as np
import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.construct.demo import RMGAP_CASSETTE, VECTORS, Recorded, rmgap_records
from pluralrm.construct.filters import cosines
from pluralrm.errors import ModelError
from tests.cli.test_verbs import pluralrm
from tests.construct.demo.record import rmgap_cassette
from tests.construct.demo.rmgap_script import embedded_texts, vectors
from tests.construct.demo.test_prb_demo import core, require_says_something
from tests.construct.pipeline.worlds import contents, decisions

FUNNEL = {  # stage: came in, kept, why the others left, how often texts were written
    "wording": (15, 10, {"characters": 2, "role": 2, "unchecked": 1}, 15),
    "exact": (10, 9, {"duplicate": 1}, 10),
    "semantic": (9, 8, {"similar": 1}, 9),
    "ratings": (8, 6, {"rating": 2}, 8),
    "styles": (6, 6, {}, 6),
    "responses": (6, 5, {"quality": 1}, 10),  # two written twice, one three times and in vain
    "prompts": (5, 5, {}, 6),
    "unique": (5, 4, {"unique": 1}, 5),
    "paraphrases": (4, 4, {}, 4),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("rmgap")
    done = core("construct", "rmgap", "--demo", cwd=place)
    assert done.returncode == 0, done.stderr
    return place, done.stdout


def _asked() -> list[tuple[str, str]]:
    bodies = [json.loads(line)["request"]["body"] for line in RMGAP_CASSETTE.read_text(encoding="utf-8").splitlines()]
    return [(body["model"], body["messages"][0]["content"]) for body in bodies]


def test_the_cassette_is_what_the_prose_gives() -> None:
    assert RMGAP_CASSETTE.read_text(encoding="utf-8") == rmgap_cassette(), (
        "the prose or a prompt changed: make cassettes"
    )


def test_the_funnel_is_the_one_that_was_written(demo: tuple[Path, str]) -> None:
    card = json.loads((demo[0] / "rmgap-demo" / "release" / "card.json").read_text())
    found = {
        one["stage"]: (one["came_in"], one["kept"], one["rejected"], one["attempts"])
        for one in card["funnel"]["stages"]
    }
    assert found == FUNNEL
    assert card["warnings"] == []
    assert card["domains"] == {"Chat": 1, "Reasoning": 1, "Safety": 1, "Writing": 1}


def test_what_was_refused_was_written_anew_and_the_chair_was_asked(demo: tuple[Path, str]) -> None:
    told = [prompt for _, prompt in _asked() if "were refused:" in prompt]
    for reason, count in (("the answer is not right", 1), ("quality 3 and 3 of 10", 2), ("it says 'casual'", 1)):
        assert sum(reason in prompt for prompt in told) >= count, reason
    assert not any("\\boxed{10}" in prompt for model, prompt in _asked() if "reviewer" in model)
    reviews = [prompt for model, prompt in _asked() if model == "demo-chair" and "You review four responses" in prompt]
    assert len(reviews) == 1
    assert len(decisions(demo[0] / "rmgap-demo")["08-unique.jsonl"]) == 5


def test_the_release_has_one_record_of_each_domain(demo: tuple[Path, str]) -> None:
    bench = load_benchmark(f"rmgap:{demo[0] / 'rmgap-demo/release/data/rmgap'}")
    assert len(bench.items) == 48
    assert sorted(bench.domains) == ["Chat", "Reasoning", "Safety", "Writing"]
    assert {item.cluster for item in bench.items} <= {record.id for record in rmgap_records()}


def test_what_is_printed_to_type_next_can_be_typed_and_score_and_audit_take_it(demo: tuple[Path, str]) -> None:
    lines = [line.split() for line in demo[1].splitlines() if line.strip().startswith("pluralrm ")]
    assert [words[1] for words in lines] == ["construct", "score", "audit", "construct"]
    done = [core(*words[1:], cwd=demo[0]) for words in lines[:3]]
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    require_says_something(done[1])
    assert "4 records, 48 items" in done[1].stdout
    assert "25.0 fixed" in done[1].stdout


@pytest.mark.slow
def test_with_every_extra_the_rows_are_the_same(demo: tuple[Path, str], tmp_path: Path) -> None:
    done = pluralrm("construct", "rmgap", "--demo", "-o", "again", cwd=tmp_path, PYTHONHASHSEED="3")
    assert done.returncode == 0, done.stderr
    first, again = demo[0] / "rmgap-demo", tmp_path / "again"
    assert contents(first / "release" / "data") == contents(again / "release" / "data")
    assert contents(first / "release" / "audit") == contents(again / "release" / "audit")
    assert decisions(first) == decisions(again)


def test_nothing_on_the_cassette_is_of_no_use(demo: tuple[Path, str]) -> None:
    card = json.loads((demo[0] / "rmgap-demo" / "release" / "card.json").read_text())
    assert sum(one["calls"] for stage in card["funnel"]["stages"] for one in stage["spent"]) == len(_asked())


def test_the_demo_takes_no_models_and_no_files(tmp_path: Path) -> None:
    done = pluralrm("construct", "rmgap", "a.jsonl", "--demo", "--chair", "m", "--seed", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "FILE, --seed, --chair: --demo answers from its own recording" in " ".join(done.stderr.split())


def test_an_option_that_was_not_given_is_not_named(tmp_path: Path) -> None:
    done = pluralrm("construct", "rmgap", "--demo", "--tailor", "m", cwd=tmp_path)
    assert done.returncode == 2
    assert "--tailor: --demo answers" in " ".join(done.stderr.split())


def test_a_text_that_is_not_recorded_has_no_vector() -> None:
    with pytest.raises(ModelError, match="found no vector of 'Rye"):
        Recorded(VECTORS).rows(["Rye or spelt?"])


@pytest.mark.embed
def test_the_recorded_vectors_are_those_of_the_packaged_model() -> None:
    found = cosines(Recorded(VECTORS).rows(embedded_texts()), vectors())
    assert np.all(found > 0.9999)
