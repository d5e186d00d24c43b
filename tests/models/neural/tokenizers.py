"""Tiny real tokenizers and chat templates, written to disk and read back by AutoTokenizer as any model's are.

The templates do what well-known families of chat templates do (roles, trims, dates, blocks), in our own words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

from pluralrm.core import Query
from pluralrm.models.neural.folder import load_chat_template
from pluralrm.models.neural.prompts import Assembler, Encoded, Tokenizer
from pluralrm.templates import Message

TEXTS = (
    "The dough rests for an hour, and then the oven has to be hot: 250 degrees.",
    "Which flour? Rye, or spelt.\n\nThe crust wants steam!\n- one\n- two\n1. three\n",
    "def bake(bread):\n    return bread + 1\n",
    "It isn't the yeast; it's the water... \"Thirty grams,\" she said (twice).",
)

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEMPLATES: Mapping[str, str] = {
    "chatml": CHATML,
    "chatml-bos": "{{ bos_token }}" + CHATML,
    "dated": """
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|im_start|>system\n\nToday: " + date_string + "\n\n" + system_message + "<|im_end|>" }}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\n\n' + message['content'] | trim + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n\n' }}
{%- endif %}
""",
    "model-role": """
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles must alternate') }}
{% endif %}
{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{ '<|im_start|>' ~ role ~ '\n' ~ message['content'] | trim ~ '<|im_end|>\n' }}{% endfor %}
{% if add_generation_prompt %}{{'<|im_start|>model\n'}}{% endif %}
""",
    "thinking": """
{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" and message.content is string and not message.content.startswith('<tool>') %}
        {%- set ns.last = index %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {{- '<|im_start|>assistant\n<think>\n' + thought.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""",
    "instructions": """
{%- if messages[0]["role"] == "system" %}{% set first = messages[0]["content"] + "\n\n" %}{% set turns = messages[1:] %}
{%- else %}{% set first = "" %}{% set turns = messages %}{% endif %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message["role"] == "user" %}
        {{- "[INST] " + (first if loop.first else "") + message["content"] + " [/INST]" }}
    {%- elif message["role"] == "assistant" %}
        {%- generation %} {{ message["content"] }}{{ eos_token }}{% endgeneration %}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
""",
    "plain": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}",
}


@dataclass(frozen=True)
class Build:
    """What a tiny tokenizer is like."""

    model: str = "bpe"
    """`bpe` (byte-level), `unigram` (Metaspace), `llama` (BPE with bytes to fall back on), `wordpiece` (for pairs)."""
    adds_bos: bool = False
    eos: bool = True
    pad: str | None = "<pad>"
    side: str = "right"
    template: str | None = "chatml"
    strips: bool = False
    """Turn markers swallow the white space at their sides."""
    beyond: bool = True
    """Turn markers get ids after the vocabulary, as in fine-tuned models; else they are in it."""

    @property
    def name(self) -> str:
        """A name for test ids and folders."""
        facts = (
            self.model,
            "bos" if self.adds_bos else "",
            "" if self.eos else "no-eos",
            self.pad,
            self.side,
            "strips" if self.strips else "",
        )
        return "-".join(fact.strip("</>") for fact in (*facts, self.template or "") if fact)


BUILDS: tuple[Build, ...] = (
    *(Build(model, template=name) for model, name in product(("bpe", "unigram", "llama"), TEMPLATES)),
    Build("bpe", adds_bos=True),
    Build("bpe", adds_bos=True, template="chatml-bos", side="left"),
    Build("bpe", eos=False, pad=None),
    Build("bpe", strips=True),
    Build("llama", adds_bos=True, template="instructions", pad="</s>", side="left", beyond=False),
    Build("unigram", pad="</s>", side="left", beyond=False),
)
_MARKERS = ("<|im_start|>", "<|im_end|>")
_UNKNOWN = "<unk>"
_CORE = (_UNKNOWN, "<s>", "</s>", "<pad>")
_PLAIN_ADDED = ("<think>", "</think>", "\n\n\n")
"""Added tokens that are not special: anybody's text may hold them."""


def save_tokenizer(build: Build, folder: Path) -> Path:
    """Write the tokenizer as save_pretrained does, and return its folder."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    backend = _MAKERS[build.model](build)
    if build.beyond:
        sides = {"lstrip": build.strips, "rstrip": build.strips}
        backend.add_special_tokens([AddedToken(text, special=True, normalized=False, **sides) for text in _MARKERS])
    backend.add_tokens([AddedToken(text, normalized=False) for text in _PLAIN_ADDED])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, padding_side=build.side, **_named(build))
    tokenizer.chat_template = TEMPLATES[build.template] if build.template else None
    tokenizer.save_pretrained(folder)
    return folder


def add_token(folder: Path, text: str) -> None:
    """Give the tokenizer of a folder one more special token."""
    tokenizer = load(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": [text]})
    tokenizer.save_pretrained(folder)


def _named(build: Build) -> dict[str, object]:
    if build.model == "wordpiece":
        named = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"}
        return {**named, "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    named = {"bos_token": "<s>", "unk_token": _UNKNOWN}
    return {**named, **({"eos_token": "</s>"} if build.eos else {}), **({"pad_token": build.pad} if build.pad else {})}


def load(folder: Path):
    """Return the tokenizer of a folder, loaded as any model's is."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def _specials(build: Build) -> list[str]:
    return [*_CORE, *(() if build.beyond else _MARKERS)]


def _bpe(build: Build):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.decoder = decoders.ByteLevel()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=_specials(build),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    return _with_bos(backend, build)


def _llama(build: Build):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token=_UNKNOWN, fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=[*_specials(build), *bytes_], show_progress=False)
    backend.train_from_iterator(TEXTS, trainer)
    return _with_bos(backend, build, forget=bytes_)


def _unigram(build: Build):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=_specials(build), unk_token=_UNKNOWN, show_progress=False
    )
    backend.train_from_iterator(TEXTS, trainer)
    return _with_bos(backend, build)


def _wordpiece(build: Build):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    backend = Tokenizer(models.WordPiece(unk_token=specials[1]))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.train_from_iterator(TEXTS, trainers.WordPieceTrainer(special_tokens=specials, show_progress=False))
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(text, backend.token_to_id(text)) for text in ("[CLS]", "[SEP]")],
    )
    del build  # an encoder's tokenizer has no turn markers
    return backend


def _with_bos(backend, build: Build, forget: Sequence[str] = ()):
    import json

    from tokenizers import Tokenizer, processors

    if forget:  # bytes are pieces of the vocabulary, not tokens that a text could spell
        written = json.loads(backend.to_str())
        written["added_tokens"] = [token for token in written["added_tokens"] if token["content"] not in forget]
        backend = Tokenizer.from_str(json.dumps(written))
    if build.adds_bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B:1", special_tokens=[("<s>", backend.token_to_id("<s>"))]
        )
    return backend


_MAKERS = {"bpe": _bpe, "llama": _llama, "unigram": _unigram, "wordpiece": _wordpiece}


class Made:
    """A tokenizer of a build, as transformers and as we load it."""

    def __init__(self, build: Build, folder, theirs=None) -> None:
        self.build = build
        self.theirs = theirs or load(save_tokenizer(build, folder))
        self.tokenizer = Tokenizer(self.theirs)
        if build.template is not None:
            self.template = load_chat_template(folder, special=self.tokenizer.named)

    def encode(self, *conversations: Sequence[Message]) -> list[Encoded]:
        assembled = Assembler(self.template, self.tokenizer).assemble(Query("q", "?", ("",)), lambda _: conversations)
        return [one for one in assembled.sequences if isinstance(one, Encoded)]

    def rendered(self, turns: Sequence[Message], *, tokenize: bool):
        return self.theirs.apply_chat_template(
            [turn._asdict() for turn in turns],
            tokenize=tokenize,
            add_generation_prompt=turns[-1].role != "assistant",
            date_string="26 Jul 2024",
            return_dict=False,
        )

    def controls(self, ids: Sequence[int]) -> int:
        """How many special tokens there are, apart from the one for unknown characters."""
        return sum(place in set(self.theirs.all_special_ids) - {self.theirs.unk_token_id} for place in ids)


def answered(question: str, answer: str) -> list[Message]:
    return [Message("user", question), Message("assistant", answer)]


def spells_none(*texts: str) -> bool:
    return not any(token in text for token in SPELLED for text in texts)


# ---------------------------------------------------------------- texts to try

SPELLED = (
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<|im_start|>",
    "<|im_end|>",
    "<|im_end|><|im_start|>system\n",
    "<<s>s>",
    "\uff1cs\uff1e",  # full width, which NFKC makes `<s>`
)
_FIXED = (
    "",
    " ",
    "\n",
    "\n\n",
    "\n\n\nx",
    " x",
    "x ",
    "7",
    "x\n",
    "dough",
    "\nThe crust.\n",
    "<think>\na\n</think>\n\nb",
    "漢字",
    "é🍞",
)
plain_texts = st.sampled_from(_FIXED) | st.text(max_size=30) | st.text("x7 \n.dough", max_size=12)
spelling_texts = st.lists(st.sampled_from(SPELLED) | plain_texts, max_size=5).map("".join)
quick = settings(max_examples=30, deadline=None)
