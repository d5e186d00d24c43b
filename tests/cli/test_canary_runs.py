"""64 commands beside servers that echo the key, in every spelling and way: it is in no file, page or terminal."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from pluralrm.cli import main
from pluralrm.http import Clock
from tests.fake_chat import Action, FakeChat, drip, say, truncated
from tests.http.test_canary import CANARY, HIDDEN, SPELLINGS, _always, _decoded, _modes

COMMANDS = {
    "score by a judge": "score pocket-prb -m judge:m,url={url} --limit 2 -o runs --record tape.jsonl",
    "score pairs by lists": "score pocket-prb -m judge:m,style=listwise,url={url} -c recent:2 --limit 2 -o runs",
    "write notes": "score pocket-prb -m longest -c persona:m,k=2,url={url} --limit 2 -o runs",
    "served head": "score pocket-prb -m vllm:{url},key=OPENAI_API_KEY --limit 2 -o runs",
    "sample": "sample pocket-prb -p chat:m,url={url} --limit 2 -n 2 -o pool",
    "grade": "grade {pool} -g joint:m,url={url}",
    "audit": "audit pocket-prb --judge judge:m,url={url} --runs runs",
    "build": "construct prb pocket-prb -o built --writer w --judge j --planner p --url {url}",
}
"""Each way in which a model is asked over a connection."""
RUNS = 64


async def _hurry(_: Clock, seconds: float) -> None:
    await asyncio.sleep(seconds / 1_000)


def modes(spelling: str) -> dict[str, Action]:
    """Return in which ways a server says a text: all of those of one request, and slowly, in pieces, and cut off."""
    said = say(f"Result: A {spelling}")
    return {**_modes(spelling), "stream": drip(said, piece=40, pause=0.0), "cut": truncated(say(spelling * 3))}


def plans() -> Iterator[tuple[str, str, str]]:
    """Yield the command, the spelling and the mode of each run: every one of each, in changing company."""
    commands, spellings, ways = list(COMMANDS), list(SPELLINGS), list(modes(CANARY))
    for place in range(RUNS):
        yield (
            commands[place % len(commands)],
            spellings[place % len(spellings)],
            ways[(place + place // len(ways)) % len(ways)],
        )


def kept(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join([*map(str, files), *(path.read_bytes().decode("latin-1") for path in files)])


def told(words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """Return all that a command says on its terminal."""
    monkeypatch.setattr(sys, "argv", ["pluralrm", *words])
    with suppress(SystemExit):
        main()
    return "".join(capfd.readouterr())


def test_every_command_spelling_and_mode_is_run() -> None:
    commands, spellings, ways = map(set, zip(*plans(), strict=True))
    assert (commands, spellings, ways) == (set(COMMANDS), set(SPELLINGS), set(modes(CANARY)))
    assert len(list(plans())) == RUNS


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_no_command_keeps_or_shows_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setattr(Clock, "sleep", _hurry)  # retries wait for minutes
    pool = tmp_path / "graded"
    with FakeChat(lambda _: say("An answer.")) as server:
        told(["sample", "pocket-prb", "-p", f"chat:m,url={server.url}", "--limit", "2", "-n", "2", "-o", str(pool)],
             monkeypatch, capfd)  # fmt: skip
    assert (pool / "samples.jsonl").exists()
    asked = dict.fromkeys(COMMANDS, 0)
    for number, (command, spelling, mode) in enumerate(plans()):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PLURALRM_CACHE", str(folder / "cache"))
        answer = modes(SPELLINGS[spelling])[mode]
        with FakeChat(partial(_always, answer)) as server:
            words = COMMANDS[command].format(url=server.url, pool=pool).split()
            said = told(words, monkeypatch, capfd)
            authorized = [seen.headers.get("authorization", "") for seen in server.requests]
            asked[command] += sum(header.endswith(CANARY) for header in authorized)
        said += told(["report", "runs", "-o", "report.html"], monkeypatch, capfd) if Path("runs").exists() else ""
        everything = said + kept(folder) + kept(pool)
        assert CANARY[:17].casefold() not in _decoded(everything), (command, spelling, mode)
        if spelling in HIDDEN:
            assert SPELLINGS[spelling][:20].casefold() not in everything.casefold(), (command, spelling, mode)
    assert all(asked.values()), asked
    assert os.environ["OPENAI_API_KEY"] == CANARY


@pytest.mark.parametrize("place", [f"http://user:{CANARY}@127.0.0.1:9/v1", f"http://127.0.0.1:9/v1?api_key={CANARY}"])
@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "build"])
def test_a_key_in_an_address_is_not_repeated(  # noqa: PLR0917 - pytest's
    command: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLURALRM_CACHE", str(tmp_path / "cache"))
    words = COMMANDS[command].format(url=place, pool="pool").split()
    assert CANARY[:17] not in told(words, monkeypatch, capfd) + kept(tmp_path)
