"""Speed of ranking: BM25 at the size of Personalized RewardBench, and embeddings against a per-user loop, interleaved.

    python bench/retrieval.py [users in the embedding part, default 6]

The per-user loop is the way published scripts go: a user's posts in batches of 16 in file order, the question apart,
gradients recorded, each text as often as it occurs. Both sides run the packaged MiniLM in float32, cut at 256 tokens.
"""

import random
import statistics
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
from pluralrm.retrieval.folder import PACKAGED, EmbeddingModel, open_folder

T = TypeVar("T")
ROUNDS = 3
LONGEST = 256


def requests(users: int, posts: int, seed: int) -> list[Request]:
    """Return questions and posts cut from real prose; lengths are lognormal, a sixth of the posts is shared."""
    prose = [word for user in load_benchmark("pocket-prb").users for post in user.posts for word in post.text.split()]
    rng = random.Random(seed)

    def text(words: int) -> str:
        start = rng.randrange(len(prose) - words)
        return " ".join(prose[start : start + words])

    def length() -> int:
        return int(min(400, max(8, rng.lognormvariate(4.3, 0.8))))

    pool = [text(length()) for _ in range(posts * 3)]
    return [
        Request(
            f"q{user}",
            text(30),
            [
                Post(f"{user}-{n:03}", rng.choice(pool) if rng.random() < 1 / 6 else text(length()))
                for n in range(posts)
            ],
        )
        for user in range(users)
    ]


def loop() -> Callable[[Sequence[Request]], list[list[str]]]:
    """Return the per-user loop: ranked post ids for each request."""
    path = open_folder(EmbeddingModel(PACKAGED)).path
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path, dtype=torch.float32).eval()

    def embed(texts: Sequence[str]) -> torch.Tensor:
        batch = tokenizer(list(texts), padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
        states, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None].float()
        return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    def ranked(some: Sequence[Request]) -> list[list[str]]:
        orders = []
        for request in some:
            texts = [post.text for post in request.posts]
            rows = torch.cat([embed(texts[start : start + 16]) for start in range(0, len(texts), 16)])
            scores = (rows @ embed([request.question])[0]).detach().double().numpy().round(6)
            order = sorted(range(len(texts)), key=lambda place: (-scores[place], request.posts[place].id))
            orders.append([request.posts[place].id for place in order])
        return orders

    return ranked


def ours() -> Callable[[Sequence[Request]], list[list[str]]]:
    """Return this package's ranking with an empty cache, weights loaded beforehand."""
    from pluralrm.retrieval.backend import SentenceBackend

    model = EmbeddingModel(PACKAGED)
    backend = SentenceBackend(open_folder(model))

    def ranked(some: Sequence[Request]) -> list[list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            ranker = Ranker(Ranking("embed", model), cache=Path(folder), load=lambda _: backend)
            return [[post.id for post in posts] for posts in ranker.rank(some)]

    return ranked


def timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    many = requests(2830, 100, seed=1)
    seconds, _ = timed(lambda: Ranker().rank(many))
    print(f"bm25: {len(many):,} users x 100 posts in {seconds:.1f} s ({len(many) * 100 / seconds:,.0f} posts/s)")

    some = requests(int(sys.argv[1]) if len(sys.argv) > 1 else 6, 76, seed=2)
    posts = sum(len(request.posts) for request in some)
    sides = (loop(), ours())
    for side in sides:
        side(some[:1])
    ratios = []
    for _ in range(ROUNDS):
        (slow, wanted), (quick, found) = (timed(lambda side=side: side(some)) for side in sides)  # type: ignore[misc]
        ratios.append(slow / quick)
        same = sum(one == other for one, other in zip(wanted, found, strict=True))
        print(
            f"{PACKAGED}: loop {posts / slow:.0f} posts/s, ours {posts / quick:.0f} posts/s, {slow / quick:.2f} times; "
            f"same order for {same} of {len(some)} users"
        )
    print(f"median ratio {statistics.median(ratios):.2f}, on {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
