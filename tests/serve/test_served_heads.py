"""A neural model behind the server: the numbers are those of scoring directly, in order, whatever was merged."""

from functools import partial
from pathlib import Path

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Query
from pluralrm.models import compares, load_model
from pluralrm.serve.server import open_server
from tests.builders import bakery
from tests.models.neural.tiny import language_folder, reward_folder
from tests.models.neural.tokenizers import Build
from tests.serve.running import asked, running, together

pytestmark = pytest.mark.hf

BENCH = bakery(5, width=4)
SHOWN = load_condition("recent:3")


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    head = reward_folder(tmp_path_factory.mktemp("head"), "qwen2", Build())
    policy = language_folder(tmp_path_factory.mktemp("policy"), "llama", Build())
    return {
        "hf": f"hf:{head}",
        "endo": f"endo:{policy}",
        "dpo": f"dpo:{policy},reference={policy}",
        "verifier": f"verifier:{policy}",
        "choice": f"choice:{policy}",
    }


@pytest.mark.parametrize("kind", ["hf", "endo", "verifier", "choice"])
def test_concurrent_requests_get_the_scores_of_a_direct_run(kind: str, specs: dict[str, str]) -> None:
    spec = specs[kind]
    direct = [verdict.scores for verdict in load_model(spec).score(SHOWN.queries(BENCH, BENCH.items))]
    server = open_server(load_model(spec), SHOWN, BENCH, relative=compares(spec), run="r1")
    whole = kind == "choice"
    parts = [
        (place, slice(None) if whole else slice(number, number + 1))
        for place in range(len(BENCH.items))
        for number in range(1 if whole else 4)
    ]
    bodies = [
        {"rollouts": [{"item": BENCH.items[place].id, "candidates": list(BENCH.items[place].candidates[which])}]}
        for place, which in parts
    ]
    with running(server) as url:
        found = together([partial(asked, url, "/score", body) for body in bodies])
        counted = asked(url, "/metrics", None)[1]
    for (place, which), (status, told, _) in zip(parts, found, strict=True):
        assert status == 200
        assert told["scores"][0] == pytest.approx(list(direct[place][which]), abs=1e-4)
    assert "pluralrm_candidates_total 20" in counted


@pytest.mark.parametrize("kind", ["hf", "endo", "dpo", "verifier"])
def test_a_model_that_may_be_merged_scores_each_answer_as_if_alone(kind: str, specs: dict[str, str]) -> None:
    assert not compares(specs[kind])
    model = load_model(specs[kind])
    for query in SHOWN.queries(BENCH, BENCH.items[:2]):
        [whole] = model.score([query])
        alone = [
            next(iter(model.score([Query(query.id, query.prompt, (one,), query.user)]))) for one in query.candidates
        ]
        assert [one.scores[0] for one in alone] == pytest.approx(list(whole.scores), abs=1e-4)


def test_an_answer_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    spec = f"hf:{reward_folder(tmp_path, 'llama', Build())},max_tokens=120"
    server = open_server(load_model(spec), load_condition("none"), BENCH, relative=False, run="r1")
    body = {"rollouts": [{"item": BENCH.items[0].id, "candidates": ["rye", "rye " * 400, "spelt"]}]}
    with running(server) as url:
        _, told, _ = asked(url, "/score", body)
    first, second, third = told["scores"][0]
    assert second["failure"] == "too_long"
    assert isinstance(first, float)
    assert isinstance(third, float)
