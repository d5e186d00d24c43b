"""Users who want answers in a tone of their own, and a tiny policy that half heeds them: words of `simulated`, no more.

A user's posts speak for one tone. The policy is trained from scratch to open an answer with a sentence of some tone,
of the user's own a little more often than of any other. The reward knows which tone the posts speak for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

from pluralrm.benchmarks.simulated.texts import attributes, domains, read_post
from pluralrm.card import Card
from pluralrm.conditions import load_condition
from pluralrm.core import Benchmark, Failure, Item, Post, Query, User, Verdict
from pluralrm.grading.grader import Graded
from pluralrm.http import Tally
from pluralrm.policies.policy import load_policy

if TYPE_CHECKING:
    from pluralrm.policies.local import LocalPolicy

CONDITION = "recent:1"
TONE = next(each for each in attributes() if each.name == "tone")
TONES = tuple(TONE.levels)
POSTS = {name: level.posts[:3] for name, level in TONE.levels.items()}
ANSWERS = {name: level.answers[:2] for name, level in TONE.levels.items()}
"""Few of each, so that a policy of 100,000 weights learns them in seconds."""
QUESTIONS = tuple(topic.questions[0] for domain in domains() for topic in domain.topics[:2])
_HEEDED = 0.6
_RATE = 6e-3
"""How often the policy opens in the user's tone before PPO; chance is 1/3 of three."""
_UNKNOWN, _END = "<|unknown|>", "<|end|>"
_CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)


def tones_benchmark(users: int = 90, items: int = 2, *, seed: int = 0) -> Benchmark:
    """Return prompts of users in turn of each tone; there are no candidates."""
    card = Card("tones", "users with a taste in tone", "Apache-2.0", "written here", "not labelled", metrics=())
    made = (item for number in range(users) for item in _items(number, items, Random(f"{seed}:{number}")))
    return Benchmark(card, tuple(made))


def _items(number: int, items: int, rng: Random) -> Iterator[Item]:
    tone = TONES[number % len(TONES)]
    posts = tuple(Post(f"p{place}", text) for place, text in enumerate(rng.sample(POSTS[tone], 3)))
    user = User(f"u{number:03}", posts)
    for place, question in enumerate(rng.sample(QUESTIONS, items)):
        yield Item(f"{user.id}-{place}", question, (), None, user.id, "tones", user=user, tags={"tone": tone})


def tone_of(text: str) -> str | None:
    """Return the tone of an answer, None where it is no sentence of any."""
    said = " ".join(text.split())
    return next((name for name, answers in ANSWERS.items() if said in answers), None)


class ToneReward:
    """1 where the answer is in the tone that the posts shown speak for, else 0."""

    spec = "tones"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            assert query.user is not None
            [wanted] = {signal.level for post in query.user.posts for signal in read_post(post.text)}
            yield Verdict(tuple(float(tone_of(text) == wanted) for text in query.candidates))


class ToneGrader:
    """Grades by the tone that the item's user has, 1 or 0: a grader, which may read what no reward model sees."""

    spec = "tone"
    model = "tone"
    identity: ClassVar[Mapping[str, str]] = {}
    tally = Tally()

    def unsupported(self, items: Sequence[Item]) -> str | None:
        return None if all("tone" in item.tags for item in items) else "has no tones"

    def prompts(self, item: Item, text: str) -> list[str]:  # noqa: ARG002 - as every grader takes them
        return []

    def grade(self, answers: Iterable[tuple[Item, str]]) -> Iterator[Graded]:
        for item, text in answers:
            yield Graded(item.id, text, float(tone_of(text) == item.tags["tone"]))


class ConstantReward:
    """The same for every answer."""

    spec = "the same"

    def score(self, queries: Iterable[Query]) -> Iterator[Verdict]:
        for query in queries:
            yield Verdict((0.7,) * len(query.candidates))


def tone_policy(path: Path, *, steps: int = 250, seed: int = 0, hidden: int = 64) -> "LocalPolicy":
    """Write the tiny policy and return it; training takes some seconds."""
    import torch
    import transformers

    from pluralrm.policies.local import LocalPolicy

    tokenizer = _tokenizer(path)
    ends = tokenizer.convert_tokens_to_ids(_END)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=ends,
            pad_token_id=None,
            tie_word_embeddings=True,
        )
        model = transformers.LlamaForCausalLM(config)
    _save(model, path)
    policy = load_policy(f"lm:{path}")
    assert isinstance(policy, LocalPolicy)
    _teach(model, policy, tokenizer, steps=steps, seed=seed)
    _save(model, path)
    policy = load_policy(f"lm:{path}")
    assert isinstance(policy, LocalPolicy)
    return policy


def _save(model, path: Path) -> None:
    from pluralrm.models.neural.loading import quietly

    with quietly():
        model.save_pretrained(path)


def _tokenizer(path: Path):
    """Write and return a tokenizer of whole words, which spells out everything that is shown here exactly."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    level_texts = [text for tone in TONES for text in (*POSTS[tone], *ANSWERS[tone])]
    around = ["Earlier posts by the person who asks:\n\n[1] [2] [3] \n\nWhat this person asks now:\n\n"]
    raw = Tokenizer(models.WordLevel(unk_token=_UNKNOWN))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    special = [_UNKNOWN, "<|user|>", "<|assistant|>", _END]
    raw.train_from_iterator([*level_texts, *QUESTIONS, *around], trainers.WordLevelTrainer(special_tokens=special))
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token=_UNKNOWN, eos_token=_END, model_max_length=256
    )
    made.chat_template = _CHAT
    path.mkdir(parents=True, exist_ok=True)
    made.save_pretrained(path)
    return made


def _teach(model, policy: "LocalPolicy", tokenizer, *, steps: int, seed: int) -> None:
    """Train the model on prompts of users that nobody else meets, each with a sentence of some tone."""
    import torch

    bench = tones_benchmark(60, 4, seed=1000 + seed)
    rng, read = Random(seed), policy.leaving_room(32)
    shown = load_condition(CONDITION).queries(bench, bench.items)
    made = [read.assemble(query, policy.conversations).sequences[0] for query in shown]
    asked = [one.ids for one in made if not isinstance(one, Failure)]
    assert len(asked) == len(bench.items)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.01)
    model.train()
    for step in range(steps):
        rate = _RATE * (1 - step / steps)
        optimizer.param_groups[0]["lr"] = rate
        rows = [
            _example(asked[place], bench.items[place], tokenizer, rng) for place in rng.sample(range(len(asked)), 32)
        ]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids, _ in rows])
        labels = torch.tensor([[*[-100] * start, *ids[start:], *[-100] * (width - len(ids))] for ids, start in rows])
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def _example(prompt, item: Item, tokenizer, rng: Random):
    own = item.tags["tone"]
    tone = own if rng.random() < _HEEDED else rng.choice([name for name in TONES if name != own])
    said = tokenizer.encode(rng.choice(ANSWERS[tone]), add_special_tokens=False)
    return [*prompt, *said, tokenizer.eos_token_id], len(prompt)
