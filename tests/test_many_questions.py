"""One file of people who ask several questions, with posts and pairs as of each: every verb reads it."""

import json
import random
from pathlib import Path

import pytest

from pluralrm import load_benchmark
from pluralrm.audit import audit
from pluralrm.core import Benchmark
from pluralrm.models.personal.algorithms import read_settings
from pluralrm.models.personal.fitting import FitRequest, fit
from pluralrm.runs import score
from pluralrm.testing import check_benchmark

WANTS = {"short": ("brief", "quick", "plain"), "long": ("thorough", "detailed", "patient")}


def answer(rng: random.Random, want: str, number: int) -> str:
    return " ".join(rng.choice((*WANTS[want], "then", "and")) for _ in range(8)) + f", part {number}."


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 30 people with 1 to 7 questions, 1 to 40 posts and 1 to 9 pairs; later rows hold more."""
    rng, rows = random.Random(5), []
    for who in range(30):
        want, other = rng.sample(sorted(WANTS), 2)
        posts = [{"text": f"I like {rng.choice(WANTS[want])} talk, {who} {n}."} for n in range(rng.choice([1, 4, 40]))]
        pairs = [
            {"prompt": f"What of {who} {n}?", "preferred": answer(rng, want, n), "other": answer(rng, other, n)}
            for n in range(rng.choice([1, 3, 9]))
        ]
        for turn in range(rng.randint(1, 7)):
            good, bad = answer(rng, want, turn), answer(rng, other, turn)
            asked = {"prompt": f"Tell me of {turn}, {who}.", "chosen": good, "rejected": bad}
            rows.append({"user": f"u{who}", "posts": list(posts), "pairs": list(pairs), **asked})
            posts.append({"text": f"I asked about {turn}, {who}."})
            pairs.append(asked)
    rng.shuffle(rows)
    path = tmp_path_factory.mktemp("people") / "people.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_file_keeps_every_promise_and_each_question_has_its_own_posts(people: Path) -> None:
    bench = load_benchmark(str(people))
    check_benchmark(bench)
    rows = [json.loads(line) for line in people.read_text().splitlines()]
    for row, item in zip(rows, bench.items, strict=True):
        assert item.user is not None
        assert [post.text for post in item.user.posts] == [post["text"] for post in row["posts"]]
    assert len(bench.users) == 30


def test_fitting_learns_nothing_later_than_a_question_and_no_label_of_an_item(people: Path, tmp_path: Path) -> None:
    bench = load_benchmark(str(people))
    labels = {(item.prompt, frozenset(item.candidates)) for item in bench.items}
    learned = [pair for user in bench.users_before for pair in user.preferences]
    assert not labels & {(pair.prompt, frozenset({pair.preferred, pair.other})) for pair in learned}
    later = [pair for user in bench.users for pair in user.preferences]
    assert labels & {(pair.prompt, frozenset({pair.preferred, pair.other})) for pair in later}
    manifest = fit(bench, FitRequest(read_settings("bt-posts", {})), tmp_path / "fit")
    held = manifest.trained_on.held_out
    assert manifest.trained_on.users + held == 30
    assert 0 < manifest.trained_on.pairs <= len(learned)
    run = score(bench, f"personal:{tmp_path / 'fit'}", "pairs:3,posts=3", out=tmp_path / "runs")
    assert run.complete
    assert len({row.cluster for row in run.rows}) == 30


def test_an_audit_counts_all_that_a_person_wrote(people: Path) -> None:
    bench = load_benchmark(str(people))
    whole = {(item.user.id, post.text) for item in bench.items if item.user is not None for post in item.user.posts}
    assert sum(len(user.posts) for user in bench.users) == len(whole)
    small = Benchmark(bench.card, bench.items[:40])
    found = next(finding for finding in audit(small).findings if finding.topic == "posts")
    assert found.measures["users"] == len({item.cluster for item in small.items})
