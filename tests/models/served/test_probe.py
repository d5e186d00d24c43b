"""On connect: who is there, and what is refused by name before a single score."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pluralrm.core import Identified
from pluralrm.errors import PluralrmError, RunError, ServiceError
from pluralrm.http import Settings
from pluralrm.models.served.probes import PROBES
from pluralrm.runs import score
from tests.builders import bakery
from tests.fake_chat import status
from tests.fake_heads import CHATML, FakeHead, Quirks
from tests.models.served.asking import ONCE, QUERY, head_of, plainly, refusal, scores, served, spec_of

# ---------------------------------------------------------------- who is there


def test_the_identity_names_model_weights_limit_bos_and_route() -> None:
    with FakeHead("vllm", Quirks(names=("my-head",), root="/models/mine", limit=2048)) as server:
        model = head_of(server, "revision=r2")
        assert isinstance(model, Identified)
        facts = model.identity
    assert facts["served model"] == "my-head"
    assert facts["root"] == "/models/mine"
    assert facts["revision"] == "r2"
    assert facts["reads"] == "2048 tokens"
    assert facts["bos"] == "1"
    assert facts["route"] == "/classify"
    assert facts["url"] == server.url
    assert facts["chat template"] == "the server's"
    assert len(facts["template"]) == len(facts["tokens of a probe"]) == 64


def test_sglang_tells_its_weight_version_and_openrlhf_nothing_at_all(tmp_path: Path) -> None:
    with FakeHead("sglang") as server:
        facts = served(spec_of(server, "sglang", folder=tmp_path / "chat")).identity
        assert facts["weight version"] == "default"
        assert facts["served model"] == "head"
        assert facts["bos"] == "1"
    with FakeHead("remote") as server:
        facts = served(spec_of(server, "remote", folder=tmp_path / "chat")).identity
        assert facts["served model"] == ""
        assert facts["bos"] == "unchecked"
        assert facts["reads"] == "16000 bytes"


def test_no_server_is_asked_before_the_first_use() -> None:
    with FakeHead("vllm") as server:
        model = head_of(server)
        assert server.requests == []
        assert model.identity
        probed = len(server.requests)
        assert scores(model, QUERY)
        assert len(server.requests) == probed + 2


def test_the_url_may_end_in_v1() -> None:
    with FakeHead("vllm") as server:
        assert served(f"vllm:{server.url}/v1").identity["url"] == server.url


def test_of_several_models_one_has_to_be_named() -> None:
    quirks = Quirks(names=("one", "two"))
    assert "serves 2 models (one, two); name one with model=NAME" in refusal(quirks)
    assert "serves no model 'tow'. Did you mean 'two'?" in refusal(quirks, "model=tow")
    with FakeHead("vllm", quirks) as server:
        assert head_of(server, "model=two").identity["served model"] == "two"
        assert {seen.body["model"] for seen in server.scored} == {"two"}


# ---------------------------------------------------------------- raw numbers


def test_a_sigmoid_that_ignores_the_request_for_raw_numbers_is_refused() -> None:
    found = refusal(Quirks(activation="always"))
    assert "all within 0 and 1, whether use_activation is asked for or not" in found
    assert "range=unit" in found


@pytest.mark.parametrize("dialect", ["sglang", "remote"])
def test_numbers_that_look_like_probabilities_are_refused_where_nobody_can_ask_for_others(
    dialect: str, tmp_path: Path
) -> None:
    found = refusal(Quirks(activation="always"), dialect=dialect, folder=tmp_path)
    assert "all within 0 and 1, as a sigmoid does" in found


def test_a_head_whose_own_numbers_are_small_is_believed_where_an_activation_changes_them() -> None:
    with FakeHead("vllm", Quirks(unit=True)) as server:
        [found] = scores(head_of(server), QUERY)
        assert found == tuple((plainly(QUERY, answer) + 8) / 16 for answer in QUERY.candidates)


def test_a_head_from_0_to_1_without_any_activation_has_to_be_declared() -> None:
    quirks = Quirks(unit=True, activation="none")
    assert "range=unit" in refusal(quirks)
    with FakeHead("vllm", quirks) as server:
        model = head_of(server, "range=unit")
        assert model.identity["range"] == "unit"
        assert len(scores(model, QUERY)) == 1


def test_no_question_leaves_the_activation_to_the_server() -> None:
    with FakeHead("vllm") as server:
        scores(head_of(server), QUERY)
        assert {seen.body["use_activation"] for seen in server.scored} == {False}


# ---------------------------------------------------------------- one number


def test_a_vector_is_refused_as_an_embedding() -> None:
    for keys in ("", "label=0"):
        assert "gives 768 numbers for a text: an embedding, no head" in refusal(Quirks(labels=768), keys)


def test_of_several_labels_one_has_to_be_named() -> None:
    quirks = Quirks(labels=3)
    assert "has a head of 3 labels; say which of them is the reward, with label=N" in refusal(quirks)
    assert "there is no label 3" in refusal(quirks, "label=3")
    with FakeHead("vllm", quirks) as server:
        first, last = (scores(head_of(server, f"label={label}"), QUERY)[0] for label in (0, 2))
    assert first[0] == plainly(QUERY, "Rye.")
    assert first != last


def test_a_language_model_at_sglang_is_no_head(tmp_path: Path) -> None:
    assert "serves a language model" in refusal(Quirks(generates=True), dialect="sglang", folder=tmp_path)


def test_a_server_without_the_route_is_told_how_to_be_started() -> None:
    with (
        FakeHead("remote") as server,
        pytest.raises(ServiceError, match=r"no such route.*vllm serve MODEL --runner pooling") as caught,
    ):
        list(served(f"vllm:http://127.0.0.1:{server.port}").score([QUERY]))
    assert caught.value.status == 404


def test_a_server_that_is_not_there_is_named() -> None:
    with FakeHead("vllm") as server:
        url = server.url
    with pytest.raises(ServiceError, match=r"gave no answer .*Is it up"):
        list(served(f"vllm:{url}").score([QUERY]))


def test_scores_that_are_no_numbers_are_refused_on_connect() -> None:
    def empty(body: dict[str, object]) -> object:
        return {**body, "data": [{"index": 0, "probs": [None], "num_classes": 1}]}

    assert "gives scores that are no numbers" in refusal(Quirks(broken=empty))


# ---------------------------------------------------------------- one BOS


def test_a_doubled_bos_is_refused() -> None:
    assert "begins with 2 BOS, wanted 1" in refusal(Quirks(template_bos=2))


def test_a_doubled_bos_is_seen_where_the_tokenizer_adds_none() -> None:
    assert "begins with 2 BOS, wanted 0" in refusal(Quirks(template_bos=2, tokenizer_bos=False))


def test_a_missing_bos_is_refused_until_the_spec_says_what_is_right() -> None:
    quirks = Quirks(template_bos=0)
    found = refusal(quirks)
    assert "begins with 0 BOS, wanted 1" in found
    assert "bos=0" in found
    assert "bos=1" in found
    with FakeHead("vllm", quirks) as server:
        bare, added = head_of(server, "bos=0"), head_of(server, "bos=1")
        assert bare.identity["bos"] == "0"
        assert added.identity["bos"] == "1"
        assert scores(bare, QUERY)[0][0] == plainly(QUERY, "Rye.", quirks)
        assert scores(added, QUERY)[0][0] == plainly(QUERY, "Rye.")


def test_a_tokenizer_without_bos_needs_none() -> None:
    quirks = Quirks(template_bos=0, tokenizer_bos=False)
    with FakeHead("vllm", quirks) as server:
        model = head_of(server)
        assert model.identity["bos"] == "none is known"
        assert "which token is one is unknown" in refusal(quirks, "bos=1")
        assert scores(model, QUERY)[0][0] == plainly(QUERY, "Rye.", quirks)


def test_the_bos_that_sglang_adds_to_every_text_takes_the_place_of_the_templates_own(tmp_path: Path) -> None:
    with FakeHead("sglang") as server:
        model = served(spec_of(server, "sglang", folder=tmp_path))
        assert scores(model, QUERY)[0] == tuple(plainly(QUERY, answer) for answer in QUERY.candidates)
        assert not any("<s>" in seen.body["text"] for seen in server.scored)


def test_a_bos_spelled_out_in_the_template_is_doubled_at_sglang_and_refused(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text(CHATML.replace("{{ bos_token }}", "<s>"))
    found = refusal(Quirks(), f"chat={tmp_path / 'chat.jinja'}", "sglang")
    assert "begins with 2 BOS, wanted 1. The server adds one to every text" in found


def test_a_chat_template_of_ones_own_goes_to_vllm_as_text_without_a_second_bos(tmp_path: Path) -> None:
    with FakeHead("vllm") as server:
        model = served(spec_of(server, "vllm", folder=tmp_path))
        assert scores(model, QUERY)[0] == tuple(plainly(QUERY, answer) for answer in QUERY.candidates)
        assert all("input" in seen.body and seen.body["add_special_tokens"] is False for seen in server.scored)


def test_where_no_route_shows_tokens_the_spec_has_to_allow_that() -> None:
    assert "has no route /tokenize" in refusal(Quirks(tokenize=False))
    with FakeHead("vllm", Quirks(tokenize=False)) as server:
        model = head_of(server, "bos=unchecked")
        assert model.identity["bos"] == "unchecked"
        assert model.identity["reads"] == "not known"
        assert scores(model, QUERY)[0][0] == plainly(QUERY, "Rye.")


# ---------------------------------------------------------------- whole texts


def test_a_server_that_cuts_below_what_it_says_it_reads_is_refused() -> None:
    assert "read 512 tokens: it cuts texts without a word" in refusal(Quirks(cut=512))
    assert "does not say how many tokens it read" in refusal(Quirks(cut=512, counts=False))


def test_a_cut_beyond_what_is_ever_sent_does_no_harm() -> None:
    with FakeHead("vllm", Quirks(cut=512)) as server:
        assert scores(head_of(server, "max_tokens=500"), QUERY)[0][0] == plainly(QUERY, "Rye.")
    with FakeHead("vllm", Quirks(cut=4096)) as server:
        assert scores(head_of(server), QUERY)[0][0] == plainly(QUERY, "Rye.")


@pytest.mark.parametrize("tokens", [500, 2048])
def test_openrlhfs_silent_cut_is_seen_by_what_it_does_not_see(tokens: int, tmp_path: Path) -> None:
    found = refusal(Quirks(cut=tokens), dialect="remote", folder=tmp_path)
    assert "differ in their end the same score" in found
    assert "max_bytes=N" in found
    with FakeHead("remote", Quirks(cut=tokens)) as server:
        model = served(spec_of(server, "remote", "max_bytes=1200", tmp_path))
        assert model.identity["reads"] == "1200 bytes"
        assert scores(model, QUERY)[0][0] == plainly(QUERY, "Rye.")


@pytest.mark.parametrize("weights", ["words", "nothing"])
def test_a_reward_that_does_not_care_for_words_is_not_taken_for_one_that_cuts(weights: str, tmp_path: Path) -> None:
    with FakeHead("remote", Quirks(weights=weights)) as server:
        model = served(spec_of(server, "remote", folder=tmp_path))
        assert scores(model, QUERY)[0][0] == plainly(QUERY, "Rye.", Quirks(weights=weights))


def test_more_tokens_than_the_server_reads_cannot_be_asked_for() -> None:
    assert "max_tokens is 5000; this server reads at most 4096 tokens" in refusal(Quirks(), "max_tokens=5000")


# ---------------------------------------------------------------- the same model as before


def test_other_weights_under_the_same_name_never_meet_the_replies_of_the_first(tmp_path: Path) -> None:
    settings = replace(ONCE, cache=tmp_path)
    with FakeHead("vllm") as server:
        before = scores(head_of(server, settings=settings), QUERY)
        assert scores(head_of(server, settings=settings), QUERY) == before
        server.quirks = Quirks(weights="b")
        with pytest.raises(ServiceError, match=r"serves other weights .* revision=NAME"):
            scores(head_of(server, settings=settings), QUERY)
        after = scores(head_of(server, "revision=b", settings), QUERY)
    assert after[0][0] == plainly(QUERY, "Rye.", Quirks(weights="b")) != before[0][0]


def test_another_root_or_bos_shares_no_reply(tmp_path: Path) -> None:
    settings = replace(ONCE, cache=tmp_path)
    with FakeHead("vllm") as server:
        scores(head_of(server, settings=settings), QUERY)
        for quirks in (Quirks(root="/models/other", weights="b"), Quirks(template_bos=0, weights="c")):
            server.quirks = quirks
            keys = "bos=0" if quirks.template_bos == 0 else ""
            assert scores(head_of(server, keys, settings), QUERY)[0][0] == plainly(QUERY, "Rye.", quirks)


def test_a_run_is_not_resumed_by_another_model(tmp_path: Path) -> None:
    bench = bakery(4)
    with FakeHead("vllm") as server:
        run = score(bench, head_of(server), "recent:2", out=tmp_path)
        kept = json.loads((Path(run.path) / "run.json").read_text())["identity"]
        assert kept["served model"] == "head"
        assert kept["root"] == "/models/head"
        rows = Path(run.path) / "rows.jsonl"
        rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:-1]))  # one item is still to be scored
        for other in (Quirks(root="/models/new"), Quirks(limit=2048), Quirks(names=("other",))):
            server.quirks = other
            with pytest.raises(RunError):
                score(bench, head_of(server), "recent:2", out=tmp_path)


# ---------------------------------------------------------------- odds and ends


def test_a_wrong_key_ends_the_connection_and_the_default_one_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-of-the-chat-models")
    monkeypatch.setenv("HEAD_KEY", "canary-of-the-head-9917")
    with FakeHead("vllm") as server:
        assert head_of(server).identity
        assert not any("authorization" in seen.headers for seen in server.requests)
        assert head_of(server, "key=HEAD_KEY").identity
        assert server.requests[-1].headers["authorization"] == "Bearer canary-of-the-head-9917"
    with FakeHead("vllm", faults=[status(401, "wrong key canary-of-the-head-9917")]) as server:
        with pytest.raises(PluralrmError) as caught:
            assert head_of(server, "key=HEAD_KEY").identity
        assert "HEAD_KEY" in str(caught.value)
        assert "9917" not in str(caught.value)


def test_probes_tell_a_recording_all_that_a_replay_asks(tmp_path: Path) -> None:
    with FakeHead("vllm") as server:
        model = head_of(server, settings=Settings(attempts=1, record=tmp_path / "tape.jsonl"))
        recorded, facts = scores(model, QUERY), dict(model.identity)
        spec = model.spec
        model.close()
    again = served(spec, Settings(replay=tmp_path / "tape.jsonl"))
    assert scores(again, QUERY) == recorded
    assert again.identity == facts
    assert again.tally.attempts == 0


def test_the_probes_are_not_all_alike() -> None:
    assert len(set(PROBES)) == len(PROBES) >= 6
