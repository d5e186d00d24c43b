"""A pass over padded answers says what one plain pass over each sequence says; the reference stays where it was."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pluralrm.errors import SpecError
from pluralrm.policies.policy import Draw
from pluralrm.training.settings import PpoSettings
from tests.models.neural.tiny import DECODERS, language_folder

if TYPE_CHECKING:
    from pluralrm.training.actor import Actor
    from pluralrm.training.rollout import Tokens

pytestmark = pytest.mark.hf

PROMPTS = [(5, 6, 7, 8, 9), (11,), (12, 13, 14)]
ANSWERS = [(20, 21), (22, 23, 24, 25), (26,)]


def opened(folder: Path, **settings: object) -> "Actor":
    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings
    from pluralrm.training.actor import open_actor

    chosen = PpoSettings(**settings)  # type: ignore[arg-type]
    return open_actor(open_folder(str(folder), kind="lm"), LoadSettings(device="cpu"), chosen, seed=0)


def tokens() -> "Tokens":
    from pluralrm.training.rollout import padded

    return padded(PROMPTS, ANSWERS, "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_folder(tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("family", DECODERS)
def test_log_probs_and_entropies_are_those_of_one_plain_pass_per_sequence(family: str, tmp_path: Path) -> None:
    import torch
    import transformers

    made = language_folder(tmp_path / family, family)
    actor, batch = opened(made, temperature=0.7), tokens()
    with torch.no_grad():
        found = actor.passed(batch)
    plain = transformers.AutoModelForCausalLM.from_pretrained(made, attn_implementation="eager").eval()
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        with torch.no_grad():
            logits = plain(torch.tensor([[*prompt, *answer]])).logits[0].double() / 0.7
        for place, token in enumerate(answer):
            likely = logits[len(prompt) + place - 1].softmax(-1)
            assert float(found.log_probs[row, place]) == pytest.approx(float(likely[token].log()), abs=2e-4)
            entropy = -float((likely * likely.clamp_min(1e-30).log()).sum())
            assert float(found.entropies[row, place]) == pytest.approx(entropy, abs=2e-4)
    assert torch.equal(actor.reference(batch), found.log_probs)


def test_an_answer_is_the_one_that_sample_draws_by_the_same_seed(folder: Path) -> None:
    from pluralrm.policies.local import continuations
    from pluralrm.training.rollout import draw_answers

    actor, draw = opened(folder), Draw(n=1, top_p=1.0, temperature=1.5, max_tokens=30)
    prompts, seeds = [PROMPTS[place % 3] for place in range(24)], list(range(100, 124))
    found = draw_answers(actor.network, prompts, seeds, draw, rows=7)
    for prompt, seed, answer in zip(prompts, seeds, found, strict=True):
        [alone] = continuations(actor.network, prompt, [seed], draw, width=1)
        assert (answer.spoken, answer.cut) == (alone.ids, alone.cut)
        assert answer.cut or answer.ids[-1] in actor.network.ends
    assert {answer.cut for answer in found} == {True, False}


@pytest.mark.parametrize("lora", [0, 2])
def test_the_reference_stays_while_the_policy_moves(folder: Path, lora: int, tmp_path: Path) -> None:
    import torch

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.training.actor import write_policy

    actor, batch = opened(folder, lora=lora), tokens()
    before = actor.reference(batch)
    if lora:
        assert all("lora" in name for name in actor.trained)
    with torch.no_grad():
        for weights in actor.trained.values():
            weights.add_(0.05 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1)))
        moved = actor.passed(batch).log_probs
    assert torch.equal(actor.reference(batch), before)
    assert not torch.allclose(moved, before, atol=1e-2)
    written = opened(write_policy(actor.whole(), open_folder(str(folder), kind="lm"), tmp_path / "policy"))
    with torch.no_grad():
        again = written.passed(batch).log_probs
    assert torch.allclose(again[batch.mask], moved[batch.mask], atol=1e-4)
    assert {file.name for file in folder.iterdir()} == {file.name for file in (tmp_path / "policy").iterdir()}


def test_the_critic_reads_the_trunk_and_does_not_move_it(folder: Path) -> None:
    import torch

    actor, batch = opened(folder), tokens()
    actor.critic.begin_at(0.7)
    assert actor.passed(batch).values.eq(torch.tensor(0.7)).all()
    torch.nn.init.ones_(actor.critic.outer.weight)
    actor.passed(batch).values.sum().backward()
    assert all(weights.grad is None for weights in actor.trained.values())
    assert all(weights.grad is not None for weights in actor.critic.parameters())


def test_in_half_precision_the_weights_stay_whole(folder: Path) -> None:
    import torch

    whole, half = opened(folder), opened(folder, precision="bfloat16")
    assert {weights.dtype for weights in half.trained.values()} == {torch.float32}
    passed, other = half.passed(tokens()), whole.passed(tokens())
    passed.log_probs.sum().backward()
    assert not torch.equal(passed.log_probs, other.log_probs)
    assert torch.allclose(passed.log_probs, other.log_probs, atol=1.0)
    assert torch.equal(half.reference(tokens()), passed.log_probs)
    half.critic.begin_at(0.7)  # to three digits it would be another number than the reward
    assert half.passed(tokens()).values.eq(torch.tensor(0.7)).all()


def test_weights_that_are_too_coarse_for_a_step_are_refused_unless_adapters_are_trained(folder: Path) -> None:
    """To bfloat16, 1 and 1 less a millionth are one number: training would run, and change nothing."""
    import torch

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings
    from pluralrm.training.actor import open_actor

    coarse, named = LoadSettings(device="cpu", dtype="bfloat16"), open_folder(str(folder), kind="lm")
    with pytest.raises(SpecError, match="dtype is bfloat16"):
        open_actor(named, coarse, PpoSettings(), seed=0)
    beside = open_actor(named, coarse, PpoSettings(lora=2), seed=0)
    assert {weights.dtype for weights in beside.trained.values()} == {torch.float32}


def test_a_minibatch_is_one_move_however_it_is_cut(folder: Path) -> None:
    import torch

    from pluralrm.training.ppo import BatchOutput, experience, open_optimizer, update

    found = []
    for rows in (1, 2, 3):
        chosen = PpoSettings(
            rows=rows, minibatch=3, epochs=2, actor_rate=1e-3, kl_in="loss", kl="k3", entropy=0.01, max_norm=0.1
        )
        actor, batch = opened(folder, rows=rows), tokens()
        with torch.no_grad():
            looked = BatchOutput(batch, actor.passed(batch), actor.reference(batch))
        learned = experience(looked, [1.0, -1.0, 0.5], 0.1, chosen)
        told = update(actor, open_optimizer(actor, chosen), learned, chosen, coefficient=0.1, seed="s")
        found.append((told, torch.cat([weights.detach().flatten() for weights in actor.trained.values()])))
    for told, weights in found[1:]:
        assert told == pytest.approx(found[0][0], rel=1e-3, abs=1e-5)
        assert torch.allclose(weights, found[0][1], atol=2e-4)
