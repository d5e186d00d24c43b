"""Speed of ranking: BM25 at the size of Personalized RewardBench, and embeddings against a per-user loop, interleaved.

    python bench/retrieval.py [users in the embedding part, default 6]

The per-user loop is the way published scripts go: a user's posts in batches of 16 in file order, the question apart,
gradients recorded, each text as often as it occurs. Both sides run the packaged MiniLM in float32, cut at the same
length: the 512 tokens that it can read, as those scripts do, and its own 256. Most of the gain is padding that is not
computed, so it depends on how much the lengths of posts differ; `padding` says what that alone is worth.
"""

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from transformers import AutoModel, AutoTokenizer

from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Post
from pluralrm.retrieval import Ranker, Ranking, Request
from pluralrm.retrieval.backend import SentenceBackend
from pluralrm.retrieval.encoder import PACKAGED, EmbeddingModel, batches, open_folder

T = TypeVar("T")
Rank = Callable[[Sequence[Request]], list[list[str]]]
ROUNDS = 3
WIDTH, LAYERS, WEIGHTS = 384, 6, 10_616_832
"""MiniLM's shape, and the weights of its layers that every token passes."""


def requests(users: int, posts: int, seed: int) -> list[Request]:
    """Return questions and posts cut from real prose: about 137 tokens, lognormal; a sixth of the posts is shared."""
    prose = [word for user in load_benchmark("pocket-prb").users for post in user.posts for word in post.text.split()]
    rng = random.Random(seed)

    def text(words: int) -> str:
        start = rng.randrange(len(prose) - words)
        return " ".join(prose[start : start + words])

    def long() -> str:
        return text(int(min(600, max(8, rng.lognormvariate(4.5, 0.65)))))

    pool = [long() for _ in range(posts * 3)]
    return [
        Request(
            f"q{user}",
            text(30),
            [Post(f"{user}-{n:03}", rng.choice(pool) if rng.random() < 1 / 6 else long()) for n in range(posts)],
        )
        for user in range(users)
    ]


def model_at(limit: int, folder: Path) -> EmbeddingModel:
    """Return the packaged model, told to read `limit` tokens."""
    shutil.copytree(open_folder(EmbeddingModel(PACKAGED)).path, folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit, "do_lower_case": False}))
    return EmbeddingModel(str(folder))


def per_user_loop(model: EmbeddingModel, limit: int) -> Rank:
    """Return the loop, which gives ranked post ids for each request."""
    tokenizer = AutoTokenizer.from_pretrained(model.name)
    encoder = AutoModel.from_pretrained(model.name, dtype=torch.float32).eval()

    def embed(texts: Sequence[str]) -> torch.Tensor:
        batch = tokenizer(list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt")
        states, mask = encoder(**batch).last_hidden_state, batch["attention_mask"][..., None].float()
        return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    def ranked(request: Request) -> list[str]:
        texts = [post.text for post in request.posts]
        rows = torch.cat([embed(texts[start : start + 16]) for start in range(0, len(texts), 16)])
        scores = (rows @ embed([request.question])[0]).tolist()
        order = sorted(range(len(texts)), key=lambda place: (-round(scores[place], 6), request.posts[place].id))
        return [request.posts[place].id for place in order]

    return lambda some: [ranked(request) for request in some]


def ours(model: EmbeddingModel, backend: SentenceBackend) -> Rank:
    """Return this package's ranking, with an empty cache each time and the weights loaded beforehand."""

    def ranked(some: Sequence[Request]) -> list[list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            ranker = Ranker(Ranking("embed", model), cache=Path(folder), load=lambda _: backend)
            return [[post.id for post in posts] for posts in ranker.rank(some)]

    return ranked


def padding(some: Sequence[Request], backend: SentenceBackend) -> float:
    """Return the arithmetic of the loop over ours."""

    def work(lengths: Sequence[int]) -> int:
        return len(lengths) * max(lengths) * (WEIGHTS + 2 * max(lengths) * WIDTH * LAYERS)

    per_user = [backend.lengths([post.text for post in request.posts]) for request in some]
    once = backend.lengths(list(dict.fromkeys(post.text for request in some for post in request.posts)))
    loop = sum(work(lengths[start : start + 16]) for lengths in per_user for start in range(0, len(lengths), 16))
    return loop / sum(work([once[place] for place in batch]) for batch in batches(once, backend.budget))


def timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def compare(some: Sequence[Request], limit: int) -> None:
    """Print the ratio of each round and of all rounds."""
    posts = sum(len(request.posts) for request in some)
    with tempfile.TemporaryDirectory() as folder:
        model = model_at(limit, Path(folder) / "model")
        backend = SentenceBackend(open_folder(model))
        loop, quick = per_user_loop(model, limit), ours(model, backend)
        print(f"cut at {limit} tokens; padding: {padding(some, backend):.2f} times", flush=True)
        loop(some[:1]), quick(some[:1])
        total = [0.0, 0.0]
        for _ in range(ROUNDS):
            (slow, wanted), (fast, found) = timed(lambda: loop(some)), timed(lambda: quick(some))
            same = sum(one == other for one, other in zip(wanted, found, strict=True))
            total = [total[0] + slow, total[1] + fast]
            print(
                f"  loop {posts / slow:.0f} posts/s, ours {posts / fast:.0f} posts/s: {slow / fast:.2f} times; "
                f"same order for {same} of {len(some)} users",
                flush=True,
            )
    print(f"  all rounds: {total[0] / total[1]:.2f} times, on {torch.get_num_threads()} threads")


def main() -> None:
    many = requests(2830, 100, seed=1)
    seconds, _ = timed(lambda: Ranker().rank(many))
    print(f"bm25: {len(many):,} users x 100 posts in {seconds:.1f} s ({len(many) * 100 / seconds:,.0f} posts/s)")
    some = requests(int(sys.argv[1]) if len(sys.argv) > 1 else 6, 76, seed=2)
    for limit in (512, 256):
        compare(some, limit)


if __name__ == "__main__":
    main()
