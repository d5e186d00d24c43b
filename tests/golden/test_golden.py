"""Numbers of frozen folders stay what they were, and the same commands make the same folders again."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import KINDS, QUESTIONS, Kind, Question
from tests.golden.freeze import FROZEN, answer, prepare, run, texts, unpack

REMADE = [kind for kind in KINDS if kind.lasting and not kind.neural]
NEEDS_TORCH = ("training",)
SLOW = ("build", "study", "pool", "fit")
"""Kinds whose remaking takes seconds; the demos and the studies have tests of their own in every run."""


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


def differences(now: Any, then: Any, at: str = "") -> list[str]:
    """Return where two JSON values differ, a line each."""
    if isinstance(now, dict) and isinstance(then, dict):
        return [
            line
            for key in sorted({*now, *then})
            for line in differences(now.get(key, "missing"), then.get(key, "missing"), f"{at}.{key}")
        ]
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [line for i, pair in enumerate(zip(now, then, strict=True)) for line in differences(*pair, f"{at}[{i}]")]
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
