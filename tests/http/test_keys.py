"""No two different requests share a kept reply, and what differs is named."""

import dataclasses
import json
from pathlib import Path

from hypothesis import assume, example, given
from hypothesis import strategies as st

from pluralrm.chat import ChatRequest, Sampling
from pluralrm.chat.completions import PATH, completion_body
from pluralrm.digests import digest
from pluralrm.http import Call
from pluralrm.http.cache import ReplyCache, difference, request_leaves

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", "0", "1", "null", "a", "A"]
)
samplings = st.builds(
    Sampling,
    temperature=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
    top_p=st.none() | st.sampled_from([0.5, 1.0]),
    max_tokens=st.none() | st.integers(0, 2),
    seed=st.none() | st.integers(0, 2),
    stop=st.lists(words, max_size=2).map(tuple),
    logprobs=st.booleans(),
    top_logprobs=st.integers(0, 2),
)
requests = st.builds(
    ChatRequest,
    messages=st.lists(st.tuples(words, words), max_size=3).map(tuple),
    sampling=samplings,
    template=words,
    tag=words,
)


@dataclasses.dataclass(frozen=True)
class Asked:
    """Everything that shapes a reply."""

    model: str
    url: str
    revision: str
    request: ChatRequest
    extra: tuple[tuple[str, str], ...] = ()

    def shape(self) -> dict[str, object]:
        marks = {"revision": self.revision, "template": self.request.template, "tag": self.request.tag}
        return Call(PATH, completion_body(self.model, self.request, dict(self.extra)), marks).shape(self.url)

    def sent(self) -> object:
        """What would tell two apart for a server or for us: log-probabilities are asked for in two ways."""
        sampling = self.request.sampling
        sampling = dataclasses.replace(sampling, logprobs=sampling.logprobs or sampling.top_logprobs > 0)
        return dataclasses.replace(self, request=dataclasses.replace(self.request, sampling=sampling))


urls = st.sampled_from(
    ["http://127.0.0.1:1", "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", "https://127.0.0.1:1/v1"]
)
asked = st.builds(
    Asked, words, urls, words, requests, st.lists(st.tuples(st.sampled_from("xy"), words), max_size=1).map(tuple)
)


@given(asked, asked)
def test_two_requests_have_one_key_exactly_when_nothing_differs(one: Asked, other: Asked) -> None:
    assert (digest(one.shape()) == digest(other.shape())) == (one.sent() == other.sent())


FIELDS = ["model", "url", "revision", "messages", "template", "tag", *(f.name for f in dataclasses.fields(Sampling))]


@given(asked, asked, st.sampled_from(FIELDS))
def test_every_field_alone_makes_another_key(one: Asked, other: Asked, field: str) -> None:
    if field in {"model", "url", "revision"}:
        changed = dataclasses.replace(one, **{field: getattr(other, field)})
    elif field in {"messages", "template", "tag"}:
        changed = dataclasses.replace(
            one, request=dataclasses.replace(one.request, **{field: getattr(other.request, field)})
        )
    else:
        sampling = dataclasses.replace(one.request.sampling, **{field: getattr(other.request.sampling, field)})
        changed = dataclasses.replace(one, request=dataclasses.replace(one.request, sampling=sampling))
    assume(changed.sent() != one.sent())
    assert digest(changed.shape()) != digest(one.shape())


@given(st.lists(asked, min_size=2, max_size=6))
def test_a_cache_gives_each_request_its_own_reply(tmp_path_factory: object, many: list[Asked]) -> None:
    cache = ReplyCache(Path(tmp_path_factory.mktemp("cache")))  # type: ignore[attr-defined]
    for place, one in enumerate(many):
        cache.put(digest(one.shape()), {"said": place})
    first = {json.dumps(one.shape(), sort_keys=True): place for place, one in reversed(list(enumerate(many)))}
    for one in many:
        assert cache.get(digest(one.shape())) == {"said": first[json.dumps(one.shape(), sort_keys=True)]}
    cache.close()


def test_a_key_without_the_model_would_cross_models() -> None:
    """The control: the same request to two models, keyed as some caches do, collides."""
    one, other = (Asked(model, "http://127.0.0.1:1", "", ChatRequest((("user", "?"),))).shape() for model in "ab")
    assert digest(one) != digest(other)
    for shape in (one, other):
        shape["body"] = {name: value for name, value in shape["body"].items() if name != "model"}  # type: ignore[attr-defined]
    assert digest(one) == digest(other)


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(nested, nested)
@example(1, "1")
@example([], {})
@example({"a": 1}, {"a": 1.0})
def test_a_difference_is_named_where_there_is_one(one: object, other: object) -> None:
    differs = request_leaves(one) != request_leaves(other)
    assert differs == (json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    if differs:
        assert "nested" not in difference(request_leaves(one), request_leaves(other))


def test_a_difference_shows_where_two_texts_part() -> None:
    wanted, found = (request_leaves({"body": {"messages": [{"content": "x" * 100 + end}]}}) for end in ("rye", "spelt"))
    around = "..." + 24 * "x"
    assert difference(wanted, found) == f'body.messages[0].content is {around}spelt", asked was {around}rye"'
    assert difference({"a": "1"}, {}) == "has no a, asked was 1"
    assert difference({}, {"a": "1", "b": "2"}) == "has a = 1, not asked for (and in 1 more)"
