"""A tiny policy for `simulated:domains=1`, trained from scratch in a minute: it answers in all ways equally often.

Its tokens are the written sentences, whole, and what stands between them. So a few layers learn to write such answers,
and a training by PPO, with its prompts, rewards and grades, fits on two cores. It knows nothing else: for showing and
testing methods, not for ranking models.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import torch
import transformers
from safetensors import SafetensorError
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from pluralrm.benchmarks import load_benchmark
from pluralrm.benchmarks.simulated.texts import Topic, attributes, domains, topic_of, write_answer
from pluralrm.conditions import load_condition
from pluralrm.core import Failure
from pluralrm.errors import ModelError, RunError
from pluralrm.files import is_free, whole_folder
from pluralrm.models.neural.loading import quietly
from pluralrm.models.personal.networks import threads
from pluralrm.models.personal.text import seeded
from pluralrm.policies.local import LocalPolicy
from pluralrm.policies.policy import load_policy
from pluralrm.specs import Spec
from pluralrm.templates import load_template

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Tell = Callable[[int, float], None]
_UNKNOWN, _END, _ROLES = "<|unknown|>", "<|end|>", ("<|user|>", "<|assistant|>")
_CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_BETWEEN = r"\n\n|\n|\d+\. | |[^\s]+"
_LONGEST = 512
_WORLD = "simulated:users=150,items=4,domains=1,seed=977"
"""Users who are in no world of another seed: the policy has met no user before its training begins."""
_RATE, _BATCH = 6e-3, 32
MOST_POSTS = 8
"""Of a user, before the question: it learns to write under none, one, ... and as many, each in as many batches."""


def tiny_policy(out: Path, *, seed: int = 0, steps: int = 700, progress: Tell | None = None) -> Path:
    """Write the policy into a new folder, which is there once it is trained, and return it.

    RunError where something is there already, another process writes it, or the disk is full.
    """
    if not is_free(out):
        raise RunError(f"{out}: found something there, wanted a new folder; name another with -o")
    try:
        with whole_folder(out) as beside:
            _write(beside, seed, steps, progress or (lambda _step, _loss: None))
    except BlockingIOError as exc:
        raise RunError(f"{out}: another process is writing it; wait for it or stop it") from exc
    except (OSError, SafetensorError) as exc:
        raise RunError(f"cannot write {out}: {exc}. Make room, or name another folder with -o") from exc
    return out


def _write(out: Path, seed: int, steps: int, progress: Tell) -> None:
    with threads(), seeded(seed):
        tokenizer = _tokenizer(out)
        model = _model(tokenizer)
        _save(model, out)
        policy = load_policy(str(Spec("lm", str(out))))
        if not isinstance(policy, LocalPolicy):
            raise ModelError(f"{out}: cannot be read back")
        _teach(model, _batches(policy, tokenizer, Random(seed)), steps, progress)
        _save(model, out)


def _sentences() -> list[str]:
    """Return every written sentence once."""
    texts = [text for kind in attributes() for level in kind.levels.values() for text in (*level.posts, *level.answers)]
    for domain in domains():
        texts += [*domain.leads, *domain.scenes, *domain.chatter]
        for topic in domain.topics:
            texts += [*topic.questions, *topic.core, *(text for several in topic.sayings.values() for text in several)]
    return list(dict.fromkeys(texts))


def _words() -> list[str]:
    """Return what stands between sentences: spaces, numbers, and the words of the template around posts."""
    bench = load_benchmark(_WORLD)
    text = load_template("profile-v1").render(next(iter(load_condition("recent:20").queries(bench, bench.items[:1]))))
    sentences = _sentences()
    for sentence in sorted(sentences, key=len, reverse=True):
        text = text.replace(sentence, " ")
    names = [f"({domain.name.lower()})" for domain in domains()]
    return list(dict.fromkeys([" ", "\n", "\n\n", *names, *(f"{number}. " for number in range(1, 8)), *text.split()]))


def _tokenizer(out: Path) -> "PreTrainedTokenizerBase":
    special = [_UNKNOWN, *_ROLES, _END]
    vocabulary = {text: index for index, text in enumerate([*special, *_words()])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(_BETWEEN), behavior="isolated")
    raw.decoder = decoders.Fuse()
    raw.add_special_tokens(special)
    raw.add_tokens([AddedToken(text, normalized=False) for text in _sentences()])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token=_UNKNOWN, eos_token=_END, model_max_length=_LONGEST
    )
    tokenizer.chat_template = _CHAT
    out.mkdir(parents=True, exist_ok=True)
    try:
        tokenizer.save_pretrained(out)
    except Exception as exc:  # the tokenizers library raises no narrower class
        raise OSError(str(exc)) from exc
    return tokenizer


def _model(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedModel":
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=_LONGEST,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config)


def _save(model: "PreTrainedModel", out: Path) -> None:
    with quietly():
        model.save_pretrained(out)


Example = tuple[list[int], int]
"""Token ids of prompt and answer, and where the answer begins."""


def _batches(policy: LocalPolicy, tokenizer: "PreTrainedTokenizerBase", rng: Random) -> Iterator[Sequence[Example]]:
    """Yield prompts of users that are in no other world, each with an answer of levels drawn by a coin.

    The prompts of a batch show equally many posts, so that short ones are not padded to the length of others.
    """
    bench, read = load_benchmark(_WORLD), policy.leaving_room(64)
    numbers = range(MOST_POSTS + 1)
    prompts: list[list[tuple[Topic, Sequence[int]]]] = []
    for posts in numbers:
        queries = load_condition(f"recent:{posts}" if posts else "none").queries(bench, bench.items)
        pairs = [(topic_of(query.prompt), read.assemble(query, policy.conversations).sequences[0]) for query in queries]
        prompts.append([(topic, prompt.ids) for topic, prompt in pairs if topic and not isinstance(prompt, Failure)])
    while True:
        for posts in rng.sample(numbers, len(numbers)):
            yield [_example(*rng.choice(prompts[posts]), tokenizer, rng) for _ in range(_BATCH)]


def _example(topic: Topic, prompt: Sequence[int], tokenizer: "PreTrainedTokenizerBase", rng: Random) -> Example:
    levels = {attribute.name: rng.choice(list(attribute.levels)) for attribute in attributes()}
    answer = tokenizer.encode(write_answer(topic, levels, rng), add_special_tokens=False)
    return [*prompt, *answer, tokenizer.eos_token_id], len(prompt)


def _teach(model: "PreTrainedModel", batches: Iterator[Sequence[Example]], steps: int, progress: Tell) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.01)
    model.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = _RATE * min(1.0, (step + 1) / 20) * (1 - step / steps)
        ids, labels = _padded(next(batches))
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        progress(step, float(loss.detach()))
    model.eval()


def _padded(rows: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and labels, padded at the right; a prompt has no label."""
    width = max(len(ids) for ids, _ in rows)
    ids = [[*row, *[0] * (width - len(row))] for row, _ in rows]
    labels = [[*[-100] * start, *row[start:], *[-100] * (width - len(row))] for row, start in rows]
    return torch.tensor(ids), torch.tensor(labels)
