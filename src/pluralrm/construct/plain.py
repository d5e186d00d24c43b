r"""What a released text may not hold: characters that nobody sees, and more of it than anybody reads.

>>> unseen("Bake it \x1b[31mdark.")
'U+001B (a control character) at character 9'
>>> unseen("Bake it dark.\n\tTwice.")
''

Whoever judges an answer, a person or a model, may see such a character in one text of a pair and not in the other; then
it tells the label.
"""

import re
import unicodedata

# Spelled out and not by Unicode's categories, which change with Python's release. Tab and line feed are seen. The two
# joiners (U+200C, U+200D) are let through: Persian, Hindi and many pictures need them.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def faulty(text: str, most: int) -> str:
    """Return why a text may not be released, whatever it says; an empty text where nothing speaks against it."""
    if len(text) > most:
        return f"it has {len(text):,} characters, wanted at most {most:,}"
    found = unseen(text)
    return f"it has {found}, which nobody sees; wanted plain text" if found else ""


def unseen(text: str) -> str:
    """Return the first character that nobody sees, and where it stands; an empty text where there is none."""
    found = _UNSEEN.search(text)
    if found is None:
        return ""
    name = unicodedata.name(found[0], "a control character" if found[0] < "\xa0" else "no character")
    return f"U+{ord(found[0]):04X} ({name}) at character {found.start() + 1:,}"
