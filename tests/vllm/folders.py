"""Weights for real servers: a reward head, and a language model that has been taught to give verdicts.

Both have the trap of two BOS: one in the chat template, and one that the tokenizer adds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pluralrm.benchmarks import load_benchmark
from tests.models.neural.tiny import language_folder, reward_folder
from tests.models.neural.tokenizers import CHATML, Build, load

_TWICE = Build(adds_bos=True, template="chatml-bos", beyond=False)
# vLLM's attention on a CPU takes heads of 32 numbers and more.
_WIDE = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}

WORDS: Mapping[str, Sequence[str]] = {
    "<|check|>": ("YES", "NO"),
    "<|compare|>": ("Result: A", "Result: B", "Result: tie"),
    "<|rate|>": tuple(map(str, range(1, 11))),
    "<|muse|>": ("Both are fine.", "It depends."),
}
"""What the judge says, each a token of its own, after the token with which its chat template names the question."""
_NAMED = (
    "{% set last = messages[-1]['content'] %}{{ '<|compare|>' if 'Result: A' in last else "
    "'<|rate|>' if 'from 1 to 10' in last else '<|check|>' if 'YES or NO' in last else '<|muse|>' }}"
)

_CALM = 0.1
"""With such weights the last token shapes a state more than the thousands before it, which still shift it."""
_LOUD = 5.0
_VARIED = 3.0
_SURE = 14.0


def head(path: Path) -> Path:
    """Write a reward head, and return its folder."""
    return reward_folder(path, "qwen2", _TWICE, **_WIDE)


def babbler(path: Path) -> Path:
    """Write a language model with random weights, and return its folder."""
    return language_folder(path, "llama", _TWICE, **_WIDE)


def judge(path: Path) -> Path:
    """Write a language model that says a verdict and ends; which one depends on all that it read. Return its folder.

    It is of a family whose replies `transformers serve` passes on as they are: those of Qwen it takes apart.
    """
    from tokenizers import AddedToken

    language_folder(path, "llama", _TWICE, vocab_size=512, initializer_range=_CALM, **_WIDE)
    tokenizer = load(path)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for words in WORDS.values() for text in words])
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken(text, special=True) for text in WORDS]})
    tokenizer.chat_template = f"{{{{ bos_token }}}}{CHATML}{{% if add_generation_prompt %}}{_NAMED}{{% endif %}}"
    tokenizer.save_pretrained(path)
    _teach(path)
    return path


def _teach(folder: Path) -> None:
    """Turn the output rows of the words, so that at the mean state after a question each of its words is as likely."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = load(folder)
    rows = [tokenizer.convert_tokens_to_ids(list(words)) for words in WORDS.values()]
    said = [row for words in rows for row in words]
    with torch.inference_mode():
        embedded = model.model.embed_tokens.weight
        embedded[said] = embedded[said[0]].clone()  # every word leads to the end alike
        embedded[[*said, *tokenizer.convert_tokens_to_ids(list(WORDS))]] *= _LOUD
        asked = [[tokenizer.encode(text + name) for text in _posts()] for name in WORDS]
        ended = [[*texts[0], said[0]] for texts in asked]
        states = torch.stack([_mean_state(model, texts) for texts in (*asked, ended)])
        for place, ids in enumerate([*rows, [tokenizer.eos_token_id]]):
            wanted = torch.zeros(len(ids), len(states))
            wanted[:, place] = _SURE
            found = _VARIED * model.lm_head.weight[ids]
            model.lm_head.weight[ids] = found + (wanted - found @ states.T) @ torch.linalg.pinv(states).T
    model.save_pretrained(folder)


def _posts() -> list[str]:
    """Return texts of the kind and of the lengths that a judge will read."""
    users = load_benchmark("pocket-prb").users[:4]
    return ["\n".join(post.text for post in user.posts[:number]) for user in users for number in (2, 10)]


def _mean_state(model, texts: Sequence[Sequence[int]]):
    import torch

    states = [model.model(torch.tensor([ids])).last_hidden_state[0, -1] for ids in texts]
    return torch.stack(states).mean(dim=0)
