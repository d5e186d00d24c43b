"""The models of the prb demo as a script: what prb.toml says, found by what a prompt shows."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from pluralrm.construct.demo import prb_records, shipped
from pluralrm.construct.prb import PersonalQuestion
from tests.grading.markers import answer_in

_SIDES = {"gives all of the following": "chosen", "does without all": "rejected", "opposite taste in each": "contrary"}
_CHECKED = re.compile(r"^The one thing to check.*:\n\n(?P<text>.*)$", re.MULTILINE)


class Prose:
    """prb.toml, by the question that a prompt holds."""

    def __init__(self) -> None:
        records = tomllib.loads(shipped("prb.toml").read_text(encoding="utf-8"))["record"]
        sources = {record.id: record[PersonalQuestion] for record in prb_records()}
        self._records: dict[str, Mapping[str, Any]] = {sources[one["id"]].question: one for one in records}
        self._aspects = {
            one["id"]: [x["aspect"] for x in one.get("aspects", ())] or [x.aspect for x in sources[one["id"]].aspects]
            for one in records
        }

    def reply(self, prompt: str) -> str:
        """Return what planner, writer or judge says to a prompt."""
        [record] = (record for question, record in self._records.items() if question in prompt)
        if prompt.startswith("You answer what one person asks"):
            return _written(prompt, record)
        if prompt.startswith("You read what one person wrote"):
            return json.dumps(record["aspects"], ensure_ascii=False)
        if prompt.startswith("You say what a question asks for"):
            return "\n".join(f"- {part}" for part in record["parts"])
        return self._judged(prompt, record)

    def _judged(self, prompt: str, record: Mapping[str, Any]) -> str:
        attempts = [one for side in ("chosen", "rejected", "contrary") for one in record[side]]
        [given] = (one for one in attempts if one["text"] == answer_in(prompt))
        if prompt.startswith("You rate an answer"):
            return json.dumps(given["quality"])
        if prompt.startswith("You check which of several things"):
            return json.dumps(given["coverage"])
        [aspect] = _CHECKED.findall(prompt)
        place = self._aspects[record["id"]].index(aspect)
        marks = opposite(given) if "taste, in one thing, is the opposite" in prompt else given["adherence"]
        return json.dumps({"match_score": marks[place]})


def opposite(given: Mapping[str, Any]) -> list[int]:
    """Return the points for the opposite taste: where none are written, 1 for what is neither given nor opposed."""
    return list(given.get("opposite") or [int(points == 0) for points in given["adherence"]])


def _written(prompt: str, record: Mapping[str, Any]) -> str:
    """Return the attempt after the one that the prompt says was refused."""
    [side] = (name for words, name in _SIDES.items() if words in prompt)
    texts = [one["text"] for one in record[side]]
    before = [place for place, text in enumerate(texts) if text in prompt]
    return str(texts[before[-1] + 1 if before else 0])
