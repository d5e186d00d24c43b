"""`score --dry-run` and `evaluate --dry-run`: what a grid would take, and nothing is written, sent or loaded."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from pluralrm.cli import app
from pluralrm.cli.plan import print_plan
from pluralrm.cli.score import GridOptions
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Item, Post, Query, User, Verdict
from pluralrm.http import DryRun, Settings
from pluralrm.models.declarations import Workload
from pluralrm.policies.policy import AnswerRequest, Draw, PolicyAnswer
from pluralrm.policies.sample import sample_plan
from pluralrm.runs import GridCell
from pluralrm.shards import open_shard
from tests.builders import card
from tests.fake_chat import FakeChat, say


def words_of(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_what_is_on_disk_is_not_planned_again(desk: Path) -> None:
    grid = ["score", "pocket-prb", "-m", "bm25", "-c", "none", "-c", "raw:10", "--limit", "7"]
    assert words_of(*grid, "--dry-run") == "2 runs, 28 answers to score, in runs"
    assert not (desk / "runs").exists()
    words_of("score", "pocket-prb", "-m", "bm25", "-c", "none", "--limit", "7", "-q")
    assert words_of(*grid, "--dry-run") == "2 runs, 14 answers to score, in runs; 7 items on disk already"
    assert words_of(*grid, "--dry-run", "--fresh").startswith("2 runs, 28 answers")


def test_a_judge_is_asked_as_often_as_planned() -> None:
    with FakeChat(lambda _: say("Result: A")) as server:
        grid = ["score", "pocket-prb", "-m", f"judge:m,url={server.url}", "-c", "raw:10", "--limit", "5"]
        plan = words_of(*grid, "--dry-run")
        assert not server.requests
        words_of(*grid, "-q")
        sent = len(server.requests)
    assert f"m: {sent} calls, about " in plan
    assert re.search(r"prompt tokens, at most [\d,]+ reply tokens; sends [\d.]+ kB", plan)
    assert "cost: unknown: name prices with --prices" in plan


def test_the_plans_of_all_shards_add_up_to_that_of_the_whole() -> None:
    grid = ["score", "pocket-prb", "-m", "bm25", "-c", "none", "-c", "raw:10", "--limit", "7"]
    shards = [words_of(*grid, "--dry-run", "--shard", f"{index}/3") for index in (1, 2, 3)]
    answers = [
        int(text.removeprefix(f"shard {index} of 3 of 2 runs, ").split()[0]) for index, text in enumerate(shards, 1)
    ]
    assert (sum(answers), min(answers)) == (28, 8)
    words_of(*grid, "--shard", "2/3")
    assert words_of(*grid, "--dry-run", "--shard", "2/3").endswith(
        "0 answers to score, in runs; 4 items on disk already"
    )
    assert words_of(*grid, "--dry-run") == "2 runs, 28 answers to score, in runs"  # nothing is merged yet


def test_a_shard_of_a_pool_and_of_its_grades_asks_as_often_as_planned() -> None:
    with FakeChat(lambda _: say("Rye.")) as server:
        draw = ["sample", "pocket-prb", "-p", f"chat:m,url={server.url}", "-n", "2", "--limit", "5", "-o", "pool"]
        plans = [json.loads(words_of(*draw, "--dry-run", "--json", "--shard", f"{index}/2")) for index in (1, 2)]
        assert not server.requests
        assert [(plan["items"], plan["wanted"], plan["calls"], plan["requests"]["m"]["calls"]) for plan in plans] == [
            (3, 6, 6, 6),
            (2, 4, 4, 4),
        ]
        words_of(*draw, "--shard", "2/2")
        assert len(server.requests) == 4
        assert json.loads(words_of(*draw, "--dry-run", "--json", "--shard", "2/2"))["calls"] == 0
        words_of(*draw, "--shard", "1/2")
        words_of("merge", ".")
        mark = ["grade", "pool", "-g", f"joint:m,url={server.url}", "--send-posts"]
        shares = [
            json.loads(words_of(*mark, "--dry-run", "--json", "--shard", f"{index}/2"))["all"] for index in (1, 2)
        ]
        whole = json.loads(words_of(*mark, "--dry-run", "--json"))["all"]
        assert [share["answers"] for share in shares] == [3, 2]  # equal answers to an item are graded once
        assert all(sum(share[name] for share in shares) == whole[name] for name in ("answers", "calls"))


def test_the_plans_of_all_shards_of_a_build_add_up_where_models_are_asked() -> None:
    def planned(*words: str) -> dict[str, object]:
        return json.loads(words_of("construct", "rmgap", "--demo", "-o", "build", "--dry-run", "--json", *words))  # type: ignore[no-any-return]

    def least(plan: dict[str, object]) -> Counter[tuple[str, str]]:
        return Counter({(row["stage"], row["role"]): row["calls"]["least"] for row in plan["calls"]})  # type: ignore[attr-defined]

    shards = [planned("--shard", f"{index}/2") for index in (1, 2)]
    whole = planned()
    assert sum(shard["records"] for shard in shards) == whole["records"]  # type: ignore[misc]
    calls = sum(map(least, shards), Counter[tuple[str, str]]())
    assert calls
    assert all(count == least(whole)[stage] for stage, count in calls.items())
    assert [shard["shard"] for shard in shards] == ["shard 1 of 2", "shard 2 of 2"]


# ---------------------------------------------------------------- the example of docs/scale.md

POST, PROMPT, ANSWER = 200, 100, 150
"""Tokens as the page states them; four letters each."""
PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@dataclass(frozen=True)
class StatedNetwork:
    """A model of 8 billion parameters in bfloat16 (32 layers, 8 groups of 128), whose tokens are as stated."""

    spec: str

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        raise NotImplementedError

    def workload(self, queries: Iterable[Query]) -> Workload:
        work = Workload()
        for query in queries:
            prompt = PROMPT + POST * (0 if query.user is None else len(query.user.posts))
            work = work.plus(Workload(1, prompt + ANSWER * len(query.candidates), prompt + ANSWER))
        return work

    def memory(self, longest: int) -> int:
        return 2 * 8_000_000_000 + 2 * 32 * 8 * 128 * 2 * longest


def example(width: int) -> Benchmark:
    """Return 2,830 items of users with 20 posts."""
    posts = tuple(Post(f"p{number}", f"{number} ".ljust(4 * POST, "x"), "baking") for number in range(20))
    answers = tuple(f"{number} ".ljust(4 * ANSWER, "y") for number in range(width))
    return Benchmark(
        card("example"),
        tuple(
            Item(f"i{number:04}", "q" * 4 * PROMPT, answers, 0, f"u{number}", "Bread", user=User(f"u{number}", posts))
            for number in range(2830)
        ),
    )


@pytest.mark.parametrize(
    ("row", "width", "conditions"),
    [("2 answers, 4 conditions", 2, ["none", "recent:5", "recent:10", "recent:20"]), ("64 answers", 64, ["recent:10"])],
)
def test_the_page_of_many_machines_says_what_the_plan_prints(
    capsys: pytest.CaptureFixture[str], row: str, width: int, conditions: list[str]
) -> None:
    bench, models = example(width), [StatedNetwork(f"hf:model-{number}") for number in range(1, 21)]
    cells = [GridCell(bench, model.spec, load_condition(text)) for model in models for text in conditions]

    def planned(speed: str, shard: str | None = None) -> re.Match[str]:
        grid = GridOptions(
            Path("runs"), [], None, 1, [], "", False, Settings(dry_run=DryRun()), {}, shard=open_shard(shard)
        )
        print_plan(cells, models, grid, speed)
        text = " ".join(capsys.readouterr().out.split())
        total = re.search(
            r"all 20 models: about ([\d.]+ [mb]illion) tokens, the longest conversation ([\d,]+); ([\d.,]+ \w+) of one "
            r"device at [\d,]+ tokens/s; a copy takes ([\d.]+ GB), and is sent ([\d.]+ [MG]B)",
            text,
        )
        assert total is not None, text
        return total

    one = planned("20000")
    hours = [planned("200")[3], one[3], *(planned("20000", f"1/{count}")[3] for count in (8, 128))]
    cells_of_page = [row, one[1], *hours, one[4], one[5]]
    assert f"| {' | '.join(cells_of_page)} |" in PAGE.read_text(encoding="utf-8")


def test_the_page_of_many_machines_says_what_drawing_the_pool_takes(tmp_path: Path) -> None:
    class Silent:
        spec, identity = "silent", dict[str, str]()

        def answer(self, asks: Iterable[AnswerRequest], draw: Draw) -> Iterator[PolicyAnswer | Failure]:
            raise NotImplementedError

    plan = sample_plan(example(2), Silent(), "recent:10", out=tmp_path / "pool", draw=Draw(n=64))
    assert f"{plan.calls:,} answers, at most {plan.max_tokens / 1e6:.1f} million tokens" in PAGE.read_text(
        encoding="utf-8"
    )


@pytest.mark.hf
def test_the_stated_network_takes_what_such_a_model_takes() -> None:
    from pluralrm.models.neural.loading import LoadSettings, cache_bytes

    sizes = {"num_attention_heads": 32, "hidden_size": 4096, "num_hidden_layers": 32, "num_key_value_heads": 8}
    stated = StatedNetwork("hf:model")
    cached = cache_bytes(SimpleNamespace(config=sizes), LoadSettings(dtype="bfloat16"), 4350)  # type: ignore[arg-type]
    assert stated.memory(4350) - stated.memory(0) == cached


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tokens-per-second", "100"], "wanted --dry-run beside it"),
        (["--dry-run", "--tokens-per-second", "0"], "--tokens-per-second is '0'; wanted a number above 0, or measure"),
        (["--dry-run", "--tokens-per-second", "fast"], "'fast'; wanted a number above 0, or measure"),
    ],
)
def test_a_speed_is_a_number_or_is_measured(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["score", "pocket-prb", "-m", "bm25", *words])
    assert message in str(done.exception)


@pytest.mark.hf
def test_a_local_model_has_tokens_memory_and_hours(desk: Path) -> None:
    from tests.models.neural.tiny import reward_folder

    reward_folder(desk / "head")
    grid = ["score", "pocket-prb", "-m", "tiny=hf:head", "-c", "none", "-c", "raw:10", "--dry-run"]
    plain = words_of(*grid)
    tokens = re.search(r"tiny: about ([\d,]+) tokens, the longest conversation ([\d,]+)", plain)
    assert tokens is not None
    total = int(tokens[1].replace(",", ""))
    assert re.search(r"a copy takes [\d.]+ [kM]B, and is sent [\d.]+ kB of text in all", plain)
    half = words_of(*grid, "--limit", "30")
    assert total == pytest.approx(2 * int(re.search(r"about ([\d,]+) tokens", half)[1].replace(",", "")), rel=0.25)  # type: ignore[index]
    hours = words_of(*grid, "--tokens-per-second", "0.5", "--workers", "4")
    assert f"{total / 1800:,.1f} h of one device, {total / 7200:,.1f} h with 4 copies at 0 tokens/s" in hours
    measured = words_of(*grid, "--tokens-per-second", "measure")
    assert re.search(r"[\d.]+ min of one device at [\d,]+ tokens/s", measured)
    assert not (desk / "runs").exists()
