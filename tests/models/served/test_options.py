"""Keys of a spec: what cannot be meant is refused before any server is asked."""

import json
from pathlib import Path

import pytest

from pluralrm.errors import ModelError, PluralrmError, ServiceError, SpecError
from pluralrm.models import KINDS, load_model, parse_model
from pluralrm.models.served import DIALECTS
from pluralrm.models.served.server import HeadOptions, head_options
from pluralrm.models.served.speech import chat_template
from pluralrm.templates import Message
from tests.fake_heads import CHATML, tokenizer_folder

URL = "http://127.0.0.1:1"
TURNS = (Message("user", "Why?"), Message("assistant", "So."))


def test_every_dialect_is_a_kind_and_takes_its_keys() -> None:
    served = {name: kind for name, kind in KINDS.items() if kind.maker == "served:head"}
    assert served.keys() == DIALECTS.keys()
    assert all(kind.served and kind.extra == "chat" for kind in served.values())
    for name, kind in served.items():
        assert ("label" in kind.form.keys) == (DIALECTS[name].tokenizing is not None)


def test_the_table_of_keys_names_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "served-models.md").read_text(encoding="utf-8")
    told = {
        line.split("`")[1]: line
        for line in page.partition("## Keys")[2].partition("## ")[0].splitlines()
        if line.startswith("| `")
    }
    for name in DIALECTS:
        for key in KINDS[name].form.keys:
            assert f"`{name}`" in told[key] or "| all |" in told[key]
    assert told.keys() == {key for name in DIALECTS for key in KINDS[name].form.keys}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (f"vllm:{URL},bos=2", "bos is '2'"),
        (f"vllm:{URL},range=raw", "wanted range=unit"),
        (f"vllm:{URL},label=-1", "wanted a whole number of at least 0"),
        (f"vllm:{URL},max_tokens=0", "wanted a whole number of at least 1"),
        (f"vllm:{URL},send=all", "wanted send=posts"),
        (f"vllm:{URL},chat=nowhere", "which is not there"),
        (f"vllm:{URL},max_bytes=5", "has no key 'max_bytes'"),
        (f"remote:{URL},chat=plain,bos=1", "has no key 'bos'"),
        (f"sglang:{URL}", "chat=FOLDER"),
        (f"remote:{URL}", "chat=plain"),
        ("vllm:127.0.0.1:8000", "neither http:// nor https://"),
        ("vllm:/v1", "neither http:// nor https://"),
        (f"vllm:{URL},key=NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_wanted(spec: str, said: str) -> None:
    with pytest.raises((SpecError, ServiceError)) as caught:
        load_model(spec)
    assert said in str(caught.value)


def test_the_environment_names_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", URL)
    with pytest.raises(PluralrmError):
        load_model("vllm:/")


def test_bytes_are_limited_where_nobody_counts_tokens_and_tokens_elsewhere() -> None:
    assert head_options(parse_model(f"remote:{URL},chat=plain")).most == 16_000
    assert head_options(parse_model(f"remote:{URL},chat=plain,max_bytes=900")).most == 900
    assert head_options(parse_model(f"vllm:{URL}")) == HeadOptions()
    assert head_options(parse_model(f"vllm:{URL},bos=unchecked")) == HeadOptions(checked=False)
    assert head_options(parse_model(f"vllm:{URL},bos=0,label=2")) == HeadOptions(bos=0, label=2)


# ---------------------------------------------------------------- chat templates


def test_a_chat_template_comes_from_a_folder_or_from_a_file_in_one(tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path / "tokenizer")
    (folder / "mine.jinja").write_text("{{ bos_token }}" + "{% for m in messages %}[{{ m.content }}]{% endfor %}")
    assert chat_template("sglang", str(folder)).render(TURNS).startswith("<s><|im_start|>user\nWhy?")
    assert chat_template("sglang", str(folder / "mine.jinja")).render(TURNS) == "<s>[Why?][So.]"


def test_a_special_token_that_nothing_spells_is_not_left_out_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "alone.jinja").write_text(CHATML)
    with pytest.raises(ModelError, match=r"writes bos_token, and there is no tokenizer_config\.json"):
        chat_template("remote", str(tmp_path / "alone.jinja"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": None}))
    assert chat_template("remote", str(tmp_path / "alone.jinja")).render(TURNS).startswith("<|im_start|>")


def test_a_hostile_chat_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.jinja").write_text("{{ ''.__class__.__mro__ }}")
    with pytest.raises(ModelError, match=r"refused|cannot be"):
        chat_template("remote", str(tmp_path / "bad.jinja")).render(TURNS)
