"""What a reward server is worth: 64 clients and 2,000 requests of one answer each, against scoring one at a time.

    python bench/serve.py [--requests 2000] [--clients 64] [--rollouts 16,64] [--alone 40] [--write]

The prompt is 2,000 tokens, an answer 128, the model a head of Qwen2's shape with random weights (512 wide, 4 layers).
One process serves, another holds the clients; the same model scores some requests one at a time, before and after.
Beside the ratio stands the bound: what sharing tokens alone could give, by tokens and by arithmetic. What was scored
both ways is compared.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

WIDTH, LAYERS, PROMPT, ANSWER = 512, 4, 2000, 128
WORDS = ["".join(letters) for letters in itertools.islice(itertools.product("abcdefghijklmnop", repeat=3), 4000)]
CLIENTS = """
import json, sys, threading, time
from pluralrm.serve.client import RewardClient
asked = json.load(sys.stdin)
client = RewardClient(asked["url"], run=asked["run"], seconds=1200)
client.handshake()
work = list(enumerate(asked["rollouts"]))[::-1]
found, taken, lock = {}, {}, threading.Lock()
def turn():
    while True:
        with lock:
            if not work:
                return
            place, rollout = work.pop()
        began = time.monotonic()
        [[reward]] = client.rewards([rollout])
        taken[place], found[place] = time.monotonic() - began, reward
began = time.monotonic()
threads = [threading.Thread(target=turn) for _ in range(asked["clients"])]
[one.start() for one in threads]; [one.join() for one in threads]
took = time.monotonic() - began
places = range(len(asked["rollouts"]))
print(json.dumps({"seconds": took, "scores": [found[p] for p in places], "each": [taken[p] for p in places]}))
"""


def write_model(folder: Path) -> None:
    """Write a folder with random weights and a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification

    torch.manual_seed(0)
    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<pad>", "<u>", "<a>", "<end>"]
    trainer = trainers.BpeTrainer(
        vocab_size=9000,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator([f" {word}" for word in WORDS], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>")  # noqa: S106 - a token of text
    tokenizer.chat_template = (
        "{% for m in messages %}{{ '<u>' if m.role == 'user' else '<a>' }}{{ m.content }}{{ '<end>' }}{% endfor %}"
    )
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


def rollouts_of(requests: int, each: int) -> list[dict[str, object]]:
    """Return requests of one answer, those of one prompt together, as a trainer sends them."""
    draw = random.Random(each)
    found: list[dict[str, object]] = []
    for _ in range(-(-requests // each)):
        prompt = " ".join(draw.choices(WORDS, k=PROMPT))
        found += [{"prompt": prompt, "candidates": [" ".join(draw.choices(WORDS, k=ANSWER))]} for _ in range(each)]
    return found[:requests]


def bounds(each: int) -> tuple[float, float]:
    """Return what sharing the prompt could give: by tokens, and by arithmetic (an answer attends to its prompt)."""
    linear = 2 * (2.5 + 9) * WIDTH**2
    attention = 4 * WIDTH
    prompt = PROMPT * (linear + attention * PROMPT / 2)
    answer = ANSWER * (linear + attention * (PROMPT + ANSWER / 2))
    return (PROMPT + ANSWER) / (PROMPT / each + ANSWER), (prompt + answer) / (prompt / each + answer)


def alone(spec: str, rollouts: Sequence[dict[str, object]]) -> tuple[float, list[float]]:
    """Return seconds per request and the scores of some requests, one at a time."""
    from pluralrm.core import Query
    from pluralrm.models import load_model

    model = load_model(spec)
    queries = [
        Query(str(place), str(one["prompt"]), (str(one["candidates"][0]),))  # type: ignore[index]
        for place, one in enumerate(rollouts)
    ]
    list(model.score(queries[:1]))
    began = time.monotonic()
    scores = [float(next(iter(model.score([query]))).scores[0]) for query in queries]  # type: ignore[arg-type]
    return (time.monotonic() - began) / len(queries), scores


def served(spec: str, rollouts: Sequence[dict[str, object]], clients: int) -> dict[str, object]:
    """Return what the clients saw, and the server's counters."""
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    program = "from pluralrm.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", spec, "--run", "bench", "--json", "--seconds", "1200"]
    server = subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None  # noqa: S101 - it was asked for
    said = ""
    while not said.endswith("\n}\n"):
        said += server.stdout.readline()
    try:
        url = json.loads(said)["url"]
        asked = {"url": url, "run": "bench", "rollouts": list(rollouts), "clients": clients}
        done = subprocess.run(  # noqa: S603 - as above
            [sys.executable, "-c", CLIENTS], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True
        )
        connection = HTTPConnection(urlsplit(url).hostname or "", urlsplit(url).port)
        connection.request("GET", "/metrics")
        counters = connection.getresponse().read().decode()
        connection.close()
    finally:
        server.terminate()
        server.wait()
    return {**json.loads(done.stdout), "counters": counters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rollouts", default="16,64")
    parser.add_argument("--alone", type=int, default=40)
    chosen = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        spec = f"hf:{folder}"
        for each in map(int, chosen.rollouts.split(",")):
            rollouts = rollouts_of(chosen.requests, each)
            half = chosen.alone // 2
            before, first = alone(spec, rollouts[:half])
            seen = served(spec, rollouts, chosen.clients)
            after, second = alone(spec, rollouts[half : 2 * half])
            report(each, seen, (before + after) / 2, [*first, *second])


def report(each: int, seen: dict[str, object], one: float, direct: Sequence[float]) -> None:
    scores, taken = seen["scores"], sorted(seen["each"])  # type: ignore[call-overload]
    total = float(seen["seconds"])  # type: ignore[arg-type]
    apart = max(abs(a - b) for a, b in zip(scores, direct, strict=False))  # type: ignore[call-overload]
    by_tokens, by_arithmetic = bounds(each)
    counted = [
        line for line in str(seen["counters"]).splitlines() if line.startswith("pluralrm_") and "bucket" not in line
    ]
    print(
        f"{each} rollouts a prompt: {len(taken) / total:.1f} requests/s, one at a time {1 / one:.2f}/s: "
        f"{len(taken) / total * one:.2f} times as many (bound by shared tokens {by_tokens:.1f}, by arithmetic "
        f"{by_arithmetic:.1f}); p50 {statistics.median(taken):.2f} s, p99 {taken[int(len(taken) * 0.99)]:.2f} s; "
        f"largest difference of scores {apart:.1e}",
        flush=True,
    )
    print("   ", "; ".join(line.removeprefix("pluralrm_") for line in counted[:8]), flush=True)


if __name__ == "__main__":
    main()
