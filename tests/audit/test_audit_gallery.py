"""Many benchmarks in one table: every kind of planted leak is in its column, sound ones are rarely accused."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pluralrm.audit import audit
from pluralrm.audit.comparisons import comparisons
from pluralrm.audit.context import answers_in_context, file_places, from_another, from_others
from pluralrm.audit.gallery import GalleryEntry, GalleryRow, gallery, gallery_entries, gallery_page, gallery_verdict
from pluralrm.audit.near import equal_items
from pluralrm.audit.probes import trial
from pluralrm.audit.result import Audit
from pluralrm.cli import app
from pluralrm.core import Benchmark, ContextPair, Post, User, persons
from pluralrm.errors import BenchmarkError, SpecError
from tests.audit.worlds import WORLDS, crossed, items_of, nearly_repeated, repeated, tasted
from tests.construct.worlds import changed, pairs

SMALL = (1,) * 30


def rows_of(benchmarks: dict[str, Benchmark], kept: Path | None = None, relabellings: int = 299) -> list[GalleryRow]:
    entries = [GalleryEntry(name, name) for name in benchmarks]

    def opens(entry: GalleryEntry) -> Benchmark:
        if entry.spec == "missing":
            raise BenchmarkError("no file <script>")
        return benchmarks[entry.spec]

    return gallery(entries, opens, lambda *_: None, folder=kept, relabellings=relabellings)


def flaws(name: str, seed: int) -> list[str]:
    [row] = rows_of({name: WORLDS[name].make(seed)})
    assert row.audit is not None, row.problem
    return row.flaws


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name, world in WORLDS.items() if not world.column])
def test_a_sound_benchmark_is_accused_in_at_most_5_of_100_seeds(name: str) -> None:
    assert sum(bool(flaws(name, seed)) for seed in range(100)) <= 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name, world in WORLDS.items() if world.column])
def test_a_planted_leak_is_in_its_column(name: str) -> None:
    assert all(WORLDS[name].column in flaws(name, seed) for seed in range(20))


def test_an_answer_that_stands_in_the_context_is_a_leak() -> None:
    bench = items_of(0, "context", sizes=(*SMALL, 12), rate=0.6)
    [row] = rows_of({"quoted": bench})
    assert row.flaws == ["own context"]
    cell = row.cells["own context"]
    assert cell.by == "answer in the context: what the context holds"
    assert cell.excess is not None
    assert cell.excess.value == pytest.approx(0.3, abs=0.12)


def test_an_answer_that_was_not_chosen_in_the_context_counts_against_it() -> None:
    [item] = items_of(0, sizes=(1,)).items
    first, second = item.candidates
    both = User("u", preferences=(ContextPair("p", "?", first.upper(), f" {second}"),))
    table = comparisons([changed(item, user=both)])
    scores = answers_in_context(table)
    assert scores is not None
    assert dict(zip(table.texts, scores["what the context holds"].tolist(), strict=True)) == {first: 1.0, second: -1.0}
    short = changed(item, candidates=("Yes.", "No."), user=User("u", preferences=(ContextPair("p", "?", "Yes.", "x"),)))
    assert answers_in_context(comparisons([short])) is None


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (("response2", "response10"), [0, 1]),
        (("answer B", "answer A"), [1, 0]),
        (("chosen", "rejected"), None),
        (("A", "B"), None),  # where the items have them anyway: `position` guesses by that
        (("7", "7"), None),
    ],
)
def test_the_place_in_the_file_is_told_by_ids_that_count(names: tuple[str, ...], ranks: list[int] | None) -> None:
    [item, other] = items_of(0, sizes=(1, 1)).items
    swapped = changed(other, candidate_ids=names[::-1])
    table = comparisons([changed(item, candidate_ids=names), swapped if ranks else other])
    if names == ("A", "B"):
        table = comparisons([changed(item, candidate_ids=names)])
    rules = file_places(table)
    if ranks is None:
        assert rules is None
    else:
        assert rules is not None
        own = rules["number 2"][: len(ranks)]
        assert [int(own[table.orders[0].index(index)]) for index in range(2)] == ranks


def test_the_votes_of_others_equal_brute_force() -> None:
    bench = tasted(3, people=7, prompts=25, each=18)
    table = comparisons(bench.items)
    result = from_others(table)
    assert result is not None
    assert not isinstance(result, str)
    who = persons(bench.items)
    expected = []
    for item in table.items:
        rivals = [r for r in table.items if r.crossed == item.crossed and who[r.cluster] != who[item.cluster]]
        votes = [sum((index in r.best) / len(r.best) for r in rivals) for index in range(4)]
        top = [index for index in range(4) if votes[index] > max(votes) - 1e-9]
        expected.append(sum(index in item.best for index in top) / len(top))
    assert result.guess.credits == pytest.approx(np.array(expected))


def test_what_everybody_wants_is_not_personal_and_tastes_are() -> None:
    alike, apart = (from_others(comparisons(bench.items)) for bench in (crossed(0), tasted(0)))
    assert alike is not None
    assert apart is not None
    assert not isinstance(alike, str)
    assert not isinstance(apart, str)
    assert alike.p < 1e-6
    assert apart.p > 0.99
    few = from_others(comparisons(crossed(0, each=6).items))
    assert few == "people judged 5 other prompts with others in the median, wanted 10 or more"
    assert from_others(comparisons(pairs(5).items)) is None


@pytest.mark.slow
def test_labels_by_a_coin_are_not_called_impersonal() -> None:
    # At most 5 of 100 by the t-test on the majority: more than 6 of 40 have a chance under 1 in 100.
    results = [
        from_others(comparisons(crossed(seed, people=12, prompts=24, each=12, agree=0).items)) for seed in range(40)
    ]
    assert sum(result is not None and not isinstance(result, str) and result.p < 0.05 for result in results) <= 6


def test_own_posts_with_words_of_the_preferred_answer_are_better_than_anothers() -> None:
    items = []
    for item in items_of(0, sizes=(20, *SMALL, *SMALL)).items:
        words = item.candidates[item.best[0]].split()[::2]
        items.append(changed(item, user=User(item.cluster, (Post(item.id, " ".join(words)),))))
    table = comparisons(items)
    result = from_another(table, trial(table, relabellings=39), 0)
    assert result.ahead > 0.3
    assert result.p > 0.99
    assert result.detail.startswith("own contexts guess ")


def test_equal_items_and_options_are_counted() -> None:
    found = equal_items(repeated(0))
    assert found.status == "warn"
    assert found.measures["repeated with another label"] == 15
    assert found.measures["equal options"].value == pytest.approx(15 / 215)  # type: ignore[union-attr]
    assert found.measures["repeated items"].value == pytest.approx(15 / 215)  # type: ignore[union-attr]
    near = equal_items(nearly_repeated(0))
    assert near.status == "warn"
    # Of 30 that differ by two words, those of few words are as far apart as two items of one template.
    assert 14 / 215 <= near.measures["nearly repeated items"].value <= 30 / 215  # type: ignore[union-attr]
    assert near.measures["repeated items"].value == 0  # type: ignore[union-attr]
    assert equal_items(crossed(0)).status == "ok"  # one prompt of many people is no duplicate
    assert equal_items(items_of(0)).status == "ok"


def test_an_audit_is_read_back_as_it_was_written() -> None:
    result = audit(pairs(12), relabellings=299)
    assert Audit.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_benchmark_that_cannot_be_loaded_is_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    rows = rows_of({"missing": pairs(1), "sound": pairs(12), "long": pairs(80, "length", rate=0.95)}, tmp_path)
    assert [row.entry.name for row in rows] == ["long", "sound", "missing"]
    assert gallery_verdict(rows) == "Flawed: 1 of 2 audited benchmarks. Not audited: 1."
    assert rows[1].cells["length"].status == "too few to say"
    assert rows[0].cells["length"].status == "leak"
    assert rows[0].cells["length"].excess is not None
    assert rows[0].cells["length"].excess.value == pytest.approx(0.45, abs=0.08)
    assert rows[2].record()["length_status"] == "not audited"
    page = gallery_page("A <b> gallery", rows)
    assert "no file &lt;script&gt;" in page
    assert "A &lt;b&gt; gallery" in page
    assert "default-src 'none'" in page


def test_each_line_of_a_row_names_its_kind_and_two_users_show_nothing() -> None:
    rows = rows_of({"long": pairs(80, "length", rate=0.95), "few": pairs(2), "again": repeated(0)})
    lines = {row.entry.name: row.lines for row in rows}
    assert lines["long"][0].startswith("length: the longest +46.9 [")
    assert lines["long"][1].startswith("options: ")
    assert lines["few"] == ["nothing to guess by: 2 labelled clusters, wanted 4 or more"]
    assert lines["again"][0].startswith("duplicates: equal items and options 14.0% [")


def test_an_audit_that_is_kept_is_not_computed_again(tmp_path: Path) -> None:
    [row] = rows_of({"a": pairs(12)}, tmp_path)
    [file] = tmp_path.glob("*.json")
    assert row.audit is not None
    file.write_text(json.dumps({**row.audit.to_json(), "verdict": "As kept."}))
    [again] = rows_of({"a": pairs(12)}, tmp_path)
    assert again.audit is not None
    assert again.audit.verdict == "As kept."
    rows_of({"a": pairs(13)}, tmp_path)
    rows_of({"a": pairs(12)}, tmp_path, relabellings=309)
    assert len(list(tmp_path.glob("*.json"))) == 3
    file.write_text("{")
    [broken] = rows_of({"a": pairs(12)}, tmp_path)
    assert "holds no audit" in broken.problem


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, r"found no \[\[benchmark\]\]"),
        ({"benchmarks": []}, "unknown key 'benchmarks'. Did you mean 'benchmark'"),
        ({"benchmark": [{"name": "x"}]}, "benchmark 1: found no spec"),
        ({"benchmark": [{"spec": "x", "sed": 1}]}, "unknown key 'sed'. Did you mean"),
        ({"benchmark": [{"spec": "x", "seed": "1"}]}, "seed: found '1', wanted int"),
        ({"benchmark": [{"spec": "x"}, {"spec": "x"}]}, "two benchmarks are named 'x'"),
    ],
)
def test_what_does_not_fit_in_the_file_is_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        gallery_entries(table)


def test_the_command_writes_table_page_and_files_for_papers(tmp_path: Path) -> None:
    file, page = tmp_path / "gallery.toml", tmp_path / "g.html"
    file.write_text(
        'title = "Two"\n[[benchmark]]\nspec = "simulated:users=20,items=1"\n[[benchmark]]\nspec = "nowhere"\n'
    )

    def run(*options: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["audit", "--gallery", str(file), "-o", str(page), *options])
        return result.exit_code, result.stdout

    code, text = run()
    assert (code, "unknown benchmark 'nowhere'" in " ".join(text.split())) == (2, True)
    assert "at least one of them with a chance of up to 5%" in " ".join(text.split())
    assert page.read_text().startswith("<!doctype html>")
    assert run("--format", "csv")[1].startswith("benchmark,spec,problem,items,clusters,chance,length,length_low")
    assert run("--format", "markdown")[1].startswith("| benchmark | items | length |")
    assert run("--format", "latex")[1].startswith("\\begin{tabular}")
    assert {row["benchmark"] for row in json.loads(run("--json")[1])["benchmarks"]} == {
        "simulated:users=20,items=1",
        "nowhere",
    }
    both = CliRunner().invoke(app, ["audit", "pocket-prb", "--gallery", str(file)])
    assert isinstance(both.exception, SpecError)
