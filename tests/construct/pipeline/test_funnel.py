"""A funnel adds up at every stage, or is refused; a plan bounds what is asked."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluralrm.chat import ChatReply, ChatRequest, ScriptedChat
from pluralrm.construct.pipeline import COLUMNS, Built, Counts, Funnel, Spent, build, funnel_rows
from pluralrm.construct.pipeline.folder import BuildManifest, DecisionLine, StageEntry
from pluralrm.construct.pipeline.funnel import checked, funnel_of
from pluralrm.errors import RunError
from pluralrm.http import Price, Usage
from tests.construct.pipeline.worlds import PIPELINE, flour, opened, said

PRICES = {"model-a": Price(1.0, 2.0), "model-b": Price(3.0, 4.0), "model-c": Price(5.0, 6.0)}


PROMPT = {"model-a": 7, "model-b": 8, "model-c": 9}


def metered(tokens: int, request: ChatRequest) -> ChatReply:
    return ChatReply(said(request.messages[0][1]), usage=Usage(tokens, 2))


def made(place: Path, count: int) -> Built:
    chats = {name: ScriptedChat(partial(metered, tokens), name=name) for name, tokens in PROMPT.items()}
    with opened(place, chats=dict(chats)) as (folder, pools):
        built = build(PIPELINE, flour(count), folder, pools)
        asked = dict.fromkeys(PROMPT, 0)
        for counts in built.funnel.stages:
            for spent in counts.spent:
                asked[spent.model] += spent.calls
        assert asked == {name: chat.calls for name, chat in chats.items()}
    return built


def test_calls_tokens_and_cost_are_those_that_were_asked(tmp_path: Path) -> None:
    funnel = made(tmp_path, 40).funnel
    spent = [one for counts in funnel.stages for one in counts.spent]
    prompt = {"model-a": 7, "model-b": 8, "model-c": 9}
    assert all(one.tokens_in == prompt[one.model] * one.calls and one.tokens_out == 2 * one.calls for one in spent)
    by_hand = sum(
        one.calls * (prompt[one.model] * PRICES[one.model].input + 2 * PRICES[one.model].output) for one in spent
    )
    assert funnel.cost(PRICES) == pytest.approx(by_hand / 1e6)
    assert funnel.cost({"model-a": Price(1, 1)}) is None
    assert funnel.stages[0].cost({}) == 0


def test_rows_say_the_counts(tmp_path: Path) -> None:
    funnel = made(tmp_path, 40).funnel
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in funnel_rows(funnel, PRICES)]
    assert (
        rows[0] | {"stage": "shown", "came in": "40", "kept": "36", "rejected": "4", "calls": "0", "cost": "–"}
        == rows[0]
    )
    assert [row["came in"] for row in rows[1:]] == [row["kept"] for row in rows[:-1]]


@given(st.lists(st.lists(st.sampled_from(["kept", "bare", "twin", "waits"]), max_size=30), min_size=1, max_size=4))
def test_it_adds_up_whatever_is_decided(ends: list[list[str]]) -> None:
    """Each record comes to the first stage, and to the next where it is kept; `waits` is no line at all."""
    records = len(ends[0])
    came, lines = [f"r{number}" for number in range(records)], []
    for stage in ends:
        fates = dict(zip(came, stage * 30, strict=False)) if stage else dict.fromkeys(came, "waits")
        decided = {name: fate for name, fate in fates.items() if fate != "waits"}
        lines.append(
            {
                name: DecisionLine(id=name, kept={} if fate == "kept" else None, reason="" if fate == "kept" else fate)
                for name, fate in decided.items()
            }
        )
        came = [name for name, fate in decided.items() if fate == "kept"]
    entries = [StageEntry(name=f"s{n}", kind="stage", makes="X", settings={}, templates={}) for n in range(len(ends))]
    manifest = BuildManifest(
        pluralrm="1", pipeline="p", input="", records=records, limit=None, roles={}, stages=entries
    )
    funnel = funnel_of(manifest, lines)
    assert funnel.kept == len(came)
    gone = sum(sum(counts.rejected.values()) for counts in funnel.stages)
    assert funnel.records == funnel.kept + gone + funnel.waiting


@pytest.mark.parametrize(
    ("came_in", "kept", "waiting"),
    [(10, 8, 0), (10, 9, 1), (11, 9, 1), (10, 12, -3)],
    ids=["lost", "twice", "more", "less"],
)
def test_one_that_does_not_add_up_is_refused(came_in: int, kept: int, waiting: int) -> None:
    sound = Counts("a", "stage", 10, 9, {"bare": 1}, 0)
    assert checked(Funnel("p", 10, (sound,))).kept == 9
    with pytest.raises(RunError, match=r"stage 'a': 10 records came in"):
        checked(Funnel("p", 10, (Counts("a", "stage", came_in, kept, {"bare": 1}, waiting),)))
    with pytest.raises(RunError, match=r"stage 'b': 9 records came in"):
        checked(Funnel("p", 10, (sound, Counts("b", "stage", 10, 10, {}, 0))))


def test_spent_by_role_and_model_is_one_entry() -> None:
    one = Spent(role="w", model="m", calls=1, unmetered=1, tokens_in=0, tokens_out=0)
    lines = {name: DecisionLine(id=name, kept={}, spent=(one,)) for name in ("a", "b")}
    entry = StageEntry(name="s", kind="stage", makes="X", settings={}, templates={})
    manifest = BuildManifest(pluralrm="1", pipeline="p", input="", records=2, limit=None, roles={}, stages=[entry])
    assert funnel_of(manifest, [lines]).stages[0].spent == (one.model_copy(update={"calls": 2, "unmetered": 2}),)
