"""A reward server with 64 clients, one answer a request, against scoring the same one at a time.

The prompt is 2,000 tokens, an answer 128, the model a head of Qwen2's shape with random weights (512 wide, 4 layers).
The bounds are what sharing the prompt alone could give: by tokens, and by arithmetic (an answer attends to its prompt).
"""

import json
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, product, takewhile
from pathlib import Path
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work
from pluralrm.core import Query
from pluralrm.models import load_model
from pluralrm.serve.client import RewardClient

CLIENTS, WIDTH, LAYERS = 64, 512, 4
WORDS = ["".join(letters) for letters in islice(product("abcdefghijklmnop", repeat=3), 4000)]
TEMPLATE = "{% for m in messages %}{{ '<u>' if m.role == 'user' else '<a>' }}{{ m.content }}{{ '<end>' }}{% endfor %}"


def write_model(folder: Path) -> None:
    """Write a folder with random weights and a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

    torch.manual_seed(0)
    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=9000,
        special_tokens=["<pad>", "<u>", "<a>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator([f" {word}" for word in WORDS], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>")  # noqa: S106 - a token of text
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=words.get_vocab_size(),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=3 * WIDTH,
        max_position_embeddings=8192,
        num_labels=1,
        pad_token_id=0,
    )
    Qwen2ForSequenceClassification(config).eval().save_pretrained(folder)


class Rollouts(NamedTuple):
    """Prompts and one answer each, those of a prompt together, as a trainer sends them; and a model."""

    setup: Setup
    spec: str
    pairs: list[tuple[str, str]]
    bounds: dict[str, float]


def rollouts(each: int, setup: Setup) -> Rollouts:
    draw, folder = random.Random(each), setup.folder()
    write_model(folder)
    prompt, answer, count = setup.size(2_000, 40), setup.size(128, 8), setup.size(2_000, 2 * each)
    prompts = [" ".join(draw.choices(WORDS, k=prompt)) for _ in range(-(-count // each))]
    pairs = [(prompts[number // each], " ".join(draw.choices(WORDS, k=answer))) for number in range(count)]
    linear, attention = 2 * (2.5 + 9) * WIDTH**2, 4 * WIDTH
    of_prompt, of_answer = (
        prompt * (linear + attention * prompt / 2),
        answer * (linear + attention * (prompt + answer / 2)),
    )
    bounds = {
        "bound by tokens": (prompt + answer) / (prompt / each + answer),
        "by arithmetic": (of_prompt + of_answer) / (of_prompt / each + of_answer),
    }
    return Rollouts(setup, f"hf:{folder}", pairs, bounds)


def clients(data: Rollouts) -> Work:
    program = "from pluralrm.cli import main; main()"
    lines = data.setup.program("-c", program, "serve", data.spec, "--run", "bench", "--json", "--seconds", "1200")
    address = json.loads("".join(takewhile(lambda line: line != "}\n", lines)) + "}")
    client = RewardClient(address["url"], run="bench", seconds=1200)
    client.handshake()

    def reward(pair: tuple[str, str]) -> tuple[float, float]:
        began = time.monotonic()
        [[value]] = client.rewards([{"prompt": pair[0], "candidates": [pair[1]]}])
        return float("nan") if value is None else value, time.monotonic() - began

    def work() -> Outcome:
        with ThreadPoolExecutor(CLIENTS) as threads:
            rewards, seconds = zip(*threads.map(reward, data.pairs), strict=True)
        late = sorted(seconds)[int(len(seconds) * 0.99)]
        figures = {"p50, s": statistics.median(seconds), "p99, s": late, **data.bounds}
        return Outcome(rewards, len(rewards), figures=figures)

    return work


def one_at_a_time(data: Rollouts) -> Work:
    """Return scoring the first 20 requests, scaled to all."""
    model, some = load_model(data.spec), data.pairs[:20]
    queries = [Query(str(number), prompt, (answer,)) for number, (prompt, answer) in enumerate(some)]
    list(model.score(queries[:1]))

    def work() -> Outcome:
        scores = [float(next(iter(model.score([query]))).scores[0]) for query in queries]  # type: ignore[arg-type]
        return Outcome(scores, len(data.pairs), scale=len(data.pairs) / len(some))

    return work


for each in (16, 64):
    serve = Shape(
        f"serve-{each}",
        f"2,000 requests of one answer, {each} to a prompt of 2,000 tokens, 64 clients",
        partial(rollouts, each),
        unit="requests",
        needs=("torch", "transformers"),
        rounds=2,
        tolerance=1e-5,
    )
    serve.side(clients)
    serve.side(one_at_a_time)
