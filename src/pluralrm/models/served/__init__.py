"""Reward heads behind a URL: `vllm:URL`, `sglang:URL`, `remote:URL` (OpenRLHF's schema), read as their raw numbers.

On first use the server is asked who it is. What would make its scores wrong is refused by name: a vector, several
labels, a sigmoid, a BOS too many or too few, texts cut without a word. docs/served-models.md has the keys.
"""

from collections.abc import Mapping

from pluralrm.chat.role import may_send
from pluralrm.errors import SpecError
from pluralrm.http import Service, Settings, parse_address
from pluralrm.models.served.dialects import OPENRLHF, SGLANG, VLLM, Dialect
from pluralrm.models.served.heads import ServedHead
from pluralrm.models.served.server import head_options
from pluralrm.models.served.speech import PLAIN, Speech, chat_template
from pluralrm.specs import Spec
from pluralrm.templates import DEFAULT, load_template

__all__ = ["DIALECTS", "ServedHead", "head"]

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (VLLM, SGLANG, OPENRLHF)}

_API = "/v1"


def head(spec: Spec, settings: Settings) -> ServedHead:
    """Return the model of `vllm:URL`, `sglang:URL` or `remote:URL`; no server is asked before its first use."""
    dialect, options = DIALECTS[spec.kind], head_options(spec)
    speech = _speech(spec, dialect)
    url = spec.target.rstrip("/")
    address = parse_address((url.removesuffix(_API) if dialect.route else url) or spec.target)
    # The default key is for chat models; a reward head gets the key that is named for it.
    settings = settings.allowing(posts=may_send(spec))
    service = Service(address, settings, model=options.model, key=spec.options.get("key", False))
    keeps = settings.cache is not None and settings.replay is None
    return ServedHead(str(spec), service, dialect, speech=speech, options=options, keeps=keeps)


def _speech(spec: Spec, dialect: Dialect) -> Speech:
    template, named = load_template(spec.options.get("template", DEFAULT)), spec.options.get("chat")
    if named is None and not dialect.chats:
        raise SpecError(
            f"{spec.kind}: this kind of server reads whatever text it is sent, so how a conversation is written has to "
            f"be said: chat=FOLDER (of the model's tokenizer), chat=FILE.jinja, or chat={PLAIN} (question, answer)"
        )
    return Speech(template, None if named is None else chat_template(spec.kind, named))
