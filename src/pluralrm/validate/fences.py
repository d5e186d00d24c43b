r"""The code in a reply: which fenced block counts.

>>> code_of("First:\n```python\ndef f(x):\n    return x\n```\nSo:\n```python\nprint(f(2))\n```", "f")
'def f(x):\n    return x'
>>> code_of("It is four.").kind
'parse'
"""

import re
from typing import NamedTuple

from pluralrm.chat.completions import Markers, spoken, unreadable
from pluralrm.core import Failure

_FENCE = re.compile(r"^(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<fence>`{3,}|~{3,})[ \t]*+(?P<label>[^`\n]*)$")
_PYTHON = frozenset({"python", "py", "python3"})
_THINKING = Markers("<think>", "</think>")


class _Block(NamedTuple):
    label: str
    text: str


def code_of(reply: str, entry: str = "") -> str | Failure:
    """Return the code of a reply: the last Python block that defines the entry, or the last one where none does.

    Blocks with the label python, py or python3 count; where there is none, those without a label. A block that is not
    closed is no block: the reply was cut off.
    """
    said = without_thinking(reply)
    if isinstance(said, Failure):
        return said
    blocks, opened = _blocks(said)
    labelled = [block.text for block in blocks if block.label in _PYTHON]
    plain = [block.text for block in blocks if not block.label]
    codes = [text for text in labelled or plain if text.strip()]
    if not codes:
        return unreadable("No code found: a block is not closed" if opened else "No code found", reply)
    if not entry:
        return codes[-1]
    name = re.escape(entry)
    defined = re.compile(
        rf"^(?:(?:async\s+)?def\s+{name}\b|class\s+{name}\b|{name}\s*(?::[^=\n]+)?=[^=])", re.MULTILINE
    )
    return next((text for text in reversed(codes) if defined.search(text)), codes[-1])


def without_thinking(reply: str) -> str | Failure:
    """Return a reply without its reasoning blocks; one that does not end is a failure."""
    return spoken(reply, _THINKING)


def _blocks(text: str) -> tuple[list[_Block], bool]:
    """Return the blocks that are closed, and whether the last one is not."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        found = _FENCE.match(line)
        if opening is None:
            if found:
                opening, lines = found, []
        elif found and not found["label"].strip() and _closes(found["fence"], opening["fence"]):
            blocks.append(_Block(_label(opening["label"]), "\n".join(lines)))
            opening = None
        else:
            lines.append(_outdented(line, opening["indent"]))
    return blocks, opening is not None


def _closes(fence: str, opening: str) -> bool:
    return fence[0] == opening[0] and len(fence) >= len(opening)


def _label(text: str) -> str:
    """Return the language of a label such as `python title="x"` or `{.python}`."""
    word = re.match(r"[{.\s]*([\w+#-]*)", text)
    return word[1].lower() if word else ""


def _outdented(line: str, indent: str) -> str:
    """Return a line without the indent of its fence, as in a list."""
    return line.removeprefix(indent) if line.startswith(indent) else line.lstrip(" \t")
