"""RMGAP: a record becomes twelve items that share four answers; every other record is refused."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks.rmgap import COUNTS, STYLES
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, RowError
from pluralrm.metrics.estimates import measure
from pluralrm.metrics.units import strictly_right
from pluralrm.runs import score
from pluralrm.testing import benchmark_findings, check_benchmark
from tests.benchmarks.sample_rows import LEVELS, JsonRow, rmgap_row, write_jsonl, write_parquet


def load(tmp_path: Path, rows: list[JsonRow], *, seed: int = 0) -> Benchmark:
    return load_benchmark(f"rmgap:{write_jsonl(tmp_path / 'test.jsonl', rows)}", seed=seed)


def test_a_record_becomes_twelve_items_with_the_right_winners(tmp_path: Path) -> None:
    row = rmgap_row(3, "Writing")
    items = load(tmp_path, [row]).items
    assert [item.id for item in items] == [f"r3/g{g}/p{p}" for g in range(1, 5) for p in range(3)]
    texts = {response["key"]: response["text"] for response in row["responses"]}
    prompts = [prompt["text"] for group in row["prompt_groups"] for prompt in group["prompts"]]
    assert [item.prompt for item in items] == prompts
    for item in items:
        assert item.preferred is not None
        winner = f"response{item.tags['group']}"
        assert item.candidate_ids[item.preferred] == winner
        assert item.candidates[item.preferred] == texts[winner]
        assert [texts[key] for key in item.candidate_ids] == list(item.candidates)
        assert set(item.candidate_ids) == set(texts)
        assert (item.cluster, item.domain, item.user, item.oracle) == ("r3", "Writing", None, None)


def test_tags_name_record_group_phrasing_role_and_the_winners_style(tmp_path: Path) -> None:
    row = rmgap_row(1)
    row["prompt_groups"][0]["winner"], row["prompt_groups"][1]["winner"] = "response2", "response1"
    row["prompt_groups"][0]["prompts"].reverse()  # base last
    first, last = load(tmp_path, [row]).items[0], load(tmp_path, [row]).items[2]
    assert {key: first.tags[key] for key in ("record", "group", "phrasing", "role")} == {
        "record": "r1",
        "group": "1",
        "phrasing": "0",
        "role": "rewrite",
    }
    assert last.tags["role"] == "base"
    style = row["style_assignments"]["r2"]
    assert {f"winner:{dimension}": level for dimension, level in style.items()}.items() <= first.tags.items()
    assert len(first.tags) == 9


def test_the_twelve_items_share_the_text_of_their_answers(tmp_path: Path) -> None:
    items = load(tmp_path, [rmgap_row()]).items
    assert len({id(text) for item in items for text in item.candidates}) == 4


def test_the_benchmark_keeps_every_promise(tmp_path: Path) -> None:
    check_benchmark(load(tmp_path, [rmgap_row(n) for n in range(30)]))


def test_the_winner_stands_at_each_place_about_equally_often(tmp_path: Path) -> None:
    places = Counter(item.preferred for item in load(tmp_path, [rmgap_row(n) for n in range(300)]).items)
    assert all(796 <= places[place] <= 1004 for place in range(4))  # four standard deviations around 900


def test_phrasings_of_one_prompt_are_placed_independently(tmp_path: Path) -> None:
    """Else a model that favours a place would look consistent."""
    items = load(tmp_path, [rmgap_row(n) for n in range(100)]).items
    same = sum(a.candidate_ids == b.candidate_ids for a, b in zip(items[::3], items[1::3], strict=True))
    assert same < 40  # 400 pairs of orders, 1 in 24 agrees by chance


def test_placement_is_the_documented_draw_and_ignores_the_order_of_the_file(tmp_path: Path) -> None:
    rows = [rmgap_row(n) for n in range(5)]
    forwards = {item.id: item for item in load(tmp_path, rows, seed=4).items}
    for row in rows:
        row["responses"].reverse()
    assert forwards == {item.id: item for item in load(tmp_path, rows[::-1], seed=4).items}
    order = [f"response{n}" for n in range(1, 5)]
    random.Random("4:r2/g3/p1").shuffle(order)
    assert list(forwards["r2/g3/p1"].candidate_ids) == order


def test_json_lines_and_parquet_have_one_content_hash(tmp_path: Path) -> None:
    rows = [rmgap_row(n) for n in range(4)]
    lines = load(tmp_path, rows)
    table = load_benchmark(f"rmgap:{write_parquet(tmp_path / 'test.parquet', rows)}")
    assert lines.content_hash == table.content_hash
    rows[2]["prompt_groups"][1]["prompts"][2]["text"] += "?"
    assert load(tmp_path, rows).content_hash != lines.content_hash


def test_models_may_be_a_list_a_map_or_absent(tmp_path: Path) -> None:
    rows = [rmgap_row(n) for n in range(3)]
    rows[0]["models"] = ["one", "two"]
    del rows[1]["models"]
    assert len(load(tmp_path, rows).items) == 36


def _style(row: JsonRow) -> JsonRow:
    style: JsonRow = row["style_assignments"]["r2"]
    return style


Case = tuple[Callable[[JsonRow], object], str, str, str]


@pytest.mark.parametrize(
    "case",
    [
        (lambda row: row.update(domain="Reasonning"), "domain", "'Reasonning'", "one of 'Chat', 'Writing', 'Reas"),
        (lambda row: row.pop("domain"), "domain", "no such key", "this key"),
        (lambda row: row.update(models=7), "models", "7", "the generators' names, in a list or by response"),
        (lambda row: row["responses"].pop(), "responses", "a list of 3", "a list of 4"),
        (lambda row: row["responses"].append({}), "responses", "a list of 5", "a list of 4"),
        (lambda row: row["responses"][1].update(key="response1"), "responses[1].key", "'response1' again", "a key of"),
        (
            lambda row: row["responses"][3].update(key="r4"),
            "prompt_groups[3].winner",
            "'response4'",
            "one of response1, response2, response3, r4",
        ),
        (lambda row: row["responses"][3].update(text=""), "responses[3].text", "an empty text", "a text that is not"),
        (lambda row: row["prompt_groups"].pop(), "prompt_groups", "a list of 3", "a list of 4"),
        (
            lambda row: row["prompt_groups"][2].update(group=2),
            "prompt_groups[2].group",
            "2 again",
            "a number of its own",
        ),
        (lambda row: row["prompt_groups"][2].update(group="3"), "prompt_groups[2].group", "'3'", "a whole number"),
        (
            lambda row: row["prompt_groups"][2].update(group=-1),
            "prompt_groups[2].group",
            "-1",
            "a whole number from 0 to 99",
        ),
        (lambda row: row["prompt_groups"][2].update(group=True), "prompt_groups[2].group", "true", "a whole number"),
        (
            lambda row: row["prompt_groups"][2].update(winner="response5"),
            "prompt_groups[2].winner",
            "'response5'",
            "one of response1, ",
        ),
        (
            lambda row: row["prompt_groups"][2].update(winner="response1"),
            "prompt_groups[2].winner",
            "response1 again",
            "each response to win one group",
        ),
        (
            lambda row: row["prompt_groups"][0]["prompts"].pop(),
            "prompt_groups[0].prompts",
            "a list of 2",
            "a list of 3",
        ),
        (
            lambda row: row["prompt_groups"][0]["prompts"][1].update(role="base"),
            "prompt_groups[0].prompts",
            "roles base, base, rewrite",
            "one base, two rewrites",
        ),
        (
            lambda row: row["prompt_groups"][0]["prompts"][1].update(role="Base"),
            "prompt_groups[0].prompts[1].role",
            "'Base'",
            "one of 'base' or 'rewrite'",
        ),
        (
            lambda row: row["prompt_groups"][0]["prompts"][0].pop("role"),
            "prompt_groups[0].prompts",
            "roles None, rewrite, rewrite",
            "one base, two rewrites",
        ),
        (lambda row: row["style_assignments"].pop("r4"), "style_assignments.r4", "no such key", "this key"),
        (lambda row: _style(row).pop("Formality"), "style_assignments.r2.Formality", "no such key", "this key"),
        (
            lambda row: _style(row).update(Formality="terse"),
            "style_assignments.r2.Formality",
            "'terse'",
            "one of casual, informal, neutral, formal, highly_formal",
        ),
        (lambda row: _style(row).update(Formality=2), "style_assignments.r2.Formality", "2", "one of casual"),
        (lambda row: row["style_assignments"].update(r2=[]), "style_assignments.r2", "a list of 0", "an object with"),
    ],
)
def test_a_malformed_record_is_refused_by_file_line_and_field(tmp_path: Path, case: Case) -> None:
    change, field, found, wanted = case
    row = rmgap_row(1)
    change(row)
    with pytest.raises(RowError) as caught:
        load(tmp_path, [rmgap_row(0), row])
    assert (caught.value.line, caught.value.field, caught.value.found) == (2, field, found)
    assert caught.value.wanted.startswith(wanted)


def _renamed(row: JsonRow) -> None:
    """Give the responses other keys, as the published evaluation allows."""
    for letter, response, group in zip("abcd", row["responses"], row["prompt_groups"], strict=True):
        response["key"] = group["winner"] = letter


def _each_prompt(change: Callable[[JsonRow, int], object]) -> Callable[[JsonRow], object]:
    return lambda row: [change(p, n) for group in row["prompt_groups"] for n, p in enumerate(group["prompts"], 1)]


VARIANTS: dict[str, Callable[[JsonRow], object]] = {
    "as published": lambda row: row,
    "ids in prompts": _each_prompt(lambda prompt, n: prompt.update(id=n)),
    "ids as text": _each_prompt(lambda prompt, n: prompt.update(id=f"p{n}")),
    "no source": lambda row: row.pop("source"),
    "source null": lambda row: row.update(source=None),
    "no group": lambda row: [group.pop("group") for group in row["prompt_groups"]],
    "group null": lambda row: [group.update(group=None) for group in row["prompt_groups"]],
    "no role": _each_prompt(lambda prompt, _n: prompt.pop("role")),
    "role null": _each_prompt(lambda prompt, _n: prompt.update(role=None)),
    "no styles": lambda row: row.pop("style_assignments"),
    "styles null": lambda row: row.update(style_assignments=None),
    "no models": lambda row: row.pop("models"),
    "models a list": lambda row: row.update(models=["some-model"] * 4),
    "ids as numbers": lambda row: row.update(id=int(row["id"][1:])),
    "other keys": _renamed,
    "responses turned": lambda row: row["responses"].reverse(),
    "a twin": lambda row: row["responses"][1].update(text=row["responses"][0]["text"]),
}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_seventeen_variants_of_a_file_load(tmp_path: Path, variant: str, suffix: str) -> None:
    rows = [rmgap_row(n, list(COUNTS)[n % 4]) for n in range(1, 9)]
    plain = load(tmp_path, rows).items
    for row in rows:
        VARIANTS[variant](row)
    bench = load_benchmark(f"rmgap:{FILES[suffix](tmp_path / f'rows.{suffix}', rows)}")
    assert len(bench.items) == 96
    for item, first in zip(bench.items, plain, strict=True):
        assert (item.prompt, item.domain) == (first.prompt, first.domain)
        right = item.candidates[item.preferred or 0]
        assert right == first.candidates[first.preferred or 0] or variant == "a twin"
        styles = {key: level for key, level in first.tags.items() if key.startswith("winner:")}
        told = {key: item.tags[key] for key in ("group", "phrasing", "role")}
        assert told == {key: first.tags[key] for key in told}
        wanted = {} if variant in ("no styles", "styles null") else styles
        assert {key: level for key, level in item.tags.items() if key.startswith("winner:")} == wanted
    twins = {"prompts whose answer has the text of another": 48}
    assert bench.card.load.kept == (twins if variant == "a twin" else {})


FILES: dict[str, Callable[[Path, list[JsonRow]], Path]] = {"jsonl": write_jsonl, "parquet": write_parquet}


def test_what_a_record_lacks_is_counted_and_what_it_has_more_is_named(tmp_path: Path) -> None:
    bare, more = rmgap_row(1), rmgap_row(2)
    for variant in ("no source", "no group", "no role", "no styles"):
        VARIANTS[variant](bare)
    more["style_assignments"]["r2"]["Humour"] = "dry"
    more["prompt_groups"][0]["prompts"][1]["length"] = 31
    load_report = load(tmp_path, [bare, more]).card.load
    assert load_report.defaulted == {
        "prompt_groups[].group": 4,
        "prompt_groups[].prompts[].role": 12,
        "source": 1,
        "style_assignments": 1,
    }
    assert load_report.ignored == ("prompt_groups[].prompts[].length", "style_assignments.r2.Humour")


def test_check_warns_of_twins_and_fails_where_all_answers_are_one(tmp_path: Path) -> None:
    row = rmgap_row(1)
    VARIANTS["a twin"](row)
    found = {each.check: each.status for each in benchmark_findings(load(tmp_path, [row]))}
    assert found["no two candidates have one text"] == "warn"
    assert found["two or more different candidates"] == "pass"
    row["responses"] = [{**response, "text": "The same."} for response in row["responses"]]
    found = {each.check: each.status for each in benchmark_findings(load(tmp_path, [row]))}
    assert found["two or more different candidates"] == "fail"


def test_no_scorer_is_right_where_the_winner_has_a_twin(tmp_path: Path) -> None:
    row = rmgap_row(1)
    VARIANTS["a twin"](row)
    run = score(load(tmp_path, [row]), "random", out=tmp_path / "runs")
    right = {row.item for row in run.rows if strictly_right(row)}
    assert not {name for name in right if name.startswith(("r1/g1", "r1/g2"))}


def test_the_prompts_before_tailoring_can_be_asked(tmp_path: Path) -> None:
    """Without a scenario nothing says which answer is wanted: a scorer that reads the prompt is at 25 too."""
    rows = [rmgap_row(n) | {"original_prompt": f"Question {n}?"} for n in range(20)]
    path = write_jsonl(tmp_path / "test.jsonl", rows)
    tailored, original = (load_benchmark(f"rmgap:{path}{option}") for option in ("", ",prompts=original"))
    assert [replace(item, prompt="") for item in tailored.items] == [replace(x, prompt="") for x in original.items]
    assert [item.prompt for item in original.items] == [f"Question {n}?" for n in range(20) for _ in range(12)]
    assert (original.card.name, original.content_hash != tailored.content_hash) == ("rmgap-test-original", True)
    assert "BoN is 25" in original.card.notes
    run = score(original, "bm25", out=tmp_path / "runs")
    assert measure(run).value <= 0.25
    with pytest.raises(RowError, match=r":1: original_prompt: found no such key, wanted the prompt before tailoring"):
        load_benchmark(f"rmgap:{write_jsonl(path, [rmgap_row(1)])},prompts=original")


def test_a_record_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowError, match=r"test.jsonl:3: id: found 'r1' again \(first at .*test.jsonl:1\)"):
        load(tmp_path, [rmgap_row(1), rmgap_row(2), rmgap_row(1)])


def test_without_a_path_the_error_says_how_to_get_the_data() -> None:
    with pytest.raises(BenchmarkError, match=r"download data/test.jsonl from https://github.com/.* then rmgap:PATH"):
        load_benchmark("rmgap")


def test_only_the_published_counts_carry_the_benchmarks_name(tmp_path: Path) -> None:
    rows = [rmgap_row(1000 * d + n, domain) for d, domain in enumerate(COUNTS) for n in range(COUNTS[domain])]
    whole = load(tmp_path, rows)
    assert (len(whole.items), whole.card.name, whole.card.licence) == (13_164, "rmgap", "MIT")
    part = load(tmp_path, rows[1:])
    assert (part.card.name, part.card.licence) == ("rmgap-test", "not stated")
    for card in (whole.card, part.card):
        assert (card.cluster, card.average) == ("record", "macro")
        assert card.metrics == ("bon", "pair", "consistency", "all_phrasings")


def test_there_are_3125_styles() -> None:
    assert {dimension: tuple(levels) for dimension, levels in LEVELS.items()} == STYLES
