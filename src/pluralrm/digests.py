"""Content as a hash: SHA-256 of JSON in one canonical spelling."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from pluralrm.labels import is_one_hot


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON-able value in one canonical spelling, so that equal content has one hash."""
    return hashlib.sha256(_canonical(value)).hexdigest()


def digest_list(values: Iterable[object]) -> str:
    """Return the digest of a list without holding it: a benchmark may be far larger than its items one by one."""
    running = hashlib.sha256(b"[")
    for index, value in enumerate(values):
        running.update(b"," * bool(index) + _canonical(value))
    running.update(b"]")
    return running.hexdigest()


def prompt_id(text: str) -> str:
    """Return the id of a prompt that its source does not name: equal texts are one prompt."""
    return digest(text)[:16]


def digest_items(items: Sequence[Any]) -> str:
    """Return the digest of the list of what `item_content` has of each item.

    What a person wrote is spelled out once for those of their items that stand near each other: people with hundreds of
    pairs have hundreds of items.
    """
    running = hashlib.sha256(b"[")
    people: dict[int, bytes] = {}
    for index, item in enumerate(items):
        if id(item.user) not in people:
            if len(people) >= _NEAR:
                people.clear()
            people[id(item.user)] = _canonical(_user_content(item.user))
        before, after = map(_canonical, _beside_user(item))
        running.update(b"," * bool(index) + before[:-1] + b",")
        running.update(people[id(item.user)])
        running.update(b"," + after[1:])
    running.update(b"]")
    return running.hexdigest()


_NEAR = 128
"""People whose texts are kept spelled out."""


def item_content(item: Any) -> list[object]:  # noqa: ANN401 - an Item, which stands above
    """Return everything of an item that could change a number; what older items did not have is left out if empty."""
    before, after = _beside_user(item)
    return [*before, _user_content(item.user), *after]


def _user_content(user: Any) -> list[object] | None:  # noqa: ANN401 - a User, which stands above
    return user and [
        user.id,
        [[post.id, post.text, post.category, *filter(None, [post.date])] for post in user.posts],
        [[pair.id, pair.prompt, pair.preferred, pair.other] for pair in user.preferences],
        *filter(None, [dict(user.traits)]),
    ]


def _beside_user(item: Any) -> tuple[list[object], list[object]]:  # noqa: ANN401 - an Item
    oracle = item.oracle
    answers = [oracle.reference, oracle.tests, oracle.entry] if oracle else []
    rubric = oracle and [
        oracle.narrative,
        [[a.aspect, a.evidence, a.reason] for a in oracle.aspects],
        *([answers] if any(answers) else []),
    ]
    question = [item.id, item.prompt, item.candidates, item.preferred, item.candidate_ids]
    more = [item.prompt_id, () if is_one_hot(item.grades) else item.grades]
    return [*question, item.cluster, item.domain, dict(item.tags)], [rubric, *filter(None, more)]


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
