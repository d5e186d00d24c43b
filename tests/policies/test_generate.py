"""A language model as a policy: what stands beside an answer, before it or after a break changes no token of it."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pluralrm.core import Failure, Post, Query, UserView
from pluralrm.errors import ModelError, SpecError
from pluralrm.policies.policy import AnswerRequest, Draw, Policy, PolicyAnswer, load_policy
from pluralrm.policies.pool import Pool
from pluralrm.policies.sample import sample
from tests.builders import bakery, edit_json
from tests.models.neural.tiny import DECODERS, language_folder
from tests.models.neural.tokenizers import Build

pytestmark = pytest.mark.hf

SHORT = Draw(n=5, max_tokens=12, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_folder(tmp_path_factory.mktemp("llama"))


def asks(query: Query, draw: Draw) -> list[AnswerRequest]:
    return [AnswerRequest(query, index, draw.seed_of(query.id, index)) for index in range(draw.n)]


def pooled(folder: Path, out: Path, draw: Draw = SHORT, *, keys: str = "", items: int = 3) -> Pool:
    return sample(bakery(items), f"lm:{folder}{keys}", "recent:2", out=out, draw=draw)


def texts(pool: Pool) -> list[tuple[str, int | None]]:
    return [(one.text, one.tokens) for several in pool.samples.values() for one in several]


def test_the_number_of_rows_beside_an_answer_changes_no_token(folder: Path, tmp_path: Path) -> None:
    alone = pooled(folder, tmp_path / "1", keys=",batch=1")
    assert len(set(texts(alone))) == 15
    for batch in (2, 5, 16):
        assert texts(pooled(folder, tmp_path / str(batch), keys=f",batch={batch}")) == texts(alone)


def test_a_larger_pool_begins_with_the_smaller_one(folder: Path, tmp_path: Path) -> None:
    small, large = pooled(folder, tmp_path / "5"), pooled(folder, tmp_path / "9", replace(SHORT, n=9))
    assert all(large.samples[item][:5] == several for item, several in small.samples.items())


@pytest.mark.parametrize("kept", [1, 4, 7, 14])
def test_a_break_anywhere_changes_no_byte(folder: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "pool"
    whole = pooled(folder, path)
    content = (path / "samples.jsonl").read_bytes()
    edit_json(path / "pool.json", status="incomplete", content_hash="")
    (path / "samples.jsonl").write_bytes(b"".join(content.splitlines(keepends=True)[:kept]))
    assert pooled(folder, path) == whole
    assert (path / "samples.jsonl").read_bytes() == content


@pytest.mark.parametrize("family", DECODERS)
def test_the_likeliest_answer_is_that_of_transformers(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    made = language_folder(tmp_path / family, family)
    draw, query = Draw(n=1, temperature=0, max_tokens=20), Query("q", "Which flour, and for how long?", ())
    [said] = load_policy(f"lm:{made}").answer(asks(query, draw), draw)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    model = transformers.AutoModelForCausalLM.from_pretrained(made, attn_implementation="eager").eval()
    turns = [{"role": "user", "content": query.prompt}]
    prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        found = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    ids = [token for token in found.tolist() if token != model.generation_config.eos_token_id]
    assert isinstance(said, PolicyAnswer)
    assert said.tokens == len(ids)
    assert said.text == tokenizer.decode(ids, skip_special_tokens=True)


def test_an_answer_ends_at_its_end_token_or_is_cut_off(folder: Path) -> None:
    draw = Draw(n=64, temperature=2.0, top_p=1.0, max_tokens=40)
    said = list(load_policy(f"lm:{folder}").answer(asks(Query("q", "Which flour?", ()), draw), draw))
    assert {one.finish for one in said if isinstance(one, PolicyAnswer)} >= {"stop", "length"}
    for one in said:
        assert isinstance(one, PolicyAnswer)
        assert (one.tokens == 40) if one.finish == "length" else (one.tokens is not None and one.tokens <= 40)


# ---------------------------------------------------------------- what is shown


def wordy(posts: int) -> Query:
    shown = tuple(Post(f"p{number}", f"Loaf {number} came out flat. " * 5) for number in range(posts))
    return Query("q", "Which flour?", (), UserView("u", shown))


def test_posts_that_leave_no_room_for_the_answer_are_dropped_from_the_end(tmp_path: Path) -> None:
    made = language_folder(tmp_path / "lm", max_position_embeddings=700)
    draw = Draw(n=2, max_tokens=100)
    policy = load_policy(f"lm:{made}")
    [first, second] = policy.answer(asks(wordy(30), draw), draw)
    assert isinstance(first, PolicyAnswer)
    assert isinstance(second, PolicyAnswer)
    assert first.posts_kept == second.posts_kept is not None
    kept = first.posts_kept
    assert kept is not None
    assert 0 < kept < 30
    query = wordy(30)
    assert query.user is not None
    fewer = replace(query, user=replace(query.user, posts=query.user.posts[:kept]))
    assert [one.text for one in policy.answer(asks(fewer, draw), draw) if isinstance(one, PolicyAnswer)] == [
        first.text,
        second.text,
    ]


def test_a_prompt_has_at_most_so_many_tokens_as_its_policy_reads(folder: Path) -> None:
    """`prompt_tokens` drops posts as the model's own length does, and is another policy in a pool's identity."""
    from pluralrm.policies.local import LocalPolicy

    lengths = {}
    for most in (400, 1500, 10_000):
        policy = load_policy(f"lm:{folder},prompt_tokens={most}")
        assert isinstance(policy, LocalPolicy)
        assembled = policy.leaving_room(12).assemble(wordy(30), policy.conversations)
        [encoded] = assembled.sequences
        assert not isinstance(encoded, Failure)
        lengths[most] = (len(encoded.ids), assembled.posts_kept)
        assert policy.identity["prompt tokens"] == str(most)
        [first, _] = policy.answer(asks(wordy(30), draw := Draw(n=2, max_tokens=12)), draw)
        assert isinstance(first, PolicyAnswer)
        assert first.posts_kept == assembled.posts_kept
    assert all(tokens <= most for most, (tokens, _) in lengths.items())
    assert 0 < lengths[400][1] < lengths[1500][1] < lengths[10_000][1] == 30
    assert "prompt tokens" not in load_policy(f"lm:{folder}").identity
    with pytest.raises(SpecError, match="prompt_tokens"):
        load_policy(f"lm:{folder},prompt_tokens=0")


def test_a_prompt_longer_than_its_policy_reads_is_a_failure_of_its_item_alone(folder: Path) -> None:
    policy, draw = load_policy(f"lm:{folder},prompt_tokens=60"), Draw(n=1, max_tokens=4)
    long, short = Query("long", "Which flour? " * 100, ()), Query("short", "Which flour?", ())
    found = list(policy.answer([*asks(long, draw), *asks(short, draw)], draw))
    assert [one.kind if isinstance(one, Failure) else "said" for one in found] == ["too_long", "said"]


def test_the_system_turn_of_a_template_is_what_the_chat_template_makes_of_it(folder: Path) -> None:
    """Held against transformers' own rendering of the two turns."""
    from transformers import AutoTokenizer

    from pluralrm.policies.local import LocalPolicy

    policy = load_policy(f"lm:{folder},template=sample-v1")
    assert isinstance(policy, LocalPolicy)
    [turns] = policy.conversations(wordy(2))
    assert [turn.role for turn in turns] == ["system", "user"]
    [encoded] = policy.leaving_room(8).assemble(wordy(2), policy.conversations).sequences
    assert not isinstance(encoded, Failure)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    wanted = tokenizer.apply_chat_template(
        [turn._asdict() for turn in turns], add_generation_prompt=True, return_dict=False
    )
    assert list(encoded.ids) == wanted
    assert policy.identity["template"] != load_policy(f"lm:{folder}").identity["template"]


def test_a_prompt_that_cannot_fit_is_a_failure_of_its_item_alone(tmp_path: Path) -> None:
    made = language_folder(tmp_path / "lm", max_position_embeddings=200)
    draw, policy = Draw(n=2, max_tokens=20), load_policy(f"lm:{made}")
    long, short = Query("long", "Which flour? " * 100, ()), Query("short", "Which flour?", ())
    found = list(policy.answer([*asks(long, draw), *asks(short, draw)], draw))
    assert [one.kind if isinstance(one, Failure) else "said" for one in found] == ["too_long"] * 2 + ["said"] * 2


def test_no_room_for_any_prompt_is_told_at_once(tmp_path: Path) -> None:
    made = language_folder(tmp_path / "lm", max_position_embeddings=64)
    with pytest.raises(SpecError, match="max_tokens is 64; this model reads at most 64"):
        list(load_policy(f"lm:{made}").answer([], Draw(n=1, max_tokens=64)))


def test_the_prompt_begins_with_one_bos_and_is_computed_once(tmp_path: Path) -> None:
    from pluralrm.policies.local import LocalPolicy

    made = language_folder(tmp_path / "lm", build=Build(adds_bos=True, template="instructions"))
    policy = load_policy(f"lm:{made},batch=2")
    assert isinstance(policy, LocalPolicy)
    seen: list[list[int]] = []

    def look(_: object, __: object, words: dict[str, Any]) -> None:
        seen.append(words["input_ids"][0].tolist())

    policy.network().model.register_forward_pre_hook(look, with_kwargs=True)
    draw = Draw(n=5, max_tokens=3)
    list(policy.answer(asks(Query("q", "Which <s> flour?", ()), draw), draw))
    [prompt] = [ids for ids in seen if len(ids) > 1]
    assert prompt.count(policy.prompts.tokenizer.bos or -1) == 1


def test_reasoning_that_the_chat_template_opens_is_no_answer_until_it_is_closed(folder: Path, tmp_path: Path) -> None:
    chat = tmp_path / "thinks.jinja"
    chat.write_text("{{ messages[0].content }}{% if add_generation_prompt %}<scratch>\n{% endif %}")
    draw = Draw(n=64, temperature=2.0, top_p=1.0, max_tokens=40)
    markers = "reasoning=<scratch>%2C</scratch>"  # longer than what a tiny model says by chance
    said = load_policy(f"lm:{folder},chat={chat},{markers}").answer(asks(Query("q", "Which flour?", ()), draw), draw)
    ends = [one.kind if isinstance(one, Failure) else (one.finish, one.text) for one in said]
    assert set(ends) == {"parse", ("length", "")}
    plain = load_policy(f"lm:{folder},chat={chat},reasoning=none").answer(
        asks(Query("q", "Which flour?", ()), draw), draw
    )
    cut = [isinstance(one, PolicyAnswer) and one.finish == "length" for one in plain]
    assert [end == ("length", "") for end in ends] == cut


# ---------------------------------------------------------------- drawing


def nucleus(logits: Sequence[float], temperature: float, top_p: float) -> dict[int, float]:
    """Return the probabilities of the tokens that may be drawn, worked out one by one."""
    top = max(logits)
    weights = [math.exp((one - top) / temperature) for one in logits]
    likely = sorted(((weight / sum(weights), token) for token, weight in enumerate(weights)), reverse=True)
    kept: dict[int, float] = {}
    for probability, token in likely:
        if sum(kept.values()) >= top_p:
            break
        kept[token] = probability
    return {token: probability / sum(kept.values()) for token, probability in kept.items()}


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 0.9), (0.5, 1.0), (2.0, 0.3), (1.0, 0.01)])
@pytest.mark.parametrize("vocabulary", [7, 3000])
def test_tokens_are_drawn_with_the_probabilities_of_the_nucleus(
    temperature: float, top_p: float, vocabulary: int
) -> None:
    import torch

    from pluralrm.policies.local import choose

    rng = random.Random(vocabulary)
    logits = [rng.gauss(0, 1) for _ in range(vocabulary)]
    draws = [(number + 0.5) / 2_000 for number in range(2_000)]
    found = Counter(choose(torch.tensor([logits]).expand(2_000, -1), draws, temperature, top_p))
    wanted = nucleus(torch.tensor(logits).tolist(), temperature, top_p)
    assert set(found) <= set(wanted)
    assert all(abs(found[token] - 2_000 * probability) <= 1 for token, probability in wanted.items())


def test_tokens_that_are_equally_likely_stay_in_together() -> None:
    import torch

    from pluralrm.policies.local import choose

    draws = [number / 100 for number in range(100)]
    assert set(choose(torch.zeros(100, 4), draws, 1.0, 0.3)) == {0, 1, 2, 3}


# ---------------------------------------------------------------- what cannot be loaded


def test_a_folder_that_is_no_language_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"wanted model\.safetensors"):
        load_policy(f"lm:{tmp_path}")
    with pytest.raises(SpecError, match="no such folder"):
        load_policy("lm:nowhere")
    with pytest.raises(SpecError, match="batch is '0'"):
        load_policy(f"lm:{language_folder(tmp_path / 'lm')},batch=0")


def test_other_weights_are_another_policy(tmp_path: Path) -> None:
    one, other = (load_policy(f"lm:{language_folder(tmp_path / str(seed), seed=seed)}") for seed in (0, 1))
    assert _weights(one) != _weights(other)


def _weights(policy: Policy) -> str:
    return policy.identity["weights"]
