"""A model's card: the numbers of `compare`, read back by the libraries of the hub; inserted twice is inserted once."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.core import Benchmark, Query, Verdict
from pluralrm.errors import RunError, SpecError
from pluralrm.exchange.card import (
    CardResult,
    ModelCard,
    card_section,
    eval_results,
    insert_card,
    model_card,
    model_index,
    yaml_text,
)
from pluralrm.report.sections import Section, read_sources, sections
from pluralrm.runs import score
from tests.builders import bakery, card
from tests.cli.test_export import acting
from tests.report.folders import PAYLOADS, folders, hostile, unfinished

HUB = "an-organisation/a-set"
COMMIT = "0123456789abcdef" * 2 + "01234567"


class Asking:
    """A model with a template; the longer answer is better, and the user's posts make it more so."""

    spec = "asking"
    identity: ClassVar = {"template": "ab" * 32}

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            posts = len(query.user.posts) if query.user else 0
            yield Verdict(tuple(len(text) + posts * (len(text) % 7) for text in query.candidates))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = folders(tmp_path_factory.mktemp("runs"), items=24)
    bench = bakery(24)
    on_hub = Benchmark(card("on-hub", source=f"hub: {HUB} (split test)", revision=COMMIT), bench.items)
    for condition in ("none", "raw:2", "swapped:2"):
        score(on_hub, Asking(), condition, out=out)
    return out


@pytest.fixture(scope="module")
def measured(runs: Path) -> list[Section]:
    return sections(read_sources([runs]))


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> list[ModelCard]:
    measured = sections(read_sources([hostile(tmp_path_factory.mktemp("attack"))]))
    names = {section.names[row.model]: row for section in measured for row in section.overview.rows}
    return [model_card(measured, name) for name, row in names.items() if not row.oracle]


def ran(*words: str | Path) -> tuple[str, str]:
    result = CliRunner().invoke(app, ["export", "card", *map(str, words)])
    if isinstance(result.exception, SpecError | RunError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


# ---------------------------------------------------------------- numbers


def test_every_number_is_that_of_compare(runs: Path) -> None:
    boards = json.loads(CliRunner().invoke(app, ["compare", str(runs), "--json"]).stdout)
    results = json.loads(ran(runs, "-m", "asking", "--json")[0])["results"]
    (told,) = results
    board = next(board for board in boards if board["benchmark"] == "on-hub")
    entry = next(entry for entry in board["entries"] if entry["condition"] == told["condition"])
    assert told["value"] == entry["metrics"][told["metric"]]
    (personal,) = board["personalization"]
    assert (told["lift"], told["gain"]) == (personal["lift"], personal["gain"])
    assert told["benchmark_hash"] == board["benchmark_hash"]


def test_the_hub_reads_the_metadata_and_the_entries_as_they_were_meant(measured: list[Section]) -> None:
    result = model_card(measured, "asking", url="https://example.org/report")
    name, (indexed,) = model_index_to_eval_results(yaml.safe_load(yaml_text(model_index(result))))
    value = result.results[0].value
    assert (name, indexed.dataset_type, indexed.dataset_revision) == ("asking", HUB, COMMIT)
    assert indexed.metric_value == pytest.approx(100 * value.value, abs=0.05)
    assert indexed.metric_args is not None
    assert indexed.metric_args["low"] == value.low
    assert indexed.metric_args["verdict"] == result.results[0].row.verdict
    assert indexed.metric_args["template_sha256"] == "ab" * 32
    (entry,) = parse_eval_result_entries(yaml.safe_load(yaml_text(eval_results(result))))
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == (HUB, "on-hub", COMMIT)
    assert entry.value == indexed.metric_value
    assert entry.source_url == "https://example.org/report"
    assert f"n = {value.n}" in str(entry.notes)


def test_only_data_sets_of_the_hub_have_entries_and_no_path_of_this_machine_is_told(
    measured: list[Section], runs: Path
) -> None:
    result = model_card(measured, "longer")
    assert eval_results(result) == []
    for text in (insert_card("", result).text, json.dumps([each.to_json() for each in result.results])):
        assert str(runs) not in text


def test_sentences_on_benchmarks_of_one_name_say_how_many_items(tmp_path: Path) -> None:
    for items in (6, 8):
        score(bakery(items), Asking(), "raw:2", out=tmp_path / str(items))
    words = model_card(sections(read_sources([tmp_path]))).words
    assert [text.partition(": ")[0] for text in words] == ["bakery, 6 items", "bakery, 8 items"]


def test_what_a_model_saw_of_the_rubric_and_what_is_unfinished_is_no_result(tmp_path: Path) -> None:
    for condition in ("none", "oracle"):
        score(bakery(6), Asking(), condition, out=tmp_path / "a")
    unfinished(tmp_path / "b")
    both = sections(read_sources([tmp_path]))
    assert [result.row.condition for result in model_card(both, "asking").results] == ["none"]
    with pytest.raises(RunError, match="incomplete"):
        model_card(both, "down")


def test_the_model_is_named_where_there_are_several(measured: list[Section]) -> None:
    with pytest.raises(SpecError, match="3 models: "):
        model_card(measured)
    with pytest.raises(SpecError, match="Did you mean 'longer'"):
        model_card(measured, "longr")
    for url in ("javascript:alert(1)", "https://a b", "https://x>y", "http:/x"):
        with pytest.raises(SpecError, match="--url"):
            model_card(measured, "longer", url=url)


# ---------------------------------------------------------------- into a README

LINE = st.text(st.sampled_from("ab#-_*:<>!`| \t\u2028é漢"), max_size=12)
FRONT = st.sampled_from(["", "---\n---\n", "---\nlicense: mit\ntags:\n- a\n---\n", "---\nlanguage: en\n# mine\n---"])


README = st.builds(
    lambda front, body, newline: (front + "\n".join(["", *body])).replace("\n", newline),
    FRONT,
    st.lists(LINE, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)


@given(README)
def test_inserted_twice_is_inserted_once_and_the_rest_is_as_it_was(result: ModelCard, readme: str) -> None:
    once = insert_card(readme, result)
    assert once.indexed
    assert insert_card(once.text, result) == once
    assert insert_card(f"\ufeff{readme}", result).text == f"\ufeff{once.text}"
    newline = "\r\n" if "\r\n" in readme else "\n"
    began = "" if readme.startswith("---") else newline.join(["---", "---", "", ""])
    assert without(once.text).rstrip() == f"{began}{readme}".rstrip()
    assert metadata_of(once.text.replace("\r\n", "\n"))["model-index"][0]["name"] == "asking"
    if newline == "\r\n":
        assert "\n" not in once.text.replace("\r\n", "")


@pytest.fixture(scope="module")
def result(measured: list[Section]) -> ModelCard:
    return model_card(measured, "asking")


def without(text: str) -> str:
    """Return a README without what stands between marks, and without the marks."""
    text = re.sub(r"(?ms)^# pluralrm:begin\r?\n.*?^# pluralrm:end\r?\n", "", text.removeprefix("\ufeff"))
    return re.sub(r"(?ms)^<!-- pluralrm:begin -->\r?\n.*?^<!-- pluralrm:end -->\r?\n", "", text)


def test_a_newer_card_takes_the_place_of_an_older_one(result: ModelCard, measured: list[Section]) -> None:
    readme = "---\nlicense: mit\n---\n# Mine\n\nabove\n"
    older = insert_card(readme, result).text + "below\n"
    newer = insert_card(older, model_card(measured, "longer")).text
    assert without(newer) == without(older) == f"{readme}\nbelow\n"
    assert metadata_of(newer)["license"] == "mit"
    assert metadata_of(newer)["model-index"][0]["name"] == "longer"


def test_a_model_index_of_another_origin_stays(result: ModelCard) -> None:
    readme = "---\nmodel-index:\n- name: theirs\n---\ntext\n"
    inserted = insert_card(readme, result)
    assert not inserted.indexed
    assert inserted.text.startswith(readme)
    assert "## Evaluation by pluralrm" in inserted.text


def test_rules_around_a_text_are_no_metadata(result: ModelCard) -> None:
    readme = "---\nJust a text between rules.\n---\n"
    inserted = insert_card(readme, result).text
    assert readme in inserted
    assert list(metadata_of(inserted)) == ["model-index"]


@pytest.mark.parametrize(
    "marks",
    ["<!-- pluralrm:begin -->\n", "<!-- pluralrm:end -->\n<!-- pluralrm:begin -->\n", "<!-- pluralrm:end -->\n" * 2],
)
def test_marks_that_do_not_pair_are_refused(result: ModelCard, marks: str) -> None:
    with pytest.raises(RunError, match="wanted one of each"):
        insert_card(f"text\n{marks}text\n", result)


def test_the_verb_writes_the_readme_and_the_entries_beside_it(runs: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    with pytest.raises(RunError, match="no such file"):
        ran(runs, "-m", "asking", "--into", readme)
    readme.write_bytes(b"# A model\r\n")
    first = ran(runs, "-m", "asking", "--into", readme)
    once = readme.read_bytes()
    assert b"\n# A model\r\n\r\n<!-- pluralrm:begin -->\r\n" in once
    assert ran(runs, "-m", "asking", "--into", readme) == first
    assert readme.read_bytes() == once
    (entry,) = yaml.safe_load((tmp_path / ".eval_results/pluralrm.yaml").read_text(encoding="utf-8"))
    assert entry["dataset"]["id"] == HUB
    assert ran(runs, "-m", "longer")[0].startswith("---\n# pluralrm:begin\n")
    readme.write_bytes(b"\xff\xfe")
    with pytest.raises(RunError, match="not UTF-8"):
        ran(runs, "-m", "asking", "--into", readme)


# ---------------------------------------------------------------- attacks


def test_no_text_of_a_stranger_acts_in_markdown(attack: list[ModelCard]) -> None:
    assert len(attack) >= 3
    for one in attack:
        section = card_section(one)
        assert acting(section) == []
        assert section.count("\n## ") == 0
        assert "\n# " not in section


def test_yaml_gives_back_what_strangers_wrote(attack: list[ModelCard]) -> None:
    for one in attack:
        (back,) = yaml.safe_load(yaml_text(model_index(one)))
        assert back["name"] == one.name
        assert [entry["dataset"]["name"] for entry in back["results"]] == [PAYLOADS[0]] * len(one.results)
        inserted = insert_card("# Title\n", one).text
        assert insert_card(inserted, one).text == inserted
        assert set(metadata_of(inserted)) == {"model-index"}


def metadata_of(readme: str) -> dict[str, Any]:
    """Return the metadata as the hub cuts them out: to the first line of three hyphens."""
    match = re.match(r"---\n(.*?)\n---\n", readme, re.DOTALL)
    assert match is not None
    return dict(yaml.safe_load(match[1]))


TEXTS = st.text(max_size=20) | st.sampled_from([*PAYLOADS, "# pluralrm:end", "---", "no", "1e5", "~", "\x85", "\ufeff"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6) | st.none()
KEYS = st.sampled_from(["a", "b", "c-d"])
VALUES = st.recursive(
    TEXTS | NUMBERS, lambda part: st.lists(part, max_size=3) | st.dictionaries(KEYS, part, max_size=3)
)


@given(st.lists(VALUES, min_size=1, max_size=3) | st.dictionaries(KEYS, VALUES, min_size=1, max_size=3))
def test_yaml_gives_back_any_value(value: Any) -> None:
    text = yaml_text(value)
    assert yaml.safe_load(text) == value
    assert not re.search(r"(?m)^(---|# )", text)


@given(TEXTS)
def test_a_model_of_any_name_has_a_card_that_is_its_own(result: ModelCard, name: str) -> None:
    named = ModelCard(name, tuple(renamed(each, name) for each in result.results))
    once = insert_card("# Title\n", named).text
    assert insert_card(once, named).text == once
    assert metadata_of(once)["model-index"][0]["name"] == name
    assert acting(card_section(named)) == []


def renamed(result: CardResult, name: str) -> CardResult:
    return replace(result, name=name, words=f"{name} is what it is.")
