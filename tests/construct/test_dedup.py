"""Prompts of a file, without those that say or mean what another one does."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.audit.embedder import Letters
from pluralrm.construct.filters import as_lines, cosine, deduplicate, duplicate_key, read_prompt_file
from pluralrm.errors import BenchmarkError, RowError


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_rows_stay_as_they_stood_whatever_else_they_hold(tmp_path: Path) -> None:
    rows = [
        {"id": "b", "prompt": "Why is rye bread dark?", "domain": "Chat", "n": 1.5},
        {"id": "a", "question": "why is rye BREAD dark", "tags": ["\u03b1"]},
        {"id": "c", "text": "Who was first on the moon?"},
    ]
    found = read_prompt_file(write(tmp_path / "p.jsonl", *rows))
    dropped = deduplicate(found.prompts, Letters())
    kept, why = ([json.loads(line) for line in lines.splitlines()] for lines in as_lines(found, dropped))
    assert kept == rows[1:]
    reason = "duplicate: the letters and digits of 'a'"
    assert why == [{"id": "b", "rule": "duplicate", "kept": "a", "cosine": None, "reason": reason}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "x"}, "p.jsonl:2: id: found no such key, wanted a text"),
        ({"id": 3, "prompt": "x"}, "p.jsonl:2: id: found 3, wanted a text"),
        ({"id": "a", "prompt": "x"}, "p.jsonl:2: id: found 'a' again, wanted an id of its own"),
        ({"id": "b"}, "p.jsonl:2: prompt: found no such key, wanted a text"),
        ({"id": "b", "text": " "}, "p.jsonl:2: text: found only white space, wanted a text"),
        (["x"], "p.jsonl:2: (line): found a list of 1, wanted one JSON object a line"),
    ],
)
def test_a_row_without_id_or_text_is_named(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(RowError) as error:
        read_prompt_file(write(tmp_path / "p.jsonl", {"id": "a", "prompt": "Why?"}, row))
    assert str(error.value).endswith(message)


def test_a_file_without_prompts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"found no prompts, wanted one a line"):
        read_prompt_file(write(tmp_path / "p.jsonl"))


PROMPTS = st.dictionaries(
    st.text("abc", min_size=1), st.sampled_from(["bread rises", "Bread rises!", "bread rose", "?", "the moon"])
)


@given(PROMPTS, st.sampled_from([0.2, 0.7, 1.0]))
def test_what_is_kept_is_unlike_and_what_is_dropped_is_not(prompts: dict[str, str], threshold: float) -> None:
    dropped = deduplicate(prompts, Letters(), threshold=threshold)
    rows = dict(zip(prompts, Letters().rows(list(prompts.values())), strict=True))
    kept = sorted(set(prompts) - set(dropped))
    for place, name in enumerate(kept):
        assert all(cosine(rows[name], rows[other]) <= threshold for other in kept[:place])
    for name, refusal in dropped.items():
        assert refusal.other < name
        if refusal.rule == "duplicate":
            assert duplicate_key(prompts[name]) == duplicate_key(prompts[refusal.other])
        else:
            assert refusal.other in kept
            assert refusal.cosine == cosine(rows[name], rows[refusal.other])
            assert refusal.cosine > threshold
