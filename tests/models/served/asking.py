"""What the tests of served heads share: quick settings, a model for a server, the head's own numbers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.core import Failure, Post, Query, Score, UserView
from pluralrm.errors import PluralrmError
from pluralrm.http import Settings
from pluralrm.models import load_model
from pluralrm.models.served import ServedHead
from pluralrm.templates import Message, load_template
from tests.fake_heads import FakeHead, Quirks, chat_text, encode, logits, tokenizer_folder

ONCE = Settings(attempts=1, concurrency=8)
QUERY = Query("q1", "Which flour?", ("Rye.", "Spelt, half and half."))
POSTS = tuple(Post(f"p{number}", f"Post {number} about bread, yeast and water. " * 6) for number in range(8))
LONG = replace(QUERY, id="long", user=UserView("u", POSTS))


def spec_of(server: FakeHead, dialect: str = "vllm", keys: str = "", folder: Path | None = None) -> str:
    """Return the spec of a server; `folder` is where its chat template stands, for those that have none."""
    chat = f",chat={tokenizer_folder(folder)}" if folder else ""
    return f"{dialect}:{server.url}{chat}{',' * bool(keys)}{keys}"


def served(spec: str, settings: Settings = ONCE) -> ServedHead:
    model = load_model(spec, settings=settings)
    assert isinstance(model, ServedHead)
    return model


def head_of(server: FakeHead, keys: str = "", settings: Settings = ONCE) -> ServedHead:
    """Return the model of a fake vLLM."""
    return served(spec_of(server, keys=keys), settings)


def refusal(quirks: Quirks, keys: str = "", dialect: str = "vllm", folder: Path | None = None) -> str:
    """Return why a server is refused on the first use; it must be."""
    with FakeHead(dialect, quirks) as server:
        model = served(spec_of(server, dialect, keys, folder))
        with pytest.raises(PluralrmError) as caught:
            list(model.score([QUERY]))
        assert str(caught.value)
        return str(caught.value)


def scores(model: ServedHead, *queries: Query) -> list[tuple[Score, ...]]:
    return [verdict.scores for verdict in model.score(queries)]


def kinds(found: Sequence[Score]) -> list[str]:
    """Return each score's kind of failure, or `score`."""
    return [one.kind if isinstance(one, Failure) else "score" for one in found]


def plainly(query: Query, answer: str, quirks: Quirks | None = None) -> float:
    """Return the head's number for a conversation, without any server or client."""
    quirks = quirks or Quirks()
    asked = load_template().render(query)
    turns = [Message("user", asked)._asdict(), Message("assistant", answer)._asdict()]
    ids = encode(chat_text(turns, quirks.template_bos))
    return logits(ids, quirks.weights)[0]
