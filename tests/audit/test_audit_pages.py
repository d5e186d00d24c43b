"""What a reader meets: 80 columns, JSON, a page that runs nothing, and an exit code that tells."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pluralrm.audit import audit, audit_page
from pluralrm.audit.leaks import ERROR_RATE, NAMES
from pluralrm.cli.audit import _print
from pluralrm.cli.audit import audit as verb
from pluralrm.core import Benchmark
from pluralrm.errors import PluralrmError
from tests.construct.worlds import changed, pairs

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\x1b[31m\u202e"


@pytest.fixture
def run() -> typer.Typer:
    app = typer.Typer()
    app.command()(verb)
    return app


class Tags(HTMLParser):
    """Every tag with its attributes, and whether all that open are closed."""

    VOID = frozenset({"meta", "line", "rect", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def hostile() -> Benchmark:
    items = [changed(item, id=f"{item.id}{HOSTILE}", prompt=f"Same again {HOSTILE} today") for item in pairs(6).items]
    return replace(pairs(6), card=replace(pairs(6).card, name=HOSTILE), items=tuple(items), content_hash="")


def test_a_page_runs_nothing_that_came_from_a_benchmark() -> None:
    text = audit_page(audit(hostile(), relabellings=299))
    tags = Tags(text)
    assert not tags.open
    assert "<script>alert" not in text
    assert "onerror=alert(1)&gt;{{ 7*7 }}" in text
    assert not re.search("[\x1b\u202e]", text)
    assert {tag for tag, _ in tags.seen} <= {
        *("html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "p", "button", "main", "div"),
        *("table", "thead", "tbody", "tr", "th", "td", "svg", "line", "rect", "span", "details", "summary", "footer"),
        *("strong", "script"),
    }
    assert [tag for tag, _ in tags.seen].count("script") == 1
    for tag, attributes in tags.seen:
        assert not any(name == "style" or name.startswith("on") for name in attributes), tag


def test_a_page_allows_its_own_style_sheet_and_nothing_from_outside() -> None:
    text = audit_page(audit(pairs(12), relabellings=299))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    sheet = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy is not None
    assert sheet is not None
    assert policy[1].startswith("default-src 'none'")
    assert base64.b64encode(hashlib.sha256(sheet[1].encode()).digest()).decode() in policy[1]
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme:dark" in sheet[1]
    assert 'name="viewport"' in text


@pytest.mark.parametrize("bench", [pairs(3), pairs(120, "length")], ids=["too few", "leaking"])
def test_a_page_holds_every_probe_and_finding(bench: Benchmark) -> None:
    found = audit(bench, relabellings=299)
    assert bool(found.leaks) == (len(bench.items) > 3)
    text = audit_page(found)
    for probe in found.probes:
        assert f'<th scope="row">{probe.title}</th>' in text
    for finding in found.findings:
        assert f'<th scope="row">{finding.topic}</th>' in text
    assert ('class="verdict alert"' in text) == ('<span class="chip bad">leak</span>' in text) == bool(found.leaks)


def test_the_verb_prints_within_80_columns_and_exits_0(run: typer.Typer) -> None:
    done = CliRunner().invoke(run, ["pocket-prb"], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    assert "No probe is shown to beat chance (50.0)." in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert re.search(r"length: the \w+ +\d\d\.\d \[\d\d\.\d, \d\d\.\d\] +1\.000 +\d\d\.\d +none found", done.stdout)


def test_a_leak_exits_1_and_every_number_is_in_the_json(run: typer.Typer, tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        row = {
            "id": f"q{number}",
            "question": f"Question number {number} of mine?",
            "category": "Society_and_Culture",
            "narrative": "n",
            "profile": [{"id": "p", "category": "c", "text": f"I wrote {number} of these."}],
            "rubric_aspects": [{"aspect": "a", "evidence": "e", "reason": "r"}],
            "chosen": f"Long and careful answer {number}, and then some more.",
            "rejected": f"Short answer {number}.",
        }
        rows.append(json.dumps(row))
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    organic = tmp_path / "organic.txt"
    organic.write_text("\n".join(f"how to bake loaf {n}" for n in range(30)), encoding="utf-8")
    place = tmp_path / "audit.html"
    words = [f"prb:{tmp_path / 'rows.jsonl'}", "--json", "--against", str(organic), "-o", str(place)]
    done = CliRunner().invoke(run, words)
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["probes"][0]["accuracy"] == {
        "value": 1.0,
        "low": pytest.approx(0.862, abs=1e-3),
        "high": 1.0,
        "n": 24,
        "failed": 0,
        "method": "Wilson interval, equal in all of 24 clusters, few clusters",
    }
    assert told["findings"][-1]["measures"]["organic prompts"] == 30
    assert "<h1>Is prb-rows sound?" in place.read_text(encoding="utf-8")


def test_a_page_that_could_not_be_written_is_refused_before_the_work(run: typer.Typer, tmp_path: Path) -> None:
    done = CliRunner().invoke(run, ["no-such-benchmark", "-o", str(tmp_path)])
    assert isinstance(done.exception, PluralrmError)
    assert "found a folder, wanted the name of a file" in str(done.exception)


def test_the_manual_names_every_probe_and_says_the_error_rate() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    assert all(f"| {name} | " in manual for name in NAMES)
    assert f"at most {ERROR_RATE:.0%} of audits" in manual


def test_hostile_names_reach_the_terminal_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(hostile(), relabellings=299)
    assert any("\x1b" in finding.found or r"\x1b" in finding.found for finding in found.findings)
    _print(found)
    shown = capsys.readouterr().out
    assert not re.search("[\x1b\u202e]", shown)
    assert r"\x1b[31m" in shown
