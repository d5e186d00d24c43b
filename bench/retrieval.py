"""Ranking by embeddings against a per-user loop; `startup-prb` ranks by words.

The loop is the way published scripts go: a user's posts in batches of 16 in file order, the question apart, gradients
recorded, each text as often as it occurs. Both sides run the packaged MiniLM in float32, cut at the same length: the
512 tokens that it can read, as those scripts do, and its own 256. Most of the gain is padding that is not computed, so
it depends on how much the lengths of posts differ; `padding` says what that alone is worth.
"""

import json
import random
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import Outcome, Setup, Shape, Work
from pluralrm.benchmarks import load_benchmark
from pluralrm.core import Post
from pluralrm.retrieval import Ranker, Ranking, Request
from pluralrm.retrieval.backend import SentenceBackend
from pluralrm.retrieval.encoder import PACKAGED, EmbeddingModel, batches, open_folder

BATCH = 16
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


class Task(NamedTuple):
    """What is ranked, and by which model."""

    requests: list[Request]
    model: EmbeddingModel
    limit: int

    def outcome(self, orders: Sequence[Sequence[str]], padding: float | None = None) -> Outcome:
        """Return the places of all posts in the orders, to be compared."""
        places = [
            float({id_: place for place, id_ in enumerate(order)}[post.id])
            for request, order in zip(self.requests, orders, strict=True)
            for post in request.posts
        ]
        return Outcome(places, len(places), figures={} if padding is None else {"padding": padding})


def task(limit: int, setup: Setup) -> Task:
    """Return users of 76 posts, and the packaged model, told to read `limit` tokens."""
    folder = setup.folder() / "model"
    shutil.copytree(open_folder(EmbeddingModel(PACKAGED)).path, folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit, "do_lower_case": False}))
    return Task(requests(setup.size(6, 1), setup.size(76, 8), seed=2), EmbeddingModel(str(folder)), limit)


def each_text_once(data: Task) -> Work:
    """Return this package's ranking, with an empty cache each time and the weights loaded beforehand."""
    backend = SentenceBackend(open_folder(data.model))
    wasted = padding(data.requests, backend)

    def work() -> Outcome:
        with TemporaryDirectory() as folder:
            ranker = Ranker(Ranking("embed", data.model), cache=Path(folder), load=lambda _: backend)
            return data.outcome([[post.id for post in posts] for posts in ranker.rank(data.requests)], wasted)

    return work


def padding(some: Sequence[Request], backend: SentenceBackend) -> float:
    """Return the arithmetic of the loop over ours."""

    def work(lengths: Sequence[int]) -> int:
        return len(lengths) * max(lengths) * (WEIGHTS + 2 * max(lengths) * WIDTH * LAYERS)

    per_user = [backend.lengths([post.text for post in request.posts]) for request in some]
    once = backend.lengths(list(dict.fromkeys(post.text for request in some for post in request.posts)))
    loop = sum(work(lengths[start : start + BATCH]) for lengths in per_user for start in range(0, len(lengths), BATCH))
    return loop / sum(work([once[place] for place in batch]) for batch in batches(once, backend.budget))


def per_user_loop(data: Task) -> Work:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(data.model.name)
    encoder = AutoModel.from_pretrained(data.model.name, dtype=torch.float32).eval()

    def embed(texts: Sequence[str]) -> torch.Tensor:
        batch = tokenizer(list(texts), padding=True, truncation=True, max_length=data.limit, return_tensors="pt")
        states, mask = encoder(**batch).last_hidden_state, batch["attention_mask"][..., None].float()
        return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    def order(request: Request) -> list[str]:
        texts = [post.text for post in request.posts]
        rows = torch.cat([embed(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)])
        scores = (rows @ embed([request.question])[0]).tolist()
        places = sorted(range(len(texts)), key=lambda place: (-round(scores[place], 6), request.posts[place].id))
        return [request.posts[place].id for place in places]

    return lambda: data.outcome([order(request) for request in data.requests])


for limit in (512, 256):
    embed = Shape(
        f"retrieval-{limit}",
        f"6 users of 76 posts by MiniLM, {limit} tokens",
        partial(task, limit),
        unit="posts",
        needs=("torch", "transformers"),
        rounds=3,
    )
    embed.side(each_text_once)
    embed.side(per_user_loop)
