"""What a kind of reward model asks of its network: a sequence, and the positions whose states are read."""

from collections.abc import Sequence
from typing import NamedTuple


class Ask(NamedTuple):
    """A whole sequence of token ids and the ascending positions whose last hidden states are needed."""

    ids: tuple[int, ...]
    wanted: tuple[int, ...]
    targets: tuple[int, ...] = ()
    """Per wanted position, the token whose log-prob is read there; none for a scalar head."""
    second: int = 0
    """Where the second text of a pair begins, for encoders that tell the two apart; 0 where there is one text."""

    @property
    def needed(self) -> tuple[int, ...]:
        """The tokens that have to be computed: nothing after the last wanted position can reach it."""
        return self.ids[: self.wanted[-1] + 1]


def rated(ids: Sequence[int], start: int, end: int) -> Ask:
    """Return the Ask for the log-probs of the tokens in [start, end); each is read in the state before it."""
    if not 0 < start < end <= len(ids):
        raise ValueError(f"no token to rate in [{start}, {end}) of {len(ids)}: the first has nothing before it")
    return Ask(tuple(ids), tuple(range(start - 1, end - 1)), tuple(ids[start:end]))


def pooled(ids: Sequence[int], pad: int | None) -> Ask:
    """Return the Ask for a head's score, at the position where transformers pools.

    That is the last token that is not `config.pad_token_id`, or the last one where the config names no pad token or
    nothing else is there.
    """
    place = next((place for place in range(len(ids) - 1, -1, -1) if ids[place] != pad), None)
    if place is None:
        place = len(ids) - 1 if pad is None else 0
    return Ask(tuple(ids), (place,))
