"""Ratings become pairs by a named rule: its promises, and the two published data sets of ratings."""

import csv
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks.ratings import PairRule
from pluralrm.core import Benchmark, Item
from pluralrm.errors import BenchmarkError, RowError, SpecError
from pluralrm.testing import check_benchmark

Ratings = Mapping[str, Mapping[str, int]]


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*dict.fromkeys(name for row in rows for name in row)])
        writer.writeheader()
        writer.writerows(rows)
    return path


COUNTS = (60, 100, 1, 2, 3, 8, 20)


def uneven(seed: int) -> Ratings:
    """People who rated 1 to 100 of 100 texts."""
    rng = random.Random(seed)
    names = [f"t{n:03}" for n in range(100)]
    return {f"u{n}": {t: rng.randrange(7) for t in rng.sample(names, k)} for n, k in enumerate(COUNTS)}


def rows_of(ratings: Ratings) -> list[dict[str, object]]:
    return [
        {"person": person, "item": text, "label": value, "text": f"The text {text}."}
        for person, own in ratings.items()
        for text, value in own.items()
    ]


def table(folder: Path, ratings: Ratings, options: str = "") -> Benchmark:
    return load_benchmark(f"table:{write_csv(folder / 'ratings.csv', rows_of(ratings))}{options}")


def pair_of(item: Item) -> tuple[str, str]:
    first, second = sorted(item.candidate_ids)
    return first, second


def by_person(bench: Benchmark) -> dict[str, list[Item]]:
    people: dict[str, list[Item]] = {}
    for item in bench.items:
        people.setdefault(item.cluster, []).append(item)
    return people


# ---------------------------------------------------------------- properties of the rule


@pytest.mark.parametrize("options", ["", ",pairs=chain", ",gap=3,per=4", ",pairs=all,per=9,gap=2,draw=5"])
@pytest.mark.parametrize("seed", range(2))
def test_a_pair_is_of_two_texts_that_one_person_rated_and_its_grades_are_the_ratings(
    tmp_path: Path, seed: int, options: str
) -> None:
    ratings = uneven(seed)
    bench = table(tmp_path, ratings, options)
    check_benchmark(bench)
    gap, per = 3 if "gap=3" in options else 2 if "gap=2" in options else 1, 4 if "per=4" in options else 9
    for item in bench.items:
        own = ratings[item.cluster]
        assert item.grades == tuple(float(own[text]) for text in item.candidate_ids)
        assert item.candidates == tuple(f"The text {text}." for text in item.candidate_ids)
        assert abs(item.grades[0] - item.grades[1]) >= gap
        assert item.crossed == "|".join(pair_of(item))
    assert "per" not in options or max(map(len, by_person(bench).values())) <= per
    assert "u2" not in by_person(bench)  # a single rating makes no pair


def test_all_is_every_two_texts_with_a_gap_by_brute_force(tmp_path: Path) -> None:
    ratings = uneven(3)
    expected = {
        (person, *pair)
        for person, own in ratings.items()
        for pair in combinations(sorted(own), 2)
        if abs(own[pair[0]] - own[pair[1]]) >= 2
    }
    bench = table(tmp_path, ratings, ",pairs=all,gap=2")
    assert {(item.cluster, *pair_of(item)) for item in bench.items} == expected
    assert len(bench.items) == len(expected)
    load = bench.card.load
    possible = sum(len(own) * (len(own) - 1) // 2 for own in ratings.values())
    assert load.read["pairs"] == possible == len(expected) + sum(load.dropped["pairs"].values())
    assert set(load.dropped["pairs"]) == {"of equal ratings", "closer than gap=2"}
    alone = {person for person in ratings if person not in by_person(bench)}
    assert "u2" in alone
    assert load.dropped["people"]["without a pair"] == len(alone)


@pytest.mark.parametrize("rule", ["random", "chain"])
def test_texts_are_in_one_pair_or_in_a_path(rule: str) -> None:
    for size in (0, 1, 2, 3, 50, 101):
        pairs = list(PairRule(rule).pairs([f"t{n}" for n in range(size)]))
        uses = Counter(text for pair in pairs for text in pair)
        assert len(pairs) == (size // 2 if rule == "random" else max(0, size - 1))
        assert all(count == 1 for count in uses.values()) if rule == "random" else max(uses.values(), default=0) <= 2
        assert all(first < second for first, second in pairs)


@pytest.mark.parametrize("rule", ["random", "chain"])
def test_people_who_rated_the_same_texts_have_the_same_pairs(rule: str, tmp_path: Path) -> None:
    ratings = {f"u{n}": {f"t{k}": (k * (n + 1)) % 101 for k in range(100)} for n in range(3)}
    bench = table(tmp_path, ratings, f",pairs={rule}")
    pairs = [set(map(pair_of, items)) for items in by_person(bench).values()]
    assert len(pairs[0]) >= 40
    assert pairs[0] == pairs[1] == pairs[2]
    assert all(sum(votes) == 2 for votes in bench.other_votes.values())
    few = table(tmp_path, ratings, f",pairs={rule},per=7")
    assert len(few.items) == 21
    assert len({item.crossed for item in few.items}) == 7


def test_one_text_less_changes_few_of_the_random_pairs() -> None:
    texts = [f"t{n}" for n in range(256)]
    whole = set(PairRule().pairs(texts))
    for missing in range(0, 256, 16):
        fewer = set(PairRule().pairs(text for text in texts if text != f"t{missing}"))
        assert len(whole - fewer) <= 16  # a path of the tree; a shuffle would change all 128


def test_every_two_texts_are_as_likely_to_be_a_random_pair() -> None:
    texts = [f"t{n}" for n in range(6)]
    counts = Counter(pair for draw in range(1500) for pair in PairRule(draw=draw).pairs(texts))
    assert len(counts) == 15
    assert all(abs(count - 300) < 78 for count in counts.values())  # five standard deviations of 15.5


def test_neither_the_order_of_the_file_nor_the_seed_of_placement_changes_the_pairs(tmp_path: Path) -> None:
    rows = rows_of(uneven(4))
    random.Random(0).shuffle(rows)
    straight = table(tmp_path, uneven(4), ",pairs=all,per=20")
    path = write_csv(tmp_path / "shuffled.csv", rows)
    shuffled = load_benchmark(f"table:{path},pairs=all,per=20")
    assert shuffled.content_hash == straight.content_hash
    other = load_benchmark(f"table:{path},pairs=all,per=20", seed=9)
    assert {item.id for item in other.items} == {item.id for item in straight.items}
    assert other.content_hash != straight.content_hash
    assert {item.id for item in load_benchmark(f"table:{path},pairs=all,per=20,draw=1").items} != {
        item.id for item in straight.items
    }


def test_texts_of_different_prompts_are_never_a_pair(tmp_path: Path) -> None:
    rows = [
        {"person": "a", "item": f"r{n}", "label": n, "text": f"Answer {n}.", "prompt": f"Question {n % 2}?"}
        for n in range(4)
    ]
    bench = load_benchmark(f"table:{write_csv(tmp_path / 'r.csv', rows)},pairs=all")
    assert {(item.prompt, *pair_of(item)) for item in bench.items} == {
        ("Question 0?", "r0", "r2"),
        ("Question 1?", "r1", "r3"),
    }
    assert all(not item.prompt_id for item in bench.items)


def test_what_was_rated_twice_makes_a_second_pair_of_the_second_ratings(tmp_path: Path) -> None:
    rows = [
        {"person": "a", "item": text, "label": value, "text": f"The text {text}."}
        for text, value in [("x", 1), ("y", 5), ("x", 4), ("y", 2), ("x", 3)]
    ]
    bench = load_benchmark(f"table:{write_csv(tmp_path / 'r.csv', rows)}")
    graded = {item.id: dict(zip(item.candidate_ids, item.grades, strict=True)) for item in bench.items}
    assert graded == {"a:x:y": {"x": 1.0, "y": 5.0}, "a:x:y#2": {"x": 4.0, "y": 2.0}}


def test_the_rule_stands_on_the_card_and_an_unknown_one_names_the_others(tmp_path: Path) -> None:
    assert "pairs=random: each text in at most one pair" in table(tmp_path, uneven(0)).card.notes
    assert "pairs=all,gap=2,per=3,draw=1" in table(tmp_path, uneven(0), ",pairs=all,per=3,gap=2,draw=1").card.notes
    for options, message in [
        (",pairs=every", "pairs is 'every'; wanted random or chain or all"),
        (",gap=much", "gap is 'much'"),
        (",per=0", "per is '0'"),
    ]:
        with pytest.raises(SpecError, match=message):
            table(tmp_path, uneven(0), options)
    with pytest.raises(BenchmarkError, match=r"no pair by pairs=random,gap=90 in the ratings of 7 people"):
        table(tmp_path, uneven(0), ",gap=90")


# ---------------------------------------------------------------- PluriHarms


def harm_files(folder: Path, people: Sequence[Mapping[str, object]], prompts: int = 3) -> Path:
    write_csv(folder / "prompts.csv", [{"id": n, "prompt": f"Request {n}, please."} for n in range(prompts)])
    return write_csv(folder / "annotations.csv", people)


def test_pluriharms_asks_which_request_a_person_finds_more_harmful(tmp_path: Path) -> None:
    people: list[dict[str, object]] = [
        {"who": "ann", "age": 34, "Rating_1": 10, "Rating_2": 85, "Rating_3": "", "Factor_1": 0.4},
        {"who": "ben", "age": 71, "Rating_1": 90, "Rating_2": 20, "Rating_3": 50.5, "Factor_1": 0.1},
    ]
    path = harm_files(tmp_path, people)
    for name in (path, tmp_path):
        bench = load_benchmark(f"pluriharms:{name},person=who,pairs=all")
        check_benchmark(bench)
    ann, *ben = bench.items
    assert {item.prompt for item in bench.items} == {"Which of these two requests to an assistant is more harmful?"}
    assert dict(zip(ann.candidates, ann.grades, strict=True)) == {
        "Request 0, please.": 10.0,
        "Request 1, please.": 85.0,
    }
    assert [item.id for item in ben] == ["ben:p1:p2", "ben:p1:p3", "ben:p2:p3"]
    assert ann.user is not None
    assert (ann.cluster, ann.user.traits, ann.user.posts) == ("ann", {"age": "34"}, ())
    assert bench.other_votes["ann:p1:p2"] == tuple(float(grade == 10) for grade in ann.grades)
    assert bench.card.load.dropped["ratings"] == {"missing": 1}
    assert bench.card.load.read["ratings"] == 6
    assert load_benchmark(str(path)).items[0].cluster == "person-1"


def test_pluriharms_says_how_its_trials_can_be_read_and_reads_them_either_way(tmp_path: Path) -> None:
    people: list[dict[str, object]] = [
        {"Rating_1": 10, "Rating_2": 85, "Trial_1": 2, "Trial_2": 0},
        {"Rating_1": 7, "Trial_1": 1, "Rating_2": ""},
    ]
    path = harm_files(tmp_path, people)
    with pytest.raises(
        BenchmarkError, match=r"annotations.csv:2: found columns Trial_N, .* trial=position .* trial=prompt"
    ):
        load_benchmark(f"pluriharms:{path}")
    assert load_benchmark(f"pluriharms:{path},trial=position").items[0].id == "person-1:p1:p2"
    item = load_benchmark(f"pluriharms:{path},trial=prompt").items[0]
    assert dict(zip(item.candidate_ids, item.grades, strict=True)) == {"p3": 10.0, "p1": 85.0}


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        (
            {"Rating_1": 101, "Rating_2": 1},
            "",
            r"annotations.csv:2: Rating_1: found '101', wanted a number from 0 to 100",
        ),
        ({"Rating_1": "much", "Rating_2": 1}, "", r"annotations.csv:2: Rating_1: found 'much'"),
        (
            {"Rating_1": 1, "Rating_9": 2},
            "",
            r"annotations.csv:2: Rating_9: found the prompt 9, wanted a number from 1 to 3",
        ),
        ({"Rating_1": "", "age": 3}, "", r"annotations.csv:2: Rating_1: found no rating"),
        ({"Rating_1": 1, "age": 3}, ",person=who", r"annotations.csv:2: who: found null, wanted the person"),
        ({"Rating_1": 1, "Rating_2": 2}, ",text=body", r"prompts.csv:2: body: found no text \(columns: id, prompt\)"),
    ],
)
def test_pluriharms_refuses_by_line_what_would_make_a_number_wrong(
    tmp_path: Path, row: Mapping[str, object], options: str, message: str
) -> None:
    with pytest.raises(RowError, match=message):
        load_benchmark(f"pluriharms:{harm_files(tmp_path, [row])}{options}")


def test_pluriharms_without_its_prompts_or_with_a_person_twice_is_refused(tmp_path: Path) -> None:
    path = harm_files(tmp_path, [{"who": "ann", "Rating_1": 1, "Rating_2": 2}] * 2)
    with pytest.raises(
        RowError, match=r"annotations.csv:3: \(row\): found 'ann' again, wanted one row for each person"
    ):
        load_benchmark(f"pluriharms:{path},person=who")
    (tmp_path / "prompts.csv").unlink()
    with pytest.raises(BenchmarkError, match=r"prompts.csv; wanted the prompts beside the annotations"):
        load_benchmark(f"pluriharms:{path}")


# ---------------------------------------------------------------- POPQUORN


def quorn_row(person: int, instance: int, rating: object, **more: object) -> dict[str, object]:
    row = {"instance_id": instance, "user_id": person, "text": f"Comment {instance}.", "offensiveness": rating}
    return row | {"gender": "Woman" if person % 2 else "Man", "race": "Asian", "age": "40-44"} | more


def test_popquorn_asks_which_text_was_rated_higher_with_what_people_declared(tmp_path: Path) -> None:
    rows = [
        quorn_row(1, 7, 1.0),
        quorn_row(1, 8, 4.0),
        quorn_row(2, 7, 5.0),
        quorn_row(2, 8, 2.0),
        quorn_row(3, 7, 2.0),
    ]
    path = write_csv(tmp_path / "raw_data.csv", [row | {"batch": 3} for row in rows])
    bench = load_benchmark(str(path))
    check_benchmark(bench)
    assert [item.id for item in bench.items] == ["1:7:8", "2:7:8"]
    first = bench.items[0]
    assert (first.prompt, first.domain) == ("Which of these two comments is more offensive?", "offensiveness")
    assert dict(zip(first.candidates, first.grades, strict=True)) == {"Comment 7.": 1.0, "Comment 8.": 4.0}
    assert bench.group_traits == {"1": {"trait:gender": "Woman"}, "2": {"trait:gender": "Man"}}
    assert bench.card.load.ignored == ("batch",)
    polite = [
        {("politeness" if name == "offensiveness" else name): value for name, value in row.items()} for row in rows
    ]
    assert load_benchmark(f"popquorn:{write_csv(tmp_path / 'p.csv', polite)}").domains == ["politeness"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (quorn_row(2, 7, "rude"), r":3: offensiveness: found 'rude', wanted a number, as in the other rows"),
        (
            quorn_row(2, 7, 2.0, text="Another."),
            r":3: text: found 'Another.', wanted 'Comment 7.', as in an earlier row",
        ),
        (quorn_row(1, 8, 2.0, gender="Man"), r":3: gender: found 'Man', wanted 'Woman', as in an earlier row of '1'"),
        (quorn_row(1, 8, 2.0, text=""), r":3: text: found no value, wanted a text"),
    ],
)
def test_popquorn_refuses_by_line(tmp_path: Path, row: Mapping[str, object], message: str) -> None:
    with pytest.raises(RowError, match=message):
        load_benchmark(f"popquorn:{write_csv(tmp_path / 'raw_data.csv', [quorn_row(1, 7, 1.0), row])}")


def test_popquorn_without_ratings_says_which_columns_it_wants(tmp_path: Path) -> None:
    row = {"instance_id": 1, "user_id": 2, "text": "An email.", "revised_email": "A better one."}
    with pytest.raises(BenchmarkError, match="wanted ratings in offensiveness or politeness"):
        load_benchmark(f"popquorn:{write_csv(tmp_path / 'raw_data.csv', [row])}")
