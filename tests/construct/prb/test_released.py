"""What is released is what was built, in the published schema; a cue that passes every gate is found by the audit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.construct.pipeline import Built
from pluralrm.construct.prb import PersonalQuestion, Rules, records_of
from pluralrm.construct.prb.card import about, editions
from pluralrm.construct.prb.products import Chosen, Contrary, Published
from pluralrm.construct.release import Released, release
from pluralrm.errors import BenchmarkError
from tests.construct.prb.worlds import World, question, text_of

CARD = load_benchmark("pocket-prb").card


def released(built: Built, rules: Rules, *, accept_leaks: bool = False) -> Released:
    told = about(built, rules, CARD, licence="CC0-1.0")
    return release(built, editions(built.kept, rules.kinds), told, accept_leaks=accept_leaks)


def test_both_editions_hold_what_was_built(tmp_path: Path) -> None:
    world = World()
    built = world.built(tmp_path / "b", 6)
    out = released(built, world.rules)
    assert out.loads == (f"prb:{out.path}/data/published", f"prb:{out.path}/data/contrary")
    for load, side in zip(out.loads, (Published, Contrary), strict=True):
        bench = load_benchmark(load)
        for item, record in zip(bench.items, sorted(built.kept, key=lambda one: (one.domain, one.id)), strict=True):
            source = record[PersonalQuestion]
            assert (item.id, item.domain, item.prompt) == (record.id, record.domain, source.question)
            texts = dict(zip(item.candidate_ids, item.candidates, strict=True))
            assert texts == {"chosen": record[Chosen].text, "rejected": record[side].text}
            assert item.user is not None
            assert [post.text for post in item.user.posts] == [post.text for post in source.posts]
            assert item.oracle is not None
            assert item.oracle.narrative == source.narrative


def test_an_item_that_nobody_asks_comes_in_and_is_counted() -> None:
    bench = replace(load_benchmark("pocket-prb"), content_hash="")
    items = (replace(bench.items[0], user=None), *bench.items[1:])
    records = records_of(replace(bench, items=items))
    assert len(records) == len(items)
    assert [record.id for record in records if not record[PersonalQuestion].posts] == [bench.items[0].id]
    with pytest.raises(BenchmarkError, match="found no question with posts"):
        records_of(load_benchmark("pocket-rmgap"))


def cued(number: int) -> str:
    return f"{text_of(f'q{number:03}', 'chosen', 0, 60)} Verily verily."


def test_a_cue_that_the_gates_let_pass_withholds_the_release(tmp_path: Path) -> None:
    rules = Rules()
    texts = {(f"q{number:03}", "chosen", 0): cued(number) for number in range(40)}
    built = World(texts=texts, words=lambda record, _: 60 + 4 * (int(record[1:]) % 2), rules=rules).built(
        tmp_path / "b", 40
    )
    assert len(built.kept) == 40  # nor is the length one that the set's gate finds
    out = released(built, rules)
    assert out.withheld
    assert any("words" in leak for leak in out.leaks)
    assert not (tmp_path / "b" / "release").exists()

    accepted = released(built, rules, accept_leaks=True)
    warnings = json.loads((accepted.path / "card.json").read_text())["warnings"]
    assert any(warning.startswith("released although it leaks: published: ") for warning in warnings)


def test_a_sound_set_of_that_size_is_released(tmp_path: Path) -> None:
    rules = Rules()
    built = World(rules=rules).built(tmp_path / "b", 40)
    assert not released(built, rules).withheld


def test_rows_keep_the_domain_that_their_input_had(tmp_path: Path) -> None:
    world = World(rules=Rules())
    built = world.built(tmp_path / "b", map(question, range(4)))
    [edition] = editions(built.kept, world.rules.kinds)
    assert sorted(edition.files) == ["Art_and_Entertainment", "Society_and_Culture"]
