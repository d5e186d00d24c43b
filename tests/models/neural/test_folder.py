"""What a model's folder says of itself, what is refused before anything is loaded, and what comes from a hub."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pluralrm.errors import ModelError, SpecError
from pluralrm.models.neural.folder import ModelFolder, code_trusted, open_folder
from pluralrm.specs import Spec
from tests.benchmarks.hub_server import Child, Hub
from tests.model_folders import CONFIG, OPEN, Bomb, model_files, safetensors, trap, write_folder

Files = Mapping[str, bytes | None]
CODE = {"AutoConfig": "configuring.Config", "AutoModel": "modeling_x.Model"}


def opened(path: Path, files: Files | None = None, *, trusted: bool = False) -> ModelFolder:
    write_folder(path, model_files())
    return open_folder(write_folder(path, files or {}), kind="hf", trusted=trusted)


def refusal(path: Path, files: Files, *, trusted: bool = False) -> str:
    with pytest.raises(ModelError) as caught:
        opened(path, files, trusted=trusted)
    assert str(caught.value).startswith(f"hf:{path}: ")
    return str(caught.value)


def test_a_folder_is_known_by_its_config(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    assert folder == ModelFolder(str(tmp_path), tmp_path, "", trusted=False, config=CONFIG)
    assert folder.architecture == "LlamaForSequenceClassification"


@pytest.mark.parametrize("architectures", [None, [], "Llama", {}])
def test_a_config_without_names_has_none(tmp_path: Path, architectures: object) -> None:
    config = json.dumps({"architectures": architectures, "model_type": None}).encode()
    folder = opened(tmp_path, {"config.json": config})
    assert folder.architecture == ""


@pytest.mark.parametrize("name", ["no/such/folder", "./none", "nothing"])
def test_a_name_of_nothing_says_what_was_wanted(name: str) -> None:
    with pytest.raises(SpecError, match=rf"^dpo:{name}: no such folder; wanted one, or a hub id \(owner/name"):
        open_folder(name, kind="dpo")


@pytest.mark.parametrize(("options", "trusted"), [({}, False), ({"code": "trusted"}, True)])
def test_a_spec_says_whether_code_is_trusted(options: dict[str, str], trusted: bool) -> None:
    assert code_trusted(Spec("hf", "x", options)) is trusted


def test_no_other_word_means_trust() -> None:
    with pytest.raises(SpecError, match="code is 'yes'; wanted code=trusted"):
        code_trusted(Spec("hf", "x", {"code": "yes"}))


# ---------------------------------------------------------------- weights


def index(*shards: object) -> bytes:
    return json.dumps({"metadata": {}, "weight_map": {f"w{n}": shard for n, shard in enumerate(shards)}}).encode()


_A, _B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
_INDEX = "model.safetensors.index.json"


def test_shards_are_whole_only_together(tmp_path: Path) -> None:
    shards = {"model.safetensors": None, _INDEX: index(_A, _B, _A), _A: safetensors(1), _B: safetensors(2)}
    assert opened(tmp_path / "whole", shards).path == tmp_path / "whole"
    torn = refusal(tmp_path / "torn", {name: content for name, content in shards.items() if name != _B})
    assert f"{_INDEX} names {_B!r}, which is not there" in torn


@pytest.mark.parametrize("place", ["../secret.safetensors", "/etc/secret.safetensors", "sub/model.safetensors"])
def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path: Path, place: str) -> None:
    write_folder(tmp_path, {"secret.safetensors": safetensors(), "model/sub/model.safetensors": safetensors()})
    message = refusal(tmp_path / "model", {"model.safetensors": None, _INDEX: index(place)})
    assert f"{_INDEX} names {place!r}; wanted a file directly in the folder" in message


@pytest.mark.parametrize(
    "content", [index("pytorch_model.bin"), index(3), b"[]", b"{}", b'{"weight_map": ["a.safetensors"]}']
)
def test_an_index_of_anything_but_safetensors_is_refused(tmp_path: Path, content: bytes) -> None:
    files = {"model.safetensors": None, "pytorch_model.bin": b"", _INDEX: content}
    assert "wanted weight_map, from each weight to a *.safetensors file" in refusal(tmp_path, files)


@pytest.mark.parametrize("named", ["adapter_model.bin", "pytorch_model.bin.index.json", "", 3, ["model.safetensors"]])
def test_a_config_cannot_lead_the_loader_to_a_pickle(tmp_path: Path, named: object) -> None:
    config = json.dumps(CONFIG | {"transformers_weights": named}).encode()
    message = refusal(tmp_path, {"config.json": config, "adapter_model.bin": b""})
    assert f"transformers_weights is {named!r}; wanted *.safetensors" in message


def test_weights_of_another_name_are_those_that_the_config_names(tmp_path: Path) -> None:
    config = json.dumps(CONFIG | {"transformers_weights": "reward.safetensors"}).encode()
    renamed = {"config.json": config, "model.safetensors": None}
    assert "names 'reward.safetensors', which is not there" in refusal(tmp_path / "without", renamed)
    assert opened(tmp_path / "with", {**renamed, "reward.safetensors": safetensors()}).config["model_type"] == "llama"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model.safetensors": None, "pytorch_model.bin": b"x"}, "found pytorch_model.bin, wanted *.safetensors"),
        ({"model.safetensors": None, "a.safetensors": b"x"}, "found a.safetensors, wanted model.safetensors or"),
        ({"model.safetensors": None}, "found no *.safetensors, wanted model.safetensors or"),
        ({"config.json": None}, "found no config.json"),
        ({"config.json": b"{"}, "config.json cannot be read"),
        ({"config.json": b"[1]"}, "config.json: found list, wanted an object"),
        ({"tokenizer_config.json": b"{"}, "tokenizer_config.json cannot be read"),
        ({"config.json": b'{"configuration_files": ["config.4.0.0.json"]}'}, "config.json defers to other files"),
        ({"adapter_config.json": b"{}"}, "found an adapter (adapter_config.json), wanted whole weights"),
        ({"adapter_config.json": b"{}", "config.json": None, "model.safetensors": None}, "found an adapter"),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path: Path, files: Files, message: str) -> None:
    assert message in refusal(tmp_path, files)


def test_a_pickle_beside_whole_weights_is_nobodys_business(tmp_path: Path) -> None:
    before = opened(tmp_path).hash()
    assert opened(tmp_path, {"pytorch_model.bin": b"pickle", "training_args.bin": b"pickle"}).hash() == before


# ---------------------------------------------------------------- code


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer_config.json", "generation_config.json", "processor_config.json"]
)
@pytest.mark.parametrize("depth", [0, 1, 400])
def test_code_that_a_config_asks_for_is_refused_by_name(tmp_path: Path, file: str, depth: int) -> None:
    asking: object = {"auto_map": CODE}
    for _ in range(depth):
        asking = {"text_config": [asking]}
    config = json.dumps(asking).encode()
    message = refusal(tmp_path, {file: config, "modeling_x.py": b"", "configuring.py": b""})
    assert f"holds code of its own (configuring.py, modeling_x.py, named in {file})" in message
    assert f"--trust-remote-code {tmp_path} (code=trusted in the spec)" in message


@pytest.mark.parametrize("auto_map", [["slow.Slow", None], {"AutoTokenizer": ["slow.Slow", "slow.Fast"]}])
def test_a_tokenizers_older_spelling_is_refused_too(tmp_path: Path, auto_map: object) -> None:
    config = json.dumps({"auto_map": auto_map}).encode()
    assert "(slow.py, named in tokenizer_config.json)" in refusal(tmp_path, {"tokenizer_config.json": config})


@pytest.mark.parametrize(
    "asking",
    [
        {"num_hidden_layers": 10**9},
        {"n_layer": 50},
        {"text_config": {"num_local_experts": 10**6}},
        {"hidden_size": 10**9},
        {"vocab_size": 10**12},
        {"max_position_embeddings": 10**10},
    ],
)
def test_a_network_far_beyond_its_weights_is_refused_before_memory_is_taken(
    tmp_path: Path, asking: dict[str, object]
) -> None:
    message = refusal(tmp_path, {"config.json": json.dumps(CONFIG | asking).encode()})
    assert "it would take all memory" in message


@pytest.mark.parametrize("content", [b"", b"torn", b"\xff" * 64, (8).to_bytes(8, "little") + b"[" * 8])
def test_weights_that_are_no_safetensors_are_refused_by_file(tmp_path: Path, content: bytes) -> None:
    assert "model.safetensors is no whole safetensors file" in refusal(tmp_path, {"model.safetensors": content})


@pytest.mark.parametrize("auto_map", [None, {}, []])
def test_an_empty_map_asks_for_nothing(tmp_path: Path, auto_map: object) -> None:
    assert opened(tmp_path, {"config.json": json.dumps({"auto_map": auto_map}).encode()}).trusted is False


def test_code_that_nothing_asks_for_is_no_code(tmp_path: Path) -> None:
    before = opened(tmp_path).hash()
    assert opened(tmp_path, {"handler.py": b"1 / 0"}).hash() == before


def test_trusted_code_is_allowed_and_part_of_the_hash(tmp_path: Path) -> None:
    files = {"config.json": json.dumps(CONFIG | {"auto_map": CODE}).encode(), "modeling_x.py": b"one"}
    folder = opened(tmp_path, files, trusted=True)
    assert folder.trusted
    before = folder.hash()
    write_folder(tmp_path, {"modeling_x.py": b"two"})
    assert folder.hash() != before


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    "asking",
    [
        {"auto_map": {"AutoModel": "other/repo--modeling.Model"}},
        {"auto_map": {"AutoModel": "other--modeling.Model"}},
        {"attn_implementation": "other/kernel"},
        {"text_config": {"_attn_implementation": "other/kernel@main:forward"}},
    ],
)
def test_nobody_can_trust_code_that_is_not_in_the_folder(
    tmp_path: Path, asking: dict[str, object], trusted: bool
) -> None:
    message = refusal(tmp_path, {"config.json": json.dumps(CONFIG | asking).encode()}, trusted=trusted)
    assert "config.json asks for code from elsewhere (other" in message


def test_an_attention_of_transformers_is_no_code(tmp_path: Path) -> None:
    assert opened(tmp_path, {"config.json": b'{"attn_implementation": "sdpa"}'}).config


# ---------------------------------------------------------------- hash


@pytest.mark.parametrize("name", [name for name in model_files() if name != "README.md"])
def test_any_byte_that_shapes_a_score_changes_the_hash(tmp_path: Path, name: str) -> None:
    files = model_files()
    before = opened(tmp_path / "a").hash()
    content = files[name]
    changed = content[:-1] + bytes([content[-1] ^ 1]) if name.endswith(".safetensors") else content + b" "
    assert opened(tmp_path / "b", {name: changed}).hash() != before


@pytest.mark.parametrize("name", ["chat_template.jinja", "vocab.txt", "spiece.model", "added_tokens.json"])
def test_a_new_file_of_the_tokenizer_changes_the_hash(tmp_path: Path, name: str) -> None:
    assert opened(tmp_path / "a").hash() != opened(tmp_path / "b", {name: b"{}"}).hash()


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "logo.png", "checkpoint-5/model.safetensors"])
def test_what_shapes_no_score_leaves_the_hash(tmp_path: Path, name: str) -> None:
    assert opened(tmp_path / "a").hash() == opened(tmp_path / "b", {name: b"other"}).hash()


def test_the_same_files_elsewhere_are_the_same_model(tmp_path: Path) -> None:
    folder = opened(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    (tmp_path / "linked").mkdir()
    for file in (tmp_path / "here").iterdir():  # as the hub's cache lays a snapshot out
        (tmp_path / "linked" / file.name).symlink_to(file)
    for place in ("there", "linked"):
        assert open_folder(str(tmp_path / place), kind="hf").hash() == folder.hash()


# ---------------------------------------------------------------- the hub, by the true client


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as server:
        extra = ("original/model.safetensors", "onnx/config.json", "pytorch_model.bin", "handler.py")
        server.publish("rm/plain", "main", model_files() | dict.fromkeys(extra, b""))
        server.publish("rm/plain", "v2", model_files(num_labels=2))
        code = {"modeling_x.py": b"", "configuring.py": b""}
        server.publish("rm/coded", "main", model_files(auto_map=CODE) | code)
        pickled = model_files() | {"pytorch_model.bin": b""}
        del pickled["model.safetensors"]
        server.publish("rm/pickled", "main", pickled)
        yield server


@pytest.fixture
def child(hub: Hub, tmp_path: Path) -> Iterator[Child]:
    hub.downloaded.clear()
    with Child(hub.url, tmp_path, OPEN) as process:
        yield process


def test_only_what_may_be_loaded_is_fetched_and_the_commit_is_kept(hub: Hub, child: Child, tmp_path: Path) -> None:
    found = child.load("rm/plain")
    assert found["revision"] == hub.commits["rm/plain", "main"]
    wanted = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert found["files"] == sorted(hub.downloaded) == wanted
    assert found["hash"] == opened(tmp_path / "local").hash()
    hub.downloaded.clear()
    assert child.load("rm/plain") == child.load(f"rm/plain@{found['revision']}") == found
    assert not hub.downloaded
    assert child.load("rm/plain@v2")["revision"] == hub.commits["rm/plain", "v2"]


def test_a_hub_models_code_is_refused_before_any_weight_is_fetched(hub: Hub, child: Child) -> None:
    refused = child.load("rm/coded")
    assert refused["error"] == "ModelError"
    assert "--trust-remote-code rm/coded" in refused["message"]
    assert not any(name.endswith((".py", ".safetensors")) for name in hub.downloaded)
    allowed = child.load("rm/coded trusted")
    assert {"modeling_x.py", "configuring.py", "model.safetensors"} <= set(allowed["files"])


def test_a_hub_models_pickles_are_not_fetched(hub: Hub, child: Child) -> None:
    assert "found no *.safetensors" in child.load("rm/pickled")["message"]
    assert "pytorch_model.bin" not in hub.downloaded


@pytest.mark.parametrize("name", ["rm/none", "rm/plain@v9"])
def test_a_hub_model_that_is_not_there_is_one_message(child: Child, name: str) -> None:
    refused = child.load(name)
    assert refused["error"] == "ModelError"
    assert refused["message"].startswith(f"hf:{name}: cannot be fetched (")


# ---------------------------------------------------------------- with the loader


@pytest.mark.hf
@pytest.mark.parametrize("named", ["pytorch_model.bin", "adapter_model.bin"])
def test_a_pickle_is_never_opened(tmp_path: Path, named: str) -> None:
    import torch

    marker, weights = tmp_path / "marker", tmp_path / "model" / named
    weights.parent.mkdir()
    torch.save(Bomb(marker), weights)
    refusal(tmp_path / "model", {"model.safetensors": None})
    config = json.dumps(CONFIG | {"transformers_weights": named}).encode()
    refusal(tmp_path / "model", {"config.json": config})
    assert not marker.exists()
    torch.load(weights, weights_only=False)
    assert marker.exists()  # what the refusal kept away


@pytest.mark.hf
def test_code_runs_with_trust_and_not_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoConfig

    marker = tmp_path / "marker"
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    config = json.dumps({"model_type": "trap", "auto_map": {"AutoConfig": "trap.Config"}}).encode()
    files = {"config.json": config, "trap.py": trap(marker)}
    refusal(tmp_path / "model", files)
    folder = opened(tmp_path / "model", files, trusted=True)
    assert not marker.exists()  # opening a folder runs nothing, trusted or not
    AutoConfig.from_pretrained(folder.path, trust_remote_code=folder.trusted)
    assert marker.exists()  # what the refusal kept away
