"""What the blocks of a page need and this machine has not: a hub, servers, weights. All of it is real, small and local.

A mark `needs` names them, and the stage puts them up before the first block, on loopback or in the page's folder. What
it takes is imported where it is put up: each page is a process, and most need none of it.
"""

import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from tests.fake_chat import Action, FakeChat, Seen, say
from tests.grading.markers import by_words, marked
from tests.models.judge.judges import answers, longer, with_logprobs

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
    from tests.benchmarks.hub_server import Hub
    from tests.benchmarks.published import PRB, prb_files
    from tests.benchmarks.published_rows import hub_files

    with Hub() as hub:
        hub.publish(PRB, "main", prb_files())
        for name, files in hub_files().items():
            hub.publish(name, "main", files)
        os.environ |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
        yield ""


@contextmanager
def _repositories(_: str) -> Iterator[str]:
    """Let a model and a data set of one's own be there to push to."""
    from tests.fake_hub import WRITER, FakeHub

    with FakeHub() as hub:
        hub.add("OWNER/MODEL", {"README.md": "# A model\n"})
        hub.add("OWNER/DATASET", {}, "datasets")
        os.environ |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": WRITER}
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
        return say(_in_json(prompt))
    if "Result: A" in prompt:
        return say(longer(shown))
    if "X>Y>Z" in prompt:
        return say(">".join(sorted(shown, key=lambda letter: -len(shown[letter]))))
    forms = {"from 1 to 10": "7", "YES or NO": "YES", 'begins with "- "': "- Ready by evening\n- No new tools"}
    return say(next((reply for form, reply in forms.items() if form in prompt), "Likes bread, and short answers."))


def _in_json(prompt: str) -> str:
    if '"general" or "personal"' in prompt:
        [aspects] = re.findall(r"JSON list of (\d+) words", prompt)
        return json.dumps(["personal"] * int(aspects))
    return _invented(prompt) if "invent choices" in prompt else marked(prompt, by_words)


def _invented(prompt: str) -> str:
    """Return four pairs, others for other posts."""
    mark = zlib.crc32(prompt.encode())
    texts = {"prompt": "What about {}?", "preferred": "Bread, {}.", "other": "A long walk, {}."}
    return json.dumps([{key: text.format(mark + n) for key, text in texts.items()} for n in range(4)])


def _head(dialect: str) -> Callable[[str], Raised]:
    @contextmanager
    def put_up(_: str) -> Iterator[str]:
        from tests.fake_heads import FakeHead, Quirks

        with FakeHead(dialect, Quirks(names=("my-reward-model",), root="my-reward-model")) as server:
            yield f"http://127.0.0.1:{server.port}"

    return put_up


@contextmanager
def _reward_server(_: str) -> Iterator[str]:
    from pluralrm.benchmarks import load_benchmark
    from pluralrm.conditions import load_condition
    from pluralrm.models import load_model
    from pluralrm.serve.server import open_server
    from tests.serve.running import running

    bench, model = load_benchmark("pocket-prb"), load_model("longest")
    with running(open_server(model, load_condition("raw:10"), bench, relative=False, run="my-run")) as url:
        yield url


def _tokenizer(name: str) -> Raised:
    from tests.fake_heads import tokenizer_folder

    tokenizer_folder(Path(name))
    return nullcontext("")


@contextmanager
def _ctrl_c(_: str) -> Iterator[str]:
    """Press Ctrl-C a moment after this process has begun to listen, each time: what it prints is printed by then."""
    known = _listening()

    def press() -> None:
        while not gone.wait(0.2):
            if opened := _listening() - known:
                known.update(opened)
                gone.wait(1.5)
                os.kill(os.getpid(), signal.SIGINT)

    gone = threading.Event()
    somebody = threading.Thread(target=press)
    somebody.start()
    try:
        yield ""
    finally:
        gone.set()
        somebody.join()


def _listening() -> set[int]:
    """Return the inodes of the sockets on which this process accepts connections."""
    inodes = set()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if file.is_socket() and _accepts(os.dup(int(file.name))):
                inodes.add(file.stat().st_ino)
    return inodes


def _accepts(descriptor: int) -> bool:
    with socket.socket(fileno=descriptor) as one:
        internet = one.family in {socket.AF_INET, socket.AF_INET6}
        return internet and bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


# ---------------------------------------------------------------- clusters


_PLURALRM = "from pluralrm.cli import main; main()"

_SBATCH = """
import os, re, subprocess, sys
script = next(word for word in sys.argv[1:] if not word.startswith("-"))
given = " ".join([*sys.argv[1:], open(script).read()])
first, _, last = re.search(r"--array=(\\S+)", given)[1].partition("-")
tasks = range(int(first), int(last or first) + 1)
for task in tasks:
    told = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": len(tasks), "SLURM_ARRAY_TASK_MIN": tasks[0]}
    told |= {"SLURM_ARRAY_TASK_MAX": tasks[-1], "SLURM_ARRAY_JOB_ID": 1, "SLURM_JOB_ID": task}
    with open(f"slurm-1_{task}.out", "w") as out:
        there = {**os.environ, **{name: str(value) for name, value in told.items()}}
        subprocess.run(["bash", script], env=there, stdout=out, stderr=out, check=False)
print("Submitted batch job 1")
"""
"""Runs each task of a job array here, one after the other, with the variables that SLURM sets."""

_SSH = 'import subprocess, sys; sys.exit(subprocess.run(["bash", "-c", sys.argv[2]]).returncode)'
"""Runs here what another machine would run."""

_SUBMITIT = """
import multiprocessing

class AutoExecutor:
    def __init__(self, folder):
        self.parameters = {}
    def update_parameters(self, **parameters):
        self.parameters |= parameters
    def map_array(self, function, *several):
        return [_Job(function, words) for words in zip(*several)]

class _Job:
    def __init__(self, function, words):
        fork = multiprocessing.get_context("fork")
        self._answer, answer = fork.Pipe(duplex=False)
        self._process = fork.Process(target=lambda: answer.send(function(*words)))
        self._process.start()
    def result(self):
        found = self._answer.recv()
        self._process.join()
        return found
"""
"""Runs each job in a process of its own, with the names of submitit that the page uses."""


@contextmanager
def _programs(**programs: str) -> Iterator[str]:
    """Put programs, and ours, before all others; a module is imported from the same folder."""
    folder = Path(".programs").absolute()
    folder.mkdir(exist_ok=True)
    for name, text in {"pluralrm": _PLURALRM, **programs}.items():
        if name.endswith("_py"):
            (folder / f"{name.removesuffix('_py')}.py").write_text(text)
        else:
            (folder / name).write_text(f"#!{sys.executable}\n{text}")
            (folder / name).chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    sys.path.insert(0, str(folder))
    yield ""


def _slurm(_: str) -> Raised:
    return _programs(sbatch=_SBATCH, submitit_py=_SUBMITIT)


def _machines(_: str) -> Raised:
    return _programs(ssh=_SSH)


CLUSTERS = ("a SLURM cluster", "machines over ssh")
"""What makes other programs than ours run."""


# ---------------------------------------------------------------- files


def _experiments(_: str) -> Raised:
    """Put the studies of the repository where a reader in a clone of it has them."""
    shutil.copytree(Path(__file__).parents[2] / "experiments", "experiments")
    return nullcontext("")


# ---------------------------------------------------------------- weights


def _reward(name: str) -> Raised:
    """Write a reward model whose pad token is its eos token, as that of many a published one is."""
    from tests.models.neural.tiny import reward_folder
    from tests.models.neural.tokenizers import Build

    reward_folder(Path(name), build=Build(adds_bos=True, template="instructions", pad="</s>", side="left"))
    return nullcontext("")


def _language(name: str) -> Raised:
    from tests.models.neural.tiny import language_folder

    language_folder(Path(name))
    return nullcontext("")


def _own_code(name: str) -> Raised:
    """Write a model that comes with code, and wants a token of its own at the end."""
    from tests.models.neural.tiny import own_code_folder
    from tests.models.neural.tokenizers import add_token

    own_code_folder(Path(name), "OwnReward", "AutoModel", Path(name, "was-loaded"))
    add_token(Path(name), "<|reward|>")
    return nullcontext("")


def _nothing(_: str) -> Raised:
    return nullcontext("")


PROPS: Mapping[str, Prop] = {
    "the hub": Prop("", _hub),
    "repositories on the hub": Prop("", _repositories),
    "a reward server": Prop("", _reward_server),
    "a chat server": Prop("", _chat),
    "a vLLM server": Prop("", _head("vllm")),
    "an SGLang server": Prop("", _head("sglang")),
    "an OpenRLHF server": Prop("", _head("remote")),
    "somebody who presses Ctrl-C": Prop("", _ctrl_c),
    "a SLURM cluster": Prop("", _slurm),
    "machines over ssh": Prop("", _machines),
    "the repository's experiments": Prop("", _experiments),
    "a tokenizer in NAME": Prop("", _tokenizer),
    "a reward model in NAME": Prop("hf", _reward),
    "a language model in NAME": Prop("hf", _language),
    "a reward model with code of its own in NAME": Prop("hf", _own_code),
    "torch": Prop("hf", _nothing),
    "the extra embed": Prop("embed", _nothing),
    "a sandbox": Prop("sandbox", _nothing),
    "the extra math": Prop("sandbox", _nothing),
    "the extra inspect": Prop("exchange", _nothing),
}
