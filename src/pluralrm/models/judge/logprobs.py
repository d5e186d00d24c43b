"""What a judge's log-probs say: of YES against NO, and of the scores from 1 to 10.

A server that sends none, or spells a score so that its share cannot be told, gives Failure("unsupported"): a verdict
that needed log-probs never falls back on the text.
"""

import math
import re
from collections.abc import Mapping

from pluralrm.chat import ChatReply, TokenLogprob
from pluralrm.core import Failure

_SCORES = {str(number): number for number in range(1, 11)}
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
    place = _place(reply.text, tokens, number)
    if place is None:
        return Failure("unsupported", f"the tokens of the reply do not spell its score: {reply.text[-200:]!r}")
    chances = _score_chances(tokens, place, number)
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


def _place(text: str, tokens: tuple[TokenLogprob, ...], number: int) -> int | None:
    """Return which token begins the number; None where the tokens spell another text, or join it with other words."""
    said = [match for match in _SAID.finditer(text) if int(match[0]) == number]
    begins = "".join(token.token for token in tokens).find(text)
    if not said or begins < 0:
        return None
    wanted, end = begins + said[-1].start(), 0
    for place, token in enumerate(tokens):
        start, end = end, end + len(token.token)
        if wanted < end:
            joined = token.token[: wanted - start].strip() or token.token.strip() not in _SCORES
            return None if joined else place
    return None


def _score_chances(tokens: tuple[TokenLogprob, ...], place: int, number: int) -> Mapping[int, float] | Failure:
    """Return the probability of each score.

    Where 10 is spelt as 1 and 0, the share of "1" belongs to both: it is split where the reply went on from there, left
    out where it is small, and otherwise the verdict is unknown.
    """
    at = _chances(tokens[place])
    chances = {score: _sum(at, spelling) for spelling, score in _SCORES.items()}
    if chances[10] or not chances[1]:
        return chances
    one, after = chances[1], tokens[place + 1 : place + 2]
    if tokens[place].token.strip() == "1" and after and after[0].top:
        chances[10] = one * min(1.0, _sum(_chances(after[0]), "0"))
        chances[1] = one - chances[10]
    elif one < _SMALL:
        chances[1] = 0.0
    else:
        detail = f'"1" has {one:.0%} of the probability and may begin 10, while the reply is {number}; use expect=no'
        return Failure("unsupported", f"this server spells 10 with two tokens: {detail}")
    return chances
