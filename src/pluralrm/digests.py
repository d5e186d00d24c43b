"""Content as a hash: SHA-256 of JSON in one canonical spelling."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from pluralrm.labels import is_one_hot


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON-able value in one canonical spelling, so that equal content has one hash."""
    return hashlib.sha256(_canonical(value)).hexdigest()


def plain_digest(value: object) -> str:
    """Return `digest` of texts, whole numbers and lists of them, in half of the time; keys must be in order."""
    return hashlib.sha256(_plain(value)).hexdigest()


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

    What a person wrote, and an answer, is spelled out once for those items with it that stand near each other: people
    with hundreds of pairs have hundreds of items, and prompts of one record share their answers.
    """
    running = hashlib.sha256(b"[")
    people: dict[int, bytes] = {}
    texts: dict[str, bytes] = {}
    for index, item in enumerate(items):
        if len(texts) >= _NEAR:
            texts.clear()
        answers = [texts.get(text) or texts.setdefault(text, _plain(text)) for text in item.candidates]
        question, before, after = _beside_user(item)
        running.update(b"%b%b,[%b]," % (b"," * bool(index), _plain(question)[:-1], b",".join(answers)))
        spell = _canonical if type(after[-1]) is tuple else _plain  # of grades, which are no texts
        if item.user is None:
            running.update(spell([*before, None, *after])[1:])
            continue
        if id(item.user) not in people:
            if len(people) >= _NEAR:
                people.clear()
            people[id(item.user)] = _plain(_user_content(item.user))
        running.update(b"%b,%b,%b" % (_plain(before)[1:-1], people[id(item.user)], spell(after)[1:]))
    running.update(b"]")
    return running.hexdigest()


_NEAR = 128
"""People, and answers, that are kept spelled out."""


def item_content(item: Any) -> list[object]:  # noqa: ANN401 - an Item, which stands above
    """Return everything of an item that could change a number; what older items did not have is left out if empty."""
    question, before, after = _beside_user(item)
    return [*question, item.candidates, *before, _user_content(item.user), *after]


def _user_content(user: Any) -> list[object] | None:  # noqa: ANN401 - a User, which stands above
    return user and [
        user.id,
        [[post.id, post.text, post.category, *filter(None, [post.date])] for post in user.posts],
        [[pair.id, pair.prompt, pair.preferred, pair.other] for pair in user.preferences],
        *filter(None, [dict(sorted(user.traits.items()))]),
    ]


def _beside_user(item: Any) -> tuple[list[object], list[object], list[object]]:  # noqa: ANN401 - an Item
    oracle = item.oracle
    answers = [oracle.reference, oracle.tests, oracle.entry] if oracle else []
    rubric = oracle and [
        oracle.narrative,
        [[a.aspect, a.evidence, a.reason] for a in oracle.aspects],
        *([answers] if any(answers) else []),
    ]
    label = [item.preferred, item.candidate_ids, item.cluster, item.domain, dict(sorted(item.tags.items()))]
    more = [item.prompt_id, () if is_one_hot(item.grades) else item.grades]
    return [item.id, item.prompt], label, [rubric, *filter(None, more)]


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> bytes:
    """Return the canonical spelling of texts, whole numbers and lists of them, in half of the time.

    Numbers with a point would be spelled in another way, and the keys of objects must be in order.
    """
    try:
        return to_json(value)
    except PydanticSerializationError:  # a lone surrogate
        return _canonical(value)


def _canonical(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")
