"""Numbers of frozen folders stay what they were, and the same commands make the same folders again."""

import json
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import KINDS, QUESTIONS, Kind, Question
from tests.golden.freeze import FROZEN, answer, prepare, run, texts, unpack

REMADE = [kind for kind in KINDS if kind.lasting and not kind.neural]
NEEDS_TORCH = ("training",)
SLOW = ("build", "study", "pool", "fit")
"""Kinds whose remaking takes seconds; the demos and the studies have tests of their own in every run."""
HASHED = " of sha256 "
OLDER = tuple(map(int, version("scipy").split(".")[:2])) < (1, 17)
"""Whether quantiles come from a scipy before the one that was frozen with: their last bits differ."""


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen")
    unpack(KINDS, folder)
    prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))


def kept(name: str) -> Any:
    return json.loads((FROZEN / f"{name}.json").read_text(encoding="utf-8"))


def differences(now: Any, then: Any, at: str = "", *, close: bool = OLDER) -> list[str]:
    """Return where two JSON values differ, a line each.

    Where they need only be close, numbers may differ by 1e-9 of themselves, and of a long list that is kept as its
    hash the length counts.
    """
    if isinstance(now, dict) and isinstance(then, dict):
        return [
            line
            for key in sorted({*now, *then})
            for line in differences(now.get(key, "missing"), then.get(key, "missing"), f"{at}.{key}", close=close)
        ]
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        pairs = enumerate(zip(now, then, strict=True))
        return [line for i, pair in pairs for line in differences(*pair, f"{at}[{i}]", close=close)]
    if close and isinstance(now, float) and isinstance(then, float):
        return [] if math.isclose(now, then, rel_tol=1e-9, abs_tol=1e-12) else [f"{at}: {now!r}, was {then!r}"]
    if close and isinstance(now, str) and isinstance(then, str) and HASHED in then:
        now, then = (text.partition(HASHED)[0] for text in (now, then))
    return [] if now == then else [f"{at}: {now!r}, was {then!r}"]


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(question, id=question.name, marks=[pytest.mark.hf] if question.of in NEEDS_TORCH else [])
        for question in QUESTIONS
    ],
)
def test_a_frozen_folder_gives_the_numbers_that_it_gave(
    question: Question, frozen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(frozen)
    assert not differences(answer(question, frozen), kept(question.name))


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=kind.name, marks=[pytest.mark.slow] if kind.name in SLOW else []) for kind in REMADE],
)
def test_the_same_commands_make_the_same_folders(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    for command in kind.commands:
        run(command)
    assert not differences(texts(kind, tmp_path), kept("texts")[kind.name])
    for question in QUESTIONS:
        if question.of == kind.name:
            assert not differences(answer(question, tmp_path), kept(question.name))


def test_a_changed_number_is_seen() -> None:
    then = {"a": [1, {"b": 0.25}], "c": "x"}
    assert differences({"a": [1, {"b": 0.5}], "c": "x"}, then) == [".a[1].b: 0.5, was 0.25"]
    assert differences({"a": [1, {"b": 0.25}]}, then) == [".c: 'missing', was 'x'"]


def test_on_an_older_scipy_last_bits_and_hashes_of_them_may_differ_and_nothing_else() -> None:
    then = {"low": 0.5, "rows": f"15{HASHED}ab"}
    close = {"low": 0.5 + 1e-11, "rows": f"15{HASHED}cd"}
    assert differences(close, then, close=True) == []
    assert len(differences(close, then, close=False)) == 2
    assert len(differences({"low": 0.5 + 1e-8, "rows": f"16{HASHED}ab"}, then, close=True)) == 2
