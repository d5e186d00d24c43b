"""Mutated rows through each loader: accepted exactly when a second, plain reading of the format accepts them.

An accepted row has become the item that it describes, and whatever is not in the item is in the counts; a refused one
names the file and the line, and `skip=bad-rows` leaves out exactly the refused ones. Nothing else happens.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pluralrm import load_benchmark
from pluralrm.benchmarks.rows import shortened
from pluralrm.card import LoadReport
from pluralrm.core import Benchmark, Item
from pluralrm.errors import BenchmarkError, RowError
from tests.benchmarks.sample_rows import DOMAINS, LEVELS, JsonRow, prb_row, question_row, rmgap_row

SIZES = [200, pytest.param(5000, marks=pytest.mark.slow)]
"""Mutated rows per loader."""
ANSI = "\x1b[31mred\x1b[0m"

# ---------------------------------------------------------------- the formats, read a second time


def parsed(line: bytes) -> object:
    """Return the JSON value of a line; a ValueError or RecursionError where there is none that counts."""

    def once(pairs: list[tuple[str, Any]]) -> JsonRow:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key twice")
        "".join(key for key, _ in pairs).encode("utf-8")  # half a surrogate pair is a UnicodeEncodeError
        return dict(pairs)

    def never(word: str) -> None:
        raise ValueError(word)

    return json.loads(line.decode("utf-8"), object_pairs_hook=once, parse_constant=never)


def is_unicode(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_text(value: object) -> bool:
    return is_unicode(value) and str(value).strip() != ""


def is_label(value: object) -> bool:
    return value is None or is_unicode(value)


def is_id(value: object) -> bool:
    if type(value) is int:
        value = str(value)
    return isinstance(value, str) and is_text(value) and value.isprintable() and len(value) <= 200


def has(value: object, keys: str, *, only: bool = False) -> bool:
    wanted = set(keys.split())
    return isinstance(value, dict) and wanted <= set(value) and (not only or set(value) == wanted)


def holds(value: object, keys: str) -> bool:
    """Return whether an object has some keys; others are ignored by the loader."""
    return isinstance(value, dict) and set(keys.split()) <= set(value)


def is_question(row: Any) -> bool:
    posts, aspects = row["profile"] or [], row["rubric_aspects"] or []
    return (
        is_id(row["id"])
        and is_text(row["question"])
        and is_label(row.get("category"))
        and is_label(row.get("narrative"))
        and all(row[key] is None or isinstance(row[key], list) for key in ("profile", "rubric_aspects"))
        and all(has(x, "id text") and is_id(x["id"]) and is_label(x.get("category")) for x in posts)
        and all(is_label(x["text"]) for x in posts)
        and all(has(x, "aspect evidence reason") and is_text(x["aspect"]) for x in aspects)
        and all(is_label(x["evidence"]) and is_label(x["reason"]) for x in aspects)
    )


def is_lamp_qa(row: Any) -> bool:
    return has(row, "id question profile rubric_aspects") and is_question(row)


def is_prb(row: Any) -> bool:
    return (
        has(row, "id question profile rubric_aspects chosen rejected")
        and is_question(row)
        and is_text(row["chosen"])
        and is_text(row["rejected"])
        and row["chosen"].strip() != row["rejected"].strip()
    )


def is_group_number(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < 100)


def are_roles(prompts: Any) -> bool:
    roles = [p.get("role") for p in prompts]
    return roles == [None] * 3 or (
        all(isinstance(role, str) for role in roles) and sorted(roles) == ["base", "rewrite", "rewrite"]
    )


def are_styles(styles: Any) -> bool:
    if styles is None:
        return True
    each = [styles[f"r{n}"] for n in range(1, 5)] if holds(styles, "r1 r2 r3 r4") else []
    return bool(each) and all(
        holds(style, " ".join(LEVELS)) and all(style[name] in levels for name, levels in LEVELS.items())
        for style in each
    )


def is_rmgap(row: Any) -> bool:
    if not holds(row, "id domain responses prompt_groups"):
        return False
    models, answers, groups = row.get("models"), row["responses"], row["prompt_groups"]
    names = list(models.values()) if isinstance(models, dict) else models
    return (
        is_id(row["id"])
        and row["domain"] in ("Chat", "Writing", "Reasoning", "Safety")
        and is_label(row.get("source"))
        and (row.get("original_prompt") is None or is_text(row["original_prompt"]))
        and (names is None or (isinstance(names, list) and all(is_label(name) for name in names)))
        and isinstance(answers, list)
        and len(answers) == 4
        and all(holds(x, "key text") and is_id(x["key"]) and is_text(x["text"]) for x in answers)
        and len({str(x["key"]) for x in answers}) == 4
        and isinstance(groups, list)
        and all(holds(x, "winner prompts") and is_id(x["winner"]) for x in groups)
        and sorted(str(x["winner"]) for x in groups) == sorted(str(x["key"]) for x in answers)
        and all(is_group_number(x.get("group")) for x in groups)
        and len({number_of(x, n) for n, x in enumerate(groups, 1)}) == 4
        and all(isinstance(x["prompts"], list) and len(x["prompts"]) == 3 for x in groups)
        and all(holds(p, "text") for x in groups for p in x["prompts"])
        and all(is_text(p["text"]) for x in groups for p in x["prompts"])
        and all(p.get("id") is None or is_id(p["id"]) for x in groups for p in x["prompts"])
        and all(are_roles(x["prompts"]) for x in groups)
        and are_styles(row.get("style_assignments"))
    )


def number_of(group: Any, place: int) -> int:
    number = group.get("group")
    return place if number is None else int(number)


@dataclass
class Dirt:
    """What a second reading ignores, drops and leaves empty."""

    posts: int = 0
    blank: int = 0
    repeated: int = 0
    renamed: int = 0
    kept: int = 0
    twins: int = 0
    defaulted: Counter[str] = field(default_factory=Counter)
    ignored: set[str] = field(default_factory=set)

    def keep(self, profile: Any) -> list[tuple[str, str, str]]:
        """Return id, text and category of the posts that are kept."""
        kept: dict[str, tuple[str, str, str]] = {}
        met: list[tuple[str, str]] = []
        for post in profile or []:
            self.posts += 1
            name, text = str(post["id"]), post["text"] or ""
            if text.strip() == "":
                self.blank += 1
            elif (name, text) in met:
                self.repeated += 1
            else:
                met.append((name, text))
                free, number = name, 2
                while free in kept:
                    free, number = f"{name}#{number}", number + 1
                self.renamed += free != name
                kept[free] = (free, text, post.get("category") or "")
        return list(kept.values())

    def columns(self, value: Any, known: str, optional: str = "", at: str = "") -> None:
        """Note the keys that a format does not know, and the optional ones that lack."""
        self.ignored |= {shortened(at + key) for key in value if key not in f"{known} {optional}".split()}
        self.defaulted.update(at + key for key in optional.split() if value.get(key) is None)


def own_row(number: int = 1) -> JsonRow:
    """Return a row of the generic format; both rows of a file are questions of one person."""
    return {
        "id": f"q{number}",
        "user": "u1",
        "cluster": "town",
        "domain": "bread",
        "prompt": f"How long does loaf {number} rest?",
        "candidates": ["An hour.", f"Overnight, {number}.", "Not at all."],
        "preferred": number,
        "weight": 1,
        "tags": {"lang": "en", "turn": number},
        "posts": [{"id": "p0", "text": "Flat.", "date": "2024-05-01", "category": "x"}, {"text": "Sour."}, "Burnt."],
        "pairs": [{"id": f"c{n}", "prompt": f"Which {n}?", "preferred": "Rye.", "other": "Oat."} for n in range(2)],
    }


def is_own_post(post: Any) -> bool:
    if post is None or isinstance(post, str):
        return is_label(post)
    dated = has(post, "text") and (post.get("date") is None or is_date(post["date"]))
    return dated and is_label(post["text"]) and maybe_id(post, "id") and is_label(post.get("category"))


def is_date(text: Any) -> bool:
    try:
        return isinstance(text, str) and (text == "" or datetime.fromisoformat(text) is not None)
    except ValueError:
        return False


def maybe_id(value: Any, key: str) -> bool:
    return value.get(key) is None or is_id(value[key])


def is_own_pair(pair: Any, row: Any) -> bool:
    if not has(pair, "prompt preferred other") or not all(
        is_text(pair[key]) for key in ("prompt", "preferred", "other")
    ):
        return False
    own = pair["prompt"] == row["prompt"] and {pair["preferred"], pair["other"]} <= set(row["candidates"])
    return maybe_id(pair, "id") and pair["preferred"].strip() != pair["other"].strip() and not own


def named_pairs(row: Any) -> list[tuple[object, ...]]:
    fields = ("prompt", "preferred", "other")
    texts = [tuple(str(pair[key]) for key in fields) for pair in row.get("pairs") or []]
    return [(str(pair.get("id") or text), *text) for pair, text in zip(row.get("pairs") or [], texts, strict=True)]


def is_own(row: Any) -> bool:
    if not has(row, "prompt candidates preferred") or not is_text(row["prompt"]):
        return False
    answers, label, weight, tags = row["candidates"], row["preferred"], row.get("weight"), row.get("tags")
    posts, pairs = row.get("posts") or [], row.get("pairs") or []
    return (
        all(maybe_id(row, key) for key in ("id", "user", "cluster"))
        and is_label(row.get("domain"))
        and isinstance(answers, list)
        and len(answers) >= 2
        and all(map(is_text, answers))
        and len({text.strip() for text in answers}) == len(answers)
        and type(label) is int
        and 0 <= label < len(answers)
        and (weight is None or (type(weight) in {int, float} and weight > 0))
        and (tags is None or (isinstance(tags, dict) and all(map(is_tag, tags.values()))))
        and all(row.get(key) is None or isinstance(row[key], list) for key in ("posts", "pairs"))
        and all(map(is_own_post, posts))
        and all(is_own_pair(pair, row) for pair in pairs)
        and len({pair[0] for pair in named_pairs(row)}) == len(set(named_pairs(row)))
    )


def is_tag(value: object) -> bool:
    return is_label(value) or isinstance(value, int | float)


def fits_own(row: Any, earlier: list[Any]) -> bool:
    """Return whether a row stands beside earlier ones: an id of its own, and each person in one cluster."""

    def person(each: Any) -> str:
        return str(each["user"]) if each.get("user") is not None else f"row {each.get('id')}"

    def cluster(each: Any) -> str:
        return str(each["cluster"]) if each.get("cluster") is not None else person(each)

    same = row.get("id") is None or all(str(row["id"]) != str(each.get("id")) for each in earlier)
    return same and all(cluster(row) == cluster(each) for each in earlier if person(each) == person(row))


def plain_posts(row: Any) -> list[JsonRow]:
    """Return the posts of a generic row as objects with an id, which their text and date make where there is none."""
    found = [post if isinstance(post, dict) else {"text": post} for post in row.get("posts") or []]
    return [
        post | {"id": post["id"] if post.get("id") is not None else f"{post['text']} of {post.get('date') or ''}"}
        for post in found
    ]


def own_dirt(row: Any) -> Dirt:
    dirt = Dirt(kept=int(row.get("weight") not in (None, 1)))
    dirt.columns(row, "id user cluster domain prompt candidates preferred weight tags posts pairs")
    for post in row.get("posts") or []:
        if isinstance(post, dict):
            dirt.columns(post, "id text category date", "", "posts[].")
    for pair in row.get("pairs") or []:
        dirt.columns(pair, "id prompt preferred other", "", "pairs[].")
    dirt.keep(plain_posts(row))
    dirt.twins = len(named_pairs(row)) - len(set(named_pairs(row)))
    return dirt


def says_own(row: Any, items: list[Item]) -> bool:
    item = items[0]
    answers = [item.candidates[item.candidate_ids.index(f"candidate{n}")] for n in range(len(item.candidates))]
    posts = Dirt().keep(plain_posts(row))
    tags = {
        key: value if isinstance(value, str) else json.dumps(value) if isinstance(value, bool) else str(value)
        for key, value in (row.get("tags") or {}).items()
        if value is not None
    }
    weight = row.get("weight")
    tags = ({} if weight in (None, 1) else {"weight": f"{float(weight):g}"}) | tags
    assert item.preferred is not None
    if item.user is None:
        return row.get("user") is None and not posts and not row.get("pairs")
    name = item.id if row.get("user") is None else str(row["user"])
    return (
        (row.get("id") is None or item.id == str(row["id"]))
        and (item.prompt, answers, item.user.id) == (row["prompt"], row["candidates"], name)
        and item.candidates[item.preferred] == row["candidates"][row["preferred"]]
        and item.cluster == (name if row.get("cluster") is None else str(row["cluster"]))
        and item.domain == ((row.get("domain") or "").strip() or "all")
        and [(post.text, post.category) for post in item.user.posts] == [post[1:] for post in posts]
        and [(pair.prompt, pair.preferred, pair.other) for pair in item.user.preferences]
        == [pair[1:] for pair in dict.fromkeys(named_pairs(row))]
        and dict(item.tags) == tags
    )


def question_dirt(row: Any, answers: str = "") -> Dirt:
    dirt = Dirt()
    dirt.columns(row, f"id question profile rubric_aspects {answers}", "category narrative")
    for post in row["profile"] or []:
        dirt.columns(post, "id text", "category", "profile[].")
    for aspect in row["rubric_aspects"] or []:
        dirt.columns(aspect, "aspect evidence reason", "", "rubric_aspects[].")
    dirt.keep(row["profile"])
    return dirt


def rmgap_dirt(row: Any) -> Dirt:
    dirt = Dirt()
    known = "id domain models original_prompt responses prompt_groups"
    dirt.columns(row, known, "source style_assignments")
    for response in row["responses"]:
        dirt.columns(response, "key text", "", "responses[].")
    texts = {str(x["key"]): x["text"].strip() for x in row["responses"]}
    for group in row["prompt_groups"]:
        dirt.columns(group, "winner prompts", "group", "prompt_groups[].")
        dirt.kept += 3 * (list(texts.values()).count(texts[str(group["winner"])]) > 1)
        for prompt in group["prompts"]:
            dirt.columns(prompt, "id text", "role", "prompt_groups[].prompts[].")
    if row.get("style_assignments") is not None:
        dirt.columns(row["style_assignments"], "r1 r2 r3 r4", "", "style_assignments.")
        for name in ("r1", "r2", "r3", "r4"):
            dirt.columns(row["style_assignments"][name], " ".join(LEVELS), "", f"style_assignments.{name}.")
    return dirt


def total(report: LoadReport) -> Dirt:
    """Return what a loader says that it ignored, dropped and left empty."""
    dropped = report.dropped.get("posts", {})
    return Dirt(
        report.read.get("posts", 0),
        dropped.get("blank", 0),
        dropped.get("repeated", 0),
        report.renamed.get("posts", 0),
        sum(report.kept.values()),
        report.dropped.get("pairs", {}).get("repeated", 0),
        Counter(report.defaulted),
        set(report.ignored),
    )


def summed(parts: list[Dirt]) -> Dirt:
    whole = Dirt()
    for part in parts:
        for name in ("posts", "blank", "repeated", "renamed", "kept", "twins"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        whole.defaulted += part.defaulted
        whole.ignored |= part.ignored
    return whole


def says_question(row: Any, items: list[Item]) -> bool:
    item = items[0]
    posts = Dirt().keep(row["profile"])
    aspects = [(x["aspect"], x["evidence"] or "", x["reason"] or "") for x in row["rubric_aspects"] or []]
    assert item.user is not None
    assert item.oracle is not None
    return (
        (item.id, item.prompt, item.cluster, item.user.id) == (str(row["id"]), row["question"], *[str(row["id"])] * 2)
        and [(post.id, post.text, post.category) for post in item.user.posts] == posts
        and [(aspect.aspect, aspect.evidence, aspect.reason) for aspect in item.oracle.aspects] == aspects
        and item.oracle.narrative == (row.get("narrative") or "")
        and item.domain == DOMAINS[0]
        and item.tags.get("category", "") == (row.get("category") or "")
    )


def says_lamp_qa(row: Any, items: list[Item]) -> bool:
    return says_question(row, items) and (items[0].candidates, items[0].preferred) == ((), None)


def says_prb(row: Any, items: list[Item]) -> bool:
    item = items[0]
    assert item.preferred is not None
    answers = dict(zip(item.candidate_ids, item.candidates, strict=True))
    wanted = {"chosen": row["chosen"], "rejected": row["rejected"]}
    return says_question(row, items) and answers == wanted and item.candidates[item.preferred] == row["chosen"]


def says_rmgap(row: Any, items: list[Item]) -> bool:
    texts = {str(x["key"]): x["text"] for x in row["responses"]}
    wanted = [
        (
            *(p["text"], texts[str(group["winner"])], str(row["id"]), row["domain"]),
            *(str(number_of(group, place)), str(n), p.get("role") or ("rewrite" if n else "base")),
        )
        for place, group in enumerate(row["prompt_groups"], 1)
        for n, p in enumerate(group["prompts"])
    ]
    told = [(item.tags["group"], item.tags["phrasing"], item.tags["role"]) for item in items]
    best = [item.candidates[item.preferred] for item in items if item.preferred is not None]
    found = [(i.prompt, text, i.cluster, i.domain, *tags) for i, text, tags in zip(items, best, told, strict=True)]
    return found == wanted and all(dict(zip(i.candidate_ids, i.candidates, strict=True)) == texts for i in items)


def has_own_id(row: Any, earlier: list[Any]) -> bool:
    return all(str(row["id"]) != str(each["id"]) for each in earlier)


@dataclass(frozen=True)
class Format:
    """One loader under test, and the plain reading of its format."""

    row: Callable[[int], JsonRow]
    valid: Callable[[Any], bool]
    says: Callable[[Any, list[Item]], bool]
    dirt: Callable[[Any], Dirt]
    items_per_row: int = 1
    fits: Callable[[Any, list[Any]], bool] = has_own_id


FORMATS = {
    "prb": Format(prb_row, is_prb, says_prb, lambda row: question_dirt(row, "chosen rejected")),
    "rmgap": Format(rmgap_row, is_rmgap, says_rmgap, rmgap_dirt, 12),
    "lamp-qa": Format(question_row, is_lamp_qa, says_lamp_qa, question_dirt),
    "rows": Format(own_row, is_own, says_own, own_dirt, fits=fits_own),
}

# ---------------------------------------------------------------- mutations

JUNK: list[object] = [
    *(None, True, 0, -1, 7, 99, 100, 3.5, math.inf, math.nan, 10**30, 10**250),
    *("", " \n", ANSI, "=SUM(A1)", "\ud800", "\udc00x", "\u202e", "\x00", "x" * 300, "naïve 🙂"),
    *("response1", "base", "rewrite", "Chat"),
    *([], {}, [[]], [None], {"text": "x"}, ["a", "b"]),
]
SPLICES = [
    b"\n",
    b"\r\n",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\x1b",
    b"\x00",
    b"{",
    b"}",
    b"]",
    b'"',
    b",",
    b"\\",
    b"  ",
    b"NaN",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value below the top."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def mutate_tree(row: JsonRow, rng: random.Random) -> None:
    """Change one value, one key or one list of a row, in place."""
    path = rng.choice(list(places(row)))
    holder: Any = row
    for step in path[:-1]:
        holder = holder[step]
    key, action = path[-1], rng.randrange(8)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[rng.choice([key + "s", key.upper(), ANSI, "", "\ud800"])] = holder.pop(key)
    elif action == 2 and isinstance(holder, dict):
        holder[rng.choice(["extra", ANSI, "text", "id"])] = deepcopy(rng.choice(JUNK))
    elif action == 3 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), rng.choice(holder))
    elif action == 4 and isinstance(holder, list):
        rng.shuffle(holder)
    elif action == 5 and isinstance(holder, dict):
        other = rng.choice(list(holder.values()))
        holder[key] = f"{other} " if isinstance(other, str) and rng.random() < 0.5 else other
    elif action == 6:
        holder[key] = rng.choice([[holder[key]], {"x": holder[key]}, str(holder[key]), f"{ANSI}{holder[key]}"])
    else:
        holder[key] = deepcopy(rng.choice(JUNK))


def mutate_bytes(line: bytes, rng: random.Random) -> bytes:
    """Change the bytes of a line."""
    a, b = sorted((rng.randrange(len(line) + 1), rng.randrange(len(line) + 1)))
    deep = b"[" * 20_000 + b"]" * 20_000
    return rng.choice(
        [
            line[:a],
            line[a:],
            line[:a] + line[min(b, a + 5) :],
            line[:a] + rng.choice(SPLICES) + line[a:],
            line[:a] + rng.randbytes(3) + line[a:],
            line[:a] + line[a : a + 20] + line[a:],
            b"\xef\xbb\xbf" + line,
            b"[" + line + b"]",
            line + line,
            line + b"\n" + line,
            b"\n \n" + line + b"\r",
            b'{"deep": ' + deep + b"," + line[1:],
            b'{"id": ' + b"9" * 5000 + b"," + line[1:],
            b'{"id": "again",' + line[1:],
            line.replace(b'"id"', b'"id" : "q", "id"', 1),
            line.replace(b": ", b":").replace(b", ", b" ,\t"),
        ]
    )


def mutated(row: JsonRow, rng: random.Random) -> bytes:
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        mutate_tree(row, rng)
    line = json.dumps(row, ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")
    return mutate_bytes(line, rng) if rng.random() < 0.35 else line


# ---------------------------------------------------------------- the test


def bad_lines(content: bytes, form: Format) -> tuple[list[int], list[Any]]:
    """Return the numbers of the lines that are no good row, and the good rows."""
    bad: list[int] = []
    rows: list[Any] = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                row = parsed(line)
                good = form.valid(row) and form.fits(row, rows)
            except (ValueError, RecursionError):
                good = False
            if good and (row not in rows or row.get("id") is not None):  # type: ignore[attr-defined]
                rows.append(row)
            elif not good:
                bad.append(number)
    return bad, rows


def outcome(spec: str) -> Benchmark | BenchmarkError:
    """Return the benchmark, or the error; any other exception is a failed test."""
    try:
        return load_benchmark(spec)
    except BenchmarkError as error:
        return error


def refused_lines(error: RowError, path: Path) -> list[int]:
    *told, last = str(error).split("\n")
    assert all(line.startswith(f"{path}:") and line.isprintable() and len(line) < 1000 for line in told)
    assert last.startswith(f"({len(told)} row")
    return [int(line.removeprefix(f"{path}:").partition(":")[0]) for line in told]


def accepted(found: Benchmark, rows: list[Any], form: Format) -> bool:
    """Return whether a benchmark says what some rows say, and counts what it does not say."""
    size = form.items_per_row
    said = [list(found.items[start : start + size]) for start in range(0, len(found.items), size)]
    return (
        len(said) == len(rows)
        and all(form.says(row, items) for row, items in zip(rows, said, strict=True))
        and total(found.card.load) == summed(list(map(form.dirt, rows)))
    )


@pytest.mark.parametrize("cases", SIZES)
@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_row_is_accepted_as_it_says_or_refused_with_its_line(tmp_path: Path, name: str, cases: int) -> None:
    form, rng = FORMATS[name], random.Random(f"fuzz {name}")
    path = tmp_path / DOMAINS[0] / "rows.jsonl"
    path.parent.mkdir()
    refused = 0
    for case in range(cases):
        content = json.dumps(form.row(0)).encode() + b"\n" + mutated(form.row(1), rng) + b"\n"
        path.write_bytes(content)
        bad, rows = bad_lines(content, form)
        found = outcome(f"{name}:{path}")
        if isinstance(found, BenchmarkError):
            refused += 1
            assert isinstance(found, RowError), (case, content, found)
            assert refused_lines(found, path) == bad, (case, content, found)
            if refused % 5 == 0:
                found = outcome(f"{name}:{path},skip=bad-rows")
                assert isinstance(found, Benchmark), (case, content, found)
                assert accepted(found, rows, form), (case, content)
                assert sum(found.card.load.skipped.values()) == len(bad)
            continue
        assert not bad, (case, content)
        assert accepted(found, rows, form), (case, content, found.card.load)
    assert cases // 4 < refused < cases * 9 // 10  # both outcomes were met often


@pytest.mark.parametrize("name", FORMATS)
def test_a_mutated_file_at_a_bare_path_is_never_a_traceback(tmp_path: Path, name: str) -> None:
    """The keys of the first row choose the format here, so the mutated row stands first."""
    form, rng = FORMATS[name], random.Random(f"bare {name}")
    path = tmp_path / DOMAINS[0] / "rows.jsonl"
    path.parent.mkdir()
    for _ in range(40):
        path.write_bytes(mutated(form.row(1), rng))
        found = outcome(str(path))
        if isinstance(found, BenchmarkError):
            assert str(path) in str(found)
            assert all(told.isprintable() for told in str(found).split("\n"))
