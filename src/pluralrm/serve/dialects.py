"""Bodies in, bodies out, for the three routes. What cannot be read, or cannot be said, is a ProblemError.

{"rollouts": [{"item": "art-01", "candidates": ["An answer.", "Another."]},
              {"prompt": "Which flour?", "posts": [{"text": "My rye never rises."}], "candidates": ["Rye."]}]}

A rollout is about an item of the benchmark that the server was started with, or brings its prompt, and the user's
posts where the condition shows posts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.responses import JSONResponse, Response

from pluralrm.core import Failure, Score
from pluralrm.journal import field_error
from pluralrm.serve.protocol import Identity


class ProblemError(Exception):
    """An answer that is no score. `retry_after` seconds later the same request may succeed; None: it never will."""

    def __init__(self, status: int, kind: str, detail: str, *, retry_after: float | None = None) -> None:
        self.status, self.kind, self.detail, self.retry_after = status, kind, detail, retry_after
        super().__init__(detail)

    def response(self) -> Response:
        """Return it as JSON."""
        headers = {} if self.retry_after is None else {"retry-after": f"{max(1, round(self.retry_after))}"}
        told = {"error": {"type": self.kind, "message": self.detail, "retry": self.retry_after is not None}}
        return JSONResponse(told, self.status, headers)


_LONGEST = 1_000_000

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RolloutPost(_Strict):
    """Something the user wrote earlier."""

    text: Text
    category: str = ""


class Rollout(_Strict):
    """Candidates to one prompt."""

    item: str = ""
    prompt: str = ""
    posts: list[RolloutPost] = Field(default_factory=list)
    candidates: Annotated[list[str], Field(min_length=1, max_length=1024)]

    @model_validator(mode="after")
    def _about_one_thing(self) -> "Rollout":
        if bool(self.item) == bool(self.prompt):
            raise ValueError("wanted either an item of the server's benchmark or a prompt")
        if self.item and self.posts:
            raise ValueError("the posts of an item are the benchmark's; leave posts out")
        return self


class ScoreRequest(_Strict):
    """What `/score` takes."""

    rollouts: Annotated[list[Rollout], Field(min_length=1, max_length=1024)]


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The rollouts of a request, and the name of the model that it asked for, where it named one."""

    rollouts: Sequence[Rollout]
    model: str = ""


Scores = Sequence[Sequence[Score]]
Write = Callable[[WireRequest, Scores, Identity], object]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class OpenRLHFBody(_Body):
    """What OpenRLHF sends: whole texts, the prompts that they begin with, and a label each, here an item's id or ""."""

    query: Annotated[list[str], Field(min_length=1, max_length=4096)]
    prompts: list[str]
    labels: list[str | None] = Field(default_factory=list)


class _Turn(_Body):
    role: Literal["user", "assistant"]
    content: str


class ClassifyBody(_Body):
    """What is sent to vLLM for a reward head, in its chat form; what would change the number is refused."""

    messages: Annotated[list[_Turn], Field(min_length=2, max_length=2)]
    model: str = ""
    use_activation: Literal[False] = False
    add_special_tokens: Literal[False] = False
    add_generation_prompt: Literal[False] = False


def read_ours(body: bytes) -> WireRequest:
    """Return what `/score` is asked."""
    return WireRequest(_valid(ScoreRequest, body).rollouts)


def write_ours(_asked: WireRequest, scores: Scores, identity: Identity) -> object:
    """Return every score, or why there is none."""
    return {"scores": [[_told(score) for score in row] for row in scores], "identity": identity.hash}


def read_openrlhf(body: bytes) -> WireRequest:
    """Return what `/get_reward` is asked: the answer is what follows the prompt in the whole text."""
    found = _valid(OpenRLHFBody, body)
    labels = found.labels or [""] * len(found.query)
    if not len(found.query) == len(found.prompts) == len(labels):
        counts = f"{len(found.query)} queries, {len(found.prompts)} prompts, {len(labels)} labels"
        raise ProblemError(422, "malformed", f"found {counts}; wanted as many of each")
    texts = zip(found.query, found.prompts, labels, strict=True)
    return WireRequest([_follows(query, prompt, label or "") for query, prompt, label in texts])


def _follows(query: str, prompt: str, item: str) -> Rollout:
    if not prompt or not query.startswith(prompt):
        problem = (
            f"a query of {len(query):,} characters does not begin with its prompt of {len(prompt):,}: where does the "
            "answer begin?"
        )
        raise ProblemError(422, "malformed", problem)
    answer = query[len(prompt) :]
    return Rollout(item=item, candidates=[answer]) if item else Rollout(prompt=prompt, candidates=[answer])


def write_openrlhf(_asked: WireRequest, scores: Scores, identity: Identity) -> object:
    """Return the rewards; this schema has no word for one that failed, so one that did is an error for all."""
    rewards = _numbers(scores)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {}, "identity": identity.hash}


def read_classify(body: bytes) -> WireRequest:
    """Return what `/classify` is asked."""
    found = _valid(ClassifyBody, body)
    asked, answered = found.messages
    if (asked.role, answered.role) != ("user", "assistant"):
        raise ProblemError(422, "malformed", "wanted two messages: the user's and the assistant's answer")
    return WireRequest([Rollout(prompt=asked.content, candidates=[answered.content])], found.model)


def write_classify(_asked: WireRequest, scores: Scores, identity: Identity) -> object:
    """Return the raw number where vLLM has it."""
    data = [
        {"index": place, "label": None, "probs": [number], "num_classes": 1}
        for place, number in enumerate(_numbers(scores))
    ]
    return {"object": "list", "model": identity.model, "data": data, "identity": identity.hash}


def _numbers(scores: Scores) -> list[float]:
    numbers = []
    for row in scores:
        for score in row:
            if isinstance(score, Failure):
                raise ProblemError(422, score.kind, score.detail or "the model gives no score")
            numbers.append(score)
    return numbers


def _told(score: Score) -> float | Mapping[str, str]:
    return {"failure": score.kind, "detail": score.detail} if isinstance(score, Failure) else score


BodyT = TypeVar("BodyT", bound=BaseModel)


def _valid(kind: type[BodyT], body: bytes) -> BodyT:
    try:
        return kind.model_validate_json(body)
    except ValidationError as exc:
        raise ProblemError(422, "malformed", str(field_error(exc, "the body"))) from None
