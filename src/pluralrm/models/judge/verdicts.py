r"""What a judge's reply says: exactly one verdict in the form that was asked for, or Failure("parse").

>>> pairwise("Both answer it; B says why.\n\n**Result: B**")
'B'
>>> pairwise("Both are fine.").kind
'parse'

pairwise    the last line is `Result: A`, `Result: B` or `Result: tie`, and no line before names another
pointwise   the text is a whole number from 1 to 10, or its last line is `Score:` with one
listwise    the last line orders all letters, as in `B>A>D>C`, and no other order is in the text
verifier    the text is YES or NO

That is `verdict=result`. Judges that were trained on another form declare it, and only that one is then read:

brackets    the last line is `[[A]]`, alone or behind "final verdict:" or the like; `[[C]]` is a tie
tag         the text ends with `<answer>A</answer>`, or `<answer>[[A]]</answer>`
json:KEY    the text ends with a JSON object that has the KEY once: `{"KEY": "A"}`, "Response 1", "Assistant A"

>>> pairwise('<answer>[[A]]</answer>', ReplyForm("tag"))
'A'
>>> pointwise('{"explanation": "Dry.", "score": 4}', ReplyForm("json", "score"))
4

Bold, headings, brackets, code fences and the case of a letter are form and do not count. Nothing is guessed: a verdict
in other words, in the middle of a sentence, in a quotation, before a further remark, or beside another one is none. A
server that sends no log-probs, or spells a score so that its share is unclear, gives Failure("unsupported"): a verdict
that needs log-probs never falls back on the text.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pluralrm.chat import ChatReply, TokenLogprob
from pluralrm.chat.completions import unreadable
from pluralrm.core import Failure

Choice = Literal["A", "B", "tie"]

FORMS = ("result", "brackets", "tag", "json")
KEY = "result"
"""The key of `json` where none is named."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The names of the answers, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """How a reply gives its verdict, as the spec declares it; nothing else is read as one."""

    name: str = "result"
    key: str = KEY

    def example(self, value: str) -> str:
        """Return a value as a reply has to give it; on its own where the form is `result`."""
        if self.name == "json":
            return json.dumps({self.key: value}, ensure_ascii=False)
        return {"brackets": f"[[{value}]]", "tag": f"<answer>{value}</answer>"}.get(self.name, value)

    def marks(self, text: str) -> bool:
        """Return whether a text holds what this form marks a verdict with."""
        mark = {"brackets": "[[", "tag": "<answer>", "json": f'"{self.key}"'}.get(self.name)
        return mark is not None and mark in text


RESULT = ReplyForm()


def without_copies(text: str, answers: Iterable[str], form: ReplyForm = RESULT) -> str:
    """Return the text without whole copies of answers that hold a verdict of their own: the judge only quotes it.

    An answer of one line is left: it cannot be told from a verdict.
    """
    for answer in map(str.strip, answers):
        if answer in text and len(lines := _lines(answer)) > 1 and (form.marks(answer) or any(map(_claim, lines))):
            text = text.replace(answer, "")
    return text


# ---------------------------------------------------------------- declared forms

_VERDICT = r"(?:verdict|choice|decision|answer|winner|preference|result|conclusion|rating|score|ranking|order)"
_IN_BRACKETS = re.compile(r"\[\[(?P<value>[^\[\]]*)\]\]")
_LAST = re.compile(
    rf"(?:(?P<label>[\w ,']{{0,60}}\b{_VERDICT})(?:\s+is)?\s*:?\s*)?\[\[(?P<value>[^\[\]]*)\]\]\.?", re.IGNORECASE
)
_DENIED = re.compile(r"\b(?:not|no|never|neither|nor|if|unless|would|could|might|cannot)\b|n't", re.IGNORECASE)
_TAG = re.compile(r"<answer>(?P<value>.*?)</answer>", re.DOTALL)
_MOST_OBJECTS = 1_000


def _declared(text: str, form: ReplyForm) -> str | Failure:
    """Return the one value that a reply gives in the form; none, or two that differ, is a failure."""
    if form.name == "json":
        value = _from_json(text, form.key)
    else:
        value = _from_brackets(text) if form.name == "brackets" else _from_tag(text)
    if value is None:
        return unreadable(f"the text does not end with {form.example('...')}, or gives it more than once", text)
    return value


def _from_brackets(text: str) -> str | None:
    lines = _lines(text)
    last = _LAST.fullmatch(lines[-1]) if lines else None
    if last is None or _DENIED.search(last["label"] or ""):
        return None
    values = {value.strip().casefold() for line in lines for value in _IN_BRACKETS.findall(line)}
    return str(last["value"]).strip() if len(values) == 1 else None


def _from_tag(text: str) -> str | None:
    bare = "\n".join(_lines(text))
    values = [match["value"].strip() for match in _TAG.finditer(bare)]
    whole = len(values) == bare.count("<answer>") == bare.count("</answer>") and bare.endswith("</answer>")
    if not whole or len({value.casefold() for value in values}) != 1:
        return None
    inside = _IN_BRACKETS.fullmatch(values[-1])
    return str(inside["value"]).strip() if inside else values[-1]


def _from_json(text: str, key: str) -> str | None:
    """Return the key's value from the object that ends the text; a text or a whole number."""
    bare = text.strip()
    if bare.endswith("```"):
        bare = bare.removesuffix("```").rstrip()
    if len(re.findall(rf'"{re.escape(key)}"\s*:', text)) != 1:
        return None
    starts = [match.start() for match in re.finditer(r"\{", bare)][:_MOST_OBJECTS]
    for start in starts:
        try:
            data = json.loads(bare[start:])
        except (ValueError, RecursionError):
            continue
        value = data.get(key)
        return str(value).strip() if isinstance(value, str) or type(value) is int else None
    return None


# ---------------------------------------------------------------- lines, freed of their form

# Full-width forms, as Chinese and Japanese keyboards give them, are the same characters.
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9*_`])[*_`]+|[*_`]+(?![A-Za-z0-9*_`])")
_BULLET = re.compile(r"\s*(?:#+|[-+•])\s+")
_RULE = re.compile(r"[-=*_#]+")


def _lines(text: str) -> list[str]:
    """Return the lines that say something, without emphasis, headings, bullets and invisible characters."""
    cleaned = (_clean(line) for line in text.splitlines())
    return [line for line in cleaned if line]


def _clean(line: str) -> str:
    if not line.isascii():
        line = "".join(letter for letter in line if unicodedata.category(letter) != "Cf").translate(_FULL_WIDTH)
    if any(mark in line for mark in "*_`"):  # looked for first: most lines have none, and the search is slow
        line = _EMPHASIS.sub("", line)
    bullet = _BULLET.match(line)
    bare = " ".join(line[bullet.end() if bullet else 0 :].split())
    return "" if _RULE.fullmatch(bare) else bare


# ---------------------------------------------------------------- pairwise

_SAYS = re.compile(
    r"(?:(?:my|the|final|overall)\s+)*(?P<word>result|verdict|winner|decision|choice|conclusion|preference|answer)"
    r"\s*(?:is\s*)?:(?P<value>.*)",
    re.IGNORECASE,
)
_LETTER = re.compile(r"(?:(?:answer|response)\s?[\"'(\[{]*)?(?P<letter>[AB])", re.IGNORECASE)
_TIE = re.compile(r"(?:(?:it is|it's) )?(?:a )?tie", re.IGNORECASE)
_WRAPPING = " \"'()[]{}\u201c\u201d\u2018\u2019"
_BRACKETED = re.compile(r"\[\[(?P<value>.*)\]\]|\\boxed\{(?P<boxed>.*)\}")
_NAMES = re.compile(
    r"\W*(?:(?:answer|response)\s+(?P<named>[ABab])\b|(?P<letter>[AB])(?=\W*$|[^\w\s]|\s+(?:is|wins|was|has|better)\b))"
)
_TIES = re.compile(r"\btie\b", re.IGNORECASE)


class _Claim(NamedTuple):
    """A line that gives a verdict, or sets out to; `choice` is None where it cannot be read."""

    result: bool
    choice: Choice | None


def pairwise(text: str, form: ReplyForm = RESULT) -> Choice | Failure:
    """Return which answer the last line names, or that it calls a tie."""
    if form.name != RESULT.name:
        return _declared_choice(text, form)
    lines = _lines(text)
    claims = [claim for claim in map(_claim, lines) if claim is not None]
    last = _claim(lines[-1]) if lines else None
    if last is None or not last.result:
        return unreadable('the last line is not "Result: A", "Result: B" or "Result: tie"', text)
    if last.choice is None or any(claim.choice != last.choice for claim in claims):
        return unreadable("the text gives more than one result, or one that is neither A, B nor tie", text)
    return last.choice


_CALLED = {"a": "A", "1": "A", "b": "B", "2": "B"}
_NAMED = re.compile(r"(?:answer|response|assistant|chatbot|model)\s(?P<which>[ab12])", re.IGNORECASE)


def _declared_choice(text: str, form: ReplyForm) -> Choice | Failure:
    """Return the choice that a declared form gives; a `Result:` line that says otherwise counts against it."""
    value = _declared(text, form)
    if isinstance(value, Failure):
        return value
    match = _NAMED.fullmatch(value)
    choice = _as_choice(_CALLED[match["which"].lower()]) if match else _choice(value)
    if choice is None and form.name == "brackets" and value in ("C", "c"):
        choice = "tie"
    # The value itself may stand on a line of its own, as in "Final verdict: [[A]]".
    claims = [claim for line in _lines(text) if not form.marks(line) and (claim := _claim(line)) is not None]
    if choice is None or any(claim.choice != choice for claim in claims):
        return unreadable("the text gives more than one result, or one that is neither A, B nor tie", text)
    return choice


def _claim(line: str) -> _Claim | None:
    """Return the verdict that a line gives, or None where it gives none.

    Only `Result:` is the form that was asked for. Other words for it count against a result that differs, not for one.
    """
    if (bracketed := _BRACKETED.fullmatch(line)) is not None:
        choice = _choice(bracketed["value"] or bracketed["boxed"] or "")
        return _Claim(result=False, choice=choice) if choice else None
    match = _SAYS.fullmatch(line)
    if match is None or not match["value"].strip():
        return None
    if match["word"].lower() == "result":
        return _Claim(result=True, choice=_choice(match["value"]))
    choice = _choice(match["value"]) or _named(match["value"])
    return _Claim(result=False, choice=choice) if choice else None


def _choice(value: str) -> Choice | None:
    """Return what a value says if it says nothing else."""
    bare = value.strip().removesuffix(".").strip(_WRAPPING).removesuffix(".")
    if _TIE.fullmatch(bare):
        return "tie"
    letter = _LETTER.fullmatch(bare)
    return None if letter is None else _as_choice(letter["letter"])


def _named(value: str) -> Choice | None:
    """Return the answer that a value begins with, or a tie that it speaks of; the article "A" is no letter."""
    if (match := _NAMES.match(value)) is not None:
        return _as_choice(match["named"] or match["letter"])
    return "tie" if _TIES.search(value) else None


def _as_choice(letter: str) -> Choice:
    return "A" if letter in "Aa" else "B"


# ---------------------------------------------------------------- pointwise

_NUMBER = r"(?P<number>10|[1-9])\s*(?:/\s*10)?\s*\.?"
_SCORE = re.compile(rf"(?:(?:the|final|overall)\s+)*(?:score|rating)\s*:\s*{_NUMBER}", re.IGNORECASE)
_SCORES = re.compile(r"(?:(?:the|final|overall)\s+)*(?:score|rating)\s*:.*\d.*", re.IGNORECASE)
_ALONE = re.compile(_NUMBER)


def pointwise(text: str, form: ReplyForm = RESULT) -> int | Failure:
    """Return the number from 1 to 10 that the text is, or that its last line gives as the score."""
    if form.name != RESULT.name:
        value = _declared(text, form)
        if isinstance(value, Failure):
            return value
        alone = _ALONE.fullmatch(value)
        return int(alone["number"]) if alone else unreadable(f"{value[:40]!r} is no whole number from 1 to 10", text)
    lines = _lines(text)
    if len(lines) == 1 and (alone := _ALONE.fullmatch(lines[0])) is not None:
        return int(alone["number"])
    scores = [_SCORE.fullmatch(line) for line in lines if _SCORES.fullmatch(line)]
    last = _SCORE.fullmatch(lines[-1]) if lines else None
    if last is None:
        return unreadable("the text is not one whole number from 1 to 10", text)
    if any(other is None or other["number"] != last["number"] for other in scores):
        return unreadable("the text gives more than one score, or one that is no whole number from 1 to 10", text)
    return int(last["number"])


# ---------------------------------------------------------------- listwise

_PREFIX = re.compile(r"(?:(?:my|the|final|overall)\s+)*(?:result|ranking|order)\s*:\s*", re.IGNORECASE)
_ORDER = re.compile(r"(?<![A-Za-z])[A-Za-z](?:\s*>\s*[A-Za-z])+(?![A-Za-z])")


def listwise(text: str, answers: int, form: ReplyForm = RESULT) -> tuple[int, ...] | Failure:
    """Return the places of the answers from best to worst."""
    if form.name != RESULT.name:
        value = _declared(text, form)
        order = value if isinstance(value, Failure) else _permutation(value, answers)
        return order if order is not None else unreadable(f"{value!r} does not order the {answers} letters", text)
    lines = _lines(text)
    ranking = _permutation(_PREFIX.sub("", lines[-1], count=1), answers) if lines else None
    if ranking is None:
        return unreadable(f"the last line does not order the {answers} letters, each once, as in X>Y>Z", text)
    orders = [_permutation(order, answers) for line in lines for order in _ORDER.findall(line)]
    if any(order != ranking for order in orders):
        return unreadable("the text gives more than one order", text)
    return ranking


def _permutation(value: str, answers: int) -> tuple[int, ...] | None:
    """Return the order that a value is, or None where it leaves out, repeats or adds a letter."""
    letters = value.strip(" .()[]\"'").upper().split(">")
    places = [_place(letter.strip(), answers) for letter in letters]
    return tuple(places) if sorted(places) == list(range(answers)) else None


def _place(letter: str, answers: int) -> int:
    return LETTERS[:answers].find(letter) if len(letter) == 1 else -1


# ---------------------------------------------------------------- verifier

_YES_NO = re.compile(r"[\"'(\[]*(?P<word>yes|no)[\"')\]]*[.!]?", re.IGNORECASE)


def verifier(text: str) -> bool | Failure:
    """Return whether the text is YES; anything but YES or NO alone is a failure."""
    lines: Sequence[str] = _lines(text)
    match = _YES_NO.fullmatch(lines[0]) if len(lines) == 1 else None
    return unreadable("the text is neither YES nor NO", text) if match is None else match["word"].lower() == "yes"


# ---------------------------------------------------------------- log-probs

_RATINGS = {str(number): number for number in range(1, 11)}
# The last number that is not what follows a slash: 7 in `Score: 7/10`.
_SAID = re.compile(r"(?<![\d/])(?<!/\s)(?:10|[1-9])(?!\d)")

_ENOUGH = 0.5
"""Less probability than this on the words that were asked for is no answer to the question."""
_SMALL = 0.01
"""A share of unreadable tokens that may be left out."""


def share_of_yes(reply: ChatReply) -> float | Failure:
    """Return P(YES) / (P(YES) + P(NO)) at the first token that says something."""
    tokens = _tokens(reply)
    if isinstance(tokens, Failure):
        return tokens
    first = next((token for token in tokens if token.token.strip()), None)
    chances = _chances(first) if first is not None else {}
    yes, no = (_sum(chances, word) for word in ("yes", "no"))
    if yes + no < _ENOUGH:
        return Failure("parse", f"YES and NO have {yes + no:.0%} of the probability; the reply is {reply.text[:200]!r}")
    return yes / (yes + no)


def expected_score(reply: ChatReply, number: int) -> float | Failure:
    """Return the mean of the scores under the log-probs at the place where the reply says `number`."""
    tokens = _tokens(reply)
    if isinstance(tokens, Failure):
        return tokens
    index = _token_of(reply.text, tokens, number)
    if index is None:
        return Failure("unsupported", f"the tokens of the reply do not spell its score: {reply.text[-200:]!r}")
    chances = _score_chances(tokens, index, number)
    if isinstance(chances, Failure):
        return chances
    total = math.fsum(chances.values())
    if total < _ENOUGH:
        return Failure("unsupported", f"the scores have {total:.0%} of the probability; wanted at least {_ENOUGH:.0%}")
    return math.fsum(score * chance for score, chance in chances.items()) / total


def _tokens(reply: ChatReply) -> tuple[TokenLogprob, ...] | Failure:
    if reply.logprobs is None or not any(token.top for token in reply.logprobs):
        return Failure("unsupported", "the server left out the log-probs (top_logprobs) that this verdict needs")
    return reply.logprobs


def _chances(token: TokenLogprob) -> Mapping[str, float]:
    """Return the probability of each token that the server names, the one that was drawn among them."""
    return {spelling: math.exp(logprob) for spelling, logprob in (*token.top, (token.token, token.logprob))}


def _sum(chances: Mapping[str, float], word: str) -> float:
    return math.fsum(chance for spelling, chance in chances.items() if spelling.strip().casefold() == word)


def _token_of(text: str, tokens: tuple[TokenLogprob, ...], number: int) -> int | None:
    """Return which token begins the number; None where the tokens spell another text, or join it with other words."""
    mentions = [match for match in _SAID.finditer(text) if int(match[0]) == number]
    begins = "".join(token.token for token in tokens).find(text)
    if not mentions or begins < 0:
        return None
    target, end = begins + mentions[-1].start(), 0
    for index, token in enumerate(tokens):
        start, end = end, end + len(token.token)
        if target < end:
            joined = token.token[: target - start].strip() or token.token.strip() not in _RATINGS
            return None if joined else index
    return None


def _score_chances(tokens: tuple[TokenLogprob, ...], index: int, number: int) -> Mapping[int, float] | Failure:
    """Return the probability of each score.

    Where 10 is spelt as 1 and 0, the share of "1" belongs to both: it is split where the reply went on from there, left
    out where it is small, and otherwise the verdict is unknown.
    """
    at = _chances(tokens[index])
    chances = {score: _sum(at, spelling) for spelling, score in _RATINGS.items()}
    if chances[10] or not chances[1]:
        return chances
    share, after = chances[1], tokens[index + 1 : index + 2]
    if tokens[index].token.strip() == "1" and after and after[0].top:
        chances[10] = share * min(1.0, _sum(_chances(after[0]), "0"))
        chances[1] = share - chances[10]
    elif share < _SMALL:
        chances[1] = 0.0
    else:
        detail = f'"1" has {share:.0%} of the probability and may begin 10, while the reply is {number}; use expect=no'
        return Failure("unsupported", f"this server spells 10 with two tokens: {detail}")
    return chances
