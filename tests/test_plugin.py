"""`python:module:make` wherever a name is accepted: benchmarks, conditions, policies, graders, as models before."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import pluralrm
from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, ConditionError, ModelError, PluralrmError, PoolError
from pluralrm.grading import open_grader
from pluralrm.metrics.roles import roles
from pluralrm.models import load_model
from pluralrm.plugin import source_hash
from pluralrm.policies.best_of_n import best_of_n, score_pool
from pluralrm.policies.grades import grade_folder, grade_pool, read_grades
from pluralrm.policies.policy import Draw, load_policy
from pluralrm.policies.pool import POOL, source
from pluralrm.policies.sample import sample
from pluralrm.serve.client import RewardClient
from tests import own_objects
from tests.builders import bakery
from tests.forked import command
from tests.serve.running import Child

OWN = "python:tests.own_objects"
LOADERS: dict[str, tuple[Callable[[str], object], type[PluralrmError]]] = {
    "benchmark": (load_benchmark, BenchmarkError),
    "condition": (load_condition, ConditionError),
    "policy": (load_policy, PoolError),
    "grader": (open_grader, PoolError),
    "model": (load_model, ModelError),
}


@pytest.mark.parametrize("noun", LOADERS)
def test_a_script_that_leaves_on_import_is_an_error_with_its_line(
    noun: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"leaves_{noun}.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    load, error = LOADERS[noun]
    with pytest.raises(error, match=rf"cannot be imported: .*leaves_{noun}.py:2: SystemExit: 0"):
        load(f"python:leaves_{noun}:make")


@pytest.mark.parametrize("noun", LOADERS)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("python:no_such_module_here:make", "no module 'no_such_module_here' in the current folder"),
        (f"{OWN}:bnech", "has no 'bnech'. Did you mean 'bench'"),
        (OWN, "wanted python:package.module:"),
        (f"{OWN}:a_number", "is not a class or a function that makes a"),
        (f"{OWN}:bench,itmes=2", "cannot be made with {'itmes': '2'}: "),
        ("python:tests/own_objects:bench", "is a path, wanted the name of a module"),
    ],
)
def test_one_mechanism_names_what_is_wrong_for_every_noun(noun: str, spec: str, message: str) -> None:
    load, error = LOADERS[noun]
    with pytest.raises(error) as caught:
        load(spec)
    assert message in str(caught.value)


@pytest.mark.parametrize("noun", LOADERS)
def test_an_exception_in_the_users_code_is_an_error_with_its_line(noun: str) -> None:
    load, error = LOADERS[noun]
    with pytest.raises(error, match=r"own_objects.py:\d+: ValueError: the disk is elsewhere"):
        load(f"{OWN}:raising")


# ---------------------------------------------------------------- benchmarks


def test_a_benchmark_of_ones_own_is_what_the_object_is() -> None:
    loaded = load_benchmark(f"{OWN}:bench,items=7")
    assert loaded.items == bakery(7).items
    assert loaded.content_hash == bakery(7).content_hash
    assert source_hash(own_objects.__file__) in loaded.card.revision


def test_its_content_is_hashed_whatever_it_says_of_itself() -> None:
    straight, turned = [load_benchmark(f"{OWN}:seeded", seed=seed) for seed in (2, 1)]
    assert straight.seed == 2
    assert len({straight.content_hash, turned.content_hash, "what the object says of itself"}) == 3
    assert straight.content_hash == Benchmark(straight.card, straight.items).content_hash


def test_a_seed_that_would_change_nothing_is_refused() -> None:
    with pytest.raises(BenchmarkError, match="has no parameter seed, so that seed 3 would change nothing"):
        load_benchmark(f"{OWN}:bench", seed=3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a_list", "made a list, wanted a pluralrm.Benchmark"),
        ("list_items", "items hold a list, wanted a tuple of pluralrm.Item"),
        ("dict_card", "card is a dict, wanted a pluralrm.Card"),
        ("number_prompt", "makes a benchmark that cannot be checked"),
        ("nothing", "has items"),
        ("twice", "item ids are unique: twice: 'i0000'"),
        ("twice", "the card is filled in: empty: name"),
        ("twice", "preferred is a candidate: not so: 'i0000'"),
    ],
)
def test_a_benchmark_that_breaks_a_promise_is_refused_with_all_of_them(name: str, message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(f"{OWN}:{name}")
    assert message in str(caught.value)


# ---------------------------------------------------------------- conditions


def test_a_condition_of_ones_own_scores_as_the_same_posts_of_ours(tmp_path: Path) -> None:
    whole = bakery(9, posts=3)
    own = pluralrm.score(whole, "lsa", f"{OWN}:Last,k=3", out=tmp_path)
    ours = pluralrm.score(whole, "lsa", "recent:3", out=tmp_path)
    assert [row.scores for row in own.rows] == [row.scores for row in ours.rows]
    assert own.condition == f"{OWN}:Last,k=3"
    assert own.reveals == {"posts"}
    kept = json.loads((Path(own.path) / "run.json").read_text())
    assert kept["identity"]["condition module"] == source_hash(own_objects.__file__)


def test_a_condition_of_ones_own_is_a_control_where_it_declares_that(tmp_path: Path) -> None:
    whole = bakery(9, posts=3)
    grid = [
        pluralrm.score(whole, "lsa", name, out=tmp_path) for name in (f"{OWN}:Lent", f"{OWN}:Borrowed", "swapped:2")
    ]
    (found,) = roles(grid)
    assert found.own.condition == f"{OWN}:Lent"
    assert found.controls["swapped"].condition == f"{OWN}:Borrowed", "the one that it names, and not the built-in one"
    kept = json.loads((Path(found.own.path) / "run.json").read_text())["condition_role"]
    assert (kept["role"], kept["control"]) == ("own", f"{OWN}:Borrowed")


def test_one_that_reveals_the_rubric_is_marked(tmp_path: Path) -> None:
    run = pluralrm.score(bakery(4), "longest", f"{OWN}:Upper", out=tmp_path)
    assert run.reveals == {"oracle"}
    bench = bakery(4)
    assert all(one.reveals_oracle for one in load_condition(f"{OWN}:Upper").queries(bench, bench.items))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Silent", "does not declare reveals"),
        ("Confused", "role is 'swapped', and reveals is posts; wanted own"),
        ("Unheard", "role is 'swaped'. Did you mean 'swapped'"),
        ("Misspelled", "reveals 'post'. Did you mean 'posts'"),
        ("Short", "has no queries(benchmark, items) method: it makes a Short, wanted a condition"),
    ],
)
def test_a_condition_that_declares_nothing_is_refused_when_it_is_named(name: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        load_condition(f"{OWN}:{name}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Undeclared", "shows posts at 'i0000', and its reveals names nothing"),
        ("Slipping,how=prompt", "the query for 'i0001' has another prompt than the item"),
        ("Slipping,how=candidates", "has another candidates than the item"),
        ("Slipping,how=id", "has another id than the item"),
        ("Slipping,how=other", "shows other_posts at 'i0001', and its reveals names posts"),
        ("Slipping,how=oracle", "shows oracle at 'i0001', and its reveals names posts"),
        ("Slipping,how=rubric", "shows oracle at 'i0001'"),
        ("Slipping,how=pair", "shows other_pairs at 'i0001'"),
        ("Slipping,how=label", "its own label"),
        ("Slipping,how=word", "gave a str for 'i0001'; wanted a pluralrm.Query"),
        ("Slipping,how=raise", "own_objects.py:"),
        ("Few", "gave 4 queries for 5 items"),
    ],
)
def test_what_a_condition_shows_must_be_what_it_declares(name: str, message: str, tmp_path: Path) -> None:
    bench = bakery(5, canary="a canary of the rubric")
    with pytest.raises(ConditionError) as caught:
        pluralrm.score(bench, "longest", f"{OWN}:{name}", out=tmp_path)
    if "label" in name:
        assert "other_pairs" in str(caught.value)  # what is undeclared is told first
        shown = replace(load_condition(f"{OWN}:{name}"), reveals=frozenset({"posts", "other_pairs"}))  # type: ignore[type-var]
        with pytest.raises(ConditionError, match=message):
            list(shown.queries(bench, bench.items))
    else:
        assert message in str(caught.value)
    assert not list(tmp_path.rglob("rows.jsonl")) or name == "Few"


def test_what_it_does_not_support_is_skipped_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ConditionError, match="has no posts"):
        pluralrm.score(bakery(3, posts=0), "longest", f"{OWN}:Last", out=tmp_path)


# ---------------------------------------------------------------- policies and graders


def test_a_policy_and_a_grader_of_ones_own_give_a_curve(tmp_path: Path) -> None:
    bench = load_benchmark(f"{OWN}:bench,items=5")
    pool = sample(bench, load_policy(f"{OWN}:Echo"), out=tmp_path / "pool", draw=Draw(n=4))
    facts = POOL.read(pool.folder)
    assert facts.identity == {"words": "3", "module": source_hash(own_objects.__file__)}
    assert source(pool).content_hash == bench.content_hash  # found again by its spec, without --benchmark
    grader = open_grader(f"{OWN}:Short,at=200")
    done = grade_pool(pool, bench, grader)
    assert (done.done, done.failed) == (sum(len(pool.texts(item)) for item in pool.samples), 0)
    folder = grade_folder(pool, grader)
    assert folder != grade_folder(pool, open_grader(f"{OWN}:Short,at=100"))
    kept = json.loads((folder / "grader.json").read_text())
    assert (kept["model"], kept["identity"]["module"]) == ("short-lover", source_hash(own_objects.__file__))
    [run] = [score_pool(pool, bench, "shortest")]
    found = best_of_n(pool, bench, [run], read_grades(folder), ks=[1, 4])
    assert found.curves[0].last.grade.value == pytest.approx(found.oracle[-1].value)  # it likes what is short


def test_a_policy_that_yields_no_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PoolError, match=r"yielded 'a text'; wanted Said\(text, finish\)"):
        sample(bakery(2), load_policy(f"{OWN}:Plain"), out=tmp_path, draw=Draw(n=2))


@pytest.mark.parametrize(
    ("name", "message"),
    [("Generous", "with 7.0; wanted a number from 0 to 1"), ("Shuffled", "graded another answer than the next one")],
)
def test_a_grader_that_yields_no_grade_is_refused(name: str, message: str, tmp_path: Path) -> None:
    bench = bakery(2)
    pool = sample(bench, load_policy(f"{OWN}:Echo"), out=tmp_path, draw=Draw(n=3))
    with pytest.raises(PoolError, match=message):
        grade_pool(pool, bench, open_grader(f"{OWN}:{name}"))


# ---------------------------------------------------------------- on the command line

MODULE = """
from pluralrm import Benchmark, Card, Item, Post, Query, User, UserView, Verdict
from pluralrm.core import ContextPair
from pluralrm.policies.policy import PolicyAnswer
from pluralrm.grading import Graded


def bench(items="8"):
    posts = [(Post(f"p{n}", f"I like number {n}."), Post(f"q{n}", "And tea.")) for n in range(int(items))]
    pairs = [
        tuple(ContextPair(f"c{n}-{k}", f"Pick {k}.", f"Take {n}.", f"Take {n + k + 1}.") for k in range(4))
        for n in range(int(items))
    ]
    users = [User(f"u{n}", written, pairs[n]) for n, written in enumerate(posts)]
    made = tuple(
        Item(f"i{n}", f"Which number, {n}?", (f"Number {n}, of course.", "Any number."), n % 2, user.id, "Numbers",
             ("a", "b"), user)
        for n, user in enumerate(users)
    )
    return Benchmark(Card("mine", "Numbers.", "CC0-1.0", "a test", "by a test"), made)


class First:
    reveals = frozenset({"posts"})

    def queries(self, benchmark, items):
        for item in items:
            yield Query(item.id, item.prompt, item.candidates, UserView(item.user.id, item.user.posts[:1]))


class Counts:
    identity = {}

    def answer(self, asks, draw):
        for ask in asks:
            yield PolicyAnswer(f"{ask.query.prompt} {'0' * ask.index}{ask.index}", "stop")


class Brief:
    def score(self, queries):
        for query in queries:
            yield Verdict(tuple(-float(len(text)) for text in query.candidates))


class Even:
    def grade(self, answers):
        for item, text in answers:
            yield Graded(item.id, text, float(int(text[-1]) % 2 == 0))
"""

STUDY = """
benchmarks = ["python:mine:bench"]
models = ["longest", "shortest", "copy"]
conditions = ["python:mine:First"]

[best-of-n]
policy = "python:mine:Counts"
n = 4
condition = "python:mine:First"
see = ["python:mine:First"]
grader = "python:mine:Even"
"""


def test_every_verb_that_takes_a_name_takes_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "study.toml").write_text(STUDY)
    rated = [{"output": "x" * n, "profile": ["likes it brief"], "human_score": 1 / n} for n in range(1, 5)]
    (tmp_path / "rated.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rated))
    bench, shown = "python:mine:bench,items=12", ["-c", "python:mine:First"]
    lines = [
        ["score", bench, "-m", "longest", "-m", "copy", "-m", "random", *shown, "-c", "none", "-o", "runs"],
        ["check", bench, "--benchmark"],
        ["audit", bench],
        ["attack", bench, "-m", "longest", *shown, "-o", "attacked"],
        ["sample", bench, "-p", "python:mine:Counts", *shown, "-n", "4", "-o", "pool"],
        ["grade", "pool", "-g", "python:mine:Even"],
        ["best-of-n", "pool", "-m", "longest", *shown, "-g", "python:mine:Even"],
        ["train", "scale", "pool", "--reward", "python:mine:Brief", *shown, "-o", "scale.json"],
        ["annotate", "plan", bench, *shown, "-n", "6", "--examples", "0", "-o", "plan"],
        ["fit", "bt", "--train", "python:mine:bench,items=40", "-o", "fitted"],
        ["score", bench, "-m", "personal:fitted", *shown, "-o", "runs"],
        ["align", "rated.jsonl", "-m", "python:mine:Brief"],
        ["list", "benchmarks"],
        ["list", "conditions"],
        ["list", "graders"],
        ["doctor", "longest", "--benchmark", bench, *shown],
        ["study", "study.toml", "-o", "study", "--dry-run"],
        ["study", "study.toml", "-o", "study"],
    ]
    for words in lines:
        done = command(words, cwd=tmp_path, environment={"PLURALRM_CACHE": str(tmp_path / "cache")})
        assert done.returncode in ((0, 1) if words[0] in {"audit", "doctor"} else (0,)), (words, done.stderr)
        assert "Traceback" not in done.stderr
    made = {json.loads(file.read_text())["model"]: str(file.parent) for file in (tmp_path / "runs").rglob("run.json")}
    runs = [made["random"], made["longest"]]
    done = command(["power", "items", *runs, "--simulations", "200"], cwd=tmp_path, environment={})
    assert done.returncode == 0, done.stderr
    server = Child("python:mine:Brief", *shown, "-b", bench, "--run", "r1", cwd=tmp_path)
    try:
        asked = {"item": "i1", "candidates": ["rye", "r"]}
        found = RewardClient(server.url, run="r1", seconds=240).rewards([asked])
    finally:
        server.kill(signal.SIGTERM)
    assert found == [[-3.0, -1.0]]
    assert "graded by python:mine:Even" in command(lines[6], cwd=tmp_path, environment={}).stdout
    kept = json.loads(next((tmp_path / "runs").rglob("run.json")).read_text())
    assert kept["benchmark"]["card"]["revision"] == f"{bench} (module {source_hash(str(tmp_path / 'mine.py'))})"
