"""What is known of the users: how many posts each has, and whether two users are one person's questions."""

import numpy as np
from scipy import sparse

from pluralrm.audit.duplicates import Texts
from pluralrm.audit.measured import share
from pluralrm.audit.result import Finding, Measures
from pluralrm.core import Benchmark
from pluralrm.text import counted, estimated

COUNTS, OVERLAP = "posts", "overlap between users"
CLOSE = 0.5
"""Two users who share this share of the posts of the one with fewer are probably one person."""
WIDELY_SHARED = 200
"""A post of more users than this is a set phrase, which is no sign of one person."""


def counts(benchmark: Benchmark) -> Finding:
    """Return how many posts the users have, and how many have none."""
    users = benchmark.users
    if not users:
        return Finding(COUNTS, "not available", "this benchmark has no users", {})
    posts = np.array([len(user.posts) for user in users])
    without = int((posts == 0).sum())
    found = (
        f"{counted(len(users), 'user')}; posts per user: least {posts.min()}, median {np.median(posts):g}, "
        f"most {posts.max()}; {counted(without, 'user')} without any"
    )
    measures = {
        "users": len(users),
        "least": int(posts.min()),
        "median": float(np.median(posts)),
        "most": int(posts.max()),
        "users without posts": without,
    }
    return Finding(COUNTS, "warn" if without else "ok", found, measures)


def overlap(benchmark: Benchmark, texts: Texts) -> Finding:
    """Return how many users have a post that another user has too, and how many share CLOSE of their posts or more."""
    users = sorted(user.id for user in benchmark.users)
    if len(users) < 2 or not benchmark.has_posts:
        return Finding(OVERLAP, "not available", "wanted two users with posts", {})
    held = _incidence(users, texts)
    shared = sparse.csr_array(held @ held.T)
    shared.setdiag(0)
    shared.eliminate_zeros()
    sizes = np.maximum(held.sum(axis=1), 1)
    one, other = shared.nonzero()
    likeness = shared.data / np.minimum(sizes[one], sizes[other])
    close = np.unique(one[likeness >= CLOSE])
    some = np.isin(np.arange(len(users)), one)
    value, most = share(some, users), float(likeness.max(initial=0.0))
    found = f"{estimated(value)}% of users have a post that another user has too"
    if len(close):
        names = ", ".join(repr(users[place]) for place in close[:4])
        found += (
            f"; {len(close):,} share half of their posts or more with one other (such as {names}): they may be one "
            "person, and intervals that take users for independent are then too narrow"
        )
    measures: Measures = {
        "users with a shared post": value,
        "users who share half or more": len(close),
        "largest share": most,
    }
    return Finding(OVERLAP, "warn" if len(close) else "note" if some.any() else "ok", found, measures)


def _incidence(users: list[str], texts: Texts) -> sparse.csr_array:
    """Return (users, posts that a few users have) of 0 and 1; posts that differ in marks alone are one post."""
    place = {user: number for number, user in enumerate(users)}
    post = texts.words.same() + 1  # posts without words are one post
    columns = int(post.max()) + 1
    held = np.unique(np.array([place[owner] for owner in texts.owners]) * columns + post)
    rows, places = np.divmod(held, columns)
    holders = np.bincount(places)
    few = holders[places] <= WIDELY_SHARED
    ones = np.ones(int(few.sum()))
    return sparse.csr_array((ones, (rows[few], places[few])), shape=(len(users), columns))
