"""What the blocks of a page need and this machine has not: a hub, servers, weights. All of it is real, small and local.

A mark `needs` names them, and the stage puts them up before the first block, on loopback or in the page's folder.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.hub_server import Hub
from tests.benchmarks.published import PRB, prb_files
from tests.fake_chat import Action, FakeChat, Seen, say
from tests.fake_heads import FakeHead, Quirks, tokenizer_folder
from tests.grading.markers import by_words, marked
from tests.models.judge.judges import answers, longer, with_logprobs
from tests.models.neural.tiny import language_folder, own_code_folder, reward_folder
from tests.models.neural.tokenizers import Build, add_token

Raised = AbstractContextManager[str]
"""Yields the address of a server, or nothing."""


class Prop(NamedTuple):
    """What is put up where a mark names it: the tests that have what it takes, and how; the name is a folder's."""

    tier: str
    put_up: Callable[[str], Raised]


def find(need: str) -> tuple[Prop, str]:
    """Return the prop of a need, and the name in its last word where the prop wants one; KeyError where none is."""
    if need in PROPS:
        return PROPS[need], ""
    kind, _, name = need.rpartition(" ")
    return PROPS[f"{kind} NAME"], name


def tier(needs: list[str]) -> str:
    """Return the marker of the tests that run a block of these needs, '' for the default ones."""
    [*named] = {find(need)[0].tier for need in needs} - {""}
    if len(named) > 1:
        raise ValueError(f"no test has all of it: {', '.join(needs)}")
    return named[0] if named else ""


# ---------------------------------------------------------------- the hub


@contextmanager
def _hub(_: str) -> Iterator[str]:
    """Serve the data set under its own id; its client reads these variables when it is imported."""
    with Hub() as hub:
        hub.publish(PRB, "main", prb_files())
        os.environ |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
        yield ""


# ---------------------------------------------------------------- servers


@contextmanager
def _chat(_: str) -> Iterator[str]:
    with FakeChat(_said) as server:
        os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "a-key-that-opens-nothing"}
        yield f"http://127.0.0.1:{server.port}"


_ANSWERS = (
    "Start with ten minutes an evening, and stop while it still goes well.",
    "Ask somebody nearby who has done it for years.",
    "Write down what you have, what you want, and the first step between the two.",
    "",
    "Leave it until spring.",
)


def _said(seen: Seen) -> Action:
    """Answer in the form that is asked for, as a judge that likes long answers; where none is, in a sentence."""
    prompt = str(seen.body["messages"][0]["content"])
    shown = answers(prompt)
    if "top_p" in seen.body:  # a policy: what it says is drawn
        return say(_ANSWERS[seen.body["seed"] % len(_ANSWERS)])
    if seen.body.get("top_logprobs"):
        return with_logprobs(("YES", {"YES": -0.2, "NO": -1.8}))
    if "JSON" in prompt:
        return say(marked(prompt, by_words))
    if "Result: A" in prompt:
        return say(longer(shown))
    if "X>Y>Z" in prompt:
        return say(">".join(sorted(shown, key=lambda letter: -len(shown[letter]))))
    forms = {"from 1 to 10": "7", "YES or NO": "YES", 'begins with "- "': "- Ready by evening\n- No new tools"}
    return say(next((reply for form, reply in forms.items() if form in prompt), "Likes bread, and short answers."))


def _head(dialect: str) -> Callable[[str], Raised]:
    @contextmanager
    def put_up(_: str) -> Iterator[str]:
        with FakeHead(dialect, Quirks(names=("my-reward-model",), root="my-reward-model")) as server:
            yield f"http://127.0.0.1:{server.port}"

    return put_up


def _tokenizer(name: str) -> Raised:
    tokenizer_folder(Path(name))
    return nullcontext("")


# ---------------------------------------------------------------- weights


def _reward(name: str) -> Raised:
    """Write a reward model whose pad token is its eos token, as that of many a published one is."""
    reward_folder(Path(name), build=Build(adds_bos=True, template="instructions", pad="</s>", side="left"))
    return nullcontext("")


def _language(name: str) -> Raised:
    language_folder(Path(name))
    return nullcontext("")


def _own_code(name: str) -> Raised:
    """Write a model that comes with code, and wants a token of its own at the end."""
    own_code_folder(Path(name), "OwnReward", "AutoModel", Path(name, "was-loaded"))
    add_token(Path(name), "<|reward|>")
    return nullcontext("")


def _nothing(_: str) -> Raised:
    return nullcontext("")


PROPS: Mapping[str, Prop] = {
    "the hub": Prop("", _hub),
    "a chat server": Prop("", _chat),
    "a vLLM server": Prop("", _head("vllm")),
    "an SGLang server": Prop("", _head("sglang")),
    "an OpenRLHF server": Prop("", _head("remote")),
    "a tokenizer in NAME": Prop("", _tokenizer),
    "a reward model in NAME": Prop("hf", _reward),
    "a language model in NAME": Prop("hf", _language),
    "a reward model with code of its own in NAME": Prop("hf", _own_code),
    "torch": Prop("hf", _nothing),
    "the extra embed": Prop("embed", _nothing),
}
