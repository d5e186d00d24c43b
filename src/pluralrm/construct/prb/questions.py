"""The input: questions with their askers' posts; who and what came twice; which posts are shown."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from pluralrm.audit.near import near_duplicates, normalised
from pluralrm.benchmarks.lamp_qa import DOMAINS, AspectRow, PostRow
from pluralrm.construct.pipeline.stages import Acceptance, Decision, Record, Rejection
from pluralrm.construct.prb.products import DistinctQuestion, PersonalQuestion, Shown
from pluralrm.core import Benchmark, Item, Post, User, digest
from pluralrm.errors import BenchmarkError
from pluralrm.retrieval import Ranker, Request

OVERLAP = 0.5
"""The share of the posts of the one who wrote less from which two users are one."""
FEWEST = 5
"""Words below which a post shows nothing of who wrote it: "Thank you all!"."""


def records_of(bench: Benchmark) -> list[Record]:
    """Return a record per item; one without a user has no posts, and the first stage says so."""
    found = [_record(item, item.user or User(item.id)) for item in bench.items]
    if not any(record[PersonalQuestion].posts for record in found):
        raise BenchmarkError(
            f"{bench.card.name}: found no question with posts of who asks it, wanted rows with question and profile "
            "(the page 'Construct pairs for your own users' of the documentation shows one)"
        )
    return found


def _record(item: Item, user: User) -> Record:
    oracle, category = item.oracle, item.tags.get("category", "")
    aspects = oracle.aspects if oracle else ()
    source = PersonalQuestion(
        user=user.id,
        question=item.prompt,
        # A row of another domain than the three is loaded back as of the domain that its category says.
        category=category if item.domain in DOMAINS else item.domain,
        narrative=oracle.narrative if oracle else "",
        posts=tuple(PostRow(id=post.id, category=post.category, text=post.text) for post in user.posts),
        aspects=tuple(AspectRow(aspect=one.aspect, evidence=one.evidence, reason=one.reason) for one in aspects),
    )
    return Record(item.id, item.domain, source)


# ---------------------------------------------------------------- who and what came twice


def distinct(records: Sequence[Record]) -> list[Decision]:
    """Return for each record whether its user and its question are new; of two alike the smaller id stays."""
    seen, questions = _Users(), _alike_before([record[PersonalQuestion].question for record in records])
    kept: set[int] = set()
    decided: list[Decision] = []
    for place, record in enumerate(records):
        texts = _texts(record)
        twin = seen.twin(record[PersonalQuestion].user, texts)
        like = next((other for other in questions[place] if other in kept), None)
        if not record[PersonalQuestion].posts:
            decided.append(Rejection("no_posts", "the user has written nothing"))
        elif twin:
            decided.append(Rejection("duplicate_user", f"the user or their posts are those of record {twin!r}"))
        elif like is not None:
            decided.append(Rejection("duplicate_question", f"nearly the question of record {records[like].id!r}"))
        else:
            kept.add(place)
            seen.add(record, texts)
            decided.append(Acceptance(DistinctQuestion(posts_hash=digest(sorted(texts)))))
    return decided


def _texts(record: Record) -> set[str]:
    return {text for text in (normalised(post.text) for post in record[PersonalQuestion].posts) if text}


class _Users:
    """The users so far, found by id and by what they wrote."""

    def __init__(self) -> None:
        self._by_user: dict[str, str] = {}
        self._by_post: dict[str, list[str]] = defaultdict(list)
        self._written: dict[str, int] = {}

    def twin(self, user: str, texts: set[str]) -> str:
        """Return the record of the same user or of one with the same posts, '' where there is none."""
        if user in self._by_user:
            return self._by_user[user]
        telling = _telling(texts)
        shared = Counter(record for text in telling for record in self._by_post[text])
        same = [
            record for record, count in shared.items() if count >= OVERLAP * min(len(telling), self._written[record])
        ]
        return min(same, default="")

    def add(self, record: Record, texts: set[str]) -> None:
        self._by_user[record[PersonalQuestion].user] = record.id
        telling = _telling(texts)
        self._written[record.id] = len(telling)
        for text in telling:
            self._by_post[text].append(record.id)


def _telling(texts: set[str]) -> set[str]:
    """Return the posts that show who wrote them; all of them where none does."""
    return {text for text in texts if text.count(" ") + 1 >= FEWEST} or texts


def _alike_before(texts: Sequence[str]) -> list[list[int]]:
    """Return for each text the places before it whose text is nearly the same."""
    before: list[list[int]] = [[] for _ in texts]
    first: dict[str, int] = {}
    for place, text in enumerate(map(normalised, texts)):
        if text in first:
            before[place].append(first[text])
        first.setdefault(text, place)
    found = near_duplicates(list(texts))
    for one, other in zip(found.first.tolist(), found.second.tolist(), strict=True):
        before[max(one, other)].append(min(one, other))
    return [sorted(set(places)) for places in before]


# ---------------------------------------------------------------- which posts are shown


def shown(records: Sequence[Record], ranker: Ranker, *, most: int) -> Iterator[Decision]:
    """Yield the posts of each record that say most about its question, best first."""
    asked = [Request(record.id, record[PersonalQuestion].question, _posts(record)) for record in records]
    for ranked in ranker.rank(asked, k=most):
        rows = tuple(PostRow(id=post.id, category=post.category, text=post.text) for post in ranked)
        yield Acceptance(Shown(posts=rows))


def _posts(record: Record) -> list[Post]:
    return [Post(post.id, post.text, post.category) for post in record[PersonalQuestion].posts]
