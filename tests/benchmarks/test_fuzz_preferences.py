"""Mutated rows through the loaders of people's preferences: each file is what a second reading of the format says.

One person's rows belong together here: which conversation is an item, and which context pair shows an answer that an
item asks for, depends on the rows around it. The second reading therefore reads the whole file, and predicts the items,
their context pairs and the complete LoadReport, or the lines that are refused.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pluralrm.benchmarks.rows import shortened
from pluralrm.core import Benchmark
from pluralrm.errors import BenchmarkError, RowError
from tests.benchmarks.sample_rows import JsonRow
from tests.benchmarks.test_fuzz_rows import (
    has,
    is_id,
    is_label,
    is_text,
    mutated,
    outcome,
    parsed,
    refused_lines,
)

ROLES = {
    **dict.fromkeys(("user", "human", "person", "prompter"), "Person"),
    **dict.fromkeys(("assistant", "model", "gpt", "chatgpt", "bot", "chatbot", "ai"), "Assistant"),
    "system": "System",
}
ANSWERS = ["Rye.", "Oat.", "Spelt.", "Barley.", "Einkorn.", "Durum.", "Emmer.", "Millet.", "Teff."]


class Pick(NamedTuple):
    """One preference as the second reading has it."""

    id: str
    user: str
    asked: bool
    prompt: str
    best: str
    worst: str
    domain: str
    line: int
    others: dict[str, str] = {}  # noqa: RUF012 - never written to
    tags: dict[str, str] = {}  # noqa: RUF012
    talk: str = ""


@dataclass
class Counts:
    """What a LoadReport says, apart from the fields of the rows that were skipped."""

    rows: int = 0
    skipped: int = 0
    read: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    ignored: set[str] = field(default_factory=set)

    def columns(self, value: Any, known: str, at: str = "") -> None:
        self.ignored |= {shortened(at + key) for key in value if key not in known.split()}

    def take(self, other: "Counts") -> None:
        self.read += other.read
        self.dropped += other.dropped
        self.ignored |= other.ignored


def counted(bench: Benchmark) -> Counts:
    load = bench.card.load
    dropped = Counter({(what, why): n for what, reasons in load.dropped.items() for why, n in reasons.items()})
    assert (load.renamed, load.kept, load.defaulted) == ({}, {}, {})
    return Counts(load.rows, sum(load.skipped.values()), +Counter(load.read), dropped, set(load.ignored))


class RefusedRow(Exception):  # noqa: N818 - no error of ours
    """The second reading refuses this row."""


def need(*holds: bool) -> None:
    if not all(holds):
        raise RefusedRow


def same(text: str) -> str:
    """Return what two texts share that differ in case and white space alone."""
    return " ".join(text.split()).casefold()


# ---------------------------------------------------------------- PersonalRewardBench


def rb_rows(rng: random.Random) -> list[JsonRow]:
    """Return three rows, often of one person; the last of them is mutated."""
    texts = rng.sample(ANSWERS, 6)
    if rng.random() < 0.2:  # the last row shows, or asks for, an answer of an earlier one
        texts[4 + rng.randrange(2)] = rng.choice([texts[0], texts[2]]).upper()
    splits = ["test", rng.choice(["train", "test"]), rng.choice(["train", "val", "validation", "test", "test"])]
    rows = [_rb_row(n, split, texts[2 * n], texts[2 * n + 1]) for n, split in enumerate(splits)]
    rows[2]["source"] = rng.choice(["", "", "arena", " "])
    return rows


def _rb_row(number: int, split: str, best: str, worst: str) -> JsonRow:
    return {
        "user_id": "u1",
        "id": f"r{number}",
        "conversation_id": f"c{number}",
        "split": split,
        "source": "",
        "dataset": "prism",
        "context": [
            {"role": "user", "content": f"Which flour for loaf {number}?"},
            {"role": "model", "content": "For bread?"},
            {"role": "Human", "content": "Yes."},
        ],
        "chosen": {"role": "model", "content": best},
        "rejected": {"role": "ai", "content": worst},
        "chosen_score": 87,
        "rejected_score": 40.5,
        "agreement": None,
        "prediction_some-judge": "chosen",
        "prediction_flip_some-judge": True,
        "reasoning_some-judge": "Rye rises less.",
    }


def _turn(value: Any) -> tuple[str, str]:
    need(has(value, "role content"))
    role = value["role"]
    need(isinstance(role, str), is_text(value["content"]))
    need(role.strip().lower() in ROLES)
    return ROLES[role.strip().lower()], value["content"]


def read_rb(row: Any, number: int, line: int, noted: Counts) -> list[Pick]:
    need(has(row, "user_id split context chosen rejected"))
    need(is_id(row["user_id"]), row.get("id") is None or is_id(row["id"]))
    need(row["split"] in ["train", "val", "validation", "test"])
    need(all(is_label(row.get(key)) for key in ("source", "dataset")))
    need(isinstance(row["context"], list), row["context"] != [])
    said = [_turn(each) for each in row["context"]]
    (one, best), (two, worst) = _turn(row["chosen"]), _turn(row["rejected"])
    need(one == two == "Assistant", best.strip() != worst.strip())
    for key in row:
        known = ["id", "user_id", "split", "source", "dataset", "context", "chosen", "rejected", *_TAGGED]
        if key not in known and not key.startswith(_UNREAD):
            noted.ignored.add(shortened(key))
    for each in row["context"]:
        noted.columns(each, "role content", "context[].")
    for key in ("chosen", "rejected"):
        noted.columns(row[key], "role content", f"{key}.")
    noted.read["preferences"] += 1
    asked, user = row["split"] == "test", str(row["user_id"])
    name = f"{user}-{row['split']}-{number}" if row.get("id") is None else str(row["id"])
    tags = {
        key: _tag(value)
        for key, value in row.items()
        if value is not None and (key in _TAGGED or key.startswith("prediction_"))
    }
    domain = next((row[key].strip() for key in ("source", "dataset") if (row.get(key) or "").strip()), "chat")
    return [Pick(name, user, asked, _prompt(said), best, worst, domain, line, tags=tags if asked else {})]


_TAGGED = [
    *("conversation_id", "chosen_score", "rejected_score"),
    *("personalizable_query", "personalizable_responses", "agreement"),
]

_UNREAD = ("prediction_", "reasoning_", "query_reasoning", "response_reasoning")


def _tag(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return shortened(value if isinstance(value, str) else json.dumps(value), 200)


def _prompt(said: list[tuple[str, str]]) -> str:
    if len(said) == 1 and said[0][0] == "Person":
        return said[0][1]
    return "\n\n".join(f"{who}: {text}" for who, text in said)


# ---------------------------------------------------------------- PRISM


def prism_rows(rng: random.Random) -> list[JsonRow]:
    """Return three conversations of one person, of one to three turns; the last of them is mutated."""
    rows = [_talk(number, rng.randint(1, 3), rng) for number in range(3)]
    if rng.random() < 0.2:  # the chosen answer of the first is that of the last, an item
        first, last = (next(x for x in row["conversation_history"] if x.get("if_chosen")) for row in (rows[0], rows[2]))
        last["content"] = first["content"].lower()
    return rows


def _talk(number: int, turns: int, rng: random.Random) -> JsonRow:
    history: list[JsonRow] = []
    for turn in range(turns):
        scores = rng.sample(range(1, 101), 4)
        if rng.random() < 0.2:
            scores[rng.randrange(4)] = scores[rng.randrange(4)]
        chosen = scores.index(max(scores))
        history.append({"turn": turn, "role": "user", "content": f"Which flour for loaf {number}.{turn}?"})
        history += [
            {
                "turn": turn,
                "role": "model",
                "content": f"{rng.choice(ANSWERS)} ({number}.{turn}.{rng.randrange(3)})",
                "score": score,
                "if_chosen": place == chosen,
                "within_turn_id": place,
            }
            for place, score in enumerate(scores)
        ]
        if rng.random() < 0.2:  # two answers of one text, or nearly
            history[-rng.randint(1, 4)]["content"] = history[-rng.randint(1, 4)]["content"] + rng.choice(["", " "])
    return {
        "conversation_id": f"c{number}",
        "user_id": "u1",
        "conversation_type": "unguided",
        "conversation_history": history,
        "opening_prompt": "Which flour?",
        "conversation_turns": turns,
    }


_SAID = "turn role content score if_chosen within_turn_id model_provider model_name"
_TALK = (
    "conversation_id user_id conversation_type conversation_history opening_prompt conversation_turns "
    "performance_attributes choice_attributes open_feedback generated_datetime timing_duration_s "
    "timing_duration_mins included_in_balanced_subset"
)


def _said(value: Any) -> JsonRow:
    need(has(value, "turn role content"))
    role, score, chosen = value["role"], value.get("score"), value.get("if_chosen")
    need(type(value["turn"]) is int, isinstance(role, str), is_label(value["content"]))
    need(role.strip().lower() in ROLES, chosen is None or type(chosen) is bool)
    need(score is None or type(score) in {int, float})
    return {
        "turn": value["turn"],
        "who": ROLES[role.strip().lower()],
        "text": value["content"] or "",
        "score": score,
        "chosen": chosen is True,
    }


def read_prism(row: Any, _number: int, line: int, noted: Counts) -> list[Pick]:
    need(has(row, "conversation_id user_id conversation_history"))
    need(is_id(row["conversation_id"]), is_id(row["user_id"]), is_label(row.get("conversation_type")))
    need(isinstance(row["conversation_history"], list))
    history = [_said(each) for each in row["conversation_history"]]
    noted.columns(row, _TALK)
    for each in row["conversation_history"]:
        noted.columns(each, _SAID, "conversation_history[].")
    noted.read["answers"] += sum(each["who"] == "Assistant" for each in history)
    blank = [each for each in history if not each["text"].strip()]
    need(all(each["who"] == "Assistant" and not each["chosen"] for each in blank))
    noted.dropped["answers", "blank"] += len(blank)
    turns = sorted({each["turn"] for each in history})
    noted.read["turns"] += len(turns)
    picks: list[Pick] = []
    said: list[tuple[str, str]] = []
    for place, turn in enumerate(turns):
        here = [each for each in history if each["turn"] == turn and each not in blank]
        best = [each for each in here if each["chosen"] and each["who"] == "Assistant"]
        need(len(best) < 2)
        said += [(each["who"], each["text"]) for each in here if each["who"] != "Assistant"]
        if not best:
            noted.dropped["turns", "without a choice"] += 1
            noted.dropped["turns", "after one without a choice"] += len(turns) - place - 1
            break
        rest = [each for each in here if each["who"] == "Assistant" and each is not best[0]]
        pick = _pick(row, said, [best[0], *rest], line) if said else None
        if pick is None:
            noted.dropped["turns", "without a pair"] += 1
        else:
            picks.append(pick)
        said.append(("Assistant", best[0]["text"]))
    noted.read["preferences"] += len(picks)
    return picks


def _pick(row: Any, said: list[tuple[str, str]], answers: list[JsonRow], line: int) -> Pick | None:
    best, *rest = answers

    def is_below(each: JsonRow) -> bool:
        if each["score"] is None or best["score"] is None:
            return False
        return bool(each["score"] < best["score"]) and each["text"].strip() != best["text"].strip()

    below = [each for each in rest if is_below(each)]
    if not below:
        return None
    least = min(each["score"] for each in below)
    worst = next(each for each in below if each["score"] == least)
    between = [each for each in rest if each is not worst]
    named = {"chosen": best, "rejected": worst} | {f"other{n}": each for n, each in enumerate(between, 1)}
    texts, others = [worst["text"].strip()], {}
    for name, each in named.items():
        if name.startswith("other") and is_below(each) and each["text"].strip() not in texts:
            texts.append(each["text"].strip())
            others[name] = each["text"]
    talk, user = str(row["conversation_id"]), str(row["user_id"])
    tags = {f"score:{name}": f"{each['score']:g}" for name, each in named.items() if each["score"] is not None}
    domain = (row.get("conversation_type") or "").strip() or "chat"
    name = f"{talk}-{best['turn']}"
    return Pick(name, user, False, _prompt(said), best["text"], worst["text"], domain, line, others, tags, talk)


def last_thirds(picks: list[Pick]) -> list[Pick]:
    """Return the preferences, those of the last third of each person's conversations asked."""
    talks: dict[str, list[str]] = {}
    for pick in picks:
        if pick.talk not in talks.setdefault(pick.user, []):
            talks[pick.user].append(pick.talk)
    asked = {(user, talk) for user, mine in talks.items() for talk in mine[len(mine) * 2 // 3 :]}
    return [pick._replace(asked=(pick.user, pick.talk) in asked) for pick in picks]


# ---------------------------------------------------------------- the test


@dataclass(frozen=True)
class Format:
    """One loader under test, and the second reading of its format."""

    spec: str
    rows: Callable[[random.Random], list[JsonRow]]
    read: Callable[[Any, int, int, Counts], list[Pick]]
    split: Callable[[list[Pick]], list[Pick]] = list
    own_id: str = ""
    """The column that no two rows may share, beside the ids of the preferences."""
    options: str = ""
    drops: bool = False
    """Whether context pairs that give an item away are dropped; else they are refused."""


FORMATS = {
    "personal-rb": Format("personal-rb", rb_rows, read_rb),
    "prism": Format("prism", prism_rows, read_prism, last_thirds, "conversation_id", drops=True),
    "prism answers=all": Format(
        "prism", prism_rows, read_prism, last_thirds, "conversation_id", ",answers=all", drops=True
    ),
}


@dataclass
class Reading:
    """What the second reading makes of one file."""

    bad: list[int]
    leaks: list[Pick]
    picks: list[Pick]
    counts: Counts


def reading(content: bytes, form: Format) -> Reading:
    counts, own = Counts(), set[str]()
    bad: list[int] = []
    picks: list[Pick] = []
    for line, text in enumerate(content.split(b"\n"), 1):
        if not text.strip():
            continue
        counts.rows += 1
        noted = Counts()
        try:
            row = parsed(text)
            found = form.read(row, counts.rows, line, noted)
            names = {pick.id for pick in picks}
            need(not names & {pick.id for pick in found})
            mine = str(row[form.own_id]) if form.own_id else ""  # type: ignore[index]
            need(not mine or mine not in own)
        except (ValueError, RecursionError, RefusedRow):
            bad.append(line)
            continue
        own.add(mine)
        picks += found
        counts.take(noted)
    picks = form.split(picks)
    best = {(pick.user, same(pick.best)) for pick in picks if pick.asked}
    leaks = [x for x in picks if not x.asked and {(x.user, same(x.best)), (x.user, same(x.worst))} & best]
    return Reading(bad, leaks, picks, counts)


def agrees(bench: Benchmark, read: Reading, form: Format, *, skip: bool) -> bool:
    """Return whether a benchmark holds what the second reading found, and counts what it does not hold."""
    asked = [pick for pick in read.picks if pick.asked]
    wanted = Counts(read.counts.rows, len(read.bad) if skip else 0, +read.counts.read, +read.counts.dropped)
    wanted.ignored = read.counts.ignored
    if read.leaks:
        wanted.dropped["preferences", "with the preferred answer of an item"] = len(read.leaks)
    return (
        counted(bench) == wanted
        and [item.id for item in bench.items] == [pick.id for pick in asked]
        and all(_is_item(item, pick, read, form) for item, pick in zip(bench.items, asked, strict=True))
    )


def _is_item(item: Any, pick: Pick, read: Reading, form: Format) -> bool:
    further = pick.others if "answers=all" in form.options else {}
    answers = {"chosen": pick.best, "rejected": pick.worst, **further}
    context = [
        (x.id, x.prompt, x.best, x.worst) for x in read.picks if x.user == pick.user and not x.asked
        if x not in read.leaks
    ]  # fmt: skip
    return (
        dict(zip(item.candidate_ids, item.candidates, strict=True)) == answers
        and item.candidate_ids[item.preferred] == "chosen"
        and (item.prompt, item.cluster, item.user.id, item.domain) == (pick.prompt, pick.user, pick.user, pick.domain)
        and [(x.id, x.prompt, x.preferred, x.other) for x in item.user.preferences] == context
        and item.user.posts == ()
        and dict(item.tags) == pick.tags
    )


def files(form: Format, seed: str, cases: int) -> Iterator[bytes]:
    """Yield files of two good rows and a mutated one."""
    rng = random.Random(seed)
    for _ in range(cases):
        *good, last = form.rows(rng)
        yield b"".join(json.dumps(row).encode() + b"\n" for row in good) + mutated(last, rng) + b"\n"


@pytest.mark.parametrize("cases", [200, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_preference_is_accepted_as_it_says_or_refused_with_its_line(
    tmp_path: Path, name: str, cases: int
) -> None:
    form, path = FORMATS[name], tmp_path / "rows.jsonl"
    met: Counter[str] = Counter()
    for case, content in enumerate(files(form, f"fuzz {name}", cases)):
        path.write_bytes(content)
        read = reading(content, form)
        refused = read.bad or ([] if form.drops else [pick.line for pick in read.leaks])
        met["refused"] += bool(refused)
        met["leaks"] += bool(read.leaks)
        met["dropped"] += read.counts.dropped.total()
        found = outcome(f"{form.spec}:{path}{form.options}")
        if refused:
            assert isinstance(found, RowError), (case, content, read)
            assert refused_lines(found, path) == refused, (case, content, found)
            if case % 5:
                continue
            found = outcome(f"{form.spec}:{path}{form.options},skip=bad-rows")
        assert isinstance(found, Benchmark), (case, content, found)
        assert agrees(found, read, form, skip=bool(refused)), (case, content, read, found.card.load, found.items)
    assert cases // 4 < met["refused"] < cases * 9 // 10  # both outcomes were met often
    assert met["leaks"] > cases // 50
    assert not form.drops or met["dropped"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_of_preferences_at_a_bare_path_is_never_a_traceback(tmp_path: Path, name: str) -> None:
    form, rng, path = FORMATS[name], random.Random(f"bare {name}"), tmp_path / "rows.jsonl"
    for _ in range(40):
        path.write_bytes(mutated(form.rows(rng)[-1], rng))
        found = outcome(str(path))
        if isinstance(found, BenchmarkError):
            assert str(path) in str(found) or "no item of users=all" in str(found), found
            assert all(told.isprintable() for told in str(found).split("\n"))
