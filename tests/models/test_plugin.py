"""Other people's classes by name."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.models import load_model
from pluralrm.models.plugin import Plugin


class Mine:
    spec = "mine"

    def __init__(self, scale: str = "1", must: str = "x") -> None:
        self.scale = float(scale)
        self.must = must

    @property
    def identity(self) -> dict[str, str]:
        return {"weights": "abc"}

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        return (Verdict(tuple(self.scale * len(text) for text in query.candidates)) for query in queries)


class Sloppy:
    spec = "sloppy"

    def score(self, queries: Iterable[Query]) -> Iterator[tuple[float, float]]:
        return ((1.0, 0.0) for _ in queries)


class NoScore:
    pass


not_a_class = 3


def test_keys_become_keyword_arguments() -> None:
    model = load_model("python:tests.models.test_plugin:Mine,scale=2")
    [verdict] = model.score([Query("q", "?", ("a", "bb"))])
    assert verdict.scores == (2.0, 4.0)
    assert model.spec == "python:tests.models.test_plugin:Mine,scale=2"


def test_identity_names_the_code_and_what_the_model_says_of_itself() -> None:
    model = load_model("python:tests.models.test_plugin:Mine")
    assert isinstance(model, Plugin)
    assert model.identity["weights"] == "abc"
    assert len(model.identity["module"]) == 64


def test_an_edited_module_has_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = "class M:\n    def score(self, queries):\n        return iter(())\n"
    (tmp_path / "edited_model.py").write_text(body)
    first = load_model("python:edited_model:M")
    (tmp_path / "edited_model.py").write_text(body + "# and now something else\n")
    second = load_model("python:edited_model:M")
    assert isinstance(first, Plugin)
    assert isinstance(second, Plugin)
    assert first.identity != second.identity


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("python:no_such_module_here:M", "no module 'no_such_module_here'"),
        ("python:tests.models.test_plugin:Mime", "Did you mean 'Mine'"),
        ("python:tests.models.test_plugin", "wanted python:package.module:Class"),
        ("python:tests.models.test_plugin:Mine,scael=2", "cannot be made with"),
        ("python:tests.models.test_plugin:NoScore", "has no score"),
        ("python:tests.models.test_plugin:not_a_class", "not a class"),
    ],
)
def test_what_is_wrong_is_named(spec: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(spec)
    assert message in str(caught.value)


def test_anything_but_a_verdict_is_refused() -> None:
    with pytest.raises(TypeError, match="yielded tuple; wanted"):
        list(load_model("python:tests.models.test_plugin:Sloppy").score([Query("q", "?", ("a", "b"))]))
