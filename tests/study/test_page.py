"""study.html: what it says is in it, nothing in it acts, and equal results give equal bytes."""

import base64
import hashlib
import html
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from pluralrm.study.page import study_page
from pluralrm.study.parts import Missing
from pluralrm.study.result import StudyResult
from tests.report.folders import PAYLOADS
from tests.study.studies import MODELS, done, report


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def result(out: Path) -> StudyResult:
    return done(out)


@pytest.fixture(scope="module")
def page(result: StudyResult, out: Path) -> str:
    del result  # what wrote it
    return (out / "study.html").read_text(encoding="utf-8")


def _text(page: str) -> str:
    bare = re.sub(r"<(style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", bare).split()))


def test_the_verdicts_come_first(result: StudyResult, page: str) -> None:
    text = _text(page)
    assert result.verdicts
    assert all(" ".join(verdict.split()) in text for verdict in result.verdicts)
    places = [text.index(one) for one in (result.verdicts[0][:40], "the best downstream first", "What would refute it")]
    assert places == sorted(places)


def test_every_model_has_both_numbers_with_their_intervals(result: StudyResult, page: str) -> None:
    text = _text(page)
    for model, name in zip(MODELS, result.named().models, strict=True):
        row = text[text.index(f" {name} ", text.index("the best downstream first")) :][:200]
        for side in (*result.benchmarks, *result.downstream):
            found = side.estimates[model]
            assert f"{100 * found.value:.1f}" in row
            if found.low is not None and found.high is not None:
                assert f"[{100 * found.low:.1f}, {100 * found.high:.1f}]" in row


def test_who_was_shown_the_rubric_is_marked(page: str) -> None:
    assert '<th scope="row" class="alarm">taste · ORACLE</th>' in page
    assert "the rubric was shown to taste" in _text(page)


def test_table_plots_and_sentences_have_the_names_of_the_file(result: StudyResult) -> None:
    """Names are given to two models, one of whose specs begins the other's; the others go by the shortest form."""
    given = {"known:posts": "ours", "known:posts,blur=2": "theirs", "bm25": "the old one"}
    names = tuple(given.get(model, "") for model in MODELS)
    named = replace(
        result,
        declared=result.declared.model_copy(update={"names": names}),
        left=(Missing("simulated × known:posts × raw:3", "open", "known:posts,blur=2, known:posts: no answer."),),
    )
    page = study_page(named)
    bare, _, _ = page.partition('id="provenance"')
    assert not [spec for spec in given if re.search(rf"(?<![\w-]){re.escape(spec)}(?![\w-])", bare)]
    for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        assert all(f">{name}" in svg for name in [*given.values(), "taste"])
    assert "simulated × ours × raw:3: theirs, ours: no answer." in _text(page).replace(" :", ":")
    before = cast("list[dict[str, object]]", result.to_json()["models"])
    assert named.to_json()["models"] == [one | {"name": given.get(str(one["model"]), one["name"])} for one in before]


def test_the_page_has_no_time_and_no_place_on_this_machine(page: str, out: Path) -> None:
    assert str(out) not in page
    assert not re.search(r"20\d\d-\d\d-\d\dT", page)


def test_equal_studies_give_equal_bytes(tmp_path: Path, page: str, out: Path) -> None:
    done(tmp_path)
    assert report(tmp_path) == report(out)
    assert report(tmp_path)[1] == page.encode()


def test_the_policy_allows_the_page_s_own_style_and_script_alone(page: str) -> None:
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{hashed}'" in policy
    assert " style=" not in page
    assert not re.search(r"\son\w+=", page)
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_a_title_a_reason_a_model_and_a_path_are_text(result: StudyResult, page: str) -> None:
    hostile = replace(
        result,
        declared=result.declared.model_copy(update={"title": PAYLOADS[0]}),
        left=tuple(Missing(payload, why, payload) for payload in PAYLOADS for why in ("broken", "open", "skipped")),
        models=(*result.models, *PAYLOADS),
        provenance={payload: payload for payload in PAYLOADS},
    )
    attacked = study_page(hostile)
    tags = r"<(script|img|svg|iframe|a|b|style|base|form|object|embed|link|meta)\b"
    assert Counter(re.findall(tags, attacked)) == Counter(re.findall(tags, page))
    assert not [payload for payload in PAYLOADS if "<" in payload and payload in attacked]
