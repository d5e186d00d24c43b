"""What a model's folder says before anything of it is loaded: config, weights, chat template, code that it asks to run.

Refused here: pickles, adapters without their base, shards that lead out of the folder, code that the user did not name.
A chat template is a program from strangers: what it may use, and how much, is in `sandbox.py`.

>>> turns = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
>>> template = ChatTemplate(turns, {"eos_token": "</s>"})
>>> template.render([Message("user", "Which flour?"), Message("assistant", "Rye.")])
'<|user|>Which flour?</s><|assistant|>Rye.</s>'
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2.exceptions import SecurityError

from pluralrm.digests import digest
from pluralrm.errors import ModelError, SpecError
from pluralrm.folders import (
    CODE,
    LOADED,
    Snapshot,
    check_code,
    check_size,
    fetch_folder,
    files_hash,
    is_hub_id,
    local_folder,
    read_json,
    refuse_pickles,
)
from pluralrm.models.neural.sandbox import COMPILE_FAULTS, FAULTS, compile_template, render
from pluralrm.specs import Spec
from pluralrm.templates import Message

EXTRA = "hf"
CODE_KEY, TRUSTED = "code", "trusted"
"""A spec with `code=trusted` runs the code in the model's folder; --trust-remote-code MODEL writes it."""

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder that may be loaded. `revision` is the commit of what was fetched, empty for a local folder."""

    name: str
    path: Path
    revision: str
    trusted: bool
    config: Mapping[str, object]

    def hash(self) -> str:
        """Return the SHA-256 of all that shapes a score: weights, configurations, vocabulary, code that may run."""
        suffixes = _suffixes(self.trusted)
        files = (file for file in self.path.iterdir() if file.suffix in suffixes and file.is_file())
        return files_hash(self.path, files)

    @property
    def weights(self) -> list[Path]:
        """The files of the weights."""
        return _check_weights(self.path, self.config, self.name)

    @property
    def architecture(self) -> str:
        """The class that the weights were saved from, or an empty text."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""


def code_trusted(spec: Spec) -> bool:
    """Return whether a spec says `code=trusted`; any other value is a SpecError."""
    value = spec.options.get(CODE_KEY)
    if value not in (None, TRUSTED):
        raise SpecError(f"{spec.kind}: {CODE_KEY} is {value!r}; wanted {CODE_KEY}={TRUSTED}, or leave it out")
    return value == TRUSTED


def open_folder(name: str, *, kind: str, trusted: bool = False) -> ModelFolder:
    """Return the folder of a path or a hub id, fetched where it must be; refuse what must not be loaded."""
    label = f"{kind}:{name}"
    path, revision = local_folder(name), ""
    if path is None:
        path, revision = _fetched(name, label, trusted=trusted)
    config = _checked_config(name, path, label, trusted=trusted)
    check_size(config, _check_weights(path, config, label), label)
    return ModelFolder(name, path, revision, trusted, config)


def _fetched(name: str, label: str, *, trusted: bool) -> Snapshot:
    if not is_hub_id(name):
        raise SpecError(f"{label}: no such folder; wanted one, or a hub id (owner/name[@revision])")
    path, commit = fetch_folder(name, (".json",), label=label, extra=EXTRA, top_only=True)
    _checked_config(name, path, label, trusted=trusted)  # before gigabytes of weights come
    pinned = f"{name.partition('@')[0]}@{commit}"
    return fetch_folder(pinned, _suffixes(trusted), label=label, extra=EXTRA, top_only=True)


def _suffixes(trusted: bool) -> tuple[str, ...]:
    return LOADED + CODE if trusted else LOADED


# ---------------------------------------------------------------- config, and the code it asks for


def _checked_config(name: str, path: Path, label: str, *, trusted: bool) -> Mapping[str, object]:
    """Return config.json; raise where the folder is an adapter, or asks for code that was not allowed."""
    if (path / "adapter_config.json").exists():
        # With peft installed the adapter would be put on top of the weights, without it left out: two scores, one name.
        raise ModelError(
            f"{label}: found an adapter (adapter_config.json), wanted whole weights. Merge it into its base model "
            "(merge_and_unload of peft) and save that; in a copy that is merged already, delete adapter_config.json"
        )
    if not (path / "config.json").exists():
        raise ModelError(f"{label}: found no config.json; wanted a folder as save_pretrained of transformers writes it")
    configs = {file.name: read_json(file, label=label) for file in sorted(path.glob("*config*.json"))}
    allow = f"Read it, then allow it by name: --trust-remote-code {name} ({CODE_KEY}={TRUSTED} in the spec)"
    check_code(configs, label, trusted=trusted, allow=allow)
    config = configs["config.json"]
    if not isinstance(config, dict):
        raise ModelError(f"{label}: config.json: found {type(config).__name__}, wanted an object")
    if "configuration_files" in config:
        raise ModelError(
            f"{label}: config.json defers to other files, by the version of transformers (configuration_files); wanted "
            "one config. Save the model anew with save_pretrained(FOLDER)"
        )
    return config


# ---------------------------------------------------------------- weights


def _check_weights(path: Path, config: Mapping[str, object], label: str) -> list[Path]:
    """Return the files of the weights; raise unless what transformers would load is safetensors, and is there."""
    entry = config.get("transformers_weights")
    if entry is not None and not (isinstance(entry, str) and entry.endswith((".safetensors", _INDEX))):
        raise ModelError(f"{label}: config.json: transformers_weights is {entry!r}; wanted *.safetensors or {_INDEX}")
    weights = entry or next((file for file in (_WEIGHTS, _INDEX) if (path / file).is_file()), None)
    if weights is None:
        raise _no_weights([file.name for file in path.iterdir()], label)
    _check_there(path, weights, label, named_in="config.json")
    if not weights.endswith(".json"):
        return [path / weights]
    shards = _shards(path / weights, label)
    for shard in shards:
        _check_there(path, shard, label, named_in=weights)
    return [path / shard for shard in shards]


def _no_weights(names: Sequence[str], label: str) -> ModelError:
    refuse_pickles(names, label=label)
    other = sorted(file for file in names if file.endswith(".safetensors"))
    return ModelError(f"{label}: found {other[0] if other else 'no *.safetensors'}, wanted {_WEIGHTS} or {_INDEX}")


def _shards(index: Path, label: str) -> list[str]:
    """Return the files that an index names, each once."""
    content = read_json(index, label=label)
    places = content.get("weight_map") if isinstance(content, dict) else None
    # The loader opens by its name: what does not end in .safetensors would be read as a pickle.
    if not isinstance(places, dict) or not all(str(file).endswith(".safetensors") for file in places.values()):
        raise ModelError(f"{label}: {index.name}: wanted weight_map, from each weight to a *.safetensors file")
    return sorted({str(file) for file in places.values()})


def _check_there(path: Path, file: str, label: str, *, named_in: str) -> None:
    if "/" in file:  # out of the folder, or out of what is fetched and hashed
        raise ModelError(f"{label}: {named_in} names {file!r}; wanted a file directly in the folder")
    if not (path / file).is_file():
        raise ModelError(f"{label}: {named_in} names {file!r}, which is not there; fetch or copy the folder again")


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
    template = config.get("chat_template")
    if isinstance(template, list):
        return _default_of(folder, template)
    if not isinstance(template, str):
        raise ModelError(f"{folder.name}: has no chat template. {_HINT}")
    return template


def _default_of(folder: Path, entries: Sequence[object]) -> str:
    """Return the template named `default` among several."""
    templates = {str(entry.get("name")): entry.get("template") for entry in entries if isinstance(entry, dict)}
    template = templates.get("default")
    if not isinstance(template, str):
        names = ", ".join(sorted(templates))
        raise ModelError(f"{folder.name}: has chat templates ({names}), none of them named 'default'. {_HINT}")
    return template


def _special(config: Mapping[str, object]) -> dict[str, str]:
    """Return the named special tokens of a tokenizer's config, each a text or an object with its content."""
    tokens = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in tokens.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _config(folder: Path) -> Mapping[str, object]:
    file = folder / CONFIG_FILE
    config = read_json(file, label=folder.name) if file.is_file() else {}
    return config if isinstance(config, dict) else {}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ModelError(f"the chat template {str(file)!r} cannot be read: {exc}") from exc
