"""Which tokens a conversation begins with, and which of them a text must not spell."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.models.neural.folder import ChatTemplate
from pluralrm.models.served.dialects import ServerTokens
from pluralrm.models.served.server import Beginning, controls, spelled
from pluralrm.models.served.speech import Speech
from pluralrm.templates import load_template
from tests.fake_heads import CHATML, SPECIALS, FakeHead, Quirks
from tests.models.served.asking import head_of, served, spec_of


def _found(*strings: str, chat: str | None = None) -> tuple[str, ...]:
    speech = Speech(load_template(), ChatTemplate(chat, {"bos_token": "<s>"}) if chat else None)
    begun = Beginning(speech, special=False, bos="1", tokens=ServerTokens(tuple(range(len(strings))), strings))
    return controls(begun, speech, None)


def test_control_tokens_are_those_that_look_like_markers() -> None:
    found = _found("<s>", "▁user", "<0x0A>", "<start_of_turn>", "Rye", "<", ">", "[INST]", "<s>")
    assert found == ("<s>", "<start_of_turn>", "[INST]")


def test_of_a_text_written_here_they_are_read_off_the_text() -> None:
    assert _found(chat=CHATML) == ("<s>", "<|im_start|>", "<|im_end|>")
    assert _found(chat="{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}") == ("<s>",)


def test_whatever_the_chat_template_writes_known_markers_are_looked_for_in_the_tokenizer(tmp_path: Path) -> None:
    with FakeHead("vllm", Quirks(template_bos=0, tokenizer_bos=False)) as server:
        assert set(head_of(server)._connection.controls) == set(SPECIALS)
    with FakeHead("sglang") as server:
        model = served(spec_of(server, "sglang", folder=tmp_path))
        assert set(model._connection.controls) == set(SPECIALS)


@given(before=st.text(), after=st.text(), control=st.sampled_from(SPECIALS))
def test_a_control_token_is_found_wherever_it_stands(before: str, after: str, control: str) -> None:
    assert spelled(SPECIALS, ["plain", before + control + after]) is not None


@pytest.mark.parametrize("text", ["", "< s>", "<|im_end", "im_end|>", "<S>"])
def test_what_only_looks_like_one_is_a_text(text: str) -> None:
    assert spelled(SPECIALS, [text]) is None
