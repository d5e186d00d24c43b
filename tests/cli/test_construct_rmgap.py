"""`pluralrm construct rmgap` as its user meets it, but for --demo, which has tests of its own."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from pluralrm.audit.embedder import open_embedder
from tests.cli.test_verbs import pluralrm
from tests.construct.demo.record import served
from tests.construct.demo.rmgap_script import rmgap_prose, rmgap_script
from tests.construct.pipeline.worlds import contents
from tests.fake_chat import Action, FakeChat, Seen, reply

MODELS = {
    "--generator": ("prose-a", "prose-b"),
    "--rater": ("rater",),
    "--reviewer": ("reviewer-a", "reviewer-b"),
    "--chair": ("chair",),
    "--tailor": ("tailor",),
}
NAMED = [word for option, names in MODELS.items() for name in names for word in (option, name)]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeChat]:
    chats = served(rmgap_script().reply)

    def answer(seen: Seen) -> Action:
        """Reply to a chat, or with a vector of letters."""
        if not seen.path.endswith("/embeddings"):
            return chats(seen)
        return reply({"data": [{"embedding": open_embedder("letters").rows([seen.body["input"]])[0].tolist()}]})

    with FakeChat(answer) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with prompts of the demo: not those of Reasoning, whose answers take an extra to check, nor those that
    only vectors of meaning tell apart.
    """
    rows = [{key: one[key] for key in ("text", "domain", "source")} for one in rmgap_prose()]
    rows = [row for row in rows if row["domain"] != "Reasoning" and "boiled rice" not in row["text"]]
    (tmp_path / "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, rows[0]]))
    return tmp_path


def test_a_set_is_built_and_made_again_from_its_card_without_a_server(server: FakeChat, place: Path) -> None:
    embed = f"embed:letters-by-wire,url={server.url},key=SOME_KEY"
    asked = ["construct", "rmgap", "prompts.jsonl", "-o", "one", "--url", server.url, *NAMED, "--embed", embed]
    done = pluralrm(*asked, cwd=place, SOME_KEY="a-secret-of-mine")
    assert done.returncode == 0, done.stderr
    assert "10 rows are 9 prompts" in done.stderr
    # Letters are not meaning: with them two records lose a paraphrase that the demo's vectors let pass.
    assert "1 of 9 records came through" in done.stdout
    calls = len(server.requests)
    card = json.loads((place / "one/release/card.json").read_text())
    words = shlex.split(card["rebuild"])
    assert "SOME_KEY" not in card["rebuild"]
    names = {"INPUT": "prompts.jsonl", "DIR": "two", "calls.jsonl": "one/calls.jsonl"}
    again = pluralrm(*(names.get(word, word) for word in words[1:]), cwd=place)
    assert again.returncode == 0, again.stderr
    assert len(server.requests) == calls
    assert contents(place / "one/release") == contents(place / "two/release")


def test_a_plan_asks_nobody(server: FakeChat, place: Path) -> None:
    calls = len(server.requests)
    asked = ["construct", "rmgap", "prompts.jsonl", "-o", "one", "--url", server.url, *NAMED, "--embed", "letters"]
    done = pluralrm(*asked, "--dry-run", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["records"] == 9
    assert len(server.requests) == calls
    assert not (place / "one").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "wanted FILE, -o DIR, --generator MODEL, --rater MODEL, --reviewer MODEL, --chair MODEL, --tailor MODEL"),
        (["prompts.jsonl", "-o", "x", *NAMED[:6], *NAMED[8:]], "--reviewer: found 1 model, wanted two"),
    ],
)
def test_what_is_missing_is_said_before_anybody_is_asked(words: list[str], said: str, place: Path) -> None:
    done = pluralrm("construct", "rmgap", *words, cwd=place)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
