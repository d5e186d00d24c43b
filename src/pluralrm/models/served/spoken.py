"""What a server is shown of a query: messages for its own chat template, or a text rendered by one from here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pluralrm.core import Query
from pluralrm.errors import ModelError, SpecError
from pluralrm.models.neural.chat import CONFIG_FILE, ChatTemplate, load_chat_template
from pluralrm.templates import Message, Template

PLAIN = "plain"
"""`chat=plain`: question and answer with an empty line between them, for rewards that know no chat."""
_PLAIN_SOURCE = (
    "{% for message in messages %}{{ message.content }}"
    "{% if add_generation_prompt or not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
)
_NAMED = re.compile(r"\b(?:bos|cls|eos|mask|pad|sep|unk)_token\b")
BOS = "bos_token"


class Spoken(NamedTuple):
    """One candidate's conversation as it is sent."""

    messages: tuple[Message, ...]
    text: str | None = None
    """The whole of it, where a chat template from here wrote it; None where the server's own does."""
    prompt: str = ""
    """The text up to where the answer begins."""
    public: bool = False
    """Whether nothing of it was written by a user."""

    @property
    def size(self) -> int:
        """Bytes of what is sent (UTF-8): no text has more tokens, apart from those that a chat template adds."""
        texts = [message.content for message in self.messages] if self.text is None else [self.text]
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


@dataclass(frozen=True, slots=True)
class Speech:
    """The way from a query to what is sent; without `chat` the server's own chat template writes the text."""

    template: Template
    chat: ChatTemplate | None = None

    def of(self, query: Query) -> list[Spoken]:
        """Return one conversation per candidate, in which it is the assistant's turn."""
        asked = self.template.turns(query)
        return [self._said(asked, answer)._replace(public=not query.private) for answer in query.candidates]

    def say(self, asked: str, answer: str) -> Spoken:
        """Return the conversation of a question and its answer."""
        return self._said([Message("user", asked)], answer)

    def _said(self, asked: Sequence[Message], answer: str) -> Spoken:
        messages = (*asked, Message("assistant", answer))
        if self.chat is None:
            return Spoken(messages)
        return Spoken(messages, self.chat.render(messages), self.chat.render(asked, prompting=True))

    @property
    def bos(self) -> str:
        """The BOS that the chat template writes, as a text; empty where it is not known."""
        return self.chat.special.get(BOS, "") if self.chat else ""

    def without_bos(self) -> "Speech":
        """Return the same without the BOS: some servers put one before every text."""
        if self.chat is None:
            return self
        return replace(self, chat=replace(self.chat, special={**self.chat.special, BOS: ""}))

    @property
    def facts(self) -> dict[str, str]:
        """What the identity keeps."""
        return {"template": self.template.hash, "chat template": self.chat.hash if self.chat else "the server's"}


def chat_template(kind: str, named: str) -> ChatTemplate:
    """Return the chat template that `chat=` names: `plain`, a folder with a tokenizer, or a file beside or without one.

    One that names a special token that nothing here spells is refused: it would be left out without a word.
    """
    if named == PLAIN:
        return ChatTemplate(_PLAIN_SOURCE)
    place = Path(named)
    if not place.exists():
        raise SpecError(
            f"{kind}: chat is {named!r}, which is not there; wanted the folder of the model's tokenizer, "
            f"a .jinja file, or {PLAIN!r}"
        )
    folder = place if place.is_dir() else place.parent
    found = load_chat_template(folder, None if place.is_dir() else place)
    named_tokens = sorted(set(_NAMED.findall(found.source)))
    if named_tokens and not (folder / CONFIG_FILE).is_file():
        raise ModelError(
            f"{kind}: the chat template {named!r} writes {named_tokens[0]}, and there is no {CONFIG_FILE} beside it "
            "that says what that is. Name the folder of the model's tokenizer: chat=FOLDER"
        )
    return found
