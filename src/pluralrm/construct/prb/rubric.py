"""What a user expects, and what their question asks for: given, or found by a planner and checked."""

from collections.abc import Iterator, Sequence
from functools import partial

from pluralrm.benchmarks.lamp_qa import AspectRow, PostRow
from pluralrm.chat.completions import reason_of
from pluralrm.conditions.aspects import aspects as read_list
from pluralrm.construct.pipeline.records import Record
from pluralrm.construct.pipeline.work import Ask, Decision, Kept, Refusal, Rejected, Work, ask, ask_all, until_accepted
from pluralrm.construct.prb.gates import QUOTED, quoted
from pluralrm.construct.prb.products import Parts, Question, Rubric, Shown
from pluralrm.construct.prb.reading import read_aspects
from pluralrm.core import Failure
from pluralrm.templates import Template

PLANNER = "planner"
MOST_PARTS = 6
_LIST = 'Reply with a JSON list of objects with "aspect", "evidence" and "reason", each a text, and nothing else.'
_LINES = 'Write one line for each part, each beginning with "- ", and nothing else.'


def lines(posts: Sequence[PostRow]) -> list[str]:
    """Return posts as models are shown them: each with its category, where it has one."""
    return [f"({post.category}) {post.text}" if post.category else post.text for post in posts]


def aspects(record: Record, *, template: Template, attempts: int) -> Work[Decision]:
    """Keep the aspects that came with the question; where none did, those that a planner shows to rest on the posts."""
    question = record[Question]
    if question.aspects:
        return Kept(Rubric(aspects=question.aspects, given=True))
    found = yield from until_accepted(partial(_plan, record, template), partial(_check, record), attempts)
    if isinstance(found, Rejected):
        return found
    planned, tries = found
    return Kept(Rubric(aspects=planned, given=False), tries)


def _plan(
    record: Record, template: Template, attempt: int, reasons: Sequence[Refusal]
) -> Work[tuple[AspectRow, ...] | Refusal]:
    question = record[Question]
    text = template.fill(
        posts=lines(record[Shown].posts),
        narrative=question.narrative,
        question=question.question,
        reasons=[reason.said for reason in reasons],
    )
    said = yield from ask(Ask(PLANNER, text, template, read_aspects, _LIST, tag=f"{attempt}" if attempt else ""))
    return Refusal("unreadable", reason_of(said)) if isinstance(said, Failure) else said


def _check(record: Record, planned: tuple[AspectRow, ...], _attempt: int) -> Work[Sequence[Refusal]]:
    yield from ask_all(())  # nobody is asked
    return list(_unfounded(planned, record[Shown].posts, record[Question].narrative))


def _unfounded(planned: tuple[AspectRow, ...], posts: Sequence[PostRow], narrative: str) -> Iterator[Refusal]:
    """Yield the aspects whose evidence nobody wrote."""
    for one in planned:
        if not (quoted(one.evidence, [narrative]) or _from_posts(one.evidence, posts)):
            said = (
                f"the evidence {one.evidence[:80]!r} of {one.aspect!r} is no passage of {QUOTED} words or more from "
                "above"
            )
            yield Refusal("evidence", said)


def _from_posts(evidence: str, posts: Sequence[PostRow]) -> bool:
    """Return whether evidence is a passage of a post, which may begin as the prompt shows that post: `[1] (cooking)`.

    Number and label are the prompt's: the words that count are the user's.
    """
    for number, (post, line) in enumerate(zip(posts, lines(posts), strict=True), 1):
        label = line.removesuffix(post.text)
        bare = evidence.strip().removeprefix(f"[{number}]").lstrip()
        if quoted(bare[len(label) :] if label and bare.startswith(label) else bare, [post.text]):
            return True
    return False


def parts(record: Record, *, template: Template) -> Work[Decision]:
    """Keep what the question asks for; without it nobody can say that two answers cover the same."""
    text = template.fill(question=record[Question].question)
    said = yield from ask(Ask(PLANNER, text, template, _read_parts, _LINES))
    if isinstance(said, Failure):
        return Rejected("unreadable", reason_of(said))
    return Kept(Parts(parts=said))


def _read_parts(text: str) -> tuple[str, ...] | Failure:
    found = read_list(text)
    if not isinstance(found, Failure) and len(found) > MOST_PARTS:
        return Failure("parse", f"the list has {len(found)} parts, wanted 1 to {MOST_PARTS}")
    return found
