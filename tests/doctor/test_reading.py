"""What the doctor reads off the ids and the folder is so, and each way in which they can be unwell has its colour."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pluralrm.conditions import load_condition
from pluralrm.core import Failure
from pluralrm.models import load_model
from tests.doctor.looking import BENCH, chat, look, signs
from tests.models.neural.tiny import reward_folder
from tests.models.neural.tokenizers import CHATML, Build

pytestmark = pytest.mark.hf

Shelf = Callable[..., Path]
DROPS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content if m.role == 'user' }}<|im_end|>{% endfor %}"
CUTS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content[:200] }}<|im_end|>{% endfor %}"


# ---------------------------------------------------------------- tokens


def test_the_sample_is_the_ids_that_transformers_makes_of_the_conversation(shelf: Shelf) -> None:
    import transformers

    from pluralrm.templates import load_template

    folder = shelf(build=Build(adds_bos=True, template="chatml-bos"))
    found = look(f"hf:{folder}", "recent:3", item=BENCH.items[7].id)
    [query] = load_condition("recent:3").queries(BENCH, [BENCH.items[7]])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert len(found.sample) == len(query.candidates)
    for place, view in enumerate(found.sample):
        assert not isinstance(view, Failure)
        turns = [turn._asdict() for turn in load_template().conversation(query, place)]
        wanted = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
        assert list(view.ids) == wanted
        assert tokenizer.decode(view.ids[view.start : view.end]) == query.candidates[place]
        assert list(view.pieces) == tokenizer.convert_ids_to_tokens(wanted)
        assert view.read == (len(wanted) - 1,)


def test_a_bos_that_a_script_would_double_is_told(shelf: Shelf) -> None:
    import transformers

    folder = shelf(build=Build(adds_bos=True, template="chatml-bos"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False)
    assert tokenizer(text)["input_ids"].count(tokenizer.bos_token_id) == 2  # what such a script feeds
    sign = signs(look(f"hf:{folder}"))["bos"]
    assert (sign.colour, sign.found) == ("green", "1 at the start ('<s>')")
    assert "tokenizes the rendered text with special tokens feeds 2" in sign.reason
    assert sign.differs
    assert "add_special_tokens=False" in sign.remedy


def test_evaluate_says_it_before_the_table(shelf: Shelf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pluralrm.cli import app

    folder = shelf(build=Build(adds_bos=True, template="chatml-bos"))
    words = ["evaluate", f"mine=hf:{folder}", "--limit", "4", "--no-baselines", "--sees", "raw:2", "-o", str(tmp_path)]
    app(words, standalone_mode=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "11 of 11 checks passed" in told
    assert "special tokens feeds 2, and gets other scores" in told.split("model accuracy")[0]


@pytest.mark.parametrize(
    ("build", "written", "colour", "found"),
    [
        (Build(adds_bos=True), "", "yellow", "none, though the tokenizer by itself puts '<s>' first"),
        (Build(), "", "green", "none ('<s>' is not used)"),
        (Build(), "{{ bos_token }}", "green", "1 at the start ('<s>')"),
        (Build(), "{{ bos_token }}{{ bos_token }}", "red", "2 at the start ('<s>')"),
    ],
)
def test_bos_tokens_are_counted(  # noqa: PLR0917 - a table
    build: Build, written: str, colour: str, found: str, shelf: Shelf, tmp_path: Path
) -> None:
    sign = signs(look(f"hf:{shelf(build=build)}{chat(tmp_path, written + CHATML)}"))["bos"]
    assert (sign.colour, sign.found) == (colour, found)
    assert ("chat=FILE.jinja" in sign.remedy) == (colour != "green")


def test_an_answer_that_the_template_drops_is_red_and_moves_no_score(shelf: Shelf, tmp_path: Path) -> None:
    found = signs(look(f"hf:{shelf()}{chat(tmp_path, DROPS)}"))
    assert found["answer"].colour == found["reach"].colour == "red"
    assert found["answer"].found.startswith('no token of "Give every week its own')
    assert "at the beginning and at the end" in found["reach"].reason


def test_an_answer_that_the_template_cuts_is_yellow(shelf: Shelf, tmp_path: Path) -> None:
    sign = signs(look(f"hf:{shelf()}{chat(tmp_path, CUTS)}"))["reach"]
    assert sign.colour == "yellow"
    assert "at the end of an answer does not reach" in sign.reason


def test_tokens_that_the_vocabulary_does_not_know_are_counted(shelf: Shelf) -> None:
    found = look(f"hf:{shelf(build=Build('unigram'))}")
    view, sign = found.sample[0], signs(found)["answer"]
    assert not isinstance(view, Failure)
    lost = view.pieces[view.start : view.end].count("<unk>")
    assert lost
    assert sign.colour == "yellow"
    assert sign.reason.startswith(f"{lost} of its {view.end - view.start} tokens")


# ---------------------------------------------------------------- padding


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_pad_token_that_ends_the_conversation_is_not_where_the_head_is_read(side: str, shelf: Shelf) -> None:
    found = look(f"hf:{shelf(build=Build(pad='</s>', template='instructions', side=side))}")
    view, sign = found.sample[0], signs(found)["padding"]
    assert not isinstance(view, Failure)
    assert view.pieces[-1] == "</s>"
    assert view.read == (len(view.ids) - 2,)
    assert sign.colour == "yellow"
    assert sign.found.startswith(f"'</s>' (2); the tokenizer pads at its {side}, here nothing is ever padded but at")
    assert sign.found.endswith(f"the head is read at ids[{len(view.ids) - 2}], {view.pieces[-2]!r}")
    assert "pad_token_id" in sign.remedy


def test_pad_equal_to_eos_does_no_harm_where_the_conversation_ends_otherwise(shelf: Shelf) -> None:
    sign = signs(look(f"hf:{shelf(build=Build(pad='</s>'))}"))["padding"]
    assert (sign.colour, sign.reason.partition(":")[0]) == (
        "green",
        "pad = eos, but the conversation ends with another token",
    )
    none = signs(look(f"hf:{shelf(build=Build(eos=False, pad=None))}"))["padding"]
    assert (none.colour, none.found.partition(";")[0]) == ("green", "no pad token")


# ---------------------------------------------------------------- length


def test_items_that_lose_posts_are_those_whose_verdicts_say_so(shelf: Shelf) -> None:
    spec = f"hf:{shelf()},max_tokens=2800"
    kept = [one.posts_kept for one in load_model(spec).score(load_condition("raw:10").queries(BENCH, BENCH.items))]
    losing = sum(number is not None and number < 10 for number in kept)
    assert 0 < losing < 60
    found = look(spec, "raw:10")
    sign = signs(found)["length"]
    assert sign.colour == "yellow"
    assert f"of 60 items {losing} lose posts, 0 are too long" in sign.found
    assert f"and {kept[0]} of 10 posts, the limit is 2800 (max_tokens in the spec)" in sign.found


def test_items_that_are_too_long_are_red_and_fail_as_the_doctor_says(shelf: Shelf) -> None:
    spec = f"hf:{shelf()},max_tokens=600"
    verdicts = list(load_model(spec).score(load_condition("raw:3").queries(BENCH, BENCH.items)))
    failing = sum(bool(verdict.failures) for verdict in verdicts)
    assert 0 < failing < 60
    sign = signs(look(spec, "raw:3"))["length"]
    assert sign.colour == "red"
    assert f"{failing} are too long" in sign.found


def test_where_nothing_fits_nothing_is_shown_and_that_is_red(shelf: Shelf) -> None:
    found = look(f"hf:{shelf()},max_tokens=20")
    assert all(isinstance(one, Failure) for one in found.sample)
    assert not {"bos", "answer", "padding"} & signs(found).keys()
    assert signs(found)["length"].found.startswith("the sample is too long, the limit is 20")
    assert signs(found)["batching"].colour == "red"
    assert (signs(found)["reach"].colour, signs(found)["reach"].found) == ("yellow", "not measured (too_long)")


@pytest.mark.parametrize(
    ("file", "key", "value", "told"),
    [
        ("config.json", "max_position_embeddings", 4000, "4000 (max_position_embeddings in config.json)"),
        ("tokenizer_config.json", "model_max_length", 3000, "3000 (model_max_length of the tokenizer)"),
        ("config.json", "max_position_embeddings", None, "the model's limit is unknown"),
    ],
)
def test_who_says_how_long_a_conversation_may_be(  # noqa: PLR0917 - a table
    file: str, key: str, value: int | None, told: str, tmp_path: Path
) -> None:
    folder = reward_folder(tmp_path / "m")
    found = json.loads((folder / file).read_text())
    del found[key]
    (folder / file).write_text(json.dumps(found if value is None else {**found, key: value}))
    sign = signs(look(f"hf:{folder}"))["length"]
    assert told in sign.found
    assert sign.colour == ("yellow" if value is None else "green")
    assert ("max_tokens=N" in sign.remedy) == (value is None)


def test_a_token_that_the_model_wants_at_the_end_is_shown_and_has_its_place(shelf: Shelf) -> None:
    found = look(f"hf:{shelf()},append=</s>")
    view = found.sample[0]
    assert not isinstance(view, Failure)
    assert view.pieces[-1] == "</s>"
    assert view.read == (len(view.ids) - 1,)
    assert (
        "8191 (max_position_embeddings in config.json, less one for the reward token)" in signs(found)["length"].found
    )


# ---------------------------------------------------------------- labels and dtype


@pytest.mark.parametrize(
    ("changes", "keys", "colour", "found", "reason"),
    [
        ({"problem_type": "regression"}, "", "green", "the only label", "raw number, too"),
        ({"function_to_apply": "softmax"}, "", "yellow", "the only label", "asks for an activation (softmax)"),
        ({"num_labels": 3}, ",label=1", "yellow", "label 1 of several (0 = LABEL_0, 1 = LABEL_1, 2 =", "softmax"),
        ({"num_labels": 2}, ",weights=1;-1", "yellow", "a weighted sum of 2 labels", "perhaps another order"),
        (
            {"num_labels": 2, "problem_type": "multi_label_classification"},
            ",label=0",
            "yellow",
            "label 0 of several",
            "a sigmoid of each",
        ),
    ],
)
def test_what_a_server_would_make_of_the_head_is_told(  # noqa: PLR0917 - a table
    changes: dict[str, object], keys: str, colour: str, found: str, reason: str, tmp_path: Path
) -> None:
    sign = signs(look(f"hf:{reward_folder(tmp_path / 'm', **changes)}{keys}"))["labels"]  # type: ignore[arg-type]
    assert sign.colour == colour
    assert sign.found.startswith(found)
    assert reason in sign.reason
    assert ("use_activation=false" in sign.remedy) == (colour == "yellow")


def test_half_precision_is_yellow_and_its_drift_is_measured(shelf: Shelf) -> None:
    found = signs(look(f"hf:{shelf()},dtype=bfloat16", "recent:2"))
    assert (found["dtype"].colour, found["dtype"].found) == ("yellow", "stored as float32, computed as bfloat16")
    assert found["packing"].colour in {"yellow", "red"}  # red where an order turns
    assert "dtype=float32" in found["packing"].remedy


def test_weights_that_are_computed_as_they_are_stored_are_green(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = reward_folder(tmp_path / "m")
    weights = {name: value.bfloat16() for name, value in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert signs(look(f"hf:{folder},dtype=bfloat16"))["dtype"][1:3] == (
        "green",
        "stored as bfloat16, computed as bfloat16",
    )
    assert signs(look(f"hf:{folder}"))["dtype"].colour == "green"


def test_a_tokenizer_that_makes_nothing_of_the_texts_is_red_and_every_candidate_fails_by_name(shelf: Shelf) -> None:
    """As where transformers takes a tokenizer of whole words for the byte-level one of Qwen2's models."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = shelf(build=Build())
    words = Tokenizer(models.WordLevel({"<unk>": 0, "dough": 1}, unk_token="<unk>"))  # noqa: S106 - a token of text
    words.pre_tokenizer = pre_tokenizers.Sequence([])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    tokenizer.chat_template = "{% for m in messages %}{{ '' }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    found = look(f"hf:{folder}")
    assert signs(found)["length"].colour == "red"
    assert "makes no token of 60 of 60 items" in signs(found)["length"].found
    model = load_model(f"hf:{folder}")
    for verdict in model.score(load_condition("none").queries(BENCH, BENCH.items[:3])):
        assert {failure.kind for failure in verdict.failures} == {"unsupported"}
        assert len(verdict.failures) == len(verdict.scores)
