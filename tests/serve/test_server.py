"""The reward server over real HTTP: the scores are those of the model, errors are errors, and nothing is invented."""

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Query, RewardModel, Score, Verdict
from pluralrm.errors import ConditionError, ServiceError
from pluralrm.models import KINDS, compares, load_model
from pluralrm.serve.server import RewardServer, ServerLimits, bound, open_server
from tests.builders import bakery
from tests.serve.running import asked, running, together

TOKEN = "a-word-between-the-two"  # noqa: S105 - of these tests


@dataclass
class Slow:
    """Scores by length, takes its time, and remembers how it was asked."""

    spec: str = "slow"
    seconds: float = 0.0
    asked: list[list[Query]] = field(default_factory=list)
    gate: threading.Event | None = None
    moods: dict[str, Score] = field(default_factory=dict)

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        window = list(queries)
        self.asked.append(window)
        if self.gate is not None:
            self.gate.wait(240)
        time.sleep(self.seconds)
        for query in window:
            yield Verdict(tuple(self.moods.get(one, float(len(one))) for one in query.candidates))


def server_of(
    model: RewardModel,
    *,
    bench: Benchmark | None = None,
    condition: str = "none",
    relative: bool = False,
    token: str = "",
    limits: ServerLimits | None = None,
) -> RewardServer:
    return open_server(model, load_condition(condition), bench, relative=relative, run="r1", token=token, limits=limits)


def about(prompt: str, *candidates: str) -> dict[str, object]:
    return {"rollouts": [{"prompt": prompt, "candidates": list(candidates)}]}


@pytest.mark.parametrize("name", ["longest", "bm25", "copy", "constant", "random", "lsa"])
@pytest.mark.parametrize("condition", ["none", "raw:2"])
def test_served_scores_are_those_of_a_run_whatever_is_asked_beside(name: str, condition: str) -> None:
    if name in {"lsa", "copy"} and condition == "none":
        condition = "recent:3"
    bench, model, shown = bakery(8, width=3), load_model(name), load_condition(condition)
    direct = [verdict.scores for verdict in model.score(shown.queries(bench, bench.items))]
    server = server_of(load_model(name), bench=bench, condition=condition, relative=compares(name))
    bodies = [{"rollouts": [{"item": item.id, "candidates": list(item.candidates)}]} for item in bench.items]
    with running(server) as url:
        found = together([partial(asked, url, "/score", body) for body in bodies])
    assert [status for status, _, _ in found] == [200] * len(bench.items)
    assert [tuple(told["scores"][0]) for _, told, _ in found] == direct


@pytest.mark.parametrize("name", sorted(set(KINDS) & {"random", "constant", "longest", "shortest", "bm25", "copy"}))
def test_a_model_that_does_not_compare_scores_each_answer_as_if_alone(name: str) -> None:
    assert not compares(name)
    bench, shown = bakery(6, width=4), load_condition("recent:3")
    for query in shown.queries(bench, bench.items):
        [whole] = load_model(name).score([query])
        for place, candidate in enumerate(query.candidates):
            [alone] = load_model(name).score([Query(query.id, query.prompt, (candidate,), query.user)])
            assert alone.scores[0] == pytest.approx(whole.scores[place], abs=1e-12)


def test_rollouts_of_one_prompt_are_computed_as_one_query() -> None:
    gate = threading.Event()
    model = Slow(gate=gate)
    server = server_of(model)
    with running(server) as url:
        first = threading.Thread(target=asked, args=(url, "/score", about("Who is first?", "me")))
        first.start()
        while not model.asked:
            time.sleep(0.01)
        calls = [partial(asked, url, "/score", about("Which flour?", f"rye {'r' * place}")) for place in range(8)]
        calls += [partial(asked, url, "/score", about("Which oven?", "hot"))] * 2
        threading.Thread(target=_opens_at, args=(gate, url, "queued_candidates", len(calls))).start()
        found = together(calls)
        first.join()
    assert [told["scores"] for _, told, _ in found] == [[[4.0 + place]] for place in range(8)] + [[[3.0]]] * 2
    [_, rest] = model.asked
    assert sorted((query.prompt, len(query.candidates)) for query in rest) == [("Which flour?", 8), ("Which oven?", 1)]


def test_what_compares_answers_is_asked_as_its_client_asked() -> None:
    gate = threading.Event()
    model = Slow(gate=gate)
    with running(server_of(model, relative=True)) as url:
        threading.Timer(0.5, gate.set).start()
        together([partial(asked, url, "/score", about("Which flour?", "rye", "spelt"))] * 3)
        status, told, _ = asked(url, "/score", about("Which flour?", "rye"))
    assert {query.candidates for window in model.asked for query in window} == {("rye", "spelt")}
    assert (status, told["error"]["type"]) == (422, "unsupported")


def test_posts_reach_the_model_only_through_the_condition() -> None:
    model = Slow()
    body = {"rollouts": [{"prompt": "Which flour?", "posts": [{"text": "rye"}, {"text": "oven"}], "candidates": ["a"]}]}
    with running(server_of(model, condition="none")) as url:
        asked(url, "/score", body)
    assert model.asked[0][0].user is None
    with running(server_of(model, condition="recent:1")) as url:
        asked(url, "/score", body)
    assert [post.text for post in model.asked[1][0].user.posts] == ["rye"]  # type: ignore[union-attr]


def test_a_failure_is_told_by_name_and_where_the_dialect_has_no_word_for_it_all_is_an_error() -> None:
    model = Slow(moods={"long": Failure("too_long", "9,000 tokens"), "odd": float("nan")})
    with running(server_of(model)) as url:
        status, told, _ = asked(url, "/score", about("Which flour?", "rye", "long", "odd"))
        assert status == 200
        assert told["scores"][0][0] == 3.0
        assert [one["failure"] for one in told["scores"][0][1:]] == ["too_long", "nonfinite"]
        body = {"query": ["Q? rye", "Q? long"], "prompts": ["Q? ", "Q? "], "labels": ["", ""]}
        status, told, _ = asked(url, "/get_reward", body)
        assert (status, told["error"]["type"]) == (422, "too_long")
        turns = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "long"}]
        status, told, _ = asked(url, "/classify", {"messages": turns})
        assert (status, told["error"]["type"]) == (422, "too_long")


def test_an_outage_behind_the_model_is_an_outage_of_the_server() -> None:
    model = Slow(moods={"rye": Failure("transport", "connection refused")})
    with running(server_of(model)) as url:
        status, told, headers = asked(url, "/score", about("Which flour?", "rye"))
    assert (status, told["error"]["type"], told["error"]["retry"]) == (502, "transport", True)
    assert int(headers["retry-after"]) >= 1


def test_a_model_that_raises_costs_its_own_rollout_alone() -> None:
    @dataclass
    class Raises:
        spec: str = "raises"

        def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
            for query in queries:
                if "boom" in query.candidates:
                    raise ValueError("boom")
                yield Verdict((1.0,) * len(query.candidates))

    with running(server_of(Raises())) as url:
        found = together(
            [partial(asked, url, "/score", about(f"Q{place}?", "boom" if place == 1 else "rye")) for place in range(4)]
        )
    told = [body["scores"][0][0] for _, body, _ in found]
    assert [one if isinstance(one, float) else one["failure"] for one in told] == [1.0, "crash", 1.0, 1.0]


def test_the_other_dialects_give_the_same_numbers() -> None:
    with running(server_of(Slow(), bench=bakery(3))) as url:
        body = {"query": ["Q? rye", "i0001 spelt"], "prompts": ["Q? ", "i0001 "], "labels": [None, "i0001"]}
        status, told, _ = asked(url, "/get_reward", body)
        assert (status, told["rewards"]) == (200, [3.0, 5.0])
        turns = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "rye"}]
        status, told, _ = asked(url, "/classify", {"model": "slow", "messages": turns, "use_activation": False})
        assert (status, told["data"][0]["probs"], told["data"][0]["num_classes"]) == (200, [3.0], 1)


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "said"),
    [
        ("/score", b"{", 422, "malformed", "Invalid JSON"),
        ("/score", b"\xff\xfe", 422, "malformed", ""),
        ("/score", [], 422, "malformed", ""),
        ("/score", {"rollouts": []}, 422, "malformed", "rollouts"),
        ("/score", {"rollouts": [{"prompt": "Q?", "candidates": []}]}, 422, "malformed", "candidates"),
        ("/score", {"rollouts": [{"prompt": "Q?", "candidates": [1]}]}, 422, "malformed", "string"),
        ("/score", {"rollouts": [{"prompt": "Q?", "candidates": ["a"], "gold": 1}]}, 422, "malformed", "gold"),
        ("/score", {"rollouts": [{"candidates": ["a"]}]}, 422, "malformed", "either an item"),
        ("/score", {"rollouts": [{"item": "i0001", "prompt": "Q?", "candidates": ["a"]}]}, 422, "malformed", "either"),
        ("/score", {"rollouts": [{"item": "nobody", "candidates": ["a"]}]}, 404, "unknown_item", "nobody"),
        ("/get_reward", {"query": ["Q? a"], "prompts": ["P? "]}, 422, "malformed", "begin with its prompt"),
        ("/get_reward", {"query": ["Q? a"], "prompts": []}, 422, "malformed", "as many of each"),
        ("/classify", {"input": "Q? a"}, 422, "malformed", "messages"),
        (
            "/classify",
            {"messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "a"}], "model": "other"},
            404,
            "unknown_model",
            "other",
        ),
        (
            "/classify",
            {
                "messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "a"}],
                "use_activation": True,
            },
            422,
            "malformed",
            "use_activation",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused_by_name(
    path: str, body: object, status: int, kind: str, *, said: str
) -> None:
    with running(server_of(Slow(), bench=bakery(3))) as url:
        found, told, _ = asked(url, path, body)
        assert (found, told["error"]["type"]) == (status, kind)
        assert said in told["error"]["message"]
        assert told["error"]["retry"] is False
        assert asked(url, "/score", about("Q?", "rye"))[1]["scores"] == [[3.0]]


def test_a_body_that_is_too_large_is_refused_unread() -> None:
    with running(server_of(Slow(), limits=ServerLimits(body_bytes=10_000))) as url:
        status, told, _ = asked(url, "/score", about("Q?", "a" * 20_000))
    assert (status, told["error"]["type"]) == (413, "too_large")


def test_without_the_token_nothing_is_scored() -> None:
    with running(server_of(Slow(), token=TOKEN)) as url:
        for sent in ({}, {"authorization": "Bearer other"}, {"authorization": TOKEN}):
            status, told, _ = asked(url, "/score", about("Q?", "rye"), headers=sent)
            assert (status, told["error"]["type"]) == (401, "unauthorised")
        right = {"authorization": f"Bearer {TOKEN}"}
        assert asked(url, "/score", about("Q?", "rye"), headers=right)[0] == 200
        assert asked(url, "/metrics", None)[0] == 401
        assert TOKEN not in str(asked(url, "/health", None))


def test_a_client_of_another_run_is_refused() -> None:
    with running(server_of(Slow())) as url:
        status, told, _ = asked(url, "/score", about("Q?", "rye"), headers={"x-pluralrm-run": "r0"})
    assert (status, told["error"]["type"], told["error"]["retry"]) == (409, "another_run", False)


def test_overload_is_told_at_once_and_says_when_to_come_back() -> None:
    gate = threading.Event()
    with running(server_of(Slow(gate=gate), limits=ServerLimits(room=6, batch=2, seconds=240))) as url:
        # At once: the model scores nothing until all but those are refused for which there is room.
        threading.Thread(target=_opens_at, args=(gate, url, "refused_total", 24 - 6 // 2 - 1)).start()
        found = together([partial(asked, url, "/score", about(f"Q{place}?", "a", "bb")) for place in range(24)])
    statuses = [status for status, _, _ in found]
    assert set(statuses) == {200, 429}
    for status, told, headers in found:
        if status == 429:
            assert told["error"]["retry"] is True
            assert int(headers["retry-after"]) >= 1
        else:
            assert told["scores"] == [[1.0, 2.0]]


def _opens_at(gate: threading.Event, url: str, metric: str, least: int) -> None:
    """Let the model score once a number of the server is as high."""
    while int(asked(url, "/metrics", None)[1].partition(f"\npluralrm_{metric} ")[2].split()[0]) < least:
        time.sleep(0.01)
    gate.set()


def test_a_request_whose_time_is_over_gets_no_number() -> None:
    gate = threading.Event()
    model = Slow(gate=gate)
    with running(server_of(model, limits=ServerLimits(seconds=3))) as url:
        found = together([partial(asked, url, "/score", about(f"Q{place}?", "a")) for place in range(3)])
        assert {status for status, _, _ in found} == {504}
        assert "pluralrm_late_total 3" in asked(url, "/metrics", None)[1]
        gate.set()
        assert asked(url, "/score", about("Q?", "rye"))[1]["scores"] == [[3.0]]


def test_a_server_on_its_way_out_finishes_what_it_took() -> None:
    model = Slow(seconds=0.8)
    found: list[object] = []
    with running(server_of(model)) as url:
        client = threading.Thread(target=lambda: found.append(asked(url, "/score", about("Q?", "rye"))[1]["scores"]))
        client.start()
        while not model.asked:
            time.sleep(0.01)
    client.join()
    assert found == [[[3.0]]]


def test_health_says_who_answers_and_metrics_count() -> None:
    with running(server_of(Slow(), bench=bakery(3), condition="oracle")) as url:
        status, told, headers = asked(url, "/health", None)
        assert status == 200
        assert told["identity"]["model"] == "slow"
        assert told["identity"]["condition"] == "oracle"
        assert told["identity"]["reveals"] == ["oracle"]
        assert told["identity"]["benchmark_hash"] == bakery(3).content_hash
        asked(url, "/score", {"rollouts": [{"item": "i0001", "candidates": ["a", "a", "b"]}]})
        asked(url, "/score", {"rollouts": []})
        counted = asked(url, "/metrics", None)[1]
    assert 'pluralrm_requests_total{route="/score",status="200"} 1' in counted
    assert 'pluralrm_requests_total{route="/score",status="422"} 1' in counted
    assert "pluralrm_candidates_total 3" in counted
    assert headers["content-type"] == "application/json"


def test_a_condition_that_a_request_cannot_bring_needs_a_benchmark() -> None:
    with pytest.raises(ConditionError, match="--benchmark"):
        server_of(Slow(), condition="swapped:3")
    with pytest.raises(ConditionError, match="rubric"):
        server_of(Slow(), condition="oracle", bench=load_benchmark("pocket-rmgap"))


def test_others_are_let_in_only_with_a_token() -> None:
    with pytest.raises(ServiceError, match="--token-env"):
        bound("0.0.0.0", 0, token="")  # noqa: S104 - refused, which is the claim
    bound("127.0.0.1", 0, token="").close()


def test_the_verb_without_a_token_variable_says_so(tmp_path: Path) -> None:
    from tests.forked import command

    done = command(["serve", "longest", "--token-env", "NO_SUCH_TOKEN"], cwd=tmp_path, environment={})
    assert done.returncode == 2
    assert "NO_SUCH_TOKEN" in done.stderr


def test_a_model_that_knows_the_hidden_taste_is_told_of_and_never_merged() -> None:
    """`known:taste` reads the rubric whatever the condition shows, and its scores are shares of one choice."""
    bench = load_benchmark("simulated:users=4,items=1")
    model = load_model("known:taste")
    assert compares("known:taste")
    server = open_server(model, load_condition("none"), bench, relative=True, run="r1")
    assert "oracle" in server.identity.reveals
    [verdict] = model.score(load_condition("none").queries(bench, bench.items[:1]))
    with running(server) as url:
        rollout = {"item": bench.items[0].id, "candidates": list(bench.items[0].candidates)}
        found = together([partial(asked, url, "/score", {"rollouts": [rollout]}) for _ in range(3)])
    assert [told["scores"][0] for _, told, _ in found] == [list(verdict.scores)] * 3
