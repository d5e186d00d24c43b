"""Pages run nothing that was not written here."""

import base64
import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.core import Estimate
from pluralrm.pages import PageTable, TableCell, TableColumn, _environment, data_block, interval_bar, render
from pluralrm.text import estimated, visible


def allowed(html: str, kind: str) -> str:
    found = re.search(rf"{kind}-src 'sha256-([^']+)'", html)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("kind", "tag"), [("style", "style"), ("script", "script")])
def test_the_policy_allows_the_one_style_and_the_one_script_by_hash(kind: str, tag: str) -> None:
    html, _ = render("pluralrm.annotate", "admin.html.jinja", title="T", styles=["annotate.css"], scripts=["admin.js"])
    [body] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() == allowed(html, kind)
    assert "default-src 'none'" in html
    assert "unsafe" not in html


def admin(title: str) -> str:
    return render("pluralrm.annotate", "admin.html.jinja", title=title).html


def test_a_title_is_text() -> None:
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in admin("</title><script>")


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_survives_as_data_and_can_be_written(text: str) -> None:
    block = data_block("d", {"text": text})
    assert block.isascii()
    inner = str(block).removeprefix('<script type="application/json" id="d">').removesuffix("</script>")
    assert not set("<>&") & set(inner)
    assert json.loads(inner) == {"text": text}
    visible(text).encode("utf-8")


def test_a_table_escapes_every_cell_and_names_its_rows() -> None:
    hostile = "<script>\x07&"
    table = PageTable(
        hostile,
        [TableColumn(""), TableColumn(hostile, "n")],
        [("a", TableCell(hostile, hostile, "x", strong=True))],
        hostile,
    )
    html = _environment("pluralrm.pages").get_template("macros.html.jinja").module.table(table, alarms={"a"})  # type: ignore[attr-defined]
    safe = "&lt;script&gt;\\x07&amp;"
    assert hostile not in html
    assert html.count(safe) == 5
    assert '<th scope="row" class="alarm">a</th>' in html
    assert f'<td class="n x"><strong>{safe}</strong> <span class="span">{safe}</span></td>' in html
    assert f'<thead><tr><td></td><th scope="col" class="n">{safe}</th></tr></thead>' in html


def test_a_bar_stretches_from_0_to_100_per_cent() -> None:
    bar = interval_bar(Estimate(1.0, 0.0, 1.0, 5, 0, ""), 0.5, Estimate(0.5, 0.25, 0.75, 5, 0, ""), look="alarm")
    for part in (
        'd="M4.0 8H136.0"',
        'cx="136.0"',
        'd="M70.0 1V15"',
        'x="37.0" y="0" width="66.0"',
        'class="bar alarm"',
    ):
        assert part in bar


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert visible("a\x1b[31m\u202eb\x00\ud800") == "a\\x1b[31m\\u202eb\\x00\\ud800"
    assert visible("a\n\tb é 模") == "a\n\tb é 模"


def test_no_number_is_minus_zero() -> None:
    assert estimated(Estimate(-0.0001, -0.0004, 0.01, 9, 0, "x")) == "0.0 [0.0, 1.0]"
    assert estimated(-0.0004) == "0.0"
