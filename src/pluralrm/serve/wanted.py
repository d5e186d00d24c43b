"""What a request asks for.

{"rollouts": [{"item": "art-01", "candidates": ["An answer.", "Another."]},
              {"prompt": "Which flour?", "posts": [{"text": "My rye never rises."}], "candidates": ["Rye."]}]}

A rollout is about an item of the benchmark that the server was started with, or brings its prompt, and the user's
posts where the condition shows posts.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

_LONGEST = 1_000_000

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PostRow(_Strict):
    """Something the user wrote earlier."""

    text: Text
    category: str = ""


class Rollout(_Strict):
    """Candidates to one prompt."""

    item: str = ""
    prompt: str = ""
    posts: list[PostRow] = Field(default_factory=list)
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
