"""People who want opposite answers: P-Soups of AlignX, and RPR."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pluralrm import load_benchmark, load_condition, score
from pluralrm.core import Query, Verdict
from pluralrm.errors import BenchmarkError, RowError
from pluralrm.metrics import measure
from pluralrm.testing import check_benchmark
from tests.benchmarks.published_rows import write_json
from tests.benchmarks.sample_rows import JsonRow, write_jsonl

SHORT, LONG = "A snake plant.", "A snake plant, you legend, and may it outlive us all!"


def persona_row(kind: str, prompt: int = 1, profile: str = "Young", **more: Any) -> JsonRow:
    answers = [f"{LONG} ({prompt})", f"{SHORT} ({prompt})"]
    chosen, rejected = answers if kind == "friendly" else reversed(answers)
    return {
        "prompt": f"Name houseplant number {prompt}.",
        "chosen": chosen,
        "rejected": rejected,
        "ground_truth_persona": f"Likes answers that are {kind}.",
        "profile": profile,
        "Pair-wise Comparative Feedback": [{"prompt": "Greet me.", "chosen": "Ahoy!", "rejected": "Good day."}],
        **more,
    }


def reversal_row(number: int, **more: Any) -> JsonRow:
    return {
        "id": number,
        "prompt": f"Name houseplant number {number}.",
        "response_a": f"A snake plant. ({number})",
        "response_b": f"An orchid, which flowers. ({number})",
        "criteria_x": "Favours what is hard to kill",
        "criteria_y": "Favours what flowers",
        "scenario_x": "I forget to water.",
        "scenario_y": "I want something to paint.",
        "category_x": "Effort",
        "category_y": "Looks",
        "profile_0": "x",
        **more,
    }


class FirstPlace:
    """A habit of position: the first candidate is best, whoever asks."""

    spec = "first-place"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict(tuple(-float(index) for index in range(len(query.candidates))))


@pytest.mark.parametrize("model", ["longest", "shortest", FirstPlace()], ids=["longest", "shortest", "first"])
@pytest.mark.parametrize("kind", ["alignx", "rpr"])
def test_a_model_that_does_not_look_at_the_person_is_right_in_exactly_half(
    kind: str, model: Any, tmp_path: Path
) -> None:
    if kind == "alignx":
        rows = [persona_row(side, n, f"Profile {n % 3}") for n in range(7) for side in ("friendly", "unfriendly")]
        path = write_json(
            tmp_path / "friendly_unfriendly.json", [*rows, *(persona_row("friendly", n) for n in range(4))]
        )
    else:
        path = write_jsonl(tmp_path / "test.jsonl", [reversal_row(n) for n in range(7)])
    bench = load_benchmark(str(path))
    check_benchmark(bench)
    assert len(bench.items) == 14
    assert measure(score(bench, model, out=tmp_path / "runs")).value == 0.5
    for seed in range(5):
        placed = load_benchmark(str(path), seed=seed).items
        assert sum(item.preferred == 0 for item in placed) == 7


def test_alignx_makes_persons_of_personas_with_their_profile_and_feedback(tmp_path: Path) -> None:
    comments = [{"prompt": "A bad day.", "comment": "Laugh it off!"}, {"prompt": "Rain.", "comment": " "}]
    rows = [
        persona_row("friendly", 1, "Young"),
        persona_row("friendly", 2, "Young", **{"User-Generated Content": comments, "Demographic Information": "25-34"}),
        persona_row("unfriendly", 1, "Older"),
        persona_row("unfriendly", 2, "Older"),
        persona_row("friendly", 3, "Young"),
        persona_row("friendly", 1, "Young", extra=1),
    ]
    write_json(tmp_path / "friendly_unfriendly.json", rows)
    write_json(tmp_path / "student_phd.json", [persona_row("friendly", 1), persona_row("unfriendly", 1)])
    bench = load_benchmark(f"alignx:{tmp_path}")
    check_benchmark(bench)
    assert bench.domains == ["friendly_unfriendly", "student_phd"]
    first, second, opposite, _, *student = bench.items
    assert first.user is not None
    assert (first.best, opposite.best) in {((0,), (1,)), ((1,), (0,))}
    assert first.prompt_id == opposite.prompt_id != second.prompt_id
    assert first.prompt_id != student[0].prompt_id
    assert first.candidates[first.best[0]] == f"{LONG} (1)"
    assert first.user.traits == {"persona": "Likes answers that are friendly."}
    assert [post.text for post in first.user.posts] == ["Young"]
    assert [(pair.prompt, pair.preferred, pair.other) for pair in first.user.preferences] == [
        ("Greet me.", "Ahoy!", "Good day.")
    ]
    assert second.user is not None
    assert [post.text for post in second.user.posts] == ["Young", "Laugh it off!"]
    assert second.user.traits["demographics"] == "25-34"
    assert first.cluster != opposite.cluster
    assert bench.other_votes[first.id] == tuple(float(index == opposite.best[0]) for index in range(2))
    load = bench.card.load
    assert load.dropped["preferences"] == {"without an opposite": 2}
    assert load.dropped["posts"] == {"blank": 1}
    assert load.ignored == ("extra",)


def test_alignx_keeps_no_context_pair_with_a_preferred_answer_of_the_same_person(tmp_path: Path) -> None:
    leak = {"prompt": "Which plant?", "chosen": f"{LONG} (2)", "rejected": "None."}
    good = {"prompt": "Greet me.", "chosen": "Ahoy!", "rejected": "Good day."}
    feedback: dict[str, Any] = {"Pair-wise Comparative Feedback": [leak, good, good]}
    rows = [
        persona_row("friendly", 1, **feedback),
        persona_row("friendly", 2),
        persona_row("unfriendly", 1, **feedback),
    ]
    path = write_json(tmp_path / "f.json", [*rows, persona_row("unfriendly", 2)])
    bench = load_benchmark(str(path))
    friendly, _, unfriendly, _ = bench.items
    assert friendly.user is not None
    assert unfriendly.user is not None
    assert [pair.prompt for pair in friendly.user.preferences] == ["Greet me."]
    assert [pair.prompt for pair in unfriendly.user.preferences] == ["Which plant?", "Greet me."]
    assert bench.card.load.dropped["pairs"] == {"repeated": 2, "with the preferred answer of an item": 1}


def test_rpr_has_two_people_for_each_row(tmp_path: Path) -> None:
    bench = load_benchmark(str(write_jsonl(tmp_path / "test.jsonl", [reversal_row(3), reversal_row(4, scenario_y="")])))
    x, y, _, silent = bench.items
    assert [item.id for item in bench.items] == ["3-x", "3-y", "4-x", "4-y"]
    assert x.candidates == y.candidates
    assert x.candidates[x.best[0]].startswith("A snake plant.")
    assert y.candidates[y.best[0]].startswith("An orchid")
    assert x.user is not None
    assert y.user is not None
    assert x.user.traits == {"criterion": "Favours what is hard to kill"}
    assert [post.text for post in y.user.posts] == ["I want something to paint."]
    assert silent.user is not None
    assert silent.user.posts == ()
    assert (x.cluster, y.cluster, x.prompt_id, y.prompt_id) == ("3-x", "3-y", "3", "3")
    assert (x.tags, y.tags) == ({"side": "x", "category": "Effort"}, {"side": "y", "category": "Looks"})
    assert bench.card.load.ignored == ()


def test_what_is_told_of_the_person_is_no_part_of_the_prompt(tmp_path: Path) -> None:
    bench = load_benchmark(str(write_jsonl(tmp_path / "test.jsonl", [reversal_row(n) for n in range(4)])))
    for condition, own in (("none", False), ("recent:1", True), ("swapped:1", False)):
        for item, query in zip(bench.items, load_condition(condition).queries(bench, bench.items), strict=True):
            text = " ".join([query.prompt, *(post.text for post in (query.user.posts if query.user else ()))])
            assert item.user is not None
            assert (item.user.posts[0].text in text) == own or condition == "swapped:1"
            assert condition != "swapped:1" or (query.user is not None and query.user.lenders != (item.cluster,))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (persona_row("friendly", rejected=f" {LONG} (1)"), "f.json:1: rejected: found the text of a chosen answer"),
        (persona_row("friendly", ground_truth_persona=""), "f.json:1: ground_truth_persona: found an empty text"),
        (
            persona_row("friendly", 1, "", **{"Pair-wise Comparative Feedback": 3}),
            "f.json:1: Pair-wise Comparative Feedback: found 3, wanted a list",
        ),
        (reversal_row(1, response_b="A snake plant. (1)"), "f.json:1: response_b: found the text of a chosen answer"),
        (reversal_row(1, criteria_y=None), "f.json:1: criteria_y: found null, wanted a text"),
    ],
)
def test_a_row_that_would_make_a_number_wrong_is_refused(tmp_path: Path, row: JsonRow, message: str) -> None:
    with pytest.raises(RowError, match=message):
        load_benchmark(str(write_json(tmp_path / "f.json", [row])))


def test_alignx_without_opposites_and_rpr_with_an_id_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="found no two rows with one prompt and opposite labels"):
        load_benchmark(str(write_json(tmp_path / "f.json", [persona_row("friendly", n) for n in range(3)])))
    with pytest.raises(RowError, match=r"r\.jsonl:2: id: found '1-x' again"):
        load_benchmark(str(write_jsonl(tmp_path / "r.jsonl", [reversal_row(1), reversal_row(1)])))
