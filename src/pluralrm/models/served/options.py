"""The keys of a served head's spec, one by one; a value that cannot be meant is a SpecError."""

from dataclasses import dataclass

from pluralrm.errors import SpecError, did_you_mean
from pluralrm.specs import Spec

UNCHECKED = "unchecked"
UNIT = "unit"
_BYTES = 16_000
"""What a server that cannot be asked is taken to read: about 4,000 tokens of English."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a spec asks of a server."""

    model: str = ""
    """The name it serves the model under; empty where it serves one alone."""
    revision: str = ""
    label: int | None = None
    most: int | None = None
    """The longest conversation, in tokens; in bytes where tokens cannot be counted."""
    bos: int | None = None
    """How many BOS a conversation has to begin with; None for one, where the tokenizer has any."""
    checked: bool = True
    """False where nobody can count the BOS, and the spec says so."""
    unit: bool = False
    """True where scores from 0 to 1 are what the head gives, and no sigmoid."""

    @property
    def facts(self) -> dict[str, str]:
        """What the identity keeps: what is read of the numbers, and the revision that the user names."""
        return {
            "revision": self.revision,
            "label": "only" if self.label is None else str(self.label),
            "range": UNIT if self.unit else "unbounded",
        }


def wanted(spec: Spec) -> Wanted:
    """Return what a spec asks for."""
    options = spec.options
    in_bytes = spec.kind == "remote"
    most = "max_bytes" if in_bytes else "max_tokens"
    return Wanted(
        model=options.get("model", ""),
        revision=options.get("revision", ""),
        label=spec.integer("label", 0) if "label" in options else None,
        most=spec.integer(most, _BYTES, least=1) if in_bytes or most in options else None,
        bos=_bos(spec),
        checked=options.get("bos") != UNCHECKED,
        unit=_unit(spec),
    )


def _bos(spec: Spec) -> int | None:
    found = spec.options.get("bos")
    known = ("0", "1", UNCHECKED)
    if found is not None and found not in known:
        raise SpecError(f"{spec.kind}: bos is {found!r}.{did_you_mean(found, known)}")
    return int(found) if found in ("0", "1") else None


def _unit(spec: Spec) -> bool:
    found = spec.options.get("range")
    if found not in (None, UNIT):
        raise SpecError(f"{spec.kind}: range is {found!r}; wanted range={UNIT} (the head itself gives 0 to 1), or none")
    return found == UNIT
