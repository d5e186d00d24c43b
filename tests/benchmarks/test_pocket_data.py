"""What the cards of the shipped benchmarks claim about their data."""

import re
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from statsmodels.stats.proportion import proportion_confint

from pluralrm import load_benchmark
from pluralrm.core import Item

PRB = load_benchmark("pocket-prb")
RMGAP = load_benchmark("pocket-rmgap")


def _spans(text: str, length: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[n : n + length]) for n in range(len(words) - length + 1)}


def _posts(item: Item) -> list[str]:
    assert item.user is not None
    return [post.text for post in item.user.posts]


def test_posts_and_answers_have_the_promised_length() -> None:
    for item in PRB.items:
        assert all(40 <= len(post.split()) <= 80 for post in _posts(item)), item.id
        assert all(60 <= len(answer.split()) <= 100 for answer in item.candidates), item.id


def test_the_longer_answer_is_the_chosen_one_in_about_half_of_the_items() -> None:
    longer = sum(len(item.candidates[item.preferred or 0]) == max(map(len, item.candidates)) for item in PRB.items)
    assert 0.45 <= longer / len(PRB.items) <= 0.55


@pytest.mark.slow
def test_the_answers_alone_do_not_tell_which_was_chosen() -> None:
    """A bag-of-words classifier, trained on some items and asked about others, stays at chance."""
    chosen = [item.candidates[item.preferred or 0] for item in PRB.items]
    rejected = [item.candidates[1 - (item.preferred or 0)] for item in PRB.items]
    counts = CountVectorizer().fit([*chosen, *rejected])
    difference = counts.transform(chosen).toarray().astype(float) - counts.transform(rejected).toarray()
    shares = []
    for seed in range(10):
        right = np.zeros(len(difference))
        for train, test in KFold(10, shuffle=True, random_state=seed).split(difference):
            both = np.concatenate([difference[train], -difference[train]])
            sides = np.repeat([1, 0], len(train))
            right[test] = LogisticRegression(max_iter=2000).fit(both, sides).predict(difference[test])
        shares.append(right.mean())
    share = float(np.mean(shares))
    low, high = proportion_confint(round(share * len(difference)), len(difference), method="wilson")
    assert low <= 0.5 <= high
    assert abs(share - 0.5) <= 0.05


def test_every_item_has_a_rubric_with_evidence_from_the_posts() -> None:
    for item in PRB.items:
        assert item.oracle is not None
        assert item.oracle.narrative
        assert 3 <= len(item.oracle.aspects) <= 6, item.id
        assert item.user is not None
        known = {post.id for post in item.user.posts}
        for aspect in item.oracle.aspects:
            cited = set(re.findall(r"[a-z]+-\d+-p\d+", aspect.evidence))
            assert cited, (item.id, aspect.aspect)
            assert cited <= known, (item.id, aspect.aspect)


def test_no_answer_copies_a_post_and_no_text_comes_twice() -> None:
    for item in PRB.items:
        written = set().union(*(_spans(post, 6) for post in _posts(item)))
        assert not any(_spans(answer, 6) & written for answer in item.candidates), item.id
    texts = [text for item in PRB.items for text in (*_posts(item), *item.candidates, item.prompt)]
    assert len(set(texts)) == len(texts)
    shared = Counter(span for text in texts for span in _spans(text, 8))
    assert not [span for span, times in shared.items() if times > 2]


def test_rmgap_prompts_are_distinct_and_styles_lie_far_apart() -> None:
    assert len({item.prompt for item in RMGAP.items}) == len(RMGAP.items)
    for record in {item.cluster for item in RMGAP.items}:
        prompts = [item for item in RMGAP.items if item.cluster == record]
        assert len({candidate for item in prompts for candidate in item.candidates}) == 4
        styles = {
            item.tags["group"]: tuple(level for tag, level in item.tags.items() if tag.startswith("winner:"))
            for item in prompts
        }
        assert all(one != other for one, other in combinations(styles.values(), 2))
