"""Findings besides the probes: quality, places and lengths of candidates, shared texts, posts, paraphrases.

Quality is tested by two one-sided tests where candidates are rated: by a tag named `quality:` and a candidate's id,
such as `quality:chosen`, whose value is a number on any scale; or by a judge who rates each candidate alone, without
knowing who asks.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pluralrm.audit.comparisons import Comparisons
from pluralrm.audit.near import Texts, normalised, plain
from pluralrm.audit.probes import lengths
from pluralrm.audit.result import AuditFinding, Measures, Status, amount, share
from pluralrm.core import Benchmark, Estimate, Item, Row, Run
from pluralrm.stats.clusters import FloatArray
from pluralrm.text import counted, estimated, listed

if TYPE_CHECKING:
    from pluralrm.audit.embedder import Embedder


TOPIC, TAG = "general quality", "quality:"
MARGIN = 0.2
"""How many standard deviations of the ratings still count as equal: what is called a small effect."""


def quality(table: Comparisons, run: Run | None = None) -> AuditFinding:
    """Return whether preferred and other candidates are rated alike, by `run` or else by tags.

    Items whose candidates are not all rated are left out, and counted.
    """
    by_item = {row.item: row for row in run.rows} if run else {}
    rated = [
        (item, ratings)
        for item in table.items
        if (ratings := _ratings(item) if run is None else _scores(by_item.get(item.id))) is not None
    ]
    if not rated and run is not None:
        return AuditFinding(TOPIC, "not available", f"{run.model} rated no item whole", {"rated items": 0})
    if not rated:
        return AuditFinding(
            TOPIC, "not available", f"no item has a rating of every candidate (tags {TAG}<candidate id>)", {}
        )
    spread = float(np.std([rating for _, ratings in rated for rating in ratings]))
    margin = MARGIN * spread
    extra = [_ahead(item, ratings) for item, ratings in rated]
    clusters, prompts = ([item.cluster for item, _ in rated], [item.crossed for item, _ in rated])
    wide, narrow = (amount(extra, clusters, crossed=prompts, level=level) for level in (0.95, 0.9))
    low, high = (wide.value, wide.value) if narrow.low is None or narrow.high is None else (narrow.low, narrow.high)
    status, verdict = _verdict(low, high, margin)
    best = float(np.mean([_of_best(item, ratings) / len(item.best) for item, ratings in rated]))
    by = f"{run.model}, asked of each answer alone, rates" if run else "ratings put"
    detail = (
        f"over {counted(len(rated), 'item')} of {len(table.items):,} {by} preferred candidates at {best:.2f} and the "
        f"others at {best - wide.value:.2f}: a difference of {wide.value:+.2f}, 90% "
        f"interval [{low:+.2f}, {high:+.2f}], margin {margin:.2f} (a fifth of a standard deviation): {verdict}"
    )
    measures: Measures = {
        "preferred minus others": wide,
        "90% interval": narrow,
        "margin": margin,
        "mean of preferred": best,
        "mean of others": best - wide.value,
        "rated items": len(rated),
    }
    return AuditFinding(TOPIC, status, detail, measures)


def _verdict(low: float, high: float, margin: float) -> tuple[Status, str]:
    # An interval of 90% inside the margin is both one-sided tests passed at 5%.
    if -margin <= low and high <= margin:
        return "ok", "equivalent"
    if low > 0:
        return "warn", "preferred candidates are better in general, so part of any accuracy is quality, not taste"
    if high < 0:
        return "note", "preferred candidates are worse in general"
    return "note", "neither equality nor a difference is shown"


def _ratings(item: Item) -> list[float] | None:
    try:
        ratings = [float(item.tags[f"{TAG}{name}"]) for name in item.candidate_ids]
    except (KeyError, ValueError):
        return None
    return ratings if len(ratings) == len(item.candidates) and all(map(math.isfinite, ratings)) else None


def _scores(row: Row | None) -> list[float] | None:
    if row is None or row.failed:
        return None
    return [score for score in row.scores if isinstance(score, float)]


def _ahead(item: Item, ratings: list[float]) -> float:
    own, number = _of_best(item, ratings), len(item.best)
    return own / number - (sum(ratings) - own) / (len(ratings) - number)


def _of_best(item: Item, ratings: list[float]) -> float:
    return sum(ratings[index] for index in item.best)


POSITION, LENGTH = "balance of position", "balance of length"


def candidate_positions(table: Comparisons) -> AuditFinding:
    """Return how often a preferred candidate stands at each place; of items of other widths, beside what they allow."""
    if not len(table.items):
        return AuditFinding(POSITION, "not available", "no labelled items", {})
    position, numbers = table.places[table.starts[table.labelled] + table.labels], range(int(table.sizes.max()))
    shares = {
        f"preferred is number {number + 1}": share(
            table.by_item((position == number) * 1.0), table.clusters, crossed=table.prompts
        )
        for number in numbers
    }
    expected = [float((table.bests / table.sizes * (table.sizes > number)).mean()) for number in numbers]
    detail = ", ".join(f"number {name.split()[-1]} in {estimated(value)}%" for name, value in shares.items())
    several = int((table.bests > 1).sum())
    more = f", {several:,} with several preferred candidates" if several else ""
    return AuditFinding(
        POSITION,
        _position_status(shares, expected),
        f"preferred is {detail} of {counted(len(table.items), 'item')}{more}",
        shares,
    )


def candidate_lengths(table: Comparisons) -> AuditFinding:
    """Return how often the preferred candidate is the longest, and by how many characters it exceeds the others."""
    if not len(table.items):
        return AuditFinding(LENGTH, "not available", "no labelled items", {})
    if table.balanced:
        return AuditFinding(LENGTH, "ok", "every answer wins equally often, so its length says nothing, by design", {})
    characters = lengths(table)["the longest"]
    own = table.by_item(characters[table.starts[table.labelled] + table.labels])
    longest = {
        "preferred is the longest": share(_extreme(table, characters), table.clusters, crossed=table.prompts),
        "preferred is the shortest": share(_extreme(table, -characters), table.clusters, crossed=table.prompts),
    }
    others = (np.add.reduceat(characters, table.starts) - own) / (table.sizes - table.bests)
    extra = amount(own / table.bests - others, table.clusters, crossed=table.prompts)
    ends = [f"{round(end):+d}" for end in (extra.low, extra.high) if end is not None]
    by = f"{round(extra.value):+d}" + (f" [{', '.join(ends)}]" if ends else "")
    detail = (
        f"preferred is the longest in {estimated(longest['preferred is the longest'])}% and the shortest in "
        f"{estimated(longest['preferred is the shortest'])}% of items; it has {by} characters more than the others' "
        f"mean of {others.mean():.0f}"
    )
    status = _position_status(longest, [table.chance] * len(longest))
    return AuditFinding(LENGTH, status, detail, {**longest, "characters more than the others": extra})


def _extreme(table: Comparisons, scores: FloatArray) -> FloatArray:
    """Return (n,): the share of the credit that picking the highest score earns."""
    return table.credit(scores[:, None], table.labels[:, None])[:, 0]


def _position_status(shares: dict[str, Estimate], expected: Sequence[float]) -> Status:
    pairs = zip(shares.values(), expected, strict=True)
    return "note" if any(not (value.low or 0.0) <= chance <= (value.high or 1.0) for value, chance in pairs) else "ok"


COUNTS, OVERLAP = "posts", "overlap between users"
CLOSE = 0.5
"""Two users who share this share of the posts of the one with fewer are probably one person."""
WIDELY_SHARED = 200
"""A post of more users than this is a set phrase, which is no sign of one person."""


def post_counts(benchmark: Benchmark) -> AuditFinding:
    """Return how many posts the users have, and how many have none."""
    users = benchmark.users
    if not users:
        return AuditFinding(COUNTS, "not available", "this benchmark has no users", {})
    posts = np.array([len(user.posts) for user in users])
    without = int((posts == 0).sum())
    detail = (
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
    return AuditFinding(COUNTS, "warn" if without else "ok", detail, measures)


def item_counts(benchmark: Benchmark) -> AuditFinding:
    """Return how unevenly items fall on users or records, and users whose ids differ in case or space alone."""
    unit = benchmark.card.cluster
    sizes = Counter(item.cluster for item in benchmark.items)
    items, shares = np.array(list(sizes.values())), np.array(list(sizes.values())) / len(benchmark.items)
    (heaviest, most), equal = sizes.most_common(1)[0], float(1 / (shares**2).sum())
    detail = f"least {items.min()}, median {np.median(items):g}, most {most}"
    if uneven := 2 * equal < len(sizes):
        part = f"{heaviest!r} has {100 * shares.max():.1f}% of the items"
        detail += f"; {part}, and {counted(len(sizes), unit)} weigh in a mean over items like {equal:.1f} equal ones"
    spellings: dict[str, list[str]] = defaultdict(list)
    for name in sizes:
        spellings[plain(name)].append(name)
    twice = [names for names in spellings.values() if len(names) > 1]
    if twice:
        detail += f"; ids that differ in case or space alone, such as {listed(list(map(repr, twice[0])))}: one {unit}?"
    measures: Measures = {"equal clusters": equal, "largest share": float(shares.max()), "spelled twice": len(twice)}
    return AuditFinding(f"items per {unit}", "warn" if twice else "note" if uneven else "ok", detail, measures)


def user_overlap(benchmark: Benchmark, texts: Texts) -> AuditFinding:
    """Return how many users have a post that another user has too, and how many share CLOSE of their posts or more."""
    users = sorted(user.id for user in benchmark.users)
    if len(users) < 2 or not benchmark.has_posts:
        return AuditFinding(OVERLAP, "not available", "wanted two users with posts", {})
    matrix = _incidence(users, texts)
    shared = sparse.csr_array(matrix @ matrix.T)
    shared.setdiag(0)
    shared.eliminate_zeros()
    sizes = np.maximum(matrix.sum(axis=1), 1)
    first, other = shared.nonzero()
    likeness = shared.data / np.minimum(sizes[first], sizes[other])
    close = np.unique(first[likeness >= CLOSE])
    some = np.isin(np.arange(len(users)), first)
    value, most = share(some, users), float(likeness.max(initial=0.0))
    detail = f"{estimated(value)}% of users have a post that another user has too"
    if len(close):
        names = ", ".join(repr(users[index]) for index in close[:4])
        detail += (
            f"; {len(close):,} share half of their posts or more with one other (such as {names}): they may be one "
            "person, and intervals that take users for independent are then too narrow"
        )
    measures: Measures = {
        "users with a shared post": value,
        "users who share half or more": len(close),
        "largest share": most,
    }
    return AuditFinding(OVERLAP, "warn" if len(close) else "note" if some.any() else "ok", detail, measures)


def _incidence(users: list[str], texts: Texts) -> sparse.csr_array:
    """Return (users, posts that a few users have) of 0 and 1; posts that differ in marks alone are one post."""
    row_of = {user: number for number, user in enumerate(users)}
    post = texts.words.same() + 1  # posts without words are one post
    columns = int(post.max()) + 1
    cells = np.unique(np.array([row_of[owner] for owner in texts.owners]) * columns + post)
    rows, places = np.divmod(cells, columns)
    holders = np.bincount(places)
    few = holders[places] <= WIDELY_SHARED
    ones = np.ones(int(few.sum()))
    return sparse.csr_array((ones, (rows[few], places[few])), shape=(len(users), columns))


PARAPHRASES = "paraphrases"
COSINE = 0.70
"""What the published pipeline asks of a paraphrase."""
WARN = 0.05
"""The share of rewrites below COSINE, or with the words of its prompt, above which an audit warns."""


def paraphrases(benchmark: Benchmark, embedder: "Embedder | None") -> AuditFinding:
    """Return the cosine of each rewrite with its base prompt, and of base prompts of one record with each other."""
    groups = _groups(benchmark)
    if not groups:
        return AuditFinding(
            PARAPHRASES, "not available", "no prompt has several phrasings (tags record, group, phrasing)", {}
        )
    if embedder is None:
        return AuditFinding(PARAPHRASES, "not available", "no embedding model given (--embed embed:MODEL)", {})
    items = [item for group in groups for item in group]
    rows = dict(zip((item.id for item in items), embedder.rows([item.prompt for item in items]), strict=True))
    pairs = [(group[0], other) for group in groups for other in group[1:]]
    cosines = np.array([float(rows[base.id] @ rows[other.id]) for base, other in pairs])
    clusters = [base.cluster for base, _ in pairs]
    low = cosines < COSINE
    same = [normalised(base.prompt) == normalised(other.prompt) for base, other in pairs]
    mean, below, copied = amount(cosines, clusters), share(low, clusters), share(same, clusters)
    beside = _beside(groups, rows)
    detail = (
        f"{counted(len(pairs), 'rewrite')} have a cosine of {mean.value:.2f} with their prompt by {embedder.spec} on "
        f"average (least {cosines.min():.2f}); {estimated(below)}% lie below {COSINE:.2f}"
        + (f" (such as {pairs[int(cosines.argmin())][1].id!r})" if low.any() else "")
        + (f"; prompts of other groups of the record have {beside:.2f}" if beside is not None else "")
        + f"; {estimated(copied)}% say the words of their prompt again"
    )
    measures: dict[str, Estimate | float | int] = {
        "cosine": mean,
        f"below {COSINE:.2f}": below,
        "same words": copied,
        "rewrites": len(pairs),
    }
    status: Status = "warn" if max(below.value, copied.value) > WARN else "note" if low.any() or any(same) else "ok"
    return AuditFinding(
        PARAPHRASES, status, detail, measures if beside is None else measures | {"other groups": beside}
    )


def _groups(benchmark: Benchmark) -> list[list[Item]]:
    """Return the phrasings of each group, the base first; groups with one phrasing are left out."""
    groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in benchmark.items:
        if {"record", "group", "phrasing"} <= item.tags.keys():
            groups[item.tags["record"], item.tags["group"]].append(item)
    several = [group for _, group in sorted(groups.items()) if len(group) > 1]
    return [sorted(group, key=lambda item: (item.tags.get("role") != "base", item.id)) for group in several]


def _beside(groups: list[list[Item]], rows: Mapping[str, NDArray[np.float32]]) -> float | None:
    """Return the mean cosine of the base prompts of one record with each other; None where records have one group."""
    bases: dict[str, list[Item]] = defaultdict(list)
    for group in groups:
        bases[group[0].cluster].append(group[0])
    cosines = [
        float(rows[base.id] @ rows[other.id])
        for own in bases.values()
        for index, base in enumerate(own)
        for other in own[index + 1 :]
    ]
    return float(np.mean(cosines)) if cosines else None


SHARED = "texts shared across users"


def shared_texts(table: Comparisons, unit: str) -> AuditFinding:
    """Return how many items share a prompt or an answer with another cluster, and how often people agree on one."""
    topic = SHARED if unit == "user" else f"texts shared across {unit}s"
    if not len(table.items):
        return AuditFinding(topic, "not available", "no labelled items", {})
    if not table.shared:
        return AuditFinding(topic, "ok", f"no {unit} shares a prompt or an answer with another", {})
    holders: dict[str, set[str]] = defaultdict(set)
    own = [{f"p:{item.crossed}", *(f"a:{text}" for text in item.candidates)} for item in table.items]
    for item, names in zip(table.items, own, strict=True):
        for name in names:
            holders[name].add(item.cluster)
    joint = [float(any(len(holders[name]) > 1 for name in names)) for names in own]
    sharing = share(joint, table.clusters, crossed=table.prompts)
    units = int(table.unit.max()) + 1
    detail = f"{estimated(sharing)}% of items share a prompt or an answer with another {unit}"
    if table.crossed:
        detail += (
            f"; texts and {unit}s cross, so held-out {unit}s share neither with those trained on, and tests are "
            f"robust to {counted(len(set(table.clusters)), unit)} and to {units:,} groups of texts"
        )
    else:
        detail += f"; {unit}s who do are kept together: {counted(units, 'group')}"
    agreeing = _agreement(table)
    if agreeing is not None:
        detail += f"; two {unit}s who judge the same answers want the same one in {100 * agreeing:.1f}% of cases"
    measures: dict[str, Estimate | float | int] = {"items that share a text": sharing, "groups": units}
    return AuditFinding(topic, "note", detail, measures | ({} if agreeing is None else {"agreement": agreeing}))


def _agreement(table: Comparisons) -> float | None:
    """Return how often two clusters prefer the same answer of the same ones under the same prompt; None without any.

    Where they prefer several, twice the number that both prefer over the sum of their numbers (Dice).
    """
    wins: dict[str, Counter[frozenset[str]]] = defaultdict(Counter)
    for item in table.items:
        best = frozenset(item.candidates[index] for index in item.best)
        wins[repr((item.crossed, sorted(item.candidates)))][best] += 1
    pairs = sum(tally.total() * (tally.total() - 1) for tally in wins.values())
    alike = sum(
        tally[first] * (tally[other] - (first == other)) * 2 * len(first & other) / (len(first) + len(other))
        for tally in wins.values()
        for first in tally
        for other in tally
    )
    return alike / pairs if pairs else None
