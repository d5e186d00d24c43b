"""Records the shipped cassettes anew: `python -m tests.construct.demo.record` (make cassettes).

A demo is built against a scripted server on loopback, over real HTTP, as anybody's build is. In what its cassette then
holds, the address of that server becomes the demo's. The lines are sorted: the same prose gives the same file.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from pluralrm.construct import demo
from pluralrm.construct.demo import URL
from pluralrm.construct.pipeline import Folder, build, open_pools
from pluralrm.construct.prb import prb_pipeline
from pluralrm.construct.rmgap.stages import pipeline as rmgap_pipeline
from pluralrm.http import Settings
from pluralrm.journal import unsealed_line
from tests.construct.demo.prb_script import Prose
from tests.construct.demo.rmgap_script import rmgap_script
from tests.fake_chat import Action, FakeChat, Seen, reply

Reply = Callable[[str, str], str]
"""Takes the model that is asked and a prompt, and returns what is said."""

_LETTERS = 4
"""Letters of a token, roughly: what the scripted server counts."""


def served(script: Reply) -> Callable[[Seen], Action]:
    """Answer with what a script says, under the name of the model that is asked, with a count of tokens."""

    def answer(seen: Seen) -> Action:
        prompt = str(seen.body["messages"][0]["content"])
        text = script(str(seen.body["model"]), prompt)
        counts = {"prompt_tokens": len(prompt) // _LETTERS, "completion_tokens": len(text) // _LETTERS}
        message = {"role": "assistant", "content": text}
        return reply(
            {
                "id": "demo",
                "object": "chat.completion",
                "model": seen.body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {**counts, "total_tokens": sum(counts.values())},
            }
        )

    return answer


def recorded(run: Callable[[str, Path], None], script: Reply) -> str:
    """Return the cassette of a build: `run` builds in a folder, and asks the server at an address."""
    with FakeChat(served(script)) as server, tempfile.TemporaryDirectory() as place:
        run(server.url, Path(place) / "build")
        tape = (Path(place) / "build" / "calls.jsonl").read_bytes().splitlines()
        lines = [unsealed_line(line).decode().replace(server.url, URL) for line in tape]
    return "".join(f"{line}\n" for line in sorted(lines))


def prb_cassette() -> str:
    """Return what prb-calls.jsonl has to hold."""

    def run(url: str, place: Path) -> None:
        with (
            Folder(place) as folder,
            open_pools(demo.prb_roles(url), settings=folder.settings(Settings())) as pools,
        ):
            built = build(prb_pipeline(demo.RULES), demo.prb_records(), folder, pools)
        if not built.complete:
            raise SystemExit(f"the demo is incomplete: {built.why}")

    prose = Prose()
    return recorded(run, lambda _model, prompt: prose.reply(prompt))


def rmgap_cassette() -> str:
    """Return what rmgap-calls.jsonl has to hold."""

    def run(url: str, place: Path) -> None:
        with (
            Folder(place) as folder,
            open_pools(demo.rmgap_roles(url), settings=folder.settings(Settings())) as pools,
        ):
            built = build(rmgap_pipeline(demo.rmgap_options()), demo.rmgap_records(), folder, pools)
        if not built.complete:
            raise SystemExit(f"the demo is incomplete: {built.why}")

    return recorded(run, rmgap_script().reply)


if __name__ == "__main__":
    demo.PRB_CASSETTE.write_text(prb_cassette(), encoding="utf-8")
    demo.RMGAP_CASSETTE.write_text(rmgap_cassette(), encoding="utf-8")
