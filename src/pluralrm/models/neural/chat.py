"""A model's chat template: found in its folder, rendered in a sandbox.

>>> turns = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
>>> template = ChatTemplate(turns, {"eos_token": "</s>"})
>>> template.render([Message("user", "Which flour?"), Message("assistant", "Rye.")])
'<|user|>Which flour?</s><|assistant|>Rye.</s>'

A template is a program from strangers. What it may use, and how much, stands in `sandbox.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2.exceptions import SecurityError

from pluralrm.core import digest
from pluralrm.errors import ModelError
from pluralrm.folders import read_json
from pluralrm.models.neural.sandbox import COMPILE_FAULTS, FAULTS, compile_template, render
from pluralrm.templates import Message

TEMPLATE_FILE, CONFIG_FILE = "chat_template.jinja", "tokenizer_config.json"
_HINT = "Name one in the spec (chat=FILE.jinja); for a model that reads pairs of question and answer, format=pair"


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template and the special tokens that it may name; a hostile one is refused when it is made."""

    source: str
    special: Mapping[str, str] = field(default_factory=dict)
    """`bos_token`, `eos_token` and the like, as texts."""

    def __post_init__(self) -> None:
        try:
            compile_template(self.source)
        except SecurityError as exc:
            raise ModelError(f"the chat template is refused: {exc}") from exc
        except COMPILE_FAULTS as exc:
            raise ModelError(f"the chat template cannot be read: {exc}") from exc

    @property
    def hash(self) -> str:
        """SHA-256 of the source and the special tokens."""
        return digest([self.source, dict(self.special)])

    def render(self, messages: Sequence[Message], *, prompting: bool = False) -> str:
        """Return the text of a conversation; `prompting` adds what comes before the assistant's next turn.

        A ModelError says why the template raised, ran over its budget or was refused.
        """
        variables = {
            **self.special,
            "messages": [message._asdict() for message in messages],
            "add_generation_prompt": prompting,
            "tools": None,
            "documents": None,
        }
        characters = sum(len(message.content) for message in messages)
        try:
            return render(compile_template(self.source), variables, characters=characters)
        except SecurityError as exc:
            raise ModelError(f"the chat template is refused: {exc}") from exc
        except FAULTS as exc:
            raise ModelError(f"the chat template cannot be rendered: {exc}") from exc


def load_chat_template(
    folder: Path, override: Path | None = None, *, special: Mapping[str, str] | None = None
) -> ChatTemplate:
    """Return the folder's chat template, or the one in `override`; a folder without one is a ModelError with a hint.

    `special` are the named special tokens of the loaded tokenizer; where they are not given, those of its config.
    """
    config = _config(folder)
    source = _source(folder, config) if override is None else _read(override)
    return ChatTemplate(source, _special(config) if special is None else special)


def _source(folder: Path, config: Mapping[str, object]) -> str:
    if (folder / TEMPLATE_FILE).is_file():
        return _read(folder / TEMPLATE_FILE)
    found = config.get("chat_template")
    if isinstance(found, list):
        return _default_of(folder, found)
    if not isinstance(found, str):
        raise ModelError(f"{folder.name}: has no chat template. {_HINT}")
    return found


def _default_of(folder: Path, named: Sequence[object]) -> str:
    """Return the template named `default` among several."""
    templates = {str(entry.get("name")): entry.get("template") for entry in named if isinstance(entry, dict)}
    found = templates.get("default")
    if not isinstance(found, str):
        names = ", ".join(sorted(templates))
        raise ModelError(f"{folder.name}: has chat templates ({names}), none of them named 'default'. {_HINT}")
    return found


def _special(config: Mapping[str, object]) -> dict[str, str]:
    """Return the named special tokens of a tokenizer's config, each a text or an object with its content."""
    named = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _config(folder: Path) -> Mapping[str, object]:
    file = folder / CONFIG_FILE
    found = read_json(file, label=folder.name) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ModelError(f"the chat template {str(file)!r} cannot be read: {exc}") from exc
