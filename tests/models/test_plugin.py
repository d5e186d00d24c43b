"""Other people's classes by name."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import pluralrm
from pluralrm.conditions import load_condition
from pluralrm.core import Query, Verdict
from pluralrm.errors import ModelError
from pluralrm.metrics import summary
from pluralrm.models import load_model
from pluralrm.models.declarations import PluginModel
from pluralrm.runs import load_runs
from pluralrm.serve.client import Identity
from pluralrm.serve.server import identity_of
from pluralrm.testing import reward_model_findings
from tests.builders import bakery
from tests.forked import command


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


class Knowing(Mine):
    """An upper control of somebody's own: it has read the rubric elsewhere."""

    def __init__(self, what: str = "oracle") -> None:
        super().__init__()
        self.reveals = what.split("+") if what != "text" else what


class Shy(Mine):
    @property
    def reveals(self) -> frozenset[str]:
        raise ValueError("not today")


not_a_class = 3


def test_keys_become_keyword_arguments() -> None:
    model = load_model("python:tests.models.test_plugin:Mine,scale=2")
    [verdict] = model.score([Query("q", "?", ("a", "bb"))])
    assert verdict.scores == (2.0, 4.0)
    assert model.spec == "python:tests.models.test_plugin:Mine,scale=2"


def test_identity_names_the_code_and_what_the_model_says_of_itself() -> None:
    model = load_model("python:tests.models.test_plugin:Mine")
    assert isinstance(model, PluginModel)
    assert model.identity["weights"] == "abc"
    assert len(model.identity["module"]) == 64


def test_an_edited_module_has_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    body = "class M:\n    def score(self, queries):\n        return iter(())\n"
    (tmp_path / "edited_model.py").write_text(body)
    first = load_model("python:edited_model:M")
    (tmp_path / "edited_model.py").write_text(body + "# and now something else\n")
    second = load_model("python:edited_model:M")
    assert isinstance(first, PluginModel)
    assert isinstance(second, PluginModel)
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


# ---------------------------------------------------------------- what it knows by itself


def test_a_model_that_says_what_it_knows_is_marked_wherever_it_is_told(tmp_path: Path) -> None:
    spec = "python:tests.models.test_plugin:Knowing"
    scored = pluralrm.score(bakery(6), spec, "none", out=tmp_path)
    plain = pluralrm.score(bakery(6), "python:tests.models.test_plugin:Mine", "none", out=tmp_path)
    assert [sorted(run.reveals) for run in (scored, plain)] == [["oracle"], []]
    assert load_runs([Path(scored.path)])[0].reveals == {"oracle"}
    assert serves(spec).reveals == ("oracle",)
    assert summary(scored).reveals == ("oracle",)
    for every in ([], ["--all"]):
        done = command(["compare", scored.path, plain.path, *every], cwd=tmp_path, environment={})
        lines = [line for line in done.stdout.splitlines() if "ORACLE" in line]
        assert len(lines) == 1
    assert "Knowing" in lines[0]


def serves(spec: str) -> Identity:
    return identity_of(load_model(spec), load_condition("none"), None, run="r")


def test_an_object_says_it_as_a_class_that_is_named_does(tmp_path: Path) -> None:
    assert pluralrm.score(bakery(6), Knowing("posts+oracle"), "none", out=tmp_path).reveals == {"posts", "oracle"}
    with pytest.raises(ModelError, match="Did you mean 'posts'"):
        pluralrm.score(bakery(6), Knowing("post"), "none", out=tmp_path)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Knowing,what=oracel", "Knowing: reveals 'oracel'. Did you mean 'oracle'"),
        ("Knowing,what=text", "Knowing: reveals is 'text'; wanted a set of posts"),
        ("Shy", "cannot say what it reveals: .*test_plugin.py.*: ValueError: not today"),
    ],
)
def test_what_nobody_can_know_is_refused_before_anything_is_scored(spec: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(f"python:tests.models.test_plugin:{spec}")


def test_check_tells_what_a_model_says_that_it_knows() -> None:
    told = {one.check: (one.status, one.detail) for one in reward_model_findings(Knowing())}
    assert told["reveals what is known"] == ("pass", "oracle")
    told = {one.check: (one.status, one.detail) for one in reward_model_findings(Knowing("oracel"))}
    assert told["reveals what is known"][0] == "fail"
    assert "reveals what is known" not in {one.check for one in reward_model_findings(Mine())}


def test_what_a_module_and_its_model_print_is_not_in_the_json(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "from pluralrm import Verdict\nprint('loading')\nclass Loud:\n    spec = 'loud'\n"
        "    def __init__(self):\n        print('making')\n"
        "    def score(self, queries):\n        for query in queries:\n            print('scoring')\n"
        "            yield Verdict((1.0,) + (0.0,) * (len(query.candidates) - 1))\n"
    )
    words = ["score", "pocket-prb", "-m", "python:loud:Loud", "-c", "none", "--limit", "2", "--json"]
    done = command(words, cwd=tmp_path, environment={})
    assert json.loads(done.stdout)[0]["benchmark"] == "pocket-prb"
    assert {"loading", "making", "scoring"} <= {*done.stderr.splitlines()}
