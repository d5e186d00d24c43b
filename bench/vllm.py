"""Against vLLM: our engine and a real `vllm serve` of the same weights in turn, our client, what a judge's order saves.

vLLM is that of `make test-vllm` (`.vllm`), or the command in VLLM. It is stopped (SIGSTOP) whenever it is not its turn:
idle, it spins for a second. Before each run its prefix cache is emptied. On a GPU both run there, in bfloat16 too.
"""

import asyncio
import atexit
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

from bench import Outcome, Setup, Shape, Work
from bench.run import PROGRAMS, has

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from pluralrm.core import Query, Verdict
    from pluralrm.models.served import ServedHead

NAME = "bench"
GPU = has("nvidia")
ANSWERS = {
    "pairs": (192, 12),
    "pairs-posts": (32, 2),
    "rmgap": (72, 4),
    "bon16": (4, 1),
    "bon64": (2, 1),
}
"""Prompts of each shape of `scoring`, in full and at the smallest size."""
TUNED = ("--max-num-batched-tokens", "2048", "--max-num-seqs", "64", "--block-size", "32")
"""The best that was found on two cores; RESULTS.md has the others."""
VERDICTS = ("YES", "NO")
"""Tokens of their own, right after the special ones."""
_PATIENCE = 600.0
_AT_ONCE = 64
PAGE = os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- weights and server


def write_weights(folder: Path, *, judge: bool = False) -> Path:
    """Write weights of Qwen2's shape and a tokenizer of single bytes; return the folder."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from bench.scoring import config

    torch.manual_seed(0)
    if judge:
        language = transformers.AutoModelForCausalLM.from_config(config())
        _only_yes_and_no(language)
        language.save_pretrained(folder)
    else:
        transformers.AutoModelForSequenceClassification.from_config(config()).save_pretrained(folder)
    special = ("<pad>", "<a>", "<end>")
    symbols = (*special, *VERDICTS, *sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = Tokenizer(models.BPE({symbol: number for number, symbol in enumerate(symbols)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    tokenizer.add_tokens(list(VERDICTS))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")  # noqa: S106 - of text
    fast.chat_template = (
        "{% for m in messages %}{{ m.content }}{{ '<end>' if m.role == 'assistant' else '<a>' }}{% endfor %}"
    )
    fast.save_pretrained(folder)
    return folder


def _only_yes_and_no(model: "PreTrainedModel") -> None:
    """Make every other token unlikely: one number of a state is large everywhere, and counts against them."""
    import torch

    body, head = model.get_input_embeddings(), model.get_output_embeddings()
    with torch.no_grad():
        body.weight[:, 0] = 1.0
        head.weight[:, 0] = -20.0
        head.weight[3 : 3 + len(VERDICTS), 0] = 0.0


@dataclass(frozen=True)
class Server:
    """A `vllm serve`, in a process group of its own."""

    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, method: str = "GET") -> str:
        """Return what a route says."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    @contextmanager
    def awake(self) -> Iterator["Watch"]:
        """Let it run, with an empty prefix cache."""
        os.killpg(self.process.pid, signal.SIGCONT)
        self.get("/reset_prefix_cache", "POST")
        watch = Watch(self)
        yield watch
        watch.end()
        os.killpg(self.process.pid, signal.SIGSTOP)

    def hits(self) -> tuple[float, float]:
        """Return the tokens that its prefix cache was asked for, and those that it had."""
        text = self.get("/metrics")
        names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
        asked, had = (sum(map(float, re.findall(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE))) for name in names)
        return asked, had

    def memory(self) -> float:
        """Return MiB: resident of all its processes, or what it holds of the GPU."""
        pids = self._processes()
        if not GPU:
            return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * PAGE / 2**20
        query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        rows = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603
        return sum(float(row.split(",")[1]) for row in rows if int(row.split(",")[0]) in pids)

    def cpu(self) -> float:
        """Return the processor seconds of all its processes."""
        times = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._processes())
        return sum(int(fields[11]) + int(fields[12]) for fields in times) / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> list[int]:
        numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        return [pid for pid in numbers if _group(pid) == self.process.pid]

    def close(self) -> None:
        """End it to the last worker."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Watch:
    """A run's seconds, and what the prefix cache had."""

    def __init__(self, server: Server) -> None:
        self._server, self._before, self._cpu = server, server.hits(), server.cpu()
        self._start = time.perf_counter()
        self.seconds, self.figures = 0.0, dict[str, float]()

    def end(self) -> None:
        """Take the time and read the counters."""
        self.seconds = time.perf_counter() - self._start
        asked, had = (now - then for now, then in zip(self._server.hits(), self._before, strict=True))
        self.figures = {
            "cached, %": 100 * had / max(asked, 1),
            "server CPU, s": self._server.cpu() - self._cpu,
            "server, MiB": self._server.memory(),
        }


def _group(pid: int) -> int:
    """Return the process group of a process, 0 where it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


@cache
def serve(dtype: str, *words: str, judge: bool = False) -> Server:
    """Return a server of new weights; one per process, for the warm-up too."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    write_weights(folder / "m", judge=judge)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [PROGRAMS["vllm"], "serve", str(folder / "m"), "--served-model-name", NAME, "--port", str(port)]
    command += ["--host", "127.0.0.1", "--dtype", dtype, "--max-model-len", "8192", *words]
    cores = f"0-{(os.cpu_count() or 1) - 1}"
    settings = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": cores}
    settings |= {} if GPU else {"VLLM_TARGET_DEVICE": "cpu"}
    settings |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
    settings |= {name: os.environ[name] for name in os.environ if name.startswith("VLLM_")}
    log = (folder / "log").open("w")
    kept = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    process = subprocess.Popen(  # noqa: S603 - the engine that was set up for this
        command, env=kept | {"HOME": str(folder)} | settings, stdout=log, stderr=log, start_new_session=True
    )
    server = Server(process, port)
    atexit.register(server.close)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # else nothing would end the server
    ends = time.monotonic() + _PATIENCE
    while True:
        with suppress(OSError):
            server.get("/health")
            break
        if process.poll() is not None or time.monotonic() > ends:
            raise ChildProcessError((folder / "log").read_text()[-3000:])
        time.sleep(0.5)
    os.killpg(process.pid, signal.SIGSTOP)
    return server


async def post(url: str, bodies: Sequence[bytes], concurrency: int) -> list[float]:
    """Return the scores behind `/classify`, by a plain loop."""
    import httpx2

    slots = asyncio.Semaphore(concurrency)
    headers = {"content-type": "application/json"}

    async def ask(client: httpx2.AsyncClient, body: bytes) -> list[float]:
        async with slots:
            reply = await client.post(f"{url}/classify", content=body, headers=headers)
        return [float(entry["probs"][-1]) for entry in reply.json()["data"]]

    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx2.AsyncClient(limits=limits, timeout=_PATIENCE) as client:
        return [score for scores in await asyncio.gather(*(ask(client, body) for body in bodies)) for score in scores]


# ---------------------------------------------------------------- five shapes


@dataclass(frozen=True)
class Sequences:
    """Token ids by prompt, and the type of the weights."""

    groups: list[list[tuple[int, ...]]]
    dtype: str


def sequences(name: str, dtype: str, setup: Setup) -> Sequences:
    """Return the sequences of a shape of `scoring`, or the first of them."""
    from bench.scoring import SHAPES, groups

    return Sequences(groups(SHAPES[name])[: setup.size(*ANSWERS[name])], dtype)


def ours(data: Sequences) -> Work:
    """Return our engine at work."""
    import torch

    from pluralrm.models.neural.folder import open_folder
    from pluralrm.models.neural.loading import LoadSettings, open_head
    from pluralrm.models.neural.trees import pooled

    with tempfile.TemporaryDirectory() as folder:
        write_weights(Path(folder))
        settings = LoadSettings(dtype=data.dtype, device="cuda" if GPU else "cpu")
        engine = open_head(open_folder(folder, kind="hf"), settings)
    requests = [[pooled(ids, 0) for ids in group] for group in data.groups]

    def score() -> Outcome:
        if GPU:
            torch.cuda.reset_peak_memory_stats()
        scores = [float(value[0, 0]) for group in engine.values(requests) for value in group]
        peak = {"GPU, MiB": torch.cuda.max_memory_allocated() / 2**20} if GPU else {}
        return Outcome(scores, units=len(scores), figures=peak)

    return score


def vllm(data: Sequences) -> Work:
    """Return vLLM at work: a request for each answer."""
    server = serve(data.dtype, "--runner", "pooling", *TUNED)
    inputs = [{"model": NAME, "input": ids, "use_activation": False} for group in data.groups for ids in group]
    bodies = [json.dumps(body).encode() for body in inputs]

    def score() -> Outcome:
        with server.awake() as watch:
            scores = asyncio.run(post(server.url, bodies, 2 * _AT_ONCE))
        return Outcome(scores, units=len(scores), seconds=watch.seconds, figures=watch.figures)

    return score


for _dtype, _name in [(dtype, name) for dtype in ("float32", "bfloat16") for name in ANSWERS]:
    _shape = Shape(
        f"vllm-{_name}" if _dtype == "float32" else f"vllm-{_name}-{_dtype}",
        f"{_name} of scoring against vLLM, {_dtype}",
        partial(sequences, _name, _dtype),
        unit="answers",
        needs=("vllm", "torch", "transformers") if _dtype == "float32" else ("nvidia", "vllm", "torch", "transformers"),
        rounds=3,
        tolerance=2e-3 if _dtype == "float32" else 0.5,
    )
    _shape.side(ours)
    _shape.side(vllm)


# ---------------------------------------------------------------- our client in front of it


def text(draw: random.Random, tokens: int) -> str:
    """Return so many letters, each a token."""
    return "".join(draw.choices("abcdefghijklmnop ", k=tokens))


def conversations(setup: Setup) -> "list[Query]":
    """Return pairs of answers without posts."""
    from pluralrm.core import Query

    draw = random.Random(1)
    return [
        Query(f"q{number}", text(draw, 40), (text(draw, 130), text(draw, 130)))
        for number in range(setup.size(*ANSWERS["pairs"]))
    ]


client = Shape(
    "vllm-client",
    "pairs through vllm:URL, against a plain loop that posts the same bodies",
    conversations,
    unit="answers",
    needs=("vllm", "torch", "transformers"),
    tolerance=2e-3,
    rounds=3,
)


def _opened(queries: "list[Query]") -> "tuple[Server, ServedHead]":
    """Return the server, and our client, which has asked it who it is."""
    from pluralrm.http import Settings
    from pluralrm.models import parse_model
    from pluralrm.models.served import head

    server = serve("float32", "--runner", "pooling", *TUNED)
    model = head(parse_model(f"vllm:{server.url}"), Settings(concurrency=_AT_ONCE))
    with server.awake():
        list(model.score(queries[:1]))
    return server, model


@client.side
def plain_loop(queries: "list[Query]") -> Work:
    """Return a loop over the bodies that our client sends."""
    server, model = _opened(queries)
    bodies = [json.dumps(call.body).encode() for query in model._opened(queries) for call in query.calls]  # noqa: SLF001

    def score() -> Outcome:
        with server.awake() as watch:
            scores = asyncio.run(post(server.url, bodies, _AT_ONCE))
        return Outcome(scores, units=len(scores), seconds=watch.seconds, figures=watch.figures)

    return score


@client.side
def our_client(queries: "list[Query]") -> Work:
    """Return `vllm:URL`."""
    server, model = _opened(queries)
    return partial(_judged, server, model.score, queries)


def _judged(server: Server, score: "Callable[[list[Query]], Iterator[Verdict]]", queries: "list[Query]") -> Outcome:
    """Return the scores of a model behind the server."""
    with server.awake() as watch:
        scores = [number for verdict in score(queries) for number in verdict.scores]
    results = [score for score in scores if isinstance(score, float)]
    return Outcome(results, units=len(results), seconds=watch.seconds, figures=watch.figures)


# ---------------------------------------------------------------- a judge that asks about several users in turn


def interleaved(setup: Setup) -> "list[Query]":
    """Return four questions of each user, none next to another of the same user."""
    from pluralrm.core import Post, Query, UserView

    draw = random.Random(0)
    users = [
        UserView(f"u{user}", tuple(Post(f"p{user}-{post}", text(draw, 100)) for post in range(10)))
        for user in range(setup.size(8, 3))
    ]
    return [
        Query(f"q{turn}-{user.id}", text(draw, 30), (text(draw, 60), text(draw, 60)), user)
        for turn in range(setup.size(4, 2))
        for user in users
    ]


judged = Shape(
    "vllm-judge",
    "a judge of 8 users x 4 questions behind a prefix cache for half of the users",
    interleaved,
    unit="answers",
    needs=("vllm", "torch", "transformers"),
    rounds=3,
    tolerance=2e-3,
)


def _behind(queries: "list[Query]", *, grouped: bool) -> Work:
    """Return a judge's scores on a server whose cache holds half of the users."""
    from pluralrm.http import Settings
    from pluralrm.models.judge import open_judge

    server = serve("float32", *TUNED, "--num-gpu-blocks-override", "320", judge=True)
    spec = f"judge:{NAME},url={server.url}/v1,style=verifier,max_tokens=1"
    model = open_judge(spec, settings=Settings())
    return partial(_judged, server, model.score if grouped else model._verdicts, queries)  # noqa: SLF001


@judged.side
def by_user(queries: "list[Query]") -> Work:
    """Return a judge that asks about one user after another."""
    return _behind(queries, grouped=True)


@judged.side
def as_they_come(queries: "list[Query]") -> Work:
    """Return one that asks about the items as they come."""
    return _behind(queries, grouped=False)
