r"""A file to fine-tune a planner by: posts and question in, the rubric's aspects out.

One line per item, in the conversational form of prompt and completion that SFT trainers read:

    {"id": "...", "prompt": [{"role": "user", "content": "..."}],
     "completion": [{"role": "assistant", "content": "- Cheap to try\n- No new tools"}]}

The prompt is the very text that `planner:MODEL` will be sent, and the completion is one that it will read back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pluralrm.chat import ScriptedChat
from pluralrm.conditions.aspects import aspects
from pluralrm.conditions.notes import open_notes
from pluralrm.core import Benchmark, Failure, Item
from pluralrm.errors import BenchmarkError, ConditionError

Turns = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class PlannerRow:
    """One line of the file."""

    id: str
    prompt: Turns
    completion: Turns


class Left(NamedTuple):
    """Items that make no line: why, by their ids."""

    without_posts: Sequence[str]
    without_aspects: Sequence[str]
    unreadable: Sequence[str]
    """Their aspects would not be read back: one that is said twice, or more than a plan may have."""


def planner_rows(benchmark: Benchmark, planner: str, *, cache: Path | None = None) -> tuple[list[PlannerRow], Left]:
    """Return a row for each item with posts and a rubric, and the items that are left out.

    `planner` is the condition that will be used, such as `planner:my-model,k=10`: it chooses and renders the posts.
    """
    without_posts = [item.id for item in benchmark.items if item.user is None or not item.user.posts]
    without_aspects = [item.id for item in benchmark.items if item.oracle is None or not item.oracle.aspects]
    wanted = [item for item in benchmark.items if item.id not in {*without_posts, *without_aspects}]
    if not wanted:
        raise BenchmarkError(f"{benchmark.card.name}: found no item with posts and rubric, wanted at least one")
    found, unreadable = [], []
    for item, prompt in zip(wanted, _prompts(benchmark, wanted, planner, cache), strict=True):
        completion = _completion(item)
        if isinstance(aspects(completion), Failure):
            unreadable.append(item.id)
        else:
            found.append(PlannerRow(item.id, [_turn("user", prompt)], [_turn("assistant", completion)]))
    return found, Left(without_posts, without_aspects, unreadable)


def _prompts(benchmark: Benchmark, items: Sequence[Item], planner: str, cache: Path | None) -> Iterator[str]:
    """Yield what the planner would be asked about each item; no request is sent."""
    notes = open_notes(planner, chat=ScriptedChat(lambda _: "- no request is sent"), cache=cache)
    if not notes.writer.task.question:
        raise ConditionError(f"{planner}: found a {notes.writer.task.noun}, wanted planner:MODEL")
    if reason := notes.unsupported(benchmark):
        raise ConditionError(reason)
    return (prepared.exchanges[0].sent for prepared in notes.prepared(benchmark, items))


def _completion(item: Item) -> str:
    titles = item.oracle.aspects if item.oracle else ()
    return "\n".join(f"- {' '.join(each.aspect.split())}" for each in titles)


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
